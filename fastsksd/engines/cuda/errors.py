"""What can be wrong with a device."""

from ..._validate import AboutArgument


class CudaUnavailable(AboutArgument, RuntimeError):
    """No CUDA target or no device; the message says what is missing and how to get it."""


class DeviceOutOfMemory(MemoryError):
    """The device has no memory left."""
