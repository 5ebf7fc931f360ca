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
from itertools import pairwise

import numba
import numpy as np

from .._typing import Array
from ..compute.jit import compiled, parallel, prefer_wide_vectors
from ..compute.linalg import dot, product
from .features import FeatureMap

_STRIP = 1024  # samples of a long group that a thread takes at a time


def frequencies(code: int, count: int, d: int, rng: np.random.Generator) -> Array:
    """Frequencies of a kernel of unit bandwidth, (count, d)."""
    drawn = rng.standard_normal((count, d))
    if code == 0:
        return drawn
    # (1 + r^2)^(-1/2) is a mixture of exp(-u r^2) over u of a Gamma distribution of shape 1/2.
    return drawn * np.sqrt(2.0 * rng.gamma(0.5, size=(count, 1)))


class WaveFeatures(FeatureMap):
    """Features of the frequencies `waves`, (R, d)."""

    def __init__(self, waves: Array) -> None:
        self.waves = waves
        count, self.own_size = waves.shape
        self.coefficients = np.full(2 * waves.size, 1.0 / count)

    def group_sums(
        self, x: Array, s: Array, edges: np.ndarray, weights: Array | None = None
    ) -> tuple[Array, Array]:
        """Sums over groups, and what the terms i = i have of each coordinate."""
        w = np.ones(len(x)) if weights is None else weights
        # Of a few long groups every thread has a part.
        fine = np.union1d(edges, np.arange(0, x.shape[0], _STRIP)) if len(edges) < 9 else edges
        sums = _wave_sums(x, s, w, self.waves, fine).reshape(len(fine) - 1, -1)
        if len(fine) > len(edges):
            sums = np.add.reduceat(sums, np.searchsorted(fine, edges[:-1]), axis=0)
        if weights is not None:
            s = s * weights[:, None]
        return sums, np.einsum("nd,nd->d", s, s) + (w @ w) * (self.waves**2).mean(axis=0)

    def pair_sums(self, total: Array, own: Array, n: int) -> Array:
        """The sum over pairs."""
        return np.atleast_1d(self.coefficients @ total**2 - own.sum())

    def coordinate_sums(self, total: Array, own: Array) -> Array:
        """What belongs to each coordinate of the score in the sum over pairs, (d,)."""
        count, d = self.waves.shape
        return (total.reshape(2 * count, d) ** 2).sum(axis=0) / count - own


@parallel
def _wave_sums(x, s, w, waves, edges):
    groups = edges.size - 1
    count, d = waves.shape
    sums = np.zeros((groups, 2, count, d))
    for g in numba.prange(groups):
        for i in range(edges[g], edges[g + 1]):
            for r in range(count):
                angle = dot(x[i], waves[r])
                cos, sin = w[i] * math.cos(angle), w[i] * math.sin(angle)
                _add_wave(s[i], waves[r], cos, sin, sums[g, 0, r], sums[g, 1, r])
    return sums


@compiled
def _add_wave(s, wave, cos, sin, even, odd):
    prefer_wide_vectors()
    for k in range(s.size):
        even[k] += s[k] * cos - wave[k] * sin
        odd[k] += s[k] * sin + wave[k] * cos


class LinearFeatures(FeatureMap):
    """Features ``s x^T + I`` of the linear kernel in d dimensions.

    Of more than `most` features, `most` random combinations ``(s.u)(x.v) + u.v`` are taken, with u
    and v of signs drawn from `seed`. The terms i = i are those of each coordinate, (d,). With
    combinations their own sum comes first, and the sum of all features last, for the coordinates.
    """

    def __init__(self, d: int, most: int, seed: int) -> None:
        self.d = d
        self.signs: Array | None = None
        self.own_size = d
        self.coefficients = np.ones(d * d)
        if d * d > most:
            self.signs = np.random.default_rng(seed).choice([-1.0, 1.0], (2, most, d))
            self.own_size = 1 + d + d * d
            self.coefficients = np.full(most, 1.0 / most)

    def group_sums(
        self, x: Array, s: Array, edges: np.ndarray, weights: Array | None = None
    ) -> tuple[Array, Array]:
        """Sums over groups, and numbers for the terms i = i."""
        d = x.shape[1]
        w = np.ones(len(x)) if weights is None else weights
        sums = np.empty((len(edges) - 1, self.size))
        if weights is None:
            weighted = x
        else:
            s, weighted = s * w[:, None], x * w[:, None]
        own = (
            np.einsum("nd,n->d", s**2, np.einsum("nd,nd->n", x, x))
            + 2.0 * np.einsum("nd,nd->d", s, weighted)
            + w @ w
        )
        groups = [slice(*pair) for pair in pairwise(edges.tolist())]
        if self.signs is None:
            for g, part in enumerate(groups):
                sums[g] = product(s[part].T, x[part].T).ravel()
                sums[g, :: d + 1] += w[part].sum()
            return sums, own
        inner, lengths = np.einsum("rd,rd->r", *self.signs), 0.0
        for g, part in enumerate(groups):
            features = product(s[part], self.signs[0]) * product(x[part], self.signs[1])
            features += np.outer(w[part], inner)
            sums[g] = features.sum(axis=0)
            lengths += float(np.einsum("nr,nr->", features, features)) / self.size
        total = product(s.T, x.T) + w.sum() * np.eye(d)
        return sums, np.concatenate([[lengths], own, total.ravel()])

    def pair_sums(self, total: Array, own: Array, n: int) -> Array:
        """The sum over pairs."""
        lengths = own.sum() if self.signs is None else own[0]
        return np.atleast_1d(self.coefficients @ total**2 - lengths)

    def coordinate_sums(self, total: Array, own: Array) -> Array:
        """What belongs to each coordinate of the score in the sum over pairs, (d,)."""
        if self.signs is not None:
            total, own = own[1 + self.d :], own[1 : 1 + self.d]
        return (total.reshape(self.d, self.d) ** 2).sum(axis=1) - own
