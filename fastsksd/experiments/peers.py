"""Problems of other tests of the field, with their published numbers beside ours.

Every test sees the same data. They are drawn from the task without its group of tests, so that one
group, such as the default test, can be run again alone. RFSD takes the longest and comes last. The
scale paper takes about three hours on one core, and quick three quarters of an hour.
"""

from __future__ import annotations

import functools
import json
import time
from typing import Any, NamedTuple

import numpy as np

from .._typing import Array
from ..baselines import PSD
from ..gof import gof_test
from .peer_problems import PUBLISHED, make_peer_problem
from .problems import Problem
from .report import Block, Heading, Table, Text, count_rejection, figure_of, pyplot, show_rate
from .runner import Row, Settings, Task, task_key, task_rng


class Cell(NamedTuple):
    """A problem, its dimension and the number of samples."""

    family: str
    problem: str
    d: int
    n: int
    hidden: int | None
    size: float | None


FIGURES = True
WHOLE = True  # its report compares whole cells
TITLE = "Problems of other tests"
DEFAULT = "default"
_PAPER: dict[str, Any] = dict(null="bootstrap", train=0.2)
_KE = dict(_PAPER, debias=False)
_EPOCHS = 50
GROUPS: dict[str, dict[str, dict[str, Any]]] = {
    "baselines": {
        "KSD": dict(method="ksd"),
        "KSDAgg": dict(method="ksdagg"),
        **{f"PSD {k}": dict(method=PSD(degree=k), null="bootstrap") for k in (1, 2, 3, 4)},
        "FSSD": dict(method="fssd"),
    },
    "paper": {
        "SKSD-g, KE": dict(_KE, basis="identity"),
        "SKSD-rg, KE, 3 slices": dict(_KE, n_slices=3),
    },
    "variants": {
        "SKSD-g, GE": dict(_PAPER, basis="identity", estimator="ge"),
        "SKSD-rg, GE, 3 slices": dict(_PAPER, n_slices=3, estimator="ge"),
        "SKSD-g, KE+GO": dict(_KE, basis="identity", refine=_EPOCHS),
        "SKSD-rg, KE+GO, 3 slices": dict(_KE, n_slices=3, refine=dict(epochs=_EPOCHS, update="rg")),
    },
    "exact": {
        "SKSD-g, Ex": dict(_PAPER, basis="identity", estimator="exact"),
        "SKSD-rg, Ex, 3 slices": dict(_PAPER, n_slices=3, estimator="exact"),
    },
    "products": {"PSD 2, products": dict(method=PSD(degree=2, products=True), null="bootstrap")},
    # Its null distribution needs 40 n samples of the model: half a minute for an RBM. So it has
    # fewer trials.
    "rfsd": {"RFSD": dict(method="rfsd")},
    "default": {DEFAULT: {}},
}
TESTS = tuple(name for group in GROUPS.values() for name in group)
# They know the score of the samples, which nobody has: shown, but never called the best.
INFORMED = tuple(GROUPS["exact"])
OTHERS = tuple(name for name in TESTS if name != DEFAULT and name not in INFORMED)
SHOWN = (DEFAULT, *OTHERS, *INFORMED)
ENOUGH = 0.2  # a test with a smaller share of the default's trials is not called the best
MARGIN = 0.05  # a smaller loss against the best other test is not listed
FAMILIES = {
    "RBM": "Random RBMs",
    "Gamma": "Gamma",
    "normal": "Standard normal model",
    "modes": "Two modes",
    "own": "Rotated and hidden differences, and the benchmarks of the paper",
}


def _cell(
    family: str,
    problem: str,
    d: int,
    n: int,
    size: float | None = None,
    *,
    hidden: int | None = None,
    headline: bool = False,
    few: bool = False,
    low: bool = False,
) -> dict[str, Any]:
    cell = dict(family=family, problem=problem, d=d, n=n, hidden=hidden, size=size)
    return dict(cell, headline=headline, few=few, low=low)


_BENCHMARKS = ("Laplace", "Student t", "diffusion")
_LOW = ("Laplace", "t(5)", "normal")
# In the order of the runs. `few`: nearly every test rejects, or a trial is dear. `low`: as many
# trials as of RFSD.
CELLS = [
    *(_cell("RBM", "RBM", 50, 1000, size, hidden=40, headline=True) for size in (0.01, 0.02, 0.0)),
    *(_cell("own", "Laplace, rotated", d, 1000, headline=True) for d in (30, 100)),
    _cell("own", "Student t, rotated", 100, 1000, headline=True),
    _cell("own", "diffusion, rotated", 100, 600, headline=True),
    _cell("own", "mean shift", 100, 600, headline=True),
    *(_cell("normal", "one variance", d, 1000, 1.7, headline=True) for d in (64, 128)),
    *(_cell("own", name, 100, 1000, headline=True) for name in _BENCHMARKS),
    _cell("own", "normal", 100, 1000, headline=True),
    *(_cell("RBM", "RBM", 50, n, 0.02, hidden=40) for n in (200, 400, 600, 800)),
    *(_cell("RBM", "RBM", 100, 1000, size, hidden=20) for size in (0.03, 0.0)),
    *(_cell("RBM", "RBM with outliers", 50, 500, size, hidden=10) for size in (0.0, 0.1, 0.5, 1.0)),
    *(_cell("Gamma", "Gamma", 1, 500, shift) for shift in (0.0, 0.1, 0.2, 0.3, 0.4)),
    _cell("normal", "one variance", 32, 1000, 1.7),
    *(_cell("normal", "Laplace", d, 1000) for d in (32, 64, 128)),
    *(_cell("normal", "normal", d, 1000) for d in (32, 128)),
    *(_cell("own", name, 30, 600) for name in ("wrong weights", "mixture")),
    *(_cell("modes", "two modes", d, 1000, w) for d in (1, 10, 100) for w in (0.5, 0.75, 1.0)),
    *(_cell("normal", "t(5)", d, 2000, few=True) for d in (32, 128)),
    *(_cell("normal", "one variance", d, 1000, 1.7, low=True) for d in (2, 8)),
    *(_cell("normal", name, d, 1000, low=True) for name in _LOW for d in (2, 8)),
]  # fmt: skip
# RBMs by the number of hidden units.
_HIDDEN = [
    *(_cell("RBM", "RBM", 50, 1000, 0.02, hidden=h) for h in (5, 10, 20, 80)),
    *(_cell("RBM", "RBM", 50, 1000, 0.01, hidden=h) for h in (20, 80)),
    *(_cell("RBM", "RBM", 50, 1000, 0.0, hidden=h) for h in (10, 80)),
]


def chosen_on(cell: Cell) -> bool:
    """Whether the members of the default were chosen on such problems, with other seeds."""
    others = cell.problem in ("mean shift", "one variance") or cell.problem.endswith("rotated")
    return others or cell.family == "RBM"


def _with_trials(
    headline: int, other: int, few: int, rfsd: int, rfsd_rbm: int, variants: int
) -> list[Any]:
    """All cells, each with its number of trials, and those of RFSD and of the paper's variants."""
    cells = []
    for cell in (*CELLS, *_HIDDEN):
        trials = headline if cell["headline"] else few if cell["few"] else other
        trials = rfsd if cell["low"] else trials
        most = rfsd_rbm if cell["family"] == "RBM" else rfsd
        counts = dict(trials=trials, rfsd=min(trials, most), variants=min(trials, variants))
        # Samples with outliers have no score.
        exact = 0 if cell["problem"] == "RBM with outliers" and cell["size"] else counts["variants"]
        cells.append(dict(cell_of(cell)._asdict(), **counts, exact=exact))
    return cells


def _tiny() -> list[Any]:
    """One small cell of every problem, and of every size of its difference."""
    cells: dict[Cell, Any] = {}
    for cell in _with_trials(2, 2, 2, 1, 1, 1):
        hidden = None if cell["hidden"] is None else 3
        small = dict(cell, d=min(cell["d"], 4), n=60, hidden=hidden)
        cells.setdefault(cell_of(small), small)
    return list(cells.values())


def cell_of(values: dict[str, Any]) -> Cell:
    """The cell of a row, a task or an entry of the settings."""
    return Cell(*(values[name] for name in Cell._fields))


SCALES = {
    "smoke": dict(cells=_tiny(), n_resamples=99),
    "quick": dict(cells=_with_trials(20, 20, 10, 10, 3, 10), n_resamples=500),
    "paper": dict(cells=_with_trials(100, 50, 20, 25, 8, 30), n_resamples=1000),
}


def tasks(settings: Settings) -> list[Task]:
    parts = (("baselines", "paper", "products"), ("default",), ("variants", "exact"), ("rfsd",))
    return [
        dict(cell_of(cell)._asdict(), trial=trial, tests=tests)
        for groups in parts
        for cell in settings["cells"]
        for trial in range(cell["trials"])
        for tests in groups
        if trial < cell.get(tests, cell["trials"])
    ]


def run_task(task: Task, settings: Settings, rng: np.random.Generator) -> list[Row]:
    data = {name: value for name, value in task.items() if name != "tests"}
    problem, x = _drawn(task_key(data))
    pvalues, seconds = {}, {}
    for name, options in GROUPS[task["tests"]].items():
        if options.get("method") != "ksdagg":  # it prescribes its own number
            options = dict(options, n_resamples=settings["n_resamples"])
        if "n_slices" in options:
            options = dict(options, n_slices=min(options["n_slices"], task["d"]))
        if options.get("estimator") == "exact":
            options = dict(options, score_q=problem.q)
        start = time.perf_counter()
        result = gof_test(x, problem.p, rng=rng, **options)
        seconds[name] = time.perf_counter() - start
        pvalues[name] = float(result.pvalue)
    null = problem.q is problem.p
    return [dict(task, level=problem.level, null=null, p=pvalues, seconds=seconds)]


@functools.lru_cache(maxsize=1)
def _drawn(key: str) -> tuple[Problem, Array]:
    """The problem and the samples of a task, which groups of tests that follow each other share."""
    task = json.loads(key)
    rng = task_rng("peers", task)
    hidden, size = task["hidden"] or 0, task["size"] or 0.0
    problem = make_peer_problem(task["problem"], task["d"], hidden, size, rng)
    return problem, problem.q.sample(task["n"], rng=rng)


class Results:
    """Decisions at level 0.05 by cell, test and trial; which model, and whether it is right."""

    def __init__(self, rows: list[Row]) -> None:
        self.decisions: dict[Cell, dict[str, dict[int, bool]]] = {}
        self.models: dict[Cell, str] = {}
        self.right: dict[Cell, bool] = {}
        self.levels: dict[tuple[str, str], list[int]] = {}
        self.seconds: dict[str, list[float]] = {name: [] for name in TESTS}
        for row in rows:
            cell = cell_of(row)
            self.models[cell] = row["level"]
            self.right[cell] = row["null"]
            for name, pvalue in row["p"].items():
                tests = self.decisions.setdefault(cell, {})
                tests.setdefault(name, {})[row["trial"]] = pvalue <= 0.05
                self.seconds[name].append(row["seconds"][name])
                if row["null"]:
                    count_rejection(self.levels, (row["level"], name), pvalue)

    def wrong(self) -> list[Cell]:
        """The cells in which the model is wrong."""
        return [cell for cell, right in self.right.items() if not right]

    def count(self, cell: Cell, name: str) -> tuple[int, int]:
        """Rejections and trials."""
        decisions = self.decisions[cell].get(name, {}).values()
        return sum(decisions), len(decisions)

    def rate(self, cell: Cell, name: str) -> float:
        """The rejection rate; none without trials."""
        rejected, trials = self.count(cell, name)
        return rejected / trials if trials else np.nan

    def shown(self, cell: Cell, name: str) -> str:
        """The rejection rate with its interval; with the number of trials if these are fewer."""
        rejected, trials = self.count(cell, name)
        if not trials:
            return ""
        fewer = f" of {trials}" if trials != self.count(cell, DEFAULT)[1] else ""
        return show_rate(rejected, trials) + fewer

    def level(self, model: str, name: str) -> tuple[int, int]:
        """Rejections and tests of right models of one kind."""
        rejected, trials = self.levels.get((model, name), (0, 0))
        return rejected, trials

    def best(self, cell: Cell) -> str:
        """The other test of largest rate, of those with enough trials."""
        least = max(1, ENOUGH * self.count(cell, DEFAULT)[1])
        names = [name for name in OTHERS if self.count(cell, name)[1] >= least]
        return max(names, key=lambda name: (self.rate(cell, name), self.count(cell, name)[1]))

    def compare(self, cell: Cell, name: str) -> tuple[float, float]:
        """The default's rate minus that of a test on the same samples, and its standard errors.

        Only samples on which the two disagree tell a difference. If neither is better, each
        disagreement is a fair coin, and the difference has McNemar's standard error.
        """
        other = self.decisions[cell][name]
        ours = self.decisions[cell][DEFAULT]
        gains = [int(ours[trial]) - int(other[trial]) for trial in other]
        apart = sum(map(abs, gains))
        return sum(gains) / len(gains), sum(gains) / apart**0.5 if apart else 0.0


def report(rows: list[Row], settings: Settings) -> list[Block]:
    results = Results(rows)
    blocks: list[Block] = [
        Text(
            f"{len(settings['cells'])} cells, level 0.05, {settings['n_resamples']} replicates; "
            "KSDAgg has its own 2000 + 2000. Every test sees the same samples. RFSD draws 40 n "
            "samples of the model for its null distribution and has fewer trials. PSD k: monomials "
            "of single coordinates, of degree k and less; with products: all of them. SKSD: the "
            "tests of the paper, a fifth of the samples for training, without debiasing; GO are "
            f"{_EPOCHS} epochs in minibatches of a tenth of them, at least 20. Ex knows the score "
            "of the samples, and is not compared with tests that do not. RBMs: a new random model "
            "in every trial, 2000 Gibbs steps."
        ),
        Text(
            "Published numbers are those of their authors, with their own code. AggInc and AggCom "
            "are KSDAgg with some and with all pairs. Gamma was published on the half line; here "
            "it is tested as a logarithm. The degree of a published PSD is not our k: degree 3 was "
            "published with rate 1 for Laplace samples, whose features have mean zero up to k = 3."
        ),
        Heading("The default against the best other test of each cell"),
        *_summary(results),
        Heading("Level: rejection rate where the model is right"),
        _level_table(results),
    ]
    for family, title in FAMILIES.items():
        cells = [cell for cell in results.right if cell.family == family]
        if cells:
            blocks += [Heading(title), _family_table(results, cells)]
    blocks += [Heading("Mean over the cells in which the model is wrong"), _mean_table(results)]
    return blocks


def label_of(cell: Cell) -> str:
    if cell.size is None:
        return cell.problem
    return {
        "RBM": f"RBM, {cell.hidden} hidden, sigma {cell.size:g}",
        "RBM with outliers": f"RBM, {cell.hidden} hidden, outliers {cell.size:g}",
        "Gamma": f"Gamma, shape + {cell.size:g}",
        "two modes": f"two modes, weight {cell.size:g}",
        "one variance": f"one variance {cell.size:g}",
    }[cell.problem]


def _published(cell: Cell) -> str:
    found = PUBLISHED.get((cell.problem, cell.d, cell.n, cell.hidden, cell.size), {})
    return ", ".join(f"{name} {rate:.3g}" for name, rate in found.items())


def _family_table(results: Results, cells: list[Cell]) -> Table:
    """One row per cell; those in which the model is right come first."""
    table = [
        [
            label_of(cell),
            cell.d,
            cell.n,
            results.count(cell, DEFAULT)[1],
            "right" if results.right[cell] else "wrong",
            *(results.shown(cell, name) for name in SHOWN),
            _published(cell),
        ]
        for cell in sorted(cells, key=lambda cell: (not results.right[cell], cell))
    ]
    return Table(["problem", "d", "n", "trials", "model", *SHOWN, "published"], table)


def _level_table(results: Results) -> Table:
    models = sorted({model for model, _ in results.levels})
    table = []
    for name in SHOWN:
        counts = [results.level(model, name) for model in models]
        total = sum(count[0] for count in counts), sum(count[1] for count in counts)
        shown = [show_rate(*count) if count[1] else "" for count in (*counts, total)]
        table.append([name, *shown, total[1]])
    return Table(["test", *models, "all", "tests"], table)


def _mean_table(results: Results) -> Table:
    cells = results.wrong()
    highest = [
        np.nanmax([results.rate(cell, name) for name in (DEFAULT, *OTHERS)]) for cell in cells
    ]
    table = []
    for name in SHOWN:
        rates = np.array([results.rate(cell, name) for cell in cells])
        known = rates[~np.isnan(rates)]
        if known.size:
            best, median = np.sum(rates >= highest), np.median(results.seconds[name])
            table.append([name, f"{known.mean():.3f}", known.size, best, f"{median:.3f}"])
    header = ["test", "mean rate", "cells", "cells in which none is higher", "median seconds"]
    return Table(header, table)


def _summary(results: Results) -> list[Block]:
    cells = results.wrong()
    best = {cell: results.best(cell) for cell in cells}
    compared = {cell: results.compare(cell, best[cell]) for cell in cells}
    behind = [
        f"{place_of(cell)} ({errors:+.1f})"
        for cell, (difference, errors) in compared.items()
        if difference < -MARGIN and errors < -2.0
    ]
    table = []
    for cell, name in best.items():
        rejected, trials = results.level(results.models[cell], name)
        difference, errors = compared[cell]
        table.append(
            [
                label_of(cell),
                cell.d,
                cell.n,
                f"{results.rate(cell, DEFAULT):.2f}",
                f"{results.rate(cell, name):.2f}",
                name,
                f"{rejected / trials:.2f}" if trials else "",
                results.count(cell, name)[1],
                f"{difference:+.2f}",
                f"{errors:+.1f}",
                "yes" if chosen_on(cell) else "",
            ]
        )
    header = ["problem", "d", "n", "default", "best other", "which", "its level", "common trials"]
    mean = np.mean([difference for difference, _ in compared.values()])
    others = [difference for cell, (difference, _) in compared.items() if not chosen_on(cell)]
    apart = f"; over the {len(others)} of other kinds {np.mean(others):+.3f}" if others else ""
    return [
        Text(
            f"Default minus the best other test, mean over {len(cells)} cells: {mean:+.3f}. The "
            f"best is chosen in hindsight among {len(OTHERS)} tests; RFSD only where it has a "
            f"fifth of the trials. Cells in which the default is more than {MARGIN:g} below it, by "
            f"more than two standard errors (their number): {'; '.join(behind) or 'none'}. The "
            "members of the default were chosen on problems of some of these kinds, with other "
            f"seeds (last column){apart}."
        ),
        Text(
            "Differences and standard errors come from the samples that both tests saw. A standard "
            "error is that of the number of samples on which exactly one of the two rejects, if "
            "neither is better (McNemar). 'Its level': how often the best other test rejects right "
            "models of the same kind."
        ),
        figure_of(
            _figure(results, best),
            "Rejection rate of the default test (dots) and of the best other test, by name",
        ),
        Table([*header, "default minus best", "standard errors", "chosen on"], table),
    ]


def place_of(cell: Cell) -> str:
    return f"{label_of(cell)}, d = {cell.d}, n = {cell.n}"


def _figure(results: Results, best: dict[Cell, str]) -> Any:
    """One line per cell from the best other test to the default, the largest loss on top."""
    rates = {cell: (results.rate(cell, DEFAULT), results.rate(cell, best[cell])) for cell in best}
    cells = sorted(best, key=lambda cell: rates[cell][0] - rates[cell][1], reverse=True)
    figure, axis = pyplot().subplots(figsize=(8.0, 0.24 * len(cells) + 0.9))
    for height, cell in enumerate(cells):
        ours, theirs = rates[cell]
        colour = "#d55e00" if ours < theirs else "#0072b2"
        axis.plot([theirs, ours], [height, height], color=colour, linewidth=1.5, zorder=1)
        axis.plot(theirs, height, "|", color=colour, markersize=9)
        axis.plot(ours, height, "o", color=colour, markersize=5)
        axis.text(1.04, height, best[cell], fontsize=7, color="#555555", va="center")
    axis.axvline(0.05, color="grey", linewidth=0.6)
    axis.set_yticks(range(len(cells)), [place_of(cell) for cell in cells], fontsize=7)
    axis.set_xlim(-0.02, 1.02)
    axis.set_xlabel("rejection rate: dot, the default test; bar, the best other test (right)")
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    return figure
