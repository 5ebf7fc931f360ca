"""KSD aggregated over bandwidths, as published (Schrab, Guedj and Gretton, 2022).

The kernel is the inverse multiquadric ``(1 + |x - y|^2 / h^2)^(-1/2)`` at ten widths h, in a
geometric grid from ``1 / d`` to ``m / d``, with m the largest distance among the first 500 samples,
or 2 where that is larger. Every width has the same weight w = 1/10.

One set of wild bootstrap replicates, with the statistic itself among them, gives the quantiles
``q_h(1 - u w)`` of each width. A second set gives the level of the rule "reject when the statistic
of any width exceeds its quantile". The published test takes the largest u, by bisection, whose
level is at most alpha. Here the smallest u at which the samples themselves are rejected is found
exactly, and the level at this u is the p-value. The decision is the same at every alpha.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._typing import Array
from .._validate import Overflow, check_integer
from ..compute.linalg import product
from ..engines.multivariate import ksd_pairs
from ..kernels import IMQ
from ..procedure.evaluate import evaluate_pairs
from ..procedure.evaluation import Combined, Outcome
from ..procedure.nulls import check_resamples
from .base import Task
from .ksd import KSD

_FIRST = 500  # samples whose largest distance bounds the widths


@dataclass(frozen=True, eq=False)
class KSDAgg(KSD):
    """KSD test aggregated over bandwidths, as published.

    Parameters
    ----------
    n_widths : int
        Widths of the IMQ kernel.
    n_quantile, n_level : int
        Wild bootstrap replicates for the quantiles of each width, and for the level of their
        combination (B1 and B2 in the paper).

    See Also
    --------
    KSD : The test at one bandwidth.
    fastsksd.gof_test : The default test, whose family has members of this kind.

    Notes
    -----
    The p-value is the smallest level at which the published test rejects with the same replicates;
    where that is zero, ``1 / (n_level + 1)``.

    References
    ----------
    .. [1] A. Schrab, B. Guedj and A. Gretton, "KSD aggregated goodness-of-fit test", NeurIPS, 2022.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((200, 2))
    >>> result = fs.gof_test(2 * x, np.negative, method="ksdagg", rng=0)
    >>> result.reject(), len(result.members)
    (True, 10)
    """

    n_widths: int = 10
    n_quantile: int = 2000
    n_level: int = 2000

    name = "ksdagg"
    title = "KSDAgg"
    nulls = ("wild",)
    has_kernel = False
    is_family = True
    takes_weights = True

    def __post_init__(self) -> None:
        check_integer("n_widths", self.n_widths, 1)
        for field in ("n_quantile", "n_level"):  # both are held
            check_resamples(getattr(self, field), 2 * self.n_widths, name=field)

    @property
    def n_resamples(self) -> int | None:
        """Number of replicates."""
        return self.n_quantile + self.n_level

    def measure(self, task: Task, prepared: Any) -> Outcome:
        members = []
        for h in widths(task.typical, self.n_widths):
            pairs, _ = ksd_pairs(task.x, task.scores, IMQ(h))
            name = f"width {h:.3g}"
            members.append(evaluate_pairs(name, pairs, h, task.null, task.weights))
        statistics = np.array([member.statistic for member in members])
        replicates = np.array([member.replicates for member in members])
        quantile, level = np.split(replicates, [self.n_quantile], axis=1)
        return Outcome(
            members, task.lag, kernel="imq", combined=aggregate(statistics, quantile, level)
        )


def widths(x: Array, count: int) -> Array:
    """The published widths of the kernel, smallest first."""
    d = x.shape[1]
    some = x[:_FIRST] - x[:_FIRST].mean(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("nd,nd->n", some, some)
        farthest = np.max(squares[:, None] + squares - 2.0 * product(some, some), initial=0.0)
    if not np.isfinite(farthest):
        raise Overflow("x", "holds numbers whose squares overflow")
    return np.geomspace(1.0, max(np.sqrt(farthest), 2.0), count) / d


def aggregate(statistics: Array, quantile: Array, level: Array) -> Combined:
    """The published combination of k statistics with uniform weights.

    Parameters
    ----------
    statistics : (k,) array
    quantile, level : (k, B1) and (k, B2) arrays
        Replicates for the quantiles, and for the level of the combination.

    Returns
    -------
    Combined
        Its evidence is ``-log10`` of the smallest p-value of a width. With weight w the samples are
        rejected from u = p / w on.

    Notes
    -----
    The statistic of a width exceeds its quantile ``q(1 - u w)``, the order statistic of rank
    ``ceil((B1 + 1) (1 - u w))``, if and only if at most ``(B1 + 1) u w`` of the B1 replicates and
    the statistic itself are as large. So a rank takes the place of every statistic and replicate.
    """
    b1 = quantile.shape[1]
    known = np.sort(np.concatenate([quantile, statistics[:, None]], axis=1), axis=1)

    def pvalues(values: Array) -> Array:
        below = np.array([np.searchsorted(row, v) for row, v in zip(known, values, strict=True)])
        return (b1 + 1.0 - below) / (b1 + 1.0)

    observed, others = pvalues(statistics[:, None])[:, 0], pvalues(level).min(axis=0)
    floor = 1.0 / (level.shape[1] + 1.0)
    adjusted = np.maximum([np.mean(others <= p) for p in observed], floor)
    strongest = int(np.argmin(observed))
    # A replicate for the level above all those for the quantiles has rank 0, without a logarithm.
    return Combined(
        float(-np.log10(observed[strongest])),
        float(adjusted[strongest]),
        -np.log10(np.maximum(others, 1.0 / (b1 + 2.0))),
        -np.log10(observed),
        observed,
        adjusted,
        strongest,
    )
