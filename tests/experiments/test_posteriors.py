"""The posteriors of the study of MCMC: their densities by SciPy, their scores by differences."""

import builtins

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, softmax

from fastsksd.experiments import posteriors
from fastsksd.experiments.posteriors import data, hierarchical, regression, series


def load(name):
    if name not in posteriors.SHIPPED:
        pytest.importorskip("sklearn")
    return posteriors.load(name)


def normal_prior(posterior, x):
    given = np.isfinite(posterior.scale)
    return stats.norm(posterior.centre[given], posterior.scale[given]).logpdf(x[given]).sum()


def schools(x):
    mu, tau, theta = x[0], np.exp(x[1]), x[2:]
    total = stats.norm(0, 5).logpdf(mu) + stats.halfcauchy(0, 5).logpdf(tau) + x[1]
    total += stats.norm(mu, tau).logpdf(theta).sum()
    return total + stats.norm(theta, data.SCHOOLS[1]).logpdf(data.SCHOOLS[0]).sum()


def schools_non_centred(x):
    tau = np.exp(x[1])
    theta = hierarchical.EightSchoolsNonCentred.centred(x)
    return schools(theta) + 8 * np.log(tau)  # the Jacobian of theta


def batches(x, posterior):
    means = x[0] + np.exp(x[1]) * x[3:]
    total = stats.norm(means[:, None], np.exp(x[2])).logpdf(posterior.y).sum()
    return total + stats.norm.logpdf(x[3:]).sum()


def growth(x, posterior):
    total = 0.0
    for child, row in enumerate(posterior.y):
        girl = 0.5 if child >= 16 else -0.5
        total += stats.norm(x[0] + girl * x[1], np.exp(x[3])).logpdf(x[5 + child])
        for age, y in zip((-1.5, -0.5, 0.5, 1.5), row, strict=True):
            total += stats.norm(x[5 + child] + age * x[2], np.exp(x[4])).logpdf(y)
    return total


def negative_binomial(x, posterior):
    time = np.linspace(-1, 1, 100)
    rate, size = np.exp(x[0] + x[1] * time + x[2] * time**2), np.exp(x[3])
    return stats.nbinom(size, size / (size + rate)).logpmf(posterior.y).sum()


def garch(x, posterior):
    omega, persistence, part = np.exp(x[1]), expit(x[2]), expit(x[3])
    variance, total = posterior.y.var(), 0.0
    for t, y in enumerate(posterior.y):
        if t:
            square = (posterior.y[t - 1] - x[0]) ** 2
            variance = omega + persistence * (part * square + (1 - part) * variance)
        total += stats.norm(x[0], np.sqrt(variance)).logpdf(y)
    return total


def process(x, posterior):
    a, length, noise = np.exp(x)
    time = np.arange(27.0)
    cov = a**2 * np.exp(-0.5 * ((time[:, None] - time) / length) ** 2)
    cov += (noise**2 + 1e-8 * a**2) * np.eye(27)
    return stats.multivariate_normal(np.zeros(27), cov).logpdf(posterior.y)


def random_walk(x, posterior):
    log_rate, total = x[0], 0.0
    for year, disasters in enumerate(data.DISASTERS[:110]):
        if year and year % 2 == 0:
            log_rate += np.exp(x[1]) * x[1 + year // 2]
        if np.isfinite(disasters):
            total += stats.poisson(np.exp(log_rate)).logpmf(disasters)
    return total + stats.norm.logpdf(x[2:]).sum()


def logistic(x, posterior):
    return stats.bernoulli(expit(posterior.x @ x)).logpmf(posterior.y).sum()


def soft_max(x, posterior):
    eta = np.column_stack([np.zeros(178), posterior.x @ x[:5], posterior.x @ x[5:]])
    label = posterior.y @ [1, 2]
    return np.log(softmax(eta, axis=1)[np.arange(178), label.astype(int)]).sum()


def poisson(x, posterior):
    return stats.poisson(np.exp(posterior.x @ x)).logpmf(posterior.y).sum()


def robust(x, posterior):
    error = posterior.y - posterior.x @ x[:11]
    return stats.t(np.exp(x[12]), 0, np.exp(x[11])).logpdf(error).sum()


def mixture(x, posterior):
    first = stats.norm(x[0], np.exp(x[2])).pdf(posterior.y)
    second = stats.norm(x[0] + np.exp(x[1]), np.exp(x[3])).pdf(posterior.y)
    return np.log(expit(x[4]) * first + (1 - expit(x[4])) * second).sum()


SLOW = {
    "dyestuff, batches": batches,
    "growth, hierarchical regression": growth,
    "discoveries, negative binomial": negative_binomial,
    "inflation, GARCH": garch,
    "coal mines, Gaussian process": process,
    "coal mines, random walk": random_walk,
    "breast cancer, logistic": logistic,
    "wine, softmax": soft_max,
    "fitness, Poisson": poisson,
    "diabetes, robust regression": robust,
    "iris, mixture": mixture,
}


@pytest.mark.parametrize("name", posteriors.POSTERIORS)
def test_densities_are_those_of_scipy(name):
    """Up to a constant. Priors of log-scales are normal, which is a density with its Jacobian."""
    posterior = load(name)
    x = np.random.default_rng(0).uniform(-0.7, 0.7, (4, posterior.d))
    if name.startswith("eight schools"):
        slow = [
            schools(row) if name.endswith(", centred") else schools_non_centred(row) for row in x
        ]
    else:
        slow = [SLOW[name](row, posterior) + normal_prior(posterior, row) for row in x]
    value = posterior.density(x)[0]
    np.testing.assert_allclose(value - value[0], np.array(slow) - slow[0], rtol=1e-8, atol=1e-7)


@pytest.mark.parametrize("wrong", [{}, {"jacobian": 0.0}, {"width": np.array([0.3, 1.0, 2.0])}])
@pytest.mark.parametrize("name", posteriors.POSTERIORS)
def test_gradients_are_those_of_differences(name, wrong):
    posterior = load(name)
    x = np.random.default_rng(1).uniform(-0.7, 0.7, (3, posterior.d))
    slope = posterior.density(x, **wrong)[1]
    for k, step in enumerate(1e-5 * np.eye(posterior.d)):
        high, low = (posterior.density(x + h, **wrong)[0] for h in (step, -step))
        np.testing.assert_allclose(slope[:, k], (high - low) / 2e-5, rtol=1e-5, atol=1e-5)
    if not wrong:
        np.testing.assert_array_equal(posterior.score(x), slope)


def test_mistakes_change_what_they_should():
    posterior = load("discoveries, negative binomial")
    x = np.random.default_rng(2).standard_normal((3, 4))
    right, slope = posterior.density(x)
    value, other = posterior.density(x, jacobian=np.array([1.0, 0.0, 0.0]))
    np.testing.assert_allclose(value - right, [0.0, -x[1, 3], -x[2, 3]])
    np.testing.assert_allclose(other - slope, [[0] * 4, [0, 0, 0, -1], [0, 0, 0, -1]], atol=1e-12)
    _, other = posterior.density(x, width=0.5)
    np.testing.assert_allclose(other - slope, -3 * (x - posterior.centre) / posterior.scale**2)


def test_data_are_whole():
    assert data.INFLATION.size == 202 and data.GROWTH.shape == (27, 4)
    assert np.isnan(data.DISASTERS).sum() == 2 and np.nansum(data.DISASTERS) == 188
    assert data.DISCOVERIES.sum() == 310 and data.DYESTUFF.mean() == 1527.5


def test_missing_scikit_learn_is_said(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name == "sklearn":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"'wine' is in scikit-learn: pip install 'fastsksd\["):
        regression.Softmax()
    assert series.Garch().d == 4
