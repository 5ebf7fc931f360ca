"""A word to the person who waits while code is compiled for the first time."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Any

from numba.core import event

_PATIENCE = 3.0  # seconds before functions are counted


class _Notice(event.Listener):
    """A line on standard error when compilation begins, and a count when it takes longer.

    Seconds are those of compilation alone, whatever came between. Only code of this package counts,
    and only where somebody is watching. Code that comes from the cache is not compiled. A stream
    that can't be written to must not stop a computation.
    """

    def __init__(self) -> None:
        self.depth = self.done = 0
        self.seconds = 0.0  # before the compilation that is under way
        self.start = 0.0
        self.greeted = False

    def on_start(self, compilation: Any) -> None:
        """A function is compiled."""
        if not _is_ours(compilation):
            return
        if self.depth == 0:
            self.start = time.monotonic()
        self.depth += 1
        if not self.greeted and _is_watched():
            self.greeted = True
            _say("fastsksd: compiling once for this machine; `fastsksd warmup` does it ahead.\n")
        self._show()

    def on_end(self, compilation: Any) -> None:
        """It has been."""
        if not _is_ours(compilation):
            return
        self.depth -= 1
        self.done += 1
        self._show()
        if self.depth == 0:
            self.seconds += time.monotonic() - self.start

    def _show(self) -> None:
        """The count, which is wiped off when there is nothing left to compile."""
        seconds = self.seconds + time.monotonic() - self.start
        if self.greeted and seconds > _PATIENCE:
            count = f"{self.done} function" + "s" * (self.done != 1)
            _say(f"\r{f'  {count}, {seconds:.0f} s' if self.depth else '':<30}\r")


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text)
        sys.stderr.flush()


def _is_ours(compilation: Any) -> bool:
    function = getattr(compilation.data.get("dispatcher"), "py_func", None)
    return (getattr(function, "__module__", None) or "").startswith("fastsksd.")


def _is_watched() -> bool:
    """Whether standard error is a terminal or a notebook."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, none, or no file
        return sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel")
    return False


_notice = _Notice()


def register() -> None:
    """Listen to Numba's compiler."""
    event.register("numba:compile", _notice)


def compiled_count() -> int:
    """How many functions of this package have been compiled in this process."""
    return _notice.done
