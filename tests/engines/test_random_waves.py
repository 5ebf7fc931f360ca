"""Random frequencies and the linear kernel: sums over groups against loops over pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastsksd.engines.random_waves import (
    frequencies,
    linear_parts,
    linear_sums,
    wave_parts,
    wave_sums,
)

EDGES = np.array([0, 3, 4, 9], dtype=np.int64)
N = 9


def wave_matrix(x, s, waves):
    """``mean_w [ s.s' k + s.grad' k + s'.grad k + tr grad grad' k ]`` with k = cos(w.(x - x'))."""
    n, d = x.shape
    parts = np.zeros((d, n, n))
    for i in range(n):
        for j in range(n):
            for w in waves:
                t = w @ (x[i] - x[j])
                for k in range(d):
                    parts[k, i, j] += (
                        s[i, k] * s[j, k] * np.cos(t)
                        + s[i, k] * w[k] * np.sin(t)
                        - s[j, k] * w[k] * np.sin(t)
                        + w[k] ** 2 * np.cos(t)
                    ) / len(waves)
    return parts


def linear_matrix(x, s):
    n, d = x.shape
    parts = np.zeros((d, n, n))
    for i in range(n):
        for j in range(n):
            for k in range(d):
                parts[k, i, j] = (
                    s[i, k] * s[j, k] * (x[i] @ x[j]) + s[i, k] * x[i, k] + s[j, k] * x[j, k] + 1.0
                )
    return parts


def check(sums, parts, by_coordinate):
    matrix = parts.sum(axis=0)
    off = matrix - np.diag(np.diagonal(matrix))
    scale = dict(rtol=1e-9, atol=1e-9 * np.abs(matrix).sum())
    np.testing.assert_allclose(sums.total(), off.sum(), **scale)
    weights = np.random.default_rng(0).standard_normal((4, 3))
    group = np.repeat(np.arange(3), np.diff(EDGES))
    apart = matrix * (group[:, None] != group)
    expected = np.einsum("bi,ij,bj->b", weights[:, group], apart, weights[:, group])
    np.testing.assert_allclose(sums.replicates(weights), expected, **scale)
    np.testing.assert_allclose(
        by_coordinate, [part.sum() - np.trace(part) for part in parts], **scale
    )


@given(seed=st.integers(0, 2**20), d=st.integers(1, 4))
def test_wave_sums_match_loops(seed, d):
    rng = np.random.default_rng(seed)
    x, s = rng.standard_normal((2, N, d))
    waves = rng.standard_normal((3, d))
    sums = wave_sums(x, s, waves, EDGES)
    check(sums, wave_matrix(x, s, waves), wave_parts(sums, s, waves))


@given(seed=st.integers(0, 2**20), d=st.integers(1, 4))
def test_linear_sums_match_loops(seed, d):
    rng = np.random.default_rng(seed)
    x, s = rng.standard_normal((2, N, d))
    check(linear_sums(x, s, EDGES, 100, 0), linear_matrix(x, s), linear_parts(x, s))


def test_combinations_of_many_features_are_unbiased():
    rng = np.random.default_rng(0)
    x, s = rng.standard_normal((2, N, 4))
    exact = linear_sums(x, s, EDGES, 100, 0).total()
    drawn = [linear_sums(x, s, EDGES, 15, seed).total() for seed in range(400)]
    assert abs(np.mean(drawn) - exact) < 4 * np.std(drawn) / np.sqrt(400)


@pytest.mark.parametrize("code", [0, 1])
def test_frequencies_are_those_of_the_kernel(code):
    waves = frequencies(code, 200_000, 2, np.random.default_rng(0))
    for t in (np.array([0.3, 0.0]), np.array([1.0, -0.7]), np.array([2.0, 1.0])):
        square = t @ t
        kernel = np.exp(-square / 2) if code == 0 else (1 + square) ** -0.5
        assert abs(np.cos(waves @ t).mean() - kernel) < 0.01
