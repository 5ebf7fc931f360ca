"""PyTorch: the sliced discrepancy as a loss, and scores from a log-density."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .._typing import Array, ArrayLike, KernelLike, SlicesLike, Statistic
from .._validate import ArgumentError, ArgumentTypeError, rounded_lengths
from ..discrepancy import sksd, sksd_value_and_grad
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
    """Sliced discrepancy as a scalar tensor, differentiable in scores, slices and samples.

    Parameters
    ----------
    x : (n, d) tensor or array
        Samples.
    score : (n, d) tensor
        The model's scores at `x`, with a graph that leads to its parameters. For an energy-based
        model this is the gradient of ``-energy`` in x, taken with ``create_graph=True``.
    slices : Slices or pair (r, g)
        Slices. A pair may hold tensors that require gradients, such as parameters divided by their
        norm. Rows of half precision have unit length up to rounding, and are normalised.
    kernel : {"rbf", "imq"} or kernel object
        Kernel. Its bandwidths are held constant in the gradients.
    statistic : {"v", "u"}
        V-statistic or U-statistic.

    Returns
    -------
    tensor
        Scalar with the type and the device of `score`, computed in double precision on the CPU. It
        can be differentiated once.

    See Also
    --------
    fastsksd.sksd : The same for arrays.
    fastsksd.sksd_value_and_grad : The same with its gradients, for arrays.

    Examples
    --------
    >>> import torch, fastsksd as fs
    >>> from fastsksd.interop.torch import sksd_loss
    >>> x = torch.randn(500, 2) + 1.0
    >>> mean = torch.zeros(2, requires_grad=True)
    >>> sksd_loss(x, mean - x, fs.Slices(np.eye(2), np.eye(2))).backward()
    >>> bool((mean.grad < 0).all())
    True
    """
    torch = library("torch")
    if not isinstance(score, torch.Tensor):
        raise ArgumentTypeError(
            "score",
            "must be a tensor, with a graph that leads to the model's parameters; "
            f"got {type(score).__name__}",
        )
    if not score.is_floating_point():
        raise ArgumentTypeError(
            "score", f"must be a tensor of floating point numbers; got {score.dtype}"
        )
    r, g = directions(slices)
    return _loss_function().apply(x, score, r, g, kernel, statistic)


@functools.cache
def _loss_function() -> Any:
    torch = library("torch")

    base: Any = torch.autograd.Function

    class SlicedDiscrepancy(base):
        @staticmethod
        def forward(
            ctx: Any, x: Any, score: Any, r: Any, g: Any, kernel: KernelLike, statistic: Statistic
        ) -> Any:
            inputs = (x, score, r, g)
            x_, score_ = (_to_numpy(torch, value) for value in (x, score))
            r_, g_ = (_unit_rows(torch, value) for value in (r, g))
            ctx.wrt = [
                name for name, needed in zip(_INPUTS, ctx.needs_input_grad, strict=False) if needed
            ]
            options: dict[str, Any] = {"kernel": kernel, "statistic": statistic}
            value: Any
            if ctx.wrt:
                value, gradients = sksd_value_and_grad(x_, score_, (r_, g_), wrt=ctx.wrt, **options)
                like = dict(zip(_INPUTS, inputs, strict=True))
                ctx.save_for_backward(
                    *(torch.as_tensor(gradients[name]).to(like[name]) for name in ctx.wrt)
                )
            else:
                value = sksd(x_, score_, (r_, g_), **options)
            return score.new_tensor(value)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, upstream: Any) -> tuple[Any, ...]:
            gradients = dict(zip(ctx.wrt, ctx.saved_tensors, strict=True))
            return (
                *((upstream * gradients[name] if name in gradients else None) for name in _INPUTS),
                None,
                None,
            )

    return SlicedDiscrepancy


def _to_numpy(torch: Any, value: Any) -> Array:
    return (
        value.detach().cpu().double().numpy()
        if isinstance(value, torch.Tensor)
        else np.asarray(value, dtype=float)
    )


def _unit_rows(torch: Any, value: Any) -> Array:
    """Directions; those of half precision, whose length rounding has changed, are normalised."""
    rows = _to_numpy(torch, value)
    half = (
        isinstance(value, torch.Tensor)
        and value.dtype in (torch.float16, torch.bfloat16)
        and rows.ndim == 2
    )
    return rows / rounded_lengths(rows, torch.finfo(value.dtype).eps) if half else rows


def score_from_logp(
    logp: Callable[[Any], Any],
    *,
    batch_size: int | None = None,
    dtype: Any = None,
    device: Any = None,
) -> Callable[[ArrayLike], Array]:
    """Make a score function from a log-density written in PyTorch.

    Parameters
    ----------
    logp : callable
        Maps samples, an (n, d) tensor, to their log-densities, (n,), up to a constant. Rows must
        not depend on each other.
    batch_size : int, optional
        Number of rows at a time; all by default.
    dtype : torch.dtype, optional
        Type of the tensors that `logp` is called with; PyTorch's default type if not given.
    device : torch.device or str, optional
        Device of these tensors; PyTorch's default device if not given.

    Returns
    -------
    callable
        From an (n, d) NumPy array to an (n, d) NumPy array, for every `score` argument of fastsksd.

    Examples
    --------
    >>> score = score_from_logp(lambda x: -0.5 * (x**2).sum(dim=1))
    >>> score(np.ones((2, 3)))
    array([[-1., -1., -1.],
           [-1., -1., -1.]])
    """
    torch = library("torch")
    if not callable(logp):
        raise ArgumentTypeError("logp", f"must be a function of samples, not {type(logp).__name__}")
    batch_size = check_batch_size(batch_size)

    def rows(x: np.ndarray) -> Array:
        points = torch.as_tensor(
            x, dtype=dtype or torch.get_default_dtype(), device=device
        ).requires_grad_()
        with torch.enable_grad():
            values = logp(points)
            if values.shape not in ((x.shape[0],), (x.shape[0], 1)):
                raise ArgumentError(
                    "logp",
                    f"must return one log-density for each of {x.shape[0]} samples; "
                    f"got shape {tuple(values.shape)}",
                )
            (gradient,) = torch.autograd.grad(values.sum(), points)
        return _to_numpy(torch, gradient)

    return lambda x: in_batches(rows, np.asarray(x, dtype=float), batch_size)
