"""Separated modes: found where there are some, and no false alarm for distributions of one mode."""

import numpy as np
import pytest

from fastsksd.procedure.modes import find_modes

ONE_MODE = {
    "normal": lambda n, d, rng: rng.standard_normal((n, d)),
    "t": lambda n, d, rng: rng.standard_t(2, (n, d)),
    "Laplace": lambda n, d, rng: rng.laplace(size=(n, d)),
    "lognormal": lambda n, d, rng: np.exp(1.5 * rng.standard_normal((n, d))),
    "uniform": lambda n, d, rng: rng.uniform(size=(n, d)),
    "funnel": lambda n, d, rng: (
        np.exp(1.5 * rng.standard_normal((n, 1))) * rng.standard_normal((n, d))
    ),
}


def bimodal(n, d, apart, weight, rng):
    """Two normal modes along a random direction, and the mode of each sample."""
    direction = rng.standard_normal(d)
    direction /= np.linalg.norm(direction)
    upper = rng.random(n) < weight
    return rng.standard_normal((n, d)) + apart * np.outer(upper, direction), upper


@pytest.mark.parametrize("name", ONE_MODE)
def test_no_false_alarm(name):
    rng = np.random.default_rng(0)
    for n, d in [(100, 1), (1000, 1), (200, 3), (1000, 3), (300, 30)]:
        for _ in range(5):
            assert find_modes(ONE_MODE[name](n, d, rng)).n_modes == 1


@pytest.mark.parametrize("d", [1, 10, 100])
@pytest.mark.parametrize("weight", [0.5, 0.8])
def test_two_modes_six_apart(d, weight):
    x, upper = bimodal(2000, d, 6.0, weight, np.random.default_rng(1))
    modes = find_modes(x)
    assert modes.n_modes == 2
    agree = np.mean(modes.labels == upper)
    assert max(agree, 1 - agree) > 0.97
    assert np.array_equal(modes.group_of(x), modes.labels)
    assert np.allclose(np.sort(modes.weights), np.sort([weight, 1 - weight]), atol=0.04)


def test_modes_that_touch_are_one_group():
    x, _ = bimodal(2000, 1, 3.5, 0.5, np.random.default_rng(2))
    assert find_modes(x).n_modes == 1


def test_units_do_not_matter():
    x, _ = bimodal(1000, 4, 8.0, 0.4, np.random.default_rng(3))
    labels = find_modes(x).labels
    scaled = find_modes(x * [1e-6, 1.0, 1e6, 3.0])
    assert np.array_equal(labels, scaled.labels)


def test_several_modes():
    rng = np.random.default_rng(4)
    corner = rng.integers(0, 4, 2000)
    x = rng.standard_normal((2000, 2)) + 10.0 * np.stack([corner % 2, corner // 2], axis=1)
    modes = find_modes(x)
    assert modes.n_modes == 4
    for group in range(4):
        assert len(set(corner[modes.labels == group])) == 1


def test_draws_of_a_chain_count_less():
    x = np.repeat(
        np.concatenate([np.random.default_rng(5).standard_normal(20), 9 + np.arange(5)]), 20
    )
    assert find_modes(x[:, None], lag=20.0).n_modes == 1


def test_constant_and_few_samples():
    assert find_modes(np.ones((500, 2))).n_modes == 1
    assert find_modes(np.array([[0.0], [100.0]])).n_modes == 1


def test_repeated_values_and_an_outlier_are_one_mode():
    x = np.random.default_rng(0).standard_normal((120, 4))
    x[:, 2] = 1.0
    x[7] = 1e8
    with np.errstate(all="raise"):
        assert find_modes(x).n_modes == 1


@pytest.mark.parametrize(
    "draw",
    [
        lambda n, rng: np.round(rng.standard_normal((n, 2)), 1),
        lambda n, rng: rng.poisson(4, (n, 2)).astype(float),
        lambda n, rng: 1.0 * (rng.random((n, 1)) < 0.4),
    ],
    ids=["rounded", "counts", "binary"],
)
def test_steps_between_rounded_values_are_no_valleys(draw):
    for n in (300, 1000, 5000):
        assert find_modes(draw(n, np.random.default_rng(n))).n_modes == 1


def test_modes_of_rounded_values_are_found():
    x, upper = bimodal(1000, 1, 7.0, 0.4, np.random.default_rng(5))
    modes = find_modes(np.round(x, 1))
    agree = np.mean(modes.labels == upper)
    assert modes.n_modes == 2 and max(agree, 1 - agree) > 0.99
