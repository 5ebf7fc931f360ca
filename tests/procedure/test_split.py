"""Which samples find slices and which test them."""

import numpy as np
import pytest

import fastsksd as fs
from fastsksd.procedure.plan import Options, make_plan, most_searched
from fastsksd.procedure.split import make_split


def split(x, score, **options):
    return make_split(make_plan(Options(n_slices=1, rng=0, **options), None, *x.shape), x, score)


def test_split_is_a_partition():
    x = np.arange(100.0)[:, None] + np.random.default_rng(0).standard_normal((100, 1)) / 10
    seen = []

    def score(samples):
        seen.append(samples.copy())
        return -samples

    made = split(x, score, train=0.3)
    (part,) = made.parts
    samples, training = made.samples, part.training
    assert (len(training.x), part.stretch, part.n) == (30, slice(30, 100), 70)
    assert (made.n_train, made.n_test) == (30, 70)
    assert np.array_equal(np.sort(samples.x[:, 0]), x[:, 0])
    assert np.array_equal(samples.x, x[samples.rows])
    assert np.array_equal(training.x, samples.x[:30])
    assert np.array_equal(training.x, x[training.rows])
    assert np.array_equal(training.scores, -training.x)
    # In order.
    assert np.all(np.diff(samples.x[30:, 0]) > 0)
    assert np.array_equal(samples.scores, -samples.x)
    # One call of the user's function.
    assert len(seen) == 1


def test_correlated_samples_are_split_in_order():
    x = np.arange(50.0)[:, None]
    for train, first in ((0.2, 10), ("cross", 25)):
        made = split(x, -x, train=train, lag=5)
        # The last draw of every stretch of five is a gap, but for the last of all.
        kept = np.flatnonzero((np.arange(50) % 5 != 4) | (np.arange(50) == 49))
        assert np.array_equal(made.samples.rows, kept)
        assert np.array_equal(made.samples.x, x[kept])
        assert np.array_equal(made.samples.stretch, kept // 5)
        last = made.parts[-1]
        head = kept[kept < first]
        assert np.array_equal(last.training.rows, head)
        assert last.stretch == slice(head.size, kept.size)


def test_cross_fitting_tests_each_half_along_slices_of_the_other():
    x = np.random.default_rng(1).standard_normal((41, 3))
    made = split(x, -x, train="cross")
    ordered, scores = made.samples.x, made.samples.scores
    assert [part.stretch for part in made.parts] == [slice(0, 20), slice(20, 41)]
    assert np.array_equal(made.parts[0].training.x, ordered[20:])
    assert np.array_equal(made.parts[1].training.x, ordered[:20])
    result = fs.gof_test(x, -x, n_slices=2, train="cross", multiples=[1.0], n_resamples=40, rng=0)
    assert (result.n_test, result.n_train) == (41, 41)
    for part in made.parts:
        slices = fs.active_slices(part.training.x, part.training.scores, n_slices=2)
        member = next(member for member in result.members if member.part == part.name)
        np.testing.assert_allclose(
            member.statistic,
            fs.sksd(ordered[part.stretch], scores[part.stretch], slices),
            rtol=1e-10,
        )


@pytest.mark.parametrize(
    ("n", "count"), [(10, 5000), (10_000, 5000), (20_000, 7071), (40_000, 10_000), (10**6, 10_000)]
)
def test_the_search_takes_linear_time(n, count):
    assert most_searched(n) == count


def test_n_train_counts_the_samples_that_were_searched(monkeypatch):
    monkeypatch.setattr("fastsksd.procedure.plan.MOST_TRAINING", 30)
    x = np.random.default_rng(0).standard_normal((100, 3))
    result = fs.gof_test(x, -x, n_resamples=20, rng=0)
    assert (result.n_train, result.n_test) == (76, 100)
    separate = fs.gof_test(x, np.negative, train=x + 1.0, n_resamples=20, rng=0)
    assert (separate.n_train, separate.n_test) == (38, 100)
    counted = fs.gof_test(x, np.negative, train=40, n_resamples=20, rng=0)
    assert (counted.n_train, counted.n_test) == (40, 60)


@pytest.mark.parametrize("train", [0.001, 0.999, 1, 99])
def test_both_parts_need_samples(train):
    x = np.random.default_rng(0).standard_normal((100, 2))
    with pytest.raises(ValueError, match=r"`train` splits 100 samples"):
        split(x, -x, train=train)
