"""Floating point failures name an argument, a row and a column; interrupts are never lost."""

import contextlib
import gc
import inspect
import os
import random
import re
import signal
import sys
import threading
import warnings

import numpy as np
import pytest
from fuzz.rule import limited

import fastsksd as fs
from fastsksd import _blas, _doors, _strict
from fastsksd.compute import threads

X = np.random.default_rng(0).standard_normal((60, 2))
AXES = (np.eye(2), np.eye(2))


@pytest.fixture(autouse=True)
def _interrupts():
    """As in a terminal: a process in the background may ignore interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def with_entry(array, value):
    array = array.copy()
    array[7, 1] = value
    return array


def test_it_is_the_function_that_it_decorates():
    assert fs.gof_test.__name__ == "gof_test"
    assert "n_resamples" in fs.gof_test.__wrapped__.__code__.co_varnames


CALLS = {
    "gof_test": lambda x, s: fs.gof_test(x, s, slices=AXES, rng=0),
    "named sets": lambda x, s: fs.gof_test(x, s, slices={"a": AXES}, rng=0),
    "active slices": lambda x, s: fs.gof_test(x, s, n_slices=1, rng=0),
    "family": lambda x, s: fs.gof_test(x, s, rng=0),
    "spectral": lambda x, s: fs.gof_test(x, s, slices=AXES, null="spectral", rng=0),
    "ksdagg": lambda x, s: fs.gof_test(x, s, method="ksdagg", rng=0),
    "KSD": fs.ksd,
    "PSD": fs.psd,
    "SKSD": lambda x, s: fs.sksd(x, s, AXES),
    "active": fs.active_slices,
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("argument", ["x", "score"])
def test_an_entry_so_large_that_statistics_overflow_is_named(name, argument):
    """Or the result is finite. No NaN, no warning, no p-value from what is left."""
    x, s = X, -X
    if argument == "x":
        x = with_entry(x, 1e305)
    else:
        s = with_entry(s, 1e305)
    try:
        result = CALLS[name](x, s)
    except ValueError as error:
        assert re.match(rf"`{argument}` is .*in row 7, column 1", str(error))
        return
    # A single huge score is no obstacle to pairs one by one.
    assert argument == "score"
    assert name in ("gof_test", "named sets", "active slices", "SKSD")
    if isinstance(result, fs.GofResult):
        assert np.isfinite(result.statistic)
        assert 0.01 < result.pvalue <= 1
    else:
        assert np.isfinite(result)


def test_units_that_overflow_are_told_with_the_largest_entries():
    with pytest.raises(ValueError, match=r"`x` or its scores are so large.*row \d+, column"):
        fs.sksd(1e-200 * X, -1e200 * X, AXES)


def overflows():
    """As functions of users do, with a warning or without, as they set it."""
    return np.float64(1e308) * np.float64(10.0)


def warning_score(x):
    overflows()
    return -x


def with_warnings(items):
    for one in items:
        overflows()
        yield one


class WarningArray:
    """Neither an array nor a list, as a table on disk."""

    shape, dtype, ndim = X.shape, X.dtype, 2

    def __len__(self):
        return len(X)

    def __getitem__(self, rows):
        overflows()
        return X[rows]

    def __array__(self, dtype=None, copy=None):
        overflows()
        return X


class WarningModel(fs.models.Gaussian):
    def sample(self, n, *, rng=None):
        overflows()
        return super().sample(n, rng=rng)


MODEL = WarningModel(np.zeros(2), np.eye(2))
QUICK = dict(slices=AXES, n_resamples=19, rng=0)
USERS = {
    "score": lambda: fs.sksd(X, warning_score, AXES),
    "problems": lambda: fs.gof_batch(with_warnings([(X, -X)]), progress=False, **QUICK),
    "progress": lambda: fs.gof_batch([(X, -X)], progress=lambda *_: overflows(), **QUICK),
    "chunks": lambda: fs.gof_stream(with_warnings([X, X]), np.negative, **QUICK),
    "blocks": lambda: fs.gof_stream(WarningArray(), np.negative, n_resamples=19, rng=0),
    "array": lambda: fs.gof_test(WarningArray(), np.negative, **QUICK),
    "scores": lambda: fs.gof_test(X, WarningArray(), **QUICK),
    "sampler": lambda: fs.gof_test(X, MODEL, method="mmd", n_resamples=19, rng=0),
    "fit": lambda: fs.gof_test(
        X, fit=fs.Refit(lambda x: MODEL, progress=False), slices=AXES, n_resamples=2, rng=0
    ),
    "refits": lambda: fs.gof_test(
        X,
        fit=fs.Refit(fs.models.Gaussian.fit, progress=lambda *_: overflows()),
        slices=AXES,
        n_resamples=2,
        rng=0,
    ),
    "fresh": lambda: fs.learning.SlicedSteinLoss(2, fresh=lambda: (overflows() and X, -X))(X, -X),
    "callback": lambda: fs.refine_slices(
        X, -X, AXES, epochs=1, batch_size=30, callback=lambda *_: overflows(), rng=0
    ),
}


@pytest.mark.parametrize("name", USERS)
def test_warnings_of_the_users_functions_are_theirs(name):
    with pytest.warns(RuntimeWarning, match="overflow"):
        USERS[name]()
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        USERS[name]()


@pytest.mark.parametrize("name", [*CALLS, "fit of a mixture"])
def test_what_vanishes_does_no_harm(name):
    calls = CALLS | {"fit of a mixture": lambda x, s: fs.models.GaussianMixture.fit(x, 2, rng=0)}
    x = with_entry(X, 1e8)  # far from the others, where kernels vanish
    x = X * 0.1 + np.sign(X) * 40 if name == "fit of a mixture" else x
    calls[name](x, -x)
    with np.errstate(all="raise"):
        calls[name](x, -x)


def test_what_vanishes_in_results_does_no_harm():
    x = np.concatenate([X, 0.3 * X])
    with np.errstate(all="raise"):
        result = fs.gof_test(x, np.negative, n_resamples=99, rng=0)
        assert result.summary() and result.explain().pvalues.size and repr(result.effects)
        assert fs.compare(x, {"a": np.negative, "b": lambda x: -1.1 * x}, rng=0).best


def test_a_column_of_vanishing_size_is_named():
    x = X * [1.0, 1e-310]
    with pytest.raises(ValueError, match=r"`x` is at most .* in column 1"):
        fs.gof_test(x, -x, slices=AXES, rng=0)


def swallowed(x):
    with contextlib.suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    return -x


def turned_into_another_error(x):
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise SystemError("returned a result with an exception set") from None


@pytest.mark.parametrize("score", [swallowed, turned_into_another_error])
def test_an_interrupt_ends_the_test_whatever_became_of_it(score):
    with pytest.raises(KeyboardInterrupt):
        fs.gof_test(X, score, slices=AXES, rng=0)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("score", [swallowed, turned_into_another_error])
def test_a_batch_that_is_interrupted_keeps_its_results(score):
    problems = [(X, -X), (X, score), (X, -X)]
    with pytest.raises(fs.BatchInterrupted) as caught:
        fs.gof_batch(problems, slices=AXES, rng=0, progress=False, on_error="return")
    assert [one is not None for one in caught.value.result] == [True, False]
    assert caught.value.result.errors == {}


def test_a_handler_of_the_user_is_left_alone():
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    try:
        result = fs.gof_test(X, swallowed, slices=AXES, rng=0)
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [1]
    assert 0 < result.pvalue <= 1


@pytest.fixture
def no_collector():
    """Python's collector calls others, as Hypothesis, and what they hear raises no error.

    The computation hears it all the same, but Python reports it, and between computations it is
    lost.
    """
    gc.disable()
    yield
    gc.enable()


def test_interrupts_at_random_times_end_in_keyboard_interrupt(no_collector):
    x = np.random.default_rng(1).standard_normal((300, 3))
    fs.gof_test(x, np.negative, rng=0, n_resamples=99)
    for seed in range(15):
        delay = random.Random(seed).uniform(0.0, 0.08)
        timer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            while True:
                fs.gof_test(x, np.negative, rng=0, n_resamples=99)
        timer.join()


def test_interrupts_of_what_a_result_says_end_in_keyboard_interrupt(no_collector):
    x = np.random.default_rng(1).standard_normal((300, 4))
    result = fs.gof_test(x, np.negative, rng=0, n_resamples=99)
    for say in (result.explain, result.summary):
        say()
        for seed in range(10):
            delay = random.Random(seed).uniform(0.0, 0.08)
            timer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))
            with pytest.raises(KeyboardInterrupt):
                timer.start()
                while True:
                    say()
            timer.join()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_on_the_threshold_is_heard(monkeypatch):
    """Just after the handler is there, and before the first line within."""
    real = signal.signal

    def late(number, handler):
        before = real(number, handler)
        if handler is _doors._interrupt:
            signal.raise_signal(signal.SIGINT)
        return before

    monkeypatch.setattr(_doors.signal, "signal", late)
    with pytest.raises(KeyboardInterrupt):
        fs.sksd(X, -X, AXES)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_the_collector_hears_ends_the_test():
    heard = []

    def callback(phase, info):
        if not heard:
            heard.append(phase)
            signal.raise_signal(signal.SIGINT)

    def score(x):
        gc.callbacks.append(callback)
        try:
            gc.collect()
        finally:
            gc.callbacks.remove(callback)
        return -x

    with pytest.raises(KeyboardInterrupt):
        fs.gof_test(X, score, slices=AXES, rng=0)
    assert heard


def interrupted_at(step, call, files):
    """Interrupt a call where Python looks for signals for the n-th time in these files.

    Returns whether there were so many. Python looks when it enters a function, and when one in C
    is done.
    """
    left = step

    def look(frame, event, _):
        nonlocal left
        if event in ("call", "c_return") and frame.f_code.co_filename.endswith(files):
            left -= 1
            if left == 0:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGINT)

    try:
        sys.setprofile(look)
        call()
    except KeyboardInterrupt:
        assert left == 0
    finally:
        sys.setprofile(None)
    return left <= 0


def shared(count=4):
    threads.share(lambda first, last: None, count)


@pytest.mark.parametrize(
    ("call", "files"),
    [
        (lambda: fs.sksd(X, -X, AXES), ("_strict.py", "_doors.py", "_blas.py")),
        (shared, ("threads.py", "threading.py", "thread.py", "_base.py")),
    ],
)
def test_an_interrupt_at_any_step_leaves_everything_as_it_was(call, files, no_collector):
    libraries = _blas.libraries()
    numbers = [one.read() for one in libraries]

    def settings():
        threads = [one.read() for one in libraries]
        return threads, _blas.is_held(), np.geterr(), _strict._callers.get()

    call()
    try:
        for one in libraries:
            one.write(2)
        before = settings()
        step = 1
        while interrupted_at(step, call, files):
            step += 1
            assert settings() == before, step
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
            with limited(10):
                shared()
        assert step > 5
    finally:
        for one, number in zip(libraries, numbers, strict=True):
            one.write(number)


GUARDS = {
    guard(len).__code__
    for guard in (_doors.door, _doors.interruptible, fs.score_difference._guarded)
}
# Records, names, and what compiled code has no part in.
NO_DOOR = {
    "BatchError", "BatchInterrupted", "BatchResult", "Comparison", "Effects", "Explanation", "IMQ",
    "Model", "ModeWeights", "RBF", "Refit", "RefitsInterrupted", "Slices", "interop.Diagnosis",
    "learning.Diverged", "learning.ICAFit", "learning.ICAProblem", "models.Model",
    "score_difference.ScoreDifference", "score_difference.needs_function",
    # Steps of a test, which `gof_test` makes.
    *(f"baselines.{name}" for name in fs.baselines.__all__ if name != "mmd"),
}  # fmt: skip
NO_DOOR_OF_ANY = {
    # Of models, NumPy alone.
    "score", "score_along", "log_density", "from_score", "random", "perturbed", "cov", "covs",
    # Of accumulators, of a result, and of draws.
    "d", "n", "empty", "insisting", "expect", "reject", "verdict", "verdict_at", "unweighted",
    # Of losses, and operators that are made here and applied by doors.
    "state", "restore", "slices", "sensitivity",
}  # fmt: skip


def public_functions():
    """Public functions, and public methods of public classes, by name."""
    parts = {"": fs, "baselines.": fs.baselines, "interop.": fs.interop, "learning.": fs.learning}
    parts |= {"models.": fs.models, "plot.": fs.plot, "score_difference.": fs.score_difference}
    for prefix, module in parts.items():
        for name in module.__all__:
            one = getattr(module, name)
            if inspect.isclass(one):
                for method in dir(one):
                    if method in ("__call__", "_repr_html_") or not method.startswith("_"):
                        yield f"{prefix}{name}", method, inspect.getattr_static(one, method)
            elif inspect.isfunction(one):
                yield f"{prefix}{name}", "", one


def has_door(function):
    while function is not None:
        if getattr(function, "__code__", None) in GUARDS:
            return True
        function = getattr(function, "__wrapped__", None)
    return False


def test_every_public_computation_has_a_door():
    """A new one needs `door` or `interruptible`, or a place in the lists above."""
    lacking = []
    for name, method, found in public_functions():
        function = next(
            (
                getattr(found, part)
                for part in ("__func__", "fget", "func")
                if getattr(found, part, None) is not None
            ),
            found,
        )
        ours = inspect.isfunction(function) and function.__module__.startswith("fastsksd")
        if ours and not has_door(function) and name not in NO_DOOR and method not in NO_DOOR_OF_ANY:
            lacking.append(f"{name}.{method}".rstrip("."))
    assert not lacking


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(multiples=(1.0, 1e-300)), "`multiples` holds 1e-300"),
        (
            dict(n_slices=1, refine={"epochs": 1, "learning_rate": 1e300}),
            r"`refine` holds 'learning_rate': 1e\+300",
        ),
    ],
)
def test_an_option_that_makes_numbers_overflow_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        fs.gof_test(X, np.negative, n_resamples=9, rng=10**200, **options)
