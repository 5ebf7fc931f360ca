"""Kernels, their derivatives and the vectorising functions against slow references."""

import math

import numba
import numpy as np
import pytest
import reference

from fastsksd.compute.jit import FLOAT_FLAGS
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
