"""The aggregated test: combination, level, power, what the result shows, and bad families."""

import numpy as np
import pytest
from scipy import stats

import fastsksd as fs
from fastsksd import models
from fastsksd.procedure import plan, search
from fastsksd.procedure.combine import _fits_to_the_others, _neg_log10_tail, combine, member_weights
from fastsksd.procedure.family import active_pool

X = np.random.default_rng(0).standard_normal((80, 4))
TWO = {"first": fs.Slices(np.eye(4)[:1], np.eye(4)[:1]), "second": fs.random_slices(4, 2, rng=0)}


def test_tail_of_the_three_moment_fit():
    df = 3.0
    fit = (df, np.sqrt(2 * df), df)  # mean, deviation and degrees of freedom of a plain chi-square
    values = np.array([0.1, 1.0, 5.0, 20.0, 100.0, 1000.0])
    np.testing.assert_allclose(
        _neg_log10_tail(fit, values), -stats.chi2.logsf(values, df) / np.log(10), rtol=1e-3
    )
    # Below the smallest double: for three degrees of freedom,
    # sf(x) = sqrt(2x/pi) exp(-x/2) (1 + 1/x + ...).
    far = (4000.0 / 2 - 0.5 * np.log(8000.0 / np.pi)) / np.log(10)
    np.testing.assert_allclose(_neg_log10_tail(fit, np.array([4000.0])), far, rtol=1e-5)
    assert np.all(np.isfinite(_neg_log10_tail(fit, np.array([-1e9, 1e9]))))
    np.testing.assert_allclose(
        _neg_log10_tail((1.0, 2.0, np.inf), 5.0), -stats.norm.logsf(2.0) / np.log(10), rtol=1e-12
    )


def test_fit_recovers_a_weighted_chi_square():
    z = np.random.default_rng(0).standard_normal((200_000, 5))
    mean, deviation, df = _fits_to_the_others(0.3 * (z**2 - 1).sum(axis=1) + 2.0)
    np.testing.assert_allclose(
        [mean[-1], deviation[-1], df[-1]], [2.0, 0.3 * np.sqrt(10), 5.0], rtol=0.05
    )


@pytest.mark.parametrize("outlier", [0.0, 1e3, 1e12])
def test_each_value_is_judged_by_a_fit_to_the_others(outlier):
    values = np.append(np.random.default_rng(0).chisquare(2, 40), outlier)
    mean, deviation, df = _fits_to_the_others(values)
    for k in (0, 20, 40):
        others = np.delete(values, k)
        np.testing.assert_allclose(
            [mean[k], deviation[k]], [others.mean(), others.std()], rtol=1e-9
        )
        np.testing.assert_allclose(df[k], 8 / stats.skew(others) ** 2, rtol=1e-9)


@pytest.mark.parametrize("exponent", [1.0, 0.75, 0.5])
def test_power_means_of_pvalues(exponent):
    rng = np.random.default_rng(0)
    statistics, replicates = rng.chisquare(3, 4) + 3.0, rng.chisquare(3, (4, 99))
    weights = np.array([0.5, 0.5, 1.0, 2.0])
    found = combine(statistics, replicates, weights, exponent)
    p = 10.0**-found.neg_log10_p  # divided by their weights
    expected = np.mean(p**-exponent) ** (-1.0 / exponent)
    np.testing.assert_allclose(10.0**-found.evidence, expected, rtol=1e-10)
    if exponent == 1.0:
        assert found.pvalue == combine(statistics, replicates, weights).pvalue
    # The smallest p-value and the geometric mean are its limits.
    for limit, near, mean in ((np.inf, 1e4, p.min()), (0.0, 1e-6, np.exp(np.log(p).mean()))):
        evidence = combine(statistics, replicates, weights, limit).evidence
        np.testing.assert_allclose(10.0**-evidence, mean, rtol=1e-10)
        np.testing.assert_allclose(
            combine(statistics, replicates, weights, near).evidence, evidence, rtol=1e-3
        )


def test_constant_replicates_need_no_fit():
    for statistic in (0.0, 1.0):
        assert np.all(
            np.isfinite(combine(np.array([statistic]), np.zeros((1, 9))).null_distribution)
        )
    assert combine(np.array([0.0]), np.zeros((1, 9))).pvalue == 1.0
    assert combine(np.array([1.0]), np.zeros((1, 9))).pvalue == 0.1


def test_one_member_is_its_own_test():
    rng = np.random.default_rng(0)
    replicates = rng.chisquare(2, (1, 999))
    for statistic in (0.5, 3.0, 9.0, 50.0):
        combined = combine(np.array([statistic]), replicates)
        assert (
            combined.pvalue == (1 + np.sum(replicates >= statistic)) / 1000 == combined.pvalues[0]
        )


def test_equal_members_cost_nothing_and_many_cost_something():
    rng = np.random.default_rng(1)
    row = rng.chisquare(1, 999)
    twice = combine(np.array([6.0, 6.0]), np.stack([row, row]))
    assert twice.pvalue == twice.pvalues[0]
    others = combine(
        np.r_[6.0, np.zeros(9)], np.concatenate([row[None], rng.chisquare(1, (9, 999))])
    )
    assert others.strongest == 0 and others.pvalue > 3 * others.pvalues[0]
    assert np.all(others.adjusted_pvalues >= others.pvalues - 1e-12)


def test_kinds_share_the_level():
    kinds = [(kind, 1.0) for kind in ("a", "b", "b", "b", "c", "c")]
    weights = member_weights(kinds)
    np.testing.assert_allclose(weights, [2, 2 / 3, 2 / 3, 2 / 3, 1, 1])
    np.testing.assert_allclose(member_weights([("a", 1.0), ("b", 1.0)]), 1.0)
    np.testing.assert_allclose(member_weights([("a", 2.0), ("b", 1.0), ("a", 2.0)]), 1.0)
    rng = np.random.default_rng(3)
    replicates, statistics = rng.chisquare(1, (6, 4999)), np.full(6, 7.0)
    weighted = combine(statistics, replicates, weights)
    assert weighted.strongest == 0
    # Independent members: the probability that any is as small as p times its weight.
    p = stats.chi2.sf(7.0, 1)
    expected = 1 - np.prod(1 - p * weights / weights[0])
    assert abs(weighted.adjusted_pvalues[0] - expected) < 4 * np.sqrt(expected / 5000)


def test_evidence_is_the_weighted_harmonic_mean():
    rng = np.random.default_rng(4)
    replicates, statistics = rng.chisquare(1, (3, 99_999)), np.array([4.0, 6.0, 1.0])
    weights = np.array([1.5, 1.0, 0.5])
    combined = combine(statistics, replicates, weights)
    mean = np.mean(weights / stats.chi2.sf(statistics, 1))
    np.testing.assert_allclose(combined.evidence, np.log10(mean), rtol=0.02)
    every = np.mean(weights[:, None] / stats.chi2.sf(replicates, 1), axis=0)
    assert abs(combined.pvalue - np.mean(every >= mean)) < 0.005
    assert combined.null_distribution.shape == (99_999,)


def test_evidence_that_members_share_counts():
    """Ten members that each see a little reject together where the smallest p-value does not."""
    rng = np.random.default_rng(5)
    replicates = rng.chisquare(1, (10, 999))
    combined = combine(np.full(10, 4.2), replicates)
    assert combined.pvalue < combined.adjusted_pvalues.min()


def test_combination_is_calibrated_for_members_of_different_shape():
    """Replicates and statistics from one joint distribution: p-values must be uniform."""
    rng = np.random.default_rng(2)
    weights = member_weights([("a", 1.0), ("a", 1.0), ("a", 1.0), ("b", 2.0)])
    pvalues = []
    for _ in range(600):
        z = rng.standard_normal((200, 30))
        members = np.stack(
            [z[:, 0] ** 2, (z[:, :3] ** 2).sum(axis=1), 0.1 * (z**2).sum(axis=1), -(z[:, 1] ** 2)]
        )
        pvalues.append(combine(members[:, 0].copy(), members[:, 1:].copy(), weights).pvalue)
    assert stats.kstest(np.array(pvalues) - rng.uniform(0, 1 / 200, 600), "uniform").pvalue > 1e-3


@pytest.mark.parametrize(
    ("d", "n"),
    [
        (2, 60),
        pytest.param(20, 60, marks=pytest.mark.slow),
        pytest.param(20, 300, marks=pytest.mark.slow),
    ],
)
def test_level_of_the_default(d, n):
    trials = 300
    model = models.Gaussian(np.zeros(d), np.diag(np.ones(d)) + 0.3)
    rejections = 0
    for seed in np.random.SeedSequence([d, n]).spawn(trials):
        rng = np.random.default_rng(seed)
        rejections += fs.gof_test(
            model.sample(n, rng=rng), model, n_resamples=199, rng=rng
        ).reject()
    low, high = stats.binom.ppf([0.0005, 0.9995], trials, 0.05)
    assert low <= rejections <= high


@pytest.mark.parametrize("name", ["laplace", "student", "diffusion", "rotated diffusion"])
def test_power_without_a_hint(name):
    d = 30
    hidden = np.ones(d) / np.sqrt(d)
    q, variance = {
        "laplace": (models.Laplace(d), 1.0),
        "student": (models.StudentT(d, df=5.0), 5 / 3),
        "diffusion": (models.Gaussian(np.zeros(d), np.r_[0.3, np.ones(d - 1)]), 1.0),
        "rotated diffusion": (
            models.Gaussian(np.zeros(d), np.eye(d) - 0.7 * np.outer(hidden, hidden)),
            1.0,
        ),
    }[name]
    p = models.Gaussian(np.zeros(d), variance)
    assert (
        sum(
            fs.gof_test(q.sample(1000, rng=seed), p, n_resamples=300, rng=seed).reject()
            for seed in range(6)
        )
        == 6
    )


def test_result_shows_the_strongest_member():
    x = models.Laplace(12).sample(600, rng=0)
    result = fs.gof_test(x, np.negative, n_resamples=200, rng=0)
    first = result.members[0]
    assert first.adjusted_pvalue == min(member.adjusted_pvalue for member in result.members)
    assert first.name in repr(result) and result.statistic == first.statistic
    sliced = next(member for member in result.members if member.n_slices)
    assert sliced.n_slices == len(result.slices)
    np.testing.assert_allclose(result.slice_statistics.sum(), sliced.statistic, rtol=1e-12)
    assert len(result.slices) == len(result.bandwidths) == len(result.slice_statistics)


def test_members_are_the_single_tests():
    result = fs.gof_test(X, -X, slices=TWO, multiples=(1.0, 2.0), n_resamples=60, rng=5)
    assert result.n_train == 0 and len(result.members) == 4
    for name, slices in TWO.items():
        alone = fs.gof_test(X, -X, slices=slices, n_resamples=60, rng=5)
        member = next(m for m in result.members if m.name == name and m.multiple == 1.0)
        np.testing.assert_allclose(member.statistic, alone.statistic, rtol=1e-12)
        assert member.pvalue == alone.pvalue


def test_nested_sets_share_their_parts():
    found = fs.active_slices(X, -X)
    pool = active_pool(found, (1.0,))
    assert [(one.name, one.size) for one in pool.sets] == [
        ("top 1 active r", 1),
        ("top 3 active r", 3),
        ("top 4 active r", 4),
    ]
    many = active_pool(fs.random_slices(20, 20, rng=0), (1.0,))
    assert [one.size for one in many.sets] == [1, 3, 10] and len(many.slices) == 10


def test_extra_sets_join_the_family():
    result = fs.gof_test(
        X, np.negative, extra_slices={"mine": TWO["second"]}, n_resamples=30, rng=0
    )
    assert sum(member.name == "mine" for member in result.members) == 2
    assert any(member.name == "coordinates" for member in result.members)


def test_family_of_one_dimension():
    result = fs.gof_test(X[:, :1], np.negative, n_resamples=30, rng=0)
    names = {member.name for member in result.members}
    assert "coordinates" in names and not any("active" in name for name in names)


def test_repeated_multiples_count_once():
    once = fs.gof_test(X, np.negative, multiples=[1.0, 2.0], n_resamples=30, rng=0)
    again = fs.gof_test(X, np.negative, multiples=[1.0, 1.0, 2.0], n_resamples=30, rng=0)
    assert once.pvalue == again.pvalue and len(once.members) == len(again.members)


def test_a_set_named_like_a_kind_has_a_weight_of_its_own():
    options = dict(n_resamples=60, rng=0)
    results = [
        fs.gof_test(X, np.negative, extra_slices={name: TWO["second"]}, **options)
        for name in ("mine", "active")
    ]
    assert results[0].pvalue == results[1].pvalue
    assert (
        "&lt;b&gt;"
        in fs.gof_test(X, np.negative, slices={"<b>": TWO["first"]}, **options)._repr_html_()
    )


def test_a_column_that_varies_in_one_half_only():
    x = np.random.default_rng(0).standard_normal((60, 3))
    x[:, 2] = 0
    x[:3, 2] = [1, -1, 0.5]
    for options in (dict(n_resamples=19), dict(null="spectral")):
        assert all(
            0 < fs.gof_test(x, np.negative, rng=seed, **options).pvalue <= 1 for seed in range(8)
        )


def test_slices_are_found_on_a_bounded_number_of_samples(monkeypatch):
    monkeypatch.setattr(plan, "MOST_TRAINING", 50)
    seen = []
    original = search.score_difference
    monkeypatch.setattr(
        search,
        "score_difference",
        lambda x, *rest, **more: seen.append(len(x)) or original(x, *rest, **more),
    )
    x = np.random.default_rng(0).standard_normal((300, 4))
    for estimator in ("ke", "ge"):
        fs.gof_test(x, lambda x: -x, estimator=estimator, n_resamples=19, rng=0)
    assert seen == [86] * 4  # 50 times the root of 300 / 100


BAD = {
    "empty family": (dict(slices={}), ValueError, "`slices` holds no set of slices"),
    "empty extra": (dict(extra_slices=[]), ValueError, "`extra_slices` holds no set of slices"),
    "two equal names": (
        dict(extra_slices=[("a", TWO["first"]), ("a", TWO["second"])]),
        ValueError,
        "`extra_slices` has two sets named 'a'",
    ),
    "a standard name": (
        dict(extra_slices={"coordinates": TWO["first"]}),
        ValueError,
        "`extra_slices` has a set named 'coordinates'",
    ),
    "member of other dimension": (
        dict(slices={"a": fs.random_slices(3, 1)}),
        ValueError,
        "`slices` has a set 'a' that can't be used: .*3 dimensions but `x` has 4",
    ),
    "member of other length": (
        dict(slices={"a": (np.ones((1, 4)), np.eye(4)[:1])}),
        ValueError,
        r"^`slices` has a set 'a' .* `r` must have rows of unit length; row 0 has length 2\.$",
    ),
    "member of other type": (
        dict(extra_slices={"a": 3}),
        TypeError,
        "`extra_slices` has a set 'a'",
    ),
    "names that are not strings": (
        dict(slices={1: TWO["first"]}),
        TypeError,
        "`slices` must map names",
    ),
    "extra without a family": (
        dict(n_slices=1, extra_slices=TWO),
        ValueError,
        "`extra_slices` is for a family of slice sets",
    ),
    "multiples of zero": (dict(multiples=[0.0]), ValueError, "`multiples` must be positive"),
    "no multiples": (dict(multiples=[]), ValueError, "`multiples`"),
    "a bandwidth per slice": (
        dict(kernel=fs.RBF([1.0, 2.0])),
        ValueError,
        "`kernel` must have one bandwidth",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_families_are_explained(case):
    options, error, message = BAD[case]
    with pytest.raises(error, match=message):
        fs.gof_test(X, np.negative, n_resamples=10, rng=0, **options)
