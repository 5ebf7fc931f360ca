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

import copy

import numba
import numpy as np

from ._jit import compiled, exp_nonpositive, parallel, prefer_wide_vectors
from ._linalg import product
from ._validate import check_number, evaluate_score, score_is_array
from .engines import kernel_matrix
from .kernels import RBF, as_kernel, median_distance
from .models import Model

DENSE_LIMIT = 5000  # samples up to which kernel matrices are stored and GE is solved by Cholesky
_BLOCK = 1024  # rows of a kernel matrix made at a time
_MOST_STEPS = 1000  # of conjugate gradients


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

    def value(self, y):
        y = y - self.centre
        shifted = np.ascontiguousarray((self.coefficients - self.x / self.width**2).T)
        if self.matrix is not None:
            *smoothed, weight = self.matrix.times_at(y, _with_ones(shifted))
            return self.scale * (np.transpose(smoothed) + weight[:, None] * (y / self.width**2))
        out = np.empty_like(y)
        for block, k in _kernel_blocks(y, self.x, self.width):
            out[block] = product(k, shifted) + k.sum(axis=1)[:, None] * (y[block] / self.width**2)
        return self.scale * out

    def jacobian(self, y, r):
        y = y - self.centre
        v = np.einsum("nd,d->n", self.coefficients - self.x / self.width**2, r)
        eta = np.einsum("nd,d->n", y, r) / self.width**2
        x_rows = np.ascontiguousarray(self.x.T)
        if self.matrix is not None:
            smoothed = self.matrix.times_at(y, _with_ones(np.concatenate([x_rows, v * x_rows, v[None]])))
            shift, pulled, (drift, weight) = np.split(smoothed, [x_rows.shape[0], 2 * x_rows.shape[0]])
            out = (pulled + eta * shift).T - (drift + eta * weight)[:, None] * y + weight[:, None] * r
            return self.scale / self.width**2 * out
        out = np.empty_like(y)
        for block, k in _kernel_blocks(y, self.x, self.width):
            c = (v + eta[block, None]) * k
            out[block] = product(c, x_rows) - c.sum(axis=1)[:, None] * y[block] + k.sum(axis=1)[:, None] * r
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
        self.width = median_distance(x) if width is None else width
        self.smoother = _Smoother(x, scores, self.width, 1.0 / x.shape[0])
        self.smoother.matrix = kernel_matrix(engine, self.smoother.x, self.width)

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
        q = x / self.width**2
        p = self.smoother.coefficients - q
        p_rows = np.ascontiguousarray(p.T)
        q_rows = np.ascontiguousarray(q.T)
        if self.smoother.matrix is not None:
            total = _second_moment_sum(self.smoother.matrix, p_rows, q_rows)
            return total / (n * (n - 1.0) * (n - 2.0))
        total = np.zeros((x.shape[1], x.shape[1]))
        for block, k in _kernel_blocks(x, x, self.width, diagonal=0.0):
            f = product(k, p_rows) + k.sum(axis=1)[:, None] * q[block]
            k *= k
            cross = product(product(k, p_rows).T, q_rows[:, block])
            rows = k.sum(axis=1)
            total += product(f.T, f.T) - cross - cross.T
            total -= product(p_rows * k.sum(axis=0), p_rows) + product(q_rows[:, block] * rows, q_rows[:, block])
        return total / (n * (n - 1.0) * (n - 2.0))

    def sensitivity(self, r, debias=True):
        return _SmoothedSensitivity(self.smoother, r, debias)


class KernelizedDifference(KernelSmoothed):
    """KSD: the matrices M and G_r in place of S and H_r; U-statistics, or V-statistics without `debias`."""

    name = "ksd"

    def second_moment(self, debias=True):
        # K_ij [(p_i + P x_j) (p_j + P x_i)^T + P I],  p = s - P x,  P = 1 / H^2
        x = self.smoother.x
        n, d = x.shape
        precision = 1.0 / self.width**2
        q_rows = precision * np.ascontiguousarray(x.T)
        p_rows = np.ascontiguousarray(self.smoother.coefficients.T) - q_rows
        total = np.zeros((d, d))
        if self.smoother.matrix is not None:
            rows = _with_ones(np.concatenate([p_rows, q_rows]))
            *smoothed, weight = self.smoother.matrix.times(rows, own=0.0 if debias else 1.0)
            cross = product(p_rows * weight, q_rows)
            total += product(p_rows, np.array(smoothed[:d])) + product(q_rows, np.array(smoothed[d:]))
            total += cross + cross.T + precision * weight.sum() * np.eye(d)
            return 0.5 * (total + total.T) / (n * (n - 1.0) if debias else n**2)
        for block, k in _kernel_blocks(x, x, self.width, diagonal=0.0 if debias else 1.0):
            weight = k.sum(axis=1)
            cross = product(p_rows[:, block] * weight, q_rows[:, block])
            total += product(p_rows[:, block], product(p_rows, k)) + product(q_rows[:, block], product(q_rows, k))
            total += cross + cross.T + precision * weight.sum() * np.eye(d)
        total /= n * (n - 1.0) if debias else n**2
        return 0.5 * (total + total.T)

    def sensitivity(self, r, debias=True):
        return _KernelizedSensitivity(self.smoother, r, debias)


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
        self.width = median_distance(x) if width is None else width
        centred = x - np.median(x, axis=0)
        matrix = kernel_matrix(engine, centred, self.width)
        if matrix is not None:
            scores_q = -_ridge_on_device(matrix, centred, self.width, self.eta)
        else:
            solve = _ridge_cholesky if x.shape[0] <= DENSE_LIMIT else _ridge_conjugate_gradient
            scores_q = -solve(centred, self.width, self.eta)
        self.smoother = _Smoother(x, scores_q, self.width, -1.0 / self.eta, matrix)

    def score_q(self, y):
        """The estimate of s_q at any points; at the samples it is the Stein gradient estimator itself."""
        return self.smoother.value(y)

    def value(self, y):
        return evaluate_score(self.p, y, "score") - self.score_q(y)

    def jacobian(self, y, r):
        return _along("score", self.p, y, r) - self.smoother.jacobian(y, r)


ESTIMATORS = ("ke", "ksd", "ge", "exact")


def score_difference(x, score, *, estimator="ke", score_q=None, kernel="rbf", debias=True, engine="auto"):
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
        raise ValueError(f"`estimator` must be one of {listing}, or a ScoreDifference object; got {estimator!r}.")
    if estimator == "exact":
        if score_q is None:
            raise ValueError("`score_q`, the score of the samples' own law, is needed for estimator='exact'.")
        return ExactDifference(x, score, score_q)
    if score_q is not None:
        raise ValueError(f"`score_q` is used by estimator='exact' only; got estimator={estimator!r}.")
    width = _width(kernel)
    if estimator == "ke" and debias and x.shape[0] < 3:
        raise ValueError("`x` must hold at least 3 samples for debias=True; use debias=False or more samples.")
    if estimator == "ge":
        return SteinGradient(x, score, width=width, engine=engine)
    return (KernelSmoothed if estimator == "ke" else KernelizedDifference)(x, evaluate_score(score, x), width=width, engine=engine)


def _width(kernel):
    kernel = as_kernel(kernel)
    if not isinstance(kernel, RBF):
        raise ValueError(
            f"`kernel` of the score difference must be 'rbf' (KE and GE smooth with a Gaussian); got {kernel.name!r}."
        )
    if np.ndim(kernel.bandwidth):
        raise ValueError("`kernel` of the score difference must have one bandwidth, not one per slice.")
    return None if kernel.bandwidth == "median" else kernel.bandwidth


def _differentiable(name, score, estimator):
    if score_is_array(score):
        raise ValueError(
            f"`{name}` must be a callable or a model for estimator={estimator!r}, which differentiates it; got an array."
        )
    return score if hasattr(score, "score_along") else Model.from_score(getattr(score, "score", score))


def _along(name, model, y, r):
    """A model's derivative of its score along r, checked like the score itself."""
    return evaluate_score(lambda points: model.score_along(points, r), y, f"{name}.score_along")


def _kernel_blocks(y, x, width, diagonal=np.nan):
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
    """What the operators of all directions r share: the samples, the kernel between them and the separable parts of the terms."""

    own = ()  # names of what belongs to each r, (m, ...)

    def __init__(self, smoother, r, debias, squares=False):
        x = smoother.x
        self.precision = 1.0 / smoother.width**2
        self.r = r
        self.x = x
        self.x_rows = np.ascontiguousarray(x.T)
        self.eta = self.precision * product(r, x)
        self.v = product(r, smoother.coefficients) - self.eta
        self.debias = debias
        self.matrix = smoother.matrix
        self.diagonal_value = 0.0 if debias else 1.0
        if self.matrix is None:
            self.blocks = lambda: _with_squares(_kernel_blocks(x, x, smoother.width, diagonal=self.diagonal_value), squares)
            if x.shape[0] <= DENSE_LIMIT:
                stored = list(self.blocks())
                self.blocks = lambda: stored
        self.weight = self._kernel_sums()

    def _kernel_sums(self, square=False):
        """Sums of the rows of K, or of its entries squared."""
        if self.matrix is not None:
            return self._times_kernel(np.ones((1, self.x.shape[0])), square)[0]
        return np.concatenate([(k2 if square else k).sum(axis=1) for _, k, k2 in self.blocks()])

    def _times_kernel(self, rows, square=False):
        """``rows @ K`` (K is symmetric), or with the entries of K squared."""
        if self.matrix is not None:
            return self.matrix.times(rows, own=self.diagonal_value, square=square)
        if self.x.shape[0] <= _BLOCK:
            ((_, k, k2),) = self.blocks()
            return product(rows, k2 if square else k)
        out = np.empty((rows.shape[0], self.x.shape[0]))
        for block, k, k2 in self.blocks():
            out[:, block] = product(rows, k2 if square else k)
        return out

    def restricted(self, mask):
        """The operators picked by a boolean mask; what all r share stays shared."""
        some = copy.copy(self)
        for name in ("r", "eta", "v", *self.own):
            setattr(some, name, getattr(self, name)[mask])
        return some


def _with_ones(rows):
    """Another row, of ones: its product with the kernel is the kernel's sums."""
    return np.concatenate([rows, np.ones((1, rows.shape[1]))])


def _second_moment_sum(matrix, p_rows, q_rows):
    """The sum over distinct j, i, i' in `KernelSmoothed.second_moment`, by products with the kernel on a GPU."""
    *smoothed, weight = matrix.times(_with_ones(p_rows), own=0.0)
    f_rows = np.array(smoothed) + weight * q_rows
    *smoothed, weight = matrix.times(_with_ones(p_rows), own=0.0, square=True)
    cross = product(np.array(smoothed), q_rows)
    return product(f_rows, f_rows) - cross - cross.T - product(p_rows * weight, p_rows) - product(q_rows * weight, q_rows)


def _with_squares(blocks, wanted):
    for block, k in blocks:
        yield block, k, k * k if wanted else None


class _SmoothedSensitivity(_KernelOperators):
    """Products ``H_r v_r`` for KE without forming any gradient: n x n products shared by all r, O(n^2) for each r.

    With ``v_i = s_i.r - x_i.r / H^2``, ``eta_j = x_j.r / H^2`` and ``alpha = x.v``, the gradient at sample j is, up to
    ``1 / (n H^2)``,  ``sum_i b_ij``  with  ``b_ij = K_ij [ (v_i + eta_j) (x_i - x_j) + r ]``.
    Debiased, the diagonal of K is zero and ``sum_ij b_ij b_ij^T`` is taken off. There ``(v_i + eta_j)^2`` is multiplied out: the squares
    need products with K^2 that are the same for every vector, and only the mixed term needs new ones.
    """

    def __init__(self, smoother, r, debias):
        super().__init__(smoother, r, debias, squares=debias)
        n = self.x.shape[0]
        self.own = ("drift", "squares", "diagonal", "linear") if debias else ("drift",)
        self.shift_rows = self._times_kernel(self.x_rows)
        self.shift = np.ascontiguousarray(self.shift_rows.T)
        self.drift = self._times_kernel(self.v) + self.eta * self.weight
        self.scale = self.precision**2 / (n * (n - 1.0) * (n - 2.0) if debias else n**3)
        if debias:
            self._prepare_self_terms()

    def _prepare_self_terms(self):
        v, eta, r = self.v, self.eta, self.r
        weight = self._kernel_sums(square=True)
        self.squares = v * v + eta * eta
        self.shift2_rows = self._times_kernel(self.x_rows, square=True)
        self.shift2 = np.ascontiguousarray(self.shift2_rows.T)
        smoothed_squares, smoothed_v, smoothed_eta = np.split(
            self._times_kernel(np.concatenate([self.squares, v, eta]), square=True), 3
        )
        self.diagonal = self.squares * weight + smoothed_squares + 2.0 * (v * smoothed_eta + eta * smoothed_v)
        # sum_ij K_ij^2 (v_i + eta_j) (x_i - x_j), and half of sum_ij K_ij^2 r: both meet r on one side.
        linear = v * weight + smoothed_eta - smoothed_v - eta * weight
        self.linear = product(linear, self.x_rows) + 0.5 * weight.sum() * r

    def __call__(self, u):
        alpha = product(u, self.x)
        along = np.einsum("md,md->m", self.r, u)
        both = _both_products(self.eta, self.v, alpha)  # eta alpha, then v alpha
        m = alpha.shape[0]
        z = self._times_kernel(both[m:])
        spread = product(u, self.shift)
        _finish_gradients(z, self.eta, spread, alpha, self.drift, self.weight, along)
        back = self._times_kernel(z)
        _finish_adjoint(back, self.v, self.drift, z, self.eta, spread)
        out = product(back, self.x_rows)
        out += product(spread, self.shift_rows)
        out += np.einsum("mn,n->m", z, self.weight)[:, None] * self.r
        if self.debias:
            out -= self._self_terms(u, alpha, both, along)
        return self.scale * out

    def _self_terms(self, u, alpha, both, along):
        """``sum_ij b_ij (b_ij.u)``."""
        smoothed = self._times_kernel(both, square=True)
        spread = product(u, self.shift2)
        _finish_self_terms(spread, self.diagonal, self.squares, alpha, self.v, self.eta, smoothed)
        out = product(spread, self.x_rows)
        out -= product(alpha, self.shift2_rows)
        return out + self.linear * along[:, None] + np.einsum("md,md->m", self.linear, u)[:, None] * self.r


# Sums and products of (m, n) arrays in one pass and in place: fresh arrays of that size cost more than the arithmetic.


@compiled
def _both_products(a, b, c):
    m, n = c.shape
    out = np.empty((2 * m, n))
    for q in range(m):
        for i in range(n):
            out[q, i] = a[q, i] * c[q, i]
            out[m + q, i] = b[q, i] * c[q, i]
    return out


@compiled
def _finish_gradients(z, eta, spread, alpha, drift, weight, along):
    """``z += eta spread - alpha drift + weight along``."""
    for q in range(z.shape[0]):
        for i in range(z.shape[1]):
            z[q, i] += eta[q, i] * spread[q, i] - alpha[q, i] * drift[q, i] + weight[i] * along[q]


@compiled
def _finish_adjoint(back, v, drift, z, eta, spread):
    """``back = v back - drift z`` and ``spread = eta z``."""
    for q in range(z.shape[0]):
        for i in range(z.shape[1]):
            back[q, i] = v[q, i] * back[q, i] - drift[q, i] * z[q, i]
            spread[q, i] = eta[q, i] * z[q, i]


@compiled
def _finish_self_terms(spread, diagonal, squares, alpha, v, eta, smoothed):
    """``spread = diagonal alpha - squares spread - 2 (v K2 eta alpha + eta K2 v alpha)`` and ``alpha = squares alpha``."""
    m = alpha.shape[0]
    for q in range(m):
        for i in range(alpha.shape[1]):
            mixed = v[q, i] * smoothed[q, i] + eta[q, i] * smoothed[m + q, i]
            spread[q, i] = diagonal[q, i] * alpha[q, i] - squares[q, i] * spread[q, i] - 2.0 * mixed
            alpha[q, i] *= squares[q, i]


class _KernelizedSensitivity(_KernelOperators):
    """Products ``G_r u_r`` for the estimator "ksd", O(n^2) for each r.

    ``G_r`` is the mean over pairs of  ``-K [ c'' r r^T - P c' (r e^T + e r^T) + c (P^2 e e^T - P I) ]``,  ``e = x_i - x_j``, where
    ``c = (v_i + eta_j)(v_j + eta_i) + P`` is the Stein term along r over K, a polynomial in ``e.r`` with derivatives c' and c''.
    """

    own = ("rows", "tilt")

    def __init__(self, smoother, r, debias):
        super().__init__(smoother, r, debias)
        n = self.x.shape[0]
        self.rows = self._smoothed_stein(np.ones_like(self.v))
        tilt = self.v - self.eta
        self.tilt = 2.0 * self.precision * product(tilt * self.weight - self._times_kernel(tilt), self.x_rows)
        self.scale = 1.0 / (n * (n - 1.0) if debias else n**2)

    def _smoothed_stein(self, alpha):
        """``sum_j c_ij K_ij alpha_j``."""
        v, eta = self.v, self.eta
        stacked = np.concatenate([v * alpha, eta * alpha, v * eta * alpha, alpha])
        kv, keta, kboth, k = np.split(self._times_kernel(stacked), 4)
        return v * kv + eta * keta + kboth + (v * eta + self.precision) * k

    def __call__(self, u):
        alpha = product(u, self.x)
        along = np.einsum("md,md->m", self.r, u)[:, None]
        stretch = 2.0 * product(self.rows * alpha - self._smoothed_stein(alpha), self.x_rows)
        out = self.precision * self.rows.sum(axis=1)[:, None] * u - self.precision**2 * stretch
        out += self.precision * (np.einsum("md,md->m", self.tilt, u)[:, None] * self.r + along * self.tilt)
        out += 2.0 * self.precision**2 * self.weight.sum() * along * self.r
        return self.scale * out


def _stein_right_side(x, width):
    """``B_j = sum_i grad_{x_i} k(x_i, x_j)``, (n, d)."""
    out = np.empty_like(x)
    x_rows = np.ascontiguousarray(x.T)
    for block, k in _kernel_blocks(x, x, width, diagonal=1.0):
        out[block] = (k.sum(axis=1)[:, None] * x[block] - product(k, x_rows)) / width**2
    return out


def _ridge_cholesky(x, width, eta):
    """``(K + eta I)^(-1) B`` by a Cholesky factorisation."""
    from scipy.linalg import cho_factor, cho_solve

    k = np.concatenate([block for _, block in _kernel_blocks(x, x, width, diagonal=1.0)])
    k[np.diag_indices_from(k)] += eta
    return cho_solve(cho_factor(k, overwrite_a=True, check_finite=False), _stein_right_side(x, width), check_finite=False)


def _ridge_on_device(matrix, x, width, eta):
    """The same by conjugate gradients on a GPU."""
    x_rows = np.ascontiguousarray(x.T)
    *smoothed, weight = matrix.times(_with_ones(x_rows), own=1.0)
    solution = matrix.ridge_solve((weight * x_rows - np.array(smoothed)) / width**2, eta, max_steps=_MOST_STEPS)
    if solution is None:
        raise _no_convergence(_MOST_STEPS)
    return np.ascontiguousarray(solution.T)


def _no_convergence(steps):
    return RuntimeError(f"conjugate gradients for estimator='ge' did not converge in {steps} steps; use a larger ridge `eta`.")


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
        image = np.concatenate([product(k, rows) for _, k in _kernel_blocks(x, x, width, diagonal=1.0)]) + eta * direction
        curvature = np.einsum("nd,nd->d", direction, image)
        step = np.divide(norms, curvature, out=np.zeros_like(norms), where=curvature > 0)
        solution += step * direction
        residual -= step * image
        updated = np.einsum("nd,nd->d", residual, residual)
        direction = residual + np.divide(updated, norms, out=np.zeros_like(norms), where=norms > 0) * direction
        norms = updated
    raise _no_convergence(max_steps)
