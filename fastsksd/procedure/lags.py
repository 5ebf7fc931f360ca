"""How long a Markov chain remembers, for the wild bootstrap (Section "Goodness-of-fit test").

The Stein features of the samples must be independent, or the signs must be as dependent as they
are. The autocovariance of the features at distance k is the mean of ``mu_{t, t+k}`` over t, less
its value for samples that are far apart, which is the statistic itself. The integrated
autocorrelation time ``tau = 1 + 2 sum_k rho_k`` is computed with Sokal's window [1]_: the sum ends
at the first k that is at least five times the tau so far.

Signs that flip with probability ``1 / lag`` have the autocorrelation ``exp(-2 k / lag)``. It must
not decay faster than that of the slowest feature, so the lag is `FACTOR` times tau. This was
measured on AR(1) chains that follow the model (coefficients 0.3, 0.6 and 0.9; 200 tests each at
level 0.05). A factor of 8 rejects 0.10 of chains of 1000 samples and 0.07 of chains of 4000, a
factor of 16 rejects 0.08 and 0.05, and larger factors do not reject less.

References
----------
.. [1] A. D. Sokal, "Monte Carlo methods in statistical mechanics: foundations and new algorithms",
   in Functional Integration, Springer, 1997.
"""

from __future__ import annotations

import numba
import numpy as np

from .._typing import Array
from ..compute.jit import compiled, parallel, prefer_wide_vectors
from ..compute.pointwise import stein_term
from ..compute.projections import project
from ..engines import choose_engine
from ..engines.pairs import statistic as pair_statistic
from ..kernels import Kernel
from ..slices import Slices

FACTOR = 16.0
_BLOCK = 64  # distances per call of the compiled sum


def autocorrelation_time(x: Array, scores: Array, slices: Slices, kernel: Kernel) -> float:
    """Integrated autocorrelation time of the Stein features of a chain.

    Parameters
    ----------
    x, scores : (n, d) arrays
        Samples in the order of the chain, and the model's scores there.
    slices : Slices
    kernel : Kernel

    Returns
    -------
    float
        At least 1, the value for independent samples.
    """
    n = x.shape[0]
    y, s, a, h = project(x, scores, slices, kernel)
    pairs = choose_engine("cpu")(kernel.code, y, s, a, h)
    mean_term = float(pair_statistic(pairs, pairs.sums(), "u").sum())
    variance = float(pairs.diagonal().sum()) / n - mean_term
    if variance <= 0:
        return 1.0
    y, a = np.ascontiguousarray(y / h[:, None]), a / h
    tau, limit = 1.0, n // 3
    for first in range(1, limit, _BLOCK):
        for k, sums in enumerate(
            _products(kernel.code, y, s, a, first, min(first + _BLOCK, limit)), start=first
        ):
            tau += 2.0 * (float(sums.sum()) / (n - k) - mean_term) / variance
            if k >= 5.0 * tau:
                return max(tau, 1.0)
    return max(tau, 1.0)


def choose_lag(x: Array, scores: Array, slices: Slices, kernel: Kernel, n_test: int) -> float:
    """The lag of the wild bootstrap for a chain, at most an eighth of its `n_test` test samples.

    The other parameters are those of `autocorrelation_time`.
    """
    tau = autocorrelation_time(x, scores, slices, kernel)
    # Within the noise of independent samples, for which any lag is right.
    independent = tau < 1.0 + 2.0 / np.sqrt(x.shape[0])
    return 1.0 if independent else float(max(1.0, min(FACTOR * tau, n_test / 8.0)))


@parallel
def _products(code: int, y: Array, s: Array, a: Array, first: int, last: int) -> Array:
    """``sum_t mu_{t, t+k}`` for k from first to last, (last - first, m)."""
    m, n = y.shape
    sums = np.empty((last - first, m))
    for row in numba.prange(last - first):
        k = first + row
        for q in range(m):
            sums[row, q] = _shifted(code, y[q, : n - k], s[q, : n - k], a[q], y[q, k:], s[q, k:])
    return sums


@compiled
def _shifted(code: int, y: Array, s: Array, a: float, later_y: Array, later_s: Array) -> float:
    prefer_wide_vectors()
    total = 0.0
    for t in range(y.size):
        total += stein_term(code, y[t] - later_y[t], a, s[t], later_s[t])
    return total
