"""Finite-set Stein discrepancy, in time linear in the number of samples.

With ``xi(x, v) = s(x) k(x, v) + grad_x k(x, v)`` at J locations v,

    FSSD^2 = 1/(d J) sum_j | E xi(x, v_j) |^2

estimated by a U-statistic. Locations are drawn from a normal distribution fitted to the samples
(FSSD-rand). From there they can be improved on training samples, together with the bandwidth
(FSSD-opt), so that ``FSSD^2 / (sigma + 0.01)`` is largest. Here sigma is the standard deviation of
the statistic under the alternative; the power grows with this ratio.

The null distribution is that of every U-statistic here: random signs, or with null="spectral" the
weighted sum of chi-squares of the published test. Its weights come from the covariance of the
features, and its tail is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from .._typing import Array
from .._validate import ArgumentTypeError, check_integer, check_statistic
from ..engines import PairEngine
from ..engines.features import FeaturePairs
from ..kernels import KERNELS, one_bandwidth
from ..procedure.evaluate import evaluate_pairs
from ..procedure.evaluation import Outcome
from ..procedure.split import Samples
from .base import Baseline, Task

_RIDGE = 0.01  # of the power criterion
# Multiples of the bandwidth that are tried before the ascent.
_GRID = 2.0 ** np.linspace(-1.5, 1.5, 5)


@dataclass(frozen=True, eq=False)
class FSSD(Baseline):
    """Finite-set Stein discrepancy test.

    Parameters
    ----------
    n_locations : int
        Number of locations.
    optimise : bool
        Whether locations and bandwidth are improved on training samples. These are 20% of all
        samples unless `gof_test` is given another `train`.
    max_steps : int
        Largest number of steps of the ascent (L-BFGS).

    See Also
    --------
    KSD : All pairs of samples, in quadratic time.
    RFSD : Random features, with a null distribution from samples of the model.

    References
    ----------
    .. [1] W. Jitkrittum, W. Xu, Z. Szabo, K. Fukumizu and A. Gretton, "A linear-time kernel
       goodness-of-fit test", NeurIPS, 2017.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((500, 2))
    >>> fs.gof_test(2 * x, np.negative, method="fssd", rng=0).reject()
    True
    >>> method = fs.baselines.FSSD(n_locations=10, optimise=False)
    >>> fs.gof_test(x, np.negative, method=method, rng=0).locations.shape
    (10, 2)
    """

    n_locations: int = 5
    optimise: bool = True
    max_steps: int = 50

    name = "fssd"
    title = "FSSD"
    explicable = True

    @property
    def trained(self) -> bool:
        return self.optimise

    def __post_init__(self) -> None:
        check_integer("n_locations", self.n_locations, 1)
        check_integer("max_steps", self.max_steps, 1)
        if not isinstance(self.optimise, (bool, np.bool_)):
            raise ArgumentTypeError(
                "optimise", f"must be True or False, not {type(self.optimise).__name__}"
            )

    def prepare(self, task: Task) -> tuple[Array, float]:
        samples = task if task.training is None else task.training
        x, scores = samples.x, cast(Array, samples.scores)
        h = one_bandwidth(task.kernel, x, "FSSD")
        locations = _normal_draws(x, self.n_locations, task.rng)
        if not self.optimise:
            return locations, h
        given = not isinstance(task.kernel.bandwidth, str)
        return _optimised(task.kernel.code, x, scores, locations, h, given, self.max_steps)

    def measure(self, task: Task, prepared: tuple[Array, float]) -> Outcome:
        locations, h = prepared
        pairs = FeaturePairs(stein_features(task.kernel.code, task.x, task.scores, locations, h))
        member = evaluate_pairs("fssd", pairs, h, task.null, task.weights)
        return Outcome([member], task.lag, locations=locations)

    def pair_terms(self, result: Any, samples: Samples) -> PairEngine | None:
        code, h = KERNELS[result.kernel].code, result.bandwidths[0]
        scores = cast(Array, samples.scores)
        return FeaturePairs(stein_features(code, samples.x, scores, result.locations, h))


def stein_features(code: int, x: Array, scores: Array, locations: Array, h: float) -> Array:
    """``xi(x_i, v_j) / sqrt(d J)``, (J d, n)."""
    scale = 1.0 / math.sqrt(locations.size)
    rows = []
    for v in locations:
        gap = (x - v) / h
        k, k1, _ = _profile(code, np.einsum("id,id->i", gap, gap))
        rows.append((scale * (scores * k[:, None] + gap * (2.0 / h * k1)[:, None])).T)
    return check_statistic(np.concatenate(rows))


def _profile(code: int, u: Array) -> tuple[Array, Array, Array]:
    """The kernel as a function of the squared distance in bandwidths, with two derivatives."""
    if code == 0:
        k = np.exp(-0.5 * u)
        return k, -0.5 * k, 0.25 * k
    k = (1.0 + u) ** -0.5
    return k, -0.5 * k**3, 0.75 * k**5


def _normal_draws(x: Array, count: int, rng: np.random.Generator) -> Array:
    """Draws from the normal distribution with the mean and covariance of the samples."""
    n = x.shape[0]
    return x.mean(axis=0) + rng.standard_normal((count, n)) @ (x - x.mean(axis=0)) / math.sqrt(
        n - 1.0
    )


def _optimised(
    code: int, x: Array, scores: Array, locations: Array, h: float, fixed: bool, max_steps: int
) -> tuple[Array, float]:
    """Locations and bandwidth with the largest power criterion, searched for from these on.

    A `fixed` bandwidth stays as it is.
    """
    from scipy.optimize import minimize

    if not fixed:
        h = max(h * _GRID, key=lambda width: power_criterion(code, x, scores, locations, width)[0])
    unit = x.std(axis=0).max()

    def loss(point: Array) -> tuple[float, Array]:
        v, width = unit * point[:-1].reshape(locations.shape), h * math.exp(point[-1])
        value, by_v, by_log_h = power_criterion(code, x, scores, v, width)
        return -value, -np.append(unit * by_v, 0.0 if fixed else by_log_h)

    start = np.append(locations / unit, 0.0)
    bounds = [(None, None)] * locations.size + [(-3.0, 3.0)]
    best = minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": max_steps}
    ).x
    return unit * best[:-1].reshape(locations.shape), float(h * math.exp(best[-1]))


def power_criterion(
    code: int, x: Array, scores: Array, locations: Array, h: float
) -> tuple[float, Array, float]:
    """``U / (sigma + 0.01)``, and its gradients.

    They are in the locations, (J d,), and in the logarithm of the bandwidth.
    """
    n, d = x.shape
    features = stein_features(code, x, scores, locations, h)
    total = features.sum(axis=1)
    mean = total / n
    u = (total @ total - np.sum(features**2)) / (n * (n - 1.0))
    along = mean @ features
    centred = along - along.mean()
    sigma = 2.0 * math.sqrt(np.mean(centred**2))
    value = u / (sigma + _RIDGE)
    by_feature = 2.0 * (total[:, None] - features) / (n * (n - 1.0))
    if sigma > 0:
        by_variance = 2.0 / n * (np.outer(mean, centred) + (features @ centred / n)[:, None])
        by_feature -= value * 2.0 / sigma * by_variance
    by_feature /= (sigma + _RIDGE) * math.sqrt(locations.size)
    by_v, by_log_h = np.empty_like(locations), 0.0
    for j, v in enumerate(locations):
        g = by_feature[j * d : (j + 1) * d].T
        gap = (x - v) / h
        squares = np.einsum("id,id->i", gap, gap)
        _, k1, k2 = _profile(code, squares)
        score_along, gap_along = np.einsum("id,id->i", scores, g), np.einsum("id,id->i", gap, g) / h
        # The feature along g is score_along k + 2 gap_along k1; only squares and gap depend on v
        # and h.
        slope = score_along * k1 + 2.0 * gap_along * k2
        by_v[j] = -2.0 / h * (slope @ gap + k1 @ g / h)
        by_log_h += np.sum(-2.0 * squares * slope - 4.0 * gap_along * k1)
    return value, by_v.ravel(), by_log_h
