"""Sums over pairs whose terms are products of feature vectors, in time linear in the samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._typing import Array
from ..compute.linalg import gram, product, weighted_squares


class FeaturePairs:
    """Terms ``xi_i . xi_j`` of features xi, (k, n): a `PairEngine` of one component."""

    name = "features"
    draw: Callable[..., Any] | None = None

    def __init__(self, features: Array) -> None:
        self.features = features
        self.n = features.shape[1]
        self.squares: Array = np.einsum("kn,kn->n", features, features)

    def diagonal(self) -> Array:
        """``sum_i xi_i . xi_i``, of one component."""
        return np.atleast_1d(self.squares.sum())

    def sums(self) -> Array:
        """``sum_{i != j} xi_i . xi_j``, of one component."""
        total = self.features.sum(axis=1)
        return np.atleast_1d(total @ total - self.squares.sum())

    def sums_and_replicates(self, weights: Any, start: int = 0) -> tuple[Array, Array]:
        """`sums`, and ``sum_{i != j} w_i w_j xi_i . xi_j`` for each row w of the weights.

        The columns of the weights that count are those from `start` on.
        """
        totals = product(weights, self.features, start)
        return self.sums(), np.einsum("bk,bk->b", totals, totals) - weighted_squares(
            weights, self.squares, start
        )

    def row_sums(self) -> Array:
        """``sum_{j != i} xi_i . xi_j`` for each i."""
        return self.features.sum(axis=1) @ self.features - self.squares

    def spectrum(self) -> Array:
        """Eigenvalues of the centred matrix of all terms, over n."""
        centred = self.features - self.features.mean(axis=1, keepdims=True)
        return np.linalg.eigvalsh(gram(centred if len(centred) <= self.n else centred.T)) / self.n
