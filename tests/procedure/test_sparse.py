"""Sparse directions: against a search over angles, and their words."""

import numpy as np
import pytest

from fastsksd.procedure.sparse import rounded, sparse_directions, written


def ratio(g, explained, model):
    return (g @ explained @ g) / (g @ model @ g)


@pytest.mark.parametrize("seed", range(3))
def test_the_best_pair_is_that_of_a_search_over_angles(seed):
    rng = np.random.default_rng(seed)
    a, b = (root @ root.T + np.eye(4) for root in rng.standard_normal((2, 4, 4)))
    found = sparse_directions(a, b, np.zeros(4), 100)[0]
    assert np.count_nonzero(found) == 2
    best = 0.0
    for i in range(4):
        for j in range(i):
            for angle in np.linspace(0, np.pi, 500):
                g = np.zeros(4)
                g[i], g[j] = np.cos(angle), np.sin(angle)
                best = max(best, abs(np.log(ratio(g, a, b))))
    assert abs(np.log(ratio(found, a, b))) == pytest.approx(best, rel=1e-3)


def test_shifts_are_found_along_their_most_certain_direction():
    model = np.eye(4)
    model[0, 1] = model[1, 0] = 0.9
    found = sparse_directions(model, model, np.array([0.3, -0.3, 0.0, 0.0]), 1000)[0]
    assert found[1] / found[0] == pytest.approx(-1.0) and not found[2:].any()


def test_noise_and_one_dimension_have_no_direction():
    assert sparse_directions(np.eye(3), np.eye(3), np.zeros(3), 100) == []
    assert sparse_directions(4 * np.eye(1), np.eye(1), np.zeros(1), 100) == []


def test_many_coordinates():
    d = 200
    model = np.eye(d)
    explained = np.eye(d)
    explained[7, 150] = explained[150, 7] = -0.8
    found = sparse_directions(explained, model, np.zeros(d), 1000)[0]
    assert set(np.flatnonzero(found).tolist()) == {7, 150}


def test_directions_in_words():
    names = ("a", "b", "c", "d")
    assert written(rounded(np.array([-0.7, 0.68, 0.0, 0.0])), names) == "a - b"
    assert written(rounded(np.array([0.5, 0.0, 0.02, 1.0])), names) == "0.5 a + 0.02 c + d"
    assert written(rounded(np.array([1.0, 0.5, 0.3, 0.2])), names) == "a + 0.5 b + 0.3 c + ..."
