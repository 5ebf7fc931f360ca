"""Products with the matrix of a Gaussian kernel that is never stored: what KE, its Jacobians and GE are made of, on the device.

``out_cj = sum_i rows_ci K_ij``,  ``K_ij = exp(-|x_i - y_j|^2 / (2 H^2))``. A block of threads makes a stretch of K in shared memory from the
samples and uses it for SPAN rows at once. ``K_ij^2`` is the kernel with twice the precision ``1 / H^2``.
"""

import functools
import sys

import numpy as np
from numba import float64, int64, void

from ...compute.pointwise import exp_nonpositive
from ...compute.smoothing import (
    adjoint_entry,
    diagonal_entry,
    gradient_entry,
    linear_entry,
    self_entry,
    squares_entry,
    stein_entry,
)
from . import data
from .blocks import (
    DEPTH,
    PADDED,
    add_outer,
    add_product,
    filled,
    folded,
    product_parts,
    row_dots,
    shares,
    taken,
    zeros,
)
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

_REACH = SPAN // 2  # samples x_i whose kernel values a block holds at a time
_MICRO_REACH = MICRO // 2
_PADDED_REACH = _REACH + 1
_MATRIX, _VECTOR = float64[:, ::1], float64[::1]


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
                        if i == j and own >= 0.0:
                            value = own
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


@kernel()
def descend():
    def descend(step, eta, direction, image, solution, residual):
        """A step of conjugate gradients along each row's direction; `image` is ``K direction``, to which the ridge is added."""
        c = cuda.blockIdx.y
        i = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        if i < direction.shape[1]:
            solution[c, i] += step[c] * direction[c, i]
            residual[c, i] -= step[c] * (image[c, i] + eta * direction[c, i])

    return Kernel(
        descend, void(_VECTOR, float64, _MATRIX, _MATRIX, _MATRIX, _MATRIX), square=False, hot=False
    )


@kernel()
def turn():
    def turn(share, residual, direction):
        """``direction = residual + share direction`` for each row."""
        c = cuda.blockIdx.y
        i = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        if i < direction.shape[1]:
            direction[c, i] = residual[c, i] + share[c] * direction[c, i]

    return Kernel(turn, void(_VECTOR, _MATRIX, _MATRIX), square=False, hot=False)


# The functions of `engines.smoothing`, for arrays on the device.

place = upload
rows_there = data.rows_there
along = data.along


def pick(rows, mask):
    return taken(rows, np.flatnonzero(mask))


def stacked(*arrays):
    out = empty(sum(array.shape[0] for array in arrays), arrays[0].shape[1])
    row = 0
    for array in arrays:
        copy_rows()(_grid(array), array, row, out)
        row += array.shape[0]
    return out


@kernel()
def copy_rows():
    def copy_rows(rows, first, out):
        """Rows to those of `out` from `first` on."""
        q, i = cuda.blockIdx.y, cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        if i < rows.shape[1]:
            out[first + q, i] = rows[q, i]

    return Kernel(copy_rows, void(_MATRIX, int64, _MATRIX), square=False, hot=False)


def transposed(rows):
    out = empty(rows.shape[1], rows.shape[0])
    transpose()((groups(rows.shape[0], SPAN), groups(rows.shape[1], SPAN)), rows, out)
    return out


@kernel()
def transpose():
    def transpose(rows, out):
        tile = cuda.shared.array((SPAN, PADDED), float64)
        t = cuda.threadIdx.y * SIDE + cuda.threadIdx.x
        i0, k0 = cuda.blockIdx.x * SPAN, cuda.blockIdx.y * SPAN
        n, d = rows.shape
        for place in range(t, SPAN * SPAN, THREADS):
            i, k = place // SPAN, place % SPAN
            tile[i, k] = rows[i0 + i, k0 + k] if i0 + i < n and k0 + k < d else 0.0
        cuda.syncthreads()
        for place in range(t, SPAN * SPAN, THREADS):
            k, i = place // SPAN, place % SPAN
            if i0 + i < n and k0 + k < d:
                out[k0 + k, i0 + i] = tile[i, k]

    return Kernel(transpose, void(_MATRIX, _MATRIX), hot=False)


def weighted(rows, weights):
    out = zeros(*rows.shape)
    add(out, 1.0, rows, weights)
    return out


def add(rows, factor, more, weights=None):
    add_rows()(_grid(rows), rows, factor, more, empty(0) if weights is None else weights)


@kernel()
def add_rows():
    def add_rows(rows, factor, more, weights):
        q, i = cuda.blockIdx.y, cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        if i < rows.shape[1]:
            rows[q, i] += factor * more[q, i] * (weights[i] if weights.size > 0 else 1.0)

    return Kernel(add_rows, void(_MATRIX, float64, _MATRIX, _VECTOR), square=False, hot=False)


@kernel()
def squares_kernel():
    def squares_kernel(v, eta, out):
        q, i = cuda.blockIdx.y, cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        if i < v.shape[1]:
            out[q, i] = squares_entry(v[q, i], eta[q, i])

    return Kernel(squares_kernel, void(_MATRIX, _MATRIX, _MATRIX), square=False, hot=False)


def squares_of(v, eta):
    out = empty(*v.shape)
    squares_kernel()(_grid(v), v, eta, out)
    return out


@kernel()
def self_parts_kernel():
    def self_parts_kernel(v, eta, weight, smoothed, out):
        q, i = cuda.blockIdx.y, cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        m, n = v.shape
        if i < n:
            ks, kv, keta = smoothed[q, i], smoothed[m + q, i], smoothed[2 * m + q, i]
            out[q, i] = diagonal_entry(v[q, i], eta[q, i], weight[i], ks, kv, keta)
            out[m + q, i] = linear_entry(v[q, i], eta[q, i], weight[i], kv, keta)

    return Kernel(
        self_parts_kernel,
        void(_MATRIX, _MATRIX, _VECTOR, _MATRIX, _MATRIX),
        square=False,
        hot=False,
    )


def self_parts(v, eta, weight, smoothed):
    out = empty(2 * v.shape[0], v.shape[1])
    self_parts_kernel()(_grid(v), v, eta, weight, smoothed, out)
    return out


def gather(rows, columns):
    n = rows.shape[1]
    parts = product_parts(rows, columns, n)
    add_product(rows, 0, columns, n, parts)
    return download(folded(parts))


@kernel()
def both_products_kernel():
    def both_products_kernel(a, b, c, out):
        q, i = cuda.blockIdx.y, cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        m, n = c.shape
        if i < n:
            out[q, i] = a[q, i] * c[q, i]
            out[m + q, i] = b[q, i] * c[q, i]

    return Kernel(
        both_products_kernel, void(_MATRIX, _MATRIX, _MATRIX, _MATRIX), square=False, hot=False
    )


def both_products(a, b, c):
    out = empty(2 * c.shape[0], c.shape[1])
    both_products_kernel()(_grid(c), a, b, c, out)
    return out


@kernel()
def finish_gradients_kernel():
    def finish_gradients_kernel(z, eta, spread, alpha, drift, weight, cosines):
        q, i = cuda.blockIdx.y, cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        if i < z.shape[1]:
            z[q, i] = gradient_entry(
                z[q, i], eta[q, i], spread[q, i], alpha[q, i], drift[q, i], weight[i], cosines[q]
            )

    signature = void(_MATRIX, _MATRIX, _MATRIX, _MATRIX, _MATRIX, _VECTOR, _VECTOR)
    return Kernel(finish_gradients_kernel, signature, square=False, hot=False)


def finish_gradients(z, *arrays):
    finish_gradients_kernel()(_grid(z), z, *arrays)


@kernel()
def finish_adjoint_kernel():
    def finish_adjoint_kernel(back, v, drift, z, eta, spread):
        q, i = cuda.blockIdx.y, cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        if i < z.shape[1]:
            back[q, i] = adjoint_entry(back[q, i], v[q, i], drift[q, i], z[q, i])
            spread[q, i] = eta[q, i] * z[q, i]

    return Kernel(finish_adjoint_kernel, void(*[_MATRIX] * 6), square=False, hot=False)


def finish_adjoint(back, *arrays):
    finish_adjoint_kernel()(_grid(back), back, *arrays)


@kernel()
def finish_self_terms_kernel():
    def finish_self_terms_kernel(spread, diagonal, squares, alpha, v, eta, smoothed):
        q, i = cuda.blockIdx.y, cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        m, n = alpha.shape
        if i < n:
            spread[q, i] = self_entry(
                diagonal[q, i],
                alpha[q, i],
                squares[q, i],
                spread[q, i],
                v[q, i],
                smoothed[q, i],
                eta[q, i],
                smoothed[m + q, i],
            )
            alpha[q, i] *= squares[q, i]

    return Kernel(finish_self_terms_kernel, void(*[_MATRIX] * 7), square=False, hot=False)


def finish_self_terms(spread, *arrays):
    finish_self_terms_kernel()(_grid(spread), spread, *arrays)


@kernel()
def stein_products_kernel():
    def stein_products_kernel(v, eta, alpha, out):
        q, i = cuda.blockIdx.y, cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        m, n = alpha.shape
        if i < n:
            out[q, i] = v[q, i] * alpha[q, i]
            out[m + q, i] = eta[q, i] * alpha[q, i]
            out[2 * m + q, i] = v[q, i] * eta[q, i] * alpha[q, i]
            out[3 * m + q, i] = alpha[q, i]

    return Kernel(stein_products_kernel, void(*[_MATRIX] * 4), square=False, hot=False)


def stein_products(v, eta, alpha):
    out = empty(4 * alpha.shape[0], alpha.shape[1])
    stein_products_kernel()(_grid(alpha), v, eta, alpha, out)
    return out


@kernel()
def finish_stein_kernel():
    def finish_stein_kernel(alpha, rows, v, eta, precision, smoothed):
        q, i = cuda.blockIdx.y, cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        m, n = alpha.shape
        if i < n:
            kv, keta, kboth, k = (
                smoothed[q, i],
                smoothed[m + q, i],
                smoothed[2 * m + q, i],
                smoothed[3 * m + q, i],
            )
            alpha[q, i] = rows[q, i] * alpha[q, i] - stein_entry(
                v[q, i], eta[q, i], precision, kv, keta, kboth, k
            )

    return Kernel(
        finish_stein_kernel,
        void(_MATRIX, _MATRIX, _MATRIX, _MATRIX, float64, _MATRIX),
        square=False,
        hot=False,
    )


def finish_stein(alpha, *arguments):
    finish_stein_kernel()(_grid(alpha), alpha, *arguments)


def _grid(array):
    """A thread for each entry of (m, n)."""
    return groups(array.shape[1], THREADS), array.shape[0]


class CudaKernelMatrix:
    """The Gaussian kernel of width `width` between samples `x`, (n, d), computed about the `centre`, and any points.

    The samples go to the device once, or lie there (see `data.rows_there`).
    """

    kit = sys.modules[__name__]

    def __init__(self, x, width, centre=None):
        self.samples = x
        self.centre = np.zeros(x.shape[1]) if centre is None else centre
        self.x = data.centred(x, self.centre)
        self.squares = self._squares(x)
        self.precision = 1.0 / width**2

    def times(self, rows, *, own, square=False):
        """``rows @ K`` for rows (c, n), both on the device, with `own` on the diagonal of K; or with the entries of K squared."""
        return self._times(rows, self.x, self.squares, float(own), square)

    def times_at(self, y, rows):
        """The same on the host, with the kernel between the samples and the points `y`, which may be the samples themselves."""
        return download(self._times(upload(rows), *self._points(y), -1.0))

    def moments_at(self, y, weights=None):
        """``sum_i w_i (x_i, 1) K_ij`` about the centre for points y_j, (d + 1, points)."""
        if weights is None and y is self.samples:
            return self._own_moments
        lines = self._lines if weights is None else weighted(self._lines, upload(weights))
        return download(self._times(lines, *self._points(y), -1.0))

    @functools.cached_property
    def _lines(self):
        """Columns of the samples about the centre, and a row of ones."""
        return stacked(transposed(self.x), filled(1.0, 1, self.x.shape[0]))

    @functools.cached_property
    def _own_moments(self):
        return download(self._times(self._lines, self.x, self.squares, -1.0))

    def _points(self, y):
        """Points about the centre, and their squared lengths."""
        return (
            (self.x, self.squares)
            if y is self.samples
            else (data.centred(y, self.centre), self._squares(y))
        )

    def _squares(self, y):
        y = y - self.centre
        return upload(np.einsum("nd,nd->n", y, y))

    def _times(self, rows, y, y_squares, own, square=False):
        n = self.x.shape[0]
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
            own,
            rows,
            share,
            parts,
        )
        return folded(parts)

    def ridge_solve(self, right, eta, *, tolerance=1e-8, max_steps=1000):
        """``right (K + eta I)^(-1)`` for rows (c, n) on the device, by conjugate gradients on all rows at once; None when they do not converge.

        `right` is left with the residuals.
        """
        count, n = right.shape
        residual, direction, solution = right, stacked(right), zeros(count, n)
        ones, grid = upload(np.ones(n)), (groups(n, THREADS), count)
        norms = row_dots(residual, residual, ones)
        target = tolerance**2 * norms
        for _ in range(max_steps):
            if np.all(norms <= target):
                return download(solution)
            image = self._times(direction, self.x, self.squares, 1.0)
            curvature = row_dots(direction, image, ones) + eta * row_dots(
                direction, direction, ones
            )
            step = np.divide(norms, curvature, out=np.zeros_like(norms), where=curvature > 0)
            descend()(grid, upload(step), eta, direction, image, solution, residual)
            updated = row_dots(residual, residual, ones)
            turn()(
                grid,
                upload(np.divide(updated, norms, out=np.zeros_like(norms), where=norms > 0)),
                residual,
                direction,
            )
            norms = updated
        return None
