"""Features of slices on a range that is fixed before the samples are seen."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._typing import Array
from ..compute.linalg import product
from ..compute.pointwise import diagonal_term
from .features import FeatureMap, add_to_groups
from .kernel_series import MOST_FEATURES, SeriesTooLong, series_length, series_of
from .waves import Layout, blocks, wave_features


class Reach(NamedTuple):
    """The range of each slice, (m,) arrays.

    Attributes
    ----------
    centre : (m,) array
        Middle of the range.
    inner, outer : (m,) arrays
        Distances from the centre where the kernel begins and ends to fade, in bandwidths.
    """

    centre: Array
    inner: Array
    outer: Array

    def some(self, slices: slice) -> Reach:
        """The range of some of the slices."""
        return Reach(*(array[slices] for array in self))


class SliceFeatures(FeatureMap):
    """Features of slices on a range that is fixed before the samples are seen.

    Along a slice, with y in bandwidths about the centre of the range, the kernel is
    ``w(y) k(y - y') w(y')``. The factor w is 1 up to the distance `inner`, falls to 0 like a
    squared cosine up to `outer`, and is 0 beyond. So no sample is ever outside of the series, and
    the kernel is positive definite for all of them; within `inner` it is k itself. The feature of a
    sample is ``(w phi)' a + s w phi = w ((s + a w' / w) phi + a phi')``.

    Parameters
    ----------
    code : int
        Code of the kernel.
    r, g : (m, d) arrays
        Directions of the slices.
    h : (m,) array
        Bandwidth of each slice.
    reach : Reach
    tol : float
        Largest error of a Stein term.

    Raises
    ------
    SeriesTooLong
        If a series would have too many terms.
    """

    def __init__(self, code: int, r: Array, g: Array, h: Array, reach: Reach, tol: float) -> None:
        self.r, self.g, self.h, self.reach = r, g, h, reach
        self.a = np.einsum("md,md->m", r, g) / h
        series = []
        for span in (2.0 * reach.outer).tolist():
            long = series_length(code, span, tol) > MOST_FEATURES[code]
            one = None if long else series_of(code, span, tol)
            if one is None:
                raise SeriesTooLong(span)
            series.append(one)
        self.layout = Layout(series)
        self.coefficients = self.layout.coefficients
        self.own_size = len(series)

    def group_sums(
        self, x: Array, s: Array, edges: np.ndarray, weights: Array | None = None
    ) -> tuple[Array, Array]:
        """Sums of the features over groups, and the sum of the terms i = i of each slice."""
        y = (product(self.g, x) - self.reach.centre[:, None]) / self.h[:, None]
        y, s, inside = self._faded(y, product(self.r, s))
        if weights is not None:
            inside *= weights
        sums = np.zeros((edges.size - 1, self.size))
        for first, last in blocks(y.shape[1]):
            features, _ = wave_features((y, s, self.a), inside, self.layout, first, last, True)
            add_to_groups(features, first, edges, sums)
        return sums, (inside**2 * diagonal_term(s, self.a[:, None])).sum(axis=1)

    def _faded(self, y: Array, s: Array) -> tuple[Array, Array, Array]:
        """Projections with the factor w, and with ``s + a w' / w`` for s."""
        _, inner, outer = self.reach
        inside = np.ones_like(y)
        beyond = np.abs(y) > inner[:, None] * (1.0 + 1e-12)
        if not beyond.any():
            return y, s, inside
        q, i = np.nonzero(beyond)
        width = np.maximum(outer - inner, 1e-300)[q]
        u = np.minimum((np.abs(y[q, i]) - inner[q]) / width, 1.0)
        w = np.cos(0.5 * np.pi * u) ** 2
        some = w > 1e-20
        slope = -0.5 * np.pi * np.sin(np.pi * u[some]) * np.sign(y[q, i][some]) / width[some]
        inside[q, i] = np.where(some, w, 0.0)
        y[q[~some], i[~some]] = 0.0
        s[q[some], i[some]] += self.a[q[some]] * slope / w[some]
        return y, s, inside

    def pair_sums(self, total: Array, own: Array, n: int) -> Array:
        """The sum over pairs of each slice."""
        return np.add.reduceat(self.coefficients * total**2, self.layout.ends[:-1]) - own
