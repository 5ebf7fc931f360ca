"""Training of an ICA model by Stein discrepancies (Section "Model learning: ICA"), and a better way to do it.

The model is ``x = W z`` with independent Student-t sources; what is trained is ``A = W^-1``. With ``u = A x`` its score is
``A^T psi(u)``, and a gradient G in the scores, (n, d), becomes in A  ``psi(U)^T G + (psi'(U) * (G A^T))^T X``.
"""

import json
import time
import zlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._progress import ProgressBar
from .._validate import (
    check_betas,
    check_choice,
    check_integer,
    check_number,
    check_rng,
    check_samples,
    frozen,
    real_array,
)
from ..compute.linalg import gram, product
from ..kernels import as_kernel
from ..models import ICA, StudentT
from .checkpoint import load_checkpoint, save_checkpoint
from .loss import KernelSteinLoss, SlicedSteinLoss
from .lsd import LearnedSteinLoss
from .scoring import Scoring

_LARGEST = 1e100  # entry of a model that is still computed with

METHODS = ("sksd-scoring", "sksd-g+ke+go", "sksd-g+ex+go", "sksd-g+go", "sksd-rg+go", "ksd", "lsd")


class ICAProblem(NamedTuple):
    """Data for `fit_ica`: training and test samples, and where known the model behind them and the W^-1 to begin with."""

    x_train: np.ndarray
    x_test: np.ndarray
    truth: ICA | None = None
    initial: np.ndarray | None = None


class Trace(NamedTuple):
    """What was seen along training, one entry for each evaluation: `value` is the mean training loss since the one before."""

    step: np.ndarray
    value: np.ndarray
    nll: np.ndarray
    gap: np.ndarray


class Diverged(RuntimeError):
    """Training that can't go on, since the loss or the model is no longer finite; `step` says since when."""

    def __init__(self, message, step):
        super().__init__(message)
        self.step = step


@dataclass(frozen=True, eq=False, repr=False)
class ICAFit:
    """A trained ICA model.

    Attributes
    ----------
    model : models.ICA
    unmixing : (d, d) array
        ``W^-1``, the parameter that was trained.
    nll, true_nll, gap : float
        Mean negative log-likelihood of the test samples under the model and under the true one, and the difference; NaN where the
        truth is not known.
    trace : Trace
    method : str
    settings : dict
    seconds : float
        Spent on training, evaluation included, that of runs before an interruption too.
    """

    model: ICA
    unmixing: np.ndarray
    nll: float
    true_nll: float
    gap: float
    trace: Trace
    method: str
    settings: dict
    seconds: float

    def __repr__(self):
        truth = (
            ""
            if np.isnan(self.gap)
            else f", {self.gap:.3g} above the true model's {self.true_nll:.4g}"
        )
        return (
            f"ICAFit(method={self.method!r}, d={self.model.d}, steps={self.settings['steps']}: test NLL {self.nll:.4g}{truth}; "
            f"{self.seconds:.1f} s)"
        )


def ica_problem(d, *, n_train=20000, n_test=5000, df=5, rng=None):
    """Samples of a random ICA model, from the generator of the published experiment.

    The true ``W^-1`` has standard normal entries and the initial one entries of variance ``1 / d``, both drawn afresh until their
    condition number is at most `d`.

    Returns
    -------
    ICAProblem

    Examples
    --------
    >>> from fastsksd import learning
    >>> learning.ica_problem(10, n_train=100, rng=0).x_train.shape
    (100, 10)
    """
    n_train, n_test = check_integer("n_train", n_train, 2), check_integer("n_test", n_test, 1)
    rng = check_rng(rng)
    truth, start = (ICA.random(d, df=df, rng=rng) for _ in range(2))
    initial = np.linalg.inv(start.W) / np.sqrt(d)
    return ICAProblem(truth.sample(n_train, rng=rng), truth.sample(n_test, rng=rng), truth, initial)


def fit_ica(
    data,
    *,
    method="sksd-scoring",
    df=5,
    steps=None,
    batch_size=None,
    learning_rate=None,
    betas=(0.9, 0.99),
    every=200,
    slice_samples=3000,
    kernel="rbf",
    statistic="v",
    evaluate_every=None,
    checkpoint=None,
    rng=None,
    progress=False,
):
    """Train an ICA model by a Stein discrepancy, through its score alone.

    Parameters
    ----------
    data : ICAProblem or pair (x_train, x_test)
        Samples to train on and to evaluate on, (n, d) each; an `ICAProblem` may also hold the true model, for the gap to it and
        for "sksd-g+ex+go", and the ``W^-1`` to begin with, by default random.
    method : str
        "sksd-scoring"
            Gauss-Newton with the derivatives that the model itself expects, on the d^2 slices of the sources' coordinates, from
            decorrelated sources, on all samples at once; see `fastsksd.learning.scoring`. It ends near maximum likelihood.
        "sksd-g+ke+go", "sksd-g+ex+go"
            The paper's: active slices every `every` steps, from `slice_samples` samples and the estimated or the exact score
            difference; in between, g climbs while the model descends.
        "sksd-g+go", "sksd-rg+go"
            Without active slices: g, or r as well, climb from the coordinates.
        "ksd", "lsd"
            Kernelized Stein discrepancy; learned Stein discrepancy, with a neural critic (needs the extra ``fastsksd[jax]``).
    df : float
        Degrees of freedom of the model's sources.
    steps, batch_size, learning_rate : int, int, float
        By default 15000, 100 and 1e-3 (Adam's), as in the paper; for "sksd-scoring" 100, all samples and 1, the share of a
        Gauss-Newton step taken, to be lowered for minibatches.
    betas : pair of float
        Adam's, for the model and for slices.
    every, slice_samples : int
        Steps between refreshes of active slices, and samples for each.
    kernel : {"rbf", "imq"} or kernel object
    statistic : {"v", "u"}
        The V-statistic is the default of the published script; see the notes.
    evaluate_every : int, optional
        Steps between evaluations on the test samples; by default a twentieth of all.
    checkpoint : path, optional
        File that every evaluation replaces by the state of the run. If it is there already the run goes on from it, and ends as
        it would have without interruption; a file from other settings or data is refused.
    rng : None, int or numpy.random.Generator
        Source of minibatches and of what else is random.
    progress : bool
        Show a progress bar on standard error.

    Returns
    -------
    ICAFit

    Raises
    ------
    Diverged
        When the loss or the model is no longer finite. The checkpoint keeps the last state evaluated.

    Notes
    -----
    Why the paper's methods stop short of the truth, 70 nats at d = 150 in the paper and here. The V-statistic of 100 samples adds
    ``mean |s|^2 / 100`` to the loss: begun at the truth, "sksd-g+go" leaves it for a model 61 nats worse at d = 150, 12 at d = 80,
    there with a tenth of the step too. The U-statistic is noisier: at d = 80 it is 26 nats off after 7500 steps, but 0.4 with a
    tenth of the step. The rest is conditioning: in the coordinates of W^-1 15000 steps hardly suffice from the random start, while
    sources that are merely decorrelated are 5 nats above the truth (10 at d = 150). And what is left to find then, a rotation, has
    a hundredth of the curvature; see `fastsksd.learning.scoring`.

    "sksd-scoring" ends ``d^2 / (2 n)`` nats above the truth, divided by its efficiency: 0.59 at the median bandwidth, 0.89 at
    ``RBF(5.0)``, 1 for maximum likelihood.

    Examples
    --------
    >>> from fastsksd import learning
    >>> problem = learning.ica_problem(4, n_train=4000, rng=0)
    >>> fit = learning.fit_ica(problem, steps=40)
    >>> fit.method, bool(abs(fit.gap) < 0.05)
    ('sksd-scoring', True)
    """
    check_choice("method", method, METHODS)
    scoring = method == "sksd-scoring"
    problem = _check_problem(data)
    n = problem.x_train.shape[0]
    settings = {
        "method": method,
        "df": check_number("df", df, 0.0, strict=True),
        "steps": check_integer("steps", (100 if scoring else 15000) if steps is None else steps, 1),
        "batch_size": check_integer(
            "batch_size",
            (n if scoring else min(n, 100)) if batch_size is None else batch_size,
            2,
            n,
        ),
        "learning_rate": check_number(
            "learning_rate",
            (1.0 if scoring else 1e-3) if learning_rate is None else learning_rate,
            0.0,
            strict=True,
        ),
        "betas": check_betas(betas),
        "every": check_integer("every", every, 1),
        "slice_samples": min(n, check_integer("slice_samples", slice_samples, 3)),
        "kernel": repr(as_kernel(kernel)),
        "statistic": check_choice("statistic", statistic, ("u", "v")),
    }
    default = max(1, settings["steps"] // 20)
    settings["evaluate_every"] = check_integer(
        "evaluate_every", default if evaluate_every is None else evaluate_every, 1
    )
    seed = check_rng(rng).integers(2**63)
    settings["data"] = zlib.crc32(problem.x_test, zlib.crc32(problem.x_train))
    settings["rng"] = None if rng is None else int(seed)
    run = _Run(problem, settings, as_kernel(kernel), np.random.default_rng(seed))
    if checkpoint is not None:
        run.load(checkpoint)
    run.train(checkpoint, ProgressBar(f"ICA {method}") if progress else None)
    return run.result()


def score_and_pullback(unmixing, x, df):
    """Scores of the model at `x`, (n, d), and the function that turns a gradient in them into one in `unmixing`."""
    sources = StudentT(unmixing.shape[0], df)
    u = product(x, unmixing)
    psi, slope = sources.score(u), sources.score_along(u, np.ones(u.shape[1]))

    def pullback(by_score):
        return product(psi.T, by_score.T) + product((slope * product(by_score, unmixing)).T, x.T)

    return product(psi, unmixing.T), pullback


def negative_log_likelihood(unmixing, x, df):
    """Mean over the rows of `x`."""
    sources = StudentT(unmixing.shape[0], df)
    return float(-np.linalg.slogdet(unmixing)[1] - sources.log_density(product(x, unmixing)).mean())


class _Run:
    """A training run: the model, what trains it, and what has been seen so far."""

    def __init__(self, problem, settings, kernel, rng):
        self.problem = problem
        self.settings = settings
        self.rng = rng
        self.step = 0
        self.seconds = 0.0
        self.values = []
        self.trace = []
        self.df = settings["df"]
        x = problem.x_train
        initial = problem.initial
        if initial is None:
            initial = np.linalg.inv(ICA.random(x.shape[1], rng=rng).W) / np.sqrt(x.shape[1])
        self.true_nll = (
            np.nan
            if problem.truth is None
            else float(-problem.truth.log_density(problem.x_test).mean())
        )
        if settings["method"] == "sksd-scoring":
            self.trainer = _ScoringDescent(initial, x, self.df, kernel, settings["learning_rate"])
        else:
            loss = self._loss(settings["method"], kernel)
            self.trainer = _AdamDescent(
                initial, self.df, loss, settings["learning_rate"], settings["betas"]
            )

    def _loss(self, method, kernel):
        settings = self.settings
        d = self.problem.x_train.shape[1]
        if method == "ksd":
            return KernelSteinLoss(kernel=kernel, statistic=settings["statistic"])
        if method == "lsd":
            return LearnedSteinLoss(d, rng=self.rng)
        options = {name: settings[name] for name in ("every", "statistic", "betas")}
        if method in ("sksd-g+ke+go", "sksd-g+ex+go"):
            exact = method == "sksd-g+ex+go"
            options |= {"fresh": self._fresh, "estimator": "exact" if exact else "ke"}
            if exact:
                if self.problem.truth is None:
                    raise ValueError("`data` must hold the true model for method='sksd-g+ex+go'.")
                options["score_q"] = self.problem.truth
        refine = "rg" if method == "sksd-rg+go" else "g"
        return SlicedSteinLoss(
            d, kernel=kernel, refine=refine, learning_rate=settings["learning_rate"], **options
        )

    def _fresh(self):
        return self._draw(self.settings["slice_samples"]), self._model()

    def _model(self):
        return ICA(np.linalg.inv(self.trainer.unmixing), self.df)

    def _draw(self, size):
        x = self.problem.x_train
        return (
            x
            if size == x.shape[0]
            else x[self.rng.choice(x.shape[0], size, replace=False, shuffle=False)]
        )

    def train(self, checkpoint, progress):
        settings = self.settings
        began = time.perf_counter() - self.seconds
        if self.step == 0:
            self._evaluate()
        while self.step < settings["steps"]:
            # Numbers that overflow end the run below, with a word on when.
            with np.errstate(all="ignore"):
                value = self.trainer.advance(self._draw(settings["batch_size"]))
            self.step += 1
            self.values.append(value)
            if not (np.isfinite(value) and np.abs(self.trainer.unmixing).max() < _LARGEST):
                raise Diverged(self._obituary(checkpoint), self.step)
            if self.step % settings["evaluate_every"] == 0 or self.step == settings["steps"]:
                self._evaluate()
                self.seconds = time.perf_counter() - began
                if checkpoint is not None:
                    save_checkpoint(checkpoint, settings, self._arrays())
            if progress is not None:
                progress(self.step, settings["steps"])

    def _evaluate(self):
        nll = negative_log_likelihood(self.trainer.unmixing, self.problem.x_test, self.df)
        value = float(np.mean(self.values)) if self.values else np.nan
        self.trace.append((self.step, value, nll, nll - self.true_nll))
        self.values = []

    def _obituary(self, checkpoint):
        text = f"the loss or the model was no longer finite after step {self.step} of method={self.settings['method']!r}"
        kept = (
            f"; the state after step {self.trace[-1][0]} is kept in {checkpoint}"
            if checkpoint and self.trace[-1][0]
            else ""
        )
        return f"{text}{kept}. A smaller `learning_rate` may help."

    def _arrays(self):
        random = np.array(json.dumps(self.rng.bit_generator.state))
        common = {
            "step": np.array(self.step),
            "seconds": np.array(self.seconds),
            "trace": np.array(self.trace),
            "rng": random,
        }
        return common | {f"trainer.{name}": array for name, array in self.trainer.state().items()}

    def load(self, path):
        """Go on from the checkpoint at `path`, if there is one."""
        arrays = load_checkpoint(path, self.settings)
        if arrays is None:
            return
        self.step, self.seconds = int(arrays["step"]), float(arrays["seconds"])
        self.trace = [(int(step), *rest) for step, *rest in arrays["trace"].tolist()]
        self.rng.bit_generator.state = json.loads(arrays["rng"].item())
        mark = "trainer."
        self.trainer.restore(
            {
                name.removeprefix(mark): array
                for name, array in arrays.items()
                if name.startswith(mark)
            }
        )

    def result(self):
        trace = Trace(*(frozen(column) for column in zip(*self.trace, strict=True)))
        return ICAFit(
            self._model(),
            frozen(self.trainer.unmixing),
            trace.nll[-1].item(),
            self.true_nll,
            trace.gap[-1].item(),
            trace,
            self.settings["method"],
            self.settings,
            self.seconds,
        )


class _AdamDescent:
    """Adam on ``A = W^-1`` along the gradient of a loss."""

    def __init__(self, unmixing, df, loss, learning_rate, betas):
        self.unmixing = np.array(unmixing)
        self.moments = np.zeros((2, *self.unmixing.shape))
        self.count = 0
        self.df, self.loss, self.learning_rate, self.betas = df, loss, learning_rate, betas

    def advance(self, x):
        """One step on the samples `x`; returns the loss."""
        scores, pullback = score_and_pullback(self.unmixing, x, self.df)
        if not np.isfinite(scores).all():
            return np.nan
        value, by_score = self.loss(x, scores)
        gradient = pullback(by_score)
        self.count += 1
        for moment, beta, target in zip(
            self.moments, self.betas, (gradient, gradient**2), strict=True
        ):
            moment += (1.0 - beta) * (target - moment)
        mean, square = (
            moment / (1.0 - beta**self.count)
            for moment, beta in zip(self.moments, self.betas, strict=True)
        )
        self.unmixing = self.unmixing - self.learning_rate * mean / (np.sqrt(square) + 1e-8)
        return value

    def state(self):
        own = {"unmixing": self.unmixing, "moments": self.moments, "count": np.array(self.count)}
        return own | {f"loss.{name}": array for name, array in self.loss.state().items()}

    def restore(self, state):
        self.unmixing, self.moments, self.count = (
            state["unmixing"],
            state["moments"],
            int(state["count"]),
        )
        mark = "loss."
        self.loss.restore(
            {
                name.removeprefix(mark): array
                for name, array in state.items()
                if name.startswith(mark)
            }
        )


class _ScoringDescent:
    """Relative Gauss-Newton steps, see `scoring`, from decorrelated sources of the model's scale."""

    def __init__(self, unmixing, x, df, kernel, share):
        self.scoring = Scoring(df, kernel)
        self.share = share
        self.unmixing = _decorrelated(unmixing, x, self.scoring.median)

    def advance(self, x):
        """One step on the samples `x`; returns by how much it should lower the loss."""
        step, gain = self.scoring.step(product(x, self.unmixing))
        self.unmixing = self.unmixing - self.share * product(step, self.unmixing.T)
        return gain

    def state(self):
        return {"unmixing": self.unmixing}

    def restore(self, state):
        self.unmixing = state["unmixing"]


def _decorrelated(unmixing, x, median):
    """The nearest unmixing matrix whose sources are uncorrelated at `x`, with the given median size."""
    u = np.ascontiguousarray(product(x, unmixing).T)
    values, vectors = np.linalg.eigh(gram(u) / u.shape[1])
    if not values[0] > values[-1] * values.size * np.finfo(float).eps:
        raise ValueError(
            f"`data` must vary in all of its {values.size} dimensions: its sources can't be told apart."
        )
    unmixing = (vectors / np.sqrt(values)) @ vectors.T @ unmixing
    return unmixing * (median / np.median(np.abs(product(x, unmixing))))


def _check_problem(data):
    if not isinstance(data, (tuple, list)) or not 2 <= len(data) <= len(ICAProblem._fields):
        raise TypeError(
            f"`data` must be an ICAProblem or a pair (x_train, x_test), not {type(data).__name__}."
        )
    problem = ICAProblem(*data)
    x_train = check_samples(problem.x_train, "x_train", min_rows=3)
    d = x_train.shape[1]
    x_test = check_samples(problem.x_test, "x_test", d=d)
    if problem.truth is not None and getattr(problem.truth, "d", None) != d:
        raise ValueError(f"`truth` must be a model in {d} dimensions.")
    initial = problem.initial
    if initial is not None:
        initial = real_array("initial", initial)
        if (
            initial.shape != (d, d)
            or not np.isfinite(initial).all()
            or np.linalg.matrix_rank(initial) < d
        ):
            raise ValueError(
                f"`initial` must be an invertible matrix of shape {(d, d)}; got shape {initial.shape}."
            )
    return ICAProblem(x_train, x_test, problem.truth, initial)
