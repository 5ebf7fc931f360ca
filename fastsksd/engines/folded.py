"""Stein terms of slices whose bandwidths and units come from other samples, fold by fold.

A bandwidth that is found on the samples of a pair biases the mean of its Stein term. The bias of
one slice is small; summed over many slices it is not. Here the pairs of every two folds have
bandwidths and units that were found on the other folds, so that every term has mean zero under the
model. See `fastsksd.procedure.other_rows` for when this is done.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._typing import Array
from ..compute.pointwise import diagonal_term
from .pairs import PairTerms


class FoldPair(NamedTuple):
    """Pairs of samples of two folds, or of one with itself.

    Attributes
    ----------
    rows, columns : arrays of int
        The samples of both folds, the same array for one fold.
    h : (m,) array
        Bandwidth of each slice.
    units : (m,) array
        What scores along each slice are multiplied by.
    """

    rows: np.ndarray
    columns: np.ndarray
    h: Array
    units: Array

    def of(self, some: Any) -> FoldPair:
        """The same for some of the slices."""
        return self._replace(h=self.h[some], units=self.units[some])


class FoldedEngine(PairTerms):
    """Stein terms of m slices, stored for all pairs of samples.

    Parameters
    ----------
    code : int
        Code of the kernel.
    y, s : (m, n) arrays
        Samples along g and scores along r.
    a : (m,) array
        ``r.g``.
    pairs : sequence of FoldPair
        They cover every two samples once.
    engine : callable
        The engine of one pair of folds, pair by pair: it takes code, y, s, a and h.
    """

    name = "direct"

    def __init__(
        self,
        code: int,
        y: Array,
        s: Array,
        a: Array,
        pairs: Sequence[FoldPair],
        engine: Callable[..., PairTerms],
    ):
        self.code, self.y, self.s, self.a, self.pairs = code, y, s, a, pairs
        self.engine = engine
        self.n = y.shape[1]
        self._stored: tuple[Array, Array] | None = None

    def _terms(self) -> tuple[Array, Array]:
        """All terms, zero where ``i >= j``, and their sum for each slice."""
        if self._stored is None:
            entries: Array = np.zeros((self.n, self.n))
            sums: Array = np.zeros(len(self.a))
            for pair in self.pairs:
                own = pair.rows is pair.columns
                engine = self._engine_of(pair, own)
                first = slice(0, len(pair.rows))
                second = first if own else slice(first.stop, engine.n)
                block, part = engine.tile(first, second)
                entries[np.ix_(pair.rows, pair.columns)] = block
                sums += part
            self._stored = np.triu(entries + entries.T, 1), sums
        return self._stored

    def _engine_of(self, pair: FoldPair, own: bool) -> PairTerms:
        samples = pair.rows if own else np.concatenate([pair.rows, pair.columns])
        s = pair.units[:, None] * self.s[:, samples]
        return self.engine(self.code, self.y[:, samples], s, pair.units * self.a, pair.h)

    def tile(self, rows: slice, columns: slice) -> tuple[Array, Array]:
        """Entries of a tile; the sums for each slice belong to the first tile."""
        entries, sums = self._terms()
        first = rows.start == columns.start == 0
        return np.ascontiguousarray(entries[rows, columns]), sums if first else 0.0 * sums

    def diagonal(self) -> Array:
        """``sum_i mu_ii`` for each slice."""
        return self._own_terms().sum(axis=1)

    def diagonal_terms(self) -> Array:
        """``mu_ii``, summed over slices, (n,)."""
        return self._own_terms().sum(axis=0)

    def _own_terms(self) -> Array:
        terms: Array = np.zeros_like(self.s)
        for pair in self.pairs:
            if pair.rows is pair.columns:
                s, a = pair.units[:, None] * self.s[:, pair.rows], pair.units * self.a / pair.h
                terms[:, pair.rows] = diagonal_term(s, a[:, None])
        return terms

    def rescaled(self, multiple: float) -> FoldedEngine:
        """The same slices with their bandwidths multiplied."""
        other = copy.copy(self)
        other.pairs = [pair._replace(h=multiple * pair.h) for pair in self.pairs]
        other._stored = None if multiple != 1.0 else self._stored
        return other

    def sums_and_replicates_at(
        self, multiples: Sequence[float], weights: Any, start: int = 0
    ) -> list[tuple[Array, Array]]:
        """`sums_and_replicates` at several multiples of the bandwidth: a list of pairs."""
        return [self.rescaled(one).sums_and_replicates(weights, start) for one in multiples]
