"""``fastsksd bench --engine cuda``: kernels on the GPU, and whole tests against the CPU.

Kernels are compared with the predictions of `fastsksd.engines.cuda.report`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ..engines import cuda, load
from ..gof import gof_test
from ..slices import random_slices
from .timing import seconds_of

SIZES = {"n": 20_000, "m": 16, "n_resamples": 1000, "n_test": 10_000, "d": 50}


def run_device_bench(repeat: int = 7, sizes: Mapping[str, int] | None = None) -> Iterator[str]:
    """Yield the lines of Markdown tables; `CudaUnavailable` without a device."""
    cuda.require()
    from ..engines.cuda import device, report

    sizes = {**SIZES, **(sizes or {})}
    for index in range(device.count()):
        device.use(index)
        known = device.attributes(index)
        capability = ".".join(map(str, known["capability"]))
        yield (
            f"{known['name']}, compute capability {capability}, "
            f"Numba's CUDA target: {device.implementation}"
        )
        gpu = report.this_gpu(index)
        predicted = {} if gpu is None else report.predictions(gpu)
        yield ""
        yield "| work | first call | measured | units per second | predicted at most | fraction |"
        yield "|---|---|---|---|---|---|"
        for title, units, job in _kernels(sizes):
            first = seconds_of(job)
            seconds = min(seconds_of(job) for _ in range(repeat))
            rate = units / seconds
            limit = predicted.get(title)
            against = " |" if limit is None else f"{limit:.2e} | {rate / limit:.0%}"
            yield f"| {title} | {first:.2f} s | {1e3 * seconds:.1f} ms | {rate:.2e} | {against} |"
        yield ""
        yield "Whole tests, against the CPU:"
        yield ""
        yield "| test | CPU | GPU | ratio |"
        yield "|---|---|---|---|"
        for title, test in _tests(sizes):
            test("cuda")
            gpu_time = min(seconds_of(test, "cuda") for _ in range(repeat))
            cpu_time = seconds_of(test, "cpu")
            ratio = f"{cpu_time / gpu_time:.1f}x"
            yield f"| {title} | {cpu_time:.2f} s | {gpu_time:.2f} s | {ratio} |"
        yield ""
    yield (
        "First calls compile the kernels. Predictions are the most that a GPU's rates allow, see "
        "notebooks/on_a_gpu.md."
    )


def _kernels(sizes: Mapping[str, int]) -> Iterator[tuple[str, float, Callable[[], Any]]]:
    """Title as of `report.works`, units of work, and the work."""
    from ..engines.cuda.gradients import slice_gradients

    n, m, count = sizes["n"], sizes["m"], sizes["n_resamples"]
    rng = np.random.default_rng(0)
    y, s = rng.standard_normal((2, m, n))
    a, h = np.ones(m), np.ones(m)
    weights = rng.choice([-1.0, 1.0], (count, n))
    pairs = 0.5 * n * (n - 1.0)
    for name, real in (("cuda direct", np.float64), ("cuda32", np.float32)):
        for code, kernel in enumerate(("RBF", "IMQ")):
            engine = load(name, code, y, s, a, h)
            yield f"Stein term of a pair, {kernel}, {np.dtype(real)}", m * pairs, engine.sums
        one = load(name, 0, y[:1], s[:1], a[:1], h[:1])
        yield (
            f"product of a pair and a replicate, {np.dtype(real)}",
            pairs * count,
            lambda one=one: one.sums_and_replicates(weights),
        )
        for code, kernel in enumerate(("RBF", "IMQ")):
            yield (
                f"gradient of an ordered pair, {kernel}, {np.dtype(real)}",
                m * n * (n - 1.0),
                lambda code=code, real=real: slice_gradients(code, y, s, a, h, "u", real=real),
            )


def _tests(sizes: Mapping[str, int]) -> Iterator[tuple[str, Callable[[str], Any]]]:
    x = np.random.default_rng(1).standard_normal((sizes["n_test"], sizes["d"]))
    slices, count = random_slices(sizes["d"], sizes["d"], rng=0), sizes["n_resamples"]
    yield (
        f"{sizes['d']} given slices, n = {sizes['n_test']}, {count} replicates",
        lambda engine: gof_test(
            x, np.negative, slices=slices, n_resamples=count, engine=engine, rng=0
        ),
    )
    yield (
        f"active slices from a fifth of n = {sizes['n_test']}, d = {sizes['d']}, {count} "
        "replicates",
        lambda engine: gof_test(
            x, np.negative, n_slices=min(10, sizes["d"]), n_resamples=count, engine=engine, rng=0
        ),
    )
