"""The bridge to JAX: the loss under jit and grad in both precisions, scores, and training."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import fastsksd as fs  # noqa: E402
from fastsksd.interop import jax as bridge  # noqa: E402

X = np.random.default_rng(0).standard_normal((30, 3))
SCORES = np.random.default_rng(1).standard_normal((30, 3))
SLICES = fs.random_slices(3, 4, rng=0)


@pytest.fixture(params=[False, True], ids=["float32", "float64"])
def double(request):
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", request.param)
    yield request.param
    jax.config.update("jax_enable_x64", before)


@pytest.mark.parametrize("compile", [False, True])
@pytest.mark.parametrize(("kernel", "statistic"), [("rbf", "v"), (fs.IMQ(1.5), "u")])
def test_value_and_gradients(double, kernel, statistic, compile):
    def loss(x, score, r, g):
        return 2.0 * bridge.sksd_loss(x, score, (r, g), kernel=kernel, statistic=statistic)

    run = jax.value_and_grad(loss, argnums=(0, 1, 2, 3))
    run, loss = (jax.jit(run), jax.jit(loss)) if compile else (run, loss)
    value, gradients = run(X, SCORES, SLICES.r, SLICES.g)
    expected, exact = fs.sksd_value_and_grad(
        X, SCORES, SLICES, kernel=kernel, statistic=statistic, wrt=("x", "score", "r", "g")
    )
    tolerance = 1e-12 if double else 1e-5
    assert value == pytest.approx(2.0 * expected, rel=tolerance)
    assert loss(X, SCORES, SLICES.r, SLICES.g) == pytest.approx(2.0 * expected, rel=tolerance)
    for gradient, name in zip(gradients, exact, strict=True):
        assert gradient.dtype == (jnp.float64 if double else jnp.float32)
        np.testing.assert_allclose(
            gradient, 2.0 * exact[name], rtol=100 * tolerance, atol=tolerance
        )


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_slices_of_half_precision(double, dtype):
    r, g = (jnp.asarray(rows, dtype=dtype) for rows in (SLICES.r, SLICES.g))
    eps = float(jnp.finfo(dtype).eps)
    function = jax.jit(
        jax.value_and_grad(lambda r, g: bridge.sksd_loss(X, SCORES, (r, g)), argnums=(0, 1))
    )
    value, gradients = function(r, g)
    expected, exact = fs.sksd_value_and_grad(X, SCORES, SLICES)
    assert float(value) == pytest.approx(expected, rel=10 * eps)
    for name, gradient in zip("rg", gradients, strict=True):
        assert gradient.dtype == dtype
        np.testing.assert_allclose(
            gradient.astype(float), exact[name], atol=10 * eps * abs(exact[name]).max()
        )
    with pytest.raises(Exception, match="`r` must have rows of unit length"):
        bridge.sksd_loss(X, SCORES, (1.2 * r, g)).block_until_ready()


def test_one_function_serves_other_values(double):
    # Compiled once, the callback must see the arrays of each call.
    run = jax.jit(lambda scale: bridge.sksd_loss(X, scale * SCORES, SLICES))
    for scale in (1.0, 2.0):
        assert run(scale) == pytest.approx(
            fs.sksd(X, scale * SCORES, SLICES, statistic="v"), rel=1e-5
        )


def test_scores_from_a_log_density(double):
    score = bridge.score_from_logp(lambda x: -0.25 * (x**4).sum())
    np.testing.assert_allclose(score(X), -(X**3), rtol=1e-12 if double else 1e-5)
    traced = []

    def logp(x):
        traced.append(x.shape)
        return -0.25 * (x**4).sum()

    batched = bridge.score_from_logp(logp, batch_size=13)
    for n in (30, 20, 5):
        np.testing.assert_allclose(batched(X[:n]), -(X[:n] ** 3), rtol=1e-5)
    assert len(traced) == 1
    assert isinstance(batched(X), np.ndarray) and batched(X).dtype == float
    results = [
        fs.gof_test(X, given, slices=SLICES, n_resamples=20, rng=0)
        for given in (score, lambda x: -(x**3))
    ]
    assert results[0].statistic == pytest.approx(results[1].statistic, rel=1e-4)


def test_jax_arrays_are_arrays_to_the_rest(double):
    x, scores = jnp.asarray(X), jnp.asarray(SCORES)
    assert fs.sksd(x, scores, SLICES) == pytest.approx(fs.sksd(X, SCORES, SLICES), rel=1e-4)
    assert fs.sksd(x, lambda x: -jnp.asarray(x), SLICES) == pytest.approx(
        fs.sksd(X, -X, SLICES), rel=1e-4
    )


def test_bad_input_is_explained():
    with pytest.raises(ValueError, match=r"`score` must have the shape of the samples, \(30, 3\)"):
        bridge.sksd_loss(X, SCORES[:5], SLICES)
    with pytest.raises(ValueError, match="`statistic` must be one of"):
        bridge.sksd_loss(X, SCORES, SLICES, statistic="w")
    with pytest.raises(ValueError, match="`kernel` must be one of"):
        bridge.sksd_loss(X, SCORES, SLICES, kernel="laplace")
    with pytest.raises(TypeError, match="`logp` must be a function"):
        bridge.score_from_logp(3)
    with pytest.raises(TypeError, match="`batch_size` must be an integer"):
        bridge.score_from_logp(jnp.sum, batch_size=2.5)


def test_an_energy_based_model_learns_a_quartic():
    # Samples of exp(-(x_1^4 - 2 x_1^2 + x_2^2 / 2)), with two modes. The model is the exponential
    # of a polynomial of degree four in each coordinate.
    rng = np.random.default_rng(0)
    grid = np.linspace(-3, 3, 4001)
    cumulated = np.cumsum(np.exp(-(grid**4) + 2 * grid**2))

    def draw(n):
        first = np.interp(rng.random(n), cumulated / cumulated[-1], grid)
        return np.stack([first, rng.standard_normal(n)], axis=1)

    def truth(x):
        return np.stack([-4 * x[:, 0] ** 3 + 4 * x[:, 0], -x[:, 1]], axis=1)

    def logp(theta, x):
        return (theta * jnp.stack([x, x**2, x**3, x**4])).sum()

    slices = fs.Slices(np.eye(2), np.eye(2))

    @jax.jit
    def step(theta, first, second, x, count):
        def loss(theta):
            return bridge.sksd_loss(
                x, jax.vmap(jax.grad(logp, argnums=1), (None, 0))(theta, x), slices
            )

        gradient = jax.grad(loss)(theta)
        first, second = 0.9 * first + 0.1 * gradient, 0.99 * second + 0.01 * gradient**2
        return (
            theta
            - 0.05 * (first / (1 - 0.9**count)) / (jnp.sqrt(second / (1 - 0.99**count)) + 1e-8),
            first,
            second,
        )

    theta = jnp.zeros((4, 2)).at[1].set(-0.5)
    first = second = jnp.zeros((4, 2))
    for count in range(1, 401):
        theta, first, second = step(theta, first, second, draw(300), count)
    x = draw(2000)
    score = bridge.score_from_logp(lambda x: logp(theta, x))
    error = np.mean((score(x) - truth(x)) ** 2) / np.mean(truth(x) ** 2)
    assert error < 0.05
