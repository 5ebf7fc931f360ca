"""Decorators for compiled code, and what compiled code needs of the compiler.

Every compiled function of the package is made by one of three decorators:

``pointwise``  scalar mathematics, inlined into its caller; CPU loops and CUDA kernels share it
``compiled``   serial loops
``parallel``   loops over all threads, called from Python only

None of them assumes that there is no NaN or infinity: the floating point flags are a named subset
of `fastmath`.
"""

import functools
import os
import threading
import types as types_module

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from . import notice, threads
from .cache import keep

# Sums may be reassociated (so that they vectorise) and products contracted; NaN and infinity keep
# their meaning.
FLOAT_FLAGS = {"nsz", "arcp", "contract", "reassoc"}

pointwise = numba.njit(inline="always")
notice.register()


def _cached(**options):
    """Decorator that keeps compiled code on disk."""
    # Nobody calls by way of C, and the wrapper for it takes a twentieth of the time to compile.
    settings = {
        "nogil": True,
        "no_cfunc_wrapper": True,
        "error_model": "numpy",
        "fastmath": FLOAT_FLAGS,
    } | options
    return lambda function: keep(numba.njit(**settings)(function))


compiled = _cached()
_compiled_parallel = _cached(parallel=True)

_entry = threading.RLock()
_layer_is_threadsafe = None
_forked = False


def _after_fork():
    # OpenMP aborts a forked child that starts threads when its parent had some.
    global _entry, _forked
    _entry = threading.RLock()
    threads.after_fork()
    _forked = threads.started()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def parallel(function):
    """Compile `function` with ``prange`` over all threads.

    It is safe to call from several Python threads.

    Numba's "workqueue" threading layer aborts the process when two threads enter it at once, and
    which layer is in use is known only after a first launch. Until a thread-safe layer is seen,
    launches take turns.

    The attribute `serial` is the same function without threads, for work too small to pay for
    waking them (and, on a busy machine, for waiting until all of them get a core). Choose by the
    size of the work, never by the number of threads: the two may round differently.
    """
    dispatcher = _compiled_parallel(function)

    @functools.wraps(function)
    def launch(*args):
        global _layer_is_threadsafe
        if _forked:
            return launch.serial(*args)
        threads.prepare()
        if _layer_is_threadsafe:
            return dispatcher(*args)
        with _entry:
            result = dispatcher(*args)
            if _layer_is_threadsafe is None:
                _layer_is_threadsafe = numba.threading_layer() != "workqueue"
            return result

    launch.dispatcher = dispatcher
    launch.serial = compiled(_renamed(function, function.__name__ + "_serial"))
    return launch


def _renamed(function, name):
    """A copy of `function` with another name.

    Numba's cache tells functions of one file apart by name and line, not by how they are compiled.
    """
    copy = types_module.FunctionType(function.__code__, function.__globals__, name)
    copy.__qualname__ = name
    return copy


@intrinsic
def float_bits(typingctx, x):
    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@intrinsic
def bits_float(typingctx, x):
    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), codegen


@intrinsic
def prefer_wide_vectors(typingctx):
    """Ask LLVM for 512-bit vectors in the enclosing function.

    This is 1.4 times faster where the CPU has them, and changes nothing elsewhere. LLVM avoids them
    by default because early AVX-512 chips lowered their clock. llvmlite has a list of the
    attributes it knows, and this one is not among them, hence the plain `set.add`.
    """

    def codegen(context, builder, signature, args):
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.none(), codegen
