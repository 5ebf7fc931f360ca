"""Eigenproblems against LAPACK."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastsksd.compute.eigen import symmetric_eigenvectors, top_eigenpairs
from fastsksd.compute.sensitivity import DenseOperators


@given(st.integers(0, 2**32 - 1), st.integers(1, 60))
def test_symmetric_eigenvectors(seed, n):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((n, max(1, n // 2)))
    matrix = a @ a.T - rng.integers(0, 2) * np.eye(n)
    values, vectors = symmetric_eigenvectors(matrix)
    scale = np.abs(matrix).max() * n
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(n), atol=1e-13 * n)
    np.testing.assert_allclose(vectors @ matrix, values[:, None] * vectors, atol=1e-14 * scale)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(matrix)[::-1], atol=1e-14 * scale)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 12),
    st.sampled_from(["definite", "indefinite", "rank one", "zero"]),
)
def test_lanczos_finds_the_top_pair(seed, d, shape):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((4, d, d))
    matrices = {
        "definite": a @ a.transpose(0, 2, 1),
        "indefinite": a + a.transpose(0, 2, 1),
        "rank one": a[:, :, :1] * a[:, None, :, 0],
        "zero": 0 * a,
    }[shape]
    vectors, values, gaps = top_eigenpairs(DenseOperators(matrices), np.tile(np.eye(d)[0], (4, 1)))
    exact = np.linalg.eigvalsh(matrices)
    scale = np.abs(exact).max() + 1e-300
    np.testing.assert_allclose(values, exact[:, -1], atol=1e-9 * scale)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, rtol=1e-12)
    residual = np.einsum("mij,mj->mi", matrices, vectors) - values[:, None] * vectors
    assert np.abs(residual).max() <= 1e-7 * scale
    if d > 1:
        np.testing.assert_allclose(gaps, exact[:, -1] - exact[:, -2], atol=0.02 * scale)


def test_lanczos_sees_a_double_eigenvalue():
    matrices = np.tile(np.diag([3.0, 3.0, 1.0, 0.5]), (2, 1, 1))
    _, values, gaps = top_eigenpairs(DenseOperators(matrices), np.eye(4)[:2])
    np.testing.assert_allclose(values, 3.0, rtol=1e-12)
    assert np.all(gaps < 0.05)


@pytest.mark.parametrize("steps", [2, 3, 6, 12])
@pytest.mark.parametrize("scale", [1.0, 1e-60, 1e60])
def test_gaps_of_ritz_values_are_upper_estimates(steps, scale):
    rng = np.random.default_rng(steps)
    a = rng.standard_normal((20, 12, 12))
    matrices = scale * a @ a.transpose(0, 2, 1)
    operators, guess = DenseOperators(matrices), np.tile(np.eye(12)[0], (20, 1))
    vectors, values, gaps = top_eigenpairs(operators, guess, gaps=False, max_steps=steps)
    exact = np.linalg.eigvalsh(matrices)
    # Ritz values are below the eigenvalues: what the first one lacks, the gap may lack.
    missing = exact[:, -1] - values
    assert np.all(missing >= -1e-9 * exact[:, -1])
    assert np.all(gaps >= exact[:, -1] - exact[:, -2] - missing - 1e-9 * exact[:, -1])
    assert np.all(gaps <= (1 + 1e-9) * values)  # the operators are positive
    if steps == 12:
        np.testing.assert_allclose(gaps, exact[:, -1] - exact[:, -2], rtol=1e-7)
    other_vectors, other_values, _ = top_eigenpairs(operators, guess, max_steps=steps)
    assert np.array_equal(vectors, other_vectors) and np.array_equal(values, other_values)


def test_gaps_of_ritz_values_of_operators_that_converge_at_different_steps():
    easy, hard = np.diag([5.0] + [1.0] * 29), np.diag(np.linspace(1.0, 2.0, 30))
    operators = DenseOperators(np.array([easy, hard, easy]))
    guess = np.tile(np.eye(30)[0], (3, 1))
    _, values, gaps = top_eigenpairs(operators, guess, gaps=False)
    np.testing.assert_allclose(values, [5.0, 2.0, 5.0], rtol=1e-7)
    np.testing.assert_allclose(gaps, [4.0, 1.0 / 29.0, 4.0], rtol=1e-5)


@pytest.mark.parametrize(("d", "steps"), [(1, 5), (4, 1)])
def test_without_a_second_ritz_value_the_gap_is_infinite(d, steps):
    operators = DenseOperators(np.tile(np.eye(d), (2, 1, 1)))
    gaps = top_eigenpairs(operators, np.tile(np.eye(d)[0], (2, 1)), gaps=False, max_steps=steps)[2]
    assert np.all(np.isinf(gaps))


def test_an_operator_that_overflows_leaves_the_gaps_of_the_others():
    matrices = np.tile(np.diag([3.0, 2.0, 1.0]), (2, 1, 1))
    matrices[0, 0, 0] = np.nan
    gaps = top_eigenpairs(DenseOperators(matrices), np.eye(3)[:2], gaps=False)[2]
    assert np.isnan(gaps[0])
    np.testing.assert_allclose(gaps[1], 1.0, rtol=1e-9)
