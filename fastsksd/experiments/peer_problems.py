"""Problems on which other tests of the field were published, and what was published.

RBM
    A random Gaussian-Bernoulli RBM in every trial: entries of B are +1 or -1, biases are normal.
    The samples come from a copy with Gaussian noise of deviation sigma on every entry of B.
RBM with outliers
    A share of the samples of an RBM is replaced by normal ones about the origin, of deviation 0.1.
Gamma
    Model Gamma(5, scale 5), samples of a larger shape. Both are tested as logarithms, with the
    Jacobian in the score: on the half line the Stein identity needs conditions at zero.
one variance, Laplace, t(5)
    The model is standard normal. The first coordinate of the samples has another variance; all
    coordinates are Laplace of unit variance; all are Student t with five degrees of freedom, not
    rescaled, of variance 5/3.
two modes
    Normal modes of unit variance and equal weight at -3 and +3 on the first axis. The samples have
    other weights, or one mode only.

All other problems are those of `problems`.
"""

from __future__ import annotations

import math

import numpy as np

from .._typing import Array, ArrayLike, Rng
from .._validate import check_integer, check_rng
from ..models import GaussBernRBM, Gaussian, GaussianMixture, Model, StudentT
from .problems import NULL_MODELS, Problem, make_null, make_problem

OUTLIERS = 0.1  # deviation of the outliers
SHAPE, SCALE = 5.0, 5.0  # of the Gamma model
HALF_DISTANCE = 3.0  # of the two modes from the origin


class LogGamma(Model):
    """The logarithm of a Gamma variable, in one dimension.

    Its log-density is ``shape x - exp(x) / scale`` up to a constant: that of the Gamma variable and
    the logarithm of the Jacobian, ``x``.
    """

    d = 1

    def __init__(self, shape: float, scale: float) -> None:
        self.shape, self.scale = shape, scale

    def sample(self, n: int, *, rng: Rng = None) -> Array:
        rng = check_rng(rng)
        return np.log(rng.gamma(self.shape, self.scale, size=(check_integer("n", n, 1), 1)))

    def score(self, x: ArrayLike) -> Array:
        return self.shape - np.exp(self._check_points(x)) / self.scale

    def score_along(self, x: ArrayLike, r: ArrayLike) -> Array:
        x, r = self._check_points_and_direction(x, r)
        return -np.exp(x) / self.scale * r

    def log_density(self, x: ArrayLike) -> Array:
        x = self._check_points(x)[:, 0]
        constant = math.lgamma(self.shape) + self.shape * math.log(self.scale)
        return self.shape * x - np.exp(x) / self.scale - constant


class WithOutliers(Model):
    """Samples of an RBM, a share of them replaced by normal ones about the origin.

    It has no score.
    """

    d: int

    def __init__(self, model: GaussBernRBM, share: float, deviation: float = OUTLIERS) -> None:
        self.d = model.d
        self.model, self.share, self.deviation = model, share, deviation

    def sample(self, n: int, *, rng: Rng = None) -> Array:
        rng = check_rng(rng)
        x = self.model.sample(n, rng=rng)
        rows = rng.choice(n, size=round(self.share * n), replace=False)
        x[rows] = self.deviation * rng.standard_normal((rows.size, self.d))
        return x


def make_peer_problem(
    name: str, d: int, hidden: int, size: float, rng: np.random.Generator
) -> Problem:
    """The problem of that name.

    Parameters
    ----------
    name : str
        A name of this module, of `problems.PROBLEMS`, or of `problems.NULL_MODELS`.
    d : int
        Dimension.
    hidden : int
        Hidden units of an RBM.
    size : float
        Size of the difference: sigma, the share of outliers, what is added to the shape, the
        variance, or the weight of the first mode. Other problems have none.
    rng : numpy.random.Generator
        Draws what is random in the problem.

    Returns
    -------
    Problem
        Where the model is right, `q` is `p` itself.
    """
    if name.startswith("RBM"):
        rbm = GaussBernRBM.random(d, hidden, rng=rng)
        if size == 0:
            return Problem(rbm, rbm, "RBM")
        other = rbm.perturbed(size, rng=rng) if name == "RBM" else WithOutliers(rbm, size)
        return Problem(rbm, other, "RBM")
    if name == "Gamma":
        gamma = LogGamma(SHAPE, SCALE)
        return Problem(gamma, LogGamma(SHAPE + size, SCALE) if size else gamma, "Gamma")
    if name == "two modes":
        return _two_modes(d, size)
    normal = Gaussian(np.zeros(d), 1.0)
    if name == "one variance":
        return Problem(normal, Gaussian(np.zeros(d), np.r_[size, np.ones(d - 1)]), "normal")
    if name == "t(5)":
        return Problem(normal, StudentT(d, df=5), "normal")
    return (make_null if name in NULL_MODELS else make_problem)(name, d, rng)


def _two_modes(d: int, weight: float) -> Problem:
    mean = np.r_[HALF_DISTANCE, np.zeros(d - 1)]
    means = np.stack([mean, -mean])
    p = GaussianMixture([0.5, 0.5], means, 1.0)
    if weight == 0.5:
        return Problem(p, p, "mixture")
    if weight == 1.0:
        return Problem(p, Gaussian(mean, 1.0), "mixture")
    return Problem(p, GaussianMixture([weight, 1.0 - weight], means, 1.0), "mixture")


# Published rejection rates at level 0.05, by problem, d, n and size. "AggInc" and "AggCom" are
# KSDAgg with some and with all pairs.
PUBLISHED: dict[tuple[str, int, int, int | None, float | None], dict[str, float]] = {
    ("RBM", 50, 1000, 40, 0.01): {
        "FSSD": 0.09, "LSD": 0.10, "L1-IMQ": 0.02, "Cauchy RFF": 0.19, "AggInc": 0.27,
        "AggCom": 0.34,
    },
    ("RBM", 50, 1000, 40, 0.02): {
        "FSSD": 0.48, "LSD": 0.61, "L1-IMQ": 0.30, "Cauchy RFF": 0.86, "AggInc": 0.94,
        "AggCom": 1.00,
    },
    ("RBM", 50, 200, 40, 0.02): {"AggCom": 0.22},
    ("RBM", 50, 400, 40, 0.02): {"AggCom": 0.69},
    ("RBM", 50, 600, 40, 0.02): {"AggCom": 0.90},
    ("RBM", 50, 800, 40, 0.02): {"AggCom": 0.88},
    ("RBM", 100, 1000, 20, 0.03): {
        "FSSD": 0.31, "LSD": 0.72, "L1-IMQ": 0.35, "Cauchy RFF": 0.88, "AggCom": 0.98,
    },
    ("Gamma", 1, 500, None, 0.1): {"AggCom": 0.175, "KSD": 0.175},
    ("Gamma", 1, 500, None, 0.2): {"AggCom": 0.495, "KSD": 0.455},
    ("Gamma", 1, 500, None, 0.3): {"AggCom": 0.82, "KSD": 0.78},
    ("Gamma", 1, 500, None, 0.4): {"AggCom": 0.945, "KSD": 0.93},
    ("one variance", 32, 1000, None, 1.7): {"PSD 1": 0.96, "PSD 3": 0.89, "IMQ-KSD": 0.13},
    ("one variance", 64, 1000, None, 1.7): {"PSD 1": 0.59, "PSD 3": 0.68, "IMQ-KSD": 0.05},
    ("one variance", 128, 1000, None, 1.7): {"PSD 1": 0.24, "PSD 3": 0.40, "IMQ-KSD": 0.04},
    ("Laplace", 32, 1000, None, None): {"PSD 3": 1.00, "IMQ-KSD": 0.11},
    ("Laplace", 64, 1000, None, None): {"PSD 3": 1.00, "IMQ-KSD": 0.08},
    ("Laplace", 128, 1000, None, None): {"PSD 3": 1.00, "IMQ-KSD": 0.03},
    ("Laplace", 100, 1000, None, None): {
        "SKSD-g+Ex": 1.00, "SKSD-g+GE": 1.00, "SKSD-g+KE+GO": 0.99,
    },
    ("Student t", 100, 1000, None, None): {
        "SKSD-g+Ex": 1.00, "SKSD-g+GE": 1.00, "SKSD-g+KE+GO": 0.97,
    },
    ("diffusion", 100, 1000, None, None): {
        "SKSD-g+Ex": 1.00, "SKSD-g+GE": 1.00, "SKSD-g+KE": 1.00,
    },
}  # fmt: skip
