"""The progress bar of experiments, refinement and training."""

import sys
import time


class ProgressBar:
    """A line on standard error with the time left; on a terminal it is rewritten, elsewhere printed at every tenth."""

    def __init__(self, title, stream=None):
        self.title = title
        self.stream = sys.stderr if stream is None else stream
        self.start = time.monotonic()
        self.first = None
        self.shown = -1

    def __call__(self, done, total):
        now = time.monotonic()
        if self.first is None:
            self.first = done - 1
        left = (now - self.start) / max(1, done - self.first) * (total - done)
        minutes, seconds = divmod(round(left), 60)
        text = f"{self.title} {done}/{total}, {minutes}:{seconds:02d} left"
        if self.stream.isatty():
            bar = "#" * (30 * done // total)
            print(f"\r{text} [{bar:<30}]", end="\n" if done == total else "", file=self.stream, flush=True)
        elif 10 * done // total > self.shown or done == total:
            self.shown = 10 * done // total
            print(text, file=self.stream, flush=True)
