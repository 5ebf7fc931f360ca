"""Autocorrelated samples: how long chains remember, and how they are cut."""

import numpy as np
import pytest
from scipy import stats

import fastsksd as fs
from fastsksd.procedure.lags import (
    FEWEST,
    autocorrelation_times,
    choose_lag,
    given_lag,
    measure,
    memory_between,
    neighbour_correlation,
    stretches_of,
)

IDENTITY = fs.Slices(np.eye(2), np.eye(2))


def chain(n, coefficient, seed, d=2):
    """An AR(1) chain whose stationary distribution is the standard normal."""
    coefficient = np.broadcast_to(coefficient, d)
    noise = np.random.default_rng(seed).standard_normal((n, d))
    x = np.empty((n, d))
    x[0] = noise[0]
    for t in range(1, n):
        x[t] = coefficient * x[t - 1] + noise[t] * np.sqrt(1 - coefficient**2)
    return x


def slow_times(series, lengths, sign):
    """By loops over draws."""
    n, found = sum(lengths), []
    for row in series:
        sums, counts = np.zeros(max(lengths) // 2 + 1), np.zeros(max(lengths) // 2 + 1)
        start = 0
        for m in lengths:
            one = row[start : start + m] - row[start : start + m].mean()
            for k in range(min(m, sums.size)):
                sums[k] += sum(one[t] * one[t + k] for t in range(m - k))
                counts[k] += m - k
            start += m
        rho = sums / counts / (sums[0] / n)
        tau = 1.0
        for k in range(1, sums.size):
            tau += 2 * sign**k * rho[k]
            if k >= 5 * tau:
                break
        found.append(tau / max(1 - (2 * k + 1) / np.mean(lengths), 0.2))
    return found


@pytest.mark.parametrize("coefficient", [0.6, -0.4])
def test_autocorrelation_times_of_the_definition(coefficient):
    lengths = [70, 120, 90]
    series = np.concatenate([chain(m, coefficient, m) for m in lengths]).T
    plain, alternating = autocorrelation_times(series, lengths)
    np.testing.assert_allclose(plain.tau, slow_times(series, lengths, 1), rtol=1e-9)
    np.testing.assert_allclose(alternating.tau, slow_times(series, lengths, -1), rtol=1e-9)


@pytest.mark.parametrize("coefficient", [-0.5, 0.5, 0.8, 0.95])
def test_memory_is_that_of_the_slowest_direction(coefficient):
    tau = (1 + abs(coefficient)) / (1 - abs(coefficient))
    speeds = [coefficient, 0.0, 0.0, 0.0]
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
    for rotation in (np.eye(4), turn) if coefficient > 0 else (np.eye(4),):
        found = []
        for seed in range(10):
            x = chain(8000, speeds, seed, 4) @ rotation
            found.append(measure(x, -x, [4000, 4000]).slowest)
        assert 0.75 * tau <= np.mean(found) <= 1.6 * tau


def test_borders_of_chains_are_respected():
    """Chains with means of their own are not slow for that."""
    x = np.concatenate([chain(500, 0.0, seed) + 10 * seed for seed in range(4)])
    assert measure(x, -x, [500] * 4).slowest < 2
    assert measure(x, -x, [2000]).slowest > 50


def test_chains_in_different_places_are_worth_few_draws():
    """The means of chains scatter with variance tau / m; those of stuck chains tell it."""
    x = np.concatenate([chain(500, 0.0, seed) + 0.5 * seed for seed in range(4)])
    z = (x[:, 0] - x[:, 0].mean()) / x[:, 0].std()
    tau = 500 * np.sum(z.reshape(4, 500).mean(axis=1) ** 2) / 3
    assert memory_between(x, [500] * 4) >= 0.99 * tau > 50
    lag = choose_lag(x, -x, [500] * 4)
    assert lag.effective < 50 and lag.needed > 5000
    # Longer ones that still disagree a little keep their verdict.
    x = np.concatenate([chain(4000, 0.0, seed) + 0.05 * seed for seed in range(4)])
    assert choose_lag(x, -x, [4000] * 4).needed == 0


@pytest.mark.parametrize(
    ("coefficient", "count", "n", "d"), [(0.0, 4, 250, 20), (0.9, 4, 500, 5), (0.9, 2, 1000, 20)]
)
def test_chains_that_mix_agree(coefficient, count, n, d):
    for seed in range(30):
        x = np.concatenate([chain(n, coefficient, [seed, k], d) for k in range(count)])
        assert memory_between(x, [n] * count) <= measure(x, -x, [n] * count).slowest


@pytest.mark.parametrize(("coefficient", "n", "d"), [(0.9, 20, 2), (0.9, 20, 10), (0.97, 50, 2)])
def test_chains_shorter_than_their_memory_are_not_told_to_be_apart(coefficient, n, d):
    """Their means scatter, and twenty draws show hardly any of the memory that explains it."""
    apart = 0
    for seed in range(50):
        x = np.concatenate([chain(n, coefficient, [seed, k], d) for k in range(20)])
        apart += memory_between(x, [n] * 20) > 1.0
    assert apart <= 3


def test_short_chains_far_apart_are_told():
    x = np.concatenate([chain(50, 0.5, [7, k], 2) + 5.0 * (k == 3) for k in range(8)])
    assert memory_between(x, [50] * 8) > 10.0
    x = np.concatenate([chain(5, 0.5, [7, k], 2) + 5.0 * (k == 3) for k in range(8)])
    assert memory_between(x, [5] * 8) == 1.0  # of five draws nothing is known


def test_independent_draws_are_mostly_seen_as_such():
    lags = []
    for seed in range(30):
        x = np.random.default_rng(seed).standard_normal((1000, 3))
        lags.append(choose_lag(x, -x, [1000]).length)
    assert np.mean(np.array(lags) == 1) >= 0.7 and max(lags) < 50


def test_chains_that_are_too_short():
    x = chain(300, 0.97, 1)
    lag = choose_lag(x, -x, [300])
    assert lag.needed > 1500 and lag.effective < 30
    assert stretches_of([300], lag.length) >= FEWEST
    # Many chains are independent of each other, however slow.
    many = np.concatenate([chain(300, 0.97, seed) for seed in range(20)])
    assert choose_lag(many, -many, [300] * 20).needed == 0
    constant = np.ones((30, 2))
    assert choose_lag(constant, 0 * constant, [30]).length == 1


def test_given_lags():
    assert given_lag(6, [600])[:3] == (6, 1, 0)
    assert given_lag(50, [400]).needed == 800
    assert given_lag(2, [100_000]).length == pytest.approx(100_000 / 1998)


def test_neighbour_correlation():
    assert neighbour_correlation(chain(500, [0.0, 0.6], 0)) == pytest.approx(0.6, abs=0.1)
    calm = [neighbour_correlation(chain(300, 0.0, seed, 10)) for seed in range(100)]
    assert np.count_nonzero(calm) <= 3
    assert neighbour_correlation(np.ones((50, 2))) == 0


@pytest.mark.parametrize("engine", [pytest.param("direct", marks=pytest.mark.slow), "fourier"])
def test_a_chain_that_follows_the_model_is_rejected_at_the_nominal_rate(engine):
    options = dict(slices=IDENTITY, n_resamples=99, engine=engine)
    chains = [chain(2000, 0.8, seed) for seed in range(120)]
    followed = sum(
        fs.gof_test(x, np.negative, lag="auto", rng=k, **options).reject()
        for k, x in enumerate(chains)
    )
    ignored = sum(
        fs.gof_test(x, np.negative, rng=k, **options).reject() for k, x in enumerate(chains[:40])
    )
    assert followed <= stats.binom.ppf(0.999, 120, 0.05)
    assert ignored >= 25


def test_a_chain_that_does_not_follow_the_model_is_still_rejected():
    x = 1.3 * chain(3000, 0.6, 0)
    result = fs.gof_test(x, np.negative, lag="auto", n_resamples=199, rng=0)
    assert result.reject() and result.lag > 10
    assert f"a sign for every {result.lag:.3g} draws" in repr(result)


def test_bad_lags():
    x = chain(100, 0.5, 0)
    with pytest.raises(ValueError, match="`lag` is for null='wild'"):
        fs.gof_test(x, np.negative, null="bootstrap", lag="auto")
    with pytest.raises(TypeError, match="`lag` must be a number"):
        fs.gof_test(x, np.negative, lag="long")
