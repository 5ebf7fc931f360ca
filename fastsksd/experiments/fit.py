"""Models fitted to the samples that are tested: level and power of refits, and of naive tests.

Naive tests take the fitted model as if it had been known beforehand. Right models are normal
distributions, an ICA model and an energy-based model, whose parameters are fitted by maximum
likelihood or score matching. Wrong ones are normal distributions fitted to Student-t samples and to
a mixture.

Every run has one refit only. The refits of all runs together are the null distribution of each of
them (the warp-speed method of Giacomini, Politis and White, 2013). The rates are those of tests
with many refits, at a hundredth of the cost.

A cell of the settings is a name, a dimension and, where it has more runs than the others, their
number. One of "chains" is the coefficient of AR(1) chains, their number, draws of each, the
dimension, and whether they follow a normal distribution. Chains are thinned by their memory, which
differs from run to run, so that each test has refits of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, stdtrit

from .. import models
from .._typing import Array
from ..gof import gof_test
from ..procedure.combine import combine, member_weights
from ..procedure.fitted import statistics_of
from ..procedure.plan import Options
from ..scale.refits import Refit, examine_in_own_metric, names_of
from ..scale.refits import Task as OneRefit
from .chains import autoregressive
from .problems import correlated
from .report import Block, Heading, Table, Text, cells_of, rate_cells, rejections
from .runner import Row, Settings, Task

FIGURES = False
TITLE = "Fitted models: level and power"
_RIGHT = [["normal", 2], ["normal", 10], ["normal", 50], ["ICA", 5], ["energy", 2]]
_WRONG = [["t", 2], ["t", 10], ["mixture", 2], ["mixture", 10]]
_CHAINS = [
    [0.5, 4, 500, 2, True],
    [0.5, 4, 500, 10, True],
    [0.9, 1, 4000, 2, True],
    [0.9, 4, 1000, 10, True],
    [0.5, 4, 500, 2, False],
    [0.9, 4, 1000, 10, False],
]
SCALES = {
    "smoke": dict(
        cells=[["normal", 2], ["energy", 2], ["t", 2]], chains=[[0.5, 2, 300, 2, True]],
        n=100, runs=20, block=10, n_refits=19,
    ),
    "quick": dict(cells=_RIGHT + _WRONG, chains=_CHAINS, n=200, runs=100, block=10, n_refits=99),
    "paper": dict(
        cells=[[*cell, 1500] if cell[0] == "ICA" else cell for cell in _RIGHT + _WRONG],
        chains=_CHAINS, n=200, runs=400, block=10, n_refits=99,
    ),
}  # fmt: skip
_DF = 5.0
_APART = 2.0  # of the modes of the mixture from its mean, in standard deviations of a mode
_CELL = ("normal", "coefficient", "chains", "draws", "d")
_SPLITS = (0.5, 0.9)
_RESAMPLES = 199  # of tests without refits


class Energy(models.Model):
    """Energy ``theta . (x_1, x_2, x_1^2, x_1 x_2, x_2^2, x_1^4)`` in two dimensions.

    The normalising constant is not used. Given x_1, the coordinate x_2 is normal; x_1 is drawn from
    its marginal density on a grid.

    Parameters
    ----------
    theta : (6,) array
        Coefficients; those of x_2^2 and x_1^4 are positive.
    """

    d = 2

    def __init__(self, theta: Array) -> None:
        if not (theta[4] > 0 and theta[5] > 0):
            raise ValueError("the energy has no lower bound.")
        self.theta = theta

    @classmethod
    def fit(cls, x: Array) -> Energy:
        """Fit by score matching, which is a linear equation here (Hyvarinen, 2007).

        Parameters
        ----------
        x : (n, 2) array
            Samples.

        Returns
        -------
        Energy
            The model.
        """
        gradients = _gradients(x)
        matrix = np.einsum("fnd,gnd->fg", gradients, gradients) / len(x)
        laplacians = np.array([0.0, 0.0, 2.0, 0.0, 2.0, 12.0 * np.mean(x[:, 0] ** 2)])
        return cls(np.linalg.solve(matrix, laplacians))

    def score(self, x: Any) -> Array:
        """Score at the rows of `x`."""
        return -np.einsum("f,fnd->nd", self.theta, _gradients(self._check_points(x)))

    def sample(self, n: int, *, rng: Any = None) -> Array:
        """Independent samples."""
        a, b, c, e, f, g = self.theta
        rng = np.random.default_rng(rng)
        grid = np.linspace(-8.0, 8.0, 20001)
        logs = -(a * grid + c * grid**2 + g * grid**4) + (b + e * grid) ** 2 / (4.0 * f)
        mass = np.cumsum(np.exp(logs - logs.max()))
        x = np.interp(rng.uniform(size=n), mass / mass[-1], grid)
        y = -(b + e * x) / (2.0 * f) + rng.standard_normal(n) / np.sqrt(2.0 * f)
        return np.column_stack([x, y])


def _gradients(x: Array) -> Array:
    """Gradients of the features, (6, n, 2)."""
    u, v = x.T
    zero, one = np.zeros_like(u), np.ones_like(u)
    first = np.stack([one, zero, 2.0 * u, v, zero, 4.0 * u**3])
    return np.stack([first, np.stack([zero, one, zero, u, 2.0 * v, zero])], axis=2)


class Case(NamedTuple):
    """Samples, and how a model is fitted to them."""

    draw: Callable[[int, np.random.Generator], Array]
    fit: Callable[[Array], Any]
    right: bool


def make_case(name: str, d: int) -> Case:
    """A case by name; correlations are those of an AR(1) process with coefficient 0.6."""
    root = np.linalg.cholesky(correlated(d))
    normal = models.Gaussian.fit
    if name == "normal":
        return Case(lambda n, rng: rng.standard_normal((n, d)) @ root.T, normal, True)
    if name == "t":
        return Case(lambda n, rng: rng.standard_t(_DF, (n, d)) @ root.T, normal, False)
    if name == "mixture":  # of two modes along the first coordinate

        def draw(n: int, rng: np.random.Generator) -> Array:
            z = rng.standard_normal((n, d))
            z[:, 0] += rng.choice([-_APART, _APART], n)
            return z @ root.T

        return Case(draw, normal, False)
    if name == "ICA":
        truth = models.ICA.random(d, df=_DF, rng=0)
        return Case(lambda n, rng: truth.sample(n, rng=rng), models.ICA.fit, True)
    assert name == "energy"
    energy = Energy(np.array([0.0, 0.2, -1.0, 0.5, 0.5, 0.4]))
    return Case(lambda n, rng: energy.sample(n, rng=rng), Energy.fit, True)


def tasks(settings: Settings) -> list[Task]:
    found = [
        dict(case=name, d=d, block=k)
        for name, d, *more in settings["cells"]
        for k in range((more or [settings["runs"]])[0] // settings["block"])
    ]
    names = ("coefficient", "chains", "draws", "d", "normal")
    found += [
        dict(case="chains", **dict(zip(names, cell, strict=True)), block=k)
        for cell in settings["chains"]
        for k in range(settings["runs"] // settings["block"])
    ]
    return sorted(found, key=lambda task: task["block"])


def run_task(task: Task, settings: Settings, rng: np.random.Generator) -> list[Row]:
    if task["case"] == "chains":
        return [
            {**task, "run": run, **_one_run_of_chains(task, settings["n_refits"], rng)}
            for run in range(settings["block"])
        ]
    case = make_case(task["case"], task["d"])
    return [
        {**task, "run": run, **_one_run(case, settings["n"], task["d"], rng)}
        for run in range(settings["block"])
    ]


def _one_run(case: Case, n: int, d: int, rng: np.random.Generator) -> Row:
    """Statistics of the samples and of one refit, and p-values of other tests."""
    x = case.draw(n, rng)
    model, refit = case.fit(x), Refit(case.fit, progress=False)
    options = Options(n_resamples=1, rng=rng)
    examined = examine_in_own_metric(x, model, options, rng)
    members = examined.outcome.members
    again = OneRefit(model, n, d, refit, options, names_of(examined))
    statistics, error = again((0, rng.bit_generator.seed_seq.spawn(1)[0]))
    row: Row = {
        "statistics": statistics_of(examined.outcome).tolist(),
        "refit": statistics,
        "failed": error,
        "weights": member_weights([(one.kind, one.share) for one in members]).tolist(),
        "naive": gof_test(x, model, n_resamples=_RESAMPLES, rng=rng).pvalue,
    }
    for split in _SPLITS:
        parts = Refit(case.fit, split=split, progress=False)
        row[f"split {split}"] = gof_test(x, fit=parts, n_resamples=_RESAMPLES, rng=rng).pvalue
    return row


def _one_run_of_chains(task: Task, n_refits: int, rng: np.random.Generator) -> Row:
    """P-values of chains whose coordinates are normal, or t by way of their quantiles."""
    x = autoregressive(np.full(task["d"], task["coefficient"]), task["chains"], task["draws"], rng)
    if not task["normal"]:
        x = stdtrit(_DF, ndtr(x))
    refit = Refit(models.Gaussian.fit, progress=False)
    result = gof_test(x, fit=refit, n_resamples=n_refits, rng=rng)
    model = models.Gaussian.fit(x.reshape(-1, task["d"]))
    known = gof_test(x, model, n_resamples=_RESAMPLES, rng=rng)
    return {
        "refits": None if result.draws_needed else result.pvalue,
        "naive": None if known.draws_needed else known.pvalue,
        "tested": result.n_test,
    }


def pvalues_of(rows: list[Row]) -> Array:
    """P-values of runs by the refits of all of them; failed ones count as evidence as strong."""
    refits = np.array([row["refit"] for row in rows if row["refit"] is not None])
    n_failed = len(rows) - len(refits)
    found = [
        combine(np.array(row["statistics"]), refits.T, np.array(row["weights"])).pvalue
        for row in rows
    ]
    return (np.array(found) * (1 + len(refits)) + n_failed) / (1 + len(rows))


def report(rows: list[Row], settings: Settings) -> list[Block]:
    tests = ["refits", "naive", *(f"split {one}" for one in _SPLITS)]
    header = ["samples", "d", "tests", *tests, "failed refits"]
    tables: dict[bool, list[list[Any]]] = {True: [], False: []}
    of_chains = [row for row in rows if row["case"] == "chains"]
    sets = [row for row in rows if row["case"] != "chains"]
    for (name, d), some in cells_of(sets, "case", "d").items():
        rates = []
        for test in tests:
            found = pvalues_of(some) if test == "refits" else np.array([row[test] for row in some])
            rates.append(_rate(found))
        failed = sum(row["failed"] is not None for row in some)
        tables[make_case(name, d).right].append([name, d, len(some), *rates, failed])
    return [
        Text(
            f"{settings['n']} samples, level 0.05: fraction of tests that reject, with 95% "
            "intervals (Wilson). Refits: gof_test with fit=; the null distribution is that of one "
            "refit of every run. Naive: the fitted model as if it had been known. Split: fitted to "
            "this fraction of the samples and tested on the others."
        ),
        Heading("The fitted family is right"),
        Table(header, tables[True]),
        Heading("The fitted family is wrong: normal distributions"),
        Table(header, tables[False]),
        Heading("Chains: normal distributions fitted to thinned draws"),
        Text(
            "AR(1) chains whose coordinates are normal, or t(5) distributed. Without a verdict: "
            "chains that are too short to tell."
        ),
        Table(
            [
                "draws",
                "coefficient",
                "chains",
                "of length",
                "d",
                "tests",
                "without a verdict",
                "draws left",
                "refits",
                "naive",
            ],
            [_of_chains(cell, some) for cell, some in cells_of(of_chains, *_CELL).items()],
        ),
    ]


def _of_chains(cell: tuple[Any, ...], rows: list[Row]) -> list[Any]:
    normal, *others = cell
    told = [row for row in rows if row["refits"] is not None]
    left = f"{np.median([row['tested'] for row in told]):.0f}" if told else ""
    rates = [_rate(row["refits"] for row in rows), _rate(row["naive"] for row in rows)]
    kind = "normal" if normal else "t (wrong)"
    return [kind, *others, len(rows), len(rows) - len(told), left, *rates]


def _rate(pvalues: Iterable[float | None]) -> str:
    rate, bounds = rate_cells(*rejections(pvalues))
    return f"{rate} ({bounds})" if rate else ""
