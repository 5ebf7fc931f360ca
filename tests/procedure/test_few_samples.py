"""What so few samples can show: bounds of the limit distribution, the bootstrap of few samples."""

import numpy as np
import pytest

import fastsksd as fs
from fastsksd.procedure.nulls import Weights, resampling_scale


def normal(seed, n, d=1):
    return np.random.default_rng(seed).standard_normal((n, d))


def test_a_limit_distribution_that_degenerates_shows_no_more_than_signs_can():
    x, line = normal(0, 5), (np.eye(1), np.eye(1))
    result = fs.gof_test(
        x, np.ones((5, 1)), slices=line, kernel=fs.RBF(1e4), null="spectral", rng=0
    )
    assert result.pvalue == pytest.approx(2.0**-4)


def test_series_and_pairs_have_the_same_limit_distribution_with_few_samples():
    """More features than samples: the smaller matrix is that of the samples."""
    x, axes = normal(1, 20, 30), (np.eye(30), np.eye(30))
    options = dict(slices=axes, kernel=fs.RBF(1.0), null="spectral", rng=0)
    one = fs.gof_test(x, -x, engine="direct", **options)
    other = fs.gof_test(x, -x, engine="fourier", **options)
    assert other.engine == "fourier"
    assert other.pvalue == pytest.approx(one.pvalue, rel=1e-5)


def test_the_bootstrap_of_very_few_samples_is_refused():
    x, axes = normal(0, 7, 2), (np.eye(2), np.eye(2))
    with pytest.raises(ValueError, match=r"`null` is 'bootstrap'.*at|fewer than 8 test samples"):
        fs.gof_test(x, -x, slices=axes, null="bootstrap")


@pytest.mark.parametrize("n", [8, 15, 40])
def test_replicates_of_the_bootstrap_vary_as_the_statistic_does(n):
    """For terms of pairs that are independent noise, as those of many slices are.

    With replicates moved to mean zero, which is the same as the ratio of `resampling_scale`.
    """
    rng = np.random.default_rng(0)
    weights = Weights("bootstrap", n, 4000, rng=rng).matrix()
    noise = np.triu(rng.standard_normal((n, n)), 1)
    noise += noise.T
    squares = (noise**2).sum()
    spread = 1.0 / (resampling_scale("bootstrap", n) * (n - 1.0)) + 1.0  # n sqrt(E w1^2 w2^2)
    drawn = np.einsum("bi,ij,bj->b", weights, noise, weights) / (n - 1.0) / spread
    assert drawn.var() == pytest.approx(2.0 * squares / (n * (n - 1.0)) ** 2, rel=0.35)


def test_from_sixty_samples_on_the_bootstrap_is_that_of_the_paper():
    assert resampling_scale("bootstrap", 60) == 1.0 / 60**2
    assert 1.0 / 40**2 < resampling_scale("bootstrap", 40) < 1.15 / 40**2
