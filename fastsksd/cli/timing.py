"""What the benchmarks of the command line measure with: seconds, CPU seconds and memory."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any


def seconds_of(work: Callable[..., Any], *arguments: Any) -> float:
    """Seconds that a call takes."""
    start = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - start


def show(seconds: float) -> str:
    """Seconds or milliseconds, as text."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.1f} ms"


def peak_memory() -> float | None:
    """Bytes that this process has had at most; None where the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak) if sys.platform == "darwin" else 1024.0 * peak
