"""Statistics of the members of a test on parts of the samples, each with its null distribution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np

from .._typing import Array
from .._validate import ArgumentError, check_statistic
from ..compute.chi_square import limit_weights
from ..compute.linalg import product
from ..compute.projections import project
from ..engines import DEVICE_ENGINES, DirectEngine, Source, choose_engine
from ..engines.folded import FoldedEngine, FoldPair
from ..engines.kernel_series import SeriesTooLong
from ..engines.pairs import statistic as pair_statistic
from ..kernels import FlatProjection, Kernel, bandwidths_of_part
from ..slices import Slices
from .evaluation import Evaluation, ForUser, Outcome, for_user, sliced_evaluation
from .family import Pool
from .grouped import grouped_members
from .importance import pair_weight
from .nulls import Weights, check_enough, resampling_scale
from .other_rows import Folds, folds_for
from .plan import Plan, check_test_size
from .split import Part, Samples, Split
from .unsliced import unsliced_members

_LOUD = 1e12  # scores of so many times the usual size drown the others in sums of squares
_MOST_PAIRWISE = 20_000  # samples whose pairs are met one by one then


def evaluate(plan: Plan, split: Any) -> Outcome:
    """Evaluate every set of slices at every multiple of the bandwidth, or a baseline's statistic.

    `split` is what `search` returned.
    """
    if plan.baseline is not None:
        return plan.baseline.evaluate(plan, split)
    smallest = min(part.n for part in split.parts)
    check_test_size(smallest)
    check_enough(plan.null, smallest)
    samples, lag = split.samples, split.lag_length
    if plan.is_grouped(samples.x.shape[0]):
        try:
            _check_loudest(samples)
            return Outcome(grouped_members(plan, split), lag)
        except SeriesTooLong:
            split = _in_their_metrics(split)
    weights = None
    if plan.null != "spectral":
        edges = sorted({part.stretch.start for part in split.parts} - {0})
        weights = Weights(
            plan.null,
            samples.x.shape[0],
            plan.n_resamples,
            stretch=samples.stretch,
            edges=edges,
            importance=samples.weights,
            rng=plan.rng,
        )
    members = [one for part in split.parts for one in _evaluate_part(plan, split, part, weights)]
    if plan.standard:
        members += unsliced_members(plan, samples, weights)
    return Outcome(members, lag)


def _check_loudest(samples: Samples) -> None:
    """Squares of a huge score would leave nothing of the others in sums over groups of samples.

    Pairs one by one do not mind, if there are not too many.
    """
    scores = cast(Array, samples.scores)
    n = len(scores)
    usual = np.median(np.abs(scores[:: -(-n // 500)]), axis=0)
    ratios = np.abs(scores).max(axis=0) / np.where(usual > 0, usual, np.inf)
    column = int(np.argmax(ratios))
    if ratios[column] <= _LOUD:
        return
    if n <= _MOST_PAIRWISE:
        raise SeriesTooLong
    row = int(np.argmax(np.abs(scores[:, column])))
    raise ArgumentError(
        "score",
        f"is {scores[row, column]:.1e} in row {samples.rows[row]}, column {column}, "
        f"{ratios[column]:.0e} times the usual size of that column: with so many samples round-off "
        "would decide",
        remedy="Check that entry.",
    )


def _in_their_metrics(split: Split) -> Split:
    """The split with its parts in their metrics, for pairs of samples one by one."""
    parts = [part._replace(tested=part.tested.within(part.metric)) for part in split.parts]
    return split._replace(parts=tuple(parts))


def _evaluate_part(
    plan: Plan, split: Split, part: Part, weights: Weights | None
) -> Iterator[Evaluation]:
    if weights is None:
        for pool in part.pools:
            yield from _limit_members(plan, part, pool, split.samples.x)
        return
    groups = []
    for pool in part.pools:
        folds = folds_for(plan, part, len(pool.slices))
        for start, stop in pairwise((0, *(one.size for one in pool.sets))):
            groups.append(_Group(pool, start, stop, plan, part, split.samples.x, folds))
    scale = resampling_scale(plan.null, part.n, part.tested.weights)
    _resample(groups, weights, part.stretch.start, scale)
    for pool in part.pools:
        mine = [group for group in groups if group.pool is pool]
        for count, one in enumerate(pool.sets, start=1):
            known = for_user(part.metric, pool.slices[: one.size])
            for multiple in pool.multiples:
                yield _joined(one.name, mine[:count], multiple, part, known)


class _Group:
    """Consecutive slices of a pool, which its sets share, loaded into an engine."""

    def __init__(
        self,
        pool: Pool,
        start: int,
        stop: int,
        plan: Plan,
        part: Part,
        everything: Array,
        folds: Folds | None,
    ) -> None:
        self.pool, self.start, self.stop = pool, start, stop
        self.multiples = pool.multiples
        slices = pool.slices[start:stop]
        self.pairs, self.h, self.fold_pairs = _loaded(
            plan,
            part,
            slices,
            everything,
            folds,
            n_resamples=plan.n_resamples,
            multiples=pool.multiples,
            signs=plan.null == "wild" and part.tested.weights is None,
        )
        self.sums: dict[float, Array] = {}
        self.importance = part.tested.weights
        if self.importance is not None:
            y, s, a, _ = _project(part, slices, everything, plan.kernel)
            self.sums = _weighted_sums(plan, y, s, a, self.h, pool.multiples, self.importance)
        self.replicates: dict[float, list[Array]] = {multiple: [] for multiple in pool.multiples}

    def add(self, batch: Array, first: int, scale: float) -> None:
        """Meet a batch of weights, whose columns for this part begin at `first`."""
        results = self.pairs.sums_and_replicates_at(self.multiples, batch, first)
        for multiple, (total, values) in zip(self.multiples, results, strict=True):
            if self.importance is None:
                self.sums[multiple] = total
            self.replicates[multiple].append(scale * values)

    def statistics(self, multiple: float) -> Array:
        """U-statistic of each slice."""
        pairs = pair_weight(self.pairs.n, self.importance)
        return check_statistic(self.sums[multiple] / pairs)


def _weighted_sums(
    plan: Plan, y: Array, s: Array, a: Array, h: Array, multiples: Sequence[float], w: Array
) -> dict[float, Array]:
    """``sum_{i != j} w_i w_j mu_ij`` of each slice: the replicate of w along it alone."""
    name = "cpu" if plan.engine_name in ("auto", *DEVICE_ENGINES) else plan.engine_name
    load, code = choose_engine(name, plan.tol), plan.kernel.code
    sums = {multiple: np.empty(len(y)) for multiple in multiples}
    for q in range(len(y)):
        one = slice(q, q + 1)
        pairs = load(code, y[one], s[one], a[one], h[one], n_resamples=1, multiples=multiples)
        results = pairs.sums_and_replicates_at(multiples, w[None])
        for multiple, (_, values) in zip(multiples, results, strict=True):
            sums[multiple][q] = values[0]
    return sums


def _resample(groups: Sequence[_Group], weights: Weights, first: int, scale: float) -> None:
    """All replicates of all groups; weights are drawn once for each place they are drawn at."""
    for draw in {group.pairs.draw for group in groups}:
        for batch in weights.batches(draw):
            for group in groups:
                if group.pairs.draw is draw:
                    group.add(batch, first, scale)


def _joined(
    name: str, groups: Sequence[_Group], multiple: float, part: Part, known: ForUser
) -> Evaluation:
    """The set of slices that these groups of a pool make up."""
    return sliced_evaluation(
        name,
        groups[0].pool.kind,
        multiple,
        part.name,
        known,
        np.concatenate([group.statistics(multiple) for group in groups]),
        np.concatenate([multiple * group.h for group in groups]),
        " and ".join(group.pairs.name for group in groups),
        fold_pairs=_glued([group.fold_pairs for group in groups], multiple),
        replicates=np.add.reduce([np.concatenate(group.replicates[multiple]) for group in groups]),
    )


def _loaded(
    plan: Plan,
    part: Part,
    slices: Slices,
    everything: Array,
    folds: Folds | None,
    multiple: float = 1.0,
    **demand: Any,
) -> tuple[Any, Array, Sequence[FoldPair]]:
    """An engine with a part of the samples along slices, the bandwidths, and those of folds."""
    y, s, a, h = _project(part, slices, everything, plan.kernel)
    if folds is not None:
        pairs = folds.pairs(slices, y, h)
        folded = FoldedEngine(plan.kernel.code, y, s, a, pairs, DirectEngine)
        return folded.rescaled(multiple), h, pairs
    source = Source(part.tested.x, cast(Array, part.tested.scores), slices.r, slices.g)
    return plan.engine(plan.kernel.code, y, s, a, multiple * h, source=source, **demand), h, ()


def _glued(groups: Sequence[Sequence[FoldPair]], multiple: float) -> tuple[FoldPair, ...]:
    """Bandwidths and units of folds for the slices of several groups."""
    return tuple(
        same[0]._replace(
            h=multiple * np.concatenate([one.h for one in same]),
            units=np.concatenate([one.units for one in same]),
        )
        for same in zip(*groups, strict=True)
    )


def _limit_members(plan: Plan, part: Part, pool: Pool, everything: Array) -> Iterator[Evaluation]:
    """Members with their limit distribution, which belongs to a whole set: nothing is shared."""
    folds = folds_for(plan, part, len(pool.slices))
    for one in pool.sets:
        slices = pool.slices[: one.size]
        known = for_user(part.metric, slices)
        for multiple in pool.multiples:
            pairs, h, of_folds = _loaded(
                plan, part, slices, everything, folds, multiple, spectral=True
            )
            yield sliced_evaluation(
                one.name,
                pool.kind,
                multiple,
                part.name,
                known,
                check_statistic(pair_statistic(pairs, pairs.sums(), "u")),
                multiple * h,
                pairs.name,
                fold_pairs=_glued([of_folds], multiple),
                n=part.n,
                chi2_weights=limit_weights(pairs.spectrum(), pairs.n),
            )


def _project(
    part: Part, slices: Slices, everything: Array, kernel: Kernel
) -> tuple[Array, Array, Array, Array]:
    """Projections of a part of the samples, and bandwidths.

    Along a slice where the part does not vary, the bandwidth is the deviation of all samples.
    """
    x, scores = part.tested.x, cast(Array, part.tested.scores)
    if part.tested.weights is not None:
        typical = part.tested.typical.x
        g = slices.g
        kernel = type(kernel)(kernel.bandwidths_along(product(g, typical), typical, g))
    try:
        return project(x, scores, slices, kernel)
    except FlatProjection:
        if part.metric is not None:
            everything = part.metric.samples(everything)
        whole = x.shape[0] == everything.shape[0]
        h = None if whole else bandwidths_of_part(x, everything, slices.g)
        if h is None:
            raise
        return project(x, scores, slices, type(kernel)(h))


def evaluate_pairs(
    name: str, pairs: Any, h: float, null: str, weights: Weights | None
) -> Evaluation:
    """A statistic of all samples without slices, from its terms of pairs."""
    nulls: dict[str, Any]
    check_enough(null, pairs.n)
    importance = None if weights is None else weights.importance
    if weights is None:
        sums, nulls = pairs.sums(), {"chi2_weights": limit_weights(pairs.spectrum(), pairs.n)}
        nulls["n"] = pairs.n
    else:
        results = [pairs.sums_and_replicates(batch) for batch in weights.batches()]
        sums, replicates = results[0][0], np.concatenate([values for _, values in results])
        nulls = {"replicates": resampling_scale(null, pairs.n, importance) * replicates}
    if importance is not None:
        sums = pairs.sums_and_replicates(importance[None])[1]
    statistics = check_statistic(sums / pair_weight(pairs.n, importance))
    bandwidths = np.array([h])
    return Evaluation(name, name, None, "all", None, statistics, bandwidths, pairs.name, **nulls)
