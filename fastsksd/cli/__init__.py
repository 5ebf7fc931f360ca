"""The command line: ``fastsksd test``, ``demo``, ``info``, ``bench``, ``reproduce``, ``report``."""

from .main import main

__all__ = ["main"]
