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

from itertools import pairwise

import numpy as np

from ..compute.sampling import chained_signs, fill_multinomial, independent_signs
from ..compute.streams import draw_seed

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
                return independent_signs(self.seed, first, count, self.n)
            return chained_signs(self.seed, first, count, self.n, float(self.lag))
        weights = np.empty((count, self.n))
        for start, stop in pairwise((0, *self.edges, self.n)):
            fill_multinomial(self.seed, first, weights, start, stop)
        return weights


def resampling_scale(null, n):
    """What the sum over pairs of `n` samples is multiplied by."""
    return 1.0 / (n * (n - 1.0)) if null == "wild" else 1.0 / n**2


def resampling_pvalue(statistic, replicates):
    """``(1 + #{replicate >= statistic}) / (1 + M)``: never zero, and valid for every M. Equal up to round-off counts as equal."""
    return (1.0 + np.count_nonzero(replicates >= statistic - 1e-12 * abs(statistic))) / (
        1.0 + replicates.size
    )
