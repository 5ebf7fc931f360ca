"""Sums over pairs where a pair's term is the product of two feature vectors: time linear in the number of samples."""

import numpy as np

from ..compute.linalg import gram, product, weighted_squares


class FeaturePairs:
    """Terms ``xi_i . xi_j`` for features xi, (k, n): a `PairEngine` of one component."""

    name = "features"
    draw = None

    def __init__(self, features):
        self.features = features
        self.n = features.shape[1]
        self.squares = np.einsum("kn,kn->n", features, features)

    def diagonal(self):
        """``sum_i xi_i . xi_i``, of one component."""
        return np.atleast_1d(self.squares.sum())

    def sums(self):
        """``sum_{i != j} xi_i . xi_j``, of one component."""
        total = self.features.sum(axis=1)
        return np.atleast_1d(total @ total - self.squares.sum())

    def sums_and_replicates(self, weights, start=0):
        """`sums`, and ``sum_{i != j} w_i w_j xi_i . xi_j`` for each row w of the weights.

        The columns of the weights that count are those from `start` on.
        """
        totals = product(weights, self.features, start)
        return self.sums(), np.einsum("bk,bk->b", totals, totals) - weighted_squares(
            weights, self.squares, start
        )

    def row_sums(self):
        """``sum_{j != i} xi_i . xi_j`` for each i."""
        return self.features.sum(axis=1) @ self.features - self.squares

    def spectrum(self):
        """Eigenvalues of the centred matrix of all terms, over n."""
        centred = self.features - self.features.mean(axis=1, keepdims=True)
        return np.linalg.eigvalsh(gram(centred if len(centred) <= self.n else centred.T)) / self.n
