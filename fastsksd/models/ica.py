"""Independent component analysis (ICA): a linear mixture of Student-t sources."""

from __future__ import annotations

import numpy as np

from .._doors import door, interruptible
from .._typing import Array, ArrayLike, Rng
from .._validate import ArgumentError, check_integer, check_number, check_rng
from .base import Model, check_fit_samples, finite, parameter
from .independent import student_curvature, student_draws, student_log_density, student_slope

_LARGEST_CONDITION = 1e12  # beyond it W^-1 x keeps fewer than four digits
_MOST_STEPS = 500  # of a fit
_FLAT = 1e-8  # largest entry of the relative gradient at the end of a fit
_OFF_CENTRE, _NOISE = 0.1, 6.0  # means, in deviations and in standard errors, that are not zero
_LEAST = 0.05  # smallest eigenvalue of the Hessian of a step


class ICA(Model):
    """Linear mixture ``x = W z`` of independent Student-t sources.

    Parameters
    ----------
    W : (d, d) array
        Mixing matrix, invertible.
    df : float
        Degrees of freedom of the sources.

    See Also
    --------
    fastsksd.learning.fit_ica : Train such a model by a Stein discrepancy.

    Examples
    --------
    >>> from fastsksd import models
    >>> model = models.ICA([[2.0, 0.0], [0.0, 1.0]], df=3)
    >>> model
    ICA(d=2, df=3)
    >>> model.score([[2.0, 0.0]]) + 0.0
    array([[-0.5,  0. ]])
    """

    d: int

    def __init__(self, W: ArrayLike, df: float = 5) -> None:
        self.W = parameter("W", W, ("d", "d"))
        if self.W.shape[0] != self.W.shape[1]:
            raise ArgumentError("W", f"must be square; got shape {self.W.shape}")
        self.d = self.W.shape[0]
        self.df = check_number("df", df, 0, strict=True)
        condition = np.linalg.cond(self.W)
        if not condition < _LARGEST_CONDITION:
            raise ArgumentError("W", f"must be invertible; its condition number is {condition:.3g}")
        self._unmixing = np.linalg.inv(self.W)
        self._log_det = np.linalg.slogdet(self.W)[1]

    def __repr__(self) -> str:
        return f"ICA(d={self.d}, df={self.df:g})"

    @classmethod
    def random(cls, d: int, *, df: float = 5, rng: Rng = None) -> ICA:
        """Model with a random mixing matrix, from the generator of the published experiments.

        Parameters
        ----------
        d : int
            Dimension.
        df : float
            Degrees of freedom of the sources.
        rng : None, int or numpy.random.Generator
            Source of randomness.

        Returns
        -------
        ICA
            The entries of ``W^-1`` are standard normal. They are drawn again until the condition
            number is at most `d` (about 55 draws when `d` is large).
        """
        d, rng = check_integer("d", d, 1), check_rng(rng)
        unmixing = rng.standard_normal((d, d))
        while np.linalg.cond(unmixing) > d:
            unmixing = rng.standard_normal((d, d))
        return cls(np.linalg.inv(unmixing), df)

    @classmethod
    @door
    def fit(cls, x: ArrayLike, *, df: float = 5) -> ICA:
        """Fit the mixing matrix by maximum likelihood.

        Parameters
        ----------
        x : (n, d) array
            Samples, more of them than dimensions, of mean zero but for noise.
        df : float
            Degrees of freedom of the sources.

        Returns
        -------
        ICA
            The columns of `W` may come in any order and with any sign, as they make no difference.

        See Also
        --------
        fastsksd.learning.fit_ica : Train such a model by a Stein discrepancy.

        Notes
        -----
        Quasi-Newton steps with the relative gradient, from whitened samples (Pham and Garat, 1997).
        The likelihood may have several maxima; the one nearest to whitened samples is found.

        Examples
        --------
        >>> from fastsksd import models
        >>> truth = models.ICA([[2.0, 0.5], [0.0, 1.0]], df=3)
        >>> x = truth.sample(2000, rng=0)
        >>> model = models.ICA.fit(x, df=3)
        >>> bool(model.log_density(x).mean() > truth.log_density(x).mean())
        True
        """
        df = check_number("df", df, 0, strict=True)
        x = check_fit_samples(x, lambda d: d + 1)
        mean = x.mean(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            off = np.abs(mean) / x.std(axis=0)
        k = int(np.argmax(np.nan_to_num(off, nan=0.0)))
        if off[k] > max(_OFF_CENTRE, _NOISE / np.sqrt(len(x))):
            raise ArgumentError(
                "x",
                f"must have mean zero; that of column {k} is {mean[k]:.3g}",
                remedy="Subtract the means first.",
            )
        return cls(np.linalg.inv(_fit_unmixing(x, df)), df)

    @interruptible
    def sample(self, n: int, *, rng: Rng = None) -> Array:
        n = check_integer("n", n, 1)
        return student_draws(check_rng(rng), self.df, (n, self.d)) @ self.W.T

    @finite
    def score(self, x: ArrayLike) -> Array:
        return student_slope(self._sources(self._check_points(x)), self.df) @ self._unmixing

    @finite
    def score_along(self, x: ArrayLike, r: ArrayLike) -> Array:
        x, r = self._check_points_and_direction(x, r)
        curvature = student_curvature(self._sources(x), self.df)
        return (curvature * (self._unmixing @ r)) @ self._unmixing

    @finite
    def log_density(self, x: ArrayLike) -> Array:
        sources = self._sources(self._check_points(x))
        return student_log_density(sources, self.df).sum(axis=1) - self._log_det

    def _sources(self, x: Array) -> Array:
        return x @ self._unmixing.T


def _fit_unmixing(x: Array, df: float) -> Array:
    """The matrix A of largest likelihood, ``x = A^-1 z``."""
    n, d = x.shape
    values, vectors = np.linalg.eigh(x.T @ x / n)
    if values[0] <= 1e-12 * values[-1]:
        raise ArgumentError("x", "must span all of its dimensions; some combination is constant")
    variance = df / (df - 2.0) if df > 2.1 else 20.0
    A = np.sqrt(variance) * (vectors / np.sqrt(values)) @ vectors.T
    y = x @ A.T
    loss = _unmixing_loss(y, df)  # that of a factor B A is this function less log |det B|
    for _ in range(_MOST_STEPS):
        psi = -student_slope(y, df)
        gradient = psi.T @ y / n - np.eye(d)
        if np.abs(gradient).max() < _FLAT:
            break
        step = _relative_step(gradient, y, df)
        slope = float((gradient * step).sum())
        for halvings in range(40):
            factor = np.eye(d) + 0.5**halvings * step
            sign, log_det = np.linalg.slogdet(factor)
            moved = y @ factor.T
            new = _unmixing_loss(moved, df) - log_det
            slack = 1e-13 * abs(loss)  # round-off, near the end
            if sign > 0 and new <= loss + 1e-4 * 0.5**halvings * slope + slack:
                break
        else:
            break  # no better within round-off
        A, y, loss = factor @ A, moved, new + log_det
    return A


def _unmixing_loss(y: Array, df: float) -> float:
    return -float(student_log_density(y, df).mean(axis=0).sum())


def _relative_step(gradient: Array, y: Array, df: float) -> Array:
    """Step of a quasi-Newton method for a relative change ``(I + step) A``.

    Of the Hessian those parts are kept that remain where the sources are independent: blocks of two
    entries, (i, j) and (j, i). Their eigenvalues are raised to `_LEAST`.
    """
    curvature = -student_curvature(y, df)
    h = np.outer(curvature.mean(axis=0), (y * y).mean(axis=0))
    np.fill_diagonal(h, np.maximum((curvature * y * y).mean(axis=0), _LEAST - 1.0))
    smallest = 0.5 * (h + h.T - np.sqrt((h - h.T) ** 2 + 4.0))
    raised = np.maximum(_LEAST - smallest, 0.0)
    np.fill_diagonal(raised, 0.0)
    h = h + raised
    determinant = h * h.T - 1.0
    np.fill_diagonal(determinant, 1.0)
    step = -(h.T * gradient - gradient.T) / determinant
    np.fill_diagonal(step, -np.diag(gradient) / (np.diag(h) + 1.0))
    return step
