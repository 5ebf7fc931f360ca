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
"full", of kernels of the whole vector
    They see A only through M, and have more power where M is the inverse of the information
    ``Cov(s)``. That has the error of a sample covariance. For the model ``Cov(x, s) = -I``, so
    ``-Cov(x, s) Cov(s)^-1`` estimates the same matrix, without error for a Gaussian model, but with
    much where scores say little about samples, as between the modes of an RBM. So M is the mean of
    the two, the latter weighted by the share of the samples' variance that scores explain. On RBMs
    these kernels reject about twice as often as in the geometric mean. Elsewhere those of distances
    reject as often; the linear kernel rejects less often where modes lie apart.

What a metric is learnt on must not be tested in it. Whitening by the covariance of all samples
makes the errors of two halves mirror images of each other, and directions found on one half are
then off on the other: right models of 26 and 90 dimensions were rejected in most tests. So slices
are tested in the metric of the samples they were found on, and pairs of samples in the metric of
the folds that hold neither of them, see `pair_folds`. The d units of "diagonal" may come from all
samples: the level holds, as the study "level" shows.

All are learnt without the few entries that are far out, see `covariances`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._typing import Array
from .._validate import ArgumentError, counted, evaluate_score, refuse_masked
from ..compute.eigen import symmetric_eigenvectors
from ..compute.linalg import product
from ..compute.projections import row_lengths, unit_rows
from ..slices import Slices
from .covariances import FOLDS, Covariances, Folds, folds, moderate, unit_of_columns

NAMES = ("auto", "raw", "diagonal", "full")
_FLOOR = 1e-12  # smallest eigenvalue of a covariance, relative to the largest
_LEAST = 0.03  # smallest share of the inverse information in Stein's regression
_ROUNDING = 1e-15  # of a covariance's eigenvalues, relative to their sum


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

    def upright(self) -> Array:
        """The rotation O of the metric after which ``O A`` is symmetric, in units of the columns.

        Its coordinates are then those of the samples as nearly as can be.
        """
        units = row_lengths(self.backward)
        left, _, right = np.linalg.svd(self.forward * units)
        return np.asarray((left @ right).T, float)


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
    centre, f, _ = unit_of_columns(moderate(x), moderate(scores))
    return Metric(centre, 1.0 / f, f)


def full(x: Array, scores: Array) -> Metric:
    """The metric "full", learnt on these samples and scores; A is the symmetric root.

    Both covariances are mixed with their diagonals where samples are not many times the dimensions.
    """
    return _geometric_mean(Folds(x, scores, [slice(0, len(x))]).outside())


def information(x: Array, scores: Array) -> Metric:
    """The metric "full" of kernels of the whole vector, learnt on these samples and scores.

    A is the symmetric root, as far as units of the columns let it be.
    """
    found = _information(Folds(x, scores, [slice(0, len(x))]).outside())
    turn = found.upright()
    return Metric(found.centre, turn @ found.forward, found.backward @ turn.T)


def full_of_others(x: Array, scores: Array, kept: np.ndarray | None = None) -> list[Metric]:
    """For each of `FOLDS` folds, the metric "full" learnt on the samples outside of it.

    `kept` is a mask of the samples to learn on; all of them by default.
    """
    parts = Folds(x, scores, folds(len(x)), kept)
    return [_geometric_mean(parts.outside(k)) for k in range(FOLDS)]


def information_of_folds(
    x: Array, scores: Array, stretches: list[slice], kept: np.ndarray | None = None
) -> dict[tuple[int, int], Metric]:
    """For folds a <= b, the metric `information` learnt on the samples outside of both.

    A is some root: kernels of the whole vector do not see which. See `Metric.upright`.
    """
    parts, count = Folds(x, scores, stretches, kept), len(stretches)
    return {
        (a, b): _information(parts.outside(a, b)) for a in range(count) for b in range(a, count)
    }


def diagonal_if_known(x: Array, scores: Array) -> tuple[Array, np.ndarray]:
    """Factors of the metric "diagonal"; and which of them are known, as their columns vary."""
    _, f, known = unit_of_columns(moderate(x), moderate(scores))
    return 1.0 / f, known


def _geometric_mean(found: Covariances) -> Metric:
    root, inverse = _powers(found.shrunk_s, 0.5, -0.5)
    # Products of symmetric matrices, by the same function as everywhere: threads of BLAS would
    # fight with Numba's.
    middle = product(product(root, found.shrunk_x), root)
    half = _powers(0.5 * (middle + middle.T), 0.5)[0]
    mean = product(product(inverse, half), inverse)
    backward, forward = _powers(0.5 * (mean + mean.T), 0.5, -0.5)
    return _in_units(found, forward, backward)


def _information(found: Covariances) -> Metric:
    if found.n <= len(found.s) + 1:  # there is no regression
        return _geometric_mean(found)
    root, inverse = _lower_root(found.s)
    # -Cov(x, s) Cov(s)^-1 in coordinates where scores have unit covariance.
    regression = -product(product(root.T, found.xs.T), inverse)
    values, vectors = symmetric_eigenvectors(0.5 * (regression + regression.T))
    # They are about 1 under the model, and -1 where the score has the wrong sign.
    values = np.maximum(np.abs(values), _LEAST)
    columns = product(inverse.T, vectors)
    weight = _explained(found, inverse)
    other = _lower_root(found.shrunk_s)[1].T
    m = (1.0 - weight) * product(other, other) + weight * product(columns * values, columns)
    backward, forward = _lower_root(m)
    return _in_units(found, forward, backward)


def _explained(found: Covariances, inverse: Array) -> float:
    """The share of the samples' variance that scores explain, in whatever coordinates.

    It is the mean squared canonical correlation, adjusted for the number of scores. `inverse` is
    that of the lower root of ``Cov(s)``.
    """
    n, d = found.n, int(found.varies.sum())
    correlations = product(product(inverse, found.xs), _lower_root(found.x)[1])
    flat = len(found.xs) - d  # they count as explained there
    share = (float(np.sum(correlations**2)) - flat) / max(d, 1)
    return min(1.0, max(0.0, 1.0 - (1.0 - share) * (n - 1) / (n - 1 - d)))


def _in_units(found: Covariances, forward: Array, backward: Array) -> Metric:
    return Metric(found.centre, forward / found.unit, found.unit[:, None] * backward)


def _lower_root(covariance: Array) -> tuple[Array, Array]:
    """Cholesky's lower root L of a covariance, ``L L^T``, and its inverse."""
    try:
        root = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:  # singular but for rounding
        ridge = _ROUNDING * np.trace(covariance)
        root = np.linalg.cholesky(covariance + ridge * np.eye(len(covariance)))
    return np.asarray(root, float), np.asarray(np.linalg.inv(root), float)


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


def _powers(matrix: Array, *exponents: float) -> tuple[Array, ...]:
    """Powers of a symmetric positive matrix."""
    values, vectors = symmetric_eigenvectors(matrix)  # as rows, largest first
    values = np.maximum(values, _FLOOR * values[0])
    columns = np.ascontiguousarray(vectors.T)
    return tuple(product(columns * values**exponent, columns) for exponent in exponents)
