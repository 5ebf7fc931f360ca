"""PyTorch: the sliced discrepancy as a loss, and scores from a log-density."""

import functools

import numpy as np

from .._validate import rounded_lengths
from ..discrepancy import sksd, sksd_value_and_grad
from ._library import check_batch_size, directions, in_batches, library

_INPUTS = ("x", "score", "r", "g")


def sksd_loss(x, score, slices, *, kernel="rbf", statistic="v"):
    """`fastsksd.sksd` as a scalar tensor whose gradient reaches the scores, the slices and the samples.

    Parameters
    ----------
    x : (n, d) tensor or array
        Samples.
    score : (n, d) tensor
        The model's scores at `x`, with a graph that leads to its parameters: for an energy-based model, the gradient of ``-energy``
        in x taken with ``create_graph=True``.
    slices : Slices or pair (r, g)
        A pair may hold tensors that require gradients, such as parameters divided by their norm. Those of half precision have unit
        length as far as that goes.
    kernel, statistic
        As for `fastsksd.sksd_value_and_grad`; bandwidths count as constants.

    Returns
    -------
    tensor
        Of the type and on the device of `score`; computed in double precision on the CPU. It can be differentiated once.

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
        raise TypeError(
            f"`score` must be a tensor, which leads to the model's parameters; got {type(score).__name__}."
        )
    if not score.is_floating_point():
        raise TypeError(f"`score` must be a tensor of floating point numbers; got {score.dtype}.")
    r, g = directions(slices)
    return _loss_function().apply(x, score, r, g, kernel, statistic)


@functools.cache
def _loss_function():
    torch = library("torch")

    class SlicedDiscrepancy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, score, r, g, kernel, statistic):
            inputs = (x, score, r, g)
            x_, score_ = (_to_numpy(torch, value) for value in (x, score))
            r_, g_ = (_unit_rows(torch, value) for value in (r, g))
            ctx.wrt = [
                name for name, needed in zip(_INPUTS, ctx.needs_input_grad, strict=False) if needed
            ]
            options = dict(kernel=kernel, statistic=statistic)
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
        def backward(ctx, upstream):
            gradients = dict(zip(ctx.wrt, ctx.saved_tensors, strict=True))
            return (
                *((upstream * gradients[name] if name in gradients else None) for name in _INPUTS),
                None,
                None,
            )

    return SlicedDiscrepancy


def _to_numpy(torch, value):
    return (
        value.detach().cpu().double().numpy()
        if isinstance(value, torch.Tensor)
        else np.asarray(value, dtype=float)
    )


def _unit_rows(torch, value):
    """Directions; those of half precision, which rounding has left longer or shorter, with unit length."""
    rows = _to_numpy(torch, value)
    half = (
        isinstance(value, torch.Tensor)
        and value.dtype in (torch.float16, torch.bfloat16)
        and rows.ndim == 2
    )
    return rows / rounded_lengths(rows, torch.finfo(value.dtype).eps) if half else rows


def score_from_logp(logp, *, batch_size=None, dtype=None, device=None):
    """A score function for every `score` argument of fastsksd, from a log-density written in PyTorch.

    Parameters
    ----------
    logp : callable
        Maps samples, an (n, d) tensor, to their log-densities, (n,), up to a constant. Rows must not depend on each other.
    batch_size : int, optional
        Rows at a time; all of them by default.
    dtype, device : optional
        Of the tensors `logp` is given; PyTorch's defaults unless given.

    Returns
    -------
    callable
        From an (n, d) NumPy array to an (n, d) NumPy array.

    Examples
    --------
    >>> score = score_from_logp(lambda x: -0.5 * (x**2).sum(dim=1))
    >>> score(np.ones((2, 3)))
    array([[-1., -1., -1.],
           [-1., -1., -1.]])
    """
    torch = library("torch")
    if not callable(logp):
        raise TypeError(f"`logp` must be a function of samples, not {type(logp).__name__}.")
    batch_size = check_batch_size(batch_size)

    def rows(x):
        points = torch.as_tensor(
            x, dtype=dtype or torch.get_default_dtype(), device=device
        ).requires_grad_()
        with torch.enable_grad():
            values = logp(points)
            if values.shape not in ((x.shape[0],), (x.shape[0], 1)):
                raise ValueError(
                    f"`logp` must return one log-density for each of {x.shape[0]} samples; got shape {tuple(values.shape)}."
                )
            (gradient,) = torch.autograd.grad(values.sum(), points)
        return _to_numpy(torch, gradient)

    return lambda x: in_batches(rows, np.asarray(x, dtype=float), batch_size)
