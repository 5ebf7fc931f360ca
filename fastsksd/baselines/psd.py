"""Polynomial Stein discrepancy (Srinivasan, Sutton, Drovandi and South, 2024), in linear time.

The second-order Langevin Stein operator ``A f = laplace f + s . grad f`` turns the monomials
``x_k^j``, for coordinates k and degrees j = 1 to r, into features of mean zero under the model,

    xi_kj(x) = j x_k^(j-1) s_k(x) + j (j-1) x_k^(j-2)

and the statistic is the squared length of their mean,

    PSD^2 = sum_kj ( E xi_kj(x) )^2

It is zero when the first r moments of Gaussian samples are those of a Gaussian model. It does not
see every difference, and large values of the highest degree dominate it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from .._typing import Array
from .._validate import check_integer, check_statistic
from ..engines.features import FeaturePairs
from ..procedure.evaluate import evaluate_pairs
from ..procedure.evaluation import Outcome
from ..procedure.split import Samples
from .base import Baseline, Task


@dataclass(frozen=True, eq=False)
class PSD(Baseline):
    """Polynomial Stein discrepancy test.

    Parameters
    ----------
    degree : int
        Largest degree of the monomials, each of one coordinate; 1 to 3 are published.

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
    """

    degree: int = 2

    name = "psd"
    title = "PSD"
    width_name = "degree"
    has_kernel = False
    explicable = True
    takes_weights = True

    def __post_init__(self) -> None:
        check_integer("degree", self.degree, 1, 10)

    def measure(self, task: Task, prepared: Any) -> Outcome:
        pairs = FeaturePairs(polynomial_features(task.x, task.scores, self.degree))
        member = evaluate_pairs("psd", pairs, float(self.degree), task.null, task.weights)
        return Outcome([member], task.lag, kernel="polynomial")

    def pair_terms(self, result: Any, samples: Samples) -> FeaturePairs:
        degree = int(result.bandwidths[0])
        scores = cast(Array, samples.scores)
        return FeaturePairs(polynomial_features(samples.x, scores, degree))


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
