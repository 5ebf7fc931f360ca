"""The CUDA engine where there is no GPU.

Errors say what is missing, "auto" does not take it, and kernels run in the simulator, in a separate
process.
"""

import sys

import numba
import numpy as np
import pytest

import fastsksd as fs
from fastsksd import engines
from fastsksd.cli import main
from fastsksd.compute.pointwise import kernel_derivatives, stein_term
from fastsksd.engines import cuda

X = np.random.default_rng(0).standard_normal((20, 2))


def test_kernels_in_the_simulator(simulator):
    """Most of tests/engines/cuda, and the smallest cases of the engines' contract.

    Continuous integration runs all of it.
    """
    code, output = simulator()
    assert code == 0, output[-6000:]


def without_cuda(monkeypatch):
    monkeypatch.delattr(numba, "cuda", raising=False)
    monkeypatch.setitem(sys.modules, "numba.cuda", None)
    monkeypatch.delitem(sys.modules, "fastsksd.engines.cuda.device", raising=False)
    monkeypatch.delattr(cuda, "device", raising=False)


def test_without_a_cuda_target_the_error_says_what_to_install(monkeypatch):
    without_cuda(monkeypatch)
    monkeypatch.setattr(cuda, "missing", cuda.missing.__wrapped__)
    for call in (
        lambda: fs.gof_test(X, -X, engine="cuda"),
        lambda: fs.sksd(X, -X, fs.random_slices(2, 1), engine="cuda32"),
        lambda: fs.active_slices(X, -X, engine="cuda"),
        lambda: fs.refine_slices(X, -X, fs.random_slices(2, 1), batch_size=5, engine="cuda"),
        lambda: fs.sksd_value_and_grad(X, -X, fs.random_slices(2, 1), engine="cuda"),
        lambda: fs.gof_batch([(X, -X)], engine="cuda", progress=False),
    ):
        with pytest.raises(
            cuda.CudaUnavailable, match=r"no CUDA target.*pip install 'fastsksd\[cu13\]'"
        ):
            call()


@pytest.mark.parametrize(
    ("driver", "words"),
    [(False, "no NVIDIA driver was found"), (True, "there is an NVIDIA driver, but")],
)
def test_without_a_device_the_error_says_so(monkeypatch, driver, words):
    from fastsksd.engines.cuda import device

    monkeypatch.setattr(device.cuda, "is_available", lambda: False)
    monkeypatch.setattr(cuda, "driver_present", lambda: driver)
    monkeypatch.setattr(cuda, "missing", cuda.missing.__wrapped__)
    with pytest.raises(cuda.CudaUnavailable, match=words):
        cuda.require()
    assert cuda.hardware.__wrapped__() == ()


def test_what_is_held_is_found_by_its_memory():
    from fastsksd.engines.sessions import find, session

    x, other = np.arange(24.0).reshape(8, 3), np.zeros((8, 3))
    assert find(x) is None
    with session(x):
        held, start, stop = find(x[2:5])
        assert held.array is x and (start, stop) == (2, 5)
        for rows in (other, x[::2], x[:, :2], x.ravel()[1:22].reshape(7, 3), x.astype(np.float32)):
            assert find(rows) is None
        with session(x[4:], other):
            assert find(x[4:6])[0] is held and find(other)[1:] == (0, 8)
        assert find(other) is None
        with session(other[::2]):  # whose rows are not one after another
            assert find(other[2:4]) is None
        with pytest.raises(RuntimeError), session(other):
            raise RuntimeError
        assert find(other) is None
    assert find(x) is None


def test_an_unknown_engine_is_refused():
    for call in (fs.active_slices, fs.sksd_value_and_grad, fs.refine_slices, fs.sksd, fs.gof_test):
        slices = (
            {} if call in (fs.active_slices, fs.gof_test) else {"slices": fs.random_slices(2, 1)}
        )
        options = {"batch_size": 5} if call is fs.refine_slices else {}
        with pytest.raises(ValueError, match="`engine` must be one of"):
            call(X, -X, engine="gpu", **slices, **options)


def test_auto_takes_a_gpu_for_large_work_alone(monkeypatch):
    rng = np.random.default_rng(0)
    small, large = (
        rng.standard_normal((1, 100)),
        np.broadcast_to(rng.standard_normal((1, 30_000)), (300, 30_000)),
    )

    def taken(y, among="auto"):
        return engines.cheapest_engine(0, y, np.full(len(y), 0.95), among=among, n_resamples=1000)

    assert taken(large) in engines.ENGINES or cuda.hardware()
    monkeypatch.setattr(cuda, "hardware", lambda: ("a GPU",))
    assert taken(small) == "direct"
    assert taken(large) in ("cuda direct", "cuda fourier")
    assert taken(large, "cpu") in engines.ENGINES
    assert taken(small, "cuda") == "cuda direct"
    assert (
        engines.takes_device("auto", 1e12)
        and not engines.takes_device("auto", 1e3)
        and not engines.takes_device("cpu", 1e12)
    )


def test_bench_without_a_device(monkeypatch, capsys):
    monkeypatch.setattr(cuda, "missing", lambda: "no NVIDIA driver was found on this machine.")
    assert main(["bench", "--engine", "cuda"]) == 2
    assert "no NVIDIA driver" in capsys.readouterr().err


def test_info(monkeypatch, capsys):
    assert main(["info"]) == 0
    text = capsys.readouterr().out
    for words in (
        f"fastsksd {fs.__version__}",
        f"numba {numba.__version__}",
        "threading layer",
        "CUDA: ",
        "| 1000 | 100 | 1000 | direct |",
    ):
        assert words in text
    monkeypatch.setattr(cuda, "hardware", lambda: ("a GPU", "another"))
    assert main(["info"]) == 0
    text = capsys.readouterr().out
    assert "device 1: another" in text and "| 100000 | 100 | 1000 | cuda" in text


def test_single_precision_is_the_same_source():
    from fastsksd.engines.cuda.pointwise import single

    for kind in (0, 1):
        for t in (0.0, 0.3, -2.0, 7.5):
            arguments = [np.float32(value) for value in (t, 0.4, 1.5, -0.7)]
            got = single(stein_term)(kind, *arguments)
            assert numba.typeof(got) in (numba.float32, numba.float64)
            np.testing.assert_allclose(
                got, stein_term(kind, *map(float, arguments)), rtol=0, atol=3e-6
            )
            np.testing.assert_allclose(
                single(kernel_derivatives)(kind, np.float32(t)),
                kernel_derivatives(kind, float(np.float32(t))),
                rtol=0,
                atol=3e-6,
            )
    assert all(
        str(signature.return_type) == "float32"
        for signature in single(stein_term).nopython_signatures
    )
    assert (
        single(stein_term) is not stein_term
        and single(stein_term).py_func.__code__.co_code == stein_term.py_func.__code__.co_code
    )


LOOPS = """
$L__BB0_1:
    mul.f64 %fd1, %fd2, %fd3;
$L__BB0_2:
    ld.shared.f64 %fd4, [%r1];
    @%p1 fma.rn.f64 %fd5, %fd4, %fd4, %fd5;
    mul.f32 %f1, %f2, %f3;
    add.s64 %rd1, %rd2, 1;
    @%p2 bra $L__BB0_2;
    add.f64 %fd6, %fd1, %fd5;
    @%p3 bra $L__BB0_1;
"""


def test_report_counts():
    from fastsksd.engines.cuda import blocks, report

    assert tuple(report.hot_loop(LOOPS)) == (1, 1, 4, 8)
    text = (
        "0 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads\n"
        "Used 40 registers, used 1 barriers, 2048 bytes smem"
    )
    assert report.ptxas_figures(text) == (40, 2048, 0, 28)
    kernel = blocks.row_sum()
    threads = kernel.block[0] * kernel.block[1]
    full = report.Assembled(kernel, "", (8, 0), 32, 2048, 0, 0, "", b"")
    tight = full._replace(registers=128, shared=0)
    assert threads == 256 and full.occupancy == 1.0 and tight.occupancy == 0.25
    assert full._replace(shared=40 * 1024).occupancy == 4 * 256 / 2048
    work = next(report.works())
    loop = report.Loop(double=80, single=0, all=160, shared=64)
    rate, bound = report.predicted_rate(loop, work, report.GPUS[0])
    assert bound == "double" and rate == pytest.approx(108 * 1.41e9 * 32 / 10)


def test_report_says_what_is_missing(monkeypatch, capsys):
    from fastsksd.engines.cuda import report

    monkeypatch.setattr(report.device, "implementation", "built-in")
    assert report.main() == 2
    assert "pip install" in capsys.readouterr().err


def test_a_kernel_compiles_to_ptx():
    pytest.importorskip("numba_cuda")
    from fastsksd.engines.cuda import pairs, report

    ptx = report.compile_ptx(pairs.stein_tile(0, pairs.float64), (7, 5))
    assert ".target sm_75" in ptx and ".local" not in ptx
