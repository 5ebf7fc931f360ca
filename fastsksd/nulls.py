"""Resampling weights for the null distribution (Algorithm 2), drawn in compiled code from counter-based streams.

A replicate of the statistic is ``scale * sum_{i != j} w_i w_j mu_ij``. Row b of the weights comes from stream b of the seed, so the
weights depend on the seed alone, not on the number of threads.

bootstrap   ``w_i = counts_i - 1`` with counts ~ Multinomial(n, 1/n), scale ``1 / n^2``. (The paper prints raw counts; they must
            be divided by n and centred.)
wild        signs, scale ``1 / (n (n - 1))``: independent, or a Markov chain that flips with probability 1/lag, so that the
            signs of neighbours agree as correlated samples do.

Statistics of several parts of the samples share one draw: each part takes its own columns. The bootstrap draws each part's
counts within the part, so that they sum to its size.
"""

from itertools import pairwise

import numba
import numpy as np

from ._jit import bits_to_unit, draw_seed, parallel, stream_bits, stream_key

NULLS = ("wild", "bootstrap")


def resampling_weights(null, n, n_resamples, *, lag=1, edges=(), rng):
    """(n_resamples, n) weights of the null `null`; `rng` is a `numpy.random.Generator`, `edges` where new parts begin."""
    seed = draw_seed(rng)
    if null == "wild":
        return _sign_weights(seed, n_resamples, n, max(2.0, float(lag)))
    weights = np.empty((n_resamples, n))
    for start, stop in pairwise((0, *edges, n)):
        _fill_multinomial(seed, weights, start, stop)
    return weights


def resampling_scale(null, n):
    """What the sum over pairs of `n` samples is multiplied by."""
    return 1.0 / (n * (n - 1.0)) if null == "wild" else 1.0 / n**2


@parallel
def _fill_multinomial(seed, weights, start, stop):
    n = stop - start
    for b in numba.prange(weights.shape[0]):
        key = stream_key(seed, np.uint64(b))
        row = weights[b]
        for i in range(start, stop):
            row[i] = -1.0
        for i in range(start, stop):
            row[start + int(bits_to_unit(stream_bits(key, np.uint64(i))) * n)] += 1.0


@parallel
def _sign_weights(seed, count, n, lag):
    weights = np.empty((count, n))
    for b in numba.prange(count):
        key = stream_key(seed, np.uint64(b))
        sign = 1.0 if bits_to_unit(stream_bits(key, np.uint64(0))) < 0.5 else -1.0
        weights[b, 0] = sign
        for i in range(1, n):
            if bits_to_unit(stream_bits(key, np.uint64(i))) * lag < 1.0:
                sign = -sign
            weights[b, i] = sign
    return weights


def resampling_pvalue(statistic, replicates):
    """``(1 + #{replicate >= statistic}) / (1 + M)``: never zero, and valid for every M. Equal up to round-off counts as equal."""
    return (1.0 + np.count_nonzero(replicates >= statistic - 1e-12 * abs(statistic))) / (1.0 + replicates.size)
