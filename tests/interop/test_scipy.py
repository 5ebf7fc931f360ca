"""Models from SciPy's frozen distributions: scores against differences, transforms, errors."""

import numpy as np
import pytest
from scipy import stats

import fastsksd as fs
from fastsksd.interop import scipy as bridge

LINE = [
    stats.norm(1, 2),
    stats.t(4, loc=1, scale=0.5),
    stats.laplace(0.3, 2),
    stats.logistic(1, 2),
    stats.cauchy(0, 3),
    stats.gumbel_r(1, 2),
    stats.gumbel_l(1, 2),
    stats.hypsecant(0.5, 2),
    stats.skewnorm(3, loc=1, scale=2),  # no closed form here
    stats.norminvgauss(1.5, 0.5),
]
BOUNDED = [
    stats.beta(2, 0.7, loc=1, scale=3),
    stats.chi2(3, loc=-1),
    stats.expon(scale=2),
    stats.gamma(0.6, loc=2, scale=2),
    stats.halfnorm(scale=2),
    stats.invgamma(2, scale=3),
    stats.lognorm(0.8, scale=2),
    stats.uniform(1, 2),
    stats.weibull_min(1.5, scale=2),
    stats.weibull_max(1.5, scale=2),  # bounded above, no closed form here
    stats.truncnorm(-1, 2),
]
MULTIVARIATE = [
    stats.multivariate_normal([1.0, -1.0], [[2.0, 0.7], [0.7, 1.0]]),
    stats.multivariate_t([1.0, -1.0], [[2.0, 0.7], [0.7, 1.0]], df=3),
    stats.multivariate_t([1.0, -1.0], [[2.0, 0.7], [0.7, 1.0]], df=np.inf),
]


def named(distributions):
    return [pytest.param(p, id=p.dist.name) for p in distributions]


def richardson(log_density, z, step):
    """Derivative by central differences, extrapolated."""
    first, second = ((log_density(z + h) - log_density(z - h)) / (2 * h) for h in (step, 2 * step))
    return (4 * first - second) / 3


@pytest.mark.parametrize("p", named(LINE))
def test_scores_on_the_line(p):
    model = bridge.model(p)
    x = model.sample(50, rng=0)
    expected = richardson(p.logpdf, x, 1e-3)
    away = np.abs(x - 0.3) > 2e-3  # the Laplace distribution has a corner
    np.testing.assert_allclose(model.score(x)[away], expected[away], rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(model.log_density(x), p.logpdf(x)[:, 0])
    assert model.d == 1


@pytest.mark.parametrize("p", named(BOUNDED))
def test_scores_after_a_transform(p):
    low, high = p.support()
    x = p.rvs((50, 1), random_state=0)
    draws = bridge.draws(x, p)
    if np.isfinite(low) and np.isfinite(high):
        z, back, slope = (
            np.log((x - low) / (high - x)),
            lambda z: low + (high - low) / (1 + np.exp(-z)),
            lambda z: -z - 2 * np.log1p(np.exp(-z)),
        )
    elif np.isfinite(low):
        z, back, slope = np.log(x - low), lambda z: low + np.exp(z), lambda z: z
    else:
        z, back, slope = np.log(high - x), lambda z: high - np.exp(z), lambda z: z
    np.testing.assert_allclose(draws.x, z, atol=1e-14)
    np.testing.assert_allclose(
        draws.score,
        richardson(lambda z: p.logpdf(back(z)) + slope(z), z, 1e-3),
        rtol=1e-6,
        atol=1e-7,
    )


@pytest.mark.parametrize("p", MULTIVARIATE)
def test_scores_of_several_variables(p):
    model = bridge.model(p)
    x = model.sample(20, rng=0)
    steps = 1e-3 * np.eye(2)
    expected = [
        (8 * (p.logpdf(x + h) - p.logpdf(x - h)) - p.logpdf(x + 2 * h) + p.logpdf(x - 2 * h))
        / 12e-3
        for h in steps
    ]
    np.testing.assert_allclose(model.score(x), np.stack(expected, axis=1), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(model.log_density(x), p.logpdf(x))
    np.testing.assert_array_equal(bridge.draws(x, p).score, model.score(x))


def test_a_kernel_density_is_a_mixture():
    p = stats.gaussian_kde(
        np.random.default_rng(0).standard_normal((2, 30)), weights=np.r_[0.0, np.arange(29)]
    )
    model = bridge.model(p)
    x = model.sample(10, rng=0)
    np.testing.assert_allclose(model.log_density(x), np.log(p(x.T)))
    expected = [(np.log(p((x + h).T)) - np.log(p((x - h).T))) / 2e-5 for h in 1e-5 * np.eye(2)]
    np.testing.assert_allclose(model.score(x), np.stack(expected, axis=1), rtol=1e-5, atol=1e-6)


def test_arrays_and_sequences_are_independent_coordinates():
    model = bridge.model([stats.norm([0, 1, 2], scale=[1, 2, 3]), stats.t(3)])
    assert model.d == 4
    x = model.sample(7, rng=0)
    assert x.shape == (7, 4)
    np.testing.assert_allclose(model.score(x)[:, :3], -(x[:, :3] - [0, 1, 2]) / [1, 4, 9])
    np.testing.assert_allclose(model.score(x)[:, 3], -4 * x[:, 3] / (3 + x[:, 3] ** 2))
    np.testing.assert_allclose(
        model.log_density(x),
        stats.norm([0, 1, 2], [1, 2, 3]).logpdf(x[:, :3]).sum(axis=1) + stats.t(3).logpdf(x[:, 3]),
    )
    mixed = bridge.draws(
        np.c_[x[:, 0], np.exp(x[:, 1]), 1 / (1 + np.exp(-x[:, 2]))],
        [stats.norm(), stats.gamma(2), stats.beta([2], 3)],
    )
    assert mixed.names == ("x[0]", "log(x[1] - 0)", "log((x[2] - 0) / (1 - x[2]))")
    np.testing.assert_allclose(mixed.x, x[:, :3])
    np.testing.assert_allclose(mixed.score[:, 1], 2 - np.exp(x[:, 1]))


@pytest.mark.skipif(
    not hasattr(stats, "Normal"), reason="this SciPy has no distributions of the new kind"
)
def test_distributions_of_the_new_kind():
    model = bridge.model(stats.Normal(mu=[0.0, 1.0], sigma=2.0))
    x = model.sample(9, rng=0)
    assert x.shape == (9, 2)
    np.testing.assert_allclose(model.score(x), -(x - [0, 1]) / 4, rtol=1e-9, atol=1e-10)


def test_the_right_law_is_kept_and_a_wrong_one_rejected():
    x = np.random.default_rng(5).gamma(1.2, size=(800, 1))
    assert bridge.draws(x, stats.gamma(1.2)).test(lag=1, rng=0).pvalue > 0.05
    assert bridge.draws(x, stats.gamma(2.0)).test(lag=1, rng=0).reject()
    # With its support bounded as it is, the right law would be rejected.
    assert fs.gof_test(x, lambda x: 0.2 / x - 1, rng=0).reject()
    normal = bridge.model(MULTIVARIATE[0])
    assert not fs.gof_test(normal.sample(500, rng=1), normal, rng=0).reject()


def test_bad_input_is_explained():
    with pytest.raises(
        ValueError,
        match=r"coordinate 1 lives on \(0, inf\), where the Stein.* by log\(x\[1\] - 0\)",
    ):
        bridge.model([stats.norm(), stats.gamma(2)])
    with pytest.raises(
        ValueError, match=r"coordinate 0 lives on \(0, 1\).*scipy.draws\(x, distribution\)"
    ):
        bridge.model(stats.beta(2, 3))
    with pytest.raises(
        ValueError,
        match=r"`x` holds 2 of 3 samples that are not inside .* \(0, inf\) of coordinate 0",
    ):
        bridge.draws([[1.0], [0.0], [-1.0]], stats.gamma(2))
    with pytest.raises(TypeError, match=r"got norm_gen. Freeze it first"):
        bridge.model(stats.norm)
    for wrong, what in (
        (stats.poisson(3), "rv_discrete_frozen"),
        (stats.dirichlet([1, 2]), "dirichlet_frozen"),
        ([], "an empty sequence"),
    ):
        with pytest.raises(
            TypeError, match=f"`distribution` must be a frozen continuous .* got {what}"
        ):
            bridge.model(wrong)
    with pytest.raises(ValueError, match="`cov` must be positive definite"):
        bridge.model(stats.multivariate_normal([0, 0], np.ones((2, 2)), allow_singular=True))
    with pytest.raises(ValueError, match="`x` must have 1 columns"):
        bridge.draws(np.ones((3, 2)), stats.norm())
