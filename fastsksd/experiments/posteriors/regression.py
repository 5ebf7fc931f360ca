"""Regressions: logistic, softmax, Poisson, negative binomial, and with t-distributed errors."""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, expit, gammaln

from ..._typing import Array
from .base import Posterior
from .data import DISCOVERIES, from_sklearn, standardised


def _with_constant(x: Array) -> Array:
    return np.column_stack([np.ones(len(x)), x])


class Logistic(Posterior):
    """Breast cancer: malignant or not, by the means of ten measurements of cells."""

    def __init__(self) -> None:
        data = from_sklearn("breast_cancer")
        self.x = _with_constant(standardised(data.data[:, :10]))
        self.y = data.target.astype(float)
        self.names = ["constant", *map(str, data.feature_names[:10])]
        self.centre, self.scale = np.zeros(11), np.full(11, 2.5)

    def likelihood(self, x: Array) -> tuple[Array, Array]:
        eta = x @ self.x.T
        value = (eta * self.y - np.logaddexp(0.0, eta)).sum(axis=1)
        return value, (self.y - expit(eta)) @ self.x


class Softmax(Posterior):
    """Wine: one of three growers, by four measurements; the first has coefficients zero."""

    def __init__(self) -> None:
        data = from_sklearn("wine")
        chosen = [0, 6, 9, 12]
        self.x = _with_constant(standardised(data.data[:, chosen]))
        self.y = (data.target[:, None] == [1, 2]).astype(float)
        features = ["constant", *(data.feature_names[k] for k in chosen)]
        self.names = [f"{name}[{k}]" for k in (1, 2) for name in features]
        self.centre, self.scale = np.zeros(10), np.full(10, 2.5)

    def likelihood(self, x: Array) -> tuple[Array, Array]:
        eta = np.einsum("nkj,ij->nik", x.reshape(-1, 2, 5), self.x)
        largest = np.maximum(eta.max(axis=2, keepdims=True), 0.0)
        weights = np.exp(eta - largest)
        total = np.exp(-largest) + weights.sum(axis=2, keepdims=True)
        value = (eta * self.y).sum(axis=(1, 2)) - (largest + np.log(total)).sum(axis=(1, 2))
        slope = np.einsum("nik,ij->nkj", self.y - weights / total, self.x)
        return value, slope.reshape(x.shape)


class Poisson(Posterior):
    """Fitness: how many chin-ups 20 men do, by their weight, waist and pulse."""

    def __init__(self) -> None:
        data = from_sklearn("linnerud")
        self.x = _with_constant(standardised(data.target))
        self.y = data.data[:, 0]
        self.names = ["constant", *data.target_names]
        self.centre, self.scale = np.zeros(4), np.array([5.0, 1.0, 1.0, 1.0])

    def likelihood(self, x: Array) -> tuple[Array, Array]:
        eta = x @ self.x.T
        rate = np.exp(eta)
        return (eta * self.y - rate).sum(axis=1), (self.y - rate) @ self.x


class NegativeBinomial(Posterior):
    """Discoveries: counts of a year, with a quadratic trend and overdispersion."""

    logs = (3,)

    def __init__(self) -> None:
        time = np.linspace(-1.0, 1.0, DISCOVERIES.size)
        self.x = np.column_stack([np.ones(time.size), time, time**2])
        self.y = DISCOVERIES
        self.names = ["constant", "trend", "curvature", "log size"]
        self.centre, self.scale = np.array([0.0, 0.0, 0.0, 1.0]), np.array([2.5, 2.5, 2.5, 1.5])

    def likelihood(self, x: Array) -> tuple[Array, Array]:
        eta, size = x[:, :3] @ self.x.T, np.exp(x[:, 3:])
        rate, y = np.exp(eta), self.y
        total = np.log(size + rate)
        terms = gammaln(y + size) - gammaln(size) + size * (x[:, 3:] - total) + y * (eta - total)
        share = (y + size) / (size + rate)
        by_size = digamma(y + size) - digamma(size) + x[:, 3:] - total + 1.0 - share
        slope = np.column_stack([(y - rate * share) @ self.x, (size * by_size).sum(axis=1)])
        return terms.sum(axis=1), slope


class Robust(Posterior):
    """Diabetes: progress of the disease by ten measurements, errors of a t-distribution."""

    logs = (11, 12)

    def __init__(self) -> None:
        data = from_sklearn("diabetes")
        self.x = _with_constant(standardised(data.data))
        self.y = standardised(data.target)
        self.names = ["constant", *data.feature_names, "log scale", "log degrees of freedom"]
        self.centre = np.concatenate([np.zeros(12), [np.log(10.0)]])
        self.scale = np.concatenate([np.full(12, 1.0), [0.7]])

    def likelihood(self, x: Array) -> tuple[Array, Array]:
        log_scale, nu = x[:, 11:12], np.exp(x[:, 12:])
        scale = np.exp(log_scale)
        z = (self.y - x[:, :11] @ self.x.T) / scale
        square = z * z / nu
        half = 0.5 * (nu + 1.0)
        constant = gammaln(half) - gammaln(0.5 * nu) - 0.5 * np.log(nu) - log_scale
        count = self.y.size
        value = count * constant[:, 0] - (half * np.log1p(square)).sum(axis=1)
        pull = 2.0 * half * square / (1.0 + square)  # minus the derivative by log |z|
        by_nu = 0.5 * (digamma(half) - digamma(0.5 * nu) - 1.0 / nu)
        by_log_nu = count * (nu * by_nu)[:, 0] + 0.5 * (pull - nu * np.log1p(square)).sum(axis=1)
        slope = np.column_stack(
            [
                (2.0 * half * z / (nu * (1.0 + square)) / scale) @ self.x,
                pull.sum(axis=1) - count,
                by_log_nu,
            ]
        )
        return value, slope
