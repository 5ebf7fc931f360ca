"""Pair terms of kernels of the whole vector, at several widths at once, in metrics of their own.

Kernels of the distance between samples (the ordinary KSD) and the linear kernel ``x.x'``, whose
Stein terms are ``(s.s')(x.x') + s.x + s'.x' + d``: together all entries of ``E s x^T + I``.
Distances and inner products are computed once for all of them.

Pairs come in blocks, and each block has its samples in coordinates of its own. Blocks need not
cover all pairs: an incomplete U-statistic is one over those that they cover.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._typing import Array
from ..compute.chi_square import limit_weights
from ..compute.jit import compiled, prefer_wide_vectors
from ..compute.linalg import gram, product, quadratic_forms
from ..compute.threads import share
from .multivariate import ksd_term
from .pairs import TILE, PairTerms

_LARGE = 2**19  # entries beyond which threads pay
_MOST_GROUPS = 64  # groups whose eigenvalues are taken


class Block(NamedTuple):
    """Pairs of one stretch of the samples with another, or with itself.

    Attributes
    ----------
    rows, columns : slice
        Stretches of the samples, the same or apart, rows first.
    x_rows, s_rows, x_columns, s_columns : (k, d) arrays
        Samples and scores of both in the coordinates of the block.
    group : int
        Blocks of different groups have no sample in common.
    upright : callable, optional
        Makes the rotation after which the coordinates of the block are those of the samples, as
        nearly as can be. By default they are.
    """

    rows: slice
    columns: slice
    x_rows: Array
    s_rows: Array
    x_columns: Array
    s_columns: Array
    group: int = 0
    upright: Callable[[], Array] | None = None

    @property
    def on_diagonal(self) -> bool:
        """Whether pairs are of one stretch with itself."""
        return self.rows.start == self.columns.start

    @property
    def n_pairs(self) -> int:
        """Number of pairs ``i < j``."""
        height, width = len(self.x_rows), len(self.x_columns)
        return height * (height - 1) // 2 if self.on_diagonal else height * width


class WholeVector:
    """Stein terms of all pairs in blocks, for several kernels of the whole vector.

    Parameters
    ----------
    code : int
        Code of the kernel of the distance.
    n : int
        Number of samples.
    blocks : sequence of Block
    widths : sequence of float
        Bandwidths: one component for each, and a last one for the linear kernel.
    importance : (n,) array, optional
        Weights of the samples in `coordinate_sums`.
    """

    name = "direct"

    def __init__(
        self,
        code: int,
        n: int,
        blocks: Sequence[Block],
        widths: Sequence[float],
        importance: Array | None = None,
    ):
        self.code = code
        self.importance = importance
        self.n = n
        self.blocks = list(blocks)
        self.widths = np.asarray(widths, dtype=float)
        self.n_pairs = sum(block.n_pairs for block in self.blocks)

    def tiles(self) -> Iterator[tuple[slice, slice, Array]]:
        """Rows, columns and entries (components, height, width), zero where ``i >= j``."""
        for block in self.blocks:
            height, width = len(block.x_rows), len(block.x_columns)
            for i in range(0, height, TILE):
                for j in range(i if block.on_diagonal else 0, width, TILE):
                    own = block.on_diagonal and i == j
                    yield self._tile(block, slice(i, i + TILE), slice(j, j + TILE), own)

    def _tile(
        self, block: Block, rows: slice, columns: slice, own: bool
    ) -> tuple[slice, slice, Array]:
        x, s = block.x_rows[rows], block.s_rows[rows]
        other_x, other_s = block.x_columns[columns], block.s_columns[columns]
        sx = product(s, other_x)
        entries = np.zeros((self.widths.size + 1, len(x), len(other_x)))
        terms = (
            self.code,
            self.widths,
            x.shape[1],
            gram(s) if own else product(s, other_s),
            gram(x) if own else product(x, other_x),
            sx + (sx.T if own else product(x, other_s)),
            np.einsum("id,id->i", x, x),
            np.einsum("id,id->i", other_x, other_x),
            np.einsum("id,id->i", s, x),
            np.einsum("id,id->i", other_s, other_x),
            own,
        )
        share(
            lambda first, last: _terms(*terms, first, last, entries),
            len(x),
            large=entries.size > _LARGE,
        )
        first, second = block.rows.start + rows.start, block.columns.start + columns.start
        return slice(first, first + len(x)), slice(second, second + len(other_x)), entries

    def sums_and_replicates(self, weights: Array) -> tuple[Array, Array]:
        """Sums over pairs ``i < j`` of components, (c,), and weighted by ``w_i w_j``, (c, B)."""
        count = self.widths.size + 1
        sums, replicates = np.zeros(count), np.zeros((count, weights.shape[0]))
        for rows, columns, entries in self.tiles():
            sums += entries.sum(axis=(1, 2))
            replicates += quadratic_forms(entries, weights, rows.start, columns.start)
        return sums, replicates

    def limit_weights(self, k: int) -> Array:
        """Chi-square weights of the limit distribution of a component's mean over pairs.

        Groups are independent of each other, so their weights stand side by side. Of many groups
        some are looked at, and stand for their neighbours.
        """
        groups: dict[int, list[Block]] = {}
        for block in self.blocks:
            groups.setdefault(block.group, []).append(block)
        parts = np.array_split(sorted(groups), min(len(groups), _MOST_GROUPS))
        weights = []
        for part in parts:
            some, size = _numbered_anew(groups[part[0]])
            alone = WholeVector(self.code, size, some, self.widths)
            one = limit_weights(alone.component(k).spectrum(), size)
            weights.append(np.tile(one * (alone.n_pairs / self.n_pairs), len(part)))
        return np.concatenate(weights)

    def coordinate_sums(self, k: int) -> Array:
        """The sum over pairs ``i < j`` of a component, for each coordinate of the score, (d,)."""
        total: Any = 0.0
        for block in self.blocks:
            rows, columns = (block.x_rows, block.s_rows), (block.x_columns, block.s_columns)
            kernels = self._kernels(k, rows[0], columns[0])
            if block.on_diagonal:
                kernels = tuple(np.triu(kernel, 1) for kernel in kernels)
            if self.importance is not None:
                w = self.importance[block.rows, None] * self.importance[block.columns]
                kernels = tuple(w * kernel for kernel in kernels)
            if block.upright is not None:
                turn = block.upright()
                rows, columns = ((product(x, turn), product(s, turn)) for x, s in (rows, columns))
            total = total + _by_coordinate(*kernels, *rows, *columns)
        return total

    def _kernels(self, k: int, x: Array, other: Array) -> tuple[Array, Array, Array]:
        """Factors of ``s_i s_j``, of the first derivatives with one, and of squared distances."""
        inner = product(x, other)
        if k == self.widths.size:
            return inner, np.ones_like(inner), np.zeros_like(inner)
        h2 = self.widths[k] ** 2
        squares = np.einsum("id,id->i", x, x)[:, None] + np.einsum("id,id->i", other, other)
        squares = np.maximum(squares - 2.0 * inner, 0.0) / h2
        if self.code == 0:
            kernel = np.exp(-0.5 * squares)
            return kernel, kernel / h2, kernel / h2**2
        kernel = 1.0 / np.sqrt(1.0 + squares)
        return kernel, kernel**3 / h2, 3.0 * kernel**5 / h2**2

    def component(self, k: int) -> PairTerms:
        """The terms of one component, as a `PairEngine`; samples apart have none."""
        return _Component(self, k)


def _numbered_anew(blocks: Sequence[Block]) -> tuple[list[Block], int]:
    """The blocks of one group, with its samples numbered from 0, and their number."""
    stretches = sorted({(s.start, s.stop) for one in blocks for s in (one.rows, one.columns)})
    places, size = {}, 0
    for start, stop in stretches:
        places[start] = slice(size, size + stop - start)
        size += stop - start
    return [
        one._replace(rows=places[one.rows.start], columns=places[one.columns.start], group=0)
        for one in blocks
    ], size


def _by_coordinate(
    value: Array, slope: Array, curve: Array, x: Array, s: Array, other_x: Array, other_s: Array
) -> Array:
    """Stein terms summed over the pairs of a block, for each coordinate."""
    terms = (s * product(value, other_s.T)).sum(axis=0) + slope.sum()
    # The linear kernel x.x' has no term in the difference of the samples, only each sample's own.
    linear = not curve.any()
    rows, columns = slope.sum(axis=1), slope.sum(axis=0)
    terms += rows @ (s * x) + columns @ (other_s * other_x)
    if linear:
        return terms
    terms -= (s * product(slope, other_x.T) + x * product(slope, other_s.T)).sum(axis=0)
    terms -= curve.sum(axis=1) @ x**2 + curve.sum(axis=0) @ other_x**2
    return terms + 2.0 * (x * product(curve, other_x.T)).sum(axis=0)


class _Component(PairTerms):
    """One component of a `WholeVector`."""

    name = "direct"

    def __init__(self, whole: WholeVector, k: int):
        self.whole, self.k, self.n = whole, k, whole.n

    def tiles(self) -> Iterator[tuple[slice, slice, Array, Array]]:
        """Tiles of the blocks there are."""
        for rows, columns, entries in self.whole.tiles():
            yield rows, columns, entries[self.k], np.atleast_1d(entries[self.k].sum())

    def diagonal_terms(self) -> Array:
        """Terms of each sample with itself, (n,), in the coordinates of its own block."""
        terms = np.zeros(self.n)
        for block in self.whole.blocks:
            if block.on_diagonal:
                x, s = block.x_rows, block.s_rows
                ss = np.einsum("id,id->i", s, s)
                if self.k < self.whole.widths.size:
                    terms[block.rows] = ss + x.shape[1] / self.whole.widths[self.k] ** 2
                else:
                    xx, sx = np.einsum("id,id->i", x, x), np.einsum("id,id->i", s, x)
                    terms[block.rows] = ss * xx + 2.0 * sx + x.shape[1]
        return terms


@compiled
def _terms(
    code,
    widths,
    d,
    ss,
    xx,
    sx,
    x2_rows,
    x2_columns,
    sx_rows,
    sx_columns,
    own,
    first_turn,
    last_turn,
    entries,
):
    """Entries of some rows of a tile, those of an own tile above the diagonal alone."""
    count, n = widths.size, ss.shape[0]
    for turn in range(first_turn, last_turn):
        # From both ends in turn, as rows of an own tile shrink.
        i = turn // 2 if turn % 2 == 0 else n - 1 - turn // 2
        j = i + 1 if own else 0
        for k in range(count):
            _row(
                code,
                widths[k],
                d,
                ss[i, j:],
                xx[i, j:],
                sx[i, j:],
                x2_rows[i],
                x2_columns[j:],
                sx_rows[i],
                sx_columns[j:],
                entries[k, i, j:],
            )
        _linear_row(d, ss[i, j:], xx[i, j:], sx_rows[i], sx_columns[j:], entries[count, i, j:])


@compiled
def _row(code, h, d, ss, xx, sx, x2_i, x2, sx_i, sx_j, out):
    prefer_wide_vectors()
    square = h * h
    precision = 1.0 / square
    for j in range(out.size):
        distance = precision * max(0.0, x2_i + x2[j] - 2.0 * xx[j])
        cross = sx_i + sx_j[j] - sx[j]
        out[j] = precision * ksd_term(code, d, distance, square * ss[j], cross)


@compiled
def _linear_row(d, ss, xx, sx_i, sx_j, out):
    prefer_wide_vectors()
    for j in range(out.size):
        out[j] = ss[j] * xx[j] + sx_i + sx_j[j] + d
