"""BLAS and LAPACK on one thread inside the package.

NumPy and SciPy mostly come with OpenBLAS, one each, whose threads spin while they wait. Beside two
busy processes on two cores, the eigenvectors of a (100, 100) matrix took 230 ms on two threads and
take 0.6 ms on one. So the doors of the package (`_doors`) hold OpenBLAS on one thread. Functions of
the user run with the number of threads that the user has set (`_strict`). This number belongs to
the whole process: it is lowered as long as any Python thread computes inside. Other libraries, as
MKL and Accelerate, are left as they are.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

_NAMES = (
    "scipy_openblas_{}_num_threads64_",
    "scipy_openblas_{}_num_threads",
    "openblas_{}_num_threads64_",
    "openblas_{}_num_threads",
)
_lock = threading.RLock()
_inside: set[int] = set()  # Python threads that want one thread
_before: tuple[int, ...] = ()  # numbers of threads of the libraries when the first one came


class Library(NamedTuple):
    """Functions that read and write the number of threads of an OpenBLAS."""

    read: Callable[[], int]
    write: Callable[[int], None]


class one_blas_thread(contextlib.ContextDecorator):
    """BLAS on one thread, for what may run outside of any door."""

    def __enter__(self) -> None:
        self._held = hold(True)

    def __exit__(self, *raised: Any) -> None:
        hold(self._held)


def hold(one: bool) -> bool:
    """Hold BLAS on one thread for this Python thread, or let go; returns what was before.

    An interrupt may end this half-way. Called once more, it then does the rest.
    """
    me = threading.get_ident()
    held = me in _inside
    if held is not one:
        (_lower if one else _put_back)(me)
    return held


def is_held() -> bool:
    """Whether this Python thread holds BLAS on one thread."""
    return threading.get_ident() in _inside


def _lower(me: int) -> None:
    global _before
    with _lock:
        if _inside:
            _inside.add(me)
            return
        found = libraries()
        _before = tuple(one.read() for one in found)
        _inside.add(me)
        for one in found:
            one.write(1)


def _put_back(me: int) -> None:
    with _lock:
        if _inside == {me}:
            for one, count in zip(libraries(), _before, strict=True):
                one.write(count)
        _inside.discard(me)


def after_fork() -> None:
    """Make a new lock in a forked child, whose parent may have held the old one.

    Only the Python thread that forked is there.
    """
    global _lock
    _lock = threading.RLock()
    me = threading.get_ident()
    if _inside - {me}:
        held = hold(True)
        _inside.intersection_update({me})
        hold(held)


@functools.cache
def libraries() -> tuple[Library, ...]:
    """NumPy's OpenBLAS and SciPy's, as far as there are any.

    SciPy's is loaded here (2 ms), as it may be needed when it is too late.
    """
    found: dict[int | None, Library] = {}
    for path in _paths():
        with contextlib.suppress(OSError):
            # The interpreter's lock is kept: to wait for it would cost more than the call.
            library = ctypes.PyDLL(str(path))
            for name in _NAMES:
                read, write = (getattr(library, name.format(verb), None) for verb in ("get", "set"))
                if read is not None and write is not None:
                    read.restype, write.argtypes = ctypes.c_int, [ctypes.c_int]
                    write.restype = None
                    address = ctypes.cast(read, ctypes.c_void_p).value
                    found.setdefault(address, Library(read, write))
    return tuple(found.values())


def _paths() -> Iterator[Path | str]:
    """Where OpenBLAS may be.

    Wheels hold their library. Elsewhere, what a module was linked with is searched with it.
    """
    homes = [Path(np.__file__).parent]
    scipy = find_spec("scipy")
    if scipy is not None and scipy.origin is not None:
        homes.append(Path(scipy.origin).parent)
    for home in homes:
        for folder in (home / ".libs", home / ".dylibs", home.parent / f"{home.name}.libs"):
            yield from sorted(folder.glob("*openblas*"))
    yield str(np.linalg._umath_linalg.__file__)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=after_fork)
