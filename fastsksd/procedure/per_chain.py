"""What a test says of each chain: whether it fits, differs from the others, and is stationary.

All of it is made of moments along coordinates (`fastsksd.procedure.moments`), whose mean is zero
for a chain that follows the model. Their sums over stretches take the place of draws. Moments have
mean zero in every mode of a model whose modes are well separated, so chains are also compared by
where their draws are.

alone
    The largest studentised moment of the stretches of a chain, against random signs of them.
differs
    The largest studentised difference between the moments and coordinates of a chain and those of
    the others, against random choices of as many of all stretches. A chain that differs is left out
    of what the others are compared with.
start
    The first half of all chains in pieces, each against the second half: the largest studentised
    difference, by Student's t and Bonferroni's inequality. Pieces that differ from the beginning on
    are to be dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from .._typing import Array
from .._validate import first_few
from ..compute.linalg import product
from .chains import Chains
from .lags import Lag, choose_lag, measure
from .moments import DEGREES, location_and_unit, plain_moments

_DRAWS = 999  # of signs and of choices
_FEWEST = 8  # stretches that a p-value needs
_PIECES = (10, 5)  # of either half of a chain
_PIECE = 6.0  # autocorrelation times that a piece has at least
_NOT_STATIONARY = 0.005  # p-value of a piece
_LEVEL = 0.05  # at which chains are said to differ
_FAR = 3.0  # deviations from the centre, beyond which a coordinate counts as that far
_NUMBERS = 2**22  # of moments in memory at a time


class ChainRecord(NamedTuple):
    """One chain.

    Attributes
    ----------
    chain : object
        Its label.
    draws : int
        Its length.
    effective_draws : float
        Number of independent draws that are worth as much along its slowest direction; 1 for a
        chain that never moves.
    pvalue : float
        Of this chain alone, by its moments; NaN for fewer than 8 stretches, and where the chains
        together are too short by their own memory.
    pvalue_differs : float
        That it differs from the other chains; NaN where there are no others, fewer than 8 stretches
        in all, or the others too are too short to tell. It does not allow for the number of chains.
    """

    chain: Any
    draws: int
    effective_draws: float
    pvalue: float
    pvalue_differs: float


class Start(NamedTuple):
    """A piece of the first half of all chains.

    Attributes
    ----------
    end : float
        Where it ends, as a fraction of a chain.
    pvalue : float
        That it differs from the second half.
    """

    end: float
    pvalue: float


class ChainReport(NamedTuple):
    """What is known of the chains of a test.

    Attributes
    ----------
    chains : tuple of ChainRecord
    start : tuple of Start
        Empty where chains are too short for pieces of them.
    burn_in : int
        Draws at the start of every chain that are not yet stationary, to be dropped.
    apart : bool
        Whether chains are in different places: their means scatter by more than the memory within
        them allows.
    """

    chains: tuple[ChainRecord, ...]
    start: tuple[Start, ...]
    burn_in: int
    apart: bool = False

    @property
    def different(self) -> tuple[Any, ...]:
        """Labels of chains that differ from the others at level 0.05, by Bonferroni."""
        limit = _LEVEL / max(1, len(self.chains))
        return tuple(one.chain for one in self.chains if one.pvalue_differs <= limit)

    @property
    def places(self) -> str:
        """Which chains are in different places, in words; empty where they are not `apart`."""
        if not self.apart:
            return ""
        if not self.different:
            return "the chains are in different places"
        some = first_few(self.different)
        if len(self.different) == 1:
            return f"chain {some} is in another place than the others"
        return f"chains {some} are in other places than the others"


def per_chain(x: Array, scores: Array, chains: Chains, lag: Lag) -> ChainReport:
    """The report of chains with draws and scores (n, d), in the caller's order of rows."""
    x, scores = x[chains.order], scores[chains.order]
    lengths, apart = chains.lengths, lag.within is not None
    lag = lag.within or lag
    edges = np.cumsum([0, *lengths]).tolist()
    stretches, owner = _stretches(lengths, lag.length)
    pieces, count = _pieces(x, scores, edges)
    counts = np.diff(np.append(stretches, edges[-1]))
    sums, place_sums, piece_sums = _sums(x, scores, stretches, pieces)
    rng = np.random.default_rng(0)
    differences = _differences(np.concatenate([sums, place_sums]) / counts, owner, rng)
    if lag.needed:
        # Stretches of chains that are too short depend on each other: no p-values. But a single
        # chain that is stuck can be told from others that are long enough.
        for k in range(len(lengths)):
            if not _long_enough_without(k, x, scores, edges):
                differences[k] = float("nan")
    moves = [bool(np.ptp(x[start:stop], axis=0).any()) for start, stop in pairwise(edges)]
    records = []
    for k, (start, stop) in enumerate(pairwise(edges)):
        m = stop - start
        memory = measure(x[start:stop], scores[start:stop], [m])
        records.append(
            ChainRecord(
                chains.labels[k],
                m,
                m / (1.0 if memory.independent else memory.slowest) if moves[k] else 1.0,
                float("nan") if lag.needed else _alone(sums[:, owner == k], rng),
                differences[k],
            )
        )
    start_pvalues = _start(piece_sums, pieces, edges, count)
    dropped = 0.0
    for one in start_pvalues:
        if one.pvalue > _NOT_STATIONARY:
            break
        dropped = one.end
    return ChainReport(tuple(records), start_pvalues, int(np.ceil(dropped * max(lengths))), apart)


def _stretches(lengths: Sequence[int], length: float) -> tuple[np.ndarray, np.ndarray]:
    """Where stretches begin, and the chain of each."""
    starts, owner, first = [], [], 0
    for k, m in enumerate(lengths):
        count = max(1, min(m, int(m / max(length, m / 200.0) + 1e-9)))
        starts.append(first + np.linspace(0, m, count + 1).astype(int)[:-1])
        owner += [k] * count
        first += m
    return np.concatenate(starts), np.array(owner)


def _long_enough_without(k: int, x: Array, scores: Array, edges: list[int]) -> bool:
    """Whether the other chains would have a verdict of their own."""
    rows = np.r_[0 : edges[k], edges[k + 1] : edges[-1]]
    others = np.delete(np.diff(edges), k).tolist()
    return bool(others) and not choose_lag(x[rows], scores[rows], others).needed


def _pieces(x: Array, scores: Array, edges: list[int]) -> tuple[np.ndarray, int]:
    """Where pieces of the chains begin, and their number in half a chain; 0 for too short ones.

    The memory is that of the second halves: a start that is far off would seem slow.
    """
    rows = np.concatenate([np.arange((a + b) // 2, b) for a, b in pairwise(edges)])
    halves = [b - (a + b) // 2 for a, b in pairwise(edges)]
    if min(halves) < 2 * max(_PIECES):
        return np.array(edges[:-1]), 0
    memory = measure(x[rows], scores[rows], halves)
    tau = 1.0 if memory.independent else memory.sure
    for count in _PIECES:
        if min(halves) / count >= _PIECE * tau:
            parts = [np.linspace(a, b, 2 * count + 1).astype(int)[:-1] for a, b in pairwise(edges)]
            return np.concatenate(parts), count
    return np.array(edges[:-1]), 0


def _sums(
    x: Array, scores: Array, stretches: np.ndarray, pieces: np.ndarray
) -> tuple[Array, Array, Array]:
    """Sums over stretches of moments and of coordinates, and of moments over pieces.

    (features, .) each.
    """
    n, d = x.shape
    centre, unit = location_and_unit(x)
    width = max(1, _NUMBERS // (len(DEGREES) * n))
    found: tuple[list[Array], list[Array], list[Array]] = ([], [], [])
    for first in range(0, d, width):
        some = slice(first, first + width)
        features = plain_moments(x[:, some], scores[:, some], centre[some], unit[some], DEGREES)
        flat = features.reshape(-1, n)
        place = np.clip((x[:, some] - centre[some]) / unit[some], -_FAR, _FAR).T
        values = (flat, stretches), (place, stretches), (flat, pieces)
        for one, (what, starts) in zip(found, values, strict=True):
            one.append(np.add.reduceat(what, starts, axis=1))
    return np.concatenate(found[0]), np.concatenate(found[1]), np.concatenate(found[2])


def _alone(sums: Array, rng: np.random.Generator) -> float:
    count = sums.shape[1]
    if count < _FEWEST:
        return float("nan")
    size = np.sqrt(np.einsum("fg,fg->f", sums, sums))
    sums = sums[size > 0] / size[size > 0, None]
    signs = rng.choice([-1.0, 1.0], (_DRAWS, count))
    signs[0] = 1.0
    return _rank(np.abs(product(signs, sums)).max(axis=1, initial=0.0))


def _differences(means: Array, owner: np.ndarray, rng: np.random.Generator) -> list[float]:
    """P-values that chains differ from the others; those that do are left out in turn."""
    count = int(owner[-1]) + 1
    found, left = [float("nan")] * count, list(range(count))
    while len(left) > 1:
        some = np.isin(owner, left)
        values = [_differs(means[:, some], owner[some] == k, rng) for k in left]
        for k, (_, pvalue) in zip(left, values, strict=True):
            found[k] = pvalue
        _, pvalue, worst = max((*value, k) for value, k in zip(values, left, strict=True))
        if not pvalue <= _LEVEL / count or len(left) == 2:
            break
        left.remove(worst)
    return found


def _differs(means: Array, own: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """The largest difference in units of its deviation, and its p-value."""
    count, k = own.size, int(own.sum())
    if count < _FEWEST:
        return 0.0, float("nan")
    means = means - means.mean(axis=1, keepdims=True)
    size = np.sqrt(np.einsum("fg,fg->f", means, means))
    means = means[size > 0] / size[size > 0, None]
    chosen = np.argsort(rng.random((_DRAWS, count)), axis=1) < k
    chosen[0] = own
    values = np.abs(product(chosen.astype(float), means)).max(axis=1, initial=0.0)
    return float(values[0]) / np.sqrt(k * (1.0 - k / count)), _rank(values)


def _rank(values: Array) -> float:
    """The p-value of the first value among all."""
    return float(np.mean(values >= values[0] * (1.0 - 1e-12)))


def _start(sums: Array, pieces: np.ndarray, edges: list[int], count: int) -> tuple[Start, ...]:
    from scipy.special import stdtr

    if count == 0:
        return ()
    chains = len(edges) - 1
    lengths = np.diff(np.append(pieces, edges[-1]))
    means = (sums / lengths).reshape(len(sums), chains, 2 * count)
    later = means[:, :, count:]
    own = later.mean(axis=2, keepdims=True)
    freedom = (count - 1) * chains
    variance = ((later - own) ** 2).sum(axis=(1, 2)) / freedom
    varied = variance > 0
    spread = np.sqrt(variance[varied] * (1.0 + 1.0 / count) / chains)
    found = []
    for k in range(count):
        difference = (means[varied, :, k] - own[varied, :, 0]).mean(axis=1)
        t = np.abs(difference / spread).max(initial=0.0)
        pvalue = min(1.0, 2.0 * int(varied.sum()) * float(stdtr(freedom, -t)))
        found.append(Start((k + 1) / (2.0 * count), pvalue))
    return tuple(found)
