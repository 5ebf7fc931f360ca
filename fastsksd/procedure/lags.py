"""How long chains remember, and how long the stretches are whose signs a replicate draws.

Draws of a chain depend on their neighbours, so that signs drawn for each of them would make the
null distribution too narrow. Replicates draw one sign for every stretch of consecutive draws, see
`fastsksd.procedure.stretches`, and a stretch must be several times as long as the memory.

**Memory.** The integrated autocorrelation time ``tau = 1 + 2 sum_k rho_k``, with Sokal's window
[1]_: the sum ends at the first k that is at least five times the tau so far. It is measured for
the samples, the scores, squares of the samples and products of both along every coordinate, and
along the slowest direction of samples and of scores, which is found on either half of the draws
and measured on the other. Every chain is centred by itself, products do not reach across the border
of two chains, and sums are over all chains. The largest tau of all counts. For draws that
alternate, as those of a good sampler may, ``1 + 2 sum_k (-1)^k rho_k`` is the larger one.

**Agreement.** Chains that have not mixed sit in places of their own, and each of them may forget
quickly within its place. The means of chains that have scatter with variance ``tau sigma^2 / m``.
Where along some coordinate they scatter by more than the memory within the chains allows, by a
chi-square test, their scatter tells the memory in its place. Chains that are not much longer than
their memory show too little of it once they are centred, and too little of their variance. What is
allowed is therefore at least what a chain of first order allows that has their correlation of
neighbours, corrected for the centring as in [2]_.

**Length.** Between `SHORTEST` and `LONGEST` times tau. The longer ones lose fewer draws to the
gaps between stretches; they are taken where there are many draws. At least `FEWEST` stretches are
needed. Of chains with fewer the test says that they are too short to tell.

References
----------
.. [1] A. D. Sokal, "Monte Carlo methods in statistical mechanics: foundations and new algorithms",
   in Functional Integration, Springer, 1997.
.. [2] M. G. Kendall, "Note on bias in the estimation of autocorrelation", Biometrika 41, 1954.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .._typing import Array
from .._validate import ArgumentError
from ..compute.linalg import gram, product
from .covariances import location_and_deviation, moderate

SHORTEST, LONGEST = 6.0, 20.0  # times tau
FEWEST = 16  # stretches
_AT_LEAST = 4.0  # times the tau that is certain, where chains are short
_WANTED = 100  # stretches beyond which they are made longer
_MOST = 1998  # stretches, as replicates of many samples meet so many groups
_WINDOW = 5.0
_NUMBERS = 2**24  # of series that the memory is measured on
_BLOCK = 2**21  # numbers that are transformed at a time
_DIRECTIONS = 100  # coordinates that the slowest direction is looked for in
_FIRST_ORDER = 6.0  # draws of a chain that the correlation of neighbours can be corrected with
_DISAGREE = 1e-3  # level at which chains are said to be in places of their own


class Memory(NamedTuple):
    """How long chains remember.

    Attributes
    ----------
    slowest : float
        The largest autocorrelation time.
    sure : float
        What it is at least, allowing for the noise of the largest of many estimates.
    independent : bool
        Whether nothing differs from independent draws.
    """

    slowest: float
    sure: float
    independent: bool


class Lag(NamedTuple):
    """How chains are cut.

    Attributes
    ----------
    length : float
        Of the stretches, with the gap after each.
    gap : int
        Draws between two stretches of a chain that are left out.
    needed : int
        Number of draws that a verdict needs; 0 where there are enough.
    effective : float
        Number of independent draws that are worth as much along the slowest direction.
    within : Lag or None
        How chains that are in different places would be cut by the memory within each of them;
        None for chains that agree.
    """

    length: float
    gap: int
    needed: int
    effective: float
    within: Lag | None = None


def choose_lag(x: Array, scores: Array | None, lengths: Sequence[int]) -> Lag:
    """Stretches for chains of these lengths, (n, d) draws chain by chain."""
    memory = measure(x, scores, lengths)
    lag = _lag(memory, lengths)
    apart = memory_between(x, lengths)
    if apart <= memory.slowest:
        return lag
    return _lag(Memory(apart, apart, False), lengths)._replace(within=lag)


def _lag(memory: Memory, lengths: Sequence[int]) -> Lag:
    n = sum(lengths)
    if memory.independent:
        return _many(Lag(1.0, 0, 0 if n >= FEWEST else FEWEST, float(n)), n)
    tau = memory.slowest
    length = tau * float(np.clip(n / (_WANTED * tau), SHORTEST, LONGEST))
    gap = round(tau)
    needed = 0
    if stretches_of(lengths, length) < FEWEST:
        length = max(1.0, n / FEWEST)
        while stretches_of(lengths, length) < FEWEST and length > 1.0:
            length = max(1.0, 0.95 * length)
        gap = round(min(tau, length / SHORTEST))
        # A chain in one piece is independent of the others, however short.
        if len(lengths) < FEWEST and length < _AT_LEAST * memory.sure:
            needed = rounded_up(FEWEST * SHORTEST * tau)
    return _many(Lag(length, gap, needed, n / max(tau, 1.0)), n)


def check_lag_fits(lag: float, n: int) -> None:
    """There must be stretches to compare."""
    if lag > 0.5 * n:
        raise ArgumentError(
            "lag",
            f"must be at most half the number of samples, {n}, or there are no two stretches of "
            f"that length; got {lag:g}",
        )


def given_lag(lag: float, lengths: Sequence[int]) -> Lag:
    """Stretches of a given length."""
    n = sum(lengths)
    needed = 0
    if stretches_of(lengths, lag) < FEWEST:
        needed = rounded_up(FEWEST * lag)
    return _many(Lag(lag, round(lag / SHORTEST), needed, n * SHORTEST / max(lag, SHORTEST)), n)


def stretches_of(lengths: Sequence[int], length: float) -> int:
    """Number of stretches of about this length."""
    return sum(max(1, int(one / length + 1e-9)) for one in lengths)


def _many(lag: Lag, n: int) -> Lag:
    """Longer stretches, where there would be more than replicates can meet."""
    if lag.length == 1.0 or n / lag.length <= _MOST:
        return lag
    return lag._replace(length=n / _MOST)


def rounded_up(count: float) -> int:
    """A number of draws, to two digits."""
    digit = 10 ** max(0, int(np.floor(np.log10(count))) - 1)
    return int(np.ceil(count / digit) * digit)


def measure(x: Array, scores: Array | None, lengths: Sequence[int]) -> Memory:
    """The memory of chains.

    Parameters
    ----------
    x, scores : (n, d) arrays
        Draws chain by chain, each in its order, and the scores of the model there; None for
        methods that have none.
    lengths : sequence of int
        Of the chains.

    Returns
    -------
    Memory
    """
    x, scores, lengths = _shortened(x, scores, lengths)
    n = x.shape[0]
    series = _series(x, scores)
    kinds = [kind for one in series if len(one) for kind in autocorrelation_times(one, lengths)]
    if not kinds:
        return Memory(1.0, 1.0, True)
    means = [max(1.0, float(kind.tau.mean())) for kind in kinds]
    width = int(np.ceil(max(kind.tau.max() for kind in kinds)))
    for one in series[:2]:
        found = _slowest(one, lengths, width)
        means += [max(means)] * len(found)  # a direction alone is compared with all coordinates
        kinds += found
    count = sum(kind.tau.size for kind in kinds)
    factor = np.sqrt(2.0 * np.log(max(2.0, count)))  # of the largest of so many deviations
    # Of independent draws every window is 5.
    usual = np.sqrt(2.0 * (2.0 * _WINDOW + 1.0) / n)
    slowest = sure = 1.0
    independent = True
    for (tau, window), mean in zip(kinds, means, strict=True):
        noise = np.sqrt(2.0 * (2.0 * window + 1.0) / n)
        sure = max(sure, mean, float(np.max(tau * (1.0 - factor * noise))))
        # The largest of many estimates of the same time is too large.
        chance = mean * np.exp(factor * np.sqrt(2.0 * (2.0 * _WINDOW * mean + 1.0) / n))
        largest = float(tau.max())
        slowest = max(slowest, largest if largest > chance else np.sqrt(mean * max(largest, 1.0)))
        independent &= largest <= 1.0 + 1.2 * factor * usual
        independent &= mean <= 1.0 + 2.5 * usual / tau.size**0.25
    # Rounded, so that the last digits, which depend on threads, do not move the ends of stretches.
    return Memory(float(f"{slowest:.4g}"), float(f"{sure:.4g}"), bool(independent))


def memory_between(x: Array, lengths: Sequence[int]) -> float:
    """The autocorrelation time that the means of chains tell, where these are in different places.

    Parameters
    ----------
    x : (n, d) array
        Draws chain by chain.
    lengths : sequence of int
        Of the chains.

    Returns
    -------
    float
        The largest of all coordinates; 1 where chains differ by no more than their memory allows.
    """
    from scipy.special import chdtri

    x, _, lengths = _shortened(x, None, lengths)
    z = _standardised(x)
    if len(lengths) < 2 or not len(z):
        return 1.0
    starts, counts = np.cumsum([0, *lengths[:-1]]), np.array(lengths)
    means = np.add.reduceat(z, starts, axis=1) / counts
    between = (means**2) @ counts  # the mean of all draws is 0, and their variance 1
    plain, _ = autocorrelation_times(z, lengths)
    noise = np.sqrt(2.0 * (2.0 * plain.window + 1.0) / z.shape[1])
    within = np.maximum(1.0 - between / z.shape[1], 0.0)
    free = len(lengths) - 1
    allowed = within * _allowed(z, lengths, plain.tau) * np.exp(2.0 * noise)
    differ = between > allowed * chdtri(free, _DISAGREE / len(z))
    tau = float(between[differ].max(initial=0.0)) / free
    return float(f"{max(tau, 1.0):.4g}")  # rounded as in `measure`


def _allowed(z: Array, lengths: Sequence[int], tau: Array) -> Array:
    """How far means of chains may scatter, in units of the variance within them over its length.

    For long chains, their autocorrelation time.
    """
    m = float(np.mean(lengths))
    if m <= _FIRST_ORDER:
        return np.full(len(z), np.inf)
    products, squares = np.zeros(len(z)), np.zeros(len(z))
    for start, stop in pairwise(np.cumsum([0, *lengths]).tolist()):
        one = z[:, start:stop] - z[:, start:stop].mean(axis=1, keepdims=True)
        products += np.einsum("kn,kn->k", one[:, 1:], one[:, :-1])
        squares += np.einsum("kn,kn->k", one, one)
    rho = products / np.where(squares > 0, squares, 1.0) * m / (m - 1.0)
    rho = np.clip((rho + 1.0 / m) / (1.0 - 3.0 / m), 0.0, 0.999)
    # m times the variance of a mean, if that of a draw is 1.
    scatter = (1.0 + rho) / (1.0 - rho) - 2.0 * rho * (1.0 - rho**m) / (m * (1.0 - rho) ** 2)
    return np.maximum(scatter, np.clip(tau, 1.0, m)) / np.maximum(1.0 - scatter / m, 1e-3)


class Times(NamedTuple):
    """Autocorrelation times of several series, and the windows they are sums over."""

    tau: Array
    window: Array


def autocorrelation_times(series: Array, lengths: Sequence[int]) -> list[Times]:
    """Integrated autocorrelation times of series (k, n) over chains.

    Two for each of them: sums of autocorrelations, and alternating sums.
    """
    last = max(1, max(lengths) // 2)
    block = max(1, _BLOCK // max(lengths))
    found = [
        _times(_autocorrelations(series[first : first + block], lengths, last), lengths)
        for first in range(0, len(series), block)
    ]
    return [
        Times(
            np.concatenate([one.tau for one in some]), np.concatenate([one.window for one in some])
        )
        for some in zip(*found, strict=True)
    ]


def neighbour_correlation(x: Array) -> float:
    """The largest correlation of neighbouring rows along a column, 0 where it may be chance."""
    n, d = x.shape
    if n < 20:
        return 0.0
    z = moderate(x)
    z = z - z.mean(axis=0)
    squares = np.einsum("nd,nd->d", z, z)
    products = np.einsum("nd,nd->d", z[1:], z[:-1])
    rho = products[squares > 0] / squares[squares > 0]
    largest = float(rho.max(initial=0.0))
    chance = (2.0 + np.sqrt(2.0 * np.log(d + 1.0))) / np.sqrt(n)
    return largest if largest > max(0.1, chance) else 0.0


def _shortened(
    x: Array, scores: Array | None, lengths: Sequence[int]
) -> tuple[Array, Array | None, list[int]]:
    """The first draws of every chain, so that there are not too many numbers in all."""
    most = max(1000, _NUMBERS // (4 * x.shape[1] * len(lengths)))
    if max(lengths) <= most:
        return x, scores, list(lengths)
    starts = np.cumsum([0, *lengths[:-1]])
    kept = [min(one, most) for one in lengths]
    rows = np.concatenate([s + np.arange(k) for s, k in zip(starts, kept, strict=True)])
    return x[rows], None if scores is None else scores[rows], kept


def _series(x: Array, scores: Array | None) -> list[Array]:
    """Samples, scores, squares of samples and products of both, (k, n) each; none is constant."""
    z = _standardised(x)
    if scores is None:
        return [z, z * z]
    t = _standardised(scores)
    both = _standardised(moderate(x) * moderate(scores))
    return [z, t, z * z, both]


def _standardised(x: Array) -> Array:
    x = moderate(x)
    centre, deviation = location_and_deviation(x)
    varied = deviation > 1e-14 * np.abs(centre)
    return np.ascontiguousarray(((x[:, varied] - centre[varied]) / deviation[varied]).T)


def _autocorrelations(series: Array, lengths: Sequence[int], last: int) -> Array:
    """At distances 0 to last, (k, last + 1)."""
    from scipy.fft import irfft, next_fast_len, rfft

    sums, counts = np.zeros((len(series), last + 1)), np.zeros(last + 1)
    for start, stop in pairwise(np.cumsum([0, *lengths]).tolist()):
        one = series[:, start:stop]
        one = one - one.mean(axis=1, keepdims=True)
        m = stop - start
        size = next_fast_len(2 * m, real=True)
        spectrum = rfft(one, size, axis=1)
        reach = min(last + 1, m)
        sums[:, :reach] += irfft(np.abs(spectrum) ** 2, size, axis=1)[:, :reach]
        counts[:reach] += m - np.arange(reach)
    sums /= np.maximum(counts, 1.0)
    variance = np.where(sums[:, :1] > 0, sums[:, :1], 1.0)
    return np.where(counts > 0, sums / variance, 0.0)


def _times(rho: Array, lengths: Sequence[int]) -> list[Times]:
    distance = np.arange(1, rho.shape[1])
    found = []
    for sign in (np.ones(distance.size), (-1.0) ** distance):
        tau = 1.0 + 2.0 * np.cumsum(rho[:, 1:] * sign, axis=1)
        enough = distance >= _WINDOW * tau
        enough[:, -1] = True
        place = np.argmax(enough, axis=1)
        window = distance[place]
        # A chain is centred by its own mean, which takes tau / m off every autocorrelation.
        left = np.maximum(1.0 - (2.0 * window + 1.0) / np.mean(lengths), 0.2)
        found.append(Times(tau[np.arange(len(rho)), place] / left, window.astype(float)))
    return found


def _slowest(z: Array, lengths: Sequence[int], width: int) -> list[Times]:
    """Autocorrelation times along directions that remember longest.

    A direction is found on one half of every chain and measured on the other.
    """
    from scipy.linalg import eigh

    if len(z) < 2 or min(lengths) < 20:
        return []
    if len(z) > _DIRECTIONS:
        near = np.einsum("kn,kn->k", z[:, 1:], z[:, :-1])
        z = z[np.sort(np.argsort(-near, kind="stable")[:_DIRECTIONS])]
    heads, tails = [], []
    for start, stop in pairwise(np.cumsum([0, *lengths]).tolist()):
        middle = (start + stop) // 2
        heads.append((start, middle))
        tails.append((middle, stop))
    found = []
    for learnt, measured in ((heads, tails), (tails, heads)):
        products, covariance, count = np.zeros((len(z), len(z))), np.zeros((len(z), len(z))), 0
        for start, stop in learnt:
            one = z[:, start:stop] - z[:, start:stop].mean(axis=1, keepdims=True)
            reach = min(width, max(1, (stop - start) // 4))
            sums = np.cumsum(np.pad(one, ((0, 0), (1, 0))), axis=1)
            later = sums[:, reach + 1 :] - sums[:, 1:-reach]  # of the next `reach` draws
            products += product(one[:, : later.shape[1]], later)
            covariance += gram(one)
            count += stop - start
        ridge = 0.01 + 2.0 * len(z) / count
        covariance += ridge * np.diag(np.maximum(np.diag(covariance), 1e-300))
        last = len(z) - 1
        vector = eigh(products + products.T, covariance, subset_by_index=[last, last])[1][:, 0]
        some = np.concatenate([z[:, start:stop] for start, stop in measured], axis=1)
        found.append((vector @ some, [stop - start for start, stop in measured]))
    halves = [autocorrelation_times(one[None], some)[0] for one, some in found]
    # The mean of both halves has the noise of the whole.
    return [Times(*np.mean(halves, axis=0))]
