"""Samples in data frames: pandas, polars and xarray."""

import numpy as np
import pytest

import fastsksd as fs

X = np.random.default_rng(0).standard_normal((200, 3)) * [1.0, 0.4, 1.0]
NAMES = ("alpha", "beta", "gamma")
SLICES = fs.Slices(np.eye(3), np.eye(3))


class Frame:
    """The least that a data frame is."""

    def __init__(self, columns, values):
        self.columns, self.values = columns, values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype)


def pandas_frame(names, values):
    return pytest.importorskip("pandas").DataFrame(
        dict(zip(names, np.transpose(values), strict=True))
    )


def polars_frame(names, values):
    return pytest.importorskip("polars").DataFrame(
        dict(zip(names, np.transpose(values), strict=True))
    )


def labelled_array(names, values):
    return pytest.importorskip("xarray").DataArray(
        values, dims=("draw", "parameter"), coords={"parameter": list(names)}
    )


@pytest.fixture(params=[Frame, pandas_frame, polars_frame, labelled_array])
def frame(request):
    return request.param


def test_columns_name_the_coordinates(frame):
    x = frame(NAMES, X)
    options = dict(rng=0, n_resamples=99)
    plain, named = fs.gof_test(X, np.negative, **options), fs.gof_test(x, np.negative, **options)
    assert named.pvalue == plain.pvalue and named.names == NAMES and plain.names is None
    assert named.explain().names == NAMES and named.explain(names=list("abc")).names == (
        "a",
        "b",
        "c",
    )
    assert "beta" in named.summary() and "x[1]" not in named.summary() and "beta" in repr(named)
    assert "x[1]" in plain.summary() and "x[1]" in repr(plain)
    assert fs.gof_test(x, np.negative, method="ksd", **options).explain().names == NAMES
    assert fs.sksd(x, -X, SLICES) == fs.sksd(X, -X, SLICES)
    assert np.array_equal(fs.active_slices(x, -X).g, fs.active_slices(X, -X).g)


def test_names_as_an_argument():
    options = dict(rng=0, n_resamples=99)
    plain = fs.gof_test(X, np.negative, **options)
    named = fs.gof_test(X, np.negative, names=list(NAMES), **options)
    assert named.pvalue == plain.pvalue and named.names == NAMES
    assert "beta" in named.summary() and "x[1]" not in named.summary()
    assert named.effects.names[:3] == named.explain().names == NAMES
    frame = Frame(NAMES, X)
    assert fs.gof_test(frame, np.negative, names=list("xyz"), **options).names == ("x", "y", "z")
    chains = fs.gof_test(X.reshape(4, 50, 3), np.negative, names=NAMES, **options)
    assert chains.names == NAMES
    limits = dict(tolerance={"shift": 0.1, "stretch": 0.1})
    assert "beta" in fs.gof_test(X, np.negative, names=NAMES, **limits, **options).tolerated.worst
    (one,) = fs.gof_batch([(X, np.negative)], names=NAMES, progress=False, **options)
    assert one.names == NAMES
    assert fs.gof_test(X, np.negative, names=NAMES, method="ksd", **options).names == NAMES


@pytest.mark.parametrize("split", [None, 0.5])
def test_names_of_a_test_with_a_fit(split):
    fit = fs.Refit(fs.models.Laplace.fit, progress=False, split=split)
    limits = {} if split is None else {"tolerance": {"stretch": 0.01}}
    result = fs.gof_test(X, fit=fit, names=NAMES, rng=0, n_resamples=9, **limits)
    assert result.names == NAMES
    assert split is None or result.tolerated.worst.split()[0] in NAMES


def test_bad_names():
    with pytest.raises(ValueError, match=r"`names` must have one name for each of 3 coord.*got 2"):
        fs.gof_test(X, np.negative, names=["a", "b"])
    with pytest.raises(TypeError, match="`names` must be a sequence of 3 strings"):
        fs.gof_test(X, np.negative, names=3)


def test_scores_with_columns_in_another_order_are_refused(frame):
    turned = frame(NAMES[::-1], -X[:, ::-1])
    with pytest.raises(
        ValueError, match=r"`score` .* in another order: column 0 is 'gamma', and 'alpha' in `x`"
    ):
        fs.gof_test(frame(NAMES, X), turned)
    scores = frame([f"d_{name}" for name in NAMES], -X)
    assert (
        fs.gof_test(frame(NAMES, X), scores, slices=SLICES, rng=0).pvalue
        == fs.gof_test(X, -X, slices=SLICES, rng=0).pvalue
    )


def test_names_are_kept_by_checkpoints(tmp_path):
    options = dict(
        rng=0, n_resamples=19, slices=SLICES, progress=False, checkpoint=tmp_path / "batch.jsonl"
    )
    for _ in range(2):
        (result,) = fs.gof_batch([(Frame(NAMES, X), np.negative)], **options)
        assert result.names == NAMES


def test_columns_without_names():
    assert fs.gof_test(Frame(range(3), X), np.negative, slices=SLICES, n_resamples=9).names is None


def test_columns_that_are_no_numbers():
    values = X.astype(object)
    values[3, 2] = "ill"
    for call in (fs.gof_test, fs.active_slices, lambda x, score: fs.sksd(x, score, SLICES)):
        with pytest.raises(
            TypeError, match="`x` must be an array of real numbers; column 'gamma' holds 'ill'"
        ):
            call(Frame(NAMES, values), np.negative)


def test_columns_of_several_types():
    values = X.astype(object)
    values[:, 1] = X[:, 1] > 0
    assert fs.sksd(Frame(NAMES, values), -X, SLICES) == fs.sksd(values.astype(float), -X, SLICES)


def test_pandas():
    pd = pytest.importorskip("pandas")
    x = pandas_frame(NAMES, X)
    expected = fs.sksd(X, -X, SLICES)
    # Its own types of numbers come as Python objects.
    assert fs.sksd(x.convert_dtypes(), -X, SLICES) == expected
    assert fs.gof_test(pd.DataFrame(X), np.negative, slices=SLICES, n_resamples=9).names is None
    with pytest.raises(
        TypeError, match="`x` must be an array of real numbers; column 'label' holds 'ill'"
    ):
        fs.gof_test(x.assign(label="ill"), np.negative)
    with pytest.raises(
        TypeError, match="`x` must be an array of real numbers; column 'beta' holds <NA>"
    ):
        fs.gof_test(x.assign(beta=pd.array([pd.NA] * 200, dtype="Float64")), np.negative)
    with pytest.raises(ValueError, match=r"`x` must be two-dimensional.* use x\.to_frame\(\)"):
        fs.gof_test(x["beta"], np.negative)
    assert fs.gof_test(x["beta"].to_frame(), np.negative, n_resamples=9).names == ("beta",)


def test_polars():
    pl = pytest.importorskip("polars")
    x = polars_frame(NAMES, X)
    with pytest.raises(
        TypeError, match="`x` must be an array of real numbers; column 'label' holds 'ill'"
    ):
        fs.gof_test(x.with_columns(label=pl.lit("ill")), np.negative)
    with pytest.raises(ValueError, match=r"`x` must be two-dimensional.* use x\.to_frame\(\)"):
        fs.gof_test(x["beta"], np.negative)
