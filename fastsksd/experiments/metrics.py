"""What the coordinates of the test are worth: independent draws of posteriors of real data.

The posteriors are those of the study `mcmc`. Their parameters differ in unit and are correlated.

right         nearly independent draws
shrunk        the same, with 0.9 times their distances from the mean
tail missing  the same without the tenth that is farthest out along a random direction of the
              whitened space
Langevin      the ends of as many chains of Langevin without an accept step
mean field, Laplace
              normal draws of these approximations

Sets of all kinds are tested in several metrics, and by KSD in the units of the posterior.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._typing import Array
from ..gof import gof_test
from . import mcmc
from .approximations import Moments, langevin, laplace, mean_field
from .failures import applies, independent_draws
from .posteriors import POSTERIORS, SHIPPED, load
from .report import Block, Heading, Table, Text, rejections, show_rate
from .runner import Row, Settings, Task

FIGURES = False
TITLE = "Metrics of the test on posteriors of real data"
TESTS: dict[str, dict[str, Any]] = {
    "default": {},
    "raw": dict(precondition=None),
    "diagonal": dict(precondition="diagonal"),
    "full": dict(precondition="full"),
    "KSD": dict(method="ksd"),
}
KINDS = ("right", "shrunk", "tail missing", "Langevin", "mean field", "Laplace")
SHRUNK, MISSING = 0.9, 0.1
SCALES: dict[str, Settings] = {
    "smoke": dict(
        posteriors=["eight schools, centred", "discoveries, negative binomial"],
        blocks=1,
        sets=1,
        n=100,
        n_resamples=49,
    ),
    "quick": dict(posteriors=list(SHIPPED), blocks=1, sets=2, n=1000, n_resamples=299),
    "paper": dict(posteriors=list(POSTERIORS), blocks=3, sets=4, n=1000, n_resamples=299),
}


tasks = mcmc.tasks


def run_task(task: Task, settings: Settings, rng: np.random.Generator) -> list[Row]:
    name, n = task["posterior"], settings["n"]
    posterior = load(name)
    drawn, moments = independent_draws(name, settings["sets"], round(n / (1.0 - MISSING)), rng)
    rows = []
    for kind, x in _sets(name, n, drawn, moments, rng):
        scores = posterior.score(x)
        pvalues = {
            test: float(
                gof_test(x, scores, n_resamples=settings["n_resamples"], rng=rng, **options).pvalue
            )
            for test, options in TESTS.items()
        }
        rows.append(dict(task, kind=kind, d=posterior.d, p=pvalues))
    return rows


def _sets(
    name: str, n: int, drawn: list[Array], moments: Moments, rng: np.random.Generator
) -> Iterator[tuple[str, Array]]:
    """As many sets of n samples of every kind as there are of right draws."""
    posterior = load(name)
    for x in drawn:
        yield "right", x[:n]
        yield "shrunk", moments.mean + SHRUNK * (x[:n] - moments.mean)
        yield "tail missing", without_tail(x, moments, n, rng)
        yield "Langevin", langevin(posterior, moments, n, 1, rng)[:, 0]
    mean, deviation = mean_field(posterior, moments, rng)
    for _ in drawn:
        yield "mean field", mean + deviation * rng.standard_normal((n, posterior.d))
    if applies("Laplace", name):
        mode, root = laplace(posterior, moments)
        for _ in drawn:
            yield "Laplace", mode + rng.standard_normal((n, posterior.d)) @ root.T


def without_tail(x: Array, moments: Moments, n: int, rng: np.random.Generator) -> Array:
    """The n samples that are least far out along a random direction of the whitened space."""
    v = rng.standard_normal(x.shape[1])
    along = np.linalg.solve(np.linalg.cholesky(moments.cov), (x - moments.mean).T).T @ v
    return x[np.sort(np.argsort(along)[:n])]


def report(rows: list[Row], settings: Settings) -> list[Block]:
    table = []
    for kind in KINDS:
        some = [row for row in rows if row["kind"] == kind]
        if some:
            table.append([kind, len(some), *(_rate(some, name) for name in TESTS)])
    return [
        Text(
            f"{len(settings['posteriors'])} posteriors, {settings['n']} nearly independent draws, "
            f"{settings['n_resamples']} replicates, rejection rates at level 0.05. The rates of "
            "right draws are the level. Tests of a row see the same samples."
        ),
        Table(["samples", "tests", *TESTS], table),
        Heading("By posterior: rejected by the default, and by the same test in raw units"),
        _by_posterior(rows),
    ]


def _rate(rows: list[Row], test: str) -> str:
    return show_rate(*rejections(row["p"][test] for row in rows))


def _by_posterior(rows: list[Row]) -> Table:
    table = []
    for name, d in dict.fromkeys((row["posterior"], row["d"]) for row in rows):
        line: list[Any] = [name, d]
        for kind in KINDS:
            some = [row for row in rows if (row["posterior"], row["kind"]) == (name, kind)]
            counts = [rejections(row["p"][test] for row in some)[0] for test in ("default", "raw")]
            line.append(f"{counts[0]}, {counts[1]} of {len(some)}" if some else "")
        table.append(line)
    return Table(["posterior", "d", *KINDS], table)
