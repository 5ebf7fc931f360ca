"""Part of ``fastsksd bench``: what the default test costs as samples and dimensions grow.

Every row is measured in a process of its own, whose peak of memory is its own too.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np

from ..gof import gof_test
from .timing import peak_memory, seconds_of

# Samples and dimensions. The last ones are for the search in many dimensions.
_CELLS = ((1_000, 20), (10_000, 20), (100_000, 20), (1_000_000, 20), (1_000, 1_000))
_WARM = 5000  # samples of the test before, which loads compiled code
_LONG = 1.0  # seconds from which on one run is enough
_REPEAT = 5
_CODE = "import json; from fastsksd.cli import growth; print(json.dumps(growth.measure({}, {})))"


def measure(n: int, d: int) -> tuple[float, float, float]:
    """Seconds, CPU seconds, and bytes beyond the samples and a smaller test, of a default test."""
    x = np.random.default_rng(0).standard_normal((n, d))
    scores = -x
    few = min(n, _WARM)
    gof_test(x[:few], scores[:few], rng=0)
    before = peak_memory()
    times = []
    while len(times) < _REPEAT and (not times or times[0][0] < _LONG):
        start = time.process_time()
        seconds = seconds_of(lambda: gof_test(x, scores, rng=0))
        times.append((seconds, time.process_time() - start))
    seconds, cpu = np.median(times, axis=0).tolist()
    after = peak_memory()
    return seconds, cpu, math.nan if before is None or after is None else after - before


def growth_table() -> Iterator[str]:
    """Rows of a Markdown table; a slope is that of log seconds from the row above."""
    yield "| n | d | seconds | CPU seconds | more memory | slope |"
    yield "|---|---|---|---|---|---|"
    above: tuple[int, int, float] | None = None
    for n, d in _CELLS:
        code = _CODE.format(n, d)
        output = subprocess.run(
            [sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        seconds, cpu, memory = json.loads(output)
        slope = ""
        if above is not None and above[1] == d:
            slope = f"{math.log(seconds / above[2]) / math.log(n / above[0]):.2f}"
        shown = f"{seconds:.2f} | {cpu:.2f} | {memory / 1e9:.2f} GB"
        yield f"| {n} | {d} | {shown} | {slope} |"
        above = n, d, seconds
