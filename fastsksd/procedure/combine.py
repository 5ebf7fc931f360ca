"""The verdict: of one member, or of a family by one calibrated combination of its members.

No single statistic is best. The coordinate basis sees heavy tails that every coordinate shares and
misses a hidden direction; a few active directions see that one and miss the tails; kernels of the
whole vector see what all directions share a little of. So a small family is tried at once, with the
same resampling weights for every member, and the combination is calibrated on the joint replicates:

1. Each member's statistic is turned into a p-value of its own by a shifted chi-square distribution
   with the mean, variance and skewness of its replicates (the three-moment fit of Pearson, 1959;
   see also Imhof, 1961). Replicates are treated in the same way: each value is judged by the
   distribution fitted to all the others. The null distributions of the members differ in shape,
   from a single squared normal to nearly normal. Dividing by a standard deviation alone would let
   the skewed ones set the critical value for all.
2. Kinds of members get fractions of the level, and the members of a kind share alike: a p-value is
   divided by the weight of its member (Genovese, Roeder and Wasserman, 2006). The location has two
   shares, the linear kernel in the diagonal metric has one and a half, every other kind has one.
3. The verdict rests on the weighted harmonic mean of the p-values (Wilson, 2019), which is near the
   smallest of them where one member sees everything, and smaller where several see a little. Every
   replicate gets its own in the same way, and the rank among them is the p-value of the test.
   Adjusted p-values of single members come from the ranks of their smallest p-value (Westfall and
   Young, 1993).

The members, their shares and the mean were chosen on 23 problems, in a comparison that was not
kept. The studies "peers" and "choices" show them on other seeds and problems. Which members there
are matters more than how they are combined: other power means of the p-values and other shares
have the same mean power within noise, and one metric alone, or a single member, has less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from .._typing import Array
from .._validate import check_statistic
from ..compute.chi_square import positive_exp, weighted_chi_square_draws
from .evaluation import Combined, Evaluation, Outcome
from .nulls import resampling_pvalue
from .plan import Plan


class Member(NamedTuple):
    """One member of a family: a set of slices or a kernel, a bandwidth, a part of the samples.

    Attributes
    ----------
    name : str
        Name of the set of slices, or of a member without slices and its metric.
    multiple : float or None
        Of the kernel's bandwidth; None where it has none.
    part : str
        "all", "held out", "half 1" or "half 2" of the samples.
    statistic : float
        U-statistic of the discrepancy, summed over slices.
    pvalue, adjusted_pvalue : float
        Of this member alone, and allowing for the number of members.
    n_slices : int
        Number of slices; 0 for a member that has none.
    """

    name: str
    multiple: float | None
    part: str
    statistic: float
    pvalue: float
    adjusted_pvalue: float
    n_slices: int = 0


class Verdict(NamedTuple):
    """The decision of a test: its p-value, and the member on which it rests.

    `sliced` is the strongest member that has slices, or the strongest of all where none has.
    """

    pvalue: float
    null_distribution: Array
    strongest: Evaluation
    sliced: Evaluation
    evidence: float | None = None
    members: tuple[Member, ...] = ()

    def fields(self) -> dict[str, Any]:
        """What a `GofResult` holds of it, by the names there."""
        strongest, sliced = self.strongest, self.sliced
        return dict(
            statistic=strongest.statistic,
            pvalue=self.pvalue,
            null_distribution=self.null_distribution,
            slices=sliced.slices,
            slice_statistics=sliced.statistics,
            bandwidths=sliced.bandwidths,
            slice_units=sliced.units,
            members=self.members,
            evidence=self.evidence,
            coordinate_statistics=None
            if strongest.coordinates is None
            else strongest.coordinates(),
        )

    def withheld(self) -> Verdict:
        """The same without p-values, for chains that are too short."""
        nan = float("nan")
        members = [one._replace(pvalue=nan, adjusted_pvalue=nan) for one in self.members]
        return self._replace(pvalue=nan, members=tuple(members))


def decide(plan: Plan, outcome: Outcome) -> Verdict:
    """The verdict of one member, or of a family by its calibrated combination."""
    evaluations = outcome.members
    if not plan.is_family:
        return _single_verdict(plan, evaluations[0])
    combined = outcome.combined
    if combined is None:
        weights = member_weights([(one.kind, one.share) for one in evaluations])
        bounded = evaluations[0].chi2_weights is not None
        combined = (_bounded if bounded else _calibrated)(evaluations, weights)
    rows = [
        Member(
            one.name,
            one.multiple,
            one.part,
            one.statistic,
            float(p),
            float(adjusted),
            0 if one.slices is None else len(one.slices),
        )
        for one, p, adjusted in zip(
            evaluations, combined.pvalues, combined.adjusted_pvalues, strict=True
        )
    ]
    order = np.argsort(-combined.neg_log10_p, kind="stable")
    ranked = [evaluations[k] for k in order]
    return Verdict(
        combined.pvalue,
        combined.null_distribution,
        ranked[0],
        next((one for one in ranked if one.slices is not None), ranked[0]),
        combined.evidence,
        tuple(rows[k] for k in order),
    )


def _single_verdict(plan: Plan, one: Evaluation) -> Verdict:
    if one.replicates is not None:
        return Verdict(one.pvalue, one.replicates, one, one)
    draws = weighted_chi_square_draws(cast(Array, one.chi2_weights), plan.n_resamples, plan.rng)
    return Verdict(one.pvalue, draws, one, one)


def _calibrated(evaluations: Sequence[Evaluation], weights: Array) -> Combined:
    """Harmonic mean of the weighted p-values, calibrated on the joint replicates."""
    statistics = np.array([one.statistic for one in evaluations])
    return combine(statistics, np.array([one.replicates for one in evaluations]), weights)


def _bounded(evaluations: Sequence[Evaluation], weights: Array) -> Combined:
    """Smallest weighted p-value times the number of members (Bonferroni).

    Without replicates the dependence of the members is not known.
    """
    logs = np.array([one.log_pvalue for one in evaluations])
    adjusted = [positive_exp(min(0.0, log)) for log in logs - np.log(weights / len(weights))]
    evidence = (np.log(weights) - logs) / np.log(10.0)
    strongest = int(np.argmax(evidence))
    pvalues = np.array([one.pvalue for one in evaluations])
    return Combined(
        float(evidence[strongest]),
        adjusted[strongest],
        np.empty(0),
        evidence,
        pvalues,
        np.array(adjusted),
        strongest,
    )


def combine(
    statistics: Array, replicates: Array, weights: Array | float = 1.0, exponent: float = 1.0
) -> Combined:
    """Combine members with statistics (k,) and replicates (k, n_resamples).

    Replicates are joint: drawn with the same weights of the samples. `weights` (k,) divide the
    members' p-values; equal weights are 1. The mean is ``(mean p^-a)^(-1/a)`` with the `exponent`
    a: harmonic for 1, the smallest p-value for infinity, the geometric mean for 0.
    """
    check_statistic(replicates)
    members, null_members = _evidence(statistics, replicates, weights)
    largest = null_members.max(axis=0)
    adjusted = np.array([resampling_pvalue(value, largest) for value in members])
    pairs = zip(statistics, replicates, strict=True)
    pvalues = np.array([resampling_pvalue(statistic, row) for statistic, row in pairs])
    evidence, null = (_neg_log10_mean(one, exponent) for one in (members, null_members))
    return Combined(
        float(evidence),
        resampling_pvalue(float(evidence), null),
        null,
        members,
        pvalues,
        adjusted,
        int(np.argmax(members)),
    )


def _neg_log10_mean(neg_log10_p: Array, exponent: float) -> Array:
    """``-log10`` of a power mean of p-values along the first axis, see `combine`."""
    largest = neg_log10_p.max(axis=0)
    if exponent == 0 or np.isinf(exponent):
        return largest if exponent else np.asarray(neg_log10_p.mean(axis=0))
    powers = 10.0 ** (exponent * (neg_log10_p - largest))
    return largest + np.log10(np.mean(powers, axis=0)) / exponent


def step_down(statistics: Array, replicates: Array) -> Array:
    """Adjusted p-values of k statistics with joint replicates (k, n_resamples).

    Step-down on the smallest p-value of those not yet rejected (Westfall and Young, 1993).
    """
    evidence, null_evidence = _evidence(statistics, replicates, 1.0)
    order = np.argsort(-evidence, kind="stable")
    # The largest evidence of each statistic and all weaker ones.
    left = np.maximum.accumulate(null_evidence[order][::-1], axis=0)[::-1]
    pairs = zip(evidence[order], left, strict=True)
    adjusted = np.empty_like(evidence)
    adjusted[order] = np.maximum.accumulate([resampling_pvalue(one, null) for one, null in pairs])
    return adjusted


def member_weights(kinds: Sequence[tuple[str, float]]) -> Array:
    """Weight of each member from its kind and the share of that kind; their mean is 1.

    Members of a kind share alike.
    """
    shares = dict(kinds)
    sizes = Counter(kind for kind, _ in kinds)
    total = sum(shares.values())
    return np.array([len(kinds) * shares[kind] / (total * sizes[kind]) for kind, _ in kinds])


def _evidence(statistics: Array, replicates: Array, weights: Array | float) -> tuple[Array, Array]:
    """Weighted ``-log10 p`` of each statistic and of each replicate, by the fitted distribution."""
    evidence = np.empty_like(statistics)
    null_evidence = np.empty_like(replicates)
    bonus = np.broadcast_to(np.log10(weights), statistics.shape)
    for k, (statistic, row) in enumerate(zip(statistics, replicates, strict=True)):
        everything = np.append(row, statistic)
        values = _neg_log10_tail(_fits_to_the_others(everything), everything) + bonus[k]
        null_evidence[k], evidence[k] = values[:-1], values[-1]
    return evidence, null_evidence


def _fits_to_the_others(values: Array) -> tuple[Array, Array, Array]:
    """For each value the shifted chi-square with the first three moments of all the others.

    Returns mean, deviation and degrees of freedom. A value that had a part in its own fit would
    look less extreme than it is; replicates would, and the statistic would not.
    """
    n = values.size - 1
    scale = np.abs(values).max() or 1.0  # so that squares do not overflow
    centre, unit = values[:-1].mean(), scale * (values[:-1] / scale).std()
    unit = unit or abs(values[-1] - centre) or 1.0
    z = (values - centre) / unit

    def mean_of_others(powers: Array) -> Array:
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


def _neg_log10_tail(fit: tuple[Array, Array, Array], values: Array) -> Array:
    """``-log10`` of the tail of a fitted distribution beyond each value, finite however far out."""
    from scipy.special import gammaincc, gammaln, log_ndtr

    mean, deviation, df = (np.broadcast_to(parameter, np.shape(values)) for parameter in fit)
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
