"""Sums and products of (m, n) arrays that the products of `sensitivity` are made of.

They take one pass and work in place: fresh arrays of that size cost more than the arithmetic.
`engines.cuda.smoothing` has the same functions for arrays on a GPU.
"""

import numpy as np

from .jit import compiled, pointwise
from .linalg import product


def place(array):
    """The array where the other functions take arrays from: here it is."""
    return array


along = product  # u (m, d) along the samples (n, d): (m, n)
gather = product  # rows (m, n) summed over samples with columns (d, n): (m, d), on the host


def total_weight(weights):
    """Sum of the weights (n,) of all samples."""
    n = weights.size
    return float(product(weights.reshape(1, n), np.full((1, n), 1.0))[0, 0])


def pick(rows, mask):
    """Rows by a boolean mask."""
    return rows[mask]


def stacked(*arrays):
    """Arrays of rows one after another, in a new one."""
    return np.concatenate(arrays)


def filled(value, m, n):
    """A new array of equal numbers."""
    return np.full((m, n), value)


def transposed(rows):
    """Columns as rows, in a new array."""
    return np.ascontiguousarray(rows.T)


def weighted(rows, weights):
    """``rows_qi weights_i``, in a new array."""
    return rows * weights


def add(rows, factor, more, weights=None):
    """``rows_qi += factor more_qi weights_i``."""
    rows += factor * more if weights is None else factor * more * weights


@pointwise
def gradient_entry(z, eta, spread, alpha, drift, weight, cosine):
    return z + (eta * spread - alpha * drift + weight * cosine)


@pointwise
def adjoint_entry(back, v, drift, z):
    return v * back - drift * z


@pointwise
def self_entry(diagonal, alpha, squares, spread, v, smoothed_eta, eta, smoothed_v):
    return diagonal * alpha - squares * spread - 2.0 * (v * smoothed_eta + eta * smoothed_v)


@pointwise
def squares_entry(v, eta):
    return v * v + eta * eta


@pointwise
def diagonal_entry(v, eta, weight, smoothed_squares, smoothed_v, smoothed_eta):
    return (
        squares_entry(v, eta) * weight
        + smoothed_squares
        + 2.0 * (v * smoothed_eta + eta * smoothed_v)
    )


@pointwise
def linear_entry(v, eta, weight, smoothed_v, smoothed_eta):
    return v * weight + smoothed_eta - smoothed_v - eta * weight


@pointwise
def stein_entry(v, eta, precision, kv, keta, kboth, k):
    return v * kv + eta * keta + kboth + (v * eta + precision) * k


def both_products(a, b, c):
    """``a c``, then ``b c``."""
    m, n = c.shape
    out = np.empty((2 * m, n))
    np.multiply(a, c, out=out[:m])
    np.multiply(b, c, out=out[m:])
    return out


@compiled
def finish_gradients(z, eta, spread, alpha, drift, weight, cosines):
    """``z += eta spread - alpha drift + weight cosine``; `cosines` are ``r.u``."""
    for q in range(z.shape[0]):
        for i in range(z.shape[1]):
            z[q, i] = gradient_entry(
                z[q, i], eta[q, i], spread[q, i], alpha[q, i], drift[q, i], weight[i], cosines[q]
            )


@compiled
def finish_adjoint(back, v, drift, z, eta, spread):
    """``back = v back - drift z`` and ``spread = eta z``."""
    for q in range(z.shape[0]):
        for i in range(z.shape[1]):
            back[q, i] = adjoint_entry(back[q, i], v[q, i], drift[q, i], z[q, i])
            spread[q, i] = eta[q, i] * z[q, i]


def squares_of(v, eta):
    """``v^2 + eta^2``."""
    out = v * v
    out += eta * eta
    return out


@compiled
def self_parts(v, eta, weight, smoothed):
    """Two sums over j, one below the other.

    ``sum_j K2_ij ((v_i + eta_j)^2 + (v_j + eta_i)^2)`` and
    ``sum_j K2_ij (v_i + eta_j - v_j - eta_i)``; `smoothed` is K2 times the squares, v, and eta.
    """
    m, n = v.shape
    out = np.empty((2 * m, n))
    for q in range(m):
        for i in range(n):
            ks, kv, keta = smoothed[q, i], smoothed[m + q, i], smoothed[2 * m + q, i]
            out[q, i] = diagonal_entry(v[q, i], eta[q, i], weight[i], ks, kv, keta)
            out[m + q, i] = linear_entry(v[q, i], eta[q, i], weight[i], kv, keta)
    return out


@compiled
def finish_self_terms(spread, diagonal, squares, alpha, v, eta, smoothed):
    """Overwrite `spread` and `alpha`.

    ``spread = diagonal alpha - squares spread - 2 (v K2 eta alpha + eta K2 v alpha)`` and
    ``alpha = squares alpha``; `smoothed` is K2 times eta alpha, then times v alpha.
    """
    m = alpha.shape[0]
    for q in range(m):
        for i in range(alpha.shape[1]):
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


def stein_products(v, eta, alpha):
    """``v alpha``, ``eta alpha``, ``v eta alpha``, and ``alpha`` itself, one after another."""
    m, n = alpha.shape
    out = np.empty((4 * m, n))
    np.multiply(v, alpha, out=out[:m])
    np.multiply(eta, alpha, out=out[m : 2 * m])
    np.multiply(v, out[m : 2 * m], out=out[2 * m : 3 * m])
    out[3 * m :] = alpha
    return out


@compiled
def finish_stein(alpha, rows, v, eta, precision, smoothed):
    """``alpha = rows alpha - sum_j c_ij K_ij alpha_j``; `smoothed` is K times `stein_products`."""
    m = alpha.shape[0]
    for q in range(m):
        for i in range(alpha.shape[1]):
            kv, keta, kboth, k = (
                smoothed[q, i],
                smoothed[m + q, i],
                smoothed[2 * m + q, i],
                smoothed[3 * m + q, i],
            )
            alpha[q, i] = rows[q, i] * alpha[q, i] - stein_entry(
                v[q, i], eta[q, i], precision, kv, keta, kboth, k
            )
