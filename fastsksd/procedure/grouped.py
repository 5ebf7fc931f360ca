"""The standard family of many samples, in time linear in their number.

With many samples, replicates need not meet every one of them. The samples are put into groups, at
random or, for chains, those of their stretches. A replicate has one weight for each group, and is
the sum of ``w_g w_g' mu_ij`` over pairs of samples of distinct groups. Sums of features over groups
have the covariance of the features, whatever n, so the replicates have the distribution of the
statistic under the null hypothesis, up to the error that comes with 1000 to `GROUPS` groups. The
statistic itself is over all pairs. For chains the pairs within stretches, which have a mean of
their own, are part of the replicates too.

Every member is made of features then: slices of their Fourier series, moments as they are, kernels
of the whole vector of random frequencies, see `engines.random_waves`. The metric "full" is learnt
on a sixth of the samples, and its members are tested on the others. The skewness of moments is too
small to be removed.

First everything is fixed that the features depend on, see `fix_family`: metrics, slices,
bandwidths, ranges of the Fourier series, frequencies, where moments are centred. Then the samples
are added block by block, see `feature_sums`. In memory all samples fix it. With a number of
training samples (``train=5000``) it is these alone, called the head. So it is for samples that are
not in memory, see `fastsksd.scale.family_accumulator`, with the same result for the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from .._typing import Array
from ..compute.linalg import product
from ..engines.features import FeatureMap
from ..engines.kernel_series import series_length
from ..engines.random_waves import LinearFeatures, WaveFeatures, frequencies
from ..engines.slice_features import Reach, SliceFeatures
from ..kernels import FlatProjection, Kernel, bandwidths_of_part, one_bandwidth
from .evaluation import Evaluation, for_user, sliced_evaluation
from .family import Pool
from .feature_sums import Component, FeatureSums, Groups, Met, Stretches, group_size, group_weights
from .metric import Metric, full, information
from .moments import DEGREES, MomentFeatures, location_and_unit
from .plan import GROUPS, Plan
from .split import Part, Samples, Split, fixed_part
from .stretches import starts_of
from .unsliced import (
    LARGEST_DEGREES,
    WIDTHS,
    drawn_moments,
    has_full_metric,
    has_moments,
    moment_evaluations,
    whole_vector_evaluations,
)

_LEARNT_ON = 6  # the metric "full" is learnt on one of so many parts of the samples
_ENOUGH = 20_000  # samples that bandwidths are found on
_FEATURES = 1500  # of a kernel of the whole vector, about
_MOST_LINEAR = 10_000  # of the linear kernel
_BLOCK = 8192  # samples whose range is looked at a time
_AT_ONCE = 2**23  # numbers: sums over groups in memory at a time
MOST_OF_SLICES = 4000  # features of slices in one component, about
# Features of a slice that are always affordable. With heavy tails the kernel fades where the series
# would be longer, but not within the range of 99% of the samples.
LONG = 128.0
_CORE = 0.99
_FADE = 1.0  # bandwidths over which the kernel fades, or a tenth of the range if that is more


class Known(Protocol):
    """The samples that fix the family.

    Attributes
    ----------
    fade : bool
        Whether other samples may be out of their range.
    n : int
        Their number.
    effective : float
        The same with importance weights.
    rest : int
        The first row that the metric "full" is not learnt on.
    learning : Samples
        Samples that it is learnt on.
    """

    fade: bool
    n: int
    effective: float
    rest: int

    @property
    def learning(self) -> Samples:
        """Samples that the metric "full" is learnt on."""
        ...

    def some(self, stretch: slice) -> Samples:
        """Samples that bandwidths are found on."""
        ...

    def bandwidths(self, kernel: Kernel, metric: Metric | None, g: Array, stretch: slice) -> Array:
        """Bandwidths along slices in a metric."""
        ...

    def extremes(self, metric: Metric | None, g: Array, stretch: slice) -> tuple[Array, Array]:
        """The smallest and the largest sample along each row of g in a metric."""
        ...


class AllSamples:
    """All samples, in memory."""

    fade = False

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        self.n, self.effective = len(samples.x), samples.effective
        self.rest = self.n // _LEARNT_ON
        if samples.stretch is not None:
            inner = starts_of(samples.stretch)[1:]
            self.rest = int(inner[np.argmin(np.abs(inner - self.rest))])

    @property
    def learning(self) -> Samples:
        """The first part of the samples."""
        return self.samples.chosen(slice(0, self.rest)).typical

    def some(self, stretch: slice) -> Samples:
        """Samples spread evenly over a stretch."""
        return self.samples.chosen(stretch).typical.at_most(_ENOUGH)

    def bandwidths(self, kernel: Kernel, metric: Metric | None, g: Array, stretch: slice) -> Array:
        """Bandwidths along slices in a metric.

        Along a slice where the stretch does not vary, the bandwidth is the deviation of all
        samples.
        """
        try:
            return _bandwidths(kernel, self.some(stretch), metric, g)
        except FlatProjection:
            everything = self.samples.within(metric).x
            h = bandwidths_of_part(everything[stretch], everything, g)
            if h is None:
                raise
            return h

    def extremes(self, metric: Metric | None, g: Array, stretch: slice) -> tuple[Array, Array]:
        """The smallest and the largest sample of a stretch along each row of g in a metric."""
        low, high = np.full(len(g), np.inf), np.full(len(g), -np.inf)
        for start in range(stretch.start, stretch.stop, _BLOCK):
            block = self.samples.chosen(slice(start, min(start + _BLOCK, stretch.stop)))
            y = product(g, block.within(metric).x)
            low, high = np.minimum(low, y.min(axis=1)), np.maximum(high, y.max(axis=1))
        return low, high


class Head:
    """The first samples, or separate ones; others follow."""

    fade = True

    def __init__(self, samples: Samples, separate: bool = False) -> None:
        self.learning = samples.typical
        self.n, self.effective = len(samples.x), samples.effective
        self.rest = 0 if separate else self.n

    def some(self, stretch: slice) -> Samples:
        """All of them."""
        return self.learning

    def bandwidths(self, kernel: Kernel, metric: Metric | None, g: Array, stretch: slice) -> Array:
        """Bandwidths along slices in a metric."""
        return _bandwidths(kernel, self.learning, metric, g)

    def extremes(self, metric: Metric | None, g: Array, stretch: slice) -> tuple[Array, Array]:
        """The smallest and the largest sample along each row of g in a metric."""
        y = product(g, self.learning.within(metric).x)
        return y.min(axis=1), y.max(axis=1)


def _bandwidths(kernel: Kernel, samples: Samples, metric: Metric | None, g: Array) -> Array:
    x = samples.within(metric).x
    return kernel.bandwidths_along(product(g, x), x, g)


class Family(NamedTuple):
    """Components, and the members that are made of them.

    Members refer to components by their numbers.
    """

    components: tuple[Component, ...]
    members: tuple[Members, ...]

    def evaluations(self, met: Sequence[Met]) -> list[Evaluation]:
        """The evaluations of all members."""
        return [one for members in self.members for one in members.evaluations(met)]


class SlicedMembers(NamedTuple):
    """The sets of a pool of slices at all multiples of the bandwidth.

    `numbers` are those of the components of the slices between two sets, for each multiple.
    """

    part: str
    metric: Metric | None
    pool: Pool
    h: Array
    numbers: dict[float, list[list[int]]]

    def evaluations(self, met: Sequence[Met]) -> Iterator[Evaluation]:
        """The evaluations of the members."""
        for count, one in enumerate(self.pool.sets, start=1):
            known = for_user(self.metric, self.pool.slices[: one.size])
            for multiple in self.pool.multiples:
                some = [met[k] for numbers in self.numbers[multiple][:count] for k in numbers]
                yield sliced_evaluation(
                    one.name,
                    self.pool.kind,
                    multiple,
                    self.part,
                    known,
                    np.concatenate([each.statistics for each in some]),
                    multiple * self.h[: one.size],
                    "fourier",
                    replicates=np.add.reduce([each.replicates for each in some]),
                )


class WholeVectorMembers(NamedTuple):
    """Kernels of the whole vector at several widths, and the linear kernel, in one metric."""

    part: str
    label: str
    h: float
    linear: bool
    numbers: list[int]

    def evaluations(self, met: Sequence[Met]) -> list[Evaluation]:
        """The evaluations of the members."""
        some = [met[k] for k in self.numbers]
        statistics = np.concatenate([one.statistics for one in some])
        nulls = [dict(replicates=one.replicates) for one in some]
        parts = [one.coordinates for one in some]
        return whole_vector_evaluations(
            self.label, self.part, self.linear, self.h, statistics, nulls, parts, "features"
        )


class MomentMembers(NamedTuple):
    """Moments along coordinates in one metric."""

    part: str
    label: str
    sums: bool
    number: int

    def evaluations(self, met: Sequence[Met]) -> list[Evaluation]:
        """The evaluations of the members."""
        one = met[self.number]
        degrees = cast(MomentFeatures, one.component.features).degrees
        return moment_evaluations(
            self.label,
            self.part,
            degrees,
            one.statistics,
            one.statistics,
            partial(drawn_moments, one.replicates, one.replicates),
            sums=self.sums,
        )


Members = SlicedMembers | WholeVectorMembers | MomentMembers


def grouped_members(plan: Plan, split: Split) -> list[Evaluation]:
    """All members of the standard family, of samples in memory.

    Raises
    ------
    SeriesTooLong
        If samples range over so many bandwidths that a slice is better summed pair by pair.
    """
    (members,) = members_of_groups(plan, split, [GROUPS]).values()
    return members


def members_of_groups(plan: Plan, split: Split, most: Sequence[int]) -> dict[int, list[Evaluation]]:
    """All members of the standard family for several numbers of groups, by that number.

    At most so many groups are made as `most` says, in descending order. All of them have the same
    features. Chains have one number, that of their stretches.
    """
    samples = split.samples
    n = len(samples.x)
    family = _fixed_in_memory(plan, split)
    groups: list[Groups] | list[Stretches]
    if samples.stretch is None:
        breaks = tuple(sorted({0, *(one.start for one in family.components)}))
        groups = [Groups(breaks, group_size(n, each)) for each in most]
    else:
        groups = [Stretches(np.append(starts_of(samples.stretch), n))]
    numbers = [each.cut(0, n)[0] for each in groups]
    weights = [group_weights(each, plan.null, plan.n_resamples, plan.rng) for each in numbers]
    met: list[list[Met]] = [[] for _ in groups]
    for some in _batches(family.components, numbers[0].size):
        sums = FeatureSums(some, groups[0])
        sums.add(samples, 0)
        for k, each in enumerate(groups):
            while sums.groups != each:
                sums.double()
            met[k] += sums.meet(weights[k], plan.null)
    return {each.size: family.evaluations(of) for each, of in zip(numbers, met, strict=True)}


def _fixed_in_memory(plan: Plan, split: Split) -> Family:
    held_out = next((part for part in split.parts if part.name == "held out"), None)
    if held_out is None or np.ndim(plan.train) > 0:
        return fix_family(plan, split.parts, AllSamples(split.samples))
    head = split.samples.chosen(slice(0, held_out.stretch.start))
    fixed = [
        fixed_part(plan, head)._replace(stretch=part.stretch)
        for part in split.parts
        if part.training is None
    ]
    return fix_family(plan, [*fixed, held_out], Head(head))


def _batches(components: Sequence[Component], groups: int) -> Iterator[list[Component]]:
    """Components in their order, as many at a time as memory is given to them."""
    batch: list[Component] = []
    for one in components:
        if batch and groups * sum(other.features.size for other in [*batch, one]) > _AT_ONCE:
            yield batch
            batch = []
        batch.append(one)
    yield batch


def fix_family(plan: Plan, parts: Sequence[Part], known: Known) -> Family:
    """Fix all that the features of the standard family depend on.

    `parts` are those of the samples, with the slices that were found; a stretch without an end goes
    on to the last sample.
    """
    made = _Maker(plan, known)
    for part in parts:
        for pool in part.pools:
            made.slices(part, pool)
    kind = plan.precondition if isinstance(plan.precondition, str) else "given"
    learnt = has_full_metric(kind, known.effective, known.learning.x.shape[1])
    enough = plan.weights is None or has_moments(plan.weights.size, plan.weights)
    if kind != "full":
        label = "diagonal" if kind == "auto" else kind
        metric = next(part.metric for part in parts if part.name == "all")
        made.whole_vector("all", label, metric, 0, enough)
        if enough:
            made.moments("all", label, metric, 0, sums=not learnt)
    if learnt:
        head = known.learning
        learnt_on = head.x, cast(Array, head.scores)
        made.whole_vector("held out", "full", information(*learnt_on), known.rest, enough)
        if kind == "auto" and enough:
            made.moments("held out", "full", full(*learnt_on), known.rest, sums=True)
    return Family(tuple(made.components), tuple(made.members))


class _Maker:
    """Makes the members of a family with their components, one kind after the other."""

    def __init__(self, plan: Plan, known: Known) -> None:
        self.plan = plan
        self.known = known
        self.components: list[Component] = []
        self.members: list[Members] = []

    def _number(self, *component: Any) -> int:
        """The number of a new component."""
        self.components.append(Component(*component))
        return len(self.components) - 1

    def slices(self, part: Part, pool: Pool) -> None:
        """The sets of a pool, tested on a part of the samples."""
        plan, known, stretch = self.plan, self.known, part.stretch
        r, g = pool.slices.r, pool.slices.g
        h = known.bandwidths(plan.kernel, part.metric, g, stretch)
        extremes = known.extremes(part.metric, g, stretch)
        y = product(g, known.some(stretch).within(part.metric).x)
        ranges = pairwise((0, *(one.size for one in pool.sets)))
        step = int(MOST_OF_SLICES // LONG)
        batches = [
            [slice(k, min(k + step, last)) for k in range(first, last, step)]
            for first, last in ranges
        ]
        numbers = {}
        for multiple in pool.multiples:
            code, scaled = plan.kernel.code, multiple * h
            reach = reach_of(code, y, scaled, *extremes, known.fade, plan.tol)
            maps = [
                [
                    SliceFeatures(code, r[some], g[some], scaled[some], reach.some(some), plan.tol)
                    for some in between
                ]
                for between in batches
            ]
            numbers[multiple] = [
                [self._number(one, part.metric, stretch.start, stretch.stop) for one in between]
                for between in maps
            ]
        self.members.append(SlicedMembers(part.name, part.metric, pool, h, numbers))

    def whole_vector(
        self, part: str, label: str, metric: Metric | None, start: int, linear: bool
    ) -> None:
        """Kernels of the whole vector at several widths, and the linear kernel if asked for."""
        kernel, rng = self.plan.kernel, self.plan.rng
        x = self.known.some(slice(start, self.known.n)).within(metric).x
        d = x.shape[1]
        h = one_bandwidth(kernel, x, "family")
        drawn = frequencies(kernel.code, int(np.clip(_FEATURES // (2 * d), 8, 64)), d, rng)
        maps: list[FeatureMap] = [WaveFeatures(drawn / (multiple * h)) for multiple in WIDTHS]
        maps.append(LinearFeatures(d, _MOST_LINEAR, int(rng.integers(2**63))))
        numbers = [self._number(one, metric, start) for one in maps]
        self.members.append(WholeVectorMembers(part, label, h, linear and d > 1, numbers))

    def moments(
        self, part: str, label: str, metric: Metric | None, start: int, *, sums: bool
    ) -> None:
        """The largest moment and, if asked for, sums of squares over all of them."""
        x = self.known.some(slice(start, self.known.n)).within(metric).x
        degrees = DEGREES if sums else LARGEST_DEGREES
        number = self._number(MomentFeatures(*location_and_unit(x), degrees), metric, start)
        self.members.append(MomentMembers(part, label, sums, number))


def reach_of(
    code: int, y: Array, h: Array, low: Array, high: Array, fade: bool, tol: float
) -> Reach:
    """The range of each slice, for a kernel of bandwidths h.

    `y` are some samples, and all that are known lie between `low` and `high`.
    """
    centre, inner = 0.5 * (low + high), 0.5 * (high - low) / h
    outer = inner + _FADE if fade else inner.copy()
    middle = np.median(y, axis=1)
    core = np.quantile(np.abs(y - middle[:, None]), _CORE, axis=1) / h
    affordable = 0.5 * _affordable_span(code, tol)
    for q in np.flatnonzero(outer > affordable):
        centre[q] = middle[q]
        farthest = max(high[q] - middle[q], middle[q] - low[q]) / h[q]
        inner[q] = min(max(core[q], affordable), farthest)
        outer[q] = inner[q] + max(_FADE, 0.1 * inner[q])
    return Reach(centre, inner, outer)


def _affordable_span(code: int, tol: float) -> float:
    """The range, in bandwidths, of a series of `LONG` features; the length is linear in it."""
    first, second = (series_length(code, span, tol) for span in (0.0, 1.0))
    return (LONG - first) / (second - first)
