"""The standard family of many samples, in time linear in their number.

With many samples, replicates need not meet every one of them. The samples are put into groups, at
random or, for chains, those of their stretches. A replicate has one weight for each group, and is
the sum of ``w_g w_g' mu_ij`` over pairs of samples of distinct groups. Sums of features over groups
have the covariance of the features, whatever n, so the replicates have the distribution of the
statistic under the null hypothesis, up to the error that comes with `GROUPS` groups. The statistic
itself is over all pairs. For chains the pairs within stretches, which have a mean of their own, are
part of the replicates too.

Every member is made of features then: slices of their Fourier series, moments as they are, kernels
of the whole vector of random frequencies, see `engines.random_waves`. The metric "full" is learnt
on a sixth of the samples, and its members are tested on the others. The skewness of moments is too
small to be removed.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any, cast

import numpy as np

from .._typing import Array
from .._validate import check_statistic
from ..compute.medians import median_distance
from ..engines import load
from ..engines.fourier import add_to_groups
from ..engines.random_waves import (
    GroupSums,
    frequencies,
    linear_parts,
    linear_sums,
    wave_parts,
    wave_sums,
)
from .evaluation import Evaluation
from .family import Pool
from .metric import full
from .moments import DEGREES, location_and_unit, plain_moments
from .nulls import Weights, resampling_scale
from .plan import Plan
from .split import Part, Samples, Split, metric_of_all
from .stretches import starts_of
from .unsliced import (
    LARGEST_DEGREES,
    WIDTHS,
    drawn_moments,
    has_full_metric,
    moment_evaluations,
    whole_vector_evaluations,
)

TAKES_OVER = 4000  # samples beyond which replicates meet groups
GROUPS = 1998
_LEARNT_ON = 6  # the metric "full" is learnt on one of so many parts of the samples
_FEATURES = 1500  # of a kernel of the whole vector, about
_MOST_LINEAR = 10_000  # of the linear kernel
_BLOCK = 8192  # samples whose moments are made at a time
_MOST_PROJECTED = 4_000_000  # numbers: slices times samples at a time


class _Groups:
    """Groups of samples with their weights."""

    def __init__(self, plan: Plan, split: Split) -> None:
        n, stretch = split.samples.x.shape[0], split.samples.stretch
        self.of_chains = stretch is not None
        self.cut = n // _LEARNT_ON
        if stretch is not None:
            self.edges = np.append(starts_of(stretch), n)
            self.cut = int(self.edges[1:-1][np.argmin(np.abs(self.edges[1:-1] - self.cut))])
        else:
            breaks = {0, n, self.cut, *(part.stretch.start for part in split.parts)}
            self.edges = _edges(n, sorted(breaks))
        starts = sorted({part.stretch.start for part in split.parts} - {0})
        self.weights = Weights(
            plan.null,
            self.edges.size - 1,
            plan.n_resamples,
            edges=np.searchsorted(self.edges, starts).tolist(),
            rng=plan.rng,
        ).matrix()
        if self.of_chains:
            self.weights = np.vstack([self.weights, np.ones(self.edges.size - 1)])

    def within(self, stretch: slice) -> tuple[Array, np.ndarray]:
        """Weights of the groups of a stretch, and their edges in it."""
        first, last = np.searchsorted(self.edges, [stretch.start, stretch.stop]).tolist()
        weights = np.ascontiguousarray(self.weights[:, first:last])
        return weights, self.edges[first : last + 1] - stretch.start

    def joined(self, statistic: float, replicates: Array) -> Array:
        """Replicates with what all of them have in common, for chains.

        The last row of weights is ones: the statistic without the pairs within stretches.
        """
        if not self.of_chains:
            return replicates
        return replicates[:-1] + (statistic - replicates[-1])


def _edges(n: int, breaks: list[int]) -> np.ndarray:
    """Edges of groups of about equal size, with the breaks among them."""
    parts = []
    for start, stop in pairwise(breaks):
        count = max(1, round(GROUPS * (stop - start) / n))
        parts.append(np.linspace(start, stop, count + 1).astype(np.int64)[:-1])
    return np.append(np.concatenate(parts), n)


def is_grouped(plan: Plan, n: int) -> bool:
    """Whether replicates meet groups of samples."""
    resampled = plan.standard and plan.null != "spectral"
    return resampled and n > TAKES_OVER and plan.engine_name != "direct"


def grouped_members(plan: Plan, split: Split, sliced: Any, project: Any) -> list[Evaluation]:
    """All members of the standard family.

    ``project(part, slices)`` projects a part of the samples, ``sliced(...)`` makes the evaluation
    of a set of slices.
    """
    groups = _Groups(plan, split)
    members = [
        one
        for part in split.parts
        for pool in part.pools
        for one in _pool_members(plan, part, pool, groups, sliced, project)
    ]
    return members + _unsliced_members(plan, split.samples, groups)


def _pool_members(
    plan: Plan, part: Part, pool: Pool, groups: _Groups, sliced: Any, project: Any
) -> list[Evaluation]:
    weights, edges = groups.within(part.stretch)
    n = part.n
    scale = resampling_scale(plan.null, n)
    batch = max(1, _MOST_PROJECTED // n)
    found: dict[float, list[tuple[Array, Array]]] = {one: [] for one in pool.multiples}
    widths, names = [], set()
    for start, stop in pairwise((0, *(one.size for one in pool.sets))):
        totals: dict[float, list[Any]] = {one: [[], 0.0] for one in pool.multiples}
        for first in range(start, stop, batch):
            slices = pool.slices[first : min(first + batch, stop)]
            y, s, a, h = project(part, slices)
            engine = cast(Any, load("fourier", plan.kernel.code, y, s, a, h, plan.tol))
            widths.append(h)
            for multiple in pool.multiples:
                rescaled = engine if multiple == 1.0 else engine.rescaled(multiple)
                sums, replicates = rescaled.sums_and_grouped_replicates(weights, edges)
                totals[multiple][0].append(sums / (n * (n - 1.0)))
                totals[multiple][1] = totals[multiple][1] + scale * replicates
                names.add(rescaled.name)
        for multiple, (statistics, replicates) in totals.items():
            every = check_statistic(np.concatenate(statistics))
            found[multiple].append((every, groups.joined(float(every.sum()), replicates)))
    h = np.concatenate(widths)
    members = []
    for count, one in enumerate(pool.sets, start=1):
        for multiple in pool.multiples:
            some = found[multiple][:count]
            members.append(
                sliced(
                    one.name,
                    pool.kind,
                    multiple,
                    part,
                    pool.slices[: one.size],
                    np.concatenate([statistics for statistics, _ in some]),
                    multiple * h[: one.size],
                    " and ".join(sorted(names)),
                    replicates=np.add.reduce([replicates for _, replicates in some]),
                )
            )
    return members


def _unsliced_members(plan: Plan, samples: Samples, groups: _Groups) -> list[Evaluation]:
    """As `unsliced.unsliced_members`, from sums over groups."""
    n, d = samples.x.shape
    kind = plan.precondition if isinstance(plan.precondition, str) else "given"
    learnt = has_full_metric(kind, n, d)
    everything = slice(0, n)
    members: list[Evaluation] = []
    if kind != "full":
        label = "diagonal" if kind == "auto" else kind
        inside = samples.within(metric_of_all(plan, samples))
        members += _whole_vector(plan, inside, "all", label, groups, everything)
        members += _moments(plan, inside, "all", label, groups, everything, not learnt)
    if learnt:
        rest = slice(groups.cut, n)
        head = samples.part(slice(0, groups.cut))
        inside = samples.part(rest).within(full(head.x, cast(Array, head.scores)))
        members += _whole_vector(plan, inside, "held out", "full", groups, rest)
        if kind == "auto":
            members += _moments(plan, inside, "held out", "full", groups, rest, True)
    return members


def _whole_vector(
    plan: Plan, samples: Samples, part: str, label: str, groups: _Groups, stretch: slice
) -> list[Evaluation]:
    weights, edges = groups.within(stretch)
    x, s = samples.x, cast(Array, samples.scores)
    n, d = x.shape
    bandwidth = plan.kernel.bandwidth
    h = median_distance(x) if isinstance(bandwidth, str) else float(np.asarray(bandwidth))
    count = int(np.clip(_FEATURES // (2 * d), 8, 64))
    drawn = frequencies(plan.kernel.code, count, d, plan.rng)
    sums: list[GroupSums] = []
    parts: list[Any] = []
    for multiple in WIDTHS:
        waves = drawn / (multiple * h)
        sums.append(wave_sums(x, s, waves, edges))
        parts.append(partial(_parts, wave_parts, n, sums[-1], s, waves))
    sums.append(linear_sums(x, s, edges, _MOST_LINEAR, int(plan.rng.integers(2**63))))
    parts.append(partial(_parts, linear_parts, n, x, s))
    scale = resampling_scale(plan.null, n)
    statistics = np.array([one.total() for one in sums]) / (n * (n - 1.0))
    nulls = [
        dict(replicates=groups.joined(statistic, scale * one.replicates(weights)))
        for statistic, one in zip(statistics.tolist(), sums, strict=True)
    ]
    return whole_vector_evaluations(label, part, d > 1, h, statistics, nulls, parts, "features")


def _parts(function: Any, n: int, *arguments: Any) -> Array:
    return function(*arguments) / (n * (n - 1.0))


def _moments(
    plan: Plan, samples: Samples, part: str, label: str, groups: _Groups, stretch: slice, sums: bool
) -> list[Evaluation]:
    weights, edges = groups.within(stretch)
    x, s = samples.x, cast(Array, samples.scores)
    n, d = x.shape
    degrees = DEGREES if sums else LARGEST_DEGREES
    place = location_and_unit(x)
    totals, squares = np.zeros((edges.size - 1, len(degrees) * d)), np.zeros(len(degrees) * d)
    for first in range(0, n, _BLOCK):
        block = slice(first, first + _BLOCK)
        features = plain_moments(x[block], s[block], *place, degrees).reshape(squares.size, -1)
        add_to_groups(features, first, edges, totals)
        squares += np.einsum("fn,fn->f", features, features)
    if groups.of_chains:  # pairs within stretches are left out, and units are those of sums
        squares, weights = np.einsum("gf,gf->f", totals, totals), weights[:-1]
        n = len(totals)
    unit = np.where(squares > 0, squares, 1.0) / n
    statistics = (totals.sum(axis=0) ** 2 - squares) / unit / (n * (n - 1.0))
    met = weights @ totals
    replicates = resampling_scale(plan.null, n) * (met**2 - weights**2 @ totals**2) / unit
    shape = (-1, len(degrees), d)
    return moment_evaluations(
        label,
        part,
        degrees,
        statistics.reshape(shape[1:]),
        statistics.reshape(shape[1:]),
        partial(drawn_moments, replicates.reshape(shape), replicates.reshape(shape)),
        sums=sums,
    )
