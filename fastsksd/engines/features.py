"""Sums over pairs whose terms are products of feature vectors, in time linear in the samples.

`FeaturePairs` has the features of all samples. A `FeatureMap` makes them of any samples, and only
their sums over groups are kept: that is all that a statistic and its replicates need.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._typing import Array
from ..compute.linalg import gram, product, weighted_squares

_LARGE = 1e6  # times the usual size of features, from which on they are summed pair by pair
_MOST_LARGE = 1000  # of the samples


class FeaturePairs:
    """Terms ``xi_i . xi_j`` of features xi, (k, n): a `PairEngine` of one component.

    A sum over pairs is the square of a sum less the terms i = i. Round-off would decide where a
    few samples have features of 1e18: these meet the others, and each other, pair by pair.
    """

    name = "features"
    draw: Callable[..., Any] | None = None

    def __init__(self, features: Array) -> None:
        self.n = features.shape[1]
        self.features = features
        self.squares: Array = np.einsum("kn,kn->n", features, features)
        self.total_square = self.squares.sum()
        large = np.flatnonzero(self.squares / _LARGE**2 > np.median(self.squares))
        self.large = large if large.size <= _MOST_LARGE else large[:0]
        if self.large.size:
            self.large_features = features[:, self.large]
            self.large_pairs = gram(self.large_features.T)
            np.fill_diagonal(self.large_pairs, 0.0)
            self.features, self.squares = features.copy(), self.squares.copy()
            self.features[:, self.large] = self.squares[self.large] = 0.0

    def diagonal(self) -> Array:
        """``sum_i xi_i . xi_i``, of one component."""
        return np.atleast_1d(self.total_square)

    def sums(self) -> Array:
        """``sum_{i != j} xi_i . xi_j``, of one component."""
        total = self.features.sum(axis=1)
        sums = np.atleast_1d(total @ total - self.squares.sum())
        if self.large.size:
            sums += self._of_large(total[None], np.ones((1, self.large.size)))
        return sums

    def sums_and_replicates(self, weights: Any, start: int = 0) -> tuple[Array, Array]:
        """`sums`, and ``sum_{i != j} w_i w_j xi_i . xi_j`` for each row w of the weights.

        The columns of the weights that count are those from `start` on.
        """
        totals = product(weights, self.features, start)
        replicates = np.einsum("bk,bk->b", totals, totals) - weighted_squares(
            weights, self.squares, start
        )
        if self.large.size:
            replicates += self._of_large(totals, weights[:, start + self.large].astype(float))
        return self.sums(), replicates

    def _of_large(self, totals: Array, weights: Array) -> Array:
        """The pairs of large samples, with these weights, among each other and with the others.

        `totals` are the weighted sums of the others.
        """
        met = product(weights, self.large_features)
        among = product(weights, self.large_pairs)
        return 2.0 * np.einsum("bk,bk->b", totals, met) + np.einsum("bl,bl->b", among, weights)

    def row_sums(self) -> Array:
        """``sum_{j != i} xi_i . xi_j`` for each i."""
        total = self.features.sum(axis=1)
        sums = total @ self.features - self.squares
        if self.large.size:
            sums += self.large_features.sum(axis=1) @ self.features
            sums[self.large] = total @ self.large_features + self.large_pairs.sum(axis=1)
        return sums

    def spectrum(self) -> Array:
        """Eigenvalues of the centred matrix of all terms, over n."""
        features = self.features
        if self.large.size:
            features = features.copy()
            features[:, self.large] = self.large_features
        centred = features - features.mean(axis=1, keepdims=True)
        return np.linalg.eigvalsh(gram(centred if len(centred) <= self.n else centred.T)) / self.n


class FeatureMap:
    """Features of samples whose inner products are the terms of pairs.

    What it needs to know is fixed before the samples are seen. Sums over groups of samples add and
    merge, together with `own_size` numbers for the terms i = i.

    Attributes
    ----------
    coefficients : (size,) array
        Of the products of features.
    own_size : int
    by_feature : bool
        Whether replicates are of each feature by itself.
    """

    coefficients: Array
    own_size: int
    by_feature = False

    @property
    def size(self) -> int:
        """Number of features."""
        return self.coefficients.size

    def group_sums(
        self, x: Array, s: Array, edges: np.ndarray, weights: Array | None = None
    ) -> tuple[Array, Array]:
        """Sums of the features of samples and scores (n, d) over groups, (groups, size).

        Group k has the samples from ``edges[k]`` to ``edges[k + 1]``. Also the numbers for the
        terms i = i, (own_size,), summed over all samples. Importance weights (n,) are factors of
        the features.
        """
        raise NotImplementedError

    def pair_sums(self, total: Array, own: Array, n: int) -> Array:
        """The sums over pairs of distinct samples, from those of all n samples.

        One for each slice or moment, and one in all for a kernel of the whole vector.
        """
        raise NotImplementedError

    def replicates(self, sums: Array, own: Array, n: int, weights: Array) -> Array:
        """Sums over pairs of samples of distinct groups, for each row of weights of groups."""
        met = product(weights, sums.T)
        lengths = weighted_squares(sums, self.coefficients)
        return weighted_squares(met, self.coefficients) - weighted_squares(weights, lengths)

    def coordinate_sums(self, total: Array, own: Array) -> Array:
        """What belongs to each coordinate of the score in the sum over pairs, (d,)."""
        raise NotImplementedError


def add_to_groups(features: Array, first: int, edges: np.ndarray, sums: Array) -> None:
    """Add features (f, width) of the samples from `first` on to the sums of groups, (groups, f)."""
    width = features.shape[1]
    if width == 0:
        return
    last = int(np.searchsorted(edges, first + width, side="left"))
    begin = int(np.searchsorted(edges, first, side="right")) - 1
    starts = np.maximum(edges[begin:last] - first, 0)
    sums[begin:last] += np.add.reduceat(features, starts, axis=1).T
