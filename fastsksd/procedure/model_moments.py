"""Mean and deviation of a model along a direction, from samples of any distribution.

Zero-variance control variates: y and y^2 are regressed on Stein features of low degree, which have
mean 0 under the model. The constants of the regressions are the moments of the model, whatever the
samples are, as far as the features explain y and y^2. For normal models they do so entirely.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._typing import Array

_MOST_FEATURES = 64
_LEAST_SAMPLES = 20  # for each feature
_MOST_NUMBERS = 2**22  # of features beyond which not all samples are used
_CONSTANT = 1e-12  # deviation of a feature that is constant but for rounding, relative to its mean
_RANK = 1e-9  # eigenvalues of a correlation matrix below which there is no direction


class Bounded(NamedTuple):
    """Values with outliers moved in, and which of them were none; arrays of one shape."""

    values: Array
    kept: np.ndarray


def moment_effects(
    g: Array, f: Bounded, t: Array, x: Bounded, s: Array, influence: Array
) -> tuple[Array, Array]:
    """Shifts and logarithms of stretches of samples along directions, by moments of the model.

    The features are ``s_i y^k + g_i k y^(k-1)`` for k up to 3 and all coordinates i, and those of
    the functions ``x_i y^k`` for k up to 1. Where they would be too many, they are those of t in
    place of s, and of the scale of the whole vector.

    Parameters
    ----------
    g : (k, d) array
        Directions.
    f : Bounded
        Samples along them, centred, (n, k).
    t : (n, k) array
        What stands for the scores of their marginals, see `fastsksd.effects`.
    x : Bounded
        Samples, centred, (n, d).
    s : (n, d) array
        Scores.
    influence : (2, n, k) array
        Influence functions of other estimates.

    Returns
    -------
    values : (2, k) array
        NaN where the moments are those of no distribution.
    deviation : (2, k) array
        Deviations of the influence functions of their differences from the others.
    """
    n, k = f.values.shape
    d = s.shape[1]
    wide = 6 * d + 1 <= min(n // _LEAST_SAMPLES, _MOST_FEATURES)
    step = -(-n * (6 * d + 1 if wide else 6) // _MOST_NUMBERS)
    f, x = (Bounded(one.values[::step], one.kept[::step]) for one in (f, x))
    t, s = t[::step], s[::step]
    whole = np.einsum("nd,nd->n", s, x.values) / d + x.kept.mean(axis=1)
    values, deviation = np.empty((2, k)), np.empty((2, k))
    for row in range(k):
        y = Bounded(f.values[:, row], f.kept[:, row])
        features = _all(g[row], y, x, s) if wide else _few(y, t[:, row], whole)
        values[:, row], own = _from_constants(y.values, features)
        if step > 1:  # what the others would be on these samples, less what they are on all
            values[:, row] -= influence[:, ::step, row].mean(axis=1)
        own = own - influence[:, ::step, row]
        deviation[:, row] = np.sqrt(step * (own * own).mean(axis=1))
    return values, deviation


def _few(y: Bounded, t: Array, whole: Array) -> Array:
    """Features of the marginal, and of the scale of the whole vector, (n, p)."""
    along = [t * y.values**k + k * y.values ** max(k - 1, 0) * y.kept for k in range(4)]
    return np.stack([np.ones_like(t), *along, whole], axis=1)


def _all(g: Array, y: Bounded, x: Bounded, s: Array) -> Array:
    """Features of all coordinates, (n, p)."""
    blocks = [np.ones((len(s), 1))]
    for k in range(4):
        power = y.values**k
        slope = k * y.values ** max(k - 1, 0) * y.kept
        blocks.append(s * power[:, None] + slope[:, None] * g)
        if k < 2:
            blocks.append((s * x.values + x.kept) * power[:, None] + slope[:, None] * g * x.values)
    return np.concatenate(blocks, axis=1)


def constants(targets: Array, features: Array) -> tuple[Array, Array]:
    """Means of targets, (n, q), under the model, (q,), with their influence functions, (q, n).

    They are the constants of the regressions on the features, the first of which is 1. The others
    are centred: of samples much narrower than the model, they are 1 but for little.
    """
    n, q = targets.shape
    mean_feature = features[:, 1:].mean(axis=0)
    features = features[:, 1:] - mean_feature
    unit = np.sqrt((features**2).mean(axis=0))
    varies = unit > _CONSTANT * np.abs(mean_feature)
    features, mean_feature = (np.where(varies, one, 0.0) for one in (features, mean_feature))
    unit = np.where(varies, unit, 1.0)
    features, mean_feature = features / unit, mean_feature / unit
    centre = targets.mean(axis=0)
    gram = features.T @ features / n
    if not np.isfinite(gram).all():
        return np.full(q, np.nan), np.full((q, n), np.nan)
    inverse = np.linalg.pinv(gram, rcond=_RANK, hermitian=True)
    beta = inverse @ (features.T @ (targets - centre)) / n
    residual = (targets - centre - features @ beta).T
    return centre - mean_feature @ beta, residual * (1.0 - features @ (inverse @ mean_feature))


def _from_constants(f: Array, features: Array) -> tuple[Array, Array]:
    """Shift and log stretch, (2,), with influence functions, (2, n), of centred samples."""
    (mean, square), residual = constants(np.stack([f, f * f], axis=1), features)
    variance, width = square - mean * mean, f.var()
    of_variance = (residual[1] - 2.0 * mean * residual[0]) / variance
    shift = -mean / np.sqrt(variance)
    return (
        np.stack([shift, 0.5 * np.log(width / variance)]),
        np.stack(
            [
                (f - residual[0]) / np.sqrt(variance) - 0.5 * shift * of_variance,
                0.5 * (f * f / width - 1.0 - of_variance),
            ]
        ),
    )
