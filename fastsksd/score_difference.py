"""The score difference ``f = s_p - s_q`` and its directional Jacobian ``J(y)^T r = grad (r.f)(y)``.

Section "Practical algorithm" of the paper. There are four ways to get it from samples ``x ~ q``,
behind one interface:

exact, `ExactDifference`
    The user knows s_q. The derivative of a score along r is a Hessian-vector product, because the
    Hessian is symmetric. Models supply it, or it is a central difference of two score calls.
KE, `KernelSmoothed`
    ``f(y) = mean_i [s_p(x_i) - (x_i - y) / H^2] K_iy``, by parts, with an RBF kernel of width H.
GE, `SteinGradient`
    s_q from the Stein gradient estimator, ``S_X = -(K + eta I)^(-1) B``, extended to any point by
    ``s_q(y) = -1/eta sum_i [S_i - (x_i - y) / H^2] K_iy``: KE's sum with other coefficients.
KSD, `KernelizedDifference`
    KE's f, but matrices of second order. They are weighted by the kernel between two samples rather
    than by its values at a third: ``M = E f(x) k(x, x') f(x')^T``, of which KSD is the trace, and
    for g ``G_r = E f_r(x) f_r(x') grad grad'^T k(x, x')``. With ``w_r = E f_r(x) c(x, .)`` and c a
    Gaussian so narrow that ``c * c = k``, ``r.M r`` is the integral of w_r^2 and G_r that of its
    gradient's outer square, as H_r is for f_r.

From those come the two matrices of Algorithm 1: ``S = mean f f^T`` and
``H_r = mean (J^T r)(J^T r)^T``. KE's estimation noise is in both: the terms of a sample smoothing
itself, and of one sample taken twice. `debias` leaves them out (U-statistics of third order), which
keeps the signal visible in high dimension.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, cast

import numpy as np

from ._doors import HeardInterrupts, door
from ._strict import StrictNumbers
from ._typing import Array, ArrayLike, EngineName, KernelLike, Score
from ._validate import (
    ArgumentError,
    Option,
    Overflow,
    check_choice,
    check_flag,
    check_number,
    check_samples,
    evaluate_score,
    score_is_array,
)
from .compute.eigen import Operators
from .compute.linalg import product
from .compute.medians import median_distance
from .compute.projections import orthonormal_rows
from .compute.sensitivity import DenseOperators, KernelizedSensitivity, SmoothedSensitivity
from .engines import KernelMatrix, kernel_matrix
from .kernels import RBF, as_kernel
from .models import Model
from .models.base import check_direction

__all__ = [
    "ESTIMATORS",
    "ExactDifference",
    "KernelSmoothed",
    "KernelizedDifference",
    "ScoreDifference",
    "SteinGradient",
    "needs_function",
    "score_difference",
]

_Method = TypeVar("_Method", bound=Callable[..., Array])
_WIDTHS = (1e-70, 1e70)  # whose fourth powers, in the units of H_r, neither vanish nor overflow


def _guarded(method: _Method) -> _Method:
    """A method that refuses samples, points or scores for which its numbers overflow."""

    @functools.wraps(method)
    def checked(self: ScoreDifference, *args: Any, **kwargs: Any) -> Array:
        try:
            with HeardInterrupts(), StrictNumbers():
                values = method(self, *args, **kwargs)
            if np.isfinite(values).all():
                return values
            error = None
        except (FloatingPointError, OverflowError) as caught:
            error = caught
        raise Overflow(
            "x",
            "or its scores are so large or small that the score difference overflows",
            remedy="Rescale the samples, and the scores by the inverse.",
        ) from error

    return cast(_Method, checked)


class ScoreDifference:
    """Base of the estimates of the score difference between a model p and the samples' q.

    A subclass supplies `value` and `jacobian`. The two matrices of Algorithm 1 follow from them;
    a subclass may have a better way.

    Attributes
    ----------
    name : str
        Name of the estimator, as in `active_slices`.
    needs_function : bool
        Whether the score of p must be a function. If not, its values at the samples are enough.
    has_noise : bool
        Whether S and H_r hold noise of the estimate, which `debias` leaves out.
    x : (n, d) array
        Samples from q.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((50, 2))
    >>> difference = fs.score_difference.KernelSmoothed(x, -x)
    >>> isinstance(difference, fs.score_difference.ScoreDifference)
    True
    """

    name: ClassVar[str]
    needs_function: ClassVar[bool] = True
    has_noise: ClassVar[bool] = False
    x: Array

    def _points(self, y: ArrayLike) -> Array:
        return check_samples(y, "y", d=self.x.shape[1])

    def _directions(self, r: ArrayLike) -> Array:
        return check_samples(r, "r", d=self.x.shape[1])

    def value(self, y: ArrayLike) -> Array:
        """Evaluate the score difference ``f``.

        Parameters
        ----------
        y : (k, d) array
            Points.

        Returns
        -------
        (k, d) array
            ``f`` at each row of `y`.
        """
        raise NotImplementedError

    def jacobian(self, y: ArrayLike, r: ArrayLike) -> Array:
        """Differentiate the score difference along a direction.

        Parameters
        ----------
        y : (k, d) array
            Points.
        r : (d,) array
            Direction.

        Returns
        -------
        (k, d) array
            ``J(y)^T r``, the gradient of ``r.f`` at each row of `y`.
        """
        raise NotImplementedError

    @_guarded
    def second_moment(self, debias: bool = True) -> Array:
        """Compute the matrix S of Algorithm 1.

        Parameters
        ----------
        debias : bool
            Leave out the noise of the estimator, where it has a way to.

        Returns
        -------
        (d, d) array
            ``S = mean f f^T`` over the samples.
        """
        f = self.value(self.x)
        return product(f.T, f.T) / f.shape[0]

    def sensitivity(self, r: ArrayLike, debias: bool = True) -> Operators:
        """Make products with the matrices H_r of Algorithm 1.

        Parameters
        ----------
        r : (m, d) array
            Directions, one per row.
        debias : bool
            Leave out the noise of the estimator, where it has a way to.

        Returns
        -------
        Operators
            A function from vectors (m, d) to their products ``H_r u_r``, (m, d).
        """
        r = self._directions(r)
        matrices = np.empty((r.shape[0], self.x.shape[1], self.x.shape[1]))
        for h, direction in zip(matrices, r, strict=True):
            gradients = self.jacobian(self.x, direction)
            h[:] = product(gradients.T, gradients.T) / gradients.shape[0]
        return DenseOperators(matrices)


class ExactDifference(ScoreDifference):
    """Difference ``f = s_p - s_q`` of two known scores.

    Parameters
    ----------
    x : (n, d) array
        Samples from q.
    score, score_q : callable or model
        Scores of p and of q.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.zeros((1, 2))
    >>> exact = fs.score_difference.ExactDifference(x, lambda x: 1.0 - x, lambda x: -x)
    >>> exact.value(x)
    array([[1., 1.]])
    """

    name = "exact"

    def __init__(self, x: ArrayLike, score: Score, score_q: Score):
        self.x = check_samples(x)
        self.p = _differentiable("score", score, "exact")
        self.q = _differentiable("score_q", score_q, "exact")

    @_guarded
    def value(self, y: ArrayLike) -> Array:
        y = self._points(y)
        return evaluate_score(self.p, y, "score") - evaluate_score(self.q, y, "score_q")

    @_guarded
    def jacobian(self, y: ArrayLike, r: ArrayLike) -> Array:
        y, r = self._points(y), check_direction(r, self.x.shape[1])
        return _along("score", self.p, y, r) - _along("score_q", self.q, y, r)


class _Smoother:
    """``F(y) = scale * sum_i [coefficients_i - (x_i - y) / H^2] K_iy`` and its Jacobian."""

    def __init__(self, matrix: KernelMatrix, coefficients: Array, scale: float):
        self.matrix = matrix
        self.coefficients = coefficients
        self.scale = scale

    @functools.cached_property
    def placed(self):
        """The coefficients where the kernel matrix is."""
        return self.matrix.place(self.coefficients)

    def value(self, y: Array) -> Array:
        return self.scale * self.matrix.smooth(y, self.coefficients)

    def jacobian(self, y: Array, r: Array) -> Array:
        gradient = self.matrix.smooth_gradient(y, self.coefficients, r)
        return self.scale / self.matrix.width**2 * gradient


class KernelSmoothed(ScoreDifference):
    """KE: the kernel-smoothed score difference, from the scores of p at the samples alone.

    Parameters
    ----------
    x : (n, d) array
        Samples from q.
    scores : (n, d) array
        Scores of p at `x`.
    width : float, optional
        Width H of the RBF kernel; the default is the median distance between samples.
    engine : {"auto", "direct", "cuda"}
        Sums over pairs on the CPU ("direct") or on a GPU ("cuda").

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((500, 2))
    >>> moment = fs.score_difference.KernelSmoothed(x, [0.5, 0.0] - x).second_moment()
    >>> bool(moment[0, 0] > 10 * abs(moment[1, 1]))
    True
    """

    name = "ke"
    needs_function = False
    has_noise = True

    def __init__(
        self,
        x: ArrayLike,
        scores: ArrayLike,
        width: float | None = None,
        engine: EngineName = "auto",
    ):
        self.x = check_samples(x, min_rows=2)
        scores = evaluate_score(scores, self.x, "scores")
        self.width = _checked_width(self.x, width)
        self.engine = engine
        matrix = kernel_matrix(engine, self.x, self.width)
        self.smoother = _Smoother(matrix, scores, 1.0 / self.x.shape[0])

    @_guarded
    def value(self, y: ArrayLike) -> Array:
        return self.smoother.value(self._points(y))

    @_guarded
    def jacobian(self, y: ArrayLike, r: ArrayLike) -> Array:
        y, r = self._points(y), check_direction(r, self.x.shape[1])
        return self.smoother.jacobian(y, r)

    @_guarded
    def second_moment(self, debias: bool = True) -> Array:
        # Debiased: a U-statistic over three distinct samples.
        if not check_flag("debias", debias):
            return super().second_moment()
        n = self.x.shape[0]
        total = self.smoother.matrix.triple_moment(self.smoother.placed)
        return total / (n * (n - 1.0) * (n - 2.0))

    def sensitivity(self, r: ArrayLike, debias: bool = True) -> Operators:
        r, debias = self._directions(r), check_flag("debias", debias)
        return SmoothedSensitivity(self.smoother.matrix, self.smoother.placed, r, debias)


def on_its_span(difference: ScoreDifference) -> tuple[Array, ScoreDifference] | None:
    """KE's difference in far fewer dimensions, if there are far fewer samples.

    f is a sum of scores and of differences of samples, and S is zero where these are.

    Returns
    -------
    ((k, d) array, ScoreDifference) or None
        Orthonormal rows whose span holds f, and the difference in coordinates along them. None if
        that is not known to take fewer dimensions.
    """
    n, d = difference.x.shape
    if type(difference) is not KernelSmoothed or 2 * n >= d:
        return None
    x = difference.x - np.median(difference.x, axis=0)
    scores = difference.smoother.coefficients
    spanning = np.concatenate([x, scores])
    rows = orthonormal_rows(spanning[spanning.any(axis=1)])
    turned = product(x, rows), product(scores, rows)
    return rows, KernelSmoothed(*turned, difference.width, difference.engine)


class KernelizedDifference(KernelSmoothed):
    """KSD: KE's difference with the matrices M and G_r in place of S and H_r.

    They are U-statistics, or V-statistics without `debias`.

    Parameters
    ----------
    x : (n, d) array
        Samples from q.
    scores : (n, d) array
        Scores of p at `x`.
    width : float, optional
        Width H of the RBF kernel; the default is the median distance between samples.
    engine : {"auto", "direct", "cuda"}
        Sums over pairs on the CPU ("direct") or on a GPU ("cuda").

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((500, 2))
    >>> moment = fs.score_difference.KernelizedDifference(x, [0.5, 0.0] - x).second_moment()
    >>> bool(moment[0, 0] > 10 * abs(moment[1, 1]))
    True
    """

    name = "ksd"

    @_guarded
    def second_moment(self, debias: bool = True) -> Array:
        # M = E f(x) k(x, x') f(x')^T
        n, debias = self.x.shape[0], check_flag("debias", debias)
        total = self.smoother.matrix.pair_moment(self.smoother.placed, 0.0 if debias else 1.0)
        total /= n * (n - 1.0) if debias else n**2
        return 0.5 * (total + total.T)

    def sensitivity(self, r: ArrayLike, debias: bool = True) -> Operators:
        r, debias = self._directions(r), check_flag("debias", debias)
        return KernelizedSensitivity(self.smoother.matrix, self.smoother.placed, r, debias)


class SteinGradient(ScoreDifference):
    """GE: s_q from the Stein gradient estimator (Li and Turner, 2018), with a ridge.

    Parameters
    ----------
    x : (n, d) array
        Samples from q.
    score : callable or model
        Score of p.
    eta : float
        Ridge added to the diagonal of the kernel matrix.
    width : float, optional
        Width H of the RBF kernel; the default is the median distance between samples.
    engine : {"auto", "direct", "cuda"}
        Sums over pairs on the CPU ("direct") or on a GPU ("cuda").

    References
    ----------
    Li, Y. and Turner, R. E. (2018). Gradient estimators for implicit models. ICLR.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((500, 2))
    >>> estimate = fs.score_difference.SteinGradient(x, np.negative)
    >>> bool(abs(estimate.score_q(np.array([[1.0, 0.0]])) - [-1.0, 0.0]).max() < 0.2)
    True
    """

    name = "ge"

    def __init__(
        self,
        x: ArrayLike,
        score: Score,
        eta: float = 0.1,
        width: float | None = None,
        engine: EngineName = "auto",
    ):
        self.x = check_samples(x, min_rows=2)
        self.p = _differentiable("score", score, "ge")
        self.eta = check_number("eta", eta, 0.0, strict=True)
        self.width = _checked_width(self.x, width)
        matrix = kernel_matrix(engine, self.x, self.width)
        self.smoother = _Smoother(matrix, matrix.ridge_scores(self.eta), -1.0 / self.eta)

    @_guarded
    def score_q(self, y: ArrayLike) -> Array:
        """Estimate s_q at any points; at the samples, the Stein gradient estimator itself.

        Parameters
        ----------
        y : (k, d) array
            Points.

        Returns
        -------
        (k, d) array
            The estimate at each row of `y`.
        """
        return self.smoother.value(self._points(y))

    @_guarded
    def value(self, y: ArrayLike) -> Array:
        y = self._points(y)
        return evaluate_score(self.p, y, "score") - self.score_q(y)

    @_guarded
    def jacobian(self, y: ArrayLike, r: ArrayLike) -> Array:
        y, r = self._points(y), check_direction(r, self.x.shape[1])
        return _along("score", self.p, y, r) - self.smoother.jacobian(y, r)


ESTIMATORS: dict[str, type[ScoreDifference]] = {
    estimator.name: estimator
    for estimator in (KernelSmoothed, KernelizedDifference, SteinGradient, ExactDifference)
}


def needs_function(estimator: str | ScoreDifference) -> bool:
    """Whether an estimator needs the score of p as a function.

    Parameters
    ----------
    estimator : {"ke", "ksd", "ge", "exact"} or ScoreDifference
        Name of the estimator, or an object that was made beforehand.

    Returns
    -------
    bool
        False where the values of the score at the samples are enough.

    Raises
    ------
    ValueError
        If there is no estimator of that name.

    Examples
    --------
    >>> from fastsksd.score_difference import needs_function
    >>> needs_function("ke"), needs_function("ge")
    (False, True)
    """
    if isinstance(estimator, ScoreDifference):
        return estimator.needs_function
    return ESTIMATORS[check_choice("estimator", estimator, ESTIMATORS)].needs_function


@door
def score_difference(
    x: Array,
    score: Score,
    *,
    estimator: str | ScoreDifference = "ke",
    score_q: Score | None = None,
    kernel: KernelLike = "rbf",
    debias: bool = True,
    engine: EngineName = "auto",
) -> ScoreDifference:
    """Estimate the score difference of a model at samples.

    Parameters
    ----------
    x : (n, d) array
        Samples from q.
    score : (n, d) array, callable or model
        Score of p. An array is enough for "ke" and "ksd"; see `needs_function`.
    estimator : {"ke", "ksd", "ge", "exact"} or ScoreDifference
        Which estimate; see the module. An object made beforehand from the same samples is returned
        as it is.
    score_q : callable or model, optional
        Score of q, for "exact".
    kernel : "rbf" or RBF(bandwidth=...)
        Smoothing kernel of "ke", "ksd" and "ge"; its bandwidth is the median distance between
        samples unless given.
    debias : bool
        Whether the matrices will be asked for without estimation noise, which needs three samples.
    engine : {"auto", "direct", "cuda"}
        Sums over pairs on the CPU ("direct") or on a GPU ("cuda").

    Returns
    -------
    ScoreDifference
        The estimate.

    Raises
    ------
    ValueError
        If the estimator lacks what it needs: `score_q`, a score that is a function, a third sample,
        or samples on a scale whose fourth powers neither vanish nor overflow.

    See Also
    --------
    fastsksd.active_slices : The slices that follow from it.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((400, 2)) * [0.5, 1.0]
    >>> difference = fs.score_difference.score_difference(x, -x)
    >>> moment = difference.second_moment()
    >>> bool(moment[0, 0] > 10 * abs(moment[1, 1]))
    True
    """
    check_flag("debias", debias)
    x = check_samples(x, min_rows=2)
    if isinstance(estimator, ScoreDifference):
        if not np.array_equal(estimator.x, x):
            raise ArgumentError("estimator", "was made from other samples than ", Option("x"))
        check_debias(debias, estimator)
        return estimator
    if not isinstance(estimator, str) or estimator not in ESTIMATORS:
        listing = ", ".join(repr(name) for name in ESTIMATORS)
        raise ArgumentError(
            "estimator", f"must be one of {listing}, or a ScoreDifference object; got {estimator!r}"
        )
    check_debias(debias, estimator)
    if estimator == "exact":
        if score_q is None:
            raise ArgumentError(
                "score_q",
                "is needed for ",
                Option("estimator", "exact"),
                ": the score of the samples' distribution",
            )
        if not isinstance(kernel, str) or kernel != "rbf":
            raise ArgumentError(
                "kernel", "has no use for ", Option("estimator", "exact"), "; leave it out"
            )
        return ExactDifference(x, score, score_q)
    if score_q is not None:
        raise ArgumentError(
            "score_q",
            "is used by ",
            Option("estimator", "exact"),
            " only; got ",
            Option("estimator", estimator),
        )
    width = _width(kernel)
    if estimator == "ke" and debias and x.shape[0] < 3:
        raise ArgumentError(
            "x",
            "must hold at least 3 samples for ",
            Option("debias", True),
            "; use ",
            Option("debias", False),
            " or more samples",
        )
    if estimator == "ge":
        return SteinGradient(x, score, width=width, engine=engine)
    return (KernelSmoothed if estimator == "ke" else KernelizedDifference)(
        x, evaluate_score(score, x), width=width, engine=engine
    )


def check_debias(debias: bool, estimator: str | ScoreDifference, usual: bool = True) -> None:
    """`debias` is for estimators whose own noise can be left out; `usual` is its default."""
    if isinstance(estimator, ScoreDifference):
        has_noise, name = estimator.has_noise, estimator.name
    else:
        name = check_choice("estimator", estimator, ESTIMATORS)
        has_noise = ESTIMATORS[name].has_noise
    if check_flag("debias", debias) is not usual and not has_noise:
        raise ArgumentError(
            "debias", "has no use for ", Option("estimator", name), "; leave it out"
        )


def _width(kernel: KernelLike) -> float | None:
    """The kernel's bandwidth, None for the median."""
    kernel = as_kernel(kernel)
    if not isinstance(kernel, RBF):
        raise ArgumentError(
            "kernel",
            "of the score difference must be 'rbf' (KE and GE smooth with a Gaussian); "
            f"got {kernel.name!r}",
        )
    if np.ndim(kernel.bandwidth):
        raise ArgumentError(
            "kernel", "of the score difference must have one bandwidth, not one per slice"
        )
    return None if kernel.bandwidth == "median" else kernel.bandwidth


def _checked_width(x: Array, width: float | None) -> float:
    """The width given, or the median distance between samples."""
    if width is None:
        width = median_distance(x)
    else:
        width = check_number("width", width, 0.0, strict=True)
    if not _WIDTHS[0] <= width <= _WIDTHS[1]:
        raise ArgumentError(
            "x",
            f"has a median distance (or a bandwidth given) of {width:.0e}, and slices can be "
            f"found between {_WIDTHS[0]:.0e} and {_WIDTHS[1]:.0e}; rescale the samples, and the "
            "scores by the inverse",
        )
    return width


def _differentiable(name: str, score: Score, estimator: str) -> Any:
    """A model with derivatives of its score, made from a function where there is none."""
    if score_is_array(score):
        raise ArgumentError(
            name,
            "must be a callable or a model for ",
            Option("estimator", estimator),
            ", which differentiates it; got an array",
        )
    if hasattr(score, "score_along"):
        return score
    return Model.from_score(cast(Any, getattr(score, "score", score)))


def _along(name: str, model, y: Array, r: Array) -> Array:
    """A model's derivative of its score along r, checked like the score itself."""
    return evaluate_score(lambda points: model.score_along(points, r), y, f"{name}.score_along")
