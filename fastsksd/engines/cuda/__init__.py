"""The CUDA engine: all sums over pairs of the package on a GPU.

The sums of the direct and of the linear-time engine, the resampling weights, KE, KSD and GE, the
gradients, and the steps of refinement.

No kernel has run on a GPU so far. Each is run by the CUDA simulator against the CPU's engines,
compiled for several compute capabilities, and assembled, see `report`.

``errors``     no device, no memory
``device``     the import of Numba's CUDA target, memory, streams, launches; nothing else touches it
``pointwise``  the package's pointwise mathematics, in double and in single precision
``blocks``     sums and products that the others are made of
``data``       samples and scores, and their projections
``weights``    resampling weights, from the same streams as the CPU's
``pairs``      Stein terms pair by pair, and all replicates
``fourier``    the same in linear time
``gaussian``   the Gaussian kernel matrix between samples, which is never stored
``smoothing``  the arithmetic of rows that products with it are made of
``gradients``  derivatives of each slice's statistic
``ascent``     steps of Adam up these derivatives
``report``     registers, occupancy, operations and predicted speed, from the compiled kernels

This file is light: Numba's CUDA target is imported when a function is called.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable

from ..._validate import Option
from .errors import CudaUnavailable, DeviceOutOfMemory  # noqa: F401

INSTALL = (
    "Install the package numba-cuda with the libraries of your driver's CUDA version: "
    "pip install 'fastsksd[cu13]' (driver 580 or newer) or 'fastsksd[cu12]'."
)

_AT_ONCE = 2  # tests on one device: while one is on the host, the other keeps the device busy


@functools.cache
def missing() -> str:
    """What keeps `engine="cuda"` from running here, in words; empty when nothing does."""
    try:
        from .device import cuda, simulated
    except ImportError as error:
        return f"Numba has no CUDA target here ({error}). {INSTALL}"
    if simulated or cuda.is_available():
        return ""
    if not driver_present():
        return (
            "no NVIDIA driver was found on this machine. If there is a GPU, install its driver "
            f"first. {INSTALL}"
        )
    return (
        "there is an NVIDIA driver, but Numba's CUDA target could not start "
        f"({_reason(cuda)}). {INSTALL}"
    )


def require() -> None:
    """Raise `CudaUnavailable` unless kernels can run here."""
    if missing():
        raise CudaUnavailable(
            "engine",
            f"can't be 'cuda' here: {missing().rstrip('.')}",
            remedy=("Or use ", Option("engine", "auto"), "."),
        )


def driver_present() -> bool:
    """Whether there is a driver to ask; a look at files, which costs nothing."""
    if sys.platform == "win32":
        return os.path.exists(
            os.path.join(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "nvcuda.dll")
        )
    return any(os.path.exists(path) for path in ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg"))


@functools.cache
def hardware() -> tuple[str, ...]:
    """Names of the GPUs that can be used. The simulator does not count."""
    if not driver_present() or missing():
        return ()
    from . import device

    return () if device.simulated else device.names()


def lanes() -> list[Callable[[], None]]:
    """Functions, one for each test that may run at the same time.

    Each brings its thread to a device, with a separate stream.
    """
    require()
    from . import device

    return [
        functools.partial(device.use, index)
        for _ in range(_AT_ONCE)
        for index in range(device.count())
    ]


def _reason(cuda) -> str:
    error = getattr(cuda, "cuda_error", None)
    text = str(error() if callable(error) else error or "NVVM was not found")
    return text.strip().splitlines()[0].rstrip(".:") if text.strip() else "NVVM was not found"
