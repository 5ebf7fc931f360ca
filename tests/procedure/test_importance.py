"""Importance weights: sums against loops, repeated rows, level and power, and bad weights."""

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

import fastsksd as fs
from fastsksd.engines.random_waves import LinearFeatures, WaveFeatures
from fastsksd.engines.slice_features import Reach, SliceFeatures
from fastsksd.procedure import grouped, plan
from fastsksd.procedure.importance import (
    are_bounded,
    check_weights,
    effective_size,
    even_size,
    tail_shape,
    typical_rows,
)
from fastsksd.procedure.moments import DEGREES, MomentFeatures, location_and_unit
from fastsksd.procedure.nulls import Weights
from fastsksd.procedure.plan import Options, make_plan
from fastsksd.procedure.split import Samples
from fastsksd.procedure.unsliced import unsliced_members

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 3))
W = rng.exponential(size=40)
SLICES = fs.Slices(np.eye(3)[:2], fs.random_slices(3, 2, rng=1).g)


def weighted_mean(matrix, w):
    """The mean over pairs i != j with weights w_i w_j, by a loop."""
    total = weight = 0.0
    for i in range(len(w)):
        for j in range(len(w)):
            if i != j:
                total += w[i] * w[j] * matrix[i, j]
                weight += w[i] * w[j]
    return total / weight


def importance_samples(seed, n, d, scale=1.3):
    """Samples of N(0, scale^2) with the weights of N(0, 1)."""
    x = scale * np.random.default_rng(seed).standard_normal((n, d))
    return x, np.exp(-0.5 * (x**2).sum(axis=1) * (1.0 - 1.0 / scale**2))


@pytest.mark.parametrize("null", ["wild", "bootstrap"])
@pytest.mark.parametrize("kernel", ["rbf", "imq"])
def test_slices_match_loops(engine, kernel, null):
    """The statistic of every slice, and a replicate."""
    kernels = {"rbf": fs.RBF(1.3), "imq": fs.IMQ(1.3)}
    result = fs.gof_test(
        X, -X, slices=SLICES, kernel=kernels[kernel], engine=engine, weights=W, null=null, rng=0
    )
    matrices = [
        reference.stein_matrix(X, -X, r, g, kernel, 1.3)
        for r, g in zip(SLICES.r, SLICES.g, strict=True)
    ]
    expected = [weighted_mean(matrix, W) for matrix in matrices]
    np.testing.assert_allclose(result.slice_statistics, expected, rtol=1e-6)
    drawn = Weights(null, 40, 1000, rng=np.random.default_rng(0)).matrix()[7] * W / W.mean()
    whole = sum(matrices)
    replicate = drawn @ whole @ drawn - (drawn**2) @ np.diag(whole)
    pairs = (W.sum() ** 2 - (W**2).sum()) / W.mean() ** 2
    factor = 1.0 if null == "wild" else 39 / 40
    assert result.null_distribution[7] == pytest.approx(factor * replicate / pairs, rel=1e-6)
    assert result.weighted and result.effective_draws == pytest.approx(effective_size(W))


def test_ksd_matches_loops():
    result = fs.gof_test(X, -X, method="ksd", kernel=fs.IMQ(0.9), weights=W, rng=0)
    expected = weighted_mean(reference.ksd_matrix(X, -X, "imq", 0.9), W)
    assert result.statistic == pytest.approx(expected, rel=1e-9)


def test_whole_numbers_are_repeated_rows():
    """The V-statistics agree; U-statistics differ by the pairs of a row with its copies."""
    w = np.random.default_rng(1).integers(0, 4, 40)
    kernel, total = fs.RBF(1.2), w.sum()
    weighted = fs.gof_test(X, -X, method="ksd", kernel=kernel, weights=w, rng=0).statistic
    own = np.diag(reference.ksd_matrix(X, -X, "rbf", 1.2))
    v_statistic = (weighted * (total**2 - w @ w) + (w**2) @ own) / total**2
    many = np.repeat(X, w, axis=0)
    assert v_statistic == pytest.approx(fs.ksd(many, -many, kernel=kernel, statistic="v"))


@pytest.mark.parametrize("n", [300, 4200])
def test_nearly_equal_weights_change_nothing(n):
    """Equal ones are none; nearly equal ones go the whole way and give the same p-value."""
    x = np.random.default_rng(2).standard_normal((n, 3)) * [0.95, 1.0, 1.0]
    plain, equal, nearly = (
        fs.gof_test(x, -x, weights=w, n_resamples=199, rng=0)
        for w in (None, np.full(n, 7.0), 1.0 + 1e-9 * np.arange(n))
    )
    assert equal.pvalue == plain.pvalue and equal.evidence == plain.evidence
    assert not equal.weighted and nearly.weighted
    assert nearly.pvalue == plain.pvalue
    assert nearly.evidence == pytest.approx(plain.evidence, rel=1e-5)


def test_units_of_weights_do_not_count():
    x, w = importance_samples(0, 200, 2)
    first, second = (
        fs.gof_test(x, np.negative, weights=c * w, n_resamples=99, rng=0) for c in (1.0, 1e-200)
    )
    assert first.pvalue == second.pvalue


def feature_maps(x):
    reach = Reach(np.zeros(2), np.full(2, 4.0), np.full(2, 5.0))
    yield SliceFeatures(0, SLICES.r, SLICES.g, np.ones(2), reach, 1e-8)
    yield WaveFeatures(np.random.default_rng(3).standard_normal((5, 3)))
    yield LinearFeatures(3, 100, 0)
    yield LinearFeatures(3, 4, 0)
    yield MomentFeatures(*location_and_unit(x), DEGREES)


@pytest.mark.parametrize("k", range(5))
def test_weights_are_factors_of_features(k):
    """Sums over groups against the features of single samples, and squares for the terms i = i."""
    features = list(feature_maps(X))[k]
    edges = np.array([0, 11, 40], dtype=np.int64)
    got, own = features.group_sums(X, -X, edges, W)
    single = [features.group_sums(X[[i]], -X[[i]], np.array([0, 1])) for i in range(40)]
    sums = np.array([one[0] for one, _ in single])
    expected = [(W[:11] @ sums[:11]), (W[11:] @ sums[11:])]
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)
    owns = np.array([one for _, one in single])
    sizes = np.full(owns.shape, (W**2)[:, None])
    if isinstance(features, LinearFeatures) and features.signs is not None:
        sizes[:, 4:] = W[:, None]  # the sum of all features itself
    np.testing.assert_allclose(own, (sizes * owns).sum(axis=0), rtol=1e-9, atol=1e-9)


def test_many_samples_have_the_members_of_few(monkeypatch):
    x, w = importance_samples(4, 300, 4)
    plain = fs.gof_test(x, -x, weights=w, n_resamples=199, rng=0)
    monkeypatch.setattr(plan, "TAKES_OVER", 100)
    monkeypatch.setattr(grouped, "GROUPS", 60)
    many = fs.gof_test(x, -x, weights=w, n_resamples=199, rng=0)
    before = {(one.name, one.multiple): one for one in plain.members}
    after = {(one.name, one.multiple): one for one in many.members}
    assert before.keys() == after.keys()
    for key, one in before.items():
        if key[0] == "coordinates" or key[0].startswith("location, diag"):
            assert one.statistic == pytest.approx(after[key].statistic, rel=1e-6)


def test_the_shape_of_tails():
    rng = np.random.default_rng(0)
    for k in (0.3, 0.7):  # Pareto weights have the tail of one generalised Pareto distribution
        found = [tail_shape(rng.pareto(1.0 / k, 2000) + 1.0) for _ in range(200)]
        assert np.isclose(np.mean(found), k, atol=0.04)
    assert np.isclose(np.mean([tail_shape(rng.random(2000)) for _ in range(50)]), -1.0, atol=0.15)
    w = rng.pareto(2.0, 300)
    assert np.isclose(tail_shape(w), tail_shape(7.0 * w[::-1]))
    ties = np.repeat([1.0, 2.0], 100)
    assert tail_shape(ties) == -1.0 and tail_shape(w[:20]) == np.inf


def test_members_that_need_bounded_weights():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((500, 2))
    names = {}
    for scale in (1.64, 1.02, 0.79):
        x = scale * z
        w = np.exp(-0.5 * (1.0 - 1.0 / scale**2) * (x**2).sum(axis=1))
        result = fs.gof_test(x, np.negative, weights=w, n_resamples=19, rng=0)
        names[scale] = {one.name for one in result.members}
        assert are_bounded(w) == ("linear kernel, full" in names[scale])
        grouped = fs.gof_test(
            np.tile(x, (10, 1)), np.negative, weights=np.tile(w, 10), n_resamples=19, rng=0
        )
        assert ("linear kernel, full" in {one.name for one in grouped.members}) == are_bounded(w)
    assert names[1.64] == names[1.02] > names[0.79]


def test_coordinates_add_up():
    """What belongs to each coordinate of a kernel of the whole vector sums to its statistic."""
    x, w = importance_samples(5, 300, 3)
    made = make_plan(Options(weights=w, n_resamples=9, rng=0), None, 300, 3)
    samples = Samples(x, -x, np.arange(300), weights=made.weights)
    weights = Weights("wild", 300, 9, importance=made.weights, rng=np.random.default_rng(0))
    members = unsliced_members(made, samples, weights)
    assert len(members) > 5
    for one in members:
        if not one.name.startswith("largest"):
            assert one.coordinates().sum() == pytest.approx(one.statistic, rel=1e-9, abs=1e-12)


@given(st.lists(st.floats(1e-6, 1e3), min_size=2, max_size=50), st.sampled_from([None, 0.01]))
def test_typical_rows(weights, cut):
    w = np.array(weights)
    kept = typical_rows(w, cut)
    assert kept.sum() >= min(3, w.size)
    if cut is None:
        assert kept.sum() <= max(3, np.ceil(effective_size(w)))
    assert typical_rows(np.ones(w.size), cut).all()


def test_typical_rows_follow_the_target():
    """Of samples that are too wide, those kept have the width of the model."""
    x, w = importance_samples(6, 20_000, 1, scale=2.0)
    kept = typical_rows(w, 0.01)
    assert np.std(x[kept]) == pytest.approx(1.0, abs=0.03)
    assert np.std(x[typical_rows(w)]) == pytest.approx(1.0, abs=0.1)


def rejections(d, weighted, model=np.negative, tests=40, n=200, **options):
    count = 0
    for seed in range(tests):
        x, w = importance_samples([7, d, seed], n, d, scale=1.0 + 0.7 / np.sqrt(d))
        w = w if weighted else None
        count += fs.gof_test(x, model, weights=w, n_resamples=99, rng=seed, **options).reject()
    return count


@pytest.mark.parametrize("d", [2, 10])
def test_level_and_power(d):
    """A right model is rejected without the weights only, and a wrong one with them too."""
    assert rejections(d, weighted=True) <= 6  # P(more | 5%) = 0.003
    assert rejections(d, weighted=False, tests=5) == 5
    assert rejections(d, weighted=True, model=lambda x: -1.6 * x, tests=10, n=400) >= 8


def test_one_set_and_named_sets_take_weights():
    x, w = importance_samples(8, 300, 5)
    wrong = dict(score=lambda x: -1.6 * x, weights=w, n_resamples=99, rng=0)
    right = wrong | dict(score=np.negative)
    axes = fs.Slices(np.eye(5), np.eye(5))
    for options in (dict(n_slices=3), dict(basis="identity"), dict(slices={"axes": axes})):
        assert fs.gof_test(x, **right, **options).pvalue > 0.05
    assert fs.gof_test(x, **wrong, slices=axes).reject()
    assert fs.gof_test(x, **wrong, method="psd").reject()
    assert fs.gof_test(x, **wrong | dict(n_resamples=1000), slices=axes, train=None).reject()


@pytest.mark.parametrize("method", ["ksd", "ksdagg", "psd"])
def test_baselines_with_weights(method):
    x, w = importance_samples(9, 300, 2, scale=1.5)
    options = {} if method == "ksdagg" else dict(n_resamples=199)
    assert not fs.gof_test(x, np.negative, weights=w, method=method, rng=0, **options).reject()
    assert fs.gof_test(x, np.negative, method=method, rng=0, **options).reject()


BAD = {
    "negative": (np.where(np.arange(40) == 3, -1.0, 1.0), "are negative in 1 row: 3"),
    "logarithms": (-np.linspace(1.0, 3.0, 40), "If these are log weights, give np.exp"),
    "logarithms of zero": (np.where(np.arange(40) == 3, -np.inf, -2.0), "If these are log"),
    "nan": (np.where(np.arange(40) == 3, np.nan, 1.0), "hold NaN or infinity in 1 row: 3"),
    "length": (np.ones(39), r"one number for each of 40 samples; got \(39,\)"),
    "shape": (np.ones((40, 1)), r"got \(40, 1\)"),
    "one draw": (np.eye(40)[5], "all on row 5"),
    "zero": (np.zeros(40), "all zero"),
    "text": (["a"] * 40, "array of real numbers"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_weights(case):
    weights, message = BAD[case]
    with pytest.raises((ValueError, TypeError), match=rf"`weights`.*{message}"):
        fs.gof_test(X, -X, weights=weights)


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(chains=True), "`weights` are for independent samples"),
        (dict(lag=5), "`weights` are for independent samples"),
        (dict(null="spectral"), "`weights` are for null='wild'"),
        (dict(method="mmd"), "`weights` does not apply to method='mmd'"),
        (dict(method="fssd"), "`weights`"),
        (dict(method="rfsd"), "`weights`"),
    ],
)
def test_where_weights_have_no_use(options, message):
    with pytest.raises(ValueError, match=message):
        fs.gof_test(X, -X, weights=W, **options)


def test_too_few_effective_samples():
    x, w = importance_samples(10, 300, 3)
    result = fs.gof_test(x, np.negative, weights=w**12, n_resamples=99, rng=0)
    assert result.effective_draws < 30 and np.isnan(result.pvalue) and not result.reject()
    needed = 300 * max(30 / result.effective_draws, 16 / even_size(w**12))
    assert needed <= result.draws_needed <= 1.11 * needed
    assert result.verdict.startswith("too few to tell: about ")
    assert "too few to tell whether the model fits" in result.summary()
    assert "too few effective draws" in repr(result)
    assert "too few to tell" in result.plot()._suptitle.get_text()


def test_words_effects_and_explanations():
    x, w = importance_samples(11, 1000, 3, scale=1.5)
    result = fs.gof_test(x, lambda x: -x * [1.0, 1.0, 2.0], weights=w, rng=0)
    size = f"importance weights, worth about {effective_size(w):.0f} samples without"
    assert size in repr(result) and size in result.summary()
    low, high = result.effects[2].stretch_interval
    assert low < np.sqrt(2.0) < high and low > 1.1
    assert result.effects[0].stretch_interval[0] < 1.0 < result.effects[0].stretch_interval[1]
    assert result.explain().slices[0].leading_g[0][0] == "x[2]"
    assert result.reject()


def test_checked_weights_have_mean_one():
    np.testing.assert_allclose(check_weights([1, 3], 2), [0.5, 1.5])
    assert check_weights(np.full(5, 3), 5) is None and check_weights(None, 5) is None


def test_batches_take_weights():
    x, w = importance_samples(12, 200, 2, scale=1.5)
    problems = [dict(x=x, score=-x, weights=w), (x, -x), dict(x=x, score=-x, weights=w**20)]
    batch = fs.gof_batch(problems, progress=False, n_jobs=1, n_resamples=99, rng=0)
    first, second, third = batch.pvalues
    assert first > 0.05 >= second and np.isnan(third) and "too few" in repr(batch)


@pytest.mark.parametrize("options", [{}, dict(n_slices=1), dict(slices=SLICES), dict(method="ksd")])
def test_weights_on_two_samples_only(options):
    """Whatever part of the samples they are in, there is a verdict and no other error."""
    x = np.random.default_rng(13).standard_normal((60, 3))
    w = np.where(np.arange(60) < 2, 1.0, 0.0)
    for seed in range(3):
        result = fs.gof_test(x, -x, weights=w, n_resamples=19, rng=seed, **options)
        assert result.effective_draws == pytest.approx(2.0, rel=1e-6)
        assert result.verdict.startswith("too few to tell")
        assert np.isfinite(result.statistic) and repr(result) and result.summary()


@pytest.mark.parametrize("options", [{}, dict(n_slices=1), dict(slices=SLICES), dict(method="ksd")])
@pytest.mark.parametrize("count", [1, 2])
def test_all_weight_on_a_draw_or_two(options, count):
    """What is said of a result works though a half of the samples has hardly any weight."""
    x = np.random.default_rng(14).standard_normal((500, 3))
    w = np.where(np.arange(500) < count, 1.0, 1e-8)
    for seed in range(4):
        result = fs.gof_test(x, np.negative, weights=w, n_resamples=19, rng=seed, **options)
        assert "too few to tell" in result.summary() and "too few" in repr(result)
        assert result._repr_html_() and result.explain(n_resamples=19)
        with pytest.raises(ValueError, match=r"at least 20 samples.*their weights leave"):
            result.effects  # noqa: B018
