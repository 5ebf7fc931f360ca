"""Bridges to other libraries, each imported when it is first used.

``torch``, ``jax``                                      the discrepancy as a loss, scores from a log-density
``arviz``, ``pymc``, ``numpyro``, ``blackjax``, ``stan``     draws of a sampler with their scores, in unconstrained space
``scipy``                                               models from frozen distributions
"""

from importlib import import_module

from ._draws import Draws

__all__ = ["Draws"]

_BRIDGES = ("arviz", "blackjax", "jax", "numpyro", "pymc", "scipy", "stan", "torch")


def __getattr__(name):
    if name in _BRIDGES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return [*globals(), *_BRIDGES]
