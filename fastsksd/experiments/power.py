"""Power study: the default test against each of its members, the paper's variants and KSD.

The paper's benchmarks differ from the model coordinate by coordinate, so that r = identity gives
the answer away. Here they are also rotated. The level, the same test where the model is right, is
shown beside every power.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..gof import gof_test
from ..plot.rates import rate_line
from ..procedure.combine import Member
from .problems import PROBLEMS, make_null, make_problem
from .report import (
    Block,
    Heading,
    Table,
    Text,
    count_rejection,
    figure_of,
    log_axis,
    pyplot,
    rate_cells,
    shared_legend,
    show_rate,
)
from .runner import Row, Settings, Task

Cell: TypeAlias = tuple[str, int, int]

FIGURES = True
WHOLE = True  # its report compares whole cells
TITLE = "Power study"
_NULLS = ["normal", "mixture", "RBM"]
_COMMON = dict(problems=list(PROBLEMS), nulls=_NULLS, models=10)
SCALES = {
    "smoke": dict(_COMMON, d=[2, 5], trials=[[60, 2]], n_resamples=99, burn_in=50),
    "quick": dict(
        _COMMON,
        d=[2, 10, 30, 100],
        trials=[[100, 15], [300, 15], [1000, 15]],
        n_resamples=199,
        burn_in=200,
    ),
    "paper": dict(
        _COMMON,
        d=[2, 10, 30, 100],
        trials=[[100, 100], [300, 100], [1000, 100], [3000, 100]],
        n_resamples=1000,
        burn_in=2000,
    ),
}
AGGREGATE = "aggregate, cross-fitted (default)"
SPLIT = "aggregate, 20% for training"
_PAPER = dict(null="bootstrap", train=0.2)
METHODS = {
    AGGREGATE: {},
    SPLIT: dict(train=0.2),
    "SKSD-g, exact": dict(_PAPER, basis="identity", estimator="exact"),
    "SKSD-g, GE": dict(_PAPER, basis="identity", estimator="ge"),
    "SKSD-g, KE": dict(_PAPER, basis="identity", debias=False),
    "SKSD-rg, KE, 3 slices": dict(_PAPER, n_slices=3, debias=False),
    "KSD": dict(method="ksd"),
}


def tasks(settings: Settings) -> list[Task]:
    return [
        dict(problem=problem, null=null, d=d, n=n, trial=trial)
        for n, trials in settings["trials"]
        for d in settings["d"]
        for null, problem in [(False, name) for name in settings["problems"]]
        + [(True, name) for name in settings["nulls"]]
        for trial in range(trials)
    ]


def run_task(task: Task, settings: Settings, rng: np.random.Generator) -> list[Row]:
    # Few random models, each in several trials, so that the spread between them can be seen. All
    # else is new in every trial.
    model = task["trial"] % settings["models"]
    make = make_null if task["null"] else make_problem
    p, q, level = make(
        task["problem"],
        task["d"],
        np.random.default_rng(model) if "RBM" in task["problem"] else rng,
    )
    x = q.sample(
        task["n"], rng=rng, **(dict(burn_in=settings["burn_in"]) if level == "RBM" else {})
    )
    pvalues, seconds = {}, {}
    for name, options in METHODS.items():
        if options.get("estimator") == "exact":
            options = dict(options, score_q=q)
        elif "n_slices" in options:
            options = dict(options, n_slices=min(options["n_slices"], task["d"]))
        start = time.perf_counter()
        result = gof_test(x, p, n_resamples=settings["n_resamples"], rng=rng, **options)
        seconds[name] = time.perf_counter() - start
        pvalues[name] = result.pvalue
        if name == AGGREGATE:
            pvalues.update(members_alone(result.members))
    return [dict(task, level=level, model=model, p=pvalues, seconds=seconds)]


def members_alone(members: Iterable[Member]) -> dict[str, float]:
    """p-value of each member as a test of its own.

    The halves of a cross-fitted one are combined by Bonferroni's inequality.
    """
    alone: dict[str, list[float]] = {}
    for member in members:
        alone.setdefault(_member_name(member), []).append(member.pvalue)
    return {name: min(1.0, len(values) * min(values)) for name, values in alone.items()}


def _member_name(member: Member) -> str:
    return member.name if member.multiple is None else f"{member.name}, x {member.multiple:g}"


class _Rates:
    """Rejection rates at level 0.05 by method and cell (problem, d, n)."""

    def __init__(self, rows: list[Row]) -> None:
        self.counts: dict[tuple[str, bool, Cell], list[int]] = {}
        self.seconds: dict[tuple[str, int, int], list[float]] = {}
        self.cells: dict[bool, dict[Cell, str]] = {True: {}, False: {}}
        for row in rows:
            cell = row["problem"], row["d"], row["n"]
            self.cells[row["null"]][cell] = row["level"]
            for method, pvalue in row["p"].items():
                count_rejection(self.counts, (method, row["null"], cell), pvalue)
            for method, value in row["seconds"].items():
                self.seconds.setdefault((method, row["d"], row["n"]), []).append(value)

    def rate(self, method: str, cell: Cell, null: bool = False) -> float:
        count = self.counts.get((method, null, cell))
        return np.nan if count is None else count[0] / count[1]

    def mean(self, method: str, null: bool = False, problem: str | None = None) -> float:
        """Mean over the cells of one problem or of all; NaN without the method.

        In low dimension some members are missing.
        """
        values = [
            self.rate(method, cell, null) for cell in self.cells[null] if problem in (None, cell[0])
        ]
        return np.nanmean(values) if values and not np.all(np.isnan(values)) else np.nan

    def best_member(self, cell: Cell, members: Sequence[str]) -> tuple[float, str]:
        return max(
            (self.rate(member, cell), member)
            for member in members
            if (member, False, cell) in self.counts
        )


def report(rows: list[Row], settings: Settings) -> list[Block]:
    rates = _Rates(rows)
    members = sorted({name for row in rows for name in row["p"] if name not in METHODS})
    cells = list(rates.cells[False])
    regret = np.mean(
        [rates.best_member(cell, members)[0] - rates.rate(AGGREGATE, cell) for cell in cells]
    )
    averages = {member: rates.mean(member) for member in members}
    favourite = max(averages, key=lambda member: averages[member])
    split_gain = rates.mean(AGGREGATE) - rates.mean(SPLIT)
    largest = max(n for n, _ in settings["trials"] if n <= 1000)
    return [
        Text(
            f"{len(rows)} trials; dimensions {_join(settings['d'])}; samples (and trials per cell) "
            f"{_join(f'{n} ({trials})' for n, trials in settings['trials'])}; "
            f"{settings['n_resamples']} replicates, level 0.05. RBMs: {settings['models']} random "
            "models. Members alone come from the same runs as the aggregate; the p-values of their "
            "halves are combined by Bonferroni's inequality."
        ),
        Heading("Rejection rate by problem, mean over all dimensions and sample sizes"),
        _by_problem(rates, [*METHODS, favourite], settings),
        Text(
            "Against the best single member of each cell, chosen in hindsight, the aggregate loses "
            f"{regret:.3f} on average. Against the one member that is best over the whole study "
            f"({favourite}, {averages[favourite]:.3f}) it gains "
            f"{rates.mean(AGGREGATE) - averages[favourite]:+.3f}. Cross-fitting against a split: "
            f"{split_gain:+.3f}."
        ),
        figure_of(
            _figure(rates, members, settings, largest),
            f"Rejection rate against the dimension, {largest} samples; 95% intervals",
        ),
        Heading("Level: rejection rate where the model is right"),
        _level_table(rates),
        Heading("Each member alone, mean over all dimensions and sample sizes"),
        _by_problem(rates, members, settings),
        Heading("Seconds per test, median"),
        _seconds_table(rates, settings),
        Heading("RBMs: the spread between random models"),
        _spread(rows),
        Heading("All cells"),
        _all_cells(rates, members),
    ]


def _join(values: Iterable[Any]) -> str:
    return ", ".join(str(value) for value in values)


def _show(rate: float) -> str:
    return "" if np.isnan(rate) else f"{rate:.2f}"


def _by_problem(rates: _Rates, methods: Sequence[str], settings: Settings) -> Table:
    table = [
        [method, *(_show(rates.mean(method, problem=problem)) for problem in settings["problems"]),
         _show(rates.mean(method)), _show(rates.mean(method, null=True))]
        for method in methods
    ]  # fmt: skip
    return Table(["test", *settings["problems"], "mean", "level"], table)


def _level_table(rates: _Rates) -> Table:
    table = []
    for method in METHODS:
        counts = [rates.counts[method, True, cell] for cell in rates.cells[True]]
        rejected, trials = (sum(count[k] for count in counts) for k in (0, 1))
        by_null = [_show(rates.mean(method, null=True, problem=null)) for null in _NULLS]
        table.append([method, *by_null, *rate_cells(rejected, trials), trials])
    return Table(["test", *_NULLS, "all", "95% interval", "tests"], table)


def _seconds_table(rates: _Rates, settings: Settings) -> Table:
    sizes = [
        (d, n)
        for n, _ in settings["trials"]
        for d in settings["d"]
        if d == max(settings["d"]) or n == settings["trials"][-1][0]
    ]
    table = [
        [method, *(f"{np.median(rates.seconds[method, d, n]):.3f}" for d, n in sizes)]
        for method in METHODS
    ]
    return Table(["test", *(f"d = {d}, n = {n}" for d, n in sizes)], table)


def _spread(rows: list[Row]) -> Table:
    by_model: dict[tuple[int, int], dict[int, list[bool]]] = {}
    for row in rows:
        if row["problem"] == "RBM" and not row["null"]:
            cell = by_model.setdefault((row["d"], row["n"]), {})
            cell.setdefault(row["model"], []).append(row["p"][AGGREGATE] <= 0.05)
    table = []
    for (d, n), models in by_model.items():
        values = [np.mean(values) for values in models.values()]
        table.append(
            [
                d,
                n,
                len(values),
                f"{np.min(values):.2f}",
                f"{np.median(values):.2f}",
                f"{np.max(values):.2f}",
            ]
        )
    return Table(["d", "n", "models", "smallest power", "median", "largest"], table)


def _all_cells(rates: _Rates, members: Sequence[str]) -> Table:
    others = [method for method in METHODS if method != AGGREGATE]
    table = []
    for cell, level in rates.cells[False].items():
        best, name = rates.best_member(cell, members)
        table.append(
            [
                *cell,
                show_rate(*rates.counts[AGGREGATE, False, cell]),
                _show(rates.rate(AGGREGATE, (level, *cell[1:]), null=True)),
                f"{best:.2f}",
                name,
                *(_show(rates.rate(method, cell)) for method in others),
            ]
        )
    header = ["problem", "d", "n", "aggregate (95% interval)", "its level", "best member", "which"]
    return Table([*header, *others], table)


_LINES = {
    AGGREGATE: ("#000000", "-", "o"),
    "KSD": ("#d55e00", "--", "s"),
    "SKSD-g, KE": ("#0072b2", "-.", "^"),
    "SKSD-rg, KE, 3 slices": ("#009e73", ":", "v"),
}


def _figure(rates: _Rates, members: Sequence[str], settings: Settings, n: int) -> Any:
    plt = pyplot()
    problems, dimensions = settings["problems"], settings["d"]
    columns = 4
    height = -(-len(problems) // columns)
    size = (3.1 * columns, 2.5 * height)
    figure, axes = plt.subplots(height, columns, figsize=size, sharey=True, squeeze=False)
    for axis, problem in zip(axes.flat, problems, strict=False):
        cells = [(problem, d, n) for d in dimensions]
        for method, style in _LINES.items():
            counts = [rates.counts[method, False, cell] for cell in cells]
            rate_line(axis, dimensions, counts, method, *style, band=method == AGGREGATE)
        best = [rates.best_member(cell, members)[0] for cell in cells]
        band = dict(color="#cc79a7", linewidth=5, alpha=0.35, zorder=0)
        axis.plot(dimensions, best, **band, label="best member, in hindsight")
        axis.axhline(0.05, color="grey", linewidth=0.6)
        axis.set_title(problem, fontsize=9)
        axis.set_ylim(-0.03, 1.03)
        log_axis(axis, dimensions, "dimension")
    for axis in list(axes.flat)[len(problems) :]:
        axis.set_visible(False)
    for axis in axes[:, 0]:
        axis.set_ylabel("rejection rate")
    shared_legend(figure, axes[0, 0], columns=5)
    return figure
