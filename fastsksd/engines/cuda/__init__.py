"""The CUDA engine: the sums of the direct and of the linear-time engine, the weights, KE, GE and the gradients, on a GPU.

No kernel of this room has run on a GPU so far. Each is run by the CUDA simulator against the CPU's engines, compiled for several compute
capabilities, and assembled, see `report`.

Rooms:

``errors``     no device, no memory
``held``       which arrays stay on the device
``device``     the only one that touches Numba's CUDA target: the import, what is missing, memory, streams, launches
``pointwise``  the package's pointwise mathematics in double precision (as it is) and in single precision (with its constants rounded)
``blocks``     sums and products that the others are made of
``data``       samples and scores, and their projections
``weights``    resampling weights, from the same streams as the CPU's
``pairs``      Stein terms pair by pair, and all replicates
``fourier``    the same in linear time
``smoothing``  products with a Gaussian kernel matrix that is never stored, and conjugate gradients with it
``gradients``  derivatives of each slice's statistic
``report``     registers, occupancy, operations and predicted speed, from the compiled kernels

This file is light: Numba's CUDA target is imported when a function is called.
"""

import functools
import os
import sys

from ..sessions import session as holding  # noqa: F401
from .errors import CudaUnavailable, DeviceOutOfMemory  # noqa: F401

INSTALL = (
    "Install the package numba-cuda with the libraries of your driver's CUDA version: pip install 'fastsksd[cu13]' (driver 580 or "
    "newer) or 'fastsksd[cu12]'."
)

_AT_ONCE = 2  # tests on one device: while one is on the host, the other keeps the device busy


@functools.cache
def missing():
    """What keeps `engine="cuda"` from running here, in words; empty when nothing does."""
    try:
        from .device import cuda, simulated
    except ImportError as error:
        return f"Numba has no CUDA target here ({error}). {INSTALL}"
    if simulated or cuda.is_available():
        return ""
    if not driver_present():
        return f"no NVIDIA driver was found on this machine. With a GPU and its driver in place: {INSTALL}"
    return f"there is an NVIDIA driver, but Numba's CUDA target could not start ({_reason(cuda)}). {INSTALL}"


def require():
    """Raise `CudaUnavailable` unless kernels can run here."""
    if missing():
        raise CudaUnavailable(
            f"`engine`='cuda' is not available: {missing()} Or use engine='auto'."
        )


def driver_present():
    """Whether there is a driver to ask: a look at files, so that machines without one pay nothing."""
    if sys.platform == "win32":
        return os.path.exists(
            os.path.join(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "nvcuda.dll")
        )
    return any(os.path.exists(path) for path in ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg"))


@functools.cache
def hardware():
    """Names of the GPUs that can be used, empty where there is none; the simulator is none."""
    if not driver_present() or missing():
        return ()
    from . import device

    return () if device.simulated else device.names()


def lanes():
    """For each test that may run at the same time, a function that brings its thread to a device with a stream of its own."""
    require()
    from . import device

    return [
        functools.partial(device.use, index)
        for _ in range(_AT_ONCE)
        for index in range(device.count())
    ]


def _reason(cuda):
    error = getattr(cuda, "cuda_error", None)
    text = str(error() if callable(error) else error or "NVVM was not found")
    return text.strip().splitlines()[0].rstrip(".:") if text.strip() else "NVVM was not found"
