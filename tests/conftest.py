"""Test setup: compiled code is cached apart for each state of the sources; doctests of optional
bridges run where their library is installed, and are skipped, visibly, elsewhere.

Numba's cache notices edits in a function's own file only, not in the functions it calls from other
files.
"""

import hashlib
import importlib.util
import os
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


def pytest_collection_modifyitems(items):
    for item in items:
        if not isinstance(item, pytest.DoctestItem):
            continue
        path = "/".join(Path(item.path).parts[-2:])
        if path == "interop/stan.py":
            reason = "needs a compiled model: tests/interop/test_stan.py runs them"
            item.add_marker(pytest.mark.skip(reason=reason))
        elif path in _LIBRARY and importlib.util.find_spec(_LIBRARY[path]) is None:
            item.add_marker(pytest.mark.skip(reason=f"needs {_LIBRARY[path]}"))
