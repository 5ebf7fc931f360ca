"""What can be wrong with a device."""


class CudaUnavailable(RuntimeError):
    """No CUDA target or no device; the message says what is missing and how to get it."""


class DeviceOutOfMemory(MemoryError):
    """The device has no memory left."""
