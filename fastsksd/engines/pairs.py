"""Sums over pairs of a symmetric matrix that is never stored: what every quadratic-time statistic is made of."""

from typing import NamedTuple

import numpy as np

from ..compute.linalg import quadratic_forms
from ..compute.pointwise import own_term

TILE = 1024
MOST_STORED = 8000  # samples up to which `spectrum` stores the matrix


class Source(NamedTuple):
    """Of what projections were made, for engines that make them anew where the data lies: samples and scores, or some `rows` of them, along g
    and r."""

    x: np.ndarray
    scores: np.ndarray
    r: np.ndarray
    g: np.ndarray
    rows: np.ndarray | None = None


class PairTerms:
    """The terms ``mu_ij`` of all pairs, seen one tile at a time.

    A subclass has `n` and supplies `tile`, `diagonal` and `own_terms`. Tiles on and above the diagonal are visited, one at a time, so
    memory stays at one tile and Ctrl-C works between tiles.
    """

    n = None
    draw = None  # where weights are drawn: None for the host, see `nulls.Weights.batches`

    def tile(self, rows, columns):
        """Entries of a tile, zero where ``i >= j``, and their sum for each component (slice)."""
        raise NotImplementedError

    def diagonal(self):
        """``sum_i mu_ii`` for each component."""
        raise NotImplementedError

    def own_terms(self):
        """``mu_ii``, summed over components, (n,)."""
        raise NotImplementedError

    def sums(self):
        """``sum_{i != j} mu_ij`` for each component."""
        return 2.0 * sum(self.tile(rows, columns)[1] for rows, columns in tiles(self.n))

    def sums_and_replicates(self, weights, start=0):
        """`sums`, and ``sum_{i != j} w_i w_j mu_ij`` for each row w of ``weights[:, start : start + n]``, in one pass."""
        sums = 0.0
        replicates = np.zeros(weights.shape[0])
        for rows, columns in tiles(self.n):
            entries, part = self.tile(rows, columns)
            sums = sums + part
            replicates += quadratic_forms(
                entries, weights, start + rows.start, start + columns.start
            )
        return 2.0 * sums, 2.0 * replicates

    def row_sums(self):
        """``sum_{j != i} mu_ij`` for each i, summed over components, (n,)."""
        sums = np.zeros(self.n)
        for rows, columns in tiles(self.n):
            entries, _ = self.tile(rows, columns)
            sums[rows] += entries.sum(axis=1)
            sums[columns] += entries.sum(axis=0)
        return sums

    def spectrum(self):
        """Eigenvalues of the centred matrix of all ``mu_ij``, over n."""
        if self.n > MOST_STORED:
            raise ValueError(
                f"`null`='spectral' needs a matrix of {self.n} x {self.n} numbers here: there are many slices, `engine` is 'direct', or samples lie "
                "thousands of bandwidths out. Use engine='fourier' with few slices, a kernel of larger `bandwidth`, or null='wild'."
            )
        matrix = self.matrix()
        matrix[np.diag_indices(self.n)] = self.own_terms()
        means = matrix.mean(axis=0)
        return np.linalg.eigvalsh(matrix - means - means[:, None] + means.mean()) / self.n

    def matrix(self):
        """All ``mu_ij`` with ``i != j``, (n, n), zero on the diagonal."""
        matrix = np.zeros((self.n, self.n))
        for rows, columns in tiles(self.n):
            matrix[rows, columns] = self.tile(rows, columns)[0]
        return matrix + matrix.T


def statistic(pairs, sums, kind):
    """U-statistic ("u") or V-statistic ("v") for each component, from its sum over ``i != j``."""
    n = pairs.n
    return sums / (n * (n - 1.0)) if kind == "u" else (sums + pairs.diagonal()) / n**2


def tiles(n):
    """Rows and columns of the tiles on and above the diagonal, as slices."""
    for i in range(0, n, TILE):
        for j in range(i, n, TILE):
            yield slice(i, min(i + TILE, n)), slice(j, min(j + TILE, n))


def statistic_and_slopes(s, a, h, ds, dy, da, statistic):
    """What `gradients.slice_gradients` returns, from sums over distinct pairs of the derivatives of mu, in units of the bandwidths h:
    for each sample those in s and y (m, n), and in all those in a (m,). `ds` and `da` are changed."""
    n = s.shape[1]
    values = np.einsum("mn,mn->m", s, ds) + 0.5 * a * da  # mu is of degree 2 in s and a
    if statistic == "v":
        values += own_term(s, a[:, None]).sum(axis=1)
        ds += s
        da += 2.0 * n * a
    weight = 1.0 / (n * (n - 1.0) if statistic == "u" else float(n) ** 2)
    return weight * values, 2.0 * weight * ds, 2.0 * weight * dy / h[:, None], weight * da / h
