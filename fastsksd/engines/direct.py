"""The direct engine: Stein terms of projected data, pair by pair, in compiled parallel loops.

Exact to round-off, quadratic in n, memory linear in n.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._typing import Array
from ..compute.jit import compiled, prefer_wide_vectors
from ..compute.linalg import quadratic_forms
from ..compute.pointwise import diagonal_term, rbf_stein_octave, stein_term
from ..compute.threads import share
from .pairs import PairTerms, tiles

# Rows of a tile that one task computes; fixed, so that sums do not depend on the number of threads.
_ROWS = 8
_LARGE = 2**21  # terms beyond which threads pay


class DirectEngine(PairTerms):
    """Stein terms of m slices.

    Parameters
    ----------
    code : int
        Code of the kernel.
    y, s : (m, n) arrays
        Samples along g and scores along r.
    a, h : (m,) arrays
        ``r.g`` and the bandwidth of each slice.
    """

    name = "direct"

    def __init__(self, code: int, y: Array, s: Array, a: Array, h: Array):
        self.code = code
        self.y = y / h[:, None]
        self.s = s
        self.a = a / h
        self.n = y.shape[1]

    def tile(self, rows: slice, columns: slice) -> tuple[Array, Array]:
        """Entries of a tile, zero where ``i >= j``, and their sum for each slice."""
        entries, sums = self._tiles(rows, columns, 1)
        return entries[0], sums[0]

    def _tiles(self, rows: slice, columns: slice, count: int) -> tuple[Array, Array]:
        """The same at the bandwidth alone, or at half of it too for `count` 2, stacked."""
        height = rows.stop - rows.start
        entries = np.zeros((count, height, columns.stop - columns.start))
        sums = np.empty((-(-height // _ROWS), count, len(self.y)))
        edges = rows.start, rows.stop, columns.start, columns.stop
        share(
            lambda first, last: _stein_tiles(
                self.code, self.y, self.s, self.a, *edges, first, last, entries, sums
            ),
            len(sums),
            large=entries.size * len(self.y) > _LARGE,
        )
        return entries, sums.sum(axis=0)

    def diagonal(self) -> Array:
        """``sum_i mu_ii`` for each slice."""
        return diagonal_term(self.s, self.a[:, None]).sum(axis=1)

    def diagonal_terms(self) -> Array:
        """``mu_ii``, summed over slices, (n,)."""
        return diagonal_term(self.s, self.a[:, None]).sum(axis=0)

    def rescaled(self, multiple: float) -> DirectEngine:
        """The same slices with their bandwidths multiplied."""
        other = copy.copy(self)
        other.y, other.a = self.y / multiple, self.a / multiple
        return other

    def sums_and_replicates_at(
        self, multiples: Sequence[float], weights: Any, start: int = 0
    ) -> list[tuple[Array, Array]]:
        """`sums_and_replicates` at several multiples of the bandwidth: a list of pairs."""
        results: dict[float, tuple[Array, Array]] = {}
        for multiple in multiples:
            if self.code == 0 and multiple not in results and 2.0 * multiple in multiples:
                both = self.rescaled(2.0 * multiple)._octave(weights, start)
                results[2.0 * multiple], results[multiple] = both
            elif multiple not in results:
                results[multiple] = self.rescaled(multiple).sums_and_replicates(weights, start)
        return [results[multiple] for multiple in multiples]

    def _octave(self, weights: Any, start: int) -> list[tuple[Array, Array]]:
        """At the RBF bandwidth, and at half of it."""
        sums: Any = 0.0
        replicates = np.zeros((2, weights.shape[0]))
        for rows, columns in tiles(self.n):
            entries, parts = self._tiles(rows, columns, 2)
            sums = sums + parts
            replicates += quadratic_forms(
                entries, weights, start + rows.start, start + columns.start
            )
        return [(2.0 * total, 2.0 * values) for total, values in zip(sums, replicates, strict=True)]


@compiled
def _stein_tiles(
    code, y, s, a, row, row_end, column, column_end, first_turn, last_turn, entries, sums
):
    """Entries of some rows and their sums; two of each: also at half of the bandwidth."""
    tasks = sums.shape[0]
    for turn in range(first_turn, last_turn):
        # Rows of a diagonal tile shrink. Taken from both ends in turn, they give every thread the
        # same work.
        task = turn // 2 if turn % 2 == 0 else tasks - 1 - turn // 2
        first = row + task * _ROWS
        last = min(first + _ROWS, row_end)
        _stein_rows(code, y, s, a, row, first, last, column, column_end, entries, sums[task])


@compiled
def _stein_rows(code, y, s, a, row, first, last, column, column_end, entries, sums):
    """Fill the rows first..last of a tile and sum them for each slice."""
    # Rows of `entries` are cut out here: a piece of an array is not contiguous to the compiler.
    octave = entries.shape[0] == 2
    for q in range(y.shape[0]):
        total, half = 0.0, 0.0
        for i in range(first, last):
            start = max(column, i + 1)
            y_q = y[q, start:column_end]
            s_q = s[q, start:column_end]
            out = entries[0, i - row, start - column :]
            if octave:
                other = entries[1, i - row, start - column :]
                sum0, sum1 = _stein_octave_row(y[q, i], s[q, i], a[q], y_q, s_q, out, other)
                total += sum0
                half += sum1
            else:
                total += _stein_row(code, y[q, i], s[q, i], a[q], y_q, s_q, out)
        sums[0, q] = total
        if octave:
            sums[1, q] = half


@compiled
def _stein_row(code, y_i, s_i, a, y, s, out):
    """Add mu_ij for all j to `out`; returns their sum.

    The loop begins at 0: LLVM vectorises it only when indices can't be negative.
    """
    prefer_wide_vectors()
    total = 0.0
    for j in range(y.size):
        mu = stein_term(code, y_i - y[j], a, s_i, s[j])
        out[j] += mu
        total += mu
    return total


@compiled
def _stein_octave_row(y_i, s_i, a, y, s, out, half):
    prefer_wide_vectors()
    total = half_total = 0.0
    for j in range(y.size):
        mu_half, mu = rbf_stein_octave(y_i - y[j], a, s_i, s[j])
        out[j] += mu
        half[j] += mu_half
        total += mu
        half_total += mu_half
    return total, half_total
