"""Wilson's interval and Holm's adjustment."""

import numpy as np
import pytest
import reference

from fastsksd.report.rates import holm, interval


def test_interval_covers_the_rate():
    low, high = interval(5, 100)
    # Wilson (1927), any table.
    assert low == pytest.approx(0.0215, abs=1e-3) and high == pytest.approx(0.1118, abs=1e-3)
    assert interval(0, 10)[0] == 0.0 and interval(10, 10)[1] == pytest.approx(1.0)


def test_holm_is_the_slow_one():
    pvalues = np.random.default_rng(0).uniform(size=20) ** 3
    np.testing.assert_allclose(np.exp(holm(np.log(pvalues))), reference.holm(pvalues), rtol=1e-12)


def test_holm_beyond_the_smallest_number():
    np.testing.assert_allclose(holm(np.array([-2000.0, -1.0])), [-2000.0 + np.log(2.0), -1.0])
