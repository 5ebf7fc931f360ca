"""Verdicts: whether our numbers agree with those of the paper, and its claims hold."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from ..report.rates import interval
from . import published
from .report import Table

# Rejections and tests.
Count: TypeAlias = Sequence[int]
# Whether a test rejects, by trial. Tests of the same trial have the same samples.
Outcomes: TypeAlias = Mapping[Hashable, bool]

_Key = TypeVar("_Key", bound=Hashable)

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


def paired_difference(one: Outcomes, other: Outcomes) -> tuple[float, float]:
    """95% interval of the difference of two rates of the same trials.

    References
    ----------
    Newcombe (1998), Improved confidence intervals for the difference between binomial proportions
    based on paired data. Statistics in Medicine 17, method 10.

    Examples
    --------
    >>> from fastsksd.experiments.verdicts import paired_difference
    >>> both, first, second = range(36), range(36, 48), range(48, 50)
    >>> one = {trial: trial < 48 for trial in range(50)}
    >>> other = {trial: trial in both or trial in second for trial in range(50)}
    >>> [round(end, 4) for end in paired_difference(one, other)]
    [0.0569, 0.3404]
    """
    pairs = np.array([(one[trial], other[trial]) for trial in one], dtype=float)
    n = len(pairs)
    rate, other_rate = pairs.mean(axis=0)
    (low, high), (other_low, other_high) = (interval(*tally(each)) for each in (one, other))
    both = float(pairs.prod(axis=1).sum())
    a, b, c = both, rate * n - both, other_rate * n - both
    d = n - a - b - c
    excess = a * d - b * c
    if excess > 0:
        excess = max(excess - 0.5 * n, 0.0)
    product = (a + b) * (c + d) * (a + c) * (b + d)
    phi = excess / np.sqrt(product) if product > 0 else 0.0

    def length(first: float, second: float) -> float:
        return float(np.sqrt(max(0.0, first**2 - 2.0 * phi * first * second + second**2)))

    middle = float(rate - other_rate)
    return (
        middle - length(rate - low, other_high - other_rate),
        middle + length(other_rate - other_low, high - rate),
    )


def tally(outcomes: Outcomes) -> Count:
    """Rejections and tests."""
    return sum(outcomes.values()), len(outcomes)


def tallies(decisions: Mapping[_Key, Outcomes]) -> dict[_Key, Count]:
    """Rejections and tests of each of several tests."""
    return {key: tally(outcomes) for key, outcomes in decisions.items()}


def printed(rate: float) -> Count:
    """Rejections and tests behind a rate of the paper."""
    return round(rate * published.TRIALS), published.TRIALS


def from_paper(
    count: Count, rate: float, spread: float = 0.0, models: int | None = None
) -> tuple[float, float]:
    """95% interval of our rate less the paper's.

    Parameters
    ----------
    count : pair of int
        Our rejections and tests.
    rate : float
        The rate in the paper.
    spread : float
        Standard deviation of what else is random in the difference, such as the model.
    models : int, optional
        Number of models that the spread was estimated from.
    """
    from scipy import stats

    low, high = difference(count, printed(rate))
    middle = count[0] / count[1] - rate
    half = float(stats.t.ppf(0.975, np.inf if models is None else max(1, models - 1))) * spread
    return (
        max(-1.0, middle - float(np.hypot(middle - low, half))),
        min(1.0, middle + float(np.hypot(high - middle, half))),
    )


def verdict(count: Count, rate: float, spread: float = 0.0, models: int | None = None) -> str:
    """How our rate stands to the paper's, by the 95% interval of the difference, see `from_paper`.

    It covers 0, or our rate is better or worse. With few tests the question is open.
    """
    if count[1] < FEWEST:
        return OPEN
    low, high = from_paper(count, rate, spread, models)
    return BETTER if low > 0 else WORSE if high < 0 else AGREES


def show_difference(one: Count, other: Count, ends: tuple[float, float]) -> str:
    """The difference of two rates with its interval."""
    return "{:+.2f} ({:+.2f} to {:+.2f})".format(one[0] / one[1] - other[0] / other[1], *ends)


class Claim(NamedTuple):
    """A claim of the paper: one rejection rate is larger than another.

    Where both have outcomes of the same trials, these are compared pair by pair, and the others
    left out.

    Attributes
    ----------
    text : str
        What the paper says.
    larger, smaller : mapping from trials to bool
        Whether each of the two tests rejects.
    cluster : callable, optional
        From a trial to what it shares with others, such as a random model. The interval is then
        that of a mean over clusters.
    """

    text: str
    larger: Outcomes
    smaller: Outcomes
    cluster: Callable[[Any], Hashable] | None = None

    @property
    def compared(self) -> tuple[Outcomes, Outcomes]:
        """The outcomes of the trials of both, or all where there is none."""
        shared = [trial for trial in self.larger if trial in self.smaller]
        if not shared:
            return self.larger, self.smaller
        return {t: self.larger[t] for t in shared}, {t: self.smaller[t] for t in shared}

    @property
    def difference(self) -> tuple[float, float] | None:
        """95% interval of the first rate less the second; None with few tests."""
        larger, smaller = self.compared
        if min(len(larger), len(smaller)) < FEWEST:
            return None
        if larger.keys() != smaller.keys():
            return difference(tally(larger), tally(smaller))
        if self.cluster is None:
            return paired_difference(larger, smaller)
        clusters: dict[Hashable, list[int]] = {}
        for trial in larger:
            one = int(larger[trial]) - int(smaller[trial])
            clusters.setdefault(self.cluster(trial), []).append(one)
        return mean_interval([float(np.mean(some)) for some in clusters.values()])

    @property
    def verdict(self) -> str:
        """Whether it holds; "open" if the trials do not tell."""
        return judged(self.difference)


def judged(ends: tuple[float, float] | None) -> str:
    """Whether a claim holds, by the interval of the difference; None with few tests."""
    if ends is None:
        return OPEN
    low, high = ends
    return HOLDS if low > 0 else FAILS if high < 0 else OPEN


def claims_table(claims: Sequence[Claim]) -> Table:
    """Claims with their rates, differences and verdicts."""
    header = ["claim", "this rate is larger ...", "... than this one",
              "difference (95% interval)", "verdict"]  # fmt: skip
    rows = []
    for one in claims:
        first, second = (tally(outcomes) for outcomes in one.compared)
        ends = one.difference
        between = "" if ends is None else show_difference(first, second, ends)
        rows.append([one.text, _shown(first), _shown(second), between, judged(ends)])
    return Table(header, rows)


def _shown(count: Count) -> str:
    if not count[1]:
        return ""
    return f"{count[0] / count[1]:.2f}, {count[1]} test{'s' * (count[1] != 1)}"


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
