"""A second process compiles nothing, starts fast, and a large test stays within its memory.

Nor does the first process after `fastsksd warmup`.

Numba counts cache hits and misses per function; a warm cache must leave no miss behind.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time

import numba
import numpy as np


def seconds_to_import(statement):
    # CPU seconds: other work on the machine hardly changes them.
    code = f"import time; t = time.process_time(); {statement}; print(time.process_time() - t)"
    return min(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(9))


alone = seconds_to_import("import numba")
both = seconds_to_import("import numba, fastsksd")
print(f"import numba {alone:.2f} s, with fastsksd {both:.2f} s")
assert both < 2.0 * alone, "import fastsksd takes longer than numba"

USUAL = """
import numpy as np, fastsksd as fs
from fastsksd.compute.notice import compiled_count
x = np.random.default_rng(0).standard_normal((1000, 20))
few = np.random.default_rng(0).standard_normal((50, 100))
score = lambda x: -x
calls = {
    "the default test": lambda: fs.gof_test(x, score, rng=0).summary(),
    "scores in an array": lambda: fs.gof_test(x, -x, rng=0),
    "few samples": lambda: fs.gof_test(few, score, rng=0),
    "many samples": lambda: fs.gof_test(np.tile(x, (5, 1)), score, rng=0),
    "one set": lambda: fs.gof_test(x, score, n_slices=5, rng=0),
    "one set, refined": lambda: fs.gof_test(x, score, basis="identity", refine=2, rng=0),
    "a chain": lambda: fs.gof_test(x, score, lag="auto", rng=0),
    "a stream": lambda: fs.gof_stream(np.split(np.tile(x, (25, 1)), 5), score, rng=0),
    "KSD": lambda: fs.gof_test(x, score, method="ksd", rng=0),
    "gradients": lambda: fs.sksd_value_and_grad(x, -x, fs.random_slices(20, 5, rng=0)),
    "ICA": lambda: fs.learning.fit_ica(fs.learning.ica_problem(4, n_train=1000, rng=0), steps=2),
}
for name, call in calls.items():
    before = compiled_count()
    call()
    if compiled_count() > before:
        print(f"{name} ({compiled_count() - before})")
"""
with tempfile.TemporaryDirectory() as folder:
    environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
    warmup = [sys.executable, "-m", "fastsksd", "warmup"]
    print(subprocess.check_output(warmup, env=environment, text=True).splitlines()[-1])
    usual = [sys.executable, "-c", USUAL]
    compiled = subprocess.check_output(usual, env=environment, text=True).splitlines()
assert not compiled, f"compiled after warmup, functions: {', '.join(compiled)}"

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
