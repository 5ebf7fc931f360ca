"""The functions of `compute.smoothing` for arrays on the device.

They have the same names and arguments, and the pointwise arithmetic is the same source.
"""

import numpy as np
from numba import float64, int64, void

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
from .blocks import PADDED, add_product, filled, folded, product_parts, taken, zeros
from .device import SIDE, SPAN, THREADS, Kernel, cuda, download, empty, groups, kernel, upload

_MATRIX, _VECTOR = float64[:, ::1], float64[::1]

place = upload
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


def total_weight(weights):
    n = weights.size
    return float(gather(weights.reshape(1, n), filled(1.0, 1, n))[0, 0])


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
