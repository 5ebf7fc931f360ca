"""The EM algorithm for mixtures of normal distributions."""

from __future__ import annotations

import numpy as np

from .._typing import Array

_FLOOR = 1e-6  # smallest variance, relative to that of all samples
_TOLERANCE = 1e-9  # change of the mean log-likelihood at which steps end
_MOST = 1000  # steps


def fit_mixture(
    x: Array, k: int, full: bool, n_starts: int, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Weights (k,), means (k, d) and covariances of the most likely of several ends.

    Covariances are (k, d, d) if `full`, otherwise (k, d) variances. Components are ordered by the
    first coordinate of their means.
    """
    centre, unit = x.mean(axis=0), x.std(axis=0)
    z = (x - centre) / unit
    ends = [_run(z, k, full, rng) for _ in range(n_starts if k > 1 else 1)]
    sound = [end for end in ends if end[1].min() * len(x) >= x.shape[1] + 2] or ends
    _, weights, means, covs = max(sound, key=lambda end: end[0])
    order = np.argsort(means[:, 0], kind="stable")
    units = np.multiply.outer(unit, unit) if full else unit**2
    return weights[order], centre + unit * means[order], units * covs[order]


def _run(
    z: Array, k: int, full: bool, rng: np.random.Generator
) -> tuple[float, Array, Array, Array]:
    """Mean log-likelihood, weights, means and covariances at the end of one start."""
    centres = _spread_out(z, k, rng)
    nearest = ((z[:, None, :] - centres) ** 2).sum(axis=2).argmin(axis=1)
    shares = np.eye(k)[nearest] * 0.9 + 0.1 / k
    last = -np.inf
    for _ in range(_MOST):
        weights, means, covs = _maximised(z, shares, full)
        joint = np.log(weights) + _log_densities(z, means, covs)
        top = joint.max(axis=1, keepdims=True)
        shares = np.exp(joint - top)
        total = shares.sum(axis=1, keepdims=True)
        shares /= total
        likelihood = float((top + np.log(total)).mean())
        if likelihood - last < _TOLERANCE:
            break
        last = likelihood
    return likelihood, weights, means, covs


def _spread_out(z: Array, k: int, rng: np.random.Generator) -> Array:
    """Samples far from each other, as in k-means++."""
    rows = [int(rng.integers(len(z)))]
    distance = np.full(len(z), np.inf)
    for _ in range(1, k):
        distance = np.minimum(distance, ((z - z[rows[-1]]) ** 2).sum(axis=1))
        rows.append(int(rng.choice(len(z), p=distance / distance.sum())))
    return z[rows]


def _maximised(z: Array, shares: Array, full: bool) -> tuple[Array, Array, Array]:
    """Parameters of largest likelihood, given the components' shares of the samples, (n, k)."""
    n, d = z.shape
    counts = shares.sum(axis=0) + 1e-300
    means = (shares.T @ z) / counts[:, None]
    covs = []
    for mean, share, count in zip(means, shares.T, counts, strict=True):
        centred = z - mean
        if full:
            covs.append((centred.T * share) @ centred / count + _FLOOR * np.eye(d))
        else:
            covs.append(share @ centred**2 / count + _FLOOR)
    weights = np.maximum(counts / n, 1e-12)
    return weights / weights.sum(), means, np.array(covs)


def _log_densities(z: Array, means: Array, covs: Array) -> Array:
    """Log-density of each component at each sample, (n, k)."""
    columns = []
    for mean, cov in zip(means, covs, strict=True):
        if cov.ndim == 1:
            white, log_det = (z - mean) / np.sqrt(cov), np.log(cov).sum()
        else:
            root = np.linalg.cholesky(cov)
            white = np.linalg.solve(root, (z - mean).T).T
            log_det = 2.0 * np.log(np.diag(root)).sum()
        square = np.einsum("nd,nd->n", white, white)
        columns.append(-0.5 * (square + log_det + z.shape[1] * np.log(2.0 * np.pi)))
    return np.stack(columns, axis=1)
