"""Independent component analysis (ICA): a linear mixture of Student-t sources."""

from __future__ import annotations

import numpy as np

from .._typing import Array, ArrayLike, Rng
from .._validate import ArgumentError, check_integer, check_number, check_rng
from .base import Model, finite, parameter
from .independent import student_curvature, student_draws, student_log_density, student_slope

_LARGEST_CONDITION = 1e12  # beyond it W^-1 x keeps fewer than four digits


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
