"""Members without slices: moments, kernels of the whole vector, groups of samples, the family."""

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

import fastsksd as fs
from fastsksd.engines.whole_vector import WholeVector
from fastsksd.procedure import unsliced
from fastsksd.procedure.covariances import pair_folds
from fastsksd.procedure.metric import information, information_of_folds
from fastsksd.procedure.moments import DEGREES, moments
from fastsksd.procedure.split import Samples

RNG = np.random.default_rng(0)


def samples_of(n, d, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, d))
    return Samples(x, -x, np.arange(n))


@pytest.mark.parametrize("degree", DEGREES)
def test_moments_have_mean_zero_under_the_model(degree):
    """For a normal model: the integral of s phi + phi' against its density."""

    def feature(y):
        if degree == 0:
            return -y
        he = [1.0, y, y * y - 1.0, y**3 - 3 * y][degree]
        slope = degree * [0.0, 1.0, y, y * y - 1.0][degree] - y / 4 * he
        return (-y * he + slope) * np.exp(-y * y / 8)

    mean = integrate.quad(lambda y: feature(y) * stats.norm.pdf(y), -12, 12)[0]
    assert abs(mean) < 1e-10
    # The package's features are these, with the samples' own location and unit.
    x = np.random.default_rng(degree).standard_normal((200, 1))
    centre, unit = x.mean(), x.std()
    z = (x - centre) / unit
    he = [np.ones_like(z), z, z * z - 1.0, z**3 - 3 * z]
    slope = degree * he[degree - 1] - z / 4 * he[degree]
    damped = (-x * he[degree] + slope / unit) * np.exp(-z * z / 8)
    expected = (damped if degree else -x)[:, 0]
    expected /= np.sqrt(np.mean(expected**2))
    np.testing.assert_allclose(moments(x, -x, (degree,)).features[0, 0], expected, rtol=1e-9)


@given(seed=st.integers(0, 2**20), unit=st.sampled_from([1e-100, 1e-3, 1.0, 1e90]))
def test_moments_do_not_depend_on_units(seed, unit):
    rng = np.random.default_rng(seed)
    x, s = rng.standard_normal((2, 30, 2))
    np.testing.assert_allclose(
        moments(unit * x, s / unit).features, moments(x, s).features, rtol=1e-7, atol=1e-9
    )


def test_moments_of_wild_data_are_finite():
    x = RNG.standard_normal((50, 3))
    x[0, 0], x[:, 2] = 1e8, 1.0
    s = -x
    s[1, 1] = 1e160
    found = moments(x, s)
    assert np.all(np.isfinite(found.features)) and found.features.shape == (4, 3, 50)
    sizes = (found.features**2).mean(axis=2)
    assert np.all((np.abs(sizes - 1.0) < 1e-9) | (sizes == 0))


def folded_blocks(samples, groups):
    stretches = pair_folds(len(samples.x))
    metrics = information_of_folds(samples.x, samples.scores, stretches)
    return unsliced.in_metrics_of_folds(samples, metrics, groups, stretches)


def test_groups_cover_linearly_many_pairs():
    samples = samples_of(100, 2)
    one = unsliced.in_one_metric(samples, None, 5)
    assert len(one) == 5 and sum(block.n_pairs for block in one) == 5 * 190
    folded = folded_blocks(samples, 5)
    # Groups of folds are of 19 to 22 samples.
    assert abs(sum(block.n_pairs for block in folded) / (5 * 190) - 1.0) < 0.02
    seen = np.zeros((100, 100))
    for block in folded:
        seen[block.rows, block.columns] += 1
    assert np.all(seen[np.triu_indices(100, 1)] <= 1)


def test_limit_distribution_of_many_samples_is_that_of_groups(monkeypatch):
    monkeypatch.setattr(unsliced, "_GROUP", 30)
    options = dict(null="spectral")
    rejected = []
    for seed in range(40):
        x = np.random.default_rng(seed).standard_normal((120, 2))
        result = fs.gof_test(x, -x, rng=seed, **options)
        ordered = sorted(
            (m.name, m.multiple, m.pvalue) for m in result.members if "whole" in m.name
        )
        whole = [pvalue for _, _, pvalue in ordered]
        rejected.append(np.array(whole) <= 0.2)
    rates = np.mean(rejected, axis=0)
    assert len(whole) == 4 and np.all(rates < 0.45) and rates.mean() > 0.05
    wrong = fs.gof_test(2.0 * x, -2.0 * x, rng=0, **options)
    assert min(one.pvalue for one in wrong.members if "whole" in one.name) < 0.02


def test_coordinates_of_a_metric_are_those_of_the_samples():
    rng = np.random.default_rng(5)
    units = np.array([1.0, 1e3, 1e-2, 1.0])
    cov = 0.5 * np.eye(4) + 0.5
    x = rng.multivariate_normal(np.zeros(4), cov, 300) * [1.0, 1.0, 1.5, 1.0]
    s = -x @ np.linalg.inv(cov)
    samples = Samples(x * units, s / units, np.arange(300))
    stretches = pair_folds(300)
    learnt = information_of_folds(samples.x, samples.scores, stretches)
    blocks = unsliced.in_metrics_of_folds(samples, learnt, 1, stretches)
    found = WholeVector(0, 300, blocks, [2.0])
    # The symmetric root, in units that make no difference here.
    roots = {}
    for key, one in learnt.items():
        m = one.backward @ one.backward.T / np.outer(units, units)
        scale = np.sqrt(np.diagonal(m))
        values, vectors = np.linalg.eigh(m / np.outer(scale, scale))
        forward, backward = ((vectors * values**p) @ vectors.T for p in (-0.5, 0.5))
        whole = scale * units
        roots[key] = one._replace(forward=forward / whole, backward=backward * whole[:, None])
    expected = WholeVector(
        0, 300, unsliced.in_metrics_of_folds(samples, roots, 1, stretches), [2.0]
    )
    for k in range(2):
        parts = found.coordinate_sums(k)
        np.testing.assert_allclose(parts, expected.coordinate_sums(k), rtol=1e-6, atol=1e-6)
        assert np.argmax(parts) == 2
    whole = information(samples.x, samples.scores)
    turned = whole.forward * np.linalg.norm(whole.backward, axis=1)
    np.testing.assert_allclose(turned, turned.T, atol=1e-9)
    np.testing.assert_allclose(whole.forward @ whole.backward, np.eye(4), atol=1e-9)


def test_all_pairs_of_folds_are_covered_once():
    samples = samples_of(50, 2)
    seen = np.zeros((50, 50), dtype=int)
    for block in folded_blocks(samples, 1):
        seen[block.rows, block.columns] += 1
    assert np.all(seen[np.triu_indices(50, 1)] == 1)


@pytest.mark.parametrize("null", ["wild", "bootstrap"])
def test_whole_vector_member_in_raw_coordinates_is_the_ksd(null):
    x = samples_of(120, 3).x * [0.7, 1.0, 1.0]
    family = fs.gof_test(x, -x, precondition=None, null=null, n_resamples=99, rng=0)
    h = reference.median_distance(x)
    for member in family.members:
        if member.name == "whole vector, raw":
            alone = fs.ksd(x, -x, kernel=fs.RBF(member.multiple * h))
            assert member.statistic == pytest.approx(alone, rel=1e-9)
    linear = next(one for one in family.members if one.name.startswith("linear"))
    matrix = np.array([[(a @ b) * (a @ b) - a @ a - b @ b + 3.0 for b in x] for a in x])
    assert linear.statistic == pytest.approx(reference.u_statistic(matrix), rel=1e-9)


def test_moment_members_match_loops():
    n = 100
    x = samples_of(n, 3).x * [0.7, 1.0, 1.0]
    family = fs.gof_test(x, -x, precondition="diagonal", n_resamples=99, rng=0)
    found = moments(x, -x).features
    parts = np.zeros(found.shape[:2])
    for q in range(found.shape[0]):
        for k in range(3):
            for i in range(n):
                for j in range(n):
                    if i != j:
                        parts[q, k] += found[q, k, i] * found[q, k, j] / (n * (n - 1))
    values = {one.name: one.statistic for one in family.members}
    assert values["location, diagonal"] == pytest.approx(parts[0].sum(), rel=1e-7)
    assert values["scale and shape, diagonal"] == pytest.approx(parts[1:].sum(), rel=1e-7)
    t = found[1:3].sum(axis=2) / np.sqrt(n)
    t = t + (found[1:3] ** 3).mean(axis=2) * t**2 / (3 * np.sqrt(n))
    assert values["largest moment, diagonal"] == pytest.approx((t.max() ** 2 - 1) / (n - 1)) or (
        values["largest moment, diagonal"] == pytest.approx((t.min() ** 2 - 1) / (n - 1))
    )
    bootstrap = fs.gof_test(x, -x, precondition="diagonal", null="bootstrap", rng=0).members
    plain = next(one for one in bootstrap if one.name == "largest moment, diagonal")
    assert plain.statistic == pytest.approx(parts[1:3].max(), rel=1e-7)


def test_members_of_the_standard_family():
    x = fs.models.Laplace(12).sample(600, rng=0)
    result = fs.gof_test(x, np.negative, n_resamples=200, rng=0)
    names = sorted({one.name for one in result.members})
    assert names == sorted(
        [
            "coordinates",
            "largest moment, diagonal",
            "largest moment, full",
            "linear kernel, diagonal",
            "linear kernel, full",
            "location, full",
            "scale and shape, full",
            "top 1 active r",
            "top 10 active r",
            "top 3 active r",
            "whole vector, diagonal",
            "whole vector, full",
        ]
    )
    assert len(result.members) == 18
    for other, expected in {
        "raw": ["coordinates", "largest moment, raw", "linear kernel, raw", "location, raw"],
        "full": ["linear kernel, full", "top 1 active r"],
    }.items():
        names = sorted(
            {
                one.name
                for one in fs.gof_test(
                    x, np.negative, precondition=other, n_resamples=19, rng=0
                ).members
            }
        )
        assert names[: len(expected)] == expected


def test_few_samples_have_fewer_members():
    def names(n, d):
        x = samples_of(n, d).x
        return {one.name for one in fs.gof_test(x, -x, n_resamples=19, rng=0).members}

    wide, few = names(120, 80), names(60, 10)
    assert not any("full" in name for name in wide) and "location, diagonal" in wide
    assert "whole vector, full" in few
    assert not any(name.startswith(("linear", "location", "scale", "largest")) for name in few)
    assert not any("linear" in name for name in names(120, 1))


def test_skewness_is_removed_to_first_order():
    """Tails of self-normalised sums of exponential variables, against the normal distribution."""
    n, rng = 100, np.random.default_rng(0)
    z = rng.exponential(size=(200_000, n)) - 1.0
    z /= np.sqrt((z**2).mean(axis=1, keepdims=True))
    sums = z.sum(axis=1)
    even = unsliced.without_skewness(sums, (z**3).mean(axis=1), n)
    for sign in (1, -1):
        for level in (0.01, 0.001):
            limit = stats.norm.isf(level) * np.sqrt(n)
            before, after = (np.mean(sign * values > limit) for values in (sums, even))
            assert abs(np.log(after / level)) < abs(np.log(max(before, 1e-6) / level))


@pytest.mark.parametrize("name", ["rotated Laplace", "one variance", "a correlation"])
def test_what_slices_miss_is_seen(name):
    d, n = 30, 1000
    rejected = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        if name == "rotated Laplace":
            rotation = np.linalg.qr(rng.standard_normal((d, d)))[0]
            x = fs.models.Laplace(d).sample(n, rng=rng) @ rotation
        elif name == "one variance":
            x = rng.standard_normal((n, d)) * np.r_[np.sqrt(1.35), np.ones(d - 1)]
        else:
            x = rng.standard_normal((n, d))
            x[:, 1] = 0.5 * x[:, 0] + np.sqrt(0.75) * x[:, 1]
        rejected.append(fs.gof_test(x, -x, n_resamples=300, rng=seed))
    assert all(result.reject() for result in rejected)
    first = rejected[0]
    if name == "one variance":
        assert first.members[0].name.startswith("largest moment")
        assert int(np.argmax(first.coordinate_statistics)) == 0
        assert "largest along    " in repr(first) and "x[0]" in repr(first)
        assert "It is largest along x[0]" in first.summary()
    if name == "a correlation":
        assert first.members[0].name.startswith("linear kernel")
        assert set(np.argsort(-first.coordinate_statistics)[:2]) == {0, 1}


def test_coordinate_statistics_add_up():
    for seed, scale in enumerate(([1.0, 1.0, 1.0], [0.8, 1.0, 1.0], [1.3, 0.8, 1.0])):
        x = samples_of(200, 3, seed).x * scale
        result = fs.gof_test(x, -x, n_resamples=99, rng=0)
        if result.members[0].n_slices:
            assert result.coordinate_statistics is None
        elif "largest" in result.members[0].name:
            assert result.coordinate_statistics.max() == pytest.approx(result.statistic)
        else:
            assert result.coordinate_statistics.sum() == pytest.approx(result.statistic, rel=1e-6)


def test_the_limit_distribution_of_the_largest_moment():
    """Bonferroni over independent features: about uniform below 0.1, never liberal."""
    pvalues = []
    for seed in range(300):
        x = np.random.default_rng(seed).standard_normal((200, 5))
        features = moments(x, -x, (1, 2)).features
        pvalues.append(np.exp(unsliced._log_bound(features)))
    assert unsliced._log_bound(np.zeros((2, 3, 50))) == 0.0
    rejected = np.sum(np.array(pvalues) <= 0.1)
    assert 10 <= rejected <= stats.binom.ppf(0.999, 300, 0.1)
