"""Resampling weights for the null distribution (Algorithm 2), drawn in compiled code from counter-based streams.

A replicate of the statistic is ``sum_{i != j} w_i w_j mu_ij``. Row b of the weights comes from stream b of the seed, so the
weights depend on the seed alone, not on the number of threads.

bootstrap   ``w_i = (counts_i - 1) / n`` with counts ~ Multinomial(n, 1/n). (The paper prints raw counts; they must be divided
            by n, or the replicates are not centred.)
wild        ``w_i = e_i / sqrt(n (n - 1))`` with signs e_i: independent, or a Markov chain that flips with probability 1/lag,
            so that the signs of neighbours agree as correlated samples do.
"""

import numba
import numpy as np

from ._jit import bits_to_unit, draw_seed, parallel, stream_bits, stream_key

NULLS = ("wild", "bootstrap")


def resampling_weights(null, n, n_resamples, *, lag=1, rng):
    """(n_resamples, n) weights of the null `null`; `rng` is a `numpy.random.Generator`."""
    seed = draw_seed(rng)
    if null == "bootstrap":
        return _multinomial_weights(seed, n_resamples, n)
    return _sign_weights(seed, n_resamples, n, max(2.0, float(lag)))


@parallel
def _multinomial_weights(seed, count, n):
    weights = np.empty((count, n))
    for b in numba.prange(count):
        key = stream_key(seed, np.uint64(b))
        row = weights[b]
        for i in range(n):
            row[i] = -1.0 / n
        for i in range(n):
            row[int(bits_to_unit(stream_bits(key, np.uint64(i))) * n)] += 1.0 / n
    return weights


@parallel
def _sign_weights(seed, count, n, lag):
    weights = np.empty((count, n))
    size = 1.0 / np.sqrt(n * (n - 1.0))
    for b in numba.prange(count):
        key = stream_key(seed, np.uint64(b))
        weight = size if bits_to_unit(stream_bits(key, np.uint64(0))) < 0.5 else -size
        weights[b, 0] = weight
        for i in range(1, n):
            if bits_to_unit(stream_bits(key, np.uint64(i))) * lag < 1.0:
                weight = -weight
            weights[b, i] = weight
    return weights


def resampling_pvalue(statistic, replicates):
    """``(1 + #{replicate >= statistic}) / (1 + M)``: never zero, and valid for every M. Equal up to round-off counts as equal."""
    return (1.0 + np.count_nonzero(replicates >= statistic - 1e-12 * abs(statistic))) / (1.0 + replicates.size)
