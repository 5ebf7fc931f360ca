"""Effect sizes: closed forms of normal models, maximum likelihood, coverage, invariances, doors."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

import fastsksd as fs
from fastsksd.effects import Effect, Tolerance
from fastsksd.experiments.effects import make_target
from fastsksd.procedure.location_scale import marginal_pvalues
from fastsksd.report.tables import estimate_cells
from fastsksd.report.wording import effect_words
from fastsksd.report.worst import worst_directions


def normal_problem(rng, n=400, d=4):
    """Samples of one normal distribution, and mean, covariance and score of another."""
    root = rng.standard_normal((d, d))
    mean, covariance = rng.standard_normal(d), root @ root.T + 0.1 * np.eye(d)
    x = rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) + rng.standard_normal(d)
    precision = np.linalg.inv(covariance)
    return x, mean, covariance, lambda x: -(x - mean) @ precision


@pytest.mark.parametrize("d", [1, 2, 7])
def test_normal_models_are_exact_whatever_the_samples(d):
    # Any mean and covariance of the samples: marginals are compared, not conditionals.
    x, mean, covariance, score = normal_problem(np.random.default_rng(d), d=d)
    effects = fs.effect_sizes(x, score)
    deviation = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(effects.stretch, x.std(axis=0, ddof=1) / deviation, rtol=1e-6)
    # The unit divides by n, as the standard deviations of NumPy do.
    factor = math.sqrt(1 - 1 / len(x))
    np.testing.assert_allclose(effects.shift * factor, (x.mean(0) - mean) / deviation, rtol=2e-3)
    np.testing.assert_allclose(
        effects.shift_error, x.std(axis=0) / deviation / math.sqrt(len(x)), rtol=0.02
    )
    # Of half the logarithm of a variance.
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    np.testing.assert_allclose(
        effects.log_stretch_error, 0.5 * (z**2).std(axis=0) / math.sqrt(len(x)), rtol=0.02
    )


def test_slices_of_a_normal_model_are_exact():
    rng = np.random.default_rng(8)
    x, mean, covariance, score = normal_problem(rng)
    g = rng.standard_normal((3, 4))
    g /= np.linalg.norm(g, axis=1, keepdims=True)
    effects = fs.effect_sizes(x, score, slices=(g, g))
    assert effects.n_coordinates == 4 and len(effects) == 7
    deviation = np.sqrt(np.einsum("kd,de,ke->k", g, covariance, g))
    y = x @ g.T
    np.testing.assert_allclose(effects.stretch[4:], y.std(axis=0, ddof=1) / deviation, rtol=1e-6)
    # Names have the sign of the largest weight, and so have shifts.
    sign = np.sign(g[np.arange(3), np.abs(g).argmax(axis=1)])
    np.testing.assert_allclose(
        effects.shift[4:], sign * (y.mean(axis=0) - g @ mean) / deviation, rtol=2e-3, atol=1e-9
    )


def test_a_shear_is_a_correlation_that_the_model_does_not_have():
    rng = np.random.default_rng(0)
    n, rho = 20000, 0.4
    x = rng.standard_normal((n, 2)) @ np.linalg.cholesky([[1, rho], [rho, 1]]).T
    r, g = np.array([[0.0, 1.0]]), np.array([[1.0, 0.0]])
    row = fs.effect_sizes(x, np.negative, slices=(r, g), names=["a", "b"])[2]
    assert row.across == "b" and row.name == "a" and row.sheared
    assert row.shear == pytest.approx(np.corrcoef(x, rowvar=False)[0, 1], abs=1e-6)
    assert row.shear_interval[0] < rho < row.shear_interval[1]
    # One direction has no shear.
    assert np.isnan(fs.effect_sizes(x, np.negative, slices=(g, g))[2].shear)


def test_a_missing_correlation_is_told_as_widths_of_marginals():
    # Mean field: the conditionals are right, and the marginals too narrow.
    rho = 0.9
    precision = np.linalg.inv([[1, rho], [rho, 1]])
    x = math.sqrt(1 - rho**2) * np.random.default_rng(1).standard_normal((5000, 2))
    effects = fs.effect_sizes(x, -x @ precision)
    np.testing.assert_allclose(effects.stretch, math.sqrt(1 - rho**2), rtol=0.05)
    assert all(row.stretched for row in effects)


@pytest.mark.parametrize(("nu", "tolerance"), [(5, 0.004), (1, 0.01)])
def test_the_step_is_near_maximum_likelihood(nu, tolerance):
    # t and Cauchy samples, a little shifted and stretched.
    rng = np.random.default_rng(nu)
    x = 0.05 + 1.03 * rng.standard_t(nu, 20000)
    unit = stats.t(nu).std() if nu > 2 else 1.0

    def minus_likelihood(parameters):
        return -np.mean(stats.t.logpdf(x, nu, parameters[0], math.exp(parameters[1])))

    best = optimize.minimize(minus_likelihood, [0.0, 0.0], tol=1e-10).x
    effects = fs.effect_sizes(x[:, None], lambda x: -(nu + 1) * x / (nu + x * x))
    assert math.log(effects.stretch[0]) == pytest.approx(best[1], abs=tolerance)
    if nu > 2:
        assert effects.shift[0] * unit == pytest.approx(best[0], abs=tolerance)
        hessian = nu / (nu + 3) * 2  # Fisher information of the logarithm of the scale
        assert effects.log_stretch_error[0] == pytest.approx((20000 * hessian) ** -0.5, rel=0.05)


def test_generalised_normal_models_have_exact_stretches():
    x = np.random.default_rng(3).laplace(size=(40000, 1))
    for factor in (0.3, 1.0, 3.0):
        stretch = fs.effect_sizes(factor * x, lambda x: -np.sign(x)).stretch[0]
        assert stretch / factor == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("name", ["normal", "t", "multivariate t"])
def test_intervals_cover_small_effects(name):
    rng = np.random.default_rng(11)
    target, d, runs = make_target(name, 5), 5, 60
    hits = np.zeros(2)
    for _ in range(runs):
        shift, log_stretch = rng.uniform(-0.08, 0.08, d), rng.uniform(-0.04, 0.04, d)
        x = target.draw(500, rng) * np.exp(log_stretch) + shift * target.deviation
        alone = fs.effect_sizes(x, target.score).at(simultaneous=False)
        for k, (truth, interval) in enumerate(
            [(shift, alone.shift_interval), (np.exp(log_stretch), alone.stretch_interval)]
        ):
            hits[k] += np.sum((interval[:, 0] <= truth) & (truth <= interval[:, 1]))
    low, high = stats.binom.ppf([1e-4, 1 - 1e-4], runs * d, 0.95)
    assert np.all(hits >= low) and np.all(hits <= high)


def test_intervals_of_chains_allow_for_their_memory():
    rng = np.random.default_rng(5)
    n, chains, rho, hits, wide = 500, 4, 0.9, 0, []
    for _ in range(60):
        z = np.empty((n, chains))
        z[0] = rng.standard_normal(chains)
        for k in range(1, n):
            z[k] = rho * z[k - 1] + math.sqrt(1 - rho**2) * rng.standard_normal(chains)
        x = z.T.reshape(-1, 1)
        row = fs.effect_sizes(x, np.negative, chains=np.repeat(np.arange(chains), n))
        low, high = row.at(simultaneous=False).shift_interval[0]
        hits += low <= 0 <= high
        wide.append(row.shift_error[0] / fs.effect_sizes(x, np.negative).shift_error[0])
    assert stats.binom.ppf(1e-4, 60, 0.95) <= hits
    # The autocorrelation time is (1 + rho) / (1 - rho) = 19.
    assert np.mean(wide) == pytest.approx(math.sqrt(19), rel=0.1)


def test_chains_are_given_as_for_a_test():
    x = np.random.default_rng(0).standard_normal((2, 100, 3)).cumsum(axis=1) / 10
    flat, labels = x.reshape(-1, 3), np.repeat(["a", "b"], 100)
    stacked = fs.effect_sizes(x, -x)
    for one in (fs.effect_sizes(flat, np.negative, chains=labels), fs.effect_sizes(x, np.negative)):
        np.testing.assert_array_equal(one.shift_interval, stacked.shift_interval)
    apart = fs.effect_sizes(flat, np.negative)
    assert np.all(stacked.shift_error > 2 * apart.shift_error)
    assert np.all(fs.effect_sizes(flat, np.negative, chains=True).shift_error > apart.shift_error)


def test_simultaneous_intervals_are_those_of_sidak():
    effects = fs.effect_sizes(np.random.default_rng(0).standard_normal((5000, 10)), np.negative)
    half = np.diff(effects.shift_interval, axis=1)[:, 0] / 2 / effects.shift_error
    miss = 1 - 0.95 ** (1 / 20)
    np.testing.assert_allclose(half, stats.t(4999).isf(miss / 2), rtol=1e-9)
    alone = effects.at(0.9, simultaneous=False)
    half = np.log(alone.stretch_interval[:, 1] / alone.stretch) / alone.log_stretch_error
    np.testing.assert_allclose(half, stats.t(4999 / 7).isf(0.05), rtol=1e-9)


@settings(max_examples=40)
@given(
    st.sampled_from(["normal", "t", "Laplace"]),
    st.integers(0, 2**32),
    st.lists(st.floats(-7, 7), min_size=3, max_size=3),
    st.lists(st.floats(-100, 100), min_size=3, max_size=3),
)
def test_effects_do_not_depend_on_units(name, seed, powers, places):
    rng = np.random.default_rng(seed)
    target = make_target(name, 3)
    x = target.draw(300, rng) + np.array([0.2, 0.0, 0.0])
    scale = 10.0 ** np.array(powers)
    place = scale * np.array(places)
    plain = fs.effect_sizes(x, target.score)
    other = fs.effect_sizes(place + scale * x, target.score(x) / scale)
    for field in ("shift", "stretch", "shift_error", "log_stretch_error"):
        np.testing.assert_allclose(
            getattr(other, field), getattr(plain, field), rtol=1e-5, atol=1e-7
        )


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.floats(0.8, 1.25))
def test_effects_turn_with_the_coordinates(seed, stretch):
    # Along a direction g, whatever the coordinates that x is written in.
    rng = np.random.default_rng(seed)
    target = make_target("normal", 3)
    x = target.draw(500, rng) * [stretch, 1.0, 1.0]
    first, second = (np.linalg.qr(rng.standard_normal((3, 3)))[0] for _ in range(2))
    a = first * rng.uniform(0.2, 5.0, 3) @ second
    g = rng.standard_normal((1, 3))
    g /= np.linalg.norm(g)
    turned = g @ np.linalg.inv(a)
    turned /= np.linalg.norm(turned)
    one = fs.effect_sizes(x, target.score, slices=(g, g))
    other = fs.effect_sizes(x @ a.T, target.score(x) @ np.linalg.inv(a), slices=(turned, turned))
    # The learning of r leaves outliers of the coordinates out, which are not the same.
    assert other.stretch[3] == pytest.approx(one.stretch[3], rel=0.02)
    assert abs(other.shift[3]) == pytest.approx(abs(one.shift[3]), abs=0.02)


def test_constant_columns_and_few_samples_are_no_error():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 3))
    x[:, 1] = 7.0
    effects = fs.effect_sizes(x, -x)
    assert np.isnan(effects.shift[1]) and np.isnan(effects.stretch_interval[1]).all()
    assert np.isfinite(effects.shift[[0, 2]]).all() and not effects[1].shifted
    assert effects.to_dict()["rows"][1]["stretch"] is None
    many = fs.effect_sizes(rng.standard_normal((30, 100)), np.negative)
    assert np.isfinite(many.shift).all() and not any(row.stretched for row in many)
    assert np.isnan(fs.effect_sizes(x[:, :1], np.zeros((60, 1))).shift).all()


@pytest.mark.parametrize("n", [1000, 20_000])
@pytest.mark.parametrize(("part", "place"), [(0.001, 50.0), (0.01, 12.0), (0.01, 50.0)])
def test_outliers_hardly_count_however_many_samples_there_are(n, part, place):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 2))
    alone = fs.effect_sizes(x, np.negative)
    x[rng.permutation(n)[: round(part * n)], 0] = place
    effects = fs.effect_sizes(x, np.negative)
    low, high = effects.shift_interval[0]
    assert -0.02 < effects.shift[0] - alone.shift[0] < 0.1 and high - low < 1.0
    assert 1.0 < effects.stretch[0] < 1.4
    np.testing.assert_allclose(effects.shift[1], alone.shift[1], atol=0.02)
    np.testing.assert_allclose(effects.stretch[1], alone.stretch[1], rtol=0.01)


def test_a_constant_column_leaves_the_others_as_they_are():
    x = np.random.default_rng(0).standard_normal((500, 3))
    x[:, 1] = 0.3
    effects, alone = (fs.effect_sizes(one, np.negative) for one in (x, x[:, [0, 2]]))
    np.testing.assert_allclose(effects.stretch_interval[[0, 2]], alone.stretch_interval, rtol=0.02)
    np.testing.assert_allclose(effects.shift_interval[[0, 2]], alone.shift_interval, atol=0.02)
    assert not effects.rough.any()


def test_bad_input_is_named():
    x = np.random.default_rng(0).standard_normal((40, 2))
    with pytest.raises(ValueError, match=r"`x` .*at least 20"):
        fs.effect_sizes(x[:19], np.negative)
    with pytest.raises(ValueError, match=r"`chains` must have a label for every one of 40 rows"):
        fs.effect_sizes(x, np.negative, chains=[0, 1])
    with pytest.raises(ValueError, match=r"`chains` holds labels that are NaN"):
        fs.effect_sizes(x, np.negative, chains=np.full(40, np.nan))
    with pytest.raises(ValueError, match=r"`level`"):
        fs.effect_sizes(x, np.negative, level=1.5)
    with pytest.raises(ValueError, match=r"`names` must have one name for each of 2"):
        fs.effect_sizes(x, np.negative, names=["a"])
    with pytest.raises(KeyError, match="nothing"):
        fs.effect_sizes(x, np.negative)["nothing"]
    with pytest.raises(TypeError, match="`result` must be a GofResult"):
        fs.plot.effects(3)


def test_a_result_has_effects_of_all_samples_and_of_its_slices():
    rng = np.random.default_rng(0)
    axis = np.ones(6) / math.sqrt(6)
    x = rng.standard_normal((1000, 6))
    x -= 0.6 * np.outer(x @ axis, axis)
    result = fs.gof_test(x, np.negative, rng=1)
    effects = result.effects
    assert effects is result.effects
    expected = fs.effect_sizes(x, np.negative)
    np.testing.assert_allclose(effects.stretch[:6], expected.stretch)
    if effects.n_coordinates < len(effects):
        k = int(np.argmin(effects.stretch[6:])) + 6
        assert effects[k].stretched and effects.stretch[k] < 0.6
    words = result.summary()
    assert "Effect sizes, with 95% intervals: " in words and "times as wide as the model" in words
    html = result._repr_html_()
    assert "Effect sizes" in html and effects.names[0] in html
    assert "Effects" in repr(effects) and json.dumps(effects.to_dict(), allow_nan=False)


def test_other_samples_have_effects_in_the_summary():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 2)) * [0.5, 1.0]
    result = fs.gof_test(x, np.negative, n_resamples=99, rng=0)
    assert "a: samples 2.0" in result.summary(4 * x, np.negative, names=["a", "b"])
    assert "Effect sizes" not in result.summary(x[:10], np.negative)
    right = fs.gof_test(rng.standard_normal((300, 2)), np.negative, n_resamples=99, rng=0)
    assert "No shift or stretch is significant: with 95% confidence every" in right.summary()


@pytest.mark.parametrize("stretch", [0.01, 0.05, 20.0])
def test_intervals_of_normal_models_hold_at_any_width(stretch):
    x = np.random.default_rng(21).standard_normal((300, 3)) * [1.0, stretch, 1.0]
    row = fs.effect_sizes(x, np.negative)[1]
    low, high = row.stretch_interval
    assert low < stretch < high < 1.3 * low and not row.rough


def test_results_without_samples_or_scores_have_none():
    x = np.random.default_rng(0).standard_normal((100, 2))
    with pytest.raises(ValueError, match="holds no samples"):
        fs.gof_stream(x, np.negative, n_slices=2, train=50, rng=0).effects  # noqa: B018
    with pytest.raises(ValueError, match="needs no score"):
        fs.gof_test(x, fs.models.Gaussian(np.zeros(2), np.eye(2)), method="mmd", rng=0).effects  # noqa: B018
    few = fs.gof_test(x[:15], np.negative, n_resamples=49, rng=0)
    with pytest.raises(ValueError, match="at least 20 samples"):
        few.effects  # noqa: B018
    assert "standard deviations" not in few.summary() and few._repr_html_() and few.plot()


def test_words_say_how_much():
    assert effect_words(Effect("sigma", 0.0, (-0.1, 0.1), 1.36, (1.29, 1.43))) == [
        "sigma: samples 1.36 times as wide as the model says (1.29 to 1.43)"
    ]
    assert effect_words(Effect("mu", -0.2, (-0.3, -0.1), 1.0, (0.9, 1.1))) == [
        "mu: samples 0.20 standard deviations too low (0.10 to 0.30)"
    ]
    assert effect_words(Effect("mu", 0.0, (-1, 1), 1.0012, (1.0007, 1.0017)))[0] == (
        "mu: samples 1.0012 times as wide as the model says (1.0007 to 1.0017)"
    )
    assert effect_words(Effect("mu", math.nan, (math.nan,) * 2, math.nan, (math.nan,) * 2)) == []


def test_marginal_pvalues_are_uniform_and_see_tails():
    rng = np.random.default_rng(0)
    target = make_target("t", 5)
    pvalues = []
    for _ in range(60):
        x = target.draw(400, rng)
        pvalues.append(marginal_pvalues(x, target.score(x)))
    low, high = stats.binom.ppf([1e-4, 1 - 1e-4], 300, 0.05)
    assert low - 5 <= np.sum(np.array(pvalues) <= 0.05) <= high
    x = rng.laplace(size=(1000, 2)) / math.sqrt(2)
    x[:, 1] = rng.standard_normal(1000)
    wrong, right = marginal_pvalues(x, -x)
    assert wrong < 1e-4 < right


def test_a_wrong_pair_is_named():
    rng = np.random.default_rng(1)
    covariance = np.eye(5)
    covariance[1, 3] = covariance[3, 1] = 0.95
    precision = np.linalg.inv(covariance)
    names = tuple("abcde")
    x = rng.standard_normal((2000, 5))
    right = x @ np.linalg.cholesky(covariance).T
    assert worst_directions(right, -right @ precision, names) is None
    wrong = x.copy()
    wrong[:, 3] = 0.95 * x[:, 1] + 0.5 * math.sqrt(1 - 0.95**2) * x[:, 3]
    found = worst_directions(wrong, -wrong @ precision, names)
    assert found.names == ("b - d",) and found[0].stretched and found.stretch[0] < 0.6
    # Single coordinates speak for themselves.
    single = right * [1.0, 1.0, 2.0, 1.0, 1.0]
    assert worst_directions(single, -single @ precision, names) is None
    assert worst_directions(x[:, :1], -x[:, :1], names[:1]) is None


def test_tolerance_decides_from_the_intervals():
    rng = np.random.default_rng(0)
    tolerance = {"shift": 0.2, "stretch": 0.1}
    x = rng.standard_normal((2000, 2))

    def tolerated(x, **options):
        options = {"tolerance": tolerance, "n_resamples": 49, "rng": 0} | options
        return fs.gof_test(x, np.negative, **options)

    right = tolerated(x)
    assert right.tolerated.verdict == "within" and "Within tolerance" in right.summary()
    assert right.tolerated.n_needed is None and "within" in repr(right)
    wide = tolerated(x * [1.3, 1.0])
    assert wide.tolerated.verdict == "beyond" and wide.tolerated.worst == "x[0]"
    assert "Surely beyond the tolerance of a shift of 0.2 standard" in wide.summary()
    assert tolerated(x + np.array([0.0, 0.5])).tolerated.worst == "x[1]"
    # Only one of them.
    only = tolerated(x + np.array([0.0, 0.5]), tolerance={"stretch": 0.1})
    assert only.tolerated.verdict == "within" and only.tolerated.shift == np.inf
    some = tolerated(x[:150])
    assert some.tolerated.verdict == "undecided" and some.tolerated.n_needed > 150
    assert "samples would settle it" in some.summary()
    assert fs.gof_test(x, np.negative, n_resamples=49, rng=0).tolerated is None


@pytest.mark.slow
def test_a_million_samples_off_by_half_a_percent_are_wrong_and_good_enough():
    x = 1.005 * np.random.default_rng(0).standard_normal((1_000_000, 3))
    result = fs.gof_test(
        x,
        np.negative,
        slices=(np.eye(3), np.eye(3)),
        null="spectral",
        tolerance={"shift": 0.1, "stretch": 0.05},
        rng=0,
    )
    assert result.pvalue < 1e-9 and result.tolerated.verdict == "within"
    assert all(low < 1.005 < high for low, high in result.effects.stretch_interval)


@settings(max_examples=60)
@given(
    st.integers(0, 2**32),
    st.integers(20, 2000),
    st.floats(0.5, 2.0),
    st.floats(-1.0, 1.0),
    st.lists(st.floats(1e-3, 3.0), min_size=2, max_size=2),
    st.lists(st.floats(1.0, 5.0), min_size=2, max_size=2),
)
def test_a_wider_tolerance_is_never_worse(seed, n, stretch, shift, limits, wider):
    order = ["within", "undecided", "beyond"]
    x = shift + np.random.default_rng(seed).standard_normal((n, 3)) * [stretch, 1.0, 1.0]
    effects = fs.effect_sizes(x, np.negative)
    narrow = Tolerance(*limits).of(effects)
    wide = Tolerance(limits[0] * wider[0], limits[1] * wider[1]).of(effects)
    assert order.index(wide.verdict) <= order.index(narrow.verdict)


def test_any_tolerance_is_met_at_last_and_none_of_nothing():
    x = np.random.default_rng(1).standard_normal((400, 3)) * [1.1, 1.0, 1.0]
    effects = fs.effect_sizes(x, np.negative)
    assert [Tolerance(one, one).of(effects).verdict for one in (0.001, 1.0)] == ["beyond", "within"]


def test_what_is_not_known_is_not_within():
    x = np.random.default_rng(0).standard_normal((2000, 2))
    stuck = np.stack([x[:, 0], np.full(2000, 0.3)], axis=1)
    wide = {"shift": 9.0, "stretch": 9.0}
    for samples, score, worst in ((x, np.zeros_like, "x[0]"), (stuck, np.negative, "x[1]")):
        found = fs.gof_test(samples, score, method="ksd", tolerance=wide, n_resamples=19, rng=0)
        assert found.tolerated.verdict == "undecided" and found.tolerated.n_needed is None
        assert found.tolerated.worst == worst and "Undecided" in found.summary()


def test_a_right_number_of_samples_settles_it():
    # Half of the runs with the number that is asked for should be decided, the others nearly.
    rng = np.random.default_rng(2)
    tolerance = Tolerance(0.1, 0.1)
    x = rng.standard_normal((500, 1)) * 1.03
    first = tolerance.of(fs.effect_sizes(x, np.negative))
    assert first.verdict == "undecided"
    x = rng.standard_normal((4 * first.n_needed, 1)) * 1.03
    assert tolerance.of(fs.effect_sizes(x, np.negative)).verdict == "within"


@pytest.mark.parametrize("d", [1, 20])
def test_estimates_beyond_by_chance_do_not_make_it_look_easy(d):
    """Of right models. With 40 estimates some are always beyond, and that is soon unlikely."""
    rng = np.random.default_rng(3)
    tolerance = Tolerance(0.1, 0.05)

    def tolerated(n):
        return tolerance.of(fs.effect_sizes(rng.standard_normal((n, d)), np.negative))

    first = [tolerated(100) for _ in range(10)]
    assert all(one.verdict == "undecided" for one in first)
    needed = int(np.median([one.n_needed for one in first]))
    assert [tolerated(2 * needed).verdict for _ in range(5)].count("within") >= 3
    assert "within" not in [tolerated(needed // 4).verdict for _ in range(5)]


@pytest.mark.parametrize(
    ("tolerance", "message"),
    [
        ({"shift": -0.1}, "`tolerance` must be positive|`tolerance` must be .*0"),
        ({"width": 0.1}, "`tolerance` must have the names 'shift' and 'stretch'; got 'width'"),
        ({}, "`tolerance` must have the names 'shift' and 'stretch'; it is empty"),
        ({"shift": np.nan}, "`tolerance`"),
    ],
)
def test_bad_tolerances_are_named(tolerance, message):
    x = np.random.default_rng(0).standard_normal((40, 2))
    with pytest.raises(ValueError, match=message):
        fs.gof_test(x, np.negative, tolerance=tolerance)


def test_tolerance_where_it_makes_no_sense():
    x = np.random.default_rng(0).standard_normal((40, 2))
    with pytest.raises(TypeError, match="`tolerance` must be a mapping"):
        fs.gof_test(x, np.negative, tolerance=0.1)
    with pytest.raises(ValueError, match="`tolerance` needs at least 20 samples; got 15"):
        fs.gof_test(x[:15], np.negative, tolerance={"shift": 0.1})
    model = fs.models.Gaussian(np.zeros(2), np.eye(2))
    with pytest.raises(ValueError, match="`tolerance` does not apply to method='mmd'"):
        fs.gof_test(x, model, method="mmd", tolerance={"shift": 0.1})
    assert fs.gof_test(x, model, method="ksd", tolerance={"shift": 9}, rng=0).tolerated.shift == 9


def test_a_batch_keeps_the_verdict_though_not_the_samples(tmp_path):
    rng = np.random.default_rng(0)
    problems = [(rng.standard_normal((100, 2)), np.negative)]
    options = dict(tolerance={"shift": 9, "stretch": 9}, n_resamples=49, progress=False, rng=0)
    path = tmp_path / "batch.jsonl"
    for _ in range(2):  # the second reads what the first wrote
        (result,) = fs.gof_batch(problems, checkpoint=path, **options).results
        assert result.tolerated.verdict == "within" and result.tolerated.shift == 9.0


def test_numbers_of_a_funnel_are_rough():
    target = make_target("eight schools", 10)
    rng = np.random.default_rng(0)
    x = target.draw(4000, rng)
    names = ["mu", "log_tau", *(f"theta[{k}]" for k in range(8))]
    right = fs.effect_sizes(x, target.score, names=names)
    assert right["log_tau"].rough and not right["mu"].rough
    assert "rough, as shapes differ or the model is far from normal: log_tau" in repr(right)
    assert effect_words(Effect("a", 1.0, (0.5, 1.5), 1.0, (0.9, 1.1), rough=True)) == [
        "a: shifted or stretched, by how much can't be told"
    ]
    undecided = Tolerance(9.0, 9.0).of(right)
    assert undecided.verdict == "undecided" and undecided.n_needed is None
    normal = fs.effect_sizes(rng.standard_normal((100, 2)), np.negative)
    np.testing.assert_allclose(normal.linearity, 1.0)


@pytest.mark.parametrize("shape", [0.5, 1.0, 2.0, 5.0])
def test_intervals_hold_where_shapes_differ(shape):
    """Laplace's approximation of the logarithm of a gamma variable: normal, where that is skew."""
    from scipy.stats import loggamma

    target = loggamma(shape)
    low, high = [], []
    for seed in range(20):
        z = np.random.default_rng(seed).standard_normal((1000, 1))
        x = np.log(shape) + z / np.sqrt(shape)
        effects = fs.effect_sizes(x, shape - np.exp(x))
        low.append([effects.shift_interval[0, 0], effects.stretch_interval[0, 0]])
        high.append([effects.shift_interval[0, 1], effects.stretch_interval[0, 1]])
    truth = [(np.log(shape) - target.mean()) / target.std(), 1.0 / np.sqrt(shape) / target.std()]
    if shape >= 1.0:
        assert ((low < np.array(truth)) & (truth < np.array(high))).mean() > 0.9
    assert effects.rough[0] == (shape <= 1.0)
    # The first method alone would call a narrow approximation as wide as the model.
    assert truth[1] < 0.96 < effects.stretch[0]
    assert Tolerance(stretch=0.04).of(effects).verdict != "within"


def test_methods_agree_where_shapes_do():
    rng = np.random.default_rng(0)
    for name, slack in (("normal", 1e-3), ("t", 0.08)):
        target = make_target(name, 3)
        x = target.draw(1000, rng) * 1.2 + 0.1
        effects = fs.effect_sizes(x, target.score)
        np.testing.assert_allclose(effects.moment_shift, effects.shift, atol=slack)
        np.testing.assert_allclose(effects.moment_stretch, effects.stretch, rtol=slack)
        assert not effects.rough.any()


def test_methods_agree_where_the_second_takes_a_part_of_the_samples(monkeypatch):
    from fastsksd.procedure import model_moments

    x = np.random.default_rng(0).standard_normal((4000, 2)) * 1.1
    whole = fs.effect_sizes(x, np.negative)
    monkeypatch.setattr(model_moments, "_MOST_NUMBERS", 10_000)
    some = fs.effect_sizes(x, np.negative)
    np.testing.assert_array_equal(some.shift, whole.shift)
    np.testing.assert_allclose(some.moment_shift, some.shift, atol=0.01)
    np.testing.assert_allclose(some.moment_stretch, some.stretch, rtol=0.01)
    np.testing.assert_allclose(some.shift_interval, whole.shift_interval, atol=1e-12)


def test_draws_that_chains_leave_out_are_no_matter():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((600, 2))
    for k in range(1, 600):
        x[k] = 0.5 * x[k - 1] + np.sqrt(0.75) * x[k]
    for options in (dict(lag="auto"), dict(chains=np.repeat([5, 2], 300))):
        result = fs.gof_test(x, np.negative, n_resamples=49, rng=0, **options)
        assert result.n_test < 600 and result.effects.shift.shape == (len(result.effects),)
        assert np.all(result.effects.shift_error[:2] > 1.2 * fs.effect_sizes(x, -x).shift_error)
        assert "shift" in result.summary()


def test_separate_groups_whose_weights_are_wrong_are_not_within():
    """Shifts of half a deviation in every coordinate, which scores do not see."""
    to = np.zeros(11)
    to[:10] = 4.0 / math.sqrt(10)
    model = fs.models.GaussianMixture([0.5, 0.5], [-to, to], [1.0, 1.0])
    x = fs.models.GaussianMixture([0.9, 0.1], [-to, to], [1.0, 1.0]).sample(2000, rng=0)
    result = fs.gof_test(x, model, tolerance={"shift": 0.2}, n_resamples=49, rng=0)
    effects, words = result.effects, result.summary()
    assert result.tolerated.verdict == "undecided" and not result.reject()
    assert "how many samples would settle it can't be said" in words
    assert effects.rough[:10].all() and not effects.rough[10]  # the groups are not along x[10]
    assert "rough, as the samples are in separate groups: x[0]" in repr(effects)
    assert "every coordinate but x[0], x[1], x[2], x[3] and 6 more is shifted by" in words
    alone = fs.effect_sizes(x[:, :1], np.negative)
    assert not alone.rough.any()


def test_chains_that_are_too_short_are_undecided():
    walk = np.cumsum(np.random.default_rng(0).standard_normal((400, 2)), axis=0) / 20
    for tolerance in (1e-3, 50.0):
        result = fs.gof_test(walk, np.negative, lag="auto", tolerance={"stretch": tolerance}, rng=0)
        assert result.tolerated.verdict == "undecided"
        assert result.tolerated.n_needed == result.draws_needed > 400


def test_draws_of_chains_as_for_a_test():
    x = np.random.default_rng(0).standard_normal((3, 100, 2))
    rows, labels = x.reshape(-1, 2), np.repeat(np.arange(3), 100)
    expected = fs.effect_sizes(rows, -rows, chains=labels).shift_error
    for draws, score in ((x, -x), (list(x), np.negative)):
        np.testing.assert_array_equal(fs.effect_sizes(draws, score).shift_error, expected)
    with pytest.raises(ValueError, match="`chains`"):
        fs.effect_sizes(x, -x, chains=labels)


@pytest.mark.parametrize(("n", "d", "runs"), [(20, 5, 200), (40, 100, 20)])
def test_few_samples_raise_no_false_alarm(n, d, runs):
    """Errors of stretches from few samples are too small too often."""
    held = 0
    for seed in range(runs):
        x = np.random.default_rng(seed).standard_normal((n, d))
        held += not any(row.shifted or row.stretched for row in fs.effect_sizes(x, np.negative))
    assert held >= 0.92 * runs


def test_correlations_that_differ_are_told():
    x = np.random.default_rng(0).standard_normal((1000, 3))
    model = fs.models.Gaussian(np.zeros(3), [[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 1.0]])
    effects = fs.effect_sizes(x, model, names=["a", "b", "c"])
    (row,) = effects.correlations.off
    assert (row.first, row.second, row.rough) == ("a", "b", False)
    assert row.samples == pytest.approx(np.corrcoef(x.T)[0, 1], abs=1e-3)
    assert row.interval[0] < -0.9 < row.interval[1] < -0.8
    assert effects.correlations["b", "a"] == row == effects.correlations[0]
    kept = json.loads(json.dumps(effects.to_dict(), allow_nan=False))["correlations"]
    assert kept["n_pairs"] == 3 and [one["first"] for one in kept["off"]] == ["a"]
    result = fs.gof_test(x, model, rng=0)
    assert "x[0] and x[1]: correlation -0.01 in the samples, 0.90 in the model" in result.summary()
    for text in (repr(effects), effects._repr_html_(), result._repr_html_()):
        assert "Correlations" in text and "all 3 pairs" in text
    right = fs.effect_sizes(x, np.negative)
    assert right.correlations.off == () and "Correlations" not in repr(right)
    assert "none is off" in repr(right.correlations)
    with pytest.raises(KeyError):
        effects.correlations["a", "d"]


@pytest.mark.parametrize("d", [2, 5])
def test_correlations_of_normal_models_are_exact_whatever_the_samples(d):
    rng = np.random.default_rng(d)
    root = rng.standard_normal((d, d))
    covariance = root @ root.T
    unit = np.sqrt(np.diagonal(covariance))
    x = rng.uniform(-1.0, 2.0, (500, d))
    model = fs.models.Gaussian(np.ones(d), covariance)
    found = fs.effect_sizes(x, model).correlations
    first, second = np.triu_indices(d, 1)
    np.testing.assert_allclose(found.model, (covariance / unit / unit[:, None])[first, second])
    assert np.all(found.errors[1] < 1e-8) and not found.rough.any()


def test_correlations_of_other_models_are_those_of_many_samples():
    # A bent model; the samples are normal with the same mean and covariance.
    rng = np.random.default_rng(1)

    def score(x):
        rest = x[:, 1] - 0.3 * x[:, 0] ** 2 - 0.8 * x[:, 0]
        slope = 0.6 * x[:, 0] + 0.8
        return np.stack([-x[:, 0] + rest / 0.36 * slope, -rest / 0.36], axis=1)

    z = rng.standard_normal((400_000, 2))
    many = np.stack([z[:, 0], 0.3 * z[:, 0] ** 2 + 0.8 * z[:, 0] + 0.6 * z[:, 1]], axis=1)
    truth = np.corrcoef(many.T)[0, 1]
    right = fs.effect_sizes(many[:20_000], score).correlations[0]
    assert right.model == pytest.approx(truth, abs=0.005) and not right.off
    root = np.linalg.cholesky(np.cov(many.T))
    for scale in (np.eye(2), np.diag([0.7, 0.7])):
        x = rng.standard_normal((20_000, 2)) @ root.T @ scale + many.mean(axis=0)
        assert fs.effect_sizes(x, score).correlations.model[0] == pytest.approx(truth, abs=0.06)
    independent = rng.standard_normal((20_000, 2)) * [0.8, 0.5] + many.mean(axis=0)
    row = fs.effect_sizes(independent, score).correlations[0]
    assert row.off and row.difference == pytest.approx(-truth, abs=0.07)


@pytest.mark.parametrize("name, d", [("normal", 5), ("t", 2), ("multivariate t", 2)])
def test_intervals_of_correlations_hold(name, d):
    from fastsksd.experiments import effects as study

    settings = dict(n=400, block=1)
    target = study.make_target(name, d)
    task = dict(model=name, d=d, samples="independent")
    rng = np.random.default_rng(d)
    runs = [study._pairs(target, task, settings, rng) for _ in range(100)]
    assert np.mean([one["hits"] for one in runs]) > 0.90
    assert 0.89 <= np.mean([one["all_hit"] for one in runs])


def test_errors_of_differences_of_correlations_are_those_of_both():
    back = np.linalg.inv(np.linalg.cholesky(np.array([[1.0, 0.6], [0.6, 1.0]])))
    apart, errors = [], []
    for seed in range(80):
        x = np.random.default_rng(seed).standard_t(5, (1000, 2))
        z = x @ back.T
        found = fs.effect_sizes(x, -6.0 * z / (5.0 + z * z) @ back).correlations
        apart.append(np.arctanh(found.samples[0]) - np.arctanh(found.model[0]))
        errors.append(found.errors[:, 0])
    samples, _, difference = np.mean(errors, axis=0)
    assert difference == pytest.approx(np.std(apart), rel=0.15)
    assert samples < 0.85 * difference


def test_correlations_of_chains_allow_for_their_memory():
    rng = np.random.default_rng(3)
    noise = rng.standard_normal((500, 4, 2))
    for k in range(1, len(noise)):
        noise[k] = 0.9 * noise[k - 1] + np.sqrt(1 - 0.9**2) * noise[k]
    x = noise.transpose(1, 0, 2)
    one = fs.effect_sizes(x, np.negative).correlations
    free = fs.effect_sizes(x.reshape(-1, 2), np.negative).correlations
    assert one.errors[0] > 2.0 * free.errors[0]
    assert one.sizes[0] < 0.25 * free.sizes[0] == 500.0


def test_correlations_of_many_coordinates_are_chosen_and_allow_for_all():
    d = 40
    x = np.random.default_rng(4).standard_normal((1000, d))
    x[:, 7] = 0.8 * x[:, 30] + 0.6 * x[:, 7]
    found = fs.effect_sizes(x, np.negative).correlations
    assert len(found) == 190 and found.n_pairs == 780
    (row,) = found.off
    assert row.name == "x[7] and x[30]"
    # Those of right models are never off by more than the level allows.
    right = np.random.default_rng(5).standard_normal((40, 300, 30))
    wrong = sum(bool(fs.effect_sizes(x, np.negative).correlations.off) for x in right)
    assert wrong <= 5


def test_where_correlations_are_not_known():
    x = np.random.default_rng(6).standard_normal((100, 3))
    x[:, 1] = 2.0
    found = fs.effect_sizes(x, np.negative).correlations
    assert found.pairs == (("x[0]", "x[2]"),)
    assert len(fs.effect_sizes(x[:, :1], np.negative).correlations) == 0
    few = np.random.default_rng(7).standard_normal((30, 20))
    assert len(fs.effect_sizes(few, np.negative).correlations) == 0  # no regressions
    same = np.repeat(x[:, :1], 2, axis=1)
    assert not fs.effect_sizes(same, np.negative).correlations[0].off  # a perfect one is unknown


def test_stretches_of_half_a_percent_are_within_at_a_million_samples():
    x = np.random.default_rng(8).standard_normal((1_000_000, 2)) * [1.005, 1.0]
    effects = fs.effect_sizes(x, np.negative)
    assert effects[0].stretched and effects[0].stretch_interval[1] < 1.008
    tolerated = Tolerance(shift=0.1, stretch=0.05).of(effects)
    assert tolerated.verdict == "within"


def test_rough_rows_of_a_right_model_are_not_said_to_be_off():
    x = np.random.default_rng(0).standard_cauchy((500, 2))
    right = fs.effect_sizes(x, lambda x: -2.0 * x / (1.0 + x * x))
    off = [row for row in right if row.rough and (row.shifted or row.stretched)]
    assert right.rough.all() and not off
    assert "can be relied on" not in repr(right) and "how large an effect may be" in repr(right)
    wrong = fs.effect_sizes(x, lambda x: -2.0 * (x - 3.0) / (1.0 + (x - 3.0) ** 2))
    assert "only the fact that something is off can be relied on" in repr(wrong)


def test_intervals_without_end_are_not_known():
    row = Effect("a", 0.1, (-0.2, 0.4), 1.0, (0.0, 7.8e9))
    assert estimate_cells([row.stretch], [row.stretch_interval], 1.0) == [("1.00", "unknown")]
    assert estimate_cells([0.1], [(-np.inf, np.inf)], 0.0) == [("0.10", "unknown")]
    assert estimate_cells([0.1], [(-0.2, 0.4)], 0.0) == [("0.10", "-0.20 to 0.40")]
