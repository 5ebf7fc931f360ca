"""Refinement of slices by gradient ascent, and its place in the test."""

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastsksd as fs
from fastsksd.compute.medians import median_distances, median_gap
from fastsksd.kernels import as_kernel
from fastsksd.refine import Ascent

X = np.random.default_rng(0).standard_normal((60, 4)) * [0.5, 1, 1, 1]
START = fs.random_slices(4, 3, rng=1)


def adam_by_hand(
    x,
    scores,
    slices,
    order,
    batches,
    *,
    kernel,
    statistic,
    update,
    unit,
    rate=1e-2,
    betas=(0.9, 0.99),
):
    """Textbook Adam on vectors r and g, whose directions are the slices."""
    length = 1.0 if unit else np.sqrt(x.shape[1])
    vectors = {"r": length * slices.r, "g": length * slices.g}
    first = {name: np.zeros_like(v) for name, v in vectors.items()}
    second = {name: np.zeros_like(v) for name, v in vectors.items()}
    values = []
    for step, (start, stop) in enumerate(batches, start=1):
        rows = order[start:stop]
        norms = {name: np.linalg.norm(v, axis=1, keepdims=True) for name, v in vectors.items()}
        units = {name: vectors[name] / norms[name] for name in vectors}
        value, gradients = fs.sksd_value_and_grad(
            x[rows], scores[rows], (units["r"], units["g"]), kernel=kernel, statistic=statistic
        )
        values.append(value)
        given = as_kernel(kernel).bandwidth
        h = median_distances(units["g"] @ x[rows].T) if isinstance(given, str) else given
        for name in update:
            u, slope = units[name], gradients[name]
            slope = (slope - np.sum(slope * u, axis=1, keepdims=True) * u) / norms[name]
            first[name] = betas[0] * first[name] + (1 - betas[0]) * slope
            second[name] = betas[1] * second[name] + (1 - betas[1]) * slope**2
            climb = first[name] / (1 - betas[0] ** step)
            climb = climb / (
                np.sqrt(second[name] / (1 - betas[1] ** step)) + 1e-8 / h[:, None] ** 2
            )
            vectors[name] = vectors[name] + rate * climb
            if unit:
                vectors[name] /= np.linalg.norm(vectors[name], axis=1, keepdims=True)
    return [v / np.linalg.norm(v, axis=1, keepdims=True) for v in vectors.values()], values


@pytest.mark.parametrize("update", ["g", "rg"])
@pytest.mark.parametrize("parametrisation", ["unit", "raw"])
@pytest.mark.parametrize(
    ("kernel", "statistic"), [("rbf", "v"), ("imq", "u"), (fs.RBF([0.5, 1.0, 2.0]), "v")]
)
def test_refinement_is_adam_on_minibatches(update, parametrisation, kernel, statistic):
    told = []
    found = fs.refine_slices(
        X,
        -X,
        START,
        epochs=3,
        batch_size=25,
        learning_rate=1e-2,
        update=update,
        kernel=kernel,
        statistic=statistic,
        parametrisation=parametrisation,
        rng=5,
        callback=lambda epoch, value: told.append((epoch, value)),
    )
    rng = np.random.default_rng(5)
    order = np.concatenate([rng.permutation(60) for _ in range(3)])
    batches = [(60 * e + a, 60 * e + b) for e in range(3) for a, b in ((0, 25), (25, 50), (50, 60))]
    options = dict(
        kernel=kernel, statistic=statistic, update=update, unit=parametrisation == "unit"
    )
    (r, g), values = adam_by_hand(X, -X, START, order, batches, **options)
    np.testing.assert_allclose(found.g, g, atol=1e-9)
    np.testing.assert_allclose(found.r, r, atol=1e-9)
    assert [epoch for epoch, _ in told] == [1, 2, 3]
    np.testing.assert_allclose(
        [value for _, value in told], np.reshape(values, (3, 3)).mean(axis=1), rtol=1e-8
    )


def test_a_step_tells_values_and_the_gradient_in_the_scores():
    ascent = Ascent(START, learning_rate=1e-2)
    for _ in range(3):
        before = ascent.slices
        values, by_score = ascent.step(X, -X)
        value, gradients = fs.sksd_value_and_grad(X, -X, before, wrt="score")
        assert values.sum() == pytest.approx(value, rel=1e-10)
        np.testing.assert_allclose(by_score, gradients["score"], atol=1e-12)
    (_, g), _ = adam_by_hand(
        X,
        -X,
        START,
        np.arange(60),
        [(0, 60)] * 3,
        kernel="rbf",
        statistic="v",
        update="g",
        unit=True,
    )
    np.testing.assert_allclose(ascent.slices.g, g, atol=1e-9)


@given(
    seed=st.integers(0, 2**32 - 1),
    statistic=st.sampled_from(["u", "v"]),
    update=st.sampled_from(["g", "rg"]),
)
@settings(max_examples=15)
def test_refinement_does_not_lower_the_training_value(seed, statistic, update):
    # Steps of 0.003 on minibatches of 50: noise moves the statistic of all training samples by less
    # than 2 % of its terms' size.
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((150, 4)) * rng.uniform(0.5, 1.5, 4)
    start = fs.random_slices(4, 3, rng=rng)
    found = fs.refine_slices(
        x,
        -x,
        start,
        epochs=20,
        batch_size=50,
        learning_rate=3e-3,
        statistic=statistic,
        update=update,
        rng=rng,
    )
    value = {
        name: fs.sksd(x, -x, slices, statistic=statistic, per_slice=True)
        for name, slices in (("start", start), ("found", found))
    }
    own = fs.sksd(x, -x, start, statistic="v", per_slice=True) - (1 - 1 / 150) * fs.sksd(
        x, -x, start, per_slice=True
    )
    assert np.all(value["found"] > value["start"] - 0.02 * 150 * own)


def test_refinement_finds_the_direction_that_differs():
    start = fs.Slices(np.eye(4)[:1], fs.random_slices(4, 1, rng=3).g)
    x = np.random.default_rng(1).standard_normal((400, 4)) * [0.5, 1, 1, 1]
    found = fs.refine_slices(x, -x, start, epochs=150, learning_rate=1e-2, rng=0)
    assert abs(start.g[0, 0]) < 0.7 and abs(found.g[0, 0]) > 0.97
    assert np.array_equal(found.r, start.r)


def test_threads_and_seeds():
    x = np.random.default_rng(2).standard_normal((400, 6))
    start = fs.random_slices(6, 40, rng=0)
    threads = numba.get_num_threads()
    try:
        found = []
        for count in (1, threads):
            numba.set_num_threads(count)
            found.append(fs.refine_slices(x, -x, start, epochs=2, update="rg", rng=4))
    finally:
        numba.set_num_threads(threads)
    assert np.array_equal(found[0].g, found[1].g) and np.array_equal(found[0].r, found[1].r)
    other = fs.refine_slices(x, -x, start, epochs=2, update="rg", rng=5)
    assert not np.array_equal(found[0].g, other.g)


def test_no_epochs_return_the_slices():
    assert fs.refine_slices(X, -X, START, epochs=0, batch_size=20) is START


def test_what_belongs_to_r_stays_with_it():
    start = fs.active_slices(X, -X)
    options = dict(epochs=1, batch_size=30, rng=0)
    kept, moved = (
        fs.refine_slices(X, -X, start, **options),
        fs.refine_slices(X, -X, start, update="rg", **options),
    )
    assert (
        np.array_equal(kept.r_values, start.r_values)
        and kept.g_values is None
        and kept.g_gaps is None
    )
    assert moved.r_values is None


def test_patience_ends_the_climb():
    def epochs_until_stop(patience):
        told = []
        fs.refine_slices(
            X,
            -X,
            START,
            epochs=400,
            batch_size=60,
            learning_rate=0.05,
            patience=patience,
            callback=lambda *a: told.append(a),
        )
        return told

    told = epochs_until_stop(5)
    values = [value for _, value in told]
    assert len(told) < 400 and np.argmax(values) == len(told) - 6


def test_a_single_sample_left_over_joins_the_minibatch_before():
    sizes = []

    class Watched(Ascent):
        def run(self, x, scores, order, ends):
            sizes.append(np.diff(ends).tolist())
            return super().run(x, scores, order, ends)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fastsksd.refine.Ascent", Watched)
        fs.refine_slices(X[:41], -X[:41], START, epochs=1, batch_size=20)
        fs.refine_slices(X[:42], -X[:42], START, epochs=1, batch_size=20)
        fs.refine_slices(X[:21], -X[:21], START, epochs=1, batch_size=20)
    assert sizes == [[20, 21], [20, 20, 2], [21]]


def test_long_epochs_are_cut_without_a_trace(monkeypatch):
    options = dict(epochs=2, batch_size=10, rng=0)
    whole = fs.refine_slices(X, -X, START, **options)
    monkeypatch.setattr("fastsksd.refine._PAIRS_PER_CALL", 400)
    assert np.array_equal(fs.refine_slices(X, -X, START, **options).g, whole.g)


def test_flat_minibatches_are_sat_out():
    # A coordinate that varies in 2 of 60 samples only: most minibatches are flat along it.
    x = X.copy()
    x[:, 1] = 0.0
    x[:2, 1] = 1.0
    start = fs.Slices(np.eye(4), np.eye(4))
    found = fs.refine_slices(x, -x, start, epochs=5, batch_size=5, rng=0)
    assert np.all(np.isfinite(found.g))
    assert not np.array_equal(found.g[0], start.g[0])
    x[:, 1] = 3.0
    assert np.array_equal(
        fs.refine_slices(x, -x, start, epochs=5, batch_size=5, rng=0).g[1], start.g[1]
    )


def test_progress_is_shown_when_asked(capsys):
    fs.refine_slices(X, -X, START, epochs=2, batch_size=30)
    assert capsys.readouterr() == ("", "")
    fs.refine_slices(X, -X, START, epochs=2, batch_size=30, progress=True)
    assert "refining slices 2/2" in capsys.readouterr().err


def interrupt(epoch, value):
    raise KeyboardInterrupt("stop")


BAD = {
    "epochs negative": (dict(epochs=-1), ValueError, "`epochs` must be at least 0; got -1"),
    "epochs a float": (dict(epochs=1.5), TypeError, "`epochs` must be an integer"),
    "batch of one": (dict(batch_size=1), ValueError, "`batch_size` must be at least 2; got 1"),
    "batch above n": (
        dict(batch_size=61),
        ValueError,
        "`batch_size` must be at most the number of samples, 60; got 61",
    ),
    "rate zero": (
        dict(learning_rate=0),
        ValueError,
        "`learning_rate` must be finite and greater than 0",
    ),
    "betas one": (dict(betas=0.9), ValueError, "`betas` must be a pair of numbers"),
    "betas too large": (dict(betas=(0.9, 1.0)), ValueError, "`betas` must be less than 1"),
    "update unknown": (dict(update="r"), ValueError, "`update` must be one of 'g', 'rg'; got 'r'"),
    "statistic unknown": (dict(statistic="w"), ValueError, "`statistic` must be one of 'u', 'v'"),
    "parametrisation unknown": (
        dict(parametrisation="polar"),
        ValueError,
        "`parametrisation` must be one of 'unit', 'raw'",
    ),
    "patience zero": (dict(patience=0), ValueError, "`patience` must be at least 1"),
    "callback a number": (dict(callback=3), TypeError, "`callback` must be a function"),
    "bandwidths of another number": (
        dict(kernel=fs.RBF([1.0, 2.0])),
        ValueError,
        "`kernel` has 2 bandwidths but there are 3 slices",
    ),
    "overflow": (dict(score=1e200 * X), ValueError, "no longer finite in minibatch 1 of epoch 1"),
    "slices of another dimension": (
        dict(slices=fs.random_slices(3, 2)),
        ValueError,
        "`slices` are directions in 3 dimensions",
    ),
    "score of another shape": (
        dict(score=X[:3]),
        ValueError,
        "`score` must have the shape of the samples",
    ),
    "interrupted": (dict(callback=interrupt), KeyboardInterrupt, "stop"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_explained(case):
    options, error, message = BAD[case]
    arguments = {"x": X, "score": -X, "slices": START, "batch_size": 30} | options
    with np.errstate(all="ignore"), pytest.raises(error, match=message):
        fs.refine_slices(
            arguments.pop("x"), arguments.pop("score"), arguments.pop("slices"), **arguments
        )


# In the test --------------------------------------------------------------------------------------


def test_gof_test_refines_on_training_samples_alone():
    rng = np.random.default_rng(0)
    x, training = rng.standard_normal((200, 3)), rng.standard_normal((80, 3))
    options = dict(basis="identity", train=training, n_resamples=20, rng=1)
    plain, refined = (
        fs.gof_test(x, np.negative, **options),
        fs.gof_test(x, np.negative, refine=3, **options),
    )
    assert np.array_equal(plain.slices.r, refined.slices.r) and not np.array_equal(
        plain.slices.g, refined.slices.g
    )
    # Other samples to test, the same slices.
    other = fs.gof_test(x + 1.0, np.negative, refine=3, **options)
    assert np.array_equal(other.slices.g, refined.slices.g)
    by_hand = fs.refine_slices(training, -training, plain.slices, epochs=3, batch_size=20, rng=1)
    assert np.array_equal(by_hand.g, refined.slices.g)


def test_gof_test_passes_options_on():
    x = np.random.default_rng(0).standard_normal((300, 3))
    options = dict(n_slices=2, n_resamples=20, rng=1)
    plain = fs.gof_test(x, np.negative, **options)
    both = fs.gof_test(
        x, np.negative, refine={"epochs": 2, "update": "rg", "batch_size": 20}, **options
    )
    assert not np.array_equal(plain.slices.r, both.slices.r)
    cross = fs.gof_test(x, np.negative, refine=2, train="cross", **options)
    assert len(cross.members) == 6


def test_refinement_sharpens_the_test():
    # Student t along every coordinate: the smoothed score difference hardly sees it, ascent does.
    model = fs.models.StudentT(10, df=5)
    pvalues = {refine: [] for refine in (0, 300)}
    for seed in range(5):
        x = model.sample(600, rng=seed)
        for refine in pvalues:
            options = {"epochs": refine, "batch_size": 60, "learning_rate": 5e-3} if refine else 0
            result = fs.gof_test(
                x,
                lambda x: -0.6 * x,
                basis="identity",
                debias=False,
                train=0.3,
                refine=options,
                rng=seed,
            )
            pvalues[refine].append(result.pvalue)
    assert np.mean(pvalues[300]) < np.mean(pvalues[0])


GOF = {
    "family": (dict(refine=5), ValueError, "`refine` improves slices found on training samples"),
    "given slices": (dict(refine=5, slices=START), ValueError, "`refine` has nothing to choose"),
    "ksd": (dict(refine=5, method="ksd"), ValueError, "`refine` does not apply to"),
    "negative": (dict(refine=-1, n_slices=2), ValueError, "`refine` must be at least 0"),
    "a word": (dict(refine="yes", n_slices=2), TypeError, "`refine` must be an integer"),
    "unknown option": (
        dict(refine={"steps": 5}, n_slices=2),
        ValueError,
        "`refine` may hold .*; got 'steps'",
    ),
    "wrong option": (
        dict(refine={"epochs": 2, "batch_size": 99}, n_slices=2),
        ValueError,
        "`batch_size` must be at most",
    ),
}


@pytest.mark.parametrize("case", GOF)
def test_gof_test_explains_bad_refinement(case):
    options, error, message = GOF[case]
    with pytest.raises(error, match=message):
        fs.gof_test(X, -X, n_resamples=5, **options)


# The bandwidth of a minibatch ---------------------------------------------------------------------


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(2, 230),
    kind=st.sampled_from(["normal", "heavy", "lattice", "constant", "wide"]),
)
@settings(max_examples=60)
def test_median_gap_is_the_median_distance(seed, n, kind):
    rng = np.random.default_rng(seed)
    y = {
        "normal": lambda: rng.standard_normal(n),
        "heavy": lambda: rng.standard_cauchy(n),
        "lattice": lambda: rng.integers(0, 4, n).astype(float),
        "constant": lambda: np.ones(n),
        "wide": lambda: np.exp(20 * rng.standard_normal(n)),
    }[kind]()
    assert median_gap(y) == median_distances(y[None])[0]


def test_median_gap_of_what_is_not_finite_is_nan():
    for bad in (np.nan, np.inf, -np.inf):
        for n in (5, 300):
            y = np.arange(float(n))
            y[2] = bad
            assert np.isnan(median_gap(y))


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_units_do_not_matter(unit):
    x = np.random.default_rng(0).standard_normal((200, 3)) * [0.5, 1, 1]
    start = fs.Slices(np.eye(3)[:1], fs.random_slices(3, 1, rng=0).g)
    options = dict(epochs=20, learning_rate=0.01, rng=0)
    plain = fs.refine_slices(x, -x, start, **options)
    other = fs.refine_slices(unit * x, -x / unit, start, **options)
    np.testing.assert_allclose(other.g, plain.g, rtol=1e-6)
