"""Intervals of U-statistics: slow loops, coverage from degenerate to far from it, symmetries."""

import numpy as np
import pytest
from scipy.special import stdtrit

from fastsksd.procedure.u_statistics import UStatistic


def random_terms(rng, groups):
    """Symmetric terms, and sizes of groups."""
    features = rng.standard_normal((groups, 3)) + 0.3
    sizes = rng.integers(1, 4, groups).astype(float)
    return (features * [1.0, 0.5, -0.7]) @ features.T * np.outer(sizes, sizes), sizes


def test_parts_of_the_variance_are_those_of_slow_loops():
    terms, sizes = random_terms(np.random.default_rng(0), 7)
    n = len(sizes)
    pairs = [(g, h) for g in range(n) for h in range(n) if g != h]
    number = sum(sizes[g] * sizes[h] for g, h in pairs)
    value = sum(terms[g, h] for g, h in pairs) / number
    centred = {(g, h): terms[g, h] - value * sizes[g] * sizes[h] for g, h in pairs}
    rows = [sum(centred[g, h] for h in range(n) if h != g) for g in range(n)]
    found = UStatistic.of(terms, sizes)
    assert found.value == pytest.approx(value)
    assert found.first == pytest.approx(4 * sum(row**2 for row in rows) / number**2)
    assert found.second == pytest.approx(2 * sum(one**2 for one in centred.values()) / number**2)
    assert found.freedom == n - 1


def test_slope_is_the_change_of_the_variance_as_the_expectation_moves():
    terms, sizes = random_terms(np.random.default_rng(1), 30)
    found = UStatistic.of(terms, sizes)
    number = sizes.sum() ** 2 - (sizes**2).sum()
    centred = terms - found.value * np.outer(sizes, sizes)
    np.fill_diagonal(centred, 0.0)
    rows = centred.sum(axis=1)
    step = 1e-6 * rows  # samples with more influence get more weight
    moved = 2.0 * step @ rows / number
    variance = 4.0 * ((rows + centred @ step) ** 2).sum() / number**2
    assert (variance - found.first) / moved == pytest.approx(found.slope, rel=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_ends_and_pvalues_are_those_of_one_score_test(seed):
    terms, sizes = random_terms(np.random.default_rng(seed), 40)
    found = UStatistic.of(terms, sizes)
    for end in found.interval(0.1):
        error = found.variance + max(found.slope * (end - found.value), 0.0)
        distance = -stdtrit(found.freedom, 0.05) * np.sqrt(error)
        assert abs(end - found.value) == pytest.approx(distance)
    low, high = found.interval(found.pvalue)
    assert min(abs(low), abs(high)) < 1e-9 * (high - low)


def test_the_difference_of_the_second_and_the_first_is_the_mirror_image():
    terms, sizes = random_terms(np.random.default_rng(2), 25)
    one, other = UStatistic.of(terms, sizes), UStatistic.of(-terms, sizes)
    assert other.value == -one.value
    assert other.pvalue == one.pvalue
    np.testing.assert_allclose(other.interval(0.05), [-end for end in one.interval(0.05)][::-1])


def test_independent_differences_add_their_variances():
    rng = np.random.default_rng(3)
    a, b = (UStatistic.of(*random_terms(rng, groups)) for groups in (30, 40))
    assert (a - b).value == a.value - b.value
    assert (a - b).first == a.first + b.first
    assert (a - b).freedom == 29
    assert (b - a).slope == pytest.approx(-(a - b).slope)


def test_terms_that_are_all_zero_tell_nothing():
    nothing = UStatistic.of(np.zeros((20, 20)), np.ones(20))
    assert nothing.pvalue == 1.0
    assert nothing.interval(0.05) == (0.0, 0.0)


def coverage(rng, shift, dimensions, n=60, runs=400):
    """How often the interval of a squared mean holds it, and Wald's from row means alone."""
    mean = np.zeros(dimensions)
    mean[0] = shift / np.sqrt(n)
    truth, hits, plain = mean @ mean, 0, 0
    for _ in range(runs):
        z = rng.standard_normal((n, dimensions)) + mean
        found = UStatistic.of(z @ z.T, np.ones(n))
        low, high = found.interval(0.05)
        hits += low <= truth <= high
        plain += abs(found.value - truth) <= 1.96 * np.sqrt(found.first)
    return hits / runs, plain / runs


@pytest.mark.parametrize("shift", [0.0, 1.0, 2.0, 5.0, 20.0])
def test_intervals_hold_near_zero_and_far_from_it(shift):
    # Of 400 runs at 0.95, fewer than 0.92 have a probability of 0.005.
    rng = np.random.default_rng(4)
    hits, plain = coverage(rng, shift, 1)
    assert hits >= 0.92
    if shift in (1.0, 2.0):
        assert plain < 0.88  # what the asymptotic variance alone does near zero
    assert coverage(rng, shift, 10)[0] >= 0.92
    if shift == 20.0:
        assert hits <= 0.985  # far from zero they are not too long
