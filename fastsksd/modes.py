"""Weights of separated modes, which a score at the samples can't tell, by a density between them.

Within a mode the score says all of a model but its weight. Where hardly any sample lies between two
modes, no test along samples sees whether their weights are right. A log-density does, and so does a
score function: its integral along a line from one mode to the other is the difference of the
log-densities. The mass of the model in each mode is estimated by bridge sampling [1]_ between the
samples there and a normal distribution fitted to them; fit and estimate use different halves of the
samples, each in turn.

References
----------
.. [1] X.-L. Meng and W. H. Wong, "Simulating ratios of normalizing constants via a simple identity:
   a theoretical exploration", Statistica Sinica 6, 1996.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._doors import door
from ._typing import Array, ArrayLike, Rng
from ._validate import (
    ArgumentError,
    ArgumentTypeError,
    call_user,
    check_rng,
    check_samples,
    evaluate_score,
    real_array,
)
from .procedure.modes import Modes, find_modes

_NODES, _MANY_NODES = 32, 256  # of quadrature from a centre to a sample, and between centres
_STEPS = 200
_FEWEST = 20  # samples of a mode
LogDensity = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class ModeWeights:
    """Weights of separated modes: those of the samples, and those of the model.

    Attributes
    ----------
    centres : (k, d) array
        Means of the samples in each mode.
    seen : (k,) array
        Fraction of the samples in each mode.
    expected, errors : (k,) arrays
        Weight of each mode in the model, and its standard error.
    pvalue : float
        Of the hypothesis that the weights of the samples are those of the model; 1 for one mode.
    labels : (n,) array of int
        The mode of each sample.

    See Also
    --------
    mode_weights : Makes one.

    Examples
    --------
    >>> import fastsksd as fs
    >>> model = fs.models.GaussianMixture([0.5, 0.5], [[-4.0], [4.0]], 1.0)
    >>> found = fs.mode_weights(model.sample(500, rng=1), model, rng=0)
    >>> found.seen.size, bool(found.pvalue > 0.05)
    (2, True)
    """

    centres: Array
    seen: Array
    expected: Array
    errors: Array
    pvalue: float
    labels: np.ndarray

    def __repr__(self) -> str:
        lines = [f"ModeWeights: {self.seen.size} modes, p-value {self.pvalue:.3g}"]
        for k, (seen, expected, error) in enumerate(
            zip(self.seen, self.expected, self.errors, strict=True)
        ):
            lines.append(
                f"  mode {k}: {seen:.3f} of the samples, {expected:.3f} +- {error:.3f} of the model"
            )
        return "\n".join(lines)


@door
def mode_weights(x: ArrayLike, model: Any, *, rng: Rng = None) -> ModeWeights:
    """Compare the weights of separated modes with those of the model.

    Parameters
    ----------
    x : (n, d) array
        Independent samples.
    model : model or callable
        An object with `.log_density` or with `.score`, or a function x -> (n,), the log-density up
        to a constant, or x -> (n, d), the score. A score is integrated along lines between modes.
    rng : None, int or numpy.random.Generator
        Source of the normal samples of the bridge.

    Returns
    -------
    ModeWeights
        Weights seen and expected, with standard errors and a p-value.

    Raises
    ------
    ValueError, TypeError
        For bad input. The message names the argument.

    See Also
    --------
    gof_test : The test, whose caveats tell of separated modes.

    Notes
    -----
    Modes are groups of samples with hardly any sample in between, see `fastsksd.procedure.modes`;
    a mode without samples is not seen. Within each mode the samples are taken to follow the model,
    which `gof_test` tests: the two answer for each other. The p-value compares logarithms of
    weights, by a chi-square distribution with one degree less than there are modes. Standard errors
    allow for the bridge and, in the p-value, for the number of samples in each mode.

    Examples
    --------
    Half of the mass of the model is in either mode, but not half of the samples:

    >>> import fastsksd as fs
    >>> weights = [0.7, 0.3]
    >>> x = fs.models.GaussianMixture(weights, [[-3.0], [3.0]], 1.0).sample(1000, rng=0)
    >>> model = fs.models.GaussianMixture([0.5, 0.5], [[-3.0], [3.0]], 1.0)
    >>> fs.mode_weights(x, model, rng=0).pvalue < 1e-6
    True
    """
    x, rng = check_samples(x, min_rows=2), check_rng(rng)
    modes = find_modes(x)
    groups = [x[modes.labels == k] for k in range(modes.n_modes)]
    centres = np.array([group.mean(axis=0) for group in groups])
    seen = modes.weights
    if modes.n_modes == 1:
        one = np.ones(1)
        return ModeWeights(centres, seen, one, np.zeros(1), 1.0, modes.labels)
    if min(map(len, groups)) < _FEWEST:
        raise ArgumentError("x", f"must hold at least {_FEWEST} samples in every mode")
    logs, errors = np.empty(modes.n_modes), np.empty(modes.n_modes)
    for k, log_density in enumerate(_log_densities(model, centres)):
        logs[k], errors[k] = _log_mass(groups[k], k, modes, log_density, rng)
    masses = np.exp(logs - logs.max())
    expected = masses / masses.sum()
    # The delta method: of log w_k, and of w_k.
    share = np.eye(modes.n_modes) - expected
    deviations = expected * np.sqrt((share**2) @ errors**2)
    return ModeWeights(
        centres, seen, expected, deviations, _pvalue(seen * len(x), logs, errors), modes.labels
    )


def _pvalue(counts: Array, logs: Array, errors: Array) -> float:
    """Of equal differences between the logarithms of counts and of masses."""
    from scipy.special import chdtrc

    differences, variances = np.log(counts) - logs, 1.0 / counts + errors**2
    mean = np.average(differences, weights=1.0 / variances)
    return float(chdtrc(counts.size - 1, np.sum((differences - mean) ** 2 / variances)))


def _log_densities(model: Any, centres: Array) -> list[LogDensity]:
    """For each mode a function of the log-density there, all up to the same constant."""
    if callable(getattr(model, "log_density", None)):
        try:
            call_user("model", model.log_density, centres[:1].copy())
        except ArgumentError as error:
            if not isinstance(error.__cause__, NotImplementedError):
                raise
        else:
            return [_checked(model.log_density)] * len(centres)
    if callable(getattr(model, "score", None)):
        return _integrated(model, centres)
    if not callable(model):
        raise ArgumentTypeError(
            "model",
            "must be a model with .log_density or .score, or a function of the log-density or the "
            f"score, not {type(model).__name__}",
        )
    shape = np.shape(call_user("model", model, centres.copy()))
    if shape == centres.shape:
        return _integrated(model, centres)
    if shape == centres.shape[:1]:
        return [_checked(model)] * len(centres)
    raise ArgumentError(
        "model",
        f"must return an array of shape (n,), the log-density, or (n, d), the score; it returned "
        f"{shape} for {centres.shape}",
    )


def _checked(function: Callable[[Array], Any]) -> LogDensity:
    def log_density(x: Array) -> Array:
        values = real_array("model", call_user("model", function, x.copy()), returned=True)
        if values.shape != x.shape[:1]:
            raise ArgumentError(
                "model", f"must return one log-density for each row; it returned {values.shape}"
            )
        if np.any(np.isnan(values) | (values == np.inf)):
            raise ArgumentError("model", "returned log-densities that are NaN or infinite")
        return values

    return log_density


def _integrated(score: Any, centres: Array) -> list[LogDensity]:
    """Log-densities by integrals of the score, from the first centre to others and to points."""

    def along(start: Array, x: Array, nodes: int) -> Array:
        places, weights = np.polynomial.legendre.leggauss(nodes)
        step, total = x - start, np.zeros(len(x))
        for place, weight in zip(0.5 * (places + 1.0), 0.5 * weights, strict=True):
            total += weight * np.einsum(
                "nd,nd->n", evaluate_score(score, start + place * step, "model"), step
            )
        return total

    heights = along(centres[0], centres, _MANY_NODES)

    def from_centre(centre: Array, height: float) -> LogDensity:
        return lambda x: height + along(centre, x, _NODES)

    return [from_centre(*pair) for pair in zip(centres, heights.tolist(), strict=True)]


def _log_mass(
    x: Array, group: int, modes: Modes, log_density: LogDensity, rng: np.random.Generator
) -> tuple[float, float]:
    """Logarithm of the model's mass in a mode, with its standard error."""
    halves = x[::2], x[1::2]
    found = [
        _bridge(fitted, tested, group, modes, log_density, rng)
        for fitted, tested in (halves, halves[::-1])
    ]
    logs, variances = np.array(found).T
    # Each half is used in both, so that their errors may go together.
    return float(logs.mean()), float(np.sqrt(variances).mean())


def _bridge(
    fitted: Array,
    tested: Array,
    group: int,
    modes: Modes,
    log_density: LogDensity,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Logarithm of the mass by the optimal bridge, and the variance of this logarithm."""
    from .models import Gaussian

    n, d = fitted.shape
    mean, covariance = fitted.mean(axis=0), np.atleast_2d(np.cov(fitted.T, bias=True))
    if n < 2 * d + 10:  # too few for all correlations
        covariance = np.diag(np.diag(covariance))
    normal = Gaussian(mean, covariance * (1.0 + (d + 1.0) / n) + 1e-12 * np.eye(d))
    drawn = normal.sample(len(tested), rng=rng)
    log_p, log_q = log_density(drawn), normal.log_density(drawn)
    log_p = np.where(modes.group_of(drawn) == group, log_p, -np.inf)
    own = log_density(tested) - normal.log_density(tested)
    others = log_p - log_q
    middle = float(np.median(own))
    if middle == -np.inf:
        raise ArgumentError("model", "has the density 0 at most of the samples of a mode")
    ratio = 1.0  # of the mass to exp(middle)
    own, others = own - middle, others - middle
    for _ in range(_STEPS):
        # Both sums have as many terms; logistic functions neither overflow nor cancel.
        upper = 1.0 / (1.0 + ratio * np.exp(-others))
        lower = 1.0 / (np.exp(own) + ratio)
        new = upper.mean() / lower.mean()
        done = abs(np.log(new / ratio)) < 1e-10
        ratio = new
        if done:
            break
    upper = 1.0 / (1.0 + ratio * np.exp(-others))
    lower = ratio / (np.exp(own) + ratio)
    variance = upper.var() / upper.mean() ** 2 + lower.var() / lower.mean() ** 2
    return middle + float(np.log(ratio)), float(variance / len(tested))
