"""The Gaussian closed forms and the reference loops, each checked by an independent method.

Quadrature where it is exact to many digits (Gauss-Hermite in the space of x, trapezoids along a
line), finite differences for derivatives, Monte Carlo with its standard error elsewhere.
"""

import math

import gaussian
import numpy as np
import pytest
import reference
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

SEEDS = [0, 1, 2]


def setting(seed, d):
    """A random pair, a random unit r and a random unit g."""
    rng = np.random.default_rng(seed)
    pair = gaussian.random_pair(rng, d)
    r, g = gaussian.random_units(rng, 2, d)
    return pair, r, g, rng


def difference_quotient(function, y, step=1e-5):
    """Central differences of a scalar or vector function: one row for each coordinate of y."""
    return np.array(
        [(function(y + step * e) - function(y - step * e)) / (2 * step) for e in np.eye(len(y))]
    )


def within(estimates, expected, n_errors=5):
    """The mean over the first axis is within n_errors standard errors of the expected value."""
    estimates = np.asarray(estimates)
    error = estimates.std(axis=0, ddof=1) / math.sqrt(len(estimates))
    return np.all(np.abs(estimates.mean(axis=0) - expected) <= n_errors * error)


# The score difference and its moments -------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_scores_are_gradients_of_the_log_density(seed):
    pair, _, _, rng = setting(seed, 3)
    x = rng.standard_normal(3)
    for score, mean, cov in [
        (pair.score_p, pair.mu_p, pair.C_p),
        (pair.score_q, pair.mu_q, pair.C_q),
    ]:
        assert_allclose(
            score(x),
            difference_quotient(multivariate_normal(mean, cov).logpdf, x),
            rtol=1e-6,
            atol=1e-8,
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_score_difference_is_affine(seed):
    pair, _, _, rng = setting(seed, 4)
    x = rng.standard_normal((6, 4))
    f = pair.score_p(x) - pair.score_q(x)
    assert_allclose(f, x @ pair.A.T + pair.c, atol=1e-12)
    assert_allclose(pair.A, pair.A.T, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_moments_of_the_score_difference(seed):
    pair, r, _, _ = setting(seed, 3)
    x, weights = gaussian.hermite_grid(pair.mu_q, pair.C_q, 4)
    f = pair.score_p(x) - pair.score_q(x)
    assert_allclose(pair.mean_f, weights @ f, atol=1e-12)
    assert_allclose(pair.S(), np.einsum("n,ni,nj->ij", weights, f, f), atol=1e-12)
    assert_allclose(pair.psd_r(r), weights @ (f @ r) ** 2, rtol=1e-12)
    assert_allclose(pair.psd(), weights @ np.sum(f**2, axis=1), rtol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_gradient_matrix_has_rank_one(seed):
    pair, r, _, rng = setting(seed, 3)
    gradient = difference_quotient(
        lambda y: r @ (pair.score_p(y) - pair.score_q(y)), rng.standard_normal(3)
    )
    assert_allclose(pair.H(r), np.outer(gradient, gradient), rtol=1e-6, atol=1e-8)
    assert np.linalg.matrix_rank(pair.H(r), tol=1e-10) == 1


# One slice ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_optimal_test_function_is_the_conditional_mean(seed):
    """At d = 2 the conditional mean is a ratio of two integrals along the line x.g = y."""
    pair, r, g, _ = setting(seed, 2)
    alpha, beta, ybar, v = pair.optimal_test_function(r, g)
    density = multivariate_normal(pair.mu_q, pair.C_q).pdf
    across = np.linspace(-15, 15, 3001)[:, None] * gaussian.complement(g)
    for y in ybar + np.sqrt(v) * np.array([-2.0, 0.3, 1.5]):
        line = y * g + across
        q = density(line)
        f_r = (pair.score_p(line) - pair.score_q(line)) @ r
        assert_allclose(alpha + beta * (y - ybar), (q @ f_r) / q.sum(), rtol=1e-10)


@pytest.mark.parametrize("seed", SEEDS)
def test_ssd(seed):
    pair, r, g, _ = setting(seed, 3)
    alpha, beta, ybar, _ = pair.optimal_test_function(r, g)
    x, weights = gaussian.hermite_grid(pair.mu_q, pair.C_q, 4)
    assert_allclose(pair.ssd(r, g), weights @ (alpha + beta * (x @ g - ybar)) ** 2, rtol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("h", [1.0, 2.5])
def test_sksd_is_the_mean_of_the_stein_term(seed, h):
    """The closed form uses f and h*; the Stein term uses only s_p and k.

    Quadrature over x and x', d = 2.
    """
    pair, r, g, _ = setting(seed, 2)
    x, weights = gaussian.hermite_grid(pair.mu_q, pair.C_q, 30)
    points = np.column_stack([pair.score_p(x) @ r, x @ g])
    mu = gaussian.stein_terms(points, points, r @ g, "rbf", h)
    assert_allclose(pair.sksd(r, g, h), weights @ mu @ weights, rtol=1e-8)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kernel, order, rtol", [("rbf", 30, 1e-8), ("imq", 40, 1e-4)])
def test_sksd_for_any_kernel(seed, kernel, order, rtol):
    pair, r, g, _ = setting(seed, 3)
    h = 1.7
    value = pair.sksd_for(r, g, np.vectorize(lambda t: reference.KERNELS[kernel](t, h)[0]))
    mu, weights = gaussian.stein_quadrature(pair, r, g, kernel, h, order)
    assert_allclose(value, weights @ mu @ weights, rtol=rtol)
    if kernel == "rbf":
        assert_allclose(value, pair.sksd(r, g, h), rtol=1e-10)


@pytest.mark.parametrize("seed", SEEDS)
def test_projected_moments(seed):
    pair, r, g, _ = setting(seed, 3)
    x, weights = gaussian.hermite_grid(pair.mu_q, pair.C_q, 4)
    points = np.column_stack([pair.score_p(x) @ r, x @ g])
    mean, cov = pair.projected(r, g)
    assert_allclose(mean, weights @ points, atol=1e-12)
    assert_allclose(
        cov, np.einsum("n,ni,nj->ij", weights, points - mean, points - mean), atol=1e-12
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_witness_variance(seed):
    pair, r, g, _ = setting(seed, 3)
    variance, mean = pair.witness_variance(r, g, 1.5)
    mu, weights = gaussian.stein_quadrature(pair, r, g, "rbf", 1.5, 30)
    witness = mu @ weights
    assert_allclose(mean, pair.sksd(r, g, 1.5), rtol=1e-9)
    assert_allclose(variance, weights @ (witness - mean) ** 2, rtol=1e-7)


@pytest.mark.parametrize("kernel", ["rbf", "imq"])
def test_vectorised_stein_term_matches_the_loop(kernel):
    pair, r, g, rng = setting(3, 3)
    x = pair.sample(7, rng)
    score = pair.score_p(x)
    points = np.column_stack([score @ r, x @ g])
    expected = reference.stein_matrix(x, score, r, g, kernel, 0.8)
    assert_allclose(
        gaussian.stein_terms(points, points, r @ g, kernel, 0.8), expected, rtol=1e-12, atol=1e-12
    )


def test_spectrum_has_the_moments_of_the_stein_kernel():
    """At p = q, sum c_j = E mu(x, x) in closed form; sum c_j^2 = E mu(x, x')^2 by Monte Carlo."""
    rng = np.random.default_rng(4)
    C, mu = gaussian.random_covariance(rng, 3), rng.standard_normal(3)
    same = gaussian.Pair(mu, C, mu, C)
    r, g = gaussian.random_units(rng, 2, 3)
    spectrum = gaussian.stein_spectrum(same, r, g, "rbf", 1.4)
    # mu(x, x) = s^2 k(0) - a^2 k''(0) = s^2 + a^2 / h^2, and E s^2 = r.P.r
    assert_allclose(spectrum.sum(), r @ np.linalg.solve(C, r) + (r @ g) ** 2 / 1.4**2, rtol=1e-9)
    x, other = same.sample(400_000, rng), same.sample(400_000, rng)
    t = (x - other) @ g
    k = np.exp(-(t**2) / (2 * 1.4**2))
    s, s_other, a = same.score_p(x) @ r, same.score_p(other) @ r, r @ g
    terms = (
        s * s_other * k
        - a * (s_other - s) * t / 1.4**2 * k
        - a**2 * (t**2 / 1.4**4 - 1 / 1.4**2) * k
    )
    assert within(terms**2, np.sum(spectrum**2))
    assert spectrum[-1] > -1e-10


# Poincare constants -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("d", [2, 4])
def test_complement_completes_an_orthogonal_matrix(seed, d):
    _, _, g, _ = setting(seed, d)
    for unit in [g, -np.eye(d)[-1]]:
        whole = np.vstack([gaussian.complement(unit), unit])
        assert_allclose(whole @ whole.T, np.eye(d), atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_conditional_covariance_inverts_a_block_of_the_precision(seed):
    pair, _, g, _ = setting(seed, 4)
    rest = gaussian.complement(g)
    block = rest @ np.linalg.inv(pair.C_q) @ rest.T
    assert_allclose(pair.conditional_covariance(g), np.linalg.inv(block), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_poincare_constant_bounds_variances_and_is_attained(seed):
    pair, _, g, rng = setting(seed, 3)
    cov = pair.conditional_covariance(g)
    u, weights = gaussian.hermite_grid(np.zeros(2), cov, 40)

    def ratio(function, gradient):
        values = function(u)
        variance = weights @ values**2 - (weights @ values) ** 2
        return variance / (weights @ np.sum(gradient(u) ** 2, axis=1))

    constant = pair.poincare(g)
    assert constant <= pair.poincare_bound() * (1 + 1e-12)
    for w in rng.standard_normal((5, 2)):
        assert (
            ratio(lambda u, w=w: np.sin(u @ w + 1), lambda u, w=w: np.cos(u @ w + 1)[:, None] * w)
            <= constant
        )
        assert (
            ratio(lambda u, w=w: (u @ w) ** 3, lambda u, w=w: 3 * ((u @ w) ** 2)[:, None] * w)
            <= constant
        )
    top = np.linalg.eigh(cov)[1][:, -1]
    assert_allclose(
        ratio(lambda u: u @ top, lambda u: np.tile(top, (len(u), 1))), constant, rtol=1e-10
    )


# Population values of the kernel-smoothed estimator -----------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("width", [1.0, 2.0])
def test_smoothed_score_difference(seed, width):
    pair, r, _, rng = setting(seed, 2)
    x, weights = gaussian.hermite_grid(pair.mu_q, pair.C_q, 40)
    f = pair.score_p(x) - pair.score_q(x)
    for y in rng.standard_normal((3, 2)):
        k = np.exp(-np.sum((x - y) ** 2, axis=1) / (2 * width**2))
        assert_allclose(pair.smoothed_f(y, width), (weights * k) @ f, rtol=1e-8, atol=1e-10)
        # Stein's identity: the same from s_p and the kernel's gradient, which is what the estimator
        # averages
        stein = pair.score_p(x) - (x - y) / width**2
        assert_allclose(pair.smoothed_f(y, width), (weights * k) @ stein, rtol=1e-7, atol=1e-8)
        gradient = difference_quotient(lambda y: pair.smoothed_f(y, width) @ r, y)
        assert_allclose(pair.smoothed_gradient(y, r, width), gradient, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("width", [1.0, 2.0])
def test_smoothed_matrices(seed, width):
    pair, r, _, _ = setting(seed, 3)
    y, weights = gaussian.hermite_grid(pair.mu_q, pair.C_q, 24)
    f, gradient = pair.smoothed_f(y, width), pair.smoothed_gradient(y, r, width)
    assert_allclose(
        pair.smoothed_S(width), np.einsum("n,ni,nj->ij", weights, f, f), rtol=1e-5, atol=1e-8
    )
    expected = np.einsum("n,ni,nj->ij", weights, gradient, gradient)
    assert_allclose(pair.smoothed_H(r, width), expected, rtol=1e-4, atol=1e-6)
    assert np.linalg.matrix_rank(pair.smoothed_H(r, width), tol=1e-8) == 3


# The reference loops ------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["rbf", "imq"])
@pytest.mark.parametrize("h", [0.6, 2.0])
def test_kernel_derivatives(kernel, h):
    function = reference.KERNELS[kernel]
    assert function(0.0, h)[0] == 1.0
    for t in [-2.1, -0.4, 0.0, 0.9, 3.0]:
        for order in range(3):
            quotient = (function(t + 1e-5, h)[order] - function(t - 1e-5, h)[order]) / 2e-5
            assert_allclose(function(t, h)[order + 1], quotient, rtol=1e-6, atol=1e-7)


def test_kernel_values():
    """Half-values in closed form: the RBF halves at h sqrt(2 log 2), the IMQ at h sqrt(3)."""
    assert_allclose(reference.rbf(0.7 * math.sqrt(2 * math.log(2)), 0.7)[0], 0.5, rtol=1e-14)
    assert_allclose(reference.imq(0.7 * math.sqrt(3), 0.7)[0], 0.5, rtol=1e-14)
    x, y = np.array([1.0, 2.0, 3.0]), np.array([1.0, 0.0, 2.0])
    for kernel in ["rbf", "imq"]:
        assert_allclose(
            reference.multivariate_kernel(x, y, kernel, 1.3),
            reference.KERNELS[kernel](math.sqrt(5), 1.3)[0],
            rtol=1e-14,
        )


@pytest.mark.parametrize("kernel", ["rbf", "imq"])
def test_stein_term_applies_the_stein_operator_twice(kernel):
    """mu = T_i T_j k with T = s + a d/dy, by finite differences of the kernel alone."""
    pair, r, g, rng = setting(5, 3)
    x_i, x_j = pair.sample(2, rng)
    s_i, s_j = pair.score_p(x_i) @ r, pair.score_p(x_j) @ r

    def kernel_at(u, w):
        return reference.KERNELS[kernel](x_i @ g + u - x_j @ g - w, 0.9)[0]

    e = 1e-4
    by_first = (kernel_at(e, 0) - kernel_at(-e, 0)) / (2 * e)
    by_second = (kernel_at(0, e) - kernel_at(0, -e)) / (2 * e)
    by_both = (kernel_at(e, e) - kernel_at(e, -e) - kernel_at(-e, e) + kernel_at(-e, -e)) / (
        4 * e * e
    )
    a = r @ g
    expected = (
        s_i * s_j * kernel_at(0, 0) + a * s_j * by_first + a * s_i * by_second + a * a * by_both
    )
    value = reference.stein_term(x_i, x_j, pair.score_p(x_i), pair.score_p(x_j), r, g, kernel, 0.9)
    assert_allclose(value, expected, rtol=1e-6)


@pytest.mark.parametrize("kernel", ["rbf", "imq"])
def test_ksd_term_applies_the_stein_operator_twice(kernel):
    pair, _, _, rng = setting(6, 3)
    x_i, x_j = pair.sample(2, rng)
    score_i, score_j = pair.score_p(x_i), pair.score_p(x_j)

    def kernel_at(x, y):
        return reference.multivariate_kernel(x, y, kernel, 1.1)

    by_first = difference_quotient(lambda x: kernel_at(x, x_j), x_i)
    by_second = difference_quotient(lambda y: kernel_at(x_i, y), x_j)
    both = difference_quotient(
        lambda x: difference_quotient(lambda y: kernel_at(x, y), x_j, 1e-4), x_i, 1e-4
    )
    expected = (
        score_i @ score_j * kernel_at(x_i, x_j)
        + score_i @ by_second
        + score_j @ by_first
        + np.trace(both)
    )
    assert_allclose(
        reference.ksd_term(x_i, x_j, score_i, score_j, kernel, 1.1), expected, rtol=1e-6
    )
    assert_allclose(
        reference.multivariate_gradient(x_i, x_j, kernel, 1.1), by_first, rtol=1e-6, atol=1e-9
    )


@pytest.mark.parametrize("kernel", ["rbf", "imq"])
def test_one_dimension_needs_no_slices(kernel):
    """At d = 1 with r = g = 1 the sliced discrepancy is the KSD."""
    rng = np.random.default_rng(7)
    x, score, one = rng.standard_normal((6, 1)), rng.standard_normal((6, 1)), np.ones((1, 1))
    for statistic in ["u", "v"]:
        value = reference.sksd(x, score, one, one, kernel, 0.7, statistic)
        assert_allclose(value, reference.ksd(x, score, kernel, 0.7, statistic), rtol=1e-12)


def test_statistics_of_a_small_matrix():
    matrix = np.array([[1.0, 2.0, 4.0], [2.0, 8.0, 16.0], [4.0, 16.0, 32.0]])
    assert_allclose(reference.u_statistic(matrix), 44 / 6)
    assert_allclose(reference.v_statistic(matrix), 85 / 9)
    assert_allclose(
        reference.bootstrap_replicate(matrix, [1.0, -2.0, 0.5]), 2 * (-4.0 + 2.0 - 16.0)
    )
    assert reference.median_distance(np.array([0.0, 1.0, 3.0])) == 2.0
    assert reference.median_distance(np.array([[0.0, 0.0], [3.0, 4.0]])) == 5.0
    assert reference.median_distance(np.array([0.0, 1.0, 3.0, 7.0])) == 3.5


def test_smoothed_loops_against_finite_differences():
    pair, r, _, rng = setting(8, 3)
    x = pair.sample(6, rng)
    score, y = pair.score_p(x), rng.standard_normal(3)
    kernel_sum = sum(
        score[i] * reference.multivariate_kernel(x[i], y, "rbf", 1.4) for i in range(6)
    )
    kernel_sum += sum(
        difference_quotient(lambda u: reference.multivariate_kernel(u, y, "rbf", 1.4), x[i])
        for i in range(6)
    )
    assert_allclose(reference.ke_difference(x, score, y, 1.4), kernel_sum / 6, rtol=1e-6, atol=1e-9)
    gradient = difference_quotient(lambda u: r @ reference.ke_difference(x, score, u, 1.4), y)
    assert_allclose(reference.ke_gradient(x, score, y, r, 1.4), gradient, rtol=1e-6, atol=1e-9)


def test_smoothed_estimate_converges_to_its_population_value():
    pair, r, _, rng = setting(9, 2)
    x = pair.sample(4000, rng)
    score, y = pair.score_p(x), np.array([0.3, -0.4])
    terms = np.array([reference.ke_terms(x[i], score[i], y, 1.5) for i in range(len(x))])
    assert within(terms, pair.smoothed_f(y, 1.5))
    terms = np.array(
        [reference.ke_gradient_terms(x[i], score[i], y, r, 1.5) for i in range(len(x))]
    )
    assert within(terms, pair.smoothed_gradient(y, r, 1.5))


def test_unbiased_matrices_are_unbiased_and_the_plain_ones_are_not():
    """Means over 400 data sets of 6 samples against the population matrices."""
    pair, r, _, rng = setting(10, 2)
    draws = {"S": [], "H": [], "plain S": [], "plain H": []}
    for _ in range(400):
        x = pair.sample(6, rng)
        score = pair.score_p(x)
        draws["S"].append(reference.unbiased_S(x, score, 1.5))
        draws["H"].append(reference.unbiased_H(x, score, r, 1.5))
        draws["plain S"].append(reference.ke_S(x, score, 1.5))
        draws["plain H"].append(reference.ke_H(x, score, r, 1.5))
    S, H = pair.smoothed_S(1.5), pair.smoothed_H(r, 1.5)
    assert within(draws["S"], S) and within(draws["H"], H)
    assert not within(draws["plain S"], S) and not within(draws["plain H"], H)
    assert np.trace(np.mean(draws["plain S"], axis=0)) > np.trace(S)
    assert_allclose(draws["S"][0], draws["S"][0].T, atol=1e-12)


def test_matrices_of_second_order_are_unbiased():
    """Means over 400 data sets of 5 samples; where p = q they vanish."""
    pair, r, _, rng = setting(14, 2)
    draws = {"M": [], "G": [], "plain M": []}
    for _ in range(400):
        x = pair.sample(5, rng)
        score = pair.score_p(x)
        draws["M"].append(reference.ksd_M(x, score, 1.5))
        draws["G"].append(reference.ksd_G(x, score, r, 1.5))
        draws["plain M"].append(reference.ksd_M(x, score, 1.5, unbiased=False))
    assert within(draws["M"], pair.kernel_M(1.5)) and within(draws["G"], pair.kernel_G(r, 1.5))
    assert not within(draws["plain M"], pair.kernel_M(1.5))
    same = gaussian.Pair(pair.mu_q, pair.C_q, pair.mu_q, pair.C_q)
    assert_allclose(same.kernel_M(1.5), 0, atol=1e-12)
    draws = [
        reference.ksd_G(x, same.score_p(x), r, 1.5)
        for x in (same.sample(5, rng) for _ in range(400))
    ]
    assert within(draws, np.zeros((2, 2)))


def test_unbiased_matrices_leave_out_what_they_should():
    """The plain matrix minus its terms with i = j, i' = j or i = i', counted one by one."""
    pair, _, _, rng = setting(11, 2)
    x = pair.sample(5, rng)
    score, n = pair.score_p(x), 5

    def a(i, j):
        return reference.ke_terms(x[i], score[i], x[j], 1.2)

    total = n**3 * reference.ke_S(x, score, 1.2)
    for j in range(n):
        for i in range(n):
            total -= np.outer(a(i, j), a(i, j))
            if i != j:
                total -= np.outer(a(i, j), a(j, j)) + np.outer(a(j, j), a(i, j))
    assert_allclose(
        reference.unbiased_S(x, score, 1.2), total / (n * (n - 1) * (n - 2)), atol=1e-12
    )


def test_gradient_estimator_extends_its_values_at_the_samples():
    pair, r, _, rng = setting(12, 3)
    x = pair.sample(9, rng)
    scores = reference.ge_scores(x, 1.3, 0.1)
    for i in range(9):
        assert_allclose(
            reference.ge_score(x, scores, x[i], 1.3, 0.1), scores[i], rtol=1e-9, atol=1e-10
        )
    y = rng.standard_normal(3)
    gradient = difference_quotient(lambda u: r @ reference.ge_score(x, scores, u, 1.3, 0.1), y)
    assert_allclose(
        reference.ge_gradient(x, scores, y, r, 1.3, 0.1), gradient, rtol=1e-6, atol=1e-7
    )


def test_gradient_estimator_estimates_the_score():
    """Standard normal, s_q(x) = -x.

    Near the centre the regularised estimate is close, and its sign is never wrong.
    """
    x = np.random.default_rng(13).standard_normal((150, 1))
    scores = reference.ge_scores(x, 1.0, 0.1)
    middle = np.abs(x[:, 0]) < 1.5
    assert np.sqrt(np.mean((scores[middle] + x[middle]) ** 2)) < 0.3
