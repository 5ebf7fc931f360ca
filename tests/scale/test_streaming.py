"""Accumulators: chunks in any order and grouping give the one-shot test; errors lose nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastsksd as fs
from fastsksd.compute.projections import project
from fastsksd.engines import DirectEngine
from fastsksd.scale import accumulator, streaming

SLICES = fs.random_slices(3, 2, rng=1)


def samples(tail, n, seed):
    rng = np.random.default_rng(seed)
    if tail == "outlier":
        x = rng.standard_normal((n, 3))
        x[n // 2] = [1e8, -3.0, 40.0]
        return x
    return rng.standard_normal((n, 3)) if tail == "normal" else rng.standard_t(tail, (n, 3))


def score(x):
    return -4.0 * x / (1.0 + x * x)


@pytest.mark.parametrize("kernel", ["rbf", "imq"])
@pytest.mark.parametrize("tail", ["normal", 2.0, 1.0, "outlier"])
def test_chunks_give_the_one_shot_test(kernel, tail):
    x = samples(tail, 300, 0)
    total = fs.Accumulator(SLICES, x[:100], kernel=kernel)
    for part in np.split(x, [1, 7, 130, 131]):
        total.add(part, score)
    streamed = total.result(rng=0)
    object_kernel = fs.kernels.KERNELS[kernel](streamed.bandwidths)
    whole = fs.gof_test(
        x, score, slices=SLICES, kernel=object_kernel, null="spectral", engine="direct", rng=0
    )
    assert (streamed.n_test, streamed.engine, streamed.null) == (300, "fourier", "spectral")
    y, s, a, h = project(x, score(x), SLICES, object_kernel)
    size = np.mean(np.abs(s) + np.abs(a / h)[:, None], axis=1) ** 2
    assert np.all(np.abs(streamed.slice_statistics - whole.slice_statistics) <= 2e-8 * size)
    assert streamed.pvalue == pytest.approx(whole.pvalue, rel=1e-5)
    spectra = [
        np.sort(total.spectrum())[-20:],
        np.sort(DirectEngine(object_kernel.code, y, s, a, h).spectrum())[-20:],
    ]
    np.testing.assert_allclose(*spectra, atol=1e-7)
    assert "300 tested" in repr(streamed)


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 119), max_size=6, unique=True))
def test_merging_is_associative_and_order_does_not_matter(seed, cuts):
    x = samples(2.0, 120, 3)
    first = fs.Accumulator(SLICES, x[:40])
    together = first.empty().add(x, score)
    parts = [first.empty().add(part, score) for part in np.split(x, sorted(cuts))]
    rng = np.random.default_rng(seed)
    while len(parts) > 1:
        taken = parts.pop(rng.integers(len(parts)))
        parts[rng.integers(len(parts))].merge(taken)
    assert parts[0].n == 120
    np.testing.assert_allclose(parts[0].statistics, together.statistics, rtol=1e-9, atol=1e-12)


def test_a_file_that_is_not_loaded_and_a_generator(tmp_path):
    x = samples("normal", 5000, 1)
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    total = fs.Accumulator(SLICES, mapped[:500])
    for start in range(0, 5000, 1300):
        total.add(mapped[start : start + 1300], lambda x: -x)
    other = total.empty()
    for chunk in (x[k : k + 999] for k in range(0, 5000, 999)):
        other.add(chunk, lambda x: -x)
    np.testing.assert_allclose(total.statistics, other.statistics, rtol=1e-8, atol=1e-12)
    assert total.n == other.n == 5000 and total.result(rng=0).pvalue > 0.001


def test_memory_does_not_grow_with_the_stream():
    total = fs.Accumulator(SLICES, samples("normal", 500, 0))
    for seed in range(12):
        total.add(samples("normal", 4000, seed), lambda x: -x)
        if seed == 3:
            before = total._moments.nbytes
    assert total._moments.nbytes <= 2 * before


def test_a_chunk_counts_when_it_is_whole():
    x = samples("normal", 200, 0)
    total = fs.Accumulator(SLICES, x).add(x, score)
    before = total.statistics
    with pytest.raises(ValueError, match="`score` raised RuntimeError"):
        total.add(x, lambda x: (_ for _ in ()).throw(RuntimeError("no")))
    original = accumulator.feature_block

    def interrupted(*arguments):
        raise KeyboardInterrupt

    accumulator.feature_block = interrupted
    try:
        with pytest.raises(KeyboardInterrupt):
            total.add(x, score)
    finally:
        accumulator.feature_block = original
    assert total.n == 200 and np.array_equal(total.statistics, before)


def test_an_interrupt_while_sums_are_joined_leaves_them(monkeypatch):
    x = samples(2.0, 200, 0)
    total = fs.Accumulator(SLICES, x).add(x, score)
    before, spectrum = total.statistics, total.spectrum()
    part = total.empty().add(x[:50], score)
    original, calls = accumulator.accumulate, []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        original(*arguments)

    monkeypatch.setattr(accumulator, "accumulate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        total.merge(part)
    monkeypatch.undo()
    assert total.n == 200 and np.array_equal(total.statistics, before)
    assert np.array_equal(total.spectrum(), spectrum)


def equal(one, two):
    assert (one.n_test, one.n_train) == (two.n_test, two.n_train)
    np.testing.assert_allclose(one.bandwidths, two.bandwidths, rtol=1e-12)
    np.testing.assert_allclose(one.slice_statistics, two.slice_statistics, rtol=1e-7, atol=1e-12)
    assert one.pvalue == pytest.approx(two.pvalue, rel=1e-7)


def test_every_sort_of_stream_gives_the_one_shot_test(tmp_path):
    x = samples("normal", 7000, 2)
    cuts = [0, 900, 900, 901, 6500]
    whole = fs.gof_stream([x], np.negative, slices=SLICES)
    np.save(tmp_path / "x.npy", x)
    streams = {
        "array": (x, np.negative),
        "memory map": (np.load(tmp_path / "x.npy", mmap_mode="r"), lambda x: -x),
        "values": (x, -x),
        "generator": (
            (part for part in np.split(x, cuts)),
            fs.models.Gaussian(np.zeros(3), np.eye(3)),
        ),
        "pairs": (((part, -part) for part in np.split(x, cuts)), None),
    }
    for chunks, model in streams.values():
        equal(fs.gof_stream(chunks, model, slices=SLICES), whole)
    assert np.array_equal(whole.bandwidths, fs.Accumulator(SLICES, x[:5000])._grid.h)
    kernel = fs.RBF(whole.bandwidths)
    shot = fs.gof_test(
        x, np.negative, slices=SLICES, kernel=kernel, null="spectral", engine="fourier"
    )
    assert whole.statistic == pytest.approx(
        shot.statistic, rel=1e-6
    ) and whole.pvalue == pytest.approx(shot.pvalue, rel=1e-6)


def test_rows_that_find_slices_are_not_tested():
    x = samples("normal", 1500, 3) * [0.8, 1.0, 1.0]
    result = fs.gof_stream(np.split(x, [100, 300, 1100]), np.negative, train=400, n_slices=2)
    slices = fs.active_slices(x[:400], -x[:400], n_slices=2)
    total = fs.Accumulator(slices, x[:400]).extend(x[400:], np.negative)
    assert np.array_equal(result.slices.r, slices.r) and result.n_train == 400
    np.testing.assert_allclose(result.slice_statistics, total.statistics, rtol=1e-9)
    separate = fs.gof_stream(x[400:], np.negative, train=x[:400], n_slices=2)
    equal(separate, result)
    assert (
        len(
            fs.gof_stream(
                (x[k : k + 500] for k in (0, 500, 1000)), np.negative, train=400, null="spectral"
            ).slices
        )
        == 3
    )
    for estimator in ("ge", "ksd"):
        assert (
            fs.gof_stream(x, np.negative, train=100, n_slices=1, estimator=estimator).n_test == 1400
        )


class OnDisk:
    """An array that may be sliced in blocks of rows, and counts what it gives out."""

    def __init__(self, values, chunks=None):
        self.values, self.chunks, self.read = values, chunks, []

    @property
    def shape(self):
        return self.values.shape

    def __getitem__(self, rows):
        self.read.append((rows.start, rows.stop))
        return self.values[rows]

    def __array__(self, *args, **kwargs):
        raise AssertionError("loaded whole")


@pytest.mark.parametrize(
    ("stored", "rows"), [(None, 100), ((30, 3), 90), ((64, 3), 64), ((500, 3), 100)]
)
def test_arrays_on_disk_are_read_in_blocks(stored, rows, monkeypatch):
    monkeypatch.setattr("fastsksd.scale.chunks._READ_BYTES", 100 * 3 * 8)
    x = samples("normal", 1000, 4)
    array, values = OnDisk(x, stored), OnDisk(-x)
    result = fs.gof_stream(array, values, slices=SLICES)
    assert array.read == values.read == [(start, start + rows) for start in range(0, 1000, rows)]
    equal(result, fs.gof_stream([x], np.negative, slices=SLICES))


def test_what_came_before_a_bad_chunk_counts():
    x = samples("normal", 500, 5)
    total = fs.Accumulator(SLICES, x)

    def chunks():
        yield x[:200]
        yield x[:0]
        yield x[200:300]
        yield x[300:, :2]

    with pytest.raises(ValueError, match="chunk 3: `x` must have 3 columns"):
        total.extend(chunks(), np.negative)
    assert total.n == 300
    expected = fs.Accumulator(SLICES, x).add(x[:300], np.negative).statistics
    np.testing.assert_allclose(total.statistics, expected, rtol=1e-8, atol=1e-12)
    assert total.extend([x[300:]], np.negative).n == 500


X = samples("normal", 60, 6)


@pytest.mark.parametrize(
    ("chunks", "arguments", "error", "message"),
    [
        ([], dict(slices=SLICES), ValueError, "`chunks` must hold at least 2 samples; got 0"),
        (
            [X[:0], X[:1]],
            dict(slices=SLICES),
            ValueError,
            "`chunks` must hold at least 2 samples; got 1",
        ),
        ([X[:2]], dict(null="spectral"), ValueError, "more samples than train=2000"),
        ([X], dict(null="spectral"), ValueError, "leaves 0 samples to test after train=60"),
        ([X], dict(train=59, n_slices=1), ValueError, "leaves 1 sample to test"),
        ([], {}, ValueError, "`chunks` must hold at least 2 samples; got 0"),
        ([X[:0], X[:1]], {}, ValueError, "`chunks` must hold at least 2 samples; got 1"),
        ([X, X[:, :2]], {}, ValueError, "chunk 1: `x` must have 3 columns; got shape"),
        ([X, np.where(X > 1, np.nan, X)], {}, ValueError, "chunk 1: `x` holds NaN or infinity"),
        ([X, X], dict(score=lambda x: -x[:, :2]), ValueError, "chunk 0: `score` must return"),
        ([X], dict(train=60), ValueError, "`train` must be at least 1 and less than"),
        ([X], dict(train=2), ValueError, "`train` must be"),
        ([X], dict(null="no"), ValueError, "`null` must be one of"),
        (
            [X],
            dict(slices=SLICES, null="wild"),
            ValueError,
            "`null` must be 'spectral' for one set of slices of a stream; got 'wild'",
        ),
        ([X], dict(train=0.5), TypeError, "`train` must be a number of rows .* not a fraction"),
        ([X], dict(train=10, slices=SLICES), ValueError, "`train` has nothing to choose"),
        (
            [X, X[:, :2]],
            dict(slices=SLICES),
            ValueError,
            "chunk 1: `x` must have 3 columns; got shape",
        ),
        ([X, X[0]], dict(slices=SLICES), ValueError, "chunk 1: `x` must be two-dimensional"),
        (X[:, 0], dict(slices=SLICES), ValueError, "`chunks` must have the shape"),
        ("file.npy", dict(slices=SLICES), TypeError, "`chunks` must be an iterable of arrays"),
        (3, dict(slices=SLICES), TypeError, "`chunks` must be an iterable of arrays"),
        ({"a": X}, {}, TypeError, "`chunks` must be an iterable of arrays .* got dict"),
        ([[X, -X]], dict(score=None), ValueError, "chunk 0: is a list; pairs .* are tuples"),
        ([X, "x"], dict(slices=SLICES), TypeError, "chunk 1: `x` must be an array of real numbers"),
        (
            [X, X],
            dict(slices=SLICES, score=lambda x: -x[:, :2]),
            ValueError,
            "chunk 0: `score` must return an array of shape",
        ),
        (
            [X, X],
            dict(slices=SLICES, score=-X),
            TypeError,
            "`score` must be a callable or a model for a stream",
        ),
        (
            X,
            dict(slices=SLICES, score=-X[1:]),
            ValueError,
            "`score` must have the shape of the samples",
        ),
        (X, dict(slices=SLICES, score=None), ValueError, "`score` must be given for an array"),
        ([X], dict(slices=SLICES, score=None), ValueError, "chunk 0: comes without scores"),
        ([(X, -X)], dict(slices=SLICES), ValueError, "chunk 0: .* but `score` is given"),
        ([(X, -X, X)], dict(slices=SLICES, score=None), ValueError, "chunk 0: .* a tuple of 3"),
        (
            [(X, -X), (X, -X[1:])],
            dict(slices=SLICES, score=None),
            ValueError,
            "chunk 1: `score` must have the shape",
        ),
        ([X], dict(train=20, n_slices=4), ValueError, "`n_slices` must be between 1 and 3"),
        ([X], dict(train=20, estimator="no"), ValueError, "`estimator` must be one of"),
        (
            [(X, -X)],
            dict(train=X, score=None),
            ValueError,
            "`score` must be a callable or a model when `train`",
        ),
    ],
)
def test_bad_streams_are_explained(chunks, arguments, error, message):
    with pytest.raises(error, match=message):
        fs.gof_stream(chunks, **{"score": np.negative, **arguments})


def test_bad_input_is_explained():
    x = samples("normal", 100, 0)
    total = fs.Accumulator(SLICES, x)
    assert total.add(x[:0], np.negative).n == 0
    with pytest.raises(ValueError, match="holds 0 samples; at least 2"):
        total.result()
    with pytest.raises(ValueError, match="`x` must have 3 columns"):
        total.add(x[:, :2], np.negative)
    with pytest.raises(ValueError, match="NaN or infinity"):
        total.add(np.where(x > 2, np.nan, x), np.negative)
    with pytest.raises(TypeError, match="`other` must be an Accumulator"):
        total.merge(3)
    others = {
        "slices": fs.Accumulator(fs.random_slices(3, 2, rng=2), x, kernel=fs.RBF(1.0)),
        "bandwidths": fs.Accumulator(SLICES, x, kernel=fs.RBF(2.0)),
        "kernel": fs.Accumulator(SLICES, x, kernel=fs.IMQ(1.0)),
        "tolerance": fs.Accumulator(SLICES, x, kernel=fs.RBF(1.0), tol=1e-6),
        "range": fs.Accumulator(SLICES, 2 * x + 1, kernel=fs.RBF(1.0)),
    }
    for name, other in others.items():
        with pytest.raises(ValueError, match=f"`other` has another {name}"):
            fs.Accumulator(SLICES, x, kernel=fs.RBF(1.0)).merge(other)
    with pytest.raises(ValueError, match="`tol`"):
        fs.Accumulator(SLICES, x, tol=0.0)
    with pytest.raises(ValueError, match="`slices` are directions in 4"):
        fs.Accumulator(fs.random_slices(4, 1), x)


def test_cells_of_few_samples_take_few_rows():
    x = np.random.default_rng(0).standard_cauchy((400, 2))
    slices = fs.Slices(np.eye(2), np.eye(2))
    total = fs.Accumulator(slices, x, kernel=fs.RBF(1.0)).add(x, lambda x: -2 * x / (1 + x * x))
    spectrum = total.spectrum()
    assert spectrum.size < 0.5 * sum(sums.size for sums in total._sums.values())
    exact = fs.gof_test(
        x,
        lambda x: -2 * x / (1 + x * x),
        slices=slices,
        kernel=fs.RBF(1.0),
        engine="direct",
        null="spectral",
        rng=0,
    )
    np.testing.assert_allclose(total.result().pvalue, exact.pvalue, rtol=1e-6)


def test_a_limit_distribution_of_too_many_cells_is_refused(monkeypatch):
    monkeypatch.setattr(accumulator, "_MOST_FEATURES", 40)
    x = np.random.default_rng(0).standard_cauchy((400, 1))
    total = fs.Accumulator(fs.Slices(np.eye(1), np.eye(1)), x).add(x, -x)
    with pytest.raises(ValueError, match="samples with heavy tails"):
        total.result()
    assert np.isfinite(total.statistics).all()


def test_a_short_stream_is_tested_in_memory():
    x = samples("normal", 600, 7) * [0.8, 1.0, 1.0]
    whole = fs.gof_test(x, np.negative, rng=0, n_resamples=99)
    for chunks in ([x], np.split(x, [1, 200]), ((part, -part) for part in np.split(x, 3))):
        pairs = not isinstance(chunks, list)
        streamed = fs.gof_stream(chunks, None if pairs else np.negative, rng=0, n_resamples=99)
        assert streamed.pvalue == whole.pvalue and streamed.n_test == 600
    assert streamed.explain().slices  # the samples were few, and are at hand
    separate = fs.gof_stream(x[100:], np.negative, train=x[:100], rng=0, n_resamples=99)
    assert (separate.n_train, separate.n_test) == (100, 500)
    for options in (dict(estimator="ge"), dict(kernel="imq"), dict(null="bootstrap", train=200)):
        mine = fs.gof_stream([x], np.negative, rng=0, n_resamples=99, **options)
        assert mine.pvalue == fs.gof_test(x, np.negative, rng=0, n_resamples=99, **options).pvalue


def test_every_sort_of_stream_tests_the_family(tmp_path, monkeypatch):
    monkeypatch.setattr(streaming, "SHORT", 2000)
    monkeypatch.setattr(streaming, "HEAD", 500)
    x = samples("normal", 4500, 8) * [0.9, 1.0, 1.0]
    options = dict(rng=0, n_resamples=99)
    total = fs.FamilyAccumulator(x[:500], np.negative, rng=(rng := np.random.default_rng(0)))
    whole = total.add(x, np.negative).result(rng=rng, n_resamples=99)
    assert whole.reject() and (whole.n_train, whole.n_test) == (500, 4000)
    np.save(tmp_path / "x.npy", x)
    cuts = [0, 900, 900, 901, 4000]
    streams = {
        "on disk": (OnDisk(x), OnDisk(-x)),
        "generator": ((part for part in np.split(x, cuts)), np.negative),
        "pairs": (((part, -part) for part in np.split(x, cuts)), None),
    }
    arrays = {
        "array": (x, np.negative),
        "memory map": (np.load(tmp_path / "x.npy", mmap_mode="r"), lambda x: -x),
        "values": (x, -x),
    }
    # Of arrays, rows drawn at random come first.
    rng = np.random.default_rng(0)
    drawn = np.sort(rng.choice(4500, 500, replace=False))
    order = np.r_[drawn, np.delete(np.arange(4500), drawn)]
    total = fs.FamilyAccumulator(x[drawn], np.negative, rng=rng).add(x[order], np.negative)
    cases = [(*one, whole) for one in streams.values()]
    expected = total.result(rng=rng, n_resamples=99)
    cases += [(*one, expected) for one in arrays.values()]
    for chunks, model, answer in cases:
        streamed = fs.gof_stream(chunks, model, **options)
        assert streamed.pvalue == answer.pvalue
        assert streamed.evidence == pytest.approx(answer.evidence, rel=1e-8)
        assert (streamed.n_train, streamed.n_test) == (500, 4000)
    assert set(streamed.timings) == {"slices", "statistic", "total"}
    separate = fs.gof_stream(x[500:], np.negative, train=x[:500], **options)
    assert (separate.n_train, separate.n_test) == (500, 4000)
    # Members without slices: what is told of a result that holds no samples.
    assert streamed.coordinate_statistics is None or streamed.coordinate_statistics.shape == (3,)
    assert "4000 tested, 500 used to find slices" in repr(streamed)
    assert "give `x` and `score`" in streamed.summary()
    assert streamed.explain(x[:1000], np.negative).slices
    with pytest.raises(ValueError, match="holds no samples"):
        streamed.explain()

    def bad():
        yield from np.split(x, 3)
        yield np.where(x > 2, np.nan, x)

    with pytest.raises(ValueError, match="chunk 3: `x` holds NaN or infinity"):
        fs.gof_stream(bad(), np.negative, **options)


def test_sorted_rows_of_an_array_do_no_harm(monkeypatch):
    monkeypatch.setattr(streaming, "SHORT", 2000)
    monkeypatch.setattr(streaming, "HEAD", 500)
    for seed in range(5):
        x = samples("normal", 4500, seed)
        x = x[np.argsort(x[:, 0])]
        assert not fs.gof_stream(x, np.negative, rng=0, n_resamples=99).reject()
    x[4000] = np.nan
    monkeypatch.setattr("fastsksd.scale.chunks._READ_BYTES", 1000 * 3 * 8)
    for train in (None, 999):
        with pytest.raises(ValueError, match=r"^`x` holds NaN or infinity in row 4000\.$"):
            fs.gof_stream(x, np.negative, rng=0, train=train)


@pytest.mark.parametrize("stored", ["array", "memory map", "chains"])
@pytest.mark.parametrize("wrong", ["samples", "score", "scores"])
def test_errors_about_arrays_name_their_rows(monkeypatch, tmp_path, stored, wrong):
    monkeypatch.setattr(streaming, "SHORT", 2000)
    monkeypatch.setattr(streaming, "HEAD", 500)
    monkeypatch.setattr(streaming, "HEAD_OF_CHAINS", 1000)
    monkeypatch.setattr("fastsksd.scale.chunks._READ_BYTES", 700 * 3 * 8)
    x = samples("normal", 6000, 0)
    x[4444, 0] = 77.0

    def score(z):
        return np.where(z == 77.0, np.nan, -z)

    values = score(x)
    if wrong == "samples":
        x[4444, 1], values = np.nan, -x
    if stored == "memory map":
        np.save(tmp_path / "x.npy", x)
        x = np.load(tmp_path / "x.npy", mmap_mode="r")
    elif stored == "chains":
        x, values = x.reshape(2, 3000, 3), values.reshape(2, 3000, 3)
    given = score if wrong == "score" else values
    where = "draw 1444 of chain 1" if stored == "chains" else "row 4444"
    for seed in range(8 if stored == "array" else 1):  # with and without that row in the head
        with pytest.raises(ValueError, match=rf"^`\w+` (holds|returned) NaN .* in {where}\.$"):
            fs.gof_stream(x, given, rng=seed)


AXES = fs.Slices(np.eye(3), np.eye(3))


@pytest.mark.parametrize("options", [{}, dict(slices=AXES)])
def test_a_constant_column_is_named(monkeypatch, options):
    monkeypatch.setattr(streaming, "SHORT", 2000)
    monkeypatch.setattr(streaming, "HEAD", 500)
    x = samples("normal", 3000, 0)
    x[:, 1] = 2.0
    with pytest.raises(ValueError, match="`chunks` does not vary in column 1, along which slices"):
        fs.gof_stream(np.split(x, 3), np.negative, rng=0, **options)


def test_accumulators_name_a_constant_column_and_refuse_dask():
    x = samples("normal", 2000, 0)
    flat = x * [1.0, 0.0, 1.0]
    with pytest.raises(ValueError, match="`first` does not vary in column 1"):
        fs.FamilyAccumulator(flat, np.negative)
    with pytest.raises(ValueError, match="`first` does not vary in column 1"):
        fs.Accumulator(AXES, flat)
    array = type("Array", (), {"__module__": "dask.array.core", "shape": (9, 3)})()
    for total in (fs.FamilyAccumulator(x, np.negative), fs.Accumulator(SLICES, x)):
        with pytest.raises(TypeError, match="`chunks` must not be a Dask array"):
            total.extend(array, np.negative)


def test_a_stream_whose_strongest_member_has_no_slices(monkeypatch):
    monkeypatch.setattr(streaming, "SHORT", 2000)
    x = samples("normal", 4500, 9) * [1.0, 1.07, 1.0]
    result = fs.gof_stream(np.split(x, 5), np.negative, train=500, rng=0, n_resamples=99)
    assert result.reject() and result.members[0].n_slices == 0
    assert np.argmax(result.coordinate_statistics) == 1
    assert "largest along" in repr(result) and "x[1]" in result.summary()
