"""Polynomial Stein discrepancy (Srinivasan, Sutton, Drovandi and South, 2024), in linear time.

The second-order Langevin Stein operator ``A f = laplace f + s . grad f`` turns the monomials
``x_k^j``, for coordinates k and degrees j = 1 to r, into features of mean zero under the model,

    xi_kj(x) = j x_k^(j-1) s_k(x) + j (j-1) x_k^(j-2)

and the statistic is the squared length of their mean,

    PSD^2 = sum_kj ( E xi_kj(x) )^2

It does not see every difference, and large values of the highest degree dominate it.

The published sum has all monomials of degree r and less, products of coordinates among them. It is
zero if and only if the first r moments of the samples are those of a Gaussian model. Without
products it is blind to wrong correlations; with them there are ``(d + r)! / (d! r!) - 1`` features,
which can be millions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from .._typing import Array
from .._validate import ArgumentError, check_flag, check_integer, check_statistic
from ..engines.features import FeaturePairs
from ..procedure.evaluate import evaluate_pairs
from ..procedure.evaluation import Outcome
from ..procedure.split import Samples
from .base import Baseline, Task

_MOST = 3 * 10**7  # numbers in the features; at most 2 GB while they are made


@dataclass(frozen=True, eq=False)
class PSD(Baseline):
    """Polynomial Stein discrepancy test.

    Parameters
    ----------
    degree : int
        Largest degree of the monomials; 1 to 4 are published.
    products : bool
        Whether there are monomials of several coordinates too, as in the published test.

    See Also
    --------
    fastsksd.gof_test : The test that takes it as `method`.

    Notes
    -----
    The published null is the multinomial bootstrap, null="bootstrap"; the default here is the wild
    bootstrap, as for the other methods. The result's `bandwidths` hold the degree.

    References
    ----------
    .. [1] N. Srinivasan, M. Sutton, C. Drovandi and L. F. South, "The polynomial Stein discrepancy
       for assessing moment convergence", arXiv:2412.05135, 2024.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((500, 20)) * np.r_[1.3, np.ones(19)]
    >>> fs.gof_test(x, np.negative, method="psd", rng=0).reject()
    True

    A wrong correlation is a matter of products:

    >>> x = np.random.default_rng(0).multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], 500)
    >>> [fs.gof_test(x, np.negative, method=fs.baselines.PSD(products=products), rng=0).reject()
    ...  for products in (False, True)]
    [False, True]
    """

    degree: int = 2
    products: bool = False

    name = "psd"
    title = "PSD"
    width_name = "degree"
    has_kernel = False
    explicable = True
    takes_weights = True

    def __post_init__(self) -> None:
        check_integer("degree", self.degree, 1, 10)
        check_flag("products", self.products)

    def measure(self, task: Task, prepared: Any) -> Outcome:
        pairs = FeaturePairs(self._features(task.x, task.scores, self.degree))
        member = evaluate_pairs("psd", pairs, float(self.degree), task.null, task.weights)
        kernel = f"polynomial {'with' if self.products else 'without'} products"
        return Outcome([member], task.lag, kernel=kernel)

    def pair_terms(self, result: Any, samples: Samples) -> FeaturePairs:
        degree = int(result.bandwidths[0])
        return FeaturePairs(self._features(samples.x, cast(Array, samples.scores), degree))

    def _features(self, x: Array, scores: Array, degree: int) -> Array:
        features = features_with_products if self.products else polynomial_features
        return features(x, scores, degree)


def polynomial_features(x: Array, scores: Array, degree: int) -> Array:
    """``xi_kj(x_i)`` for all coordinates k and degrees j up to `degree`, (d degree, n)."""
    rows = []
    with np.errstate(over="ignore", invalid="ignore"):
        for j in range(1, degree + 1):
            feature = j * x ** (j - 1) * scores
            if j > 1:
                feature = feature + j * (j - 1) * x ** (j - 2)
            rows.append(feature.T)
    return check_statistic(np.ascontiguousarray(np.concatenate(rows)))


def features_with_products(x: Array, scores: Array, degree: int) -> Array:
    """``A P(x_i)`` for all monomials P of degree 1 to `degree`, (their number, n).

    A monomial is one of a degree less times its last coordinate, and
    ``A (x_k P) = x_k A P + s_k P + 2 dP/dx_k``.
    """
    n, d = x.shape
    count = math.comb(d + degree, degree) - 1
    if count * n > _MOST:
        raise ArgumentError(
            "products",
            f"makes {count} features of degree up to {degree} in {d} dimensions, too many for "
            f"{n} samples; take a smaller degree, or leave it out",
        )
    y, s = np.ascontiguousarray(x.T), np.ascontiguousarray(scores.T)
    # Of the monomials of one degree, in the order of their last coordinates: their values, A of
    # them, derivatives along the last coordinate, and how many end on coordinate k or before.
    values, features, slopes, ends = y, s, np.ones_like(y), np.arange(d + 1)
    rows = [features]
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(1, degree):
            made: list[tuple[Array, Array, Array]] = []
            for k in range(d):
                start, stop = ends[k], ends[k + 1]
                value, feature = y[k] * values[:stop], y[k] * features[:stop] + s[k] * values[:stop]
                slope = values[:stop].copy()
                feature[start:] += 2.0 * slopes[start:stop]
                slope[start:] += y[k] * slopes[start:stop]
                made.append((value, feature, slope))
            values, features, slopes = (np.concatenate(parts) for parts in zip(*made, strict=True))
            ends = np.concatenate([[0], np.cumsum(ends[1:])])
            rows.append(features)
    return check_statistic(np.concatenate(rows))
