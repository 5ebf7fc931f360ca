"""Descent on the unmixing matrix of an ICA model: Adam along a loss, or Gauss-Newton steps.

The model is ``x = W z`` with independent Student-t sources; ``A = W^-1`` is trained. With
``u = A x`` its score is ``A^T psi(u)``. A gradient G in the scores, (n, d), becomes the gradient
``psi(U)^T G + (psi'(U) * (G A^T))^T X`` in A.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from .._typing import Array
from .._validate import ArgumentError
from ..compute.linalg import gram, product
from ..kernels import Kernel
from ..models import StudentT
from .loss import SteinLoss
from .scoring import Scoring


class Descent(Protocol):
    """What a training run needs from its descent."""

    unmixing: Array

    def advance(self, x: Array) -> float:
        """One step on the samples `x`; returns a value to be followed."""
        ...

    def state(self) -> dict[str, np.ndarray]:
        """Arrays from which `restore` continues."""
        ...

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from what `state` returned."""
        ...


def score_and_pullback(
    unmixing: Array, x: Array, df: float
) -> tuple[Array, Callable[[Array], Array]]:
    """Scores at `x`, (n, d), and the map from a gradient in them to one in `unmixing`."""
    sources = StudentT(unmixing.shape[0], df)
    u = product(x, unmixing)
    psi, slope = sources.score(u), sources.score_along(u, np.ones(u.shape[1]))

    def pullback(by_score: Array) -> Array:
        return product(psi.T, by_score.T) + product((slope * product(by_score, unmixing)).T, x.T)

    return product(psi, unmixing.T), pullback


def negative_log_likelihood(unmixing: Array, x: Array, df: float) -> float:
    """Mean over the rows of `x`."""
    sources = StudentT(unmixing.shape[0], df)
    return float(-np.linalg.slogdet(unmixing)[1] - sources.log_density(product(x, unmixing)).mean())


class AdamDescent:
    """Adam on ``A = W^-1`` along the gradient of a loss."""

    def __init__(
        self,
        unmixing: Array,
        df: float,
        loss: SteinLoss,
        learning_rate: float,
        betas: tuple[float, float],
    ) -> None:
        self.unmixing = np.array(unmixing)
        self.moments = np.zeros((2, *self.unmixing.shape))
        self.count = 0
        self.df, self.loss, self.learning_rate, self.betas = df, loss, learning_rate, betas

    def advance(self, x: Array) -> float:
        """One step on the samples `x`; returns the loss."""
        scores, pullback = score_and_pullback(self.unmixing, x, self.df)
        if not np.isfinite(scores).all():
            return np.nan
        value, by_score = self.loss(x, scores)
        gradient = pullback(by_score)
        self.count += 1
        for moment, beta, target in zip(
            self.moments, self.betas, (gradient, gradient**2), strict=True
        ):
            moment += (1.0 - beta) * (target - moment)
        mean, square = (
            moment / (1.0 - beta**self.count)
            for moment, beta in zip(self.moments, self.betas, strict=True)
        )
        self.unmixing = self.unmixing - self.learning_rate * mean / (np.sqrt(square) + 1e-8)
        return value

    def state(self) -> dict[str, np.ndarray]:
        adam = {"unmixing": self.unmixing, "moments": self.moments, "count": np.array(self.count)}
        return adam | prefixed("loss.", self.loss.state())

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self.unmixing, self.moments = state["unmixing"], state["moments"]
        self.count = int(state["count"])
        self.loss.restore(without_prefix("loss.", state))


class ScoringDescent:
    """Relative Gauss-Newton steps (see `scoring`) from decorrelated sources of the right scale."""

    def __init__(
        self, unmixing: Array, x: Array, df: float, kernel: Kernel, fraction: float
    ) -> None:
        self.scoring = Scoring(df, kernel)
        self.fraction = fraction
        self.unmixing = _decorrelated(unmixing, x, self.scoring.median)

    def advance(self, x: Array) -> float:
        """One step on the samples `x`; returns how far it should lower the loss."""
        step, gain = self.scoring.step(product(x, self.unmixing))
        self.unmixing = self.unmixing - self.fraction * product(step, self.unmixing.T)
        return gain

    def state(self) -> dict[str, np.ndarray]:
        return {"unmixing": self.unmixing}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self.unmixing = state["unmixing"]


def prefixed(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same arrays with a prefix before their names."""
    return {f"{prefix}{name}": array for name, array in arrays.items()}


def without_prefix(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays whose names have the prefix, without it."""
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def _decorrelated(unmixing: Array, x: Array, median: float) -> Array:
    """The nearest unmixing matrix with uncorrelated sources at `x` whose median size is given."""
    u = np.ascontiguousarray(product(x, unmixing).T)
    values, vectors = np.linalg.eigh(gram(u) / u.shape[1])
    if not values[0] > values[-1] * values.size * np.finfo(float).eps:
        raise ArgumentError(
            "data",
            f"must vary in all of its {values.size} dimensions: its sources can't be told apart",
        )
    unmixing = (vectors / np.sqrt(values)) @ vectors.T @ unmixing
    return unmixing * (median / np.median(np.abs(product(x, unmixing))))
