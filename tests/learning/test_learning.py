"""Training: gradients by finite differences, schedule of slices, ICA, checkpoints, bad input."""

import builtins

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

import fastsksd as fs
from fastsksd import learning
from fastsksd.learning import descent, lsd
from fastsksd.learning.scoring import Scoring

seeds = st.integers(0, 2**32 - 1)


def numerical_gradient(function, at, step=1e-6):
    gradient = np.empty_like(at)
    for index in np.ndindex(at.shape):
        ends = []
        for sign in (1.0, -1.0):
            moved = at.copy()
            moved[index] += sign * step
            ends.append(function(moved))
        gradient[index] = (ends[0] - ends[1]) / (2.0 * step)
    return gradient


def small_problem(d=3, n=400, seed=0):
    return learning.ica_problem(d, n_train=n, n_test=500, rng=seed)


# The model


@given(seeds, st.integers(1, 4), st.sampled_from([2.5, 5.0, 30.0]))
def test_ica_score_is_the_gradient_of_its_log_density(seed, d, df):
    rng = np.random.default_rng(seed)
    unmixing, x = rng.standard_normal((d, d)) + 2.0 * np.eye(d), rng.standard_normal((1, d))
    scores, _ = descent.score_and_pullback(unmixing, x, df)
    expected = numerical_gradient(
        lambda point: -descent.negative_log_likelihood(unmixing, point, df), x
    )
    np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-7)
    model = fs.models.ICA(np.linalg.inv(unmixing), df)
    np.testing.assert_allclose(model.score(x), scores, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        -model.log_density(x)[0], descent.negative_log_likelihood(unmixing, x, df), rtol=1e-9
    )


@given(seeds, st.integers(1, 4), st.integers(1, 6), st.sampled_from([2.5, 5.0, 30.0]))
def test_pullback_is_the_parameter_gradient_of_the_score(seed, d, n, df):
    rng = np.random.default_rng(seed)
    unmixing, x, by_score = (
        rng.standard_normal((d, d)),
        rng.standard_normal((n, d)),
        rng.standard_normal((n, d)),
    )
    _, pullback = descent.score_and_pullback(unmixing, x, df)
    expected = numerical_gradient(
        lambda a: np.sum(by_score * descent.score_and_pullback(a, x, df)[0]), unmixing
    )
    np.testing.assert_allclose(pullback(by_score), expected, rtol=1e-6, atol=1e-7)


def losses(statistic):
    kernel = fs.IMQ(1.3) if statistic == "u" else fs.RBF(1.3)
    return [
        learning.SlicedSteinLoss(3, refine=None, kernel=kernel, statistic=statistic),
        learning.SlicedSteinLoss(3, refine="rg", kernel=kernel, statistic=statistic),
        learning.KernelSteinLoss(kernel=kernel, statistic=statistic),
    ]


@pytest.mark.parametrize("statistic", ["u", "v"])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_gradient_of_a_loss_in_the_parameters(which, statistic):
    rng = np.random.default_rng(5)
    unmixing, x = rng.standard_normal((3, 3)), rng.standard_normal((9, 3))
    scores, pullback = descent.score_and_pullback(unmixing, x, 5.0)
    gradient = pullback(losses(statistic)[which](x, scores)[1])
    # A new loss for every value: its slices must not have moved.
    expected = numerical_gradient(
        lambda a: losses(statistic)[which](x, descent.score_and_pullback(a, x, 5.0)[0])[0], unmixing
    )
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-8)


# The losses


@pytest.mark.parametrize("statistic", ["u", "v"])
@pytest.mark.parametrize("kernel", ["rbf", "imq"])
def test_kernel_loss_is_the_ksd(kernel, statistic):
    rng = np.random.default_rng(0)
    x, scores = rng.standard_normal((12, 3)) + 1.0, rng.standard_normal((12, 3))
    value, _ = learning.KernelSteinLoss(
        kernel=fs.RBF(1.7) if kernel == "rbf" else fs.IMQ(1.7), statistic=statistic
    )(x, scores)
    assert value == pytest.approx(reference.ksd(x, scores, kernel, 1.7, statistic), rel=1e-12)
    value, _ = learning.KernelSteinLoss(kernel=kernel, statistic=statistic)(x, scores)
    assert value == pytest.approx(fs.ksd(x, scores, kernel=kernel, statistic=statistic), rel=1e-12)


def test_sliced_loss_is_the_sksd_of_its_slices_which_climb():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((150, 3)) * [0.6, 1.0, 1.0]
    loss = learning.SlicedSteinLoss(3, refine="g", learning_rate=0.02, statistic="v")
    loss.refresh(x, -x)
    values = []
    for _ in range(30):
        before = loss.slices
        values.append(loss(x, -x)[0])
        assert values[-1] == pytest.approx(fs.sksd(x, -x, before, statistic="v"), rel=1e-9)
        np.testing.assert_array_equal(before.r, loss.slices.r)
    assert values[-1] > 1.01 * values[0]
    still = learning.SlicedSteinLoss(3, refine=None)
    assert (
        still(x, -x)[0]
        == still(x, -x)[0]
        == pytest.approx(fs.sksd(x, -x, (np.eye(3), np.eye(3))), rel=1e-9)
    )


def test_slices_are_refreshed_on_schedule():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((200, 4)) * [0.5, 1.0, 1.0, 1.0]
    calls = []

    def fresh():
        calls.append(len(seen))
        return x, -x

    loss = learning.SlicedSteinLoss(4, fresh=fresh, every=3, refine=None)
    seen = []
    for _ in range(7):
        loss(x, -x)
        seen.append(loss.slices)
    assert calls == [0, 3, 6]
    expected = fs.active_slices(x, -x, debias=False)
    np.testing.assert_allclose(np.abs(np.sum(loss.slices.r * expected.r, axis=1)), 1.0, rtol=1e-9)
    np.testing.assert_allclose(np.abs(np.sum(loss.slices.g * expected.g, axis=1)), 1.0, rtol=1e-3)


def test_exact_slices_and_a_fixed_basis():
    model = fs.models.Gaussian(np.zeros(2), np.eye(2))
    x = np.random.default_rng(3).standard_normal((100, 2)) * [0.5, 1.0]
    law = fs.models.Gaussian(np.zeros(2), np.diag([0.25, 1.0]))
    loss = learning.SlicedSteinLoss(
        2, estimator="exact", score_q=law, basis="identity", fresh=lambda: (x, model)
    )
    value, _ = loss(x, model.score(x))
    np.testing.assert_array_equal(loss.slices.r, np.eye(2))
    assert value > 0


def test_a_restored_loss_goes_on_alike():
    rng = np.random.default_rng(4)
    x = rng.standard_normal((60, 3))

    def new():
        return learning.SlicedSteinLoss(
            3, fresh=lambda: (x, -2.0 * x), every=4, refine="rg", learning_rate=0.05
        )

    loss = new()
    for _ in range(6):
        loss(x, -2.0 * x)
    other = new()
    other.restore(loss.state())
    for _ in range(5):
        for ours, theirs in zip(loss(x, -2.0 * x), other(x, -2.0 * x), strict=True):
            np.testing.assert_array_equal(ours, theirs)


# Scoring


@pytest.mark.parametrize("bandwidth", ["median", 3.0])
@pytest.mark.parametrize("df", [5.0, 3.0])
def test_scoring_step_undoes_a_small_change_of_the_model(df, bandwidth):
    rng = np.random.default_rng(6)
    sources = rng.standard_t(df, (400_000, 3))
    change = 0.02 * np.array([[1.0, 2.0, 0.0], [-1.0, -1.0, 1.0], [0.0, 1.0, 1.5]])
    step, gain = Scoring(df, fs.RBF(bandwidth)).step(sources @ (np.eye(3) + change).T)
    np.testing.assert_allclose(step, change, atol=0.015)
    assert gain > 0


def test_scoring_lowers_the_discrepancy_by_what_it_says():
    rng = np.random.default_rng(7)
    u = rng.standard_t(5, (4000, 2)) @ (np.eye(2) + 0.1 * np.array([[1.0, 0.5], [0.5, -1.0]])).T
    h = 1.1
    step, gain = Scoring(5.0, fs.RBF(h)).step(u)
    # All pairs (e_l, e_k).
    slices = fs.Slices(np.repeat(np.eye(2), 2, axis=0), np.tile(np.eye(2), (2, 1)))

    def discrepancy(e):
        a = np.eye(2) + e
        return fs.sksd(
            u, fs.models.StudentT(2).score(u @ a.T) @ a, slices, kernel=fs.RBF(h), statistic="v"
        )

    assert discrepancy(np.zeros((2, 2))) - discrepancy(-step) == pytest.approx(gain, rel=0.25)


def test_scoring_finds_the_truth():
    problem = learning.ica_problem(5, rng=0)
    fit = learning.fit_ica(problem, steps=60, evaluate_every=30)
    assert fit.trace.gap[0] > 0.1
    assert abs(fit.gap) < 0.02
    # W is known up to the order and the sign of its columns
    match = np.abs(fit.unmixing @ problem.truth.W)
    np.testing.assert_allclose(np.sort(match, axis=1)[:, -1], 1.0, atol=0.06)
    assert np.sort(match, axis=1)[:, -2].max() < 0.1


@pytest.mark.parametrize(
    "method", ["sksd-g+ke+go", "sksd-g+ex+go", "sksd-g+go", "sksd-rg+go", "ksd"]
)
def test_every_method_descends(method):
    problem = learning.ica_problem(2, n_train=2000, n_test=1000, rng=3)
    fit = learning.fit_ica(
        problem, method=method, steps=400, learning_rate=5e-3, slice_samples=200, rng=0
    )
    assert fit.trace.step[-1] == 400 and fit.trace.value.shape == fit.trace.gap.shape == (21,)
    assert fit.gap < 0.3 * fit.trace.gap[0]
    assert fit.gap == pytest.approx(fit.nll - fit.true_nll)
    assert fit.nll == pytest.approx(-fit.model.log_density(problem.x_test).mean())


def test_without_the_truth_there_is_no_gap():
    problem = small_problem()
    fit = learning.fit_ica((problem.x_train, problem.x_test), steps=5, rng=0)
    assert np.isnan(fit.gap) and np.isnan(fit.true_nll) and "above" not in repr(fit)
    assert "above the true model's" in repr(learning.fit_ica(problem, steps=5))


# Interruptions


@pytest.mark.parametrize("method", ["sksd-scoring", "sksd-g+ke+go", "sksd-rg+go", "ksd"])
def test_an_interrupted_run_ends_as_an_undisturbed_one(method, tmp_path, monkeypatch):
    problem = small_problem()
    options = {
        "method": method,
        "steps": 12,
        "batch_size": 50,
        "every": 4,
        "slice_samples": 60,
        "evaluate_every": 3,
        "rng": 1,
    }
    whole = learning.fit_ica(problem, **options)
    assert np.any(whole.unmixing != learning.fit_ica(problem, **options | {"rng": 2}).unmixing)

    descent_class = descent.ScoringDescent if method == "sksd-scoring" else descent.AdamDescent
    advance, calls = descent_class.advance, []

    def interrupted(self, x):
        calls.append(0)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return advance(self, x)

    path = tmp_path / "run.npz"
    monkeypatch.setattr(descent_class, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        learning.fit_ica(problem, checkpoint=path, **options)
    resumed = learning.fit_ica(problem, checkpoint=path, **options)
    assert len(calls) == 8 + 6
    np.testing.assert_array_equal(resumed.unmixing, whole.unmixing)
    for ours, theirs in zip(resumed.trace, whole.trace, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    again = learning.fit_ica(problem, checkpoint=path, **options)  # a finished run is not run again
    assert len(calls) == 8 + 6
    np.testing.assert_array_equal(again.unmixing, whole.unmixing)
    assert [file.name for file in tmp_path.iterdir()] == ["run.npz"]


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    problem, path = small_problem(), tmp_path / "run.npz"
    learning.fit_ica(problem, steps=4, checkpoint=path, rng=0)
    with pytest.raises(ValueError, match=r"`checkpoint`.*other settings \(steps: 4 there, 5 here"):
        learning.fit_ica(problem, steps=5, evaluate_every=1, checkpoint=path, rng=0)
    with pytest.raises(ValueError, match=r"\(data: \d+ there, \d+ here\)"):
        learning.fit_ica(small_problem(seed=1), steps=4, checkpoint=path, rng=0)
    with pytest.raises(ValueError, match=r"\(rng: \d+ there, \d+ here\)"):
        learning.fit_ica(problem, steps=4, checkpoint=path, rng=1)
    path.write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"is not a checkpoint"):
        learning.fit_ica(problem, steps=4, checkpoint=path, rng=0)
    assert path.read_bytes() == b"something else"


def test_a_checkpoint_that_can_not_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    problem, path = small_problem(), tmp_path / "run.npz"
    savez, writes = np.savez, []

    def full_disk(file, **arrays):
        writes.append(0)
        if len(writes) == 2:
            file.write(b"half")
            raise OSError("no space left")
        savez(file, **arrays)

    monkeypatch.setattr(np, "savez", full_disk)
    with pytest.raises(OSError, match="no space"):
        learning.fit_ica(problem, steps=6, evaluate_every=2, checkpoint=path, rng=0)
    with np.load(path) as file:
        assert file["step"] == 2
    assert [file.name for file in tmp_path.iterdir()] == ["run.npz"]


def test_a_loss_that_is_no_number_ends_the_run(tmp_path, monkeypatch):
    problem, path = small_problem(), tmp_path / "run.npz"
    call, calls = learning.KernelSteinLoss.__call__, []

    def failing(self, x, score):
        calls.append(0)
        value, gradient = call(self, x, score)
        return (np.nan if len(calls) == 7 else value), gradient

    monkeypatch.setattr(learning.KernelSteinLoss, "__call__", failing)
    with pytest.raises(
        learning.Diverged, match=r"after step 7 .*the state after step 5 is kept in .*run\.npz"
    ) as caught:
        learning.fit_ica(problem, method="ksd", steps=20, evaluate_every=5, checkpoint=path, rng=0)
    assert caught.value.step == 7
    with np.load(path) as file:
        assert file["step"] == 5 and np.isfinite(file["descent.unmixing"]).all()


@pytest.mark.parametrize("method", ["sksd-g+go", "ksd"])
def test_steps_that_are_far_too_long_end_the_run(method):
    with pytest.raises(learning.Diverged, match=r"after step \d+ .*`learning_rate`"):
        learning.fit_ica(small_problem(), method=method, steps=30, learning_rate=1e200, rng=0)


# Manners


def test_progress_is_shown_only_when_asked(capsys):
    problem = small_problem()
    learning.fit_ica(problem, steps=2)
    assert capsys.readouterr() == ("", "")
    learning.fit_ica(problem, steps=2, progress=True)
    assert "ICA sksd-scoring 2/2" in capsys.readouterr().err


PROBLEM = small_problem()


@pytest.mark.parametrize(
    "call, error, words",
    [
        (
            lambda: learning.fit_ica(PROBLEM, method="mle"),
            ValueError,
            "`method` must be one of 'sksd-scoring'",
        ),
        (
            lambda: learning.fit_ica(PROBLEM.x_train),
            TypeError,
            "`data` must be an ICAProblem or a pair",
        ),
        (
            lambda: learning.fit_ica((PROBLEM.x_train, PROBLEM.x_test[:, :2])),
            ValueError,
            "`x_test` must have 3 columns",
        ),
        (
            lambda: learning.fit_ica((PROBLEM.x_train * np.nan, PROBLEM.x_test)),
            ValueError,
            "`x_train` holds NaN",
        ),
        (
            lambda: learning.fit_ica(PROBLEM._replace(initial=np.zeros((3, 3)))),
            ValueError,
            "`initial` must be an invertible",
        ),
        (
            lambda: learning.fit_ica(PROBLEM._replace(initial=np.eye(2))),
            ValueError,
            "`initial` must be an invertible",
        ),
        (
            lambda: learning.fit_ica(PROBLEM._replace(truth=fs.models.ICA(np.eye(2)))),
            ValueError,
            "`truth` must be a model in 3",
        ),
        (
            lambda: learning.fit_ica((PROBLEM.x_train * [1, 1, 0], PROBLEM.x_test)),
            ValueError,
            "`data` must vary in all of its 3",
        ),
        (
            lambda: learning.fit_ica(PROBLEM[:2], method="sksd-g+ex+go"),
            ValueError,
            "`data` must hold the true model",
        ),
        (lambda: learning.fit_ica(PROBLEM, steps=0), ValueError, "`steps` must be at least 1"),
        (
            lambda: learning.fit_ica(PROBLEM, batch_size=401),
            ValueError,
            "`batch_size` must be between 2 and 400",
        ),
        (
            lambda: learning.fit_ica(PROBLEM, learning_rate=0.0),
            ValueError,
            "`learning_rate` must be finite and greater",
        ),
        (
            lambda: learning.fit_ica(PROBLEM, betas=(0.9, 1.0)),
            ValueError,
            "`betas` must be less than 1",
        ),
        (
            lambda: learning.fit_ica(PROBLEM, kernel="imq"),
            ValueError,
            "`kernel` of method='sksd-scoring' must be 'rbf'",
        ),
        (
            lambda: learning.fit_ica(PROBLEM, evaluate_every=0),
            ValueError,
            "`evaluate_every` must be at least 1",
        ),
        (lambda: learning.ica_problem(3, n_train=1), ValueError, "`n_train` must be at least 2"),
        (lambda: learning.SlicedSteinLoss(0), ValueError, "`d` must be at least 1"),
        (
            lambda: learning.SlicedSteinLoss(2, refine="r"),
            ValueError,
            "`refine` must be one of 'g', 'rg'",
        ),
        (lambda: learning.SlicedSteinLoss(2, fresh=3), TypeError, "`fresh` must be a function"),
        (
            lambda: learning.SlicedSteinLoss(2, fresh=lambda: 3)(np.eye(2), np.eye(2)),
            TypeError,
            "`fresh` must return a pair",
        ),
        (lambda: learning.SlicedSteinLoss(2, estimator="exact"), ValueError, "`score_q`"),
        (
            lambda: learning.SlicedSteinLoss(2)(np.eye(3), np.eye(3)),
            ValueError,
            "`x` must have 2 columns",
        ),
        (
            lambda: learning.SlicedSteinLoss(2)(np.eye(2), np.eye(3)),
            ValueError,
            "`score` must have the shape",
        ),
        (
            lambda: learning.KernelSteinLoss(kernel=fs.RBF([1.0, 2.0])),
            ValueError,
            "`kernel` of the KSD must have one",
        ),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)


def test_without_jax_the_error_names_the_extra(monkeypatch):
    original = builtins.__import__

    def without_jax(name, *args, **kwargs):
        if name.split(".")[0] == "jax":
            raise ImportError("no jax")
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_jax)
    lsd._compiled_functions.cache_clear()
    with pytest.raises(ImportError, match=r"fastsksd\[jax\]"):
        learning.fit_ica(PROBLEM, method="lsd")
