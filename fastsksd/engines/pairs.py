"""Sums over pairs of a symmetric matrix that is never stored.

Every quadratic-time statistic is made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .._typing import Array, Statistic
from .._validate import ArgumentError, Option
from ..compute.linalg import quadratic_forms
from ..compute.pointwise import diagonal_term
from .protocol import PairEngine

TILE = 1024
MOST_STORED = 8000  # samples up to which `spectrum` stores the matrix


class Source(NamedTuple):
    """What projections were made from, for engines that make them anew on a device.

    Samples `x` and `scores`, or some `rows` of them, are projected on `g` and `r`.
    """

    x: Array
    scores: Array
    r: Array
    g: Array
    rows: np.ndarray | None = None


class PairTerms:
    """The terms ``mu_ij`` of all pairs, one tile at a time: base of the quadratic-time engines.

    A subclass has `n` and supplies `tile` and `diagonal_terms`, and `diagonal` if it has several
    components; the rest of a `PairEngine` follows. Tiles on and above the diagonal are visited one
    after another, so memory stays at one tile and Ctrl-C works between tiles.
    """

    n: int
    draw: Callable[..., Any] | None = None

    def tile(self, rows: slice, columns: slice) -> tuple[Array, Array]:
        """Entries of a tile, zero where ``i >= j``, and their sum for each component (slice)."""
        raise NotImplementedError

    def tiles(self) -> Iterator[tuple[slice, slice, Array, Array]]:
        """Rows and columns of every tile, with what `tile` returns."""
        for rows, columns in tiles(self.n):
            yield rows, columns, *self.tile(rows, columns)

    def diagonal(self) -> Array:
        """``sum_i mu_ii`` for each component; here there is one."""
        return np.atleast_1d(self.diagonal_terms().sum())

    def diagonal_terms(self) -> Array:
        """``mu_ii``, summed over components, (n,)."""
        raise NotImplementedError

    def sums(self) -> Array:
        """``sum_{i != j} mu_ij`` for each component."""
        total: Any = sum(part for *_, part in self.tiles())
        return 2.0 * total

    def sums_and_replicates(self, weights: Any, start: int = 0) -> tuple[Array, Array]:
        """`sums`, and ``sum_{i != j} w_i w_j mu_ij`` for each row w of the weights, in one pass.

        The columns of the weights that count are start..start + n.
        """
        sums: Any = 0.0
        replicates = np.zeros(weights.shape[0])
        for rows, columns, entries, part in self.tiles():
            sums = sums + part
            replicates += quadratic_forms(
                entries[None], weights, start + rows.start, start + columns.start
            )[0]
        return 2.0 * sums, 2.0 * replicates

    def row_sums(self) -> Array:
        """``sum_{j != i} mu_ij`` for each i, summed over components, (n,)."""
        sums = np.zeros(self.n)
        for rows, columns, entries, _ in self.tiles():
            sums[rows] += entries.sum(axis=1)
            sums[columns] += entries.sum(axis=0)
        return sums

    def spectrum(self) -> Array:
        """Eigenvalues of the centred matrix of all ``mu_ij``, over n."""
        if self.n > MOST_STORED:
            raise ArgumentError(
                "null",
                f"is 'spectral', which needs a matrix of {self.n} x {self.n} numbers here: there "
                "are many slices, ",
                Option("engine"),
                " is 'direct', or samples are thousands of bandwidths away from the others",
                remedy=(
                    "Use ",
                    Option("engine", "fourier"),
                    " with few slices, a kernel of larger ",
                    Option("bandwidth"),
                    ", or ",
                    Option("null", "wild"),
                    ".",
                ),
            )
        matrix = self.matrix()
        matrix[np.diag_indices(self.n)] = self.diagonal_terms()
        means = matrix.mean(axis=0)
        return np.linalg.eigvalsh(matrix - means - means[:, None] + means.mean()) / self.n

    def matrix(self) -> Array:
        """All ``mu_ij`` with ``i != j``, (n, n), zero on the diagonal."""
        matrix = np.zeros((self.n, self.n))
        for rows, columns, entries, _ in self.tiles():
            matrix[rows, columns] = entries
        return matrix + matrix.T


def statistic(pairs: PairEngine, sums: Array, kind: Statistic) -> Array:
    """U-statistic ("u") or V-statistic ("v") for each component, from its sum over ``i != j``."""
    n = pairs.n
    return sums / (n * (n - 1.0)) if kind == "u" else (sums + pairs.diagonal()) / n**2


def tiles(n: int) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of the tiles on and above the diagonal, as slices."""
    for i in range(0, n, TILE):
        for j in range(i, n, TILE):
            yield slice(i, min(i + TILE, n)), slice(j, min(j + TILE, n))


def statistic_and_slopes(
    s: Array, a: Array, h: Array, ds: Array, dy: Array, da: Array, statistic: Statistic
) -> tuple[Array, Array, Array, Array]:
    """What `gradients.slice_gradients` returns, from sums of derivatives over distinct pairs.

    The sums are in units of the bandwidths h: those in s and y for each sample, (m, n), and those
    in a, (m,). `ds` and `da` are changed.
    """
    n = s.shape[1]
    values = np.einsum("mn,mn->m", s, ds) + 0.5 * a * da  # mu is of degree 2 in s and a
    if statistic == "v":
        values += diagonal_term(s, a[:, None]).sum(axis=1)
        ds += s
        da += 2.0 * n * a
    weight = 1.0 / (n * (n - 1.0) if statistic == "u" else float(n) ** 2)
    return weight * values, 2.0 * weight * ds, 2.0 * weight * dy / h[:, None], weight * da / h
