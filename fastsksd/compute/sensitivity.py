"""Products with KE's matrices H_r and KSD's G_r, for all r at once, without any gradient: from products with the kernel between samples.

Everything of the size of the samples is where products are made, on the host or on a GPU (see `engines.smoothing`); vectors (m, d) come from
the host and go there.
"""

import copy

import numba
import numpy as np

from . import smoothing
from .jit import compiled, parallel, prefer_wide_vectors
from .linalg import product
from .pointwise import exp_nonpositive

DENSE_LIMIT = 5000  # samples up to which kernel matrices are stored and GE is solved by Cholesky
_BLOCK = 1024  # rows of a kernel matrix made at a time


def kernel_blocks(y, x, width, diagonal=np.nan):
    """RBF kernel matrix between the rows of `y` and of `x`, in blocks of rows: pairs (slice of rows, block).

    Where `y` is `x`, `diagonal` is what stands on the diagonal: exactly 1, or 0 to leave self terms out.
    """
    y_squares = np.einsum("id,id->i", y, y)
    x_squares = np.einsum("id,id->i", x, x)
    for start in range(0, y.shape[0], _BLOCK):
        block = slice(start, min(start + _BLOCK, y.shape[0]))
        k = product(y[block], x)
        _rbf_from_products(k, y_squares[block], x_squares, 1.0 / width**2)
        if not np.isnan(diagonal):
            k[np.arange(k.shape[0]), np.arange(block.start, block.stop)] = diagonal
        yield block, k


@parallel
def _rbf_from_products(k, y_squares, x_squares, precision):
    """Turn inner products into kernel values in place."""
    for i in numba.prange(k.shape[0]):
        _rbf_row(k[i], y_squares[i], x_squares, precision)


@compiled
def _rbf_row(k, y_square, x_squares, precision):
    prefer_wide_vectors()
    for j in range(k.size):
        k[j] = exp_nonpositive(min(0.0, precision * (k[j] - 0.5 * (y_square + x_squares[j]))))


class _KernelOperators:
    """What the operators of all directions r share: the samples, the kernel between them and the separable parts of the terms."""

    placed = ()  # names of what belongs to each r and sample, (m, n), beside eta and v
    own = ()  # names of what belongs to each r, (m, ...), on the host

    def __init__(self, smoother, r, debias, squares=False):
        self.precision = 1.0 / smoother.width**2
        self.r = r
        self.debias = debias
        self.n = smoother.x.shape[0]
        self.diagonal_value = 0.0 if debias else 1.0
        self.matrix = smoother.matrix
        self.kit = smoothing if self.matrix is None else self.matrix.kit
        x = self.x = smoother.x if self.matrix is None else self.matrix.x
        self.x_rows = self.kit.transposed(x)
        self.eta = self.kit.along(self.precision * r, x)
        self.v = self.kit.along(r, smoother.placed)
        self.kit.add(self.v, -1.0, self.eta)
        if self.matrix is None:
            self.blocks = lambda: _with_squares(
                kernel_blocks(x, x, smoother.width, diagonal=self.diagonal_value), squares
            )
            if self.n <= DENSE_LIMIT:
                stored = list(self.blocks())
                self.blocks = lambda: stored
        self.weight = self._kernel_sums()

    def _kernel_sums(self, square=False):
        """Sums of the rows of K, or of its entries squared."""
        if self.matrix is not None:
            return kernel_sums_on_device(self.matrix, self.diagonal_value, square)
        return np.concatenate([(k2 if square else k).sum(axis=1) for _, k, k2 in self.blocks()])

    def _times_kernel(self, rows, square=False):
        """``rows @ K`` (K is symmetric), or with the entries of K squared."""
        if self.matrix is not None:
            return self.matrix.times(rows, own=self.diagonal_value, square=square)
        if self.n <= _BLOCK:
            ((_, k, k2),) = self.blocks()
            return product(rows, k2 if square else k)
        out = np.empty((rows.shape[0], self.n))
        for block, k, k2 in self.blocks():
            out[:, block] = product(rows, k2 if square else k)
        return out

    def restricted(self, mask):
        """The operators picked by a boolean mask; what all r share stays shared."""
        some = copy.copy(self)
        for name in ("r", *self.own):
            setattr(some, name, getattr(self, name)[mask])
        for name in ("eta", "v", *self.placed):
            setattr(some, name, self.kit.pick(getattr(self, name), mask))
        return some


def kernel_sums_on_device(matrix, own, square=False):
    n = matrix.samples.shape[0]
    return matrix.times(matrix.kit.filled(1.0, 1, n), own=own, square=square).reshape(n)


def total_weight(kit, weight):
    n = weight.size
    return float(kit.gather(weight.reshape(1, n), kit.filled(1.0, 1, n))[0, 0])


def _with_squares(blocks, wanted):
    for block, k in blocks:
        yield block, k, k * k if wanted else None


class SmoothedSensitivity(_KernelOperators):
    """Products ``H_r v_r`` for KE without forming any gradient: n x n products shared by all r, O(n^2) for each r.

    With ``v_i = s_i.r - x_i.r / H^2``, ``eta_j = x_j.r / H^2`` and ``alpha = x.v``, the gradient at sample j is, up to
    ``1 / (n H^2)``,  ``sum_i b_ij``  with  ``b_ij = K_ij [ (v_i + eta_j) (x_i - x_j) + r ]``.
    Debiased, the diagonal of K is zero and ``sum_ij b_ij b_ij^T`` is taken off. There ``(v_i + eta_j)^2`` is multiplied out: the squares
    need products with K^2 that are the same for every vector, and only the mixed term needs new ones.
    """

    def __init__(self, smoother, r, debias):
        super().__init__(smoother, r, debias, squares=debias)
        n = self.n
        self.placed = ("drift", "squares", "diagonal") if debias else ("drift",)
        self.own = ("linear",) if debias else ()
        self.shift_rows = self._times_kernel(self.x_rows)
        self.shift = self.kit.transposed(self.shift_rows)
        self.drift = self._times_kernel(self.v)
        self.kit.add(self.drift, 1.0, self.eta, self.weight)
        self.scale = self.precision**2 / (n * (n - 1.0) * (n - 2.0) if debias else n**3)
        if debias:
            self._prepare_self_terms()

    def _prepare_self_terms(self):
        kit, v, eta = self.kit, self.v, self.eta
        m = v.shape[0]
        weight = self._kernel_sums(square=True)
        self.squares = kit.squares_of(v, eta)
        self.shift2_rows = self._times_kernel(self.x_rows, square=True)
        self.shift2 = kit.transposed(self.shift2_rows)
        smoothed = self._times_kernel(kit.stacked(self.squares, v, eta), square=True)
        parts = kit.self_parts(v, eta, weight, smoothed)
        self.diagonal = parts[:m]
        # sum_ij K_ij^2 (v_i + eta_j) (x_i - x_j), and half of sum_ij K_ij^2 r: both meet r on one side.
        self.linear = kit.gather(parts[m:], self.x_rows) + 0.5 * total_weight(kit, weight) * self.r

    def __call__(self, u):
        kit = self.kit
        alpha = kit.along(u, self.x)
        along = np.einsum("md,md->m", self.r, u)
        both = kit.both_products(self.eta, self.v, alpha)
        z = self._times_kernel(both[alpha.shape[0] :])
        spread = kit.along(u, self.shift)
        kit.finish_gradients(z, self.eta, spread, alpha, self.drift, self.weight, kit.place(along))
        back = self._times_kernel(z)
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
        smoothed = self._times_kernel(both, square=True)
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

    ``G_r`` is the mean over pairs of  ``-K [ c'' r r^T - P c' (r e^T + e r^T) + c (P^2 e e^T - P I) ]``,  ``e = x_i - x_j``, where
    ``c = (v_i + eta_j)(v_j + eta_i) + P`` is the Stein term along r over K, a polynomial in ``e.r`` with derivatives c' and c''.
    """

    placed = ("rows",)
    own = ("tilt", "sums")

    def __init__(self, smoother, r, debias):
        super().__init__(smoother, r, debias)
        kit, n, m = self.kit, self.n, r.shape[0]
        self.rows, negative = kit.filled(0.0, m, n), kit.filled(1.0, m, n)
        smoothed = self._times_kernel(kit.stein_products(self.v, self.eta, negative))
        kit.finish_stein(negative, self.rows, self.v, self.eta, self.precision, smoothed)
        kit.add(self.rows, -1.0, negative)  # sum_j c_ij K_ij
        self.sums = kit.gather(self.rows, kit.filled(1.0, 1, n))[:, 0]
        self.total = total_weight(kit, self.weight)
        tilt = kit.stacked(self.v)
        kit.add(tilt, -1.0, self.eta)
        spread = kit.weighted(tilt, self.weight)
        kit.add(spread, -1.0, self._times_kernel(tilt))
        self.tilt = 2.0 * self.precision * kit.gather(spread, self.x_rows)
        self.scale = 1.0 / (n * (n - 1.0) if debias else n**2)

    def __call__(self, u):
        kit = self.kit
        alpha = kit.along(u, self.x)
        along = np.einsum("md,md->m", self.r, u)[:, None]
        smoothed = self._times_kernel(kit.stein_products(self.v, self.eta, alpha))
        kit.finish_stein(alpha, self.rows, self.v, self.eta, self.precision, smoothed)
        stretch = 2.0 * kit.gather(alpha, self.x_rows)
        out = self.precision * self.sums[:, None] * u - self.precision**2 * stretch
        out += self.precision * (
            np.einsum("md,md->m", self.tilt, u)[:, None] * self.r + along * self.tilt
        )
        out += 2.0 * self.precision**2 * self.total * along * self.r
        return self.scale * out
