"""How long the memory of a Markov chain is, for the wild bootstrap of its samples (Section "Goodness-of-fit test").

What has to be independent, or resampled as dependent as it is, are the Stein features of the samples. Their autocovariance at
distance k is the mean of ``mu_{t, t+k}`` over t, less its value for samples far apart, the statistic itself. The integrated autocorrelation
time ``tau = 1 + 2 sum_k rho_k`` follows with Sokal's window: the sum ends at the first k of at least five times the tau so far.

Signs that flip with probability ``1 / lag`` have the autocorrelation ``exp(-2 k / lag)``. It must not decay before that of the slowest
feature has, so lag is taken as `FACTOR` times tau. Measured on AR(1) chains with the right law (coefficients 0.3, 0.6, 0.9; 200 tests
each at level 0.05): 8 times tau rejects 0.10 of chains of 1000 and 0.07 of 4000, 16 times 0.08 and 0.05, more than that no less.
"""

import numba
import numpy as np

from ..compute.jit import compiled, parallel, prefer_wide_vectors
from ..compute.pointwise import stein_term
from ..compute.projections import project
from ..engines import choose_engine
from ..engines.pairs import statistic as pair_statistic

FACTOR = 16.0
_BLOCK = 64  # distances looked at at a time


def autocorrelation_time(x, scores, slices, kernel):
    """Integrated autocorrelation time of the Stein features of samples in their order; 1 for independent ones."""
    n = x.shape[0]
    y, s, a, h = project(x, scores, slices, kernel)
    pairs = choose_engine("cpu")(kernel.code, y, s, a, h)
    level = float(pair_statistic(pairs, pairs.sums(), "u").sum())
    variance = float(pairs.diagonal().sum()) / n - level
    if variance <= 0:
        return 1.0
    y, a = np.ascontiguousarray(y / h[:, None]), a / h
    tau, limit = 1.0, n // 3
    for first in range(1, limit, _BLOCK):
        for k, sums in enumerate(
            _products(kernel.code, y, s, a, first, min(first + _BLOCK, limit)), start=first
        ):
            tau += 2.0 * (float(sums.sum()) / (n - k) - level) / variance
            if k >= 5.0 * tau:
                return max(tau, 1.0)
    return max(tau, 1.0)


def choose_lag(x, scores, slices, kernel, n_test):
    """The lag of the wild bootstrap for samples in their order, at most an eighth of the test samples."""
    tau = autocorrelation_time(x, scores, slices, kernel)
    # Within the noise of independent samples, for which any lag is right.
    independent = tau < 1.0 + 2.0 / np.sqrt(x.shape[0])
    return 1.0 if independent else float(max(1.0, min(FACTOR * tau, n_test / 8.0)))


@parallel
def _products(code, y, s, a, first, last):
    """``sum_t mu_{t, t+k}`` for k from first to last, (last - first, m)."""
    m, n = y.shape
    sums = np.empty((last - first, m))
    for row in numba.prange(last - first):
        k = first + row
        for q in range(m):
            sums[row, q] = _shifted(code, y[q, : n - k], s[q, : n - k], a[q], y[q, k:], s[q, k:])
    return sums


@compiled
def _shifted(code, y, s, a, later_y, later_s):
    prefer_wide_vectors()
    total = 0.0
    for t in range(y.size):
        total += stein_term(code, y[t] - later_y[t], a, s[t], later_s[t])
    return total
