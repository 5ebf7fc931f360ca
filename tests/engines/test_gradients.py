"""Gradients of one slice in its projections, and of the discrepancy in scores and directions."""

import numba
import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

import fastsksd as fs
from fastsksd.engines.direct import DirectEngine
from fastsksd.engines.gradients import slice_gradients
from fastsksd.kernels import KERNELS


def projections(m, n, seed):
    rng = np.random.default_rng(seed)
    return (
        rng.standard_normal((m, n)),
        rng.standard_normal((m, n)),
        rng.uniform(-1, 1, m),
        rng.uniform(0.5, 2, m),
    )


@pytest.mark.parametrize("statistic", ["u", "v"])
@pytest.mark.parametrize("kernel", ["rbf", "imq"])
def test_slice_gradients_follow_from_the_equations(kernel, statistic):
    # In three dimensions with r = e1 and g = (a, 1, 0), samples and scores can be chosen such that
    # x.g = y and score.r = s.
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
    # One to six blocks: the value against the engine, and its slope along a random direction of all
    # arguments against differences.
    y, s, a, h = projections(2, n, seed=n)
    pairs = DirectEngine(0, y, s, a, h)
    np.testing.assert_allclose(
        slice_gradients(0, y, s, a, h, "u")[0], pairs.sums() / (n * (n - 1)), rtol=1e-10, atol=1e-15
    )
    rng = np.random.default_rng(0)
    along = [rng.standard_normal(array.shape) for array in (y, s, a)]

    def value(step):
        return slice_gradients(
            0, y + step * along[0], s + step * along[1], a + step * along[2], h, "u"
        )[0].sum()

    _, ds, dy, da = slice_gradients(0, y, s, a, h, "u")
    slope = (dy * along[0]).sum() + (ds * along[1]).sum() + da @ along[2]
    assert slope == pytest.approx((value(1e-5) - value(-1e-5)) / 2e-5, rel=1e-7, abs=1e-9)


def problem(seed, n, d, m):
    rng = np.random.default_rng(seed)
    x, scores = rng.standard_normal((n, d)), rng.standard_normal((n, d))
    slices = fs.random_slices(d, m, rng=rng)
    return x, scores, slices, rng.uniform(0.4, 2.0, m)


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(2, 8),
    d=st.integers(1, 4),
    m=st.integers(1, 3),
    kernel=st.sampled_from(["rbf", "imq"]),
    statistic=st.sampled_from(["u", "v"]),
)
@settings(max_examples=25)
def test_gradients_are_the_slopes_of_the_statistic(seed, n, d, m, kernel, statistic):
    x, scores, slices, h = problem(seed, n, d, m)
    r, g = slices.r.copy(), slices.g.copy()
    everything = ("score", "g", "r", "x")
    value, gradients = fs.sksd_value_and_grad(
        x, scores, slices, kernel=KERNELS[kernel](h), statistic=statistic, wrt=everything
    )
    assert value == pytest.approx(
        fs.sksd(x, scores, slices, kernel=KERNELS[kernel](h), statistic=statistic),
        rel=1e-10,
        abs=1e-13,
    )
    eps = 1e-5
    for name, array in {"score": scores, "g": g, "r": r, "x": x}.items():
        along = np.random.default_rng(seed).standard_normal(array.shape)
        ends = []
        for sign in (1.0, -1.0):
            array += sign * eps * along
            ends.append(reference.sksd(x, scores, r, g, kernel, h, statistic))
            array -= sign * eps * along
        scale = max(1.0, np.abs(gradients[name]).max())
        assert np.sum(gradients[name] * along) == pytest.approx(
            (ends[0] - ends[1]) / (2 * eps), abs=1e-6 * scale
        ), name


@pytest.mark.parametrize("statistic", ["u", "v"])
@pytest.mark.parametrize("kernel", ["rbf", "imq"])
def test_gradients_follow_from_the_equations(kernel, statistic):
    x, scores, slices, _ = problem(3, 14, 3, 2)
    value, gradients = fs.sksd_value_and_grad(x, scores, slices, kernel=kernel, statistic=statistic)
    assert value == pytest.approx(
        fs.sksd(x, scores, slices, kernel=kernel, statistic=statistic), rel=1e-12
    )
    by_score = 0.0
    for q, (r, g) in enumerate(zip(slices.r, slices.g, strict=True)):
        h = reference.median_distance(x @ g)
        one, by_g, by_r = reference.sksd_gradients(x, scores, r, g, kernel, h, statistic)
        by_score = by_score + one
        np.testing.assert_allclose(gradients["g"][q], by_g, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(gradients["r"][q], by_r, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(gradients["score"], by_score, rtol=1e-10, atol=1e-12)


def test_only_what_was_asked_for_comes_back():
    x, scores, slices, _ = problem(4, 20, 3, 2)
    full = fs.sksd_value_and_grad(x, scores, slices)[1]
    assert list(full) == ["score", "g", "r"]
    for wrt in ("score", ["r"], ("g", "score")):
        part = fs.sksd_value_and_grad(x, scores, slices, wrt=wrt)[1]
        assert list(part) == ([wrt] if isinstance(wrt, str) else list(wrt))
        assert all(np.array_equal(part[name], full[name]) for name in part)


def test_gradient_in_the_scores_vanishes_where_the_model_fits():
    # d/ds_i of the U-statistic is 2/n times an unbiased estimate of r E[s k + a k'] at sample i,
    # which Stein's identity makes zero when p = q. Its inner product with any function of x, here
    # one that would move the mean and the scale, has mean zero.
    slices = fs.Slices(np.eye(2), np.eye(2))
    draws, wrong = [], []
    for seed in range(100):
        x = np.random.default_rng(seed).standard_normal((60, 2))
        for scale, found in ((1.0, draws), (1.5, wrong)):
            gradient = fs.sksd_value_and_grad(
                x, -x / scale**2, slices, kernel=fs.RBF(1.0), statistic="u", wrt="score"
            )[1]["score"]
            found.append([gradient.sum(), (gradient * x).sum()])
    for found, expected in ((draws, True), (wrong, False)):
        found = np.array(found)
        error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
        assert np.all(np.abs(found.mean(axis=0)) < 3.0 * error) == expected


def test_gradients_do_not_depend_on_the_number_of_threads():
    x, scores, slices, _ = problem(5, 700, 4, 3)
    threads = numba.get_num_threads()
    try:
        results = []
        for count in {1, threads}:
            numba.set_num_threads(count)
            results.append(fs.sksd_value_and_grad(x, scores, slices)[1])
    finally:
        numba.set_num_threads(threads)
    for name in results[0]:
        assert np.array_equal(results[0][name], results[-1][name])


X = np.random.default_rng(0).standard_normal((20, 3))
SLICES = fs.Slices(np.eye(3), np.eye(3))
BAD = {
    "unknown name": (
        dict(wrt=("score", "y")),
        ValueError,
        "`wrt` must be one of 'score', 'g', 'r', 'x'; got 'y'",
    ),
    "unknown single name": (
        dict(wrt="h"),
        ValueError,
        "`wrt` must be one of 'score', 'g', 'r', 'x'; got 'h'",
    ),
    "nothing": (
        dict(wrt=()),
        ValueError,
        r"`wrt` must hold one or more of 'score', 'g', 'r', 'x'; got \(\)",
    ),
    "none": (dict(wrt=None), ValueError, "`wrt` must hold one or more of"),
    "statistic": (dict(statistic="w"), ValueError, "`statistic` must be one of 'u', 'v'"),
    "kernel": (dict(kernel="laplace"), ValueError, "`kernel` must be one of"),
    "score of another shape": (
        dict(score=X[:5]),
        ValueError,
        r"`score` must have the shape of the samples, \(20, 3\)",
    ),
    "one sample": (dict(x=X[:1], score=X[:1]), ValueError, "`x` must hold at least 2 samples"),
    "slices of another dimension": (
        dict(slices=fs.random_slices(2, 4)),
        ValueError,
        "`slices` are directions in 2 dimensions",
    ),
    "slices not unit": (
        dict(slices=(2 * np.eye(3), np.eye(3))),
        ValueError,
        "`r` must have rows of unit length",
    ),
    "flat": (
        dict(x=X * [1, 0, 1]),
        ValueError,
        "`x` does not vary along the projection of 1 of 3 slices",
    ),
    "overflow": (dict(score=1e200 * X), ValueError, "overflows"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_explained(case):
    options, error, message = BAD[case]
    arguments = {"x": X, "score": -X, "slices": SLICES} | options
    with np.errstate(all="ignore"), pytest.raises(error, match=message):
        fs.sksd_value_and_grad(
            arguments.pop("x"), arguments.pop("score"), arguments.pop("slices"), **arguments
        )
