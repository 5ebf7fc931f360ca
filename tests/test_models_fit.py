"""Models fitted by maximum likelihood: closed forms, SciPy, score equations, bad samples."""

import numpy as np
import pytest
from scipy import stats

from fastsksd import models


def gradient(loss, at, step=1e-5):
    """Central differences of a function of a vector."""
    at = np.asarray(at, dtype=float)
    moves = step * np.eye(at.size)
    return np.array([(loss(at + one) - loss(at - one)) / (2 * step) for one in moves])


def test_gaussian_is_the_closed_form():
    x = np.random.default_rng(0).standard_normal((40, 3)) @ np.triu(np.ones((3, 3))) + 5.0
    full, diagonal = models.Gaussian.fit(x), models.Gaussian.fit(x, cov="diagonal")
    assert np.allclose(full.mean, x.mean(axis=0))
    assert np.allclose(full.cov, np.cov(x.T, bias=True))
    assert np.allclose(diagonal.cov, np.diag(x.var(axis=0)))
    # The sum of scores along every direction is zero at the maximum.
    assert np.allclose(full.score(x).sum(axis=0), 0.0, atol=1e-9)


def test_laplace_agrees_with_scipy():
    x = np.random.default_rng(1).laplace(2.0, 3.0, (51, 2))
    model = models.Laplace.fit(x)
    for k in range(2):
        assert np.allclose([model.loc[k], model.scale[k]], stats.laplace.fit(x[:, k]))


def test_student_agrees_with_scipy():
    x = np.random.default_rng(2).standard_t(4, (500, 1)) * 2.0 + 1.0
    model = models.StudentT.fit(x)
    found = stats.t.fit(x[:, 0])
    logs = stats.t.logpdf(x[:, 0], *found).sum()
    assert model.log_density(x).sum() >= logs - 1e-6
    assert np.allclose([model.df, model.loc[0], model.scale[0]], found, rtol=1e-2)
    known = models.StudentT.fit(x, df=3)
    assert known.df == 3
    assert np.allclose([known.loc[0], known.scale[0]], stats.t.fit(x[:, 0], f0=3)[1:], rtol=1e-3)


def test_student_solves_its_score_equations():
    x = np.random.default_rng(3).standard_t(3, (300, 2)) * [1.0, 10.0] + [0.0, -50.0]
    model = models.StudentT.fit(x)

    def loss(parameters):
        df, logs, loc = parameters[0], parameters[1:3], parameters[3:]
        return models.StudentT(2, np.exp(df), np.exp(logs), loc).log_density(x).mean()

    found = np.r_[np.log(model.df), np.log(model.scale), model.loc]
    assert np.abs(gradient(loss, found)).max() < 1e-6


def test_student_of_normal_samples_is_nearly_normal():
    assert models.StudentT.fit(np.random.default_rng(4).standard_normal((2000, 2))).df > 30


@pytest.mark.parametrize("cov", ["full", "diagonal"])
def test_mixture_solves_its_score_equations(cov):
    truth = models.GaussianMixture([0.3, 0.7], [[-2.0, 0.0], [2.0, 1.0]], [1.0, [0.5, 2.0]])
    x = truth.sample(400, rng=0)
    model = models.GaussianMixture.fit(x, 2, cov=cov)
    assert model.log_density(x).mean() > truth.log_density(x).mean()
    assert np.allclose(model.weights, truth.weights, atol=0.1)
    assert np.allclose(model.means, truth.means, atol=0.4)
    if cov == "diagonal":
        assert np.allclose([one[0, 1] for one in model.covs], 0.0)

    def loss(parameters):
        weight, means = parameters[0], parameters[1:].reshape(2, 2)
        other = models.GaussianMixture([weight, 1 - weight], means, list(model.covs))
        return other.log_density(x).mean()

    found = np.r_[model.weights[0], model.means.ravel()]
    assert np.abs(gradient(loss, found)).max() < 1e-3


def test_mixture_of_one_component_is_the_gaussian():
    x = np.random.default_rng(5).standard_normal((50, 2)) * [1.0, 1000.0]
    one, gaussian = models.GaussianMixture.fit(x, 1), models.Gaussian.fit(x)
    assert np.allclose(one.means[0], gaussian.mean)
    assert np.allclose(one.covs[0], gaussian.cov, rtol=1e-4)


def test_mixture_has_the_same_fit_again():
    x = np.random.default_rng(6).standard_normal((100, 2))
    first, second = (models.GaussianMixture.fit(x, 3) for _ in range(2))
    assert np.array_equal(first.means, second.means)


def test_mixture_does_not_shrink_to_a_repeated_sample():
    x = np.random.default_rng(7).standard_normal((200, 1))
    x[:3] = 0.5
    model = models.GaussianMixture.fit(x, 2)
    assert min(model.weights) * 200 >= 3 and model.covs.min() > 1e-3


@pytest.mark.parametrize("d", [1, 2, 6])
def test_ica_solves_its_score_equations(d):
    truth = models.ICA.random(d, df=4, rng=d) if d > 1 else models.ICA([[3.0]], df=4)
    x = truth.sample(800, rng=0)
    model = models.ICA.fit(x, df=4)
    y = x @ np.linalg.inv(model.W).T
    psi = 5.0 * y / (4.0 + y * y)
    assert np.abs(psi.T @ y / len(x) - np.eye(d)).max() < 1e-7
    assert model.log_density(x).mean() > truth.log_density(x).mean()
    # Up to order and signs the sources are found: each is along one column of the truth.
    mixed = np.abs(np.linalg.inv(model.W) @ truth.W)
    assert np.all(mixed.max(axis=1) > 0.85) and sorted(mixed.argmax(axis=1)) == list(range(d))


@pytest.mark.parametrize(
    ("fit", "x", "message"),
    [
        (models.Gaussian.fit, np.eye(3), "`x` must hold at least 4 samples of 3 dimensions"),
        (models.Gaussian.fit, [[1.0, 2.0]] * 9, "`x` has a constant column, 0"),
        (models.Gaussian.fit, [1.0, 2.0], "`x` must be two-dimensional"),
        (models.ICA.fit, np.ones((9, 1)) * np.arange(1.0, 3.0), "`x` has a constant column"),
        (models.ICA.fit, np.outer(np.arange(9.0), [1.0, 2.0]), "`x` must span all"),
        (models.Laplace.fit, [[np.nan], [1.0]], "`x` holds NaN"),
        (models.StudentT.fit, [[0.0], [1.0]], "`x` must hold at least 3"),
    ],
)
def test_samples_that_no_model_fits(fit, x, message):
    with pytest.raises(ValueError, match=message):
        fit(x)


def test_ica_needs_samples_of_mean_zero():
    truth = models.ICA([[2.0, 0.5], [0.0, 1.0]], df=3)
    x = truth.sample(500, rng=0)
    with pytest.raises(ValueError, match=r"`x` must have mean zero; that of column 1 is 4.97"):
        models.ICA.fit(x + np.array([0.0, 5.0]))
    for seed in range(20):
        models.ICA.fit(truth.sample(30, rng=seed))


def test_bad_options_of_fits():
    x = np.random.default_rng(0).standard_normal((20, 2))
    for call, name in (
        (lambda: models.Gaussian.fit(x, cov="round"), "cov"),
        (lambda: models.StudentT.fit(x, df=0.0), "df"),
        (lambda: models.ICA.fit(x, df=-1), "df"),
        (lambda: models.GaussianMixture.fit(x, 0), "n_components"),
        (lambda: models.GaussianMixture.fit(x, 2, n_starts=0), "n_starts"),
        (lambda: models.GaussianMixture.fit(x, 10), "x"),
    ):
        with pytest.raises(ValueError, match=f"`{name}`"):
            call()
