"""The direct engine: Stein terms of projected data, pair by pair, in compiled parallel loops.

Exact to round-off, quadratic in n, memory linear in n.
"""

import numba
import numpy as np

from .._jit import compiled, parallel, prefer_wide_vectors
from ..kernels import kernel_derivatives, stein_term
from .pairs import PairTerms

_ROWS = 8  # rows of a tile that one task computes; fixed, so that sums do not depend on the number of threads


class DirectEngine(PairTerms):
    """Stein terms of m slices.

    Parameters
    ----------
    code : int
        Code of the kernel.
    y, s : (m, n) arrays
        Samples along g and scores along r.
    a, h : (m,) arrays
        ``r.g`` and the bandwidth of each slice.
    """

    name = "direct"

    def __init__(self, code, y, s, a, h):
        self.code = code
        self.y = y / h[:, None]
        self.s = s
        self.a = a / h
        self.n = y.shape[1]

    def tile(self, rows, columns):
        entries, sums = _stein_tile(self.code, self.y, self.s, self.a, rows.start, rows.stop, columns.start, columns.stop)
        return entries, sums.sum(axis=0)

    def diagonal(self):
        return _stein_diagonal(self.code, self.s, self.a)


@parallel
def _stein_tile(code, y, s, a, row, row_end, column, column_end):
    height = row_end - row
    tasks = (height + _ROWS - 1) // _ROWS
    entries = np.zeros((height, column_end - column))
    sums = np.empty((tasks, y.shape[0]))
    for turn in numba.prange(tasks):
        # Rows of a diagonal tile shrink: taken from both ends in turn, every thread's share costs the same.
        task = turn // 2 if turn % 2 == 0 else tasks - 1 - turn // 2
        first = row + task * _ROWS
        last = min(first + _ROWS, row_end)
        _stein_rows(code, y, s, a, first, last, column, column_end, entries[task * _ROWS :], sums[task])
    return entries, sums


@compiled
def _stein_rows(code, y, s, a, first, last, column, column_end, entries, sums):
    """Fill the rows first..last of a tile and sum them for each slice."""
    for q in range(y.shape[0]):
        total = 0.0
        for i in range(first, last):
            start = max(column, i + 1)
            y_q = y[q, start:column_end]
            s_q = s[q, start:column_end]
            total += _stein_row(code, y[q, i], s[q, i], a[q], y_q, s_q, entries[i - first, start - column :])
        sums[q] = total


@compiled
def _stein_row(code, y_i, s_i, a, y, s, out):
    """Add mu_ij for all j to `out`; returns their sum. Loops from 0: LLVM vectorises it only when indices can't be negative."""
    prefer_wide_vectors()
    total = 0.0
    for j in range(y.size):
        mu = stein_term(code, y_i - y[j], a, s_i, s[j])
        out[j] += mu
        total += mu
    return total


@compiled
def _stein_diagonal(code, s, a):
    k, _, k2, _ = kernel_derivatives(code, 0.0)
    m, n = s.shape
    sums = np.empty(m)
    for q in range(m):
        total = 0.0
        for i in range(n):
            total += s[q, i] * s[q, i]
        sums[q] = total * k - n * a[q] * a[q] * k2
    return sums
