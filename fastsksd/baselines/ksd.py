"""Kernelized Stein discrepancy: pairs of samples, a kernel of the distance between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from .._typing import Array
from ..engines import PairEngine
from ..engines.multivariate import ksd_pairs
from ..kernels import KERNELS, one_bandwidth
from ..procedure.evaluate import evaluate_pairs
from ..procedure.evaluation import Outcome
from ..procedure.split import Samples
from .base import Baseline, Task


@dataclass(frozen=True, eq=False)
class KSD(Baseline):
    """Kernelized Stein discrepancy test.

    See Also
    --------
    fastsksd.ksd : The discrepancy alone.
    KSDAgg : The same at several bandwidths.

    References
    ----------
    .. [1] Q. Liu, J. D. Lee and M. Jordan, "A kernelized Stein discrepancy for goodness-of-fit
       tests", ICML, 2016.
    .. [2] K. Chwialkowski, H. Strathmann and A. Gretton, "A kernel test of goodness of fit", ICML,
       2016.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((200, 2))
    >>> fs.gof_test(2 * x, np.negative, method="ksd", rng=0).reject()
    True
    """

    name = "ksd"
    title = "KSD"
    explicable = True
    takes_weights = True

    def measure(self, task: Task, prepared: Any) -> Outcome:
        kernel = type(task.kernel)(one_bandwidth(task.kernel, task.typical, "KSD"))
        pairs, h = ksd_pairs(task.x, task.scores, kernel)
        return Outcome([evaluate_pairs("ksd", pairs, h, task.null, task.weights)], task.lag)

    def pair_terms(self, result: Any, samples: Samples) -> PairEngine | None:
        kernel = KERNELS[result.kernel](result.bandwidths[0])
        return ksd_pairs(samples.x, cast(Array, samples.scores), kernel)[0]
