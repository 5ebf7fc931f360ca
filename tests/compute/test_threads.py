"""Threads wait passively unless the user says otherwise, and keep to the limits of a container."""

import os
import subprocess
import sys

import numpy as np
import pytest

from fastsksd.compute import threads
from fastsksd.compute.threads import cpu_limit

CODE = """
import os
import numba, numpy as np, fastsksd as fs
x = np.random.default_rng(0).standard_normal((1000, 3))
{before}
fs.gof_test(x, -x, n_resamples=200, rng=0)  # large enough for threads
print(numba.threading_layer(), os.environ.get("OMP_WAIT_POLICY"), numba.get_num_threads())
"""


def process(before="", **variables):
    """A new process that says which threads it has, and OpenMP its settings."""
    names = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    environment |= {"OMP_DISPLAY_ENV": "VERBOSE", **variables}
    return subprocess.run(
        [sys.executable, "-c", CODE.format(before=before)],
        env=environment, capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip


def layer_of(before="", **variables):
    return process(before, **variables).stdout.split()[0]


def run(before="", **variables):
    """What a new process says of its threads, and OpenMP of its settings."""
    done = process(before, **variables)
    layer, policy, count = done.stdout.split()
    if layer != "omp" or "OMP_WAIT_POLICY" not in done.stderr:
        pytest.skip(f"the threading layer is {layer}, without GNU OpenMP's settings to look at")
    return policy, done.stderr, int(count)


def test_threads_wait_passively_and_the_environment_is_as_before():
    policy, settings, _ = run()
    assert policy == "None" and "GOMP_SPINCOUNT = '3000'" in settings


def test_what_the_user_chose_holds():
    policy, settings, _ = run(OMP_WAIT_POLICY="active")
    assert policy == "active" and "OMP_WAIT_POLICY = 'ACTIVE'" in settings
    assert "GOMP_SPINCOUNT = '500'" in run(GOMP_SPINCOUNT="500")[1]


LOADED = "import ctypes; openmp = ctypes.CDLL('libgomp.so.1')"


def test_threads_do_not_spin_where_another_library_has_loaded_openmp():
    # Numba's threads would be those of that library, which spin.
    if layer_of() != "omp":
        pytest.skip("Numba's threads are not OpenMP's")
    assert layer_of(LOADED) == "workqueue"
    assert layer_of(LOADED, OMP_WAIT_POLICY="passive") == "omp"
    assert layer_of(LOADED, NUMBA_THREADING_LAYER="omp") == "omp"


def test_a_container_limits_the_number_of_threads():
    before = "import fastsksd.compute.threads as t; t.cpu_limit = lambda: 1"
    assert run(before)[2] == 1
    assert run(before, NUMBA_NUM_THREADS="2")[2] == 2


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "max 100000\n"}, 2**16),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 2**16),
        ({}, 2**16),
        # Below the root: a job of a batch system, a service. The tightest limit around it holds.
        ({"own": "0::/job/step\n", "job/cpu.max": "200000 100000\n"}, 2),
        ({"own": "0::/job/step\n", "job/step/cpu.max": "max 100000\n"}, 2**16),
        (
            {
                "own": "0::/a/b/c\n",
                "a/cpu.max": "400000 100000\n",
                "a/b/cpu.max": "150000 100000\n",
                "a/b/c/cpu.max": "300000 100000\n",
            },
            2,
        ),
        ({"own": "0::/job\n", "other/cpu.max": "100000 100000\n"}, 2**16),
        (
            {
                "own": "5:cpu,cpuacct:/slurm/job\n4:memory:/elsewhere\n0::/\n",
                "cpu/slurm/cpu.cfs_quota_us": "500000\n",
                "cpu/slurm/cpu.cfs_period_us": "100000\n",
                "cpu/slurm/job/cpu.cfs_quota_us": "-1\n",
                "cpu/slurm/job/cpu.cfs_period_us": "100000\n",
            },
            5,
        ),
        # A container that sees its own group at the root, under the name that it has outside.
        (
            {
                "own": "3:cpu,cpuacct:/docker/0123\n",
                "cpu/cpu.cfs_quota_us": "150000\n",
                "cpu/cpu.cfs_period_us": "100000\n",
            },
            2,
        ),
    ],
)
def test_limits_of_control_groups(tmp_path, files, cores):
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    assert cpu_limit(tmp_path, tmp_path / "own") == cores


def test_shared_work_is_done_once_and_errors_come_through():
    done = np.zeros(1000)

    def work(first, last):
        done[first:last] += 1

    threads.share(work, 1000)
    threads.share(work, 0)
    np.testing.assert_array_equal(done, 1.0)

    def fail(first, last):
        raise ValueError(f"{first} to {last}")

    with pytest.raises(ValueError, match=r"\d+ to \d+"):
        threads.share(fail, 10)
