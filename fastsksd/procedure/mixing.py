"""How well chains mix: effective sample size, R-hat, and the error of a mean.

The definitions are those of Stan and ArviZ (Vehtari et al., 2021): every chain is split into
halves; autocorrelations are pooled over the halves and include their disagreement; the sum ends by
Geyer's initial monotone sequence. "Bulk" is about ranks, "tail" about the 5% and 95% quantiles.

Chains of unequal length are cut to the shortest, from the front, for these diagnostics.

References
----------
A. Vehtari, A. Gelman, D. Simpson, B. Carpenter and P.-C. Buerkner, "Rank-normalization, folding,
and localization: an improved R-hat for assessing convergence of MCMC", Bayesian Analysis 16, 2021.
"""

from __future__ import annotations

import numpy as np

from .._typing import Array

_SHORTEST = 4  # draws of half a chain, below which nothing is known


def split_chains(values: Array, chain: np.ndarray) -> Array:
    """Halves of all chains, (2 chains, draws, k), of values (n, k) with labels `chain` (n,)."""
    _, counts = np.unique(chain, return_counts=True)
    order = np.argsort(chain, kind="stable")
    starts = np.cumsum(counts) - counts
    length = int(counts.min())
    half = length // 2
    # The last draws of longer chains; an odd one in the middle is left out.
    rows = [
        order[start + count - length :][:length]
        for start, count in zip(starts, counts, strict=True)
    ]
    halves = [part for one in rows for part in (one[:half], one[length - half :])]
    return values[np.array(halves)]


def effective_size(halves: Array) -> Array:
    """Effective sample size of means, (k,), of chains (m, draws, k); NaN where it is unknown."""
    n, k = halves.shape[1:]
    sizes = np.full(k, np.nan)
    if n < _SHORTEST:
        return sizes
    for column in range(k):
        sizes[column] = _effective_size(np.ascontiguousarray(halves[:, :, column]))
    return sizes


def _effective_size(chains: Array) -> float:
    m, n = chains.shape
    spread = chains.max() - chains.min()
    if not np.isfinite(spread):
        return float("nan")
    if spread < np.finfo(float).resolution:
        return float(m * n)
    covariance = _autocovariance(chains).mean(axis=0)
    within = covariance[0] * n / (n - 1.0)
    total = covariance[0]
    if m > 1:
        total = total + chains.mean(axis=1).var(ddof=1)
    rho = 1.0 - (within - covariance) / total
    rho[0] = 1.0
    # Sums of neighbours, as long as they are positive; then none is larger than the one before.
    last = 1 + (n - 3) // 2 if n % 2 else 1 + (n - 4) // 2
    pairs = rho[0 : 2 * last : 2] + rho[1 : 2 * last : 2]
    negative = np.flatnonzero(pairs < 0)
    count = int(negative[0]) if negative.size else last - 1
    tau = -1.0 + 2.0 * np.minimum.accumulate(pairs[:count]).sum()
    tau += max(rho[2 * count], 0.0)
    return m * n / max(tau, 1.0 / np.log10(m * n))


def _autocovariance(chains: Array) -> Array:
    """Along the last axis, divided by the number of draws."""
    n = chains.shape[1]
    size = 1 << (2 * n - 1).bit_length()
    waves = np.fft.rfft(chains - chains.mean(axis=1, keepdims=True), size, axis=1)
    return np.fft.irfft(np.abs(waves) ** 2, size, axis=1)[:, :n] / n


def bulk_and_tail_size(halves: Array, values: Array) -> tuple[Array, Array]:
    """Effective sample sizes in the bulk and in the tails, (k,) each; quantiles are of `values`."""
    low, high = np.quantile(values, [0.05, 0.95], axis=0)
    tails = [effective_size((halves <= edge).astype(float)) for edge in (low, high)]
    return effective_size(_rank_normal(halves)), np.minimum(*tails)


def split_rhat(halves: Array) -> Array:
    """Rank-normalised R-hat of halves of chains, (k,), the larger of bulk and folded."""
    if halves.shape[1] < _SHORTEST:
        return np.full(halves.shape[2], np.nan)
    folded = np.abs(halves - np.median(halves, axis=(0, 1)))
    return np.maximum(_rhat(_rank_normal(halves)), _rhat(_rank_normal(folded)))


def _rhat(halves: Array) -> Array:
    n = halves.shape[1]
    between = halves.mean(axis=1).var(axis=0, ddof=1)
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.sqrt((n - 1.0) / n + between / within)


def _rank_normal(halves: Array) -> Array:
    """Normal scores of the ranks over all chains; ties have their mean rank."""
    from scipy.special import ndtri

    flat = halves.reshape(-1, halves.shape[2])
    scores = np.empty_like(flat)
    for column in range(flat.shape[1]):
        _, inverse, counts = np.unique(flat[:, column], return_inverse=True, return_counts=True)
        ranks = (np.cumsum(counts) - 0.5 * (counts - 1.0))[inverse]
        scores[:, column] = ndtri((ranks - 0.375) / (flat.shape[0] + 0.25))
    return scores.reshape(halves.shape)


def sizes_of_means(values: Array, chain: np.ndarray | None) -> Array:
    """Effective number of rows for the mean of each column; that of rows without chains."""
    n, k = values.shape
    if chain is None:
        return np.full(k, float(n))
    halves = split_chains(values, chain)
    sizes = effective_size(halves)
    return sizes * n / (halves.shape[0] * halves.shape[1])
