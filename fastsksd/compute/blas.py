"""BLAS and LAPACK on one thread.

NumPy mostly comes with OpenBLAS, whose threads spin while they wait. Beside two busy processes on
two cores, the eigenvectors of a (100, 100) matrix took 230 ms on two threads and take 0.6 ms on
one. Its number of threads belongs to the whole process; it is lowered within `one_blas_thread` and
put back afterwards. Other libraries are left as they are.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

_NAMES = (
    "scipy_openblas_{}_num_threads64_",
    "openblas_{}_num_threads64_",
    "openblas_{}_num_threads",
)
_lock = threading.Lock()
_within: set[object] = set()  # one for each that is within
_before = 1


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """NumPy's OpenBLAS on one thread, until the last of the Python threads within is done."""
    one = object()
    try:
        _enter(one)
        yield
    finally:
        try:
            _leave(one)
        except BaseException:  # an interrupt half way
            _leave(one)
            raise


def _enter(one: object) -> None:
    global _before
    read, write = _openblas()
    with _lock:
        if not _within:
            _before = read()
        _within.add(one)
        if len(_within) == 1:
            write(1)


def _leave(one: object) -> None:
    _, write = _openblas()
    with _lock:
        if one in _within:
            if len(_within) == 1:
                write(_before)
            _within.remove(one)


def after_fork() -> None:
    """Make a new lock in a forked child, whose parent may have held the old one."""
    global _lock
    _lock = threading.Lock()


@functools.cache
def _openblas() -> tuple[Callable[[], int], Callable[[int], None]]:
    """Functions that read and write the number of threads; they do nothing for other libraries."""
    home = Path(np.__file__).parent
    # Wheels hold their library; elsewhere what NumPy's own was linked with is searched as well.
    paths = [*(home.parent / "numpy.libs").glob("*openblas*"), np.linalg._umath_linalg.__file__]
    for path in (*home.glob(".libs/*openblas*"), *home.glob(".dylibs/*openblas*"), *paths):
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(str(path))
            for name in _NAMES:
                read, write = (getattr(library, name.format(verb), None) for verb in ("get", "set"))
                if read is not None and write is not None:
                    read.restype, write.argtypes = ctypes.c_int, [ctypes.c_int]
                    return read, write
    return lambda: 1, lambda count: None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=after_fork)
