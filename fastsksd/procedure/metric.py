"""Preconditioning: coordinates in which the units of the samples do not decide a test.

A metric is an affine map of the samples, ``y = A (x - m)``, with the scores that belong to it,
``t = A^-T s``. Every Stein discrepancy may be computed in any such coordinates; which ones matter
for its power. They are found from samples *and* scores:

"diagonal"
    ``A = diag(1 / f)`` with ``f_k^2 = sd(x_k) / sd(s_k)``. Changes of units leave y and t as they
    are. For a Gaussian model with independent coordinates f is the deviation of the *model*,
    whatever the samples.
"full"
    ``A^T A = M^-1`` with M the geometric mean of ``Cov(x)`` and ``Cov(s)^-1``: the matrix that
    satisfies ``M Cov(s) M = Cov(x)``. For a Gaussian model it is the covariance of the *model*,
    without error. A metric from the covariance of the samples alone would hide from the test what
    is wrong with them.

What a metric is learnt on must not be tested in it. Whitening by the covariance of all samples
makes the errors of two halves mirror images of each other, and directions found on one half are
then off on the other: right models of 26 and 90 dimensions were rejected in most tests. So slices
are tested in the metric of the samples they were found on, and pairs of samples in the metric of a
third fold, see `folds`. The d units of "diagonal" may come from all samples: the level holds, as
the study "level" shows.

Entries far from the middle of their column (beyond `_FAR` interquartile ranges) are moved there
before deviations are taken, so that an outlier does not set the unit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from .._typing import Array
from .._validate import ArgumentError, counted, evaluate_score, refuse_masked
from ..compute.eigen import symmetric_eigenvectors
from ..compute.linalg import product
from ..compute.projections import row_lengths, unit_rows
from ..slices import Slices

NAMES = ("auto", "raw", "diagonal", "full")
FOLDS = 3
_FAR = 5.0  # interquartile ranges from the median
_ENOUGH = 10  # samples for each dimension from which on a covariance is not shrunk
_ENOUGH_FOR_QUANTILES = 500  # samples; quartiles only tell outliers apart
_FLOOR = 1e-12  # smallest eigenvalue of a covariance, relative to the largest
_CONSTANT = 1e-14  # largest deviation of a score that is constant but for rounding, relative to it


class Metric(NamedTuple):
    """An affine map of samples, and the linear map of scores that belongs to it.

    Attributes
    ----------
    centre : (d,) array
        m.
    forward : (d,) or (d, d) array
        A, or its diagonal.
    backward : (d,) or (d, d) array
        ``A^-1``, or its diagonal.
    """

    centre: Array
    forward: Array
    backward: Array

    def samples(self, x: Array) -> Array:
        """Samples in the metric, ``A (x - m)``."""
        moved = x - self.centre
        return moved * self.forward if self.forward.ndim == 1 else product(moved, self.forward)

    def scores(self, s: Array) -> Array:
        """Scores in the metric, ``A^-T s``."""
        if self.backward.ndim == 1:
            return s * self.backward
        return product(s, np.ascontiguousarray(self.backward.T))

    def score_function(self, score: Any) -> Callable[[Array], Array]:
        """The score of a model as a function of samples in the metric."""

        def in_the_metric(y: Array) -> Array:
            back = y * self.backward if self.backward.ndim == 1 else product(y, self.backward)
            return self.scores(evaluate_score(score, back + self.centre))

        return in_the_metric

    def to_user(self, slices: Slices) -> tuple[Slices, Array, Array]:
        """Slices of the metric as unit directions in the user's coordinates.

        Also their lengths before they were made unit vectors: along such a slice scores are
        multiplied by the first, and samples by the second, to have their values in the metric.
        """
        r = _times(slices.r, self.backward, transposed=False)
        g = _times(slices.g, self.forward, transposed=True)
        lengths_r, lengths_g = row_lengths(r), row_lengths(g)
        values = slices.r_values, slices.g_values, slices.g_gaps
        unit = Slices(r / lengths_r[:, None], g / lengths_g[:, None], *values)
        return unit, lengths_r, lengths_g

    def from_user(self, slices: Slices) -> Slices:
        """Slices given in the user's coordinates as slices of the metric."""
        r = _times(slices.r, self.forward, transposed=False)
        g = _times(slices.g, self.backward, transposed=True)
        return Slices(unit_rows(r), unit_rows(g), slices.r_values, slices.g_values, slices.g_gaps)


def _times(rows: Array, matrix: Array, *, transposed: bool) -> Array:
    """``matrix @ row``, or with the transposed matrix, for each row."""
    if matrix.ndim == 1:
        return rows * matrix
    return product(rows, matrix.T if transposed else matrix)


def given(matrix: Array) -> Metric:
    """The metric of a matrix A of the user's, or of its diagonal."""
    if matrix.ndim == 1:
        return Metric(np.zeros(matrix.size), matrix, 1.0 / matrix)
    return Metric(np.zeros(matrix.shape[0]), matrix, np.asarray(np.linalg.inv(matrix), float))


def diagonal(x: Array, scores: Array) -> Metric:
    """The metric "diagonal", learnt on these samples and scores."""
    return _diagonal(moderate(x), moderate(scores))


def full(x: Array, scores: Array) -> Metric:
    """The metric "full", learnt on these samples and scores; A is the symmetric root.

    Both covariances are mixed with their diagonals where samples are not many times the dimensions.
    """
    return _full(moderate(x), moderate(scores))


def full_of_folds(
    x: Array, scores: Array, kept: np.ndarray | None = None
) -> dict[tuple[int, int], Metric]:
    """For folds a <= b, the metric "full" learnt on the samples outside of both.

    `kept` is a mask of the samples to learn on; all of them by default.
    """
    x, scores, stretches = moderate(x), moderate(scores), folds(x.shape[0])
    kept = np.ones(x.shape[0], dtype=bool) if kept is None else kept
    metrics = {}
    for a in range(FOLDS):
        for b in range(a, FOLDS):
            rest = [stretch for k, stretch in enumerate(stretches) if k not in (a, b)]
            learnt_on = (
                np.concatenate([array[one][kept[one]] for one in rest]) for array in (x, scores)
            )
            metrics[a, b] = _full(*learnt_on)
    return metrics


def diagonal_if_known(x: Array, scores: Array) -> tuple[Array, np.ndarray]:
    """Factors of the metric "diagonal"; and which of them are known, as their columns vary."""
    _, f, known = _unit_of_columns(moderate(x), moderate(scores))
    return 1.0 / f, known


def _diagonal(x: Array, scores: Array) -> Metric:
    centre, f, _ = _unit_of_columns(x, scores)
    return Metric(centre, 1.0 / f, f)


def _full(x: Array, scores: Array) -> Metric:
    n, d = x.shape
    units = _diagonal(x, scores)
    y = (x - units.centre) * units.forward
    t = scores * units.backward
    t = t - t.mean(axis=0)
    amount = shrinkage(n, d)
    cov_x, cov_s = (shrunk(product(z.T, z.T) / n, amount) for z in (y, t))
    # Columns without a unit.
    flat = (np.diagonal(cov_x) == 0) | ~_varies(scores, location_and_deviation(scores)[1])
    for covariance in (cov_x, cov_s):
        covariance[flat] = covariance[:, flat] = 0.0
        covariance[flat, flat] = 1.0
    root, inverse = _powers(cov_s, 0.5, -0.5)
    # Products of symmetric matrices, by the same function as everywhere: threads of BLAS would
    # fight with Numba's.
    middle = product(product(root, cov_x), root)
    half = _powers(0.5 * (middle + middle.T), 0.5)[0]
    mean = product(product(inverse, half), inverse)
    backward, forward = _powers(0.5 * (mean + mean.T), 0.5, -0.5)
    return Metric(units.centre, forward * units.forward, units.backward[:, None] * backward)


def _unit_of_columns(x: Array, scores: Array) -> tuple[Array, Array, np.ndarray]:
    """Centres and units of columns, and whether these are known; 1 where they are not."""
    centre, sd_x = location_and_deviation(x)
    _, sd_s = location_and_deviation(scores)
    known = (sd_x > 0) & _varies(scores, sd_s)
    f = np.where(known, np.sqrt(sd_x), 1.0) / np.where(known, np.sqrt(sd_s), 1.0)
    return centre, f, known


def _varies(scores: Array, deviations: Array) -> np.ndarray:
    return deviations > _CONSTANT * np.abs(scores).max(axis=0)


def shrinkage(n: int, d: int) -> float:
    """Weight of the diagonal in a covariance of d dimensions learnt on n samples."""
    if n >= _ENOUGH * d:
        return 0.0
    return 0.5 * (d / n) ** 4 if n > d else d / (n + d)


def folds(n: int, count: int = FOLDS) -> list[slice]:
    """Stretches of about equal size; pairs of two of them get the metric of the rest."""
    edges = np.linspace(0, n, count + 1).astype(int).tolist()
    return [slice(start, stop) for start, stop in pairwise(edges)]


def check_precondition(precondition: Any, d: int) -> str | Array:
    """A name, or an invertible (d, d) matrix; None means "raw"."""
    if precondition is None:
        return "raw"
    if isinstance(precondition, str):
        if precondition not in NAMES:
            raise ArgumentError(
                "precondition",
                f"must be one of {', '.join(map(repr, NAMES))}, None, or a matrix; "
                f"got {precondition!r}",
            )
        return precondition
    refuse_masked("precondition", precondition)
    try:
        matrix = np.asarray(precondition)
    except ValueError:  # rows of different lengths
        matrix = np.empty(0, dtype=object)
    if matrix.dtype.kind not in "biuf":
        raise ArgumentError("precondition", "must be a name, None, or a matrix of real numbers")
    matrix = matrix.astype(float)
    if matrix.shape != (d, d):
        raise ArgumentError(
            "precondition",
            f"must have shape ({d}, {d}), as there are {counted(d, 'column')}; got {matrix.shape}",
        )
    if not np.all(np.isfinite(matrix)):
        raise ArgumentError("precondition", "holds NaN or infinity")
    # The condition number of rows of equal size: units may differ as they like.
    sizes = np.abs(matrix).max(axis=1, keepdims=True)
    if np.any(sizes == 0) or np.linalg.cond(matrix / sizes) > 1e12:
        raise ArgumentError("precondition", "must be an invertible matrix")
    return matrix


def moderate(x: Array) -> Array:
    """Entries far out moved to `_FAR` interquartile ranges from the median of their column."""
    first, middle, third = _quartiles(x[:: -(-len(x) // _ENOUGH_FOR_QUANTILES)])
    reach = _FAR * (third - first)
    reach = np.where(reach > 0, reach, np.inf)
    return np.clip(x, middle - reach, middle + reach)


def _quartiles(x: Array) -> list[Array]:
    """Quartiles of each column. To sort takes less than half the time of `np.quantile`."""
    ordered, places = np.sort(x, axis=0), (len(x) - 1) * np.array([0.25, 0.5, 0.75])
    return [
        ordered[int(place)] * (1.0 - place % 1) + ordered[math.ceil(place)] * (place % 1)
        for place in places
    ]


def location_and_deviation(x: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of each column, in any units."""
    centre = x.mean(axis=0)
    unit = np.abs(x - centre).max(axis=0)  # so that squares neither vanish nor overflow
    unit = np.where(unit > 0, unit, 1.0)
    deviation = unit * np.sqrt((((x - centre) / unit) ** 2).mean(axis=0))
    return centre, deviation


def shrunk(covariance: Array, amount: float) -> Array:
    """A covariance mixed with its diagonal."""
    return (1.0 - amount) * covariance + amount * np.diag(np.diagonal(covariance))


def _powers(matrix: Array, *exponents: float) -> tuple[Array, ...]:
    """Powers of a symmetric positive matrix."""
    values, vectors = symmetric_eigenvectors(matrix)  # as rows, largest first
    values = np.maximum(values, _FLOOR * values[0])
    columns = np.ascontiguousarray(vectors.T)
    return tuple(product(columns * values**exponent, columns) for exponent in exponents)
