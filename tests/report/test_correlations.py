"""Correlations of samples against those that the model implies."""

import numpy as np
import pytest

from fastsksd.report.correlations import wrong_correlations


def normal(d, rho):
    """Covariance with correlations that decay along the coordinates."""
    return rho ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))


def found(x, precision, chain=None):
    names = tuple(f"x{k}" for k in range(x.shape[1]))
    return wrong_correlations(x, -x @ precision, names, chain)


@pytest.mark.parametrize(("n", "d", "rho"), [(1000, 4, 0.9), (300, 8, 0.0)])
def test_right_samples_have_none(n, d, rho):
    covariance = normal(d, rho)
    root, precision = np.linalg.cholesky(covariance), np.linalg.inv(covariance)
    wrong = 0
    for seed in range(60):
        x = np.random.default_rng(seed).standard_normal((n, d)) @ root.T
        wrong += bool(found(x, precision))
    assert wrong <= 8  # more with probability 0.5% at level 0.05


@pytest.mark.parametrize("truth", [0.95, -0.99, 0.4])
def test_the_model_is_told_whatever_the_units(truth):
    covariance = np.array([[1.0, truth, 0.0], [truth, 1.0, 0.0], [0.0, 0.0, 1.0]])
    unit = np.array([1e-3, 1.0, 1e4])
    precision = np.linalg.inv(covariance) / unit / unit[:, None]
    held = 0
    for seed in range(20):
        x = np.random.default_rng(seed).standard_normal((2000, 3)) * unit
        first, *_ = found(x, precision)
        assert (first.first, first.second) == ("x0", "x1") and abs(first.samples) < 0.15
        held += first.interval[0] <= truth <= first.interval[1]
    assert held >= 17


def test_a_correlation_that_the_model_does_not_have():
    x = np.random.default_rng(0).standard_normal((1500, 3))
    x[:, 2] = 0.6 * x[:, 0] + 0.8 * x[:, 2]
    (pair,) = found(x, np.eye(3))
    assert (pair.first, pair.second) == ("x0", "x2") and pair.samples == pytest.approx(0.6, abs=0.1)
    assert pair.interval[0] < 0.0 < pair.interval[1] or abs(pair.model) < 0.05


def test_what_is_too_little():
    x = np.random.default_rng(0).standard_normal((1500, 2))
    assert found(x[:, :1], np.eye(1)) == () and found(x[:30], np.eye(2)) == ()
    x[:, 1] = 3.0
    assert found(x, np.eye(2)) == ()
    chain = np.repeat([0, 1, 2], 500)
    assert found(np.random.default_rng(1).standard_normal((1500, 2)), np.eye(2), chain) == ()
