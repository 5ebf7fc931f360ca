"""Products and quadratic forms of the hot paths.

Products are BLAS's, in blocks so small that BLAS starts no threads of its own for them. Those spin
while they wait: beside other work on two cores, NumPy's product of 500 by 20 and 20 by 500 numbers
took 20 ms, in blocks it takes 0.4 ms. Large products share their blocks among Python threads. The
blocks are always the same, so rounding does not depend on the number of threads.

Quadratic forms of random signs are compiled. They take an eighth of the multiplications: for 1000
samples and 1000 replicates 15 ms on one thread, where BLAS takes 22 ms.
"""

from __future__ import annotations

from collections.abc import Iterator

import numba
import numpy as np

from .._typing import Array
from .blas import one_blas_thread
from .jit import compiled, parallel, prefer_wide_vectors
from .threads import share

_ONE_THREAD = 2**18  # multiplications up to which OpenBLAS uses one thread
# Rows and columns of a block, for a depth up to so many: as many multiplications.
_BLOCKS = ((16, 128, 128), (64, 64, 64), (256, 32, 32))
_DEPTH = _BLOCKS[-1][0]
_LARGE = 2**24  # multiplications beyond which threads pay
_SIGNED = 8  # rows of a tile whose signed sums are tabulated
_COLUMNS = 512  # of a tile that stay in cache while the weights stream by
_GROUP = 32  # rows of a tile that a thread takes at a time
_STRIP = 128  # rows of a tile that BLAS multiplies at a time
_MOST_SQUARES = 2**20  # squares of weights in memory at a time


def product(a: Array, b: Array, column: int = 0) -> Array:
    """``a[:, column : column + k] @ b.T`` for a (m, k or more) and an (n, k) array."""
    m, (n, depth) = a.shape[0], b.shape
    a, b = _for_blas(a[:, column : column + depth]), _for_blas(b)
    work = m * n * depth
    if work <= _ONE_THREAD:
        return np.matmul(a, b.T)
    if np.may_share_memory(a, b):
        a = a.copy()  # NumPy takes another routine for a block times itself, with threads
    c = np.empty((m, n))
    height, width = next((rows, columns) for k, rows, columns in _BLOCKS if k >= min(depth, _DEPTH))

    def strips(first: int, last: int) -> None:
        rows = slice(first * height, last * height)
        _multiply(a[rows], b, c[rows], height, width)

    count = -(-m // height)
    if work <= _LARGE:
        strips(0, count)
    else:
        share(strips, count)
    return c


def gram(a: Array) -> Array:
    """``a @ a.T``."""
    return product(a, a)


def _for_blas(array: Array) -> Array:
    """The array in doubles, with contiguous rows or columns."""
    array = np.asarray(array, dtype=float)
    return array if array.itemsize in array.strides else np.ascontiguousarray(array)


def _multiply(a: Array, b: Array, c: Array, height: int, width: int) -> None:
    """``c = a @ b.T`` in blocks."""
    depth = b.shape[1]
    for k in range(0, depth, _DEPTH):
        for rows, i in _stretches(len(a), height):
            left = a[rows, k : k + _DEPTH]
            left = left.reshape(-1, 1, i, left.shape[1])
            for columns, j in _stretches(len(b), width):
                right = b[columns, k : k + _DEPTH]
                right = right.reshape(-1, j, right.shape[1]).swapaxes(1, 2)
                out = c[rows, columns].reshape(len(left), i, len(right), j).swapaxes(1, 2)
                if k == 0:
                    np.matmul(left, right, out=out)
                else:
                    out += np.matmul(left, right)


def _stretches(size: int, step: int) -> Iterator[tuple[slice, int]]:
    """What can be cut into pieces of size `step`, and the rest, with the size of the pieces."""
    whole = size // step * step
    if whole:
        yield slice(0, whole), step
    if whole < size:
        yield slice(whole, size), size - whole


# Bodies of parallel loops are separate functions, compiled once for the parallel and the serial
# version.


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


def weighted_squares(weights: Array, values: Array, column: int = 0) -> Array:
    """``sum_i w_i^2 values_i`` for each row w of ``weights[:, column : column + n]``."""
    weights = weights[:, column : column + values.size]
    some = max(1, _MOST_SQUARES // max(1, values.size))
    return np.concatenate(
        [
            product(weights[first : first + some] ** 2, values[None])[:, 0]
            for first in range(0, len(weights), some)
        ]
    )


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
    height, width = tile.shape
    if weights.shape[0] >= 1 << _SIGNED:
        tasks = -(-height // _GROUP)
        out, other = np.zeros((tasks, weights.shape[0])), np.zeros(tasks, dtype=np.int64)
        _forms_of_signs(tile, weights, row, column, out, other)
        if not other.any():
            return out.sum(axis=0)
    forms = np.zeros(weights.shape[0])
    for i in range(0, height, _STRIP):
        j = i if row == column else 0  # there is nothing below the diagonal
        left = weights[:, row + i : row + min(i + _STRIP, height)]
        met = product(left, tile[i : i + _STRIP, j:].T)
        forms += np.einsum("bj,bj->b", met, weights[:, column + j : column + width])
    return forms


@parallel
def _forms_of_signs(tile, weights, row, column, out, other):
    """Quadratic forms of groups of rows; `other` says where weights are no signs."""
    tasks = out.shape[0]
    for turn in numba.prange(tasks):
        # Rows of a diagonal tile shrink. Groups taken from both ends in turn give every thread the
        # same work.
        task = turn // 2 if turn % 2 == 0 else tasks - 1 - turn // 2
        first = task * _GROUP
        last = min(first + _GROUP, tile.shape[0])
        other[task] = _forms_of_group(tile, weights, row, column, first, last, out[task])


@compiled
def _forms_of_group(tile, weights, row, column, first, last, out):
    """Add what some rows contribute; 1 if their weights are no signs (four Russians' method).

    There are few signed sums of `_SIGNED` rows, and they are tabulated. In row p of the table, the
    rows whose bits are set in p are subtracted and the others added; the first is always added.
    """
    count = weights.shape[0]
    table = np.empty((1 << (_SIGNED - 1), _COLUMNS))
    patterns = np.empty(count, dtype=np.int64)
    for top in range(first, last, _SIGNED):
        height = min(_SIGNED, last - top)
        for b in range(count):
            pattern = 0
            for k in range(height):
                sign = weights[b, row + top + k]
                if abs(sign) != 1.0:
                    return 1
                pattern += int(sign != weights[b, row + top]) << k
            patterns[b] = pattern >> 1
        for start in range(top if row == column else 0, tile.shape[1], _COLUMNS):
            stop = min(start + _COLUMNS, tile.shape[1])
            size = stop - start
            _tabulate(tile, top, height, start, stop, table)
            for b in range(count):
                out[b] += weights[b, row + top] * dot(
                    table[patterns[b], :size], weights[b, column + start : column + stop]
                )
    return 0


@compiled
def _tabulate(tile, top, height, start, stop, table):
    """Signed sums of some rows of a tile, from column start to stop."""
    prefer_wide_vectors()
    size = stop - start
    total, row = table[0], tile[top, start:stop]
    for j in range(size):
        total[j] = row[j]
    for k in range(1, height):
        row = tile[top + k, start:stop]
        for j in range(size):
            total[j] += row[j]
    for k in range(1, height):
        row = tile[top + k, start:stop]
        bit = 1 << (k - 1)
        for p in range(bit):
            before, after = table[p], table[bit + p]
            for j in range(size):
                after[j] = before[j] - 2.0 * row[j]


def eigenvalues_of_product(covariance: Array, coupling: Array) -> Array:
    """Eigenvalues of ``C T`` for a covariance C and a symmetric T of any sign.

    With ``C = A A^T`` they are those of ``A^T T A``.
    """
    with one_blas_thread():
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        return np.linalg.eigvalsh(root.T @ coupling @ root)
