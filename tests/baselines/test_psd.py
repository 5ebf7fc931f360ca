"""The polynomial Stein discrepancy against slow loops, and its level."""

from itertools import combinations_with_replacement

import numpy as np
import pytest

import fastsksd as fs
from fastsksd.baselines.psd import features_with_products, polynomial_features


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


def feature_of_powers(x, s, powers):
    """``A prod_k x_k^powers_k`` at one point."""
    total = 0.0
    for k, power in enumerate(powers):
        others = np.prod([x[c] ** p for c, p in enumerate(powers) if c != k])
        if power >= 1:
            total += power * x[k] ** (power - 1) * others * s[k]
        if power >= 2:
            total += power * (power - 1) * x[k] ** (power - 2) * others
    return total


@pytest.mark.parametrize(("d", "degree"), [(1, 4), (3, 1), (3, 2), (3, 4), (5, 3)])
def test_features_with_products_match_a_loop(d, degree):
    x, s = np.random.default_rng(d).standard_normal((2, 7, d))
    monomials = [
        np.bincount(chosen, minlength=d)
        for j in range(1, degree + 1)
        for chosen in combinations_with_replacement(range(d), j)
    ]
    expected = [[feature_of_powers(x[i], s[i], p) for i in range(7)] for p in monomials]
    found = features_with_products(x, s, degree)
    assert found.shape == (len(monomials), 7)
    np.testing.assert_allclose(sorted(found.tolist()), sorted(expected), rtol=1e-9, atol=1e-10)


def test_products_see_a_wrong_correlation():
    x = np.random.default_rng(0).standard_normal((400, 4))
    x[:, 1] = 0.5 * x[:, 0] + np.sqrt(0.75) * x[:, 1]
    found = [
        fs.gof_test(x, np.negative, method=fs.baselines.PSD(products=products), rng=0)
        for products in (False, True)
    ]
    assert [result.reject() for result in found] == [False, True]
    assert found[1].explain().contributions.mean() == pytest.approx(found[1].statistic)


def test_too_many_products_are_refused():
    x = np.random.default_rng(0).standard_normal((1000, 100))
    with pytest.raises(ValueError, match="`products` makes 176850 features of degree up to 3"):
        fs.gof_test(x, np.negative, method=fs.baselines.PSD(degree=3, products=True), rng=0)


@pytest.mark.parametrize(("degree", "seen"), [(1, False), (2, True)])
def test_a_wrong_variance_needs_the_second_degree(degree, seen):
    x = np.random.default_rng(0).standard_normal((2000, 10)) * np.r_[1.4, np.ones(9)]
    method = fs.baselines.PSD(degree=degree)
    assert fs.gof_test(x, np.negative, method=method, rng=0).reject() == seen


@pytest.mark.parametrize("products", [False, True])
def test_level(products):
    trials, rejections = 400, 0
    method = fs.baselines.PSD(products=products)
    for seed in range(trials):
        x = np.random.default_rng([3, seed]).standard_normal((200, 5))
        rejections += fs.gof_test(x, np.negative, method=method, n_resamples=199, rng=seed).reject()
    # Binomial bounds of 99.9% at 5%.
    assert 8 <= rejections <= 36


def test_bad_degrees():
    with pytest.raises(ValueError, match="`degree` must be between 1 and 10"):
        fs.baselines.PSD(degree=0)
    with pytest.raises(TypeError, match="`products` must be True or False"):
        fs.baselines.PSD(products="all")
    with pytest.raises(ValueError, match="`kernel` does not apply to method='psd'"):
        fs.gof_test(np.eye(3), -np.eye(3), method="psd", kernel="imq")


@pytest.mark.parametrize("products", [False, True])
def test_a_result_says_whether_there_are_products(products):
    x = np.random.default_rng(0).standard_normal((50, 2))
    result = fs.gof_test(x, np.negative, method=fs.baselines.PSD(products=products), rng=0)
    assert f"{'with' if products else 'without'} products, degree 2" in repr(result)
