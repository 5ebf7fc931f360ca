"""Streams whose samples lie in many cells: the work is known beforehand."""

import time

import numpy as np
import pytest

import fastsksd as fs
from fastsksd.compute.linalg import gram
from fastsksd.engines.waves import feature_block
from fastsksd.scale import accumulator, cell_moments

LINE = (np.eye(1), np.eye(1))


def normal(seed, n):
    return np.random.default_rng(seed).standard_normal((n, 1))


def test_a_tiny_cluster_under_the_imq_kernel_is_refused_at_once():
    """Every distance between two cells is a series; here there are tens of thousands."""
    x = np.concatenate([1e-6 * normal(0, 2000), normal(1, 300)])
    with pytest.raises(ValueError, match=r"`kernel` is narrow for samples with heavy tails"):
        fs.gof_stream(x, np.negative, slices=LINE, kernel="imq", rng=0)


@pytest.mark.parametrize("size", [1e-3, 2e-3])
def test_a_cluster_takes_seconds_or_is_refused(size):
    x = np.concatenate([size * normal(0, 5000), normal(1, 1500)])
    start = time.process_time()
    try:
        result = fs.gof_stream(x, np.negative, slices=LINE, kernel="imq", rng=0)
    except ValueError as error:
        assert str(error).startswith("`kernel` is narrow for samples with heavy tails")
    else:
        assert result.reject()
    assert time.process_time() - start < 8


def test_couplings_of_all_cells_are_those_of_pairs():
    """Against every pair of samples, with cells at many distances on both sides."""
    x = np.concatenate([0.02 * normal(0, 60), 3.0 * normal(1, 60)])
    kernel = fs.IMQ(0.05)
    total = fs.Accumulator(LINE, x, kernel=kernel).add(x, -x)
    assert len(total._sums) > 10
    exact = fs.gof_test(x, -x, slices=LINE, kernel=kernel, null="spectral", engine="direct", rng=0)
    np.testing.assert_allclose(total.statistics.sum(), exact.statistic, rtol=1e-6)
    np.testing.assert_allclose(total.result(rng=0).pvalue, exact.pvalue, rtol=1e-5)


def test_a_sample_beyond_the_numbers_of_cells_is_named():
    x = normal(0, 200)
    far = x.copy()
    far[3] = 1e25
    total = fs.Accumulator(LINE, x)
    with pytest.raises(ValueError, match=r"`x` is 1.0e\+25 in row 3, column 0"):
        total.add(far, -x)
    assert total.n == 0


def test_few_samples_along_many_slices_have_a_small_matrix():
    """As many eigenvalues as centred samples have directions, those that all features have."""
    x = np.random.default_rng(0).standard_normal((12, 40))
    total = fs.Accumulator((np.eye(40), np.eye(40)), x).add(x, -x)
    found = np.sort(total.spectrum())[::-1]
    fourier = fs.gof_test(
        x,
        -x,
        slices=(np.eye(40), np.eye(40)),
        kernel=fs.RBF(total._grid.h),
        null="spectral",
        engine="fourier",
        rng=0,
    )
    assert found.size == 11
    assert total.result(rng=0).pvalue == pytest.approx(fourier.pvalue, abs=1e-6)


def test_too_many_slices_are_said_to_be_too_many(monkeypatch):
    monkeypatch.setattr(accumulator, "_MOST_FEATURES", 50)
    x = np.random.default_rng(0).standard_normal((60, 10))
    with pytest.raises(ValueError, match=r"^`slices` are 10, .* matrix of more than 50 rows"):
        fs.gof_stream(x, np.negative, slices=(np.eye(10), np.eye(10)), rng=0)


def test_slices_are_too_many_before_their_moments_are_made(monkeypatch):
    """An accumulator goes on for its statistics; a stream ends."""

    def made(*args):
        raise AssertionError("moments that nobody will use")

    x = np.random.default_rng(0).standard_normal((100, 250))
    every = (np.eye(250), np.eye(250))
    monkeypatch.setattr(accumulator.CellMoments, "add", made)

    with pytest.raises(ValueError, match="`slices` are 250"):
        fs.gof_stream(x, np.negative, slices=every, rng=0)
    total = fs.Accumulator(every, x).add(x, -x).add(x, -x)
    exact = fs.sksd(np.tile(x, (2, 1)), -np.tile(x, (2, 1)), every, kernel=fs.RBF(total._grid.h))
    np.testing.assert_allclose(total.statistics.sum(), exact, rtol=1e-5)
    with pytest.raises(ValueError, match="`slices` are 250"):
        total.result()


def test_moments_beyond_the_memory_are_not_made(monkeypatch):
    monkeypatch.setattr(cell_moments, "_MOST_NUMBERS", 10_000)
    x = np.random.default_rng(0).standard_cauchy((500, 3))
    total = fs.Accumulator((np.eye(3), np.eye(3)), x).add(x, -x)
    assert np.all(np.isfinite(total.statistics))
    with pytest.raises(ValueError, match=r"in \d+ cells: .* more than 2 GB"):
        total.result()


@pytest.mark.parametrize("block", [40, 8192])
@pytest.mark.parametrize("draw", ["standard_normal", "standard_cauchy"])
def test_moments_are_those_of_the_features_in_all_cells(draw, block, monkeypatch):
    """Against one long vector of features for each sample, zero in all cells but its own."""
    monkeypatch.setattr(accumulator, "_BLOCK", block)
    monkeypatch.setattr(cell_moments, "_STRIP", 30)
    x = getattr(np.random.default_rng(5), draw)((120, 4))
    score = -2.0 * x / (1.0 + x * x)
    total = fs.Accumulator((np.eye(4), np.eye(4)), x)
    for some in (slice(0, 50), slice(50, 51), slice(51, 120)):
        total.add(x[some], score[some])
    grid = total._grid
    y = ((x - grid.middle) / grid.h).T
    widths = np.array(grid.widths)[:, None]
    cells = np.floor(y / widths + 0.5).astype(int)
    features = feature_block(y - cells * widths, score.T.copy(), 1.0 / grid.h, *grid.layout())
    keys = sorted({(q, int(cell)) for q in range(4) for cell in cells[q]})
    assert keys == sorted(total._sums) and (draw == "standard_normal" or len(keys) > 4)
    apart = [features[grid.rows(q)] * (cells[q] == cell) for q, cell in keys]
    basis = {key: np.eye(len(one)) for key, one in zip(keys, apart, strict=True)}
    expected = np.concatenate(apart)
    np.testing.assert_allclose(
        total._moments.reduced(basis), expected @ expected.T, rtol=1e-9, atol=1e-12
    )
    sums = np.concatenate([total._sums[key] for key in keys])
    np.testing.assert_allclose(sums, expected.sum(axis=1), rtol=1e-9, atol=1e-12)


def test_many_slices_cost_little_more_than_one_product_of_their_features():
    """Samples in other cells, some along each of a hundred slices, do not count for more."""
    x = np.random.default_rng(0).standard_normal((2000, 100))
    slices = (np.eye(100), np.eye(100))
    fs.gof_stream(x[:50, :3], np.negative, slices=(np.eye(3), np.eye(3)))
    start = time.process_time()
    result = fs.gof_stream(x, np.negative, slices=slices, rng=0)
    taken, start = time.process_time() - start, time.process_time()
    gram(np.ones((4600, 2000)))
    assert taken < 3.5 * (time.process_time() - start)  # it was 5.3, and is 1.8
    assert result.pvalue == pytest.approx(0.3993767, abs=1e-6)


def test_samples_far_from_the_first_are_said_to_be_far_from_them():
    total = fs.Accumulator(LINE, 1e-20 * normal(0, 50))
    with pytest.raises(ValueError, match=r"`x` lies at least .* away from .*`first`") as error:
        total.add(normal(1, 50), np.negative)
    assert "escale" not in str(error.value) and total.n == 0
