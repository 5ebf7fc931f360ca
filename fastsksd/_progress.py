"""How far a long run is: a line on standard error."""

import sys
import time


class ProgressBar:
    """A line on standard error with the time left; on a terminal it is rewritten, elsewhere printed at every tenth.

    Where the total is not known (None), the number done alone is shown, elsewhere than on a terminal at 1, 2, 5, 10, 20, 50, ...
    """

    def __init__(self, title, stream=None):
        self.title = title
        self.stream = sys.stderr if stream is None else stream
        self.start = time.monotonic()
        self.first = None
        self.shown = -1

    def __call__(self, done, total):
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
            print(
                f"\r{text} [{bar:<30}]",
                end="\n" if done == total else "",
                file=self.stream,
                flush=True,
            )
        elif 10 * done // total > self.shown or done == total:
            self.shown = 10 * done // total
            print(text, file=self.stream, flush=True)

    def _count(self, done):
        if self.stream.isatty():
            print(f"\r{self.title} {done}", end="", file=self.stream, flush=True)
        elif str(done).rstrip("0") in ("1", "2", "5"):
            print(f"{self.title} {done}", file=self.stream, flush=True)
