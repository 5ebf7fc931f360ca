"""Intervals for discrepancies and for their differences, whether or not they are degenerate.

A discrepancy is estimated by a U-statistic of Stein terms ``h_ij``, the difference of two of them
by that of ``h_ij - h'_ij``. With ``h_1(x) = E h(x, x')`` its exact variance is

    ``4 (n - 2) / (n (n - 1)) Var h_1(x) + 2 / (n (n - 1)) Var h(x, x')``.

Where the discrepancy is far from 0 the first part is the larger, and the statistic is
asymptotically normal [1]_. Near 0, or where two models are nearly right, it vanishes (the statistic
is degenerate) and the second part is all there is. Intervals from the first part alone [2]_ are
then far too short. Here both parts are estimated:

- *first*, ``4 / n`` times the variance of the row means of h. Its expectation is the first part and
  twice the second (Efron and Stein).
- *second*, from the mean square of the terms.

``first - second`` is an unbiased estimate of the variance; it is taken to be at least `second`,
what it is for a degenerate statistic.

Farther from 0 the variance is larger: along the direction in which samples are most easily moved to
another discrepancy, it changes by `slope` for each unit. Where an estimate is near 0 by chance, its
variance is estimated too small. So an end of an interval is a value that the estimate is within z
standard errors of, with the larger of the error at the estimate and the error at that value. That
is the interval of a score test, in place of Wald's. P-values are those of the same test.

Sums over groups of samples take the place of samples where there are many, or where they are
dependent: the stretches of chains, see `fastsksd.procedure.stretches`. Pairs within a group are
left out.

References
----------
.. [1] W. Hoeffding, "A class of statistics with asymptotically normal distribution", Annals of
   Mathematical Statistics 19, 1948.
.. [2] W. Bounliphone, E. Belilovsky, M. B. Blaschko, I. Antonoglou and A. Gretton, "A test of
   relative similarity for model selection in generative models", ICLR, 2016.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._typing import Array
from ..compute.chi_square import SMALLEST


class UStatistic(NamedTuple):
    """A U-statistic of groups of samples, with what its errors depend on.

    Attributes
    ----------
    value : float
    first, second : float
        Estimates of the parts of its variance, see above.
    slope : float
        Change of its variance with its expectation.
    freedom : float
        Degrees of freedom of the variance.
    """

    value: float
    first: float
    second: float
    slope: float
    freedom: float

    @classmethod
    def of(cls, sums: Array, sizes: Array) -> UStatistic:
        """From sums of terms over pairs of groups, (groups, groups), with numbers of samples.

        The diagonal does not count.
        """
        count = sizes.size
        pairs = sizes.sum() ** 2 - (sizes**2).sum()
        total = sums.sum() - np.trace(sums)
        value = total / pairs
        centred = sums - value * np.outer(sizes, sizes)
        np.fill_diagonal(centred, 0.0)
        rows = centred.sum(axis=1)
        square = rows @ rows
        # Terms are centred at the estimate, not at the expectation, which takes off a part.
        left = max((count - 2.0) * (count - 3.0), 1.0) / (count * (count - 1.0))
        first = 4.0 * square / pairs**2 / left
        second = 2.0 * np.einsum("gh,gh->", centred, centred) / pairs**2 / left
        slope = 4.0 * (rows @ centred @ rows) / (pairs * square) if square > 0 else 0.0
        return cls(float(value), float(first), float(second), float(slope), count - 1.0)

    def __sub__(self, other: UStatistic) -> UStatistic:
        """The difference from that of independent samples."""
        first = self.first + other.first
        slope = 0.0
        if first > 0:
            slope = (self.first * self.slope - other.first * other.slope) / first
        return UStatistic(
            self.value - other.value,
            first,
            self.second + other.second,
            slope,
            min(self.freedom, other.freedom),
        )

    @property
    def variance(self) -> float:
        """Its variance, were the estimate the truth."""
        return max(self.first - self.second, self.second)

    def interval(self, miss: float) -> tuple[float, float]:
        """Interval that misses the expectation with this probability."""
        from scipy.special import stdtrit

        z = -float(stdtrit(self.freedom, 0.5 * miss))
        down, up = (
            0.5 * (z * z * slope + z * np.sqrt(z * z * slope**2 + 4.0 * self.variance))
            for slope in (max(-self.slope, 0.0), max(self.slope, 0.0))
        )
        return float(self.value - down), float(self.value + up)

    @property
    def pvalue(self) -> float:
        """P-value, two-sided, of the hypothesis that the expectation is 0; it is never 0."""
        from scipy.special import stdtr

        if self.value == 0:
            return 1.0
        variance = self.variance + max(-self.slope * self.value, 0.0)
        if not variance > 0:  # terms that are all the same
            return SMALLEST
        tail = 2.0 * stdtr(self.freedom, -abs(self.value) / np.sqrt(variance))
        return float(np.clip(tail, SMALLEST, 1.0))
