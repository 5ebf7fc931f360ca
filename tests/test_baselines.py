"""Tests of the field through `gof_test`: against slow references, calibrated, and with power where it is easy."""

import numpy as np
import pytest
import reference
from scipy import stats

import fastsksd as fs
from fastsksd import baselines, models

MODEL = models.Gaussian(np.zeros(3), 1.0)
X = MODEL.sample(40, rng=0) * [1.0, 0.7, 1.3]


def rejections(method, n=100, trials=200, **options):
    """Tests out of `trials` that reject the true model at level 0.05."""
    return sum(
        fs.gof_test(MODEL.sample(n, rng=k), MODEL, method=method, n_resamples=99, rng=5000 + k, **options).reject()
        for k in range(trials)
    )


def holds_its_level(count, trials=200):
    return stats.binom.ppf(0.001, trials, 0.05) <= count <= stats.binom.ppf(0.999, trials, 0.05)


def test_rfsd_agrees_with_the_reference():
    result = fs.gof_test(X, MODEL, method=baselines.RFSD(n_features=4, pool=200), n_resamples=20, rng=1)
    c = 4 * reference.median_distance(X)
    np.testing.assert_allclose(result.bandwidths, [c], rtol=1e-12)
    features = reference.rfsd_features(X, -X, result.locations, c, 0.25, 0.5)
    size = np.mean([np.sum(features[i] ** 2) for i in range(len(X))])
    np.testing.assert_allclose(result.statistic, reference.rfsd(features) / size, rtol=1e-9)
    assert "features at 4 locations" in repr(result) and "against 200 of the model" in repr(result)


def test_rfsd_survives_many_dimensions():
    model = models.Gaussian(np.zeros(60), 1.0)
    result = fs.gof_test(model.sample(50, rng=0), model, method=baselines.RFSD(pool=300), n_resamples=50, rng=1)
    assert np.isfinite(result.statistic) and result.statistic > 0 and np.ptp(result.null_distribution) > 0


def test_rfsd_limit_law():
    options = dict(method=baselines.RFSD(pool=4000), n_resamples=2000, rng=1)
    draws = fs.gof_test(X, MODEL, null="spectral", **options).null_distribution
    means = fs.gof_test(X, MODEL, null="model", **options).null_distribution
    np.testing.assert_allclose(draws.mean(), means.mean(), rtol=0.3)


def test_rfsd_is_calibrated_and_has_power():
    assert holds_its_level(rejections(baselines.RFSD(pool=2000)))
    assert fs.gof_test(2 * MODEL.sample(200, rng=0), MODEL, method="rfsd", n_resamples=199, rng=1).pvalue < 0.02


BAD = {
    "slices": (dict(method="rfsd", n_slices=2), "`n_slices` is about slices, and method='rfsd' has none"),
    "debias": (dict(method="rfsd", debias=False), "`debias` is about slices"),
    "multiples": (dict(method="ksd", multiples=[1.0]), "`multiples` is about slices"),
    "lag auto": (dict(method="ksd", lag="auto"), "`lag`='auto' looks along slices, and method='ksd' has none"),
    "train": (dict(method="rfsd", train=0.5), "`train` is about slices, and method='rfsd' has none"),
    "kernel": (dict(method="rfsd", kernel="imq"), "`kernel` is fixed for method='rfsd'"),
    "null": (dict(method="rfsd", null="wild"), "`null` must be one of 'model', 'spectral'; got 'wild'"),
    "no sampler": (dict(method="rfsd", score=np.negative), "`score` must be a model with a `.sample` method for method='rfsd'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_options(case):
    options, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        fs.gof_test(X, **({"score": MODEL} | options))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: baselines.RFSD(n_features=0), ValueError, "`n_features` must be at least 1"),
        (lambda: baselines.RFSD(gamma=2), ValueError, "`gamma` must be at most 1"),
        (lambda: baselines.RFSD(df="few"), TypeError, "`df` must be a number"),
        (lambda: baselines.RFSD(pool=1), ValueError, "`pool` must be at least 2"),
    ],
)
def test_bad_settings(make, error, message):
    with pytest.raises(error, match=message):
        make()
