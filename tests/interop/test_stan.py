"""The bridge to Stan: a model compiled with Stan's own compiler and headers, run by BridgeStan."""

import doctest

import numpy as np
import pytest
import stan_compiler

bridgestan = pytest.importorskip("bridgestan")
if not stan_compiler.available():
    pytest.skip(
        "needs Stan's compiler and headers, from httpstan, and g++", allow_module_level=True
    )

from fastsksd.interop import stan as bridge  # noqa: E402

STAN = """
parameters {
  real mu;
  real<lower=0> sigma;
  simplex[3] p;
  matrix<lower=0, upper=1>[2, 3] u;
}
model {
  mu ~ normal(1, 2);
  sigma ~ gamma(3, 2);
  p ~ dirichlet([2, 3, 4]');
  for (j in 1:3) u[, j] ~ beta(1 + j, 3);
}
"""
UNCONSTRAINED = (
    "mu",
    "log(sigma)",
    "p.1 (unconstrained)",
    "p.2 (unconstrained)",
    *(f"logit(u.{i}.{j})" for j in (1, 2, 3) for i in (1, 2)),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("stan")


@pytest.fixture(scope="module")
def model(folder):
    (folder / "model.stan").write_text(STAN)
    stan_compiler.compile_model(folder / "model.stan", folder / "model.so")
    return bridgestan.StanModel(folder / "model.so")


def sample(shape, p=(2.0, 3.0, 4.0), seed=0):
    rng = np.random.default_rng(seed)
    return {
        "mu": rng.normal(1.0, 2.0, shape),
        "sigma": rng.gamma(3.0, 0.5, shape),
        "p": rng.dirichlet(p, shape),
        "u": rng.beta([2.0, 3.0, 4.0], 3.0, (*shape, 2, 3)),
        "y_new": np.zeros(shape),  # a generated quantity
    }


def log_density(z):
    """The same model by hand, in unconstrained space, up to a constant."""
    share = 1 / (1 + np.exp(-(z[2:4] - np.log([2.0, 1.0]))))
    p = np.r_[share[0], share[1] * (1 - share[0]), (1 - share[0]) * (1 - share[1])]
    total = -((z[0] - 1) ** 2) / 8 + 3 * z[1] - 2 * np.exp(z[1])
    total += (
        np.sum(np.array([1.0, 2.0, 3.0]) * np.log(p))
        + np.sum(np.log(share * (1 - share)))
        + np.log(1 - share[0])
    )
    a = np.repeat([2.0, 3.0, 4.0], 2)
    return total + np.sum(a * z[4:] - (a + 3) * np.log1p(np.exp(z[4:])))


def differences(z):
    return np.array(
        [(log_density(z + h) - log_density(z - h)) / 2e-4 for h in 1e-4 * np.eye(z.size)]
    )


def test_scores_of_a_model(model):
    z = np.random.default_rng(1).standard_normal((5, 10))
    np.testing.assert_allclose(
        bridge.score(model)(z), [differences(row) for row in z], rtol=1e-6, atol=1e-6
    )
    with pytest.raises(ValueError, match="`x` must have 10 columns"):
        bridge.score(model)(z[:, :3])


def test_draws_go_to_unconstrained_space(model):
    samples = sample((2, 300))
    draws = bridge.draws(model, samples)
    assert draws.names == UNCONSTRAINED and len(draws) == 600
    np.testing.assert_allclose(draws.x[:, 1], np.log(samples["sigma"].ravel()))
    for k, (i, j) in enumerate([(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]):
        u = samples["u"][:, :, i, j].ravel()
        np.testing.assert_allclose(draws.x[:, 4 + k], np.log(u / (1 - u)), atol=1e-12)
    np.testing.assert_allclose(
        draws.score[::60], [differences(row) for row in draws.x[::60]], rtol=1e-5, atol=1e-5
    )
    pvalues = [
        bridge.draws(model, sample((2, 300), seed=seed)).test(rng=0).pvalue for seed in range(5)
    ]
    assert np.median(pvalues) > 0.05  # three of five below it: once in 900 for a right model
    wrong = bridge.draws(model, sample((2, 300), p=(3.0, 3.0, 3.0)), var_names="p")
    assert wrong.names == UNCONSTRAINED[2:4] and wrong.test(rng=0).reject()


def test_draws_that_stan_rejects_are_counted(model):
    samples = sample((2, 30))
    samples["sigma"][1, :2] = -1.0
    samples["p"][0, 3] *= 0.5
    with pytest.raises(
        ValueError, match=r"3 of 60 draws \(1 in chain 0, 2 in chain 1\) hold NaN or infinity"
    ):
        bridge.draws(model, samples)
    assert bridge.draws(model, samples, on_nan="drop").n_dropped == 3
    samples["sigma"][:] = -1.0
    with pytest.raises(RuntimeError, match="Lower bounded variable is -1"):
        bridge.draws(model, samples, on_nan="drop")


@pytest.mark.filterwarnings("ignore:Loading a shared object")
def test_examples(model, folder, monkeypatch):
    """The docstrings' own, in a folder that holds what they read."""
    arviz = pytest.importorskip("arviz")
    arviz.from_dict(posterior=sample((4, 250))).to_netcdf(folder / "draws.nc")
    monkeypatch.chdir(folder)
    done = doctest.testmod(bridge, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert done.failed == 0 and done.attempted >= 7


def test_bad_input_is_explained(model):
    samples = sample((1, 20))
    with pytest.raises(
        ValueError,
        match="`idata` has no variable 'p' of the model; there are 'mu', 'sigma', 'u', 'y_new'",
    ):
        bridge.draws(model, {name: values for name, values in samples.items() if name != "p"})
    with pytest.raises(
        ValueError,
        match=r"`idata` must have 'u' in the shape \(2, 3\) it has in the model; got \(3, 2\)",
    ):
        bridge.draws(model, samples | {"u": samples["u"].swapaxes(2, 3)})
    with pytest.raises(
        ValueError, match=r"`var_names` .*: no variable 'y_new'; there are 'mu', 'sigma', 'p', 'u'"
    ):
        bridge.draws(model, samples, var_names="y_new")
    with pytest.raises(TypeError, match=r"`model` must be a bridgestan.StanModel .*; got str"):
        bridge.draws("model.so", samples)
