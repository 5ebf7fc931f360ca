"""The score difference ``f = s_p - s_q`` and its directional Jacobian ``J(y)^T r = grad_y (r.f(y))`` (Section "Practical algorithm").

Four ways to get it from samples ``x ~ q``, behind one interface:

- exact, `ExactDifference`: the user knows s_q. The derivative of a score along r is a Hessian-vector product, because the
  Hessian is symmetric; models supply it or it is a central difference of two score calls.
- KE, `KernelSmoothed`: ``f(y) = mean_i [s_p(x_i) - (x_i - y) / H^2] K_iy``, by parts, with an RBF kernel of width H.
- GE, `SteinGradient`: s_q from the Stein gradient estimator, ``S_X = -(K + eta I)^(-1) B``, extended to any point by
  ``s_q(y) = -1/eta sum_i [S_i - (x_i - y) / H^2] K_iy``: KE's sum with other coefficients.
- KSD, `KernelizedDifference`: KE's f, but matrices of second order, weighted by the kernel between two samples rather than by
  its values at a third: ``M = E f(x) k(x, x') f(x')^T``, of which KSD is the trace, and for g
  ``G_r = E f_r(x) f_r(x') grad grad'^T k(x, x')``. With ``w_r = E f_r(x) c(x, .)`` and c a Gaussian so narrow that ``c * c = k``,
  ``r.M r`` is the integral of w_r^2 and G_r that of its gradient's outer square, as H_r is for f_r.

From those come the two matrices of Algorithm 1: ``S = mean f f^T`` and ``H_r = mean (J^T r)(J^T r)^T``. KE's own noise is in
both: the terms of a sample smoothing itself, and of one sample taken twice. `debias` leaves them out (U-statistics of third
order), which keeps the signal visible in high dimension.
"""

import functools

import numba
import numpy as np

from ._validate import check_number, evaluate_score, score_is_array
from .compute.jit import parallel
from .compute.linalg import product
from .compute.medians import median_distance
from .compute.sensitivity import (
    DENSE_LIMIT,
    KernelizedSensitivity,
    SmoothedSensitivity,
    kernel_blocks,
    kernel_sums_on_device,
    total_weight,
)
from .engines import kernel_matrix
from .kernels import RBF, as_kernel
from .models import Model

_MOST_STEPS = 1000  # of conjugate gradients
_WIDTHS = (1e-70, 1e70)  # whose fourth powers, in the units of H_r, neither vanish nor overflow


class ScoreDifference:
    """Interface: the score difference of a model and the law of the samples `x`, from some estimate."""

    name = None
    x = None

    def value(self, y):
        """``f(y)``, (n, d)."""
        raise NotImplementedError

    def jacobian(self, y, r):
        """``J(y)^T r``, the gradient of ``r.f`` at each row of `y`, (n, d)."""
        raise NotImplementedError

    def second_moment(self, debias=True):
        """``S = mean f f^T`` over the samples, (d, d)."""
        f = self.value(self.x)
        return product(f.T, f.T) / f.shape[0]

    def sensitivity(self, r, debias=True):
        """Products with the matrices H_r of all rows of `r`: a callable from (m, d) vectors to (m, d) vectors ``H_r v_r``."""
        matrices = np.empty((r.shape[0], self.x.shape[1], self.x.shape[1]))
        for h, direction in zip(matrices, r, strict=True):
            gradients = self.jacobian(self.x, direction)
            h[:] = product(gradients.T, gradients.T) / gradients.shape[0]
        return DenseOperators(matrices)


class DenseOperators:
    """Products of m symmetric matrices, (m, d, d), with a vector each."""

    def __init__(self, matrices):
        self.matrices = matrices

    def __call__(self, v):
        return (_apply_all if self.matrices.size > 100_000 else _apply_all.serial)(self.matrices, v)

    def restricted(self, mask):
        """The operators picked by a boolean mask."""
        return DenseOperators(self.matrices[mask])


class ExactDifference(ScoreDifference):
    """``f = s_p - s_q`` from both score functions (callables or models)."""

    name = "exact"

    def __init__(self, x, score, score_q):
        self.x = x
        self.p = _differentiable("score", score, "exact")
        self.q = _differentiable("score_q", score_q, "exact")

    def value(self, y):
        return evaluate_score(self.p, y, "score") - evaluate_score(self.q, y, "score_q")

    def jacobian(self, y, r):
        return _along("score", self.p, y, r) - _along("score_q", self.q, y, r)


class _Smoother:
    """``F(y) = scale * sum_i [coefficients_i - (x_i - y) / H^2] K_iy`` and its directional Jacobian, block by block.

    `matrix` is the kernel between the samples on a GPU, or None.
    """

    def __init__(self, x, coefficients, width, scale, matrix=None):
        self.matrix = matrix
        self.centre = np.median(x, axis=0)  # a far outlier must not cost the others their digits
        self.x = x - self.centre
        self.coefficients = coefficients
        self.width = width
        self.scale = scale

    @functools.cached_property
    def placed(self):
        """The coefficients where products are made."""
        return (
            self.coefficients
            if self.matrix is None
            else self.matrix.kit.rows_there(self.coefficients)
        )

    def value(self, y):
        points, y = y, y - self.centre
        shifted = np.ascontiguousarray((self.coefficients - self.x / self.width**2).T)
        if self.matrix is not None:
            *smoothed, weight = self.matrix.times_at(points, _with_ones(shifted))
            return self.scale * (np.transpose(smoothed) + weight[:, None] * (y / self.width**2))
        out = np.empty_like(y)
        for block, k in kernel_blocks(y, self.x, self.width):
            out[block] = product(k, shifted) + k.sum(axis=1)[:, None] * (y[block] / self.width**2)
        return self.scale * out

    def jacobian(self, y, r):
        points, y = y, y - self.centre
        v = np.einsum("nd,d->n", self.coefficients - self.x / self.width**2, r)
        eta = np.einsum("nd,d->n", y, r) / self.width**2
        if self.matrix is not None:
            *shift, weight = self.matrix.moments_at(points)
            *pulled, drift = self.matrix.moments_at(points, v)
            out = (
                (np.array(pulled) + eta * np.array(shift)).T
                - (drift + eta * weight)[:, None] * y
                + weight[:, None] * r
            )
            return self.scale / self.width**2 * out
        x_rows = np.ascontiguousarray(self.x.T)
        out = np.empty_like(y)
        for block, k in kernel_blocks(y, self.x, self.width):
            c = (v + eta[block, None]) * k
            out[block] = (
                product(c, x_rows) - c.sum(axis=1)[:, None] * y[block] + k.sum(axis=1)[:, None] * r
            )
        return self.scale / self.width**2 * out


class KernelSmoothed(ScoreDifference):
    """KE: the kernel-smoothed score difference, from the scores of p at the samples alone.

    Parameters
    ----------
    x : (n, d) array
    scores : (n, d) array
        Scores of p at `x`.
    width : float
        Width H of the RBF kernel; the default is the median distance between samples.
    engine : str
        "direct" for the CPU, "cuda" for a GPU, or "auto".
    """

    name = "ke"

    def __init__(self, x, scores, width=None, engine="auto"):
        self.x = x
        self.width = _checked_width(median_distance(x) if width is None else width)
        self.smoother = _Smoother(x, scores, self.width, 1.0 / x.shape[0])
        self.smoother.matrix = kernel_matrix(engine, x, self.smoother.centre, self.width)

    def value(self, y):
        return self.smoother.value(y)

    def jacobian(self, y, r):
        return self.smoother.jacobian(y, r)

    def second_moment(self, debias=True):
        if not debias:
            return super().second_moment()
        # Distinct j, i, i':  sum_j F_j F_j^T - sum_{j, i} a_ij a_ij^T  with  a_ij = (p_i + q_j) K_ij  and the diagonal of K zero.
        x = self.smoother.x
        n = x.shape[0]
        if self.smoother.matrix is not None:
            return _second_moment_sum(self.smoother) / (n * (n - 1.0) * (n - 2.0))
        q = x / self.width**2
        p = self.smoother.coefficients - q
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
        return total / (n * (n - 1.0) * (n - 2.0))

    def sensitivity(self, r, debias=True):
        return SmoothedSensitivity(self.smoother, r, debias)


class KernelizedDifference(KernelSmoothed):
    """KSD: the matrices M and G_r in place of S and H_r; U-statistics, or V-statistics without `debias`."""

    name = "ksd"

    def second_moment(self, debias=True):
        # K_ij [(p_i + P x_j) (p_j + P x_i)^T + P I],  p = s - P x,  P = 1 / H^2
        x = self.smoother.x
        n, d = x.shape
        precision = 1.0 / self.width**2
        if self.smoother.matrix is not None:
            total = _kernelized_moment_sum(self.smoother, 0.0 if debias else 1.0) / (
                n * (n - 1.0) if debias else n**2
            )
            return 0.5 * (total + total.T)
        q_rows = precision * np.ascontiguousarray(x.T)
        p_rows = np.ascontiguousarray(self.smoother.coefficients.T) - q_rows
        total = np.zeros((d, d))
        for block, k in kernel_blocks(x, x, self.width, diagonal=0.0 if debias else 1.0):
            weight = k.sum(axis=1)
            cross = product(p_rows[:, block] * weight, q_rows[:, block])
            total += product(p_rows[:, block], product(p_rows, k)) + product(
                q_rows[:, block], product(q_rows, k)
            )
            total += cross + cross.T + precision * weight.sum() * np.eye(d)
        total /= n * (n - 1.0) if debias else n**2
        return 0.5 * (total + total.T)

    def sensitivity(self, r, debias=True):
        return KernelizedSensitivity(self.smoother, r, debias)


class SteinGradient(ScoreDifference):
    """GE: s_q from the Stein gradient estimator with ridge `eta`; s_p must be a callable or a model.

    Parameters
    ----------
    x : (n, d) array
    score : callable or model
    eta : float
        Ridge added to the diagonal of the kernel matrix.
    width : float
        Width H of the RBF kernel; the default is the median distance between samples.
    engine : str
        "direct" for the CPU, "cuda" for a GPU, or "auto".
    """

    name = "ge"

    def __init__(self, x, score, eta=0.1, width=None, engine="auto"):
        self.x = x
        self.p = _differentiable("score", score, "ge")
        self.eta = check_number("eta", eta, 0.0, strict=True)
        self.width = _checked_width(median_distance(x) if width is None else width)
        centre = np.median(x, axis=0)
        matrix = kernel_matrix(engine, x, centre, self.width)
        if matrix is not None:
            scores_q = -_ridge_on_device(matrix, self.width, self.eta)
        else:
            solve = _ridge_cholesky if x.shape[0] <= DENSE_LIMIT else _ridge_conjugate_gradient
            scores_q = -solve(x - centre, self.width, self.eta)
        self.smoother = _Smoother(x, scores_q, self.width, -1.0 / self.eta, matrix)

    def score_q(self, y):
        """The estimate of s_q at any points; at the samples it is the Stein gradient estimator itself."""
        return self.smoother.value(y)

    def value(self, y):
        return evaluate_score(self.p, y, "score") - self.score_q(y)

    def jacobian(self, y, r):
        return _along("score", self.p, y, r) - self.smoother.jacobian(y, r)


ESTIMATORS = ("ke", "ksd", "ge", "exact")


def score_difference(
    x, score, *, estimator="ke", score_q=None, kernel="rbf", debias=True, engine="auto"
):
    """The score difference of the model `score` at samples `x` by the estimator named, with sums over pairs by the `engine`.

    `estimator` may also be a `ScoreDifference` made beforehand from the same samples, which is returned as it is.
    """
    if not isinstance(debias, (bool, np.bool_)):
        raise TypeError(f"`debias` must be True or False, not {type(debias).__name__}.")
    if isinstance(estimator, ScoreDifference):
        if not np.array_equal(estimator.x, x):
            raise ValueError("`estimator` was made from other samples than `x`.")
        return estimator
    if estimator not in ESTIMATORS:
        listing = ", ".join(repr(name) for name in ESTIMATORS)
        raise ValueError(
            f"`estimator` must be one of {listing}, or a ScoreDifference object; got {estimator!r}."
        )
    if estimator == "exact":
        if score_q is None:
            raise ValueError(
                "`score_q`, the score of the samples' own law, is needed for estimator='exact'."
            )
        return ExactDifference(x, score, score_q)
    if score_q is not None:
        raise ValueError(
            f"`score_q` is used by estimator='exact' only; got estimator={estimator!r}."
        )
    width = _width(kernel)
    if estimator == "ke" and debias and x.shape[0] < 3:
        raise ValueError(
            "`x` must hold at least 3 samples for debias=True; use debias=False or more samples."
        )
    if estimator == "ge":
        return SteinGradient(x, score, width=width, engine=engine)
    return (KernelSmoothed if estimator == "ke" else KernelizedDifference)(
        x, evaluate_score(score, x), width=width, engine=engine
    )


def _width(kernel):
    kernel = as_kernel(kernel)
    if not isinstance(kernel, RBF):
        raise ValueError(
            f"`kernel` of the score difference must be 'rbf' (KE and GE smooth with a Gaussian); got {kernel.name!r}."
        )
    if np.ndim(kernel.bandwidth):
        raise ValueError(
            "`kernel` of the score difference must have one bandwidth, not one per slice."
        )
    return None if kernel.bandwidth == "median" else kernel.bandwidth


def _checked_width(width):
    if not _WIDTHS[0] <= width <= _WIDTHS[1]:
        raise ValueError(
            f"`x` has a median distance (or a bandwidth given) of {width:.0e}, and slices can be found between {_WIDTHS[0]:.0e} and "
            f"{_WIDTHS[1]:.0e}; rescale the samples, and the scores by the inverse."
        )
    return width


def _differentiable(name, score, estimator):
    if score_is_array(score):
        raise ValueError(
            f"`{name}` must be a callable or a model for estimator={estimator!r}, which differentiates it; got an array."
        )
    return (
        score if hasattr(score, "score_along") else Model.from_score(getattr(score, "score", score))
    )


def _along(name, model, y, r):
    """A model's derivative of its score along r, checked like the score itself."""
    return evaluate_score(lambda points: model.score_along(points, r), y, f"{name}.score_along")


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


def _with_ones(rows):
    """Another row, of ones: its product with the kernel is the kernel's sums."""
    return np.concatenate([rows, np.ones((1, rows.shape[1]))])


def _parts_on_device(smoother):
    """On a GPU: what works there, the samples as rows x, and p = s - P x."""
    kit = smoother.matrix.kit
    x_rows = kit.transposed(smoother.matrix.x)
    p_rows = kit.transposed(smoother.placed)
    kit.add(p_rows, -1.0 / smoother.width**2, x_rows)
    return kit, x_rows, p_rows


def _second_moment_sum(smoother):
    """The sum over distinct j, i, i' in `KernelSmoothed.second_moment`, on a GPU; q = P x."""
    matrix, precision = smoother.matrix, 1.0 / smoother.width**2
    kit, x_rows, p_rows = _parts_on_device(smoother)
    f_rows = matrix.times(p_rows, own=0.0)
    kit.add(f_rows, precision, x_rows, kernel_sums_on_device(matrix, 0.0))
    cross = precision * kit.gather(matrix.times(p_rows, own=0.0, square=True), x_rows)
    weight = kernel_sums_on_device(matrix, 0.0, square=True)
    own = kit.gather(kit.weighted(p_rows, weight), p_rows) + precision**2 * kit.gather(
        kit.weighted(x_rows, weight), x_rows
    )
    return kit.gather(f_rows, f_rows) - cross - cross.T - own


def _kernelized_moment_sum(smoother, own):
    """The sum over pairs in `KernelizedDifference.second_moment`, on a GPU."""
    matrix, precision = smoother.matrix, 1.0 / smoother.width**2
    kit, x_rows, p_rows = _parts_on_device(smoother)
    weight = kernel_sums_on_device(matrix, own)
    cross = precision * kit.gather(kit.weighted(p_rows, weight), x_rows)
    total = kit.gather(p_rows, matrix.times(p_rows, own=own)) + precision**2 * kit.gather(
        x_rows, matrix.times(x_rows, own=own)
    )
    return total + cross + cross.T + precision * total_weight(kit, weight) * np.eye(cross.shape[0])


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


def _ridge_on_device(matrix, width, eta):
    """The same by conjugate gradients on a GPU."""
    kit = matrix.kit
    x_rows = kit.transposed(matrix.x)
    right = kit.weighted(x_rows, kernel_sums_on_device(matrix, 1.0))
    kit.add(right, -1.0, matrix.times(x_rows, own=1.0))
    solution = matrix.ridge_solve(right, eta, max_steps=_MOST_STEPS)
    if solution is None:
        raise _no_convergence(_MOST_STEPS)
    return np.ascontiguousarray(solution.T) / width**2


def _no_convergence(steps):
    return RuntimeError(
        f"conjugate gradients for estimator='ge' did not converge in {steps} steps; use a larger ridge `eta`."
    )


def _ridge_conjugate_gradient(x, width, eta, tolerance=1e-8, max_steps=_MOST_STEPS):
    """The same without storing K: conjugate gradients on all columns at once, each product remaking K block by block."""
    solution = np.zeros_like(x)
    residual = _stein_right_side(x, width)
    direction = residual.copy()
    norms = np.einsum("nd,nd->d", residual, residual)
    target = tolerance**2 * norms
    for _ in range(max_steps):
        if np.all(norms <= target):
            return solution
        rows = np.ascontiguousarray(direction.T)
        image = (
            np.concatenate([product(k, rows) for _, k in kernel_blocks(x, x, width, diagonal=1.0)])
            + eta * direction
        )
        curvature = np.einsum("nd,nd->d", direction, image)
        step = np.divide(norms, curvature, out=np.zeros_like(norms), where=curvature > 0)
        solution += step * direction
        residual -= step * image
        updated = np.einsum("nd,nd->d", residual, residual)
        direction = (
            residual
            + np.divide(updated, norms, out=np.zeros_like(norms), where=norms > 0) * direction
        )
        norms = updated
    raise _no_convergence(max_steps)
