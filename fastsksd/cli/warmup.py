"""``fastsksd warmup``: compile ahead what users' calls will need, and keep it on disk."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np

from .._typing import Array
from ..compute.cache import folder_of
from ..compute.linalg import dot
from ..compute.notice import compiled_count
from ..discrepancy import sksd_value_and_grad
from ..gof import gof_test
from ..learning import fit_ica, ica_problem
from ..models import GaussBernRBM, Gaussian
from ..refine import refine_slices
from ..scale.streaming import gof_stream
from ..slices import active_slices, random_slices


def _samples(n: int = 300) -> Array:
    return np.random.default_rng(0).standard_normal((n, 12))


def _score(x: Array) -> Array:
    return -x


def _test(n: int = 300, **options: Any) -> Any:
    return gof_test(_samples(n), _score, rng=0, **options)


def _default() -> None:
    _test(1000).summary()


def _many_samples() -> None:
    _test(5000).summary()


def _few_samples() -> None:
    gof_test(np.random.default_rng(0).standard_normal((50, 100)), _score, rng=0).summary()


def _one_set() -> None:
    for engine in ("direct", "fourier"):
        for kernel in ("rbf", "imq"):
            _test(n_slices=3, kernel=kernel, engine=engine)


def _slices() -> None:
    x = _samples()
    for estimator in ("ke", "ksd", "ge"):
        found = active_slices(x, _score, n_slices=3, estimator=estimator)
    for slices in (found, random_slices(12, 50, rng=0)):  # on one thread, and on all
        refine_slices(x, _score, slices, epochs=1, rng=0)


def _nulls() -> None:
    _test(n_slices=3, null="bootstrap")
    _test(n_slices=3, null="spectral")
    _test(null="spectral")
    _test(lag="auto")


def _streams() -> None:
    gof_stream([_samples(6000)], _score, rng=0)


def _baselines() -> None:
    model = Gaussian(np.zeros(12), 1.0)
    for method in ("ksd", "ksdagg", "psd", "fssd", "rfsd", "mmd"):
        gof_test(_samples(), model, method=method, rng=0)


def _training() -> None:
    for x in (_samples(20), _samples()):  # on one thread, and on all
        sksd_value_and_grad(x, -x, random_slices(12, 3, rng=0))
    GaussBernRBM.random(5, 4, rng=0).sample(20, rng=0)
    fit_ica(ica_problem(3, n_train=500, n_test=10, rng=0), steps=2, rng=0)


# The longest first.
TASKS: dict[str, Callable[[], None]] = {
    "default test": _default,
    "default test of many samples": _many_samples,
    "search and refinement of slices": _slices,
    "one set of slices": _one_set,
    "other nulls": _nulls,
    "few samples of many dimensions": _few_samples,
    "streams": _streams,
    "other tests": _baselines,
    "training": _training,
}


def run_task(name: str) -> tuple[int, float]:
    """Do one of the tasks; returns the number of functions compiled and the seconds it took."""
    start, before = time.perf_counter(), compiled_count()
    TASKS[name]()
    return compiled_count() - before, time.perf_counter() - start


def run_warmup(jobs: int) -> Iterator[str]:
    """Yield a line for each task that is done.

    Raises
    ------
    OSError
        If compiled code can't be kept anywhere.
    """
    folder = folder_of(dot)
    if folder is None:
        raise OSError(
            "Compiled code can't be kept: neither the package's folder, nor the user's cache "
            "folder, nor a folder of this user alone among temporary files can be written to. Set "
            "NUMBA_CACHE_DIR to a folder that can."
        )
    start = time.perf_counter()
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(run_task, name): name for name in TASKS}
        for one in as_completed(running):
            count, seconds = one.result()
            yield f"{running[one]}: {count} functions compiled, {seconds:.1f} s"
    yield f"ready after {time.perf_counter() - start:.0f} s; kept in {Path(folder).parent}"
