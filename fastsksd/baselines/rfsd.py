"""Random feature Stein discrepancy with L1 IMQ features, in time linear in the number of samples.

The discrepancy of a base kernel is an integral over locations z of feature functions
``F(x, z) = (1 + |x - z|^2 / c'^2)^b'`` [1]_. It is estimated from a few z that are drawn from a
density nu, a multivariate t about the mean of the samples (importance sampling; but see below).
With ``xi_j(x) = s(x) F(x, z_j) + grad_x F(x, z_j)``, a vector of d numbers,

    RPhiSD^2 = sum_{k=1..d} ( 1/M sum_{j=1..M} |mean_i xi_jk(x_i)| / nu(z_j) )^2

Their settings are an IMQ base kernel of width c, four times the median distance, and
``gamma = 1/4``, which controls how many features are enough. From these follow
``alpha = gamma / 3``, ``t = 4 alpha / (2 + alpha)``, ``c' = (1 - alpha / 2) c / 2`` and
``b' = -(d + df) / (2 t)``. The density nu has ``df = 1/2`` degrees of freedom and the scale
``c' / sqrt(df)``. There are ten features.

Drawn in this way, all z lie far from the samples. In 10 dimensions one of ten has 99% of the
statistic, and there six of 1000 samples have most of the weight. The published code draws them with
scale 1 (its sampler leaves the scale out) and keeps the weights of the wide density. Features then
lie among samples of unit variance; in 10 dimensions 200 of 1000 samples contribute. All published
power is that of this test. It is the default here, with the scale of the samples in place of 1. It
no longer estimates the integral, which a test does not need. With weights of the density that z are
drawn from, most of the power is lost. For 1000 samples in 10 dimensions at level 0.05, Laplace and
Student t against a Gaussian, of 20 tests 19 and 16 reject with the default, and 2 and 3 with
weights that fit; with the wide density 32% reject.

In many dimensions F and nu leave the range of floating point numbers. So their logarithms are added
first and a common factor is taken out: the statistic is in units in which the features of a sample
have a mean squared length of one.

The features grow towards z and may be very skewed. Then neither the samples' own features nor the
normal limit give the distribution of their means. With random signs and the wide density a true
model in 5 dimensions was rejected in 33% of tests with 200 samples at a level of 5%; with a normal
distribution of the samples' covariance, in 20%. Hence the null distribution comes from samples of
the model, which must have a `.sample` method:

"model"
    Means of the features of n samples, drawn without replacement from a pool of samples of the
    model, 5000 or ``40 n``. A true model was rejected in 5.5 to 6.0% of 150 to 400 tests at 5%, for
    n = 200 and 1000 in 5 and 30 dimensions; with ``10 n`` in 6.8 to 8.3%.
"spectral"
    The limit distribution, normal with the second moments of the pool, as in the published tests.
    These correct the level by a table of nominal levels for each dimension; there is none here.

References
----------
.. [1] J. H. Huggins and L. Mackey, "Random feature Stein discrepancies", NeurIPS, 2018.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numba
import numpy as np

from .._typing import Array
from .._validate import (
    ArgumentError,
    check_choice,
    check_integer,
    check_number,
    check_statistic,
    evaluate_score,
)
from ..compute.jit import parallel
from ..compute.linalg import add_scaled, gram
from ..compute.medians import median_distance
from ..procedure.evaluation import Evaluation, Outcome
from ..procedure.nulls import check_resamples
from .base import Baseline, Task, samples_of_model

_ROWS, _COLUMNS = 256, 64  # of features that stay in cache


@dataclass(frozen=True, eq=False)
class RFSD(Baseline):
    """Random feature Stein discrepancy test with L1 IMQ features.

    Parameters
    ----------
    n_features : int
        Number of locations z, each of which gives d features.
    gamma : float
        The smaller, the narrower the features, so that fewer are enough.
    df : float
        Degrees of freedom of the distribution that z are drawn from.
    width : float
        Width of the base kernel, in median distances between samples.
    scale : {"samples", "paper"}
        Scale of the distribution that z are drawn from.

        "samples"
            That of the samples, as in the published code.
        "paper"
            ``c' / sqrt(df)``, as in the paper.
    pool : int, optional
        Number of samples of the model that the null distribution is made from. All of their
        features are in memory. By default 5000, or ``40 n`` where that is more; the published
        tests take ``5000 + 500 d``.

    See Also
    --------
    FSSD : Features at locations among the samples, for models without a `.sample` method.

    Notes
    -----
    The model must have a `.sample` method. See `fastsksd.baselines.rfsd` for the settings and what
    was measured.

    References
    ----------
    .. [1] J. H. Huggins and L. Mackey, "Random feature Stein discrepancies", NeurIPS, 2018.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> model = fs.models.Gaussian([0.0, 0.0], 1.0)
    >>> x = 2 * model.sample(500, rng=0)
    >>> fs.gof_test(x, model, method=fs.baselines.RFSD(n_features=20), rng=0).reject()
    True
    """

    n_features: int = 10
    gamma: float = 0.25
    df: float = 0.5
    width: float = 4.0
    scale: str = "samples"
    pool: int | None = None

    name = "rfsd"
    title = "RFSD (L1-IMQ)"
    nulls = ("model", "spectral")
    has_kernel = False
    exact_tail = False  # replicates are drawn from the limit distribution

    @property
    def needs_model(self) -> bool:
        return True

    def __post_init__(self) -> None:
        check_integer("n_features", self.n_features, 1)
        check_choice("scale", self.scale, ("samples", "paper"))
        if self.pool is not None:
            check_integer("pool", self.pool, 2)
        for field in ("gamma", "df", "width"):
            check_number(field, getattr(self, field), 0.0, strict=True)
        if self.gamma > 1:
            raise ArgumentError("gamma", f"must be at most 1; got {self.gamma}")

    def prepare(self, task: Task) -> tuple[Array, float]:
        x, d = task.x, task.x.shape[1]
        c = self.width * median_distance(x)
        normal = task.rng.standard_normal((self.n_features, d))
        chi_square = task.rng.chisquare(self.df, size=(self.n_features, 1))
        radius, _ = self._shape(c, d)  # sqrt(df) times the paper's scale
        if self.scale == "samples":
            # Gaussian samples have a median distance of about sqrt(2 d).
            radius = math.sqrt(self.df) * c / (self.width * np.sqrt(2.0 * d))
        # A chi-square of few degrees of freedom may come out as zero.
        return x.mean(axis=0) + radius * normal / np.sqrt(np.maximum(chi_square, 1e-100)), c

    def _shape(self, c: float, d: int) -> tuple[float, float]:
        """c' and b' of the features."""
        alpha = self.gamma / 3.0
        return (1.0 - 0.5 * alpha) * 0.5 * c, -(d + self.df) * (2.0 + alpha) / (8.0 * alpha)

    def _features(self, x: Array, scores: Array, z: Array, c: float, centre: Array) -> Array:
        """Weighted features ``xi_jk(x_i) / nu(z_j)``, (n, M d), up to a common factor."""
        (n, d), count = x.shape, len(z)
        radius, power = self._shape(c, d)
        away = (z - centre) / radius
        logs = 0.5 * (d + self.df) * np.log1p(np.einsum("jd,jd->j", away, away))
        logs = np.repeat(logs[:, None], n, axis=1)
        features = np.empty((n, count, d))
        for block in _blocks(n):
            for j, one in enumerate(z):
                gap = (x[block] - one) / radius
                base = np.log1p(np.einsum("id,id->i", gap, gap))
                logs[j, block] += power * base
                gap *= 2.0 * power / radius
                gap *= np.exp(-base)[:, None]
                np.add(gap, scores[block], out=features[block, j])
        factors = np.exp(logs - np.max(logs)).T
        for block in _blocks(n):
            features[block] *= factors[block, :, None]
        return check_statistic(features.reshape(n, count * d))

    def measure(self, task: Task, prepared: tuple[Array, float]) -> Outcome:
        z, c = prepared
        n, d = task.x.shape
        held = 8 * (2 * len(z) * d if task.null == "spectral" else n + 2 * len(z) * d)
        check_resamples(task.n_resamples, more=held)
        size = max(5000, 40 * n) if self.pool is None else self.pool
        if size < 2 * n:
            raise ArgumentError(
                "pool", f"must be at least twice the number of samples, {n}; got {size}"
            )
        pool = samples_of_model(task.score, size, d, self.name, task.rng)
        everything = np.concatenate([task.x, pool])
        scores = np.concatenate([task.scores, evaluate_score(task.score, pool)])
        features = self._features(everything, scores, z, c, task.x.mean(axis=0))
        features /= np.sqrt(np.mean(np.einsum("ik,ik->i", features[:n], features[:n]))) or 1.0
        means = _normal_means if task.null == "spectral" else _resampled_means
        replicates = _squared_norms(means(features[n:], n, task.n_resamples, task.rng), d)
        value = _squared_norms(features[:n].mean(axis=0)[None, :], d)
        member = Evaluation(
            "rfsd",
            "rfsd",
            1.0,
            "all",
            None,
            value,
            np.array([c]),
            "features",
            replicates=replicates,
        )
        return Outcome([member], task.lag, locations=z, n_model=len(pool), kernel="L1 IMQ")


def _blocks(n: int) -> list[slice]:
    """Rows 0 to n in blocks."""
    return [slice(first, min(first + _ROWS, n)) for first in range(0, n, _ROWS)]


def _resampled_means(pool: Array, n: int, count: int, rng: np.random.Generator) -> Array:
    """Means of n rows of the pool drawn without replacement."""
    rows = np.array([rng.choice(len(pool), n, replace=False) for _ in range(count)])
    means = np.empty((count, pool.shape[1]))
    for first in range(0, pool.shape[1], _COLUMNS):  # in parts, so that Ctrl-C works
        columns = slice(first, first + _COLUMNS)
        means[:, columns] = _means_of_rows(np.ascontiguousarray(pool[:, columns]), rows)
    return means


@parallel
def _means_of_rows(pool: Array, rows: np.ndarray) -> Array:
    """The mean of the rows of `pool` that are listed in each row of `rows`."""
    means = np.zeros((rows.shape[0], pool.shape[1]))
    for b in numba.prange(rows.shape[0]):
        for i in range(rows.shape[1]):
            add_scaled(means[b], 1.0, pool[rows[b, i]])
        means[b] /= rows.shape[1]
    return means


def _normal_means(pool: Array, n: int, count: int, rng: np.random.Generator) -> Array:
    """Normal with mean zero and the second moments of the rows, over n."""
    values, vectors = np.linalg.eigh(gram(pool.T) / len(pool))
    root = vectors * np.sqrt(np.maximum(values, 0.0) / n)
    return rng.standard_normal((count, values.size)) @ root.T


def _squared_norms(means: Array, d: int) -> Array:
    """For each row of feature means, L1 norms of each dimension, squared and summed.

    The L1 norm of a dimension is over its features.
    """
    return np.sum(np.abs(means.reshape(len(means), -1, d)).mean(axis=1) ** 2, axis=1)
