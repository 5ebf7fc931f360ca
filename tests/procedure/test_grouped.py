"""Replicates that meet groups of samples: exact sums, level, and the same members."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fastsksd as fs
from fastsksd.engines import load
from fastsksd.engines.fourier import add_to_groups
from fastsksd.procedure import grouped


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


@pytest.mark.parametrize("kind", ["light", "outliers", "long"])
@pytest.mark.parametrize("code", [0, 1])
def test_grouped_replicates_of_slices_match_the_matrix(kind, code):
    rng = np.random.default_rng(0)
    y, s = rng.standard_normal((2, 2, 150))
    if kind == "outliers":
        y[:, [3, 70, 149]] = [40.0, -60.0, 41.0]
    h = np.array([1.0, 0.7]) if kind != "long" else np.array([1.0, 1e-5])
    a = np.array([0.9, -0.4])
    edges = np.array([0, 10, 60, 61, 150], dtype=np.int64)
    weights = rng.choice([-1.0, 1.0], (6, 4)) * rng.uniform(0.5, 2.0, (6, 4))
    engine = load("fourier", code, y, s, a, h, 1e-10)
    sums, replicates = engine.sums_and_grouped_replicates(weights, edges)
    direct = load("direct", code, y, s, a, h)
    np.testing.assert_allclose(sums, direct.sums(), rtol=1e-6, atol=1e-5)
    group = np.repeat(np.arange(4), np.diff(edges))
    apart = direct.matrix() * (group[:, None] != group)
    expected = np.einsum("bi,ij,bj->b", weights[:, group], apart, weights[:, group])
    np.testing.assert_allclose(replicates, expected, rtol=1e-6, atol=1e-5)


def test_edges_contain_the_breaks():
    edges = grouped._edges(10_001, [0, 1666, 5000, 10_001])
    assert {0, 1666, 5000, 10_001} <= set(edges.tolist())
    assert np.all(np.diff(edges) > 0) and abs(edges.size - grouped.GROUPS) < 5


def family(x, monkeypatch, **options):
    monkeypatch.setattr(grouped, "TAKES_OVER", 100)
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


@pytest.mark.parametrize("groups", [48, 120])
def test_level_with_groups(monkeypatch, groups):
    monkeypatch.setattr(grouped, "TAKES_OVER", 100)
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
    monkeypatch.setattr(grouped, "TAKES_OVER", 100)
    members = fs.gof_test(x, -x, engine="direct", n_resamples=19, rng=0).members
    assert not any(one.part == "held out" for one in members)


def test_same_seed_same_pvalue(monkeypatch):
    x = np.random.default_rng(2).standard_normal((200, 3))
    first, second = (family(x, monkeypatch, n_resamples=99) for _ in range(2))
    assert first.pvalue == second.pvalue and first.evidence == second.evidence
