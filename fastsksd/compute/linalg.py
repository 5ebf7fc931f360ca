"""Products and quadratic forms of the hot paths.

Products are BLAS's, on one thread: its own threads spin while they wait. Beside other work on two
cores, NumPy's product of 500 by 20 and 20 by 500 numbers took 20 ms, and on one thread it takes 0.2
ms. Large products are cut into strips, which Python threads share. The strips are always the same,
so rounding does not depend on the number of threads.

Random signs come as int8 arrays. What they meet is compiled: sums of a few rows with all possible
signs are tabulated, and looked up for every row of signs. Quadratic forms take an eighth of the
multiplications (for 1000 samples and 1000 replicates 10 ms on one thread, where BLAS takes 22 ms),
products with 400 features 11 ms (BLAS 22 ms).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from .._blas import one_blas_thread
from .._typing import Array
from .jit import compiled, prefer_wide_vectors
from .threads import share

_SMALL = 2**18  # multiplications up to which OpenBLAS uses one thread anyway
_STRIP, _LENGTH = 2**22, 128  # multiplications of a strip, and rows or columns, about
_LARGE = 2**24  # multiplications beyond which threads pay
_SIGNED = 8  # rows of a tile whose signed sums are tabulated
_COLUMNS = 512  # of a tile that stay in cache while the signs stream by
_GROUP = 32  # rows of a tile that a thread takes at a time
_FEW = 6  # rows whose signed sums are tabulated for products
_TABLES = 4  # looked up at a time
_WIDE = 512  # columns of these tables, at most
_MANY, _BROAD = 128, 64  # rows of signs and columns of a product from which on tables pay
_ROWS = 128  # rows of a tile that BLAS multiplies at a time
_MOST_SQUARES = 2**20  # squares of weights in memory at a time


def product(a: Array, b: Array, column: int = 0) -> Array:
    """``a[:, column : column + k] @ b.T`` for a (m, k or more) and an (n, k) array.

    `a` may hold signs.
    """
    m, (n, depth) = a.shape[0], b.shape
    if a.dtype == np.int8 and m >= _MANY and n >= _BROAD:
        return _signed_sums(a, np.asarray(b, dtype=float), column)
    a, b = _for_blas(a[:, column : column + depth]), _for_blas(b)
    work = m * n * depth
    if work <= _SMALL:
        return np.matmul(a, b.T)
    c = np.empty((m, n))
    longer = max(m, n)
    count = min(-(-work // _STRIP), -(-longer // _LENGTH))
    edges = [longer * k // count for k in range(count + 1)]

    def strips(first: int, last: int) -> None:
        for start, stop in pairwise(edges[first : last + 1]):
            if m >= n:
                np.matmul(a[start:stop], b.T, out=c[start:stop])
            else:
                np.matmul(a, b[start:stop].T, out=c[:, start:stop])

    with one_blas_thread():
        share(strips, count, large=work > _LARGE)
    return c


def gram(a: Array) -> Array:
    """``a @ a.T``."""
    return product(a, a)


def _for_blas(array: Array) -> Array:
    """The array in doubles, with contiguous rows or columns."""
    array = np.asarray(array, dtype=float)
    return array if array.itemsize in array.strides else np.ascontiguousarray(array)


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


def quotients(a: Array, b: Array) -> Array:
    """``a / b``, and 0 where b is not positive."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)


def weighted_squares(weights: Array, values: Array, column: int = 0) -> Array:
    """``sum_i w_i^2 values_i`` for each row w of ``weights[:, column : column + n]``."""
    if weights.dtype == np.int8:
        return np.full(len(weights), values.sum())
    weights = weights[:, column : column + values.size]
    some = max(1, _MOST_SQUARES // max(1, values.size))
    return np.concatenate(
        [
            product(weights[first : first + some] ** 2, values[None])[:, 0]
            for first in range(0, len(weights), some)
        ]
    )


def _signed_sums(signs: np.ndarray, b: Array, column: int) -> Array:
    """``signs[:, column : column + n] @ b.T`` for a (k, n) array."""
    m, k = len(signs), len(b)
    sums = np.empty((m, k))
    count = max(2, -(-k // _WIDE))
    edges = [k * block // count for block in range(count + 1)]

    def blocks(first: int, last: int) -> None:
        for start, stop in pairwise(edges[first : last + 1]):
            tables = np.zeros((_TABLES, 1 << (_FEW - 1), stop - start))
            patterns, signs_of = np.zeros((_TABLES, m), int), np.zeros((_TABLES, m))
            rows = np.ascontiguousarray(b[start:stop].T)
            # Threads that add to lines of the cache that both hold take twice the time.
            own = np.zeros((m, stop - start))
            _add_signed(signs, column, rows, tables, patterns, signs_of, own)
            sums[:, start:stop] = own

    share(blocks, count, large=m * b.size > _LARGE)
    return sums


@compiled
def _add_signed(signs, column, rows, tables, patterns, signs_of, sums):
    """Add signed sums of all rows, looked up in several tables.

    Arrays for the tables and what is looked up in them are made by NumPy: nothing to compile.
    """
    n, size = rows.shape
    for first in range(0, n, _TABLES * _FEW):
        for k in range(_TABLES):
            top = first + k * _FEW
            if top < n:
                height = min(_FEW, n - top)
                # A literal would compile it once more.
                _tabulate(rows, top, height, np.int64(0), size, tables[k])
                _find_patterns(signs, column + top, height, patterns[k], signs_of[k])
            else:
                signs_of[k, :] = 0.0
        for b in range(sums.shape[0]):
            add_four(
                sums[b],
                tables[0, patterns[0, b]],
                tables[1, patterns[1, b]],
                tables[2, patterns[2, b]],
                tables[3, patterns[3, b]],
                signs_of[:, b],
            )


@compiled
def add_four(out, row0, row1, row2, row3, weights):
    """Add four rows times their weights."""
    prefer_wide_vectors()
    w0, w1, w2, w3 = weights[0], weights[1], weights[2], weights[3]
    for j in range(out.size):
        out[j] += (w0 * row0[j] + w1 * row1[j]) + (w2 * row2[j] + w3 * row3[j])


def quadratic_forms(tiles: Array, weights: Array, row: int, column: int) -> Array:
    """``sum_ij w_i t_ij w_j`` over several tiles, for each row w of the weights.

    Parameters
    ----------
    tiles : (c, height, width) array
        Entries; tiles on the diagonal must be zero below it.
    weights : (count, n) array
        Weights of all samples; an array of int8 holds signs.
    row, column : int
        Samples of the first row and of the first column of the tiles.

    Returns
    -------
    (c, count) array
        One number for each tile and row of the weights.
    """
    count, height, width = tiles.shape
    if weights.dtype == np.int8 and len(weights) >= _MANY:
        out = np.zeros((-(-height // _GROUP), count, len(weights)))

        def groups(first: int, last: int) -> None:
            for turn in range(first, last):
                # Rows of a diagonal tile shrink. Groups taken from both ends in turn give every
                # thread the same work.
                task = turn // 2 if turn % 2 == 0 else len(out) - 1 - turn // 2
                top, end = task * _GROUP, min((task + 1) * _GROUP, height)
                _forms_of_group(tiles, weights, row, column, top, end, out[task])

        share(groups, len(out), large=tiles.size * len(weights) > 2 * _LARGE)
        return out.sum(axis=0)
    forms = np.zeros((count, len(weights)))
    for i in range(0, height, _ROWS):
        j = i if row == column else 0  # there is nothing below the diagonal
        left = weights[:, row + i : row + min(i + _ROWS, height)]
        right = weights[:, column + j : column + width]
        for k in range(count):
            met = product(left, tiles[k, i : i + _ROWS, j:].T)
            forms[k] += np.einsum("bj,bj->b", met, right)
    return forms


@compiled
def _forms_of_group(tiles, signs, row, column, first, last, out):
    """Add what some rows contribute (four Russians' method)."""
    count, width = signs.shape[0], tiles.shape[2]
    table = np.empty((1 << (_SIGNED - 1), _COLUMNS))
    patterns, signs_of = np.empty(count, np.int64), np.empty(count)
    for top in range(first, last, _SIGNED):
        height = min(_SIGNED, last - top)
        _find_patterns(signs, row + top, height, patterns, signs_of)
        for k in range(tiles.shape[0]):
            for start in range(top if row == column else 0, width, _COLUMNS):
                size = min(_COLUMNS, width - start)
                _tabulate(tiles[k], top, height, start, size, table)
                for b in range(count):
                    out[k, b] += signs_of[b] * dot(
                        signs[b, column + start : column + start + size], table[patterns[b]]
                    )


# There are few signed sums of a few rows, and they are tabulated. In row p of the table, the rows
# whose bits are set in p are subtracted and the others added; the first is always added.


@compiled
def _find_patterns(signs, column, height, patterns, signs_of):
    """Which row of a table belongs to some columns of the signs, and the sign of it."""
    for b in range(signs.shape[0]):
        first, pattern = signs[b, column], 0
        for k in range(1, height):
            pattern += int(signs[b, column + k] != first) << (k - 1)
        patterns[b], signs_of[b] = pattern, first


@compiled
def _tabulate(rows, top, height, start, size, table):
    """Signed sums of some rows, of so many columns from `start` on."""
    prefer_wide_vectors()
    total, row = table[0], rows[top, start : start + size]
    for j in range(size):
        total[j] = row[j]
    for k in range(1, height):
        row = rows[top + k, start : start + size]
        for j in range(size):
            total[j] += row[j]
    for k in range(1, height):
        row = rows[top + k, start : start + size]
        bit = 1 << (k - 1)
        for p in range(bit):
            before, after = table[p], table[bit + p]
            for j in range(size):
                after[j] = before[j] - 2.0 * row[j]


def eigenvalues_of_product(covariance: Array, coupling: Array) -> Array:
    """Eigenvalues of ``C T`` for a covariance C and a symmetric T of any sign.

    With ``C = A A^T`` they are those of ``A^T T A``.
    """
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.linalg.eigvalsh(root.T @ coupling @ root)


def low_rank_root(covariance: Array) -> Array:
    """A matrix ``A`` with as many columns as the covariance ``A A^T`` has rank, up to round-off."""
    from scipy.linalg.lapack import dpstrf

    factor, order, rank, _ = dpstrf(covariance, lower=1)
    root = np.empty((len(covariance), rank))
    root[order - 1] = np.tril(factor)[:, :rank]
    return root
