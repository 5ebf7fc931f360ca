"""Algorithm 2: level, uniformity, power, reproducibility, and what the result says."""

import numpy as np
import pytest
import reference
from scipy import stats

import fastsksd as fs
from fastsksd import models
from fastsksd.procedure import nulls, plan
from fastsksd.procedure.nulls import Weights, resampling_pvalue

LEVEL_TRIALS = 400


def null_pvalues(d, null, trials, n=120, n_resamples=199):
    model = models.Gaussian(np.zeros(d), 1.0)
    seeds = np.random.SeedSequence([d, 7]).spawn(trials)
    pvalues = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        result = fs.gof_test(
            model.sample(n, rng=rng),
            model,
            n_slices=min(3, d),
            null=null,
            n_resamples=n_resamples,
            rng=rng,
        )
        pvalues.append(result.pvalue)
    return np.array(pvalues)


@pytest.mark.parametrize("null", ["bootstrap", "wild"])
@pytest.mark.parametrize("d", [2, 20, pytest.param(100, marks=pytest.mark.slow)])
def test_level_and_uniform_pvalues_under_the_null(d, null):
    pvalues = null_pvalues(d, null, LEVEL_TRIALS)
    low, high = stats.binom.ppf([0.0005, 0.9995], LEVEL_TRIALS, 0.05)
    assert low <= np.sum(pvalues <= 0.05) <= high
    jittered = pvalues - np.random.default_rng(0).uniform(0, 1 / 200, LEVEL_TRIALS)
    assert stats.kstest(jittered, "uniform").pvalue > 1e-3


BENCHMARKS = {
    "laplace": (models.Laplace(30), 1.0),
    "student": (models.StudentT(30, df=5.0), 5 / 3),
    "diffusion": (models.Gaussian(np.zeros(30), np.r_[0.3, np.ones(29)]), 1.0),
}


@pytest.mark.parametrize("name", BENCHMARKS)
@pytest.mark.parametrize("estimator", ["exact", "ge"])
def test_power_on_the_benchmarks_of_the_paper(name, estimator):
    q, variance = BENCHMARKS[name]
    p = models.Gaussian(np.zeros(30), variance)
    rejections = sum(
        fs.gof_test(
            q.sample(1000, rng=seed),
            p,
            basis="identity",
            estimator=estimator,
            score_q=q if estimator == "exact" else None,
            rng=seed,
        ).reject()
        for seed in range(10)
    )
    assert rejections == 10


def test_power_of_ke_on_diffusion():
    q, _ = BENCHMARKS["diffusion"]
    for debias in (True, False):
        rejections = sum(
            fs.gof_test(
                q.sample(1000, rng=seed), np.negative, basis="identity", debias=debias, rng=seed
            ).reject()
            for seed in range(10)
        )
        assert rejections >= 9


def test_statistic_is_that_of_the_held_out_samples():
    x = np.random.default_rng(0).standard_normal((60, 3))
    slices = fs.random_slices(3, 2, rng=0)
    result = fs.gof_test(x, -x, slices=slices, null="bootstrap", n_resamples=20, rng=4)
    np.testing.assert_allclose(result.statistic, fs.sksd(x, -x, slices), rtol=1e-12)
    np.testing.assert_allclose(
        result.slice_statistics, fs.sksd(x, -x, slices, per_slice=True), rtol=1e-12
    )
    assert (result.n_test, result.n_train) == (60, 0)
    weights = Weights("bootstrap", 60, 20, rng=np.random.default_rng(4)).matrix()
    matrix = sum(
        reference.stein_matrix(x, -x, r, g, "rbf", h)
        for r, g, h in zip(slices.r, slices.g, result.bandwidths, strict=True)
    )
    expected = [reference.bootstrap_replicate(matrix, w / 60) for w in weights]
    np.testing.assert_allclose(result.null_distribution, expected, rtol=1e-10)
    assert result.pvalue == (1 + np.sum(result.null_distribution >= result.statistic)) / 21


def test_array_callable_and_model_scores_agree():
    model = models.Gaussian(np.zeros(4), [1, 2, 3, 4.0])
    x = model.sample(200, rng=0)
    results = [
        fs.gof_test(x, score, n_resamples=50, rng=1)
        for score in (model.score(x), model.score, model)
    ]
    assert len({result.statistic for result in results}) == 1
    assert len({result.pvalue for result in results}) == 1


def test_separate_training_samples():
    rng = np.random.default_rng(0)
    x, training = rng.standard_normal((100, 3)), rng.standard_normal((40, 3))
    result = fs.gof_test(x, np.negative, train=training, n_slices=3, n_resamples=50, rng=0)
    assert (result.n_test, result.n_train) == (100, 40)
    expected = fs.active_slices(training, np.negative, n_slices=3)
    np.testing.assert_allclose(result.slices.r, expected.r)


def test_same_seed_same_result():
    x = np.random.default_rng(0).standard_normal((150, 5))
    first, again, other = (
        fs.gof_test(x, np.negative, n_resamples=50, rng=seed) for seed in (3, 3, 4)
    )
    assert (
        np.array_equal(first.null_distribution, again.null_distribution)
        and first.statistic == again.statistic
    )
    assert first.statistic != other.statistic
    from_generator = fs.gof_test(x, np.negative, n_resamples=50, rng=np.random.default_rng(3))
    assert from_generator.statistic == first.statistic


def autoregressive_chain(n, rho, rng):
    noise = rng.standard_normal((n, 1)) * np.sqrt(1 - rho**2)
    x = np.empty((n, 1))
    x[0] = rng.standard_normal()
    for i in range(1, n):
        x[i] = rho * x[i - 1] + noise[i]
    return x


def test_lag_keeps_the_level_on_a_markov_chain():
    slices = fs.Slices([[1.0]], [[1.0]])
    rejections = {1: 0, 30: 0}
    for seed in range(200):
        x = autoregressive_chain(500, 0.8, np.random.default_rng(seed))
        for lag in rejections:
            rejections[lag] += fs.gof_test(
                x, np.negative, slices=slices, null="wild", lag=lag, n_resamples=199, rng=seed
            ).reject()
    assert rejections[1] > 60  # independent signs reject a true model far too often
    assert rejections[30] <= stats.binom.ppf(0.9999, 200, 0.06)


@pytest.mark.parametrize("null", ["bootstrap", "wild"])
def test_weights_have_the_right_moments(null):
    n, count = 50, 40000
    weights = Weights(null, n, count, rng=np.random.default_rng(0)).matrix().astype(float)
    if null == "bootstrap":
        counts = weights + 1
        np.testing.assert_allclose(counts, np.round(counts), atol=1e-9)
        np.testing.assert_allclose(counts.sum(axis=1), n, rtol=1e-12)
        assert stats.chisquare(counts.sum(axis=0)).pvalue > 1e-4
        frequencies = np.bincount(np.round(counts).astype(int).ravel(), minlength=6)[:6]
        expected = stats.binom.pmf(np.arange(6), n, 1 / n) * n * count
        assert np.all(np.abs(frequencies - expected) < 5 * np.sqrt(expected))
        variance, covariance = 1 - 1 / n, -1 / n
    else:
        assert np.all(np.abs(weights) == 1)
        variance, covariance = 1.0, 0.0
    observed = weights.T @ weights / count
    np.testing.assert_allclose(np.diag(observed), variance, rtol=0.05)
    off = observed[np.triu_indices(n, 1)]
    assert abs(off.mean() - covariance) < 5 * variance / np.sqrt(count * off.size) + 1e-6 * variance
    assert np.abs(off - covariance).max() < 6 * variance / np.sqrt(count)


def test_pvalue_counts_ties_and_is_never_zero():
    assert resampling_pvalue(2.0, np.array([1.0, 2.0, 3.0])) == 3 / 4
    assert resampling_pvalue(9.0, np.arange(9.0)) == 1 / 10


def test_sets_fixed_beforehand_are_tested_on_all_samples():
    x = np.random.default_rng(2).standard_normal((50, 3))
    identity = fs.Slices(np.eye(3), np.eye(3))
    for train in ("cross", 0.2):
        result = fs.gof_test(x, -x, train=train, n_resamples=30, rng=0)
        member = next(m for m in result.members if m.name == "coordinates" and m.multiple == 1.0)
        assert member.part == "all"
        np.testing.assert_allclose(member.statistic, fs.sksd(x, -x, identity), rtol=1e-10)


@pytest.mark.parametrize("null", ["bootstrap", "wild"])
def test_batches_are_the_matrix(null, monkeypatch):
    weights = Weights(null, 30, 50, edges=[12], rng=np.random.default_rng(0))
    x = np.random.default_rng(1).standard_normal((40, 3))
    options = dict(null=null, n_resamples=30, rng=0)
    whole = [
        fs.gof_test(x, -x, **options).null_distribution,
        fs.gof_test(x, -x, method="ksd", **options).null_distribution,
    ]
    monkeypatch.setattr(nulls, "_BATCH", 200)
    parts = list(weights.batches())
    assert len(parts) > 5 and np.array_equal(np.concatenate(parts), weights.matrix())
    again = [
        fs.gof_test(x, -x, **options).null_distribution,
        fs.gof_test(x, -x, method="ksd", **options).null_distribution,
    ]
    np.testing.assert_allclose(again, whole, rtol=1e-12)


def test_bootstrap_counts_of_parts_sum_to_their_sizes():
    weights = Weights("bootstrap", 30, 50, edges=[12], rng=np.random.default_rng(0)).matrix()
    assert np.all(weights[:, :12].sum(axis=1) == 0) and np.all(weights[:, 12:].sum(axis=1) == 0)
    assert weights[:, :12].std() > 0.5


@pytest.mark.parametrize("kernel", ["rbf", "imq"])
def test_ksd_through_the_same_door(kernel):
    x = np.random.default_rng(3).standard_normal((60, 3))
    result = fs.gof_test(
        x, -x, method="ksd", kernel=kernel, null="bootstrap", n_resamples=25, rng=2
    )
    np.testing.assert_allclose(result.statistic, fs.ksd(x, -x, kernel=kernel), rtol=1e-12)
    assert result.slices is None and (result.n_test, result.n_train) == (60, 0)
    matrix = reference.ksd_matrix(x, -x, kernel, result.bandwidths[0])
    weights = Weights("bootstrap", 60, 25, rng=np.random.default_rng(2)).matrix()
    expected = [reference.bootstrap_replicate(matrix, w / 60) for w in weights]
    np.testing.assert_allclose(result.null_distribution, expected, rtol=1e-9)
    assert "ksd" in repr(result) and "<table>" in result._repr_html_()


def test_ksd_is_calibrated_and_has_power():
    model = models.Gaussian(np.zeros(2), 1.0)
    pvalues = [
        fs.gof_test(model.sample(60, rng=k), model, method="ksd", n_resamples=99, rng=k).pvalue
        for k in range(200)
    ]
    assert (
        stats.binom.ppf(0.001, 200, 0.05)
        <= np.sum(np.array(pvalues) <= 0.05)
        <= stats.binom.ppf(0.999, 200, 0.05)
    )
    assert fs.gof_test(2.0 * model.sample(100, rng=0), model, method="ksd", rng=0).pvalue < 0.01


def test_negative_statistics_are_not_clipped():
    x = models.Gaussian(np.zeros(3), 1.0).sample(100, rng=0)
    values = [fs.sksd(x, np.negative, fs.random_slices(3, 1, rng=seed)) for seed in range(20)]
    assert min(values) < 0


def test_result_in_words():
    x = models.Gaussian(np.zeros(5), [0.2, 1, 1, 1, 1]).sample(400, rng=0)
    result = fs.gof_test(x, np.negative, rng=0)
    assert result.reject() and not result.reject(alpha=1e-4)
    text = repr(result)
    assert "rejected at level 0.05" in text and "x[0]" in text and f"{result.pvalue:.4g}" in text
    assert "<table>" in result._repr_html_()
    assert set(result.timings) == {"slices", "statistic", "total"}
    with pytest.raises(AttributeError):
        result.pvalue = 0.5


def test_integrated_and_orthogonal_discrepancies():
    x = models.Gaussian(np.zeros(3), [0.3, 1, 1]).sample(300, rng=0)
    integrated = fs.integrated_sksd(x, np.negative, n_slices=400, rng=0)
    fine = fs.integrated_sksd(x, np.negative, n_slices=6000, rng=1)
    assert abs(integrated.value - fine.value) < 4 * np.hypot(
        *[e.standard_error for e in (integrated, fine)]
    )
    assert fine.standard_error < 0.5 * integrated.standard_error
    orthogonal = fs.orthogonal_sksd(x, np.negative, n_slices=300, rng=0)
    g = fs.random_slices(3, 2000, rng=2).g
    by_hand = [
        fs.sksd(x, np.negative, fs.Slices(np.tile(r, (2000, 1)), g), per_slice=True).mean()
        for r in np.eye(3)
    ]
    assert abs(orthogonal.value - sum(by_hand)) < 5 * orthogonal.standard_error
    # The mean over r on the sphere is that over an orthogonal basis: integrated = orthogonal / d.
    assert (
        abs(fine.value - sum(by_hand) / 3)
        < 5 * fine.standard_error + 5 * orthogonal.standard_error / 3
    )


def test_the_search_has_a_bound_where_the_user_sets_none(monkeypatch):
    x = np.random.default_rng(8).standard_normal((120, 2))
    monkeypatch.setattr(plan, "MOST_TRAINING", 20)
    options = dict(n_slices=1, n_resamples=20, rng=0)
    assert fs.gof_test(x, np.negative, **options).n_train == 20
    assert fs.gof_test(x[:100], np.negative, **options).n_train == 20
    assert fs.gof_test(x[:90], np.negative, **options).n_train == 18
    assert fs.gof_test(x, np.negative, train=0.5, **options).n_train == 60
