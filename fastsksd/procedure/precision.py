"""Scores in single precision: when their rounding errors matter.

A test sees a mean of Stein features that is a few standard errors from zero. Rounding errors of
the scores that have one sign shift it as a misfit would. How large they are is measured: the score
function is evaluated at four points in a row, a twentieth of a deviation apart. What third
differences leave of it is rounding, of the samples and of all sums inside of the function. Where
there is no function, the spacing of the numbers themselves is what is known, and sums may be off by
more.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._typing import Array
from ..compute.linalg import quotients

MATTERS = 1.0  # standard errors of a mean score
_SINGLE = float(np.finfo(np.float32).eps)
_ROWS = 500  # samples at which scores are evaluated again, at most
_STEP = 0.05  # deviations


def score_noise(
    x: Array, scores: Array, score: Callable[[Array, np.ndarray], Array] | None = None
) -> float:
    """Rounding error of scores, in standard errors of their mean, for the worst coordinate.

    0 for scores in double precision. ``score(x, rows)`` evaluates them at other values of some rows
    of the samples.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsksd.procedure.precision import score_noise
    >>> x = 1e4 + np.random.default_rng(0).standard_normal((1000, 1))
    >>> single = (1e4 - x.astype(np.float32)).astype(float)
    >>> score_noise(x, 1e4 - x), score_noise(x, single) > 0.01
    (0.0, True)
    """
    if not (_is_single(scores[:10]) and _is_single(scores)):
        return 0.0
    n = len(x)
    spread = scores.std(axis=0)
    known = spread > 0
    if not known.any():
        return 0.0
    noise = 0.5 * _SINGLE * np.sqrt(np.square(scores).mean(axis=0))
    width = np.where(known, x.std(axis=0), 0.0)
    # What rounding of a sample does to its score, for scores about linear in it.
    noise += 0.5 * _SINGLE * np.sqrt(np.square(x).mean(axis=0)) * quotients(spread, width)
    if score is not None:
        rows = np.unique(np.linspace(0, n - 1, _ROWS).astype(int))
        step = _STEP * x.std(axis=0)
        before, after, later = (score(x[rows] + k * step, rows) for k in (-1.0, 1.0, 2.0))
        third = later - 3.0 * after + 3.0 * scores[rows] - before
        third = third[np.isfinite(third).all(axis=1)]
        if len(third):
            noise = np.maximum(noise, np.sqrt(np.square(third).mean(axis=0) / 20.0))
    return float(np.max(np.sqrt(n) * noise[known] / spread[known]))


def _is_single(values: Array) -> bool:
    """Whether all values are numbers of single precision."""
    with np.errstate(over="ignore"):
        return np.array_equal(values, values.astype(np.float32))
