"""Groups of samples with hardly any sample in between: modes whose weights a score can't tell.

Samples are projected on the coordinates. Directions of large variance, and those that divide the
samples best (Fisher's discriminant), are found on one half, and the other half is projected on
them. Along a direction samples are cut where a valley is deepest: the middle third of the stretch
between the 95% quantile of those below the cut and the 5% quantile of those above. A distribution
of one mode is there at least as dense as on the lower of both sides, so that the number of samples
in the valley is unlikely to be much smaller than that density says, by Poisson's distribution. A
valley counts if that probability is below 1e-5 and the valley is less than a fifth as dense. Both
groups are then divided in the same way. Rounded values are first spread over the steps between
them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._typing import Array

_SMALLEST = 0.04  # fraction of the samples in a group
_FEWEST = 30  # samples in a group
_UNLIKELY = 1e-5
_DEPTH = 0.2  # density of a valley, relative to the lower of both sides
_MOST_GROUPS = 8
_MOST_COORDINATES = 200
_PRINCIPAL = 5  # directions of largest variance
_DIVIDED, _STEPS = 2, 3  # of these, and steps, for directions that divide the samples


class Cut(NamedTuple):
    """Where groups are divided: samples with ``x @ direction > at`` are above."""

    direction: Array
    at: float


class Modes(NamedTuple):
    """Groups of samples.

    Attributes
    ----------
    labels : (n,) array of int
        Number of the group of each sample.
    n_modes : int
        Number of groups.
    cuts : tuple
        The tree of cuts that tells the group of any point; empty for one group.
    """

    labels: np.ndarray
    n_modes: int
    cuts: tuple[tuple[int, Cut], ...]

    @property
    def weights(self) -> Array:
        """Fraction of the samples in each group."""
        return np.bincount(self.labels, minlength=self.n_modes) / self.labels.size

    def group_of(self, x: Array) -> np.ndarray:
        """Number of the group of each point, (n,)."""
        labels = np.zeros(x.shape[0], dtype=int)
        for number, (group, cut) in enumerate(self.cuts, start=1):
            labels[(labels == group) & (x @ cut.direction > cut.at)] = number
        return labels


def find_modes(x: Array, lag: float = 1.0) -> Modes:
    """Groups of the rows of `x`; one group where there is no valley between samples.

    `lag` is the number of draws of a chain that are worth one.
    """
    labels = np.zeros(x.shape[0], dtype=int)
    cuts: list[tuple[int, Cut]] = []
    waiting = [0]
    while waiting and len(cuts) + 1 < _MOST_GROUPS:
        group = waiting.pop()
        rows = np.flatnonzero(labels == group)
        cut = _deepest_valley(x[rows], max(_FEWEST * lag, _SMALLEST * x.shape[0]), lag)
        if cut is None:
            continue
        cuts.append((group, cut))
        labels[rows[x[rows] @ cut.direction > cut.at]] = len(cuts)
        waiting += [group, len(cuts)]
    return Modes(labels, len(cuts) + 1, tuple(cuts))


def _deepest_valley(x: Array, smallest: float, lag: float) -> Cut | None:
    n, d = x.shape
    if n < 2 * smallest:
        return None
    spread = x.std(axis=0)
    columns = np.flatnonzero(spread > 0)
    columns = columns[np.argsort(-spread[columns], kind="stable")][:_MOST_COORDINATES]
    x = _without_steps(x, columns)
    best, found = np.log(_UNLIKELY), None
    for column in columns:
        value, at = _valley(np.sort(x[:, column]), smallest, lag)
        if value < best:
            best, found = value, Cut(np.eye(d)[column], at)
    if found is not None or d == 1 or n < 4 * smallest or columns.size < 2:
        return found
    # Directions are found on every other sample, and looked along on the others.
    for vector in _directions(x[::2][:, columns] / spread[columns]):
        direction = np.zeros(d)
        direction[columns] = vector / spread[columns]
        value, at = _valley(np.sort(x[1::2] @ direction), 0.5 * smallest, lag)
        if value < best:
            best, found = value, Cut(direction, at)
    return found


def _without_steps(x: Array, columns: np.ndarray) -> Array:
    """Rounded or discrete values spread over their steps, between which there is no valley.

    A step is the median distance of neighbouring values, so that wider gaps stay.
    """
    ordered = np.sort(x[:, columns], axis=0)
    gaps = np.diff(ordered, axis=0)
    # A constant column has rounding errors for a spread, but no steps.
    repeated = np.flatnonzero((gaps == 0).any(axis=0) & (gaps > 0).any(axis=0))
    if repeated.size == 0:
        return x
    x = x.copy()
    rng = np.random.default_rng(0)
    for k in repeated.tolist():
        step = np.median(gaps[gaps[:, k] > 0, k])
        x[:, columns[k]] += step * (rng.random(len(x)) - 0.5)
    return x


def _directions(x: Array) -> list[Array]:
    """Principal directions, and those that divide the samples in two along them."""
    n, d = x.shape
    centred = x - x.mean(axis=0)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    found = list(vectors.T[::-1][:_PRINCIPAL])
    for direction in found[:_DIVIDED]:
        for _ in range(_STEPS):
            above = _divided(centred @ direction)
            if not 2 < np.count_nonzero(above) < n - 2:
                break
            means = centred[above].mean(axis=0), centred[~above].mean(axis=0)
            within = centred - np.where(above[:, None], *means)
            ridge = (0.01 + d / n) * np.eye(d)
            direction = np.linalg.solve(within.T @ within / n + ridge, means[0] - means[1])
        found.append(direction)
    return found


def _divided(y: Array) -> np.ndarray:
    """Which values are in the upper of two groups, by means."""
    low, high = np.quantile(y, [0.1, 0.9])
    for _ in range(10):
        above = y > 0.5 * (low + high)
        if above.all() or not above.any():
            break
        low, high = y[~above].mean(), y[above].mean()
    return above


def _valley(y: Array, smallest: float, lag: float) -> tuple[float, float]:
    """Logarithm of the smallest probability of a valley in sorted values, and where it is."""
    n = y.size
    first = int(np.ceil(smallest))
    if n < 2 * first or y[0] == y[-1]:
        return 0.0, 0.0
    cuts = np.unique(np.linspace(first, n - first, 64).astype(int))
    # Cuts within the widest gaps too, where a small group begins.
    gaps = np.argsort(-np.diff(y[first - 1 : n - first + 1]), kind="stable")[:16] + first
    cuts = np.unique(np.r_[cuts, gaps])
    cuts = cuts[(cuts >= first) & (cuts <= n - first)]
    below, above = cuts, n - cuts

    def quantile(start: np.ndarray, size: np.ndarray, level: float) -> Array:
        return y[start + np.rint(level * (size - 1)).astype(int)]

    zero = np.zeros_like(cuts)
    low_end, high_start = quantile(zero, below, 0.95), quantile(cuts, above, 0.05)
    low_middle, high_middle = quantile(zero, below, 0.5), quantile(cuts, above, 0.5)
    third = (high_start - low_end) / 3.0
    inside = np.searchsorted(y, high_start - third) - np.searchsorted(y, low_end + third, "right")
    inside = np.maximum(inside, 0)  # less where values are repeated
    tiny = 1e-12 * (y[-1] - y[0])  # where values are repeated
    density = np.minimum(
        0.45 * below / np.maximum(low_end - low_middle, tiny),
        0.45 * above / np.maximum(high_middle - high_start, tiny),
    )
    # Few values say little of a density: that of 0.45 m of them is off by its deviation.
    counted = 0.45 * np.minimum(below, above) / lag
    expected = density * third / lag * np.maximum(0.0, 1.0 - 2.0 / np.sqrt(counted))
    logs = _log_poisson_below(inside / lag, expected)
    logs = np.where(inside <= _DEPTH * density * third, logs, 0.0)
    k = int(np.argmin(logs))
    return float(logs[k]), float(0.5 * (low_end[k] + high_start[k]))


def _log_poisson_below(count: Array, mean: Array) -> Array:
    """Upper bound of the log-probability of at most `count`, by Chernoff's inequality."""
    small = count < mean
    ratio = np.where(small & (count > 0), count, 1.0) / np.where(small, mean, 1.0)
    entropy = np.where(count > 0, count * np.log(ratio), 0.0)
    return np.where(small, count - mean - entropy, 0.0)
