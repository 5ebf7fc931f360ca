"""KSDAgg as published: widths, and the decisions of the published procedure."""

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

import fastsksd as fs
from fastsksd.baselines.ksdagg import aggregate, widths


def published(statistics, quantile, level, alpha):
    """The published decision, step by step, with uniform weights and 50 steps of bisection."""
    k, b1 = quantile.shape
    weight = 1 / k
    known = np.sort(np.column_stack([quantile, statistics]), axis=1)

    def quantiles(u):
        rank = int(np.ceil((b1 + 1) * (1 - u * weight) - 1e-9))
        return known[:, max(rank, 1) - 1] if rank >= 1 else np.full(k, -np.inf)

    low, high = 0.0, float(k)
    for _ in range(50):
        u = (low + high) / 2
        rate = np.mean(np.any(level > quantiles(u)[:, None], axis=0))
        low, high = (u, high) if rate <= alpha else (low, u)
    return bool(np.any(statistics > quantiles(low)))


def test_a_small_case_by_hand():
    """Two widths, three replicates for the quantiles, four for the level.

    Width 1: the statistic 5 is above 1, 2, 3: one of four values is as large, so u = 2/4.
    Width 2: the statistic 2 is below 3 and 4: three of four are as large, so u = 2 * 3/4.
    Level at u = 1/2: a replicate counts if one of its values is as large as all four known ones.
    Of (6, 0), (4, 9), (0, 4), (1, 1) these are the first (6 > 5) and the second (9 > 4).
    (0, 4): three of four known values of width 2 are below 4, so one is as large: it counts too.
    """
    statistics = np.array([5.0, 2.0])
    quantile = np.array([[1.0, 2.0, 3.0], [1.0, 3.0, 4.0]])
    level = np.array([[6.0, 4.0, 0.0, 1.0], [0.0, 9.0, 4.0, 1.0]])
    combined = aggregate(statistics, quantile, level)
    assert combined.pvalue == 3 / 4 and combined.strongest == 0
    np.testing.assert_allclose(combined.pvalues, [1 / 4, 3 / 4])
    np.testing.assert_allclose(10**-combined.evidence, 1 / 4)


@given(st.integers(0, 10**6), st.integers(1, 5), st.sampled_from([0.0, 1.0, 2.0, 4.0]))
def test_decisions_are_those_of_the_published_procedure(seed, k, shift):
    rng = np.random.default_rng(seed)
    quantile, level = rng.chisquare(2, (k, 39)), rng.chisquare(2, (k, 53))
    statistics = rng.chisquare(2, k) + shift
    pvalue = aggregate(statistics, quantile, level).pvalue
    for alpha in (0.02, 0.05, 0.1, 0.3, 0.7):
        assert (pvalue <= alpha) == published(statistics, quantile, level, alpha)


def test_widths_are_the_published_grid():
    x = np.random.default_rng(0).standard_normal((600, 4)) * 3
    farthest = max(np.linalg.norm(a - b) for a in x[:500] for b in x[:500])
    expected = np.geomspace(1 / 4, farthest / 4, 10)
    np.testing.assert_allclose(widths(x, 10), expected, rtol=1e-12)
    # Where all samples are close together, the largest width is 2 / d.
    np.testing.assert_allclose(widths(x / 1e3, 10)[-1], 2 / 4)


def test_members_are_ksd_with_the_imq_kernel():
    x = np.random.default_rng(1).standard_normal((40, 3))
    method = fs.baselines.KSDAgg(n_quantile=50, n_level=60)
    result = fs.gof_test(x, np.negative, method=method, rng=0)
    assert len(result.members) == 10 and result.null_distribution.size == 60
    for member in result.members:
        matrix = reference.ksd_matrix(x, -x, "imq", result_width(member))
        np.testing.assert_allclose(
            member.statistic, reference.u_statistic(matrix), rtol=1e-2, atol=1e-4
        )


def result_width(member):
    return float(member.name.removeprefix("width "))


def test_level():
    trials, rejections = 300, 0
    method = fs.baselines.KSDAgg(n_quantile=200, n_level=200)
    for seed in range(trials):
        x = np.random.default_rng([9, seed]).standard_normal((60, 2))
        rejections += fs.gof_test(x, np.negative, method=method, rng=seed).reject()
    # Binomial bounds of 99.9% at 5%.
    assert 4 <= rejections <= 29


@pytest.mark.parametrize("name", ["n_widths", "n_quantile", "n_level"])
def test_bad_numbers(name):
    with pytest.raises(ValueError, match=f"`{name}` must be at least 1"):
        fs.baselines.KSDAgg(**{name: 0})
    with pytest.raises(ValueError, match="`n_resamples` does not apply to method='ksdagg'"):
        fs.gof_test(np.eye(3), -np.eye(3), method="ksdagg", n_resamples=10)


def test_members_have_widths_and_no_multiples():
    x = np.random.default_rng(0).standard_normal((50, 2))
    result = fs.gof_test(x, np.negative, method="ksdagg", rng=0)
    assert {member.multiple for member in result.members} == {None}
    assert "bandwidth x" not in repr(result)
