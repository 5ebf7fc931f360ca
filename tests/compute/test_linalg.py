"""Products and quadratic forms against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastsksd.compute import threads
from fastsksd.compute.linalg import gram, low_rank_root, product, quadratic_forms, weighted_squares


@pytest.mark.parametrize("m", [1, 33, 64, 150])
def test_gram_is_a_product_with_itself(m):
    a = np.random.default_rng(m).standard_normal((m, 700))
    np.testing.assert_allclose(gram(a), a @ a.T, rtol=1e-12, atol=1e-11)


@given(st.integers(1, 70), st.integers(1, 70), st.integers(1, 700))
def test_product_is_a_matrix_product(m, n, depth):
    rng = np.random.default_rng([m, n, depth])
    a, b = rng.standard_normal((m, depth)), rng.standard_normal((n, depth))
    np.testing.assert_allclose(product(a, b), a @ b.T, rtol=1e-12, atol=1e-11)


def test_product_takes_any_layout():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((300, 90)), rng.standard_normal((300, 80))
    np.testing.assert_allclose(product(a.T, b.T), a.T @ b, rtol=1e-12, atol=1e-11)


@given(
    st.integers(1, 50),
    st.integers(1, 3),
    st.sampled_from([1, 2, 5, 127, 128, 131]),
    st.sampled_from(["any", "signs", "signs as doubles"]),
)
def test_quadratic_forms(n, k, count, kind):
    rng = np.random.default_rng([n, count])
    tiles, weights = rng.standard_normal((k, n, n)), rng.standard_normal((count, 2 * n))
    if kind != "any":
        weights = np.where(weights < 0, -1.0, 1.0)
    given_as = weights.astype(np.int8) if kind == "signs" else weights
    np.testing.assert_allclose(
        quadratic_forms(tiles, given_as, 0, n),
        np.einsum("bi,kij,bj->kb", weights[:, :n], tiles, weights[:, n:]),
        rtol=1e-10,
        atol=1e-10,
    )
    upper = np.triu(tiles, 1)
    np.testing.assert_allclose(
        quadratic_forms(upper, given_as, n, n),
        np.einsum("bi,kij,bj->kb", weights[:, n:], upper, weights[:, n:]),
        rtol=1e-10,
        atol=1e-10,
    )


@given(
    st.integers(1, 60),
    st.sampled_from([1, 63, 64, 65, 200, 1100]),
    st.sampled_from([1, 127, 128, 131]),
    st.integers(0, 9),
)
def test_product_of_signs(n, k, count, column):
    rng = np.random.default_rng([n, k, count])
    signs = rng.choice(np.array([-1, 1], dtype=np.int8), (count, column + n + 3))
    b, values = rng.standard_normal((k, n)), rng.standard_normal(n)
    expected = signs[:, column : column + n].astype(float) @ b.T
    for layout in (b, np.asfortranarray(b)):
        np.testing.assert_allclose(product(signs, layout, column), expected, atol=1e-12)
    squares = weighted_squares(signs, values, column)
    np.testing.assert_allclose(squares, np.full(count, values.sum()), atol=1e-12)


@pytest.mark.parametrize("shape", [(700, 40, 900), (300, 700, 301)])
def test_rounding_does_not_depend_on_threads(shape):
    m, depth, n = shape
    rng = np.random.default_rng(0)
    b = rng.standard_normal((n, depth))
    signs = rng.choice(np.array([-1, 1], dtype=np.int8), (m, depth))
    before = threads.get_num_threads()
    for a in (rng.standard_normal((m, depth)), signs):
        results = []
        for count in (1, before):
            threads.set_num_threads(count)
            results.append(product(a, b))
        np.testing.assert_array_equal(*results)
        np.testing.assert_allclose(results[0], a @ b.T, atol=1e-10)


@pytest.mark.parametrize("rank", [1, 5, 40])
def test_the_root_of_a_covariance_has_as_many_columns_as_its_rank(rank):
    a = np.random.default_rng(rank).standard_normal((40, rank)) * 10.0 ** np.linspace(-3, 3, rank)
    root = low_rank_root(a @ a.T)
    assert root.shape == (40, rank)
    np.testing.assert_allclose(root @ root.T, a @ a.T, rtol=0, atol=1e-13 * (a @ a.T).max())
