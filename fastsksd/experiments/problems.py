"""Test problems: a model p, and the law q that the samples really follow.

Each problem is made for a dimension and a seed, which draws what is random in it (a rotation, a hidden direction, an RBM).
"""

from typing import NamedTuple

import numpy as np

from ..models import GaussBernRBM, Gaussian, GaussianMixture, Laplace, Model, StudentT


class Problem(NamedTuple):
    """Model `p`, the samples' law `q`, and the name of the family of models whose level stands beside its power."""

    p: Model
    q: Model
    level: str


class Rotated(Model):
    """A model seen in other coordinates: samples of `model` times an orthogonal matrix."""

    def __init__(self, model, rotation):
        self.d = model.d
        self.model = model
        self.rotation = rotation

    def sample(self, n, *, rng=None):
        return self.model.sample(n, rng=rng) @ self.rotation.T

    def score(self, x):
        return self.model.score(x @ self.rotation) @ self.rotation.T

    def score_along(self, x, r):
        return self.model.score_along(x @ self.rotation, r @ self.rotation) @ self.rotation.T


class HeavyAxis(Model):
    """Standard normal, but for a first coordinate with a Student law of unit variance."""

    def __init__(self, d, df=3.0):
        self.d = d
        self.tail = StudentT(1, df=df, scale=np.sqrt((df - 2.0) / df))

    def sample(self, n, *, rng=None):
        rng = np.random.default_rng(rng)
        return np.concatenate(
            [self.tail.sample(n, rng=rng), rng.standard_normal((n, self.d - 1))], axis=1
        )

    def score(self, x):
        return np.concatenate([self.tail.score(x[:, :1]), -x[:, 1:]], axis=1)

    def score_along(self, x, r):
        tail = self.tail.score_along(x[:, :1], np.ones(1)) * r[0]
        return np.concatenate([tail, np.broadcast_to(-r[1:], (x.shape[0], self.d - 1))], axis=1)


def random_rotation(d, rng):
    """An orthogonal matrix drawn uniformly."""
    q, r = np.linalg.qr(rng.standard_normal((d, d)))
    return q * np.sign(np.diagonal(r))


def _direction(d, rng):
    v = rng.standard_normal(d)
    return v / np.linalg.norm(v)


def _normal(d):
    return Gaussian(np.zeros(d), 1.0)


def _laplace(d, rng):
    return _normal(d), Laplace(d)


def _student(d, rng):
    return Gaussian(np.zeros(d), 5.0 / 3.0), StudentT(d, df=5)


def _diffusion(d, rng):
    return _normal(d), Gaussian(np.zeros(d), np.r_[0.3, np.ones(d - 1)])


def _shift(d, rng):
    return _normal(d), Gaussian(0.25 * _direction(d, rng), 1.0)


def _correlation(d, rng):
    cov = np.eye(d)
    cov[0, 1] = cov[1, 0] = 0.5
    return _normal(d), Gaussian(np.zeros(d), cov)


def _tail(d, rng):
    return _normal(d), Rotated(HeavyAxis(d), random_rotation(d, rng))


def _modes(d, rng, weights):
    direction = 1.5 * _direction(d, rng)
    means = np.stack([direction, -direction])
    return GaussianMixture([0.5, 0.5], means, [1.0, 1.0]), GaussianMixture(
        weights, means, [1.0, 1.0]
    )


def _missing_mode(d, rng):
    p, _ = _modes(d, rng, [0.5, 0.5])
    return p, Gaussian(p.means[0], 1.0)


def _wrong_weights(d, rng):
    return _modes(d, rng, [0.75, 0.25])


def _rbm(d, rng):
    p = GaussBernRBM.random(d, max(1, round(0.8 * d)), rng=rng)
    return p, p.perturbed(0.02, rng=rng)


_MAKERS = {
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
_NULLS = {
    "normal": lambda d, rng: _normal(d),
    "correlated normal": lambda d, rng: Gaussian(np.zeros(d), 0.5 * np.eye(d) + 0.5),
    "Laplace law": lambda d, rng: Laplace(d),
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


def make_problem(name, d, rng):
    """The problem of that name in `d` dimensions."""
    base = name.removesuffix(", rotated")
    make, level = _MAKERS[base]
    p, q = make(d, rng)
    if name in ROTATED:
        q = Rotated(q, random_rotation(d, rng))
    return Problem(p, q, level)


def make_null(name, d, rng):
    """A problem in which the model is right."""
    model = _NULLS[name](d, rng)
    return Problem(model, model, name)
