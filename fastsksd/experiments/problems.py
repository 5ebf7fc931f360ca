"""Test problems: a model p, and the distribution q of the samples.

A problem is made for a dimension and a generator, which draws all that is random in it (a rotation,
a hidden direction, an RBM).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from .._typing import Array, ArrayLike, Rng
from ..models import GaussBernRBM, Gaussian, GaussianMixture, Laplace, Model, StudentT

Generator: TypeAlias = np.random.Generator
Pair: TypeAlias = tuple[Model, Model]


class Problem(NamedTuple):
    """Model `p`, distribution `q` of the samples, and the null models whose level is reported."""

    p: Model
    q: Model
    level: str


class Rotated(Model):
    """A model in other coordinates: samples of `model` times an orthogonal matrix."""

    def __init__(self, model: Model, rotation: Array) -> None:
        self.d = model.d
        self.model = model
        self.rotation = rotation

    def sample(self, n: int, *, rng: Rng = None) -> Array:
        return self.model.sample(n, rng=rng) @ self.rotation.T

    def score(self, x: ArrayLike) -> Array:
        return self.model.score(self._check_points(x) @ self.rotation) @ self.rotation.T

    def score_along(self, x: ArrayLike, r: ArrayLike) -> Array:
        x, r = self._check_points_and_direction(x, r)
        return self.model.score_along(x @ self.rotation, r @ self.rotation) @ self.rotation.T


class HeavyAxis(Model):
    """Standard normal, except for a first coordinate with a Student t of unit variance."""

    d: int

    def __init__(self, d: int, df: float = 3.0) -> None:
        self.d = d
        self.tail = StudentT(1, df=df, scale=np.sqrt((df - 2.0) / df))

    def sample(self, n: int, *, rng: Rng = None) -> Array:
        rng = np.random.default_rng(rng)
        return np.concatenate(
            [self.tail.sample(n, rng=rng), rng.standard_normal((n, self.d - 1))], axis=1
        )

    def score(self, x: ArrayLike) -> Array:
        x = self._check_points(x)
        return np.concatenate([self.tail.score(x[:, :1]), -x[:, 1:]], axis=1)

    def score_along(self, x: ArrayLike, r: ArrayLike) -> Array:
        x, r = self._check_points_and_direction(x, r)
        tail = self.tail.score_along(x[:, :1], np.ones(1)) * r[0]
        return np.concatenate([tail, np.broadcast_to(-r[1:], (x.shape[0], self.d - 1))], axis=1)


def random_rotation(d: int, rng: Generator) -> Array:
    """An orthogonal matrix drawn uniformly."""
    q, r = np.linalg.qr(rng.standard_normal((d, d)))
    return q * np.sign(np.diagonal(r))


def correlated(d: int) -> Array:
    """The covariance of an AR(1) process with coefficient 0.6."""
    return 0.6 ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))


def random_direction(d: int, rng: Generator) -> Array:
    v = rng.standard_normal(d)
    return v / np.linalg.norm(v)


def _normal(d: int) -> Gaussian:
    return Gaussian(np.zeros(d), 1.0)


def _laplace(d: int, rng: Generator) -> Pair:
    return _normal(d), Laplace(d)


def _student(d: int, rng: Generator) -> Pair:
    return Gaussian(np.zeros(d), 5.0 / 3.0), StudentT(d, df=5)


def _diffusion(d: int, rng: Generator) -> Pair:
    return _normal(d), Gaussian(np.zeros(d), np.r_[0.3, np.ones(d - 1)])


def _shift(d: int, rng: Generator) -> Pair:
    return _normal(d), Gaussian(0.25 * random_direction(d, rng), 1.0)


def _correlation(d: int, rng: Generator) -> Pair:
    cov = np.eye(d)
    cov[0, 1] = cov[1, 0] = 0.5
    return _normal(d), Gaussian(np.zeros(d), cov)


def _tail(d: int, rng: Generator) -> Pair:
    return _normal(d), Rotated(HeavyAxis(d), random_rotation(d, rng))


def _modes(d: int, rng: Generator, weights: list[float]) -> tuple[GaussianMixture, GaussianMixture]:
    direction = 1.5 * random_direction(d, rng)
    means = np.stack([direction, -direction])
    p = GaussianMixture([0.5, 0.5], means, [1.0, 1.0])
    return p, GaussianMixture(weights, means, [1.0, 1.0])


def _missing_mode(d: int, rng: Generator) -> Pair:
    p, _ = _modes(d, rng, [0.5, 0.5])
    return p, Gaussian(p.means[0], 1.0)


def _wrong_weights(d: int, rng: Generator) -> Pair:
    return _modes(d, rng, [0.75, 0.25])


def _ill_conditioned(d: int, rng: Generator) -> Array:
    """A covariance of eigenvalues 1 to 1e-4 in random directions, and of columns in other units."""
    axes = random_rotation(d, rng)
    cov = (axes * np.logspace(0.0, -4.0, d)) @ axes.T
    units = np.exp(1.5 * rng.standard_normal(d))
    return 0.5 * units[:, None] * (cov + cov.T) * units


def _rbm(d: int, rng: Generator) -> tuple[GaussBernRBM, GaussBernRBM]:
    p = GaussBernRBM.random(d, max(1, round(0.8 * d)), rng=rng)
    return p, p.perturbed(0.02, rng=rng)


_MAKERS: dict[str, tuple[Callable[[int, Generator], Pair], str]] = {
    "Laplace": (_laplace, "normal"),
    "Student t": (_student, "normal"),
    "diffusion": (_diffusion, "normal"),
    "mean shift": (_shift, "normal"),
    "one correlation": (_correlation, "normal"),
    "hidden tail": (_tail, "normal"),
    "missing mode": (_missing_mode, "mixture"),
    "wrong weights": (_wrong_weights, "mixture"),
    "RBM": (_rbm, "RBM"),
}
_NULLS: dict[str, Callable[[int, Generator], Model]] = {
    "normal": lambda d, rng: _normal(d),
    "correlated normal": lambda d, rng: Gaussian(np.zeros(d), 0.5 * np.eye(d) + 0.5),
    "ill-conditioned normal": lambda d, rng: Gaussian(np.zeros(d), _ill_conditioned(d, rng)),
    "Laplace model": lambda d, rng: Laplace(d),
    "mixture": lambda d, rng: _modes(d, rng, [0.5, 0.5])[0],
    "RBM": lambda d, rng: _rbm(d, rng)[0],
}
ROTATED = tuple(f"{name}, rotated" for name in ("Laplace", "Student t", "diffusion"))
PROBLEMS = tuple(
    name
    for base in _MAKERS
    for name in (base, f"{base}, rotated")
    if name in _MAKERS or name in ROTATED
)
NULL_MODELS = tuple(_NULLS)


def make_problem(name: str, d: int, rng: Generator) -> Problem:
    """The problem of that name in `d` dimensions."""
    base = name.removesuffix(", rotated")
    make, level = _MAKERS[base]
    p, q = make(d, rng)
    if name in ROTATED:
        q = Rotated(q, random_rotation(d, rng))
    return Problem(p, q, level)


def make_null(name: str, d: int, rng: Generator) -> Problem:
    """A problem in which the model is right."""
    model = _NULLS[name](d, rng)
    return Problem(model, model, name)
