"""``fastsksd bench --peers``: the same work in JAX, compiled by XLA, in one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .._typing import Array
from ..compute.medians import median_distances
from ..compute.threads import get_num_threads
from ..discrepancy import sksd_value_and_grad
from ..engines import choose_engine
from ..slices import random_slices
from .timing import seconds_of

_SIZES = ((800, 100, 1000), (300, 20, 1000), (2000, 20, 1000))  # samples, slices, replicates


def run_peers_bench(repeat: int = 7) -> Iterator[str]:
    """Yield the lines of a Markdown table.

    Compile time is left out on both sides, and both get their arrays in memory already.
    """
    try:
        import jax
    except ImportError:
        message = "bench --peers needs JAX; install it with: pip install 'fastsksd[jax]'"
        raise ImportError(message) from None
    yield f"Medians of {repeat}, {get_num_threads()} threads, JAX {jax.__version__} on the CPU."
    yield "Ours is in double precision throughout."
    yield ""
    yield "| work | fastsksd | JAX float64 | ratio | JAX float32 | ratio |"
    yield "|---|---|---|---|---|---|"
    before = jax.config.jax_enable_x64
    try:
        for name, ours, theirs in _works():
            times = {}
            for double in (True, False):
                jax.config.update("jax_enable_x64", double)
                call = theirs(jax, np.float64 if double else np.float32)
                # In turns, so that both see the same machine.
                times[double] = _medians([ours, lambda: jax.block_until_ready(call())], repeat)
            own = min(times[double][0] for double in times)
            cells = [f"{1e3 * own:.1f} ms"]
            for double in (True, False):
                mine, other = times[double]
                cells += [f"{1e3 * other:.1f} ms", f"{other / mine:.1f}x"]
            yield f"| {name} | {' | '.join(cells)} |"
    finally:
        jax.config.update("jax_enable_x64", before)


def _medians(calls: list[Callable[[], Any]], repeat: int) -> list[float]:
    seconds: list[list[float]] = [[] for _ in calls]
    for _ in range(repeat + 1):
        for call, own in zip(calls, seconds, strict=True):
            own.append(seconds_of(call))
    return [float(np.median(own[1:])) for own in seconds]  # the first run compiles


def _works() -> Iterator[tuple[str, Callable[[], Any], Callable[..., Callable[[], Any]]]]:
    """A name, our call, and a function that makes JAX's for a precision."""
    for n, m, count in _SIZES:
        rng = np.random.default_rng(0)
        x = rng.standard_normal((n, m))
        slices = random_slices(m, m, rng=0)
        y, s = slices.g @ x.T, -slices.r @ x.T
        a, h = np.einsum("md,md->m", slices.r, slices.g), median_distances(y)
        weights = rng.choice(np.array([-1, 1], dtype=np.int8), size=(count, n))
        engine = choose_engine("cpu")(0, y, s, a, h, n_resamples=count, signs=True)

        def theirs(jax: Any, kind: type, arrays: tuple[Array, ...] = (y, s, a, h, weights)) -> Any:
            compiled = jax.jit(lambda *args: _replicates(jax, *args))
            there = [jax.numpy.asarray(array, dtype=kind) for array in arrays]
            return lambda: compiled(*there)

        yield (
            f"statistic and {count} replicates, n = {n}, {m} slices",
            lambda engine=engine, weights=weights: engine.sums_and_replicates(weights),
            theirs,
        )
    n, m = 800, 100
    x = np.random.default_rng(0).standard_normal((n, m))
    slices = random_slices(m, m, rng=0)
    h = median_distances(slices.g @ x.T)

    def gradients(jax: Any, kind: type) -> Any:
        value = jax.jit(jax.value_and_grad(lambda *args: _value(jax, *args), argnums=(1, 2, 3)))
        arrays = (x, -x, slices.g, slices.r, h)
        there = [jax.numpy.asarray(array, dtype=kind) for array in arrays]
        return lambda: value(*there)

    yield (
        f"value and gradients, n = {n}, {m} slices",
        lambda: sksd_value_and_grad(x, -x, slices),
        gradients,
    )


def _terms(jax: Any, y: Any, s: Any, a: Any, h: Any) -> Any:
    """RBF Stein terms of all pairs along one slice."""
    t = (y[:, None] - y) / h
    b = a / h
    cross = s[:, None] * s - b * (s - s[:, None]) * t - b * b * (t * t - 1.0)
    return jax.numpy.exp(-0.5 * t * t) * cross


def _replicates(jax: Any, y: Any, s: Any, a: Any, h: Any, weights: Any) -> Any:
    """The summed statistic of all slices, one slice after another, and its replicates."""

    def add(total: Any, one: Any) -> tuple[Any, None]:
        return total + _terms(jax, *one), None

    n = y.shape[1]
    matrix, _ = jax.lax.scan(add, jax.numpy.zeros((n, n), y.dtype), (y, s, a, h))
    matrix = matrix * (1.0 - jax.numpy.eye(n, dtype=y.dtype))
    return matrix.sum(), ((weights @ matrix) * weights).sum(axis=1)


def _value(jax: Any, x: Any, scores: Any, g: Any, r: Any, h: Any) -> Any:
    """V-statistic summed over slices; memory of one slice at a time."""
    arrays = (g @ x.T, r @ scores.T, (r * g).sum(axis=1), h)

    @jax.checkpoint
    def one(total: Any, arrays: Any) -> tuple[Any, None]:
        return total + _terms(jax, *arrays).mean(), None

    return jax.lax.scan(one, jax.numpy.zeros((), x.dtype), arrays)[0]
