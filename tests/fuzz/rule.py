"""The rule that every public function keeps, whatever it is called with.

Either a finite result, with a p-value in (0, 1] or the verdict that there are too few draws to
tell; or a ValueError or TypeError whose text names an argument of that function. No warning, and no
more time than `BOUND`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import signal
import time
import warnings
from typing import Any

import numpy as np

import fastsksd as fs

BOUND = 3.0  # seconds for one call of a few dozen samples, once its code is compiled
LONGEST = 300  # seconds after which a call is stopped, compiled or not
NAMED = re.compile(r"`(\w+)")


class TookTooLong(BaseException):
    """Not an Exception, so that no handler takes it for a failure of the user's function."""


@contextlib.contextmanager
def limited(seconds):
    """Stop what takes longer, where Python code gets a chance to look."""

    def stop(*_):
        raise TookTooLong(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def keeps_the_rule(call, arguments, names) -> bool:
    """Make a call and check it. Returns whether it succeeded, or was refused."""
    start = time.perf_counter()
    with limited(LONGEST):
        accepted = _checked(call, arguments, names)
    if time.perf_counter() - start > BOUND:  # it compiled, or the machine is busy: again
        taken = min(_seconds(call, arguments, names) for _ in range(3))
        assert taken < BOUND, f"took {taken:.1f} s"
    return accepted


def _seconds(call, arguments, names) -> float:
    """CPU seconds of a call; beside other work they may be twice those on an idle machine."""
    start = time.process_time()
    with limited(LONGEST):
        _checked(call, arguments, names)
    return time.process_time() - start


def _checked(call, arguments, names) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            result = call(**arguments())
        except (ValueError, TypeError) as error:
            named = set(NAMED.findall(str(error)))
            if not named & names:
                raise AssertionError(f"{error!r} names none of {sorted(names)}") from error
            return False
        except ImportError as error:
            if "pip install 'fastsksd[" not in str(error):
                raise
            return False
        check_finite(result)
    return True


def check_finite(value: Any, where: str = "result") -> None:
    """All numbers of a result are finite, and p-values are in (0, 1]."""
    if isinstance(value, fs.GofResult):
        _check_test(value, where)
    elif isinstance(value, fs.Effects):  # NaN where there is no effect to be estimated
        for name in ("shift", "shift_error", "stretch", "log_stretch_error", "shear"):
            assert not np.isinf(getattr(value, name)).any(), f"{where}.{name} is infinite"
        repr(value)
    elif isinstance(value, fs.Slices):  # the gap of a single direction is infinite
        check_finite((value.r, value.g), where)
    elif isinstance(value, fs.BatchResult):
        for name, one in zip(value.names, value.results, strict=True):
            check_finite(one, f"{where}[{name!r}]")
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            if not field.name.startswith("_"):
                check_finite(getattr(value, field.name), f"{where}.{field.name}")
    elif isinstance(value, dict):
        for name, one in value.items():
            check_finite(one, f"{where}[{name!r}]")
    elif isinstance(value, list | tuple):
        for k, one in enumerate(value):
            check_finite(one, f"{where}[{k}]")
    elif isinstance(value, float | np.ndarray | np.floating):
        array = np.asarray(value)
        if array.dtype.kind == "f":
            assert np.isfinite(array).all(), f"{where} is {value}"


def _check_test(result, where: str) -> None:
    for name in ("statistic", "slice_statistics", "bandwidths", "evidence", "null_distribution"):
        check_finite(getattr(result, name), f"{where}.{name}")
    for member in result.members:
        check_finite(member.statistic, f"{where}: {member.name}.statistic")
    repr(result)
    if " to tell: " in result.verdict:  # too short, or too few
        return
    assert 0.0 < result.pvalue <= 1.0, f"{where}.pvalue is {result.pvalue}"
    for member in result.members:
        assert 0.0 <= member.pvalue <= 1.0, f"{where}: {member}"
