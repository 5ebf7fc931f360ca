"""What a test is made of: the evaluation of a member, and the combination of several."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from .._typing import Array
from ..compute.chi_square import log_tail_of_weighted_chi_square, positive_exp
from ..engines.folded import FoldPair
from ..slices import Slices
from .metric import Metric
from .nulls import resampling_pvalue


class Evaluation(NamedTuple):
    """The statistic of one member, with its null distribution.

    Attributes
    ----------
    name, kind, multiple, part
        Which member of the test this is; the multiple is None where there is no bandwidth.
    slices : Slices or None
        In the user's coordinates.
    statistics, bandwidths : (m,) arrays
        Of each slice.
    engine : str
        Name of the engine that computed them.
    replicates : (n_resamples,) array or None
        Of the summed statistic.
    chi2_weights : array or None
        Of the limit distribution, for null="spectral".
    log_bound : float or None
        Logarithm of a p-value, where there are neither replicates nor a limit distribution.
    n : int or None
        For a limit distribution: samples, which bound the p-value.
    share : float
        Fraction of the level that the kind of this member gets, relative to other kinds.
    units : (m,) array or None
        What scores along each slice are multiplied by, as the test was made in other coordinates.
    coordinates : callable or None
        Returns the parts of the statistic that belong to each coordinate, (d,).
    fold_pairs : tuple of FoldPair
        Where bandwidths come from other samples, see `fastsksd.procedure.other_rows`; else empty.
    """

    name: str
    kind: str
    multiple: float | None
    part: str
    slices: Slices | None
    statistics: Array
    bandwidths: Array
    engine: str
    replicates: Array | None = None
    chi2_weights: Array | None = None
    log_bound: float | None = None
    n: int | None = None
    share: float = 1.0
    units: Array | None = None
    coordinates: Callable[[], Array] | None = None
    fold_pairs: tuple[FoldPair, ...] = ()

    @property
    def statistic(self) -> float:
        """Sum over slices."""
        return float(self.statistics.sum())

    @property
    def log_pvalue(self) -> float:
        """Natural logarithm of the p-value by the limit distribution.

        It is at least ``2^(1 - n)``, the smallest p-value that signs of n samples can have: a limit
        distribution that a few samples leave nearly constant shows nothing.
        """
        if self.log_bound is not None:
            return self.log_bound
        tail = log_tail_of_weighted_chi_square(cast(Array, self.chi2_weights), self.statistic)
        return tail if self.n is None else max(tail, (1.0 - self.n) * math.log(2.0))

    @property
    def pvalue(self) -> float:
        """The p-value of this member alone, never zero."""
        if self.replicates is not None:
            return resampling_pvalue(self.statistic, self.replicates)
        return positive_exp(self.log_pvalue)


class ForUser(NamedTuple):
    """Slices as the user knows them.

    Attributes
    ----------
    slices : Slices
        In the user's coordinates.
    units : (m,) array or None
        As in an `Evaluation`.
    lengths : (m,) array or float
        What bandwidths in the coordinates of the test are to be divided by.
    """

    slices: Slices
    units: Array | None = None
    lengths: Array | float = 1.0


def for_user(metric: Metric | None, slices: Slices) -> ForUser:
    """Slices of a metric, or of none, as the user knows them."""
    return ForUser(slices) if metric is None else ForUser(*metric.to_user(slices))


def sliced_evaluation(
    name: str,
    kind: str,
    multiple: float,
    part: str,
    known: ForUser,
    statistics: Array,
    bandwidths: Array,
    engine: str,
    fold_pairs: tuple[FoldPair, ...] = (),
    **nulls: Any,
) -> Evaluation:
    """The evaluation of a set of slices, with directions and bandwidths as the user knows them."""
    return Evaluation(
        name,
        kind,
        multiple,
        part,
        known.slices,
        statistics,
        bandwidths / known.lengths,
        engine,
        units=known.units,
        fold_pairs=tuple(pair._replace(h=pair.h / known.lengths) for pair in fold_pairs),
        **nulls,
    )


class Combined(NamedTuple):
    """Calibrated combination of the members of a family.

    Attributes
    ----------
    evidence : float
        ``-log10`` of the weighted mean of the p-values, see `fastsksd.procedure.combine`.
    pvalue : float
        Its p-value.
    null_distribution : (n_resamples,) array
        Replicates of the evidence.
    neg_log10_p : (k,) array
        Of each member, weighted.
    pvalues, adjusted_pvalues : (k,) arrays
        Of each member alone, and allowing for the number of members.
    strongest : int
    """

    evidence: float
    pvalue: float
    null_distribution: Array
    neg_log10_p: Array
    pvalues: Array
    adjusted_pvalues: Array
    strongest: int


class Outcome(NamedTuple):
    """What an evaluation yields.

    Attributes
    ----------
    members : list of Evaluation
    lag : float
        The lag in force.
    locations, n_model, kernel
        As in a `GofResult`, where they differ from the plan's.
    combined : Combined or None
        The combination of the members, for a baseline that has one of its own.
    """

    members: list[Evaluation]
    lag: float
    locations: Array | None = None
    n_model: int = 0
    kernel: str | None = None
    combined: Combined | None = None
