"""Distributions with independent coordinates: Laplace and Student t."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np

from .._doors import door, interruptible
from .._typing import Array, ArrayLike, Rng
from .._validate import ArgumentError, check_integer, check_number, check_rng
from .base import Model, check_fit_samples, finite, per_coordinate

_UNIT_VARIANCE_LAPLACE = 1 / math.sqrt(2)
_DF_RANGE = (0.1, 1e4)  # of fitted degrees of freedom


class _Independent(Model):
    """Independent coordinates: ``(x - loc) / scale`` of each has the same standard distribution.

    A subclass defines that distribution: its draws, its log-density, and the first and second
    derivatives of the log-density.
    """

    d: int

    def __init__(self, d: int, scale: ArrayLike, loc: ArrayLike) -> None:
        self.d = check_integer("d", d, 1)
        self.scale = per_coordinate("scale", scale, self.d)
        if np.any(self.scale <= 0):
            raise ArgumentError("scale", f"must be positive; got {self.scale.min()}")
        self.loc = per_coordinate("loc", loc, self.d)

    @interruptible
    def sample(self, n: int, *, rng: Rng = None) -> Array:
        n = check_integer("n", n, 1)
        return self.loc + self.scale * self._draw(check_rng(rng), (n, self.d))

    @finite
    def score(self, x: ArrayLike) -> Array:
        return self._slope(self._standardise(self._check_points(x))) / self.scale

    @finite
    def score_along(self, x: ArrayLike, r: ArrayLike) -> Array:
        x, r = self._check_points_and_direction(x, r)
        return self._curvature(self._standardise(x)) * (r / self.scale**2)

    @finite
    def log_density(self, x: ArrayLike) -> Array:
        z = self._standardise(self._check_points(x))
        return self._log_density(z).sum(axis=1) - np.log(self.scale).sum()

    def _standardise(self, x: Array) -> Array:
        return (x - self.loc) / self.scale

    @abstractmethod
    def _draw(self, rng: np.random.Generator, shape: tuple[int, int]) -> Array: ...

    @abstractmethod
    def _log_density(self, z: Array) -> Array: ...

    @abstractmethod
    def _slope(self, z: Array) -> Array: ...

    @abstractmethod
    def _curvature(self, z: Array) -> Array: ...


class Laplace(_Independent):
    """Independent Laplace coordinates.

    Parameters
    ----------
    d : int
        Dimension.
    scale : float or (d,) array
        Mean absolute deviation. The default gives unit variance.
    loc : float or (d,) array
        Centre.

    See Also
    --------
    StudentT : Independent Student-t coordinates.

    Notes
    -----
    The score jumps at `loc`. `score_along` is zero: the derivative almost everywhere, without the
    jump.

    Examples
    --------
    >>> from fastsksd import models
    >>> models.Laplace(2, scale=0.5).score([[3.0, -1.0]])
    array([[-2.,  2.]])
    """

    def __init__(
        self, d: int, scale: ArrayLike = _UNIT_VARIANCE_LAPLACE, loc: ArrayLike = 0.0
    ) -> None:
        super().__init__(d, scale, loc)

    @classmethod
    @door
    def fit(cls, x: ArrayLike) -> Laplace:
        """Fit by maximum likelihood.

        Parameters
        ----------
        x : (n, d) array
            Samples.

        Returns
        -------
        Laplace
            With the median and the mean absolute deviation from it, of each coordinate.

        Examples
        --------
        >>> from fastsksd import models
        >>> model = models.Laplace.fit([[0.0], [1.0], [5.0]])
        >>> model.loc, model.scale
        (array([1.]), array([1.66666667]))
        """
        x = check_fit_samples(x, lambda d: 2)
        loc = np.median(x, axis=0)
        return cls(x.shape[1], np.abs(x - loc).mean(axis=0), loc)

    def _draw(self, rng: np.random.Generator, shape: tuple[int, int]) -> Array:
        return rng.laplace(size=shape)

    def _log_density(self, z: Array) -> Array:
        return -np.abs(z) - math.log(2.0)

    def _slope(self, z: Array) -> Array:
        return -np.sign(z)

    def _curvature(self, z: Array) -> Array:
        return np.zeros_like(z)


class StudentT(_Independent):
    """Independent Student-t coordinates.

    Parameters
    ----------
    d : int
        Dimension.
    df : float
        Degrees of freedom. The variance is ``scale^2 df / (df - 2)`` if `df` exceeds 2, otherwise
        infinite.
    scale : float or (d,) array
        Scale.
    loc : float or (d,) array
        Centre.

    See Also
    --------
    Laplace : Independent Laplace coordinates.
    ICA : Linear mixture of independent Student-t sources.

    Examples
    --------
    >>> from fastsksd import models
    >>> models.StudentT(2, df=3).score([[1.0, 0.0]]) + 0.0
    array([[-1.,  0.]])
    """

    def __init__(self, d: int, df: float = 5, scale: ArrayLike = 1.0, loc: ArrayLike = 0.0) -> None:
        super().__init__(d, scale, loc)
        self.df = check_number("df", df, 0, strict=True)

    def __repr__(self) -> str:
        return f"StudentT(d={self.d}, df={self.df:g})"

    @classmethod
    @door
    def fit(cls, x: ArrayLike, *, df: float | None = None) -> StudentT:
        """Fit by maximum likelihood.

        Parameters
        ----------
        x : (n, d) array
            Samples.
        df : float, optional
            Degrees of freedom; fitted too where they are not given, one number for all coordinates,
            between 0.1 and 10,000.

        Returns
        -------
        StudentT
            With a centre and a scale for each coordinate.

        Examples
        --------
        >>> from fastsksd import models
        >>> model = models.StudentT.fit(models.StudentT(3, df=4).sample(5000, rng=0))
        >>> bool(3.5 < model.df < 4.5)
        True
        """
        x = check_fit_samples(x, lambda d: 3)
        if df is not None:
            df = check_number("df", df, 0, strict=True)
        with np.errstate(all="ignore"):
            found, loc, scale = _fit_student(x, df)
        if not (np.isfinite(loc).all() and np.isfinite(scale).all() and scale.min() > 0.0):
            if df is None:
                raise ArgumentError("x", "is such that the scale of the fit vanishes or overflows")
            raise ArgumentError("df", f"is {df:g}, for which the scale of the fit vanishes")
        return cls(x.shape[1], found, scale, loc)

    def _draw(self, rng: np.random.Generator, shape: tuple[int, int]) -> Array:
        return student_draws(rng, self.df, shape)

    def _log_density(self, z: Array) -> Array:
        return student_log_density(z, self.df)

    def _slope(self, z: Array) -> Array:
        return student_slope(z, self.df)

    def _curvature(self, z: Array) -> Array:
        return student_curvature(z, self.df)


def _fit_student(x: Array, df: float | None) -> tuple[float, Array, Array]:
    """Degrees of freedom, centres and scales; a search for the former, EM for the others."""
    from scipy.optimize import minimize_scalar

    low, middle, high = np.quantile(x, [0.25, 0.5, 0.75], axis=0)
    spread = np.where(high > low, high - low, x.std(axis=0))
    best = middle, spread
    if df is not None:
        return (df, *_student_location_scale(x, df, *best))

    def loss(log_df: float) -> float:
        nonlocal best  # a good start for the next
        best = _student_location_scale(x, math.exp(log_df), *best)
        loc, scale = best
        logs = student_log_density((x - loc) / scale, math.exp(log_df)) - np.log(scale)
        return -float(logs.mean(axis=0).sum())

    found = minimize_scalar(
        loss, bounds=np.log(_DF_RANGE), method="bounded", options={"xatol": 1e-6}
    )
    df = math.exp(found.x)
    return (df, *_student_location_scale(x, df, *best))


def _student_location_scale(
    x: Array, df: float, loc: Array, scale: Array, tol: float = 1e-9, most: int = 1000
) -> tuple[Array, Array]:
    """Centres and scales for given degrees of freedom.

    EM with an expanded parameter, which takes few steps (Kent, Tyler and Vardi, 1994).
    """
    for _ in range(most):
        weights = (df + 1.0) / (df + ((x - loc) / scale) ** 2)
        total = weights.sum(axis=0)
        new_loc = (weights * x).sum(axis=0) / total
        new_scale = np.sqrt((weights * (x - new_loc) ** 2).sum(axis=0) / total)
        change = max(np.abs((new_loc - loc) / scale).max(), np.abs(new_scale / scale - 1.0).max())
        loc, scale = new_loc, new_scale
        if change < tol:
            break
    return loc, scale


# One Student-t coordinate, in forms that neither overflow nor cancel for large |z|.


def student_draws(rng: np.random.Generator, df: float, shape: tuple[int, int]) -> Array:
    """Independent draws of Student's t; with few degrees of freedom they may be beyond numbers."""
    z = rng.standard_t(df, size=shape)
    if not np.all(np.isfinite(z)):
        raise ArgumentError("df", f"is so small that draws overflow; got {df:g}")
    return z


def student_log_density(z: Array, df: float) -> Array:
    """Log-density of Student's t distribution."""
    constant = math.lgamma(0.5 * (df + 1.0)) - math.lgamma(0.5 * df) - 0.5 * math.log(df * math.pi)
    return constant - (df + 1.0) * np.log(np.hypot(1.0, z / math.sqrt(df)))


def student_slope(z: Array, df: float) -> Array:
    """First derivative of the log-density."""
    root = np.hypot(1.0, z / math.sqrt(df))
    return -(df + 1.0) / df * (z / root / root)


def student_curvature(z: Array, df: float) -> Array:
    """Second derivative of the log-density."""
    inverse = (1.0 / np.hypot(1.0, z / math.sqrt(df))) ** 2
    return -(df + 1.0) / df * inverse * (2.0 * inverse - 1.0)
