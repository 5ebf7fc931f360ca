"""Covariances of samples and scores, outside of folds, in units of the columns.

Entries far from the middle of their column (beyond `_FAR` interquartile ranges) are moved there
first, so that an outlier does not set the unit.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .._typing import Array
from ..compute.linalg import product

FOLDS = 3
_MOST_PAIR_FOLDS = 5
_FEWEST_IN_FOLD = 3  # samples, so that a fold has a median distance
_FAR = 5.0  # interquartile ranges from the median
_WIDE = 0.05, 0.95  # quantiles in place of quartiles where these are the same
_ENOUGH = 10  # samples for each dimension from which on a covariance is not shrunk
_ENOUGH_FOR_QUANTILES = 500  # samples; quartiles only tell outliers apart
_CONSTANT = 1e-14  # largest deviation of a score that is constant but for rounding, relative to it


class Covariances(NamedTuple):
    """``Cov(x)``, ``Cov(s)`` and ``Cov(x, s)`` of n samples in the units of their columns.

    Columns without a unit, those that do not vary, are as under a standard normal model.

    Attributes
    ----------
    n : int
    centre, unit : (d,) arrays
        Means and units of the columns of x; those of s are the inverses.
    varies : (d,) bool array
        The columns that have a unit.
    x, s, xs : (d, d) arrays
    """

    n: int
    centre: Array
    unit: Array
    varies: np.ndarray
    x: Array
    s: Array
    xs: Array

    @property
    def shrunk_x(self) -> Array:
        """``Cov(x)``, mixed with its diagonal where n is not many times d."""
        return shrunk(self.x, shrinkage(self.n, len(self.x)))

    @property
    def shrunk_s(self) -> Array:
        """``Cov(s)``, mixed with its diagonal where n is not many times d."""
        return shrunk(self.s, shrinkage(self.n, len(self.s)))


class Folds:
    """Means and scatter of folds, from which covariances outside of some folds are put together."""

    def __init__(
        self, x: Array, scores: Array, stretches: list[slice], kept: np.ndarray | None = None
    ) -> None:
        z = np.concatenate([moderate(x), moderate(scores)], axis=1)
        kept = np.ones(len(z), dtype=bool) if kept is None else kept
        stretched = [z[one][kept[one]] for one in stretches]
        # In units in which squares neither vanish nor overflow, about a point near the samples.
        self.centre = z[kept].mean(axis=0)
        parts = [part - self.centre for part in stretched]
        unit = np.max([np.abs(part).max(axis=0, initial=0.0) for part in parts], axis=0)
        self.unit = np.where(unit > 0, unit, 1.0)
        parts = [part / self.unit for part in parts]
        self.counts = np.array([len(part) for part in parts])
        self.means = np.array([part.mean(axis=0) if len(part) else 0.0 * unit for part in parts])
        moved = [part - mean for part, mean in zip(parts, self.means, strict=True)]
        self.scatter = np.array([product(part.T, part.T) for part in moved])
        d = x.shape[1]
        self.largest = np.array(
            [np.abs(part[:, d:]).max(axis=0, initial=0.0) for part in stretched]
        )

    def outside(self, *left_out: int) -> Covariances:
        """Covariances of the samples outside of some folds, with the units of their columns."""
        n, centre, cov, largest = self._pooled(*left_out)
        d = largest.size
        variances = np.diagonal(cov)
        # Means of a constant column differ by rounding.
        deviations = self.unit * np.sqrt(np.where(variances > _CONSTANT**2, variances, 0.0))
        f, varies = _unit_of(deviations[:d], deviations[d:], largest)
        scale = self.unit / np.concatenate([f, 1.0 / f])
        cov = cov * scale[:, None] * scale
        cov_x, cov_s, cov_xs = cov[:d, :d], cov[d:, d:], cov[:d, d:]
        flat = ~varies
        for covariance, variance in ((cov_x, 1.0), (cov_s, 1.0), (cov_xs, -1.0)):
            covariance[flat] = covariance[:, flat] = 0.0
            covariance[flat, flat] = variance
        return Covariances(n, centre[:d], f, varies, cov_x, cov_s, cov_xs)

    def _pooled(self, *left_out: int) -> tuple[int, Array, Array, Array]:
        """Number, mean and covariance outside of some folds, in `unit`, and the largest scores."""
        rest = [k for k in range(len(self.counts)) if k not in left_out]
        counts, means = self.counts[rest], self.means[rest]
        n = int(counts.sum())
        mean = counts @ means / n
        between = (means - mean) * np.sqrt(counts)[:, None]
        cov = (self.scatter[rest].sum(axis=0) + product(between.T, between.T)) / n
        return n, self.centre + self.unit * mean, cov, self.largest[rest].max(axis=0)


def folds(n: int, count: int = FOLDS) -> list[slice]:
    """Stretches of about equal size; pairs of two of them get the metric of the rest."""
    edges = np.linspace(0, n, count + 1).astype(int).tolist()
    return [slice(start, stop) for start, stop in pairwise(edges)]


def pair_folds(n: int) -> list[slice]:
    """The folds of kernels of the whole vector: most samples are then outside of any two."""
    return folds(n, min(_MOST_PAIR_FOLDS, n // _FEWEST_IN_FOLD))


def shrinkage(n: int, d: int) -> float:
    """Weight of the diagonal in a covariance of d dimensions learnt on n samples."""
    if n >= _ENOUGH * d:
        return 0.0
    return 0.5 * (d / n) ** 4 if n > d else d / (n + d)


def shrunk(covariance: Array, amount: float) -> Array:
    """A covariance mixed with its diagonal."""
    return (1.0 - amount) * covariance + amount * np.diag(np.diagonal(covariance))


def unit_of_columns(x: Array, scores: Array) -> tuple[Array, Array, np.ndarray]:
    """Centres and units of columns, and whether these are known; 1 where they are not."""
    centre, sd_x = location_and_deviation(x)
    _, sd_s = location_and_deviation(scores)
    return centre, *_unit_of(sd_x, sd_s, np.abs(scores).max(axis=0))


def _unit_of(sd_x: Array, sd_s: Array, largest: Array) -> tuple[Array, np.ndarray]:
    """Units of columns with these deviations and `largest` scores, and whether they are known."""
    known = (sd_x > 0) & (sd_s > _CONSTANT * largest)
    f = np.where(known, np.sqrt(sd_x), 1.0) / np.where(known, np.sqrt(sd_s), 1.0)
    return f, known


def moderate(x: Array) -> Array:
    """Entries far out moved to `_FAR` interquartile ranges from the median of their column."""
    ordered = np.sort(x[:: -(-len(x) // _ENOUGH_FOR_QUANTILES)], axis=0)
    first, middle, third = (_quantile(ordered, part) for part in (0.25, 0.5, 0.75))
    reach = _FAR * (third - first)
    if np.any(reach <= 0):  # most of a column is one value
        low, high = (_quantile(ordered, part) for part in _WIDE)
        reach = np.where(reach > 0, reach, _FAR * (high - low))
    reach = np.where(reach > 0, reach, np.inf)
    return np.clip(x, middle - reach, middle + reach)


def _quantile(ordered: Array, part: float) -> Array:
    """A quantile of sorted columns. To sort takes less than half the time of `np.quantile`."""
    place = (len(ordered) - 1) * part
    return ordered[int(place)] * (1.0 - place % 1) + ordered[math.ceil(place)] * (place % 1)


def location_and_deviation(x: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of each column, in any units."""
    centre = x.mean(axis=0)
    unit = np.abs(x - centre).max(axis=0)  # so that squares neither vanish nor overflow
    unit = np.where(unit > 0, unit, 1.0)
    deviation = unit * np.sqrt((((x - centre) / unit) ** 2).mean(axis=0))
    return centre, deviation
