"""The bridge to BlackJAX: states of real samplers, one or more chains, gradients or none."""

import numpy as np
import pytest

blackjax = pytest.importorskip("blackjax")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

from fastsksd.interop import blackjax as bridge  # noqa: E402


def logdensity(position):
    # A gamma variable as its logarithm, with the Jacobian, and two normal ones.
    return (
        2.0 * position["log_rate"]
        - jnp.exp(position["log_rate"])
        - 0.5 * ((position["mu"] - 1.0) ** 2).sum()
    )


@pytest.fixture(scope="module", autouse=True)
def single():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", False)  # as users have it
    yield
    jax.config.update("jax_enable_x64", before)


def run(kernel, start, key, count):
    def step(state, key):
        state, info = kernel.step(key, state)
        return state, (state, info)

    return jax.lax.scan(step, kernel.init(start), jax.random.split(key, count))[1]


@pytest.fixture(scope="module")
def nuts():
    kernel = blackjax.nuts(logdensity, 0.5, jnp.ones(3))
    start = {"mu": jnp.zeros(2), "log_rate": jnp.zeros(())}
    chains = jax.jit(jax.vmap(lambda key: run(kernel, start, key, 500)))
    states, infos = chains(jax.random.split(jax.random.key(1), 2))
    return jax.tree.map(lambda leaf: leaf[:, 50:], (states, infos))


def exact(x):
    return np.c_[2.0 - np.exp(x[:, 0]), 1.0 - x[:, 1:]]


def test_gradients_of_the_states(nuts):
    states, infos = nuts
    draws = bridge.draws(states, infos=infos, chain_axis=0)
    assert draws.names == ("log_rate", "mu[0]", "mu[1]") and len(draws) == 900
    np.testing.assert_allclose(draws.score, exact(draws.x), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(draws.x[450:, 1], states.position["mu"][1, :, 0])
    assert draws.test(rng=0).pvalue > 0.05
    wrong = bridge.draws(
        states, chain_axis=0, logdensity_fn=lambda z: logdensity(z) + z["log_rate"]
    )
    assert wrong.test(rng=0).reject()
    np.testing.assert_allclose(
        wrong.score, draws.score + np.r_[1.0, 0.0, 0.0], rtol=1e-4, atol=1e-5
    )


def test_chains_on_either_axis(nuts):
    states, infos = nuts
    draws = bridge.draws(states, chain_axis=0, var_names="mu")
    turned = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), states)
    np.testing.assert_array_equal(bridge.draws(turned, chain_axis=1).score[:, 1:], draws.score)
    single = jax.tree.map(lambda leaf: leaf[1], states)
    np.testing.assert_array_equal(bridge.draws(single).x[:, 1:], draws.x[450:])
    diverging = infos._replace(is_divergent=infos.is_divergent.at[1, 2].set(True))
    with pytest.raises(ValueError, match=r"1 of 900 draws \(1 in chain 1\) diverged"):
        bridge.draws(states, infos=diverging, chain_axis=0, on_divergence="error")
    assert bridge.draws(states, infos=diverging, chain_axis=0, on_divergence="drop").n_dropped == 1


def test_states_without_gradients():
    kernel = blackjax.additive_step_random_walk.normal_random_walk(
        lambda z: -0.5 * (z**2).sum(), 0.8 * jnp.ones(2)
    )
    states, _ = jax.jit(lambda key: run(kernel, jnp.zeros(2), key, 40))(jax.random.key(0))
    with pytest.raises(ValueError, match="`logdensity_fn` is needed: RWState holds no gradients"):
        bridge.draws(states)
    draws = bridge.draws(states, logdensity_fn=lambda z: -0.5 * (z**2).sum(), batch_size=16)
    assert draws.names == ("x[0]", "x[1]")
    np.testing.assert_allclose(draws.score, -draws.x, rtol=1e-5)


def test_bad_input_is_explained(nuts):
    states, _ = nuts
    with pytest.raises(
        TypeError, match=r"`states` must be stacked states of a BlackJAX sampler, .* got dict"
    ):
        bridge.draws({})
    with pytest.raises(
        ValueError,
        match=r"`chain_axis` must be 0 or 1, for states stacked along two axes, \(2, 450\): 0 if "
        r"whole chains were run by vmap, \(chains, draws\), 1 if each step was, .*; got None",
    ):
        bridge.draws(states)
    for axis in (0, 2):
        with pytest.raises(
            ValueError, match=f"`chain_axis` must be None, for states .* one axis, .*; got {axis}"
        ):
            bridge.draws(jax.tree.map(lambda leaf: leaf[0], states), chain_axis=axis)
    with pytest.raises(ValueError, match="`states` must be stacked along one axis, or two"):
        bridge.draws(jax.tree.map(lambda leaf: leaf[0, 0], states))
    with pytest.raises(TypeError, match="`infos` must have is_divergent"):
        bridge.draws(states, infos=states, chain_axis=0)
    with pytest.raises(
        ValueError, match=r"`var_names` .*: no variable 'sigma'; there are 'log_rate', 'mu'"
    ):
        bridge.draws(states, chain_axis=0, var_names="sigma")


def test_pathfinder():
    """Its draws of a normal posterior, in one call; the log-densities beside them are let be."""

    def normal(z):
        return -0.5 * (z["a"] ** 2).sum() - 2.0 * (z["b"] - 1.0) ** 2

    start = {"a": jnp.full(2, 0.5), "b": jnp.zeros(())}
    state, _ = blackjax.vi.pathfinder.approximate(jax.random.key(0), normal, start)
    samples = blackjax.vi.pathfinder.sample(jax.random.key(1), state, 500)
    draws = bridge.particles(samples, normal)
    assert draws.names == ("a[0]", "a[1]", "b") and draws.independent and draws.weights is None
    np.testing.assert_allclose(draws.score, -draws.x * [1, 1, 4] + [0, 0, 4], atol=1e-4)
    assert draws.test(rng=0).pvalue > 0.05
    assert bridge.particles(samples, lambda z: 1.5 * normal(z)).test(rng=0).reject()


def test_weighted_particles():
    """A state of SMC: the weights go from the prior to the posterior."""
    key = jax.random.key(2)
    particles = {"z": jax.random.normal(key, (800, 2))}
    log_weights = -1.0 * (particles["z"] ** 2).sum(axis=1)
    weights = jax.nn.softmax(log_weights)
    state = blackjax.smc.tempered.TemperedSMCState(particles, weights, 1.0)

    def posterior(z):
        return -1.5 * (z["z"] ** 2).sum()

    draws = bridge.particles(state, posterior)
    size = 1.0 / float((weights**2).sum())
    assert repr(draws) == f"Draws(800 with weights, worth {size:.0f} without, d=2: z[0], z[1])"
    result = draws.test(rng=0)
    assert result.weighted and result.pvalue > 0.05
    assert result.effective_draws == pytest.approx(size, rel=1e-4)
    assert bridge.particles(particles, posterior).test(rng=0).reject()
    diagnosis = draws.diagnose()
    assert "draws with importance weights, worth about" in diagnosis.notes()[0]
    low, high = diagnosis.effects[0].stretch_interval
    assert low < 1.0 < high
    with pytest.raises(ValueError, match="`weights` are negative in 1 row: 3"):
        bridge.particles(particles, posterior, weights=np.where(np.arange(800) == 3, -1, 1))
    with pytest.raises(ValueError, match="`source` must hold arrays"):
        bridge.particles({"a": np.ones(3), "b": np.ones(4)}, posterior)


def test_a_run_of_sequential_monte_carlo():
    def prior(z):
        return -0.5 * (z**2).sum()

    def likelihood(z):
        return -4.0 * ((z - 0.5) ** 2).sum()

    parameters = dict(step_size=0.2, inverse_mass_matrix=jnp.ones(2), num_integration_steps=5)
    smc = blackjax.adaptive_tempered_smc(
        prior,
        likelihood,
        blackjax.hmc.build_kernel(),
        blackjax.hmc.init,
        blackjax.smc.extend_params(parameters),
        blackjax.smc.resampling.systematic,
        0.5,
        num_mcmc_steps=5,
    )
    state = smc.init(jax.random.normal(jax.random.key(0), (600, 2)))
    step, key = jax.jit(smc.step), jax.random.key(1)
    while float(state.tempering_param) < 1.0:
        key, mine = jax.random.split(key)
        state, _ = step(mine, state)
    draws = bridge.particles(state, lambda z: prior(z) + likelihood(z))
    weights = np.asarray(state.weights, dtype=float)
    np.testing.assert_allclose(draws.weights, weights / weights.mean(), rtol=1e-6)
    assert draws.test(rng=0).pvalue > 0.01
    assert bridge.particles(state, prior).test(rng=0).reject()
