"""Gauss-Newton for the sliced discrepancy of an ICA model, in the coordinates of its sources.

In the coordinates ``u = A x`` (``A = W^-1``) the model's score is ``psi(u)``, one source at a time, and all d^2 slices
``r = e_l``, ``g = e_k`` are taken. The discrepancy of a slice is the squared norm of its Stein residual, the function

    Q_lk(t) = mean_i psi(u_il) k(u_ik, t) + [l = k] mean_i k'(u_ik, t).

A relative change ``A -> (I + E) A`` changes the score, and at the model, where the sources z are independent, the residuals by

    l != k:  E_kl c - kappa E_lk b        c(t) = E psi(z) k(z, t),  b(t) = E z k(z, t),  kappa = -E psi'(z)
    l  = k:  E_ll e                       e(t) = E [psi(z) + z psi'(z)] k(z, t).

With these expected derivatives in place of those of a batch (as in Fisher scoring) the Gauss-Newton step falls apart into pairs
of sources, and each pair into its symmetric part, of curvature ``|c - kappa b|^2``, and its antisymmetric part, a rotation, of
curvature ``|c + kappa b|^2``: about a hundred times less for Student-t(5) sources, so that plain gradients hardly move it. A
batch's own derivatives add products of two noises, d of them for each entry of E, that bury it altogether.

The inner product of Q_lk with a function ``f(t) = E h(z) k(z, t)`` is ``mean_i psi(u_il) f(u_ik) + [l = k] mean_i f'(u_ik)``,
so that a step costs two (d, n) x (n, d) products. No step moves the sources by more than `_LONGEST_STEP` of their size.
"""

import numba
import numpy as np

from ..compute.jit import compiled, parallel
from ..compute.linalg import product
from ..kernels import RBF
from ..models import StudentT

_LONGEST_STEP = 0.3
# Widths within which functions are tabulated; beyond, the kernel to nearly all sources is nothing.
_REACH = 40.0
_NODES = 50  # of a table, per width; linear interpolation is then good to 5e-5


class Scoring:
    """Gauss-Newton steps for sources of Student's t law with `df` degrees of freedom and an RBF `kernel`."""

    def __init__(self, df, kernel):
        if not isinstance(kernel, RBF) or np.ndim(kernel.bandwidth):
            raise ValueError(
                "`kernel` of method='sksd-scoring' must be 'rbf' or RBF with one bandwidth."
            )
        from scipy.special import stdtrit

        quantiles = stdtrit(df, (np.arange(2000) + 0.5) / 2000)
        self.median = stdtrit(df, 0.75)  # of |z|
        h = kernel.bandwidths(quantiles[None])[0]
        law = StudentT(1, df)
        step = 0.05 * min(h, 1.0)
        z = np.arange(-_REACH * h, _REACH * h + step, step)[:, None]
        psi, slope = law.score(z)[:, 0], law.score_along(z, np.ones(1))[:, 0]
        mass = np.exp(law.log_density(z)) * step
        kappa = -(mass @ slope)
        z = z[:, 0]
        rows = mass * np.stack([psi - kappa * z, psi + kappa * z, psi + z * slope])
        self.spacing = h / _NODES
        self.nodes = np.arange(-_REACH * h, _REACH * h, self.spacing)
        # The functions and, for the last one, its derivative.
        self.tables = np.empty((4, self.nodes.size))
        for begin in range(0, self.nodes.size, 1000):
            t = (self.nodes[begin : begin + 1000, None] - z) / h
            k = np.exp(-0.5 * t**2)
            self.tables[:3, begin : begin + 1000] = rows @ k.T
            self.tables[3, begin : begin + 1000] = -(t * k) @ rows[2] / h
        self.curvatures = np.array(
            [rows[j] @ np.interp(z, self.nodes, self.tables[j]) for j in range(3)]
        )
        self.psi = lambda u: StudentT(u.shape[1], df).score(u)

    def step(self, u):
        """The step E for sources `u`, (n, d), to be taken off, and by how much it lowers the sum of the discrepancies."""
        n, d = u.shape
        psi = np.ascontiguousarray(self.psi(u).T)
        stretch, turn, own = self.curvatures
        symmetric = product(psi, self._function(0, u).T) / n
        symmetric = 0.5 * (symmetric + symmetric.T) / stretch
        turning = product(psi, self._function(1, u).T) / n
        turning = 0.5 * (turning.T - turning) / turn
        diagonal = (
            np.einsum("dn,nd->d", psi, self._function(2, u)) + self._function(3, u).sum(axis=0)
        ) / (n * own)
        np.fill_diagonal(symmetric, 0.0)
        gain = (
            stretch * np.sum(symmetric**2) + turn * np.sum(turning**2) + own * np.sum(diagonal**2)
        )
        step = symmetric + turning + np.diag(diagonal)
        length = np.linalg.norm(step) / np.sqrt(d)
        return step * min(1.0, _LONGEST_STEP / length if length > 0 else 1.0), float(gain)

    def _function(self, j, u):
        return _interpolate(u, self.tables[j], self.nodes[0], 1.0 / self.spacing)


@parallel
def _interpolate(u, table, first, density):
    out = np.empty_like(u)
    for i in numba.prange(u.shape[0]):
        _interpolate_row(u[i], table, first, density, out[i])
    return out


@compiled
def _interpolate_row(u, table, first, density, out):
    last = table.size - 1
    for j in range(u.size):
        place = (u[j] - first) * density
        out[j] = 0.0
        if 0.0 <= place < last:
            k = int(place)
            share = place - k
            out[j] = (1.0 - share) * table[k] + share * table[k + 1]
