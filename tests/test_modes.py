"""Weights of separated modes: level and power, a score in place of a density, words."""

import numpy as np
import pytest

import fastsksd as fs
from fastsksd.models import GaussianMixture


def mixture(weights, d=1, apart=6.0, scales=None):
    means = np.zeros((len(weights), d))
    means[:, 0] = apart * np.arange(len(weights))
    return GaussianMixture(weights, means, scales or [1.0] * len(weights))


HALVES = mixture([0.5, 0.5])
WRONG = mixture([0.7, 0.3]).sample(1000, rng=0)


def test_weights_of_the_model_are_found():
    """Of three modes of different widths, where the samples have other weights."""
    model = mixture([0.5, 0.2, 0.3], d=3, apart=12.0, scales=[1.0, 4.0, 0.25])
    x = mixture([0.2, 0.3, 0.5], d=3, apart=12.0, scales=[1.0, 4.0, 0.25]).sample(3000, rng=1)
    found = fs.mode_weights(x, model, rng=0)
    order = np.argsort(found.centres[:, 0])
    assert np.all(np.abs(found.expected[order] - model.weights) < 5 * found.errors[order])
    assert np.all(found.errors < 0.02) and np.isclose(found.expected.sum(), 1.0)
    assert np.allclose(found.seen[order], [0.2, 0.3, 0.5], atol=0.04)
    assert found.pvalue < 1e-20


def test_level_and_power():
    right = [HALVES.sample(600, rng=k) for k in range(60)]
    pvalues = np.array([fs.mode_weights(x, HALVES, rng=k).pvalue for k, x in enumerate(right)])
    # Of 60 at level 0.05, 9 or more have probability 0.002.
    assert np.sum(pvalues <= 0.05) <= 8 and 0.35 < pvalues.mean() < 0.65
    assert fs.mode_weights(WRONG, HALVES, rng=0).pvalue < 1e-6


def test_the_stein_test_is_blind_and_says_so():
    result = fs.gof_test(WRONG, HALVES, n_resamples=199, rng=0)
    assert not result.reject()
    words = result.summary()
    share = f"{np.mean(WRONG < 3.0):.2g}"
    assert f"in 2 groups with hardly any sample in between (weights {share}, 0." in words
    assert "mode_weights" in words
    assert "groups" not in fs.gof_test(WRONG[WRONG < 3.0][:, None], np.negative, rng=0).summary()


@pytest.mark.parametrize("d", [1, 5])
def test_a_score_does_as_well_as_a_density(d):
    model = mixture([0.4, 0.6], d)
    x = mixture([0.5, 0.5], d).sample(1000, rng=2)
    exact = fs.mode_weights(x, model, rng=0)
    for other in (
        model.score,
        fs.Model.from_score(model.score),
        lambda x: model.log_density(x) + 100.0,
    ):
        found = fs.mode_weights(x, other, rng=0)
        assert np.allclose(found.expected, exact.expected, atol=1e-4)
        assert np.isclose(found.pvalue, exact.pvalue, rtol=1e-2)


def test_one_mode_has_nothing_to_compare():
    found = fs.mode_weights(np.random.default_rng(0).standard_normal((200, 2)), np.negative)
    assert found.pvalue == 1.0 and found.expected.tolist() == [1.0]
    assert "1 modes" in repr(found)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (3, "`model` must be a model"),
        (lambda x: np.zeros((len(x), 7)), r"`model` must return an array of shape \(n,\)"),
        (lambda x: np.full(len(x), np.nan), "`model` returned log-densities that are NaN"),
        (lambda x: np.full(len(x), -np.inf), "`model` has the density 0 at most of the samples"),
        (lambda x: 1 / 0, "`model` raised ZeroDivisionError"),
        (lambda x: np.full((len(x), 1), np.nan), "`model` returned NaN"),
    ],
)
def test_bad_models(model, message):
    with pytest.raises((ValueError, TypeError), match=message):
        fs.mode_weights(WRONG, model)
