"""Draws that only resemble a posterior: unadjusted Langevin, mean field and Laplace.

All start from moments of right draws, so what they lack is their own, and no matter of search.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._typing import Array
from .posteriors import Posterior


class Moments(NamedTuple):
    """Mean and covariance of a posterior."""

    mean: Array
    cov: Array

    @property
    def deviation(self) -> Array:
        """Standard deviations."""
        return np.sqrt(np.diag(self.cov))


def moments_of(x: Array) -> Moments:
    """Moments of draws, along the last axis."""
    flat = x.reshape(-1, x.shape[-1])
    return Moments(flat.mean(axis=0), np.cov(flat.T))


def langevin(
    posterior: Posterior, moments: Moments, chains: int, draws: int, rng: np.random.Generator
) -> Array:
    """Chains (chains, draws, d) of Langevin without an accept step.

    In units of the posterior's deviations. The step is the inverse of the largest curvature, where
    the variance along that direction is a third too large.
    """
    unit = moments.deviation
    curvatures = 1.0 / np.linalg.eigvalsh(moments.cov / np.outer(unit, unit))
    step = 1.0 / curvatures.max()
    thin = int(np.clip(np.ceil(0.5 * curvatures.max() / curvatures.min()), 1, 20))
    x = moments.mean + unit * rng.standard_normal((chains, posterior.d))
    found = np.empty((chains, draws, posterior.d))
    for t in range(-100, draws):
        for _ in range(thin):
            # A bound on the drift, as of tamed Langevin, keeps chains from running away.
            drift = np.clip(0.5 * step * unit * posterior.score(x), -1.0, 1.0)
            x = x + unit * (drift + np.sqrt(step) * rng.standard_normal(x.shape))
        if t >= 0:
            found[:, t] = x
    return found


def mean_field(
    posterior: Posterior, moments: Moments, rng: np.random.Generator, steps: int = 1500
) -> tuple[Array, Array]:
    """Means and deviations of the independent normal distribution with the best evidence bound.

    Found by Adam, from the moments on; the mean of the second half of the steps.
    """
    unit = moments.deviation
    mean, log_deviation = moments.mean.copy(), np.log(unit)
    first, second, kept = np.zeros((3, 2, posterior.d))
    for t in range(1, steps + 1):
        z = rng.standard_normal((20, posterior.d))
        z = np.concatenate([z, -z])
        deviation = np.exp(log_deviation)
        score = posterior.score(mean + deviation * z)
        slope = np.stack([unit * score.mean(axis=0), (score * z).mean(axis=0) * deviation + 1.0])
        slope = np.clip(slope, -10.0, 10.0)  # in a funnel, scores have no bound
        first = 0.9 * first + 0.1 * slope
        second = 0.99 * second + 0.01 * slope**2
        move = (first / (1.0 - 0.9**t)) / (np.sqrt(second / (1.0 - 0.99**t)) + 1e-8)
        move *= 0.05 / np.sqrt(1.0 + t / 100.0)
        mean, log_deviation = mean + unit * move[0], log_deviation + move[1]
        if t > steps // 2:
            kept += np.stack([mean, log_deviation]) / (steps - steps // 2)
    return kept[0], np.exp(kept[1])


def laplace(posterior: Posterior, moments: Moments) -> tuple[Array, Array]:
    """The mode, and a root of the inverse curvature there: mode + root @ z."""
    from scipy.optimize import minimize

    unit = moments.deviation

    def negative(z: Array) -> tuple[float, Array]:
        value, slope = posterior.density((moments.mean + unit * z)[None])
        return -float(value[0]), -unit * slope[0]

    found = minimize(negative, np.zeros(posterior.d), jac=True, method="BFGS")
    mode = moments.mean + unit * found.x
    around = 1e-4 * np.diag(unit)
    slopes = unit * (posterior.score(mode + around) - posterior.score(mode - around))
    curvature = -0.5 * (slopes + slopes.T) / 2e-4
    values, vectors = np.linalg.eigh(curvature)
    return mode, unit[:, None] * vectors / np.sqrt(np.maximum(values, 1e-3))
