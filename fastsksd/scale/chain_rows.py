"""Draws of chains that arrive in chunks, as rows of the sums over groups of samples.

Groups of consecutive rows share a sign, so they must be nearly independent of each other. Of every
``length + gap`` draws of a chain the last `gap`, one autocorrelation time, are left out, as in
`fastsksd.procedure.stretches`. The others are numbered: first those of the head, chain by chain,
then those that follow, each chain from a number of its own on. So no group holds draws of two
chains, but for the head, and chunks may be added on any machine in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .._typing import Array
from .._validate import ArgumentError
from ..procedure.lags import FEWEST, LONGEST, SHORTEST, measure, stretches_of

_FAR = 2**36  # beyond the number of draws of a chain


class ChainRows(NamedTuple):
    """Which draws of chains are used, and the numbers of their rows.

    Attributes
    ----------
    chains : int
        Number of chains.
    head : int
        Draws of every chain that fix the family and are rows themselves.
    length, gap : int
        Consecutive draws that are used, and left out after them.
    tau : float
        The autocorrelation time along the slowest direction.
    """

    chains: int
    head: int
    length: int
    gap: int
    tau: float

    @property
    def dependent(self) -> bool:
        """Whether draws depend on their neighbours."""
        return self.length > 1

    def pieces(self, first: int, x: Array, scores: Array) -> Iterator[tuple[int, Array, Array]]:
        """The first row, draws and scores of each piece of the draws from `first` on.

        `x` and `scores` have the shape (chains, draws, d).
        """
        stop = first + x.shape[1]
        for low, high in ((first, min(stop, self.head)), (max(first, self.head), stop)):
            draws = np.arange(low, high)
            used = draws[draws % (self.length + self.gap) < self.length] - first
            if used.size:
                for chain in range(self.chains):
                    yield self.row(chain, low), x[chain, used], scores[chain, used]

    def row(self, chain: int, draw: int) -> int:
        """The row of a draw, or of the next one that is used."""
        if draw < self.head:
            return chain * self.used(self.head) + self.used(draw)
        return (chain + 1) * _FAR + self.used(draw)

    def used(self, draws: int) -> int:
        """How many of the first draws of a chain are used."""
        whole, rest = divmod(draws, self.length + self.gap)
        return whole * self.length + min(rest, self.length)

    def needed(self) -> int:
        """Draws of all chains that a verdict needs."""
        return FEWEST * (self.length + self.gap)


def chain_rows(x: Array, scores: Array, separate: bool) -> ChainRows:
    """Rows of chains whose first draws have the shape (chains, draws, d)."""
    chains, head, d = x.shape
    lengths = [head] * chains
    memory = measure(x.reshape(-1, d), scores.reshape(-1, d), lengths)
    counted = 0 if separate else head
    if memory.independent:
        return ChainRows(chains, counted, 1, 0, 1.0)
    tau = memory.slowest
    if stretches_of(lengths, SHORTEST * tau) < FEWEST:
        raise ArgumentError(
            "first",
            f"has {head} draws of every chain, too few to measure how long the chains remember: "
            f"{tau:.3g} draws or more",
            remedy=f"About {int(np.ceil(FEWEST * SHORTEST * tau / chains))} are needed.",
        )
    gap = max(1, round(tau))
    return ChainRows(chains, counted, max(2, round(LONGEST * tau) - gap), gap, tau)
