"""Second moments of features whose samples lie in cells, and whether they are worth their making.

Nearly all samples lie in the middle cell of every slice: the moments of these are one matrix. A far
cell of a slice is met by few samples. It has moments with itself, with the middle cells of all
slices at once, and with those far cells of other slices that hold some of its samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .._typing import Array
from .._validate import ArgumentError
from ..compute.linalg import gram, product

Cell: TypeAlias = tuple[int, int]  # slice and number of the cell

_MOST_NUMBERS = 2**28  # 2 GB
_STRIP = 512  # rows of the moments of the middle cells that are made at a time


class TooMuchWork(ArgumentError):
    """Slices or a kernel whose limit distribution would take too long; no chunk is to blame."""


class Members(NamedTuple):
    """Samples in a far cell, by number, and their features there, (features, samples)."""

    samples: np.ndarray
    features: Array


def take_far(features: Array, cells: np.ndarray, ends: np.ndarray) -> dict[Cell, Members]:
    """Take the features in far cells out of a block; zeros take their place."""
    slices, samples = np.nonzero(cells)
    if not slices.size:
        return {}
    keys = np.stack([slices, cells[slices, samples]])
    keys, owner = np.unique(keys, axis=1, return_inverse=True)
    order = np.argsort(owner.ravel(), kind="stable")
    parts = np.split(samples[order], np.cumsum(np.bincount(owner.ravel()))[:-1])
    far = {}
    for (q, cell), part in zip(keys.T.tolist(), parts, strict=True):
        rows = features[ends[q] : ends[q + 1]]
        far[q, cell] = Members(part, rows[:, part])
        rows[:, part] = 0.0
    return far


class CellMoments:
    """Second moments of the features of samples in cells.

    Parameters
    ----------
    ends : (m + 1,) array
        Where the features of each slice begin and end.
    """

    def __init__(self, ends: np.ndarray) -> None:
        self.ends = ends
        # Of the middle cells: for slices p <= q the block of rows q and columns p, at least.
        self._middle = np.zeros((0, 0))
        self._beside: dict[Cell, Array] = {}  # of a far cell and all middle cells
        self._far: dict[tuple[Cell, Cell], Array] = {}  # of two far cells, in order

    def add(self, features: Array, far: Mapping[Cell, Members]) -> bool:
        """Add a block of samples, from which those in far cells were taken out.

        Returns whether there was room; if not, nothing is added.
        """
        pairs = _meeting(far, features.shape[1])
        if not self._has_room(far, pairs):
            return False
        if not self._middle.size:
            self._middle = np.zeros((len(features), len(features)))
        for first in range(0, len(features), _STRIP):
            last = min(first + _STRIP, len(features))
            # To the end of the slice that the strip ends in.
            end = self.ends[np.searchsorted(self.ends, last)]
            self._middle[first:last, :end] += product(features[first:last], features[:end])
        for key, members in far.items():
            there = features[:, members.samples]
            accumulate(self._beside, key, product(members.features, there))
            accumulate(self._far, (key, key), gram(members.features))
        for one, other in pairs:
            _, left, right = np.intersect1d(
                far[one].samples, far[other].samples, assume_unique=True, return_indices=True
            )
            moments = product(far[one].features[:, left], far[other].features[:, right])
            accumulate(self._far, (one, other), moments)
        return True

    @property
    def nbytes(self) -> int:
        """Memory of the numbers."""
        return 8 * self._numbers(self._beside, self._far)

    def _size(self, key: Cell) -> int:
        return int(self.ends[key[0] + 1] - self.ends[key[0]])

    def _has_room(self, far: Mapping[Cell, Members], pairs: list[tuple[Cell, Cell]]) -> bool:
        beside = far.keys() | self._beside.keys()
        both = {*pairs, *self._far}
        return self._numbers(beside, both) <= _MOST_NUMBERS

    def _numbers(self, beside: Any, pairs: Any) -> int:
        width = int(self.ends[-1])
        return (
            width * width
            + width * sum(map(self._size, beside))
            + sum(self._size(one) * self._size(other) for one, other in pairs)
        )

    def merged(self, other: CellMoments) -> CellMoments | None:
        """The moments of both, in a new object; None where there is no room."""
        total = CellMoments(self.ends)
        beside, far = self._beside.keys() | other._beside.keys(), self._far.keys() | other._far
        if self._numbers(beside, far) > _MOST_NUMBERS:
            return None
        if not self._middle.size:
            return other
        if not other._middle.size:
            return self
        total._middle = self._middle + other._middle
        total._beside, total._far = dict(self._beside), dict(self._far)
        for mine, theirs in ((total._beside, other._beside), (total._far, other._far)):
            for key, value in theirs.items():
                accumulate(mine, key, value)
        return total

    def own(self, key: Cell) -> Array:
        """Second moments of a cell."""
        q, cell = key
        if cell:
            return self._far[key, key]
        rows = slice(self.ends[q], self.ends[q + 1])
        return self._middle[rows, rows]

    def reduced(self, basis: Mapping[Cell, Array]) -> Array:
        """The second moments of all cells along a basis of each, in the order of these."""
        ends = np.cumsum([0, *(one.shape[1] for one in basis.values())])
        rows = {key: slice(ends[k], ends[k + 1]) for k, key in enumerate(basis)}
        second = np.zeros((ends[-1], ends[-1]))

        def fill(one: Cell, other: Cell, moments: Array) -> None:
            block = basis[one].T @ moments @ basis[other]
            second[rows[one], rows[other]] = block
            second[rows[other], rows[one]] = block.T

        middles = [key for key in basis if key[1] == 0]
        of = {key: slice(self.ends[key[0]], self.ends[key[0] + 1]) for key in middles}
        for one in middles:
            for other in middles:
                if other <= one:
                    fill(one, other, self._middle[of[one], of[other]])
        for one, moments in self._beside.items():
            for other in middles:
                fill(one, other, moments[:, of[other]])
        for (one, other), moments in self._far.items():
            fill(one, other, moments)
        return second


def _meeting(far: Mapping[Cell, Members], n: int) -> list[tuple[Cell, Cell]]:
    """Pairs of far cells, of different slices, that share samples."""
    from scipy.sparse import csr_array

    if len(far) < 2:
        return []
    samples = np.concatenate([members.samples for members in far.values()])
    starts = np.cumsum([0, *(members.samples.size for members in far.values())])
    held = csr_array((np.ones(samples.size, np.int32), samples, starts), shape=(len(far), n))
    keys = list(far)
    shared = (held @ held.T).tocoo()
    return [
        (keys[a], keys[b])
        for a, b in zip(shared.row.tolist(), shared.col.tolist(), strict=True)
        if a < b
    ]


def accumulate(table: dict[Any, Array], key: Any, value: Array) -> None:
    """Add to an entry of a table, in a new array."""
    table[key] = table[key] + value if key in table else value
