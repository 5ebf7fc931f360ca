"""The bridge to PyTorch: the loss against autograd of its formula, scores, training end to end."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import fastsksd as fs  # noqa: E402
from fastsksd.interop import torch as bridge  # noqa: E402

X = np.random.default_rng(0).standard_normal((30, 3))
SCORES = np.random.default_rng(1).standard_normal((30, 3))
SLICES = fs.random_slices(3, 4, rng=0)
H = np.array([0.7, 1.0, 1.3, 2.0])


def autograd_sksd(x, score, r, g, kernel, h, statistic):
    """The discrepancy in tensor operations; derivatives of the kernel by autograd as well."""
    total = 0.0
    n = x.shape[0]
    for q in range(r.shape[0]):
        t = (x @ g[q])[:, None] - (x @ g[q])[None, :]
        s, a = score @ r[q], r[q] @ g[q]
        k = (
            torch.exp(-(t**2) / (2 * h[q] ** 2))
            if kernel == "rbf"
            else (1 + t**2 / h[q] ** 2) ** -0.5
        )
        (k1,) = torch.autograd.grad(k.sum(), t, create_graph=True)
        (k2,) = torch.autograd.grad(k1.sum(), t, create_graph=True)
        mu = s[:, None] * s[None, :] * k + a * (s[None, :] - s[:, None]) * k1 - a**2 * k2
        total = total + (
            mu.mean() if statistic == "v" else (mu.sum() - mu.diagonal().sum()) / (n * (n - 1))
        )
    return total


@pytest.mark.parametrize("statistic", ["u", "v"])
@pytest.mark.parametrize("kernel", ["rbf", "imq"])
def test_gradients_agree_with_autograd(kernel, statistic):
    inputs = [torch.tensor(array, requires_grad=True) for array in (X, SCORES, SLICES.r, SLICES.g)]
    expected = autograd_sksd(*inputs, kernel, H, statistic)
    by_autograd = torch.autograd.grad(expected, inputs)
    kernel = {"rbf": fs.RBF, "imq": fs.IMQ}[kernel](H)
    value, gradients = fs.sksd_value_and_grad(
        X, SCORES, SLICES, kernel=kernel, statistic=statistic, wrt=("x", "score", "r", "g")
    )
    assert value == pytest.approx(expected.item(), rel=1e-11)
    x, score, r, g = inputs
    loss = bridge.sksd_loss(x, score, (r, g), kernel=kernel, statistic=statistic)
    by_bridge = torch.autograd.grad(2.0 * loss, inputs)
    for name, exact, ours in zip(("x", "score", "r", "g"), by_autograd, by_bridge, strict=True):
        np.testing.assert_allclose(gradients[name], exact.numpy(), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(ours.numpy(), 2.0 * gradients[name], rtol=1e-12)


def test_the_loss_keeps_to_the_type_of_the_scores():
    score = torch.tensor(SCORES, dtype=torch.float32, requires_grad=True)
    loss = bridge.sksd_loss(torch.tensor(X, dtype=torch.float32), score, SLICES)
    loss.backward()
    assert loss.dtype == score.grad.dtype == torch.float32 and loss.shape == ()
    assert loss.item() == pytest.approx(fs.sksd(X, SCORES, SLICES, statistic="v"), rel=1e-5)
    assert bridge.sksd_loss(X, score.detach(), SLICES).item() == pytest.approx(
        loss.item(), rel=1e-5
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_slices_of_half_precision(dtype):
    slices = fs.random_slices(50, 6, rng=0)
    x, scores = np.random.default_rng(0).standard_normal((2, 40, 50))
    r, g = (
        torch.nn.functional.normalize(torch.tensor(rows).to(dtype)).requires_grad_()
        for rows in (slices.r, slices.g)
    )
    assert abs(torch.linalg.norm(r.double(), dim=1) - 1.0).max() > 1e-6
    loss = bridge.sksd_loss(x, torch.tensor(scores), (r, g))
    loss.backward()
    value, gradients = fs.sksd_value_and_grad(x, scores, slices)
    eps = torch.finfo(dtype).eps
    assert loss.item() == pytest.approx(value, rel=10 * eps)
    for tensor, name in ((r, "r"), (g, "g")):
        assert tensor.grad.dtype == dtype
        np.testing.assert_allclose(
            tensor.grad.double(), gradients[name], atol=10 * eps * abs(gradients[name]).max()
        )
    for rows in (1.1 * r, r[0]):
        with pytest.raises(ValueError, match="`r` must have"):
            bridge.sksd_loss(x, torch.tensor(scores), (rows.detach(), g))


def test_the_loss_can_be_differentiated_once():
    score = torch.tensor(SCORES, requires_grad=True)
    (gradient,) = torch.autograd.grad(bridge.sksd_loss(X, score, SLICES), score, create_graph=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        gradient.sum().backward()


def test_slices_given_as_tensors_climb():
    free = torch.tensor(SLICES.g, requires_grad=True)
    score = torch.tensor(SCORES)

    def value():
        return bridge.sksd_loss(X, score, (SLICES.r, torch.nn.functional.normalize(free, dim=1)))

    before = value()
    optimiser = torch.optim.Adam([free], lr=0.05, maximize=True)
    for _ in range(20):
        optimiser.zero_grad()
        value().backward()
        optimiser.step()
    assert value() > 1.2 * before


def test_scores_from_a_log_density():
    score = bridge.score_from_logp(lambda x: -0.25 * (x**4).sum(dim=1), dtype=torch.float64)
    np.testing.assert_allclose(score(X), -(X**3), rtol=1e-12)
    sizes = []

    def logp(x):
        sizes.append(x.shape[0])
        return -0.25 * (x**4).sum(dim=1, keepdim=True)

    batched = bridge.score_from_logp(logp, batch_size=13)
    np.testing.assert_allclose(batched(X), -(X**3), rtol=1e-5)
    assert sizes == [13, 13, 13]
    with torch.no_grad():
        results = [
            fs.gof_test(X, given, slices=SLICES, n_resamples=20, rng=0)
            for given in (score, lambda x: -(x**3))
        ]
    assert results[0].statistic == pytest.approx(results[1].statistic, rel=1e-12)


def test_tensors_are_arrays_to_the_rest():
    x, scores = torch.tensor(X), torch.tensor(SCORES)
    assert fs.sksd(x, scores, SLICES) == fs.sksd(X, SCORES, SLICES)
    with pytest.raises(TypeError, match=r"`score` could not be read as an array.*detach"):
        fs.sksd(x, scores.requires_grad_(), SLICES)
    with pytest.raises(TypeError, match=r"`x` could not be read as an array.*detach"):
        fs.sksd(x.requires_grad_(), SCORES, SLICES)


def test_bad_input_is_explained():
    with pytest.raises(TypeError, match="`score` must be a tensor"):
        bridge.sksd_loss(X, SCORES, SLICES)
    with pytest.raises(ValueError, match="`score` must have the shape"):
        bridge.sksd_loss(X, torch.tensor(SCORES[:5]), SLICES)
    with pytest.raises(TypeError, match="`logp` must be a function"):
        bridge.score_from_logp(3)
    with pytest.raises(ValueError, match="`batch_size` must be at least 1"):
        bridge.score_from_logp(torch.sum, batch_size=0)
    with pytest.raises(
        ValueError,
        match=r"`logp` must return one log-density for each of 30 samples; got shape \(\)",
    ):
        bridge.score_from_logp(torch.sum)(X)


def test_an_energy_based_model_learns_two_modes():
    # Samples of 0.5 N(-m, 1/2) + 0.5 N(m, 1/2): the true score is (-x + m tanh(2 m.x)) / (1/2).
    rng = np.random.default_rng(0)
    m = np.array([1.2, 0.6])

    def draw(n):
        return rng.choice([-1.0, 1.0], n)[:, None] * m + np.sqrt(0.5) * rng.standard_normal((n, 2))

    def truth(x):
        return 2.0 * (-x + m * np.tanh(2.0 * x @ m)[:, None])

    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1, bias=False)
    ).double()
    width = torch.ones(2, dtype=torch.float64, requires_grad=True)

    def logp(x):
        return network(x)[:, 0] - 0.5 * (x**2 * width**2).sum(dim=1)

    angles = np.pi * np.arange(6) / 6
    g = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    slices = fs.Slices(g, g)
    optimiser = torch.optim.Adam([*network.parameters(), width], lr=0.05)
    for _ in range(400):
        x = torch.tensor(draw(200), requires_grad=True)
        (score,) = torch.autograd.grad(logp(x).sum(), x, create_graph=True)
        optimiser.zero_grad()
        bridge.sksd_loss(x.detach(), score, slices, statistic="u").backward()
        optimiser.step()
    x = draw(2000)
    error = np.mean(
        (bridge.score_from_logp(logp, dtype=torch.float64)(x) - truth(x)) ** 2
    ) / np.mean(truth(x) ** 2)
    assert error < 0.1  # 0.6 at the start
