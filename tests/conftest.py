"""Test setup: compiled code is cached apart for each state of the sources; doctests of optional
bridges run where their library is installed, and are skipped, visibly, elsewhere.

Numba's cache notices edits in a function's own file only, not in the functions it calls from other
files.
"""

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

_sources = sorted((Path(__file__).parent.parent / "fastsksd").rglob("*.py"))
_digest = hashlib.sha256(b"".join(path.read_bytes() for path in _sources)).hexdigest()[:16]
os.environ.setdefault(
    "NUMBA_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"fastsksd-numba-{os.getuid()}-{_digest}")
)

from hypothesis import settings  # noqa: E402

settings.register_profile("fastsksd", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("fastsksd")


# Tests of CUDA kernels run in the simulator, in a process of their own, see engines/test_cuda.py;
# there the contract is that of the device.
SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
collect_ignore = [] if SIMULATED else ["engines/cuda"]


@pytest.fixture(
    params=["cuda direct", "cuda fourier", "cuda32"] if SIMULATED else ["direct", "fourier"]
)
def engine(request):
    """Every engine, for the contract tests that all of them must pass."""
    return request.param


_LIBRARY = {f"interop/{name}.py": name for name in ("torch", "jax", "pymc", "numpyro", "blackjax")}
_LIBRARY |= {"learning/lsd.py": "jax"}


# Tests that the simulator of CUDA runs in a process of its own, half a minute of one core.
# Continuous integration runs all of them, in the simulator of the package numba-cuda.
_SIMULATED = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
_SIMULATED += ["tests/engines/cuda", "tests/engines/test_contract.py", "-k"]
_SIMULATED += [
    "not test_bench and not light and not family and not loss and not score_differences and "
    "not search_sends and not 19-9 and not far and not options4 and not conjugate and "
    "not device_once and "
    "(not test_contract or (test_statistics_match_the_reference and direct and not 23))"
]
_WAITS = "test_kernels_in_the_simulator"


class Simulator:
    """Starts the process; the call waits for it, and returns its exit code and what it printed."""

    def __init__(self):
        self.output = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [sys.executable, *_SIMULATED],
            cwd=Path(__file__).parent.parent,
            env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1"},
            stdout=self.output,
            stderr=subprocess.STDOUT,
        )

    def __call__(self):
        code = self.process.wait(timeout=1200)
        self.output.seek(0)
        return code, self.output.read()


_running = []


@pytest.fixture
def simulator():
    if not _running:
        _running.append(Simulator())
    return _running[0]


# One of the processes of pytest-xdist, if there are several.
_ONE_OF_SEVERAL = "PYTEST_XDIST_WORKER" in os.environ


@pytest.fixture(scope="session", autouse=True)
def _a_share_of_the_cores():
    """Several processes on all threads each would take turns."""
    if _ONE_OF_SEVERAL:
        from fastsksd.compute.threads import core_count, set_num_threads

        set_num_threads(max(1, core_count() // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])))


def pytest_collection_finish(session):
    """In a single process, the simulator runs beside the other tests."""
    waits = any(item.name == _WAITS for item in session.items)
    if waits and not _ONE_OF_SEVERAL and not session.config.option.collectonly:
        _running.append(Simulator())


def pytest_sessionfinish():
    for one in _running:
        one.process.kill()
        one.process.wait()
        one.output.close()


def pytest_collection_modifyitems(items):
    # In a single process it waits, so it comes last. One of several does nothing else meanwhile, so
    # it comes first.
    items.sort(key=lambda item: (item.name == _WAITS) != _ONE_OF_SEVERAL)
    for item in items:
        if not isinstance(item, pytest.DoctestItem):
            continue
        path = "/".join(Path(item.path).parts[-2:])
        if path == "interop/stan.py":
            reason = "needs a compiled model: tests/interop/test_stan.py runs them"
            item.add_marker(pytest.mark.skip(reason=reason))
        elif path in _LIBRARY and importlib.util.find_spec(_LIBRARY[path]) is None:
            item.add_marker(pytest.mark.skip(reason=f"needs {_LIBRARY[path]}"))
