"""Models against finite differences, quadrature, exact enumeration and the Stein identity.

Monte Carlo comparisons use fixed seeds and allow five standard errors.
"""

import itertools
import math
import pickle

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fastsksd import models
from fastsksd.compute.gibbs import _tail_normal

COV = np.array([[1.5, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 0.8]])
MIXING = np.array([[1.0, 0.4, 0.0], [-0.3, 0.8, 0.5], [0.2, 0.1, -1.2]])
B = np.array([[0.9, -0.5], [-0.7, 0.6], [0.4, 1.1]])
b = np.array([0.3, -0.2, 0.5])
c = np.array([0.4, -0.6])

MODELS = {
    "gaussian": models.Gaussian([0.5, -1.0, 2.0], COV),
    "gaussian-variances": models.Gaussian(0.5, [0.5, 1.0, 4.0]),
    "laplace": models.Laplace(3, scale=[0.5, 1.0, 2.0], loc=[0.0, 1.0, -1.0]),
    "student": models.StudentT(3, df=5, scale=[0.5, 1.0, 2.0], loc=0.3),
    "ica": models.ICA(MIXING, df=5),
    "mixture": models.GaussianMixture(
        [0.2, 0.5, 0.3],
        [[-2.0, 0.0, 1.0], [1.0, 1.0, 0.0], [0.0, -2.0, 0.0]],
        [COV, [0.5, 1.0, 2.0], 0.7],
    ),
    "rbm-half": models.GaussBernRBM(B, b, c),
    "rbm-full": models.GaussBernRBM(B, b, c, coupling="full"),
}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())


def draw(model, n, rng):
    options = {"burn_in": 60} if isinstance(model, models.GaussBernRBM) else {}
    return model.sample(n, rng=rng, **options)


def points(model, seed, n=20):
    """Points spread wider than the model, clear of the kinks of the Laplace density."""
    x = 3.0 * np.random.default_rng(seed).standard_normal((n, model.d))
    if isinstance(model, models.Laplace):
        x[np.abs(x - model.loc) < 0.01] += 0.1
    return x


def assert_mean_is(values, expected, sigmas=5.0):
    """The mean over the first axis lies within `sigmas` standard errors of `expected`."""
    error = values.std(axis=0, ddof=1) / math.sqrt(values.shape[0])
    np.testing.assert_array_less(np.abs(values.mean(axis=0) - expected), sigmas * error)


# Derivatives


@every_model
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_score_is_the_gradient_of_the_log_density(model, seed):
    x = points(model, seed)
    step = 1e-5
    slopes = [
        (model.log_density(x + step * axis) - model.log_density(x - step * axis)) / (2 * step)
        for axis in np.eye(model.d)
    ]
    np.testing.assert_allclose(model.score(x), np.stack(slopes, axis=1), rtol=1e-6, atol=1e-7)


@every_model
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_score_along_is_the_derivative_of_the_score(model, seed):
    x = points(model, seed)
    r = np.random.default_rng(seed + 1).standard_normal(model.d)
    step = 1e-5
    slopes = (model.score(x + step * r) - model.score(x - step * r)) / (2 * step)
    np.testing.assert_allclose(model.score_along(x, r), slopes, rtol=1e-6, atol=1e-7)


@every_model
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_score_along_is_symmetric_and_linear(model, seed):
    x = points(model, seed)
    u, v = np.random.default_rng(seed + 1).standard_normal((2, model.d))
    np.testing.assert_allclose(model.score_along(x, u) @ v, model.score_along(x, v) @ u, atol=1e-11)
    np.testing.assert_allclose(
        model.score_along(x, 3.0 * u - v),
        3.0 * model.score_along(x, u) - model.score_along(x, v),
        atol=1e-11,
    )


@every_model
def test_from_score_agrees_with_the_model(model):
    x = points(model, seed=3)
    r = np.array([1.0, -2.0, 0.5])
    for bare in (models.Model.from_score(model.score), models.Model.from_score(model.score, d=3)):
        np.testing.assert_array_equal(bare.score(x), model.score(x))
        np.testing.assert_allclose(
            bare.score_along(x, r), model.score_along(x, r), rtol=1e-7, atol=1e-8
        )


@settings(max_examples=60, deadline=None)
@given(
    log_scale=st.floats(-6, 6),
    log_offset=st.floats(0, 5),
    log_length=st.floats(-3, 3),
    n=st.integers(5, 30),
    seed=st.integers(0, 2**32 - 1),
)
def test_differences_adapt_to_the_scale_and_offset_of_the_data(
    log_scale, log_offset, log_length, n, seed
):
    scale = 10.0**log_scale
    exact = models.StudentT(2, df=5, scale=scale, loc=10.0**log_offset * scale)
    x = exact.sample(n, rng=seed)
    r = 10.0**log_length * np.array([0.6, -0.8])
    curvature = np.abs(r).max() / scale**2  # the size of the second derivative at the centre
    bare = models.Model.from_score(exact.score)
    np.testing.assert_allclose(
        bare.score_along(x, r), exact.score_along(x, r), atol=1e-5 * curvature
    )


@pytest.mark.parametrize("size", [1e8, 1e15, 1e150, 1e300])
def test_differences_survive_large_points(size):
    bare = models.Model.from_score(lambda x: -2.0 * x)
    for x in (np.full((1, 2), size), size * np.array([[1.0, -1.0], [0.5, 2.0], [0.0, 0.0]])):
        values = bare.score_along(x, [1.0, 1.0])
        assert np.all(np.isfinite(values))
        if size <= 1e8 or len(x) > 1:  # a lone huge point says nothing about the scale of the model
            np.testing.assert_allclose(values, -2.0, rtol=1e-4)


def test_differences_without_spread():
    bare = models.Model.from_score(np.sin)
    duplicated = np.array([[0.3, 0.7]] * 9 + [[0.5, 0.9]])
    for x in (np.zeros((1, 2)), np.full((4, 2), 0.3), duplicated):
        np.testing.assert_allclose(
            bare.score_along(x, [0.0, 2.0]), np.cos(x) * [0.0, 2.0], atol=1e-8
        )
    np.testing.assert_array_equal(bare.score_along(duplicated, [0.0, 0.0]), 0.0)


def test_student_and_ica_at_huge_points():
    x = np.array([[1e200, -1e300]])
    for model in (models.StudentT(2, df=3), models.ICA(np.eye(2), df=3)):
        np.testing.assert_allclose(model.score(x), -4.0 / x, rtol=1e-12)
        np.testing.assert_allclose(model.score_along(x, [1.0, 1.0]), 0.0, atol=1e-300)
        np.testing.assert_allclose(model.log_density(x) / -4.0, np.log(np.abs(x)).sum(), rtol=0.01)


def test_mixture_far_from_its_components():
    model = MODELS["mixture"]
    x = np.array([[-1e5, 3e4, 2e4]])  # the widest component along x owns the point, alone
    scores = np.stack(
        [
            -np.linalg.solve(cov, (x - mean)[0])
            for cov, mean in zip(model.covs, model.means, strict=True)
        ]
    )
    owner = np.argmax([model._covs[k].log_density(x - model.means[k])[0] for k in range(3)])
    np.testing.assert_allclose(model.score(x)[0], scores[owner])
    r = np.array([1.0, 1.0, 1.0])
    np.testing.assert_allclose(model.score_along(x, r)[0], -np.linalg.solve(model.covs[owner], r))


@settings(max_examples=30, deadline=None)
@given(d=st.integers(1, 6), seed=st.integers(0, 2**32 - 1), log_scale=st.floats(-3, 3))
def test_gaussian_closed_forms(d, seed, log_scale):
    rng = np.random.default_rng(seed)
    root = 10.0**log_scale * (rng.standard_normal((d, d)) + 2.0 * math.sqrt(d) * np.eye(d))
    cov, mean = root @ root.T, rng.standard_normal(d)
    model = models.Gaussian(mean, cov)
    x = rng.standard_normal((7, d))
    r = rng.standard_normal(d)
    np.testing.assert_allclose(model.cov, cov, rtol=1e-9, atol=1e-9 * np.abs(cov).max())
    np.testing.assert_allclose(model.score(x), -np.linalg.solve(cov, (x - mean).T).T, rtol=1e-7)
    np.testing.assert_allclose(
        model.score_along(x, r), np.tile(-np.linalg.solve(cov, r), (7, 1)), rtol=1e-7
    )
    np.testing.assert_allclose(
        model.log_density(x), stats.multivariate_normal(mean, cov).logpdf(x).reshape(7), rtol=1e-7
    )


def test_gaussian_forms_of_the_arguments_agree():
    x = points(MODELS["gaussian"], seed=0)
    full = models.Gaussian(np.zeros(3), np.diag([2.0, 2.0, 2.0]))
    for other in (
        models.Gaussian(0, [2, 2, 2]),
        models.Gaussian(np.zeros(3), 2.0),
        models.Gaussian(0.0, full.cov),
    ):
        assert other.d == 3
        np.testing.assert_allclose(other.cov, full.cov)
        np.testing.assert_allclose(other.score(x), full.score(x))
        np.testing.assert_allclose(other.log_density(x), full.log_density(x))
    assert models.Gaussian(0, 1).d == 1


# Densities


@pytest.mark.parametrize(
    "model",
    [
        models.Gaussian(0.5, 4.0),
        models.Laplace(1, scale=2.0, loc=-1.0),
        models.StudentT(1, df=5, scale=2.0, loc=1.0),
        models.ICA([[-2.0]], df=5),
        models.GaussianMixture([0.3, 0.7], [[-3.0], [1.0]], [0.5, 2.0]),
    ],
    ids=repr,
)
def test_log_density_is_normalised(model):
    # t = sinh(u) covers the tails with a smooth integrand: the trapezoidal rule converges fast.
    u = np.linspace(-12.0, 12.0, 20001)
    density = np.exp(model.log_density(np.sinh(u)[:, None])) * np.cosh(u)
    assert np.trapezoid(density, u) == pytest.approx(1.0, abs=1e-6)


def test_ica_log_density_is_normalised_in_two_dimensions():
    u = np.linspace(-8.0, 8.0, 801)
    grid = np.sinh(u)
    x = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)
    jacobian = np.multiply.outer(np.cosh(u), np.cosh(u)).ravel()
    density = np.exp(models.ICA([[1.0, 0.4], [-0.3, 0.8]]).log_density(x)) * jacobian
    assert density.sum() * (u[1] - u[0]) ** 2 == pytest.approx(1.0, abs=1e-5)


# Samplers


@every_model
def test_sample_moments(model):
    x = draw(model, 20_000, rng=11)
    if isinstance(model, models.Gaussian):
        mean, cov = model.mean, model.cov
    elif isinstance(model, models.Laplace):
        mean, cov = model.loc, np.diag(2.0 * model.scale**2)
    elif isinstance(model, models.StudentT):
        mean, cov = model.loc, np.diag(5.0 / 3.0 * model.scale**2)
    elif isinstance(model, models.ICA):
        mean, cov = np.zeros(3), 5.0 / 3.0 * MIXING @ MIXING.T
    else:
        mixture = model if isinstance(model, models.GaussianMixture) else enumerated(model)
        mean = mixture.weights @ mixture.means
        spread = mixture.means - mean
        cov = np.einsum("k,kij->ij", mixture.weights, mixture.covs) + np.einsum(
            "k,ki,kj->ij", mixture.weights, spread, spread
        )
    assert x.shape == (20_000, 3)
    assert_mean_is(x, mean)
    assert_mean_is((x[:, :, None] - mean[:, None]) * (x[:, None, :] - mean), cov)


@every_model
def test_stein_identity(model):
    """E[s h + h'] = 0 for h = tanh(w.x + 0.5), along several directions."""
    x = draw(model, 20_000, rng=12)
    score = model.score(x)
    for seed in range(3):
        w = np.random.default_rng(seed).standard_normal(3)
        h = np.tanh(x @ w + 0.5)
        assert_mean_is(score * h[:, None] + (1.0 - h**2)[:, None] * w, 0.0)


@every_model
def test_samples_follow_the_seed_and_not_the_thread_count(model):
    def run(threads, rng):
        before = numba.get_num_threads()
        numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
        try:
            return draw(model, 101, rng)
        finally:
            numba.set_num_threads(before)

    first = run(1, rng=5)
    np.testing.assert_array_equal(first, run(2, rng=5))
    np.testing.assert_array_equal(first, run(2, rng=np.random.default_rng(5)))
    assert not np.any(np.all(first == run(1, rng=6), axis=1))
    generator = np.random.default_rng(5)
    run(1, generator)
    assert not np.any(np.all(first == run(1, generator), axis=1))
    assert len(np.unique(first, axis=0)) == 101


# The restricted Boltzmann machine


def enumerated(model):
    """The RBM as the mixture over its 2^d_hidden hidden states that it is."""
    kappa = {"half": 0.5, "full": 1.0}[model.coupling]
    states = np.array(list(itertools.product([-1.0, 1.0], repeat=model.c.size)))
    means = model.b + kappa * states @ model.B.T
    log_weights = states @ model.c + 0.5 * (means**2).sum(axis=1)
    weights = np.exp(log_weights - log_weights.max())
    return models.GaussianMixture(weights / weights.sum(), means, 1.0)


def projected_cdf(mixture, u):
    """Distribution function of x.u for a mixture of unit covariances and a unit vector u."""
    return lambda t: stats.norm.cdf(t[:, None] - mixture.means @ u) @ mixture.weights


def small_rbm(d, d_hidden, coupling):
    """Random, with couplings weak enough for chains to mix within a few hundred steps."""
    rng = np.random.default_rng(100 * d + d_hidden)
    B = rng.standard_normal((d, d_hidden))
    B *= 1.5 / np.linalg.norm(B, 2)
    return models.GaussBernRBM(
        B, 0.5 * rng.standard_normal(d), 0.5 * rng.standard_normal(d_hidden), coupling
    )


@pytest.mark.parametrize("coupling", ["half", "full"])
def test_rbm_scores_and_densities_match_the_enumeration(coupling):
    model = small_rbm(4, 3, coupling)
    mixture = enumerated(model)
    x = points(model, seed=1)
    r = np.array([1.0, -1.0, 0.5, 2.0])
    np.testing.assert_allclose(model.score(x), mixture.score(x), atol=1e-11)
    np.testing.assert_allclose(model.score_along(x, r), mixture.score_along(x, r), atol=1e-11)
    difference = model.log_density(x) - mixture.log_density(x)
    np.testing.assert_allclose(difference, difference[0], atol=1e-11)
    # the constant: log p~(0) = log sum_h exp(c.h)
    assert model.log_density(np.zeros((1, 4)))[0] == pytest.approx(
        np.log(2.0 * np.cosh(model.c)).sum()
    )


@pytest.mark.parametrize("coupling", ["half", "full"])
@pytest.mark.parametrize(("d", "d_hidden"), [(1, 2), (3, 2), (5, 3), (3, 6), (9, 5)])
def test_gibbs_samples_follow_the_enumerated_law(d, d_hidden, coupling):
    model = small_rbm(d, d_hidden, coupling)
    mixture = enumerated(model)
    x = model.sample(10_000, burn_in=300, rng=21)
    assert_mean_is(x, mixture.weights @ mixture.means)
    for u in np.random.default_rng(0).standard_normal((4, d)):
        u /= np.linalg.norm(u)
        assert stats.kstest(x @ u, projected_cdf(mixture, u)).pvalue > 1e-3


@pytest.mark.parametrize("coupling", ["half", "full"])
def test_first_gibbs_step(coupling):
    """From x ~ N(0, I) field k is N(c_k, |K_k|^2), so that E[h_k] is a one-dimensional integral."""
    model = small_rbm(4, 3, coupling)
    coupled = {"half": 0.5, "full": 1.0}[coupling] * model.B
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    fields = model.c[:, None] + np.linalg.norm(coupled, axis=0)[:, None] * nodes
    hidden = np.tanh(fields) @ weights / weights.sum()
    assert_mean_is(model.sample(20_000, burn_in=1, rng=3), model.b + coupled @ hidden)


def test_burn_in_samples_are_states_of_the_chains():
    model = small_rbm(4, 3, "half")
    states = model.burn_in_samples(4, burn_in=4, rng=8)
    for steps in range(1, 5):
        np.testing.assert_array_equal(
            states[steps - 1], model.sample(4, burn_in=steps, rng=8)[steps - 1]
        )
    sparse = model.burn_in_samples(3, burn_in=30, rng=8)
    np.testing.assert_array_equal(sparse[2], model.sample(3, burn_in=21, rng=8)[2])
    dense = model.burn_in_samples(500, burn_in=20, rng=8)
    assert dense.shape == (500, 4)
    assert np.all(np.isfinite(dense))
    np.testing.assert_array_equal(dense[-1], model.sample(500, burn_in=20, rng=8)[-1])


def test_more_chains_leave_the_first_ones_alone():
    model = small_rbm(4, 3, "half")
    np.testing.assert_array_equal(
        model.sample(7, burn_in=9, rng=2), model.sample(50, burn_in=9, rng=2)[:7]
    )


def test_normal_draws():
    """Without coupling the samples are the ziggurat's: bulk, wedges and tails must be normal."""
    model = models.GaussBernRBM(np.zeros((100, 1)), np.zeros(100), np.zeros(1))
    z = model.sample(10_000, burn_in=1, rng=4)
    assert stats.kstest(z.ravel(), "norm").pvalue > 1e-3
    for power, moment in ((1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0), (6, 15.0)):
        assert_mean_is(z.ravel() ** power, moment)
    for sign in (1, -1):
        for edge in (0.1, 1.0, 2.5, 3.6541528853610088, 3.95):
            probability = stats.norm.sf(edge)
            count = np.count_nonzero(sign * z > edge)
            assert abs(count - z.size * probability) < 5.0 * math.sqrt(z.size * probability)
    assert_mean_is(z[:, 1:] * z[:, :-1], 0.0)
    assert_mean_is((z[1:] * z[:-1]).ravel(), 0.0)


def test_tail_of_the_normal_draws():
    """The tail is met once in 4000 draws: here it is drawn on purpose."""
    edge = 3.0
    keys = np.random.default_rng(0).integers(0, 2**64, size=20_000, dtype=np.uint64)
    tail = [_tail_normal(edge, key, np.uint64(0)) for key in keys]
    assert stats.kstest(tail, lambda t: 1.0 - stats.norm.sf(t) / stats.norm.sf(edge)).pvalue > 1e-3


def test_hidden_units_follow_the_logistic_law():
    """Fifty independent pairs of units.

    Two million draws of x = h + noise show a slope that is off by a few percent.
    """
    c_half = 1.0
    model = models.GaussBernRBM(np.eye(50), np.zeros(50), np.repeat([c_half, -c_half], 25), "full")
    x = model.sample(40_000, burn_in=1, rng=9)
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    expected = np.tanh(c_half + nodes) @ weights / weights.sum()
    assert_mean_is(x[:, :25].ravel(), expected)
    assert_mean_is(x[:, 25:].ravel(), -expected)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_early_gibbs_steps_match_a_plain_chain(steps):
    model = models.GaussBernRBM(B, [1.5, -1.0, 2.0], c)
    rng = np.random.default_rng(5)
    x = rng.standard_normal((40_000, 3))
    for _ in range(steps):
        up = rng.random((40_000, 2)) < 1.0 / (1.0 + np.exp(-2.0 * (0.5 * x @ B + c)))
        x = model.b + 0.5 * np.where(up, 1.0, -1.0) @ B.T + rng.standard_normal(x.shape)
    fast = model.sample(40_000, burn_in=steps, rng=6)
    assert_mean_is(fast - x, 0.0)
    assert_mean_is(fast[:, :, None] * fast[:, None, :] - x[:, :, None] * x[:, None, :], 0.0)


def test_random_and_perturbed_rbm():
    model = models.GaussBernRBM.random(50, 40, rng=3, coupling="full")
    assert (model.d, model.d_hidden, model.coupling) == (50, 40, "full")
    assert set(np.unique(model.B)) == {-1.0, 1.0}
    assert abs(model.B.mean()) < 5.0 / math.sqrt(2000)
    assert models.GaussBernRBM.random(5, 4, rng=3).coupling == "half"
    noisy = model.perturbed(0.1, rng=1)
    noise = (noisy.B - model.B).ravel()
    assert_mean_is(noise, 0.0)
    assert_mean_is(noise**2, 0.01)
    np.testing.assert_array_equal(noisy.b, model.b)
    np.testing.assert_array_equal(noisy.c, model.c)
    assert noisy.coupling == "full"
    np.testing.assert_array_equal(model.perturbed(0.0).B, model.B)


# Other models


def test_ica_random_follows_the_published_generator():
    model = models.ICA.random(10, rng=0)
    assert np.linalg.cond(model.W) <= 10
    assert model.df == 5
    assert models.ICA.random(1, rng=0).d == 1
    assert models.ICA.random(3, df=7, rng=0).df == 7
    np.testing.assert_array_equal(models.ICA.random(4, rng=1).W, models.ICA.random(4, rng=1).W)
    # The NLL of the truth: 10 times the entropy of t(5), 1.6275 nats, minus log|det W^-1|.
    likelihoods = model.log_density(model.sample(20_000, rng=1))
    assert_mean_is(-likelihoods, 10 * stats.t(5).entropy() + np.linalg.slogdet(model.W)[1])


def test_mixture_forms_of_covariances_agree():
    means = np.array([[0.0, 1.0], [2.0, 0.0]])
    x = np.array([[0.3, -0.4], [2.0, 2.0]])
    full = models.GaussianMixture([0.4, 0.6], means, [np.diag([2.0, 2.0]), np.diag([2.0, 2.0])])
    for covs in (2.0, [2.0, 2.0], np.full((2, 2), 2.0), [2.0, [2.0, 2.0]], full.covs):
        np.testing.assert_allclose(
            models.GaussianMixture([0.4, 0.6], means, covs).score(x), full.score(x)
        )


def test_laplace_score_along_is_zero_and_score_vanishes_at_the_kink():
    model = models.Laplace(2)
    np.testing.assert_array_equal(model.score(np.zeros((1, 2))), 0.0)
    np.testing.assert_array_equal(model.score_along([[1.0, -2.0]], [1.0, 1.0]), 0.0)
    assert_mean_is(model.sample(20_000, rng=0) ** 2, 1.0)


@every_model
def test_models_travel_between_processes(model):
    copy = pickle.loads(pickle.dumps(model))
    x = points(model, seed=0)
    np.testing.assert_array_equal(copy.score(x), model.score(x))
    np.testing.assert_array_equal(draw(copy, 5, rng=0), draw(model, 5, rng=0))


def test_models_keep_their_own_copies():
    mean = np.zeros(2)
    model = models.Gaussian(mean, 1.0)
    mean[:] = 9.0
    np.testing.assert_array_equal(model.mean, 0.0)
    with pytest.raises(ValueError, match="read-only"):
        model.mean[0] = 1.0


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (models.Gaussian(np.zeros(3), 1.0), "Gaussian(d=3)"),
        (models.Laplace(2), "Laplace(d=2)"),
        (models.StudentT(2, df=4.5), "StudentT(d=2, df=4.5)"),
        (models.ICA(np.eye(2)), "ICA(d=2, df=5)"),
        (MODELS["mixture"], "GaussianMixture(d=3, components=3)"),
        (MODELS["rbm-half"], "GaussBernRBM(d=3, d_hidden=2, coupling='half')"),
        (models.Model.from_score(np.sin, d=2), "Model.from_score(d=2)"),
    ],
)
def test_repr(model, text):
    assert repr(model) == text


def test_accepts_lists_integers_and_float32():
    model = models.Gaussian([0, 0], [[2, 0], [0, 1]])
    expected = [[-0.5, -2.0]]
    for x in ([[1, 2]], np.array([[1, 2]], dtype=np.float32), np.array([[1.0], [2.0]]).T):
        np.testing.assert_allclose(model.score(x), expected)
        assert model.score(x).dtype == np.float64


# What the user gets wrong


def test_missing_methods_say_so():
    with pytest.raises(NotImplementedError, match="score"):
        models.Model().score(np.zeros((1, 1)))
    bare = models.Model.from_score(lambda x: -x)
    for call in (lambda: bare.sample(3), lambda: bare.log_density(np.zeros((1, 2)))):
        with pytest.raises(NotImplementedError, match="knows only its score"):
            call()
    for call in (
        lambda: models.Model().sample(3),
        lambda: models.Model().log_density(np.zeros((1, 2))),
    ):
        with pytest.raises(NotImplementedError, match="Model"):
            call()


@every_model
def test_wrong_points_directions_and_counts(model):
    x = np.zeros((2, 3))
    for method in (model.score, model.log_density, lambda x: model.score_along(x, np.ones(3))):
        with pytest.raises(ValueError, match=r"`x`.*3 columns"):
            method(np.zeros((2, 4)))
        with pytest.raises(ValueError, match=r"`x`.*two-dimensional"):
            method(np.zeros(3))
        with pytest.raises(ValueError, match=r"`x`.*NaN"):
            method(np.full((2, 3), np.nan))
    with pytest.raises(ValueError, match=r"`r`.*length 3"):
        model.score_along(x, np.ones(2))
    with pytest.raises(ValueError, match=r"`r`.*NaN"):
        model.score_along(x, [1.0, np.nan, 0.0])
    with pytest.raises(ValueError, match=r"`n`.*at least 1"):
        model.sample(0)
    with pytest.raises(TypeError, match="`n`"):
        model.sample(2.5)
    with pytest.raises(TypeError, match="`rng`"):
        model.sample(2, rng="seed")


GOOD_MEANS = [[0.0, 0.0], [1.0, 1.0]]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: models.Gaussian(0, np.ones((2, 3))), ValueError, r"`cov`.*\(2, 2\).*\(2, 3\)"),
        (lambda: models.Gaussian(np.zeros(3), np.eye(2)), ValueError, r"`cov`.*\(3, 3\).*\(2, 2\)"),
        (lambda: models.Gaussian(np.zeros(3), [1.0, 1.0]), ValueError, r"`cov`.*\(3,\).*\(2,\)"),
        (
            lambda: models.Gaussian(np.zeros((2, 2)), np.eye(2)),
            ValueError,
            r"`mean`.*\(2,\).*\(2, 2\)",
        ),
        (lambda: models.Gaussian([], 1.0), ValueError, "`mean`"),
        (lambda: models.Gaussian([0.0, np.inf], 1.0), ValueError, "`mean`.*infinity"),
        (lambda: models.Gaussian(0, [[1.0, np.nan], [np.nan, 1.0]]), ValueError, "`cov`.*NaN"),
        (
            lambda: models.Gaussian(0, [[1.0, 2.0], [2.0, 1.0]]),
            ValueError,
            "`cov`.*positive definite.*-1",
        ),
        (lambda: models.Gaussian(0, [[1.0, 0.5], [0.0, 1.0]]), ValueError, "`cov`.*symmetric"),
        (lambda: models.Gaussian(0, [1.0, 0.0]), ValueError, "`cov`.*positive"),
        (lambda: models.Gaussian("zero", 1.0), TypeError, "`mean`"),
        (lambda: models.Laplace(0), ValueError, "`d`"),
        (lambda: models.Laplace(2.0), TypeError, "`d`"),
        (lambda: models.Laplace(2, scale=0.0), ValueError, "`scale`.*positive"),
        (lambda: models.Laplace(2, loc=[1.0, 2.0, 3.0]), ValueError, "`loc`"),
        (lambda: models.StudentT(2, df=0), ValueError, "`df`"),
        (lambda: models.StudentT(2, scale=[1.0, -1.0]), ValueError, "`scale`.*positive"),
        (lambda: models.ICA(np.ones((2, 2))), ValueError, "`W`.*invertible.*condition"),
        (lambda: models.ICA(np.zeros((2, 2))), ValueError, "`W`.*invertible"),
        (lambda: models.ICA(np.ones((2, 3))), ValueError, "`W`.*square"),
        (lambda: models.ICA(np.eye(2), df=-1), ValueError, "`df`"),
        (lambda: models.ICA.random(0), ValueError, "`d`"),
        (
            lambda: models.GaussianMixture([0.5, 0.6], GOOD_MEANS, 1.0),
            ValueError,
            r"`weights`.*sum.*1\.1",
        ),
        (
            lambda: models.GaussianMixture([1.5, -0.5], GOOD_MEANS, 1.0),
            ValueError,
            "`weights`.*positive",
        ),
        (lambda: models.GaussianMixture([1.0], GOOD_MEANS, 1.0), ValueError, "`weights`"),
        (lambda: models.GaussianMixture([0.5, 0.5], [0.0, 1.0], 1.0), ValueError, "`means`"),
        (
            lambda: models.GaussianMixture([0.5, 0.5], GOOD_MEANS, [1.0]),
            ValueError,
            "`covs`.*2 components",
        ),
        (
            lambda: models.GaussianMixture([0.5, 0.5], GOOD_MEANS, [1.0, -1.0]),
            ValueError,
            r"`covs\[1\]`.*positive",
        ),
        (lambda: models.GaussianMixture([0.5, 0.5], GOOD_MEANS, None), TypeError, "`covs"),
        (lambda: models.GaussBernRBM(B[0], b, c), ValueError, r"`B`.*\(d, d_hidden\)"),
        (lambda: models.GaussBernRBM(B, b[:2], c), ValueError, r"`b`.*\(3,\)"),
        (lambda: models.GaussBernRBM(B, b, np.zeros(3)), ValueError, r"`c`.*\(2,\)"),
        (
            lambda: models.GaussBernRBM(B, b, c, coupling="third"),
            ValueError,
            "`coupling`.*'half', 'full'.*'third'",
        ),
        (lambda: models.GaussBernRBM.random(0, 3), ValueError, "`d`"),
        (lambda: models.GaussBernRBM.random(3, 0), ValueError, "`d_hidden`"),
        (lambda: MODELS["rbm-half"].perturbed(-1.0), ValueError, "`std`"),
        (lambda: MODELS["rbm-half"].sample(2, burn_in=0), ValueError, "`burn_in`"),
        (lambda: MODELS["rbm-half"].burn_in_samples(0), ValueError, "`n`"),
        (lambda: MODELS["rbm-half"].burn_in_samples(2, burn_in=0), ValueError, "`burn_in`"),
        (lambda: models.Model.from_score(np.zeros((2, 2))), TypeError, "`score`.*callable"),
        (lambda: models.Model.from_score(np.sin, d=0), ValueError, "`d`"),
        (
            lambda: models.Model.from_score(lambda x: x[:, :1]).score(np.zeros((2, 2))),
            ValueError,
            "`score`.*shape",
        ),
        (
            lambda: models.Model.from_score(lambda x: 1 / 0).score(np.zeros((2, 2))),
            ValueError,
            "`score`.*ZeroDivisionError",
        ),
    ],
)
def test_bad_arguments_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()
