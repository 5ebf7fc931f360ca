"""Time series and a mixture: GARCH, a Gaussian process, a random walk, two normal components."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from ..._typing import Array
from .base import Posterior, indexed
from .data import DISASTERS, INFLATION, from_sklearn


class Garch(Posterior):
    """Inflation: GARCH(1, 1).

    The persistence alpha + beta and the part of alpha in it are logistic functions of coordinates.
    """

    logs = (1,)

    def __init__(self) -> None:
        self.y = INFLATION
        self.names = ["mu", "log omega", "logit persistence", "logit part of alpha"]
        self.centre = np.array([3.0, 0.0, 1.5, 0.0])
        self.scale = np.array([3.0, 1.5, 1.0, 1.0])

    def likelihood(self, x: Array) -> tuple[Array, Array]:
        omega, persistence, part = np.exp(x[:, 1]), expit(x[:, 2]), expit(x[:, 3])
        alpha, beta = persistence * part, persistence * (1.0 - part)
        error = self.y[:, None] - x[:, 0]
        squares = error**2
        variance = np.empty_like(error)
        variance[0] = self.y.var()
        variance[1:] = omega + alpha * squares[:-1]
        for t in range(1, len(error)):
            variance[t] += beta * variance[t - 1]
        # How the density changes with every variance, by those that follow from it too.
        by = 0.5 * (squares / variance - 1.0) / variance
        for t in range(len(error) - 2, 0, -1):
            by[t] += beta * by[t + 1]
        by = by[1:]
        by_mu = (error / variance).sum(axis=0) - 2.0 * alpha * (by * error[:-1]).sum(axis=0)
        by_alpha, by_beta = (by * squares[:-1]).sum(axis=0), (by * variance[:-1]).sum(axis=0)
        mean = part * by_alpha + (1.0 - part) * by_beta
        slope = [
            by_mu,
            omega * by.sum(axis=0),
            persistence * (1.0 - persistence) * mean,
            persistence * part * (1.0 - part) * (by_alpha - by_beta),
        ]
        value = -0.5 * (np.log(variance) + squares / variance).sum(axis=0)
        return value, np.column_stack(slope)


class GaussianProcess(Posterior):
    """Coal mines: roots of the mean number of disasters in four years, a smooth curve and noise."""

    logs = (0, 1, 2)

    def __init__(self) -> None:
        means = np.nanmean(DISASTERS[:108].reshape(27, 4), axis=1)
        self.y = np.sqrt(means) - np.sqrt(means).mean()
        time = np.arange(27.0)
        self.squares = (time[:, None] - time) ** 2
        self.names = ["log amplitude", "log length", "log noise"]
        self.centre = np.log([0.5, 5.0, 0.3])
        self.scale = np.array([1.0, 0.7, 1.0])

    def likelihood(self, x: Array) -> tuple[Array, Array]:
        amplitude, length, noise = np.exp(2.0 * x.T)[:, :, None, None]
        scaled = self.squares / length
        smooth = amplitude * np.exp(-0.5 * scaled)
        # The small number keeps matrices positive definite for any length.
        covariance = smooth + (noise + 1e-8 * amplitude) * np.eye(self.y.size)
        inverse = np.linalg.inv(covariance)
        weights = inverse @ self.y
        _, log_determinant = np.linalg.slogdet(covariance)
        value = -0.5 * (weights @ self.y + log_determinant)
        by = 0.5 * (weights[:, :, None] * weights[:, None, :] - inverse)
        trace = np.trace(by, axis1=1, axis2=2)
        slope = [
            2.0 * ((by * smooth).sum(axis=(1, 2)) + 1e-8 * amplitude[:, 0, 0] * trace),
            (by * smooth * scaled).sum(axis=(1, 2)),
            2.0 * noise[:, 0, 0] * trace,
        ]
        return value, np.column_stack(slope)


class RandomWalk(Posterior):
    """Coal mines: the logarithm of the rate of disasters in two years is a random walk."""

    logs = (1,)

    def __init__(self) -> None:
        pairs = DISASTERS[:110].reshape(55, 2)
        self.y, self.years = np.nansum(pairs, axis=1), np.isfinite(pairs).sum(axis=1)
        self.names = ["first", "log tau", *indexed("step", 54)]
        self.centre = np.array([0.0, -1.5, *[0.0] * 54])
        self.scale = np.array([2.0, 1.0, *[np.inf] * 54])

    def likelihood(self, x: Array) -> tuple[Array, Array]:
        tau, steps = np.exp(x[:, 1:2]), x[:, 2:]
        walk = np.cumsum(steps, axis=1)
        eta = np.column_stack([x[:, 0], x[:, :1] + tau * walk])
        rate = self.years * np.exp(eta)
        push = self.y - rate
        later = np.cumsum(push[:, :0:-1], axis=1)[:, ::-1]  # of all years after a step
        value = (self.y * eta - rate).sum(axis=1) - 0.5 * (steps**2).sum(axis=1)
        by_tau = (push[:, 1:] * tau * walk).sum(axis=1)
        return value, np.column_stack([push.sum(axis=1), by_tau, tau * later - steps])


class Mixture(Posterior):
    """Iris: two normal components of the length of petals, the second one at larger values."""

    logs = (1, 2, 3)

    def __init__(self) -> None:
        self.y = from_sklearn("iris").data[:, 2]
        self.names = ["first mean", "log gap", "log first sd", "log second sd", "logit weight"]
        self.centre = np.array([3.0, 0.0, -1.0, -1.0, 0.0])
        self.scale = np.array([2.0, 1.0, 1.0, 1.0, 1.0])

    def likelihood(self, x: Array) -> tuple[Array, Array]:
        gap = np.exp(x[:, 1])
        means = np.stack([x[:, 0], x[:, 0] + gap])
        z = (self.y - means[:, :, None]) / np.exp(x[:, 2:4].T)[:, :, None]
        log_weights = -np.logaddexp(0.0, np.stack([-x[:, 4], x[:, 4]]))
        terms = (log_weights - x[:, 2:4].T)[:, :, None] - 0.5 * z**2
        total = np.logaddexp(terms[0], terms[1])
        part = np.exp(terms - total)
        by_mean = (part * z / np.exp(x[:, 2:4].T)[:, :, None]).sum(axis=2)
        by_sd = (part * (z**2 - 1.0)).sum(axis=2)
        by_weight = part[0].sum(axis=1) - self.y.size * expit(x[:, 4])
        slope = [by_mean.sum(axis=0), gap * by_mean[1], by_sd[0], by_sd[1], by_weight]
        return total.sum(axis=1), np.column_stack(slope)
