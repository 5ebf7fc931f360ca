"""A second process compiles nothing, starts fast, and a large test stays within its memory.

Numba counts cache hits and misses per function; a warm cache must leave no miss behind.
"""

import resource
import subprocess
import sys
import time

import numba
import numpy as np


def seconds_to_import(statement):
    # CPU seconds: other work on the machine hardly changes them.
    code = f"import time; t = time.process_time(); {statement}; print(time.process_time() - t)"
    return min(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5))


alone = seconds_to_import("import numba")
both = seconds_to_import("import numba, fastsksd")
print(f"import numba {alone:.2f} s, with fastsksd {both:.2f} s")
assert both < 2.5 * alone, "import fastsksd adds more than 1.5 times what numba takes"

import fastsksd as fs  # noqa: E402

x = np.random.default_rng(0).standard_normal((1000, 50))
start = time.perf_counter()
fs.gof_test(x, lambda x: -x, rng=0)
print(f"first test {time.perf_counter() - start:.2f} s")
dispatchers = {
    function
    for module in list(sys.modules.values())
    if getattr(module, "__name__", "").startswith("fastsksd")
    for value in vars(module).values()
    for function in (value, getattr(value, "dispatcher", None), getattr(value, "serial", None))
    if isinstance(function, numba.core.dispatcher.Dispatcher)
}
missed = [
    function.__name__ for function in dispatchers if sum(function.stats.cache_misses.values())
]
hits = sum(sum(function.stats.cache_hits.values()) for function in dispatchers)
print(f"{hits} compiled functions came from the cache, {len(missed)} were compiled")
assert hits > 5 and not missed, f"compiled again: {missed}"

x = np.random.default_rng(0).standard_normal((20000, 3))
fs.gof_test(x, lambda x: -x, slices=fs.Slices(np.eye(3), np.eye(3)), n_resamples=1000, rng=0)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(f"peak memory of n = 20000, 3 slices, 1000 replicates: {peak:.0f} MB")
assert peak < 600
