"""The aggregated test: many sets of slices and bandwidths, one calibrated verdict.

No single set of slices is best. The coordinate basis sees heavy tails that every coordinate shares and misses a hidden direction;
a few active directions see that one and miss the tails. So a small family is tried at once, with the same resampling weights
for every member, and the combination is calibrated on the joint replicates:

1. Each member's statistic is turned into a p-value of its own by a shifted chi-square law with the mean, variance and skewness of
   its replicates (the three-moment fit of Pearson, 1959; see also Imhof, 1961). The members' null laws differ in shape, from a
   single squared normal to nearly normal, so dividing by a standard deviation alone would let the skewed ones set the
   critical value for all.
2. The verdict rests on the smallest of these p-values. Every replicate gets its own smallest p-value in the same way, and the
   rank among them is the p-value of the test (Westfall and Young, 1993). Adjusted p-values of the members come from the
   same ranks.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .nulls import resampling_pvalue
from .slices import Slices, as_slices

TOP = (1, 3, 10)
MULTIPLES = (0.5, 1.0, 2.0)


class Member(NamedTuple):
    """One member of the family: a set of slices with one multiple of the median bandwidth."""

    name: str
    multiple: float
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


def combine(statistics, replicates):
    """Combine members with statistics (k,) and replicates (k, n_resamples) drawn with the same weights.

    The combined statistic is ``-log10`` of the smallest p-value of a member.
    """
    scores = np.empty_like(statistics)
    null_scores = np.empty_like(replicates)
    for k, (statistic, row) in enumerate(zip(statistics, replicates, strict=True)):
        law = _fit(row)
        scores[k] = _log10_tail(law, statistic)
        null_scores[k] = _log10_tail(law, row)
    null = null_scores.max(axis=0)
    adjusted = np.array([resampling_pvalue(score, null) for score in scores])
    pvalues = np.array([resampling_pvalue(statistic, row) for statistic, row in zip(statistics, replicates, strict=True)])
    strongest = int(np.argmax(scores))
    return Combined(float(scores[strongest]), float(adjusted[strongest]), null, scores, pvalues, adjusted, strongest)


def _fit(replicates):
    """Mean, standard deviation and degrees of freedom of the shifted chi-square with the replicates' first three moments."""
    mean, deviation = replicates.mean(), replicates.std()
    if deviation == 0:
        return mean, 1.0, np.inf
    skewness = np.mean(((replicates - mean) / deviation) ** 3)
    return mean, deviation, 8.0 / skewness**2 if skewness > 1e-3 else np.inf


def _log10_tail(law, values):
    """``-log10 P(law >= values)``, finite however far the tail."""
    from scipy.special import gammaincc, gammaln, log_ndtr

    mean, deviation, df = law
    z = (values - mean) / deviation
    if df > 1e4:
        return -log_ndtr(-z) / np.log(10.0)
    shape = 0.5 * df
    y = np.maximum(shape + z * np.sqrt(shape), 0.0)
    tail = gammaincc(shape, y)
    with np.errstate(divide="ignore"):
        # Beyond the smallest double the leading term of the tail's expansion is exact to many digits.
        logs = np.where(
            tail > 1e-290, np.log(np.maximum(tail, 1e-300)), (shape - 1.0) * np.log(np.maximum(y, 1.0)) - y - gammaln(shape)
        )
    return -logs / np.log(10.0)


def standard_sets(found, extra=()):
    """The standard family for active slices `found` (as many as there are, most important first), and named sets added to it.

    Returns a list of pairs (name, list of Slices). Sets share their parts: the top 3 are the top 1 and two more, so what they have
    in common is computed once.
    """
    d, m = found.d, len(found)
    sets = [("coordinates", [Slices(np.eye(d), np.eye(d))])]
    edges = [0, *(top for top in TOP if top < m), m]
    for title, g in (("g = r", found.r), ("active g", found.g)) if d > 1 else ():
        parts = [Slices(found.r[a:b], g[a:b]) for a, b in pairwise(edges)]
        for count in range(1, len(parts) + 1):
            size = "all" if edges[count] == m else f"top {edges[count]}"
            sets.append((f"{size} active r, {title}", parts[:count]))
    for name, _ in extra:
        if name in dict(sets):
            raise ValueError(f"`extra_slices` has a set named {name!r}, which is a name of the standard family.")
    return sets + [(name, [slices]) for name, slices in extra]


def check_sets(argument, sets, d):
    """Named sets of slices, from a mapping or a sequence of pairs, as a list of (name, Slices)."""
    pairs = list(sets.items() if isinstance(sets, Mapping) else sets)
    if not pairs:
        raise ValueError(f"`{argument}` holds no set of slices; leave it out or give at least one.")
    checked = {}
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)):
            raise TypeError(f"`{argument}` must map names to slices, or be a sequence of pairs (name, slices).")
        name, slices = pair
        if name in checked:
            raise ValueError(f"`{argument}` has two sets named {name!r}.")
        try:
            checked[name] = as_slices(slices, d)
        except (TypeError, ValueError) as error:
            raise type(error)(f"`{argument}`, set {name!r}: {error}") from None
    return list(checked.items())
