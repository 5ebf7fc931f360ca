"""The aggregated test: many sets of slices and bandwidths, one calibrated verdict.

No single set of slices is best. The coordinate basis sees heavy tails that every coordinate shares and misses a hidden direction;
a few active directions see that one and miss the tails. So a small family is tried at once, with the same resampling weights
for every member, and the combination is calibrated on the joint replicates:

1. Each member's statistic is turned into a p-value of its own by a shifted chi-square law with the mean, variance and skewness of
   its replicates (the three-moment fit of Pearson, 1959; see also Imhof, 1961). Replicates are treated alike: each value is
   judged by the law of all the others. The members' null laws differ in shape, from a
   single squared normal to nearly normal, so dividing by a standard deviation alone would let the skewed ones set the
   critical value for all.
2. The kinds of sets (coordinates, active r with g = r, active r with active g, each set of the user's) get equal shares of the
   level, and the members of a kind share alike: a p-value is divided by its member's share (Genovese, Roeder and Wasserman,
   2006). Else the many active sets would leave the one coordinate basis next to nothing.
3. The verdict rests on the smallest of these weighted p-values. Every replicate gets its own smallest one in the same way, and
   the rank among them is the p-value of the test (Westfall and Young, 1993). Adjusted p-values of the members come from the
   same ranks.

The smallest p-value was chosen by measurement: a studentised maximum was never better and on rotated Laplace data worse.
"""

from typing import NamedTuple

import numpy as np

from .nulls import resampling_pvalue


class Member(NamedTuple):
    """One member of the family: a set of slices with one multiple of the bandwidth, on a part of the samples."""

    name: str
    multiple: float
    part: str
    statistic: float
    pvalue: float
    adjusted_pvalue: float


class Combined(NamedTuple):
    """Calibrated combination of the members."""

    statistic: float
    pvalue: float
    null_distribution: np.ndarray
    scores: np.ndarray
    pvalues: np.ndarray
    adjusted_pvalues: np.ndarray
    strongest: int


def combine(statistics, replicates, shares=1.0):
    """Combine members with statistics (k,) and replicates (k, n_resamples) drawn with the same weights.

    The combined statistic is ``-log10`` of the smallest p-value of a member, each divided by the member's share, (k,), where
    equal shares are 1.
    """
    scores, null_scores = _scores(statistics, replicates, shares)
    null = null_scores.max(axis=0)
    adjusted = np.array([resampling_pvalue(score, null) for score in scores])
    pvalues = np.array(
        [
            resampling_pvalue(statistic, row)
            for statistic, row in zip(statistics, replicates, strict=True)
        ]
    )
    strongest = int(np.argmax(scores))
    return Combined(
        float(scores[strongest]),
        float(adjusted[strongest]),
        null,
        scores,
        pvalues,
        adjusted,
        strongest,
    )


def step_down(statistics, replicates):
    """Adjusted p-values of each of several statistics, (k,): step-down on the smallest p-value of those not yet rejected (Westfall and Young, 1993)."""
    scores, null_scores = _scores(statistics, replicates, 1.0)
    order = np.argsort(-scores, kind="stable")
    # Strongest of the statistics from each one on.
    left = np.maximum.accumulate(null_scores[order][::-1], axis=0)[::-1]
    steps = [
        resampling_pvalue(score, null) for score, null in zip(scores[order], left, strict=True)
    ]
    adjusted = np.empty_like(scores)
    adjusted[order] = np.maximum.accumulate(steps)
    return adjusted


def _scores(statistics, replicates, shares):
    """``-log10`` of the p-value of each statistic by the law fitted to its replicates, over its share, and of each replicate."""
    scores = np.empty_like(statistics)
    null_scores = np.empty_like(replicates)
    bonus = np.broadcast_to(np.log10(shares), statistics.shape)
    for k, (statistic, row) in enumerate(zip(statistics, replicates, strict=True)):
        law = _laws_of_the_others(np.append(row, statistic))
        values = _log10_tail(law, np.append(row, statistic)) + bonus[k]
        null_scores[k], scores[k] = values[:-1], values[-1]
    return scores, null_scores


def shares_of(kinds):
    """Share of each member when the kinds share the level equally, times the number of members; `kinds` names each member's."""
    names, counts = np.unique(kinds, return_counts=True)
    sizes = dict(zip(names.tolist(), counts.tolist(), strict=True))
    return np.array([len(kinds) / (names.size * sizes[kind]) for kind in kinds])


def _laws_of_the_others(values):
    """For each value the shifted chi-square with the first three moments of all the others: mean, deviation, degrees of freedom.

    A value that had a part in its own law would look less extreme than it is; replicates would, and the statistic would not.
    """
    n = values.size - 1
    centre, unit = values[:-1].mean(), values[:-1].std()
    unit = unit or abs(values[-1] - centre) or 1.0
    z = (values - centre) / unit

    def mean_of_others(powers):
        sums = powers[:-1].sum() + (powers[-1] - powers)
        # The statistic may be so large that it leaves no digits of the rest.
        sums[-1] = powers[:-1].sum()
        return sums / n

    z2 = z * z
    mean = mean_of_others(z)
    second = np.maximum(mean_of_others(z2) - mean * mean, 0.0)
    third = mean_of_others(z2 * z) - mean * (3.0 * second + mean * mean)
    deviation = np.sqrt(second)
    constant = deviation <= 1e-7 * np.abs(mean)
    skewness = np.where(constant, 0.0, third / np.where(constant, 1.0, second * deviation))
    df = np.where(skewness > 1e-3, 8.0 / np.maximum(skewness, 1e-3) ** 2, np.inf)
    return centre + unit * mean, np.where(constant, unit, unit * deviation), df


def _log10_tail(law, values):
    """``-log10 P(law >= values)``, finite however far the tail."""
    from scipy.special import gammaincc, gammaln, log_ndtr

    mean, deviation, df = (np.broadcast_to(parameter, np.shape(values)) for parameter in law)
    z = (values - mean) / deviation
    normal = df > 1e4
    logs = np.empty_like(z)
    logs[normal] = log_ndtr(-z[normal])
    shape = 0.5 * df[~normal]
    y = np.maximum(shape + z[~normal] * np.sqrt(shape), 0.0)
    tail = gammaincc(shape, y)
    # Beyond the smallest double the leading term of the tail's expansion is exact to many digits.
    far = (shape - 1.0) * np.log(np.maximum(y, 1.0)) - y - gammaln(shape)
    logs[~normal] = np.where(tail > 1e-290, np.log(np.maximum(tail, 1e-300)), far)
    return -logs / np.log(10.0)
