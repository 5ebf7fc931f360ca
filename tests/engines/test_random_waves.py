"""Random frequencies and the linear kernel: sums over groups against loops over pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastsksd.engines.random_waves import LinearFeatures, WaveFeatures, frequencies

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


def check(features, x, s, parts):
    matrix = parts.sum(axis=0)
    off = matrix - np.diag(np.diagonal(matrix))
    scale = dict(rtol=1e-9, atol=1e-9 * np.abs(matrix).sum())
    sums, own = features.group_sums(x, s, EDGES)
    total = sums.sum(axis=0)
    np.testing.assert_allclose(features.pair_sums(total, own, N), [off.sum()], **scale)
    weights = np.random.default_rng(0).standard_normal((4, 3))
    group = np.repeat(np.arange(3), np.diff(EDGES))
    apart = matrix * (group[:, None] != group)
    expected = np.einsum("bi,ij,bj->b", weights[:, group], apart, weights[:, group])
    np.testing.assert_allclose(features.replicates(sums, own, N, weights), expected, **scale)
    np.testing.assert_allclose(
        features.coordinate_sums(total, own),
        [part.sum() - np.trace(part) for part in parts],
        **scale,
    )


@given(seed=st.integers(0, 2**20), d=st.integers(1, 4))
def test_waves_match_loops(seed, d):
    rng = np.random.default_rng(seed)
    x, s = rng.standard_normal((2, N, d))
    waves = rng.standard_normal((3, d))
    check(WaveFeatures(waves), x, s, wave_matrix(x, s, waves))


def test_long_groups_are_cut_for_threads():
    x, s = np.random.default_rng(0).standard_normal((2, 5000, 2))
    features = WaveFeatures(np.random.default_rng(1).standard_normal((3, 2)))
    few, own = features.group_sums(x, s, np.array([0, 1, 2500, 5000]))
    many, same = features.group_sums(x, s, np.array([0, 1, *range(100, 5001, 100)]))
    np.testing.assert_allclose(few[1], many[1:26].sum(axis=0), atol=1e-9)
    np.testing.assert_allclose(few[2], many[26:].sum(axis=0), atol=1e-9)
    np.testing.assert_allclose(own, same)


@given(seed=st.integers(0, 2**20), d=st.integers(1, 4))
def test_linear_features_match_loops(seed, d):
    rng = np.random.default_rng(seed)
    x, s = rng.standard_normal((2, N, d))
    check(LinearFeatures(d, 100, 0), x, s, linear_matrix(x, s))


def linear_total(x, s, most, seed):
    features = LinearFeatures(x.shape[1], most, seed)
    sums, own = features.group_sums(x, s, EDGES)
    return features.pair_sums(sums.sum(axis=0), own, N)[0]


def test_combinations_of_many_features_are_unbiased():
    rng = np.random.default_rng(0)
    x, s = rng.standard_normal((2, N, 4))
    exact = linear_total(x, s, 100, 0)
    drawn = [linear_total(x, s, 15, seed) for seed in range(400)]
    assert abs(np.mean(drawn) - exact) < 4 * np.std(drawn) / np.sqrt(400)
    parts = linear_matrix(x, s)
    features = LinearFeatures(4, 15, 0)
    sums, own = features.group_sums(x, s, EDGES)
    np.testing.assert_allclose(
        features.coordinate_sums(sums.sum(axis=0), own),
        [part.sum() - np.trace(part) for part in parts],
    )


@pytest.mark.parametrize("code", [0, 1])
def test_frequencies_are_those_of_the_kernel(code):
    waves = frequencies(code, 200_000, 2, np.random.default_rng(0))
    for t in (np.array([0.3, 0.0]), np.array([1.0, -0.7]), np.array([2.0, 1.0])):
        square = t @ t
        kernel = np.exp(-square / 2) if code == 0 else (1 + square) ** -0.5
        assert abs(np.cos(waves @ t).mean() - kernel) < 0.01
