"""`engine="cuda"` through the public functions, in the simulator.

The answers are those of the CPU, and nothing is lost when the device has no memory left.
"""

import threading
import weakref
from collections import Counter

import numpy as np
import pytest

import fastsksd as fs
from fastsksd.engines import cuda
from fastsksd.engines.cuda import device

X = np.random.default_rng(0).standard_normal((14, 2)) * [1.0, 0.5]
SLICES = fs.Slices(np.eye(2)[:1], np.eye(2)[:1])
THREE = fs.random_slices(3, 3, rng=0)


@pytest.mark.parametrize("options", [
    {"slices": SLICES},
    {"slices": SLICES, "null": "bootstrap", "engine": "cuda fourier", "tol": 1e-6},
    {"slices": SLICES, "null": "wild", "lag": 3, "kernel": "imq"},
    {"slices": SLICES, "null": "spectral"},
    {"n_slices": 1, "train": 6, "refine": {"epochs": 1, "batch_size": 6}},
])  # fmt: skip
def test_gof_test_is_that_of_the_cpu(options):
    options = {"engine": "cuda direct", "n_resamples": 9, "rng": 1} | options
    gpu = fs.gof_test(X, np.negative, **options)
    exact = {name: value for name, value in options.items() if name != "tol"}
    cpu = fs.gof_test(X, np.negative, **(exact | {"engine": "direct"}))
    assert gpu.engine == options["engine"] and cpu.engine == "direct"
    np.testing.assert_allclose(
        gpu.statistic, cpu.statistic, rtol=1e-5 if "fourier" in options["engine"] else 1e-10
    )
    np.testing.assert_allclose(gpu.null_distribution, cpu.null_distribution, rtol=1e-4, atol=1e-5)
    assert gpu.pvalue == pytest.approx(cpu.pvalue, nan_ok=True)  # few samples for a lag
    np.testing.assert_allclose(gpu.slices.g, cpu.slices.g, atol=1e-10)


def test_family_in_both_precisions():
    gpu = fs.gof_test(X, np.negative, engine="cuda", n_resamples=5, multiples=(1.0,), rng=1)
    single = fs.gof_test(X, np.negative, engine="cuda32", n_resamples=5, multiples=(1.0,), rng=1)
    cpu = fs.gof_test(X, np.negative, engine="cpu", n_resamples=5, multiples=(1.0,), rng=1)
    assert gpu.pvalue == cpu.pvalue == single.pvalue
    assert "cuda32" in single.engine and "cuda" in gpu.engine and "cuda" not in cpu.engine
    ordered = [
        sorted(result.members, key=lambda member: (member.name, member.part))
        for result in (gpu, single, cpu)
    ]
    for a, b, exact in zip(*ordered, strict=True):
        np.testing.assert_allclose(a.statistic, exact.statistic, atol=1e-7)
        np.testing.assert_allclose(b.statistic, exact.statistic, atol=1e-5)


@pytest.mark.parametrize("update", ["g", "rg"])
def test_refinement_is_that_of_the_cpu(update):
    start = fs.random_slices(2, 2, rng=0)
    options = {"epochs": 2, "batch_size": 7, "learning_rate": 0.1, "update": update, "rng": 0}
    gpu, cpu = (
        fs.refine_slices(X, -X, start, engine=engine, **options) for engine in ("cuda", "direct")
    )
    np.testing.assert_allclose(gpu.g, cpu.g, atol=1e-12)
    np.testing.assert_allclose(gpu.r, cpu.r, atol=1e-12)
    assert np.abs(gpu.g - start.g).max() > 0.01


def test_slices_without_spread_sit_out():
    x = np.column_stack([X[:, 0], np.zeros(14)])
    options = {"epochs": 1, "batch_size": 14, "rng": 0}
    gpu, cpu = (
        fs.refine_slices(x, -x, (np.eye(2), np.eye(2)), engine=engine, **options)
        for engine in ("cuda", "direct")
    )
    np.testing.assert_allclose(gpu.g, cpu.g, atol=1e-12)


def test_loss_is_that_of_the_cpu():
    results = []
    for engine in ("direct", "cuda"):
        for refine in ("g", None):
            loss = fs.learning.SlicedSteinLoss(2, refine=refine, engine=engine)
            loss.refresh(X, -X)
            results.append(loss(X, -X))
    for (value, slope), (other, other_slope) in zip(results[:2], results[2:], strict=True):
        np.testing.assert_allclose(other, value, rtol=1e-9)
        np.testing.assert_allclose(other_slope, slope, atol=1e-10)


@pytest.fixture
def sent(monkeypatch):
    """Every array that goes to the device."""
    arrays, to_device = [], device.cuda.to_device

    def recording(array, **options):
        arrays.append(array)
        return to_device(array, **options)

    monkeypatch.setattr(device.cuda, "to_device", recording)
    return arrays


@pytest.mark.parametrize(("options", "times"), [
    ({"multiples": (1.0,), "precondition": None}, 2),
    ({"n_slices": 2, "train": 7, "null": "spectral", "engine": "cuda fourier", "tol": 1e-2}, 2),
    ({"n_slices": 1, "train": 7, "estimator": "ksd", "refine": {"epochs": 2, "batch_size": 7}}, 2),
    ({"slices": THREE, "engine": "cuda fourier", "kernel": "imq", "tol": 1e-2}, 2),
    ({"slices": THREE[0]}, 0),  # projections are smaller than the samples
])  # fmt: skip
def test_samples_and_scores_go_to_the_device_once(options, times, sent):
    x = np.random.default_rng(0).standard_normal((14, 3))
    options = {"engine": "cuda direct", "n_resamples": 3, "rng": 1} | options
    gpu = fs.gof_test(x, np.negative, **options)
    cpu = fs.gof_test(x, np.negative, **(options | {"engine": "cpu"}))
    np.testing.assert_allclose(
        gpu.statistic, cpu.statistic, rtol=0.02 if "tol" in options else 1e-8
    )
    # More than half of the samples.
    large = [array for array in sent if array.ndim == 2 and array.size > 21]
    assert [array.shape for array in large] == times * [(14, 3)]
    for array in large:
        assert np.array_equal(np.sort(np.abs(array), axis=None), np.sort(np.abs(x), axis=None))


def test_a_search_sends_its_samples_once(sent):
    fs.active_slices(X, -X, n_slices=2, engine="cuda")
    assert [array.shape for array in sent if array.size > 14] == [(14, 2), (14, 2)]


def test_refinement_sends_its_samples_once(sent):
    fs.refine_slices(
        X, -X, fs.random_slices(2, 2, rng=0), epochs=3, batch_size=7, engine="cuda", rng=0
    )
    assert [array.shape for array in sent if array.size > 14] == [(14, 2), (14, 2)]


def problems(count):
    rng = np.random.default_rng(5)
    return [
        {"name": f"number {k}", "x": rng.standard_normal((9, 2)), "score": np.negative}
        for k in range(count)
    ]


def test_batch_is_that_of_the_cpu():
    options = {"slices": SLICES, "n_resamples": 5, "progress": False, "rng": 3}
    gpu = fs.gof_batch(problems(4), engine="cuda direct", **options)
    cpu = fs.gof_batch(problems(4), engine="direct", **options)
    np.testing.assert_allclose(gpu.statistics, cpu.statistics, rtol=1e-10)
    assert np.array_equal(gpu.pvalues, cpu.pvalues)
    assert [result.engine for result in gpu] == ["cuda direct"] * 4
    assert len(fs.gof_batch([], engine="cuda", **options)) == 0


def test_lanes_of_a_batch_have_their_own_streams(monkeypatch):
    seen = set()

    def score(x):
        seen.add((threading.get_ident(), id(device.stream())))
        barrier.wait(timeout=60)
        return -x

    barrier = threading.Barrier(2)
    fs.gof_batch(
        [(X, score), (X, score)], engine="cuda direct", slices=SLICES, n_resamples=1, progress=False
    )
    assert len(seen) == len({stream for _, stream in seen}) == 2


def test_several_devices_share_a_batch(monkeypatch):
    """Three devices by name: who is given what can be seen without them."""
    here, places, barrier = threading.local(), set(), threading.Barrier(6)
    allocate = device.cuda.device_array

    def score(x):
        barrier.wait(timeout=120)  # until six tests run at once
        return -x

    def allocating(shape, **options):
        places.add((threading.get_ident(), here.index))
        return allocate(shape, **options)

    monkeypatch.setattr(device, "count", lambda: 3)
    monkeypatch.setattr(device.cuda, "select_device", lambda index: setattr(here, "index", index))
    monkeypatch.setattr(device.cuda, "device_array", allocating)
    tests = [problem | {"score": score} for problem in problems(6)]
    gpu = fs.gof_batch(
        tests, engine="cuda direct", slices=SLICES, n_resamples=3, progress=False, rng=3
    )
    cpu = fs.gof_batch(
        problems(6), engine="direct", slices=SLICES, n_resamples=3, progress=False, rng=3
    )
    # Two threads on each, and no thread on two.
    assert Counter(index for _, index in places) == {0: 2, 1: 2, 2: 2}
    np.testing.assert_allclose(gpu.statistics, cpu.statistics, rtol=1e-10)


def test_out_of_memory_falls_back_and_loses_nothing(monkeypatch):
    class DriverError(Exception):
        code = 2  # CUDA_ERROR_OUT_OF_MEMORY

    allocate = device.cuda.device_array

    def failing(shape, **options):
        if len(shape) == 2 and shape[0] == 7:  # weights of the second problem alone
            raise DriverError("out of memory")
        return allocate(shape, **options)

    monkeypatch.setattr(device.cuda, "device_array", failing)
    tests = problems(3)
    tests[1]["n_resamples"] = 7
    options = {"slices": SLICES, "n_resamples": 5, "progress": False, "rng": 3}
    with pytest.warns(
        RuntimeWarning,
        match="'number 1' is tested on the CPU: the GPU has no memory left: out of memory",
    ):
        gpu = fs.gof_batch(tests, engine="cuda direct", **options)
    cpu = fs.gof_batch(tests, engine="cpu", **options)
    assert [result.engine for result in gpu] == ["cuda direct", cpu[1].engine, "cuda direct"]
    assert np.array_equal(gpu.pvalues, cpu.pvalues)
    with pytest.raises(cuda.DeviceOutOfMemory):
        fs.gof_test(X, np.negative, slices=SLICES, n_resamples=7, engine="cuda direct")


def test_a_test_on_the_cpu_leaves_nothing_on_the_device(monkeypatch):
    arrays, alive, allocate = [], [], device.cuda.device_array

    def failing(shape, **options):
        if shape == (7, 9):  # weights
            raise MemoryError("out of memory")
        array = allocate(shape, **options)
        arrays.append(weakref.ref(array))
        return array

    def score(x):
        alive.append(sum(array() is not None for array in arrays))
        return -x

    monkeypatch.setattr(device.cuda, "device_array", failing)
    problem = problems(1)[0] | {"score": score}
    options = {"slices": fs.random_slices(2, 2, rng=0), "n_resamples": 7, "progress": False}
    with pytest.warns(RuntimeWarning, match="is tested on the CPU"):
        fs.gof_batch([problem], engine="cuda direct", **options)
    assert arrays and alive == [0, 0]


def test_other_driver_errors_are_not_hidden(monkeypatch):
    class DriverError(Exception):
        code = 700

    def failing(*args, **options):
        raise DriverError("illegal address")

    monkeypatch.setattr(device.cuda, "device_array", failing)
    with pytest.raises(fs.BatchError, match="illegal address"):
        fs.gof_batch(problems(1), engine="cuda direct", slices=SLICES, progress=False)


def test_processes_are_refused():
    with pytest.raises(ValueError, match="n_jobs"):
        fs.gof_batch(problems(1), engine="cuda", n_jobs=2)


def test_auto_does_not_take_the_simulator():
    assert cuda.hardware() == () and cuda.missing() == ""
