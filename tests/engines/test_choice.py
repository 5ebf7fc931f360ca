"""Which engine "auto" takes, where one of them is clearly faster."""

import numpy as np
import pytest

from fastsksd import engines
from fastsksd.engines import cheapest_engine, expected_cost

RBF, IMQ = 0, 1
# Measured by `fastsksd bench`: the other engine takes at least twice as long.
CELLS = [
    (RBF, 100, 1, 0, "direct"),
    (RBF, 1000, 100, 0, "fourier"),
    (RBF, 1000, 100, 1000, "direct"),
    (RBF, 5000, 3, 1000, "fourier"),
    (RBF, 5000, 100, 200, "fourier"),
    (IMQ, 300, 3, 1000, "direct"),
    (IMQ, 1000, 3, 0, "fourier"),
    (IMQ, 2000, 30, 1000, "direct"),
]


def samples(n, m):
    return np.random.default_rng(0).standard_normal((m, n)), np.full(m, 0.95)


@pytest.mark.parametrize(("code", "n", "m", "n_resamples", "engine"), CELLS)
def test_the_faster_engine_is_taken(code, n, m, n_resamples, engine):
    demand = dict(n_resamples=n_resamples, signs=True)
    assert cheapest_engine(code, *samples(n, m), among="cpu", **demand) == engine
    costs = dict(zip(engines.ENGINES, expected_cost(code, *samples(n, m), **demand), strict=True))
    assert min(costs, key=costs.get) == engine


def test_a_small_bandwidth_makes_a_series_long():
    y, h = samples(1000, 3)
    assert cheapest_engine(RBF, y, h, among="cpu") == "fourier"
    assert cheapest_engine(RBF, y, 1e-3 * h, among="cpu") == "direct"


def test_eigenvalues_of_all_pairs_are_dear():
    y, h = samples(1000, 3)
    direct, fourier = expected_cost(RBF, y, h, spectral=True)
    assert direct > 10 * fourier
    assert cheapest_engine(RBF, *samples(100, 30), among="cpu", spectral=True) == "direct"


def test_every_multiple_counts():
    y, h = samples(500, 5)
    once = np.array(expected_cost(RBF, y, h, n_resamples=1000))
    thrice = np.array(expected_cost(RBF, y, h, n_resamples=1000, multiples=(0.5, 1.0, 2.0)))
    assert np.all(thrice > 2.5 * once) and np.all(thrice < 4.5 * once)


def test_a_device_is_for_what_is_worth_it(monkeypatch):
    monkeypatch.setattr(engines.cuda, "hardware", lambda: True)
    small, large = samples(100, 3), samples(1000, 3)
    assert cheapest_engine(RBF, *small) == "direct"
    demand = dict(n_resamples=10_000_000)
    assert cheapest_engine(RBF, *large, **demand).startswith("cuda ")
    assert not cheapest_engine(RBF, *large, among="cpu", **demand).startswith("cuda")
    monkeypatch.setattr(engines.cuda, "hardware", lambda: False)
    assert not cheapest_engine(RBF, *large, **demand).startswith("cuda")
