"""`Model`, the base of all models, and the checks of their parameters."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from .._strict import one_thread_inside
from .._typing import Array, ArrayLike, Rng
from .._validate import (
    ArgumentError,
    ArgumentTypeError,
    check_integer,
    check_samples,
    evaluate_score,
    frozen,
    real_array,
    score_is_array,
)

_Method = TypeVar("_Method", bound=Callable[..., Array])


def finite(method: _Method) -> _Method:
    """Let a method refuse points `x` that lie so far out that what it computes is not finite."""

    @functools.wraps(method)
    def checked(self: Any, x: ArrayLike, *others: Any, **named: Any) -> Array:
        with np.errstate(all="ignore"), one_thread_inside():
            values = method(self, x, *others, **named)
        lost = ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
        if lost.any():
            raise ArgumentError(
                "x",
                f"lies so far out of the model in row {int(lost.argmax())} that its "
                f"`{method.__name__}` overflows",
            )
        return values

    return cast(_Method, checked)


class Model:
    """Base class of models.

    A subclass sets `d` and defines `score`, and whatever else it knows.

    Attributes
    ----------
    d : int or None
        Dimension. None stands for any.

    See Also
    --------
    Model.from_score : Model from a score function alone.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsksd import models
    >>> class Logistic(models.Model):
    ...     d = 2
    ...     def score(self, x):
    ...         return -np.tanh(x / 2)
    >>> Logistic().score_along([[0.0, 0.0]], [1.0, 0.0]).round(6) + 0.0
    array([[-0.5,  0. ]])
    """

    d: int | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(d={self.d})"

    def sample(self, n: int, *, rng: Rng = None) -> Array:
        """Draw samples.

        Parameters
        ----------
        n : int
            Number of samples.
        rng : None, int or numpy.random.Generator
            Source of randomness.

        Returns
        -------
        (n, d) array
            Independent samples, one per row.

        Raises
        ------
        NotImplementedError
            If the model has no sampler.
        """
        raise NotImplementedError(f"{type(self).__name__} has no sampler.")

    def score(self, x: ArrayLike) -> Array:
        """Gradient of the log-density.

        Parameters
        ----------
        x : (n, d) array
            Points.

        Returns
        -------
        (n, d) array
            Scores of the rows of `x`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define its score.")

    def score_along(self, x: ArrayLike, r: ArrayLike) -> Array:
        """Derivative of the score along a direction: the Hessian of the log-density times `r`.

        Parameters
        ----------
        x : (n, d) array
            Points.
        r : (d,) array
            Direction, of any length.

        Returns
        -------
        (n, d) array
            One derivative for each row of `x`.

        Notes
        -----
        Models with a closed form use it. Others differentiate `score` by central differences.
        Their step balances truncation against round-off. Truncation is judged by the spread of `x`
        along `r`, taken as 1 for a single row; round-off grows with the size of each row. About ten
        digits are right for centred data.
        """
        x = self._check_points(x)
        r = check_direction(r, x.shape[1])
        length = np.linalg.norm(r)
        if length == 0.0:
            return np.zeros_like(x)
        unit = r / length
        steps = _difference_steps(x, unit)[:, None]
        forward, backward = x + steps * unit, x - steps * unit
        return (
            (evaluate_score(self, forward) - evaluate_score(self, backward))
            / (2.0 * steps)
            * length
        )

    def log_density(self, x: ArrayLike) -> Array:
        """Log-density.

        Parameters
        ----------
        x : (n, d) array
            Points.

        Returns
        -------
        (n,) array
            Log-densities of the rows of `x`.

        Raises
        ------
        NotImplementedError
            If the model does not know its log-density.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define its log-density.")

    @staticmethod
    def from_score(score: Callable[[Array], ArrayLike], d: int | None = None) -> Model:
        """Model that knows only its score.

        Parameters
        ----------
        score : callable
            Takes an (n, d) array, returns the scores of its rows, (n, d).
        d : int, optional
            Dimension. By default any dimension is accepted.

        Returns
        -------
        Model
            Its `score_along` uses central differences. It has no sampler and no log-density.

        Examples
        --------
        >>> from fastsksd import models
        >>> model = models.Model.from_score(lambda x: -2 * x)
        >>> model.score_along([[1.0, 5.0]], [1.0, 1.0]).round(6)
        array([[-2., -2.]])
        """
        return _ScoreModel(score, d)

    def _check_points(self, x: ArrayLike) -> Array:
        return check_samples(x, d=self.d)

    def _check_points_and_direction(self, x: ArrayLike, r: ArrayLike) -> tuple[Array, Array]:
        x = self._check_points(x)
        return x, check_direction(r, x.shape[1])


class _ScoreModel(Model):
    def __init__(self, score: Callable[[Array], ArrayLike], d: int | None) -> None:
        if score_is_array(score):
            raise ArgumentTypeError(
                "score", f"must be a callable x -> (n, d), not {type(score).__name__}"
            )
        self._score = score
        self.d = None if d is None else check_integer("d", d, 1)

    def __repr__(self) -> str:
        return f"Model.from_score(d={self.d})"

    def sample(self, n: int, *, rng: Rng = None) -> Array:
        raise NotImplementedError(
            "A model made by Model.from_score knows only its score: it can't be sampled."
        )

    def score(self, x: ArrayLike) -> Array:
        return evaluate_score(self._score, self._check_points(x))

    def log_density(self, x: ArrayLike) -> Array:
        raise NotImplementedError(
            "A model made by Model.from_score knows only its score, not its log-density."
        )


def _difference_steps(x: Array, unit: Array) -> Array:
    """Step of a central difference along `unit` for each row of `x`.

    With L the length over which the score bends and m the size of a row, the error is about
    ``(t/L)^2 + eps m / t``, least near ``t = (eps m L^2)^(1/3)``. L is judged by the spread of the
    rows, by a quantile since tails may be heavy.
    """
    y = x @ unit
    deviations = np.abs(y - np.median(y))
    spread = np.quantile(deviations, 0.75) or deviations.max() or 1.0
    size = np.abs(x).max(axis=1)
    return spread * np.cbrt(np.finfo(float).eps * np.maximum(size / spread, 1.0))


def check_direction(r: ArrayLike, d: int) -> Array:
    """`r` must be a finite vector of length `d`."""
    r = real_array("r", r)
    if r.shape != (d,):
        raise ArgumentError("r", f"must be a vector of length {d}; got shape {r.shape}")
    if not np.all(np.isfinite(r)):
        raise ArgumentError("r", "holds NaN or infinity")
    return r


def check_fit_samples(x: ArrayLike, fewest: Callable[[int], int]) -> Array:
    """Samples to fit a model to, at least ``fewest(d)`` of them, none of their columns constant."""
    x = check_samples(x, min_rows=2)
    n, d = x.shape
    if n < fewest(d):
        raise ArgumentError(
            "x", f"must hold at least {fewest(d)} samples of {d} dimensions for this model; got {n}"
        )
    constant = np.flatnonzero(np.all(x == x[0], axis=0))
    if constant.size:
        raise ArgumentError("x", f"has a constant column, {constant[0]}, that no density fits")
    return x


def parameter(name: str, value: ArrayLike, shape: tuple[int | str, ...]) -> Array:
    """A read-only copy of `value`, finite and of the given shape.

    A name in `shape` stands for any length but zero.
    """
    array = real_array(name, value)
    fits = array.size > 0 and array.ndim == len(shape)
    if not fits or any(
        size != wanted
        for size, wanted in zip(array.shape, shape, strict=True)
        if not isinstance(wanted, str)
    ):
        wanted = ", ".join(str(size) for size in shape) + ("," if len(shape) == 1 else "")
        raise ArgumentError(name, f"must have shape ({wanted}); got {array.shape}")
    if not np.all(np.isfinite(array)):
        raise ArgumentError(name, "holds NaN or infinity")
    return frozen(array)


def per_coordinate(name: str, value: ArrayLike, d: int) -> Array:
    """`value` as a vector of length `d`; a number stands for every coordinate."""
    value = real_array(name, value)
    return parameter(name, np.full(d, value) if value.ndim == 0 else value, (d,))
