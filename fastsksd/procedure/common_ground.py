"""What discrepancies are compared on: one metric, and one set of slices with their bandwidths.

Discrepancies in different units, along different slices or of different kernels can't be compared.
All three are learnt on training samples, and are then the same for all. None of them may come from
one model: a metric from the scores, as a test has it, would measure every model with a ruler of its
own. So the unit of a coordinate is the deviation of the samples, and every model adds as many
active directions as the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np

from .._typing import Array
from .._validate import ArgumentError, check_statistic
from ..compute.linalg import gram, product
from ..engines.kernel_series import TOLERANCE, SeriesTooLong
from ..engines.slice_features import SliceFeatures
from ..kernels import Kernel
from ..score_difference import score_difference
from ..slices import Slices, active_directions
from .covariances import location_and_deviation, moderate
from .feature_sums import Component, FeatureSums, Stretches
from .grouped import LONG, MOST_OF_SLICES, reach_of
from .metric import Metric, given
from .split import Samples, spread_evenly
from .stretches import starts_of

GROUPS = 1000  # of samples, at most
_MOST_TRAINING = 2000  # samples of which active directions are found


class Ground(NamedTuple):
    """Where discrepancies are compared.

    Attributes
    ----------
    metric : Metric or None
        Units; None for those of the caller.
    slices : Slices
        In the metric.
    bandwidths : (m,) array
    known : (n, d) array
        Samples in the metric that show the range of most.
    units : (m,) array or None
        What scores along each slice are multiplied by; None for 1.
    """

    metric: Metric | None
    slices: Slices
    bandwidths: Array
    known: Array
    units: Array | None = None


def learn(
    training: Sequence[Samples],
    precondition: str | Array,
    kernel: Kernel,
    slices: Slices | None,
    n_slices: int,
) -> Ground:
    """A common ground, from samples with the scores of each model, or from each set of samples.

    `slices` are given in the caller's coordinates; None for the coordinates and `n_slices` active
    directions of each.
    """
    pooled = _pooled([one.x for one in training])
    metric = _metric(precondition, pooled)
    inside = pooled if metric is None else metric.samples(pooled)
    if slices is not None:
        chosen = slices if metric is None else metric.from_user(slices)
    else:
        d = pooled.shape[1]
        found = [_active(one.within(metric), n_slices) for one in training if n_slices]
        both = np.concatenate([np.eye(d), *found])
        chosen = Slices(both, both)
    h = kernel.bandwidths_along(product(chosen.g, inside), inside, chosen.g)
    return Ground(metric, chosen, h, inside)


def _pooled(samples: Sequence[Array]) -> Array:
    """All samples, as many of each set; those that models share are one set."""
    sets = list({id(one): one for one in samples}.values())
    least = min(len(one) for one in sets)
    return np.concatenate([one[spread_evenly(len(one), least)] for one in sets])


def _metric(precondition: str | Array, x: Array) -> Metric | None:
    if not isinstance(precondition, str):
        return given(precondition)
    if precondition == "raw":
        return None
    centre, deviation = location_and_deviation(moderate(x))
    unit = np.where(deviation > 0, deviation, 1.0)
    return Metric(centre, 1.0 / unit, unit)


def _active(training: Samples, n_slices: int) -> Array:
    """The leading active directions."""
    some = training.at_most(_MOST_TRAINING)
    difference = score_difference(some.x, cast(Array, some.scores), engine="direct")
    return active_directions(difference).r[:n_slices]


def groups_of(samples: Samples) -> np.ndarray:
    """Edges of groups: the stretches of chains, or at most `GROUPS` of the samples in order."""
    n = len(samples.x)
    if samples.stretch is not None:
        return np.append(starts_of(samples.stretch), n)
    count = min(n, GROUPS)
    return np.linspace(0, n, count + 1).astype(int)


class Terms(NamedTuple):
    """Stein terms summed over pairs of groups.

    Attributes
    ----------
    sums : (groups, groups) array
        Over all slices.
    sizes : (groups,) array
        Numbers of samples.
    slices : (m,) array
        U-statistic of each slice.
    """

    sums: Array
    sizes: Array
    slices: Array


def stein_terms(
    ground: Ground, kernel: Kernel, samples: Sequence[Samples], tol: float = TOLERANCE
) -> list[Terms]:
    """Sums of the Stein terms of each of `samples` over pairs of groups."""
    try:
        maps = list(_feature_maps(ground, kernel, samples, tol))
    except SeriesTooLong:
        raise ArgumentError(
            "kernel", "has a bandwidth that is too small for the range of the samples"
        ) from None
    return [_terms(ground, maps, one) for one in samples]


def _feature_maps(
    ground: Ground, kernel: Kernel, samples: Sequence[Samples], tol: float
) -> Iterator[SliceFeatures]:
    """Features of the slices, some at a time, on the range of all samples."""
    r, g = ground.slices.r, ground.slices.g
    low, high = np.full(len(g), np.inf), np.full(len(g), -np.inf)
    for x in {id(one.x): one.x for one in samples}.values():
        y = product(g, x if ground.metric is None else ground.metric.samples(x))
        low, high = np.minimum(low, y.min(axis=1)), np.maximum(high, y.max(axis=1))
    if ground.units is not None:
        r = r * ground.units[:, None]
    y = product(g, ground.known)
    reach = reach_of(kernel.code, y, ground.bandwidths, low, high, False, tol)
    step = int(MOST_OF_SLICES // LONG)
    for first in range(0, len(g), step):
        some = slice(first, first + step)
        yield SliceFeatures(
            kernel.code, r[some], g[some], ground.bandwidths[some], reach.some(some), tol
        )


def _terms(ground: Ground, maps: Sequence[SliceFeatures], samples: Samples) -> Terms:
    edges = groups_of(samples)
    sizes = np.diff(edges).astype(float)
    pairs = sizes.sum() ** 2 - (sizes**2).sum()
    whole = np.zeros((sizes.size, sizes.size))
    statistics = []
    for features in maps:
        sums = FeatureSums([Component(features, ground.metric)], Stretches(edges))
        sums.add(samples, 0)
        met = sums.sums_of(0) * np.sqrt(features.coefficients)
        whole += gram(met)
        distinct = met.sum(axis=0) ** 2 - np.einsum("gf,gf->f", met, met)
        statistics.append(np.add.reduceat(distinct, features.layout.ends[:-1]) / pairs)
    return Terms(check_statistic(whole), sizes, np.concatenate(statistics))
