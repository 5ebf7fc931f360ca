"""The bridge to PyMC, with draws of PyMC's sampler and of nutpie.

All is compiled through JAX or not at all, so that nothing depends on a C++ compiler.
"""

import warnings

import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.filterwarnings(
        "ignore", message="(?s).*ArviZ is undergoing a major refactor", category=FutureWarning
    )
    pm = pytest.importorskip("pymc")
    nutpie = pytest.importorskip("nutpie")
pytest.importorskip("jax")

import fastsksd as fs
from fastsksd.interop import pymc as bridge

# Where PyTensor finds no BLAS it says so at its first product of matrices.
pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
MODE = "FAST_COMPILE"
Y = np.random.default_rng(0).normal(0.5, 1.2, 20)


def make(y=Y):
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma", 1.0)
        mu = pm.Normal("mu", 0.0, 2.0)
        pm.Dirichlet("p", np.array([2.0, 3.0, 4.0]))
        pm.Beta("b", 2.0, 3.0, shape=(2, 2))
        pm.Uniform("u", 0.0, sigma)  # a support that depends on another variable
        pm.Deterministic("double", 2 * mu)
        pm.Normal("y", mu, sigma, observed=y)
    return model


MODEL = make()
NAMES = ("sigma_log__", "mu", "p_simplex__[0]", "p_simplex__[1]")
NAMES += (
    "b_logodds__[0, 0]",
    "b_logodds__[0, 1]",
    "b_logodds__[1, 0]",
    "b_logodds__[1, 1]",
    "u_interval__",
)


def log_density(z):
    """The same model by hand, in unconstrained space, up to a constant."""
    log_sigma, mu, simplex, odds, share = z[0], z[1], z[2:4], z[4:8], z[8]
    total = (
        log_sigma
        - np.exp(2 * log_sigma) / 2
        - mu**2 / 8
        - len(Y) * log_sigma
        - np.sum((Y - mu) ** 2) * np.exp(-2 * log_sigma) / 2
    )
    p = np.exp(np.r_[simplex, -simplex.sum()])
    # Of the Jacobian all that depends on z is the product of p.
    total += np.sum([2.0, 3.0, 4.0] * np.log(p / p.sum()))
    total += np.sum(2 * odds - 5 * np.log1p(np.exp(odds)))
    return total + share - 2 * np.log1p(np.exp(share))


def differences(z):
    steps = 1e-4 * np.eye(z.size)
    return np.array([(log_density(z + h) - log_density(z - h)) / 2e-4 for h in steps])


@pytest.fixture(scope="module")
def idata():
    """Draws of nutpie, with gradients and unconstrained draws."""
    compiled = nutpie.compile_pymc_model(MODEL, backend="jax", gradient_backend="jax")
    return nutpie.sample(
        compiled,
        draws=500,
        tune=300,
        chains=2,
        cores=1,
        seed=3,
        progress_bar=False,
        store_gradient=True,
        store_unconstrained=True,
    )


def constrained(idata):
    names = ["sigma", "mu", "p", "b", "u"]
    return {name: idata.posterior[name].values for name in names}


def test_scores_of_a_model():
    z = np.random.default_rng(1).standard_normal((5, 9))
    np.testing.assert_allclose(
        bridge.score(MODEL, mode=MODE)(z), [differences(row) for row in z], rtol=1e-6, atol=1e-6
    )


def test_stored_gradients_are_those_of_the_model(idata):
    draws = fs.interop.arviz.draws(idata, on_divergence="keep")
    columns = [
        draws.names.index(name)
        for name in ("mu", "sigma_log__", "p_simplex__[1]", "b_logodds__[1, 0]")
    ]
    exact = np.array(
        [
            differences(row)
            for row in bridge.draws(MODEL, idata, mode=MODE, on_divergence="keep").x[::100]
        ]
    )
    np.testing.assert_allclose(
        draws.score[::100][:, columns], exact[:, [1, 0, 3, 6]], rtol=1e-5, atol=1e-5
    )
    assert draws.test(rng=0).pvalue > 0.05
    some = fs.interop.arviz.draws(idata, var_names=["p_simplex__", "mu"], on_divergence="keep")
    assert some.names == ("p_simplex__[0]", "p_simplex__[1]", "mu")


def test_draws_go_back_to_unconstrained_space(idata):
    ready = bridge.draws(MODEL, idata, mode=MODE, on_divergence="keep")
    transformed = bridge.draws(MODEL, constrained(idata), mode=MODE)
    assert ready.names == transformed.names == NAMES and len(ready) == 1000
    np.testing.assert_array_equal(
        ready.x[:, 0],
        idata.sample_stats["unconstrained_draw"]
        .sel(unconstrained_parameter="sigma_log__")
        .values.ravel(),
    )
    np.testing.assert_allclose(transformed.x, ready.x, atol=1e-9)
    np.testing.assert_allclose(transformed.score, ready.score, rtol=1e-6, atol=1e-6)
    some = bridge.draws(MODEL, constrained(idata), mode=MODE, var_names=["mu", "p"])
    np.testing.assert_array_equal(some.score, transformed.score[:, 1:4])


def test_another_posterior_is_rejected(idata):
    other = make(Y + 0.5)
    assert (
        bridge.draws(other, constrained(idata), mode=MODE, var_names=["mu", "sigma"])
        .test(rng=0)
        .reject()
    )


def test_pymc_sampler_and_discrete_variables():
    with pm.Model() as model:
        k = pm.Bernoulli("k", 0.4)
        m = pm.Normal("m", 2.0 * k, 1.0)
        pm.HalfNormal("s", pm.math.exp(0.1 * m))
    with pytest.raises(
        ValueError, match=r"`model` has discrete variables, 'k'; fastsksd.interop.pymc.draws"
    ):
        bridge.score(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few draws
        idata = pm.sample(
            150, tune=100, chains=2, cores=1, random_seed=1, progressbar=False, model=model,
            compile_kwargs={"mode": MODE}, compute_convergence_checks=False,
        )  # fmt: skip
    draws = bridge.draws(model, idata, mode=MODE, on_divergence="keep")
    assert draws.names == ("m", "s_log__")
    m, s, k = draws.x[:, 0], np.exp(draws.x[:, 1]), idata.posterior["k"].values.ravel()
    ratio = s**2 * np.exp(-0.2 * m)
    np.testing.assert_allclose(
        draws.score, np.c_[2.0 * k - m - 0.1 + 0.1 * ratio, 1.0 - ratio], rtol=1e-8, atol=1e-8
    )
    assert draws.test(rng=0).pvalue > 0.01


def test_draws_on_the_border_are_counted(idata):
    values = constrained(idata)
    values["sigma"] = values["sigma"].copy()
    values["sigma"][1, :2] = 0.0
    with pytest.raises(
        ValueError,
        match=r"2 of 1000 draws \(2 in chain 1\) hold NaN or infinity in unconstrained space",
    ):
        bridge.draws(MODEL, values, mode=MODE)
    assert bridge.draws(MODEL, values, mode=MODE, on_nan="drop").n_dropped == 2


def test_bad_input_is_explained(idata):
    with pytest.raises(TypeError, match=r"`model` must be a pymc.Model; got dict"):
        bridge.draws({}, idata)
    with pytest.raises(
        ValueError,
        match="`idata` has no variable 'u' of the model; there are 'sigma', 'mu', 'p', 'b'",
    ):
        bridge.draws(
            MODEL, {name: value for name, value in constrained(idata).items() if name != "u"}
        )
    with pytest.raises(
        ValueError,
        match=r"`var_names` .*: no variable 'tau'; there are 'sigma', 'mu', 'p', 'b', 'u'",
    ):
        bridge.draws(MODEL, idata, mode=MODE, var_names="tau", on_divergence="keep")
    with pytest.raises(ValueError, match="`x` must have 9 columns"):
        bridge.score(MODEL, mode=MODE)(np.zeros((1, 3)))


def test_coordinates_are_in_the_names():
    """They are those of ArviZ, so that its tables and ours can be joined."""
    with pm.Model(coords={"school": ["A", "B"]}) as schools:
        pm.Normal("eta", dims="school")
        pm.HalfNormal("tau", dims=("school", "year"), shape=(2, 2))
        approximation = pm.MeanField(model=schools)
    names = ("eta[A]", "eta[B]", *(f"tau_log__[{k}]" for k in ("A, 0", "A, 1", "B, 0", "B, 1")))
    rng = np.random.default_rng(0)
    drawn = {"eta": rng.normal(size=(2, 20, 2)), "tau": abs(rng.normal(size=(2, 20, 2, 2)))}
    assert bridge.draws(schools, drawn, mode=MODE).names == names
    assert bridge.variational(approximation, 20, mode=MODE, rng=0).names == names


def normal_model():
    """A posterior that is normal in unconstrained space: N(mean, covariance)."""
    with pm.Model() as model:
        a = pm.Normal("a", 0.0, 1.0)
        pm.Normal("b", 0.5 * a, 1.0, shape=2)
    return model


PRECISION = np.array([[1.5, -0.5, -0.5], [-0.5, 1.0, 0.0], [-0.5, 0.0, 1.0]])


def fitted(kind, spread):
    """An approximation with the parameters of the posterior, as a long fit would find them."""
    covariance = spread**2 * np.linalg.inv(PRECISION)
    approximation = kind(model=normal_model())
    d = 3
    if kind is pm.FullRank:
        factor = np.linalg.cholesky(covariance)
        factor[np.diag_indices(d)] = np.log(np.expm1(np.diag(factor)))  # PyMC takes the softplus
        approximation.params_dict["L_tril"].set_value(factor[np.tril_indices(d)])
    else:
        deviations = np.sqrt(np.diag(covariance))
        approximation.params_dict["rho"].set_value(np.log(np.expm1(deviations)))
    approximation.params_dict["mu"].set_value(np.zeros(d))
    return approximation


def test_full_rank_approximations():
    draws = bridge.variational(fitted(pm.FullRank, 1.0), 400, mode=MODE, rng=0)
    assert draws.names == ("a", "b[0]", "b[1]") and draws.independent
    np.testing.assert_allclose(draws.score, -draws.x @ PRECISION, atol=1e-10)
    assert draws.test(rng=0).pvalue > 0.05
    assert repr(draws) == "Draws(400 independent, d=3: a, b[0], b[1])"
    wide = bridge.variational(fitted(pm.FullRank, 1.4), 400, var_names="b", mode=MODE, rng=0)
    assert wide.names == ("b[0]", "b[1]") and wide.test(rng=0).reject()


def test_a_mean_field_misses_correlations():
    draws = bridge.variational(fitted(pm.MeanField, 1.0), 1000, mode=MODE, rng=0)
    diagnosis = draws.diagnose()
    assert diagnosis.result.reject() and diagnosis.n_chains == 0
    assert np.all(diagnosis.ess_bulk == 1000) and np.all(np.isnan(diagnosis.r_hat))
    assert diagnosis.notes()[0].startswith("1000 independent draws, in unconstrained space: they")
    same = bridge.variational(fitted(pm.MeanField, 1.0), 1000, mode=MODE, rng=0)
    np.testing.assert_array_equal(same.x, draws.x)


def test_what_fit_returns():
    """A short fit, far from the posterior, of variables with supports of all kinds."""
    with MODEL:
        approximation = pm.fit(20, random_seed=0, progressbar=False)
    draws = bridge.variational(approximation, 50, mode=MODE, rng=0)
    assert draws.names == NAMES
    exact = fs.interop.pymc.score(MODEL, mode=MODE)
    np.testing.assert_allclose(draws.score, exact(draws.x))


def test_bad_approximations():
    with pytest.raises(TypeError, match="`approximation` must be what"):
        bridge.variational(MODEL)
    with pytest.raises(ValueError, match="`n_draws` must be at least 2"):
        bridge.variational(fitted(pm.MeanField, 1.0), 1)
    with pm.Model() as discrete:
        pm.Poisson("k", 3.0)
        pm.Normal("a")
    with pytest.raises(ValueError, match="`model` has discrete variables, 'k'"):
        bridge.score(discrete)
