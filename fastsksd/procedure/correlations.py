"""Correlations of pairs of coordinates: those of the samples, and those that the model implies.

Zero-variance control variates, as in `model_moments`: the first two moments of a pair are regressed
on Stein features, which have mean 0 under the model, and the constants of the regressions are the
moments of the model. With u the regression of the samples on the scores (learnt on other folds),
the features of the pair (i, j) are those of u_i and u_j with all monomials of x_i and x_j up to the
second degree. For normal models u is ``m - x``; they explain the moments entirely, and the
correlation of the model comes out without error, whatever the samples are. Under a right model of
any shape the two correlations differ by noise only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._typing import Array
from .mixing import sizes_of_means
from .model_moments import constants

if TYPE_CHECKING:
    from .location_scale import ScoreRegression

_MOST_PAIRS = 190  # all of 20 coordinates
_MOST_NUMBERS = 2**25  # of all features, beyond which not all samples are used
_FEATURES = 13  # of a pair
_LEAST_SAMPLES = 20  # for each feature
_PERFECT = 1.0 - 1e-9  # correlations beyond which there is one variable and not two
_BLOCK = 2**20  # numbers of an array in memory at a time


class PairCorrelations(NamedTuple):
    """Correlations of some pairs of coordinates.

    Attributes
    ----------
    first, second : (k,) arrays of int
        The coordinates.
    samples, model : (k,) arrays
        Correlations.
    errors : (3, k) array
        Standard errors of ``arctanh`` of `samples`, of that of `model`, and of their difference.
    sizes : (3, k) array
        Effective numbers of samples behind these errors.
    explained : (k,) array
        Part of the variance of the product of the pair that the features explain: 1 for normal
        models.
    """

    first: np.ndarray
    second: np.ndarray
    samples: Array
    model: Array
    errors: Array
    sizes: Array
    explained: Array


def pair_correlations(regression: ScoreRegression, chain: np.ndarray | None) -> PairCorrelations:
    """Correlations of all pairs, or of those `_MOST_PAIRS` that seem farthest off.

    The latter are chosen by the same samples, so that intervals must allow for all pairs. None
    without regressions on all scores, which need two samples for each coordinate.
    """
    first, second = _chosen(regression)
    n, k = len(regression.y), first.size
    if k == 0:
        none, errors = np.empty(0), np.empty((3, 0))
        return PairCorrelations(first, second, none, none, errors, errors, none)
    step = max(1, -(-n * k * _FEATURES // _MOST_NUMBERS))
    some = _Thinned(regression, step)
    chain = None if chain is None else chain[::step]
    values = np.empty((3, k))
    errors, sizes = np.full((2, 3, k), np.nan)
    many = max(1, _BLOCK // len(some.x))
    with np.errstate(all="ignore"):
        for start in range(0, k, many):
            rows = slice(start, min(start + many, k))
            pairs = [some.pair(i, j) for i, j in zip(first[rows], second[rows], strict=True)]
            values[:, rows] = np.transpose([value for value, _ in pairs])
            influences = np.stack([influence for _, influence in pairs], axis=2)
            known = np.isfinite(influences).all(axis=(0, 1))
            here = np.flatnonzero(known) + start
            for kind, influence in enumerate(influences[:, :, known]):
                sizes[kind, here] = sizes_of_means(influence, chain)
                errors[kind, here] = influence.std(axis=0) / np.sqrt(sizes[kind, here])
    known = np.isfinite(np.concatenate([values, errors, sizes])).all(axis=0)
    samples, model, explained = np.where(known, values, np.nan)
    return PairCorrelations(
        first,
        second,
        samples,
        model,
        np.where(known, errors, np.nan),
        np.where(known, sizes, np.nan),
        explained,
    )


def _chosen(regression: ScoreRegression) -> tuple[np.ndarray, np.ndarray]:
    """Pairs to look at, in order."""
    varies = np.flatnonzero(~regression.constant)
    if not regression.regressed:
        varies = varies[:0]
    first, second = (varies[one] for one in np.triu_indices(varies.size, 1))
    if first.size <= _MOST_PAIRS:
        return first, second
    coefficients = np.mean([fold.coefficients for fold in regression.folds], axis=0)
    apart = _z(_correlation(regression.bounded.T @ regression.bounded))
    apart -= _z(_correlation(-0.5 * (coefficients + coefficients.T)))
    most = np.argpartition(-np.abs(apart[first, second]), _MOST_PAIRS)[:_MOST_PAIRS]
    most.sort()
    return first[most], second[most]


def _correlation(covariance: Array) -> Array:
    unit = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    unit = np.where(unit > 0, unit, 1.0)
    return covariance / unit / unit[:, None]


def _z(correlation: Array) -> Array:
    return np.arctanh(np.clip(correlation, -_PERFECT, _PERFECT))


class _Thinned:
    """Every so many of the samples, centred, with their regressions on the scores."""

    def __init__(self, regression: ScoreRegression, step: int) -> None:
        n = len(regression.y)
        u = np.empty_like(regression.y)
        fold_of_row = np.empty(n, dtype=int)
        for number, fold in enumerate(regression.folds):
            u[fold.rows] = regression.s[fold.rows] @ fold.coefficients.T
            fold_of_row[fold.rows] = number
        self.x = regression.bounded[::step] - regression.bounded[::step].mean(axis=0)
        self.kept = regression.kept[::step].astype(float)
        self.u = u[::step]
        self.fold_of_row = fold_of_row[::step]
        self.coefficients = np.stack([fold.coefficients for fold in regression.folds])
        self.full = len(self.x) >= _LEAST_SAMPLES * _FEATURES
        s = regression.s[::step]
        self.whole = np.einsum("nd,nd->n", s, self.x) + self.kept.sum(axis=1)

    def pair(self, i: int, j: int) -> tuple[Array, Array]:
        """Correlations of samples and model, part explained, (3,), and influence functions, (3, n).

        These are of ``arctanh`` of the two, and of their difference.
        """
        x, y = self.x[:, i], self.x[:, j]
        targets = np.stack([x, y, x * x, y * y, x * y], axis=1)
        means, residual = constants(targets, self._features(i, j, x, y))
        samples, of_samples = _of_moments(targets.mean(axis=0), (targets - targets.mean(axis=0)).T)
        model, of_model = _of_moments(means, residual)
        explained = 1.0 - residual[4].var() / targets[:, 4].var()
        return (
            np.array([samples, model, explained]),
            np.stack([of_samples, of_model, of_samples - of_model]),
        )

    def _features(self, i: int, j: int, x: Array, y: Array) -> Array:
        """Features of a pair, (n, p), the first is 1."""
        in_x, in_y = self.kept[:, i], self.kept[:, j]
        features = [np.ones_like(x)]
        for a in (i, j):
            u = self.u[:, a]
            by_x, by_y = (self.coefficients[self.fold_of_row, a, b] for b in (i, j))
            by_x, by_y = by_x * in_x, by_y * in_y
            features += [u, u * x + by_x, u * y + by_y]
            if self.full:
                features += [
                    u * x * x + 2.0 * by_x * x,
                    u * x * y + by_x * y + by_y * x,
                    u * y * y + 2.0 * by_y * y,
                ]
        if self.full:
            features.append(self.whole)
        return np.stack(features, axis=1)


def _of_moments(means: Array, influence: Array) -> tuple[float, Array]:
    """Correlation and influence of its ``arctanh``, from E x, E y, E x^2, E y^2, E xy."""
    x, y = means[:2]
    widths = np.sqrt(means[2:4] - means[:2] ** 2)
    covariance = means[4] - x * y
    correlation = covariance / (widths[0] * widths[1])
    of_covariance = influence[4] - x * influence[1] - y * influence[0]
    of_widths = sum(
        (influence[2 + k] - 2.0 * means[k] * influence[k]) / widths[k] ** 2 for k in range(2)
    )
    found = of_covariance / (widths[0] * widths[1]) - 0.5 * correlation * of_widths
    if not np.abs(correlation) < _PERFECT:
        return float("nan"), np.full_like(found, np.nan)
    return float(correlation), found / (1.0 - correlation**2)
