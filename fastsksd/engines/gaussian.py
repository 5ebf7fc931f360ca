"""The Gaussian kernel matrix between samples: what KE, KSD and GE are computed from.

``K_ij = exp(-|x_i - x_j|^2 / (2 H^2))``. Up to `DENSE_LIMIT` samples the matrix is stored where it
is used again and again. Beyond, it is made anew in blocks of rows for every product.
`engines.cuda.gaussian` has the same methods on a GPU; `protocol.KernelMatrix` lists them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .._typing import Array
from ..compute import smoothing
from ..compute.linalg import product, quotients

DENSE_LIMIT = 5000  # samples up to which the matrix is stored and GE is solved by Cholesky
MOST_STEPS = 1000  # of conjugate gradients
_BLOCK = 1024  # rows of the matrix made at a time


class GaussianMatrix:
    """Gaussian kernel between samples, on the CPU.

    Parameters
    ----------
    x : (n, d) array
        Samples.
    width : float
        Width H of the kernel.
    centre : (d,) array
        Point about which distances are computed. A far outlier must not cost the other samples
        their digits, so it should be the median rather than the mean.
    """

    kit = smoothing

    def __init__(self, x: Array, width: float, centre: Array):
        self.n = x.shape[0]
        self.centre = centre
        self.x = x - centre
        self.width = width
        self.precision = 1.0 / width**2

    def place(self, rows: Array) -> Array:
        """Rows of the samples where the matrix is: here they are."""
        return rows

    def smooth(self, y: Array, coefficients: Array) -> Array:
        """``sum_i [coefficients_i - (x_i - y) / H^2] K_iy`` at each row of `y`."""
        y = y - self.centre
        shifted = np.ascontiguousarray((coefficients - self.x / self.width**2).T)
        out = np.empty_like(y)
        for block, k in kernel_blocks(y, self.x, self.width):
            out[block] = product(k, shifted) + k.sum(axis=1)[:, None] * (y[block] / self.width**2)
        return out

    def smooth_gradient(self, y: Array, coefficients: Array, r: Array) -> Array:
        """``H^2`` times the gradient of ``r.smooth`` at each row of `y`."""
        y = y - self.centre
        v = np.einsum("nd,d->n", coefficients - self.x / self.width**2, r)
        eta = np.einsum("nd,d->n", y, r) / self.width**2
        x_rows = np.ascontiguousarray(self.x.T)
        out = np.empty_like(y)
        for block, k in kernel_blocks(y, self.x, self.width):
            c = (v + eta[block, None]) * k
            out[block] = (
                product(c, x_rows) - c.sum(axis=1)[:, None] * y[block] + k.sum(axis=1)[:, None] * r
            )
        return out

    def triple_moment(self, scores: Array) -> Array:
        """Sum over distinct j, i, i' of ``a_ij a_i'j^T``, ``a_ij = (p_i + q_j) K_ij``.

        ``q = x / H^2`` and ``p = scores - q``; `scores` are where the matrix is. With the diagonal
        of K zero it is ``sum_j F_j F_j^T - sum_ij a_ij a_ij^T``, ``F_j = sum_i a_ij``.
        """
        x = self.x
        q = x / self.width**2
        p = scores - q
        p_rows = np.ascontiguousarray(p.T)
        q_rows = np.ascontiguousarray(q.T)
        total = np.zeros((x.shape[1], x.shape[1]))
        for block, k in kernel_blocks(x, x, self.width, diagonal=0.0):
            f = product(k, p_rows) + k.sum(axis=1)[:, None] * q[block]
            k *= k
            cross = product(product(k, p_rows).T, q_rows[:, block])
            rows = k.sum(axis=1)
            total += product(f.T, f.T) - cross - cross.T
            total -= product(p_rows * k.sum(axis=0), p_rows) + product(
                q_rows[:, block] * rows, q_rows[:, block]
            )
        return total

    def pair_moment(self, scores: Array, diagonal: float) -> Array:
        """Sum over pairs of ``K_ij [(p_i + P x_j) (p_j + P x_i)^T + P I]``, ``P = 1 / H^2``.

        ``p = scores - P x``; `scores` are where the matrix is, and `diagonal` is K_ii.
        """
        x, d = self.x, self.x.shape[1]
        precision = self.precision
        q_rows = precision * np.ascontiguousarray(x.T)
        p_rows = np.ascontiguousarray(scores.T) - q_rows
        total = np.zeros((d, d))
        for block, k in kernel_blocks(x, x, self.width, diagonal=diagonal):
            weight = k.sum(axis=1)
            cross = product(p_rows[:, block] * weight, q_rows[:, block])
            total += product(p_rows[:, block], product(p_rows, k)) + product(
                q_rows[:, block], product(q_rows, k)
            )
            total += cross + cross.T + precision * weight.sum() * np.eye(d)
        return total

    def ridge_scores(self, eta: float) -> Array:
        """``-(K + eta I)^(-1) B`` with ``B_j = sum_i grad_{x_i} k(x_i, x_j)``, (n, d)."""
        solve = _ridge_cholesky if self.n <= DENSE_LIMIT else _ridge_conjugate_gradient
        return -solve(self.x, self.width, eta)

    def products(self, diagonal: float, squares: bool = False) -> KernelProducts:
        """Products with K, with `diagonal` for K_ii, and with its entries squared if asked."""
        return KernelProducts(self, diagonal, squares)


class KernelProducts:
    """Products of rows with a kernel matrix whose blocks are kept where there is room."""

    def __init__(self, matrix: GaussianMatrix, diagonal: float, squares: bool):
        self.n = matrix.n
        self._blocks = lambda: _with_squares(
            kernel_blocks(matrix.x, matrix.x, matrix.width, diagonal=diagonal), squares
        )
        if self.n <= DENSE_LIMIT:
            stored = list(self._blocks())
            self._blocks = lambda: stored

    def row_sums(self, square: bool = False) -> Array:
        """Sums of the rows of K, or of its entries squared, (n,)."""
        return np.concatenate([(k2 if square else k).sum(axis=1) for _, k, k2 in self._blocks()])

    def times(self, rows: Array, square: bool = False) -> Array:
        """``rows @ K`` (K is symmetric), or with the entries of K squared, (m, n)."""
        if self.n <= _BLOCK:
            ((_, k, k2),) = self._blocks()
            return product(rows, k2 if square else k)
        out = np.empty((rows.shape[0], self.n))
        for block, k, k2 in self._blocks():
            out[:, block] = product(rows, k2 if square else k)
        return out


def kernel_blocks(
    y: Array, x: Array, width: float, diagonal: float = np.nan
) -> Iterator[tuple[slice, Array]]:
    """Kernel matrix between the rows of `y` and of `x`: pairs (slice of rows, block).

    Where `y` is `x`, `diagonal` stands on the diagonal: exactly 1, or 0 to leave self terms out.
    """
    y_squares = np.einsum("id,id->i", y, y)
    x_squares = np.einsum("id,id->i", x, x)
    for start in range(0, y.shape[0], _BLOCK):
        block = slice(start, min(start + _BLOCK, y.shape[0]))
        k = product(y[block], x)
        k -= 0.5 * y_squares[block, None]
        k -= 0.5 * x_squares
        k *= 1.0 / width**2
        np.exp(np.minimum(k, 0.0, out=k), out=k)
        if not np.isnan(diagonal):
            k[np.arange(k.shape[0]), np.arange(block.start, block.stop)] = diagonal
        yield block, k


def _with_squares(blocks, wanted):
    for block, k in blocks:
        yield block, k, k * k if wanted else None


def _stein_right_side(x, width):
    """``B_j = sum_i grad_{x_i} k(x_i, x_j)``, (n, d)."""
    out = np.empty_like(x)
    x_rows = np.ascontiguousarray(x.T)
    for block, k in kernel_blocks(x, x, width, diagonal=1.0):
        out[block] = (k.sum(axis=1)[:, None] * x[block] - product(k, x_rows)) / width**2
    return out


def _ridge_cholesky(x, width, eta):
    """``(K + eta I)^(-1) B`` by a Cholesky factorisation."""
    from scipy.linalg import cho_factor, cho_solve

    k = np.concatenate([block for _, block in kernel_blocks(x, x, width, diagonal=1.0)])
    k[np.diag_indices_from(k)] += eta
    return cho_solve(
        cho_factor(k, overwrite_a=True, check_finite=False),
        _stein_right_side(x, width),
        check_finite=False,
    )


def _ridge_conjugate_gradient(x, width, eta, tolerance=1e-8):
    """The same by conjugate gradients on all columns at once; every product makes K anew."""
    solution = np.zeros_like(x)
    residual = _stein_right_side(x, width)
    direction = residual.copy()
    norms = np.einsum("nd,nd->d", residual, residual)
    target = tolerance**2 * norms
    for _ in range(MOST_STEPS):
        if np.all(norms <= target):
            return solution
        rows = np.ascontiguousarray(direction.T)
        image = (
            np.concatenate([product(k, rows) for _, k in kernel_blocks(x, x, width, diagonal=1.0)])
            + eta * direction
        )
        curvature = np.einsum("nd,nd->d", direction, image)
        step = quotients(norms, curvature)
        solution += step * direction
        residual -= step * image
        updated = np.einsum("nd,nd->d", residual, residual)
        direction = residual + quotients(updated, norms) * direction
        norms = updated
    raise no_convergence()


def no_convergence() -> RuntimeError:
    """The error when conjugate gradients do not converge in `MOST_STEPS` steps."""
    return RuntimeError(
        f"conjugate gradients for estimator='ge' did not converge in {MOST_STEPS} steps; use a "
        "larger ridge `eta`."
    )
