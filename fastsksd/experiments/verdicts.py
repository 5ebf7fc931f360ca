"""Verdicts: whether our numbers agree with those of the paper, and its claims hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from ..report.rates import interval
from . import published
from .report import Table, show_rate

# Rejections and tests.
Count: TypeAlias = Sequence[int]

AGREES, BETTER, WORSE = "agrees", "better", "worse"
FEWEST = 10  # tests, with fewer of which nothing is said
HOLDS, FAILS, OPEN = "holds", "does not hold", "open"


def difference(one: Count, other: Count) -> tuple[float, float]:
    """95% interval of the difference of two rates.

    References
    ----------
    Newcombe (1998), Interval estimation for the difference between independent proportions.
    Statistics in Medicine 17, method 10.

    Examples
    --------
    >>> from fastsksd.experiments.verdicts import difference
    >>> [round(float(end), 4) for end in difference((56, 70), (48, 80))]
    [0.0524, 0.3339]
    """
    (low, high), (other_low, other_high) = interval(*one), interval(*other)
    rate, other_rate = one[0] / one[1], other[0] / other[1]
    middle = rate - other_rate
    return (
        middle - float(np.hypot(rate - low, other_high - other_rate)),
        middle + float(np.hypot(high - rate, other_rate - other_low)),
    )


def printed(rate: float) -> Count:
    """Rejections and tests behind a rate of the paper."""
    return round(rate * published.TRIALS), published.TRIALS


def verdict(count: Count, rate: float, spread: float = 0.0) -> str:
    """How our rate stands to the paper's, by the 95% interval of the difference.

    It covers 0, or our rate is better or worse. With few tests the question is open.

    Parameters
    ----------
    count : pair of int
        Our rejections and tests.
    rate : float
        The rate in the paper.
    spread : float
        Standard deviation of what else is random in the difference, such as the model.
    """
    if count[1] < FEWEST:
        return OPEN
    low, high = difference(count, printed(rate))
    middle = count[0] / count[1] - rate
    low, high = (
        middle - float(np.hypot(middle - low, 1.96 * spread)),
        middle + float(np.hypot(high - middle, 1.96 * spread)),
    )
    return BETTER if low > 0 else WORSE if high < 0 else AGREES


class Claim(NamedTuple):
    """A claim of the paper: one rejection rate is larger than another (None: no trial yet)."""

    text: str
    larger: Count | None
    smaller: Count | None

    @property
    def verdict(self) -> str:
        """Whether it holds; "open" if the trials do not tell."""
        if self.larger is None or self.smaller is None:
            return OPEN
        if min(self.larger[1], self.smaller[1]) < FEWEST:
            return OPEN
        low, high = difference(self.larger, self.smaller)
        return HOLDS if low > 0 else FAILS if high < 0 else OPEN


def claims_table(claims: Sequence[Claim]) -> Table:
    """Claims with their rates and verdicts."""
    header = ["claim", "this rate is larger ...", "... than this one", "verdict"]
    return Table(header, [[one.text, _shown(one.larger), _shown(one.smaller), one.verdict]
                          for one in claims])  # fmt: skip


def _shown(count: Count | None) -> str:
    return "" if count is None else f"{show_rate(*count)}, {count[1]} test{'s' * (count[1] != 1)}"


def spread_of_models(counts: Sequence[Count]) -> float:
    """Standard deviation of the rate between models, beyond what the trials explain.

    Zero if no model has two trials.
    """
    several = [count for count in counts if count[1] > 1]
    if len(several) < 2:
        return 0.0
    rates = np.array([rejected / trials for rejected, trials in several])
    # Unbiased: the variance of a model's own rate is estimated within it.
    within = np.mean(
        [rate * (1 - rate) / (count[1] - 1) for rate, count in zip(rates, several, strict=True)]
    )
    return float(np.sqrt(max(0.0, np.var(rates, ddof=1) - within)))


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Student's 95% interval of a mean; infinite for a single value."""
    from scipy import stats

    mean = float(np.mean(values))
    if len(values) < 2:
        return -np.inf, np.inf
    half = stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return mean - float(half), mean + float(half)
