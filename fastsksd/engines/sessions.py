"""Which arrays of the host stay on a device once they are there. Nothing here needs a device.

A half of the samples is a view of all of them, and reaches an engine through functions that take
plain arrays. NumPy tells which rows of another array a view holds by its address alone, so that is
what an array is found by.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from .._typing import Array

_local = threading.local()


class Held:
    """An array of the host, and its copy on the device from when that was first asked for."""

    def __init__(self, array: Array):
        self.array = array
        self.copy: Any = None


@contextlib.contextmanager
def session(*arrays: Array) -> Iterator[None]:
    """Keep arrays of rows on the device while the context is open.

    An array goes to the device when an engine first asks for it, or for a stretch of its rows, and
    stays until the context is left. Their numbers must not change meanwhile. Sessions may be nested
    and belong to a thread. On the CPU a session costs nothing.

    Parameters
    ----------
    *arrays : (n, d) arrays
        Samples and scores.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> from fastsksd.engines import session
    >>> x = np.random.default_rng(0).standard_normal((100, 2))
    >>> with session(x):
    ...     slices = fs.active_slices(x[:50], -x[:50])
    """
    before = getattr(_local, "held", ())
    try:
        for array in arrays:
            if array.flags.c_contiguous and find(array) is None:
                _local.held = (*getattr(_local, "held", ()), Held(array))
        yield
    finally:
        _local.held = before


def find(rows: Array) -> tuple[Held, int, int] | None:
    """What is held of an array of rows, with the first and last of its rows; None if nothing is."""
    if not rows.flags.c_contiguous:
        return None
    for held in getattr(_local, "held", ()):
        array = held.array
        if array.dtype != rows.dtype or array.shape[1] != rows.shape[1]:
            continue
        begin = rows.ctypes.data - array.ctypes.data
        first, rest = divmod(begin, max(1, array.strides[0]))
        if begin >= 0 and rest == 0 and first + rows.shape[0] <= array.shape[0]:
            return held, first, first + rows.shape[0]
    return None
