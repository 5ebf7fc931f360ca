"""Preconditioning: maps of samples, scores and slices, what metrics are, and bad input."""

import numpy as np
import pytest
import reference
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

import fastsksd as fs
from fastsksd.procedure import covariances
from fastsksd.procedure import metric as metrics

RNG = np.random.default_rng(0)


def model_and_samples(d, n, seed, spread=1.0):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((d, d)) + 2.0 * np.eye(d)
    units = np.exp(spread * rng.standard_normal(d))
    cov = units[:, None] * (root @ root.T) * units
    model = fs.models.Gaussian(rng.standard_normal(d), 0.5 * (cov + cov.T))
    return model, rng.standard_normal((n, d)) * units * 1.3 + 0.2


@given(seed=st.integers(0, 2**20), d=st.integers(2, 5))
def test_full_metric_of_a_gaussian_model_is_its_covariance_whatever_the_samples(seed, d):
    model, x = model_and_samples(d, 80, seed)
    found = metrics.full(x, model.score(x))
    precision = np.linalg.inv(model.cov)
    scale = np.sqrt(np.outer(np.diagonal(precision), np.diagonal(precision)))
    np.testing.assert_allclose(
        found.forward.T @ found.forward / scale, precision / scale, atol=1e-8
    )
    np.testing.assert_allclose(found.forward @ found.backward, np.eye(d), atol=1e-8)


def test_full_metric_is_the_geometric_mean():
    x = RNG.standard_normal((500, 4)) @ RNG.standard_normal((4, 4))
    s = RNG.standard_normal((500, 4)) @ RNG.standard_normal((4, 4))
    found = metrics.full(x, s)
    y, t = found.samples(x), found.scores(s)
    # In the metric both covariances are the same.
    np.testing.assert_allclose(np.cov(y.T), np.cov(t.T), rtol=1e-8, atol=1e-10)


def test_diagonal_metric_does_not_depend_on_units():
    x, s = RNG.standard_normal((60, 3)), RNG.standard_normal((60, 3))
    units, shift = np.array([1e-30, 3.0, 1e25]), np.array([1e-30, 5.0, 0.0])
    first, second = metrics.diagonal(x, s), metrics.diagonal(x * units + shift, s / units)
    np.testing.assert_allclose(first.samples(x), second.samples(x * units + shift), atol=1e-9)
    np.testing.assert_allclose(first.scores(s), second.scores(s / units), rtol=1e-9)


def test_an_outlier_does_not_set_the_unit():
    x = RNG.standard_normal((400, 2))
    wild = x.copy()
    wild[7, 0] = 1e8
    clean, found = metrics.diagonal(x, -x), metrics.diagonal(wild, -wild)
    np.testing.assert_allclose(found.forward, clean.forward, rtol=0.05)
    for learn in (metrics.full, metrics.information):
        assert np.linalg.cond(learn(wild, -x).forward) < 2.0


@given(seed=st.integers(0, 2**20))
def test_slices_go_to_the_metric_and_back(seed):
    rng = np.random.default_rng(seed)
    model, x = model_and_samples(3, 20, seed)
    s = model.score(x)
    found = metrics.full(x, s)
    slices = fs.random_slices(3, 2, rng=rng)
    back, _, _ = found.to_user(found.from_user(slices))
    np.testing.assert_allclose(back.r, slices.r, atol=1e-9)
    np.testing.assert_allclose(back.g, slices.g, atol=1e-9)
    # A Stein term in the metric is one along the user's slice, in the square of its unit.
    inside = fs.random_slices(3, 2, rng=rng)
    outside, units, lengths = found.to_user(inside)
    y, t = found.samples(x), found.scores(s)
    for k in range(2):
        h = 0.7
        there = reference.stein_matrix(y, t, inside.r[k], inside.g[k], "rbf", h)
        here = reference.stein_matrix(x, s, outside.r[k], outside.g[k], "rbf", h / lengths[k])
        np.testing.assert_allclose(there, units[k] ** 2 * here, rtol=1e-7, atol=1e-9)


def test_scores_of_a_model_as_a_function_in_the_metric():
    model, x = model_and_samples(3, 50, 1)
    found = metrics.full(x, model.score(x))
    inside = found.score_function(model)(found.samples(x))
    np.testing.assert_allclose(inside, found.scores(model.score(x)), rtol=1e-8, atol=1e-8)


def slow_information(x, s):
    """M from its definition, for many samples without far entries."""
    n, d = x.shape
    joint = np.cov(x.T, s.T, bias=True)
    cov_x, cov_xs, cov_s = joint[:d, :d], joint[:d, d:], joint[d:, d:]
    inverse = np.linalg.inv(cov_s)
    share = np.trace(np.linalg.inv(cov_x) @ cov_xs @ inverse @ cov_xs.T) / d
    weight = max(0.0, 1.0 - (1.0 - share) * (n - 1) / (n - 1 - d))
    regression = -cov_xs @ inverse
    values, vectors = scipy.linalg.eigh(0.5 * (regression + regression.T), inverse)
    values = 1.0 - weight + weight * np.maximum(np.abs(values), 0.03)
    back = inverse @ vectors  # vectors.T @ inverse @ vectors = I
    return back * values @ back.T, weight


def close(found, m):
    """Whether A^T A is the inverse of m, in units of that."""
    inverse = np.linalg.inv(m)
    units = np.sqrt(np.diagonal(inverse))
    there = found.forward.T @ found.forward / np.outer(units, units)
    np.testing.assert_allclose(there, inverse / np.outer(units, units), atol=1e-7)
    np.testing.assert_allclose(found.forward @ found.backward, np.eye(len(m)), atol=1e-7)


@given(seed=st.integers(0, 2**20), d=st.integers(2, 5), n=st.integers(30, 90))
def test_information_of_a_gaussian_model_is_its_covariance_whatever_the_samples(seed, d, n):
    """But for variances below 3% of the model's."""
    rng = np.random.default_rng(seed)
    units = 10.0 ** rng.uniform(-3, 3, d)
    root = np.eye(d) + 0.1 * rng.uniform(-1.0, 1.0, (d, d))
    cov = units[:, None] * (root @ root.T) * units
    x = rng.standard_normal((n, d)) * units * rng.choice([1.0, 0.7, 2.0]) + 0.2
    close(metrics.information(x, -x @ np.linalg.inv(cov)), cov)


@given(seed=st.integers(0, 2**20), noise=st.floats(0.0, 5.0))
def test_information_is_that_of_its_definition(seed, noise):
    rng = np.random.default_rng(seed)
    root = np.eye(3) + 0.2 * rng.uniform(-1.0, 1.0, (3, 3))
    x = rng.standard_normal((400, 3)) @ root * [1e-4, 1.0, 50.0]
    s = (-x / [1e-4, 1.0, 50.0] + noise * rng.standard_normal(x.shape)) @ root / [1e-4, 1.0, 50.0]
    close(metrics.information(x, s), slow_information(x, s)[0])


def test_information_is_that_of_the_scores_alone_where_they_do_not_know_the_samples():
    x, s = RNG.standard_normal((500, 4)), RNG.standard_normal((500, 4)) * [1.0, 2.0, 3.0, 4.0]
    m, weight = slow_information(x, s)
    assert weight < 0.02
    np.testing.assert_allclose(np.diagonal(m), [1.0, 1 / 4, 1 / 9, 1 / 16], rtol=0.2)
    close(metrics.information(x, s), m)


@pytest.mark.parametrize(
    "learn",
    [
        lambda x, s: metrics.information_of_folds(x, s, covariances.pair_folds(len(x))),
        lambda x, s: {(k, k): one for k, one in enumerate(metrics.full_of_others(x, s))},
    ],
    ids=["pairs", "folds"],
)
def test_the_metric_of_folds_is_learnt_on_the_others(learn):
    n = 90
    x = RNG.standard_normal((n, 3))
    s = -x + 0.3 * RNG.standard_normal((n, 3))
    before = learn(x, s)
    stretches = covariances.folds(n, 1 + max(k for pair in before for k in pair))
    changed = 0.0
    for (a, b), metric in before.items():
        for k, stretch in enumerate(stretches):
            other, scores = x.copy(), s.copy()
            other[stretch] = 2.0 * other[stretch][::-1]
            scores[stretch.start] = 1e12
            after = learn(other, scores)[a, b]
            if k in (a, b):
                # But for digits: where entries count as far is found on all of them.
                np.testing.assert_allclose(after.forward, metric.forward, rtol=1e-12, atol=1e-12)
            else:
                changed = max(changed, np.abs(after.forward - metric.forward).max())
    assert changed > 0.1
    assert len(before) in (15, 3)


def test_covariances_outside_of_folds_are_those_of_the_rest():
    x, s = RNG.standard_normal((50, 3)) + 7.0, RNG.standard_normal((50, 3))
    kept = RNG.random(50) < 0.9
    found = metrics.information_of_folds(x, s, covariances.pair_folds(50), kept)[1, 3]
    rest = np.r_[0:10, 20:30, 40:50]
    rest = rest[kept[rest]]
    alone = metrics.information(x[rest], s[rest])
    np.testing.assert_allclose(
        found.forward.T @ found.forward, alone.forward.T @ alone.forward, atol=1e-10
    )
    np.testing.assert_allclose(found.centre, alone.centre, atol=1e-12)


@pytest.mark.parametrize(
    "learn", [metrics.diagonal, metrics.full, metrics.information], ids=lambda one: one.__name__
)
def test_a_score_far_out_leaves_the_units_as_they_are(learn):
    x = np.random.default_rng(1).standard_normal((300, 3)) * [1e3, 1.0, 1.0]
    s = -x / [1e6, 1.0, 1.0]
    s[7, 0] = 1e12
    backward = learn(x, s).backward
    column = backward[0] if backward.ndim == 1 else np.linalg.norm(backward[0])
    assert 500.0 < column < 2000.0


@pytest.mark.parametrize(("d", "n"), [(20, 36), (50, 90), (30, 300)])
def test_few_samples_know_that_a_model_is_gaussian(d, n):
    cov = 0.5 ** np.abs(np.subtract.outer(range(d), range(d)))
    x = np.random.default_rng(0).multivariate_normal(np.zeros(d), cov, n)
    found = metrics.information(x, -x @ np.linalg.inv(cov))
    np.testing.assert_allclose(found.backward @ found.backward.T, cov, atol=1e-9)


def test_fewer_samples_than_dimensions_have_the_geometric_mean():
    x = np.random.default_rng(0).standard_normal((20, 30))
    first, second = metrics.information(x, -x), metrics.full(x, -x)
    np.testing.assert_allclose(first.forward, second.forward, atol=1e-9)


def test_a_score_far_out_in_a_column_that_is_mostly_constant():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 2))
    s = -x
    s[:, 0] *= np.abs(x[:, 0]) > 1.0  # two thirds are zero
    clean = metrics.diagonal(x, s).backward
    s[7, 0] = 1e12
    np.testing.assert_allclose(metrics.diagonal(x, s).backward, clean, rtol=0.2)


@pytest.mark.parametrize(
    "options",
    [dict(n=300), dict(n=30), dict(null="spectral", n=300), dict(precondition="full", n=200),
     dict(n=4500), dict(null="bootstrap", n=100)],
    ids=str,
)  # fmt: skip
def test_a_score_of_the_wrong_sign_is_rejected(options):
    options = dict(options)
    x = np.random.default_rng(0).standard_normal((options.pop("n"), 2)) @ [[1.0, 0.5], [0.0, 2.0]]
    assert fs.gof_test(x, x @ np.linalg.inv(x.T @ x / len(x)), rng=0, **options).pvalue < 0.01


def test_one_coordinate_of_the_wrong_sign_is_seen_by_every_kernel():
    x = np.random.default_rng(2).standard_normal((100, 6))
    s = -x * [-1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    members = fs.gof_test(x, s, rng=0).members
    for name in ("whole vector, full", "linear kernel, full"):
        assert min(one.pvalue for one in members if one.name == name) < 0.01


def test_a_score_that_turns_has_a_metric():
    x = np.random.default_rng(3).standard_normal((200, 2))
    s = np.column_stack([x[:, 1], -x[:, 0]])
    found = metrics.information(x, s)
    assert np.linalg.cond(found.forward) < 3.0
    assert fs.gof_test(x, s, rng=0).reject()


def test_columns_that_do_not_vary_explain_nothing():
    rng = np.random.default_rng(4)
    x, s = rng.standard_normal((2, 400, 3))
    wide = np.zeros((400, 7))
    first, second = (
        metrics.information(x, s),
        metrics.information(*(np.concatenate([one, wide], axis=1) for one in (x, s))),
    )
    there = second.backward[:3] @ second.backward[:3].T
    np.testing.assert_allclose(there, first.backward @ first.backward.T, atol=0.02)


def test_few_samples_have_fewer_folds():
    assert [len(covariances.pair_folds(n)) for n in (9, 12, 15, 1000)] == [3, 4, 5, 5]


def test_a_singular_covariance_has_a_metric():
    x = RNG.standard_normal((60, 4))
    x[:, 3] = x[:, 2]
    learnt = (metrics.full, metrics.information)
    for found in [learn(y, -y) for learn in learnt for y in (x, x[:3])]:
        assert np.all(np.isfinite(found.forward)) and np.all(np.isfinite(found.backward))
        assert np.all(np.isfinite(found.samples(x)))
    constant = metrics.diagonal(np.ones((5, 2)), np.zeros((5, 2)))
    np.testing.assert_array_equal(constant.forward, 1.0)


def test_covariances_are_shrunk_where_samples_are_few():
    assert covariances.shrinkage(1000, 100) == 0.0
    assert 0 < covariances.shrinkage(200, 100) < 0.05 < covariances.shrinkage(100, 100)
    assert covariances.shrinkage(50, 1000) < 1.0


@pytest.mark.parametrize("options", [{}, dict(null="spectral"), dict(n_resamples=199, lag=3)])
def test_units_and_origin_do_not_decide(options):
    model, x = model_and_samples(4, 150, 3)
    units, shift = np.array([1e-6, 1.0, 1e4, 30.0]), np.array([1.0, -1e3, 0.0, 5.0])
    first = fs.gof_test(x, model.score(x), rng=0, **options)
    second = fs.gof_test(x * units + shift, model.score(x) / units, rng=0, **options)
    assert second.pvalue == pytest.approx(first.pvalue, rel=1e-6)
    assert [one.name for one in first.members] == [one.name for one in second.members]


@pytest.mark.parametrize("seed", range(3))
def test_full_preconditioning_is_invariant_under_affine_maps(seed):
    model, x = model_and_samples(3, 120, seed)
    matrix = np.random.default_rng(seed).standard_normal((3, 3)) + 2.0 * np.eye(3)
    scores = model.score(x)
    mapped = x @ matrix.T + 7.0
    results = [
        fs.gof_test(y, s, precondition="full", n_resamples=199, rng=0)
        for y, s in ((x, scores), (mapped, scores @ np.linalg.inv(matrix)))
    ]
    assert results[0].pvalue == results[1].pvalue
    for first, second in zip(*(result.members for result in results), strict=True):
        assert first.statistic == pytest.approx(second.statistic, rel=1e-6, abs=1e-9)


def test_a_matrix_is_a_change_of_coordinates():
    model, x = model_and_samples(3, 100, 5)
    matrix = np.random.default_rng(1).standard_normal((3, 3)) + 2.0 * np.eye(3)
    scores = model.score(x)
    given = fs.gof_test(x, scores, precondition=matrix, n_resamples=99, rng=0)
    mapped = fs.gof_test(
        x @ matrix.T, scores @ np.linalg.inv(matrix), precondition=None, n_resamples=99, rng=0
    )
    assert given.pvalue == mapped.pvalue
    np.testing.assert_allclose(given.evidence, mapped.evidence, rtol=1e-9)


@pytest.mark.parametrize("name", ["diagonal", "full"])
def test_one_set_may_be_preconditioned(name):
    model, x = model_and_samples(3, 200, 6)
    units = np.array([1e-5, 1.0, 1e5])
    options = dict(n_slices=2, precondition=name, n_resamples=99, rng=0)
    for estimator in ("ke", "ge"):
        first = fs.gof_test(x, model, estimator=estimator, **options)
        second = fs.gof_test(
            x * units, lambda y: model.score(y / units) / units, estimator=estimator, **options
        )
        assert first.pvalue == second.pvalue
        np.testing.assert_allclose(
            first.slice_statistics, second.slice_statistics, rtol=1e-4, atol=1e-9
        )
    # Slices are directions in the user's coordinates, and explanations know the units.
    explanation = first.explain()
    np.testing.assert_allclose(explanation.statistics, first.slice_statistics, rtol=1e-9)


X = RNG.standard_normal((40, 3))
BAD = {
    "unknown name": (dict(precondition="white"), "`precondition` must be one of"),
    "wrong shape": (dict(precondition=np.eye(2)), r"`precondition` must have shape \(3, 3\)"),
    "a vector": (dict(precondition=np.ones(3)), r"`precondition` must have shape \(3, 3\)"),
    "singular": (dict(precondition=np.ones((3, 3))), "`precondition` must be an invertible"),
    "zero": (dict(precondition=np.zeros((3, 3))), "`precondition` must be an invertible"),
    "NaN": (dict(precondition=np.full((3, 3), np.nan)), "`precondition` holds NaN"),
    "words": (dict(precondition=[["a"] * 3] * 3), "`precondition` must be a name"),
    "ragged": (dict(precondition=[[1.0], [1.0, 2.0]]), "`precondition` must be a name"),
    "full for given slices": (
        dict(precondition="full", slices=fs.random_slices(3, 2, rng=0)),
        "`precondition` must not be 'full'",
    ),
    "a baseline": (dict(precondition="full", method="ksd"), "`precondition` does not apply"),
    "too few samples": (dict(precondition="full", x=X[:6]), "`precondition` is 'full'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_preconditioners_are_explained(case):
    options, message = BAD[case]
    options = dict(options)
    x = options.pop("x", X)
    with pytest.raises(ValueError, match=message):
        fs.gof_test(x, np.negative, **options)


def test_masked_preconditioners_are_refused():
    with pytest.raises(TypeError, match="`precondition` is a masked array"):
        fs.gof_test(X, np.negative, precondition=np.ma.masked_equal(np.eye(3), 0.0))


@pytest.mark.parametrize("name", ["raw", "diagonal", "full", "auto"])
def test_duplicated_columns_and_few_samples_work(name):
    x = RNG.standard_normal((60, 4))
    x[:, 3] = x[:, 2]
    assert 0 < fs.gof_test(x, np.negative, precondition=name, n_resamples=49, rng=0).pvalue <= 1
    wide = RNG.standard_normal((20, 50))
    assert 0 < fs.gof_test(wide, np.negative, precondition=name, n_resamples=49, rng=0).pvalue <= 1


@pytest.mark.parametrize("rate", [1.0, 0.1])
@pytest.mark.parametrize("columns", [[0, 1], [1]], ids=["all", "one"])
def test_a_constant_score_sets_no_unit(rate, columns):
    x = np.random.default_rng(3).exponential(1.0 / rate, (200, 2))
    s = -x
    s[:, columns] = -rate  # 0.1 has a deviation that is not zero, by rounding
    assert np.all(metrics.diagonal(x, s).forward[columns] == 1.0)
    np.testing.assert_allclose(np.diagonal(metrics.full(x, s).forward)[columns], 1.0, rtol=0.2)
    assert fs.gof_test(x, s, rng=0, n_resamples=199).reject()


def test_a_basis_is_in_the_users_coordinates():
    units = np.array([1.0, 100.0, 0.01])
    basis = np.array([[1.0, 1.0, 0.0]]) / np.sqrt(2.0)
    x = RNG.standard_normal((200, 3)) * units
    for name in ("diagonal", "full", np.diag([1.0, 0.1, 3.0])):
        options = dict(precondition=name, n_resamples=19, rng=0)
        result = fs.gof_test(x, lambda x: -x / units**2, basis=basis, **options)
        np.testing.assert_allclose(result.slices.r, basis, atol=1e-8)


@pytest.mark.parametrize("score", [np.zeros_like, np.ones_like])
@pytest.mark.parametrize("null", ["wild", "spectral"])
def test_scores_that_do_not_vary_have_a_verdict(score, null):
    assert fs.gof_test(X, score(X), null=null, rng=0).reject()


def test_a_chain_that_is_stuck_is_tested():
    x = RNG.standard_normal((150, 2))
    x[:55] = x[0]
    assert 0 < fs.gof_test(x, -x, lag=3, n_resamples=99, rng=0).pvalue <= 1


def test_a_far_origin_costs_no_digits():
    result = fs.gof_test(X + 1e12, lambda x: -(x - 1e12), n_resamples=99, rng=0)
    np.testing.assert_allclose(
        result.explain().statistics, result.slice_statistics, rtol=1e-3, atol=1e-6
    )


def test_replicates_that_overflow_are_an_error():
    s = -X.copy()
    s[3, 1] = 1e160
    with pytest.raises(ValueError, match="`score` is beyond"):
        fs.gof_test(X, s, rng=0)
