"""The Gaussian kernel matrix between samples on the device, where it is never stored.

``out_cj = sum_i rows_ci K_ij``,  ``K_ij = exp(-|x_i - y_j|^2 / (2 H^2))``. A block of threads makes
a stretch of K in shared memory from the samples and uses it for SPAN rows at once. ``K_ij^2`` is
the kernel with twice the precision ``1 / H^2``. `engines.gaussian` has the same methods on the CPU.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba import float64, int64, void

from ..._typing import Array
from ...compute.linalg import quotients
from ...compute.pointwise import exp_nonpositive
from ..gaussian import MOST_STEPS, no_convergence
from . import data, smoothing
from .blocks import DEPTH, PADDED, add_outer, filled, folded, row_dots, shares, zeros
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
from .smoothing import add, entrywise, gather, stacked, total_weight, transposed, weighted

_REACH = SPAN // 2  # samples x_i whose kernel values a block holds at a time
_MICRO_REACH = MICRO // 2
_PADDED_REACH = _REACH + 1
_MATRIX, _VECTOR = float64[:, ::1], float64[::1]


@kernel()
def smooth():
    def smooth(x, x_squares, y, y_squares, precision, diagonal, rows, share, parts):
        """``parts[z, c, j] = sum_i rows[c, i] K_ij``, i in share z of the samples.

        K_jj is `diagonal`, unless that is negative.
        """
        points = cuda.shared.array((DEPTH, PADDED), float64)
        samples = cuda.shared.array((DEPTH, _PADDED_REACH), float64)
        values = cuda.shared.array((_REACH, SPAN), float64)
        left = cuda.shared.array((_REACH, PADDED), float64)
        products = cuda.local.array((_MICRO_REACH, MICRO), float64)
        sums = cuda.local.array((MICRO, MICRO), float64)
        tx, ty, z = cuda.threadIdx.x & LAST, cuda.threadIdx.y & LAST, cuda.blockIdx.z
        t = ty * SIDE + tx
        n, d = x.shape
        count, width = rows.shape[0], y.shape[0]
        j0, c0 = cuda.blockIdx.x * SPAN, cuda.blockIdx.y * SPAN
        for u in range(MICRO):
            for v in range(MICRO):
                sums[u, v] = 0.0
        last = min((z + 1) * share, n)
        for i0 in range(z * share, last, _REACH):
            for u in range(_MICRO_REACH):
                for v in range(MICRO):
                    products[u, v] = 0.0
            for k0 in range(0, d, DEPTH):
                for place in range(t, DEPTH * SPAN, THREADS):
                    j, k = place // DEPTH, place % DEPTH
                    points[k, j] = y[j0 + j, k0 + k] if j0 + j < width and k0 + k < d else 0.0
                    if j < _REACH:
                        samples[k, j] = x[i0 + j, k0 + k] if i0 + j < last and k0 + k < d else 0.0
                cuda.syncthreads()
                add_outer(DEPTH, _MICRO_REACH, MICRO, samples, points, ty, tx, products)
                cuda.syncthreads()
            for u in range(_MICRO_REACH):
                i = i0 + ty + SIDE * u
                for v in range(MICRO):
                    j = j0 + tx + SIDE * v
                    value = 0.0
                    if i < last and j < width:
                        value = exp_nonpositive(
                            min(
                                0.0,
                                precision * (products[u, v] - 0.5 * (y_squares[j] + x_squares[i])),
                            )
                        )
                        if i == j and diagonal >= 0.0:
                            value = diagonal
                    values[ty + SIDE * u, tx + SIDE * v] = value
            for place in range(t, _REACH * SPAN, THREADS):
                c, i = place // _REACH, place % _REACH
                left[i, c] = rows[c0 + c, i0 + i] if c0 + c < count and i0 + i < last else 0.0
            cuda.syncthreads()
            add_outer(_REACH, MICRO, MICRO, left, values, ty, tx, sums)
            cuda.syncthreads()
        for u in range(MICRO):
            for v in range(MICRO):
                c, j = c0 + ty + SIDE * u, j0 + tx + SIDE * v
                if c < count and j < width:
                    parts[z, c, j] = sums[u, v]

    signature = void(
        _MATRIX, _VECTOR, _MATRIX, _VECTOR, float64, float64, _MATRIX, int64, float64[:, :, ::1]
    )
    return Kernel(smooth, signature)


@entrywise(_MATRIX, _MATRIX, _MATRIX, _MATRIX, _VECTOR, float64)
def descend(direction, image, solution, residual, step, eta):
    """A step of conjugate gradients along each row's direction.

    `image` is ``K direction``, to which the ridge is added.
    """
    c, i = cuda.blockIdx.y, cuda.blockIdx.x * THREADS + cuda.threadIdx.x
    if i < direction.shape[1]:
        solution[c, i] += step[c] * direction[c, i]
        residual[c, i] -= step[c] * (image[c, i] + eta * direction[c, i])


@entrywise(_MATRIX, _MATRIX, _VECTOR)
def turn(direction, residual, share):
    """``direction = residual + share direction`` for each row."""
    c, i = cuda.blockIdx.y, cuda.blockIdx.x * THREADS + cuda.threadIdx.x
    if i < direction.shape[1]:
        direction[c, i] = residual[c, i] + share[c] * direction[c, i]


class CudaGaussianMatrix:
    """Gaussian kernel between samples on the device; for the arguments see `GaussianMatrix`.

    The samples go to the device once, or are there already, see `data.rows_there`. Rows (m, n) that
    methods take and return are on the device; points, coefficients and moments are on the host.
    """

    kit = smoothing

    def __init__(self, x: Array, width: float, centre: Array):
        self.n = x.shape[0]
        self.samples = x
        self.centre = centre
        self.x = data.centred(x, centre)
        self.squares = self._squares(x)
        self.width = width
        self.precision = 1.0 / width**2

    def place(self, rows):
        """Rows of the samples where the matrix is: on the device."""
        return data.rows_there(rows)

    def smooth(self, y: Array, coefficients: Array) -> Array:
        """As of `GaussianMatrix`."""
        shifted = self._shifted(coefficients).T
        *smoothed, weight = self.times_at(y, np.concatenate([shifted, np.ones((1, self.n))]))
        return np.transpose(smoothed) + weight[:, None] * ((y - self.centre) / self.width**2)

    def smooth_gradient(self, y: Array, coefficients: Array, r: Array) -> Array:
        """As of `GaussianMatrix`."""
        points, y = y, y - self.centre
        v = np.einsum("nd,d->n", self._shifted(coefficients), r)
        eta = np.einsum("nd,d->n", y, r) / self.width**2
        *shift, weight = self.moments_at(points)
        *pulled, drift = self.moments_at(points, v)
        return (
            (np.array(pulled) + eta * np.array(shift)).T
            - (drift + eta * weight)[:, None] * y
            + weight[:, None] * r
        )

    def triple_moment(self, scores) -> Array:
        """As of `GaussianMatrix`."""
        x_rows, p_rows = self._parts(scores)
        k = self.products(0.0)
        f_rows = k.times(p_rows)
        add(f_rows, self.precision, x_rows, k.row_sums())
        cross = self.precision * gather(k.times(p_rows, square=True), x_rows)
        weight = k.row_sums(square=True)
        same = gather(weighted(p_rows, weight), p_rows) + self.precision**2 * gather(
            weighted(x_rows, weight), x_rows
        )
        return gather(f_rows, f_rows) - cross - cross.T - same

    def pair_moment(self, scores, diagonal: float) -> Array:
        """As of `GaussianMatrix`."""
        x_rows, p_rows = self._parts(scores)
        k = self.products(diagonal)
        weight = k.row_sums()
        cross = self.precision * gather(weighted(p_rows, weight), x_rows)
        total = gather(p_rows, k.times(p_rows)) + self.precision**2 * gather(
            x_rows, k.times(x_rows)
        )
        return total + cross + cross.T + self.precision * total_weight(weight) * np.eye(len(cross))

    def ridge_scores(self, eta: float) -> Array:
        """As of `GaussianMatrix`, by conjugate gradients."""
        x_rows, k = transposed(self.x), self.products(1.0)
        right = weighted(x_rows, k.row_sums())
        add(right, -1.0, k.times(x_rows))
        solution = self.ridge_solve(right, eta)
        if solution is None:
            raise no_convergence()
        return -np.ascontiguousarray(solution.T) / self.width**2

    def products(self, diagonal: float, squares: bool = False) -> CudaKernelProducts:
        """As of `GaussianMatrix`; squared entries cost nothing beforehand."""
        return CudaKernelProducts(self, diagonal)

    def times(self, rows, *, diagonal: float, square: bool = False):
        """``rows @ K`` for rows (c, n), with `diagonal` for K_ii, or with the entries squared."""
        return self._times(rows, self.x, self.squares, float(diagonal), square)

    def times_at(self, y: Array, rows: Array) -> Array:
        """``rows @ K`` on the host, with the kernel between the samples and any points `y`."""
        return download(self._times(upload(rows), *self._points(y), -1.0))

    def moments_at(self, y: Array, weights: Array | None = None) -> Array:
        """``sum_i w_i (x_i, 1) K_ij`` about the centre for points y_j, (d + 1, points)."""
        if weights is None and y is self.samples:
            return self._sample_moments
        lines = self._lines if weights is None else weighted(self._lines, upload(weights))
        return download(self._times(lines, *self._points(y), -1.0))

    @functools.cached_property
    def _lines(self):
        """Columns of the samples about the centre, and a row of ones."""
        return stacked(transposed(self.x), filled(1.0, 1, self.n))

    @functools.cached_property
    def _sample_moments(self):
        return download(self._times(self._lines, self.x, self.squares, -1.0))

    def _shifted(self, coefficients):
        """``coefficients - x / H^2``, on the host."""
        return coefficients - (self.samples - self.centre) / self.width**2

    def _parts(self, scores):
        """The samples as rows x, and the rows ``p = scores - x / H^2``."""
        x_rows, p_rows = transposed(self.x), transposed(scores)
        add(p_rows, -self.precision, x_rows)
        return x_rows, p_rows

    def _points(self, y: Array) -> tuple[Any, Any]:
        """Points about the centre, and their squared lengths."""
        if y is self.samples:
            return self.x, self.squares
        return data.centred(y, self.centre), self._squares(y)

    def _squares(self, y):
        y = y - self.centre
        return upload(np.einsum("nd,nd->n", y, y))

    def _times(self, rows, y, y_squares, diagonal, square=False):
        n = self.n
        blocks = groups(y.shape[0], SPAN), groups(rows.shape[0], SPAN)
        share = groups(groups(n, shares(blocks[0] * blocks[1], groups(n, _REACH))), _REACH) * _REACH
        parts = empty(groups(n, share), rows.shape[0], y.shape[0])
        precision = (2.0 if square else 1.0) * self.precision
        smooth()(
            (*blocks, parts.shape[0]),
            self.x,
            self.squares,
            y,
            y_squares,
            precision,
            diagonal,
            rows,
            share,
            parts,
        )
        return folded(parts)

    def ridge_solve(self, right, eta, *, tolerance=1e-8, max_steps=MOST_STEPS):
        """``right (K + eta I)^(-1)`` for rows (c, n), by conjugate gradients on all rows at once.

        Returns an array on the host, or None without convergence. `right` is left with the
        residuals.
        """
        count, n = right.shape
        residual, direction, solution = right, stacked(right), zeros(count, n)
        ones = upload(np.ones(n))
        norms = row_dots(residual, residual, ones)
        target = tolerance**2 * norms
        for _ in range(max_steps):
            if np.all(norms <= target):
                return download(solution)
            image = self._times(direction, self.x, self.squares, 1.0)
            curvature = row_dots(direction, image, ones) + eta * row_dots(
                direction, direction, ones
            )
            step = upload(quotients(norms, curvature))
            descend(direction, image, solution, residual, step, eta)
            updated = row_dots(residual, residual, ones)
            turn(direction, residual, upload(quotients(updated, norms)))
            norms = updated
        return None


class CudaKernelProducts:
    """Products of rows with a kernel matrix on the device."""

    def __init__(self, matrix: CudaGaussianMatrix, diagonal: float):
        self.matrix = matrix
        self.diagonal = diagonal

    def row_sums(self, square: bool = False):
        """Sums of the rows of K, or of its entries squared, (n,)."""
        n = self.matrix.n
        return self.times(filled(1.0, 1, n), square).reshape(n)

    def times(self, rows, square: bool = False):
        """``rows @ K``, or with the entries of K squared, (m, n)."""
        return self.matrix.times(rows, diagonal=self.diagonal, square=square)
