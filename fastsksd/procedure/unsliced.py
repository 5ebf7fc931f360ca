"""Members of the family that have no slices: kernels of the whole vector, and moments.

Slices find a single direction. Kernels of the whole vector find what many directions share a little
of, and moments find a single coordinate; see `fastsksd.procedure.combine` for what each is worth.
All of them test all samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from .._typing import Array
from .._validate import check_statistic
from ..compute.chi_square import limit_weights
from ..compute.linalg import product
from ..compute.medians import median_distance
from ..engines.features import FeaturePairs
from ..engines.whole_vector import Block, WholeVector
from .covariances import folds, pair_folds
from .evaluation import Evaluation
from .importance import are_bounded, even_size, pair_weight, typical_rows
from .metric import Metric, full_of_others, information_of_folds
from .moments import DEGREES, Moments, moments
from .nulls import Weights, resampling_scale
from .other_rows import are_needed, diagonal_of_folds, fold_count
from .plan import Plan
from .split import Samples, metric_of_all
from .stretches import starts_of

WIDTHS = (0.25, 0.5)  # multiples of the median distance between samples
# For null="spectral" beyond twice as many samples, the pairs are those within groups of about this
# size: their limit distribution takes the eigenvalues of a matrix for each group.
_GROUP = 500
_FEWEST = 30  # samples from which on a full metric is learnt
# Samples from which on there are moments and the linear kernel. With fewer, their skewed features
# reject right models too often.
_FEWEST_FOR_MOMENTS = 100
# Fractions of the level, where the other kinds have 1.
_SHARES = {"linear kernel, diagonal": 1.5, "location": 2.0}
LARGEST_DEGREES = (1, 2)
# Samples and scores in the coordinates of a metric, (n, d) each.
Pair = tuple[Array, Array]


def unsliced_members(plan: Plan, samples: Samples, weights: Weights | None) -> list[Evaluation]:
    """The members without slices of the standard family.

    In the family of "auto" they are in two metrics, "diagonal" and "full". The family of "full" has
    those alone that do not know the coordinates.
    """
    n, d = samples.x.shape
    kind = plan.precondition if isinstance(plan.precondition, str) else "given"
    kept = None if samples.weights is None else typical_rows(samples.weights)
    enough = has_moments(len(samples.x), samples.weights)
    learnt = has_full_metric(kind, samples.effective, d)
    groups = 1 if weights is not None or n <= 2 * _GROUP else -(-n // _GROUP)
    members: list[Evaluation] = []
    if kind != "full":
        label = "diagonal" if kind == "auto" else kind
        metric = metric_of_all(plan, samples)
        blocks = in_one_metric(samples, metric, groups)
        h = _bandwidth(plan, blocks, samples.weights)
        if groups == 1 and kind in ("auto", "diagonal") and kept is None and are_needed(n, d):
            blocks = _in_units_of_others(samples)
        members += whole_vector_members(plan, blocks, h, samples, label, weights, linear=enough)
        if enough:
            pair = applied(samples, metric)
            members += moment_members(plan, pair, label, weights, kept, sums=not learnt)
    if learnt:
        scores, stretches = cast(Array, samples.scores), pair_folds(n)
        metrics = information_of_folds(samples.x, scores, stretches, kept)
        blocks = in_metrics_of_folds(samples, metrics, groups, stretches)
        h = _bandwidth(plan, blocks, samples.weights)
        members += whole_vector_members(plan, blocks, h, samples, "full", weights, linear=enough)
    if learnt and kind == "auto" and enough:
        pair = in_the_metric_of_the_others(samples, full_of_others(samples.x, scores, kept))
        members += moment_members(plan, pair, "full", weights, kept, sums=True)
    return members


def _in_units_of_others(samples: Samples) -> list[Block]:
    """All pairs, each in units of other samples: those of all would bias many dimensions."""
    stretches = folds(len(samples.x), fold_count(len(samples.x)))
    return in_metrics_of_folds(samples, diagonal_of_folds(samples, stretches), 1, stretches)


def has_full_metric(kind: str, n: float, d: int) -> bool:
    """Whether members without slices are tested in the metric "full"."""
    return kind == "full" or (kind == "auto" and d > 1 and n >= max(_FEWEST, 2 * d))


def has_moments(n: int, weights: Array | None) -> bool:
    """Whether n samples are enough for moments and the linear kernel, whose features are skewed."""
    if weights is None:
        return n >= _FEWEST_FOR_MOMENTS
    return even_size(weights) >= _FEWEST_FOR_MOMENTS and are_bounded(weights)


def in_one_metric(samples: Samples, metric: Metric | None, groups: int) -> list[Block]:
    """The pairs within each of so many groups of samples, in one metric."""
    x, s = applied(samples, metric)
    return [
        Block(group, group, x[group], s[group], x[group], s[group], number)
        for number, group in enumerate(folds(len(x), groups))
    ]


def in_metrics_of_folds(
    samples: Samples, metrics: dict[tuple[int, int], Metric], groups: int, stretches: list[slice]
) -> list[Block]:
    """The pairs of every two folds in the metric of the rest; groups have a part of every fold."""
    blocks = []
    for (a, b), metric in metrics.items():
        first = applied(samples.chosen(stretches[a]), metric)
        second = first if a == b else applied(samples.chosen(stretches[b]), metric)
        for group in range(groups):
            rows, own_rows = _piece(stretches[a], group, groups)
            columns, own_columns = _piece(stretches[b], group, groups)
            x_rows, s_rows = (array[own_rows] for array in first)
            x_columns, s_columns = (array[own_columns] for array in second)
            data = x_rows, s_rows, x_columns, s_columns
            upright = metric.upright if metric.forward.ndim == 2 else None
            blocks.append(Block(rows, columns, *data, group, upright))
    return blocks


def _piece(stretch: slice, group: int, groups: int) -> tuple[slice, slice]:
    """A part of a stretch, in the samples and in the stretch."""
    length = stretch.stop - stretch.start
    start, stop = length * group // groups, length * (group + 1) // groups
    return slice(stretch.start + start, stretch.start + stop), slice(start, stop)


def in_the_metric_of_the_others(samples: Samples, metrics: list[Metric]) -> Pair:
    """Every fold in the metric of the other folds."""
    stretches = folds(len(samples.x))
    parts = [
        applied(samples.chosen(stretch), metric)
        for stretch, metric in zip(stretches, metrics, strict=True)
    ]
    return np.concatenate([y for y, _ in parts]), np.concatenate([t for _, t in parts])


def applied(samples: Samples, metric: Metric | None) -> Pair:
    """Samples and scores in a metric; None for the user's own coordinates."""
    inside = samples.within(metric)
    return inside.x, cast(Array, inside.scores)


def whole_vector_members(
    plan: Plan,
    blocks: list[Block],
    h: float,
    samples: Samples,
    label: str,
    weights: Weights | None,
    *,
    linear: bool,
) -> list[Evaluation]:
    """Kernels of the whole vector at several widths, and the linear kernel if asked for."""
    n, importance = len(samples.x), samples.weights
    widths = [multiple * h for multiple in WIDTHS]
    whole = WholeVector(plan.kernel.code, n, blocks, widths, importance)
    pairs = float(whole.n_pairs) if importance is None else 0.5 * pair_weight(n, importance)
    limits: list[Array | None] = [None] * (len(WIDTHS) + 1)
    replicates: list[Array | None] = [None] * (len(WIDTHS) + 1)
    if weights is None:
        sums = whole.sums_and_replicates(np.empty((0, n)))[0]
        limits = [whole.limit_weights(k) for k in range(len(WIDTHS) + 1)]
    else:
        if weights.stretch is None:
            results = [whole.sums_and_replicates(batch) for batch in weights.batches()]
            sums, drawn = results[0][0], np.concatenate([values for _, values in results], axis=1)
        else:
            sums, drawn = _of_stretches(whole, weights)
        if importance is not None:
            sums = whole.sums_and_replicates(importance[None])[1][:, 0]
        scale = resampling_scale(plan.null, n, importance) * pair_weight(n, importance) / pairs
        replicates = list(scale * drawn)
    parts = [partial(_parts_of_coordinates, whole, pairs, k) for k in range(len(WIDTHS) + 1)]
    nulls = [
        dict(replicates=drawn, chi2_weights=limit, n=n)
        for drawn, limit in zip(replicates, limits, strict=True)
    ]
    linear = linear and blocks[0].x_rows.shape[1] > 1
    return whole_vector_evaluations(label, "all", linear, h, sums / pairs, nulls, parts, whole.name)


def _of_stretches(whole: WholeVector, weights: Weights) -> tuple[Array, Array]:
    """Sums over pairs and their replicates, where the draws of a stretch share a sign.

    Pairs are summed over pairs of stretches once, which replicates then meet.
    """
    stretch = cast(np.ndarray, weights.stretch)
    count = int(stretch[-1]) + 1
    blocks = np.zeros((len(WIDTHS) + 1, count, count))
    for rows, columns, entries in whole.tiles():
        first, second = stretch[rows], stretch[columns]
        starts, other_starts = starts_of(first), starts_of(second)
        met = np.add.reduceat(np.add.reduceat(entries, starts, axis=1), other_starts, axis=2)
        blocks[:, first[starts][:, None], second[other_starts]] += met
    signs = weights.by_stretch().matrix()
    replicates = [np.einsum("bg,bg->b", product(signs, block.T), signs) for block in blocks]
    return blocks.sum(axis=(1, 2)), np.stack(replicates)


def whole_vector_evaluations(
    label: str,
    part: str,
    linear: bool,
    h: float,
    statistics: Array,
    nulls: Sequence[Mapping[str, Any]],
    parts: Sequence[Callable[[], Array]],
    engine: str,
) -> list[Evaluation]:
    """The members of one metric: kernels of `WIDTHS` times the bandwidth h, and the linear one.

    In one dimension the linear kernel is that of a single skewed feature, and left out.
    """
    check_statistic(statistics)
    names: list[tuple[str, float | None]] = [(f"whole vector, {label}", one) for one in WIDTHS]
    if linear:
        names.append((f"linear kernel, {label}", None))
    return [
        Evaluation(
            name,
            name,
            multiple,
            part,
            None,
            statistics[k : k + 1],
            np.array([h if multiple is None else multiple * h]),
            engine,
            **nulls[k],
            share=_SHARES.get(name, 1.0),
            coordinates=parts[k],
        )
        for k, (name, multiple) in enumerate(names)
    ]


def _parts_of_coordinates(whole: WholeVector, pairs: float, k: int) -> Array:
    """What belongs to each coordinate of a component's mean over pairs."""
    return whole.coordinate_sums(k) / pairs


def _bandwidth(plan: Plan, blocks: list[Block], importance: Array | None) -> float:
    bandwidth = plan.kernel.bandwidth
    return _median_distance(blocks, importance) if isinstance(bandwidth, str) else float(bandwidth)


def _median_distance(blocks: list[Block], importance: Array | None) -> float:
    """The mean over blocks of one stretch of the median distance between samples there.

    A stretch may hold one sample over and over, as of a chain that is stuck.
    """
    own = [one.x_rows for one in blocks if one.on_diagonal]
    if importance is not None:
        kept = typical_rows(importance)
        own = [one.x_rows[kept[one.rows]] for one in blocks if one.on_diagonal]
    varied = [x for x in own if np.any(x != x[:1])]
    return float(np.mean([median_distance(x) for x in varied or own]))


def moment_members(
    plan: Plan,
    samples: Pair,
    label: str,
    weights: Weights | None,
    kept: np.ndarray | None = None,
    *,
    sums: bool,
) -> list[Evaluation]:
    """The largest moment of a coordinate and, if asked for, sums of squares over all of them.

    With importance weights the units of the moments are learnt on the rows `kept`.
    """
    importance = None if weights is None else weights.importance
    found = moments(*samples, DEGREES if sums else LARGEST_DEGREES, importance, kept)
    # Weighted features are features like others: signs are all that a replicate needs.
    weights = None if weights is None else weights.without_importance()
    if weights is not None and weights.stretch is not None:
        found, weights = found.of_stretches(starts_of(weights.stretch)), weights.by_stretch()
    n = found.n
    own = np.einsum("qdn,qdn->qd", found.features, found.features)
    totals, cubes = found.totals(), found.cubes()
    statistics = largest = totals**2 - own
    if plan.null != "bootstrap":  # which keeps the skewness of the features itself
        largest = without_skewness(totals, cubes.mean(axis=2), n) ** 2 - own
    scale = 1.0 / (n * (n - 1.0))
    if weights is None:
        nulls: Any = partial(_limits, found)
    else:
        batches = [_replicates(found, cubes, batch, plan.null) for batch in weights.batches()]
        every, corrected = (np.concatenate(arrays) for arrays in zip(*batches, strict=True))
        drawn = resampling_scale(plan.null, n)
        nulls = partial(drawn_moments, drawn * every, drawn * corrected)
    return moment_evaluations(
        label, "all", found.degrees, scale * statistics, scale * largest, nulls, sums=sums
    )


def without_skewness(totals: Array, skewness: Array, n: int) -> Array:
    """Sums of n features of mean square 1, with the first-order effect of skewness removed.

    For ``t = total / sqrt(n)``, the tail beyond t is that of the normal distribution times
    ``exp(-skewness t^3 / (3 sqrt(n)))``, so that ``t + skewness t^2 / (3 sqrt(n))`` is nearer to
    normal. The largest of hundreds of features needs it: without, right models of 100 dimensions
    were rejected in 14% of tests with 100 samples, and with it in 6%.
    """
    t = totals / np.sqrt(n)
    shift = np.minimum(np.abs(skewness) * t * t / (3.0 * np.sqrt(n)), 0.5 * np.abs(t))
    return np.sqrt(n) * (t + np.copysign(shift, skewness))


def moment_evaluations(
    label: str,
    part: str,
    degrees: tuple[int, ...],
    statistics: Array,
    largest: Array,
    nulls: Callable[[list[int], Any], dict[str, Any]],
    *,
    sums: bool,
) -> list[Evaluation]:
    """The members of the moments' statistics, (degrees, d), to be summed or the `largest` taken.

    ``nulls(rows, reduce)`` gives the null distribution of some rows, summed or the largest of them.
    """
    check_statistic(statistics)
    members: list[tuple[str, tuple[int, ...], Any]] = [("largest moment", LARGEST_DEGREES, np.max)]
    if sums:
        members += [("location", (0,), np.sum), ("scale and shape", (1, 2, 3), np.sum)]
    evaluations = []
    for name, chosen, reduce in members:
        rows = [degrees.index(degree) for degree in chosen]
        values = (largest if reduce is np.max else statistics)[rows]
        evaluations.append(
            Evaluation(
                f"{name}, {label}",
                name,
                None,
                part,
                None,
                np.atleast_1d(reduce(values)),
                np.empty(0),
                "features",
                **nulls(rows, reduce),
                share=_SHARES.get(name, 1.0),
                coordinates=partial(np.asarray, reduce(values, axis=0)),
            )
        )
    return evaluations


def drawn_moments(every: Array, largest: Array, rows: list[int], reduce: Any) -> dict[str, Any]:
    replicates = largest if reduce is np.max else every
    return {"replicates": reduce(replicates[:, rows], axis=(1, 2))}


def _limits(found: Moments, rows: list[int], reduce: Any) -> dict[str, Any]:
    """The limit distribution of a sum, a bound for the largest."""
    if reduce is np.max:
        return {"log_bound": _log_bound(found.features[rows])}
    pairs = FeaturePairs(found.features[rows].reshape(-1, found.n))
    return {"chi2_weights": limit_weights(pairs.spectrum(), found.n), "n": found.n}


def _replicates(found: Moments, cubes: Array, batch: Array, null: str) -> tuple[Array, Array]:
    """Squares of weighted sums less the samples' own squares, (B, degrees, d).

    Also the same without the effect of skewness, for the largest of them.
    """
    q, d, n = found.features.shape
    flat = found.features.reshape(q * d, n)
    totals = product(batch, flat)
    if null == "bootstrap":
        squares = (totals**2 - product(batch**2, flat**2)).reshape(-1, q, d)
        return squares, squares
    own = np.einsum("fn,fn->f", flat, flat)  # signs have squares 1
    squares = (totals**2 - own).reshape(-1, q, d)
    rows = [found.degrees.index(degree) for degree in LARGEST_DEGREES]
    skewness = product(batch, cubes[rows].reshape(-1, n)) / n
    some = totals.reshape(-1, q, d)[:, rows].reshape(skewness.shape)
    largest = np.zeros_like(squares)  # of the other degrees it has no use
    even = without_skewness(some, skewness, n) ** 2 - own.reshape(q, d)[rows].ravel()
    largest[:, rows] = even.reshape(-1, len(rows), d)
    return squares, largest


def _log_bound(features: Array) -> float:
    """Logarithm of the p-value of the largest of several means, by Student's t and Bonferroni."""
    from scipy.special import stdtr

    n = features.shape[-1]
    skewness = (features * features * features).mean(axis=-1)
    sums = without_skewness(features.sum(axis=-1), skewness, n)
    deviation = features.std(axis=-1, ddof=1)
    known = deviation > 0
    t = sums[known] / (np.sqrt(n) * deviation[known])
    tail = stdtr(n - 1, -np.abs(t).max(initial=0.0))
    return min(0.0, float(np.log(2.0 * features[..., 0].size) + np.log(max(tail, 1e-300))))
