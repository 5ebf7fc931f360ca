"""Members that look at moments along coordinates, in time linear in the samples.

Polynomial Stein features find a wrong mean, scale or shape of single coordinates best, but large
values of a polynomial break their null distribution. Damped by a Gaussian they are bounded: with
He_q the Hermite polynomials and a coordinate y in units of its deviation,

    phi_q(y) = He_q(y) exp(-y^2 / 8),    z_q = s phi_q(y) + phi_q'(y)

has mean zero under the model. With q = 1 it sees a scale, with q = 2 and 3 skewness and tails. The
score itself, z_0 = s, sees a shift and needs no damping. Each feature is divided by its root mean
square, so that no unit and no coordinate dominates. Sums of squares over all coordinates, and the
largest square, are members of the family.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._typing import Array
from ..compute.linalg import product
from ..engines.features import FeatureMap, add_to_groups
from .covariances import location_and_deviation, moderate

DEGREES = (0, 1, 2, 3)
_DAMPING = 0.25  # exp(-y^2 / 8)
_NOTHING = 1e3  # deviations where the damping has left nothing


class Moments(NamedTuple):
    """Features of all samples, for each degree and coordinate.

    Attributes
    ----------
    degrees : tuple of int
    features : (degrees, d, n) array
        In units of their root mean squares.
    """

    degrees: tuple[int, ...]
    features: Array

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.features.shape[2]

    def of_stretches(self, starts: np.ndarray) -> Moments:
        """Sums over stretches of a chain in place of its draws, in units of their own.

        A coordinate along which the chain is slow has larger sums, and must not dominate.
        """
        sums = np.add.reduceat(self.features, starts, axis=2)
        return Moments(self.degrees, sums / _root_mean_square(sums))

    def cubes(self) -> Array:
        """Third powers of the features."""
        return self.features * self.features * self.features

    def totals(self) -> Array:
        """Sums over samples, (degrees, d)."""
        return self.features.sum(axis=2)


def moments(
    y: Array,
    scores: Array,
    degrees: tuple[int, ...] = DEGREES,
    importance: Array | None = None,
    kept: np.ndarray | None = None,
) -> Moments:
    """Moments of samples and scores (n, d) along their coordinates.

    With importance weights (n,), features are multiplied by them, and the location and the unit are
    those of the samples `kept`, a mask.
    """
    known = y if kept is None else y[kept]
    features = plain_moments(y, scores, *location_and_unit(known), degrees)
    if importance is not None:
        features *= importance
    return Moments(degrees, features / _root_mean_square(features))


def location_and_unit(y: Array) -> tuple[Array, Array]:
    """Where the moments along each coordinate are centred, and their unit."""
    centre, unit = location_and_deviation(moderate(y))
    return centre, np.where(unit > 0, unit, 1.0)


def plain_moments(
    y: Array, scores: Array, centre: Array, unit: Array, degrees: tuple[int, ...]
) -> Array:
    """Features before they are divided by their root mean squares, (degrees, d, n)."""
    z = np.clip((y - centre) / unit, -_NOTHING, _NOTHING)
    damping = np.exp(-0.5 * _DAMPING * z * z)
    hermite = [np.ones_like(z), z, z * z - 1.0, z * (z * z - 3.0)]
    features = np.empty((len(degrees), z.shape[1], z.shape[0]))
    for row, q in enumerate(degrees):
        if q == 0:
            features[row] = scores.T
            continue
        slope = q * hermite[q - 1] - _DAMPING * z * hermite[q]
        features[row] = ((scores * hermite[q] + slope / unit) * damping).T
    return features


class MomentFeatures(FeatureMap):
    """Moments of any samples, centred and in units that are known beforehand.

    The sums of squares, which stand for the terms i = i, give the root mean squares.
    """

    by_feature = True

    def __init__(self, centre: Array, unit: Array, degrees: tuple[int, ...]) -> None:
        self.centre, self.unit, self.degrees = centre, unit, degrees
        self.own_size = len(degrees) * centre.size
        self.coefficients = np.ones(self.own_size)

    def group_sums(
        self, x: Array, s: Array, edges: np.ndarray, weights: Array | None = None
    ) -> tuple[Array, Array]:
        """Sums over groups, and sums of squares, of all degrees and coordinates."""
        features = plain_moments(x, s, self.centre, self.unit, self.degrees).reshape(self.size, -1)
        if weights is not None:
            features *= weights
        sums = np.zeros((len(edges) - 1, self.size))
        add_to_groups(features, 0, edges, sums)
        return sums, np.einsum("fn,fn->f", features, features)

    def pair_sums(self, total: Array, own: Array, n: int) -> Array:
        """The sum over pairs of each degree and coordinate, (degrees, d)."""
        return ((total**2 - own) / self._units(own, n)).reshape(len(self.degrees), -1)

    def replicates(self, sums: Array, own: Array, n: int, weights: Array) -> Array:
        """The same over pairs of distinct groups, (B, degrees, d)."""
        signs = weights.dtype == np.int8
        lengths = (sums**2).sum(axis=0) if signs else product(weights**2, sums.T**2)
        squares = product(weights, sums.T) ** 2 - lengths
        return (squares / self._units(own, n)).reshape(-1, len(self.degrees), self.centre.size)

    def _units(self, own: Array, n: int) -> Array:
        return np.where(own > 0, own, 1.0) / n


def _root_mean_square(features: Array) -> Array:
    """Over the last axis, which is kept; 1 for zeros."""
    unit = np.abs(features).max(axis=-1, keepdims=True)  # so that squares do not overflow
    unit = np.where(unit > 0, unit, 1.0)
    size = np.sqrt(((features / unit) ** 2).mean(axis=-1, keepdims=True))
    return unit * np.where(size > 0, size, 1.0)
