"""The bridge to NumPyro: runs with and without stored gradients, models, discrete sites."""

import numpy as np
import pytest

numpyro = pytest.importorskip("numpyro")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from numpyro import distributions as dist  # noqa: E402
from numpyro.infer import HMC, MCMC, NUTS, SVI, Trace_ELBO, autoguide  # noqa: E402

from fastsksd.interop import numpyro as bridge  # noqa: E402

Y = np.random.default_rng(0).normal(0.5, 1.2, 20)


@pytest.fixture(scope="module", autouse=True)
def double():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def model(y, spread=1.0):
    sigma = numpyro.sample("sigma", dist.HalfNormal(spread))
    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
    p = numpyro.sample("p", dist.Dirichlet(jnp.array([2.0, 3.0, 4.0])))
    # A support that depends on another site.
    numpyro.sample("u", dist.Uniform(0.0, sigma).expand([2]))
    numpyro.deterministic("first", p[0])
    numpyro.sample("y", dist.Normal(mu, sigma), obs=y)


# A simplex, and bounds that depend on another site, have no short formula.
NAMES = (
    "mu",
    "p[0] (unconstrained)",
    "p[1] (unconstrained)",
    "log(sigma)",
    "u[0] (unconstrained)",
    "u[1] (unconstrained)",
)


def run(model, *args, chains=2, extra_fields=(), **kwargs):
    mcmc = MCMC(
        NUTS(model),
        num_warmup=300,
        num_samples=400,
        num_chains=chains,
        chain_method="sequential",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(1), *args, extra_fields=extra_fields, **kwargs)
    return mcmc


@pytest.fixture(scope="module")
def mcmc():
    return run(model, Y, extra_fields=("z_grad", "z.mu", "z.sigma"))


def log_density(z, spread=1.0):
    """The same model by hand, in unconstrained space, up to a constant.

    The columns are mu, two of p by stick breaking, log sigma and logit(u / sigma).
    """
    mu, stick, log_sigma, logit = z[0], z[1:3], z[3], z[4:6]
    sigma = np.exp(log_sigma)
    share = 1 / (1 + np.exp(-(stick - np.log([2.0, 1.0]))))
    p = np.r_[share[0], share[1] * (1 - share[0]), (1 - share[0]) * (1 - share[1])]
    total = (
        -(mu**2) / 8
        - sigma**2 / (2 * spread**2)
        + log_sigma
        - 0.5 * np.sum((Y - mu) ** 2) / sigma**2
        - len(Y) * log_sigma
    )
    total += (
        np.sum(np.array([1.0, 2.0, 3.0]) * np.log(p))
        + np.sum(np.log(share * (1 - share)))
        + np.log(1 - share[0])
    )
    return total + np.sum(-logit - 2 * np.log1p(np.exp(-logit)))  # a uniform share of sigma


def differences(z, **options):
    steps = 1e-4 * np.eye(z.size)
    return np.array(
        [(log_density(z + h, **options) - log_density(z - h, **options)) / 2e-4 for h in steps]
    )


def test_scores_of_a_model():
    z = np.random.default_rng(2).standard_normal((5, 6))
    for spread in (1.0, 2.0):
        score = bridge.score(model, (Y,), {"spread": spread}, batch_size=2)
        np.testing.assert_allclose(
            score(z), [differences(row, spread=spread) for row in z], rtol=1e-6, atol=1e-6
        )


def test_a_run(mcmc):
    draws = bridge.draws(mcmc, on_divergence="keep")
    assert draws.names == NAMES and len(draws) == 800
    fields = mcmc.get_extra_fields(group_by_chain=True)
    np.testing.assert_allclose(draws.x[:, 3], fields["z.sigma"].reshape(-1), atol=1e-10)
    np.testing.assert_allclose(draws.x[:, 3], np.log(mcmc.get_samples()["sigma"]), atol=1e-10)
    np.testing.assert_allclose(
        draws.score[::100], [differences(row) for row in draws.x[::100]], rtol=1e-5, atol=1e-5
    )
    np.testing.assert_array_equal(draws.score[:, 0], -fields["z_grad"]["mu"].reshape(-1))
    assert draws.test(rng=0).pvalue > 0.05


def test_draws_of_a_model(mcmc):
    samples = {
        name: np.asarray(values) for name, values in mcmc.get_samples(group_by_chain=True).items()
    }
    stored = bridge.draws(mcmc, on_divergence="keep")
    computed = bridge.draws(model, samples, model_args=(Y,))
    assert computed.names == stored.names == NAMES
    np.testing.assert_allclose(computed.x, stored.x, atol=1e-12)
    np.testing.assert_allclose(computed.score, stored.score, rtol=1e-6, atol=1e-6)
    wrong = bridge.draws(model, samples, model_args=(Y + 0.5,), var_names=["mu", "sigma"])
    assert wrong.names == ("mu", "log(sigma)") and wrong.test(rng=0).reject()


def test_a_run_without_stored_gradients():
    small = run(lambda: numpyro.sample("scale", dist.HalfNormal()), chains=1)
    draws = bridge.draws(small, on_divergence="keep")
    np.testing.assert_allclose(draws.score[:, 0], 1.0 - np.exp(2 * draws.x[:, 0]), rtol=1e-8)


def supports():
    numpyro.sample("rate", dist.Gamma(2.0, 3.0).expand([2]).to_event(1))
    numpyro.sample("share", dist.Uniform(0.0, 1.0))
    numpyro.sample("chance", dist.Beta(2.0, 3.0))
    numpyro.sample("over", dist.Pareto(2.0, 3.0))
    numpyro.sample("free", dist.StudentT(3.0, 1.0, 2.0))
    numpyro.sample("tree", dist.LKJCholesky(3))


@pytest.mark.parametrize("x64", [False, True])
def test_names_say_what_is_tested(x64):
    jax.config.update("jax_enable_x64", x64)
    try:
        small = run(supports, chains=1, extra_fields=("z_grad",))
        names = bridge.draws(small).names
    finally:
        jax.config.update("jax_enable_x64", True)
    assert names == (
        "logit(chance)",
        "free",
        "over (unconstrained)",
        "log(rate[0])",
        "log(rate[1])",
        "logit(share)",
        *(f"tree[{k}] (unconstrained)" for k in range(3)),
    )


@pytest.mark.parametrize("fields", [(), ("z_grad",)])
def test_a_potential_function(fields):
    mcmc = MCMC(
        HMC(potential_fn=lambda z: 0.5 * ((z["a"] - 1) ** 2).sum()),
        num_warmup=50,
        num_samples=60,
        progress_bar=False,
    )
    mcmc.run(jax.random.key(0), init_params={"a": jnp.zeros(2)}, extra_fields=fields)
    draws = bridge.draws(mcmc, on_divergence="keep")
    assert draws.names == ("a[0]", "a[1]")
    np.testing.assert_allclose(draws.score, 1 - draws.x, rtol=1e-12)


def test_discrete_sites():
    def mixture():
        k = numpyro.sample("k", dist.Bernoulli(0.5), infer={"enumerate": "parallel"})
        numpyro.sample("m", dist.Normal(2.0 * k, 1.0))

    with pytest.raises(
        ValueError, match=r"discrete sites, 'k'; .* extra_fields=\('z_grad', 'z.m'\)"
    ):
        bridge.draws(mixture, {"m": np.zeros((1, 3))})


def test_bad_input_is_explained(mcmc):
    with pytest.raises(
        ValueError, match="`samples` holds no site 'p' of the model; there are 'mu', 'sigma'"
    ):
        bridge.draws(model, {"mu": np.zeros((1, 3)), "sigma": np.ones((1, 3))}, model_args=(Y,))
    with pytest.raises(TypeError, match="`samples` are needed with a model"):
        bridge.draws(model)
    with pytest.raises(TypeError, match="`samples` are for a model"):
        bridge.draws(mcmc, {})
    with pytest.raises(
        TypeError,
        match=r"`source` must be a finished numpyro.infer.MCMC or a model, a function; got str",
    ):
        bridge.draws("model", {})
    with pytest.raises(ValueError, match="`source` has no draws yet"):
        bridge.draws(MCMC(NUTS(model), num_warmup=1, num_samples=1))
    with pytest.raises(
        ValueError, match=r"`var_names` .*: no variable 'tau'; there are 'mu', 'p', 'sigma', 'u'"
    ):
        bridge.draws(mcmc, var_names="tau", on_divergence="keep")


def test_divergences_are_counted(mcmc):
    diverging = mcmc._states["diverging"]
    try:
        mcmc._states["diverging"] = jnp.zeros((2, 400), dtype=bool).at[1, :3].set(True)
        with pytest.raises(ValueError, match=r"3 of 800 draws \(3 in chain 1\) diverged"):
            bridge.draws(mcmc, on_divergence="error")
        assert bridge.draws(mcmc).n_divergent == 3
        assert len(bridge.draws(mcmc, on_divergence="drop")) == 797
    finally:
        mcmc._states["diverging"] = diverging


# A normal posterior, and a positive variable that is normal in unconstrained space.
PRECISION = np.array([[1.5, -0.5, -0.5, 0], [-0.5, 1, 0, 0], [-0.5, 0, 1, 0], [0, 0, 0, 1.0]])


def normal_model(width):
    a = numpyro.sample("a", dist.Normal(0.0, width))
    numpyro.sample("b", dist.Normal(0.5 * a, 1.0).expand([2]))
    numpyro.sample("scale", dist.LogNormal(0.0, 1.0))


def normal_guide(width):
    """Written by hand, without correlations."""
    numpyro.sample("a", dist.Normal(0.0, numpyro.param("spread", 1.0)))
    numpyro.sample("b", dist.Normal(0.0, 1.0).expand([2]))
    numpyro.sample("scale", dist.LogNormal(0.0, 1.0))


def fit(guide, steps=600, rate=0.03):
    svi = SVI(normal_model, guide, numpyro.optim.Adam(rate), Trace_ELBO(num_particles=20))
    return svi.run(jax.random.key(0), steps, 1.0, progress_bar=False).params


def drawn(guide, params, count=500, **options):
    return bridge.variational(guide, params, count, model_args=(1.0,), rng=0, **options)


@pytest.mark.parametrize("name", ["AutoLaplaceApproximation", "AutoMultivariateNormal"])
def test_guides_that_hold_the_posterior(name):
    guide = getattr(autoguide, name)(normal_model)
    draws = drawn(guide, fit(guide))
    assert draws.names == ("a", "b[0]", "b[1]", "log(scale)") and draws.independent
    np.testing.assert_allclose(draws.score, -draws.x @ PRECISION, atol=1e-8)
    result = draws.test(rng=0)
    # Laplace is exact here; the other one is as good as its optimiser.
    assert result.pvalue > (0.05 if "Laplace" in name else 0.001)


@pytest.mark.parametrize("name", ["AutoDiagonalNormal", "AutoNormal"])
def test_a_mean_field_misses_correlations(name):
    guide = getattr(autoguide, name)(normal_model)
    draws = drawn(guide, fit(guide), 1000)
    np.testing.assert_allclose(draws.score, -draws.x @ PRECISION, atol=1e-6)
    assert draws.test(rng=0).reject()


@pytest.mark.parametrize("name", ["AutoIAFNormal", "AutoBNAFNormal"])
def test_flows(name):
    guide = getattr(autoguide, name)(normal_model)
    draws = drawn(guide, fit(guide, steps=20), 100)
    assert draws.x.shape == (100, 4)
    np.testing.assert_allclose(draws.score, -draws.x @ PRECISION, atol=1e-6)
    assert draws.diagnose().n_chains == 0


def test_a_guide_written_by_hand():
    draws = drawn(normal_guide, {"spread": 1.0}, model=normal_model)
    assert draws.names == ("a", "b[0]", "b[1]", "log(scale)")
    np.testing.assert_allclose(draws.score, -draws.x @ PRECISION, atol=1e-6)
    np.testing.assert_array_equal(
        draws.x, drawn(normal_guide, {"spread": 1.0}, model=normal_model).x
    )


def test_bad_guides():
    with pytest.raises(TypeError, match="`model` must be given with a guide"):
        bridge.variational(normal_guide, {})
    with pytest.raises(TypeError, match="`guide` must be a fitted guide; got int"):
        bridge.variational(3, {})
    guide = autoguide.AutoNormal(normal_model)
    with pytest.raises(TypeError, match="`params` must map names to arrays"):
        bridge.variational(guide, None, model_args=(1.0,))
    with pytest.raises(ValueError, match="`guide` holds no site 'b'"):
        drawn(lambda width: numpyro.sample("a", dist.Normal()), {}, model=normal_model)


def improper(y):
    mu = numpyro.sample("mu", dist.ImproperUniform(dist.constraints.real, (), ()))
    numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)


@pytest.mark.parametrize("name", ["AutoNormal", "AutoDiagonalNormal"])
def test_a_model_without_its_data(name):
    """Its observed site would be drawn, and the draws compared with another posterior."""

    def normal(y=None):
        numpyro.sample("y", dist.Normal(numpyro.sample("mu", dist.Normal()), 1.0), obs=y)

    guide = getattr(autoguide, name)(normal)
    svi = SVI(normal, guide, numpyro.optim.Adam(0.1), Trace_ELBO())
    params = svi.run(jax.random.key(0), 5, y=1.0, progress_bar=False).params
    with pytest.raises(ValueError, match=r"no site 'y'.*Data of the model are needed"):
        bridge.variational(guide, params)
    assert bridge.variational(guide, params, model_kwargs={"y": 1.0}).names == ("mu",)


def test_improper_priors():
    values = np.random.default_rng(0).normal(Y.mean(), len(Y) ** -0.5, (1, 200))
    draws = bridge.draws(improper, {"mu": values}, model_args=(Y,))
    np.testing.assert_allclose(draws.score, len(Y) * (Y.mean() - draws.x), atol=1e-8)
    assert draws.test(lag=1, rng=0).pvalue > 0.05
