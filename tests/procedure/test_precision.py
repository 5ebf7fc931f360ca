"""Scores in single precision: their rounding errors, measured, and the note that they matter."""

import numpy as np
import pytest

import fastsksd as fs
from fastsksd.procedure.precision import MATTERS, score_noise

OFFSET = 3e4
X = OFFSET + np.random.default_rng(0).standard_normal((500, 2))
NEAR = X - OFFSET


def single(x):
    """The score of N(OFFSET, 1), by sums that lose most digits."""
    x = x.astype(np.float32)
    return (np.float32(OFFSET) - x) + (x * np.float32(3.0) - x - x - x)


def far(x):
    """The same about zero, computed with large numbers that cancel."""
    x = x.astype(np.float32) + np.float32(4e6)
    return np.float32(4e6) - x


def test_double_precision_has_no_noise():
    assert score_noise(X, OFFSET - X) == 0.0
    assert fs.gof_test(NEAR, np.negative, n_resamples=99, rng=0).score_noise == 0.0


def test_noise_is_measured_with_the_function():
    """Against the error itself, in standard errors of the mean score."""
    scores = far(NEAR).astype(float)
    exact = np.sqrt(np.mean((scores + NEAR) ** 2, axis=0))
    worst = np.max(np.sqrt(500) * exact / scores.std(axis=0))
    noise = score_noise(NEAR, scores, lambda z, rows: far(z).astype(float))
    assert 0.5 * worst < noise < 2.0 * worst
    # Numbers alone do not show it.
    assert score_noise(NEAR, scores) < 1e-4


def test_noise_of_values_alone_is_their_spacing():
    scores = single(X).astype(float)
    expected = np.sqrt(500) * OFFSET * np.finfo(np.float32).eps / 2
    assert score_noise(X, scores) == pytest.approx(expected, rel=0.1)


def test_ordinary_scores_in_single_precision_are_fine():
    x = NEAR.astype(np.float32)
    for score in (-x, lambda z: -z.astype(np.float32)):
        result = fs.gof_test(x, score, n_resamples=99, rng=0)
        assert 0.0 < result.score_noise < 1e-3
        assert "precision" not in repr(result) and "precision" not in result.summary()


def test_a_note_says_when_it_matters():
    result = fs.gof_test(NEAR, far, n_resamples=99, rng=0)
    assert result.score_noise > MATTERS
    for words in (repr(result), result.summary()):
        assert "scores are in single precision, with rounding errors of about" in words


def test_huge_and_constant_scores():
    assert score_noise(NEAR, np.zeros((500, 2))) == 0.0
    assert score_noise(NEAR, np.full((500, 2), 1e300)) == 0.0


def test_curved_scores_are_no_noise():
    """Of a score in single precision that is far from linear."""
    x = NEAR.astype(np.float32)
    noise = score_noise(x.astype(float), -np.sinh(x).astype(float), lambda z, _: -np.sinh(z))
    assert noise < 0.05
