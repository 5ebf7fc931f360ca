"""The no-U-turn sampler of the studies: it leaves its target as it is, and finds it."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import digamma, polygamma

from fastsksd.experiments import nuts
from fastsksd.experiments.chains import GroupEffects, no_u_turn, random_walk

ROOT = np.array([[1.0, 0.0], [0.9, 0.5]])
PRECISION = np.linalg.inv(ROOT @ ROOT.T)


def density(x, chains):
    """Two correlated normal coordinates, and the logarithm of a Gamma(2) variable."""
    push, e = -x[:, :2] @ PRECISION, np.exp(x[:, 2])
    value = 0.5 * (x[:, :2] * push).sum(axis=1) + 2.0 * x[:, 2] - e
    return value, np.column_stack([push, 2.0 - e])


def exact(n, rng):
    return np.column_stack([rng.standard_normal((n, 2)) @ ROOT.T, np.log(rng.gamma(2.0, size=n))])


@pytest.mark.parametrize("step", [0.25, 0.6, 1.0])
def test_transitions_keep_the_target(step):
    """From exact draws, the next ones are exact again, also with few acceptances."""
    rng = np.random.default_rng(3)
    start = exact(6000, rng)
    run = nuts.sample(density, start, rng, draws=2, warm_up=0, step=step)
    x = run.draws[:, -1]
    normal = np.linalg.solve(ROOT, x[:, :2].T)
    for values in (*normal, normal.sum(axis=0) / np.sqrt(2.0)):
        assert stats.kstest(values, "norm").pvalue > 1e-3
    assert stats.kstest(np.exp(x[:, 2]), stats.gamma(2.0).cdf).pvalue > 1e-3
    assert abs(np.corrcoef(start[:, 0], x[:, 0])[0, 1]) < 0.95  # and it moves
    assert run.warm_up.shape == (6000, 0, 3) and run.step.tolist() == [step] * 6000


def test_adaptation_finds_steps_and_scales():
    scales = np.array([0.3, 1.0, 3.0])

    def scaled(x, chains):
        value, slope = density(x / scales, chains)
        return value, slope / scales

    rng = np.random.default_rng(1)
    start = rng.uniform(-2.0, 2.0, (60, 3)) * scales
    run = nuts.sample(scaled, start, rng, draws=100, warm_up=150)
    np.testing.assert_allclose(run.variance.mean(axis=0) / scales**2, [1.0, 1.06, 0.64], rtol=0.25)
    assert 0.7 < run.accepted.mean() < 0.97 and not run.divergent.any()
    z = run.draws.reshape(-1, 3) / scales
    assert abs(z[:, 2].mean() - digamma(2.0)) < 0.05
    assert abs(z[:, 2].var() - polygamma(1, 2.0)) < 0.1
    np.testing.assert_allclose(np.cov(z[:, :2].T), ROOT @ ROOT.T, atol=0.08)


def test_chains_may_have_targets_and_step_sizes_of_their_own():
    mean = np.repeat([-3.0, 5.0], 10)
    target = np.repeat([0.6, 0.95], 10)

    def shifted(x, chains):
        z = x - mean[chains, None]
        return -0.5 * (z * z).sum(axis=1), -z

    rng = np.random.default_rng(0)
    run = nuts.sample(shifted, np.zeros((20, 2)), rng, draws=100, warm_up=80, target=target)
    means = run.draws.reshape(2, -1).mean(axis=1)
    np.testing.assert_allclose(means, [-3.0, 5.0], atol=0.15)
    assert run.step[:10].mean() > 1.3 * run.step[10:].mean()


def test_a_place_without_density_is_a_divergence():
    def half(x, chains):
        inside = x[:, 0] > 0
        return np.where(inside, -0.5 * x[:, 0] ** 2, -np.inf), np.where(inside[:, None], -x, np.nan)

    rng = np.random.default_rng(0)
    run = nuts.sample(half, np.ones((50, 1)), rng, draws=50, warm_up=0, step=0.3)
    assert run.divergent.any() and (run.draws > 0).all()


def test_windows_of_the_warm_up():
    assert nuts._windows(1000) == [75, 100, 150, 250, 450, 950]  # as in Stan
    assert nuts._windows(300) == [75, 100, 150, 250]
    assert nuts._windows(20) == [3, 18]
    for warm_up in (1, 2, 5, 149, 150, 151):
        windows = nuts._windows(warm_up)
        assert windows == sorted(windows) and 0 <= windows[0] and windows[-1] <= warm_up
    for warm_up in (1, 2, 5, 20):
        run = nuts.sample(
            density, np.zeros((2, 3)), np.random.default_rng(0), draws=1, warm_up=warm_up
        )
        assert np.isfinite(run.draws).all()


def test_runs_of_the_level_study():
    x = no_u_turn(GroupEffects(3), 2, 0.8, 3, 40, np.random.default_rng(0))
    assert x.shape == (2, 3, 40, 3) and np.unique(x[:, :, -1, 0]).size == 6


def test_a_random_walk_follows_its_model():
    model = GroupEffects(4)
    rng = np.random.default_rng(0)
    x = random_walk(model, 0.5, 40, 1500, rng)
    assert 0.2 < np.mean(np.any(np.diff(x, axis=1) != 0, axis=2)) < 0.6
    flat = x.reshape(-1, 4)
    score = model.score(flat)
    means = score.reshape(40, 1500, 4).mean(axis=1)  # by Stein's identity 0
    assert np.all(np.abs(means.mean(axis=0)) < 4.0 * means.std(axis=0) / 40**0.5)
    assert np.mean(flat * score, axis=0) == pytest.approx(-1.0, abs=0.1)
