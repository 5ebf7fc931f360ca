"""BLAS on one thread inside the package, and as the user has it in functions of the user."""

import contextlib
import os
import signal
import threading

import numpy as np
import pytest

import fastsksd as fs
from fastsksd import _blas
from fastsksd._blas import Library, one_blas_thread

X = np.random.default_rng(0).standard_normal((60, 2))
AXES = (np.eye(2), np.eye(2))
USERS = 3


class Fake:
    """A library of which the user wants three threads."""

    def __init__(self):
        self.count = USERS

    def write(self, count):
        self.count = count


@pytest.fixture
def fakes(monkeypatch):
    """Two libraries, whatever NumPy and SciPy have."""
    both = Fake(), Fake()
    found = tuple(Library(lambda one=one: one.count, one.write) for one in both)
    monkeypatch.setattr(_blas, "libraries", lambda: found)
    return both


@pytest.fixture
def interruptible():
    """As in a terminal: a process in the background may ignore interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def another_thread_inside():
    """Another Python thread holds BLAS on one thread."""
    entered, leave = threading.Event(), threading.Event()

    def other():
        with one_blas_thread():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=other, daemon=True)
    thread.start()
    entered.wait()
    yield
    leave.set()
    thread.join()


def counts(fakes):
    return [one.count for one in fakes]


def test_it_is_one_within_and_the_users_afterwards(fakes):
    with one_blas_thread(), one_blas_thread():
        assert counts(fakes) == [1, 1]
    assert counts(fakes) == [USERS, USERS]


def test_it_is_put_back_when_the_last_python_thread_is_done(fakes):
    with another_thread_inside():
        with one_blas_thread():
            pass
        assert counts(fakes) == [1, 1]
    assert counts(fakes) == [USERS, USERS]


def test_inside_it_is_one_and_in_a_score_what_the_user_has_set(fakes, monkeypatch):
    seen = {"inside": [], "score": []}
    real = fs.discrepancy.evaluate_score

    def inside(*args, **named):
        seen["inside"] += counts(fakes)
        values = real(*args, **named)
        seen["inside"] += counts(fakes)
        return values

    def score(x):
        seen["score"] += counts(fakes)
        fs.sksd(X, -X, AXES)  # a door of its own
        seen["score"] += counts(fakes)
        return -x

    monkeypatch.setattr(fs.discrepancy, "evaluate_score", inside)
    fs.sksd(X, score, AXES)
    assert set(seen["inside"]) == {1}
    assert set(seen["score"]) == {USERS}
    assert counts(fakes) == [USERS, USERS]


def test_scores_of_our_models_have_one_inside_and_the_users_number_outside(fakes, monkeypatch):
    model, seen = fs.models.Gaussian(np.zeros(2), [[1.0, 0.5], [0.5, 1.0]]), []
    real = model._cov.solve
    monkeypatch.setattr(model._cov, "solve", lambda rows: seen.append(counts(fakes)) or real(rows))
    model.score(X)
    fs.sksd(X, model, AXES)
    assert seen == [[USERS, USERS], [1, 1]]


def test_what_the_user_sets_in_a_score_stays(fakes):
    def score(x):
        fakes[0].write(2)
        return -x

    fs.sksd(X, score, AXES)
    assert counts(fakes) == [2, USERS]


def test_fits_and_callbacks_have_the_users_number_too(fakes):
    seen = []
    fs.refine_slices(
        X, -X, AXES, epochs=1, batch_size=30, callback=lambda *_: seen.append(counts(fakes)), rng=0
    )
    fs.gof_test(
        X,
        fit=fs.Refit(
            lambda x: seen.append(counts(fakes)) or fs.models.Gaussian.fit(x), progress=False
        ),
        slices=AXES,
        n_resamples=2,
        rng=0,
    )
    assert len(seen) >= 4
    assert np.all(np.array(seen) == USERS)


def failing(x):
    raise RuntimeError("no score")


def interrupting(x):
    signal.raise_signal(signal.SIGINT)
    return -x


@pytest.mark.parametrize(
    ("score", "error"), [(failing, ValueError), (interrupting, KeyboardInterrupt)]
)
def test_it_is_put_back_after_errors_and_interrupts(fakes, interruptible, score, error):
    with pytest.raises(error):
        fs.sksd(X, score, AXES)
    assert counts(fakes) == [USERS, USERS]
    assert not _blas.is_held()


@pytest.mark.parametrize("when", range(6))
def test_an_interrupt_while_it_is_changed_is_no_obstacle(fakes, interruptible, monkeypatch, when):
    """After each of the six calls: both numbers are read, then lowered, then put back."""
    calls = []

    def interrupted(function):
        def call(*args):
            value = function(*args)
            calls.append(1)
            if len(calls) == when + 1:
                signal.raise_signal(signal.SIGINT)
            return value

        return call

    found = tuple(Library(*map(interrupted, one)) for one in _blas.libraries())
    monkeypatch.setattr(_blas, "libraries", lambda: found)
    with pytest.raises(KeyboardInterrupt):
        fs.sksd(X, -X, AXES)
    assert counts(fakes) == [USERS, USERS]
    assert not _blas.is_held()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_does_not_wait_for_the_parents_threads(fakes):
    with another_thread_inside():
        child = os.fork()
        if child == 0:
            os._exit(0 if counts(fakes) == [USERS, USERS] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_without_openblas_nothing_happens(monkeypatch):
    """Other libraries, as MKL and Accelerate, have none of the functions."""
    real = _blas.libraries.__wrapped__
    monkeypatch.setattr(_blas, "_NAMES", ("no_such_{}_function",))
    assert real() == ()
    monkeypatch.setattr(_blas, "libraries", real)
    assert np.isfinite(fs.sksd(X, np.negative, AXES))


def test_wheels_are_found():
    """Where NumPy and SciPy say that they have OpenBLAS, their numbers of threads can be set."""
    scipy = pytest.importorskip("scipy")
    wheels = 0
    for module in (np, scipy):
        name = module.show_config("dicts")["Build Dependencies"]["blas"]["name"]
        folder = _blas.Path(module.__file__).parent.parent / f"{module.__name__}.libs"
        wheels += "openblas" in name.lower() and folder.exists()
    assert len(_blas.libraries()) >= wheels
    before = [one.read() for one in _blas.libraries()]
    with one_blas_thread():
        assert all(one.read() == 1 for one in _blas.libraries())
    assert [one.read() for one in _blas.libraries()] == before
    assert all(count >= 1 for count in before)
