"""Power and time of the default test of many samples, by how many samples slices are searched on.

The search for slices costs the square of that number. All tests of a set of samples have the same
halves and the same random numbers, and differ in the size of the subset only. A problem is standard
normal but for one hidden direction, along which it has another variance ("diffusion"), a Student t
of unit variance ("tail", given its degrees of freedom) or two modes ("modes", given their distance
from 0; the variance is 1). With a variance of 1 the model is right. A number of samples is to be
chosen on some of the cells, and shown on the others.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import engines
from .._typing import Array
from ..procedure.combine import decide
from ..procedure.evaluation import Outcome
from ..procedure.grouped import members_of_groups
from ..procedure.plan import GROUPS, Options, make_plan
from ..procedure.search import search
from ..procedure.split import make_split
from .problems import random_direction
from .report import Block, Heading, Table, Text, cells_of, rejections, show_rate
from .runner import Row, Settings, Task

FIGURES = False
TITLE = "Power and time by the number of samples that slices are searched on"
_SIZES = [2000, 5000, 7000, 10_000]


def _tail(n: int, df: float, rng: np.random.Generator) -> Array:
    return rng.standard_t(df, n) * np.sqrt((df - 2.0) / df)


def _modes(n: int, distance: float, rng: np.random.Generator) -> Array:
    signs = rng.choice([-1.0, 1.0], n)
    return distance * signs + np.sqrt(1.0 - distance**2) * rng.standard_normal(n)


_HIDDEN: dict[str, Callable[[int, float, np.random.Generator], Array]] = {
    "diffusion": lambda n, variance, rng: np.sqrt(variance) * rng.standard_normal(n),
    "tail": _tail,
    "modes": _modes,
}
# Kind, its parameter, d, the sizes of subsets, and whether a choice is made on it.
_CELLS: list[list[Any]] = [
    ["tail", 3.8, 50, _SIZES, True],
    ["diffusion", 0.87, 50, _SIZES, True],
    ["tail", 5.0, 20, _SIZES, False],
    ["modes", 0.93, 20, _SIZES[1:], False],
    ["diffusion", 1.0, 20, _SIZES[1:], False],
]
SCALES: dict[str, Settings] = {
    "smoke": dict(
        cells=[["diffusion", 0.5, 3, [100, 200], True], ["tail", 4.0, 3, [100, 200], False]],
        n=4500,
        tests=2,
        block=1,
        n_resamples=99,
    ),
    "quick": dict(cells=_CELLS, n=20_000, tests=20, block=1, n_resamples=199),
    "paper": dict(cells=_CELLS, n=20_000, tests=200, block=1, n_resamples=199),
}


def tasks(settings: Settings) -> list[Task]:
    return [
        dict(kind=kind, parameter=parameter, d=d, sizes=sizes, block=block)
        for block in range(settings["tests"] // settings["block"])
        for kind, parameter, d, sizes, _ in settings["cells"]
    ]


def run_task(task: Task, settings: Settings, rng: np.random.Generator) -> list[Row]:
    rows = []
    for _ in range(settings["block"]):
        x = make_samples(task["kind"], task["parameter"], settings["n"], task["d"], rng)
        seed = int(rng.integers(2**32))
        for size in task["sizes"]:
            options = Options(n_resamples=settings["n_resamples"], rng=seed)
            start = time.process_time()
            p = pvalue(x, options, size)
            seconds = time.process_time() - start
            cell = {name: task[name] for name in ("kind", "parameter", "d")}
            rows.append({**cell, "size": size, "p": p, "seconds": seconds})
    return rows


def make_samples(kind: str, parameter: float, n: int, d: int, rng: np.random.Generator) -> Array:
    """Samples, (n, d), that are standard normal across one direction drawn at random."""
    x, r = rng.standard_normal((n, d)), random_direction(d, rng)
    return x + (_HIDDEN[kind](n, parameter, rng) - x @ r)[:, None] * r


def pvalue(x: Array, options: Options, size: int) -> float:
    """P-value of the default test with slices searched on so many samples."""
    plan = dataclasses.replace(make_plan(options, None, *x.shape), most_training=size)
    split = make_split(plan, x, np.negative)
    with engines.session(*split.arrays()):
        (members,) = members_of_groups(plan, search(plan, split), [GROUPS]).values()
    return float(decide(plan, Outcome(members, split.lag_length)).pvalue)


def report(rows: list[Row], settings: Settings) -> list[Block]:
    chosen = {tuple(cell[:3]): cell[4] for cell in settings["cells"]}
    blocks: list[Block] = [
        Text(
            f"{settings['n']} samples, {settings['n_resamples']} replicates, default options but "
            "for the size of the subset. Rows of one problem and d are tests of the same samples; "
            "the last two columns count those that one size alone rejected, against the largest. "
            "Seconds are CPU time."
        )
    ]
    for mine, title in ((True, "Cells to choose on"), (False, "Cells to show it on")):
        table = []
        for (kind, parameter, d), some in cells_of(rows, "kind", "parameter", "d").items():
            if chosen[kind, parameter, d] is not mine:
                continue
            sizes = cells_of(some, "size")
            largest = np.array([row["p"] for row in sizes[max(sizes)]]) <= 0.05
            for (size,), tests in sizes.items():
                found = np.array([row["p"] for row in tests]) <= 0.05
                rate = show_rate(*rejections(row["p"] for row in tests))
                seconds = f"{np.median([row['seconds'] for row in tests]):.2f}"
                alone = np.count_nonzero(found & ~largest), np.count_nonzero(largest & ~found)
                table.append([f"{kind} {parameter:g}", d, size, len(tests), rate, seconds, *alone])
        head = [
            "problem",
            "d",
            "searched on",
            "tests",
            "rejected",
            "seconds",
            "alone",
            "largest alone",
        ]
        blocks += [Heading(title), Table(head, table)]
    return blocks
