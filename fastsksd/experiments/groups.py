"""Level of the default test of many samples, by the number of groups that replicates are made of.

A cell is a kind of samples and d. Independent samples of a model are tested several times, with
different numbers of groups. ``AR(1) c`` is one chain of the standard normal distribution with
autocorrelation c. Its groups are its stretches, whose number follows from the autocorrelation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

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
from .report import Block, Heading, Table, Text
from .runner import Row, Settings, Task

FIGURES = False
TITLE = "Level by the number of groups"
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
SCALES: dict[str, Settings] = {
    "smoke": dict(
        cells=[["normal", 2, [1000, 500]], ["AR(1) 0.5", 2, []]],
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
    table, outside = [], 0
    tail = 0.025 / len(cells)  # the chance that any of them lies outside is 5%
    for (kind, d, groups), some in cells.items():
        known = np.array([row["p"] for row in some if row["p"] is not None])
        rejected = np.count_nonzero(known <= 0.05)
        low, high = stats.binom.ppf([tail, 1 - tail], known.size, 0.05) / max(known.size, 1)
        rate = rejected / max(known.size, 1)
        inside = low <= rate <= high
        outside += not inside
        count = f"{np.median([row['groups'] for row in some]):g}"
        name = f"{count} {groups}" if groups == "stretches" else count
        bounds = f"{low:.3f} to {high:.3f}"
        table.append([kind, d, name, known.size, f"{rate:.3f}", bounds, "yes" if inside else "NO"])
    return [
        Text(
            f"The model is right: {settings['n']} samples are drawn from it. "
            f"{settings['n_resamples']} replicates, default options but for the number of groups. "
            "Rows of one model and d are tests of the same samples. Cells outside the binomial "
            f"bounds (simultaneous over {len(cells)} cells): {outside}."
        ),
        Heading("Rejection rates"),
        Table(["samples", "d", "groups", "tests", "level 0.05", "bounds", "within"], table),
    ]
