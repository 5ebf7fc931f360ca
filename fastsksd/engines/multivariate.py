"""Pair terms of a multivariate kernel, and of the kernelized Stein discrepancy (KSD) with one."""

from __future__ import annotations

import numba
import numpy as np

from .._typing import Array
from ..compute.jit import compiled, parallel, pointwise, prefer_wide_vectors
from ..compute.linalg import product
from ..compute.pointwise import exp_nonpositive, inverse_sqrt
from ..kernels import Kernel, one_bandwidth
from .pairs import PairTerms


class MultivariateEngine(PairTerms):
    """``u_p(x_i, x_j)`` of the KSD for a kernel of ``|x_i - x_j| / h``.

    Parameters
    ----------
    code : int
        Code of the kernel: 0 for RBF, 1 for IMQ.
    x, s : (n, d) arrays
        Samples and scores.
    h : float
        Bandwidth.
    """

    name = "direct"

    def __init__(self, code: int, x: Array, s: Array, h: float):
        self.code = code
        self.n, self.d = x.shape
        # In units of h: distances become pure numbers, and scores are multiplied by h to match.
        self.x = (x - np.median(x, axis=0)) / h
        self.s = s * h
        self.factor = h**-2
        self.x_squares = np.einsum("id,id->i", self.x, self.x)
        self.s_dot_x = np.einsum("id,id->i", self.s, self.x)

    def tile(self, rows: slice, columns: slice) -> tuple[Array, Array]:
        """Entries of a tile, zero where ``i >= j``, and their sum."""
        x, s = self.x, self.s
        entries, sums = _ksd_tile(
            self.code,
            self.d,
            product(s[rows], s[columns]),
            product(x[rows], x[columns]),
            product(s[rows], x[columns]) + product(x[rows], s[columns]),
            self.x_squares[rows],
            self.x_squares[columns],
            self.s_dot_x[rows],
            self.s_dot_x[columns],
            rows.start == columns.start,
        )
        return entries * self.factor, np.atleast_1d(sums.sum() * self.factor)

    def diagonal_terms(self) -> Array:
        """Terms of each sample with itself, (n,)."""
        return (np.einsum("id,id->i", self.s, self.s) + self.d) * self.factor


@pointwise
def ksd_term(code, d, square, ss, cross):
    """u_p from the squared distance, ``s_i.s_j`` and ``(s_i - s_j).(x_i - x_j)``.

    All are in units of the bandwidth.
    """
    if code == 0:
        return exp_nonpositive(-0.5 * square) * (ss + cross + d - square)
    k = inverse_sqrt(1.0 + square)
    k3 = k * k * k
    return ss * k + k3 * (cross + d - 3.0 * k * k * square)


@parallel
def _ksd_tile(code, d, ss, xx, sx, x2_rows, x2_columns, sx_rows, sx_columns, on_diagonal):
    height = ss.shape[0]
    entries = np.zeros(ss.shape)
    sums = np.empty(height)
    for i in numba.prange(height):
        j = i + 1 if on_diagonal else 0
        sums[i] = _ksd_row(
            code,
            d,
            ss[i, j:],
            xx[i, j:],
            sx[i, j:],
            x2_rows[i],
            x2_columns[j:],
            sx_rows[i],
            sx_columns[j:],
            entries[i, j:],
        )
    return entries, sums


@compiled
def _ksd_row(code, d, ss, xx, sx, x2_i, x2, sx_i, sx_j, out):
    prefer_wide_vectors()
    total = 0.0
    for j in range(out.size):
        square = max(0.0, x2_i + x2[j] - 2.0 * xx[j])
        out[j] = ksd_term(code, d, square, ss[j], sx_i + sx_j[j] - sx[j])
        total += out[j]
    return total


class KernelPairs(PairTerms):
    """The kernel itself, ``k(x_i, x_j)``, RBF (code 0) or IMQ (code 1) of ``|x_i - x_j| / h``."""

    name = "direct"

    def __init__(self, code: int, x: Array, h: float):
        self.code = code
        self.n = x.shape[0]
        self.x = (x - np.median(x, axis=0)) / h
        self.squares = np.einsum("id,id->i", self.x, self.x)

    def tile(self, rows: slice, columns: slice) -> tuple[Array, Array]:
        """Entries of a tile, zero where ``i >= j``, and their sum."""
        entries = product(self.x[rows], self.x[columns])
        _kernel_tile(
            self.code,
            entries,
            self.squares[rows],
            self.squares[columns],
            rows.start == columns.start,
        )
        return entries, np.atleast_1d(entries.sum())

    def diagonal_terms(self) -> Array:
        """Terms of each sample with itself, (n,)."""
        return np.ones(self.n)


@parallel
def _kernel_tile(code, entries, row_squares, column_squares, on_diagonal):
    """Inner products become values of the kernel, zero where ``i >= j``."""
    for i in numba.prange(entries.shape[0]):
        first = i + 1 if on_diagonal else 0
        entries[i, :first] = 0.0
        _kernel_row(code, entries[i, first:], row_squares[i], column_squares[first:])


@compiled
def _kernel_row(code, out, square, squares):
    prefer_wide_vectors()
    for j in range(out.size):
        gap = max(0.0, square + squares[j] - 2.0 * out[j])
        out[j] = exp_nonpositive(-0.5 * gap) if code == 0 else inverse_sqrt(1.0 + gap)


def ksd_pairs(x: Array, scores: Array, kernel: Kernel) -> tuple[MultivariateEngine, float]:
    """Pair terms of the KSD, and the bandwidth."""
    h = one_bandwidth(kernel, x, "KSD")
    return MultivariateEngine(kernel.code, x, scores, h), h
