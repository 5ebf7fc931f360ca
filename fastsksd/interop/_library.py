"""What the bridges share: optional libraries, and batches of a fixed size."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from .._progress import ProgressBar
from .._typing import SlicesLike
from .._validate import ArgumentTypeError, check_integer
from ..slices import Slices

_LONG = 3.0  # seconds without a word


def library(name: str) -> Any:
    """An optional library, or an error that says how to install it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            f"fastsksd.interop.{name} needs {name}; install it with: pip install 'fastsksd[{name}]'"
        ) from error


def directions(slices: SlicesLike | tuple[Any, Any]) -> tuple[Any, Any]:
    """r and g of `Slices` or of a pair of arrays or tensors, unchanged."""
    if isinstance(slices, Slices):
        return slices.r, slices.g
    if not (isinstance(slices, (tuple, list)) and len(slices) == 2):
        raise ArgumentTypeError(
            "slices", f"must be a Slices object or a pair (r, g); got {type(slices).__name__}"
        )
    r, g = slices
    return r, g


class LateBar:
    """A bar of `total` scores that is shown if they take long; never if not `shown`."""

    def __init__(self, total: int, shown: bool = True) -> None:
        self.total, self.shown = total, shown
        self.start = time.monotonic()
        self.bar = ProgressBar("scores", first=0)

    def __call__(self, done: int) -> None:
        """Show that so many are done."""
        if self.shown and time.monotonic() - self.start > _LONG:
            self.bar(min(done, self.total), self.total)


def with_progress(
    function: Callable[[Any, Any], np.ndarray], progress: bool, batch_size: int | None = 100
) -> Callable[[Any, Any], np.ndarray]:
    """A function of rows that is called on some at a time, with a `LateBar`."""
    if not progress or batch_size is None:
        return function

    def in_steps(x: np.ndarray, rows: np.ndarray) -> np.ndarray:
        parts, bar = [], LateBar(len(x))
        for first in range(0, len(x), batch_size):
            some = slice(first, first + batch_size)
            parts.append(function(x[some], rows[some]))
            bar(first + batch_size)
        return np.concatenate(parts) if parts else function(x, rows)

    return in_steps


def check_batch_size(batch_size: int | None) -> int | None:
    """A size of batches, or None for all at once."""
    return None if batch_size is None else check_integer("batch_size", batch_size, 1)


def in_batches(
    function: Callable[[np.ndarray], np.ndarray], x: np.ndarray, batch_size: int | None
) -> np.ndarray:
    """``function(x)`` in blocks of exactly `batch_size` rows; the last one is padded, then cut."""
    n = x.shape[0]
    if batch_size is None or n == 0:
        return function(x)
    blocks = []
    for start in range(0, n, batch_size):
        block = x[start : start + batch_size]
        filled = np.concatenate([block, np.repeat(block[-1:], batch_size - block.shape[0], axis=0)])
        blocks.append(function(filled)[: block.shape[0]])
    return np.concatenate(blocks)
