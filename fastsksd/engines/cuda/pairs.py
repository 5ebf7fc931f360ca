"""Stein terms of projected data pair by pair, and all replicates, on the device.

A tile of the matrix of Stein terms, summed over slices, is made in device memory and multiplied
there with the weights of all replicates. Tiles on and above the diagonal follow each other on one
stream. Projections are made or uploaded once, for all bandwidths and replicates.

With single precision, terms are computed in it, and so are sums of up to 16 terms of a slice or of
up to 256 of a replicate. Everything beyond is added up in double precision.
"""

import copy

import numpy as np
from numba import boolean, float32, float64, int64, void

from ...compute.pointwise import diagonal_term, stein_term
from ..pairs import PairTerms
from .blocks import CHUNK, DEPTH, PADDED, add_outer, on_device, zeros
from .data import projections
from .device import (
    LAST,
    MICRO,
    SIDE,
    SPAN,
    THREADS,
    Kernel,
    cuda,
    download,
    empty,
    groups,
    kernel,
    upload,
)
from .pointwise import in_precision
from .weights import draw

TILE = 2048  # rows and columns; 32 MB
MICRO_WIDTH = 2  # columns of a thread of `stein_tile`, which has no registers for more
WIDTH = SIDE * MICRO_WIDTH
TERMS = MICRO * MICRO_WIDTH  # of each slice that a thread computes
_STACK = min(8, THREADS // 2)  # slices that a block holds in shared memory at a time
_SHARE = THREADS // _STACK  # threads that add up the terms of one of them
VARIANTS = [(code, real) for code in (0, 1) for real in (float64, float32)]


@kernel(*VARIANTS)
def stein_tile(code, real):
    term = in_precision(stein_term, real)
    zero = np.float64(0.0) if real == float64 else np.float32(0.0)

    def stein_tile(keep, y, s, a, shrink, row, column, entries, sums):
        """Entries of the tile at (row, column), zero where ``i >= j``, and sums of each block.

        Entries are written with `keep` only. The block's sum for each slice is added to
        ``sums[block]``. `shrink` is one over the multiple of the bandwidth, which y and a are in
        units of.
        """
        y_rows = cuda.shared.array((_STACK, SPAN), real)
        s_rows = cuda.shared.array((_STACK, SPAN), real)
        y_columns = cuda.shared.array((_STACK, WIDTH), real)
        s_columns = cuda.shared.array((_STACK, WIDTH), real)
        parts = cuda.shared.array((_STACK, THREADS), float64)
        totals = cuda.local.array((MICRO, MICRO_WIDTH), real)
        tx, ty = cuda.threadIdx.x & LAST, cuda.threadIdx.y & LAST
        t = ty * SIDE + tx
        m, n = y.shape
        block = cuda.blockIdx.y * cuda.gridDim.x + cuda.blockIdx.x
        i0 = row + cuda.blockIdx.y * SPAN
        j0 = column + cuda.blockIdx.x * WIDTH
        counted = 0  # a bit for each of the thread's pairs with i < j < n
        for u in range(MICRO):
            for v in range(MICRO_WIDTH):
                totals[u, v] = zero
                i, j = i0 + ty + SIDE * u, j0 + tx + SIDE * v
                if i < j and j < n:
                    counted |= 1 << (u * MICRO_WIDTH + v)
        if i0 < j0 + WIDTH:
            for q0 in range(0, m, _STACK):
                for place in range(t, _STACK * SPAN, THREADS):
                    q, k = place // SPAN, place % SPAN
                    there = q0 + q < m and i0 + k < n
                    y_rows[q, k] = y[q0 + q, i0 + k] * shrink if there else zero
                    s_rows[q, k] = s[q0 + q, i0 + k] if there else zero
                for place in range(t, _STACK * WIDTH, THREADS):
                    q, k = place // WIDTH, place % WIDTH
                    there = q0 + q < m and j0 + k < n
                    y_columns[q, k] = y[q0 + q, j0 + k] * shrink if there else zero
                    s_columns[q, k] = s[q0 + q, j0 + k] if there else zero
                cuda.syncthreads()
                for q in range(min(_STACK, m - q0)):
                    along = a[q0 + q] * shrink
                    total = zero
                    for u in range(MICRO):
                        i = ty + SIDE * u
                        for v in range(MICRO_WIDTH):
                            j = tx + SIDE * v
                            mu = term(
                                code,
                                y_rows[q, i] - y_columns[q, j],
                                along,
                                s_rows[q, i],
                                s_columns[q, j],
                            )
                            mu = mu if counted & (1 << (u * MICRO_WIDTH + v)) else zero
                            totals[u, v] += mu
                            total += mu
                    parts[q, t] = total
                cuda.syncthreads()
                q, k = t // _SHARE, t % _SHARE
                partial = 0.0
                if q0 + q < m:
                    for other in range(k, THREADS, _SHARE):
                        partial += parts[q, other]
                cuda.syncthreads()
                parts[q, k] = partial
                cuda.syncthreads()
                if k == 0 and q0 + q < m:
                    partial = 0.0
                    for other in range(_SHARE):
                        partial += parts[q, other]
                    sums[block, q0 + q] += partial
                cuda.syncthreads()
        if keep:
            for u in range(MICRO):
                for v in range(MICRO_WIDTH):
                    i, j = i0 + ty + SIDE * u - row, j0 + tx + SIDE * v - column
                    if i < entries.shape[0] and j < entries.shape[1]:
                        entries[i, j] = totals[u, v]

    matrix = real[:, ::1]
    signature = void(
        boolean, matrix, matrix, real[::1], real, int64, int64, matrix, float64[:, ::1]
    )
    return Kernel(stein_tile, signature, blocks=2)


@kernel((float64,), (float32,))
def quadratic_forms(real):
    zero = np.float64(0.0) if real == float64 else np.float32(0.0)

    def quadratic_forms(entries, height, width, weights, row, column, parts):
        """Adds ``sum_ij w_i t_ij w_j`` over CHUNK rows and SPAN columns of a tile to `parts`.

        There is one sum for each row w of the weights, and one row of `parts` for each block.
        """
        left = cuda.shared.array((DEPTH, PADDED), real)
        right = cuda.shared.array((DEPTH, SPAN), real)
        meets = cuda.shared.array((SPAN, SIDE), float64)
        sums = cuda.local.array((MICRO, MICRO), real)
        tx, ty, z = cuda.threadIdx.x & LAST, cuda.threadIdx.y & LAST, cuda.blockIdx.z
        t = ty * SIDE + tx
        count = weights.shape[0]
        j0, b0 = cuda.blockIdx.x * SPAN, cuda.blockIdx.y * SPAN
        for u in range(MICRO):
            for v in range(MICRO):
                sums[u, v] = zero
        last = min((z + 1) * CHUNK, height)
        if row == column:
            last = min(last, j0 + SPAN)  # rows beyond are zero here
        for i0 in range(z * CHUNK, last, DEPTH):
            for place in range(t, DEPTH * SPAN, THREADS):
                b, i = place // DEPTH, place % DEPTH
                left[i, b] = (
                    weights[b0 + b, row + i0 + i] if b0 + b < count and i0 + i < last else zero
                )
                i, j = place // SPAN, place % SPAN
                right[i, j] = entries[i0 + i, j0 + j] if i0 + i < last and j0 + j < width else zero
            cuda.syncthreads()
            add_outer(DEPTH, MICRO, MICRO, left, right, ty, tx, sums)
            cuda.syncthreads()
        for u in range(MICRO):
            b = ty + SIDE * u
            total = 0.0
            for v in range(MICRO):
                j = j0 + tx + SIDE * v
                if b0 + b < count and j < width:
                    total += float64(sums[u, v]) * float64(weights[b0 + b, column + j])
            meets[b, tx] = total
        cuda.syncthreads()
        for b in range(t, SPAN, THREADS):
            if b0 + b < count:
                total = 0.0
                for k in range(SIDE):
                    total += meets[b, k]
                parts[z * cuda.gridDim.x + cuda.blockIdx.x, b0 + b] += total

    matrix = real[:, ::1]
    signature = void(matrix, int64, int64, matrix, int64, int64, float64[:, ::1])
    return Kernel(quadratic_forms, signature)


class CudaDirectEngine(PairTerms):
    """The direct engine's sums on the device; for the other parameters see `DirectEngine`.

    Weights are an array of the host, or rows that `draw` made.

    Parameters
    ----------
    real : numpy.float64 or numpy.float32
        Precision of the terms.
    source : Source, optional
        What the projections were made from, see `data.projections`.
    placed : pair of arrays on the device, optional
        The projections themselves.
    """

    draw = staticmethod(draw)

    def __init__(self, code, y, s, a, h, real=np.float64, source=None, placed=None):
        self.code = code
        self.real = np.dtype(real)
        self.s, self.a = s, a / h
        self.m, self.n = y.shape
        # In single precision differences of far projections keep more digits about the middle.
        placed = projections(y, s, h, source, real) if placed is None else placed
        self.resident = *placed, upload(self.a, real)
        self.shrink = 1.0

    @property
    def name(self):
        """The engine's name, with the precision where it is single."""
        return "cuda direct" if self.real == np.float64 else "cuda32 direct"

    def rescaled(self, multiple):
        """The same slices with their bandwidths multiplied; what is on the device is shared."""
        other = copy.copy(self)
        other.shrink, other.a = self.shrink / multiple, self.a / multiple
        return other

    def diagonal(self):
        """``sum_i mu_ii`` for each slice."""
        return diagonal_term(self.s, self.a[:, None]).sum(axis=1)

    def diagonal_terms(self):
        """``mu_ii``, summed over slices, (n,)."""
        return diagonal_term(self.s, self.a[:, None]).sum(axis=0)

    def sums(self):
        """``sum_{i != j} mu_ij`` for each slice."""
        return self._run(None, 0)[0]

    def sums_and_replicates(self, weights, start=0):
        """`sums`, and ``sum_{i != j} w_i w_j mu_ij`` for each row w of the weights."""
        return self._run(self._weights(weights), start)

    def sums_and_replicates_at(self, multiples, weights, start=0):
        """`sums_and_replicates` at several multiples of the bandwidth: a list of pairs."""
        weights = self._weights(weights)
        return [self.rescaled(multiple)._run(weights, start) for multiple in multiples]

    def tile(self, rows, columns):
        """As of `PairTerms`, on the host."""
        entries = empty(rows.stop - rows.start, columns.stop - columns.start, dtype=self.real)
        sums = zeros(self._blocks(*entries.shape), self.m)
        self._tile(True, rows.start, columns.start, entries, sums)
        return download(entries).astype(np.float64), download(sums).sum(axis=0)

    def _weights(self, weights):
        return on_device(weights, self.real)

    def _run(self, weights, start):
        """Sums over all ``i != j``, and replicates."""
        size = min(TILE, self.n)
        keep = weights is not None
        entries = empty(*((size, size) if keep else (1, 1)), dtype=self.real)
        sums = zeros(self._blocks(size, size), self.m)
        if keep:
            parts = zeros(groups(size, CHUNK) * groups(size, SPAN), weights.shape[0])
        for row in range(0, self.n, TILE):
            for column in range(row, self.n, TILE):
                height, width = min(TILE, self.n - row), min(TILE, self.n - column)
                self._tile(keep, row, column, entries, sums, height, width)
                if keep:
                    grid = (
                        groups(width, SPAN),
                        groups(weights.shape[0], SPAN),
                        groups(height, CHUNK),
                    )
                    quadratic_forms(self._type)(
                        grid, entries, height, width, weights, start + row, start + column, parts
                    )
        return 2.0 * download(sums).sum(axis=0), 2.0 * download(parts).sum(axis=0) if keep else None

    @property
    def _type(self):
        return float64 if self.real == np.float64 else float32

    def _tile(self, keep, row, column, entries, sums, height=None, width=None):
        height, width = height or entries.shape[0], width or entries.shape[1]
        shrink = self.real.type(self.shrink)
        grid = groups(width, WIDTH), groups(height, SPAN)
        stein_tile(self.code, self._type)(
            grid, keep, *self.resident, shrink, row, column, entries, sums
        )

    def _blocks(self, height, width):
        return groups(height, SPAN) * groups(width, WIDTH)
