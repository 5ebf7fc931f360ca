"""Level on Markov chains that follow the model: AR(1), random walk, Langevin, Hamiltonian, NUTS.

A cell is a kind of chain with a parameter, a number of chains and of draws of each, and d:

AR(1)     coordinates with this autocorrelation, for the standard normal distribution
speeds    coordinates with autocorrelations from 0 to the parameter
walk      random-walk Metropolis with this step, for a logistic regression with group effects
Langevin  every fourth draw of MALA with this step, for the same model
HMC       Hamiltonian Monte Carlo with this step and 4 to 8 of them, for the same model
NUTS      the no-U-turn sampler with this acceptance target, for the same model
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .._typing import Array
from ..gof import gof_test
from .nuts import sample
from .report import Block, Heading, Table, Text, cells_of, rate_cells, rejections
from .runner import Row, Settings, Task

FIGURES = False
TITLE = "Level on Markov chains"
# Kind, parameter, chains, draws, d; those of a list take turns.
_FAST: list[list[Any]] = [
    ["AR(1)", -0.5, 1, 500, 2],
    ["AR(1)", 0.5, 1, 500, 2],
    ["AR(1)", 0.0, 1, 500, 5],
    ["AR(1)", 0.5, 1, 1000, 20],
    ["AR(1)", -0.5, 1, 1000, 20],
]
_MEDIUM: list[list[Any]] = [
    ["AR(1)", 0.9, 4, 500, 2],
    ["HMC", 0.25, 4, 500, 10],
    ["speeds", 0.9, 4, 500, 10],
    ["AR(1)", 0.5, 1, 500, 100],
]
_SLOW: list[list[Any]] = [
    ["AR(1)", 0.97, 16, 500, 2],
    ["Langevin", 0.35, 4, 1000, 10],
    ["AR(1)", 0.9, 4, 1000, 20],
    ["AR(1)", 0.9, 1, 5000, 2],
    ["AR(1)", 0.5, 4, 500, 100],
    ["AR(1)", 0.97, 4, 5000, 2],
    ["NUTS", 0.8, 4, 500, 10],
    ["AR(1)", 0.9, 4, 500, 100],
    ["AR(1)", 0.9, 16, 500, 20],
    ["AR(1)", 0.97, 4, 1500, 100],
    ["AR(1)", 0.97, 16, 500, 20],
]
_LARGEST: list[list[Any]] = [["AR(1)", 0.9, 16, 500, 100]]
_FURTHER: list[list[Any]] = [
    ["NUTS", 0.8, 1, 1000, 10],
    ["walk", 0.5, 4, 2000, 5],
    ["AR(1)", -0.5, 4, 500, 100],
    ["AR(1)", -0.5, 16, 500, 20],
    ["AR(1)", 0.5, 16, 500, 20],
    ["AR(1)", 0.97, 1, 5000, 20],
    ["AR(1)", 0.9, 4, 5000, 20],
    ["AR(1)", 0.97, 16, 500, 100],
]
SCALES: dict[str, Settings] = {
    "smoke": dict(
        cells=[
            [
                ["AR(1)", 0.5, 2, 150, 2],
                ["HMC", 0.25, 2, 150, 3],
                ["NUTS", 0.8, 2, 150, 3],
                ["Langevin", 0.35, 2, 80, 3],
                ["walk", 0.5, 2, 400, 3],
            ]
        ],
        tests=8,
        block=4,
        n_resamples=99,
    ),
    "quick": dict(cells=[_FAST, _MEDIUM], tests=100, block=20, n_resamples=199),
    "paper": dict(
        cells=[_FAST, _MEDIUM, _SLOW, _LARGEST, _FURTHER], tests=400, block=20, n_resamples=299
    ),
}
_WARM_UP = 200


def tasks(settings: Settings) -> list[Task]:
    return [
        dict(kind=kind, parameter=parameter, chains=chains, draws=draws, d=d, block=block)
        for cells in settings["cells"]
        for block in range(settings["tests"] // settings["block"])
        for kind, parameter, chains, draws, d in cells
    ]


def run_task(task: Task, settings: Settings, rng: np.random.Generator) -> list[Row]:
    rows = []
    for x, score in _tested(task, settings["block"], rng):
        result = gof_test(x, score, n_resamples=settings["n_resamples"], rng=rng)
        p = None if result.draws_needed else result.pvalue
        rows.append({**task, "p": p, "lag": result.lag, "seconds": result.timings["total"]})
    return rows


def _tested(
    task: Task, count: int, rng: np.random.Generator
) -> Iterator[tuple[Array, Callable[[Array], Array]]]:
    """The chains of so many tests, and the score of their model."""
    cell = task["parameter"], task["chains"], task["draws"], task["d"]
    if task["kind"] == "NUTS":
        model = GroupEffects(task["d"])
        for x in no_u_turn(model, count, *cell[:3], rng):
            yield x, model.score
        return
    for _ in range(count):
        yield make_chains(task["kind"], *cell, rng)


def make_chains(
    kind: str, parameter: float, chains: int, draws: int, d: int, rng: np.random.Generator
) -> tuple[Array, Callable[[Array], Array]]:
    """Chains of a kind, (chains, draws, d), and the score of the model that they follow."""
    if kind in ("AR(1)", "speeds"):
        coefficients = np.full(d, parameter)
        if kind == "speeds":
            coefficients = np.linspace(0.0, parameter, d)
        return autoregressive(coefficients, chains, draws, rng), np.negative
    model = GroupEffects(d)
    sampler = {"walk": random_walk, "Langevin": langevin, "HMC": hamiltonian}[kind]
    return sampler(model, parameter, chains, draws, rng), model.score


def autoregressive(coefficients: Array, chains: int, draws: int, rng: np.random.Generator) -> Array:
    """Stationary AR(1) chains whose coordinates are standard normal."""
    x = rng.standard_normal((chains, draws, coefficients.size))
    innovation = np.sqrt(1.0 - coefficients**2)
    for t in range(1, draws):
        x[:, t] = coefficients * x[:, t - 1] + innovation * x[:, t]
    return x


class GroupEffects:
    """Logistic regression with an effect for each of d - 1 groups, and their common mean.

    The deviation of the effects is known, so there is no funnel.
    """

    trials, deviation = 12.0, 0.7

    def __init__(self, d: int):
        self.d = d
        self.successes = np.random.default_rng(3).binomial(12, 0.6, d - 1).astype(float)

    def log_density(self, x: Array) -> Array:
        """Up to a constant, (n,)."""
        eta = x[:, :1] + self.deviation * x[:, 1:]
        terms = self.successes * eta - self.trials * np.logaddexp(0.0, eta)
        return terms.sum(axis=1) - 0.5 * np.einsum("nd,nd->n", x, x)

    def score(self, x: Array) -> Array:
        """Gradient of the log-density, (n, d)."""
        eta = x[:, :1] + self.deviation * x[:, 1:]
        slope = self.successes - self.trials / (1.0 + np.exp(-eta))
        parts = [slope.sum(axis=1, keepdims=True), self.deviation * slope]
        return np.concatenate(parts, axis=1) - x


def random_walk(
    model: GroupEffects, step: float, chains: int, draws: int, rng: np.random.Generator
) -> Array:
    """Random-walk Metropolis."""
    x = 0.1 * rng.standard_normal((chains, model.d))
    value = model.log_density(x)
    found = np.empty((chains, draws, model.d))
    for t in range(-5 * _WARM_UP, draws):
        y = x + step * rng.standard_normal(x.shape)
        new_value = model.log_density(y)
        taken = np.log(rng.random(chains)) < new_value - value
        x, value = np.where(taken[:, None], y, x), np.where(taken, new_value, value)
        if t >= 0:
            found[:, t] = x
    return found


def langevin(
    model: GroupEffects, step: float, chains: int, draws: int, rng: np.random.Generator
) -> Array:
    """Every fourth draw of the Metropolis-adjusted Langevin algorithm."""
    x = 0.1 * rng.standard_normal((chains, model.d))
    value, score = model.log_density(x), model.score(x)
    found = np.empty((chains, draws, model.d))
    for t in range(-_WARM_UP, draws):
        for _ in range(4):
            there = x + 0.5 * step**2 * score
            y = there + step * rng.standard_normal(x.shape)
            new_value, new_score = model.log_density(y), model.score(y)
            back = y + 0.5 * step**2 * new_score
            log_ratio = ((y - there) ** 2 - (x - back) ** 2).sum(axis=1) / (2.0 * step**2)
            taken = np.log(rng.random(chains)) < new_value - value + log_ratio
            x, score = np.where(taken[:, None], (y, new_score), (x, score))
            value = np.where(taken, new_value, value)
        if t >= 0:
            found[:, t] = x
    return found


def hamiltonian(
    model: GroupEffects, step: float, chains: int, draws: int, rng: np.random.Generator
) -> Array:
    """Hamiltonian Monte Carlo with 4 to 8 leapfrog steps."""
    x = 0.1 * rng.standard_normal((chains, model.d))
    value = model.log_density(x)
    found = np.empty((chains, draws, model.d))
    for t in range(-_WARM_UP, draws):
        momentum = rng.standard_normal(x.shape)
        energy = value - 0.5 * (momentum**2).sum(axis=1)
        y, count = x, int(rng.integers(4, 9))
        momentum = momentum + 0.5 * step * model.score(y)
        for k in range(count):
            y = y + step * momentum
            momentum = momentum + (step if k < count - 1 else 0.5 * step) * model.score(y)
        new_value = model.log_density(y)
        change = new_value - 0.5 * (momentum**2).sum(axis=1) - energy
        taken = np.log(rng.random(chains)) < change
        x, value = np.where(taken[:, None], y, x), np.where(taken, new_value, value)
        if t >= 0:
            found[:, t] = x
    return found


def no_u_turn(
    model: GroupEffects,
    count: int,
    target: float,
    chains: int,
    draws: int,
    rng: np.random.Generator,
) -> Array:
    """So many runs of NUTS, sampled at once, (count, chains, draws, d)."""
    start = 0.1 * rng.standard_normal((count * chains, model.d))
    run = sample(
        lambda x, _: (model.log_density(x), model.score(x)),
        start,
        rng,
        draws=draws,
        warm_up=_WARM_UP,
        target=target,
    )
    return run.draws.reshape(count, chains, draws, model.d)


def report(rows: list[Row], settings: Settings) -> list[Block]:
    cells = cells_of(rows, "kind", "parameter", "chains", "draws", "d")
    table = []
    for key, some in cells.items():
        rejected, known = rejections(row["p"] for row in some)
        lag = f"{np.median([row['lag'] for row in some]):.3g}"
        rate = rate_cells(rejected, known)
        table.append([*key, len(some), len(some) - known, lag, *rate])
    rejected, known = rejections(row["p"] for row in rows)
    pooled = rejected / known if known else np.nan
    return [
        Text(
            "The chains follow the model. "
            f"{settings['n_resamples']} replicates, default options. Rejection rate over all "
            f"{known} tests with a verdict at level 0.05: {pooled:.4f}. Of the others the "
            "test says that the chains are too short to tell."
        ),
        Heading("Rejection rates"),
        Table(
            [
                "chain",
                "parameter",
                "chains",
                "draws",
                "d",
                "tests",
                "too short",
                "median lag",
                "level 0.05",
                "95% interval",
            ],
            table,
        ),
    ]
