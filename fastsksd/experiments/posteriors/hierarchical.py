"""Models with groups: eight schools, batches of dyestuff, growth of children."""

from __future__ import annotations

import numpy as np

from ..._typing import Array
from .base import Posterior, indexed
from .data import DYESTUFF, GROWTH, SCHOOLS, standardised


class EightSchools(Posterior):
    """Eight schools with their effects as coordinates: a funnel."""

    logs = (1,)
    _tau = 5.0  # scale of its half-Cauchy prior

    def __init__(self) -> None:
        self.y, self.sigma = SCHOOLS
        self.names = ["mu", "log tau", *indexed("theta", 8)]
        self.centre = np.zeros(10)
        self.scale = np.array([5.0, *[np.inf] * 9])

    def prior(self, x: Array, width: Array) -> tuple[Array, Array]:
        value, slope = super().prior(x, width)
        ratio = (np.exp(x[:, 1]) / (width * self._tau)) ** 2
        slope[:, 1] += 1.0 - 2.0 * ratio / (1.0 + ratio)
        return value + x[:, 1] - np.log1p(ratio), slope

    def likelihood(self, x: Array) -> tuple[Array, Array]:
        mu, log_tau, theta = x[:, :1], x[:, 1], x[:, 2:]
        tau = np.exp(log_tau)[:, None]
        error, z = (self.y - theta) / self.sigma, (theta - mu) / tau
        value = -0.5 * (error**2 + z**2).sum(axis=1) - 8.0 * log_tau
        slope = [(z / tau).sum(axis=1), (z**2).sum(axis=1) - 8.0, error / self.sigma - z / tau]
        return value, np.column_stack(slope)


class EightSchoolsNonCentred(EightSchools):
    """Eight schools with standardised effects as coordinates."""

    def __init__(self) -> None:
        super().__init__()
        self.names = ["mu", "log tau", *indexed("eta", 8)]

    def likelihood(self, x: Array) -> tuple[Array, Array]:
        tau, eta = np.exp(x[:, 1:2]), x[:, 2:]
        error = (self.y - x[:, :1] - tau * eta) / self.sigma
        push = error / self.sigma
        slope = [push.sum(axis=1), (push * tau * eta).sum(axis=1), push * tau - eta]
        return -0.5 * (error**2 + eta**2).sum(axis=1), np.column_stack(slope)

    @staticmethod
    def centred(x: Array) -> Array:
        """Draws of this posterior as draws of `EightSchools`, along the last axis."""
        effects = x[..., :1] + np.exp(x[..., 1:2]) * x[..., 2:]
        return np.concatenate([x[..., :2], effects], axis=-1)


class Batches(Posterior):
    """Dyestuff: yield of six batches, standardised effects."""

    logs = (1, 2)

    def __init__(self) -> None:
        self.y = standardised(DYESTUFF.ravel()).reshape(DYESTUFF.shape)
        self.names = ["mu", "log tau", "log sigma", *indexed("eta", 6)]
        self.centre = np.zeros(9)
        self.scale = np.array([2.0, *[1.0] * 2, *[np.inf] * 6])

    def likelihood(self, x: Array) -> tuple[Array, Array]:
        tau, log_sigma, eta = np.exp(x[:, 1:2]), x[:, 2], x[:, 3:]
        sigma = np.exp(log_sigma)[:, None, None]
        z = (self.y - (x[:, :1] + tau * eta)[:, :, None]) / sigma
        count = self.y.size
        squares = (z * z).sum(axis=(1, 2))
        push = (z / sigma).sum(axis=2)
        value = -0.5 * squares - count * log_sigma - 0.5 * (eta**2).sum(axis=1)
        slope = [
            push.sum(axis=1),
            (push * tau * eta).sum(axis=1),
            squares - count,
            push * tau - eta,
        ]
        return value, np.column_stack(slope)


class Growth(Posterior):
    """Growth of 27 children: a constant for each, by sex, and a common slope over age."""

    logs = (3, 4)

    def __init__(self) -> None:
        self.y = standardised(GROWTH.ravel()).reshape(GROWTH.shape)
        self.age = np.array([-1.5, -0.5, 0.5, 1.5])
        self.girl = np.repeat([-0.5, 0.5], [16, 11])
        self.names = ["mu", "girl", "age", "log tau", "log sigma", *indexed("child", 27)]
        self.centre = np.zeros(32)
        self.scale = np.array([*[1.0] * 5, *[np.inf] * 27])

    def likelihood(self, x: Array) -> tuple[Array, Array]:
        log_tau, log_sigma, child = x[:, 3], x[:, 4], x[:, 5:]
        tau, sigma = np.exp(log_tau)[:, None], np.exp(log_sigma)[:, None, None]
        z = (child - x[:, :1] - x[:, 1:2] * self.girl) / tau
        error = (self.y - child[:, :, None] - x[:, 2, None, None] * self.age) / sigma
        squares = (error**2).sum(axis=(1, 2))
        count = self.y.size
        value = -0.5 * (squares + (z**2).sum(axis=1)) - count * log_sigma - 27.0 * log_tau
        slope = [
            (z / tau).sum(axis=1),
            (z / tau) @ self.girl,
            (error / sigma).sum(axis=1) @ self.age,
            (z**2).sum(axis=1) - 27.0,
            squares - count,
            (error / sigma).sum(axis=2) - z / tau,
        ]
        return value, np.column_stack(slope)
