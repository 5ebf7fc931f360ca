"""The linear-time engine: a smooth kernel is a short Fourier series in one dimension.

With ``k(t) = sum_f c_f cos(w_f t)`` for all differences t that occur, and ``phi`` the cosines and
sines, a Stein term is an inner product, ``mu_ij = sum_f c_f xi_if xi_jf`` with
``xi_i = s_i phi(y_i) + a phi'(y_i)``. So the sum over all pairs is a sum over samples, squared:
``sum_{i != j} w_i w_j mu_ij = sum_f c_f (sum_i w_i xi_if)^2 - sum_i w_i^2 mu_ii``, in O(n) for each
of a few dozen features. `kernel_series` has the series, `waves` the features.

The error of every ``mu_ij`` is at most `tol` times ``(|s_i| + |a|/h) (|s_j| + |a|/h)``, so that of
a V-statistic is at most `tol` times twice its diagonal part.

The series grows with range over bandwidth. A few distant samples would make it long, so each slice
has a core of the samples, and treats the pairs of those outside one by one; the core is chosen for
the least cost in all. Where even that would be long, as for a bandwidth of a thousandth of the
range, or where double precision has no series to the tolerance, the direct engine takes the slice.
Samples with a score that is millions of times the usual one are outside of the core as well: of the
square of that score round-off would leave more than all the other terms.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np

from .._typing import Array
from ..compute.jit import compiled, parallel, prefer_wide_vectors
from ..compute.linalg import eigenvalues_of_product, gram, product, weighted_squares
from ..compute.medians import rough_median
from ..compute.pointwise import diagonal_term, stein_term
from .kernel_series import MOST_FEATURES, MOST_OUTSIDE, TOLERANCE, cheapest_core, series_of
from .protocol import SliceEngine
from .waves import BLOCK, Layout, blocks, wave_features

_SUMMED = 2**17  # samples whose features are summed at a time, and not kept


class FourierEngine:
    """Sums over pairs of m slices in time linear in n: a `SliceEngine`.

    Parameters
    ----------
    code : int
        Code of the kernel.
    y, s : (m, n) arrays
        Samples along g and scores along r.
    a, h : (m,) arrays
        ``r.g`` and the bandwidth of each slice.
    tol : float
        Largest error of a Stein term, see above.
    fallback : class, optional
        Engine of the slices whose series would be too long.
    """

    draw: Callable[..., Any] | None = None

    def __init__(
        self,
        code: int,
        y: Array,
        s: Array,
        a: Array,
        h: Array,
        tol: float = TOLERANCE,
        fallback: Callable[..., SliceEngine] | None = None,
    ):
        self.code = code
        self.tol = tol
        self.fallback = fallback
        self.y = (y - rough_median(y.T)[:, None]) / h[:, None]
        self.s = s
        self.a = a / h
        self.m, self.n = y.shape
        self.multiple = 1.0
        # So that squares of scores do not overflow.
        self._size = _positive(np.maximum(np.abs(s).max(axis=1), np.abs(self.a)))
        self._plan()

    def _plan(self, all_inside=False):
        """Choose for each slice its engine, its core of samples, and the series for their range."""
        self.long = np.zeros(self.m, dtype=bool)
        self.outside, series, centres, masks = [], [], [], []
        for q, row in enumerate(self.y):
            left_out, features = cheapest_core(self.code, row, self.tol, all_inside)
            inside = np.ones(self.n)
            far = np.empty(0, dtype=np.int64) if all_inside else self._loud(q)
            if left_out:
                far = np.union1d(far, np.argsort(-np.abs(row), kind="stable")[:left_out])
            if far.size:
                inside[far] = 0.0
                row = np.delete(row, far)
            one = (
                None
                if features > MOST_FEATURES[self.code] or far.size > MOST_OUTSIDE
                else series_of(self.code, np.ptp(row), self.tol)
            )
            if one is None:
                self.long[q] = True
                continue
            self.outside.append(far)
            series.append(one)
            centres.append(0.5 * (row.min() + row.max()))
            masks.append(inside)
        kept = ~self.long
        self.centres = np.array(centres)
        self.inside = np.array(masks).reshape(-1, self.n)
        y = self.y[kept] - self.centres[:, None]
        self.loaded = [np.ascontiguousarray(array) for array in (y, self.s[kept], self.a[kept])]
        self.layout = Layout(series)
        self.rest = self._pair_by_pair(self.long) if self.long.any() else None

    def _loud(self, q):
        """Samples whose scores are so large that the error of their own terms would decide.

        These terms, squares of the scores, are in the sum of squares and then taken out again.
        """
        own = diagonal_term(self.s[q] / self._size[q], self.a[q] / self._size[q])
        tol = min(self.tol, TOLERANCE)  # a coarser one is the user's choice
        return np.flatnonzero(own > 1e-6 * self.n * rough_median(own) / tol**2)

    def _pair_by_pair(self, some):
        """The other engine for the slices picked by a boolean mask."""
        return self.fallback(
            self.code, self.y[some], self.s[some], self.a[some], np.ones(np.count_nonzero(some))
        )

    @property
    def name(self) -> str:
        """The engine's name, and the other's where slices went to it."""
        if self.rest is None:
            return "fourier"
        return "direct" if self.long.all() else "direct and fourier"

    @property
    def features(self) -> int:
        """Numbers per sample that a replicate needs, with those for samples outside the core."""
        return self.layout.coefficients.size + sum(far.size for far in self.outside)

    def rescaled(self, multiple: float) -> FourierEngine:
        """The same slices with their bandwidths multiplied."""
        other = copy.copy(self)
        other.y, other.a, other.multiple = (
            self.y / multiple,
            self.a / multiple,
            self.multiple * multiple,
        )
        other._plan()
        return other

    def diagonal(self) -> Array:
        """``sum_i mu_ii`` for each slice."""
        return diagonal_term(self.s, self.a[:, None]).sum(axis=1)

    def sums(self) -> Array:
        """``sum_{i != j} mu_ij`` for each slice."""
        return self._run(None, 0)[0]

    def sums_and_replicates(self, weights: Any, start: int = 0) -> tuple[Array, Array]:
        """`sums`, and ``sum_{i != j} w_i w_j mu_ij`` for each row w of the weights.

        The columns of the weights that count are start..start + n.
        """
        return self._run(weights, start)

    def sums_and_replicates_at(
        self, multiples: Sequence[float], weights: Any, start: int = 0
    ) -> list[tuple[Array, Array]]:
        """`sums_and_replicates` at several multiples of the bandwidth: a list of pairs."""
        return [
            self.rescaled(multiple).sums_and_replicates(weights, start) for multiple in multiples
        ]

    def row_sums(self) -> Array:
        """``sum_{j != i} mu_ij`` for each i, summed over slices, (n,)."""
        sums = np.zeros(self.n) if self.rest is None else self.rest.row_sums()
        if self.long.all():
            return sums
        _, s, a = self.loaded
        sums -= (self.inside * diagonal_term(s, a[:, None])).sum(axis=0)
        totals = np.zeros((1, self.layout.coefficients.size))
        for first, last in blocks(self.n, _SUMMED):
            totals += wave_features(self.loaded, self.inside, self.layout, first, last, False)[1]
        totals *= self.layout.coefficients
        for first, last in blocks(self.n):
            features, _ = wave_features(self.loaded, self.inside, self.layout, first, last, True)
            sums[first:last] += product(totals, features.T)[0]
            for _, far, rows in self._met_by_far(first, last):
                sums[far] += rows.sum(axis=1)
                sums[first:last] += rows.sum(axis=0)
        return sums

    def spectrum(self) -> Array:
        """Eigenvalues of the centred matrix of all ``mu_ij``, over n.

        They are those of the covariance of the features, or of the matrix itself where that is
        smaller.
        """
        if self.rest is not None:
            return self._pair_by_pair(np.ones(self.m, dtype=bool)).spectrum()
        if any(far.size for far in self.outside):
            # Samples outside the core have no features. Take them in, with a series for the whole
            # range.
            whole = copy.copy(self)
            whole._plan(all_inside=True)
            return whole.spectrum()
        size = self.layout.coefficients.size
        if self.n < size and self.n <= BLOCK:
            features, _ = wave_features(self.loaded, self.inside, self.layout, 0, self.n, True)
            matrix = product(features.T * self.layout.coefficients, features.T)
            matrix -= matrix.mean(axis=0)
            matrix -= matrix.mean(axis=1, keepdims=True)
            return np.linalg.eigvalsh(0.5 * (matrix + matrix.T)) / self.n
        moments, means = np.zeros((size, size)), np.zeros(size)
        for first, last in blocks(self.n):
            features, parts = wave_features(
                self.loaded, self.inside, self.layout, first, last, True
            )
            moments += gram(features)
            means += parts
        means /= self.n
        return eigenvalues_of_product(
            moments / self.n - np.outer(means, means), np.diag(self.layout.coefficients)
        )

    def _run(self, weights, start):
        sums = np.zeros(self.m)
        replicates = None if weights is None else np.zeros(weights.shape[0])
        if self.rest is not None:
            if weights is None:
                sums[self.long] = self.rest.sums()
            else:
                sums[self.long], replicates = self.rest.sums_and_replicates(weights, start)
        if not self.long.all():
            kept, more = self._run_series(weights, start)
            sums[~self.long] = kept
            if weights is not None:
                replicates = replicates + more
        return sums, replicates

    def _run_series(self, weights, start):
        layout = self.layout
        _, s, a = self.loaded
        diagonal = self.inside * diagonal_term(s, a[:, None])
        totals = np.zeros(layout.coefficients.size)
        far_sums = np.zeros(len(self.outside))
        projections = meets = replicates = None
        if weights is not None:
            projections = np.zeros((weights.shape[0], layout.coefficients.size))
            meets = [np.zeros((weights.shape[0], far.size)) for far in self.outside]
        only_sums = weights is None and not any(far.size for far in self.outside)
        for first, last in blocks(self.n, _SUMMED if only_sums else BLOCK):
            features, parts = wave_features(
                self.loaded, self.inside, layout, first, last, weights is not None
            )
            totals += parts
            if weights is not None:
                projections += product(weights, features, start + first)
            for q, _, rows in self._met_by_far(first, last):
                far_sums[q] += 2.0 * rows.sum()
                if weights is not None:
                    meets[q] += product(weights, rows, start + first)
        sums = (
            np.add.reduceat(layout.coefficients * totals**2, layout.ends[:-1])
            - diagonal.sum(axis=1)
            + far_sums
        )
        if weights is not None:
            replicates = weighted_squares(projections, layout.coefficients) - weighted_squares(
                weights, diagonal.sum(axis=0), start
            )
            for far, met in zip(self.outside, meets, strict=True):
                replicates += 2.0 * np.einsum("bo,bo->b", met, weights[:, start + far])
        return sums, replicates

    def _met_by_far(self, first, last):
        """For each slice its samples outside the core, and their terms with first..last."""
        for q, far in enumerate(self.outside):
            if far.size:
                y, s, a = (array[q] for array in self.loaded)
                yield q, far, _far_rows(self.code, y, s, a, far, self.inside[q], first, last)


def _positive(sizes: Array) -> Array:
    return np.where(sizes > 0, sizes, 1.0)


@parallel
def _far_rows(code, y, s, a, far, inside, first, last):
    """Stein terms of the samples `far` with samples first..last.

    Pairs of two of `far` are met twice, so they count half.
    """
    rows = np.empty((far.size, last - first))
    for k in numba.prange(far.size):
        i = far[k]
        _far_row(code, y[first:last], s[first:last], a, y[i], s[i], inside[first:last], rows[k])
        if first <= i < last:
            rows[k, i - first] = 0.0
    return rows


@compiled
def _far_row(code, y, s, a, y_k, s_k, inside, out):
    prefer_wide_vectors()
    for j in range(y.size):
        out[j] = (0.5 + 0.5 * inside[j]) * stein_term(code, y_k - y[j], a, s_k, s[j])
