"""Level and power of the default test of many samples, by the number of groups.

Replicates are made of groups of samples. A cell is a kind of samples and d. Independent samples of
a model are tested several times, with different numbers of groups. ``AR(1) c`` is one chain of the
standard normal distribution with autocorrelation c. Its groups are its stretches, whose number
follows from the autocorrelation. For the power, samples are a little off the standard normal
distribution that they are tested against.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import engines
from .._typing import Array
from ..procedure.chains import one_chain
from ..procedure.combine import decide
from ..procedure.evaluation import Outcome
from ..procedure.grouped import members_of_groups
from ..procedure.plan import Options, make_plan
from ..procedure.search import search
from ..procedure.split import make_split
from .chains import autoregressive
from .problems import make_null
from .report import Block, Heading, Table, Text, level_bounds, rejections, show_rate
from .runner import Row, Settings, Task

FIGURES = False
TITLE = "Level and power by the number of groups"
# Kind, d, and the largest numbers of groups; the sizes of groups are powers of 2.
_GROUPS = [4000, 2000, 1000, 500]
_CELLS: list[list[Any]] = [
    ["normal", 2, [8000, *_GROUPS]],
    ["normal", 20, _GROUPS],
    ["AR(1) 0.5", 2, []],
    ["AR(1) 0.5", 20, []],
    ["AR(1) 0.9", 2, []],
    ["AR(1) 0.2", 20, []],
    ["Laplace model", 20, _GROUPS],
]
_WRONG: dict[str, Callable[[int, int, np.random.Generator], Array]] = {
    "mean shift": lambda n, d, rng: rng.standard_normal((n, d)) + 0.01,
    "one variance": lambda n, d, rng: rng.standard_normal((n, d)) * np.r_[1.03, np.ones(d - 1)],
    "Student t": lambda n, d, rng: rng.standard_t(120.0, (n, d)) * np.sqrt(118.0 / 120.0),
}
_CELLS += [[kind, 20, [8000, 2000, 1000]] for kind in _WRONG]
SCALES: dict[str, Settings] = {
    "smoke": dict(
        cells=[["normal", 2, [1000, 500]], ["AR(1) 0.5", 2, []], ["mean shift", 2, [500]]],
        n=4500,
        tests=4,
        block=2,
        n_resamples=99,
    ),
    "quick": dict(cells=_CELLS[:4], n=10_000, tests=100, block=10, n_resamples=199),
    "paper": dict(cells=_CELLS, n=10_000, tests=400, block=5, n_resamples=199),
}


def tasks(settings: Settings) -> list[Task]:
    return [
        dict(kind=kind, d=d, most=most, block=block)
        for block in range(settings["tests"] // settings["block"])
        for kind, d, most in settings["cells"]
    ]


def run_task(task: Task, settings: Settings, rng: np.random.Generator) -> list[Row]:
    rows = []
    for _ in range(settings["block"]):
        x, score, chain = make_samples(task["kind"], settings["n"], task["d"], rng)
        options = Options(
            chains=True if chain else None, n_resamples=settings["n_resamples"], rng=rng
        )
        for groups, p in pvalues(x, score, options, task["most"]).items():
            rows.append({"kind": task["kind"], "d": task["d"], "groups": groups, "p": p})
    return rows


def make_samples(kind: str, n: int, d: int, rng: np.random.Generator) -> tuple[Array, Any, bool]:
    """Samples of a kind, (n, d), the model that they follow, and whether they are a chain."""
    if kind.startswith("AR(1) "):
        coefficients = np.full(d, float(kind.removeprefix("AR(1) ")))
        return autoregressive(coefficients, 1, n, rng)[0], np.negative, True
    if kind in _WRONG:
        return _WRONG[kind](n, d, rng), np.negative, False
    model = make_null(kind, d, rng).p
    return model.sample(n, rng=rng), model, False


def pvalues(x: Array, score: Any, options: Options, most: list[int]) -> dict[int, float | None]:
    """P-values of the default test for at most so many groups, by the number of groups.

    None where a chain is too short to tell.
    """
    n = len(x)
    plan = make_plan(options, None, *x.shape)
    split = make_split(plan, x, score, one_chain(n) if options.chains else None)
    with engines.session(*split.arrays()):
        found = search(plan, split)
        outcomes = members_of_groups(plan, found, most)
    short = split.lag is not None and split.lag.needed
    return {
        groups: None if short else decide(plan, Outcome(members, split.lag_length)).pvalue
        for groups, members in outcomes.items()
    }


def report(rows: list[Row], settings: Settings) -> list[Block]:
    cells: dict[tuple[str, int, str], list[Row]] = {}
    for row in rows:
        groups = "stretches" if row["kind"].startswith("AR(1)") else str(row["groups"])
        cells.setdefault((row["kind"], row["d"], groups), []).append(row)
    right = {cell: some for cell, some in cells.items() if cell[0] not in _WRONG}
    table, outside = [], 0
    for (kind, d, groups), some in right.items():
        rejected, tests = rejections(row["p"] for row in some)
        low, high = level_bounds(tests, len(right))
        rate = rejected / max(tests, 1)
        inside = low <= rate <= high
        outside += not inside
        count = f"{np.median([row['groups'] for row in some]):g}"
        name = f"{count} {groups}" if groups == "stretches" else count
        bounds = f"{low:.3f} to {high:.3f}"
        table.append([kind, d, name, tests, f"{rate:.3f}", bounds, "yes" if inside else "NO"])
    power = [
        [kind, d, groups, len(some), show_rate(*rejections(row["p"] for row in some))]
        for (kind, d, groups), some in cells.items()
        if kind in _WRONG
    ]
    return [
        Text(
            f"{settings['n']} samples, {settings['n_resamples']} replicates, default options but "
            "for the number of groups. Rows of one kind of samples and d are tests of the same "
            "samples."
        ),
        Heading("Rejection rates, right models"),
        Text(
            f"Cells outside the binomial bounds (simultaneous over {len(right)} cells): {outside}."
        ),
        Table(["samples", "d", "groups", "tests", "level 0.05", "bounds", "within"], table),
        Heading("Rejection rates, wrong models"),
        Table(["samples", "d", "groups", "tests", "power"], power),
    ]
