"""Products and quadratic forms of the hot paths, in compiled parallel loops.

Rounding does not depend on the number of threads. NumPy's BLAS is faster on large products, but its
worker threads spin for a while after each call and fight with Numba's for the cores (measured: 10
to 25 ms lost per switch on two cores), and it does not promise the same rounding for every number
of threads.
"""

from __future__ import annotations

import numba
import numpy as np

from .._typing import Array
from .jit import compiled, parallel, prefer_wide_vectors

_A_ROWS, _B_ROWS, _DEPTH = 32, 64, 512  # block sizes of `product`, fixed for reproducible rounding
_SMALL = 1_000_000  # multiplications below which threads do not pay
# Block of a tile that `quadratic_forms` keeps in cache while the weights stream by.
_GROUP, _COLUMNS = (32, 512)
_SIGNED = 8  # rows of a tile whose signed sums are tabulated


def product(a: Array, b: Array, column: int = 0) -> Array:
    """``a[:, column : column + k] @ b.T`` for a (m, k or more) and an (n, k) array."""
    multiply = _product if a.shape[0] * b.size > _SMALL else _product.serial
    return multiply(_plain(a), _plain(b), column)


def gram(a: Array) -> Array:
    """``a @ a.T``, at half the cost."""
    if a.shape[0] * a.size <= _SMALL:
        return product(a, a)
    return _gram(_plain(a))


@parallel
def _gram(a):
    m = a.shape[0]
    c = np.zeros((m, m))
    row_blocks = (m + _A_ROWS - 1) // _A_ROWS
    column_blocks = (m + _B_ROWS - 1) // _B_ROWS
    for task in numba.prange(row_blocks * column_blocks):
        i = (task // column_blocks) * _A_ROWS
        j = (task % column_blocks) * _B_ROWS
        if j + _B_ROWS > i:
            _product_block(a, a, c, 0, i, min(i + _A_ROWS, m), j, min(j + _B_ROWS, m))
    for i in range(m):
        for j in range(i):
            c[i, j] = c[j, i]
    return c


def _plain(array: Array) -> Array:
    """The array C-ordered and writeable, copied where it is not.

    Read-only arrays are another type to Numba, for which it would compile all over again.
    """
    return np.require(array, requirements=("C", "W"))


@parallel
def _product(a, b, column):
    m = a.shape[0]
    n = b.shape[0]
    c = np.zeros((m, n))
    # Blocks of equal size, those of one stretch of columns next to each other, so that every thread
    # has about the same work.
    row_blocks = (m + _A_ROWS - 1) // _A_ROWS
    column_blocks = (n + _B_ROWS - 1) // _B_ROWS
    height = ((m + row_blocks - 1) // row_blocks + 3) // 4 * 4
    width = ((n + column_blocks - 1) // column_blocks + 3) // 4 * 4
    for task in numba.prange(row_blocks * column_blocks):
        i = (task % row_blocks) * height
        j = (task // row_blocks) * width
        _product_block(a, b, c, column, i, min(i + height, m), j, min(j + width, n))
    return c


# Bodies of parallel loops are separate functions, compiled once for the parallel and the serial
# version.


@compiled
def _product_block(a, b, c, column, i0, i1, j0, j1):
    depth = b.shape[1]
    i4 = i0 + (i1 - i0) // 4 * 4
    j4 = j0 + (j1 - j0) // 4 * 4
    for k0 in range(0, depth, _DEPTH):
        k1 = min(k0 + _DEPTH, depth)
        u0 = column + k0
        u1 = column + k1
        for i in range(i0, i4, 4):
            for j in range(j0, j4, 4):
                _dot_4x4(
                    a[i, u0:u1], a[i + 1, u0:u1], a[i + 2, u0:u1], a[i + 3, u0:u1],
                    b[j, k0:k1], b[j + 1, k0:k1], b[j + 2, k0:k1], b[j + 3, k0:k1],
                    c[i, j : j + 4], c[i + 1, j : j + 4], c[i + 2, j : j + 4], c[i + 3, j : j + 4],
                )  # fmt: skip
            for j in range(j4, j1):
                for u in range(i, i + 4):
                    c[u, j] += dot(a[u, u0:u1], b[j, k0:k1])
        for i in range(i4, i1):
            for j in range(j0, j1):
                c[i, j] += dot(a[i, u0:u1], b[j, k0:k1])


@compiled
def dot(a, b):
    prefer_wide_vectors()
    total = 0.0
    for k in range(a.size):
        total += a[k] * b[k]
    return total


@compiled
def add_scaled(w, factor, other):
    prefer_wide_vectors()
    for i in range(w.size):
        w[i] += factor * other[i]


@compiled
def _dot_4x4(a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3):
    """Sixteen dot products at once, so that every number loaded is used four times."""
    prefer_wide_vectors()
    s00 = s01 = s02 = s03 = 0.0
    s10 = s11 = s12 = s13 = 0.0
    s20 = s21 = s22 = s23 = 0.0
    s30 = s31 = s32 = s33 = 0.0
    for k in range(a0.size):
        x0, x1, x2, x3 = a0[k], a1[k], a2[k], a3[k]
        y0, y1, y2, y3 = b0[k], b1[k], b2[k], b3[k]
        s00 += x0 * y0
        s01 += x0 * y1
        s02 += x0 * y2
        s03 += x0 * y3
        s10 += x1 * y0
        s11 += x1 * y1
        s12 += x1 * y2
        s13 += x1 * y3
        s20 += x2 * y0
        s21 += x2 * y1
        s22 += x2 * y2
        s23 += x2 * y3
        s30 += x3 * y0
        s31 += x3 * y1
        s32 += x3 * y2
        s33 += x3 * y3
    c0[0] += s00
    c0[1] += s01
    c0[2] += s02
    c0[3] += s03
    c1[0] += s10
    c1[1] += s11
    c1[2] += s12
    c1[3] += s13
    c2[0] += s20
    c2[1] += s21
    c2[2] += s22
    c2[3] += s23
    c3[0] += s30
    c3[1] += s31
    c3[2] += s32
    c3[3] += s33


def weighted_squares(weights: Array, values: Array, column: int = 0) -> Array:
    """``sum_i w_i^2 values_i`` for each row w of ``weights[:, column : column + n]``."""
    sums = (
        _weighted_squares if weights.shape[0] * values.size > _SMALL else _weighted_squares.serial
    )
    return sums(_plain(weights), values, column)


@parallel
def _weighted_squares(weights, values, column):
    out = np.empty(weights.shape[0])
    for b in numba.prange(weights.shape[0]):
        out[b] = _weighted_square(weights[b, column : column + values.size], values)
    return out


@compiled
def _weighted_square(w, values):
    prefer_wide_vectors()
    total = 0.0
    for i in range(values.size):
        total += w[i] * w[i] * values[i]
    return total


def quadratic_forms(tile: Array, weights: Array, row: int, column: int) -> Array:
    """``sum_ij w_i t_ij w_j`` over a tile, for each row w of the weights.

    Parameters
    ----------
    tile : (height, width) array
        Entries; a tile on the diagonal must be zero below it.
    weights : (count, n) array
        Weights of all samples.
    row, column : int
        Samples of the first row and of the first column of the tile.

    Returns
    -------
    (count,) array
        One number for each row of the weights.
    """
    return _quadratic_forms(tile, weights, row, column).sum(axis=0)


@parallel
def _quadratic_forms(tile, weights, row, column):
    height = tile.shape[0]
    tasks = (height + _GROUP - 1) // _GROUP
    parts = np.zeros((tasks, weights.shape[0]))
    for turn in numba.prange(tasks):
        # Rows of a diagonal tile shrink. Groups taken from both ends in turn give every thread the
        # same work.
        task = turn // 2 if turn % 2 == 0 else tasks - 1 - turn // 2
        _forms_of_group(
            tile, weights, row, column, task * _GROUP, min((task + 1) * _GROUP, height), parts[task]
        )
    return parts


@compiled
def _forms_of_group(tile, weights, row, column, first, last, out):
    """Add what rows first..last of the tile contribute."""
    if weights.shape[0] >= 1 << (_SIGNED - 1) and _are_signs(weights[:, row + first : row + last]):
        table = np.empty((1 << (_SIGNED - 1), _COLUMNS))
        for i in range(first, last, _SIGNED):
            _forms_of_signs(tile, weights, row, column, i, min(i + _SIGNED, last), table, out)
        return
    count = weights.shape[0]
    count4 = count // 4 * 4
    last4 = first + (last - first) // 4 * 4
    begin = first if row == column else 0
    for start in range(begin, tile.shape[1], _COLUMNS):
        stop = min(start + _COLUMNS, tile.shape[1])
        for b in range(0, count4, 4):
            for i in range(first, last4, 4):
                j = max(start, i) if row == column else start
                if j < stop:
                    _form_4x4(tile, i, j, stop, weights, b, row, column, out)
        for i in range(first, last):
            for b in range(count4 if i < last4 else 0, count):
                out[b] += weights[b, row + i] * dot(
                    tile[i, start:stop], weights[b, column + start : column + stop]
                )


@compiled
def _are_signs(weights):
    for b in range(weights.shape[0]):
        row = weights[b]
        others = 0
        for i in range(row.size):
            others += int(abs(row[i]) != 1.0)
        if others > 0:
            return False
    return True


@compiled
def _forms_of_signs(tile, weights, row, column, first, last, table, out):
    """The same for a few rows where all weights are signs (the method of the four Russians).

    There are few signed sums of these rows, and they are tabulated. In row p of the table, the rows
    whose bits are set in p are subtracted and the others added; the first row is always added.
    """
    count = weights.shape[0]
    height = last - first
    patterns = np.empty(count, dtype=np.int64)
    for b in range(count):
        signs = weights[b, row + first : row + last]
        pattern = 0
        for k in range(1, height):
            pattern += int(signs[k] != signs[0]) << (k - 1)
        patterns[b] = pattern
    for start in range(first if row == column else 0, tile.shape[1], _COLUMNS):
        stop = min(start + _COLUMNS, tile.shape[1])
        size = stop - start
        # An assignment of one array to another would compile Numba's words for wrong shapes.
        table[0, :size] = 0.0
        for k in range(height):
            add_scaled(table[0, :size], 1.0, tile[first + k, start:stop])
        for k in range(1, height):
            bit = 1 << (k - 1)
            for p in range(bit, 2 * bit):
                _less_twice(table[p, :size], table[p - bit, :size], tile[first + k, start:stop])
        begin, end = column + start, column + stop
        for b in range(0, count - 3, 4):
            s0, s1, s2, s3 = _dots_of_pairs(
                table[patterns[b], :size],
                table[patterns[b + 1], :size],
                table[patterns[b + 2], :size],
                table[patterns[b + 3], :size],
                weights[b, begin:end],
                weights[b + 1, begin:end],
                weights[b + 2, begin:end],
                weights[b + 3, begin:end],
            )
            out[b] += weights[b, row + first] * s0
            out[b + 1] += weights[b + 1, row + first] * s1
            out[b + 2] += weights[b + 2, row + first] * s2
            out[b + 3] += weights[b + 3, row + first] * s3
        for b in range(count // 4 * 4, count):
            out[b] += weights[b, row + first] * dot(
                table[patterns[b], :size], weights[b, begin:end]
            )


@compiled
def _less_twice(out, a, b):
    prefer_wide_vectors()
    for k in range(out.size):
        out[k] = a[k] - 2.0 * b[k]


@compiled
def _dots_of_pairs(a0, a1, a2, a3, b0, b1, b2, b3):
    prefer_wide_vectors()
    s0 = s1 = s2 = s3 = 0.0
    for k in range(a0.size):
        s0 += a0[k] * b0[k]
        s1 += a1[k] * b1[k]
        s2 += a2[k] * b2[k]
        s3 += a3[k] * b3[k]
    return s0, s1, s2, s3


@compiled
def _form_4x4(tile, i, j, stop, weights, b, row, column, out):
    """Four rows of a tile, from column j, against four pairs of weights."""
    prefer_wide_vectors()
    u = weights[b : b + 4, row + i : row + i + 4]
    u00, u01, u02, u03 = u[0, 0], u[0, 1], u[0, 2], u[0, 3]
    u10, u11, u12, u13 = u[1, 0], u[1, 1], u[1, 2], u[1, 3]
    u20, u21, u22, u23 = u[2, 0], u[2, 1], u[2, 2], u[2, 3]
    u30, u31, u32, u33 = u[3, 0], u[3, 1], u[3, 2], u[3, 3]
    t0, t1, t2, t3 = tile[i, j:stop], tile[i + 1, j:stop], tile[i + 2, j:stop], tile[i + 3, j:stop]
    j += column
    stop += column
    v0, v1, v2, v3 = (
        weights[b, j:stop],
        weights[b + 1, j:stop],
        weights[b + 2, j:stop],
        weights[b + 3, j:stop],
    )
    s0 = s1 = s2 = s3 = 0.0
    for k in range(t0.size):
        x0, x1, x2, x3 = t0[k], t1[k], t2[k], t3[k]
        s0 += v0[k] * (u00 * x0 + u01 * x1 + u02 * x2 + u03 * x3)
        s1 += v1[k] * (u10 * x0 + u11 * x1 + u12 * x2 + u13 * x3)
        s2 += v2[k] * (u20 * x0 + u21 * x1 + u22 * x2 + u23 * x3)
        s3 += v3[k] * (u30 * x0 + u31 * x1 + u32 * x2 + u33 * x3)
    out[b] += s0
    out[b + 1] += s1
    out[b + 2] += s2
    out[b + 3] += s3


def eigenvalues_of_product(covariance: Array, coupling: Array) -> Array:
    """Eigenvalues of ``C T`` for a covariance C and a symmetric T of any sign.

    With ``C = A A^T`` they are those of ``A^T T A``.
    """
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.linalg.eigvalsh(root.T @ coupling @ root)
