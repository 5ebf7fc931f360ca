"""Autocorrelated samples: the memory of a chain, and the wild bootstrap that follows it."""

import numpy as np
import pytest
import reference
from scipy import stats

import fastsksd as fs
from fastsksd.kernels import as_kernel
from fastsksd.procedure.lags import autocorrelation_time, choose_lag

IDENTITY = fs.Slices(np.eye(2), np.eye(2))


def chain(n, coefficient, seed, d=2):
    """An AR(1) chain whose stationary distribution is the standard normal."""
    noise = np.random.default_rng(seed).standard_normal((n, d)) * np.sqrt(1 - coefficient**2)
    x = np.empty((n, d))
    x[0] = noise[0] / np.sqrt(1 - coefficient**2)
    for t in range(1, n):
        x[t] = coefficient * x[t - 1] + noise[t]
    return x


def test_autocorrelation_time_of_the_definition():
    """Against a sum over the reference's Stein matrix with the same window."""
    x = chain(60, 0.7, 0)
    matrix = sum(reference.stein_matrix(x, -x, e, e, "imq", 1.3) for e in np.eye(2))
    mean_term = reference.u_statistic(matrix)
    variance = np.mean(np.diagonal(matrix)) - mean_term
    tau = 1.0
    for k in range(1, 20):
        tau += 2 * (np.mean(np.diagonal(matrix, k)) - mean_term) / variance
        if k >= 5 * tau:
            break
    np.testing.assert_allclose(
        autocorrelation_time(x, -x, IDENTITY, fs.IMQ(1.3)), max(tau, 1.0), rtol=1e-9
    )


@pytest.mark.parametrize("coefficient", [0.0, 0.5, 0.8, 0.95])
def test_autocorrelation_time_grows_as_it_should(coefficient):
    """A linear feature has tau = (1 + c) / (1 - c), higher ones less.

    So the mean lies between about a third of it and itself.
    """
    linear = (1 + coefficient) / (1 - coefficient)
    tau = np.mean(
        [
            autocorrelation_time(x, -x, IDENTITY, as_kernel("rbf"))
            for x in (chain(4000, coefficient, k) for k in range(8))
        ]
    )
    assert max(1.0, 0.3 * linear) <= tau <= 1.02 * linear


def test_lag_of_independent_and_of_short_samples():
    x = np.random.default_rng(0).standard_normal((2000, 2))
    assert choose_lag(x, -x, IDENTITY, as_kernel("rbf"), 2000) < 25
    slow = chain(80, 0.97, 1)
    assert 1.0 <= choose_lag(slow, -slow, IDENTITY, as_kernel("rbf"), 80) <= 10
    constant = np.ones((30, 2))
    assert autocorrelation_time(constant, 0 * constant, IDENTITY, fs.RBF(1.0)) >= 1.0


@pytest.mark.parametrize("engine", ["direct", "fourier"])
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
    assert followed <= stats.binom.ppf(0.999, 120, 0.07)
    assert ignored >= 25


def test_a_chain_that_does_not_follow_the_model_is_still_rejected():
    x = 1.3 * chain(3000, 0.6, 0)
    result = fs.gof_test(x, np.negative, lag="auto", n_resamples=199, rng=0)
    assert result.reject() and result.lag > 10 and f"lag {result.lag:.3g}" in repr(result)


def test_bad_lags():
    x = chain(100, 0.5, 0)
    with pytest.raises(ValueError, match="`lag` is for null='wild'"):
        fs.gof_test(x, np.negative, null="bootstrap", lag="auto")
    with pytest.raises(ValueError, match="`lag` must be a number: 'auto' looks along slices"):
        fs.gof_test(x, np.negative, method="ksd", lag="auto")
    with pytest.raises(TypeError, match="`lag` must be a number"):
        fs.gof_test(x, np.negative, lag="long")
