"""What the bridges share: optional libraries, and batches of a fixed size."""

from importlib import import_module

import numpy as np

from .._validate import check_integer
from ..slices import Slices


def library(name):
    """An optional library, or an error that says how to get it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            f"fastsksd.interop.{name} needs {name}; install it with: pip install 'fastsksd[{name}]'"
        ) from error


def directions(slices):
    """r and g of `Slices` or of a pair of arrays or tensors, which stay what they are."""
    if isinstance(slices, Slices):
        return slices.r, slices.g
    if not (isinstance(slices, (tuple, list)) and len(slices) == 2):
        raise TypeError(
            f"`slices` must be a Slices object or a pair (r, g); got {type(slices).__name__}."
        )
    return slices


def check_batch_size(batch_size):
    """A size of batches, or None for all at once."""
    return None if batch_size is None else check_integer("batch_size", batch_size, 1)


def in_batches(function, x, batch_size):
    """``function(x)`` for blocks of `batch_size` rows, all of that size: the last one is filled up, and cut afterwards."""
    n = x.shape[0]
    if batch_size is None or n == 0:
        return function(x)
    blocks = []
    for start in range(0, n, batch_size):
        block = x[start : start + batch_size]
        filled = np.concatenate([block, np.repeat(block[-1:], batch_size - block.shape[0], axis=0)])
        blocks.append(function(filled)[: block.shape[0]])
    return np.concatenate(blocks)
