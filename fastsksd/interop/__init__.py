"""Bridges to other libraries, each imported when it is first used: ``fastsksd.interop.torch``, ``fastsksd.interop.jax``."""

from importlib import import_module

_BRIDGES = ("jax", "torch")


def __getattr__(name):
    if name in _BRIDGES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return [*globals(), *_BRIDGES]
