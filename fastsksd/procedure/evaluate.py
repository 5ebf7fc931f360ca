"""Statistics of sets of slices on parts of the samples, each with its null distribution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np

from .._typing import Array
from .._validate import check_statistic
from ..compute.chi_square import limit_weights, log_tail_of_weighted_chi_square, positive_exp
from ..compute.linalg import product
from ..compute.medians import median_distances
from ..compute.projections import project, spread
from ..engines import Source
from ..engines.pairs import statistic as pair_statistic
from ..kernels import FlatProjection, Kernel
from ..slices import Slices
from .family import Pool
from .lags import choose_lag
from .nulls import Weights, resampling_pvalue, resampling_scale
from .plan import Plan, check_lag_fits, check_test_size
from .split import Part, Split


class Evaluation(NamedTuple):
    """The statistic of one set of slices at one multiple of the bandwidth, with its null.

    Attributes
    ----------
    name, kind, multiple, part
        Which member of the test this is.
    slices : Slices or None
    statistics, bandwidths : (m,) arrays
        Of each slice.
    engine : str
        Name of the engine that computed them.
    replicates : (n_resamples,) array or None
        Of the summed statistic.
    chi2_weights : array or None
        Of the limit distribution, for null="spectral".
    """

    name: str
    kind: str
    multiple: float
    part: str
    slices: Slices | None
    statistics: Array
    bandwidths: Array
    engine: str
    replicates: Array | None = None
    chi2_weights: Array | None = None

    @property
    def statistic(self) -> float:
        """Sum over slices."""
        return float(self.statistics.sum())

    @property
    def log_pvalue(self) -> float:
        """Natural logarithm of the p-value by the limit distribution."""
        return log_tail_of_weighted_chi_square(cast(Array, self.chi2_weights), self.statistic)

    @property
    def pvalue(self) -> float:
        """The p-value of this member alone, never zero."""
        if self.replicates is not None:
            return resampling_pvalue(self.statistic, self.replicates)
        return positive_exp(self.log_pvalue)


class Combined(NamedTuple):
    """Calibrated combination of the members of a family.

    Attributes
    ----------
    evidence : float
        ``-log10`` of the smallest weighted p-value.
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


def evaluate(plan: Plan, split: Any) -> Outcome:
    """Evaluate every set of slices at every multiple of the bandwidth, or a baseline's statistic.

    `split` is what `search` returned.
    """
    if plan.baseline is not None:
        return plan.baseline.evaluate(plan, split)
    smallest = min(part.n for part in split.parts)
    check_test_size(smallest)
    samples, lag = split.samples, plan.lag
    if lag is None:
        first = split.parts[0].pools[0].slices
        lag = choose_lag(samples.x, samples.scores, first, plan.kernel, smallest)
    check_lag_fits(lag, smallest)
    weights = None
    if plan.null != "spectral":
        edges = sorted({part.stretch.start for part in split.parts} - {0})
        weights = Weights(
            plan.null, samples.x.shape[0], plan.n_resamples, lag=lag, edges=edges, rng=plan.rng
        )
    members = [one for part in split.parts for one in _evaluate_part(plan, split, part, weights)]
    return Outcome(members, lag)


def _evaluate_part(
    plan: Plan, split: Split, part: Part, weights: Weights | None
) -> Iterator[Evaluation]:
    tested = split.samples.part(part.stretch)
    if weights is None:
        for pool in part.pools:
            yield from _limit_members(plan, part, pool, tested, split.samples.x)
        return
    groups = [
        _Group(pool, start, stop, plan, part, tested, split.samples.x)
        for pool in part.pools
        for start, stop in pairwise((0, *(one.size for one in pool.sets)))
    ]
    _resample(groups, weights, part.stretch.start, resampling_scale(plan.null, part.n))
    for pool in part.pools:
        mine = [group for group in groups if group.pool is pool]
        for count, one in enumerate(pool.sets, start=1):
            for multiple in plan.multiples:
                yield _joined(one.name, mine[:count], multiple, part.name)


class _Group:
    """Consecutive slices of a pool, which its sets share, loaded into an engine."""

    def __init__(
        self,
        pool: Pool,
        start: int,
        stop: int,
        plan: Plan,
        part: Part,
        tested: Any,
        everything: Array,
    ) -> None:
        self.pool, self.start, self.stop = pool, start, stop
        self.multiples = plan.multiples
        slices = pool.slices[start:stop]
        y, s, a, self.h = _project(tested.x, tested.scores, everything, slices, plan.kernel)
        self.pairs = plan.engine(
            plan.kernel.code,
            *(y, s, a, self.h),
            source=Source(tested.x, tested.scores, slices.r, slices.g),
            n_resamples=plan.n_resamples,
            multiples=plan.multiples,
            signs=plan.null == "wild",
        )
        self.sums: dict[float, Array] = {}
        self.replicates: dict[float, list[Array]] = {multiple: [] for multiple in plan.multiples}

    def add(self, batch: Array, first: int, scale: float) -> None:
        """Meet a batch of weights, whose columns for this part begin at `first`."""
        results = self.pairs.sums_and_replicates_at(self.multiples, batch, first)
        for multiple, (total, values) in zip(self.multiples, results, strict=True):
            self.sums[multiple] = total
            self.replicates[multiple].append(scale * values)

    def statistics(self, multiple: float) -> Array:
        """U-statistic of each slice."""
        return check_statistic(pair_statistic(self.pairs, self.sums[multiple], "u"))


def _resample(groups: Sequence[_Group], weights: Weights, first: int, scale: float) -> None:
    """All replicates of all groups; weights are drawn once for each place they are drawn at."""
    for draw in {group.pairs.draw for group in groups}:
        for batch in weights.batches(draw):
            for group in groups:
                if group.pairs.draw is draw:
                    group.add(batch, first, scale)


def _joined(name: str, groups: Sequence[_Group], multiple: float, part: str) -> Evaluation:
    """The set of slices that these groups of a pool make up."""
    pool = groups[0].pool
    return Evaluation(
        name,
        pool.kind,
        multiple,
        part,
        pool.slices[: groups[-1].stop],
        np.concatenate([group.statistics(multiple) for group in groups]),
        np.concatenate([multiple * group.h for group in groups]),
        " and ".join(group.pairs.name for group in groups),
        replicates=np.add.reduce([np.concatenate(group.replicates[multiple]) for group in groups]),
    )


def _limit_members(
    plan: Plan, part: Part, pool: Pool, tested: Any, everything: Array
) -> Iterator[Evaluation]:
    """Members with their limit distribution, which belongs to a whole set: nothing is shared."""
    for one in pool.sets:
        slices = pool.slices[: one.size]
        y, s, a, h = _project(tested.x, tested.scores, everything, slices, plan.kernel)
        source = Source(tested.x, tested.scores, slices.r, slices.g)
        for multiple in plan.multiples:
            pairs = plan.engine(
                plan.kernel.code, y, s, a, multiple * h, source=source, spectral=True
            )
            yield Evaluation(
                one.name,
                pool.kind,
                multiple,
                part.name,
                slices,
                check_statistic(pair_statistic(pairs, pairs.sums(), "u")),
                multiple * h,
                pairs.name,
                chi2_weights=limit_weights(pairs.spectrum(), pairs.n),
            )


def _project(
    x: Array, scores: Array, everything: Array, slices: Slices, kernel: Kernel
) -> tuple[Array, Array, Array, Array]:
    """Projections of a part of the samples, and bandwidths.

    Along a slice where the part does not vary, the bandwidth is the deviation of all samples.
    """
    try:
        return project(x, scores, slices, kernel)
    except FlatProjection:
        scale = 1e-13 * spread(everything, slices.g)
        h, deviation = (
            median_distances(product(slices.g, x)),
            product(slices.g, everything).std(axis=1),
        )
        h = np.where(h > scale, h, deviation)
        if x.shape[0] == everything.shape[0] or np.any(h <= scale):
            raise
        return project(x, scores, slices, type(kernel)(h))


def evaluate_pairs(
    name: str, pairs: Any, h: float, null: str, weights: Weights | None, multiple: float = 1.0
) -> Evaluation:
    """A statistic of all samples without slices, from its terms of pairs."""
    nulls: dict[str, Array]
    if weights is None:
        sums, nulls = pairs.sums(), {"chi2_weights": limit_weights(pairs.spectrum(), pairs.n)}
    else:
        results = [pairs.sums_and_replicates(batch) for batch in weights.batches()]
        sums, replicates = results[0][0], np.concatenate([values for _, values in results])
        nulls = {"replicates": resampling_scale(null, pairs.n) * replicates}
    statistics = check_statistic(pair_statistic(pairs, sums, "u"))
    bandwidths = np.array([h])
    return Evaluation(
        name, name, multiple, "all", None, statistics, bandwidths, pairs.name, **nulls
    )
