"""What every public computation does at its door: floating point failures, Ctrl-C, BLAS.

A number that overflows inside becomes an error that names the argument, and where it is large. An
interrupt ends the computation whatever became of it on the way: compiled code may turn it into a
`SystemError`, callbacks of the compiler may swallow it. BLAS has one thread inside (`_strict`).
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import numbers
import signal
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

from ._strict import LenientNumbers, StrictNumbers, restore, settings_now
from ._validate import Overflow, evaluate_score

_P = ParamSpec("_P")
_T = TypeVar("_T")
_FAR = 1e10  # sizes of its column from which on a single entry is to blame
_FAR_OFF = 40  # powers of ten from the size of the samples, beyond which an option is to blame
_interrupts = 0


def door(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Decorate a public function of samples `x` (or `first`) and perhaps a `score`."""

    @functools.wraps(function)
    def guarded(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        with HeardInterrupts():
            try:
                with StrictNumbers():
                    return function(*args, **kwargs)
            except (FloatingPointError, OverflowError, Overflow) as error:
                signature = inspect.signature(function)
                names = [name for name in signature.parameters if name not in ("self", "cls")]
                given = signature.bind_partial(*args, **kwargs).arguments
                samples = next((name for name in ("x", "first") if name in names), names[0])
                raise overflow_in(given, samples) from error

    return guarded


def interruptible(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Decorate a public function that has no samples of its own, or draws: no interrupt is lost."""

    @functools.wraps(function)
    def guarded(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        with HeardInterrupts(), LenientNumbers():
            return function(*args, **kwargs)

    return guarded


class HeardInterrupts:
    """Whatever happens within, an interrupt meanwhile ends in a `KeyboardInterrupt`.

    It may cut short what puts the settings of NumPy and BLAS back, which is then done here. A
    handler of the user's is left alone. (A generator that is a context would be closed, and raise
    in vain, by an interrupt between its `yield` and what is within.)
    """

    def __enter__(self) -> None:
        self._before, self._settings = _interrupts, settings_now()
        self._outermost = (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )
        if self._outermost:
            signal.signal(signal.SIGINT, _interrupt)

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        restore(self._settings)
        if self._outermost:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if _interrupts != self._before and not isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt from error


def _interrupt(number: int, frame: Any) -> None:
    global _interrupts
    _interrupts += 1
    # Where it comes just before or after what is within, no one else does.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    raise KeyboardInterrupt


def overflow_in(arguments: Mapping[str, Any], samples: str) -> Overflow:
    """The error that names the argument, row and column that statistics overflow for.

    `samples` is the name of the argument that holds samples.
    """
    arrays = _arrays_of(arguments, samples)
    bandwidth = getattr(arguments.get("kernel"), "bandwidth", "median")
    if samples in arrays and not isinstance(bandwidth, str):
        size = float(np.abs(arrays[samples]).max()) or 1.0
        bandwidths = np.ravel(np.asarray(bandwidth, dtype=float))
        distances = np.abs(np.log10(bandwidths) - np.log10(size))
        if distances.max() > _FAR_OFF:
            far_off = bandwidths[np.argmax(distances)]
            return Overflow(
                "kernel",
                f"has a bandwidth of {far_off:.0e} for samples of size {size:.0e}: the statistic "
                "overflows",
                remedy="Take one of the size of the samples' differences.",
            )
    extremes = [_extreme(name, array) for name, array in arrays.items()]
    far = [one for one in extremes if one.ratio >= _FAR]
    if far:
        one = max(far)
        return Overflow(
            one.name,
            f"is {one.value:.1e} in row {one.row}, column {one.column}, {one.ratio:.0e} times the "
            "usual size of that column: the statistic overflows",
            remedy="Check that entry.",
        )
    for name, array in arrays.items():
        column = _column_far_off(array)
        if column is not None:
            size = np.abs(array[:, column]).max()
            return Overflow(
                name,
                f"is at most {size:.0e} in column {column}, in units far from those of other "
                "columns: the statistic overflows",
                remedy="Rescale that column, and its scores by the inverse.",
            )
    options = {name: value for name, value in arguments.items() if name not in (*arrays, "rng")}
    for name, value in options.items():
        odd = _odd_number(value)
        if odd is not None:
            return Overflow(name, f"holds {odd}, with which the statistic overflows")
    largest = ", ".join(
        f"of `{one.name}` {one.value:.1e} (row {one.row}, column {one.column})" for one in extremes
    )
    return Overflow(
        samples,
        "or its scores are so large or small that the statistic overflows"
        + (f"; the largest entry is {largest}" if largest else ""),
        remedy="Rescale the samples, and the scores by the inverse.",
    )


def _arrays_of(arguments: Mapping[str, Any], samples: str) -> dict[str, Any]:
    """Samples and scores, as far as they can be had."""
    arrays: dict[str, Any] = {}
    with contextlib.suppress(Exception):
        x = np.asarray(arguments[samples], dtype=float)
        if x.ndim == 2 and x.size:
            arrays[samples] = x
            arrays["score"] = evaluate_score(arguments["score"], x)
    return arrays


def _column_far_off(array: Any) -> int | None:
    """The column of a size whose square is lost, where others are of usual size."""
    sizes = np.abs(array).max(axis=0)
    powers = np.abs(np.log10(np.where(sizes > 0.0, sizes, 1.0)))
    return int(powers.argmax()) if powers.max() > 2 * _FAR_OFF > 2 * powers.min() else None


def _odd_number(value: Any) -> str | None:
    """The first number of an option, or within it, that is no size of anything, in words."""
    if isinstance(value, Mapping):
        found = ((name, _odd_number(one)) for name, one in value.items())
        return next((f"{name!r}: {odd}" for name, odd in found if odd is not None), None)
    if isinstance(value, list | tuple):
        return next(filter(None, map(_odd_number, value)), None)
    if not isinstance(value, numbers.Real) or isinstance(value, bool) or not value:
        return None
    return f"{value:.0e}" if abs(math.log10(abs(value))) > _FAR_OFF else None


class _Extreme(NamedTuple):
    """The largest entry of an array, or the one largest against its column if far out."""

    ratio: float
    name: str
    row: int
    column: int
    value: float


def _extreme(name: str, array: Any) -> _Extreme:
    sizes = np.abs(array)
    with np.errstate(all="ignore"):
        usual = np.median(sizes, axis=0)
        ratios = np.where(usual > 0, sizes / np.where(usual > 0, usual, 1.0), 1.0)
    ratio = float(min(ratios.max(), np.finfo(float).max))
    chosen = ratios if ratio >= _FAR else sizes
    row, column = np.unravel_index(np.argmax(chosen), chosen.shape)
    return _Extreme(ratio, name, int(row), int(column), float(array[row, column]))
