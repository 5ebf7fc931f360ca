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


def entrywise(*types):
    """Decorator for kernels with these types, and a thread for each entry of the first argument."""

    def decorate(function):
        make = kernel()(lambda: Kernel(function, void(*types), square=False, hot=False))

        def launch(first, *others):
            make()((groups(first.shape[1], THREADS), first.shape[0]), first, *others)

        return launch

    return decorate


def pick(rows, mask):
    return taken(rows, np.flatnonzero(mask))


def stacked(*arrays):
    out = empty(sum(array.shape[0] for array in arrays), arrays[0].shape[1])
    row = 0
    for array in arrays:
        copy_rows(array, row, out)
        row += array.shape[0]
    return out


@entrywise(_MATRIX, int64, _MATRIX)
def copy_rows(rows, first, out):
    """Rows to those of `out` from `first` on."""
    q, i = cuda.blockIdx.y, cuda.blockIdx.x * THREADS + cuda.threadIdx.x
    if i < rows.shape[1]:
        out[first + q, i] = rows[q, i]


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
    add_rows(rows, factor, more, empty(0) if weights is None else weights)


@entrywise(_MATRIX, float64, _MATRIX, _VECTOR)
def add_rows(rows, factor, more, weights):
    q, i = cuda.blockIdx.y, cuda.blockIdx.x * THREADS + cuda.threadIdx.x
    if i < rows.shape[1]:
        rows[q, i] += factor * more[q, i] * (weights[i] if weights.size > 0 else 1.0)


@entrywise(_MATRIX, _MATRIX, _MATRIX)
def squares_kernel(v, eta, out):
    q, i = cuda.blockIdx.y, cuda.blockIdx.x * THREADS + cuda.threadIdx.x
    if i < v.shape[1]:
        out[q, i] = squares_entry(v[q, i], eta[q, i])


def squares_of(v, eta):
    out = empty(*v.shape)
    squares_kernel(v, eta, out)
    return out


@entrywise(_MATRIX, _MATRIX, _VECTOR, _MATRIX, _MATRIX)
def self_parts_kernel(v, eta, weight, smoothed, out):
    q, i = cuda.blockIdx.y, cuda.blockIdx.x * THREADS + cuda.threadIdx.x
    m, n = v.shape
    if i < n:
        ks, kv, keta = smoothed[q, i], smoothed[m + q, i], smoothed[2 * m + q, i]
        out[q, i] = diagonal_entry(v[q, i], eta[q, i], weight[i], ks, kv, keta)
        out[m + q, i] = linear_entry(v[q, i], eta[q, i], weight[i], kv, keta)


def self_parts(v, eta, weight, smoothed):
    out = empty(2 * v.shape[0], v.shape[1])
    self_parts_kernel(v, eta, weight, smoothed, out)
    return out


def gather(rows, columns):
    n = rows.shape[1]
    parts = product_parts(rows, columns, n)
    add_product(rows, 0, columns, n, parts)
    return download(folded(parts))


def total_weight(weights):
    n = weights.size
    return float(gather(weights.reshape(1, n), filled(1.0, 1, n))[0, 0])


@entrywise(_MATRIX, _MATRIX, _MATRIX, _MATRIX)
def both_products_kernel(a, b, c, out):
    q, i = cuda.blockIdx.y, cuda.blockIdx.x * THREADS + cuda.threadIdx.x
    m, n = c.shape
    if i < n:
        out[q, i] = a[q, i] * c[q, i]
        out[m + q, i] = b[q, i] * c[q, i]


def both_products(a, b, c):
    out = empty(2 * c.shape[0], c.shape[1])
    both_products_kernel(a, b, c, out)
    return out


@entrywise(_MATRIX, _MATRIX, _MATRIX, _MATRIX, _MATRIX, _VECTOR, _VECTOR)
def finish_gradients(z, eta, spread, alpha, drift, weight, cosines):
    q, i = cuda.blockIdx.y, cuda.blockIdx.x * THREADS + cuda.threadIdx.x
    if i < z.shape[1]:
        z[q, i] = gradient_entry(
            z[q, i], eta[q, i], spread[q, i], alpha[q, i], drift[q, i], weight[i], cosines[q]
        )


@entrywise(*[_MATRIX] * 6)
def finish_adjoint(back, v, drift, z, eta, spread):
    q, i = cuda.blockIdx.y, cuda.blockIdx.x * THREADS + cuda.threadIdx.x
    if i < z.shape[1]:
        back[q, i] = adjoint_entry(back[q, i], v[q, i], drift[q, i], z[q, i])
        spread[q, i] = eta[q, i] * z[q, i]


@entrywise(*[_MATRIX] * 7)
def finish_self_terms(spread, diagonal, squares, alpha, v, eta, smoothed):
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


@entrywise(*[_MATRIX] * 4)
def stein_products_kernel(v, eta, alpha, out):
    q, i = cuda.blockIdx.y, cuda.blockIdx.x * THREADS + cuda.threadIdx.x
    m, n = alpha.shape
    if i < n:
        out[q, i] = v[q, i] * alpha[q, i]
        out[m + q, i] = eta[q, i] * alpha[q, i]
        out[2 * m + q, i] = v[q, i] * eta[q, i] * alpha[q, i]
        out[3 * m + q, i] = alpha[q, i]


def stein_products(v, eta, alpha):
    out = empty(4 * alpha.shape[0], alpha.shape[1])
    stein_products_kernel(v, eta, alpha, out)
    return out


@entrywise(_MATRIX, _MATRIX, _MATRIX, _MATRIX, float64, _MATRIX)
def finish_stein(alpha, rows, v, eta, precision, smoothed):
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
