"""Kernelized Stein discrepancy: pairs of samples, a kernel of the distance between them."""

from dataclasses import dataclass

from ..discrepancy import ksd_pairs
from ..members import evaluate_pairs
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

    def evaluate(self, task, prepared):
        pairs, h = ksd_pairs(task.x, task.scores, task.kernel)
        return Outcome([evaluate_pairs("ksd", pairs, h, task.null, task.weights)])
