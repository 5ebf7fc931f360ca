"""``fastsksd info``: versions, threads, devices, and what `engine="auto"` chooses."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Iterator

import numba
import numpy as np

from .._version import __version__
from ..compute.threads import get_num_threads
from ..engines import WORTH_A_DEVICE, DirectEngine, cheapest_engine, cuda, expected_cost

_PACKAGES = ("numba", "llvmlite", "numpy", "scipy", "numba-cuda", "dask", "torch", "jax")
_SIZES = (
    (300, 3, 1000),
    (1000, 100, 1000),
    (20_000, 3, 1000),
    (20_000, 100, 1000),
    (100_000, 100, 1000),
    (1_000_000, 3, 0),
)


def info_lines() -> Iterator[str]:
    """Yield the lines."""
    yield f"fastsksd {__version__}, Python {platform.python_version()}, {platform.platform()}"
    yield ", ".join(f"{name} {_version(name)}" for name in _PACKAGES)
    threads = f"{get_num_threads()} Numba threads, threading layer {_threading_layer()}"
    yield f"{os.cpu_count()} cores, {threads}"
    yield _cuda()
    for index, name in enumerate(cuda.hardware()):
        yield f"  device {index}: {name}"
    yield ""
    yield 'What engine="auto" takes for standard normal samples and RBF, and the expected time:'
    yield ""
    yield "| samples | slices | replicates | engine | on the CPU |"
    yield "|---|---|---|---|---|"
    rng = np.random.default_rng(0)
    for n, m, count in _SIZES:
        row = rng.standard_normal((1, n))
        y, h = np.broadcast_to(row, (m, n)), np.full(m, 0.95)
        cost = min(expected_cost(0, y, h, n_resamples=count, signs=True))
        taken = cheapest_engine(0, y, h, n_resamples=count, signs=True)
        yield f"| {n} | {m} | {count} | {taken} | {1e-9 * cost:.2g} s |"
    if cuda.hardware():
        yield ""
        least = f"{1e-9 * WORTH_A_DEVICE:g} s"
        yield f'"auto" takes a GPU for work that is expected to take more than {least} on the CPU.'


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _threading_layer() -> str:
    # The layer in use is known after a first launch.
    one = np.ones(1)
    DirectEngine(0, np.arange(2.0)[None], np.arange(2.0)[None], one, one).sums()
    return numba.threading_layer()


def _cuda() -> str:
    if cuda.missing():
        return f"CUDA: {cuda.missing()}"
    from ..engines.cuda import device

    where = "simulated" if device.simulated else f"{len(cuda.hardware())} device(s)"
    return f"CUDA: {where}, Numba's target: {device.implementation}"
