"""The null distribution (Algorithm 2): resampling weights, and the limit law with its exact tail.

Weights are drawn in compiled code from counter-based streams. A replicate of the statistic is ``scale * sum_{i != j} w_i w_j mu_ij``. Row b of the weights comes from stream b of the seed, so the
weights depend on the seed alone, not on the number of threads.

bootstrap   ``w_i = counts_i - 1`` with counts ~ Multinomial(n, 1/n), scale ``1 / n^2``. (The paper prints raw counts; they must
            be divided by n and centred.)
wild        signs, scale ``1 / (n (n - 1))``: independent, or a Markov chain that flips with probability 1/lag, so that the
            signs of neighbours agree as correlated samples do.

Statistics of several parts of the samples share one draw: each part takes its own columns. The bootstrap draws each part's
counts within the part, so that they sum to its size.

spectral    No resampling: ``(n - 1) U`` tends to ``sum_j c_j (Z_j^2 - 1)`` (Theorem 6), c_j the eigenvalues of the centred Stein matrix
            over n. The tail of that law is an integral of its moment generating function along a contour through the saddle point
            (Rice, 1980), from which the tail's size is taken out beforehand: its relative error is small however far out. With many
            slices and few samples the law itself is careful: 20 slices of 100 samples are rejected in 1% of tests at level 5%.
"""

import math
from itertools import pairwise

import numba
import numpy as np

from ._jit import bits_to_unit, draw_seed, parallel, stream_bits, stream_key

NULLS = ("wild", "bootstrap", "spectral")
_BATCH = 2**24  # weights in memory at a time, 128 MB


class Weights:
    """Weights of the null `null` for `n_resamples` replicates of `n` samples; `edges` are where new parts of the samples begin.

    They come in batches of rows, so that memory does not grow with their number. `rng` is a `numpy.random.Generator`.
    """

    def __init__(self, null, n, n_resamples, *, lag=1, edges=(), rng):
        self.null = null
        self.n = n
        self.n_resamples = n_resamples
        self.lag = lag
        self.edges = edges
        self.seed = draw_seed(rng)
        self._whole = {}

    def batches(self, draw=None):
        """Arrays of some rows, (count, n) each; drawn anew every time unless one batch holds them all.

        A function ``draw(weights, first, count)`` makes the rows elsewhere, where an engine wants them.
        """
        draw = Weights._rows if draw is None else draw
        size = max(1, _BATCH // self.n)
        if size >= self.n_resamples:
            if draw not in self._whole:
                self._whole[draw] = draw(self, 0, self.n_resamples)
            yield self._whole[draw]
            return
        for first in range(0, self.n_resamples, size):
            yield draw(self, first, min(size, self.n_resamples - first))

    def matrix(self):
        """All of them, (n_resamples, n)."""
        return self._rows(0, self.n_resamples)

    def _rows(self, first, count):
        if self.null == "wild":
            if self.lag <= 2:
                return _independent_signs(self.seed, first, count, self.n)
            return _chained_signs(self.seed, first, count, self.n, float(self.lag))
        weights = np.empty((count, self.n))
        for start, stop in pairwise((0, *self.edges, self.n)):
            _fill_multinomial(self.seed, first, weights, start, stop)
        return weights


def resampling_scale(null, n):
    """What the sum over pairs of `n` samples is multiplied by."""
    return 1.0 / (n * (n - 1.0)) if null == "wild" else 1.0 / n**2


@parallel
def _fill_multinomial(seed, first, weights, start, stop):
    n = stop - start
    for b in numba.prange(weights.shape[0]):
        key = stream_key(seed, np.uint64(first + b))
        row = weights[b]
        for i in range(start, stop):
            row[i] = -1.0
        for i in range(start, stop):
            row[start + int(bits_to_unit(stream_bits(key, np.uint64(i))) * n)] += 1.0


@parallel
def _independent_signs(seed, first, count, n):
    """One draw of 64 bits is 64 signs."""
    weights = np.empty((count, n))
    for b in numba.prange(count):
        key = stream_key(seed, np.uint64(first + b))
        for start in range(0, n, 64):
            bits = stream_bits(key, np.uint64(start // 64))
            for i in range(start, min(start + 64, n)):
                weights[b, i] = 1.0 - 2.0 * np.float64(bits & np.uint64(1))
                bits >>= np.uint64(1)
    return weights


@parallel
def _chained_signs(seed, first, count, n, lag):
    weights = np.empty((count, n))
    for b in numba.prange(count):
        key = stream_key(seed, np.uint64(first + b))
        sign = 1.0 if bits_to_unit(stream_bits(key, np.uint64(0))) < 0.5 else -1.0
        weights[b, 0] = sign
        for i in range(1, n):
            if bits_to_unit(stream_bits(key, np.uint64(i))) * lag < 1.0:
                sign = -sign
            weights[b, i] = sign
    return weights


def limit_law(spectrum, n):
    """Weights of the chi-square law of the U-statistic of n samples; centring has taken one degree of freedom of n."""
    return spectrum * n / (n - 1.0) ** 2


def log_tail_of_weighted_chi_square(weights, x):
    """Logarithm of ``P(sum_j weights_j (Z_j^2 - 1) >= x)``, Z_j independent standard normal; weights of either sign.

    Above the mean, 0, it is an integral, see `_log_upper_tail`; below, one minus that of the other tail.
    """
    c = np.asarray(weights, dtype=float)
    c = c[np.abs(c) > 1e-11 * np.abs(c).max(initial=0.0)]  # what round-off leaves of zero would be the only weights of its sign
    if c.size == 0:
        return 0.0 if x <= 0 else -np.inf
    unit = np.abs(c).max()
    c, x = c / unit, x / unit
    if x >= 0:
        return _log_upper_tail(c, x)
    lower = _log_upper_tail(-c, -x)
    return np.log1p(-np.exp(lower)) if lower < 0 else -np.inf


def _log_upper_tail(c, x):
    """The same for x >= 0.

    With K the logarithm of the moment generating function, the tail is the integral of ``exp(K(s) - s x) / s`` over a contour that passes
    0 on the right, over 2 pi i. The contour is a hyperbola through the saddle point, which opens to where the exponential decays, and
    the less the more weights there are, so that it keeps away from their singularities. Along it the steps grow geometrically,
    as few weights leave an integrand that decays slowly. The trapezoidal rule then converges geometrically; the step is
    halved until two results agree.
    """
    y = x + c.sum()  # where the law of sum_j c_j Z_j^2 is asked for
    if c.max() <= 0 and y >= 0:
        return -np.inf
    saddle, gaps = _saddle_point(c, x)
    width = 1.0 / np.sqrt(np.sum(2.0 * (c / gaps) ** 2))
    bend = np.copysign(min(0.5, 2.0 / np.sqrt(c.size)), y)

    def exponent(offset):
        factors = gaps - 2.0 * np.multiply.outer(offset, c)
        return -0.5 * np.log(factors).sum(axis=-1) - offset * y - np.log(saddle + offset)

    size = exponent(np.zeros(1, dtype=complex))[0].real
    step, previous = 0.1, np.inf
    for _ in range(8):
        total = 0.0
        for first in range(0, math.ceil(40.0 / step), 64):
            v = step * (np.arange(first, first + 64) + 0.5)
            u, root = np.sinh(v), np.cosh(v)
            values = np.exp(exponent(width * (1j * u + bend * (root - 1.0))) - size) * width * (1j * root + bend * u)
            total += values.imag.sum()
            if np.abs(values[-1]) < 1e-13 * abs(total):
                break
        total *= step / np.pi
        if abs(total - previous) <= 1e-8 * abs(total):
            break
        previous, step = total, 0.5 * step
    return min(0.0, size - saddle * y + np.log(total)) if total > 0 else -np.inf


def _saddle_point(c, x):
    """Where K'(s) = x, and ``1 - 2 c s`` there; but not too near the pole at 0, where any contour on its right will do."""
    spread = np.sqrt(2.0 * np.sum(c**2))
    top = c.max()
    if top > 0:  # s = bound (1 - share): the distance to the bound keeps its digits however far the tail
        bound = 0.5 / top
        low, high = -700.0, 0.0
        for _ in range(80):
            middle = 0.5 * (low + high)
            share = np.exp(middle)
            gaps = (1.0 - c / top) + c / top * share
            if np.sum(2.0 * c**2 * bound * (1.0 - share) / gaps) > x:
                low = middle
            else:
                high = middle
        share = min(np.exp(high), 1.0 - min(0.5 / (spread * bound), 0.3))
        return bound * (1.0 - share), (1.0 - c / top) + c / top * share
    low, high = 0.0, 1.0
    while np.sum(2.0 * c**2 * high / (1.0 - 2.0 * c * high)) < x:
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        if np.sum(2.0 * c**2 * middle / (1.0 - 2.0 * c * middle)) < x:
            low = middle
        else:
            high = middle
    saddle = max(low, 0.5 / spread)
    return saddle, 1.0 - 2.0 * c * saddle


def weighted_chi_square_draws(weights, count, rng):
    """Draws of ``sum_j weights_j (Z_j^2 - 1)``."""
    draws = np.zeros(count)
    for start in range(0, len(weights), 64):
        part = weights[start : start + 64]
        draws += (rng.standard_normal((count, part.size)) ** 2 - 1.0) @ part
    return draws


def resampling_pvalue(statistic, replicates):
    """``(1 + #{replicate >= statistic}) / (1 + M)``: never zero, and valid for every M. Equal up to round-off counts as equal."""
    return (1.0 + np.count_nonzero(replicates >= statistic - 1e-12 * abs(statistic))) / (1.0 + replicates.size)
