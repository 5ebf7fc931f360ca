"""One step of maximum likelihood for the location and scale of samples along directions.

`fastsksd.effects` has the method in words. Here it is in arrays: regressions of samples on scores,
estimates with their influence functions, and p-values of marginals.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._typing import Array
from ..compute.chi_square import SMALLEST
from .covariances import folds, moderate, shrinkage, shrunk
from .mixing import sizes_of_means
from .model_moments import Bounded, moment_effects
from .moments import DEGREES, location_and_unit, plain_moments

_FOLDS = 5
_FLOOR = 1e-12  # smallest eigenvalue of a covariance, relative to the largest
_BLOCK = 2**20  # numbers of an array in memory at a time
_ENOUGH = 2  # samples for each dimension from which on y is regressed on all scores
_SHEARED = 0.1  # part of the variance of r.s from which on the slice has a shear
_OUTLYING = 0.5  # part of a mean that is due to outliers from which on its logarithm is not taken
_PERFECT = 1.0 - 1e-12  # correlations beyond which there is one variable and not two
_UNCERTAIN = 0.25  # relative error of a mean from which on its logarithm is not taken


def marginal_pvalues(x: Array, scores: Array, chain: np.ndarray | None = None) -> Array:
    """P-values of the marginal of each coordinate, (d,); NaN where they are not known.

    Four Stein features for each coordinate, those of `fastsksd.procedure.moments` with t in place
    of the score, see shift, scale, skewness and tails. Their means are tested by t-tests with
    Hall's correction for skewness [1]_, and combined by Bonferroni's inequality. The variances of
    the means allow for chains.

    Measured with right models, p-values at most 0.05: 1000 independent samples of a normal, t and
    multivariate t distribution, d = 20, and of a normal one, d = 100: 0.043 to 0.050 (3000 or 4000
    each); four normal AR(1) chains of 500 and of 2000, coefficients -0.5, 0.5 and 0.9: 0.040 to
    0.056 (500 each).

    References
    ----------
    .. [1] P. Hall, "On the removal of skewness by transformation", JRSS B 54, 1992.
    """
    from scipy.special import stdtr

    regression = ScoreRegression(x, scores)
    n, d = x.shape
    pvalues = np.full(d, np.nan)
    step = max(1, _BLOCK // (4 * n))
    for first in range(0, d, step):
        some = slice(first, min(first + step, d))
        y = regression.y[:, some]
        with np.errstate(all="ignore"):
            t = regression.marginal_scores(np.eye(d)[some])
            features = plain_moments(y, t, *location_and_unit(y), DEGREES)  # (4, k, n)
            z = features.reshape(-1, n).T
            sizes = _sizes(z, chain)
            mean = z.mean(axis=0)
            deviation = z.std(axis=0)
            ratio = mean / deviation
            skewness = (((z - mean) / deviation) ** 3).mean(axis=0)
            corrected = ratio + skewness * ratio**2 / 3.0 + skewness**2 * ratio**3 / 27.0
            corrected = np.sqrt(sizes) * (corrected + skewness / (6.0 * sizes))
            tails = 2.0 * stdtr(np.maximum(sizes - 1.0, 1.0), -np.abs(corrected))
        pvalues[some] = np.minimum(len(DEGREES) * tails.reshape(len(DEGREES), -1).min(axis=0), 1.0)
    pvalues[regression.constant] = np.nan
    return np.maximum(pvalues, SMALLEST)


class _Scale(NamedTuple):
    """The score of a scale at the samples, and the step of its mean.

    Attributes
    ----------
    feature : (n, k) array
        ``-t y`` less its mean, over `unit`.
    mean : (k,) array
        The logarithm of the mean of ``-t y``; where that is too uncertain, the mean less 1.
    unit : (k,) array
        The mean of ``-t y``; 1 where it is too uncertain.
    relative : (k,) array of bool
        Whether it is certain enough.
    """

    feature: Array
    mean: Array
    unit: Array
    relative: np.ndarray

    @classmethod
    def of(cls, products: Array, outlying: Array) -> _Scale:
        """From ``-t y`` with centred t and y, (n, k), and the part of their sums by outliers."""
        n = products.shape[0]
        width = products.sum(axis=0) / (n - 1.0)
        relative = width > products.std(axis=0) / np.sqrt(n) / _UNCERTAIN
        # What outliers add to the mean of one feature, others take off: a logarithm would not.
        relative &= outlying <= _OUTLYING * n * width
        unit = np.where(relative, products.mean(axis=0), 1.0)
        mean = np.where(relative, np.log(np.where(relative, width, 1.0)), width - 1.0)
        return cls((products - products.mean(axis=0)) / unit, mean, unit, relative)


class _Fold(NamedTuple):
    """A stretch of the samples, with what was learnt on the others.

    Attributes
    ----------
    rows : slice
    inverse : (d, d) array
        Inverse covariance of the scores.
    coefficients : (d, d) array
        Of the regression of the coordinates on the scores.
    """

    rows: slice
    inverse: Array
    coefficients: Array


class LocationScale(NamedTuple):
    """Shifts and stretches along directions, (k,) arrays but for the last two.

    Attributes
    ----------
    shift, log_stretch : (k,) arrays
        By one step of maximum likelihood.
    shift_error, log_stretch_error : (k,) arrays
        Standard errors.
    linearity : (k,) array
        Squared correlation of samples and scores.
    moment_shift, moment_log_stretch : (k,) arrays
        By moments; NaN where these are those of no distribution.
    apart_error : (2, k) array
        Standard errors of the differences between the two methods.
    sizes : (2, k) array
        Effective numbers of samples behind shift and stretch.
    """

    shift: Array
    log_stretch: Array
    shift_error: Array
    log_stretch_error: Array
    linearity: Array
    moment_shift: Array
    moment_log_stretch: Array
    apart_error: Array
    sizes: Array


class ScoreRegression:
    """Samples and scores in units of the coordinates, and regressions of the first on the latter.

    `across` and `along` take directions in the user's coordinates.
    """

    def __init__(self, x: Array, scores: Array) -> None:
        d = x.shape[1]
        bounded = moderate(x)
        self.unit = bounded.std(axis=0)
        self.constant = ~(self.unit > 1e-14 * np.abs(x).max(axis=0))
        self.unit = np.where(self.constant, 1.0, self.unit)
        centre = bounded.mean(axis=0)
        self.y = (x - centre) / self.unit
        self.s = scores * self.unit
        self.mean_score = self.s.mean(axis=0)
        self.bounded = (bounded - centre) / self.unit
        self.kept = bounded == x
        self.folds = self._learn(self.bounded, self.kept.mean(axis=0))
        outlying = (x - bounded) / self.unit
        count = max(d - np.count_nonzero(self.constant), 1)
        self.whole = -np.einsum("nd,nd->n", self.s - self.mean_score, self.y) / count
        self.whole -= outlying @ self.mean_score / count
        row, column = np.nonzero(~self.kept)
        far = (self.s[row, column] - self.mean_score[column]) * self.y[row, column]
        self.outlying = np.abs(far).sum(keepdims=True) / count

    def _learn(self, f: Array, kept: Array) -> list[_Fold]:
        """Regressions of `f`, the samples without outliers, on the scores, for each fold.

        `kept` is the part of each column that is no outlier.
        """
        n, d = f.shape
        self.regressed = True
        stretches = folds(n, _FOLDS)
        s = self.s - self.mean_score
        sums = [
            (
                one.stop - one.start,
                s[one].sum(0),
                f[one].sum(0),
                s[one].T @ s[one],
                f[one].T @ s[one],
            )
            for one in stretches
        ]
        found = []
        for q, one in enumerate(stretches):
            # Added up, as an outlier of this fold would leave only rounding errors of a difference.
            count, mean_s, mean_f, ss, fs = (
                sum(some[k] for j, some in enumerate(sums) if j != q) for k in range(5)
            )
            mean_s, mean_f = mean_s / count, mean_f / count
            covariance = ss / count - np.outer(mean_s, mean_s)
            cross = fs / count - np.outer(mean_f, mean_s)
            if count < _ENOUGH * d:
                # Too few for a regression: what it is for samples of the model.
                self.regressed = False
                covariance = shrunk(covariance, shrinkage(int(count), d))
                cross = -np.diag(kept)
            inverse = _inverse(covariance)
            found.append(_Fold(one, inverse, cross @ inverse))
        return found

    def moments(self) -> tuple[Array, Array, Array]:
        """N, B and shifts, see `fastsksd.procedure.sparse`, from the means over the folds."""
        coefficients = np.mean([fold.coefficients for fold in self.folds], axis=0)
        f = moderate(self.y)
        cross = (f - f.mean(axis=0)).T @ (self.s - self.mean_score) / len(f)
        explained = coefficients @ cross.T
        model = -0.5 * (coefficients + coefficients.T)
        return 0.5 * (explained + explained.T), model, coefficients @ self.mean_score

    def marginal_scores(self, g: Array) -> Array:
        """``t = r.s`` along directions g, (n, k), with r learnt on other folds."""
        t = np.empty((self.y.shape[0], g.shape[0]))
        for fold in self.folds:
            t[fold.rows] = self.s[fold.rows] @ self._directions(g, fold)[0].T
        return t

    def along(self, directions: Array | None, chain: np.ndarray | None) -> LocationScale:
        """Shifts and stretches along directions, by default those of the coordinates."""
        n, d = self.y.shape
        k = d if directions is None else directions.shape[0]
        step = max(1, _BLOCK // n)
        found = []
        for first in range(0, k, step):
            some = slice(first, min(first + step, k))
            if directions is None:
                g, y = np.eye(d)[some], self.y[:, some]
            else:
                g = directions[some] * self.unit
                y = self.y @ g.T
            with np.errstate(all="ignore"):
                values, influence, linearity, moments = self._location_scale(g, y)
                deviation = np.sqrt((influence * influence).mean(axis=1))
            sizes = np.stack([_sizes(one, chain) for one in influence])
            errors = deviation / np.sqrt(sizes)
            known = np.isfinite(np.concatenate([values, errors, sizes])).all(axis=0)
            moments[2:] /= np.sqrt(sizes)
            one = np.stack([*values, *errors, linearity, *moments, *sizes])
            found.append(np.where(known, one, np.nan))
        whole = np.concatenate(found, axis=1)
        if directions is None:
            whole[:, self.constant] = np.nan
        by_row = dict(zip(LocationScale._fields, whole[:7], strict=False))
        return LocationScale(**by_row, apart_error=whole[7:9], sizes=whole[9:])

    def _location_scale(self, g: Array, y: Array) -> tuple[Array, Array, Array, Array]:
        """Shift and log stretch, (2, k), influence functions, (2, n, k), linearities, (k,).

        And shift and log stretch by moments, with the deviations of the influence functions of
        their differences from the former, (4, k). `y` are the samples along g, (n, k).
        """
        n, d = self.y.shape
        f = moderate(y)
        kept = f == y
        unclipped = kept.mean(axis=0)
        centre = f.mean(axis=0)
        f, y = f - centre, y - centre
        t, size, other, residual, leverage = self._marginal_scores(g, f, unclipped)
        mean_t = t.mean(axis=0)
        t = t - mean_t
        # Centred at the mean of the samples without outliers, which a mean would follow anywhere.
        products = -t * y - mean_t * (y - f)
        width = products.sum(axis=0) / (n - 1.0)
        scales = [_Scale.of(products, np.abs(np.where(kept, 0.0, products)).sum(axis=0))]
        if d > 1:
            whole = _Scale.of(self.whole[:, None], self.outlying)
            scales.append(
                _Scale(*(np.broadcast_to(one, one.shape[:-1] + width.shape) for one in whole))
            )
        z = np.stack([-t, *(one.feature for one in scales)])
        mean = np.stack([-mean_t, *(one.mean for one in scales)])
        unit_mean = np.stack([np.zeros_like(mean_t), *(one.relative * one.mean for one in scales)])
        spread = (y * f * kept).mean(axis=0)
        targets = np.stack([f / unclipped, 0.5 * f * f / spread])
        targets -= targets.mean(axis=1, keepdims=True)
        information = _inverses(np.einsum("ank,bnk->kab", z, z) / n)
        beta = np.einsum("kab,kbc->cak", information, np.einsum("ank,cnk->kac", z, targets) / n)
        values = np.einsum("ak,cak->ck", mean, beta)
        fitted = np.einsum("ank,cak->cnk", z, beta)
        # Of the means; of the regression; of the units that features and targets are in.
        leverages = np.einsum("ank,ak->nk", z, np.einsum("kab,bk->ak", information, mean))
        influence = leverages * (targets - fitted)
        influence += np.einsum("ank,cak->cnk", z, (1.0 + unit_mean) * beta)
        influence[0] -= values[0] * (kept / unclipped - 1.0)
        influence[1] -= values[1] * (y * f * kept / spread - 1.0)
        # Of the direction r.
        influence[0] += residual * (leverage[:, None] - t * mean_t / (t * t).mean(axis=0))
        turned = residual * (width * other / size - t) / scales[0].unit
        influence += beta[:, 1, None] * turned
        # From units of the coordinates to deviations of the model.
        deviation = f.std(axis=0)
        unit = deviation / np.exp(values[1])
        shift = values[0] / unit
        of_unit = 0.5 * (f * f / deviation**2 - 1.0) - influence[1]
        influence[0] = influence[0] / unit - shift * of_unit
        linearity = (t * f).mean(axis=0) ** 2 / ((t * t).mean(axis=0) * deviation**2)
        values[0] = shift
        # A constant column says nothing of a model, but would pass for a whole direction of it.
        some = ~self.constant if self.constant.any() and not self.constant.all() else slice(None)
        moments = moment_effects(
            g[:, some],
            Bounded(f, kept),
            t + mean_t,
            Bounded(self.bounded[:, some], self.kept[:, some]),
            self.s[:, some],
            influence,
        )
        return values, influence, linearity, np.concatenate(moments)

    def _marginal_scores(
        self, g: Array, f: Array, unclipped: Array
    ) -> tuple[Array, Array, Array, Array, Array]:
        """``t = r.s`` along directions g, and what errors of r depend on."""
        t, size, other, residual = (np.empty_like(f) for _ in range(4))
        leverage = np.empty(f.shape[0])
        for fold in self.folds:
            rows, centred = fold.rows, self.s[fold.rows] - self.mean_score
            r, length = self._directions(g, fold)
            t[rows] = self.s[rows] @ r.T
            size[rows] = length / unclipped
            other[rows] = centred @ (g @ fold.inverse).T
            leverage[rows] = centred @ (fold.inverse @ self.mean_score)
            residual[rows] = (f[rows] + (centred @ r.T) * length) / unclipped
        return t, size, other, residual, leverage

    @staticmethod
    def _directions(g: Array, fold: _Fold) -> tuple[Array, Array]:
        """Directions r with ``r.g = 1``, and minus the coefficient of y on ``r.s``."""
        r = -(g @ fold.coefficients)
        length = np.einsum("kd,kd->k", r, g)
        plain = g @ fold.inverse
        information = np.einsum("kd,kd->k", plain, g)
        # Where samples do not follow the scores at all.
        lost = ~(length > 1e-6 * np.einsum("kd,kd->k", g, g))
        r = np.where(lost[:, None], plain, r)
        length = np.where(lost, information, length)
        # Scores that do not vary know nothing of a direction: NaN.
        return r / np.where(length == 0.0, np.nan, length)[:, None], length

    def across(
        self, r: Array, g: Array, chain: np.ndarray | None
    ) -> tuple[Array, Array, Array, Array]:
        """Shears with errors and sizes, (m,), and directions across g, (m, d) in user's units."""
        n, d = self.y.shape
        r, g = r / self.unit, g * self.unit
        along = np.einsum("md,md->m", r, g)
        part = np.empty((n, r.shape[0]))
        mean = np.zeros_like(r)
        for fold in self.folds:
            rest = r - along[:, None] * self._directions(g, fold)[0]
            part[fold.rows] = (self.s[fold.rows] - self.mean_score) @ rest.T
            mean += rest / len(self.folds)
        # Signs as in names: the largest weight is positive.
        mean = mean * self.unit
        sign = np.copysign(1.0, mean[np.arange(len(mean)), np.abs(mean).argmax(axis=1)])
        mean, part = mean * sign[:, None], part * sign
        total = ((self.s - self.mean_score) @ r.T).var(axis=0)
        with np.errstate(all="ignore"):
            y = moderate(self.y @ g.T)
            y, u = (one / one.std(axis=0) for one in (y - y.mean(0), part - part.mean(0)))
            shear = -(u * y).mean(axis=0)
            influence = -u * y - 0.5 * shear * (u * u + y * y)
            sizes = _sizes(influence, chain)
            error = influence.std(axis=0) / np.sqrt(sizes) / (1.0 - shear**2)
            # The error of a perfect correlation is round-off.
            known = (part.var(axis=0) > _SHEARED * total) & (np.abs(shear) < _PERFECT)
            unknown = ~(known & np.isfinite(error)) | (d == 1)
            lengths = np.linalg.norm(mean, axis=1, keepdims=True)
            across = np.where(unknown[:, None], 0.0, mean / lengths)
        shear, error, sizes = (np.where(unknown, np.nan, one) for one in (shear, error, sizes))
        return shear, error, sizes, across


def _sizes(influence: Array, chain: np.ndarray | None) -> Array:
    """Effective numbers of samples; NaN where the influence is not finite."""
    sizes = np.full(influence.shape[1], np.nan)
    known = np.isfinite(influence).all(axis=0)
    sizes[known] = sizes_of_means(influence[:, known], chain)
    return sizes


def _inverse(covariance: Array) -> Array:
    """Inverse of a covariance; directions without variance are left out."""
    unit = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    unit = np.where(unit > 0, unit, 1.0)
    values, vectors = np.linalg.eigh(covariance / unit / unit[:, None])
    inverse = np.where(values > _FLOOR * values[-1], 1.0 / np.where(values > 0, values, 1.0), 0.0)
    return (vectors * inverse) @ vectors.T / unit / unit[:, None]


def _inverses(matrices: Array) -> Array:
    """Inverses of small covariances, (k, a, a), whatever the units; NaN where one is not finite."""
    unit = np.sqrt(np.einsum("kaa->ka", matrices))
    unit = np.where(unit > 0, unit, 1.0)
    known = np.isfinite(matrices).all(axis=(1, 2))
    scaled = matrices / unit[:, :, None] / unit[:, None, :]
    scaled[~known] = np.eye(matrices.shape[1])
    inverse = (
        np.linalg.pinv(scaled, rcond=1e-9, hermitian=True) / unit[:, :, None] / unit[:, None, :]
    )
    inverse[~known] = np.nan
    return inverse
