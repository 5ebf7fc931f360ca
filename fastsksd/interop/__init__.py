"""Bridges to other libraries, each imported when it is first used.

``torch``, ``jax``
    The discrepancy as a loss, and scores from a log-density.
``arviz``, ``pymc``, ``numpyro``, ``blackjax``, ``stan``
    Draws of a sampler with their scores, in unconstrained space.
``posteriordb``
    Posteriors of a local posterior database, with their reference draws.
``scipy``
    Models from frozen distributions.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from ._diagnosis import Diagnosis
from ._draws import Draws

__all__ = ["Diagnosis", "Draws"]

_BRIDGES = ("arviz", "blackjax", "jax", "numpyro", "posteriordb", "pymc", "scipy", "stan", "torch")


def __getattr__(name: str) -> ModuleType:
    if name in _BRIDGES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *_BRIDGES]
