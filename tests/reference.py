"""Slow loops straight from the equations, against which every fast path is compared.

Imports nothing but numpy and math, and shares no code with the package. Samples `x` and scores are
(n, d) arrays, `r` and `g` vectors of length d, `h` the width of a one-dimensional kernel, `width`
that of a multivariate one.
"""

import math

import numpy as np

# One-dimensional kernels --------------------------------------------------------------------------


def rbf(t, h):
    """k(t) = exp(-t^2 / (2 h^2)) and its first three derivatives in t."""
    k = math.exp(-(t**2) / (2 * h**2))
    return k, -t / h**2 * k, (t**2 / h**4 - 1 / h**2) * k, (3 * t / h**4 - t**3 / h**6) * k


def imq(t, h):
    """k(t) = (1 + t^2 / h^2)^(-1/2) and its first three derivatives in t."""
    base = 1 + t**2 / h**2
    first = -t / h**2 * base**-1.5
    second = -(base**-1.5) / h**2 + 3 * t**2 / h**4 * base**-2.5
    third = 9 * t / h**4 * base**-2.5 - 15 * t**3 / h**6 * base**-3.5
    return base**-0.5, first, second, third


KERNELS = {"rbf": rbf, "imq": imq}


def median_distance(x):
    """Median of |x_i - x_j| over i < j; `x` of shape (n,) or (n, d)."""
    x = np.asarray(x, dtype=float)
    return float(
        np.median(
            [np.linalg.norm(x[i] - x[j]) for i in range(len(x)) for j in range(i + 1, len(x))]
        )
    )


# Sliced discrepancy -------------------------------------------------------------------------------


def stein_term(x_i, x_j, score_i, score_j, r, g, kernel, h):
    """mu(x_i, x_j) of one slice, Eq. "SKSD inner", with the kernel k(y_i, y_j) = k(y_i - y_j)."""
    k, k1, k2, _ = KERNELS[kernel](float(x_i @ g - x_j @ g), h)
    by_first, by_second, by_both = k1, -k1, -k2
    s_i, s_j, a = float(score_i @ r), float(score_j @ r), float(r @ g)
    return s_i * k * s_j + a * s_j * by_first + a * s_i * by_second + a**2 * by_both


def stein_matrix(x, score, r, g, kernel, h):
    """All mu(x_i, x_j) of one slice, diagonal included."""
    n = len(x)
    matrix = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            matrix[i, j] = stein_term(x[i], x[j], score[i], score[j], r, g, kernel, h)
    return matrix


def u_statistic(matrix):
    """Mean of the entries with i != j."""
    n = len(matrix)
    return sum(matrix[i, j] for i in range(n) for j in range(n) if i != j) / (n * (n - 1))


def v_statistic(matrix):
    """Mean of all entries."""
    n = len(matrix)
    return sum(matrix[i, j] for i in range(n) for j in range(n)) / n**2


STATISTICS = {"u": u_statistic, "v": v_statistic}


def sksd_per_slice(x, score, r, g, kernel, h, statistic):
    """One statistic for each row of `r` and `g`; `h` is a number, one per slice, or "median"."""
    values = []
    for q in range(len(r)):
        width = median_distance(x @ g[q]) if isinstance(h, str) else np.broadcast_to(h, len(r))[q]
        values.append(
            STATISTICS[statistic](stein_matrix(x, score, r[q], g[q], kernel, float(width)))
        )
    return np.array(values)


def sksd(x, score, r, g, kernel, h, statistic):
    """The sum of the statistics of all slices."""
    return float(sum(sksd_per_slice(x, score, r, g, kernel, h, statistic)))


def sksd_gradients(x, score, r, g, kernel, h, statistic):
    """Gradients of one slice's statistic in the scores (n, d), in g and in r (d,), term by term.

    The width `h` is held constant.
    """
    n, d = x.shape
    by_score, by_g, by_r = np.zeros((n, d)), np.zeros(d), np.zeros(d)
    a = float(r @ g)
    for i in range(n):
        for j in range(n):
            if i == j and statistic == "u":
                continue
            k, k1, k2, k3 = KERNELS[kernel](float(x[i] @ g - x[j] @ g), h)
            s_i, s_j = float(score[i] @ r), float(score[j] @ r)
            by_a = s_j * k1 - s_i * k1 - 2 * a * k2
            by_t = s_i * s_j * k1 + a * (s_j - s_i) * k2 - a**2 * k3
            by_score[i] += (s_j * k - a * k1) * r
            by_score[j] += (s_i * k + a * k1) * r
            by_g += by_t * (x[i] - x[j]) + by_a * r
            by_r += (s_j * k - a * k1) * score[i] + (s_i * k + a * k1) * score[j] + by_a * g
    pairs = n * (n - 1) if statistic == "u" else n**2
    return by_score / pairs, by_g / pairs, by_r / pairs


def witness(x, score, r, g, kernel, h, point):
    """mean over i of s_i k(y_i, y) + a dk/dy_i (y_i, y) at y = `point`."""
    total = 0.0
    for i in range(len(x)):
        k, k1, _, _ = KERNELS[kernel](float(x[i] @ g) - point, h)
        total += float(score[i] @ r) * k + float(r @ g) * k1
    return total / len(x)


def contributions(matrix):
    """Mean of mu_ij over j != i for each i."""
    n = len(matrix)
    return np.array([sum(matrix[i, j] for j in range(n) if j != i) / (n - 1) for i in range(n)])


def holm(pvalues):
    """Holm's adjusted p-values by their definition.

    Over the sorted p-values, the largest so far of (number left) times the p-value.
    """
    order = sorted(range(len(pvalues)), key=lambda k: pvalues[k])
    adjusted, largest = [0.0] * len(pvalues), 0.0
    for rank, k in enumerate(order):
        largest = max(largest, (len(pvalues) - rank) * pvalues[k])
        adjusted[k] = min(1.0, largest)
    return np.array(adjusted)


def bootstrap_replicate(matrix, weights):
    """Sum over i != j of w_i w_j mu_ij.

    The weights of the bootstrap of Algorithm 2 are counts/n - 1/n.
    """
    n = len(matrix)
    return sum(weights[i] * weights[j] * matrix[i, j] for i in range(n) for j in range(n) if i != j)


# Kernelized Stein discrepancy, without slices -----------------------------------------------------


def multivariate_kernel(x, y, kernel, width):
    """k(x, y) = exp(-|x-y|^2 / (2 width^2)) or (1 + |x-y|^2 / width^2)^(-1/2)."""
    square = float((x - y) @ (x - y)) / width**2
    return math.exp(-square / 2) if kernel == "rbf" else (1 + square) ** -0.5


def multivariate_gradient(x, y, kernel, width):
    """Gradient of k(x, y) in x; the one in y is its negative."""
    k = multivariate_kernel(x, y, kernel, width)
    return -(x - y) / width**2 * (k if kernel == "rbf" else k**3)


def ksd_term(x_i, x_j, score_i, score_j, kernel, width):
    """u_p(x_i, x_j), Appendix "Stein Discrepancy"."""
    d = len(x_i)
    k = multivariate_kernel(x_i, x_j, kernel, width)
    by_first = multivariate_gradient(x_i, x_j, kernel, width)
    by_second = -by_first
    square = float((x_i - x_j) @ (x_i - x_j))
    if kernel == "rbf":
        trace = (d / width**2 - square / width**4) * k
    else:
        trace = d / width**2 * k**3 - 3 * square / width**4 * k**5
    return float(score_i @ score_j * k + score_i @ by_second + score_j @ by_first + trace)


def ksd_matrix(x, score, kernel, width):
    """All u_p(x_i, x_j), diagonal included."""
    n = len(x)
    matrix = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            matrix[i, j] = ksd_term(x[i], x[j], score[i], score[j], kernel, width)
    return matrix


def ksd(x, score, kernel, width, statistic):
    """KSD; `width` is a number or "median"."""
    width = median_distance(x) if isinstance(width, str) else width
    return STATISTICS[statistic](ksd_matrix(x, score, kernel, width))


# Score difference, kernel-smoothed (KE), RBF of the given width -----------------------------------


def ke_terms(x_i, score_i, y, width):
    """a = (s_p(x_i) - (x_i - y)/H^2) k(x_i, y): what one sample adds to n f(y)."""
    return (score_i - (x_i - y) / width**2) * multivariate_kernel(x_i, y, "rbf", width)


def ke_gradient_terms(x_i, score_i, y, r, width):
    """b = c (x_i - y)/H^2 + k(x_i, y) r/H^2, c = a.r: what one sample adds to n J(y)^T r."""
    c = float(ke_terms(x_i, score_i, y, width) @ r)
    return c * (x_i - y) / width**2 + multivariate_kernel(x_i, y, "rbf", width) * r / width**2


def ke_difference(x, score, y, width):
    """f(y) at one point `y`, Eq. "kernel smooth"."""
    return sum(ke_terms(x[i], score[i], y, width) for i in range(len(x))) / len(x)


def ke_gradient(x, score, y, r, width):
    """J(y)^T r, the gradient of r.f at one point `y`."""
    return sum(ke_gradient_terms(x[i], score[i], y, r, width) for i in range(len(x))) / len(x)


def ke_S(x, score, width):
    """S = mean of f f^T over the samples, the paper's estimate."""
    rows = [ke_difference(x, score, y, width) for y in x]
    return sum(np.outer(f, f) for f in rows) / len(x)


def ke_H(x, score, r, width):
    """H_r = mean of (J^T r)(J^T r)^T over the samples, the paper's estimate."""
    rows = [ke_gradient(x, score, y, r, width) for y in x]
    return sum(np.outer(b, b) for b in rows) / len(x)


def _distinct_mean(term, n):
    """Mean of term(i, j) term(i', j)^T over distinct i, i', j."""
    total = 0.0
    for j in range(n):
        for i in range(n):
            for other in range(n):
                if i != j and other != j and i != other:
                    total = total + np.outer(term(i, j), term(other, j))
    return total / (n * (n - 1) * (n - 2))


def unbiased_S(x, score, width):
    """S without the terms of a sample with itself: unbiased for E[f f^T] of the smoothed f."""
    return _distinct_mean(lambda i, j: ke_terms(x[i], score[i], x[j], width), len(x))


def unbiased_H(x, score, r, width):
    """H_r without the terms in which a sample meets itself."""
    return _distinct_mean(lambda i, j: ke_gradient_terms(x[i], score[i], x[j], r, width), len(x))


# Matrices of second order ("ksd"), RBF of the given width -----------------------------------------


def ksd_M_term(x_i, x_j, score_i, score_j, width):
    """Matrix whose trace is the KSD term.

    It is ``s_i s_j^T k + s_i (grad_j k)^T + (grad_i k) s_j^T + grad_i grad_j^T k``.
    """
    e = x_i - x_j
    k = np.exp(-e @ e / (2 * width**2))
    second = np.eye(len(e)) / width**2 - np.outer(e, e) / width**4
    return k * (
        np.outer(score_i, score_j)
        + np.outer(score_i, e) / width**2
        - np.outer(e, score_j) / width**2
        + second
    )


def ksd_G_term(x_i, x_j, score_i, score_j, r, width):
    """(s_i.r + d_r)(s_j.r + d'_r) applied to grad_i grad_j^T k.

    The latter is minus the second derivatives of k in e = x_i - x_j, and d' = -d.
    """
    e, p = x_i - x_j, width**-2.0
    t, s, s_other, eye = e @ r, score_i @ r, score_j @ r, np.eye(len(e))
    k = np.exp(-p * (e @ e) / 2)
    mixed = np.outer(e, r) + np.outer(r, e)
    second = k * (p**2 * np.outer(e, e) - p * eye)
    third = k * (-(p**3) * t * np.outer(e, e) + p**2 * (mixed + t * eye))
    fourth = k * (
        p**4 * t**2 * np.outer(e, e)
        - p**3 * (np.outer(e, e) + 2 * t * mixed + t**2 * eye)
        + p**2 * (eye + 2 * np.outer(r, r))
    )
    return -(s * s_other * second + (s_other - s) * third - fourth)


def pair_mean(term, n, unbiased):
    """Mean of term(i, j) over pairs, those with i = j left out for the unbiased one."""
    total = sum(term(i, j) for i in range(n) for j in range(n) if i != j or not unbiased)
    return total / (n * (n - 1) if unbiased else n**2)


def ksd_M(x, score, width, unbiased=True):
    """E f(x) k(x, x') f(x')^T."""
    return pair_mean(
        lambda i, j: ksd_M_term(x[i], x[j], score[i], score[j], width), len(x), unbiased
    )


def ksd_G(x, score, r, width, unbiased=True):
    """E f_r(x) f_r(x') grad grad'^T k(x, x')."""
    return pair_mean(
        lambda i, j: ksd_G_term(x[i], x[j], score[i], score[j], r, width), len(x), unbiased
    )


# Score of q by the Stein gradient estimator (GE), RBF of the given width --------------------------


def ge_scores(x, width, eta):
    """s_q at the samples: S_X = -(K + eta I)^(-1) B with B_j = sum_i grad_{x_i} k(x_i, x_j)."""
    n, d = x.shape
    gram = np.empty((n, n))
    b = np.zeros((n, d))
    for j in range(n):
        for i in range(n):
            gram[i, j] = multivariate_kernel(x[i], x[j], "rbf", width)
            b[j] += multivariate_gradient(x[i], x[j], "rbf", width)
    return -np.linalg.solve(gram + eta * np.eye(n), b)


def ge_score(x, scores_q, y, width, eta):
    """s_q(y) = -(b(y) + k(y, X) S_X) / eta at one point `y`; equals S_X at the samples."""
    total = np.zeros(len(y))
    for i in range(len(x)):
        total += multivariate_gradient(x[i], y, "rbf", width)
        total += multivariate_kernel(x[i], y, "rbf", width) * scores_q[i]
    return -total / eta


def ge_gradient(x, scores_q, y, r, width, eta):
    """Gradient of r.s_q at one point `y`: every term of `ge_score`, differentiated in y."""
    total = np.zeros(len(y))
    for i in range(len(x)):
        k = multivariate_kernel(x[i], y, "rbf", width)
        gradient = (x[i] - y) / width**2 * k
        total += r / width**2 * k - float((x[i] - y) @ r) / width**2 * gradient
        total += float(scores_q[i] @ r) * gradient
    return -total / eta


# Baselines ----------------------------------------------------------------------------------------


def rfsd_features(x, score, z, c, gamma, df):
    """Features (s F + grad F) / nu of each sample, (n, M, d).

    ``F = (1 + |x-z|^2/c'^2)^b'``, and nu is a t density around the mean.
    """
    n, d = x.shape
    alpha = gamma / 3
    t = 4 * alpha / (2 + alpha)
    width, power = (1 - alpha / 2) * c / 2, -(d + df) / (2 * t)
    features = np.empty((n, len(z), d))
    for i in range(n):
        for j in range(len(z)):
            base = 1 + sum((x[i] - z[j]) ** 2) / width**2
            density = (1 + sum((z[j] - x.mean(axis=0)) ** 2) / width**2) ** (-(d + df) / 2)
            for k in range(d):
                gradient = power * base ** (power - 1) * 2 * (x[i, k] - z[j, k]) / width**2
                features[i, j, k] = (score[i, k] * base**power + gradient) / density
    return features


def rfsd(features):
    """sum over dimensions of (mean over features of |mean over samples|)^2."""
    n, count, d = features.shape
    total = 0.0
    for k in range(d):
        total += (
            sum(abs(sum(features[i, j, k] for i in range(n)) / n) for j in range(count)) / count
        ) ** 2
    return total


def fssd_features(x, score, locations, kernel, width):
    """(s k + grad k) / sqrt(d J), sample after sample, (n, J d)."""
    rows = []
    for i in range(len(x)):
        parts = [
            score[i] * multivariate_kernel(x[i], v, kernel, width)
            + multivariate_gradient(x[i], v, kernel, width)
            for v in locations
        ]
        rows.append(np.concatenate(parts) / math.sqrt(locations.size))
    return np.array(rows)


def fssd_matrix(x, score, locations, kernel, width):
    """Products of the features of all pairs, whose U-statistic is the estimate of FSSD^2."""
    features = fssd_features(x, score, locations, kernel, width)
    return np.array([[float(a @ b) for b in features] for a in features])


def fssd_criterion(x, score, locations, kernel, width):
    """U / (sigma + 0.01), sigma^2 = 4 mu^T cov mu."""
    features = fssd_features(x, score, locations, kernel, width)
    mean = features.mean(axis=0)
    covariance = sum(np.outer(f - mean, f - mean) for f in features) / len(x)
    return u_statistic(fssd_matrix(x, score, locations, kernel, width)) / (
        2 * math.sqrt(mean @ covariance @ mean) + 0.01
    )


def mmd(x, y, kernel, width, statistic):
    """Mean of k within x plus within y minus twice across; "u" omits pairs (i, i)."""

    def mean(a, b, alike):
        pairs = [
            (i, j)
            for i in range(len(a))
            for j in range(len(b))
            if not (alike and i == j and statistic == "u")
        ]
        return sum(multivariate_kernel(a[i], b[j], kernel, width) for i, j in pairs) / len(pairs)

    return mean(x, x, True) + mean(y, y, True) - 2 * mean(x, y, False)
