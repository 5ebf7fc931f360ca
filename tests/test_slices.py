"""Algorithm 1 against dense eigen-decompositions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastsksd as fs
from fastsksd import models, slices
from fastsksd.score_difference import KernelSmoothed, SteinGradient

SEED = st.integers(0, 2**32 - 1)


def problem(seed, n=60, d=6):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)) * rng.uniform(0.3, 2.0, d)
    return x, -x + np.tanh(x[:, ::-1])


def up_to_sign(a, b):
    return np.abs(np.einsum("md,md->m", a, b))


def dense_h(difference, r, debias):
    return np.stack([difference.sensitivity(r[None], debias)(e[None])[0] for e in np.eye(r.size)])


@given(SEED, st.booleans(), st.integers(1, 6))
def test_active_slices_are_top_eigenvectors(seed, debias, n_slices):
    x, s = problem(seed)
    found = fs.active_slices(x, s, n_slices=n_slices, debias=debias)
    difference = KernelSmoothed(x, s)
    values, vectors = np.linalg.eigh(difference.second_moment(debias))
    np.testing.assert_allclose(found.r_values, values[::-1][:n_slices], rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(found.g, axis=1), 1.0)
    for r, g, value, gap in zip(found.r, found.g, found.g_values, found.g_gaps, strict=True):
        np.testing.assert_allclose(
            r @ difference.second_moment(debias) @ r,
            (vectors.T @ r) ** 2 @ values,
            rtol=1e-6,
            atol=1e-12,
        )
        exact, basis = np.linalg.eigh(dense_h(difference, r, debias))
        np.testing.assert_allclose(value, exact[-1], rtol=1e-8)
        assert abs(gap - (exact[-1] - exact[-2])) <= 0.02 * abs(exact[-1])
        if exact[-1] - exact[-2] > 1e-3 * abs(exact[-1]):
            assert abs(g @ basis[:, -1]) > 1 - 1e-8


@given(SEED, st.booleans(), st.booleans())
def test_far_fewer_samples_than_dimensions_have_the_same_slices(seed, debias, only_r):
    x, s = problem(seed, n=8, d=40)
    x = x + 1e3
    difference = KernelSmoothed(x, s)
    values, vectors = np.linalg.eigh(difference.second_moment(debias))
    if only_r:
        found = slices.active_directions(difference, debias=debias)
    else:
        found = fs.active_slices(x, s, n_slices=4, debias=debias)
    assert found.r.shape[1] == 40 and 4 <= len(found) <= 16
    top = vectors[:, ::-1][:, :4]
    np.testing.assert_allclose(found.r_values[:4], values[::-1][:4], rtol=1e-8)
    np.testing.assert_allclose(np.linalg.norm(found.r[:4] @ top, axis=1), 1.0, rtol=1e-8)


def test_gaps_without_a_second_run_are_rough_upper_estimates():
    x, s = problem(5)
    difference = KernelSmoothed(x, s)
    exact = slices.find_slices(difference, max_steps=6)
    rough = slices.find_slices(difference, max_steps=6, gaps=False)
    for name in ("r", "g", "r_values", "g_values"):
        assert np.array_equal(getattr(rough, name), getattr(exact, name))
    assert np.all(rough.g_gaps >= exact.g_gaps - 0.02 * np.abs(exact.g_values))
    # Six steps in six dimensions find all eigenvalues.
    np.testing.assert_allclose(rough.g_gaps, exact.g_gaps, atol=0.02 * exact.g_values.max())
    few = slices.find_slices(difference, max_steps=3, gaps=False)
    assert np.all(np.isfinite(few.g_gaps)) and np.any(few.g_gaps > 1.05 * exact.g_gaps)


@pytest.mark.parametrize("estimator", ["ke", "ge", "exact"])
def test_fixed_bases(estimator):
    x, _ = problem(0)
    options = {
        "estimator": estimator,
        "score_q": (lambda x: -x / 2) if estimator == "exact" else None,
    }
    whole = fs.active_slices(x, np.negative, basis="identity", **options)
    assert np.array_equal(whole.r, np.eye(6))
    some = fs.active_slices(x, np.negative, basis=np.eye(6)[[4, 1]], **options)
    np.testing.assert_allclose(up_to_sign(some.g, whole.g[[4, 1]]), 1.0, rtol=1e-9)
    np.testing.assert_allclose(some.r_values, whole.r_values[[4, 1]], rtol=1e-9)


def test_exact_slices_of_gaussians_are_known():
    q, p = models.Gaussian(np.zeros(5), [0.3, 1, 1, 1, 1]), models.Gaussian(np.zeros(5), 1.0)
    found = fs.active_slices(q.sample(500, rng=0), p, estimator="exact", score_q=q, n_slices=1)
    np.testing.assert_allclose(np.abs(found.r[0]), [1, 0, 0, 0, 0], atol=1e-9)
    np.testing.assert_allclose(found.g_values[0], (1 / 0.3 - 1) ** 2, rtol=1e-9)
    np.testing.assert_allclose(found.g_gaps[0], found.g_values[0], rtol=1e-9)


def test_equal_laws_give_finite_slices():
    p = models.Gaussian(np.zeros(3), 1.0)
    found = fs.active_slices(p.sample(50, rng=0), p, estimator="exact", score_q=p)
    assert np.all(np.isfinite(found.g)) and np.all(found.g_values == 0)


def test_batches_of_directions_change_nothing(monkeypatch):
    x, s = problem(1)
    whole = fs.active_slices(x, s, basis="identity")
    monkeypatch.setattr(slices, "_BASIS_BYTES", 1)
    one_by_one = fs.active_slices(x, s, basis="identity")
    np.testing.assert_allclose(one_by_one.g, whole.g, rtol=1e-6, atol=1e-7)


def test_noise_moves_slices_and_keeps_them_unit():
    x, s = problem(2)
    plain, noisy = fs.active_slices(x, s), fs.active_slices(x, s, noise=0.05, rng=0)
    assert np.all(up_to_sign(plain.r, noisy.r) < 1 - 1e-6)
    np.testing.assert_allclose(np.linalg.norm(noisy.r, axis=1), 1.0)
    np.testing.assert_allclose(np.linalg.norm(noisy.g, axis=1), 1.0)
    again = fs.active_slices(x, s, noise=0.05, rng=0)
    assert np.array_equal(noisy.r, again.r) and np.array_equal(noisy.g, again.g)


def test_an_estimator_may_be_an_object():
    x, _ = problem(3)
    made = SteinGradient(x, np.negative, eta=0.5, width=2.0)
    np.testing.assert_allclose(
        fs.active_slices(x, np.negative, estimator=made).r_values,
        np.linalg.eigvalsh(made.second_moment())[::-1],
        rtol=1e-8,
    )


def test_unbiased_slices_find_a_hidden_direction_where_plain_ones_do_not():
    hidden = np.ones(30) / np.sqrt(30)
    q = models.Gaussian(np.zeros(30), np.eye(30) - 0.7 * np.outer(hidden, hidden))
    found = {True: 0, False: 0}
    for seed in range(5):
        x = q.sample(200, rng=seed)
        for debias in found:
            r = fs.active_slices(x, -x, n_slices=3, debias=debias).r
            found[debias] += np.max(np.abs(r @ hidden)) > 0.8
    assert found[True] == 5 and found[False] <= 1


def test_random_slices_are_uniform_and_reproducible():
    drawn = fs.random_slices(3, 20000, rng=0)
    np.testing.assert_allclose(np.linalg.norm(drawn.r, axis=1), 1.0)
    assert np.abs(drawn.r.mean(axis=0)).max() < 4 / np.sqrt(3 * 20000)
    np.testing.assert_allclose(drawn.g.T @ drawn.g / 20000, np.eye(3) / 3, atol=0.01)
    assert np.array_equal(drawn.r, fs.random_slices(3, 20000, rng=0).r)
    assert abs(np.mean(np.einsum("md,md->m", drawn.r, drawn.g))) < 4 / np.sqrt(3 * 20000)


def test_slices_can_be_picked():
    x, s = problem(4)
    found = fs.active_slices(x, s)
    some = found[[3, 0]]
    assert np.array_equal(some.r, found.r[[3, 0]]) and np.array_equal(
        some.g_gaps, found.g_gaps[[3, 0]]
    )
    assert len(found[2]) == 1 and len(found[:4]) == 4
    assert repr(found) == "Slices(m=6, d=6)"


def test_directions_of_half_precision():
    exact = fs.random_slices(50, 6, rng=0)
    r, g = exact.r.astype(np.float16), exact.g.astype(np.float16)
    slices = fs.Slices(r, g)
    np.testing.assert_allclose(np.linalg.norm(slices.r, axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(slices.g, exact.g, atol=1e-3)
    with pytest.raises(ValueError, match="`g` must have rows of unit length"):
        fs.Slices(r, (1.05 * g).astype(np.float16))
    with pytest.raises(ValueError, match="`r` must have rows of unit length"):
        fs.Slices(r.astype(float), g)
