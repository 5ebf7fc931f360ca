"""Products with the matrix of a Gaussian kernel that is never stored: what KE, its Jacobians and GE are made of, on the device.

``out_cj = sum_i rows_ci K_ij``,  ``K_ij = exp(-|x_i - y_j|^2 / (2 H^2))``. A block of threads makes a stretch of K in shared memory from the
samples and uses it for SPAN rows at once. ``K_ij^2`` is the kernel with twice the precision ``1 / H^2``.
"""

import numpy as np
from numba import float64, int64, void

from ..._jit import exp_nonpositive
from .blocks import DEPTH, PADDED, folded, row_dots, zeros
from .device import LAST, MICRO, SIDE, SPAN, THREADS, Kernel, cuda, download, empty, groups, kernel, upload

_REACH = SPAN // 2  # samples x_i whose kernel values a block holds at a time
_MICRO_REACH = MICRO // 2
_PADDED_REACH = _REACH + 1
_MATRIX, _VECTOR = float64[:, ::1], float64[::1]
_FULL = 512  # blocks that keep a large device busy; sums are split over samples to have about as many


@kernel()
def smooth():
    def smooth(x, x_squares, y, y_squares, precision, own, rows, share, parts):
        """``parts[z, c, j] = sum_i rows[c, i] K_ij``, i in share z of the samples; K_jj is `own`, unless that is negative."""
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
                for k in range(DEPTH):
                    for u in range(_MICRO_REACH):
                        for v in range(MICRO):
                            products[u, v] += samples[k, ty + SIDE * u] * points[k, tx + SIDE * v]
                cuda.syncthreads()
            for u in range(_MICRO_REACH):
                i = i0 + ty + SIDE * u
                for v in range(MICRO):
                    j = j0 + tx + SIDE * v
                    value = 0.0
                    if i < last and j < width:
                        value = exp_nonpositive(min(0.0, precision * (products[u, v] - 0.5 * (y_squares[j] + x_squares[i]))))
                        if i == j and own >= 0.0:
                            value = own
                    values[ty + SIDE * u, tx + SIDE * v] = value
            for place in range(t, _REACH * SPAN, THREADS):
                c, i = place // _REACH, place % _REACH
                left[i, c] = rows[c0 + c, i0 + i] if c0 + c < count and i0 + i < last else 0.0
            cuda.syncthreads()
            for i in range(_REACH):
                for u in range(MICRO):
                    for v in range(MICRO):
                        sums[u, v] += left[i, ty + SIDE * u] * values[i, tx + SIDE * v]
            cuda.syncthreads()
        for u in range(MICRO):
            for v in range(MICRO):
                c, j = c0 + ty + SIDE * u, j0 + tx + SIDE * v
                if c < count and j < width:
                    parts[z, c, j] = sums[u, v]

    signature = void(_MATRIX, _VECTOR, _MATRIX, _VECTOR, float64, float64, _MATRIX, int64, float64[:, :, ::1])
    return Kernel(smooth, signature)


@kernel()
def descend():
    def descend(step, eta, direction, image, solution, residual):
        """A step of conjugate gradients along each row's direction; `image` is ``K direction``, to which the ridge is added."""
        c = cuda.blockIdx.y
        i = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        if i < direction.shape[1]:
            solution[c, i] += step[c] * direction[c, i]
            residual[c, i] -= step[c] * (image[c, i] + eta * direction[c, i])

    return Kernel(descend, void(_VECTOR, float64, _MATRIX, _MATRIX, _MATRIX, _MATRIX), square=False, hot=False)


@kernel()
def turn():
    def turn(share, residual, direction):
        """``direction = residual + share direction`` for each row."""
        c = cuda.blockIdx.y
        i = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        if i < direction.shape[1]:
            direction[c, i] = residual[c, i] + share[c] * direction[c, i]

    return Kernel(turn, void(_VECTOR, _MATRIX, _MATRIX), square=False, hot=False)


class CudaKernelMatrix:
    """The Gaussian kernel of width `width` between samples `x`, (n, d), which are uploaded once, and any points."""

    def __init__(self, x, width):
        self.x = upload(x)
        self.squares = upload(np.einsum("nd,nd->n", x, x))
        self.precision = 1.0 / width**2

    def times(self, rows, *, own, square=False):
        """``rows @ K`` for rows (c, n), with `own` on the diagonal of K; or with the entries of K squared."""
        return download(self._times(upload(rows), self.x, self.squares, float(own), square))

    def times_at(self, y, rows):
        """The same with the kernel between the samples and the rows of `y`."""
        return download(self._times(upload(rows), upload(y), upload(np.einsum("nd,nd->n", y, y)), -1.0))

    def _times(self, rows, y, y_squares, own, square=False):
        n = self.x.shape[0]
        blocks = groups(y.shape[0], SPAN), groups(rows.shape[0], SPAN)
        shares = min(max(1, _FULL // (blocks[0] * blocks[1])), groups(n, _REACH))
        share = groups(groups(n, shares), _REACH) * _REACH
        shares = groups(n, share)
        parts = empty(shares, rows.shape[0], y.shape[0])
        precision = (2.0 if square else 1.0) * self.precision
        smooth()((*blocks, shares), self.x, self.squares, y, y_squares, precision, own, rows, share, parts)
        return folded(parts)

    def ridge_solve(self, right, eta, *, tolerance=1e-8, max_steps=1000):
        """``right (K + eta I)^(-1)`` for rows (c, n), by conjugate gradients on all rows at once; None when they do not converge."""
        count, n = right.shape
        residual, direction, solution = upload(right), upload(right), zeros(count, n)
        ones, grid = upload(np.ones(n)), (groups(n, THREADS), count)
        norms = row_dots(residual, residual, ones)
        target = tolerance**2 * norms
        for _ in range(max_steps):
            if np.all(norms <= target):
                return download(solution)
            image = self._times(direction, self.x, self.squares, 1.0)
            curvature = row_dots(direction, image, ones) + eta * row_dots(direction, direction, ones)
            step = np.divide(norms, curvature, out=np.zeros_like(norms), where=curvature > 0)
            descend()(grid, upload(step), eta, direction, image, solution, residual)
            updated = row_dots(residual, residual, ones)
            turn()(grid, upload(np.divide(updated, norms, out=np.zeros_like(norms), where=norms > 0)), residual, direction)
            norms = updated
        return None
