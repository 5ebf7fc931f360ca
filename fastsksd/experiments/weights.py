"""Importance weights: level of the test with them, and what it says without them.

The samples are those of a proposal, and the weights lead to the standard normal distribution. A
cell is a proposal with n and d:

wide    ``N(0, s^2 I)`` with ``s = 1 + 0.9 / sqrt(d)``, wider than the target
shift   ``N(m, I)`` with m of length 0.95
narrow  ``N(0, s^2 I)`` with ``s = 1 - 0.3 / sqrt(d)``: weights without a finite variance for d = 1
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._typing import Array
from ..gof import gof_test
from .report import Block, Heading, Table, Text, cells_of, rate_cells, rejections
from .runner import Row, Settings, Task

FIGURES = False
TITLE = "Importance weights"
_CELLS = [(kind, d, 500) for kind in ("wide", "shift", "narrow") for d in (2, 10, 20)]
SCALES: dict[str, Settings] = {
    "smoke": dict(cells=[("wide", 2, 100), ("shift", 3, 100)], tests=8, block=4, n_resamples=99),
    "quick": dict(cells=_CELLS, tests=100, block=20, n_resamples=199),
    "paper": dict(cells=_CELLS, tests=400, block=20, n_resamples=199),
}
# Models that the weighted samples are tested against; of the wrong ones a tenth of the tests.
_MODELS: dict[str, Callable[[Array], Array]] = {
    "right": np.negative,
    "shifted": lambda x: 0.3 - x,
    "narrower": lambda x: -1.4 * x,
}


def tasks(settings: Settings) -> list[Task]:
    return [
        dict(kind=kind, d=d, n=n, block=block)
        for block in range(settings["tests"] // settings["block"])
        for kind, d, n in settings["cells"]
    ]


def run_task(task: Task, settings: Settings, rng: np.random.Generator) -> list[Row]:
    rows = []
    for count in range(settings["block"]):
        x, weights = weighted_samples(task["kind"], task["d"], task["n"], rng)
        cases: list[tuple[str, Any]] = [("right", weights)]
        if count % 10 == 0:
            cases += [("right", None), ("shifted", weights), ("narrower", weights)]
        for name, some in cases:
            result = gof_test(
                x,
                _MODELS[name],
                weights=some,
                n_resamples=settings["n_resamples"],
                rng=int(rng.integers(2**31)),
            )
            p = None if result.draws_needed else result.pvalue
            row = {"model": name, "weighted": some is not None, "p": p}
            rows.append({**task, **row, "effective": result.effective_draws})
    return rows


def weighted_samples(kind: str, d: int, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Samples of a proposal, and weights for the standard normal distribution."""
    x = rng.standard_normal((n, d))
    if kind == "shift":
        shift = 0.95 / np.sqrt(d)
        x += shift
        logs = -shift * x.sum(axis=1)
    else:
        scale = 1.0 + (0.9 if kind == "wide" else -0.3) / np.sqrt(d)
        x *= scale
        logs = -0.5 * (1.0 - 1.0 / scale**2) * (x**2).sum(axis=1)
    return x, np.exp(logs - logs.max())


def report(rows: list[Row], settings: Settings) -> list[Block]:
    table = []
    for key, some in cells_of(rows, "kind", "d", "n").items():
        sizes = [row["effective"] for row in some if row["weighted"]]
        level, bounds = _rate(some, "right", True)
        others = [
            _rate(some, *case)[0]
            for case in (("right", False), ("shifted", True), ("narrower", True))
        ]
        short = sum(row["p"] is None for row in some)
        table.append([*key, f"{np.median(sizes):.0f}", short, level, bounds, *others])
    header = ["proposal", "d", "n", "effective", "too few", "level 0.05", "95% interval"]
    header += ["without weights", "model shifted by 0.3", "model narrower by 1.18"]
    return [
        Text(
            "Samples of a proposal with importance weights, default options, "
            f"{settings['n_resamples']} replicates. Right models without their weights, and wrong "
            "ones with them, have a tenth of the tests."
        ),
        Heading("Rejection rates"),
        Table(header, table),
    ]


def _rate(rows: list[Row], model: str, weighted: bool) -> tuple[str, str]:
    """Rejection rate at level 0.05 and its interval, of the tests with a verdict."""
    p = [r["p"] for r in rows if (r["model"], r["weighted"]) == (model, weighted)]
    return rate_cells(*rejections(p))
