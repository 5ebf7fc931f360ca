"""Streams whose samples lie in many cells: the work is known beforehand."""

import numpy as np
import pytest

import fastsksd as fs
from fastsksd.scale import accumulator

LINE = (np.eye(1), np.eye(1))


def normal(seed, n):
    return np.random.default_rng(seed).standard_normal((n, 1))


def test_a_tiny_cluster_under_the_imq_kernel_is_refused_at_once():
    """Every distance between two cells is a series; here there are tens of thousands."""
    x = np.concatenate([1e-6 * normal(0, 2000), normal(1, 300)])
    with pytest.raises(ValueError, match=r"`kernel` is narrow for samples with heavy tails"):
        fs.gof_stream(x, np.negative, slices=LINE, kernel="imq", rng=0)


def test_a_sample_beyond_the_numbers_of_cells_is_named():
    x = normal(0, 200)
    far = x.copy()
    far[3] = 1e25
    total = fs.Accumulator(LINE, x)
    with pytest.raises(ValueError, match=r"`x` is 1.0e\+25 in row 3, column 0"):
        total.add(far, -x)
    assert total.n == 0


def test_few_samples_along_many_slices_have_a_small_matrix():
    """As many eigenvalues as samples, and those that all features have."""
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
    assert found.size == 12
    assert total.result(rng=0).pvalue == pytest.approx(fourier.pvalue, abs=1e-6)


def test_too_many_slices_are_said_to_be_too_many(monkeypatch):
    monkeypatch.setattr(accumulator, "_MOST_FEATURES", 50)
    x = np.random.default_rng(0).standard_normal((60, 10))
    with pytest.raises(ValueError, match=r"`slices` are 10, .* matrix of \d+ rows"):
        fs.gof_stream(x, np.negative, slices=(np.eye(10), np.eye(10)), rng=0)
