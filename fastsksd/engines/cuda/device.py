"""Numba's CUDA target and what surrounds a launch: devices, streams, memory.

Nothing else in the package touches that target. `numba.cuda` is the package numba-cuda where it is
installed, else the target that comes with Numba. With NUMBA_ENABLE_CUDASIM=1 it is Numba's
simulator, in which kernels run as Python; blocks are small there.
"""

import contextlib
import functools
import threading
import warnings
from collections.abc import Callable

import numba
import numpy as np
from numba import cuda, types

from .errors import DeviceOutOfMemory

# Small tests have small grids; there is nothing a user could do about it.
warnings.filterwarnings(
    "ignore", message="Grid size .* will likely result in GPU under-utilization"
)

simulated = bool(numba.config.ENABLE_CUDASIM)  # type: ignore[attr-defined]
implementation = getattr(cuda, "implementation", "simulator").lower()

SIDE = 2 if simulated else 16  # threads along each side of a square block
LAST = SIDE - 1  # a mask that changes no index, but tells the compiler that it is not negative
MICRO = 4  # results along each side that one thread of it computes
SPAN = SIDE * MICRO
THREADS = SIDE * SIDE  # of any block

_local = threading.local()
_one_at_a_time = threading.RLock()  # the simulator has one kernel at a time
_OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY
_SCALARS = {
    "bool": bool,
    "boolean": bool,
    "int64": int,
    "uint64": np.uint64,
    "float64": float,
    "float32": np.float32,
}
# Functions that make the kernels, with the arguments to make them with; see `kernel`.
KERNELS: list[tuple[Callable, tuple]] = []


class Kernel:
    """A kernel with the types of its arguments: what `report` compiles is what is launched.

    `blocks` is how many blocks of it should fit on a multiprocessor, which bounds its registers.
    `hot` kernels must not spill.
    """

    def __init__(self, function, signature, *, square=True, blocks=2, hot=True):
        self.function = function
        self.signature = signature
        self.block = (SIDE, SIDE) if square else (THREADS, 1)
        self.blocks = blocks
        self.hot = hot
        self.name = function.__name__

    @functools.cached_property
    def _dispatcher(self):
        return cuda.jit(self.signature, **self.options)(self.function)

    @property
    def options(self):
        """Options of the compiler; Numba's own target knows no bounds of a launch."""
        return (
            {"launch_bounds": (THREADS, self.blocks)}
            if implementation == "nvidia" and not simulated
            else {}
        )

    def __call__(self, grid, *args):
        """Queue a launch on the stream of this thread; nothing where the grid is empty."""
        if min(grid) == 0:
            return
        if not simulated:
            with _memory_errors():
                self._dispatcher[grid, self.block, stream()](*args)
            return
        with _one_at_a_time:
            self.check(args)
            self._dispatcher[grid, self.block](*args)

    def check(self, args):
        """Raise unless arguments have the types of the signature, which the simulator ignores."""
        wanted = self.signature.args
        if len(args) != len(wanted):
            raise TypeError(f"{self.name} takes {len(wanted)} arguments; got {len(args)}.")
        for position, (kind, value) in enumerate(zip(wanted, args, strict=True)):
            if isinstance(kind, types.Array):
                broadcast = 0 in value.strides and value.size > 0  # another type on a device
                fits = (
                    str(value.dtype) == str(kind.dtype)
                    and value.ndim == kind.ndim
                    and value.is_c_contiguous()
                    and not broadcast
                )
            else:
                fits = isinstance(value, _SCALARS[str(kind)])
            if not fits:
                raise TypeError(
                    f"{self.name}, argument {position}: expected {kind}, got "
                    f"{type(value).__name__}."
                )


def kernel(*variants):
    """Decorator for a function that makes a `Kernel`, called with each of the tuples `variants`."""

    def decorate(make):
        cached = functools.cache(make)
        KERNELS.append((cached, variants or ((),)))
        return cached

    return decorate


def inlined(function):
    """A function that kernels call, with threads and shared memory in it."""
    return cuda.jit(device=True, inline="always")(function)


def names():
    """Names of all devices."""
    return tuple(_name(index) for index in range(count()))


def count():
    """Number of devices; one in the simulator."""
    return 1 if simulated else len(cuda.gpus)


def _name(index):
    name = cuda.gpus[index].name
    return name.decode() if isinstance(name, bytes) else str(name)


def attributes(index):
    """Name and compute capability of a device.

    Also multiprocessors, clock in Hz, and bytes per second, where the driver tells.
    """
    if simulated:
        return {"name": "simulator", "capability": (0, 0)}
    gpu = cuda.gpus[index]
    known = {"name": _name(index), "capability": tuple(gpu.compute_capability)}
    try:
        known["processors"] = int(gpu.MULTIPROCESSOR_COUNT)
        known["clock"] = 1e3 * gpu.CLOCK_RATE
        known["memory"] = 2e3 * gpu.MEMORY_CLOCK_RATE * gpu.GLOBAL_MEMORY_BUS_WIDTH / 8
    except Exception:  # drivers differ in what they tell
        pass
    return known


def use(index):
    """Let this thread run on device number `index`."""
    cuda.select_device(index)
    _local.__dict__.clear()


def stream():
    """The stream of this thread.

    Launches and copies of one test follow each other; those of several tests overlap.
    """
    if not hasattr(_local, "stream"):
        _local.stream = cuda.stream()
    return _local.stream


def upload(array, dtype=np.float64):
    """A copy on the device."""
    array = np.ascontiguousarray(array, dtype=dtype)
    # As ``column[:, None]`` has: contiguous for NumPy, but not for Numba's CUDA target.
    if 0 in array.strides:
        array = array.copy()
    with _memory_errors():
        return cuda.to_device(array, stream=stream())


def download(array):
    """A copy on the host, when all that was queued before is done."""
    with _memory_errors():
        host = array.copy_to_host(stream=stream())
        stream().synchronize()
    return host


def empty(*shape, dtype=np.float64):
    """An array on the device."""
    with _memory_errors():
        return cuda.device_array(shape, dtype=dtype, stream=stream())


@contextlib.contextmanager
def _memory_errors():
    """Turn the driver's error for lack of memory into `DeviceOutOfMemory`."""
    try:
        yield
    except Exception as error:
        code = getattr(error, "code", None)
        if isinstance(error, MemoryError) or (code is not None and int(code) == _OUT_OF_MEMORY):
            raise DeviceOutOfMemory(f"the GPU has no memory left: {error}") from error
        raise


def groups(size, of):
    """How many groups of `of` cover `size`."""
    return -(-size // of)
