"""Medians of pairwise distances against all pairs."""

from fractions import Fraction

import numpy as np
import pytest
import reference
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fastsksd.compute.medians import _median, median_distance, median_distances

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
    "distribution", ["normal", "cauchy", "integers", "clusters", "outlier", "duplicates"]
)
def test_median_is_exact_for_ugly_data(n, distribution):
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
    }[distribution]()
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


@pytest.mark.parametrize("n", [1, 2, 4095, 4097, 20_000, 20_001])
@pytest.mark.parametrize("kind", ["normal", "ties", "sorted", "subsample misleads", "constant"])
def test_median_of_many_is_exact(n, kind):
    values = np.random.default_rng(n).standard_normal(n)
    if kind == "ties":
        values = np.round(values)
    elif kind == "sorted":
        values.sort()
    elif kind == "subsample misleads":
        values[:: n // 4096 + 1] += 100.0
    elif kind == "constant":
        values[:] = 0.25
    assert _median(values) == np.median(values)
