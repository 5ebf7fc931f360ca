"""Many slices and few samples: bandwidths and units of a pair come from other samples."""

import numpy as np
import pytest

import fastsksd as fs
from fastsksd.procedure.other_rows import _units, are_needed


def axes(d):
    return np.eye(d), np.eye(d)


def normal(seed, n, d):
    return np.random.default_rng(seed).standard_normal((n, d))


@pytest.mark.parametrize(
    ("n", "m", "needed"),
    [(10, 1000, True), (50, 3000, True), (300, 5, False), (60, 100, False), (3, 30, False)],
)
def test_when_they_are_needed(n, m, needed):
    assert are_needed(n, m) == needed


@pytest.mark.parametrize(("law", "n"), [("normal", 8), ("Laplace", 8), ("Laplace", 6)])
def test_the_level_holds_with_hundreds_of_slices_for_each_sample(law, n):
    """With one bandwidth and one unit for all pairs 30 to 58% of these tests rejected.

    The scores of a Laplace model are signs. Of four other samples they are often equal, and have no
    unit: with that of all samples 26% of the tests of 6 samples rejected, d = 1000.
    """
    pvalues, d = [], 300
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((n, d)) if law == "normal" else rng.laplace(size=(n, d))
        scores = -x if law == "normal" else -np.sign(x)
        sets = {"axes": axes(d)}
        result = fs.gof_test(
            x, scores, slices=sets, multiples=[2], precondition="diagonal", n_resamples=99, rng=seed
        )
        pvalues.append(result.pvalue)
    assert np.mean(np.array(pvalues) <= 0.05) <= 0.15
    assert np.mean(np.array(pvalues) <= 0.5) <= 0.7


def test_the_level_of_the_family_with_far_more_dimensions_than_samples():
    pvalues = [
        fs.gof_test(normal(k, 8, 200), np.negative, n_resamples=99, rng=k).pvalue for k in range(25)
    ]
    assert np.mean(np.array(pvalues) <= 0.05) <= 0.2


def test_importance_weights_of_few_draws_along_many_slices_are_refused():
    """They have no folds: of 40 draws in 1000 dimensions, 21% of 53 tests rejected."""
    x, w = normal(0, 40, 300), np.linspace(0.6, 1.4, 40)
    for options in ({}, {"slices": axes(300)}):
        with pytest.raises(ValueError, match=r"`weights` leave 38 effective draws for 300 slices"):
            fs.gof_test(x, np.negative, weights=w, n_resamples=19, rng=0, **options)
    given = dict(slices=axes(300), kernel=fs.RBF(1.0))
    assert fs.gof_test(x, np.negative, weights=w, n_resamples=19, rng=0, **given).pvalue > 0
    few = fs.gof_test(x, np.negative, weights=w**20, n_resamples=19, rng=0, slices=axes(300))
    assert "too few" in few.verdict


def test_a_slice_whose_unit_is_not_known_is_left_out_of_the_pair():
    forward, known = np.array([2.0, 0.5, 1.0]), np.array([True, True, False])
    slices = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.8, 0.2], [0.3, 0.0, 0.7]])
    learnt = [(forward, known), (forward, np.ones(3, dtype=bool))]
    one, other = _units(slices, learnt)
    np.testing.assert_allclose(one, [0.5, 0.0, 2.0, 0.0])
    np.testing.assert_allclose(other[:2], [0.5, 1.0])


def test_a_wrong_model_is_still_found():
    x = 0.8 * normal(0, 20, 400)
    assert fs.gof_test(x, np.negative, slices=axes(400), rng=0).pvalue < 0.01


def test_a_bandwidth_that_is_given_needs_none():
    x = normal(0, 8, 100)
    result = fs.gof_test(x, -x, slices=axes(100), kernel=fs.RBF(1.0), rng=0)
    assert result._fold_pairs == ()
    statistic = fs.sksd(x, -x, axes(100), kernel=fs.RBF(1.0))
    assert result.statistic == pytest.approx(statistic)


@pytest.mark.parametrize("options", [{}, {"slices": axes(40)}, {"null": "spectral"}])
def test_explanations_know_the_bandwidths_of_folds(options):
    x = normal(1, 12, 40) * np.r_[0.2, np.ones(39)]
    result = fs.gof_test(x, -x, rng=0, **options)
    assert result._fold_pairs
    explained = result.explain(n_resamples=50)
    np.testing.assert_allclose(explained.statistics, result.slice_statistics)
    mean = explained.contributions.mean()
    assert mean == pytest.approx(result.slice_statistics.sum())


def test_units_do_not_matter():
    x = normal(2, 10, 60)
    units = 2.0 ** np.random.default_rng(0).integers(-20, 20, 60)
    one = fs.gof_test(x, -x, rng=0)
    other = fs.gof_test(x * units, -x / units, rng=0)
    assert other.pvalue == pytest.approx(one.pvalue)
