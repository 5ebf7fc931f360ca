"""Test setup: compiled code is cached apart for each state of the sources.

Numba's cache notices edits in a function's own file only, not in the functions it calls from other files.
"""

import hashlib
import os
import tempfile
from pathlib import Path

import pytest

_sources = sorted((Path(__file__).parent.parent / "fastsksd").rglob("*.py"))
_digest = hashlib.sha256(b"".join(path.read_bytes() for path in _sources)).hexdigest()[:16]
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"fastsksd-numba-{os.getuid()}-{_digest}"))

from hypothesis import settings  # noqa: E402

settings.register_profile("fastsksd", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("fastsksd")


# Tests of CUDA kernels run in the simulator, in a process of their own, see test_cuda.py; there the contract is that of the device.
SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
collect_ignore = [] if SIMULATED else ["cuda"]


@pytest.fixture(params=["cuda direct", "cuda fourier", "cuda32"] if SIMULATED else ["direct", "fourier"])
def engine(request):
    """Every engine, for the contract tests that all of them must pass."""
    return request.param
