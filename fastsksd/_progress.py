"""Progress of a long run: a line on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from ._strict import as_the_callers
from ._validate import ArgumentTypeError


class ProgressBar:
    """A line on standard error with the time left.

    On a terminal it is rewritten; elsewhere it is printed at every tenth. Where the total is not
    known (None), only the number done is shown; elsewhere than on a terminal at 1, 2, 5, 10, 20,
    50, ...

    Parameters
    ----------
    title : str
        What is running.
    stream : text file, optional
        Where the line goes, standard error by default.
    first : int, optional
        How much was done before the start; by default one less than the first number shown.
    """

    def __init__(
        self, title: str, stream: TextIO | None = None, *, first: int | None = None
    ) -> None:
        self.title = title
        self.stream = sys.stderr if stream is None else stream
        self.start = time.monotonic()
        self.first = first
        self.shown = -1

    def __call__(self, done: int, total: int | None) -> None:
        """Show that `done` of `total` is done."""
        if total is None:
            self._count(done)
            return
        now = time.monotonic()
        if self.first is None:
            self.first = done - 1
        left = (now - self.start) / max(1, done - self.first) * (total - done)
        minutes, seconds = divmod(round(left), 60)
        text = f"{self.title} {done}/{total}, {minutes}:{seconds:02d} left"
        if self.stream.isatty():
            bar = "#" * (30 * done // total)
            end = "\n" if done == total else ""
            print(f"\r{text} [{bar:<30}]", end=end, file=self.stream, flush=True)
        elif 10 * done // total > self.shown or done == total:
            self.shown = 10 * done // total
            print(text, file=self.stream, flush=True)

    def _count(self, done: int) -> None:
        if self.stream.isatty():
            print(f"\r{self.title} {done}", end="", file=self.stream, flush=True)
        elif str(done).rstrip("0") in ("1", "2", "5"):
            print(f"{self.title} {done}", file=self.stream, flush=True)


def check_progress(progress: object) -> None:
    """`progress` must be True, False or a function."""
    if not callable(progress) and not isinstance(progress, bool):
        raise ArgumentTypeError("progress", f"must be True, False or a function; got {progress!r}")


def shown_progress(
    progress: Any, title: str, *, first: int | None = None
) -> Callable[[int, int | None], object] | None:
    """What shows the progress: the user's function, a line for True, None for False."""
    check_progress(progress)
    if callable(progress):
        return as_the_callers(progress)
    return ProgressBar(title, first=first) if progress else None
