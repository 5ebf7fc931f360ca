"""Floating point failures name an argument, a row and a column; interrupts are never lost."""

import contextlib
import os
import random
import re
import signal
import threading
import warnings

import numpy as np
import pytest

import fastsksd as fs

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


def test_warnings_of_the_users_functions_are_theirs():
    def score(x):
        np.float64(1e308) * np.float64(10.0)
        return -x

    with pytest.warns(RuntimeWarning, match="overflow"):
        fs.sksd(X, score, AXES)
    with np.errstate(over="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        fs.sksd(X, score, AXES)


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


def test_interrupts_at_random_times_end_in_keyboard_interrupt():
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
