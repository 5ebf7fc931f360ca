"""What the linear-time engine does with scores that would drown the others."""

import numpy as np
import pytest

import fastsksd as fs


@pytest.mark.parametrize("kernel", ["rbf", "imq"])
@pytest.mark.parametrize("size", [1e5, 1e9, 1e18, 1e60, 1e140])
def test_one_huge_score_is_met_pair_by_pair(kernel, size):
    """Its square would drown all other terms in round-off."""
    x = np.random.default_rng(0).standard_normal((300, 2))
    s = -x.copy()
    s[5, 1] = size
    slices = (np.eye(2), np.eye(2))
    direct, linear = (
        fs.gof_test(x, s, slices=slices, kernel=kernel, engine=engine, rng=0, n_resamples=99)
        for engine in ("direct", "fourier")
    )
    assert linear.engine == "fourier"
    assert linear.pvalue == direct.pvalue
    np.testing.assert_allclose(linear.slice_statistics, direct.slice_statistics, rtol=1e-3)
