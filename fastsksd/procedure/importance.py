"""Importance weights: samples of another distribution, each with its weight.

Particles of sequential Monte Carlo and importance samples x_i ~ q' come with weights in proportion
to q / q', where q is what they stand for. Statistics are sums over pairs with a factor ``w_i w_j``,
over ``sum_{i != j} w_i w_j``. If q is the model, the weighted Stein features ``w_i xi_i`` of
independent draws have mean zero, since ``E_q'[w xi] = E_q[xi] = 0``. So random signs give the null
distribution as they do without weights: ``sum_{i != j} e_i w_i e_j w_j mu_ij``. That weights are
divided by their own sum cancels in the p-value. (An estimate of a mean that is not zero would need
a term for it.)

With few samples of much weight the sums of features are far from normal. The smallest numbers for
a verdict, and for members with skewed features, are those of `effective_size` and `even_size`.

Where the weights grow without bound into the tails of the model, as those of a proposal that lacks
them, a sample without a rare draw of much weight seems even, and its moments are those of another
distribution: right models were rejected in 27% of the most even quarter of such samples (normal
proposal 0.79 times as wide, d = 2, 500 samples). Features that grow without bound, moments and the
linear kernel, are therefore used with weights that are bounded alone, see `are_bounded`.

What a test learns beforehand (metrics, bandwidths, slices) is learnt on rows that stand for q
without weights, see `typical_rows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._typing import Array
from .._validate import ArgumentError, Option, counted, first_few, real_array
from .lags import rounded_up

# Samples without weights that would be worth as much, and whose sums would be as near to normal.
FEWEST_EFFECTIVE, FEWEST_EVEN = 30.0, 16.0
FEWEST_ROWS = 3  # that slices can be found on, and explained with
LARGEST_CUT = 0.01  # of all weight, in what results keep to explain themselves
_LEAST = 1e-9  # of the mean: every part of the samples must have pairs of some weight
_FEWEST_IN_TAIL = 10  # weights that tell its shape
_ALIKE = 0.8  # of the samples: an even size from which on no weight is large
_EQUAL = 1e-12  # largest difference, relative to their mean, of weights that are equal


def check_weights(weights: Any, n: int) -> Array | None:
    """Weights of n samples with mean 1; None where they are all equal.

    Examples
    --------
    >>> from fastsksd.procedure.importance import check_weights
    >>> check_weights([1.0, 3.0], 2)
    array([0.5, 1.5])
    """
    if weights is None:
        return None
    w = real_array("weights", weights)
    if w.shape != (n,):
        raise ArgumentError(
            "weights", f"must hold one number for each of {counted(n, 'sample')}; got {w.shape}"
        )
    for bad, what in ((~np.isfinite(w), "hold NaN or infinity"), (w < 0, "are negative")):
        if bad.any():
            rows = np.flatnonzero(bad)
            logs = "If these are log weights, give np.exp(logs - logs.max())."
            raise ArgumentError(
                "weights",
                f"{what} in {counted(rows.size, 'row')}: {first_few(rows)}",
                remedy=logs if (w < 0).sum() > 0.1 * n else None,
            )
    if np.count_nonzero(w) < 2:
        where = f"are all on row {int(np.argmax(w))}" if w.any() else "are all zero"
        raise ArgumentError("weights", f"{where}; a test needs at least 2 samples of weight")
    w = w / w.max()
    w = w / w.mean()
    return None if np.ptp(w) <= _EQUAL else np.maximum(w, _LEAST)


def weights_in_use(weights: Any, n: int, null: str, given: Sequence[str]) -> Array | None:
    """`check_weights`, where a test of this null and with these options `given` can use them."""
    if weights is None:
        return None
    for name in ("chains", "lag"):
        if name in given:
            raise ArgumentError(
                "weights",
                "are for independent samples, not for Markov chains; leave them or ",
                Option(name),
                " out",
            )
    if null not in ("wild", "bootstrap"):
        raise ArgumentError(
            "weights", "are for ", Option("null", "wild"), "; got ", Option("null", null)
        )
    return check_weights(weights, n)


def effective_size(weights: Array) -> float:
    """Number of samples without weights that would be worth as much, ``(sum w)^2 / sum w^2``."""
    return float(weights.sum() ** 2 / np.square(weights).sum())


def even_size(weights: Array) -> float:
    """Number of samples without weights whose sums would be as near to normal.

    ``(sum w^2)^3 / (sum w^3)^2``: skewness of a sum falls with the root of it. It is less than
    `effective_size` where a few samples have much of the weight.
    """
    w = weights / weights.max()
    return float(np.square(w).sum() ** 3 / (w**3).sum() ** 2)


def are_bounded(weights: Array) -> bool:
    """Whether weights seem to have an upper bound, or are nearly equal."""
    return even_size(weights) >= _ALIKE * weights.size or tail_shape(weights) <= 0.0


def tail_shape(weights: Array) -> float:
    """Shape k of the generalised Pareto distribution that the largest weights follow [1]_.

    Below 0 weights are bounded; from 1/2 on their variance is infinite. It is estimated from a
    fifth of them, or ``3 sqrt(n)`` of many, as a mean over a grid of profile likelihoods [2]_.

    References
    ----------
    .. [1] A. Vehtari, D. Simpson, A. Gelman, Y. Yao and J. Gabry, "Pareto smoothed importance
       sampling", JMLR 25, 2024.
    .. [2] J. Zhang and M. A. Stephens, "A new and efficient estimation method for the generalized
       Pareto distribution", Technometrics 51, 2009.
    """
    w = np.sort(weights)
    m = int(min(0.2 * w.size, 3.0 * np.sqrt(w.size)))
    if m < _FEWEST_IN_TAIL or w[-m - 1] == w[-1]:
        return float("inf") if m < _FEWEST_IN_TAIL else -1.0
    x = np.maximum(w[-m:] - w[-m - 1], 1e-12 * (w[-1] - w[-m - 1]))
    count = 30 + int(np.sqrt(m))
    grid = 1.0 - np.sqrt(count / (np.arange(count) + 0.5))
    grid = 1.0 / x[-1] + grid / (3.0 * x[int(0.25 * m + 0.5) - 1])
    # The largest grid point is below 1 / x[-1], so that logs are finite.
    k = np.log1p(-np.outer(grid, x)).mean(axis=1)
    logs = m * (np.log(-grid / k) - k - 1.0)
    chances = np.exp(logs - logs.max())
    theta = float(chances @ grid / chances.sum())
    return float(np.log1p(-theta * x).mean())


def draws_needed(weights: Array) -> int:
    """About the number of draws that a verdict needs, to two digits; 0 where there are enough."""
    lacking = max(FEWEST_EFFECTIVE / effective_size(weights), FEWEST_EVEN / even_size(weights))
    return rounded_up(weights.size * lacking) if lacking > 1.0 else 0


def typical_rows(weights: Array, largest_cut: float | None = None) -> np.ndarray:
    """Distinct rows that stand for the weighted samples without weights, as a mask.

    Every row is in with probability ``min(1, c w)``, by systematic sampling without randomness. By
    default their number is about the effective one, and the largest weights are cut, which learning
    takes. With `largest_cut`, c is so small that no more than this part of all weight is cut.
    """
    if largest_cut is None:
        c = effective_size(weights) / weights.sum()
    else:
        w = np.sort(weights)[::-1]
        # What is cut of the weights above each of them.
        cut = np.cumsum(w) - w * np.arange(1, w.size + 1)
        c = 1.0 / w[np.searchsorted(cut, largest_cut * w.sum(), side="right") - 1]
    chance = np.minimum(c * weights, 1.0)
    steps = np.floor(np.cumsum(chance) + 0.5)
    kept = np.diff(steps, prepend=0.0) > 0
    if kept.sum() < FEWEST_ROWS:
        kept[np.argsort(-weights, kind="stable")[:FEWEST_ROWS]] = True
    return kept


def pair_weight(n: int, weights: Array | None) -> float:
    """``sum_{i != j} w_i w_j``, the number of pairs where there are no weights."""
    if weights is None:
        return n * (n - 1.0)
    return float(weights.sum() ** 2 - np.square(weights).sum())
