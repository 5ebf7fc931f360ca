"""Members that look at moments along coordinates, in time linear in the samples.

Polynomial Stein features find a wrong mean, scale or shape of single coordinates best, but large
values of a polynomial break their null distribution. Damped by a Gaussian they are bounded: with
He_q the Hermite polynomials and a coordinate y in units of its deviation,

    phi_q(y) = He_q(y) exp(-y^2 / 8),    z_q = s phi_q(y) + phi_q'(y)

has mean zero under the model. Each feature is divided by its root mean square, so that no unit and
no coordinate dominates. With q = 0 it sees a shift, with q = 1 a scale, with q = 2 and 3 skewness
and tails. Sums of squares over all coordinates, and the largest square, are members of the family.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._typing import Array
from .metric import location_and_deviation, moderate

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

    def totals(self) -> Array:
        """Sums over samples, (degrees, d)."""
        return self.features.sum(axis=2)


def moments(y: Array, scores: Array, degrees: tuple[int, ...] = DEGREES) -> Moments:
    """Moments of samples and scores (n, d) along their coordinates."""
    centre, unit = location_and_deviation(moderate(y))
    unit = np.where(unit > 0, unit, 1.0)
    z = np.clip((y - centre) / unit, -_NOTHING, _NOTHING)
    damping = np.exp(-0.5 * _DAMPING * z * z)
    hermite = [np.ones_like(z), z, z * z - 1.0, z * (z * z - 3.0)]
    features = np.empty((len(degrees), z.shape[1], z.shape[0]))
    for row, q in enumerate(degrees):
        slope = (q * hermite[q - 1] if q else 0.0) - _DAMPING * z * hermite[q]
        feature = (scores * hermite[q] + slope / unit) * damping
        features[row] = (feature / _root_mean_square(feature)).T
    return Moments(degrees, features)


def _root_mean_square(feature: Array) -> Array:
    """Of each column; 1 for a column of zeros."""
    unit = np.abs(feature).max(axis=0)  # so that squares neither vanish nor overflow
    unit = np.where(unit > 0, unit, 1.0)
    return unit * np.maximum(np.sqrt(((feature / unit) ** 2).mean(axis=0)), np.finfo(float).tiny)
