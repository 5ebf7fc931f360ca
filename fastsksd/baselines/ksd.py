"""Kernelized Stein discrepancy: pairs of samples, a kernel of the distance between them, of one bandwidth or of many."""

from dataclasses import dataclass

import numpy as np

from .._validate import check_positive_vector
from ..engines.multivariate import ksd_pairs
from ..kernels import KERNELS
from ..procedure.evaluate import evaluate_pairs
from .base import Baseline, Outcome


@dataclass(frozen=True, eq=False)
class KSD(Baseline):
    """Kernelized Stein discrepancy test (Liu, Lee and Jordan, 2016; Chwialkowski, Strathmann and Gretton, 2016).

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((200, 2))
    >>> fs.gof_test(2 * x, np.negative, method="ksd", rng=0).reject()
    True
    """

    name = "ksd"
    explicable = True

    def evaluate(self, task, prepared):
        pairs, h = ksd_pairs(task.x, task.scores, task.kernel)
        return Outcome([evaluate_pairs("ksd", pairs, h, task.null, task.weights)])

    def pair_terms(self, result, samples):
        kernel = KERNELS[result.kernel](result.bandwidths[0])
        return ksd_pairs(samples.x, samples.scores, kernel)[0]


@dataclass(frozen=True, eq=False)
class KSDAgg(KSD):
    """KSD aggregated over bandwidths (Schrab, Guedj and Gretton, 2022): powers of two about the median distance, all at once.

    One verdict for all of them, calibrated on replicates with the same signs, as in the published test; what is compared across
    bandwidths is a p-value of each member's fitted law, see `fastsksd.procedure.combine`, where theirs compares with quantiles of the replicates.
    They use the IMQ kernel: give kernel="imq" to `gof_test`.

    Parameters
    ----------
    multiples : sequence of float
        Multiples of the kernel's bandwidth.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((200, 2))
    >>> result = fs.gof_test(2 * x, np.negative, method="ksdagg", kernel="imq", rng=0)
    >>> result.reject(), len(result.members)
    (True, 9)
    """

    multiples: object = tuple(2.0**k for k in range(-4, 5))

    name = "ksdagg"

    def __post_init__(self):
        values = np.atleast_1d(check_positive_vector("multiples", self.multiples)).tolist()
        object.__setattr__(self, "multiples", tuple(dict.fromkeys(values)))

    def evaluate(self, task, prepared):
        _, h = ksd_pairs(task.x, task.scores, task.kernel)
        members = []
        for multiple in self.multiples:
            pairs, width = ksd_pairs(task.x, task.scores, type(task.kernel)(multiple * h))
            members.append(evaluate_pairs("ksd", pairs, width, task.null, task.weights, multiple))
        return Outcome(members, family=True)
