"""What the default test would be with other choices: on the same samples, other seeds than before.

How members are combined
    The same members with the same joint replicates, combined by other power means of their
    p-values, or with other shares of the level.
Coordinates and split
    The default with one metric, or with a fifth of the samples for training in place of
    cross-fitting; in more than one dimension.
More members
    The same members, and moments along active directions: sums over some degrees and over the top
    1, 3 or 10 directions, as a further kind. With fewer trials.
Members
    Each alone. The best of a cell is picked in hindsight, and on half of the trials and rated on
    the others.

Problems are those of the study `peers`, and normal models with an AR(1) correlation of 0.6 and
columns in units of ``exp(1.5 z)``, z normal, that are new in every trial: samples of 0.9 times the
deviations, and samples without the tenth that is farthest out along a random direction of the
whitened space. The scale paper takes about half an hour on one core.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._typing import Array, Rng
from .._validate import check_rng
from ..gof import examine, gof_test
from ..models import Gaussian, Model
from ..procedure.combine import combine, decide, member_weights
from ..procedure.metric import NAMES
from ..procedure.plan import Options
from .active_moments import SUMS, TOP, with_active_moments
from .peer_problems import make_peer_problem
from .peers import CELLS, Cell, cell_of, chosen_on, label_of
from .power import members_alone
from .problems import Problem, correlated
from .report import Block, Heading, Table, Text, cells_of
from .runner import Row, Settings, Task, task_rng

FIGURES = False
TITLE = "Choices of the default test"
DEFAULT = "default"
# Exponent of the power mean, and factors of the shares of some kinds; None for equal weights.
RULES: dict[str, tuple[float, dict[str, float] | None]] = {
    "smallest p": (np.inf, {}),
    "mean of p^-3/4": (0.75, {}),
    "mean of p^-1/2": (0.5, {}),
    "sum of -log p": (0.0, {}),
    "equal weights": (1.0, None),
    "location x 1.5": (1.0, {"location": 1.5}),
    "location x 2": (1.0, {"location": 2.0}),
    "linear kernels x 2": (1.0, {f"linear kernel, {one}": 2.0 for one in ("diagonal", "full")}),
}
TESTS: dict[str, dict[str, Any]] = {
    "raw": dict(precondition="raw"),
    "diagonal": dict(precondition="diagonal"),
    "full": dict(precondition="full"),
    "train=0.2": dict(train=0.2),
}
MORE = tuple(f"{name}, top {top}" for name in SUMS for top in TOP)
_FAMILY = "mixed units"
_MIXED = [
    dict(family=_FAMILY, problem=problem, d=d, n=n, hidden=None, size=size)
    for problem, size, sizes in (
        ("missing tail", 0.1, ((10, 300), (30, 500))),
        ("deviations", 0.9, ((10, 100), (30, 100))),
        ("deviations", 1.0, ((10, 100), (30, 500))),
    )
    for d, n in sizes
]
_CELLS = [cell_of(cell)._asdict() for cell in CELLS if cell["n"] <= 1000] + _MIXED
_SMALL = [dict(cell, d=3, n=100) for cell in (*_MIXED[::2], _CELLS[0])]
SCALES: dict[str, Settings] = {
    "smoke": dict(cells=_SMALL, trials=2, more=1, n_resamples=49),
    "quick": dict(cells=_CELLS, trials=8, more=4, n_resamples=300),
    "paper": dict(cells=_CELLS, trials=40, more=20, n_resamples=500),
}


class WithoutTail(Model):
    """A normal distribution without the share that is farthest out along a direction.

    The direction v is one of the whitened space, where samples are standard normal. It has no
    score.
    """

    d: int

    def __init__(self, cov: Array, v: Array, share: float) -> None:
        self.d = v.size
        self.root, self.v, self.share = np.linalg.cholesky(cov), v, share

    def sample(self, n: int, *, rng: Rng = None) -> Array:
        from scipy.special import ndtri

        rng = check_rng(rng)
        z = rng.standard_normal((n, self.d))
        along = ndtri((1.0 - self.share) * rng.random(n))
        return (z + np.outer(along - z @ self.v, self.v)) @ self.root.T


def tasks(settings: Settings) -> list[Task]:
    tasks = []
    for trial in range(settings["trials"]):
        of_trial = [dict(cell, trial=trial) for cell in settings["cells"]]
        tasks += of_trial
        if trial < settings["more"]:  # in one dimension there is no choice of directions
            tasks += [dict(task, more=True) for task in of_trial if task["d"] > 1]
    return tasks


def run_task(task: Task, settings: Settings, rng: np.random.Generator) -> list[Row]:
    if "more" in task:
        return [_with_more_members(task, settings)]
    problem = _make(cell_of(task), rng)
    x = problem.q.sample(task["n"], rng=rng)
    common: dict[str, Any] = dict(n_resamples=settings["n_resamples"], rng=rng)
    examined = examine(x, problem.p, Options(**common))
    verdict, members = decide(examined.plan, examined.outcome), examined.outcome.members
    p = {DEFAULT: verdict.pvalue}
    statistics = np.array([one.statistic for one in members])
    replicates = np.array([one.replicates for one in members])
    for name, (exponent, factors) in RULES.items():
        weights: Array | float = 1.0
        if factors is not None:
            shares = [(one.kind, one.share * factors.get(one.kind, 1.0)) for one in members]
            weights = member_weights(shares)
        p[name] = combine(statistics, replicates, weights, exponent).pvalue
    for name, options in TESTS.items() if task["d"] > 1 else ():
        p[name] = gof_test(x, problem.p, **common, **options).pvalue
    null, alone = problem.q is problem.p, members_alone(verdict.members)
    return [dict(task, null=null, p=p, members=alone)]


def _with_more_members(task: Task, settings: Settings) -> Row:
    """Samples and signs are those of the same task without more members."""
    given = {name: value for name, value in task.items() if name != "more"}
    rng = task_rng("choices", given)
    problem = _make(cell_of(task), rng)
    x = problem.q.sample(task["n"], rng=rng)
    options = Options(n_resamples=settings["n_resamples"], rng=rng)
    default, candidates = with_active_moments(x, problem.p, options)
    p = {DEFAULT: combine(*default[1:], member_weights(default.kinds)).pvalue}
    for name, one in candidates.items():
        statistics = np.append(default.statistics, one.statistics)
        replicates = np.vstack([default.replicates, one.replicates])
        weights = member_weights(default.kinds + one.kinds)
        p[name] = combine(statistics, replicates, weights).pvalue
    return dict(task, null=problem.q is problem.p, p=p)


def _make(cell: Cell, rng: np.random.Generator) -> Problem:
    """The problem of a cell."""
    size = cell.size or 0.0
    if cell.family != _FAMILY:
        return make_peer_problem(cell.problem, cell.d, cell.hidden or 0, size, rng)
    units = np.exp(1.5 * rng.standard_normal(cell.d))
    cov = units[:, None] * correlated(cell.d) * units
    p = Gaussian(np.zeros(cell.d), cov)
    if cell.problem == "missing tail":
        v = rng.standard_normal(cell.d)
        return Problem(p, WithoutTail(cov, v / np.linalg.norm(v), size), cell.family)
    q = p if size == 1.0 else Gaussian(np.zeros(cell.d), size**2 * cov)
    return Problem(p, q, cell.family)


def _label(cell: Cell) -> str:
    if cell.family != _FAMILY:
        return label_of(cell)
    return f"{cell.problem} {cell.size:g}, {_FAMILY}"


def _joined(rows: list[Row]) -> list[Row]:
    """One row for each cell and trial, those with more members joined to the others."""
    joined = []
    for same in cells_of(rows, *Cell._fields, "trial").values():
        if "members" in same[0]:
            p = {name: value for row in same for name, value in row["p"].items()}
            joined.append(dict(same[0], p=p))
    return joined


class _Results:
    """Decisions at level 0.05, (trials,) arrays by cell and test; of members apart."""

    def __init__(self, rows: list[Row]) -> None:
        by_cell = cells_of(_joined(rows), *Cell._fields)
        self.cells = {Cell(*key): some for key, some in by_cell.items()}
        self.wrong = [cell for cell, some in self.cells.items() if not some[0]["null"]]
        self.right = [cell for cell in self.cells if cell not in self.wrong]

    def decisions(self, cell: Cell, name: str, of: str = "p", where: str | None = None) -> Array:
        """Of one test in the trials of a cell in which it, or another one, was made."""
        made = name if where is None else where
        return np.array([row[of][name] <= 0.05 for row in self.cells[cell] if made in row[of]])

    def gains(self, name: str, cells: list[Cell]) -> tuple[float, float, float]:
        """Mean power over cells; what it is more than the default's there; its standard error."""
        pairs = [
            (self.decisions(cell, name), self.decisions(cell, DEFAULT, where=name))
            for cell in cells
        ]
        pairs = [(ours, default) for ours, default in pairs if ours.size]
        if not pairs:
            return np.nan, np.nan, np.nan
        differences = [ours.astype(float) - default for ours, default in pairs]
        variances = [one.var() / one.size for one in differences]
        power = np.mean([ours.mean() for ours, _ in pairs])
        error = np.sqrt(np.sum(variances)) / len(pairs)
        return float(power), float(np.mean([one.mean() for one in differences])), float(error)

    def level(self, name: str) -> tuple[int, int]:
        """Rejections and tests of right models."""
        found = np.concatenate([np.empty(0), *(self.decisions(one, name) for one in self.right)])
        return int(found.sum()), found.size

    def best_member(self, cell: Cell, trials: slice = slice(None)) -> str:
        """The member with the largest rate in some trials."""
        rows = self.cells[cell][trials]
        return max(
            rows[0]["members"], key=lambda name: sum(r["members"][name] <= 0.05 for r in rows)
        )

    def best_gain(self, cell: Cell) -> tuple[float, float]:
        """The best member's rate less the default's: in hindsight, and rated on other trials."""
        default, gains = self.decisions(cell, DEFAULT), []
        for picked, rated in ((slice(None),) * 2, (slice(0, None, 2), slice(1, None, 2)),
                              (slice(1, None, 2), slice(0, None, 2))):  # fmt: skip
            member = self.decisions(cell, self.best_member(cell, picked), "members")
            gains.append(member[rated].mean() - default[rated].mean())
        return gains[0], 0.5 * (gains[1] + gains[2])


def report(rows: list[Row], settings: Settings) -> list[Block]:
    results = _Results(rows)
    counts = [len(some) for some in results.cells.values()]
    known = [cell for cell in results.wrong if chosen_on(cell)]
    new = [cell for cell in results.wrong if not chosen_on(cell)]
    halved = [cell for cell in results.wrong if len(results.cells[cell]) > 1]
    gains = np.array([results.best_gain(cell) for cell in halved])
    return [
        Text(
            f"{len(results.cells)} cells with {min(counts, default=0)} to "
            f"{max(counts, default=0)} trials, level 0.05, {settings['n_resamples']} replicates. "
            "Problems are those of the study of other tests, with other seeds, and correlated "
            "normal models in mixed units. The default and all rules have the same samples, "
            "members and joint replicates; the other tests have the same samples. Location, scale "
            "and shape, and degrees 1 to 3 are moments along so many active directions, a further "
            "kind beside the same members, in more than one dimension and in fewer trials."
        ),
        Heading("Other choices, against the default"),
        Text(
            f"Mean power over the {len(results.wrong)} cells with a wrong model, and what it is "
            "more than the default's in the same cells, with its standard error; the same over "
            f"the {len(known)} cells of kinds on which the members were chosen (RBMs, rotated "
            f"ones, mean shift, one variance), and over the {len(new)} others."
        ),
        _choices_table(results, known, new),
        Heading("The best member of each cell"),
        Text(
            "Each member as a test of its own (the p-values of halves combined by Bonferroni's "
            f"inequality). The best one less the default: {_means(gains)}."
        ),
        _members_table(results),
        Heading("All cells"),
        _cells_table(results),
    ]


def short_table(rows: list[Row]) -> Table:
    """The choices by themselves: gains over the default, and levels."""
    results = _Results(rows)
    known = [cell for cell in results.wrong if chosen_on(cell)]
    new = [cell for cell in results.wrong if not chosen_on(cell)]
    table = []
    for name in (DEFAULT, *RULES, *TESTS, *MORE):
        parts = [results.gains(name, cells) for cells in (results.wrong, known, new)]
        if name == DEFAULT:
            gains = [f"power {parts[0][0]:.3f}", *(f"{part[0]:.3f}" for part in parts[1:])]
        else:
            gains = [f"{part[1]:+.3f}" for part in parts]
            gains[0] += f" ({parts[0][2]:.3f})"
        rejected, tests = results.level(name)
        shown = f'`precondition="{name}"`' if name in NAMES else _SHOWN.get(name, name)
        table.append([shown, *gains, f"{rejected / tests:.3f}"])
    return Table(["choice", "mean power less the default's", "(c)", "others", "level"], table)


_SHOWN = {
    "smallest p": "smallest weighted p in place of the harmonic mean",
    "equal weights": "equal weights of all members",
    "location x 1.5": "share of the location 1.5 times as large",
    "location x 2": "share of the location 2 times as large",
    "linear kernels x 2": "share of linear kernels 2 times as large",
    "train=0.2": "`train=0.2` in place of cross-fitting",
}


def _means(gains: Array) -> str:
    """The mean gains of the best member over cells, in words."""
    if not len(gains):
        return "too few trials"
    means, errors = gains.mean(axis=0), gains.std(axis=0) / np.sqrt(len(gains))
    return (
        f"{means[0]:+.3f} picked in hindsight in each cell, {means[1]:+.3f} picked on half of its "
        f"trials and rated on the others; means over {len(gains)} cells with a wrong model, "
        f"standard errors over cells {errors[0]:.3f} and {errors[1]:.3f}"
    )


def _choices_table(results: _Results, known: list[Cell], new: list[Cell]) -> Table:
    table = []
    for name in (DEFAULT, *RULES, *TESTS, *MORE):
        power, gain, error = results.gains(name, results.wrong)
        rejected, tests = results.level(name)
        others = [
            f"{results.gains(name, cells)[1]:+.3f}" if cells else "" for cells in (known, new)
        ]
        rate = f"{rejected / tests:.3f}" if tests else ""
        table.append([name, f"{power:.3f}", f"{gain:+.3f} ({error:.3f})", *others, rate, tests])
    header = ["choice", "mean power", "less the default", "kinds chosen on", "other kinds"]
    return Table([*header, "level", "tests"], table)


def _members_table(results: _Results) -> Table:
    names = sorted({name for some in results.cells.values() for name in some[0]["members"]})
    table = []
    for name in names:
        cells = [one for one in results.wrong if results.decisions(one, name, "members").size]
        rates = [results.decisions(cell, name, "members").mean() for cell in cells]
        best = sum(results.best_member(cell) == name for cell in cells)
        table.append([name, f"{np.mean(rates):.3f}" if rates else "", best, len(cells)])
    return Table(["member alone", "mean power", "best in cells", "of"], table)


def _cells_table(results: _Results) -> Table:
    table = []
    for cell, some in results.cells.items():
        best = results.best_member(cell)
        rates = [results.decisions(cell, name) for name in (DEFAULT, *RULES, *TESTS)]
        rates.append(results.decisions(cell, best, "members"))
        table.append(
            [
                _label(cell),
                cell.d,
                cell.n,
                len(some),
                "right" if some[0]["null"] else "wrong",
                *(f"{one.mean():.2f}" if one.size else "" for one in rates),
                best,
            ]
        )
    names = [DEFAULT, *RULES, *TESTS]
    return Table(["problem", "d", "n", "trials", "model", *names, "best member", "which"], table)
