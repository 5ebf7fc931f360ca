"""Learned Stein discrepancy, where JAX is installed: a slow reference, training, interruptions."""

import numpy as np
import pytest

pytest.importorskip("jax")

import fastsksd as fs
from fastsksd import learning
from fastsksd.learning import descent


def critic(weights, x):
    """The network, layer by layer."""
    for k in range(0, len(weights) - 2, 2):
        z = x @ weights[k] + weights[k + 1]
        x = z / (1.0 + np.exp(-z))
    return x @ weights[-2] + weights[-1]


def exact_divergence(weights, x, step=1e-5):
    total = np.zeros(x.shape[0])
    for j in range(x.shape[1]):
        shift = step * np.eye(x.shape[1])[j]
        total += (critic(weights, x + shift) - critic(weights, x - shift))[:, j] / (2.0 * step)
    return total


def weights_of(loss):
    state = loss.state()
    return [
        state[f"weight{k}"].astype(float)
        for k in range(sum(name.startswith("weight") for name in state))
    ]


def test_value_and_gradient_are_those_of_the_critic():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((50, 3))
    scores = -x + 0.3
    loss = learning.LearnedSteinLoss(3, hidden=(16, 16), probes=4000, rng=0)
    value, gradient = loss(x, scores)
    weights = weights_of(loss)
    assert [weight.shape for weight in weights] == [(3, 16), (16,), (16, 16), (16,), (16, 3), (3,)]
    np.testing.assert_allclose(gradient, critic(weights, x) / 50, rtol=1e-4, atol=1e-6)
    expected = np.mean(np.sum(scores * critic(weights, x), axis=1) + exact_divergence(weights, x))
    assert value == pytest.approx(expected, abs=0.01)
    assert repr(loss) == "LearnedSteinLoss(d=3, hidden=(16, 16), penalty=1, steps=1)"


def test_the_critic_tends_to_its_optimum():
    """The optimum is f = (s_p - s_q) / (2 penalty), here a constant.

    Its value is |s_p - s_q|^2 / (2 penalty).
    """
    rng = np.random.default_rng(1)
    loss = learning.LearnedSteinLoss(2, hidden=(32,), penalty=0.5, learning_rate=5e-3, rng=1)
    values = []
    for _ in range(400):
        x = rng.standard_normal((500, 2))
        values.append(loss(x, -x + [0.6, 0.0])[0])
    assert np.mean(values[-100:]) == pytest.approx(0.36, rel=0.2)


def test_lsd_trains_an_ica_model():
    problem = learning.ica_problem(2, n_train=2000, n_test=1000, rng=3)
    fit = learning.fit_ica(problem, method="lsd", steps=250, learning_rate=1e-2, rng=0)
    assert fit.gap < 0.3 * fit.trace.gap[0]
    assert isinstance(fit.model, fs.models.ICA)


def test_an_interrupted_run_ends_as_an_undisturbed_one(tmp_path, monkeypatch):
    problem = learning.ica_problem(2, n_train=200, n_test=100, rng=0)
    options = {"method": "lsd", "steps": 8, "evaluate_every": 2, "rng": 1}
    whole = learning.fit_ica(problem, **options)
    advance, calls = descent.AdamDescent.advance, []

    def interrupted(self, x):
        calls.append(0)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return advance(self, x)

    monkeypatch.setattr(descent.AdamDescent, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        learning.fit_ica(problem, checkpoint=tmp_path / "run.npz", **options)
    resumed = learning.fit_ica(problem, checkpoint=tmp_path / "run.npz", **options)
    np.testing.assert_array_equal(resumed.unmixing, whole.unmixing)
    np.testing.assert_array_equal(resumed.trace.nll, whole.trace.nll)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"hidden": (0,)}, "`hidden` must be at least 1"),
        ({"penalty": 0.0}, "`penalty` must be finite and greater than 0"),
        ({"critic_steps": 0}, "`critic_steps` must be at least 1"),
        ({"probes": 0}, "`probes` must be at least 1"),
    ],
)
def test_bad_input(options, words):
    with pytest.raises(ValueError) as caught:
        learning.LearnedSteinLoss(2, **options)
    assert words in str(caught.value)
