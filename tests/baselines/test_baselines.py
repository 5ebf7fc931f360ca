"""Tests of the field through `gof_test`: slow references, calibration, power on easy problems."""

import numpy as np
import pytest
import reference
from scipy import stats

import fastsksd as fs
from fastsksd import baselines, models
from fastsksd.baselines.fssd import power_criterion
from fastsksd.compute.chi_square import limit_weights, log_tail_of_weighted_chi_square
from fastsksd.procedure.nulls import Weights

MODEL = models.Gaussian(np.zeros(3), 1.0)
X = MODEL.sample(40, rng=0) * [1.0, 0.7, 1.3]


def rejections(method, n=100, trials=200, **options):
    """Tests out of `trials` that reject the true model at level 0.05."""
    return sum(
        fs.gof_test(
            MODEL.sample(n, rng=k), MODEL, method=method, n_resamples=99, rng=5000 + k, **options
        ).reject()
        for k in range(trials)
    )


def holds_its_level(count, trials=200):
    return stats.binom.ppf(0.001, trials, 0.05) <= count <= stats.binom.ppf(0.999, trials, 0.05)


def test_rfsd_agrees_with_the_reference():
    result = fs.gof_test(
        X, MODEL, method=baselines.RFSD(n_features=4, pool=200), n_resamples=20, rng=1
    )
    c = 4 * reference.median_distance(X)
    np.testing.assert_allclose(result.bandwidths, [c], rtol=1e-12)
    features = reference.rfsd_features(X, -X, result.locations, c, 0.25, 0.5)
    size = np.mean([np.sum(features[i] ** 2) for i in range(len(X))])
    np.testing.assert_allclose(result.statistic, reference.rfsd(features) / size, rtol=1e-9)
    assert "features at 4 locations" in repr(result) and "against 200 of the model" in repr(result)


def test_rfsd_draws_its_locations_among_the_samples_or_far_away():
    """Student t of 1/2 degrees of freedom about the mean: a scale shifts log distances."""
    x = MODEL.sample(500, rng=0)

    def distances(scale, unit=1.0):
        method = baselines.RFSD(n_features=2000, pool=1000, scale=scale)
        locations = fs.gof_test(
            unit * x, models.Gaussian(np.zeros(3), unit**2), method=method, n_resamples=1, rng=1
        ).locations
        return np.log(np.linalg.norm(locations - unit * x.mean(axis=0), axis=1))

    c = 4 * reference.median_distance(x)
    wide = (1 - 0.25 / 6) * c / 2 / np.sqrt(0.5)
    draws = np.random.default_rng(0)
    expected = np.log(
        np.linalg.norm(draws.standard_normal((4000, 3)), axis=1)
        / np.sqrt(draws.chisquare(0.5, 4000) / 0.5)
    )
    assert stats.ks_2samp(distances("paper") - np.log(wide), expected).pvalue > 0.01
    assert stats.ks_2samp(distances("samples") - np.log(c / 4 / np.sqrt(6)), expected).pvalue > 0.01
    np.testing.assert_allclose(
        distances("samples", 1e3), distances("samples") + np.log(1e3), rtol=1e-9
    )


def test_rfsd_has_its_published_power():
    """Laplace samples with the model's mean and variance in 10 dimensions.

    With locations far away about a third is rejected.
    """
    model, laplace = models.Gaussian(np.zeros(10), 1.0), models.Laplace(10)
    method = baselines.RFSD(pool=10_000)
    tests = [
        fs.gof_test(laplace.sample(1000, rng=k), model, method=method, n_resamples=99, rng=k)
        for k in range(10)
    ]
    assert sum(test.reject() for test in tests) >= 8


def test_rfsd_survives_many_dimensions():
    model = models.Gaussian(np.zeros(60), 1.0)
    result = fs.gof_test(
        model.sample(50, rng=0), model, method=baselines.RFSD(pool=300), n_resamples=50, rng=1
    )
    assert (
        np.isfinite(result.statistic)
        and result.statistic > 0
        and np.ptp(result.null_distribution) > 0
    )


def test_rfsd_limit_distribution():
    options = dict(method=baselines.RFSD(pool=4000), n_resamples=2000, rng=1)
    draws = fs.gof_test(X, MODEL, null="spectral", **options).null_distribution
    means = fs.gof_test(X, MODEL, null="model", **options).null_distribution
    np.testing.assert_allclose(draws.mean(), means.mean(), rtol=0.3)


def test_rfsd_is_calibrated_and_has_power():
    assert holds_its_level(rejections(baselines.RFSD(pool=2000)))
    assert (
        fs.gof_test(
            2 * MODEL.sample(200, rng=0), MODEL, method="rfsd", n_resamples=199, rng=1
        ).pvalue
        < 0.02
    )


@pytest.mark.parametrize("kernel", ["rbf", "imq"])
def test_fssd_agrees_with_the_reference(kernel):
    result = fs.gof_test(
        X, -X, method=baselines.FSSD(optimise=False), kernel=kernel, n_resamples=20, rng=1
    )
    h = reference.median_distance(X)
    np.testing.assert_allclose(result.bandwidths, [h], rtol=1e-12)
    matrix = reference.fssd_matrix(X, -X, result.locations, kernel, h)
    np.testing.assert_allclose(result.statistic, reference.u_statistic(matrix), rtol=1e-10)
    rng = np.random.default_rng(1)
    signs = Weights("wild", 40, 20, rng=rng).matrix()
    expected = [reference.bootstrap_replicate(matrix, w) / (40 * 39) for w in signs]
    np.testing.assert_allclose(result.null_distribution, expected, rtol=1e-8, atol=1e-12)
    assert result.locations.shape == (5, 3) and "features at 5 locations" in repr(result)


def test_fssd_spectral_null_has_the_weights_of_the_matrix():
    result = fs.gof_test(
        X, -X, method=baselines.FSSD(optimise=False), null="spectral", n_resamples=10, rng=1
    )
    matrix = reference.fssd_matrix(X, -X, result.locations, "rbf", result.bandwidths[0])
    centre = np.eye(40) - 1 / 40
    weights = limit_weights(np.linalg.eigvalsh(centre @ matrix @ centre) / 40, 40)
    np.testing.assert_allclose(
        np.log(result.pvalue), log_tail_of_weighted_chi_square(weights, result.statistic), rtol=1e-6
    )


@pytest.mark.parametrize(("code", "kernel"), [(0, "rbf"), (1, "imq")])
def test_fssd_criterion_and_its_gradient(code, kernel):
    v = np.random.default_rng(2).standard_normal((2, 3))
    value, by_v, by_log_h = power_criterion(code, X, -X, v, 1.3)
    np.testing.assert_allclose(value, reference.fssd_criterion(X, -X, v, kernel, 1.3), rtol=1e-9)
    step = 1e-5
    for k in range(6):
        shift = step * np.eye(6)[k].reshape(2, 3)
        up, down = (reference.fssd_criterion(X, -X, v + s * shift, kernel, 1.3) for s in (1, -1))
        np.testing.assert_allclose(by_v[k], (up - down) / (2 * step), rtol=1e-5, atol=1e-8)
    up, down = (reference.fssd_criterion(X, -X, v, kernel, 1.3 * np.exp(s * step)) for s in (1, -1))
    np.testing.assert_allclose(by_log_h, (up - down) / (2 * step), rtol=1e-5)


def test_fssd_finds_better_locations():
    x = MODEL.sample(400, rng=0) * [0.5, 1.0, 1.0]
    result = fs.gof_test(x, np.negative, method="fssd", n_resamples=149, rng=1)
    assert (result.n_train, result.n_test) == (80, 320) and "80 used to find locations" in repr(
        result
    )
    assert result.pvalue < 0.01
    start, h = baselines.fssd._normal_draws(x, 5, np.random.default_rng(0)), 1.8
    found, width = baselines.fssd._optimised(0, x, -x, start, h, False, 50)
    assert power_criterion(0, x, -x, found, width)[0] > 1.5 * power_criterion(0, x, -x, start, h)[0]
    assert baselines.fssd._optimised(0, x, -x, start, h, True, 5)[1] == h


@pytest.mark.parametrize(
    ("optimise", "null"),
    [
        (False, "wild"),
        (False, "spectral"),
        (True, "wild"),
        pytest.param(True, "spectral", marks=pytest.mark.slow),
    ],
)
def test_fssd_is_calibrated(optimise, null):
    assert holds_its_level(rejections(baselines.FSSD(optimise=optimise, max_steps=5), null=null))


@pytest.mark.parametrize("statistic", ["u", "v"])
@pytest.mark.parametrize("kernel", ["rbf", "imq"])
def test_mmd_agrees_with_the_reference(kernel, statistic, monkeypatch):
    y = MODEL.sample(25, rng=1)
    h = reference.median_distance(np.concatenate([X, y]))
    expected = reference.mmd(X, y, kernel, h, statistic)
    np.testing.assert_allclose(
        fs.mmd(X, y, kernel=kernel, statistic=statistic), expected, rtol=1e-10
    )
    monkeypatch.setattr("fastsksd.engines.pairs.TILE", 16)
    np.testing.assert_allclose(
        fs.mmd(X, y, kernel=kernel, statistic=statistic), expected, rtol=1e-10
    )


def test_mmd_replicates_are_permutations():
    y = MODEL.sample(25, rng=1)
    result = fs.gof_test(X, None, method=baselines.MMD(y=y), n_resamples=8, rng=3)
    np.testing.assert_allclose(result.statistic, fs.mmd(X, y), rtol=1e-12)
    signs = np.random.default_rng(3).permuted(
        np.tile(np.repeat([1.0, -1.0], [40, 25]), (8, 1)), axis=1
    )
    pooled = np.concatenate([X, y])
    expected = [
        reference.mmd(pooled[s > 0], pooled[s < 0], "rbf", result.bandwidths[0], "u") for s in signs
    ]
    np.testing.assert_allclose(result.null_distribution, expected, rtol=1e-9)
    assert result.null == "permutation" and "40 tested against 25 of the model" in repr(result)


def test_mmd_batches_of_signs_change_nothing(monkeypatch):
    options = dict(method=baselines.MMD(n_model=30), n_resamples=20, rng=3)
    whole = fs.gof_test(X, MODEL, **options)
    monkeypatch.setattr("fastsksd.baselines.mmd._BATCH", 500)
    np.testing.assert_allclose(
        fs.gof_test(X, MODEL, **options).null_distribution, whole.null_distribution, rtol=1e-12
    )


def test_mmd_is_calibrated_and_has_power():
    assert holds_its_level(rejections("mmd", n=30))
    assert (
        fs.gof_test(
            2 * MODEL.sample(200, rng=0), MODEL, method="mmd", n_resamples=199, rng=1
        ).pvalue
        < 0.02
    )


BAD = {
    "slices": (dict(method="rfsd", n_slices=2), "`n_slices` does not apply to method='rfsd'"),
    "debias": (dict(method="rfsd", debias=False), "`debias` does not apply"),
    "multiples": (dict(method="ksd", multiples=[1.0]), "`multiples` does not apply"),
    "chains for mmd": (dict(method="mmd", chains=True), "`chains` are for null='wild'"),
    "multiples for ksdagg": (
        dict(method="ksdagg", multiples=[1.0]),
        "`multiples` does not apply to method='ksdagg'",
    ),
    "train": (dict(method="rfsd", train=0.5), "`train` does not apply to method='rfsd'"),
    "kernel": (dict(method="rfsd", kernel="imq"), "`kernel` does not apply to method='rfsd'"),
    "null": (
        dict(method="rfsd", null="wild"),
        "`null` must be one of 'model', 'spectral'; got 'wild'",
    ),
    "train for random locations": (
        dict(method=baselines.FSSD(optimise=False), train=0.2),
        "`train` does not apply to method='fssd'",
    ),
    "cross-fitted locations": (
        dict(method="fssd", train="cross"),
        "'cross' is for families of slices",
    ),
    "a bandwidth for each location": (
        dict(method="fssd", kernel=fs.RBF([1.0, 2.0])),
        "`kernel` of the FSSD must have one bandwidth",
    ),
    "null for mmd": (dict(method="mmd", null="wild"), "`null` must be 'permutation'; got 'wild'"),
    "lag for mmd": (dict(method="mmd", lag=5), "`lag` is for null='wild'"),
    "no sampler for mmd": (
        dict(method="mmd", score=-X),
        "`score` must be a model with a .sample method for method='mmd'",
    ),
    "samples of another dimension": (
        dict(method=baselines.MMD(y=X[:, :2])),
        "`y` must have 3 columns",
    ),
    "a bandwidth each for mmd": (
        dict(method="mmd", kernel=fs.RBF([1.0, 2.0])),
        "`kernel` of the MMD must have one bandwidth",
    ),
    "a small pool": (
        dict(method=baselines.RFSD(pool=79)),
        "`pool` must be at least twice the number of samples, 40; got 79",
    ),
    "no sampler": (
        dict(method="rfsd", score=np.negative),
        "`score` must be a model with a .sample method for method='rfsd'",
    ),
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
        (
            lambda: baselines.RFSD(scale="wide"),
            ValueError,
            "`scale` must be one of 'samples', 'paper'; got 'wide'",
        ),
        (lambda: baselines.RFSD(gamma=2), ValueError, "`gamma` must be at most 1"),
        (lambda: baselines.RFSD(df="few"), TypeError, "`df` must be a number"),
        (lambda: baselines.FSSD(n_locations=0), ValueError, "`n_locations` must be at least 1"),
        (lambda: baselines.FSSD(optimise=1), TypeError, "`optimise` must be True or False"),
        (
            lambda: baselines.MMD(y=X, n_model=3),
            ValueError,
            "`n_model` is how many samples to draw",
        ),
        (lambda: baselines.MMD(n_model=1), ValueError, "`n_model` must be at least 2"),
        (lambda: fs.mmd(X, X[:, :2]), ValueError, "`y` must have 3 columns"),
        (lambda: fs.mmd(X, X, statistic="w"), ValueError, "`statistic` must be one of 'u', 'v'"),
        (lambda: baselines.RFSD(pool=1), ValueError, "`pool` must be at least 2"),
    ],
)
def test_bad_settings(make, error, message):
    with pytest.raises(error, match=message):
        make()
