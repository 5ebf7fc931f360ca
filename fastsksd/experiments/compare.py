"""Comparisons of models: level where both are equally wrong, coverage, and power.

"level"
    Two models, or two sets of samples, that are wrong by the same amount: their means are off by
    plus and minus `shift` in the first coordinate. The samples' distribution is symmetric, so that
    the discrepancies are the same whatever the slices. For small shifts both are nearly right, and
    the difference is degenerate.
"coverage"
    Two models that are wrong in different ways. Slices, units and bandwidths are learnt once for
    each block of runs, and the truth is that of `n_truth` samples. "first" and "second" are the
    discrepancies themselves.
"interval"
    `GofResult.discrepancy_interval` along the coordinates, whose bandwidths are those of the tested
    samples. The truth has the bandwidths of `n_truth` samples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._typing import Array
from ..comparison import compare
from ..discrepancy import sksd
from ..gof import gof_test
from ..kernels import RBF
from ..slices import Slices
from .chains import autoregressive
from .report import Block, Heading, Table, Text, cells_of
from .runner import Row, Settings, Task

FIGURES = False
TITLE = "Comparisons of models: level, coverage and power"
_LEVEL = [
    dict(samples=samples, d=d, shift=shift)
    for samples, d, shifts in (
        ("normal", 2, (0.03, 0.1, 0.3, 1.0)),
        ("normal", 20, (0.03, 0.1, 0.3, 1.0)),
        ("t", 20, (0.1, 0.5)),
        ("two sets", 20, (0.03, 0.1, 0.5)),
        ("chains", 2, (0.1, 0.5)),
    )
    for shift in shifts
]
_COVERAGE = [
    dict(samples=samples, d=d, first=first, second=second)
    for d in (2, 20)
    for samples, first, second in (
        ("normal", "shift 0.3", "stretch 1.2"),
        ("normal", "shift 0.1", "right"),
        ("normal", "shift 0.3", "shift 0.32"),
        ("t", "normal", "shift 0.2"),
    )
]
_INTERVAL = [
    dict(samples="normal", d=d, first=first)
    for d in (2, 20)
    for first in ("right", "shift 0.1", "shift 0.3", "stretch 1.2")
]
SCALES = {
    "smoke": dict(
        n=200, runs=4, block=2, n_truth=2000,
        level=_LEVEL[::4], coverage=_COVERAGE[:1], interval=_INTERVAL[:1],
    ),
    "quick": dict(
        n=1000, runs=100, block=20, n_truth=50_000,
        level=_LEVEL, coverage=_COVERAGE, interval=_INTERVAL,
    ),
    "paper": dict(
        n=1000, runs=400, block=20, n_truth=100_000,
        level=_LEVEL, coverage=_COVERAGE, interval=_INTERVAL,
    ),
}  # fmt: skip
_NU = 5.0
_CHAINS, _MEMORY = 4, 0.8  # chains of n draws, AR(1)


def draw(samples: str, n: int, d: int, rng: np.random.Generator) -> Array:
    """Samples of unit variance: normal, or t with five degrees of freedom."""
    if samples == "t":
        return rng.standard_t(_NU, (n, d)) / np.sqrt(_NU / (_NU - 2.0))
    return rng.standard_normal((n, d))


def model(name: str, d: int) -> Callable[[Array], Array]:
    """Score of a normal model that is wrong in its first coordinate."""
    kind, _, size = name.partition(" ")
    first = np.eye(d)[0]
    if kind == "shift":
        return lambda x: float(size) * first - x
    if kind == "stretch":
        precision = 1.0 + (float(size) ** -2.0 - 1.0) * first
        return lambda x: -x * precision
    return np.negative


def tasks(settings: Settings) -> list[Task]:
    blocks = range(settings["runs"] // settings["block"])
    return [
        {"kind": kind, **cell, "block": block}
        for block in blocks
        for kind in ("level", "coverage", "interval")
        for cell in settings[kind]
    ]


def run_task(task: Task, settings: Settings, rng: np.random.Generator) -> list[Row]:
    runs = {"level": _level, "coverage": _coverage, "interval": _interval}[task["kind"]](
        task, settings, rng
    )
    means = {name: float(np.mean([one[name] for one in runs])) for name in runs[0]}
    return [{**task, "runs": len(runs), **means}]


def _level(task: Task, settings: Settings, rng: np.random.Generator) -> list[dict[str, float]]:
    d, n, shift = task["d"], settings["n"], task["shift"]
    models = {"plus": model(f"shift {shift}", d), "minus": model(f"shift {-shift}", d)}
    found = []
    for _ in range(settings["block"]):
        x: Any
        if task["samples"] == "two sets":
            x = {name: draw("normal", n, d, rng) for name in models}
            x = {name: one + model(f"shift {shift}", d)(0.0 * one) for name, one in x.items()}
            x["minus"] = -x["minus"]
            one = compare(x, np.negative, rng=rng)[0]
        else:
            x = (
                autoregressive(np.full(d, _MEMORY), _CHAINS, n, rng)
                if task["samples"] == "chains"
                else draw(task["samples"], n, d, rng)
            )
            one = compare(x, models, rng=rng)[0]
        found.append({"rejected": one.pvalue <= 0.05, "at_1": one.pvalue <= 0.01})
    return found


def _coverage(task: Task, settings: Settings, rng: np.random.Generator) -> list[dict[str, float]]:
    d, n = task["d"], settings["n"]
    models = {name: model(task[name], d) for name in ("first", "second")}
    learnt = compare(draw(task["samples"], n, d, rng), models, rng=rng)
    fixed: dict[str, Any] = dict(
        slices=learnt.slices, kernel=RBF(learnt.bandwidths), precondition="raw", train=3
    )
    many = draw(task["samples"], settings["n_truth"], d, rng)
    truth = compare(many, models, rng=rng, **fixed)
    found = []
    for _ in range(settings["block"]):
        one = compare(draw(task["samples"], n, d, rng), models, rng=rng, **fixed)
        row = one[0]
        inside = _inside(truth.discrepancies, one.discrepancy_intervals)
        better = ("first", "second")[int(truth[0].difference > 0)]
        found.append(
            {
                "difference": float(_inside(truth[0].difference, np.array(row.interval))),
                "first_hit": float(inside[0]),
                "second_hit": float(inside[1]),
                "told": float(row.better == better),
                "told_wrongly": float(row.better not in (None, better)),
            }
        )
    return found


def _inside(truth: Any, intervals: Array) -> Any:
    return (intervals[..., 0] <= np.maximum(truth, 0.0 if intervals.ndim == 2 else truth)) & (
        truth <= intervals[..., 1]
    )


def _interval(task: Task, settings: Settings, rng: np.random.Generator) -> list[dict[str, float]]:
    d, score = task["d"], model(task["first"], task["d"])
    slices = Slices(np.eye(d), np.eye(d))
    truth = sksd(draw(task["samples"], settings["n_truth"], d, rng), score, slices)
    truth = max(float(truth), 0.0)
    found = []
    for _ in range(settings["block"]):
        x = draw(task["samples"], settings["n"], d, rng)
        result = gof_test(x, score, slices=slices, n_resamples=19, rng=rng)
        low, high = result.discrepancy_interval()
        found.append({"hit": float(low <= truth <= high), "length": high - low, "truth": truth})
    return found


def report(rows: list[Row], settings: Settings) -> list[Block]:
    def cells(kind: str, *names: str) -> list[tuple[list[Any], int, Callable[[str], float]]]:
        chosen = [row for row in rows if row["kind"] == kind]
        return [
            (
                list(key),
                sum(row["runs"] for row in some),
                lambda name, some=some: float(np.mean([row[name] for row in some])),
            )
            for key, some in cells_of(chosen, *names).items()
        ]

    level = [
        [*key, runs, f"{mean('rejected'):.3f}", f"{mean('at_1'):.3f}"]
        for key, runs, mean in cells("level", "samples", "d", "shift")
    ]
    columns = ("difference", "first_hit", "second_hit", "told", "told_wrongly")
    coverage = [
        [*key, runs, *(f"{mean(name):.3f}" for name in columns)]
        for key, runs, mean in cells("coverage", "samples", "d", "first", "second")
    ]
    titles = ["samples", "d", "first", "second", "runs", "difference", "first", "second"]
    interval = [
        [*key, runs, f"{mean('truth'):.4f}", f"{mean('length'):.4f}", f"{mean('hit'):.3f}"]
        for key, runs, mean in cells("interval", "samples", "d", "first")
    ]
    return [
        Text(
            f"{settings['n']} samples; {_CHAINS} chains of as many draws each, AR(1) with "
            f"coefficient {_MEMORY}."
        ),
        Heading("Both equally wrong: fraction told apart"),
        Table(["samples", "d", "shift", "runs", "at 0.05", "at 0.01"], level),
        Heading("Coverage of nominal 95% intervals, and the better model told"),
        Table([*titles, "better told", "worse told as better"], coverage),
        Heading("Interval of the discrepancy of a test"),
        Table(["samples", "d", "model", "runs", "truth", "mean length", "coverage"], interval),
    ]
