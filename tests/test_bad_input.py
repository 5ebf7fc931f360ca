"""Bad input gets an error that names the argument; unusual but legal input works unchanged."""

import pickle

import numpy as np
import pytest

import fastsksd as fs
from fastsksd import models
from fastsksd._validate import (
    ArgumentError,
    ArgumentTypeError,
    Option,
    check_choice,
    check_integer,
    check_number,
    check_probability,
    check_rng,
    check_samples,
    check_score,
)

X = np.random.default_rng(0).standard_normal((60, 3))
SLICES = fs.Slices(np.eye(3), np.eye(3))


def with_value(value, row=7):
    x = X.copy()
    x[row, 1] = value
    return x


def raising(x):
    raise RuntimeError("no luck")


def nan_on_rows(x):
    scores = -x
    scores[[2, 5]] = np.nan
    return scores


GOF = {
    "x one-dimensional": (
        dict(x=X[:, 0], score=-X[:, 0]),
        ValueError,
        r"`x` must be two-dimensional.*x\[:, None\]",
    ),
    "x four-dimensional": (dict(x=X[None, None]), ValueError, "`x` must be two-dimensional"),
    "x of strings": (
        dict(x=np.full((5, 2), "a")),
        TypeError,
        "`x` must be an array of real numbers",
    ),
    "x complex": (dict(x=X + 1j), TypeError, "`x` must be an array of real numbers"),
    "x ragged": (dict(x=[[1.0], [1.0, 2.0]]), TypeError, "`x`"),
    "x without columns": (
        dict(x=np.empty((5, 0))),
        ValueError,
        "`x` must have at least one column",
    ),
    "NaN in x": (
        dict(x=with_value(np.nan)),
        ValueError,
        r"`x` holds NaN or infinity in 1 of 60 rows \(row 7\)",
    ),
    "infinity in x": (dict(x=with_value(np.inf)), ValueError, "`x` holds NaN or infinity"),
    "one sample": (dict(x=X[:1]), ValueError, "`x` has 1 sample; the default test needs"),
    "three samples": (
        dict(x=X[:3]),
        ValueError,
        "`x` has 3 samples; the default test needs at least 6. Give more samples, or fixed",
    ),
    "five samples": (dict(x=X[:5]), ValueError, "`x` has 5 samples; the default test needs"),
    "three samples and a split": (
        dict(x=X[:3], train="cross"),
        ValueError,
        "`train` splits 3 samples.*at least 2.*fixed slices",
    ),
    "one test sample": (dict(x=X[:1], slices=SLICES), ValueError, "`x` leaves 1 test sample;"),
    "two training samples": (
        dict(train=2),
        ValueError,
        "`train` leaves 2 training samples; debias=True needs at least 3",
    ),
    "score of another shape": (
        dict(score=-X[:, :2]),
        ValueError,
        r"`score` must have the shape of the samples, \(60, 3\); got \(60, 2\)",
    ),
    "score returns another shape": (
        dict(score=lambda x: -x[:, :1]),
        ValueError,
        r"`score` must return an array of shape .* it returned",
    ),
    "score raises": (dict(score=raising), ValueError, "`score` raised RuntimeError.*no luck"),
    "score returns NaN": (
        dict(score=nan_on_rows, slices=SLICES),
        ValueError,
        r"`score` returned NaN or infinity in 2 of 60 rows \(rows 2, 5\)",
    ),
    "score array with NaN": (
        dict(score=with_value(np.nan)),
        ValueError,
        r"`score` holds NaN or infinity in 1 of 60 rows \(row 7\)",
    ),
    "score returns text": (dict(score=lambda x: np.full(x.shape, "a")), TypeError, "`score`"),
    "score array of complex numbers": (
        dict(score=-X + 0j),
        TypeError,
        "`score` must be an array of real numbers; got dtype complex128",
    ),
    "score of a model raises": (
        dict(score=fs.models.Model.from_score(raising), n_slices=1, estimator="ge"),
        ValueError,
        r"^`score` raised RuntimeError on samples of shape \(60, 3\): no luck\.$",
    ),
    "score is a string": (dict(score="normal"), TypeError, "`score` must be an"),
    "score is None": (dict(score=None), TypeError, "`score` is missing"),
    "n_slices zero": (dict(n_slices=0), ValueError, "`n_slices` must be between 1 and 3; got 0"),
    "n_slices above d": (dict(n_slices=4), ValueError, "`n_slices` must be between 1 and 3; got 4"),
    "n_slices not an integer": (dict(n_slices=1.5), TypeError, "`n_slices` must be an integer"),
    "basis not unit": (
        dict(basis=2 * np.eye(3)),
        ValueError,
        "`basis` must have rows of unit length; row 0 has length 2",
    ),
    "basis of another shape": (
        dict(basis=np.eye(4)),
        ValueError,
        r"`basis` must have shape \(m, 3\).*got \(4, 4\)",
    ),
    "basis unknown": (dict(basis="fourier"), ValueError, "`basis` must be None, 'identity' or an"),
    "basis and n_slices": (dict(basis="identity", n_slices=2), ValueError, "`n_slices`.*`basis`"),
    "slices and n_slices": (dict(slices=SLICES, n_slices=2), ValueError, "`slices` are given"),
    "slices of another dimension": (
        dict(slices=fs.random_slices(4, 2)),
        ValueError,
        "`slices` are directions in 4 dimensions but `x` has 3",
    ),
    "slices of another type": (dict(slices=3), TypeError, "`slices` must be a Slices object"),
    "exact without score_q": (
        dict(estimator="exact"),
        ValueError,
        "`score_q`.*is needed for estimator='exact'",
    ),
    "exact with an array": (
        dict(estimator="exact", score_q=-X, score=np.negative),
        ValueError,
        "`score_q` must be a callable or a model",
    ),
    "ge with an array": (
        dict(estimator="ge", score=-X),
        ValueError,
        "`score` must be a callable or a model for estimator='ge'",
    ),
    "score_q without exact": (
        dict(score_q=np.negative),
        ValueError,
        "`score_q` is used by estimator='exact' only",
    ),
    "estimator unknown": (
        dict(estimator="kde"),
        ValueError,
        "`estimator` must be one of 'ke', 'ksd', 'ge', 'exact'",
    ),
    "n_resamples zero": (
        dict(n_resamples=0),
        ValueError,
        "`n_resamples` must be at least 1; got 0",
    ),
    "n_resamples without end": (
        dict(n_resamples=10**9),
        ValueError,
        "`n_resamples` must be at most 10000000; got 1000000000",
    ),
    "n_resamples beyond the memory": (
        dict(n_resamples=10**7, slices=None),
        ValueError,
        "`n_resamples` must be at most [0-9]+ here, .* may have 8 GB; got 10000000",
    ),
    "n_resamples a float": (dict(n_resamples=10.0), TypeError, "`n_resamples` must be an integer"),
    "unknown method": (dict(method="mcd"), ValueError, "`method` must be one of"),
    "slices for ksd": (
        dict(method="ksd", n_slices=2),
        ValueError,
        "`n_slices` does not apply to method='ksd'",
    ),
    "training for ksd": (
        dict(method="ksd", train=0.2),
        ValueError,
        "`train` does not apply to method='ksd'",
    ),
    "bandwidths for ksd": (
        dict(method="ksd", kernel=fs.RBF([1.0, 2.0])),
        ValueError,
        "`kernel` of the KSD must have one",
    ),
    "train zero": (dict(train=0.0), ValueError, "`train` must be finite and greater than 0"),
    "train one": (dict(train=1.0), ValueError, "`train` must be a fraction between 0 and 1"),
    "train everything": (
        dict(train=60),
        ValueError,
        "`train` must be at least 1 and less than the number of samples, 60; got 60",
    ),
    "train negative": (dict(train=-5), ValueError, "`train` must be at least 1.*; got -5"),
    "train too much": (dict(train=250), ValueError, "`train` must be .* less than .*; got 250"),
    "lag a word": (dict(lag="long"), TypeError, "`lag` must be a number or 'auto'; got 'long'"),
    "one null alone": (dict(method="fssd", null="spectral_"), ValueError, "`null` must be "),
    "extra slices a number": (
        dict(extra_slices=3),
        TypeError,
        r"`extra_slices` must map names to slices, or be a sequence of pairs \(name, slices\)",
    ),
    "extra slices of another width": (
        dict(extra_slices={"a": fs.random_slices(2, 1, rng=0)}),
        ValueError,
        "`extra_slices` has a set 'a' that can't be used: are directions in 2 dimensions but `x`",
    ),
    "multiples of one set": (
        dict(slices=SLICES, multiples=(1.0,)),
        ValueError,
        "`multiples` is for a family: give `slices` as a mapping of names",
    ),
    "a search in one dimension": (
        dict(x=X[:, :1], debias=False),
        ValueError,
        "`debias` has no use: in one dimension there is no direction to find; leave it out",
    ),
    "train of another width": (dict(train=X[:, :2]), ValueError, "`train` must have 3 columns"),
    "train array with an array score": (
        dict(train=X, score=-X),
        ValueError,
        "`score` must be a callable or a model when `train`",
    ),
    "train a word": (
        dict(train="half"),
        TypeError,
        "`train` must be a fraction, a count, an array of samples or 'cross'",
    ),
    "train a flag": (dict(train=True), TypeError, "`train`"),
    "kernel unknown": (
        dict(kernel="laplace"),
        ValueError,
        "`kernel` must be one of 'rbf', 'imq'; got 'laplace'",
    ),
    "kernel of another type": (
        dict(kernel=3),
        TypeError,
        "`kernel` must be 'rbf', 'imq' or a kernel object",
    ),
    "null unknown": (
        dict(null="permutation"),
        ValueError,
        "`null` must be one of 'wild', 'bootstrap', 'spectral'; got 'permutation'",
    ),
    "lag without wild": (dict(null="bootstrap", lag=5), ValueError, "`lag` is for null='wild'"),
    "lag below one": (
        dict(null="wild", lag=0.5),
        ValueError,
        "`lag` must be finite and at least 1",
    ),
    "tolerance too small": (
        dict(tol=1e-17),
        ValueError,
        "`tol` must be between 1e-12 and 0.1; got 1e-17",
    ),
    "tolerance no number": (dict(tol="tight"), TypeError, "`tol` must be a number"),
    "engine unknown": (
        dict(engine="gpu"),
        ValueError,
        "`engine` must be one of 'auto', 'direct', 'fourier', 'cuda', 'cuda32'; got 'gpu'",
    ),
    "rng of another type": (dict(rng="seed"), TypeError, "`rng` must be None"),
    "rng negative": (dict(rng=-1), ValueError, "`rng` must be a non-negative seed"),
    "constant column": (
        dict(x=X * [1, 0, 1], basis="identity", slices=None),
        ValueError,
        "`x` does not vary in column 1, along",
    ),
    "one sample over and over": (
        dict(x=np.ones((50, 3))),
        ValueError,
        "`x` holds the same sample over and over",
    ),
    "overflow": (dict(x=X, score=1e200 * X, slices=SLICES), ValueError, "overflows"),
    "huge samples": (
        dict(x=1e160 * X),
        ValueError,
        r"`x` is beyond 1e\+70 of its units in row \d+, column \d, where",
    ),
    "huge along given slices": (
        dict(x=1e160 * X, score=-X, slices=SLICES),
        ValueError,
        r"`score` is beyond .* in row \d+",
    ),
    "huge for the KSD": (dict(x=1e160 * X, method="ksd"), ValueError, r"`x` varies by about"),
    "large units": (dict(x=1e80 * X), ValueError, r"`x` is beyond 1e\+70 of its units in row"),
    "small units": (
        dict(x=1e-80 * X),
        ValueError,
        r"`x` has a median distance .* of \de-80, and slices can be found between",
    ),
    "minute units": (dict(x=1e-160 * X), ValueError, r"`x` varies by no more than \de-160"),
}


@pytest.mark.parametrize("case", GOF)
def test_gof_test_explains_bad_input(case):
    options, error, message = GOF[case]
    if case == "constant column":
        options = {"x": options["x"], "slices": SLICES}
    arguments = {"x": X, "score": np.negative, "n_resamples": 10} | options
    with np.errstate(all="ignore"), pytest.raises(error, match=message):
        fs.gof_test(arguments.pop("x"), arguments.pop("score"), **arguments)


OTHERS = {
    "engine with Fourier series, without use": (
        lambda: fs.active_slices(X, np.negative, n_slices=1, engine="fourier"),
        ValueError,
        "`engine` must be one of 'auto', 'direct', 'cuda', 'cuda32'; got 'fourier'",
    ),
    "statistic unknown": (
        lambda: fs.sksd(X, -X, SLICES, statistic="w"),
        ValueError,
        "`statistic` must be one of 'u', 'v'; got 'w'",
    ),
    "bandwidth negative": (lambda: fs.RBF(-1.0), ValueError, "`bandwidth` must be positive"),
    "bandwidth unknown": (
        lambda: fs.RBF("silverman"),
        ValueError,
        "`bandwidth` must be 'median' or positive numbers; got 'silverman'",
    ),
    "bandwidth matrix": (lambda: fs.IMQ(np.eye(2)), ValueError, "`bandwidth`"),
    "bandwidths of another number": (
        lambda: fs.sksd(X, -X, SLICES, kernel=fs.RBF([1.0, 2.0])),
        ValueError,
        "`kernel` has 2 bandwidths but there are 3 slices",
    ),
    "ksd with many bandwidths": (
        lambda: fs.ksd(X, -X, kernel=fs.RBF([1.0, 2.0])),
        ValueError,
        "`kernel` of the KSD",
    ),
    "smoothing with imq": (
        lambda: fs.active_slices(X, -X, kernel="imq"),
        ValueError,
        "`kernel` of the score difference must be 'rbf'",
    ),
    "noise negative": (
        lambda: fs.active_slices(X, -X, noise=-1.0),
        ValueError,
        "`noise` must be finite and at least 0",
    ),
    "debias a number": (
        lambda: fs.active_slices(X, -X, debias=3),
        TypeError,
        "`debias` must be True or False",
    ),
    "slices of unequal shape": (
        lambda: fs.Slices(np.eye(3), np.eye(3)[:2]),
        ValueError,
        r"`g` must have shape \(3, 3\)",
    ),
    "slices not unit": (
        lambda: fs.Slices(np.eye(3), 3 * np.eye(3)),
        ValueError,
        "`g` must have rows of unit length",
    ),
    "slice values of another length": (
        lambda: fs.Slices(np.eye(3), np.eye(3), r_values=[1.0]),
        ValueError,
        "`r_values`",
    ),
    "random slices in no dimension": (
        lambda: fs.random_slices(0, 3),
        ValueError,
        "`d` must be at least 1",
    ),
    "alpha of one": (lambda: fs.gof_test(X, -X, n_resamples=5).reject(1.0), ValueError, "`alpha`"),
    "ridge of zero": (
        lambda: fs.score_difference.SteinGradient(X, np.negative, eta=0.0),
        ValueError,
        "`eta` must be finite and greater than 0",
    ),
    "psd without score_q": (
        lambda: fs.psd(X, np.negative, estimator="exact"),
        ValueError,
        "`score_q`",
    ),
    "one random slice": (
        lambda: fs.integrated_sksd(X, -X, n_slices=1),
        ValueError,
        "`n_slices` must be at least 2",
    ),
    "two samples for the unbiased": (
        lambda: fs.active_slices(X[:2], -X[:2]),
        ValueError,
        "`x` must hold at least 3 samples",
    ),
    "one sample for slices": (
        lambda: fs.active_slices(X[:1], -X[:1]),
        ValueError,
        "`x` must hold at least 2 samples",
    ),
    "ksd of copies": (
        lambda: fs.ksd(np.ones((5, 2)), -np.ones((5, 2))),
        ValueError,
        "`x` holds the same sample",
    ),
}


@pytest.mark.parametrize("case", OTHERS)
def test_other_doors_explain_bad_input(case):
    call, error, message = OTHERS[case]
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "kind", "argument", "problem"),
    [
        (lambda: check_choice("a", "c", ("b",)), ArgumentError, "a", "must be 'b'; got 'c'"),
        (
            lambda: check_integer("a", 1.5, 0),
            ArgumentTypeError,
            "a",
            "must be an integer, not float",
        ),
        (
            lambda: check_number("a", -1, 0),
            ArgumentError,
            "a",
            "must be finite and at least 0; got -1",
        ),
        (lambda: check_probability("a", 1), ArgumentError, "a", "must be between 0 and 1; got 1"),
        (lambda: check_probability("a", "b"), ArgumentTypeError, "a", "must be a number, not str"),
        (lambda: check_rng(-1), ArgumentError, "rng", "must be a non-negative seed; got -1"),
        (lambda: check_score(3), ArgumentTypeError, "score", None),
        (lambda: check_samples(X[:, 0]), ArgumentError, "x", None),
    ],
)
def test_errors_hold_the_argument_as_data(call, kind, argument, problem):
    with pytest.raises(kind) as caught:
        call()
    error = caught.value
    assert error.argument == argument and problem in (None, error.problem)
    remedy = "" if error.remedy is None else f" {error.remedy}"
    assert str(error) == f"`{argument}` {error.problem}.{remedy}"
    assert error.message("--flag") == f"--flag {error.problem}.{remedy}"


def test_errors_travel_between_processes():
    error = ArgumentError("lag", "is for ", Option("null", "wild"), remedy="Give it.")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) == "`lag` is for null='wild'. Give it."
    assert (again.argument, again.remedy) == ("lag", "Give it.")
    assert again.message(option=lambda option: f"--{option.name} {option.value}") == (
        "`lag` is for --null wild. Give it."
    )


def test_keywords_do_not_swallow_typos():
    with pytest.raises(TypeError, match="n_resample"):
        fs.gof_test(X, -X, n_resample=100)


LAYOUTS = {
    "float32": lambda x: x.astype(np.float32),
    "integers": lambda x: np.round(10 * x).astype(int),
    "Fortran order": np.asfortranarray,
    "every second row": lambda x: np.repeat(x, 2, axis=0)[::2],
    "reversed": lambda x: x[::-1],
    "list": lambda x: x.tolist(),
    "columns of a wider array": lambda x: np.concatenate([x, x], axis=1)[:, : x.shape[1]],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_and_types_give_the_same_result(layout):
    x = LAYOUTS[layout](X)
    plain = np.array(x, dtype=float)
    options = {"n_resamples": 20, "rng": 0}
    expected = fs.gof_test(plain, -plain, **options)
    result = fs.gof_test(x, -np.asarray(x) if layout != "list" else (-plain).tolist(), **options)
    assert result.statistic == expected.statistic and result.pvalue == expected.pvalue


@pytest.mark.parametrize("estimator", ["ke", "ge"])
def test_arrays_are_never_written_to(estimator):
    x, scores = X.copy(), -X
    x.setflags(write=False)
    scores.setflags(write=False)
    basis = np.eye(3)
    basis.setflags(write=False)
    score = scores if estimator == "ke" else np.negative
    fs.gof_test(x, score, estimator=estimator, basis=basis, n_resamples=10, rng=0)
    fs.sksd(x, scores, fs.Slices(basis, basis), kernel="imq")
    fs.ksd(x, scores)
    assert np.array_equal(x, X)


def test_three_samples_with_given_slices():
    result = fs.gof_test(X[:3], -X[:3], slices=SLICES, n_resamples=30, rng=0)
    assert 0 < result.pvalue <= 1 and np.isfinite(result.statistic)


def test_duplicated_samples_work():
    x = np.repeat(X[:20], 3, axis=0)
    assert 0 < fs.gof_test(x, np.negative, n_resamples=30, rng=0).pvalue <= 1


@pytest.mark.parametrize("kernel", ["rbf", "imq"])
def test_a_far_outlier_is_survived(kernel):
    x = X.copy()
    x[3] = 1e8
    result = fs.gof_test(x, models.StudentT(3), kernel=kernel, slices=SLICES, n_resamples=30, rng=0)
    assert np.isfinite(result.statistic) and 0 < result.pvalue <= 1
    assert np.isfinite(
        fs.gof_test(x, models.StudentT(3), kernel=kernel, n_resamples=30, rng=0).statistic
    )


def test_one_dimension_works():
    x = models.Gaussian(0.0, 1.0).sample(200, rng=0)
    result = fs.gof_test(x, np.negative, n_resamples=99, rng=0)
    assert len(result.slices) == 1 and result.pvalue > 0.01


def test_too_little_memory_is_no_fault_of_the_score():
    def hungry(x):
        raise MemoryError("no room")

    with pytest.raises(MemoryError, match="no room"):
        fs.gof_test(X, hungry, n_resamples=10)


ENDLESS = {
    "baseline": lambda n: fs.gof_test(X, np.negative, method="ksd", n_resamples=n),
    "refits": lambda n: fs.gof_test(X, fit=lambda x: fs.models.Gaussian.fit(x), n_resamples=n),
    "explain": lambda n: fs.gof_test(X, -X, n_resamples=5).explain(n_resamples=n),
    "stream": lambda n: fs.gof_stream([X], np.negative, n_resamples=n),
    "stream along slices": lambda n: fs.gof_stream([X], np.negative, slices=SLICES, n_resamples=n),
    "accumulator": lambda n: fs.Accumulator(SLICES, X).add(X, -X).result(n_resamples=n),
}


@pytest.mark.parametrize("case", ENDLESS)
def test_replicates_without_end_are_refused_at_once(case):
    with pytest.raises(ValueError, match="`n_resamples` must be at most 10000000; got 1000000000"):
        ENDLESS[case](10**9)


def test_replicates_beyond_the_memory_are_refused_at_once():
    """Of groups all weights are held, and of KSDAgg all replicates of all widths."""
    x = np.random.default_rng(0).standard_normal((25_000, 2))
    first = fs.FamilyAccumulator(x[:5000], np.negative)
    first.add(x[5000:], np.negative)
    beyond = "must be at most [0-9]+ here, .* may have 8 GB; got 1000000"
    for null in ("wild", "bootstrap"):
        options = dict(null=null, n_resamples=10**6)
        for test in (
            lambda: fs.gof_test(x, np.negative, **options),
            lambda: fs.gof_stream(x, np.negative, **options),
            lambda: first.result(**options),
        ):
            with pytest.raises(ValueError, match=f"`n_resamples` {beyond}"):
                test()
    with pytest.raises(ValueError, match=r"`n_level` must be at most \d+ here"):
        fs.baselines.KSDAgg(n_level=9 * 10**6)
