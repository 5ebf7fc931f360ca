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
    samples. The truth has the bandwidths of `n_truth` samples. "family" is the default test, whose
    interval is that of the slices of its strongest set, with their bandwidths and units.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._typing import Array
from ..comparison import compare
from ..discrepancy import sksd
from ..gof import gof_test
from ..kernels import KERNELS, RBF
from ..result import GofResult
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
_OTHERS = [  # intervals in half the runs
    dict(samples=samples, d=d, first=first)
    for samples, d, models in (
        ("t", 2, ("normal", "shift 0.3")),
        ("t", 20, ("normal", "shift 0.3")),
        ("chains", 2, ("right", "shift 0.3")),
        ("family", 2, ("right", "shift 0.3", "stretch 1.2")),
        ("family", 20, ("shift 0.3",)),
    )
    for first in models
]
SCALES = {
    "smoke": dict(
        n=200, runs=4, block=2, n_truth=2000,
        level=_LEVEL[::4], coverage=_COVERAGE[:1], interval=_INTERVAL[:1], others=_OTHERS[4:7:2],
    ),
    "quick": dict(
        n=1000, runs=100, block=20, n_truth=50_000,
        level=_LEVEL, coverage=_COVERAGE, interval=_INTERVAL, others=_OTHERS,
    ),
    "paper": dict(
        n=1000, runs=400, block=20, n_truth=100_000,
        level=_LEVEL, coverage=_COVERAGE, interval=_INTERVAL, others=_OTHERS,
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
    count = settings["runs"] // settings["block"]
    found = []
    for block in range(count):
        cells = {kind: settings[kind] for kind in ("level", "coverage", "interval")}
        if 2 * block < count:
            cells["interval"] = cells["interval"] + settings["others"]
        found += [
            {"kind": kind, **cell, "block": block} for kind, some in cells.items() for cell in some
        ]
    return found


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
    samples, d, score = task["samples"], task["d"], model(task["first"], task["d"])
    coordinates = Slices(np.eye(d), np.eye(d))
    options: dict[str, Any] = {} if samples == "family" else {"slices": coordinates}
    many = draw(samples, settings["n_truth"], d, rng)
    # Of all runs, unless every test has slices of its own.
    common = None if samples == "family" else max(float(sksd(many, score, coordinates)), 0.0)
    found = []
    for _ in range(settings["block"]):
        x = (
            autoregressive(np.full(d, _MEMORY), _CHAINS, settings["n"], rng)
            if samples == "chains"
            else draw(samples, settings["n"], d, rng)
        )
        result = gof_test(x, score, n_resamples=19, rng=rng, **options)
        low, high = result.discrepancy_interval()
        truth = _truth_along(result, many, score) if common is None else common
        found.append({"hit": float(low <= truth <= high), "length": high - low, "truth": truth})
    return found


def _truth_along(result: GofResult, many: Array, score: Callable[[Array], Array]) -> float:
    """The discrepancy along the slices of a result, in its units."""
    assert result.slices is not None
    kernel = KERNELS[result.kernel](result.bandwidths)
    parts = sksd(many, score, result.slices, kernel=kernel, per_slice=True)
    if result.slice_units is not None:
        parts = parts * result.slice_units**2
    return max(float(parts.sum()), 0.0)


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
