"""Products with KE's matrices H_r and KSD's G_r, for all r at once, without forming any gradient.

They are made of products with the kernel matrix between samples, a `KernelMatrix` of
`engines.protocol`. Arrays of the size of the samples are where that matrix is, on the host or on a
GPU, and are handled by the functions of its `kit`. Vectors (m, d) are on the host.
"""

from __future__ import annotations

import copy

import numba
import numpy as np

from .._typing import Array
from .jit import parallel


class DenseOperators:
    """Products of m symmetric matrices, (m, d, d), with a vector each."""

    def __init__(self, matrices: Array):
        self.matrices = matrices

    def __call__(self, u: Array) -> Array:
        return (_apply_all if self.matrices.size > 100_000 else _apply_all.serial)(self.matrices, u)

    def restricted(self, mask) -> DenseOperators:
        """The operators picked by a boolean mask."""
        return DenseOperators(self.matrices[mask])


@parallel
def _apply_all(matrices, v):
    out = np.empty_like(v)
    for q in numba.prange(v.shape[0]):
        for i in range(v.shape[1]):
            total = 0.0
            for j in range(v.shape[1]):
                total += matrices[q, i, j] * v[q, j]
            out[q, i] = total
    return out


class _KernelOperators:
    """What the operators of all directions r share.

    Parameters
    ----------
    matrix : KernelMatrix
        Gaussian kernel between the samples.
    scores : (n, d) array
        Scores of p at the samples, where the matrix is.
    r : (m, d) array
        Directions.
    debias : bool
        Leave out the terms of a sample with itself.
    squares : bool
        Whether products with the squared entries of the matrix are needed.
    """

    rowwise: tuple[str, ...] = ()  # names of arrays (m, n), beside eta and v, where the matrix is
    per_direction: tuple[str, ...] = ()  # names of arrays (m, ...) on the host, beside r

    def __init__(self, matrix, scores, r: Array, debias: bool, squares: bool = False):
        self.precision = matrix.precision
        self.r = r
        self.debias = debias
        self.n = matrix.n
        self.kit = matrix.kit
        self.x = matrix.x
        self.x_rows = self.kit.transposed(self.x)
        self.eta = self.kit.along(self.precision * r, self.x)
        self.v = self.kit.along(r, scores)
        self.kit.add(self.v, -1.0, self.eta)
        self.kernel = matrix.products(0.0 if debias else 1.0, squares)
        self.weight = self.kernel.row_sums()

    def restricted(self, mask):
        """The operators picked by a boolean mask; what all r share stays shared."""
        some = copy.copy(self)
        for name in ("r", *self.per_direction):
            setattr(some, name, getattr(self, name)[mask])
        for name in ("eta", "v", *self.rowwise):
            setattr(some, name, self.kit.pick(getattr(self, name), mask))
        return some


class SmoothedSensitivity(_KernelOperators):
    """Products ``H_r u_r`` for KE: n x n products shared by all r, O(n^2) for each r.

    With ``v_i = s_i.r - x_i.r / H^2``, ``eta_j = x_j.r / H^2`` and ``alpha = x.u``, the gradient at
    sample j is, up to ``1 / (n H^2)``, ``sum_i b_ij`` with
    ``b_ij = K_ij [ (v_i + eta_j) (x_i - x_j) + r ]``.

    Debiased, the diagonal of K is zero and ``sum_ij b_ij b_ij^T`` is subtracted. There
    ``(v_i + eta_j)^2`` is multiplied out: the squares need products with K^2 that are the same for
    every vector, and only the mixed term needs new ones.
    """

    def __init__(self, matrix, scores, r: Array, debias: bool):
        super().__init__(matrix, scores, r, debias, squares=debias)
        n = self.n
        self.rowwise = ("drift", "squares", "diagonal") if debias else ("drift",)
        self.per_direction = ("linear",) if debias else ()
        self.shift_rows = self.kernel.times(self.x_rows)
        self.shift = self.kit.transposed(self.shift_rows)
        self.drift = self.kernel.times(self.v)
        self.kit.add(self.drift, 1.0, self.eta, self.weight)
        self.scale = self.precision**2 / (n * (n - 1.0) * (n - 2.0) if debias else n**3)
        if debias:
            self._prepare_self_terms()

    def _prepare_self_terms(self):
        kit, v, eta = self.kit, self.v, self.eta
        m = v.shape[0]
        weight = self.kernel.row_sums(square=True)
        self.squares = kit.squares_of(v, eta)
        self.shift2_rows = self.kernel.times(self.x_rows, square=True)
        self.shift2 = kit.transposed(self.shift2_rows)
        smoothed = self.kernel.times(kit.stacked(self.squares, v, eta), square=True)
        parts = kit.self_parts(v, eta, weight, smoothed)
        self.diagonal = parts[:m]
        # sum_ij K_ij^2 (v_i + eta_j) (x_i - x_j), and half of sum_ij K_ij^2 r: both are multiplied
        # by r on one side.
        self.linear = kit.gather(parts[m:], self.x_rows) + 0.5 * kit.total_weight(weight) * self.r

    def __call__(self, u):
        kit = self.kit
        alpha = kit.along(u, self.x)
        along = np.einsum("md,md->m", self.r, u)
        both = kit.both_products(self.eta, self.v, alpha)
        z = self.kernel.times(both[alpha.shape[0] :])
        spread = kit.along(u, self.shift)
        kit.finish_gradients(z, self.eta, spread, alpha, self.drift, self.weight, kit.place(along))
        back = self.kernel.times(z)
        kit.finish_adjoint(back, self.v, self.drift, z, self.eta, spread)
        out = kit.gather(back, self.x_rows)
        out += kit.gather(spread, self.shift_rows)
        out += kit.gather(z, self.weight.reshape(1, self.weight.size)) * self.r
        if self.debias:
            out -= self._self_terms(u, alpha, both, along)
        return self.scale * out

    def _self_terms(self, u, alpha, both, along):
        """``sum_ij b_ij (b_ij.u)``."""
        kit = self.kit
        smoothed = self.kernel.times(both, square=True)
        spread = kit.along(u, self.shift2)
        kit.finish_self_terms(
            spread, self.diagonal, self.squares, alpha, self.v, self.eta, smoothed
        )
        out = kit.gather(spread, self.x_rows)
        out -= kit.gather(alpha, self.shift2_rows)
        return (
            out
            + self.linear * along[:, None]
            + np.einsum("md,md->m", self.linear, u)[:, None] * self.r
        )


class KernelizedSensitivity(_KernelOperators):
    """Products ``G_r u_r`` for the estimator "ksd", O(n^2) for each r.

    ``G_r`` is the mean over pairs of
    ``-K [ c'' r r^T - P c' (r e^T + e r^T) + c (P^2 e e^T - P I) ]``, ``e = x_i - x_j``, where
    ``c = (v_i + eta_j)(v_j + eta_i) + P`` is the Stein term along r over K, a polynomial in ``e.r``
    with derivatives c' and c''.
    """

    rowwise = ("rows",)
    per_direction = ("tilt", "sums")

    def __init__(self, matrix, scores, r: Array, debias: bool):
        super().__init__(matrix, scores, r, debias)
        kit, n, m = self.kit, self.n, r.shape[0]
        self.rows, negative = kit.filled(0.0, m, n), kit.filled(1.0, m, n)
        smoothed = self.kernel.times(kit.stein_products(self.v, self.eta, negative))
        kit.finish_stein(negative, self.rows, self.v, self.eta, self.precision, smoothed)
        kit.add(self.rows, -1.0, negative)  # sum_j c_ij K_ij
        self.sums = kit.gather(self.rows, kit.filled(1.0, 1, n))[:, 0]
        self.total = kit.total_weight(self.weight)
        tilt = kit.stacked(self.v)
        kit.add(tilt, -1.0, self.eta)
        spread = kit.weighted(tilt, self.weight)
        kit.add(spread, -1.0, self.kernel.times(tilt))
        self.tilt = 2.0 * self.precision * kit.gather(spread, self.x_rows)
        self.scale = 1.0 / (n * (n - 1.0) if debias else n**2)

    def __call__(self, u):
        kit = self.kit
        alpha = kit.along(u, self.x)
        along = np.einsum("md,md->m", self.r, u)[:, None]
        smoothed = self.kernel.times(kit.stein_products(self.v, self.eta, alpha))
        kit.finish_stein(alpha, self.rows, self.v, self.eta, self.precision, smoothed)
        stretch = 2.0 * kit.gather(alpha, self.x_rows)
        out = self.precision * self.sums[:, None] * u - self.precision**2 * stretch
        out += self.precision * (
            np.einsum("md,md->m", self.tilt, u)[:, None] * self.r + along * self.tilt
        )
        out += 2.0 * self.precision**2 * self.total * along * self.r
        return self.scale * out
