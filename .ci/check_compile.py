"""The compile budget: what the first calls in a fresh environment cost.

Seconds depend on the machine and on its other work, so they are only printed. The number of
functions and the size of their code do not: a fifth more than the budget is an error. Whoever needs
more raises the budget here, and says why.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

# Functions compiled and megabytes of code. Four functions look up signed sums: replicates take half
# the time.
BUDGET = {
    "the default test": ("fs.gof_test(x, -x, rng=0)", 33, 1.2),
    "one set of slices": ("fs.gof_test(x, -x, n_slices=5, rng=0)", 30, 1.0),
}
PROGRAM = """
import time
import numpy as np, fastsksd as fs
from numba.core import event
class Count(event.Listener):
    done = 0
    def on_start(self, event): pass
    def on_end(self, event): self.done += 1
count = Count()
event.register("numba:compile", count)
x = np.random.default_rng(0).standard_normal((1000, 20))
start = time.process_time()
{call}
print(time.process_time() - start, count.done)
"""

faults = []
for name, (call, functions, megabytes) in BUDGET.items():
    with tempfile.TemporaryDirectory() as folder:
        output = subprocess.check_output(
            [sys.executable, "-c", PROGRAM.format(call=call)],
            env={"NUMBA_CACHE_DIR": folder, "PATH": ""},
            text=True,
        )
        size = sum(path.stat().st_size for path in Path(folder).rglob("*.nbc")) / 1e6
    seconds, count = float(output.split()[0]), int(output.split()[1])
    print(
        f"first call of {name}: {seconds:.1f} s of CPU, {count} functions (budget {functions}), "
        f"{size:.2f} MB (budget {megabytes})"
    )
    if count > 1.2 * functions or size > 1.2 * megabytes:
        faults.append(f"{name}: more than a fifth above its compile budget")
sys.exit("\n".join(faults) or 0)
