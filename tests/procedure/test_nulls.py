"""The limit distribution: its tail against closed forms, its weights, uniform p-values if p = q."""

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fastsksd as fs
from fastsksd import models
from fastsksd.compute.chi_square import log_tail_of_weighted_chi_square, weighted_chi_square_draws
from fastsksd.compute.projections import project
from fastsksd.engines import DirectEngine, FourierEngine, pairs
from fastsksd.engines.multivariate import MultivariateEngine


@given(st.integers(1, 400), st.floats(1e-14, 1.0), st.floats(-200, 200))
def test_equal_weights_are_a_chi_square(count, tail, log_unit):
    """To 1e-6 relative, from the bulk to 1e-14, in any unit."""
    unit = np.exp(log_unit)
    x = stats.chi2.isf(tail, count)
    got = log_tail_of_weighted_chi_square(np.full(count, unit), unit * (x - count))
    assert abs(got - stats.chi2.logsf(x, count)) < 1e-6


@given(st.floats(-30, 600))
def test_weights_of_both_signs(x):
    """Z_1^2 + Z_2^2 - Z_3^2 - Z_4^2 has a Laplace distribution."""
    exact = np.log(0.5) - 0.5 * x if x >= 0 else np.log1p(-0.5 * np.exp(0.5 * x))
    assert abs(log_tail_of_weighted_chi_square([1.0, 1.0, -1.0, -1.0], x) - exact) < 1e-6


@given(st.lists(st.floats(0.2, 1.0), min_size=1, max_size=5, unique=True), st.floats(0.01, 100))
def test_pairs_of_weights_are_a_mixture_of_exponentials(weights, y):
    """Every weight twice: a sum of exponentials with means 2 c.

    Its tail is a sum of exponentials, unless means are close.
    """
    c = np.sort(np.array(weights))
    if np.any(np.diff(c) < 0.1):
        return
    factors = [
        np.prod([c[j] / (c[j] - c[k]) for k in range(c.size) if k != j]) for j in range(c.size)
    ]
    exact = np.sum(factors * np.exp(-y / (2 * c)))
    got = np.exp(log_tail_of_weighted_chi_square(np.repeat(c, 2), y - 2 * c.sum()))
    assert abs(got - exact) < 1e-6 * exact + 1e-9 * np.abs(factors).max() * np.exp(-y / (2 * c[-1]))


def test_degenerate_distributions():
    assert log_tail_of_weighted_chi_square([0.0, 0.0], -1.0) == 0.0
    assert log_tail_of_weighted_chi_square([0.0], 1.0) == -np.inf
    assert log_tail_of_weighted_chi_square([1.0], -1.5) == 0.0  # below the smallest value
    assert log_tail_of_weighted_chi_square([-1.0], 1.5) == -np.inf  # above the largest
    np.testing.assert_allclose(
        np.exp(log_tail_of_weighted_chi_square([-1.0], 0.3)), stats.chi2.cdf(0.7, 1), rtol=1e-6
    )
    # Far beyond the smallest double: sf(x) = sqrt(2 / (pi x)) exp(-x / 2) (1 - 1 / x + ...).
    far = log_tail_of_weighted_chi_square([1.0], 1e5)
    np.testing.assert_allclose(far, 0.5 * np.log(2 / (np.pi * 100001)) - 0.5 * 100001, rtol=1e-8)


@pytest.mark.parametrize("count", [1, 30, 1000])
def test_the_whole_range_of_a_chi_square(count):
    """From far below the mean, where the tail is one to many digits."""
    for x in (1e-9, 0.01 * count, 0.5 * count, 0.9 * count, count, 1.2 * count, 3.0 * count):
        got = log_tail_of_weighted_chi_square(np.ones(count), x - count)
        np.testing.assert_allclose(got, stats.chi2.logsf(x, count), rtol=1e-6, atol=1e-15)
    assert log_tail_of_weighted_chi_square([1.0, -1.0], -1000.0) > -1e-200
    np.testing.assert_allclose(log_tail_of_weighted_chi_square([1.0], 1e16), -5e15, rtol=1e-6)


def test_one_large_weight_and_many_small_ones():
    weights = np.r_[1.0, np.full(1000, 1e-3)]
    rng = np.random.default_rng(0)
    draws = rng.chisquare(1, 100_000) - 1 + 1e-3 * (rng.chisquare(1000, 100_000) - 1000)
    for level in (0.001, 0.1, 0.3, 0.5, 0.9, 0.999):
        tail = np.exp(log_tail_of_weighted_chi_square(weights, np.quantile(draws, level)))
        assert abs(tail - (1 - level)) < 5 * np.sqrt(level * (1 - level) / 100_000)


def test_tail_agrees_with_draws():
    weights = np.r_[1.0, 1 / np.arange(2, 60) ** 1.5, -0.2]
    draws = weighted_chi_square_draws(weights, 200_000, np.random.default_rng(0))
    for x in (-2.0, 0.0, 1.0, 6.0):
        tail = np.exp(log_tail_of_weighted_chi_square(weights, x))
        assert abs(np.mean(draws >= x) - tail) < 4 * np.sqrt(tail / 200_000)


@pytest.mark.parametrize("kernel", ["rbf", "imq"])
@pytest.mark.parametrize("tail", ["normal", "outlier"])
def test_spectrum_is_that_of_the_centred_matrix(engine, kernel, tail):
    rng = np.random.default_rng(1)
    x, s, slices = (
        rng.standard_normal((40, 3)),
        rng.standard_normal((40, 3)),
        fs.random_slices(3, 2, rng=rng),
    )
    if tail == "outlier":
        x[0] = 50.0
    object_kernel = fs.kernels.as_kernel(kernel)
    projected = project(x, s, slices, object_kernel)
    loaded = {"direct": DirectEngine, "fourier": FourierEngine}[engine](
        object_kernel.code, *projected
    )
    matrix = sum(
        reference.stein_matrix(x, s, r, g, kernel, h)
        for r, g, h in zip(slices.r, slices.g, projected[3], strict=True)
    )
    centred = matrix - matrix.mean(axis=0) - matrix.mean(axis=1)[:, None] + matrix.mean()
    exact, got = np.linalg.eigvalsh(centred / 40), loaded.spectrum()
    # The engines differ in how many eigenvalues are zero.
    size = max(exact.size, got.size)
    exact, got = (np.sort(np.pad(values, (0, size - values.size))) for values in (exact, got))
    np.testing.assert_allclose(got, exact, atol=1e-7)


def test_spectrum_of_the_ksd():
    rng = np.random.default_rng(2)
    x, s = rng.standard_normal((25, 2)), rng.standard_normal((25, 2))
    matrix = reference.ksd_matrix(x, s, "imq", 1.1)
    centred = matrix - matrix.mean(axis=0) - matrix.mean(axis=1)[:, None] + matrix.mean()
    np.testing.assert_allclose(
        MultivariateEngine(1, x, s, 1.1).spectrum(), np.linalg.eigvalsh(centred / 25), atol=1e-11
    )


@pytest.mark.parametrize(
    "options",
    [
        dict(slices=fs.Slices(np.eye(3), np.eye(3))),
        dict(n_slices=2),
        pytest.param(dict(method="ksd"), marks=pytest.mark.slow),
    ],
)
def test_spectral_pvalues_are_uniform_under_the_null(options):
    model = models.Gaussian(np.zeros(3), 1.0)
    pvalues = [
        fs.gof_test(model.sample(150, rng=k), model, null="spectral", rng=k, **options).pvalue
        for k in range(300)
    ]
    assert stats.kstest(pvalues, "uniform").pvalue > 1e-3
    assert (
        stats.binom.ppf(0.001, 300, 0.05)
        <= np.sum(np.array(pvalues) <= 0.05)
        <= stats.binom.ppf(0.999, 300, 0.05)
    )


def test_spectral_pvalues_go_deeper_than_replicates():
    x = np.random.default_rng(0).standard_normal((500, 4)) * [0.6, 1, 1, 1]
    spectral = fs.gof_test(x, -x, null="spectral", n_slices=2, rng=0)
    wild = fs.gof_test(x, -x, null="wild", n_slices=2, rng=0)
    assert 0 < spectral.pvalue < 1e-10 and wild.pvalue == 1 / 1001
    assert spectral.statistic == pytest.approx(wild.statistic, rel=1e-6)
    assert spectral.null_distribution.shape == (1000,)
    ratio = np.quantile(spectral.null_distribution, 0.95) / np.quantile(
        wild.null_distribution, 0.95
    )
    assert 0.7 < ratio < 1.4
    x = 0.01 * np.random.default_rng(0).standard_normal((4000, 1))
    # Never zero.
    assert fs.gof_test(x, -x, null="spectral", slices=fs.Slices([[1.0]], [[1.0]]), rng=0).pvalue > 0


def test_spectral_family_is_bounded_by_bonferroni():
    x = np.random.default_rng(0).standard_normal((120, 4)) * [0.7, 1, 1, 1]
    result = fs.gof_test(x, -x, null="spectral", rng=0)
    assert result.null_distribution.size == 0 and "Bonferroni" in repr(result)
    # Ten and a half shares, and the members of a kind share alike.
    shares = {"coordinates": 1 / 2, "top": 1 / 6, "largest": 1 / 2, "whole": 1 / 2}
    shares |= {"location": 2, "scale": 1}
    shares |= {"linear diagonal": 1.5, "linear full": 1}
    fractions = {name: share / 10.5 for name, share in shares.items()}
    for member in result.members:
        words = member.name.replace(",", " ").split()
        fraction = fractions[f"linear {words[-1]}" if words[0] == "linear" else words[0]]
        assert member.adjusted_pvalue == pytest.approx(min(1.0, member.pvalue / fraction), rel=1e-9)
    assert result.pvalue == min(member.adjusted_pvalue for member in result.members)
    model = models.Gaussian(np.zeros(4), 1.0)
    rejected = sum(
        fs.gof_test(model.sample(100, rng=k), model, null="spectral", rng=k).reject()
        for k in range(60)
    )
    assert rejected <= stats.binom.ppf(0.999, 60, 0.05)


def test_spectral_needs_room_for_a_matrix(monkeypatch):
    monkeypatch.setattr(pairs, "MOST_STORED", 50)
    x = np.random.default_rng(0).standard_normal((60, 3))
    with pytest.raises(ValueError, match=r"`null` is 'spectral', which needs a matrix of 60 x 60"):
        fs.gof_test(x, -x, null="spectral", method="ksd")
    with pytest.raises(ValueError, match=r"`lag` is for null='wild'"):
        fs.gof_test(x, -x, null="spectral", lag=5)


def test_round_off_among_the_weights_changes_nothing():
    weights = np.array([1.0, 0.5, 0.1])
    for x in (-0.5, 0.5, 3.0):
        exact = log_tail_of_weighted_chi_square(weights, x)
        assert log_tail_of_weighted_chi_square(np.r_[weights, -2e-14, 3e-15], x) == pytest.approx(
            exact, rel=1e-9
        )
