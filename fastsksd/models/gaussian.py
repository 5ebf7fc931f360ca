"""Normal distributions and their mixtures."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .._doors import door, interruptible
from .._typing import Array, ArrayLike, Rng
from .._validate import ArgumentError, check_choice, check_integer, check_rng, frozen, real_array
from .base import Model, check_fit_samples, finite, parameter, per_coordinate
from .em import fit_mixture

COVARIANCES = ("full", "diagonal")


class Gaussian(Model):
    """Normal distribution.

    Parameters
    ----------
    mean : float or (d,) array
        Mean. A number stands for every coordinate.
    cov : float, (d,) array or (d, d) array
        Covariance matrix, the variances of independent coordinates, or one variance for all.

    See Also
    --------
    GaussianMixture : Mixture of normal distributions.

    Examples
    --------
    >>> from fastsksd import models
    >>> model = models.Gaussian([0.0, 0.0], [[2.0, 1.0], [1.0, 2.0]])
    >>> model
    Gaussian(d=2)
    >>> model.score([[1.0, 0.0]]).round(6)
    array([[-0.666667,  0.333333]])
    """

    d: int

    def __init__(self, mean: ArrayLike, cov: ArrayLike) -> None:
        shape = real_array("mean", mean).shape or real_array("cov", cov).shape or (1,)
        self.d = shape[0]
        self.mean = per_coordinate("mean", mean, self.d)
        self._cov = _Covariance("cov", cov, self.d)

    @classmethod
    @door
    def fit(cls, x: ArrayLike, *, cov: str = "full") -> Gaussian:
        """Fit by maximum likelihood.

        Parameters
        ----------
        x : (n, d) array
            Samples, more of them than dimensions.
        cov : {"full", "diagonal"}
            Any covariance matrix, or independent coordinates.

        Returns
        -------
        Gaussian
            With the mean of the samples, and their covariance with divisor n.

        Examples
        --------
        >>> from fastsksd import models
        >>> model = models.Gaussian.fit([[0.0, 1.0], [2.0, 1.5], [1.0, 3.5]])
        >>> model.mean, model.cov.round(3).tolist()
        (array([1., 2.]), [[0.667, 0.167], [0.167, 1.167]])
        """
        check_choice("cov", cov, COVARIANCES)
        x = check_fit_samples(x, lambda d: d + 1 if cov == "full" else 2)
        mean = x.mean(axis=0)
        centred = x - mean
        if cov == "diagonal":
            return cls(mean, np.mean(centred**2, axis=0))
        return cls(mean, centred.T @ centred / x.shape[0])

    @property
    def cov(self) -> Array:
        """Covariance matrix, (d, d)."""
        return self._cov.matrix()

    @interruptible
    def sample(self, n: int, *, rng: Rng = None) -> Array:
        n = check_integer("n", n, 1)
        return self.mean + self._cov.colour(check_rng(rng).standard_normal((n, self.d)))

    @finite
    def score(self, x: ArrayLike) -> Array:
        return -self._cov.solve(self._check_points(x) - self.mean)

    @finite
    def score_along(self, x: ArrayLike, r: ArrayLike) -> Array:
        x, r = self._check_points_and_direction(x, r)
        return np.tile(-self._cov.solve(r[None, :]), (x.shape[0], 1))

    @finite
    def log_density(self, x: ArrayLike) -> Array:
        return self._cov.log_density(self._check_points(x) - self.mean)


class GaussianMixture(Model):
    """Mixture of normal distributions.

    Parameters
    ----------
    weights : (k,) array
        Weights of the components, positive with sum one.
    means : (k, d) array
        Means of the components.
    covs : float or sequence of length k
        Covariances of the components. Each is a (d, d) matrix, d variances, or one variance. A
        number is the variance of every coordinate of every component.

    See Also
    --------
    Gaussian : One component.

    Examples
    --------
    >>> from fastsksd import models
    >>> model = models.GaussianMixture([0.5, 0.5], [[-2.0], [2.0]], 1.0)
    >>> model
    GaussianMixture(d=1, components=2)
    >>> model.score([[0.0], [2.0]]).round(3) + 0.0
    array([[ 0.   ],
           [-0.001]])
    """

    d: int

    def __init__(
        self, weights: ArrayLike, means: ArrayLike, covs: float | Sequence[ArrayLike]
    ) -> None:
        self.means = parameter("means", means, ("k", "d"))
        count, self.d = self.means.shape
        weights = parameter("weights", weights, (count,))
        if np.any(weights <= 0):
            raise ArgumentError("weights", f"must be positive; got {weights.min()}")
        if abs(weights.sum() - 1.0) > 1e-6:
            raise ArgumentError("weights", f"must sum to one; they sum to {weights.sum():.6g}")
        self.weights = frozen(weights / weights.sum())
        covs = list(covs) if np.iterable(covs) else [covs] * count
        if len(covs) != count:
            raise ArgumentError(
                "covs",
                f"must hold one covariance for each of the {count} components; got {len(covs)}",
            )
        self._covs = [_Covariance(f"covs[{k}]", cov, self.d) for k, cov in enumerate(covs)]

    def __repr__(self) -> str:
        return f"GaussianMixture(d={self.d}, components={self.weights.size})"

    @classmethod
    @door
    def fit(
        cls, x: ArrayLike, n_components: int, *, cov: str = "full", n_starts: int = 5, rng: Rng = 0
    ) -> GaussianMixture:
        """Fit by maximum likelihood, with the EM algorithm.

        Parameters
        ----------
        x : (n, d) array
            Samples.
        n_components : int
            Number of components.
        cov : {"full", "diagonal"}
            Any covariance matrices, or independent coordinates within each component.
        n_starts : int
            Number of random starts, of which the most likely end is taken.
        rng : None, int or numpy.random.Generator
            Source of the starts. Fixed by default: the same samples have the same fit.

        Returns
        -------
        GaussianMixture
            Components by increasing first coordinate of their means.

        Notes
        -----
        The likelihood has no bound: a component may shrink to a single sample. So no variance falls
        below a millionth of that of all samples, and an end with a component of fewer than d + 2
        samples is taken only if there is no other.

        Examples
        --------
        >>> import numpy as np
        >>> from fastsksd import models
        >>> truth = models.GaussianMixture([0.3, 0.7], [[-4.0], [4.0]], 1.0)
        >>> model = models.GaussianMixture.fit(truth.sample(1000, rng=0), 2)
        >>> bool(abs(model.weights[0] - 0.3) < 0.05)
        True
        """
        check_choice("cov", cov, COVARIANCES)
        k, starts = (
            check_integer("n_components", n_components, 1),
            check_integer("n_starts", n_starts, 1),
        )
        x = check_fit_samples(x, lambda d: k * (d + 2))
        weights, means, covs = fit_mixture(x, k, cov == "full", starts, check_rng(rng))
        return cls(weights, means, list(covs))

    @property
    def covs(self) -> Array:
        """Covariance matrices, (k, d, d)."""
        return np.stack([cov.matrix() for cov in self._covs])

    @interruptible
    def sample(self, n: int, *, rng: Rng = None) -> Array:
        n, rng = check_integer("n", n, 1), check_rng(rng)
        labels = rng.choice(self.weights.size, size=n, p=self.weights)
        x = rng.standard_normal((n, self.d))
        for k, cov in enumerate(self._covs):
            rows = labels == k
            x[rows] = self.means[k] + cov.colour(x[rows])
        return x

    @finite
    def score(self, x: ArrayLike) -> Array:
        return self._responsibilities_and_scores(self._check_points(x))[2]

    @finite
    def score_along(self, x: ArrayLike, r: ArrayLike) -> Array:
        # With responsibilities w_k and component scores s_k the derivative is
        # sum_k w_k (H_k r + (s_k - s) (s_k - s).r). The centred form loses no digits in the tails.
        x, r = self._check_points_and_direction(x, r)
        weights, scores, score = self._responsibilities_and_scores(x)
        scores -= score
        curved = np.einsum("kn,knd->nd", weights * (scores @ r), scores)
        return curved - weights.T @ np.concatenate([cov.solve(r[None, :]) for cov in self._covs])

    @finite
    def log_density(self, x: ArrayLike) -> Array:
        joint = self._log_joint(self._check_points(x))
        top = joint.max(axis=0)
        return top + np.log(np.exp(joint - top).sum(axis=0))

    def _log_joint(self, x: Array) -> Array:
        parts = [
            cov.log_density(x - mean) for mean, cov in zip(self.means, self._covs, strict=True)
        ]
        return np.stack(parts) + np.log(self.weights)[:, None]

    def _responsibilities_and_scores(self, x: Array) -> tuple[Array, Array, Array]:
        """Responsibilities (k, n), scores of the components (k, n, d) and of the mixture (n, d)."""
        joint = self._log_joint(x)
        weights = np.exp(joint - joint.max(axis=0))
        weights /= weights.sum(axis=0)
        scores = np.stack(
            [-cov.solve(x - mean) for mean, cov in zip(self.means, self._covs, strict=True)]
        )
        return weights, scores, np.einsum("kn,knd->nd", weights, scores)


class _Covariance:
    """A covariance as its Cholesky factor, or as standard deviations of independent coordinates."""

    def __init__(self, name: str, value: ArrayLike, d: int) -> None:
        value = real_array(name, value)
        if value.ndim < 2:
            variances = per_coordinate(name, value, d)
            if np.any(variances <= 0):
                raise ArgumentError(name, f"must hold positive variances; got {variances.min()}")
            self._factor = frozen(np.sqrt(variances))
        else:
            self._factor = frozen(_cholesky(name, parameter(name, value, (d, d))))
        self._diagonal = self._factor.ndim == 1
        self._log_det = (
            2.0 * np.log(self._factor if self._diagonal else np.diag(self._factor)).sum()
        )

    def matrix(self) -> Array:
        return np.diag(self._factor**2) if self._diagonal else self._factor @ self._factor.T

    def colour(self, z: Array) -> Array:
        """Rows with this covariance from standard normal rows."""
        return z * self._factor if self._diagonal else z @ self._factor.T

    def solve(self, rows: Array) -> Array:
        """The inverse covariance times each row."""
        if self._diagonal:
            return rows / self._factor**2
        from scipy.linalg import cho_solve

        return np.ascontiguousarray(cho_solve((self._factor, True), rows.T).T)

    def log_density(self, rows: Array) -> Array:
        """Log-density of the centred normal distribution at each row."""
        if self._diagonal:
            white = rows / self._factor
        else:
            from scipy.linalg import solve_triangular

            white = solve_triangular(self._factor, rows.T, lower=True).T
        return -0.5 * (
            np.einsum("nd,nd->n", white, white)
            + self._log_det
            + rows.shape[1] * math.log(2.0 * math.pi)
        )


def _cholesky(name: str, matrix: Array) -> Array:
    half = 0.5 * matrix  # so that no sum of two entries overflows
    asymmetry = 2.0 * float(np.abs(half - half.T).max())
    if asymmetry > 1e-8 * np.abs(matrix).max():
        raise ArgumentError(
            name,
            f"must be symmetric; entries differ from their mirror images by up to {asymmetry:.3g}",
        )
    try:
        return np.linalg.cholesky(half + half.T)
    except np.linalg.LinAlgError:
        smallest = np.linalg.eigvalsh(matrix)[0]
        raise ArgumentError(
            name, f"must be positive definite; its smallest eigenvalue is {smallest:.3g}"
        ) from None
