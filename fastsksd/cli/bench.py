"""``fastsksd bench``: speed against vectorised NumPy.

Both are measured in one run; compile time is reported apart.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numba
import numpy as np

from .._typing import Array
from .._version import __version__
from ..compute.medians import median_distances
from ..compute.threads import get_num_threads
from ..discrepancy import sksd
from ..engines import ENGINES, expected_cost, load
from ..experiments.runner import processor
from ..gof import gof_test
from ..kernels import IMQ, RBF
from ..learning import fit_ica, ica_problem
from ..models import GaussBernRBM
from ..refine import refine_slices
from ..slices import Slices, active_slices, random_slices
from .growth import growth_table
from .timing import peak_memory, seconds_of, show

# Samples, slices and replicates that engines are compared at, many of them near the sizes at which
# the faster engine changes.
_GRID = [
    *(
        (100, 1, 0),
        (100, 3, 1000),
        (300, 1, 1000),
        (300, 3, 1000),
        (500, 1, 1000),
        (500, 5, 1000),
        (500, 10, 1000),
    ),
    *(
        (1000, 3, 0),
        (1000, 100, 0),
        (1000, 10, 1000),
        (1000, 100, 1000),
        (2000, 30, 1000),
        (5000, 3, 1000),
        (5000, 100, 200),
    ),
]


def numpy_stein_matrix(y: Array, s: Array, a: Array, h: Array) -> Array:
    """Summed RBF Stein matrix of all slices in vectorised NumPy; the diagonal is zero."""
    total = np.zeros((y.shape[1], y.shape[1]))
    for y_q, s_q, a_q, h_q in zip(y, s, a, h, strict=True):
        t = (y_q[:, None] - y_q) / h_q
        k = np.exp(-0.5 * t * t)
        b = a_q / h_q
        total += k * (
            np.multiply.outer(s_q, s_q) - b * (s_q - s_q[:, None]) * t - b * b * (t * t - 1.0)
        )
    np.fill_diagonal(total, 0.0)
    return total


def numpy_imq_matrix(y: Array, s: Array, a: Array, h: Array) -> Array:
    """The same for the IMQ kernel."""
    total = np.zeros((y.shape[1], y.shape[1]))
    for y_q, s_q, a_q, h_q in zip(y, s, a, h, strict=True):
        t = (y_q[:, None] - y_q) / h_q
        k = 1.0 / np.sqrt(1.0 + t * t)
        b = a_q / h_q
        total += np.multiply.outer(s_q, s_q) * k + k**3 * (
            -b * (s_q - s_q[:, None]) * t - b * b * (3.0 * t * t * k * k - 1.0)
        )
    np.fill_diagonal(total, 0.0)
    return total


def numpy_medians(y: Array) -> Array:
    """Median pairwise distance of each row, over all pairs."""
    upper = np.triu_indices(y.shape[1], 1)
    return np.array([np.median(np.abs(row[:, None] - row)[upper]) for row in y])


def numpy_ke_slices(x: Array, scores: Array) -> Array:
    """The paper's KE estimate of g for r = identity.

    One gradient matrix and one eigen-decomposition for each r.
    """
    n, d = x.shape
    squares = np.sum((x[:, None] - x) ** 2, axis=-1)
    width2 = np.median(squares[np.triu_indices(n, 1)])
    k = np.exp(-squares / (2.0 * width2))
    g = np.empty((d, d))
    for q, r in enumerate(np.eye(d)):
        c = k * ((scores @ r - x @ r / width2)[:, None] + (x @ r / width2))
        gradients = (c.T @ x - c.sum(axis=0)[:, None] * x + k.sum(axis=0)[:, None] * r) / (
            n * width2
        )
        g[q] = np.linalg.eigh(gradients.T @ gradients / n)[1][:, -1]
    return g


def numpy_replicates(matrix: Array, n_resamples: int, rng: np.random.Generator) -> Array:
    """Bootstrap replicates from a stored matrix, by one product."""
    n = matrix.shape[0]
    weights = rng.multinomial(n, np.full(n, 1.0 / n), size=n_resamples) / n - 1.0 / n
    return np.einsum("bj,bj->b", weights @ matrix, weights)


def numpy_trial(
    training: Array, x: Array, n_resamples: int, rng: np.random.Generator
) -> tuple[float, Array, int]:
    """A whole test of a standard normal in NumPy: KE slices, statistic and bootstrap."""
    d = x.shape[1]
    g = numpy_ke_slices(training, -training)
    y = g @ x.T
    matrix = numpy_stein_matrix(y, -x.T, np.diagonal(g), numpy_medians(y))
    replicates = numpy_replicates(matrix, n_resamples, rng)
    return matrix.sum() / (x.shape[0] * (x.shape[0] - 1)), replicates, d


def benchmark_samples(rng: np.random.Generator) -> tuple[Array, Array]:
    """Samples to test, (800, 100), and to find slices on, (200, 100), of Laplace's distribution."""
    x, training = rng.laplace(size=(800, 100)), rng.laplace(size=(200, 100))
    return x / np.sqrt(2), training / np.sqrt(2)


Work: TypeAlias = Callable[[], Any]


class Row(NamedTuple):
    """What is timed: a name, our way, and NumPy's where there is one."""

    name: str
    ours: Work
    numpys: Work | None = None


def _works(rng: np.random.Generator) -> list[Row]:
    x, training = benchmark_samples(rng)
    slices = random_slices(x.shape[1], 100, rng=0)
    return [
        *_statistics(x, slices),
        *_searches(x, training),
        *_trainings(training, slices, rng),
        *_whole_tests(np.concatenate([training, x]), rng),
        _gibbs(),
    ]


def _statistics(x: Array, slices: Slices) -> list[Row]:
    y, s, a = slices.g @ x.T, -slices.r @ x.T, np.einsum("md,md->m", slices.r, slices.g)
    h = median_distances(y)
    return [
        Row(
            "Stein matrix and statistic, RBF, n = 800, 100 slices",
            lambda: sksd(x, -x, slices, kernel=RBF(h), engine="direct"),
            lambda: numpy_stein_matrix(y, s, a, h).sum(),
        ),
        Row(
            "Stein matrix and statistic, IMQ, n = 800, 100 slices",
            lambda: sksd(x, -x, slices, kernel=IMQ(h), engine="direct"),
            lambda: numpy_imq_matrix(y, s, a, h).sum(),
        ),
        Row(
            "median bandwidths, exact, n = 800, 100 slices",
            lambda: median_distances(y),
            lambda: numpy_medians(y),
        ),
    ]


def _searches(x: Array, training: Array) -> list[Row]:
    def trial() -> Any:
        return gof_test(
            x, lambda x: -x, train=training, basis="identity", debias=False, null="bootstrap", rng=0
        )

    return [
        Row(
            "KE slices, r = identity, d = 100, 200 samples (paper's estimate)",
            lambda: active_slices(training, -training, basis="identity", debias=False),
            lambda: numpy_ke_slices(training, -training),
        ),
        Row("the same, unbiased", lambda: active_slices(training, -training, basis="identity")),
        Row(
            "whole test: KE slices, n = 800, d = 100, 1000 bootstrap replicates",
            trial,
            lambda: numpy_trial(training, x, 1000, np.random.default_rng(0)),
        ),
    ]


def _trainings(training: Array, slices: Slices, rng: np.random.Generator) -> list[Row]:
    return [
        Row(
            "refinement of 100 slices, d = 100: 100 steps of 50 samples",
            _refinement(training, slices),
        ),
        Row(
            "ICA, D = 150: 100 steps of 100 samples (SKSD-g+GO), and two evaluations",
            _training(rng),
        ),
    ]


def _whole_tests(x: Array, rng: np.random.Generator) -> list[Row]:
    return [
        Row(
            "one set of slices, r = identity, n = 1000, d = 100, 1000 replicates",
            lambda: gof_test(x, lambda x: -x, basis="identity", rng=0),
        ),
        Row("default test, n = 1000, d = 100", lambda: gof_test(x, lambda x: -x, rng=0)),
        Row(
            "n = 20000, 3 slices, 1000 replicates, pair by pair",
            _large_test(rng, 20000, engine="direct"),
        ),
        Row("the same in linear time", _large_test(rng, 20000, engine="fourier")),
    ]


def _gibbs() -> Row:
    rbm = GaussBernRBM.random(50, 40, rng=0)
    return Row(
        "RBM: 1000 Gibbs chains of 2000 steps, d = 50, 40 hidden",
        lambda: rbm.sample(1000, rng=0),
        lambda: _numpy_gibbs(rbm, 1000, 2000),
    )


def run_bench(repeat: int = 7) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    rng = np.random.default_rng(0)
    works = _works(rng)
    yield f"fastsksd {__version__}, numba {numba.__version__}, numpy {np.__version__}, "
    yield f"Python {platform.python_version()}, {processor()}, {os.cpu_count()} cores, "
    yield f"{get_num_threads()} threads"
    yield ""
    yield "| work | first call | fastsksd | NumPy | ratio |"
    yield "|---|---|---|---|---|"
    for name, ours, theirs in works:
        first = seconds_of(ours)
        slow = first > 2.0 and seconds_of(ours) > 1.0
        own = np.median([seconds_of(ours) for _ in range(1 if slow else repeat)])
        reference = (
            None
            if theirs is None
            else np.median([seconds_of(theirs) for _ in range(1 if slow else max(2, repeat // 3))])
        )
        ratio = ("", "") if reference is None else (show(reference), f"{reference / own:.0f}x")
        yield f"| {name} | {show(first)} | {show(own)} | {ratio[0]} | {ratio[1]} |"
    yield ""
    yield "Linear time, 3 slices, against the direct engine, which is measured at n = 20000 and"
    yield "extrapolated by the square of n elsewhere:"
    yield ""
    yield from _scaling_table(rng)
    yield ""
    yield "The default test of normal samples, 1000 replicates. CPU seconds are those of all cores,"
    yield "memory is what it takes beyond the samples; the slope is that of the logarithm of the"
    yield "seconds against that of n, from the row above:"
    yield ""
    yield from growth_table()
    yield ""
    yield 'Time of the engine that `engine="auto"` takes, over that of the faster one:'
    yield ""
    yield from _engine_table(max(1, repeat // 2))
    yield ""
    yield "First calls load compiled code from the cache, or compile where there is none."
    peak = peak_memory()
    yield f"Peak memory {'not known' if peak is None else f'{peak / 2**20:.0f} MB'}."


def _scaling_table(rng: np.random.Generator) -> Iterator[str]:
    """Rows of a Markdown table: seconds for n samples.

    The slope is that of their logarithm, between the first and the last n.
    """
    slices = Slices(np.eye(3), np.eye(3))
    sizes = (10_000, 20_000, 100_000, 1_000_000)
    seconds = {}
    for n in sizes:
        x = rng.standard_normal((n, 3))
        rbf = RBF(median_distances(np.ascontiguousarray(x.T)))
        work = {
            "median bandwidths, exact": lambda x=x: median_distances(np.ascontiguousarray(x.T)),
            "statistic, RBF": lambda x=x, rbf=rbf: sksd(
                x, -x, slices, kernel=rbf, engine="fourier"
            ),
            "statistic, RBF, direct": lambda x=x, rbf=rbf: sksd(
                x, -x, slices, kernel=rbf, engine="direct"
            ),
            "test with 1000 replicates": lambda x=x: gof_test(
                x, -x, slices=slices, engine="fourier", rng=0
            ),
            "test with the limit distribution, RBF": lambda x=x: gof_test(
                x, -x, slices=slices, null="spectral", rng=0
            ),
            "test with the limit distribution, IMQ": lambda x=x: gof_test(
                x, -x, slices=slices, null="spectral", kernel="imq", rng=0
            ),
        }
        for name, job in work.items():
            if (name.endswith("direct") and n != 20_000) or (
                name.endswith("replicates") and n > 100_000
            ):
                continue
            job()
            seconds[name, n] = min(seconds_of(job) for _ in range(3))
    for n in sizes:
        seconds.setdefault(
            ("statistic, RBF, direct", n),
            seconds["statistic, RBF, direct", 20_000] * (n / 20_000) ** 2,
        )
    yield "| work | " + " | ".join(f"n = {n}" for n in sizes) + " | slope |"
    yield "|---" * (len(sizes) + 2) + "|"
    for name in work:
        shown = [seconds.get((name, n)) for n in sizes]
        known = [(n, time) for n, time in zip(sizes, shown, strict=True) if time is not None]
        slope = np.log(known[-1][1] / known[0][1]) / np.log(known[-1][0] / known[0][0])
        yield (
            f"| {name} | "
            + " | ".join("" if time is None else show(time) for time in shown)
            + f" | {slope:.2f} |"
        )


def _engine_table(repeat: int) -> Iterator[str]:
    """Rows of a Markdown table: what `engine="auto"` expects against what each engine takes."""
    rng = np.random.default_rng(1)
    yield "| kernel | n | slices | replicates | direct | fourier | auto takes | over the better |"
    yield "|---|---|---|---|---|---|---|---|"
    for code, kernel in ((0, "RBF"), (1, "IMQ")):
        for n, m, n_resamples in _GRID:
            y, s = rng.standard_normal((2, m, n))
            a, h = np.ones(m), np.full(m, 0.95)
            weights = rng.choice(np.array([-1, 1], dtype=np.int8), (max(1, n_resamples), n))
            seconds = {}
            for name in ENGINES:
                work = _engine_work(name, code, y, s, a, h, weights if n_resamples else None)
                work()
                seconds[name] = min(seconds_of(work) for _ in range(max(3, repeat)))
            costs = dict(
                zip(
                    ENGINES,
                    expected_cost(code, y, h, n_resamples=n_resamples, signs=True),
                    strict=True,
                )
            )
            taken = min(costs, key=lambda name: costs[name])
            ratio = seconds[taken] / min(seconds.values())
            shown = " | ".join(show(seconds[name]) for name in ENGINES)
            yield f"| {kernel} | {n} | {m} | {n_resamples} | {shown} | {taken} | {ratio:.2f} |"


def _engine_work(
    engine: str, code: int, y: Array, s: Array, a: Array, h: Array, weights: Array | None
) -> Callable[[], Any]:
    if weights is None:
        return lambda: load(engine, code, y, s, a, h).sums()
    return lambda: load(engine, code, y, s, a, h).sums_and_replicates(weights)


def _large_test(rng: np.random.Generator, n: int, **options: Any) -> Callable[[], Any]:
    x = rng.standard_normal((n, 3))
    slices = Slices(np.eye(3), np.eye(3))
    return lambda: gof_test(x, lambda x: -x, slices=slices, rng=0, **options)


def _refinement(x: Array, slices: Slices) -> Callable[[], Any]:
    return lambda: refine_slices(x, -x, slices, epochs=25, batch_size=50, rng=0)


def _training(rng: np.random.Generator) -> Callable[[], Any]:
    problem = ica_problem(150, n_train=1000, n_test=10, rng=rng)
    return lambda: fit_ica(problem, method="sksd-g+go", steps=100, evaluate_every=100, rng=0)


def _numpy_gibbs(rbm: GaussBernRBM, chains: int, steps: int) -> Array:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((chains, rbm.d))
    for _ in range(steps):
        h = np.where(
            rng.random((chains, rbm.d_hidden)) < 1.0 / (1.0 + np.exp(-(x @ rbm.B) - 2.0 * rbm.c)),
            1.0,
            -1.0,
        )
        x = 0.5 * h @ rbm.B.T + rbm.b + rng.standard_normal((chains, rbm.d))
    return x
