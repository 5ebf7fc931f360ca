"""Chains in stretches: which draws are kept, and that replicates are those of the definition."""

import numpy as np
import pytest
import reference

import fastsksd as fs
from fastsksd.procedure import unsliced
from fastsksd.procedure.lags import Lag
from fastsksd.procedure.moments import moments
from fastsksd.procedure.nulls import Weights, resampling_pvalue
from fastsksd.procedure.stretches import add_to_stretches, consecutive, lay_out, starts_of


def test_one_chain():
    laid = lay_out([20], Lag(5.0, 1, 0, 20.0), 10)
    assert laid.rows.tolist() == [0, 1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15, 16, 17, 18, 19]
    assert laid.stretch.tolist() == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 5
    assert laid.n_first == 8


def test_parts_are_beginnings_and_ends_of_all_chains():
    laid = lay_out([40, 60], Lag(10.0, 2, 0, 100.0), 50)
    head, tail = laid.rows[: laid.n_first], laid.rows[laid.n_first :]
    assert set(head) <= {*range(20), *range(40, 70)}
    assert set(tail) <= {*range(20, 40), *range(70, 100)}
    assert np.all(np.diff(laid.stretch) >= 0) and laid.stretch[-1] == 9
    # No stretch is in both parts, and none in two chains.
    assert laid.stretch[laid.n_first - 1] < laid.stretch[laid.n_first]
    for number in range(10):
        rows = laid.rows[laid.stretch == number]
        assert np.all(np.diff(rows) == 1) and (rows[0] < 40) == (rows[-1] < 40)
    # Two draws of each but the last of a chain are left out.
    assert laid.rows.size == 100 - 2 * 8


def test_short_chains_are_one_stretch_each():
    laid = lay_out([10] * 16, Lag(12.0, 2, 0, 20.0), 80)
    assert laid.rows.size == 160 and laid.n_first == 80 and laid.stretch[-1] == 15
    assert set(np.bincount(laid.stretch)) == {10}


def test_sums_over_stretches():
    stretch = np.repeat([0, 1, 2], [3, 1, 4])
    features = np.random.default_rng(0).standard_normal((2, 8))
    totals = np.zeros((2, 3))
    for block in (slice(0, 2), slice(2, 6), slice(6, 8)):
        add_to_stretches(features[:, block], stretch[block], totals)
    expected = [[row[stretch == k].sum() for k in range(3)] for row in features]
    np.testing.assert_allclose(totals, expected, rtol=1e-12)
    assert starts_of(stretch).tolist() == [0, 3, 4]
    assert consecutive(10, 3).tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert consecutive(10, 1) is None


def test_weights_share_a_sign_within_a_stretch():
    stretch = np.repeat(np.arange(7), 5)
    weights = Weights("wild", 35, 200, stretch=stretch, rng=np.random.default_rng(0))
    rows = weights.matrix()
    assert np.array_equal(rows, weights.by_stretch().matrix()[:, stretch])
    assert set(np.unique(rows)) == {-1.0, 1.0}
    assert abs(np.corrcoef(rows[:, 0], rows[:, 5])[0, 1]) < 0.3


@pytest.mark.parametrize("engine", ["direct", "fourier"])
def test_pvalue_is_that_of_pairs_of_distinct_stretches(engine):
    """Pairs within stretches add the same to the statistic and to all replicates."""
    rng = np.random.default_rng(2)
    x = np.repeat(rng.standard_normal((40, 1)), 6, axis=0) + 0.1 * rng.standard_normal((240, 1))
    slices = fs.Slices([[1.0]], [[1.0]])
    result = fs.gof_test(x, -x, slices=slices, lag=12, n_resamples=199, engine=engine, rng=3)
    rows, stretch = result._samples.rows, result._samples.stretch
    matrix = reference.stein_matrix(
        x[rows], -x[rows], np.ones(1), np.ones(1), "rbf", result.bandwidths[0]
    )
    matrix[stretch[:, None] == stretch] = 0.0
    signs = Weights("wild", rows.size, 199, stretch=stretch, rng=np.random.default_rng(3)).matrix()
    replicates = np.einsum("bi,ij,bj->b", signs, matrix, signs)
    assert result.pvalue == pytest.approx(resampling_pvalue(matrix.sum(), replicates), abs=1e-9)


def test_moments_of_stretches_have_units_of_their_own():
    x = np.random.default_rng(0).standard_normal((60, 2))
    starts = np.arange(0, 60, 5)
    found, whole = moments(x, -x).of_stretches(starts), moments(x, -x)
    sums = whole.features.reshape(4, 2, 12, 5).sum(axis=3)
    np.testing.assert_allclose(
        found.features, sums / np.sqrt((sums**2).mean(axis=2, keepdims=True)), rtol=1e-12
    )


def test_whole_vector_kernels_meet_pairs_of_stretches():
    x = np.random.default_rng(0).standard_normal((90, 3))
    plan_samples = fs.gof_test(x, -x, lag=6, n_resamples=9, rng=0)._samples
    samples = plan_samples._replace(x=x, scores=-x, rows=np.arange(90), stretch=np.arange(90) // 6)
    blocks = unsliced.in_one_metric(samples, None, 1)
    whole = unsliced.WholeVector(0, 90, blocks, [0.5, 1.0])
    weights = Weights("wild", 90, 20, stretch=samples.stretch, rng=np.random.default_rng(1))
    sums, replicates = unsliced._of_stretches(whole, weights)
    expected = whole.sums_and_replicates(weights.matrix())
    np.testing.assert_allclose(sums, expected[0], rtol=1e-10)
    np.testing.assert_allclose(replicates, expected[1], rtol=1e-9, atol=1e-9)
