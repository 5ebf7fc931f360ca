"""Accumulators: chunks in any order and grouping give the one-shot test, far samples included; errors lose nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastsksd as fs
from fastsksd import streaming
from fastsksd.discrepancy import project
from fastsksd.engines import DirectEngine

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
    whole = fs.gof_test(x, score, slices=SLICES, kernel=object_kernel, null="spectral", engine="direct", rng=0)
    assert (streamed.n_test, streamed.engine, streamed.null) == (300, "fourier", "spectral")
    y, s, a, h = project(x, score(x), SLICES, object_kernel)
    size = np.mean(np.abs(s) + np.abs(a / h)[:, None], axis=1) ** 2
    assert np.all(np.abs(streamed.slice_statistics - whole.slice_statistics) <= 2e-8 * size)
    assert streamed.pvalue == pytest.approx(whole.pvalue, rel=1e-5)
    spectra = [np.sort(total.spectrum())[-20:], np.sort(DirectEngine(object_kernel.code, y, s, a, h).spectrum())[-20:]]
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
            before = sum(value.nbytes for value in total._moments.values())
    assert sum(value.nbytes for value in total._moments.values()) <= 2 * before


def test_a_chunk_counts_when_it_is_whole():
    x = samples("normal", 200, 0)
    total = fs.Accumulator(SLICES, x).add(x, score)
    before = total.statistics
    with pytest.raises(ValueError, match="`score` raised RuntimeError"):
        total.add(x, lambda x: (_ for _ in ()).throw(RuntimeError("no")))
    original = streaming.feature_block

    def interrupted(*arguments):
        raise KeyboardInterrupt

    streaming.feature_block = interrupted
    try:
        with pytest.raises(KeyboardInterrupt):
            total.add(x, score)
    finally:
        streaming.feature_block = original
    assert total.n == 200 and np.array_equal(total.statistics, before)


def test_bad_input_is_explained():
    x = samples("normal", 100, 0)
    total = fs.Accumulator(SLICES, x)
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
