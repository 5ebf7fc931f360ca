"""KE, GE and exact score differences against loops and finite differences."""

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

import fastsksd as fs
from fastsksd import models
from fastsksd import score_difference as sd
from fastsksd.engines import gaussian

SEED = st.integers(0, 2**32 - 1)


def problem(seed, n=9, d=3):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) + rng.standard_normal(d)
    return x, -x + 0.5 * np.sin(x), rng.standard_normal((4, d)), rng.uniform(0.7, 3.0)


def unit(r):
    return r / np.linalg.norm(r, axis=-1, keepdims=True)


def dense(operator, m, d):
    """The matrices H_r behind the products."""
    return np.stack([operator(np.tile(e, (m, 1))) for e in np.eye(d)], axis=2)


@given(SEED, st.integers(1, 4))
def test_ke_value_and_jacobian(seed, d):
    x, s, y, width = problem(seed, d=d)
    ke = sd.KernelSmoothed(x, s, width)
    r = unit(y[0])
    np.testing.assert_allclose(
        ke.value(y),
        [reference.ke_difference(x, s, point, width) for point in y],
        rtol=1e-9,
        atol=1e-12,
    )
    np.testing.assert_allclose(
        ke.jacobian(y, r),
        [reference.ke_gradient(x, s, point, r, width) for point in y],
        rtol=1e-9,
        atol=1e-12,
    )


@given(SEED, st.integers(1, 4))
def test_ke_moments_of_the_paper(seed, d):
    x, s, y, width = problem(seed, d=d)
    ke = sd.KernelSmoothed(x, s, width)
    np.testing.assert_allclose(
        ke.second_moment(debias=False), reference.ke_S(x, s, width), rtol=1e-9, atol=1e-12
    )
    r = unit(y[:2])
    expected = [reference.ke_H(x, s, direction, width) for direction in r]
    np.testing.assert_allclose(
        dense(ke.sensitivity(r, debias=False), 2, d), expected, rtol=1e-8, atol=1e-12
    )


@given(SEED, st.integers(1, 4), st.integers(3, 9))
def test_ke_moments_without_self_terms(seed, d, n):
    x, s, y, width = problem(seed, n=n, d=d)
    ke = sd.KernelSmoothed(x, s, width)
    np.testing.assert_allclose(
        ke.second_moment(), reference.unbiased_S(x, s, width), rtol=1e-9, atol=1e-11
    )
    r = unit(y[:2])
    expected = [reference.unbiased_H(x, s, direction, width) for direction in r]
    np.testing.assert_allclose(dense(ke.sensitivity(r), 2, d), expected, rtol=1e-8, atol=1e-11)


@given(SEED, st.integers(1, 4), st.integers(2, 9), st.booleans())
def test_matrices_of_second_order(seed, d, n, debias):
    x, s, y, width = problem(seed, n=n, d=d)
    ksd = sd.KernelizedDifference(x, s, width)
    np.testing.assert_allclose(
        ksd.second_moment(debias),
        _symmetric(reference.ksd_M(x, s, width, debias)),
        rtol=1e-9,
        atol=1e-11,
    )
    r = unit(y[:2])
    expected = [reference.ksd_G(x, s, direction, width, debias) for direction in r]
    np.testing.assert_allclose(
        dense(ksd.sensitivity(r, debias), 2, d), expected, rtol=1e-8, atol=1e-11
    )


def _symmetric(matrix):
    return 0.5 * (matrix + matrix.T)


def test_ksd_is_the_trace_of_its_matrix():
    x, s, _, width = problem(3, n=25, d=3)
    trace = np.trace(sd.KernelizedDifference(x, s, width).second_moment())
    np.testing.assert_allclose(trace, fs.ksd(x, s, kernel=fs.RBF(width)), rtol=1e-11)


@pytest.mark.parametrize("estimator", [sd.KernelSmoothed, sd.KernelizedDifference])
@pytest.mark.parametrize("debias", [True, False])
def test_blocks_change_nothing(debias, estimator, monkeypatch):
    x, s, y, width = problem(0, n=30)
    r = unit(y)
    whole = estimator(x, s, width)
    expected = (
        whole.value(y),
        whole.second_moment(debias),
        dense(whole.sensitivity(r, debias), 4, 3),
    )
    monkeypatch.setattr(gaussian, "_BLOCK", 7)
    monkeypatch.setattr(gaussian, "DENSE_LIMIT", 10)
    parts = estimator(x, s, width)
    for got, want in zip(
        (parts.value(y), parts.second_moment(debias), dense(parts.sensitivity(r, debias), 4, 3)),
        expected,
        strict=True,
    ):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-14)


def test_what_estimators_need():
    assert list(sd.ESTIMATORS) == ["ke", "ksd", "ge", "exact"]
    x, s, _, _ = problem(0)
    for name in sd.ESTIMATORS:
        options = {"estimator": name, "score_q": np.negative if name == "exact" else None}
        if sd.needs_function(name):
            with pytest.raises(ValueError, match="`score` must be a callable or a model"):
                sd.score_difference(x, s, **options)
        else:
            made = sd.score_difference(x, s, **options)
            assert made.name == name and not sd.needs_function(made)
        assert sd.score_difference(x, np.negative, **options).name == name
    for wrong in ("kernel", None, ["ke"]):
        with pytest.raises(ValueError, match="`estimator` must be one of 'ke', 'ksd'"):
            sd.needs_function(wrong)
        with pytest.raises(ValueError, match="`estimator` must be one of 'ke', 'ksd'"):
            sd.score_difference(x, s, estimator=wrong)


@given(SEED, st.floats(0.01, 1.0))
def test_ge_matches_the_reference(seed, eta):
    x, _, y, width = problem(seed)
    ge = sd.SteinGradient(x, lambda x: -x, eta, width)
    scores_q = reference.ge_scores(x, width, eta)
    np.testing.assert_allclose(ge.score_q(x), scores_q, rtol=1e-7, atol=1e-7)
    r = unit(y[0])
    value = [-point - reference.ge_score(x, scores_q, point, width, eta) for point in y]
    gradient = [-r - reference.ge_gradient(x, scores_q, point, r, width, eta) for point in y]
    np.testing.assert_allclose(ge.value(y), value, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(ge.jacobian(y, r), gradient, rtol=1e-5, atol=1e-5)


def test_ge_conjugate_gradients_agree_with_cholesky(monkeypatch):
    x, _, y, width = problem(1, n=60)
    direct = sd.SteinGradient(x, lambda x: -x, 0.1, width)
    monkeypatch.setattr(gaussian, "DENSE_LIMIT", 10)
    iterative = sd.SteinGradient(x, lambda x: -x, 0.1, width)
    np.testing.assert_allclose(iterative.score_q(y), direct.score_q(y), rtol=1e-5, atol=1e-6)


def test_ge_recovers_a_gaussian_score():
    x = models.Gaussian(np.zeros(2), 1.0).sample(1000, rng=0)
    ge = sd.SteinGradient(x, lambda x: -x)
    inner = x[np.linalg.norm(x, axis=1) < 1.5]
    assert np.mean((ge.score_q(inner) + inner) ** 2) < 0.03


@given(SEED)
def test_exact_jacobian_with_and_without_hessian_products(seed):
    x, _, y, _ = problem(seed)
    p, q = models.StudentT(3, df=4.0), models.Gaussian(np.ones(3), [1.0, 2.0, 0.5])
    r = unit(y[0])
    exact = sd.ExactDifference(x, p, q)
    plain = sd.ExactDifference(x, p.score, q.score)
    np.testing.assert_allclose(exact.value(y), p.score(y) - q.score(y), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(plain.jacobian(y, r), exact.jacobian(y, r), rtol=1e-6, atol=1e-7)
    expected = np.array(
        [
            [np.mean(exact.jacobian(x, r)[:, i] * exact.jacobian(x, r)[:, j]) for j in range(3)]
            for i in range(3)
        ]
    )
    np.testing.assert_allclose(
        dense(exact.sensitivity(r[None]), 1, 3)[0], expected, rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize("estimator", ["ke", "ge"])
def test_an_outlier_does_not_spoil_the_others(estimator):
    x, _, y, width = problem(2, n=40)
    far = np.concatenate([x, [[1e8, -1e8, 1e8]]])
    make = {
        "ke": lambda x: sd.KernelSmoothed(x, -x, width),
        "ge": lambda x: sd.SteinGradient(x, lambda x: -x, 0.1, width),
    }[estimator]
    share = x.shape[0] / far.shape[0] if estimator == "ke" else 1.0
    near = make(x).value(y) + (0 if estimator == "ke" else y)
    with_far = make(far).value(y) + (0 if estimator == "ke" else y)
    np.testing.assert_allclose(with_far, share * near, rtol=1e-6, atol=1e-8)


BAD = {
    "samples that are a word": (lambda x: sd.KernelSmoothed("x", -x), "`x`"),
    "scores of other samples": (lambda x: sd.KernelSmoothed(x, -x[:5]), "`scores`"),
    "a width that is a word": (lambda x: sd.KernelSmoothed(x, -x, width="x"), "`width`"),
    "points in other dimensions": (
        lambda x: sd.KernelizedDifference(x, -x).value(x[:, :1]),
        "`y` must have 2 columns",
    ),
    "a direction that is a matrix": (
        lambda x: sd.SteinGradient(x, np.negative).jacobian(x, np.eye(2)),
        "`r`",
    ),
    "directions that are one": (lambda x: sd.KernelSmoothed(x, -x).sensitivity(np.ones(2)), "`r`"),
    "scores whose squares overflow": (
        lambda x: sd.score_difference(x, -1e160 * x).second_moment(),
        "`x` or its scores are so large",
    ),
    "an outlier": (
        lambda x: sd.score_difference(np.r_[x, [[1e200, 0.0]]], np.negative, estimator="ge"),
        r"`x` is 1.0e\+200 in row 30, column 0",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_classes_explain_bad_input_too(case):
    call, message = BAD[case]
    with pytest.raises((TypeError, ValueError), match=message):
        call(np.random.default_rng(0).standard_normal((30, 2)))
