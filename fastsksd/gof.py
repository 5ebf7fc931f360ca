"""The goodness-of-fit test (Algorithm 2): slices from training samples, statistic and null from held-out ones."""

import time
from dataclasses import dataclass, field

import numpy as np

from ._validate import (
    check_choice,
    check_integer,
    check_number,
    check_rng,
    check_samples,
    check_score,
    evaluate_score,
    score_is_array,
)
from .discrepancy import _finite, project
from .engines.pairs import statistic as pair_statistic
from .kernels import as_kernel
from .nulls import NULLS, resampling_pvalue, resampling_weights
from .slices import Slices, _check_basis, active_slices, as_slices

DEFAULT_SLICES = 3


@dataclass(frozen=True, eq=False, repr=False)
class GofResult:
    """Outcome of a goodness-of-fit test.

    Attributes
    ----------
    statistic : float
        U-statistic of the discrepancy, summed over slices; near 0 when the model fits, and it may be negative.
    pvalue : float
        ``(1 + #{replicate >= statistic}) / (1 + n_resamples)``.
    null_distribution : (n_resamples,) array
        Replicates of the statistic under the hypothesis that the model fits.
    slices : Slices
        Directions the statistic looked along.
    slice_statistics, bandwidths : (m,) arrays
        Each slice's share of the statistic, and its kernel bandwidth.
    n_test, n_train : int
        Samples the statistic and the slices were computed from.
    null, engine, kernel : str
        How it was computed.
    timings : dict
        Seconds spent on "slices", "weights" and "statistic" (with its replicates), and in "total".
    """

    statistic: float
    pvalue: float
    null_distribution: np.ndarray
    slices: Slices
    slice_statistics: np.ndarray
    bandwidths: np.ndarray
    n_test: int
    n_train: int
    null: str
    engine: str
    kernel: str
    timings: dict = field(default_factory=dict)

    def reject(self, alpha=0.05):
        """Whether the model is rejected at level `alpha`."""
        alpha = check_number("alpha", alpha, 0.0, strict=True)
        if alpha >= 1:
            raise ValueError(f"`alpha` must be less than 1; got {alpha}.")
        return bool(self.pvalue <= alpha)

    def _facts(self):
        strongest = int(np.argmax(self.slice_statistics))
        verdict = "the model is rejected" if self.reject() else "the model is not rejected"
        return {
            "verdict": f"{verdict} at level 0.05",
            "p-value": f"{self.pvalue:.4g}",
            "statistic": f"{self.statistic:.6g}",
            "null": f"{self.null}, {self.null_distribution.size} resamples, 95% quantile {np.quantile(self.null_distribution, 0.95):.4g}",
            "samples": f"{self.n_test} tested, {self.n_train} used to find slices",
            "slices": f"{len(self.slices)} in {self.slices.d} dimensions, kernel {self.kernel}, engine {self.engine}",
            "strongest slice": f"{strongest}: statistic {self.slice_statistics[strongest]:.4g}",
            "  score along r": _direction(self.slices.r[strongest]),
            "  input along g": _direction(self.slices.g[strongest]),
        }

    def __repr__(self):
        facts = self._facts()
        width = max(map(len, facts))
        return "GofResult\n" + "\n".join(f"  {name:<{width}}  {value}" for name, value in facts.items())

    def _repr_html_(self):
        rows = "".join(
            f"<tr><th style='text-align:left'>{name}</th><td>{value}</td></tr>" for name, value in self._facts().items()
        )
        return f"<table><caption>GofResult</caption>{rows}</table>"


def gof_test(
    x,
    score,
    *,
    slices=None,
    n_slices=None,
    basis=None,
    estimator="ke",
    score_q=None,
    debias=True,
    train=0.2,
    kernel="rbf",
    null="bootstrap",
    lag=1,
    n_resamples=1000,
    engine="auto",
    rng=None,
):
    """Test whether the samples `x` follow the model with this `score`.

    Parameters
    ----------
    x : (n, d) array
        Samples from the unknown law q.
    score : (n, d) array, callable or model
        Score of the model p, ``grad log p``: its values at `x`, a function x -> (n, d), or an object with a `.score` method.
        The model must have its support on all of R^d (or vanish at the boundary): transform bounded variables first.
    slices : Slices or pair (r, g), optional
        Directions chosen beforehand, without looking at `x`. Then no sample is spent on training.
    n_slices, basis, estimator, score_q, debias
        How slices are found from the training samples; see `active_slices`. With neither `n_slices` nor `basis`, the
        top 3 active slices are taken.
    train : float, int or (n_train, d) array
        Fraction or number of the samples used to find slices and not tested, or separate training samples (then `score`
        must be a function). Drawn at random; for autocorrelated samples (``lag > 1``) it is the first stretch.
    kernel : {"rbf", "imq"} or kernel object
        One-dimensional kernel of the statistic.
    null : {"bootstrap", "wild"}
        Multinomial bootstrap for independent samples, or wild bootstrap with random signs.
    lag : float
        For null="wild": signs flip with probability ``1/lag`` from one sample to the next. Set it near the
        autocorrelation time of a Markov chain's samples, in their order; up to 2 means independent signs.
    n_resamples : int
        Replicates of the statistic. The smallest p-value is ``1 / (n_resamples + 1)``.
    engine : {"auto", "direct"}
    rng : None, int or numpy.random.Generator
        All randomness; the same seed gives the same result for any number of threads.

    Returns
    -------
    GofResult

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((1000, 20)) * np.r_[0.5, np.ones(19)]
    >>> result = fs.gof_test(x, lambda x: -x, rng=1)
    >>> result.reject()
    True
    >>> strongest = np.argmax(result.slice_statistics)
    >>> int(np.argmax(abs(result.slices.r[strongest])))
    0
    """
    start = time.perf_counter()
    x = check_samples(x)
    check_score(score)
    kernel = as_kernel(kernel)
    check_choice("null", null, NULLS)
    lag = check_number("lag", lag, 1.0)
    if null != "wild" and lag > 1:
        raise ValueError(f"`lag` is for null='wild', whose signs can follow autocorrelated samples; got null={null!r}.")
    n_resamples = check_integer("n_resamples", n_resamples, 1)
    rng = check_rng(rng)
    timings = {}

    if slices is not None:
        if n_slices is not None or basis is not None:
            raise ValueError("`slices` are given, so `n_slices` and `basis` have nothing to choose; leave them out.")
        slices = as_slices(slices, x.shape[1])
        n_train, test, test_score = 0, x, score
    else:
        _check_basis(basis, n_slices, x.shape[1])
        if n_slices is None and basis is None:
            n_slices = min(DEFAULT_SLICES, x.shape[1])
        training, train_score, test, test_score = _split(x, score, train, lag > 1, rng)
        n_train = training.shape[0]
        slices = active_slices(
            training, train_score, n_slices=n_slices, basis=basis, estimator=estimator, score_q=score_q, debias=debias, rng=rng
        )
    if test.shape[0] < 2:
        raise ValueError(f"`x` leaves {test.shape[0]} test samples; at least 2 are needed.")
    timings["slices"] = time.perf_counter() - start

    scores = evaluate_score(test_score, test)
    clock = time.perf_counter()
    weights = resampling_weights(null, test.shape[0], n_resamples, lag=lag, rng=rng)
    timings["weights"] = time.perf_counter() - clock
    clock = time.perf_counter()
    pairs, h = project(test, scores, slices, kernel, engine)
    sums, replicates = pairs.sums_and_replicates(weights)
    slice_statistics = _finite(pair_statistic(pairs, sums, "u"))
    timings["statistic"] = time.perf_counter() - clock
    timings["total"] = time.perf_counter() - start
    value = float(slice_statistics.sum())
    return GofResult(
        statistic=value,
        pvalue=resampling_pvalue(value, replicates),
        null_distribution=replicates,
        slices=slices,
        slice_statistics=slice_statistics,
        bandwidths=h,
        n_test=test.shape[0],
        n_train=n_train,
        null=null,
        engine=pairs.name,
        kernel=kernel.name,
        timings=timings,
    )


def _split(x, score, train, in_order, rng):
    """Training samples with their score, test samples with theirs."""
    n, d = x.shape
    if np.ndim(train) > 0:
        training = check_samples(train, "train", min_rows=2, d=d)
        if score_is_array(score):
            raise ValueError(
                "`score` must be a callable or a model when `train` holds separate samples: an array covers `x` only."
            )
        return training, score, x, score
    if isinstance(train, (bool, np.bool_)):
        raise TypeError("`train` must be a fraction, a count or an array of samples, not bool.")
    if isinstance(train, (int, np.integer)):
        n_train = int(train)
    else:
        share = check_number("train", train, 0.0, strict=True)
        if share >= 1:
            raise ValueError(f"`train` must be a fraction between 0 and 1, or an integer count; got {train}.")
        n_train = round(share * n)
    if n_train < 2 or n - n_train < 2:
        raise ValueError(
            f"`train`={train} splits {n} samples into {n_train} for training and {n - n_train} for the test; both need at least 2. "
            "Give more samples, another `train`, or fixed `slices`."
        )
    order = np.arange(n) if in_order else rng.permutation(n)
    chosen, rest = np.sort(order[:n_train]), np.sort(order[n_train:])
    if score_is_array(score):
        scores = evaluate_score(score, x)
        return x[chosen], scores[chosen], x[rest], scores[rest]
    return x[chosen], score, x[rest], score


def _direction(vector, count=3):
    """The largest coordinates of a direction, in words."""
    top = np.argsort(-np.abs(vector))[:count]
    return " ".join(f"{vector[i]:+.2f} x[{i}]" for i in top) + (" ..." if vector.size > count else "")
