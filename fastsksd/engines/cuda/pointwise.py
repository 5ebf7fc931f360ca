"""The pointwise mathematics of the package for kernels, in double or in single precision.

In double precision, kernels call the functions that the CPU's loops call. In single precision they
call twins of these: the same code, with its constants rounded to single precision, so that nothing
is promoted, and with the two functions that work on the bits of a double replaced by those of the
device.
"""

import functools
import math
import types as types_module

import numpy as np
from numba import float32

from ...compute.jit import pointwise
from ...compute.pointwise import exp_nonpositive, inverse_sqrt


@pointwise
def _exp_single(x):
    return math.exp(x)


@pointwise
def _inverse_sqrt_single(x):
    return np.float32(1.0) / math.sqrt(x)


_TWINS = {exp_nonpositive: _exp_single, inverse_sqrt: _inverse_sqrt_single}


def in_precision(function, real):
    """A pointwise function for arguments of type `real`."""
    return single(function) if real == float32 else function


@functools.cache
def single(function):
    """The single-precision twin of a pointwise function, and of those it calls."""
    if function in _TWINS:
        return _TWINS[function]
    original = function.py_func
    constants = tuple(
        np.float32(value) if isinstance(value, float) else value
        for value in original.__code__.co_consts
    )
    called = {
        name: original.__globals__[name]
        for name in original.__code__.co_names
        if name in original.__globals__
    }
    called = {
        name: single(value) if hasattr(value, "py_func") else value
        for name, value in called.items()
    }
    twin = types_module.FunctionType(
        original.__code__.replace(co_consts=constants),
        called | {"__builtins__": __builtins__},
        original.__name__ + "_single",
    )
    return pointwise(twin)
