"""Gauss-Newton steps for the sliced discrepancy of an ICA model, in the coordinates of its sources.

In the coordinates ``u = A x`` (``A = W^-1``) the model's score is ``psi(u)``, one source at a time.
All d^2 slices ``r = e_l``, ``g = e_k`` are used. The discrepancy of a slice is the squared norm of
its Stein residual, the function

    Q_lk(t) = mean_i psi(u_il) k(u_ik, t) + [l = k] mean_i k'(u_ik, t).

A relative change ``A -> (I + E) A`` changes the score. At the model, where the sources z are
independent, it changes the residuals by

    l != k:  E_kl c - kappa E_lk b
    l  = k:  E_ll e

with

    b(t) = E z k(z, t)           e(t) = E [psi(z) + z psi'(z)] k(z, t)
    c(t) = E psi(z) k(z, t)      kappa = -E psi'(z).

These expected derivatives take the place of those of a batch, as in Fisher scoring. Then the
Gauss-Newton step separates into pairs of sources, and each pair into two parts: a symmetric one of
curvature ``|c - kappa b|^2``, and an antisymmetric one, a rotation, of curvature
``|c + kappa b|^2``. The latter is about a hundred times smaller for Student-t(5) sources, so that
plain gradients hardly move it. The derivatives of a batch would add products of two noises, d of
them for each entry of E, and these would hide it completely.

The inner product of Q_lk with a function ``f(t) = E h(z) k(z, t)`` is
``mean_i psi(u_il) f(u_ik) + [l = k] mean_i f'(u_ik)``. So a step costs two (d, n) x (n, d)
products. No step moves the sources by more than the fraction `_LONGEST_STEP` of their size.
"""

from __future__ import annotations

import numba
import numpy as np

from .._typing import Array
from .._validate import ArgumentError
from ..compute.jit import compiled, parallel
from ..compute.linalg import product
from ..kernels import RBF, Kernel
from ..models import StudentT

_LONGEST_STEP = 0.3
# Functions are tabulated within this many bandwidths; beyond, the kernel to the sources vanishes.
_REACH = 40.0
_NODES = 50  # of a table, per bandwidth; linear interpolation is then accurate to 5e-5


class Scoring:
    """Gauss-Newton steps for Student-t sources with `df` degrees of freedom and an RBF `kernel`."""

    def __init__(self, df: float, kernel: Kernel) -> None:
        if not isinstance(kernel, RBF) or np.ndim(kernel.bandwidth):
            raise ArgumentError(
                "kernel", "of method='sksd-scoring' must be 'rbf' or RBF with one bandwidth"
            )
        from scipy.special import stdtrit

        quantiles = stdtrit(df, (np.arange(2000) + 0.5) / 2000)
        self.median = float(stdtrit(df, 0.75))  # of |z|
        h = kernel.bandwidths(quantiles[None])[0]
        source = StudentT(1, df)
        step = 0.05 * min(h, 1.0)
        z = np.arange(-_REACH * h, _REACH * h + step, step)[:, None]
        psi, slope = source.score(z)[:, 0], source.score_along(z, np.ones(1))[:, 0]
        mass = np.exp(source.log_density(z)) * step
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
        self.df = df

    def step(self, u: Array) -> tuple[Array, float]:
        """The step E for sources `u`, (n, d), to be subtracted, and how far it lowers the loss."""
        n, d = u.shape
        psi = np.ascontiguousarray(StudentT(d, self.df).score(u).T)
        stretch, turn, scale = self.curvatures
        symmetric = product(psi, self._function(0, u).T) / n
        symmetric = 0.5 * (symmetric + symmetric.T) / stretch
        turning = product(psi, self._function(1, u).T) / n
        turning = 0.5 * (turning.T - turning) / turn
        diagonal = (
            np.einsum("dn,nd->d", psi, self._function(2, u)) + self._function(3, u).sum(axis=0)
        ) / (n * scale)
        np.fill_diagonal(symmetric, 0.0)
        gain = (
            stretch * np.sum(symmetric**2) + turn * np.sum(turning**2) + scale * np.sum(diagonal**2)
        )
        step = symmetric + turning + np.diag(diagonal)
        length = np.linalg.norm(step) / np.sqrt(d)
        return step * min(1.0, _LONGEST_STEP / length if length > 0 else 1.0), float(gain)

    def _function(self, j: int, u: Array) -> Array:
        return _interpolate(u, self.tables[j], self.nodes[0], 1.0 / self.spacing)


@parallel
def _interpolate(u: Array, table: Array, first: float, density: float) -> Array:
    out = np.empty_like(u)
    for i in numba.prange(u.shape[0]):
        _interpolate_row(u[i], table, first, density, out[i])
    return out


@compiled
def _interpolate_row(u: Array, table: Array, first: float, density: float, out: Array) -> None:
    last = table.size - 1
    for j in range(u.size):
        place = (u[j] - first) * density
        out[j] = 0.0
        if 0.0 <= place < last:
            k = int(place)
            fraction = place - k
            out[j] = (1.0 - fraction) * table[k] + fraction * table[k + 1]
