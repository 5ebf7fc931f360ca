"""Closed forms of the paper's quantities for Gaussian p = N(mu_p, C_p) and q = N(mu_q, C_q).

Notation: P = C^-1; the score of p is ``s_p(x) = -P_p (x - mu_p)``; y = x.g, ybar = g.mu_q, v =
g.C_q.g, z = y - ybar. Nothing here comes from the package. Each form is checked by quadrature in
test_closed_forms.py.
"""

from dataclasses import dataclass

import numpy as np


def random_covariance(rng, d):
    """A covariance with eigenvalues between 0.4 and 2.5 in random directions."""
    axes = random_rotation(rng, d)
    return axes @ np.diag(np.exp(rng.uniform(-0.9, 0.9, d))) @ axes.T


def random_rotation(rng, d):
    """A random orthogonal matrix."""
    axes, upper = np.linalg.qr(rng.standard_normal((d, d)))
    return axes * np.sign(np.diag(upper))


def random_units(rng, m, d):
    """m random unit rows."""
    rows = rng.standard_normal((m, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def random_pair(rng, d):
    """A random p and q, means of order one apart."""
    return Pair(
        rng.normal(0, 0.5, d),
        random_covariance(rng, d),
        rng.normal(0, 0.5, d),
        random_covariance(rng, d),
    )


def complement(g):
    """Rows a_1 .. a_{d-1} that complete the unit vector g to an orthogonal matrix."""
    axes, _ = np.linalg.qr(np.column_stack([g, np.eye(len(g))[:, np.argsort(np.abs(g))[:-1]]]))
    return axes[:, 1:].T


def hermite(order):
    """Nodes and weights of the expectation under N(0, 1)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    return nodes, weights / weights.sum()


def hermite_grid(mean, cov, order):
    """Nodes (order^d, d) and weights of expectations under N(mean, cov); `cov` may be singular."""
    mean = np.asarray(mean, dtype=float)
    d = len(mean)
    nodes, weights = hermite(order)
    grid = np.stack(np.meshgrid(*[nodes] * d, indexing="ij"), axis=-1).reshape(-1, d)
    product = (
        np.stack(np.meshgrid(*[weights] * d, indexing="ij"), axis=-1).reshape(-1, d).prod(axis=1)
    )
    values, axes = np.linalg.eigh(cov)
    return mean + grid @ (axes * np.sqrt(np.maximum(values, 0.0))).T, product


@dataclass(frozen=True)
class Pair:
    """The model p and the sampling distribution q, both Gaussian."""

    mu_p: np.ndarray
    C_p: np.ndarray
    mu_q: np.ndarray
    C_q: np.ndarray

    def sample(self, n, rng):
        """n samples of q."""
        return self.mu_q + rng.standard_normal((n, len(self.mu_q))) @ np.linalg.cholesky(self.C_q).T

    def score_p(self, x):
        """s_p(x) = -P_p (x - mu_p), row by row."""
        return -(x - self.mu_p) @ np.linalg.inv(self.C_p)

    def score_q(self, x):
        """s_q(x) = -P_q (x - mu_q), row by row."""
        return -(x - self.mu_q) @ np.linalg.inv(self.C_q)

    # The score difference -------------------------------------------------------------------------

    @property
    def A(self):
        """f = s_p - s_q is affine, ``f(x) = A x + c``, with the symmetric ``A = P_q - P_p``."""
        return np.linalg.inv(self.C_q) - np.linalg.inv(self.C_p)

    @property
    def c(self):
        """The constant of f: ``P_p mu_p - P_q mu_q``."""
        return np.linalg.solve(self.C_p, self.mu_p) - np.linalg.solve(self.C_q, self.mu_q)

    @property
    def mean_f(self):
        """``E_q f = A mu_q + c = P_p (mu_p - mu_q)``, since s_q has mean zero under q."""
        return np.linalg.solve(self.C_p, self.mu_p - self.mu_q)

    def S(self):
        """``S = E_q f f^T = A C_q A + m m^T``.

        The covariance of an affine map plus the outer square of its mean m.
        """
        return self.A @ self.C_q @ self.A + np.outer(self.mean_f, self.mean_f)

    def psd_r(self, r):
        """``PSD_r = E_q (r.f)^2 = r.S.r``."""
        return r @ self.S() @ r

    def psd(self):
        """``PSD = sum of PSD_r over an orthogonal basis = tr S``."""
        return np.trace(self.S())

    def H(self, r):
        """``H_r = A r r^T A`` has rank one: ``grad (r.f) = A r`` everywhere.

        Its top eigenvector is along A r.
        """
        return np.outer(self.A @ r, self.A @ r)

    # One slice ------------------------------------------------------------------------------------

    def optimal_test_function(self, r, g):
        """alpha, beta, ybar, v of ``h*(y) = E[r.f | x.g = y] = alpha + beta (y - ybar)``.

        Here y ~ N(ybar, v).

        r.f and y are jointly Gaussian with ``E r.f = r.m``, ``cov(r.f, y) = r.A C_q g`` and
        ``var y = v = g.C_q.g``; the conditional mean is the regression line, alpha = r.m and beta =
        r.A C_q g / v.
        """
        v = g @ self.C_q @ g
        return r @ self.mean_f, r @ self.A @ self.C_q @ g / v, g @ self.mu_q, v

    def ssd(self, r, g):
        """``S_rg = E h*^2 = alpha^2 + beta^2 v``."""
        alpha, beta, _, v = self.optimal_test_function(r, g)
        return alpha**2 + beta**2 * v

    def sksd(self, r, g, h):
        """``SK_rg = E h*(y) k(y, y') h*(y')`` for an RBF of width h.

        It is ``kappa (alpha^2 + beta^2 v^2 / (h^2 + 2 v))``.

        With z, z' iid N(0, v) put t = z - z' ~ N(0, 2v) and u = (z + z')/2 ~ N(0, v/2),
        independent; z z' = u^2 - t^2/4. Weighting t by exp(-t^2/(2h^2)) gives
        ``kappa = E k = (1 + 2v/h^2)^(-1/2)`` and leaves t a Gaussian of variance
        ``2v h^2/(h^2 + 2v)``. So ``E (z + z') k = 0`` and
        ``E z z' k = kappa (v/2 - v h^2 / (2 (h^2 + 2v))) = kappa v^2 / (h^2 + 2v)``.
        """
        alpha, beta, _, v = self.optimal_test_function(r, g)
        kappa = (1 + 2 * v / h**2) ** -0.5
        return kappa * (alpha**2 + beta**2 * v**2 / (h**2 + 2 * v))

    def sksd_for(self, r, g, kernel, order=80):
        """SK_rg for any translation-invariant kernel(t), by one integral over t (see `sksd`).

        ``E k h* h*' = alpha^2 E k + beta^2 (v/2 E k - E t^2 k / 4)`` with t ~ N(0, 2v).
        """
        alpha, beta, _, v = self.optimal_test_function(r, g)
        nodes, weights = hermite(order)
        t = np.sqrt(2 * v) * nodes
        k = kernel(t)
        return alpha**2 * (weights @ k) + beta**2 * (
            v / 2 * (weights @ k) - weights @ (t**2 * k) / 4
        )

    def projected(self, r, g):
        """Mean and covariance of the pair (s_p(x).r, x.g) under q: all that mu_ij depends on.

        s_p.r is affine in x with gradient -P_p r, mean ``-r.P_p (mu_q - mu_p) = r.m``.
        """
        rows = np.array([-np.linalg.solve(self.C_p, r), g])
        return np.array([r @ self.mean_f, g @ self.mu_q]), rows @ self.C_q @ rows.T

    def witness_variance(self, r, g, h, order=80):
        """sigma_h^2 = Var_x E_x' mu(x, x') of Theorem 6, RBF of width h, and the mean E_x E_x' mu.

        ``E_x' mu(x, x') = s w(y) + a w'(y)`` with ``w(y) = E h*(y') k(y', y)``. Completing the
        square in z', ``w = h/sqrt(h^2+v) exp(-z^2/(2(h^2+v))) (alpha + beta z v/(h^2+v))``, hence
        ``w' = h/sqrt(h^2+v) exp(..) (beta v/(h^2+v) - z/(h^2+v) (alpha + beta z v/(h^2+v)))``.
        Given y, s is Gaussian with the regression line as mean and a constant variance, which
        leaves one integral over y.
        """
        alpha, beta, _, v = self.optimal_test_function(r, g)
        (mean_s, _), cov = self.projected(r, g)
        nodes, weights = hermite(order)
        z = np.sqrt(v) * nodes
        scale = h / np.sqrt(h**2 + v) * np.exp(-(z**2) / (2 * (h**2 + v)))
        line = alpha + beta * z * v / (h**2 + v)
        w = scale * line
        slope = scale * (beta * v / (h**2 + v) - z / (h**2 + v) * line)
        given_y = (mean_s + cov[0, 1] / v * z) * w + (r @ g) * slope
        variance_s = cov[0, 0] - cov[0, 1] ** 2 / v
        mean = weights @ given_y
        return weights @ (given_y**2 + variance_s * w**2) - mean**2, mean

    # Poincare constants ---------------------------------------------------------------------------

    def conditional_covariance(self, g):
        """Covariance of the other coordinates ``G_\\d x`` given x.g.

        It is ``G_\\d (C_q - C_q g g^T C_q / v) G_\\d^T``.
        """
        rest = complement(g)
        column = self.C_q @ g
        return rest @ (self.C_q - np.outer(column, column) / (g @ column)) @ rest.T

    def poincare(self, g):
        """The Poincare constant of q given x.g, the same for every value of x.g.

        N(0, I) has constant 1; for N(0, C), x = C^(1/2) u turns grad_u into C^(1/2) grad_x, and
        ``|C^(1/2) grad|^2 <= lambda_max(C) |grad|^2``, attained by a linear function along the top
        eigenvector.
        """
        return np.linalg.eigvalsh(self.conditional_covariance(g))[-1]

    def poincare_bound(self):
        """Upper bound of C_sup: ``lambda_max(C_q)``.

        Conditioning subtracts a positive matrix from C_q, and the rows of G_\\d are orthonormal.
        """
        return np.linalg.eigvalsh(self.C_q)[-1]

    # Population values of the kernel-smoothed estimator, RBF of width H ---------------------------

    def _smoothing(self, width):
        """M = C_q + H^2 I, W = C_q M^-1, the norm of Z, V, and the norm of Z^2 under q.

        The norm of Z is ``det(I + C_q/H^2)^(-1/2)``.

        E_q k(x, y) = Z(y) = norm exp(-z.M^-1.z/2), z = y - mu_q (a convolution of Gaussians).
        Weighting q by Z^2 leaves a Gaussian with covariance ``V = (P_q + 2 M^-1)^-1`` and the total
        ``norm^2 det(I + 2 C_q M^-1)^(-1/2)``.
        """
        eye = np.eye(len(self.mu_q))
        M = self.C_q + width**2 * eye
        W = self.C_q @ np.linalg.inv(M)
        norm = np.linalg.det(eye + self.C_q / width**2) ** -0.5
        V = np.linalg.inv(np.linalg.inv(self.C_q) + 2 * np.linalg.inv(M))
        return M, W, norm, V, norm**2 * np.linalg.det(eye + 2 * W) ** -0.5

    def smoothed_f(self, y, width):
        """``E_q f(x) k(x, y) = Z(y) (m + A W (y - mu_q))``, row by row.

        q(x) k(x, y) / Z(y) is the Gaussian with mean ``mu_q + W (y - mu_q)``; f is affine, so only
        that mean counts.
        """
        M, W, norm, _, _ = self._smoothing(width)
        z = y - self.mu_q
        Z = norm * np.exp(-0.5 * np.sum(z @ np.linalg.inv(M) * z, axis=-1, keepdims=True))
        return Z * (self.mean_f + z @ (self.A @ W).T)

    def smoothed_S(self, width):
        """``E_y f_k f_k^T = total (m m^T + A W V W^T A)``.

        An affine map under the Gaussian N(0, V) of `_smoothing`.
        """
        _, W, _, V, total = self._smoothing(width)
        B = self.A @ W
        return total * (np.outer(self.mean_f, self.mean_f) + B @ V @ B.T)

    def smoothed_gradient(self, y, r, width):
        """``grad_y r.f_k(y) = Z(y) (w - M^-1 z (rho + w.z))`` at each row, by the product rule.

        Here rho = r.m and w = W^T A r.
        """
        M, W, norm, _, _ = self._smoothing(width)
        z = y - self.mu_q
        w = W.T @ self.A @ r
        Z = norm * np.exp(-0.5 * np.sum(z @ np.linalg.inv(M) * z, axis=-1, keepdims=True))
        return Z * (w - z @ np.linalg.inv(M) * (r @ self.mean_f + z @ w)[..., None])

    def smoothed_H(self, r, width):
        """``E_y (grad r.f_k)(grad r.f_k)^T``.

        It has full rank although H_r has rank one, since Z(y) varies too.

        Under z ~ N(0, V): ``E z (rho + w.z) = V w`` and, by Isserlis,
        ``E z z^T (rho + w.z)^2 = (rho^2 + w.V.w) V + 2 V w w^T V``.
        """
        M, W, _, V, total = self._smoothing(width)
        w, rho, inverse = W.T @ self.A @ r, r @ self.mean_f, np.linalg.inv(M)
        cross = np.outer(w, inverse @ V @ w)
        square = (rho**2 + w @ V @ w) * V + 2 * np.outer(V @ w, V @ w)
        return total * (np.outer(w, w) - cross - cross.T + inverse @ square @ inverse)

    # Population values of the matrices of second order --------------------------------------------

    def kernel_M(self, width, order=24):
        """``E f(x) k(x, x') f(x')^T``: the mean over x' is `smoothed_f`, then a quadrature."""
        nodes, weights = hermite_grid(self.mu_q, self.C_q, order)
        f = nodes @ self.A.T + self.c
        return np.einsum("i,ia,ib->ab", weights, f, self.smoothed_f(nodes, width))

    def kernel_G(self, r, width, order=16):
        """``E f_r(x) f_r(x') grad grad'^T k(x, x')`` by a quadrature over both."""
        nodes, weights = hermite_grid(self.mu_q, self.C_q, order)
        f = weights * (nodes @ self.A @ r + self.c @ r)
        e = nodes[:, None] - nodes
        k = np.exp(-np.sum(e**2, axis=-1) / (2 * width**2))
        both = f[:, None] * f * k
        return (
            np.eye(len(r)) * both.sum() / width**2
            - np.einsum("ij,ija,ijb->ab", both, e, e) / width**4
        )


def stein_terms(pairs, others, a, kernel, h):
    """mu for all pairs of points, given as rows (s, y); kernel "rbf" or "imq" of width h."""
    t = pairs[:, 1, None] - others[None, :, 1]
    if kernel == "rbf":
        k = np.exp(-(t**2) / (2 * h**2))
        k1, k2 = -t / h**2 * k, (t**2 / h**4 - 1 / h**2) * k
    else:
        base = 1 + t**2 / h**2
        k = base**-0.5
        k1, k2 = -t / h**2 * base**-1.5, -(base**-1.5) / h**2 + 3 * t**2 / h**4 * base**-2.5
    s, other = pairs[:, 0, None], others[None, :, 0]
    return s * other * k + a * (other - s) * k1 - a**2 * k2


def stein_quadrature(pair, r, g, kernel, h, order):
    """The Stein matrix on a quadrature grid of (s, y) under q, and the weights of the grid."""
    nodes, weights = hermite_grid(*pair.projected(r, g), order)
    return stein_terms(nodes, nodes, r @ g, kernel, h), weights


def stein_spectrum(pair, r, g, kernel, h, order=24):
    """Eigenvalues c_j of mu under q (Theorem 6), largest first.

    Those of ``sqrt(w_i) mu_ij sqrt(w_j)`` on the grid.
    """
    matrix, weights = stein_quadrature(pair, r, g, kernel, h, order)
    root = np.sqrt(weights)
    return np.linalg.eigvalsh(root[:, None] * matrix * root)[::-1]
