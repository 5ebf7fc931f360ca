"""The command line: ``fastsksd test``, ``demo``, ``info``, ``bench`` and ``reproduce``."""

from .main import main

__all__ = ["main"]
