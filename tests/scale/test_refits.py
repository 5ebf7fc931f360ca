"""Models fitted to the samples: level, the same p-value however refits run, failures, a split."""

import json
import os
from functools import partial

import numpy as np
import pytest

import fastsksd as fs
from fastsksd import models
from fastsksd.experiments.chains import autoregressive

RNG = np.random.default_rng(0)
NORMAL = RNG.standard_normal((60, 2))
HEAVY = RNG.standard_t(2, (100, 2))
COORDINATES = (np.eye(2), np.eye(2))
QUICK = dict(slices=COORDINATES, n_resamples=19, rng=3)


def quiet(function=models.Gaussian.fit, **options):
    return fs.Refit(function, progress=False, **options)


class Failing:
    """A fit that fails where the samples say so: the same in any process and at any time."""

    def __init__(self, fraction, message="no convergence"):
        self.fraction, self.message = fraction, message

    def __call__(self, x):
        if x.shape[0] == 60 and 1e4 * abs(x[0, 0]) % 1 < self.fraction and x[0, 0] != NORMAL[0, 0]:
            raise RuntimeError(self.message)
        return models.Gaussian.fit(x)


class Interrupting:
    """A fit that the user interrupts at a call."""

    def __init__(self, call):
        self.left = call

    def __call__(self, x):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return models.Gaussian.fit(x)


def by_hand(x, n_refits, seed):
    """Statistics of the samples and of refits along coordinates, in a plain loop."""
    others = np.random.SeedSequence(seed).spawn(1 + n_refits)[1:]
    fitted = models.Gaussian.fit(x)

    def statistic(x):
        return fs.sksd(x, models.Gaussian.fit(x), COORDINATES, statistic="u")

    drawn = [fitted.sample(len(x), rng=np.random.default_rng(seed)) for seed in others]
    return statistic(x), np.array([statistic(one) for one in drawn])


def test_pvalue_is_the_rank_among_refits():
    result = fs.gof_test(NORMAL, fit=quiet(), **QUICK)
    statistic, refits = by_hand(NORMAL, 19, 3)
    assert np.isclose(result.statistic, statistic)
    assert np.allclose(result.null_distribution, refits)
    assert result.pvalue == (1 + np.sum(refits >= statistic)) / 20
    assert result.null == "refits" and result.n_test == 60
    fitted = result.fitted
    assert (fitted.n_fit, fitted.n_refits, fitted.n_failed) == (60, 19, 0)
    assert np.allclose(fitted.model.mean, NORMAL.mean(axis=0))


def test_level_and_power():
    """P-values of right fits are uniform; those of naive tests are far too large."""
    rng = np.random.default_rng(5)
    composite, naive = [], []
    for k in range(60):
        x = rng.standard_normal((50, 2)) @ [[1.0, 0.5], [0.0, 2.0]]
        composite.append(fs.gof_test(x, fit=quiet(), **{**QUICK, "rng": k}).pvalue)
        model = models.Gaussian.fit(x)
        naive.append(fs.gof_test(x, model, slices=COORDINATES, n_resamples=99, rng=k).pvalue)
    # The mean of 60 uniform numbers has a deviation of 0.037.
    assert 0.4 < np.mean(composite) < 0.65 and np.min(composite) < 0.15
    assert np.mean(naive) > 0.75 and np.min(naive) > 0.15
    assert fs.gof_test(HEAVY, fit=quiet(), n_resamples=39, rng=0).pvalue == 1 / 40


def test_processes_give_the_same_pvalue():
    alone = fs.gof_test(NORMAL, fit=quiet(), **QUICK)
    both = fs.gof_test(NORMAL, fit=quiet(n_jobs=2), **QUICK)
    assert alone.pvalue == both.pvalue
    assert np.allclose(alone.null_distribution, both.null_distribution, rtol=1e-9, atol=1e-12)


def test_what_processes_can_not_have():
    with pytest.raises(TypeError, match=r"`fit` can't be sent to another process.*`n_jobs`"):
        fs.gof_test(NORMAL, fit=quiet(lambda x: models.Gaussian.fit(x), n_jobs=2), **QUICK)


def test_checkpoint_goes_on_where_it_stopped(tmp_path):
    path = tmp_path / "refits.jsonl"
    whole = fs.gof_test(NORMAL, fit=quiet(), **{**QUICK, "n_resamples": 30})
    with pytest.raises(fs.RefitsInterrupted, match=f"after 21 of 30 refits.*{path.name}") as caught:
        interrupted = quiet(Interrupting(23), checkpoint=path)
        fs.gof_test(NORMAL, fit=interrupted, **{**QUICK, "n_resamples": 30})
    assert caught.value.result.fitted.n_refits == 21
    assert np.array_equal(caught.value.result.null_distribution, whole.null_distribution[:21])
    calls = []
    counting = quiet(lambda x: calls.append(0) or models.Gaussian.fit(x), checkpoint=path)
    with path.open("a") as file:
        file.write('{"refit": 29, "stat')  # a line that a kill has torn
    result = fs.gof_test(NORMAL, fit=counting, **{**QUICK, "n_resamples": 30})
    assert len(calls) == 1 + 9
    assert result.pvalue == whole.pvalue
    assert np.array_equal(result.null_distribution, whole.null_distribution)
    more = fs.gof_test(NORMAL, fit=counting, **{**QUICK, "n_resamples": 35})
    assert len(calls) == 10 + 1 + 5 and more.fitted.n_refits == 35
    unseeded = fs.gof_test(NORMAL, fit=counting, **{**QUICK, "rng": None})
    assert np.array_equal(unseeded.null_distribution, whole.null_distribution[:19])


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="needs a device without an end")
def test_a_checkpoint_without_an_end_is_refused():
    with pytest.raises(ValueError, match=r"`checkpoint`.*/dev/zero is not a file of results"):
        fs.gof_test(NORMAL, fit=quiet(checkpoint="/dev/zero"), **QUICK)


def test_a_checkpoint_of_something_else(tmp_path):
    path = tmp_path / "refits.jsonl"
    kept = quiet(checkpoint=path)
    fs.gof_test(NORMAL, fit=kept, **QUICK)
    with pytest.raises(ValueError, match=r"`checkpoint`.*another `rng`"):
        fs.gof_test(NORMAL, fit=kept, **{**QUICK, "rng": 4})
    with pytest.raises(ValueError, match=r"`checkpoint`.*other samples or options"):
        fs.gof_test(NORMAL + 0.01 * NORMAL**2, fit=kept, **QUICK)
    with pytest.raises(ValueError, match=r"`checkpoint`.*other samples or options"):
        fs.gof_test(NORMAL, fit=kept, n_resamples=19, rng=3)
    lines = path.read_text()
    for text, message in (
        ('{"gof_batch": 1}\n', "is not a file of refits"),
        ('{"refits": 1}\n', "is not a file of refits"),
        (lines.replace('"entropy": 3', '"entropy": -3'), "is not a file of refits"),
        (lines.replace('"statistics": [', '"statistics": ["a", ', 1), "is not a file of refits"),
        (lines.replace('"refit": 0', '"refit": "0"'), "is not a result of a run"),
        (lines.replace('"refit": 0', '"refit": 0.5'), "is not a result of a run"),
        ("nonsense", "is not a file of refits"),
        ("nonsense\n", "is not a result of a run"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=f"`checkpoint`.*{message}"):
            fs.gof_test(NORMAL, fit=kept, **QUICK)
        assert path.read_text() == text
    path.write_text(lines[:20])  # a kill tore the header
    fs.gof_test(NORMAL, fit=kept, **QUICK)
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        json.loads(line) for line in lines.splitlines()
    ]


def test_an_early_interrupt_has_no_result():
    with pytest.raises(fs.RefitsInterrupted) as caught:
        fs.gof_test(NORMAL, fit=quiet(Interrupting(5)), **QUICK)
    assert caught.value.result is None and str(caught.value).endswith("3 of 19 refits")


def test_failed_refits_are_counted_and_said():
    result = fs.gof_test(NORMAL, fit=quiet(Failing(0.02)), **{**QUICK, "n_resamples": 99})
    fitted = result.fitted
    assert 1 <= fitted.n_failed <= 4
    assert fitted.n_refits == 99 and result.null_distribution.size == 99 - fitted.n_failed
    larger = np.sum(result.null_distribution >= result.statistic)
    assert np.isclose(result.pvalue, (1 + larger + fitted.n_failed) / 100)
    assert "no convergence" in fitted.errors[0] and len(fitted.errors) == 1
    said = f"{fitted.n_failed} of 99 refits failed"
    assert said in result.summary() and f"{fitted.n_failed} of which failed" in repr(result)


def test_too_many_failures_stop_and_lose_nothing(tmp_path):
    path = tmp_path / "refits.jsonl"
    many = quiet(Failing(0.5), checkpoint=path)
    with pytest.raises(ValueError, match=r"`fit` failed on 5 of \d+ sets.*no convergence"):
        fs.gof_test(NORMAL, fit=many, **{**QUICK, "n_resamples": 99})
    assert len(path.read_text().splitlines()) > 1
    again = fs.gof_test(NORMAL, fit=quiet(checkpoint=path), **{**QUICK, "n_resamples": 99})
    assert again.pvalue == fs.gof_test(NORMAL, fit=quiet(), **{**QUICK, "n_resamples": 99}).pvalue


def raising(error):
    def fit(x):
        raise error

    return fit


class NoDraws:
    """A model with a sampler of other samples than asked for."""

    def __init__(self, x):
        self.score = np.negative

    def sample(self, n, rng=None):
        return np.zeros((n, 5))


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (3, "`fit` must be a function"),
        (lambda x: None, "`fit` must return a model with a .score method.*returned NoneType"),
        (lambda x: x, "`fit` must return a model.*returned ndarray"),
        (Failing(2.0, "too big"), None),
        (lambda x: 1 / 0, "`fit` raised ZeroDivisionError"),
        (
            raising(np.linalg.LinAlgError),
            r"`fit` raised LinAlgError on samples of shape \(60, 2\)\.$",
        ),
        (raising(ValueError("no.")), r"`fit` raised ValueError .*: no\.$"),
        (lambda x: lambda y: np.nan * y, "`fit` returned a model that can't be tested.*NaN"),
        (NoDraws, "`fit` must return a model with .sample.*2 columns"),
    ],
)
def test_a_fit_that_returns_nothing_usable(fit, message):
    if message is None:
        message = "`fit` failed on 1 of 1 sets.*too big"
    with pytest.raises((ValueError, TypeError), match=message):
        fs.gof_test(NORMAL, fit=fit if fit == 3 else quiet(fit), **QUICK)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (dict(score=np.negative), "score"),
        (dict(lag=31), "lag"),
        (dict(lag=0.5), "lag"),
        (dict(lag="long"), "lag"),
        (dict(chains=[0, 1]), "chains"),
        (dict(null="spectral"), "null"),
        (dict(tolerance={"shift": 0.1}), "tolerance"),
        (dict(train=NORMAL, n_slices=1), "train"),
        (dict(score_q=np.negative, estimator="exact"), "score_q"),
        (dict(weights=np.ones(60)), "weights"),
        (dict(n_resamples=0), "n_resamples"),
    ],
)
def test_options_that_do_not_go_with_a_fit(options, name):
    with pytest.raises((ValueError, TypeError), match=f"`{name}`") as caught:
        fs.gof_test(NORMAL, fit=quiet(), **options)
    assert caught.value.argument == name


def test_bad_refits():
    for options, name in (
        (dict(split=0.0), "split"),
        (dict(split=1.0), "split"),
        (dict(n_jobs=0), "n_jobs"),
    ):
        with pytest.raises(ValueError, match=f"`{name}`"):
            quiet(**options)
    with pytest.raises(TypeError, match=r"`score` is missing.*`fit`"):
        fs.gof_test(NORMAL)
    with pytest.raises(fs.BatchError, match=r"`fit` is not for batches"):
        fs.gof_batch([{"x": NORMAL, "score": np.negative, "fit": np.negative}], progress=False)


def only_a_score(x):
    return models.Gaussian.fit(x).score


def test_without_a_sampler_the_samples_are_split():
    result = fs.gof_test(HEAVY, fit=quiet(only_a_score), slices=COORDINATES, rng=0)
    assert result.fitted.n_fit == 80 and result.n_test == 20 and result.fitted.n_refits == 0
    assert result.null == "wild" and result.null_distribution.size == 1000
    half = fs.gof_test(HEAVY, fit=quiet(split=0.5), slices=COORDINATES, rng=0)
    rows = np.sort(half._whole.rows)
    fitted = np.delete(HEAVY, rows, axis=0)
    assert rows.size == 50 and np.allclose(half.fitted.model.mean, fitted.mean(axis=0))
    alone = fs.gof_test(HEAVY[rows], models.Gaussian.fit(fitted), slices=COORDINATES, rng=1)
    assert np.isclose(alone.statistic, half.statistic)
    assert set(half.explain().indices.tolist()) <= set(rows.tolist())
    assert "fitted to 50 samples and tested on others" in half.summary()
    from_score = fs.Model.from_score
    model = fs.gof_test(HEAVY, fit=quiet(lambda x: from_score(only_a_score(x))), rng=0)
    assert model.fitted.n_refits == 0


def test_reports_of_a_fitted_model():
    result = fs.gof_test(HEAVY, fit=quiet(), n_resamples=19, rng=0)
    words = result.summary(names=["a", "b"])
    assert "fitted to the samples. The null distribution is that of 19 refits" in words
    assert "do not allow for the fit" in words and "Effect sizes" not in words
    assert "to the same samples; 19 refits" in repr(result)
    assert "refits" in result._repr_html_()
    result.plot()
    with pytest.raises(ValueError, match="`fit` was to the same samples"):
        _ = result.effects
    assert result.explain().slices[0].pvalue < 0.05


def test_progress():
    seen = []
    refit = fs.Refit(models.Gaussian.fit, progress=lambda done, total: seen.append((done, total)))
    fs.gof_test(NORMAL, fit=refit, **QUICK)
    assert seen == [(k, 19) for k in range(1, 20)]


def test_a_line_of_progress(capsys):
    fs.gof_test(NORMAL, fit=models.Gaussian.fit, **QUICK)
    assert "refits 19/19" in capsys.readouterr().err


@pytest.mark.parametrize("method", ["ksd", "fssd", "mmd", "rfsd"])
def test_other_methods(method):
    result = fs.gof_test(HEAVY, fit=quiet(), method=method, n_resamples=19, rng=0)
    assert result.pvalue == 0.05 and result.method == method


def test_names_of_columns():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(NORMAL, columns=["a", "b"])
    assert fs.gof_test(frame, fit=quiet(), **QUICK).names == ("a", "b")
    assert fs.gof_test(frame, fit=quiet(split=0.5), slices=COORDINATES, rng=0).names == ("a", "b")


def test_a_fit_with_parameters():
    two = partial(models.GaussianMixture.fit, n_components=2, n_starts=1)
    x = np.concatenate([NORMAL - 3, NORMAL + 3])
    assert fs.gof_test(x, fit=quiet(two), n_resamples=19, slices=COORDINATES, rng=0).pvalue > 0.05


def test_dependent_samples_taken_as_independent():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 1))
    for k in range(1, 200):
        x[k] = 0.9 * x[k - 1] + 0.4 * x[k]
    result = fs.gof_test(x, fit=quiet(models.Gaussian.fit), n_resamples=19, rng=0)
    for text in (repr(result), result.summary()):
        assert "neighbouring samples depend on each other" in text
        assert "test with lag='auto'" in text and "wild" not in text


def test_too_few_refits_to_reject_are_said():
    x = np.random.default_rng(0).exponential(size=(60, 1))
    few = fs.gof_test(x, fit=quiet(models.Gaussian.fit), n_resamples=5, rng=0)
    assert "p-values of 5 refits are at least 0.17" in few.summary()
    enough = fs.gof_test(x, fit=quiet(models.Gaussian.fit), n_resamples=19, rng=0)
    assert "are at least" not in enough.summary()


def ar1(coefficient, chains, draws, rng):
    """AR(1) chains in two dimensions whose coordinates are standard normal."""
    return autoregressive(np.full(2, coefficient), chains, draws, np.random.default_rng(rng))


def test_chains_are_thinned():
    x = ar1(0.5, 4, 500, 0)
    result = fs.gof_test(x, fit=quiet(), n_resamples=19, rng=0)
    step = result.fitted.thinned
    assert 5 <= step <= 9  # twice the autocorrelation time, which is 3
    kept = np.concatenate([chain[::-1][::step][::-1] for chain in x])
    alone = fs.gof_test(kept, fit=quiet(), n_resamples=19, rng=0)
    assert result.pvalue == alone.pvalue and result.n_test == result.fitted.n_fit == len(kept)
    assert np.allclose(result.fitted.model.mean, kept.mean(axis=0))
    assert result.neighbour_correlation == 0 and alone.fitted.thinned == 1
    flat = x.reshape(-1, 2)
    np.testing.assert_array_equal(flat[np.sort(result._whole.rows)], kept)
    assert [one.draws for one in result.chains.chains] == [500] * 4
    assert np.isnan([one.pvalue for one in result.chains.chains]).all()
    words = result.summary()
    assert f"fitted to the samples, one in {step} of every chain" in words
    assert f"one in {step} of every chain; 19 refits" in repr(result)
    assert f"{len(kept)} of 2000 draws" in repr(result)


@pytest.mark.parametrize("shuffled", [False, True])
def test_chains_by_labels_are_those_by_axis(shuffled):
    x = ar1(0.5, 3, 400, 1)
    labels = np.repeat([7, 8, 9], 400)
    order = np.argsort(np.tile(np.arange(400), 3), kind="stable") if shuffled else slice(None)
    rows = x.reshape(-1, 2)[order]
    options = dict(fit=quiet(), n_resamples=19, rng=0)
    by_axis = fs.gof_test(x, **options)
    by_labels = fs.gof_test(rows, chains=labels[order], **options)
    assert by_axis.fitted.thinned == by_labels.fitted.thinned
    a, b = x.reshape(-1, 2)[by_axis._whole.rows], rows[by_labels._whole.rows]
    np.testing.assert_array_equal(a[np.lexsort(a.T)], b[np.lexsort(b.T)])


def test_chains_with_a_given_lag():
    x = ar1(0.5, 1, 600, 2)[0]
    for lag, step in ((1, 1), (3, 1), (18, 6)):
        result = fs.gof_test(x, fit=quiet(), lag=lag, n_resamples=19, rng=0)
        assert result.fitted.thinned == step and result.n_test == 600 // step
    told = fs.gof_test(x, fit=quiet(), lag="auto", n_resamples=19, rng=0)
    assert told.fitted.thinned >= 5
    assert "lag='auto'" in fs.gof_test(x, fit=quiet(), n_resamples=19, rng=0).summary()


def test_chains_too_short_for_a_fit():
    def count(x):
        calls.append(len(x))
        return models.Gaussian.fit(x)

    calls = []
    result = fs.gof_test(ar1(0.97, 2, 300, 3), fit=quiet(count), rng=0)
    assert "too short to tell" in result.verdict and np.isnan(result.pvalue)
    assert result.draws_needed > 600 and calls == [600]  # no refits
    assert "too short" in result.summary() and "refits" not in repr(result)
    with pytest.raises(ValueError, match="`fit` was to the same samples"):
        _ = result.effects
    stuck = ar1(0.5, 4, 300, 4)
    stuck[2] += 8.0
    apart = fs.gof_test(stuck, fit=quiet(), rng=0)
    assert apart.chains.different == (2,) and apart.draws_needed


def test_chains_without_a_sampler_are_thinned_and_split():
    x = ar1(0.5, 4, 500, 5)
    result = fs.gof_test(x, fit=quiet(only_a_score), slices=COORDINATES, rng=0)
    thinned = result.fitted.thinned
    assert 5 <= thinned <= 9 and result.fitted.n_fit + result.n_test == 4 * -(-500 // thinned)
    flat = x.reshape(-1, 2)
    rows = np.sort(result._whole.rows)
    alone = fs.sksd(flat[rows], result.fitted.model, COORDINATES)
    assert np.isclose(result.statistic, alone)


def test_chains_of_unequal_length_and_bad_draws():
    x = ar1(0.5, 2, 500, 6)
    result = fs.gof_test([x[0], x[1, :333]], fit=quiet(), n_resamples=19, rng=0)
    assert [one.draws for one in result.chains.chains] == [500, 333]
    x[1, 7, 0] = np.nan
    with pytest.raises(ValueError, match=r"`x` .*draw 7 of chain 1"):
        fs.gof_test(x, fit=quiet(), rng=0)


def test_chains_go_on_from_a_checkpoint(tmp_path):
    x = ar1(0.5, 2, 300, 7)
    refit = quiet(checkpoint=tmp_path / "refits.jsonl")
    few = fs.gof_test(x, fit=refit, n_resamples=9, rng=0)
    more = fs.gof_test(x, fit=refit, n_resamples=19, rng=0)
    assert more.pvalue == fs.gof_test(x, fit=quiet(), n_resamples=19, rng=0).pvalue
    assert few.fitted.n_refits == 9


@pytest.mark.slow
def test_level_of_fits_to_thinned_chains():
    rejected = sum(
        fs.gof_test(ar1(0.8, 4, 500, seed), fit=quiet(), n_resamples=19, rng=seed).reject()
        for seed in range(150)
    )
    assert rejected <= 16  # 5% of 150 are 7.5; more than 16 have a chance of 0.2%
