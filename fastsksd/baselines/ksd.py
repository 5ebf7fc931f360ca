"""Kernelized Stein discrepancy: a kernel of the distance between samples, at one or many widths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from .._typing import Array
from .._validate import check_positive_vector
from ..engines import PairEngine
from ..engines.multivariate import ksd_pairs
from ..kernels import KERNELS
from ..procedure.evaluate import Outcome, evaluate_pairs
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
    explicable = True

    def measure(self, task: Task, prepared: Any) -> Outcome:
        pairs, h = ksd_pairs(task.x, task.scores, task.kernel)
        return Outcome([evaluate_pairs("ksd", pairs, h, task.null, task.weights)], task.lag)

    def pair_terms(self, result: Any, samples: Samples) -> PairEngine | None:
        kernel = KERNELS[result.kernel](result.bandwidths[0])
        return ksd_pairs(samples.x, cast(Array, samples.scores), kernel)[0]


@dataclass(frozen=True, eq=False)
class KSDAgg(KSD):
    """KSD test aggregated over bandwidths: powers of two times the median distance.

    Parameters
    ----------
    multiples : sequence of float
        Multiples of the kernel's bandwidth.

    See Also
    --------
    KSD : The test at one bandwidth.

    Notes
    -----
    All bandwidths have one verdict, calibrated on replicates with the same signs, as in the
    published test [1]_. The published test compares each statistic with quantiles of its
    replicates. Here the members are compared by p-values of fitted distributions, see
    `fastsksd.procedure.combine`. The published test uses the IMQ kernel: give ``kernel="imq"`` to
    `gof_test`.

    References
    ----------
    .. [1] A. Schrab, B. Guedj and A. Gretton, "KSD aggregated goodness-of-fit test", NeurIPS, 2022.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((200, 2))
    >>> result = fs.gof_test(2 * x, np.negative, method="ksdagg", kernel="imq", rng=0)
    >>> result.reject(), len(result.members)
    (True, 9)
    """

    multiples: Sequence[float] = tuple(2.0**k for k in range(-4, 5))

    name = "ksdagg"
    is_family = True

    def __post_init__(self) -> None:
        values = np.atleast_1d(check_positive_vector("multiples", self.multiples)).tolist()
        object.__setattr__(self, "multiples", tuple(dict.fromkeys(values)))

    def measure(self, task: Task, prepared: Any) -> Outcome:
        _, h = ksd_pairs(task.x, task.scores, task.kernel)
        members = []
        for multiple in self.multiples:
            pairs, width = ksd_pairs(task.x, task.scores, type(task.kernel)(multiple * h))
            members.append(evaluate_pairs("ksd", pairs, width, task.null, task.weights, multiple))
        return Outcome(members, task.lag)
