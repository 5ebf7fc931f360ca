"""The linear-time engine: a smooth kernel is a short Fourier series in one dimension.

With ``k(t) = sum_f c_f cos(w_f t)`` for all differences t that occur, and ``phi`` the cosines and
sines, a Stein term is an inner product, ``mu_ij = sum_f c_f xi_if xi_jf`` with
``xi_i = s_i phi(y_i) + a phi'(y_i)``. So the sum over all pairs is a sum over samples, squared:
``sum_{i != j} w_i w_j mu_ij = sum_f c_f (sum_i w_i xi_if)^2 - sum_i w_i^2 mu_ii``, in O(n) for each
of a few dozen features.

RBF   Its Fourier transform is Gaussian. It is periodised with a period beyond the range by z
      bandwidths, and cut at the frequency z; both errors are ``exp(-z^2 / 2)``.
IMQ   It decays too slowly to be periodised. A cosine series with a longer period is fitted to it on
      the range, by least squares together with its two derivatives. That takes far more terms than
      the kernel has degrees of freedom there, so the features are combined into less than half as
      many, see `series.reduced_series`.

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
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numba
import numpy as np

from .._typing import Array
from .._validate import ArgumentError, check_number
from ..compute.jit import compiled, parallel, prefer_wide_vectors
from ..compute.linalg import eigenvalues_of_product, gram, product, weighted_squares
from ..compute.medians import rough_median
from ..compute.pointwise import diagonal_term, stein_term
from ..compute.series import fitted_series, reduced_series
from ..compute.threads import share
from .features import FeatureMap
from .protocol import SliceEngine

TOLERANCE = 1e-8
_BLOCK = 4096  # samples whose features are made at a time
_SUMMED = 2**17  # samples whose features are summed at a time, and not kept
_STRIP = 512  # samples per task
_LARGE = 2**17  # features beyond which threads pay
_MOST_FEATURES = {0: 8192, 1: 1024}  # of one slice, by kernel
_MOST_OUTSIDE = 1024
_MOST_WAVES = 2**22  # in memory at a time, where they are combined
# Fitted series are made for ranges on a geometric grid, so that slices of similar range share one.
_RANGE_STEP = 1.05
# How far the period of a fitted series goes beyond the range, in bandwidths: shorter ones need more
# terms, longer ones cancel.
_MARGIN = 1.0


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
            left_out, features = _cheapest(self.code, row, self.tol, all_inside)
            inside = np.ones(self.n)
            far = np.empty(0, dtype=np.int64) if all_inside else self._loud(q)
            if left_out:
                far = np.union1d(far, np.argsort(-np.abs(row), kind="stable")[:left_out])
            if far.size:
                inside[far] = 0.0
                row = np.delete(row, far)
            one = (
                None
                if features > _MOST_FEATURES[self.code] or far.size > _MOST_OUTSIDE
                else _series(self.code, np.ptp(row), self.tol)
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
        self.layout = _Layout(series)
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
        for first, last in _blocks(self.n, _SUMMED):
            totals += _features(self.loaded, self.inside, self.layout, first, last, False)[1]
        totals *= self.layout.coefficients
        for first, last in _blocks(self.n):
            features, _ = _features(self.loaded, self.inside, self.layout, first, last, True)
            sums[first:last] += product(totals, features.T)[0]
            for q, far in enumerate(self.outside):
                if far.size:
                    rows = _far_rows(
                        self.code,
                        *(array[q] for array in self.loaded),
                        far,
                        self.inside[q],
                        first,
                        last,
                    )
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
        if self.n < size and self.n <= _BLOCK:
            features, _ = _features(self.loaded, self.inside, self.layout, 0, self.n, True)
            matrix = product(features.T * self.layout.coefficients, features.T)
            matrix -= matrix.mean(axis=0)
            matrix -= matrix.mean(axis=1, keepdims=True)
            return np.linalg.eigvalsh(0.5 * (matrix + matrix.T)) / self.n
        moments, means = np.zeros((size, size)), np.zeros(size)
        for first, last in _blocks(self.n):
            features, parts = _features(self.loaded, self.inside, self.layout, first, last, True)
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
        for first, last in _blocks(self.n, _SUMMED if only_sums else _BLOCK):
            features, parts = _features(
                self.loaded, self.inside, layout, first, last, weights is not None
            )
            totals += parts
            if weights is not None:
                projections += product(weights, features, start + first)
            for q, far in enumerate(self.outside):
                if far.size:
                    rows = _far_rows(
                        self.code,
                        *(array[q] for array in self.loaded),
                        far,
                        self.inside[q],
                        first,
                        last,
                    )
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
            long = series_length(code, span, tol) > _MOST_FEATURES[code]
            one = None if long else _series(code, span, tol)
            if one is None:
                raise SeriesTooLong(span)
            series.append(one)
        self.layout = _Layout(series)
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
        for first, last in _blocks(y.shape[1]):
            features, _ = _features((y, s, self.a), inside, self.layout, first, last, True)
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


class SeriesTooLong(Exception):
    """A range of so many bandwidths that its series would be too long."""


class Series(NamedTuple):
    """A kernel as ``sum_f coefficients_f xi_f xi'_f``.

    The cosines and sines of `frequencies` multiples of the lowest frequency `base` are the
    features. Where there are matrices (frequencies, features), they combine the cosines into `even`
    features and the sines into `odd` ones.
    """

    base: float
    frequencies: int
    coefficients: Array
    even: Array = np.empty((0, 0))
    odd: Array = np.empty((0, 0))


class _Layout:
    """Series of all slices one after another.

    For each slice the base frequency, the number of frequencies, where its features end and how
    many of them are even; the coefficients of all features; and pairs of matrices that combine
    cosines and sines, where there are any.
    """

    def __init__(self, series: Sequence[Series]):
        self.base = np.array([one.base for one in series])
        self.counts = np.array([one.frequencies for one in series], dtype=np.int64)
        self.ends = np.cumsum([0, *(one.coefficients.size for one in series)])
        self.coefficients = np.concatenate([np.empty(0), *(one.coefficients for one in series)])
        self.evens = np.array([one.even.shape[1] for one in series], dtype=np.int64)
        self.mixes = [(one.even, one.odd) for one in series if one.even.size]

    @property
    def mix(self) -> Array:
        """The matrices that combine features, one after another."""
        return np.concatenate(
            [np.empty(0), *(part.ravel() for pair in self.mixes for part in pair)]
        )


def _blocks(n: int, size: int = _BLOCK) -> Iterator[tuple[int, int]]:
    """Where blocks of up to `size` of n samples begin and end."""
    for first in range(0, n, size):
        yield first, min(first + size, n)


def add_to_groups(features: Array, first: int, edges: np.ndarray, sums: Array) -> None:
    """Add features (f, width) of the samples from `first` on to the sums of groups, (groups, f)."""
    width = features.shape[1]
    if width == 0:
        return
    last = int(np.searchsorted(edges, first + width, side="left"))
    begin = int(np.searchsorted(edges, first, side="right")) - 1
    starts = np.maximum(edges[begin:last] - first, 0)
    sums[begin:last] += np.add.reduceat(features, starts, axis=1).T


def feature_block(y: Array, s: Array, a: Array, base: Array, counts: np.ndarray) -> Array:
    """Plain features of samples along all slices, in units of the bandwidths.

    Returns an array (sum of 2 counts, n): for each slice cosines, then sines.
    """
    return _all_waves(y, s, a, np.ones(y.shape), base, counts, 0, y.shape[1], True)[0]


def check_tolerance(tol: float) -> float:
    """`tol` must be one that double precision can keep."""
    tol = check_number("tol", tol, 0.0, strict=True)
    if not 1e-12 <= tol <= 0.1:
        raise ArgumentError("tol", f"must be between 1e-12 and 0.1; got {tol:g}")
    return tol


def features_needed(code: int, y: Array, h: Array, tol: float = TOLERANCE) -> float:
    """Number of features of all slices together, without making any series.

    It is infinite when a slice would go to the direct engine.
    """
    needed = [_cheapest(code, row, tol)[1] for row in (y - rough_median(y.T)[:, None]) / h[:, None]]
    return math.inf if max(needed) > _MOST_FEATURES[code] else sum(needed)


def series_length(code: int, span: float, tol: float) -> float:
    """About how many features a series over `span` bandwidths has."""
    if code == 0:
        z = _cut(tol)
        return z * (span + z) / math.pi + 2.0
    return 0.45 * 2.0 * _imq_frequencies(span, tol)


def _cheapest(code: int, row: Array, tol: float, all_inside: bool = False) -> tuple[int, float]:
    """How many of the farthest samples to leave out of the core, and the features needed then."""
    best = 0, series_length(code, float(np.ptp(row)), tol)
    # Only a range far beyond that of a light tail is worth a search.
    if best[1] > 100.0 and not all_inside:
        ordered = np.sort(np.abs(row))[::-1]
        count = 1
        while count <= min(row.size // 2, _MOST_OUTSIDE):
            features = count + series_length(code, 2.0 * ordered[count], tol)
            if features < best[1]:
                best = count, features
            count += max(1, count // 4)
    return best


def _positive(sizes: Array) -> Array:
    return np.where(sizes > 0, sizes, 1.0)


def _rounded(span: float) -> float:
    """The span rounded up to the grid of ranges."""
    return _RANGE_STEP ** math.ceil(math.log(max(span, 0.5), _RANGE_STEP))


def _cut(tol: float) -> float:
    # Derivatives multiply what is cut off by up to z^2.
    return math.sqrt(2.0 * math.log(300.0 / tol))


def _series(code: int, span: float, tol: float) -> Series | None:
    """The series for samples within half of `span` bandwidths about 0.

    None when double precision has none to the tolerance.
    """
    if code == 1:
        return _imq_series(_rounded(span), tol)
    z = _cut(tol)
    period = span + z
    frequencies = 2.0 * math.pi / period * np.arange(math.floor(z * period / (2.0 * math.pi)) + 1)
    coefficients = 2.0 * math.sqrt(2.0 * math.pi) / period * np.exp(-0.5 * frequencies**2)
    coefficients[0] *= 0.5
    return Series(
        2.0 * math.pi / period, coefficients.size, np.concatenate([coefficients, coefficients])
    )


def _imq_frequencies(span: float, tol: float) -> float:
    return (span + _MARGIN) * math.log(1000.0 / tol) / math.pi + 2.0


@functools.lru_cache(maxsize=1024)
def _imq_series(span: float, tol: float) -> Series | None:
    """The same for IMQ; terms are added until the fit is good enough."""
    period = 2.0 * (span + _MARGIN)
    least = math.ceil(_imq_frequencies(span, tol))
    for count in range(least, 2 * least, 2 + least // 16):
        fitted = fitted_series(1, span, 0.0, count, period, tol)
        if fitted is not None:
            even, odd = reduced_series(fitted[0], period, 0.5 * span, tol)
            return Series(
                2.0 * math.pi / period, count, np.ones(even.shape[1] + odd.shape[1]), even, odd
            )
    return None


def _features(
    loaded: Sequence[Array], inside: Array, layout: _Layout, first: int, last: int, keep: bool
) -> tuple[Array, Array]:
    """Features of samples first..last, slice after slice, and their sums.

    Without `keep` there are no columns of features.
    """
    if not layout.mixes:
        return _all_waves(*loaded, inside, layout.base, layout.counts, first, last, keep)
    features = np.empty((layout.ends[-1], last - first if keep else 0))
    sums = np.empty(layout.ends[-1])
    some = max(1, _MOST_WAVES // (2 * int(layout.counts.max()) * max(1, features.shape[1])))
    for q in range(0, len(layout.counts), some):
        slices = slice(q, q + some)
        waves, totals = _all_waves(
            *(array[slices] for array in (*loaded, inside, layout.base, layout.counts)),
            first,
            last,
            keep,
        )
        row = 0
        for k, (even, odd) in enumerate(layout.mixes[slices], start=q):
            out = int(layout.ends[k])
            for mix in (even, odd):
                rows, kept = slice(row, row + mix.shape[0]), slice(out, out + mix.shape[1])
                sums[kept] = totals[rows] @ mix
                if keep:
                    features[kept] = product(mix.T, waves[rows].T)
                row, out = rows.stop, kept.stop
    return features, sums


def _all_waves(y, s, a, inside, base, counts, first, last, keep):
    """Cosines, then sines, of samples first..last along each slice, and their sums."""
    ends = np.cumsum([0, *(2 * counts)])
    width = last - first
    waves = np.empty((ends[-1], width if keep else 0))
    sums = np.empty((-(-width // _STRIP), ends[-1]))
    share(
        lambda begin, end: _waves(
            y, s, a, inside, base, ends, first, last, begin, end, waves, sums
        ),
        len(y) * len(sums),
        large=ends[-1] * width > _LARGE,
    )
    return waves, sums.sum(axis=0)


@compiled
def _waves(y, s, a, inside, base, ends, first, last, first_turn, last_turn, waves, sums):
    """Waves of some strips of the samples along some slices."""
    strips = sums.shape[0]
    for task in range(first_turn, last_turn):
        q = task // strips
        start = first + (task % strips) * _STRIP
        stop = min(start + _STRIP, last)
        _strip_of_waves(
            y[q, start:stop],
            s[q, start:stop],
            a[q],
            inside[q, start:stop],
            base[q],
            waves,
            ends[q],
            start - first,
            sums[task % strips, ends[q] : ends[q + 1]],
        )


@compiled
def _strip_of_waves(y, s, a, inside, base, waves, row, start, sums):
    # Rows of `waves` are cut out here: a piece of a matrix is not contiguous to the compiler.
    n = y.size
    stop = start + n
    count = sums.size // 2
    scratch = np.empty((6, n))
    cos, sin, cos1, sin1 = scratch[0], scratch[1], scratch[2], scratch[3]
    for i in range(n):
        cos1[i] = math.cos(base * y[i])
        sin1[i] = math.sin(base * y[i])
        cos[i] = 1.0
        sin[i] = 0.0
    even, odd = scratch[4], scratch[5]
    for f in range(count):
        if waves.shape[1] > 0:
            even, odd = waves[row + f, start:stop], waves[row + count + f, start:stop]
        sums[f], sums[count + f] = _wave(s, a * base * f, inside, cos, sin, cos1, sin1, even, odd)


@compiled
def _wave(s, slope, inside, cos, sin, cos1, sin1, even, odd):
    """Features of one frequency with their sums, and the rotation to the next."""
    prefer_wide_vectors()
    even_sum = odd_sum = 0.0
    for i in range(s.size):
        c = cos[i]
        d = sin[i]
        even[i] = inside[i] * (s[i] * c - slope * d)
        odd[i] = inside[i] * (s[i] * d + slope * c)
        even_sum += even[i]
        odd_sum += odd[i]
        cos[i] = c * cos1[i] - d * sin1[i]
        sin[i] = d * cos1[i] + c * sin1[i]
    return even_sum, odd_sum


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
