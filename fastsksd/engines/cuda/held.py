"""Which of the host's arrays are to stay on the device once they are there. Nothing here needs a device."""

import contextlib
import threading

_local = threading.local()


class Held:
    """A host's array, and its copy on the device from when that was asked for."""

    def __init__(self, array):
        self.array = array
        self.copy = None


@contextlib.contextmanager
def holding(*arrays):
    """Within it, the thread's copies of these arrays of rows, or of stretches of their rows, stay on the device. Costs nothing on the CPU.

    Their numbers must not change meanwhile.
    """
    before = getattr(_local, "held", ())
    try:
        for array in arrays:
            if array.flags.c_contiguous and find(array) is None:
                _local.held = (*getattr(_local, "held", ()), Held(array))
        yield
    finally:
        _local.held = before


def find(rows):
    """What is held of an array of rows, and which stretch of it they are; None if nothing is."""
    if not rows.flags.c_contiguous:
        return None
    for held in getattr(_local, "held", ()):
        array = held.array
        if array.dtype != rows.dtype or array.shape[1] != rows.shape[1]:
            continue
        begin = rows.ctypes.data - array.ctypes.data
        first, rest = divmod(begin, max(1, array.strides[0]))
        if begin >= 0 and rest == 0 and first + rows.shape[0] <= array.shape[0]:
            return held, first, first + rows.shape[0]
    return None
