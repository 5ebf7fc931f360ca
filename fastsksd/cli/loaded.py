"""``fastsksd bench --loaded``: how calls fare beside other work on the same cores.

As many busy processes as there are cores run beside each call, and end by themselves. A call on
all threads should not take much longer than the same call on one thread: what it would if threads
waited for each other by spinning.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..compute.threads import core_count, single_thread
from ..discrepancy import sksd
from ..gof import gof_test
from ..refine import refine_slices
from ..slices import active_slices, random_slices
from .bench import seconds_of

_MOST_SECONDS = 300  # after which a neighbour ends, whatever happens to this process
_NEIGHBOUR = "import sys, time\nend = time.time() + {}\nwhile time.time() < end: sum(range(10000))"


@contextlib.contextmanager
def neighbours(count: int) -> Iterator[None]:
    """So many busy processes, for as long as the block runs."""
    code = _NEIGHBOUR.format(_MOST_SECONDS)
    running = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(count)]
    try:
        time.sleep(0.5)  # until they are busy
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def run_loaded_bench(repeat: int = 7) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    count = core_count()
    rng = np.random.default_rng(0)
    x, few = rng.standard_normal((1000, 100)), rng.standard_normal((200, 100))
    slices = random_slices(100, 100, rng=0)
    works: dict[str, Callable[[], Any]] = {
        "refinement of 100 slices, d = 100: 100 steps of 50 samples": lambda: refine_slices(
            few, -few, slices, epochs=25, batch_size=50, rng=0
        ),
        "KE slices, r = identity, d = 100, 200 samples": lambda: active_slices(
            few, -few, basis="identity"
        ),
        "statistic, n = 1000, 100 slices": lambda: sksd(x, -x, slices),
        "one set of slices, n = 1000, d = 100": lambda: gof_test(x, -x, basis="identity", rng=0),
        "default test, n = 1000, d = 100": lambda: gof_test(x, -x, rng=0),
    }
    for work in works.values():
        work()
    yield f"Seconds, medians of {repeat}; loaded: beside {count} busy processes on {count} cores."
    yield ""
    yield "| work | idle | idle, one thread | loaded | loaded, one thread | loaded ratio |"
    yield "|---|---|---|---|---|---|"
    for name, work in works.items():
        idle = _both(work, repeat)
        with neighbours(count or 1):
            busy = _both(work, repeat)
        numbers = " | ".join(f"{value:.3g}" for value in (*idle, *busy))
        yield f"| {name} | {numbers} | {busy[0] / busy[1]:.2f} |"


def _both(work: Callable[[], Any], repeat: int) -> tuple[float, float]:
    """Median seconds on all threads and on one, taken in turn."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeat):
        times[0].append(seconds_of(work))
        with single_thread():
            times[1].append(seconds_of(work))
    return float(np.median(times[0])), float(np.median(times[1]))
