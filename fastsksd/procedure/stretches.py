"""Chains cut into stretches that are nearly independent of each other: the null for chains.

Every chain is cut into stretches of consecutive draws, several times as long as its memory (see
`fastsksd.procedure.lags`). The last draws of a stretch, about one autocorrelation time of them, are
left out, so that what remains of a stretch hardly depends on the next one. A replicate draws one
sign for each stretch,

    ``T_b = sum_{g != h} w_g w_h S_g.S_h``,

with S_g the sum of the Stein features over a stretch. Pairs within a stretch keep their sign in
every replicate, so they add the same to the statistic and to its replicates and have no part in the
p-value. If stretches are independent and their sums symmetric, the test is an exact randomisation
test, however few stretches there are. That is what estimates of a long-run covariance lack. A chain
shorter than two stretches is one stretch in itself, which is independent of the other chains
however slow it is.

Measured on AR(1) chains of the model that are tested, at level 5%, with the true autocorrelation
time (coefficient 0.5, one chain, 1000 draws, d = 20; 200 to 300 tests each; location, scale, KSD):

====================================================  =====  =====  =====
signs of a Markov chain with lag 16 tau                 8.0    5.0    9.3
stretches of 6 tau, all pairs of stretches              9.0    6.0   10.0
the same without pairs of neighbours                    5.7    5.3    7.0
the same with gaps of one tau                           5.7    5.0    4.0
tapered signs, window 4 tau                             6.0    5.0    2.0
tapered signs, window 8 tau                             4.0    4.5    0.0
every second tau-th draw alone                          7.0    4.5    6.5
batch means of 8 tau with Hotelling's F                 8.0
====================================================  =====  =====  =====

``notebooks/assumptions.md`` compares more of them, with longer memory and with several chains.

Neighbouring stretches without gaps have a correlation of ``tau / 4L``. In d dimensions it moves the
mean of the statistic by ``d tau / 2L``, against a standard deviation of ``sqrt(2 d)``, which is why
gaps matter most in many dimensions.

Slices and metrics are learnt on other stretches than they test. The two parts of a split are the
beginnings and the ends of all chains; chains of one stretch are in either part as a whole. With
whole chains in either part the test is the same: right models were rejected in 13 of 297 tests in
place of 12, a narrow direction in 237 of 298 in place of 242, a shift in 139 of 197 in place of 141
(AR(1) with coefficients 0.5 and 0.9, 4 and 16 chains, d = 10 and 20). That needs several chains,
and one that is stuck would be in one part alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .._typing import Array
from .lags import Lag


class Layout(NamedTuple):
    """Which draws are used, in which order, and their stretches.

    Attributes
    ----------
    rows : (n,) array of int
        Draws, chain by chain, first those of the first part, then the others.
    stretch : (n,) array of int
        Number of the stretch of each draw, in ascending order.
    n_first : int
        Number of draws of the first part.
    """

    rows: np.ndarray
    stretch: np.ndarray
    n_first: int


def lay_out(lengths: Sequence[int], lag: Lag, n_first: int) -> Layout:
    """Stretches of chains, about `n_first` of their draws in the first part."""
    parts: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    start, assigned, n = 0, 0, sum(lengths)
    for m in lengths:
        wanted = (start + m) * n_first / n - assigned
        if len(lengths) == 1 or m >= 2.0 * lag.length:
            cut = n_first if len(lengths) == 1 else round(m * n_first / n)
        else:
            cut = m if wanted >= 0.5 * m and n_first else 0
        for part, first, last in ((0, 0, cut), (1, cut, m)):
            if last > first:
                parts[part].extend(_stretches(start + first, start + last, lag, last == m))
        assigned += cut
        start += m
    both = [*parts[0], *parts[1]]
    stretch = np.repeat(np.arange(len(both)), [one.size for one in both])
    return Layout(np.concatenate(both), stretch, sum(one.size for one in parts[0]))


def consecutive(n: int, lag: float) -> np.ndarray | None:
    """Stretches of `lag` draws of one chain, without gaps; None for independent samples."""
    if lag <= 1:
        return None
    count = max(1, int(n / lag + 1e-9))
    return np.arange(n) * count // n


def starts_of(stretch: np.ndarray) -> np.ndarray:
    """Where stretches begin, from the stretch of each draw."""
    return np.flatnonzero(np.diff(stretch, prepend=-1))


def add_to_stretches(features: Array, stretch: np.ndarray, totals: Array) -> None:
    """Add features (k, n) of consecutive draws to the sums over their stretches, (k, stretches)."""
    starts = starts_of(stretch)
    totals[:, stretch[starts]] += np.add.reduceat(features, starts, axis=1)


def _stretches(start: int, stop: int, lag: Lag, ends: bool) -> list[np.ndarray]:
    """The draws of each stretch between two places of a chain; `ends` if it ends there."""
    count = max(1, int((stop - start) / lag.length + 1e-9))
    edges = np.linspace(start, stop, count + 1).astype(int).tolist()
    found = []
    for k in range(count):
        gap = 0 if ends and k == count - 1 else lag.gap
        found.append(np.arange(edges[k], max(edges[k] + 1, edges[k + 1] - gap)))
    return found
