"""The linear-time engine's sums on the device.

`FourierEngine` itself plans the series on the host. Here are the sums over samples, a block of
samples at a time.
"""

import math

import numpy as np
from numba import float64, int64, void

from ...compute.linalg import eigenvalues_of_product
from ...compute.pointwise import diagonal_term, stein_term
from ..fourier import FourierEngine
from ..kernel_series import TOLERANCE
from .blocks import (
    CHUNK,
    add_product,
    add_row_sums,
    filled,
    folded,
    on_device,
    product_parts,
    put,
    row_dots,
    taken,
    zeros,
)
from .data import projections
from .device import THREADS, Kernel, cuda, download, empty, groups, kernel, upload
from .weights import draw

BLOCK = 65536  # samples whose features are made at a time, at the most
MOST = 2**25  # features there are at a time, 256 MB
_WAVES = 4  # frequencies that are combined at a time
_MATRIX, _VECTOR, _INTEGERS = float64[:, ::1], float64[::1], int64[::1]


@kernel()
def features():
    def features(
        y,
        s,
        which,
        shrink,
        centres,
        a,
        inside,
        base,
        counts,
        ends,
        evens,
        mix,
        starts,
        first,
        last,
        out,
    ):
        """Features of samples first..last along slice blockIdx.y, a thread for each sample.

        See `FourierEngine`. Slice q is row ``which[q]`` of y and s. `shrink` is one over the
        multiple of the bandwidth, which y is in units of.
        """
        q = cuda.blockIdx.y
        line = which[q]
        i = first + cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        if i >= last:
            return
        even = cuda.local.array(_WAVES, float64)
        odd = cuda.local.array(_WAVES, float64)
        column, row = i - first, ends[q]
        size, count, few, place = ends[q + 1] - ends[q], counts[q], evens[q], starts[q]
        angle, score = base[q] * (y[line, i] * shrink - centres[q]), s[line, i]
        cos1, sin1 = math.cos(angle), math.sin(angle)
        cos, sin = 1.0, 0.0
        combined = starts[q + 1] > place
        if combined:
            for u in range(size):
                out[row + u, column] = 0.0
        for f in range(0, count, _WAVES):
            for k in range(_WAVES):
                slope = a[q] * base[q] * (f + k)
                even[k] = inside[q, i] * (score * cos - slope * sin)
                odd[k] = inside[q, i] * (score * sin + slope * cos)
                cos, sin = cos * cos1 - sin * sin1, sin * cos1 + cos * sin1
            if not combined:
                for k in range(_WAVES):
                    if f + k < count:
                        out[row + f + k, column] = even[k]
                        out[row + count + f + k, column] = odd[k]
            else:
                for u in range(few):
                    total = 0.0
                    for k in range(_WAVES):
                        if f + k < count:
                            total += mix[place + (f + k) * few + u] * even[k]
                    out[row + u, column] += total
                for u in range(size - few):
                    total = 0.0
                    for k in range(_WAVES):
                        if f + k < count:
                            total += mix[place + count * few + (f + k) * (size - few) + u] * odd[k]
                    out[row + few + u, column] += total

    data = _MATRIX, _MATRIX, _INTEGERS, float64, _VECTOR, _VECTOR, _MATRIX
    series = _VECTOR, _INTEGERS, _INTEGERS, _INTEGERS, _VECTOR, _INTEGERS
    signature = void(*data, *series, int64, int64, _MATRIX)
    return Kernel(features, signature, square=False)


@kernel((0,), (1,))
def far_rows(code):
    def far_rows(y, s, line, shrink, a, q, far, inside, first, last, out):
        """Stein terms of the samples `far` with samples first..last along slice q.

        The slice is row `line` of y and s. Pairs of two of `far` are met twice, so they count half.
        """
        i = first + cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        k = cuda.blockIdx.y
        if i < last:
            other = far[k]
            mu = stein_term(
                code, (y[line, other] - y[line, i]) * shrink, a[q], s[line, other], s[line, i]
            )
            out[k, i - first] = (0.5 + 0.5 * inside[q, i]) * mu if i != other else 0.0

    signature = void(
        _MATRIX, _MATRIX, int64, float64, _VECTOR, int64, _INTEGERS, _MATRIX, int64, int64, _MATRIX
    )
    return Kernel(far_rows, signature, square=False)


@kernel()
def far_replicates():
    def far_replicates(met, weights, start, far, out):
        """``out[b] += 2 sum_k met[b, k] weights[b, start + far[k]]``, a thread for each b."""
        b = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        if b < out.size:
            total = 0.0
            for k in range(far.size):
                total += met[b, k] * weights[b, start + far[k]]
            out[b] += 2.0 * total

    return Kernel(
        far_replicates, void(_MATRIX, _MATRIX, int64, _INTEGERS, _VECTOR), square=False, hot=False
    )


class CudaFourierEngine(FourierEngine):
    """`FourierEngine` with its sums over samples on the device.

    Weights are an array of the host, or rows that `draw` made.
    """

    draw = staticmethod(draw)

    def __init__(self, code, y, s, a, h, tol=TOLERANCE, fallback=None, source=None):
        self._placed = projections(y, s, h, source)
        super().__init__(code, y, s, a, h, tol=tol, fallback=fallback)

    @property
    def name(self):
        if self.rest is None:
            return "cuda fourier"
        return "cuda direct" if self.long.all() else "cuda direct and cuda fourier"

    def _plan(self, all_inside=False):
        self._uploaded = None
        super()._plan(all_inside)

    def _pair_by_pair(self, some):
        placed = (
            self._placed
            if some.all()
            else [taken(array, np.flatnonzero(some)) for array in self._placed]
        )
        # In units of which the slopes a are those of the bandwidths themselves.
        h = np.full(np.count_nonzero(some), 1.0 / self.multiple)
        return self.fallback(
            self.code, self.y[some], self.s[some], self.a[some], h, placed=placed
        ).rescaled(self.multiple)

    def sums_and_replicates(self, weights, start=0):
        return super().sums_and_replicates(on_device(weights), start)

    def sums_and_replicates_at(self, multiples, weights, start=0):
        return super().sums_and_replicates_at(multiples, on_device(weights), start)

    @property
    def _resident(self):
        """The data and the series, in the order of the arguments of `features`."""
        if self._uploaded is None:
            kept, (_, _, a) = np.flatnonzero(~self.long), self.loaded
            data = [
                upload(kept, np.int64),
                1.0 / self.multiple,
                upload(self.centres),
                upload(a),
                self._mask(),
                upload(self.layout.base),
            ]
            sizes = (
                np.diff(self.layout.ends) * self.layout.counts
                if self.layout.mix.size
                else 0 * self.layout.counts
            )
            integers = (self.layout.counts, self.layout.ends, self.layout.evens)
            places = [upload(array, np.int64) for array in (*integers, np.cumsum([0, *sizes]))]
            mix = upload(self.layout.mix if self.layout.mix.size else np.zeros(1))
            self._uploaded = (*self._placed, *data, *places[:3], mix, places[3])
        return self._uploaded

    def _mask(self):
        """`inside`, made on the device."""
        far = np.concatenate([q * self.n + indices for q, indices in enumerate(self.outside)])
        mask = filled(1.0, len(self.outside), self.n)
        put()((groups(far.size, THREADS), 1), 0.0, upload(far, np.int64), mask.reshape(mask.size))
        return mask

    @property
    def _width(self):
        """Samples of a block."""
        return min(self.n, BLOCK, max(CHUNK, MOST // self.features))

    def _blocks_of_features(self):
        """Features of all samples, a block at a time: first and last sample, and the array.

        Columns of the array beyond the last sample are not used.
        """
        out = empty(int(self.layout.coefficients.size), self._width)
        for first in range(0, self.n, self._width):
            last = min(first + self._width, self.n)
            features()(
                (groups(last - first, THREADS), len(self.outside)),
                *self._resident,
                first,
                last,
                out,
            )
            yield first, last, out

    def _moments(self):
        size = int(self.layout.coefficients.size)
        totals, parts = zeros(size), None
        for first, last, block in self._blocks_of_features():
            parts = product_parts(block, block, last - first) if parts is None else parts
            add_product(block, 0, block, last - first, parts)
            add_row_sums(block, last - first, totals)
        return download(folded(parts)), download(totals)

    def spectrum(self):
        if self.rest is not None or any(far.size for far in self.outside):
            return super().spectrum()
        moments, totals = self._moments()
        means = totals / self.n
        return eigenvalues_of_product(
            moments / self.n - np.outer(means, means), np.diag(self.layout.coefficients)
        )

    def _run_series(self, weights, start):
        coefficients = self.layout.coefficients
        _, s, a = self.loaded
        diagonal = self.inside * diagonal_term(s, a[:, None])
        totals, parts = zeros(int(coefficients.size)), None
        far = [
            _Far(self, q, indices, weights)
            for q, indices in enumerate(self.outside)
            if indices.size
        ]
        for first, last, block in self._blocks_of_features():
            add_row_sums(block, last - first, totals)
            for some in far:
                some.meet(weights, start, first, last)
            if weights is not None:
                parts = product_parts(weights, block, last - first) if parts is None else parts
                add_product(weights, start + first, block, last - first, parts)
        sums = np.add.reduceat(
            coefficients * download(totals) ** 2, self.layout.ends[:-1]
        ) - diagonal.sum(axis=1)
        for some in far:
            sums[some.q] += 2.0 * download(some.totals).sum()
        if weights is None:
            return sums, None
        projections = folded(parts)
        replicates = row_dots(projections, projections, upload(coefficients))
        replicates -= row_dots(weights, weights, upload(diagonal.sum(axis=0)), start)
        if far:
            more = zeros(weights.shape[0])
            for some in far:
                far_replicates()(
                    (groups(more.size, THREADS), 1),
                    folded(some.parts),
                    weights,
                    start,
                    some.uploaded,
                    more,
                )
            replicates += download(more)
        return sums, replicates


class _Far:
    """Samples outside the core of slice q, and their sums with the others."""

    def __init__(self, engine, q, indices, weights):
        self.engine, self.q, self.indices = engine, q, indices
        self.line = int(np.flatnonzero(~engine.long)[q])
        self.uploaded = upload(indices, np.int64)
        self.rows = empty(indices.size, engine._width)
        self.totals = zeros(indices.size)
        self.parts = None if weights is None else product_parts(weights, self.rows, engine._width)

    def meet(self, weights, start, first, last):
        y, s, _, shrink, _, a, inside, *_ = self.engine._resident
        grid = groups(last - first, THREADS), self.indices.size
        far_rows(self.engine.code)(
            grid, y, s, self.line, shrink, a, self.q, self.uploaded, inside, first, last, self.rows
        )
        add_row_sums(self.rows, last - first, self.totals)
        if weights is not None:
            add_product(weights, start + first, self.rows, last - first, self.parts)
