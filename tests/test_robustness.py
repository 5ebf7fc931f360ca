"""What once went wrong: scores that work in place, forks, read-only folders, round-off."""

import multiprocessing
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import fastsksd as fs
from fastsksd import models

X = np.random.default_rng(0).standard_normal((80, 4))
SLICES = fs.Slices(np.eye(4), np.eye(4))


def in_place(x):
    x *= -1
    return x


class ReusedBuffer:
    def __init__(self):
        self.buffer = np.empty((1000, 4))

    def __call__(self, x):
        out = self.buffer[: x.shape[0]]
        np.negative(x, out=out)
        return out


@pytest.mark.parametrize("score", [in_place, ReusedBuffer()])
def test_scores_that_reuse_memory(score):
    x = X.copy()
    assert fs.sksd(x, score, SLICES) == fs.sksd(x, np.negative, SLICES)
    assert fs.ksd(x, score) == fs.ksd(x, np.negative)
    assert (
        fs.gof_test(x, score, n_resamples=20, rng=0).pvalue
        == fs.gof_test(x, np.negative, n_resamples=20, rng=0).pvalue
    )
    r = np.eye(4)[0]
    np.testing.assert_allclose(
        models.Model.from_score(score).score_along(x, r), np.tile(-r, (80, 1)), atol=1e-6
    )
    assert np.array_equal(x, X)


def child(queue):
    queue.put(fs.gof_test(X, np.negative, n_resamples=20, rng=0).pvalue)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings(
    "ignore:os.fork:RuntimeWarning"
)  # JAX, where other tests loaded it, fears for its threads
def test_a_forked_child_can_test():
    expected = fs.gof_test(X, np.negative, n_resamples=20, rng=0).pvalue
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    assert queue.get(timeout=120) == expected
    process.join(timeout=30)
    assert process.exitcode == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_forked_after_the_threads_of_another_library_can_test():
    program = """
        import os
        import numba, numpy as np
        import fastsksd as fs

        @numba.njit(parallel=True)
        def others(x):
            for i in numba.prange(x.size):
                x[i] += 1.0

        others(np.zeros(100))
        x = np.random.default_rng(0).standard_normal((100, 3))
        pid = os.fork()
        fs.gof_test(x, np.negative, n_resamples=20, method="ksd", rng=0)
        if pid == 0:
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.split() == ["0"], done.stderr


def test_import_where_nothing_can_be_cached():
    program = """
        import numba.core.caching as caching
        caching.CacheImpl._locator_classes = []
        import tempfile
        tempfile.tempdir = "/dev/null/nowhere"
        import numpy as np, fastsksd as fs
        print(fs.sksd(np.eye(3), -np.eye(3), fs.Slices(np.eye(3), np.eye(3))))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("constant", [0.0, 1e-3, 0.1, 5.0, 1e6])
def test_a_constant_column_is_named(constant):
    x = X.copy()
    x[:, 2] = constant
    with pytest.raises(ValueError, match="`x` does not vary in column 2, along"):
        fs.gof_test(x, np.negative, slices=(np.eye(4), np.eye(4)), n_resamples=10, rng=0)
    with pytest.raises(ValueError, match=r"`x` does not vary in column 2, .* Drop the column, or"):
        fs.gof_test(x, np.negative, n_resamples=10, rng=0)
    x = NamedColumns(x, ["mu", "tau", "fixed", "nu"])
    with pytest.raises(ValueError, match="`x` does not vary in column 'fixed', along"):
        fs.gof_test(x, np.negative, n_resamples=10, rng=0)


@pytest.mark.parametrize(
    "options",
    [{}, {"precondition": "full"}, {"precondition": "raw"}, {"n_slices": 2}, {"basis": "identity"}],
)
def test_a_constant_column_is_refused_wherever_slices_are_found(options):
    x = X.copy()
    x[:, 2] = 0.1
    with pytest.raises(ValueError, match=r"column 2, .* as in `kernel=fs.RBF\(1.0\)`"):
        fs.gof_test(x, np.negative, n_resamples=10, rng=0, **options)
    result = fs.gof_test(x, np.negative, kernel=fs.RBF(1.0), n_resamples=20, rng=0, **options)
    assert 0 < result.pvalue <= 1


@pytest.mark.parametrize("train", [None, "cross"])
@pytest.mark.parametrize("options", [{}, {"n_slices": 2}, {"n_slices": 4}, {"basis": "identity"}])
@pytest.mark.parametrize("columns", [[2], [0, 1]])
def test_columns_that_depend_on_each_other_are_tested_at_every_seed(columns, options, train):
    for seed in range(20):
        x = with_dependent_column(columns, seed)
        result = fs.gof_test(x, -x, train=train, n_resamples=20, rng=seed, **options)
        assert 0 < result.pvalue <= 1
        assert np.all(np.std(x @ result.slices.g.T, axis=0) > 1e-3)


@pytest.mark.parametrize("columns", [[2], [0, 1]])
def test_the_limit_distribution_with_columns_that_depend_on_each_other(columns):
    for seed in range(20):
        x = with_dependent_column(columns, seed)
        assert 0 < fs.gof_test(x, -x, null="spectral", rng=seed).pvalue <= 1


def test_active_slices_lie_where_samples_vary():
    """A direction without samples has an eigenvalue of zero, and noise may have smaller ones."""
    for seed in range(20):
        x = with_dependent_column([2], seed)
        for options in ({}, {"n_slices": 2}, {"basis": "identity"}):
            slices = fs.active_slices(x[:15], np.negative, **options)
            assert np.all(np.std(x @ slices.g.T, axis=0) > 1e-3)


def with_dependent_column(columns, seed):
    x = np.random.default_rng(seed).standard_normal((60, 4))
    x[:, 3] = x[:, columns].sum(axis=1)
    return x


def test_given_slices_without_variation_name_the_columns():
    x = X.copy()
    x[:, 3] = x[:, 0] + x[:, 1]
    flat = np.array([[1.0, 1.0, 0.0, -1.0]]) / np.sqrt(3.0)
    message = r"`x` has columns 0, 1, 3, which are equal or linearly dependent"
    with pytest.raises(ValueError, match=message):
        fs.gof_test(x, np.negative, slices=(flat, flat), n_resamples=10, rng=0)


class NamedColumns:
    """What the names of a data frame's columns need."""

    def __init__(self, values, columns):
        self.values, self.columns = values, columns

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype)


def test_fewer_samples_than_dimensions_leave_nothing_to_rounding():
    x = np.random.default_rng(3).standard_normal((250, 100))
    x[:, 0] *= 0.6
    results = [
        fs.gof_test(
            x,
            lambda z, e=e: -z * (1 + e * np.sign(np.sin(1e3 * z))),
            n_slices=3,
            n_resamples=50,
            rng=1,
        )
        for e in (0.0, 1e-15, -1e-15)
    ]
    assert np.ptp([result.statistic for result in results]) < 1e-6
    found = fs.active_slices(x[:20], -x[:20])
    assert len(found) < 100 and np.all(np.abs(found.r_values) > 1e-12 * found.r_values.max())


def test_units_do_not_matter():
    plain = fs.gof_test(X, np.negative, n_resamples=50, rng=0)
    for c in (1e-8, 1e3, 1e8):
        scaled = fs.gof_test(c * X, lambda x, c=c: -x / c**2, n_resamples=50, rng=0)
        assert scaled.pvalue == plain.pvalue
        np.testing.assert_allclose(
            scaled.members[0].statistic, plain.members[0].statistic, rtol=1e-6
        )


@pytest.mark.parametrize("power", [-220, 220])
@pytest.mark.parametrize("estimator", ["ke", "ksd", "ge"])
def test_nor_do_units_of_any_size(estimator, power):
    # A power of two changes no digit, but directions are brought back to unit length once more.
    c = 2.0**power
    options = dict(estimator=estimator, n_slices=2, train=40, n_resamples=50, rng=0)
    plain, scaled = (
        fs.gof_test(X, lambda x: -0.5 * x, **options),
        fs.gof_test(c * X, lambda x: -0.5 * (x / c) / c, **options),
    )
    assert scaled.pvalue == plain.pvalue
    np.testing.assert_allclose(
        scaled.slices.g, plain.slices.g, rtol=0.0, atol=1e-4 if estimator == "ge" else 1e-15
    )
    # Such units are replaced by those of the samples, which the statistic is in.
    np.testing.assert_allclose(scaled.statistic, plain.statistic, rtol=1e-6)


@pytest.mark.parametrize("size", [1e-59, 1e59])
@pytest.mark.parametrize("method", ["ksd", "ksdagg"])
def test_units_of_the_ordinary_tests(method, size):
    """They take these. The published widths of KSDAgg are in the units of x, which decide there."""

    def tested(c):
        return fs.gof_test(c * X, lambda x: -0.5 * (x / c) / c, method=method, rng=0)

    found = tested(size)
    assert 0.0 < found.pvalue <= 1.0 and np.isfinite(found.statistic)
    assert method == "ksdagg" or found.pvalue == tested(1.0).pvalue
    with pytest.raises(ValueError, match=r"`x` varies by about .* 1e-60 to 1e"):
        tested(size**1.2)


def test_objects_do_not_change_with_the_arrays_they_were_made_from():
    r, h = np.eye(2), np.array([1.0, 2.0])
    slices, kernel = fs.Slices(r, r), fs.RBF(h)
    r *= 2
    h *= 2
    assert np.array_equal(slices.r, np.eye(2)) and np.array_equal(kernel.bandwidth, [1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        slices.r[0, 0] = 3.0


class WrongAlong(models.Model):
    d = 4

    def score(self, x):
        return -x

    def score_along(self, x, r):
        return np.ones(3)


CASES = {
    "lag beyond the samples": (
        lambda: fs.gof_test(X, np.negative, lag=1e5, rng=0),
        "`lag` must be at most half",
    ),
    "estimator with slices": (
        lambda: fs.gof_test(X, np.negative, slices=SLICES, estimator="ge"),
        "`slices` are given",
    ),
    "estimator object in a split": (
        lambda: fs.gof_test(X, np.negative, estimator=fs.score_difference.KernelSmoothed(X, -X)),
        "`estimator` must be one of",
    ),
    "estimator of other samples": (
        lambda: fs.active_slices(
            X, -X, estimator=fs.score_difference.KernelSmoothed(X[:50], -X[:50])
        ),
        "`estimator` was made from other samples",
    ),
    "psd of two samples": (lambda: fs.psd(X[:2], -X[:2]), "`x` must hold at least 3 samples"),
    "a smoothing width per slice": (
        lambda: fs.active_slices(X, -X, kernel=fs.RBF([1.0, 2.0])),
        "`kernel` of the score difference",
    ),
    "score_along of another shape": (
        lambda: fs.active_slices(X, WrongAlong(), estimator="ge"),
        "`score.score_along` must return",
    ),
    "row numbers are those of x": (
        lambda: fs.gof_test(X, np.where(np.arange(80)[:, None] == 16, np.nan, -X), rng=0),
        r"`score` holds NaN or infinity in 1 of 80 rows \(row 16\)",
    ),
    "row numbers of a function are those of x": (
        lambda: fs.gof_test(X, lambda x: np.where(x[:, :1] == X[16, 0], np.nan, -x), rng=0),
        r"`score` returned NaN or infinity in 1 of 80 rows \(row 16\)",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_misuse_is_explained(case):
    call, message = CASES[case]
    with pytest.raises(ValueError, match=message):
        call()


def test_masked_arrays_are_refused():
    with pytest.raises(TypeError, match="`x` is a masked array"):
        fs.sksd(np.ma.masked_less(X, -1), -X, SLICES)


def test_columns_of_very_different_units():
    x = np.random.default_rng(0).standard_normal((200, 2))
    scale = np.array([1.0, 1e14])
    options = dict(slices=fs.Slices(np.eye(2)[:1], np.eye(2)[:1]), n_resamples=99, rng=0)
    plain, other = (
        fs.gof_test(x, -x, **options),
        fs.gof_test(x * scale, lambda x: -x / scale**2, **options),
    )
    assert other.pvalue == plain.pvalue
