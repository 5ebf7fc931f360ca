"""Numbers of NumPy that overflow raise errors, but not those of functions of the user."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import numpy as np

_FAILURES: Any = dict.fromkeys(("over", "invalid", "divide"), "raise")
_callers: ContextVar[Any] = ContextVar("callers", default=None)


@contextlib.contextmanager
def strict_numbers() -> Iterator[None]:
    """Numbers of NumPy that overflow, or are not defined, raise a `FloatingPointError`."""
    token = _callers.set(np.geterr()) if _callers.get() is None else None
    try:
        with np.errstate(**_FAILURES):
            yield
    finally:
        if token is not None:
            _callers.reset(token)


def as_the_caller_has_it() -> contextlib.AbstractContextManager[Any]:
    """Warnings of NumPy as outside of the door, for functions of the user."""
    settings = _callers.get()
    return contextlib.nullcontext() if settings is None else np.errstate(**settings)


def with_these_settings(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with the settings of this thread, for another one."""
    settings: Any = np.geterr()

    def call(*args: Any) -> Any:
        with np.errstate(**settings):
            return function(*args)

    return call
