"""JAX: the sliced discrepancy as a loss under ``jit`` and ``grad``; scores from a log-density."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .._typing import Array, ArrayLike, KernelLike, SlicesLike, Statistic
from .._validate import ArgumentError, ArgumentTypeError, check_choice, rounded_lengths
from ..discrepancy import sksd, sksd_value_and_grad
from ..kernels import as_kernel
from ._library import check_batch_size, directions, in_batches, library

__all__ = ["score_from_logp", "sksd_loss"]

_INPUTS = ("x", "score", "r", "g")


def sksd_loss(
    x: Any,
    score: Any,
    slices: SlicesLike | tuple[Any, Any],
    *,
    kernel: KernelLike = "rbf",
    statistic: Statistic = "v",
) -> Any:
    """Sliced discrepancy as a scalar, differentiable in scores, slices and samples.

    It works under ``jax.jit`` and ``jax.grad`` (once), with and without double precision enabled.
    The value itself is computed in double precision on the CPU, by a callback.

    Parameters
    ----------
    x : (n, d) array
        Samples.
    score : (n, d) array
        The model's scores at `x`, a function of its parameters.
    slices : Slices or pair (r, g)
        Slices. A pair may hold traced arrays. Rows of half precision have unit length up to
        rounding, and are normalised.
    kernel : {"rbf", "imq"} or kernel object
        Kernel. Its bandwidths are held constant in the gradients.
    statistic : {"v", "u"}
        V-statistic or U-statistic.

    Returns
    -------
    jax.Array
        Scalar with the type of `score`.

    See Also
    --------
    fastsksd.sksd : The same for NumPy arrays.
    fastsksd.sksd_value_and_grad : The same with its gradients, for NumPy arrays.

    Examples
    --------
    >>> import jax, fastsksd as fs
    >>> from fastsksd.interop.jax import sksd_loss
    >>> x = jax.random.normal(jax.random.key(0), (500, 2)) + 1.0
    >>> slices = fs.Slices(np.eye(2), np.eye(2))
    >>> gradient = jax.grad(lambda mean: sksd_loss(x, mean - x, slices))(jax.numpy.zeros(2))
    >>> bool((gradient < 0).all())
    True
    """
    jax = library("jax")
    jnp = jax.numpy
    check_choice("statistic", statistic, ("u", "v"))
    as_kernel(kernel)
    kinds = [getattr(rows, "dtype", None) for rows in directions(slices)]
    x, score, r, g = (jnp.asarray(value, dtype=float) for value in (x, score, *directions(slices)))
    if score.shape != x.shape:
        raise ArgumentError(
            "score", f"must have the shape of the samples, {x.shape}; got {score.shape}"
        )
    if r.ndim != 2 or r.shape != g.shape or r.shape[1] != x.shape[-1]:
        raise ArgumentError(
            "slices", f"must be r and g of shape (m, {x.shape[-1]}); got {r.shape} and {g.shape}"
        )
    # Rounding has changed the length of directions of half precision.
    r, g = (
        rows / rounded_lengths(jax.lax.stop_gradient(rows), float(jnp.finfo(kind).eps), jnp)
        if kind in (jnp.float16, jnp.bfloat16)
        else rows
        for rows, kind in zip((r, g), kinds, strict=True)
    )
    return _loss_function()(kernel, statistic, x, score, r, g)


@functools.cache
def _loss_function() -> Any:
    jax = library("jax")

    def call(function: Callable[..., Any], like: Any, *inputs: Any) -> Any:
        return jax.pure_callback(function, like, *inputs, vmap_method="sequential")

    def scalar(score: Any) -> Any:
        return jax.ShapeDtypeStruct((), score.dtype)

    @functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
    def loss(kernel: KernelLike, statistic: Statistic, x: Any, score: Any, r: Any, g: Any) -> Any:
        def value(*inputs: Any) -> np.ndarray:
            x, score, r, g = (np.asarray(array, dtype=float) for array in inputs)
            return np.asarray(
                sksd(x, score, (r, g), kernel=kernel, statistic=statistic), dtype=inputs[1].dtype
            )

        return call(value, scalar(score), x, score, r, g)

    def forward(
        kernel: KernelLike, statistic: Statistic, x: Any, score: Any, r: Any, g: Any
    ) -> Any:
        def value_and_grad(*inputs: Any) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
            x, score, r, g = (np.asarray(array, dtype=float) for array in inputs)
            value, gradients = sksd_value_and_grad(
                x, score, (r, g), kernel=kernel, statistic=statistic, wrt=_INPUTS
            )
            dtype = inputs[1].dtype
            return np.asarray(value, dtype=dtype), tuple(
                gradients[name].astype(dtype) for name in _INPUTS
            )

        like = tuple(jax.ShapeDtypeStruct(array.shape, score.dtype) for array in (x, score, r, g))
        return call(value_and_grad, (scalar(score), like), x, score, r, g)

    def backward(
        kernel: KernelLike, statistic: Statistic, gradients: Any, upstream: Any
    ) -> tuple[Any, ...]:
        return tuple(upstream * gradient for gradient in gradients)

    loss.defvjp(forward, backward)
    return loss


def score_from_logp(
    logp: Callable[[Any], Any], *, batch_size: int | None = None
) -> Callable[[ArrayLike], Array]:
    """Make a score function from a log-density written in JAX.

    Parameters
    ----------
    logp : callable
        Maps one sample, a (d,) array, to its log-density, up to a constant.
    batch_size : int, optional
        Number of rows at a time, so that one compiled function serves any number of samples. By
        default all rows.

    Returns
    -------
    callable
        From an (n, d) NumPy array to an (n, d) NumPy array, for every `score` argument of fastsksd.

    Notes
    -----
    JAX computes in single precision unless ``jax.config.update("jax_enable_x64", True)`` was called
    first.

    Examples
    --------
    >>> score = score_from_logp(lambda x: -0.5 * (x**2).sum())
    >>> score(np.ones((2, 3)))
    array([[-1., -1., -1.],
           [-1., -1., -1.]])
    """
    jax = library("jax")
    if not callable(logp):
        raise ArgumentTypeError(
            "logp", f"must be a function of one sample, not {type(logp).__name__}"
        )
    batch_size = check_batch_size(batch_size)
    gradient = jax.jit(jax.vmap(jax.grad(logp)))
    return lambda x: in_batches(
        lambda rows: np.asarray(gradient(rows), dtype=float), np.asarray(x, dtype=float), batch_size
    )
