"""Replicates that meet groups of samples: exact sums, level, and the same members."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fastsksd as fs
from fastsksd.engines.features import add_to_groups
from fastsksd.engines.slice_features import Reach, SliceFeatures
from fastsksd.procedure import evaluate, grouped, plan
from fastsksd.procedure.moments import DEGREES, MomentFeatures, location_and_unit, moments


@given(
    seed=st.integers(0, 2**20),
    cuts=st.lists(st.integers(1, 29), max_size=6, unique=True),
    first=st.integers(0, 29),
)
def test_features_are_added_to_their_groups(seed, cuts, first):
    edges = np.array([0, *sorted(cuts), 30], dtype=np.int64)
    features = np.random.default_rng(seed).standard_normal((3, 30))
    sums = np.zeros((edges.size - 1, 3))
    add_to_groups(features[:, :first], 0, edges, sums)
    add_to_groups(features[:, first:], first, edges, sums)
    for k, (start, stop) in enumerate(pairwise(edges.tolist())):
        np.testing.assert_allclose(sums[k], features[:, start:stop].sum(axis=1), atol=1e-12)


def stein_terms(code, y, s, a, h, weight):
    """Terms of all pairs with the kernel ``w(y) k(y - y') w(y')``, by differences of its values."""

    def kernel(u, v):
        t = u - v
        k = np.exp(-(t**2) / (2 * h**2)) if code == 0 else (1 + (t / h) ** 2) ** -0.5
        return weight(u) * k * weight(v)

    u, v, e = y[:, None], y[None, :], 1e-4 * h
    first = (kernel(u + e, v) - kernel(u - e, v)) / (2 * e)
    second = (kernel(u, v + e) - kernel(u, v - e)) / (2 * e)
    mixed = (
        kernel(u + e, v + e) - kernel(u + e, v - e) - kernel(u - e, v + e) + kernel(u - e, v - e)
    )
    s, t = s[:, None], s[None, :]
    return s * t * kernel(u, v) + a * (s * second + t * first) + a**2 * mixed / (4 * e * e)


@pytest.mark.parametrize("outer", [1.0, 1.6], ids=["at once", "fading"])
@pytest.mark.parametrize("code", [0, 1])
def test_slices_match_a_kernel_that_fades(code, outer):
    """Within the range the kernel is that of the test, and beyond it fades."""
    rng = np.random.default_rng(0)
    x, scores = rng.standard_normal((2, 150, 3))
    x[[3, 70, 149], 0] = [20.0, -30.0, 21.0]
    slices = fs.Slices(np.eye(3)[:2], fs.random_slices(3, 2, rng=1).g)
    h, centre = np.array([1.0, 0.7]), np.array([0.1, 0.0])
    inner = np.array([1.9, 2.2]) if outer > 1 else np.array([20.0, 30.0])
    reach = Reach(centre, inner, outer * inner)
    features = SliceFeatures(code, slices.r, slices.g, h, reach, 1e-10)
    edges = np.array([0, 10, 60, 61, 150], dtype=np.int64)
    weights = rng.choice([-1.0, 1.0], (6, 4)) * rng.uniform(0.5, 2.0, (6, 4))
    sums, own = features.group_sums(x, scores, edges)
    expected = np.zeros(6)
    group = np.repeat(np.arange(4), np.diff(edges))
    apart = group[:, None] != group
    totals = []
    for q in range(2):

        def weight(y, q=q):
            u = (np.abs(y - centre[q]) / h[q] - inner[q]) / max((outer - 1) * inner[q], 1e-300)
            return np.cos(0.5 * np.pi * np.clip(u, 0, 1)) ** 2

        a = slices.r[q] @ slices.g[q]
        matrix = stein_terms(code, x @ slices.g[q], scores @ slices.r[q], a, h[q], weight)
        totals.append(matrix.sum() - np.trace(matrix))
        expected += np.einsum("bi,ij,bj->b", weights[:, group], matrix * apart, weights[:, group])
    np.testing.assert_allclose(
        features.pair_sums(sums.sum(axis=0), own, 150), totals, rtol=1e-5, atol=1e-3
    )
    replicates = features.replicates(sums, own, 150, weights)
    np.testing.assert_allclose(replicates, expected, rtol=1e-5, atol=1e-3)


def test_a_stein_identity_holds_with_the_kernel_that_fades():
    """The mean of the features is zero under the model, though a tenth of the samples fade."""
    x = stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)[:, None]
    one = np.ones((1, 1))
    reach = Reach(np.zeros(1), np.array([1.0]), np.array([2.5]))
    features = SliceFeatures(0, one, one, np.ones(1), reach, 1e-8)
    sums, _ = features.group_sums(x, -x, np.array([0, 20_000]))
    assert np.abs(sums).max() / 20_000 < 2e-3


def test_moments_match_loops():
    rng = np.random.default_rng(0)
    x, s = rng.standard_normal((2, 40, 3))
    features = MomentFeatures(*location_and_unit(x), DEGREES)
    edges = np.array([0, 7, 20, 40], dtype=np.int64)
    sums, own = features.group_sums(x, s, edges)
    plain = moments(x, s).features
    matrices = np.einsum("qdi,qdj->qdij", plain, plain)
    expected = matrices.sum(axis=(2, 3)) - np.einsum("qdii->qd", matrices)
    np.testing.assert_allclose(features.pair_sums(sums.sum(axis=0), own, 40), expected, rtol=1e-9)
    weights = rng.standard_normal((5, 3))
    group = np.repeat(np.arange(3), np.diff(edges))
    apart = matrices * (group[:, None] != group)
    expected = np.einsum("bi,qdij,bj->bqd", weights[:, group], apart, weights[:, group])
    np.testing.assert_allclose(features.replicates(sums, own, 40, weights), expected, rtol=1e-8)


def family(x, monkeypatch, **options):
    monkeypatch.setattr(plan, "TAKES_OVER", 100)
    monkeypatch.setattr(grouped, "GROUPS", 60)
    return fs.gof_test(x, -x, rng=0, **options)


@pytest.mark.parametrize("options", [{}, dict(null="bootstrap"), dict(kernel="imq"), dict(lag=5)])
def test_members_are_those_of_few_samples(monkeypatch, options):
    x = np.random.default_rng(0).standard_normal((300, 4)) * [0.8, 1.0, 1.0, 1.0]
    plain = fs.gof_test(x, -x, rng=0, n_resamples=199, **options)
    many = family(x, monkeypatch, n_resamples=199, **options)

    def key(member):
        return member.name, member.multiple, member.part.replace("held out", "all")

    before = {key(one): one for one in plain.members}
    after = {key(one): one for one in many.members}
    assert before.keys() == after.keys()
    assert plain.slices.r.shape == many.slices.r.shape and many.reject() and plain.reject()
    for name, multiple, part in before:
        if name == "coordinates" or name.startswith(("location, diag", "largest moment, diag")):
            one, other = (members[name, multiple, part] for members in (before, after))
            # The largest moment of few samples, or stretches, has its skewness removed.
            close = (0.4 if "lag" in options else 0.2) if name.startswith("largest") else 1e-6
            assert one.statistic == pytest.approx(other.statistic, rel=close)
            assert abs(one.pvalue - other.pvalue) < 0.2


@pytest.mark.parametrize("precondition", ["raw", "diagonal", "full", "auto"])
def test_every_metric_has_groups(monkeypatch, precondition):
    x = np.random.default_rng(1).standard_normal((240, 3))
    result = family(x, monkeypatch, precondition=precondition, n_resamples=49)
    assert 0 < result.pvalue <= 1
    one = family(x[:, :1], monkeypatch, n_resamples=49)
    assert 0 < one.pvalue <= 1
    explanation = result.explain()
    np.testing.assert_allclose(explanation.statistics, result.slice_statistics, rtol=1e-6)


@pytest.mark.parametrize("groups", [48, pytest.param(120, marks=pytest.mark.slow)])
def test_level_with_groups(monkeypatch, groups):
    monkeypatch.setattr(plan, "TAKES_OVER", 100)
    monkeypatch.setattr(grouped, "GROUPS", groups)
    rejected = 0
    for seed in range(200):
        rng = np.random.default_rng([groups, seed])
        x = rng.standard_normal((360, 3))
        rejected += fs.gof_test(x, -x, n_resamples=99, rng=rng).reject()
    low, high = stats.binom.ppf([0.0005, 0.9995], 200, 0.05)
    assert low <= rejected <= high


def test_direct_sums_have_no_groups(monkeypatch):
    x = np.random.default_rng(1).standard_normal((200, 2))
    monkeypatch.setattr(plan, "TAKES_OVER", 100)
    members = fs.gof_test(x, -x, engine="direct", n_resamples=19, rng=0).members
    assert not any(one.part == "held out" for one in members)


def test_same_seed_same_pvalue(monkeypatch):
    x = np.random.default_rng(2).standard_normal((200, 3))
    first, second = (family(x, monkeypatch, n_resamples=99) for _ in range(2))
    assert first.pvalue == second.pvalue and first.evidence == second.evidence


def test_a_huge_score_does_not_drown_the_others(monkeypatch):
    """Few samples are met pair by pair, many are refused."""
    x = np.random.default_rng(0).standard_normal((4100, 1))
    s = -x.copy()
    s[5] = 1e40
    result = fs.gof_test(x, s, n_resamples=49, rng=0)
    direct = fs.gof_test(x, s, n_resamples=49, engine="direct", rng=0)
    assert result.pvalue == pytest.approx(direct.pvalue, abs=0.05)
    monkeypatch.setattr(evaluate, "_MOST_PAIRWISE", 4000)
    with pytest.raises(ValueError, match=r"`score` is 1.0e\+40 in row 5, column 0"):
        fs.gof_test(x, s, n_resamples=49, rng=0)
