"""Gradients of the discrepancy: of one slice in its projections, and of the whole in scores and directions."""

import numpy as np
import pytest
import reference

from fastsksd.engines.direct import DirectEngine
from fastsksd.engines.gradients import slice_gradients
from fastsksd.kernels import KERNELS


def projections(m, n, seed):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((m, n)), rng.standard_normal((m, n)), rng.uniform(-1, 1, m), rng.uniform(0.5, 2, m)


@pytest.mark.parametrize("statistic", ["u", "v"])
@pytest.mark.parametrize("kernel", ["rbf", "imq"])
def test_slice_gradients_follow_from_the_equations(kernel, statistic):
    # In three dimensions with r = e1 and g = (a, 1, 0) samples and scores can be laid so that x.g = y and score.r = s.
    y, s, a, h = projections(3, 12, seed=1)
    values, ds, dy, da = slice_gradients(KERNELS[kernel].code, y, s, a, h, statistic)
    r = np.array([1.0, 0.0, 0.0])
    for q in range(3):
        g = np.array([a[q], 1.0, 0.0])
        x = np.stack([np.zeros(12), y[q], np.ones(12)], axis=1)
        scores = np.stack([s[q], np.ones(12), np.zeros(12)], axis=1)
        matrix = reference.stein_matrix(x, scores, r, g, kernel, h[q])
        by_score, by_g, by_r = reference.sksd_gradients(x, scores, r, g, kernel, h[q], statistic)
        assert values[q] == pytest.approx(reference.STATISTICS[statistic](matrix), rel=1e-12)
        np.testing.assert_allclose(np.outer(ds[q], r), by_score, rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(dy[q] @ x + da[q] * r, by_g, rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(ds[q] @ scores + da[q] * g, by_r, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("n", [2, 255, 256, 257, 513, 800, 1281])
def test_blocks_of_samples_meet_once(n):
    # One to six blocks: the value against the engine, its slope along a random direction of everything against differences.
    y, s, a, h = projections(2, n, seed=n)
    pairs = DirectEngine(0, y, s, a, h)
    np.testing.assert_allclose(slice_gradients(0, y, s, a, h, "u")[0], pairs.sums() / (n * (n - 1)), rtol=1e-10, atol=1e-15)
    rng = np.random.default_rng(0)
    along = [rng.standard_normal(array.shape) for array in (y, s, a)]

    def value(step):
        return slice_gradients(0, y + step * along[0], s + step * along[1], a + step * along[2], h, "u")[0].sum()

    _, ds, dy, da = slice_gradients(0, y, s, a, h, "u")
    slope = (dy * along[0]).sum() + (ds * along[1]).sum() + da @ along[2]
    assert slope == pytest.approx((value(1e-5) - value(-1e-5)) / 2e-5, rel=1e-7, abs=1e-9)
