"""Kernels of the whole vector in blocks, against loops."""

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

from fastsksd.engines import pairs, whole_vector
from fastsksd.engines.protocol import PairEngine
from fastsksd.engines.whole_vector import Block, WholeVector

KERNELS = {0: "rbf", 1: "imq"}
WIDTHS = (0.6, 1.1, 2.3)


def linear_term(x_i, x_j, s_i, s_j):
    total = 0.0
    for k in range(x_i.size):
        total += s_i[k] * s_j[k] * sum(x_i * x_j) + s_i[k] * x_i[k] + s_j[k] * x_j[k] + 1.0
    return total


def problem(seed, n, d):
    """Two stretches of samples; every block of pairs has coordinates of its own."""
    rng = np.random.default_rng(seed)
    x, s = rng.standard_normal((2, n, d))
    half = n // 2
    head, tail = slice(0, half), slice(half, n)
    factors = {(0, 0): 1.0, (0, 1): 1.4, (1, 1): 0.7}
    stretches = (head, tail)
    blocks = []
    for (a, b), f in factors.items():
        rows, columns = stretches[a], stretches[b]
        blocks.append(
            Block(rows, columns, x[rows] * f, s[rows] / f, x[columns] * f, s[columns] / f)
        )
    return x, s, half, factors, blocks


def slow_matrix(k, code, x, s, half, factors):
    n = x.shape[0]
    matrix = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            f = factors[min(i >= half, j >= half), max(i >= half, j >= half)]
            args = x[i] * f, x[j] * f, s[i] / f, s[j] / f
            if k < len(WIDTHS):
                matrix[i, j] = reference.ksd_term(*args, KERNELS[code], WIDTHS[k])
            else:
                matrix[i, j] = linear_term(*args)
    return matrix


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("component", range(4))
@given(seed=st.integers(0, 2**20), n=st.integers(4, 9), d=st.integers(1, 4))
def test_components_match_loops(code, component, seed, n, d):
    x, s, half, factors, blocks = problem(seed, n, d)
    whole = WholeVector(code, n, blocks, WIDTHS)
    slow = slow_matrix(component, code, x, s, half, factors)
    upper = np.triu(slow, 1)
    weights = np.random.default_rng(seed).choice([-1.0, 1.0], (5, n))
    sums, replicates = whole.sums_and_replicates(weights)
    close = dict(rtol=1e-10, atol=1e-10 * np.abs(slow).sum())
    np.testing.assert_allclose(sums[component], upper.sum(), **close)
    expected = np.einsum("bi,ij,bj->b", weights, upper, weights)
    np.testing.assert_allclose(replicates[component], expected, **close)
    by_coordinate = whole.coordinate_sums(component)
    assert by_coordinate.shape == (d,)
    np.testing.assert_allclose(by_coordinate.sum(), upper.sum(), **close)
    one = whole.component(component)
    assert isinstance(one, PairEngine)
    np.testing.assert_allclose(one.matrix(), upper + upper.T, **close)
    np.testing.assert_allclose(one.diagonal_terms(), np.diagonal(slow), **close)
    np.testing.assert_allclose(one.diagonal().sum(), np.trace(slow), **close)
    np.testing.assert_allclose(one.row_sums(), (upper + upper.T).sum(axis=0), **close)
    total, values = one.sums_and_replicates(np.concatenate([weights[:, :1], weights], axis=1), 1)
    np.testing.assert_allclose(total, 2.0 * upper.sum(), **close)
    np.testing.assert_allclose(one.sums(), 2.0 * upper.sum(), **close)
    np.testing.assert_allclose(values, 2.0 * expected, **close)
    centred = slow - slow.mean(axis=0)
    centred -= centred.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(
        one.spectrum(), np.linalg.eigvalsh(0.5 * (centred + centred.T)) / n, **close
    )


def test_coordinate_sums_are_those_of_single_coordinates():
    """Of independent coordinates, the part of one is its own score alone."""
    *_, blocks = problem(0, 8, 3)
    for k in range(3):
        step = 1e-4
        # The statistic is quadratic in the scores: parts of a coordinate vary with its score only.
        values = []
        for sign in (1, -1):
            moved = [
                block._replace(
                    s_rows=block.s_rows + sign * step * np.eye(3)[k],
                    s_columns=block.s_columns + sign * step * np.eye(3)[k],
                )
                for block in blocks
            ]
            values.append(WholeVector(0, 8, moved, WIDTHS).coordinate_sums(1))
        slope = (values[0] - values[1]) / (2 * step)
        assert np.abs(np.delete(slope, k)).max() < 1e-6 < abs(slope[k])


def test_large_blocks_are_cut_into_tiles(monkeypatch):
    *_, blocks = problem(1, 21, 2)
    whole = WholeVector(0, 21, blocks, WIDTHS)
    weights = np.random.default_rng(0).choice([-1.0, 1.0], (4, 21))
    sums, replicates = whole.sums_and_replicates(weights)
    monkeypatch.setattr(whole_vector, "TILE", 4)
    assert pairs.TILE != 4
    cut_sums, cut = whole.sums_and_replicates(weights)
    np.testing.assert_allclose(cut_sums, sums, rtol=1e-12)
    np.testing.assert_allclose(cut, replicates, rtol=1e-10)


def test_groups_have_limit_distributions_of_their_own():
    """Against the matrices of each group alone."""
    rng = np.random.default_rng(2)
    x, s = rng.standard_normal((2, 20, 2))
    groups = [slice(0, 8), slice(8, 20)]
    blocks = [Block(g, g, x[g], s[g], x[g], s[g], k) for k, g in enumerate(groups)]
    whole = WholeVector(0, 20, blocks, WIDTHS)
    expected = []
    for g in groups:
        n = g.stop - g.start
        matrix = reference.ksd_matrix(x[g], s[g], "rbf", WIDTHS[1])
        centred = matrix - matrix.mean(axis=0) - matrix.mean(axis=1)[:, None] + matrix.mean()
        part = 0.5 * n * (n - 1) / whole.n_pairs
        expected.append(part * np.linalg.eigvalsh(centred) / (n - 1) ** 2)
    np.testing.assert_allclose(
        np.sort(whole.limit_weights(1)), np.sort(np.concatenate(expected)), atol=1e-12
    )


def test_of_many_groups_some_stand_for_their_neighbours(monkeypatch):
    x, s = np.random.default_rng(3).standard_normal((2, 400, 2))
    groups = [slice(20 * k, 20 * k + 20) for k in range(20)]
    blocks = [Block(g, g, x[g], s[g], x[g], s[g], k) for k, g in enumerate(groups)]
    whole = WholeVector(0, 400, blocks, WIDTHS)
    every = whole.limit_weights(1)
    monkeypatch.setattr("fastsksd.engines.whole_vector._MOST_GROUPS", 7)
    some = whole.limit_weights(1)
    assert some.size == every.size and np.unique(np.round(some, 15)).size <= 7 * 20
    for power in (1, 2, 3):
        assert np.sum(some**power) == pytest.approx(np.sum(every**power), rel=0.1 * power)


def test_blocks_count_their_pairs():
    *_, blocks = problem(1, 10, 2)
    assert WholeVector(0, 10, blocks, WIDTHS).n_pairs == 45
    assert WholeVector(0, 10, blocks[:1], WIDTHS).n_pairs == 10
