"""The polynomial Stein discrepancy against slow loops, and its level."""

import numpy as np
import pytest

import fastsksd as fs
from fastsksd.baselines.psd import polynomial_features


def feature(x, s, j):
    """``A x^j`` of one coordinate, A the second-order Langevin Stein operator."""
    second = j * (j - 1) * x ** (j - 2) if j > 1 else 0.0
    return j * x ** (j - 1) * s + second


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_statistic_matches_a_loop(degree):
    rng = np.random.default_rng(0)
    x, s = rng.standard_normal((2, 30, 3))
    total = 0.0
    for i in range(30):
        for k in range(30):
            if i != k:
                for c in range(3):
                    for j in range(1, degree + 1):
                        total += feature(x[i, c], s[i, c], j) * feature(x[k, c], s[k, c], j)
    result = fs.gof_test(x, s, method=fs.baselines.PSD(degree=degree), rng=0)
    np.testing.assert_allclose(result.statistic, total / (30 * 29), rtol=1e-10)
    assert result.explain().contributions.mean() == pytest.approx(result.statistic)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_features_have_mean_zero_under_the_model(degree):
    """Gauss-Hermite quadrature is exact for these polynomials."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(12)
    features = polynomial_features(nodes[:, None], -nodes[:, None], degree)
    np.testing.assert_allclose(features @ weights / weights.sum(), 0.0, atol=1e-12)


@pytest.mark.parametrize(("degree", "seen"), [(1, False), (2, True)])
def test_a_wrong_variance_needs_the_second_degree(degree, seen):
    x = np.random.default_rng(0).standard_normal((2000, 10)) * np.r_[1.4, np.ones(9)]
    method = fs.baselines.PSD(degree=degree)
    assert fs.gof_test(x, np.negative, method=method, rng=0).reject() == seen


def test_level():
    trials, rejections = 400, 0
    for seed in range(trials):
        x = np.random.default_rng([3, seed]).standard_normal((200, 5))
        rejections += fs.gof_test(x, np.negative, method="psd", n_resamples=199, rng=seed).reject()
    # Binomial bounds of 99.9% at 5%.
    assert 8 <= rejections <= 36


def test_bad_degrees():
    with pytest.raises(ValueError, match="`degree` must be between 1 and 10"):
        fs.baselines.PSD(degree=0)
    with pytest.raises(ValueError, match="`kernel` does not apply to method='psd'"):
        fs.gof_test(np.eye(3), -np.eye(3), method="psd", kernel="imq")
