"""Kernels of the whole vector in time linear in the samples, from sums over groups of them.

A kernel of ``x - x'`` is the mean of ``cos(w.(x - x'))`` over its frequencies w (Bochner). With R
frequencies drawn at random, the kernel ``mean_w cos(w.(x - x'))`` is one of its own right, near the
first and positive definite, and its Stein terms are inner products of the features

    ``s cos(w.x) - w sin(w.x)``  and  ``s sin(w.x) + w cos(w.x)``

of 2 R d numbers. So is the linear kernel, with the features ``s x^T + I``. Sums of features over
groups of samples are all that a statistic and its replicates need.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from .._typing import Array
from ..compute.jit import compiled, parallel, prefer_wide_vectors
from ..compute.linalg import dot, product, weighted_squares


class GroupSums:
    """Sums over groups of features whose inner products are the terms of pairs.

    Parameters
    ----------
    sums : (groups, features) array
        Of each group.
    own : float
        The sum over samples of the squared lengths of their features.
    coefficients : (features,) array, optional
        Of the products of features; 1 by default.
    """

    def __init__(self, sums: Array, own: float, coefficients: Array | None = None):
        self.sums = sums
        self.own = own
        self.coefficients = np.ones(sums.shape[1]) if coefficients is None else coefficients

    def total(self) -> float:
        """The sum of the terms over all pairs of distinct samples."""
        return float(self.coefficients @ self.sums.sum(axis=0) ** 2 - self.own)

    def replicates(self, weights: Array) -> Array:
        """The same over pairs of samples of distinct groups, for each row of weights of groups."""
        met = product(weights, np.ascontiguousarray(self.sums.T))
        lengths = self.sums**2 @ self.coefficients
        return weighted_squares(met, self.coefficients) - weights**2 @ lengths


def frequencies(code: int, count: int, d: int, rng: np.random.Generator) -> Array:
    """Frequencies of a kernel of unit bandwidth, (count, d)."""
    drawn = rng.standard_normal((count, d))
    if code == 0:
        return drawn
    # (1 + r^2)^(-1/2) is a mixture of exp(-u r^2) over u of a Gamma distribution of shape 1/2.
    return drawn * np.sqrt(2.0 * rng.gamma(0.5, size=(count, 1)))


def wave_sums(x: Array, s: Array, waves: Array, edges: np.ndarray) -> GroupSums:
    """Sums of the features of the frequencies `waves`, (R, d), over groups of samples.

    Group k has the samples from ``edges[k]`` to ``edges[k + 1]``.
    """
    count, d = waves.shape
    sums = _wave_sums(x, s, waves, edges).reshape(len(edges) - 1, -1)
    squares = np.einsum("nd,nd->", s, s) * count + x.shape[0] * np.einsum("rd,rd->", waves, waves)
    return GroupSums(sums, squares / count, np.full(2 * count * d, 1.0 / count))


def wave_parts(sums: GroupSums, s: Array, waves: Array) -> Array:
    """What belongs to each coordinate of the score in the sum over pairs, (d,)."""
    count, d = waves.shape
    totals = sums.sums.sum(axis=0).reshape(2 * count, d)
    own = np.einsum("nd,nd->d", s, s) + s.shape[0] * (waves**2).mean(axis=0)
    return (totals**2).sum(axis=0) / count - own


@parallel
def _wave_sums(x, s, waves, edges):
    groups = edges.size - 1
    count, d = waves.shape
    sums = np.zeros((groups, 2, count, d))
    for g in numba.prange(groups):
        for i in range(edges[g], edges[g + 1]):
            for r in range(count):
                angle = dot(x[i], waves[r])
                _add_wave(
                    s[i], waves[r], math.cos(angle), math.sin(angle), sums[g, 0, r], sums[g, 1, r]
                )
    return sums


@compiled
def _add_wave(s, wave, cos, sin, even, odd):
    prefer_wide_vectors()
    for k in range(s.size):
        even[k] += s[k] * cos - wave[k] * sin
        odd[k] += s[k] * sin + wave[k] * cos


def linear_sums(x: Array, s: Array, edges: np.ndarray, most: int, seed: int) -> GroupSums:
    """Sums of the features ``s x^T + I`` of the linear kernel over groups.

    Of more than `most` features, `most` random combinations ``(s.u)(x.v) + u.v`` are taken, with u
    and v of signs.
    """
    n, d = x.shape
    groups = len(edges) - 1
    if d * d <= most:
        sums = np.empty((groups, d * d))
        for g in range(groups):
            part = slice(edges[g], edges[g + 1])
            sums[g] = (s[part].T @ x[part] + (part.stop - part.start) * np.eye(d)).ravel()
        lengths = np.einsum("nd,nd->n", s, s) * np.einsum("nd,nd->n", x, x)
        return GroupSums(sums, float(lengths.sum() + 2.0 * np.einsum("nd,nd->", s, x) + n * d))
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], (2, most, d))
    inner = np.einsum("rd,rd->r", *signs)
    sums, own = np.empty((groups, most)), 0.0
    for g in range(groups):
        part = slice(edges[g], edges[g + 1])
        features = product(s[part], signs[0]) * product(x[part], signs[1]) + inner
        sums[g] = features.sum(axis=0)
        own += float(np.einsum("nr,nr->", features, features)) / most
    return GroupSums(sums, own, np.full(most, 1.0 / most))


def linear_parts(x: Array, s: Array) -> Array:
    """What belongs to each coordinate of the score in the linear kernel's sum over pairs, (d,)."""
    n, d = x.shape
    total = s.T @ x + n * np.eye(d)
    own = (s**2).T @ np.einsum("nd,nd->n", x, x) + 2.0 * np.einsum("nd,nd->d", s, x) + n
    return (total**2).sum(axis=1) - own
