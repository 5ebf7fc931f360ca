"""The null distribution (Algorithm 2): resampling weights, p-values, and what "spectral" means.

A replicate of the statistic is ``scale * sum_{i != j} w_i w_j mu_ij``. Weights w are drawn in
compiled code from counter-based streams. Row b of the weights comes from stream b of the seed, so
the weights depend on the seed alone, not on the number of threads.

"bootstrap"
    ``w_i = counts_i - 1`` with counts ~ Multinomial(n, 1/n), scale ``1 / n^2``. (The paper prints
    raw counts; they must be divided by n and centred.) With fewer than 60 samples the scale is
    larger, see `resampling_scale`; with fewer than 8 the bootstrap is refused.
"wild"
    Signs, scale ``1 / (n (n - 1))``. They are independent, or the same for all draws of a stretch
    of a chain, see `fastsksd.procedure.stretches`.
"spectral"
    No resampling: ``(n - 1) U`` tends to ``sum_j c_j (Z_j^2 - 1)`` (Theorem 6), where c_j are the
    eigenvalues of the centred Stein matrix over n. The tail of this limit distribution is an
    integral of its moment generating function along a contour through the saddle point [1]_. The
    size of the tail is factored out beforehand, so the relative error is small at any depth. With
    many slices and few samples the limit distribution is conservative: with 20 slices and 100
    samples it rejects in 1% of tests at level 5%.

Importance weights of the samples are factors of all of them, see `fastsksd.procedure.importance`.

Statistics of several parts of the samples share one draw: each part takes its own columns. The
bootstrap draws the counts of each part within the part, so that they sum to its size.

References
----------
.. [1] S. O. Rice, "Distribution of quadratic forms in normal random variables: evaluation by
   numerical integration", SIAM Journal on Scientific and Statistical Computing 1, 1980.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .._typing import Array
from .._validate import ArgumentError, Option, Overflow, check_integer, check_statistic, counted
from ..compute.sampling import fill_multinomial, independent_signs
from ..compute.streams import draw_seed
from .importance import pair_weight

NULLS: tuple[str, ...] = ("wild", "bootstrap", "spectral")
FEW = 60  # samples below which replicates of the bootstrap are widened
FEWEST = 8  # samples that the bootstrap needs
MOST_RESAMPLES = 10**7  # of any test; smaller p-values are those of null="spectral"
_MOST_BYTES = 8 * 10**9  # that may be needed for null distributions
_PER_REPLICATE = 64  # bytes of a replicate of a member while members are combined, measured
_PER_WEIGHT = {"wild": 10, "bootstrap": 24}  # bytes of the weight of a group, the same
_BATCH = 2**24  # weights in memory at a time: 16 MB of signs, 128 MB of others


class Weights:
    """Resampling weights, in batches of rows so that memory does not grow with their number.

    Parameters
    ----------
    null : {"wild", "bootstrap"}
    n : int
        Number of samples.
    n_resamples : int
        Number of rows.
    stretch : (n,) array of int, optional
        For "wild": the stretch of each sample, from 0 on; samples of a stretch share a sign.
    edges : sequence of int
        Where the second and later parts of the samples begin.
    importance : (n,) array, optional
        Importance weights of the samples.
    rng : numpy.random.Generator
    """

    def __init__(
        self,
        null: str,
        n: int,
        n_resamples: int,
        *,
        stretch: np.ndarray | None = None,
        edges: Sequence[int] = (),
        importance: Array | None = None,
        rng: np.random.Generator,
    ) -> None:
        self.null = null
        self.n = n
        self.n_resamples = n_resamples
        self.stretch = stretch
        self.edges = edges
        self.importance = importance
        self.seed = draw_seed(rng)
        self._whole: dict[Callable[..., Any], Any] = {}

    def batches(self, draw: Callable[[Weights, int, int], Any] | None = None) -> Iterator[Any]:
        """Yield arrays of some rows, (count, n) each.

        They are drawn anew every time, unless one batch holds all rows. A function
        ``draw(weights, first, count)`` makes the rows where an engine wants them.
        """
        draw = Weights.rows if draw is None else draw
        size = max(1, _BATCH // self.n)
        if size >= self.n_resamples:
            if draw not in self._whole:
                self._whole[draw] = draw(self, 0, self.n_resamples)
            yield self._whole[draw]
            return
        for first in range(0, self.n_resamples, size):
            yield draw(self, first, min(size, self.n_resamples - first))

    def matrix(self) -> np.ndarray:
        """All rows, (n_resamples, n)."""
        return self.rows(0, self.n_resamples)

    def by_stretch(self) -> Weights:
        """The same signs, one for each stretch in place of one for each sample."""
        if self.stretch is None:
            return self
        other = copy.copy(self)
        other.n, other.stretch, other._whole = int(self.stretch[-1]) + 1, None, {}
        return other

    def without_importance(self) -> Weights:
        """The same draws without the importance weights of the samples."""
        if self.importance is None:
            return self
        other = copy.copy(self)
        other.importance, other._whole = None, {}
        return other

    def rows(self, first: int, count: int) -> np.ndarray:
        """Some of the rows, (count, n); signs alone are of type int8."""
        if self.importance is not None:
            return self.without_importance().rows(first, count) * self.importance
        if self.stretch is not None:
            return self.by_stretch().rows(first, count)[:, self.stretch]
        if self.null == "wild":
            return independent_signs(self.seed, first, count, self.n)
        weights = np.empty((count, self.n))
        for start, stop in pairwise((0, *self.edges, self.n)):
            fill_multinomial(self.seed, first, weights, start, stop)
        return weights


def resampling_scale(null: str, n: int, importance: Array | None = None) -> float:
    """Factor of the weighted sum over pairs of `n` samples, with their importance weights.

    With few samples the weights of the bootstrap vary less than those of a new sample would, and a
    large statistic moves its own replicates to the left. Below `FEW` samples the factor makes up
    for both: the terms of distinct pairs are uncorrelated under the model, so the variance of a
    replicate is that of the statistic if ``n (n - 1)`` is divided by the root of ``E w_1^2 w_2^2``;
    the mean of the replicates is ``-U`` times the ratio that is then taken off.
    """
    if importance is not None:
        return (1.0 if null == "wild" else 1.0 - 1.0 / n) / pair_weight(n, importance)
    if null == "wild":
        return 1.0 / (n * (n - 1.0))
    if n >= FEW:
        return 1.0 / n**2
    f2 = 1.0 - 1.0 / n
    f3 = f2 * (1.0 - 2.0 / n)
    f4 = f3 * (1.0 - 3.0 / n)
    spread = np.sqrt(f4 - 2.0 * f3 + 3.0 * f2 - 1.0)  # of w_1 w_2, from factorial moments
    return float(1.0 / ((n - 1.0) * (n * spread - 1.0)))


def check_resamples(
    value: object,
    members: int = 1,
    *,
    groups: int = 0,
    null: str = "wild",
    more: int = 0,
    name: str = "n_resamples",
) -> int:
    """A number of replicates whose null distributions can be held.

    Parameters
    ----------
    value : int
        The number.
    members : int
        Members of the test.
    groups : int
        Groups of samples whose weights are held all at once.
    null : str
        What these weights are drawn for.
    more : int
        Further bytes that a replicate takes.
    name : str
        Name of the argument.
    """
    count = check_integer(name, value, 1)
    if count > MOST_RESAMPLES:
        raise ArgumentError(
            name,
            f"must be at most {MOST_RESAMPLES}; got {count}",
            remedy=("For smaller p-values there is ", Option("null", "spectral"), "."),
        )
    each = members * _PER_REPLICATE + groups * _PER_WEIGHT.get(null, 0) + more
    if count * each > _MOST_BYTES:
        raise ArgumentError(
            name,
            f"must be at most {_MOST_BYTES // each} here, where the null distributions of "
            f"{counted(members, 'member')} need {each} bytes a replicate and may have "
            f"{_MOST_BYTES // 10**9} GB; got {count}",
        )
    return count


def check_enough(null: str, n: int) -> None:
    """The bootstrap of very few samples has no null distribution to speak of."""
    if null == "bootstrap" and n < FEWEST:
        raise ArgumentError(
            "null",
            f"is 'bootstrap', which rejects right models too often with fewer than {FEWEST} test "
            f"samples; got {n}",
            remedy=("Use ", Option("null", "wild"), "."),
        )


def resampling_pvalue(statistic: float, replicates: Array) -> float:
    """``(1 + #{replicate >= statistic}) / (1 + M)`` for M replicates.

    It is never zero, and valid for every M. Values that are equal up to round-off count as equal.
    There is none where one of them is NaN; a replicate may be infinite, as a failure is.
    """
    check_statistic(np.asarray(statistic))
    if not np.all(replicates > -np.inf):
        raise Overflow("x", "holds numbers, or has scores, for which replicates overflow")
    return (1.0 + np.count_nonzero(replicates >= statistic - 1e-12 * abs(statistic))) / (
        1.0 + replicates.size
    )
