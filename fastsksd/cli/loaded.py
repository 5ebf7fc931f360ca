"""``fastsksd bench --loaded``: how calls fare beside other work on the same cores.

As many busy processes as there are cores run beside each call, and end by themselves. A call on
all threads should not take much longer than the same call on one thread: what it would if threads
waited for each other by spinning. On an idle machine, threads that spin should not be faster.
"""

from __future__ import annotations

import contextlib
import json
import os
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
from .bench import benchmark_samples
from .timing import seconds_of

_MOST_SECONDS = 300  # after which a neighbour ends, whatever happens to this process
_NEIGHBOUR = "import sys, time\nend = time.time() + {}\nwhile time.time() < end: sum(range(10000))"
_SHORT = 0.1  # seconds below which a call is repeated more often,
_MORE = 5  # so many times: it meets only a few of the scheduler's time slices
_ROUNDS = 3  # processes of each policy, in turn
_POLICIES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


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


def _works() -> dict[str, Callable[[], Any]]:
    """What is timed, with the samples of `fastsksd bench`."""
    tested, few = benchmark_samples(np.random.default_rng(0))
    x = np.concatenate([few, tested])
    slices = random_slices(100, 100, rng=0)
    return {
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


def run_loaded_bench(repeat: int = 7) -> Iterator[str]:
    """Yield the lines of two Markdown tables."""
    count = core_count()
    works = _works()
    for work in works.values():
        work()
    yield f"Seconds, medians of {repeat}, or of {_MORE * repeat} where a call takes less than"
    yield f"{_SHORT} s; loaded: beside {count} busy processes on {count} cores. The ratio, with its"
    yield "quartiles, is that of neighbouring runs on all threads and on one."
    yield ""
    yield "| work | idle | idle, one thread | loaded | loaded, one thread | loaded ratio |"
    yield "|---|---|---|---|---|---|"
    for name, work in works.items():
        runs = _repeats(work, repeat)
        idle = _both(work, runs)
        with neighbours(count or 1):
            busy = _both(work, runs)
        numbers = " | ".join(f"{np.median(times):.3g}" for times in (*idle, *busy))
        low, middle, high = np.quantile(busy[0] / busy[1], [0.25, 0.5, 0.75])
        yield f"| {name} | {numbers} | {middle:.2f} ({low:.2f} to {high:.2f}) |"
    yield ""
    yield "Idle, seconds with the threads of this package and with threads that spin"
    yield f"(OMP_WAIT_POLICY=active): medians of {_ROUNDS} processes each, in turn."
    yield ""
    yield "| work | fastsksd | spinning | ratio |"
    yield "|---|---|---|---|"
    rounds = [
        [medians_elsewhere(repeat, active) for active in (False, True)] for _ in range(_ROUNDS)
    ]
    for name, (ours, spinning) in zip(works, np.median(rounds, axis=0).T, strict=True):
        yield f"| {name} | {ours:.3g} | {spinning:.3g} | {ours / spinning:.2f} |"


def _both(work: Callable[[], Any], runs: int) -> tuple[np.ndarray, np.ndarray]:
    """Seconds on all threads and on one, taken in turn."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(runs):
        times[0].append(seconds_of(work))
        with single_thread():
            times[1].append(seconds_of(work))
    return np.array(times[0]), np.array(times[1])


def _repeats(work: Callable[[], Any], repeat: int) -> int:
    """How often a call is repeated on an idle machine and a busy one: more often if it is short."""
    return repeat * (_MORE if seconds_of(work) < _SHORT else 1)


def medians(repeat: int) -> list[float]:
    """Median seconds of every work on all threads, after a first run."""
    results = []
    for work in _works().values():
        work()
        results.append(float(np.median([seconds_of(work) for _ in range(_repeats(work, repeat))])))
    return results


def medians_elsewhere(repeat: int, active: bool) -> list[float]:
    """`medians` in a process of its own, whose threads spin if `active`."""
    environment = {name: value for name, value in os.environ.items() if name not in _POLICIES}
    code = (
        f"import json; from fastsksd.cli import loaded; print(json.dumps(loaded.medians({repeat})))"
    )
    output = subprocess.run(
        [sys.executable, "-c", code],
        env=environment | ({"OMP_WAIT_POLICY": "active"} if active else {}),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    return list(json.loads(output))
