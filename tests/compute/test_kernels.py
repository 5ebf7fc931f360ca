"""Kernels and bandwidths against slow references."""

import math
from fractions import Fraction

import numba
import numpy as np
import pytest
import reference
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fastsksd as fs
from fastsksd.compute.jit import FLOAT_FLAGS
from fastsksd.compute.medians import median_distance, median_distances
from fastsksd.compute.pointwise import exp_nonpositive, inverse_sqrt, kernel_derivatives

EPS = np.finfo(float).eps


@numba.njit(fastmath=FLOAT_FLAGS)
def all_derivatives(code, t):
    out = np.empty((4, t.size))
    for i in range(t.size):
        out[0, i], out[1, i], out[2, i], out[3, i] = kernel_derivatives(code, t[i])
    return out


@numba.njit(fastmath=FLOAT_FLAGS)
def many_exp(x):
    out = np.empty_like(x)
    for i in range(x.size):
        out[i] = exp_nonpositive(x[i])
    return out


@numba.njit(fastmath=FLOAT_FLAGS)
def many_inverse_sqrt(x):
    out = np.empty_like(x)
    for i in range(x.size):
        out[i] = inverse_sqrt(x[i])
    return out


@pytest.mark.parametrize(("code", "kernel"), [(0, reference.rbf), (1, reference.imq)])
def test_derivatives_match_the_reference(code, kernel):
    t = np.linspace(-8, 8, 321)
    expected = np.array([kernel(value, 1.0) for value in t]).T
    np.testing.assert_allclose(all_derivatives(code, t), expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("code", [0, 1])
def test_derivatives_match_finite_differences(code):
    t, step = np.linspace(-4, 4, 81), 1e-5
    ahead, behind, here = (all_derivatives(code, t + shift) for shift in (step, -step, 0.0))
    np.testing.assert_allclose(here[1:], ((ahead - behind) / (2 * step))[:-1], atol=1e-9)


def test_exp_is_accurate_to_a_few_ulp():
    x = -np.concatenate([np.linspace(0, 40, 20001), np.geomspace(1e-300, 700, 5000)])
    exact = np.array([math.exp(value) for value in x])
    error = np.abs(many_exp(x) / exact - 1)
    assert np.all(error <= 4 * EPS + np.abs(x) * EPS)
    assert many_exp(np.array([0.0, -0.0])).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("x", [-708.5, -1e5, -1e300, -np.inf])
def test_exp_underflows_quietly(x):
    assert 0 <= many_exp(np.array([x]))[0] < 1e-300


def test_inverse_sqrt_is_accurate_to_a_few_ulp():
    x = np.concatenate([np.linspace(1, 100, 20001), np.geomspace(1, 1e300, 5000)])
    assert np.max(np.abs(many_inverse_sqrt(x) * np.sqrt(x) - 1)) <= 4 * EPS


coarse = st.integers(-6, 6).map(float)
fine = st.floats(-1e6, 1e6, allow_nan=False).map(
    lambda value: float(Fraction(value).limit_denominator(10**6))
)


@given(
    arrays(
        float, st.tuples(st.integers(1, 3), st.integers(2, 40)), elements=st.one_of(coarse, fine)
    )
)
@example(np.array([[0.0, 0.0, 0.0, 1.0]]))  # half of the pairs coincide
def test_median_is_exact(y):
    for row, got in zip(y, median_distances(y), strict=True):
        distances = np.abs(row[:, None] - row)[np.triu_indices(row.size, 1)]
        expected = np.median(distances)
        if expected == 0 and distances.max() > 0:
            expected = np.median(distances[distances > 0])
        assert got == expected


@pytest.mark.parametrize("n", [2, 3, 50, 333, 1500])
@pytest.mark.parametrize(
    "law", ["normal", "cauchy", "integers", "clusters", "outlier", "duplicates"]
)
def test_median_is_exact_for_ugly_data(n, law):
    rng = np.random.default_rng(n)
    y = {
        "normal": lambda: rng.standard_normal(n),
        "cauchy": lambda: rng.standard_cauchy(n) ** 3,
        "integers": lambda: rng.integers(0, 3, n).astype(float),
        "clusters": lambda: rng.choice([0.0, 1e6], n) + rng.standard_normal(n),
        "outlier": lambda: np.r_[1e8, rng.standard_normal(n - 1)],
        "duplicates": lambda: np.r_[
            np.zeros(n // 2 + n // 4), rng.standard_normal(n - n // 2 - n // 4)
        ],
    }[law]()
    distances = np.abs(y[:, None] - y)[np.triu_indices(n, 1)]
    expected = np.median(distances)
    if expected == 0 and distances.max() > 0:
        expected = np.median(distances[distances > 0])
    assert median_distances(y[None])[0] == expected


def test_median_of_a_constant_row_is_zero():
    assert median_distances(np.full((1, 7), 3.5))[0] == 0


def test_multivariate_median_is_over_all_pairs():
    x = np.random.default_rng(0).standard_normal((60, 4))
    np.testing.assert_allclose(median_distance(x), reference.median_distance(x), rtol=1e-12)


def test_multivariate_median_survives_duplicates_and_subsamples():
    rng = np.random.default_rng(0)
    x = np.concatenate([np.zeros((90, 3)), rng.standard_normal((10, 3))])
    assert median_distance(x) > 0.3
    big = rng.standard_normal((5000, 3))
    assert median_distance(big) == median_distance(big)
    np.testing.assert_allclose(median_distance(big), median_distance(big[:2000]), rtol=0.05)


def test_bandwidth_given_as_number_or_per_slice():
    y = np.random.default_rng(0).standard_normal((3, 10))
    assert fs.RBF(0.5).bandwidths(y).tolist() == [0.5] * 3
    assert fs.IMQ([1, 2, 3]).bandwidths(y).tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="`bandwidth` has 2 values but there are 3 slices"):
        fs.RBF([1.0, 2.0]).bandwidths(y)
