"""Contract of every engine.

It fulfils the protocol. Its statistics, replicates and matrix are those of slow references. They do
not depend on the number of threads.
"""

import inspect
import subprocess
import sys
import textwrap

import numba
import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

import fastsksd as fs
from fastsksd.compute.projections import project
from fastsksd.engines import DirectEngine, FourierEngine, choose_engine
from fastsksd.engines import pairs as pairs_module
from fastsksd.engines.features import FeaturePairs
from fastsksd.engines.gaussian import GaussianMatrix
from fastsksd.engines.kernel_series import series_of
from fastsksd.engines.multivariate import KernelPairs, MultivariateEngine
from fastsksd.engines.protocol import KernelMatrix, KernelProducts, PairEngine, SliceEngine
from fastsksd.procedure.nulls import Weights

TOLERANCE = {
    "direct": 1e-12,
    "fourier": 1e-8,
    "cuda direct": 1e-12,
    "cuda fourier": 1e-8,
    "cuda32": 1e-5,
}
SIZE = 1e3  # of sums over pairs in these tests, by which the tolerance of one term grows


def problem(seed, n=23, d=4, m=3):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal((n, d)), fs.random_slices(d, m, rng=rng)


def reference_matrix(x, s, slices, kernel, h):
    return sum(
        reference.stein_matrix(x, s, r, g, kernel, w)
        for r, g, w in zip(slices.r, slices.g, h, strict=True)
    )


def methods(protocol):
    """Names and arguments of the methods that a protocol asks for."""
    for name in dir(protocol):
        member = inspect.getattr_static(protocol, name)
        if inspect.isfunction(member) and not name.startswith("_"):
            yield name, arguments(member)


def arguments(function):
    """Names, kinds and defaults of the arguments of a function, without annotations."""
    return [
        (parameter.name, parameter.kind, parameter.default)
        for parameter in inspect.signature(function).parameters.values()
    ]


def check_methods(cls, protocol):
    assert len(list(methods(protocol))) > 1
    for name, wanted in methods(protocol):
        assert arguments(getattr(cls, name)) == wanted, f"{cls.__name__}.{name}"


def loaded_engine(name):
    x, s, slices = problem(0, n=9)
    return choose_engine(name)(0, *project(x, s, slices, fs.RBF()))


def test_an_engine_of_slices_fulfils_the_protocol(engine):
    loaded = loaded_engine(engine)
    assert isinstance(loaded, SliceEngine) and isinstance(loaded.rescaled(2.0), SliceEngine)
    assert isinstance(loaded.name, str) and loaded.n == 9
    check_methods(type(loaded), SliceEngine)


@pytest.mark.parametrize("make", [
    lambda x: MultivariateEngine(0, x, -x, 1.0),
    lambda x: KernelPairs(0, x, 1.0),
    lambda x: FeaturePairs(x.T),
])  # fmt: skip
def test_other_engines_fulfil_the_protocol(make):
    x = problem(0, n=9)[0]
    loaded = make(x)
    assert isinstance(loaded, PairEngine) and isinstance(loaded.name, str) and loaded.n == 9
    check_methods(type(loaded), PairEngine)
    weights = np.random.default_rng(0).standard_normal((3, 12))
    sums, replicates = loaded.sums_and_replicates(weights, 2)
    np.testing.assert_allclose(sums, loaded.sums(), rtol=1e-12)
    np.testing.assert_allclose(loaded.row_sums().sum(), sums[0], rtol=1e-9)
    np.testing.assert_allclose(loaded.sums_and_replicates(weights[:, 2:].copy())[1], replicates)
    spectrum = loaded.spectrum()
    trace = (loaded.diagonal()[0] - (sums[0] + loaded.diagonal()[0]) / 9) / 9
    np.testing.assert_allclose(spectrum.sum(), trace, rtol=1e-9)


def test_classes_of_the_device_have_the_methods_of_the_protocols():
    from fastsksd.engines.cuda.fourier import CudaFourierEngine
    from fastsksd.engines.cuda.gaussian import CudaGaussianMatrix, CudaKernelProducts
    from fastsksd.engines.cuda.pairs import CudaDirectEngine

    for cls in (CudaDirectEngine, CudaFourierEngine):
        check_methods(cls, SliceEngine)
        assert callable(cls.draw) and hasattr(cls, "name")
    check_methods(CudaGaussianMatrix, KernelMatrix)
    check_methods(CudaKernelProducts, KernelProducts)


def test_the_kernel_matrix_of_the_cpu_fulfils_the_protocol():
    x = problem(0, n=9)[0]
    matrix = GaussianMatrix(x, 1.5, x[0])
    assert isinstance(matrix, KernelMatrix)
    check_methods(GaussianMatrix, KernelMatrix)
    check_methods(type(matrix.products(1.0)), KernelProducts)


@pytest.mark.parametrize("kernel", ["rbf", "imq"])
@pytest.mark.parametrize("statistic", ["u", "v"])
@pytest.mark.parametrize("n", [2, 3, 23])
def test_statistics_match_the_reference(engine, kernel, statistic, n):
    x, s, slices = problem(n, n=n)
    got = fs.sksd(x, s, slices, kernel=kernel, statistic=statistic, per_slice=True, engine=engine)
    expected = reference.sksd_per_slice(x, s, slices.r, slices.g, kernel, "median", statistic)
    np.testing.assert_allclose(got, expected, rtol=TOLERANCE[engine], atol=10 * TOLERANCE[engine])
    total = fs.sksd(x, s, slices, kernel=kernel, statistic=statistic, engine=engine)
    np.testing.assert_allclose(
        total, sum(expected), rtol=TOLERANCE[engine], atol=10 * TOLERANCE[engine]
    )


@pytest.mark.parametrize("kernel", ["rbf", "imq"])
@pytest.mark.parametrize("tile", [5, 8, 1024])
def test_replicates_and_matrix_match_the_reference(engine, kernel, tile, monkeypatch):
    monkeypatch.setattr(pairs_module, "TILE", tile)
    x, s, slices = problem(5)
    object_kernel = fs.kernels.as_kernel(kernel)
    projected = project(x, s, slices, object_kernel)
    loaded, h = choose_engine(engine)(object_kernel.code, *projected), projected[3]
    weights = np.random.default_rng(0).standard_normal((7, x.shape[0]))
    sums, replicates = loaded.sums_and_replicates(weights)
    matrix = reference_matrix(x, s, slices, kernel, h)
    expected = [reference.bootstrap_replicate(matrix, w) for w in weights]
    tolerance = SIZE * TOLERANCE[engine]
    np.testing.assert_allclose(replicates, expected, rtol=1e-11, atol=tolerance)
    np.testing.assert_allclose(
        sums.sum(), matrix.sum() - np.trace(matrix), rtol=1e-11, atol=tolerance
    )
    if engine.endswith("direct"):
        np.testing.assert_allclose(
            loaded.matrix() + np.diag(np.diag(matrix)), matrix, rtol=1e-11, atol=1e-11
        )
    np.testing.assert_allclose(loaded.diagonal().sum(), np.trace(matrix), rtol=1e-12)


@pytest.mark.parametrize("kernel", ["rbf", "imq"])
@pytest.mark.parametrize("multiples", [(0.5, 1.0, 2.0), (1.0, 0.5), (0.3,)])
@pytest.mark.parametrize("tile", [5, 1024])
def test_several_bandwidths_are_each_alone(engine, kernel, multiples, tile, monkeypatch):
    monkeypatch.setattr(pairs_module, "TILE", tile)
    x, s, slices = problem(6, n=23)
    object_kernel = fs.kernels.as_kernel(kernel)
    y, s_along, a, h = project(x, s, slices, object_kernel)
    weights = np.random.default_rng(0).standard_normal((5, 40))
    loaded = choose_engine(engine)(object_kernel.code, y, s_along, a, h)
    for multiple, (sums, replicates) in zip(
        multiples, loaded.sums_and_replicates_at(multiples, weights, 10), strict=True
    ):
        matrix = reference_matrix(x, s, slices, kernel, multiple * h)
        expected = [reference.bootstrap_replicate(matrix, w[10:33]) for w in weights]
        tolerance = SIZE * TOLERANCE[engine]
        np.testing.assert_allclose(replicates, expected, rtol=1e-10, atol=tolerance)
        np.testing.assert_allclose(
            sums.sum(), matrix.sum() - np.trace(matrix), rtol=1e-10, atol=tolerance
        )


def heavy(rng, tail, shape):
    """Projections with light to very heavy tails, a far outlier, or few distinct values."""
    if tail == "outlier":
        y = rng.standard_normal(shape)
        y[:, 0] = 1e8
        return y
    if tail == "discrete":
        return rng.integers(0, 3, shape) + 1e-9 * rng.standard_normal(shape)
    return rng.standard_normal(shape) if tail == "normal" else rng.standard_t(tail, shape)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 120),
    st.sampled_from([0, 1]),
    st.sampled_from(["normal", 3.0, 1.0, "outlier", "discrete"]),
    st.floats(-2, 3),
    st.sampled_from([1e-5, 1e-8, 1e-10]),
)
def test_fourier_keeps_its_bound(seed, n, code, tail, log_width, tol):
    rng = np.random.default_rng(seed)
    y, s = heavy(rng, tail, (2, n)), rng.standard_normal((2, n)) * np.exp(rng.normal())
    a, h = rng.uniform(-1, 1, 2), np.exp(log_width) * np.array([1.0, 0.7])
    weights = rng.standard_normal((3, n + 2))
    sums, replicates = FourierEngine(code, y, s, a, h, tol, DirectEngine).sums_and_replicates(
        weights, 2
    )
    direct = DirectEngine(code, y, s, a, h)
    exact_sums, exact_replicates = direct.sums_and_replicates(weights, 2)
    size = np.abs(s) + np.abs(a / h)[:, None]
    rounding = 1e-12 + 1e-15 * n
    assert np.all(np.abs(sums - exact_sums) <= (tol + rounding) * size.sum(axis=1) ** 2)
    for got, exact, w in zip(replicates, exact_replicates, weights[:, 2:], strict=True):
        assert abs(got - exact) <= (tol + rounding) * ((np.abs(w) * size).sum(axis=1) ** 2).sum()
    alone = FourierEngine(code, y, s, a, h, tol, DirectEngine).sums()
    np.testing.assert_allclose(alone, sums, rtol=1e-13, atol=1e-13 * size.sum() ** 2)


@given(st.sampled_from([0, 1]), st.floats(-1, 4), st.sampled_from([1e-5, 1e-8, 1e-10]))
def test_series_is_the_kernel_with_its_derivatives(code, log_span, tol):
    span = np.exp(log_span)
    series = series_of(code, span, tol)
    y = np.linspace(-span / 2, span / 2, 121)
    w = series.base * np.arange(series.frequencies)
    cos, sin = np.cos(np.outer(y, w)), np.sin(np.outer(y, w))
    values, slopes = [cos, sin], [-w * sin, w * cos]
    if series.even.size:
        values, slopes = (
            [part @ mix for part, mix in zip(parts, (series.even, series.odd), strict=True)]
            for parts in (values, slopes)
        )
    values, slopes = np.concatenate(values, axis=1), np.concatenate(slopes, axis=1)
    derivatives = reference.rbf if code == 0 else reference.imq
    exact = np.array([[derivatives(u - v, 1.0)[:3] for u in y] for v in y])  # of t = u - v
    got = [
        values * series.coefficients @ values.T,
        values * series.coefficients @ slopes.T,
        -slopes * series.coefficients @ slopes.T,
    ]
    assert np.abs(np.stack(got, axis=-1) - exact).max() < tol


def test_samples_far_out_do_not_lengthen_the_series():
    rng = np.random.default_rng(0)
    y = rng.standard_normal((1, 500))
    clean = FourierEngine(0, y, y, np.ones(1), np.ones(1))
    y[0, :3] = [1e3, -1e6, 1e9]
    spoilt = FourierEngine(0, y, y, np.ones(1), np.ones(1))
    assert (
        set(range(3)) <= set(spoilt.outside[0].tolist()) and spoilt.features < clean.features + 10
    )


def test_slices_of_extreme_range_go_to_the_direct_engine():
    rng = np.random.default_rng(0)
    y = rng.standard_cauchy((3, 200))
    h = np.array([1.0, 1e-4, 1.0])
    mixed = FourierEngine(1, y, y, np.ones(3), h, fallback=DirectEngine)
    assert mixed.name == "direct and fourier"
    np.testing.assert_allclose(mixed.sums(), DirectEngine(1, y, y, np.ones(3), h).sums(), rtol=1e-6)
    assert (
        FourierEngine(1, y, y, np.ones(3), np.full(3, 1e-4), fallback=DirectEngine).name == "direct"
    )


@pytest.mark.parametrize("kernel", ["rbf", "imq"])
def test_tolerance_is_the_users(kernel):
    rng = np.random.default_rng(0)
    x, slices = rng.standard_normal((300, 2)), fs.Slices(np.eye(2), np.eye(2))
    exact = fs.sksd(x, -x, slices, kernel=kernel, engine="direct", statistic="v")
    size = np.mean(np.abs(x) + 1.1) ** 2 * 2
    errors = [
        abs(fs.sksd(x, -x, slices, kernel=kernel, engine="fourier", statistic="v", tol=tol) - exact)
        for tol in (1e-2, 1e-12)
    ]
    assert 1e-12 * size < errors[0] < 1e-2 * size and errors[1] < 2e-12 * size
    results = [
        fs.gof_test(x, -x, slices=slices, kernel=kernel, engine="fourier", tol=tol, rng=0)
        for tol in (1e-3, 1e-11)
    ]
    assert 1e-12 < abs(results[0].statistic - results[1].statistic) < 1e-3 * size


def test_auto_takes_the_faster_engine():
    rng = np.random.default_rng(0)
    few, many = rng.standard_normal((1, 3000)), rng.standard_normal((100, 60))
    for y, expected in ((few, "fourier"), (many, "direct")):
        engine = choose_engine("auto")(0, y, y, np.ones(len(y)), np.ones(len(y)), n_resamples=100)
        assert engine.name == expected
    wild = rng.standard_t(0.1, (1, 300))
    assert (
        choose_engine("auto")(0, wild, wild, np.ones(1), np.full(1, 1e-3), n_resamples=100).name
        == "direct"
    )


def test_engine_of_the_result_is_what_was_used():
    x = np.random.default_rng(0).standard_normal((1000, 60))
    options = dict(n_resamples=500, rng=0)
    results = {
        name: fs.gof_test(x, -x, engine=name, **options) for name in ("direct", "fourier", "auto")
    }
    assert [results[name].engine for name in results] == ["direct", "fourier", "direct and fourier"]
    for name in ("fourier", "auto"):
        np.testing.assert_allclose(
            results[name].null_distribution, results["direct"].null_distribution, rtol=1e-5
        )
        assert results[name].pvalue == results["direct"].pvalue


def test_a_tolerance_beyond_doubles_goes_to_the_direct_engine():
    y, ones = np.linspace(0, 5, 20)[None], np.ones(1)
    engine = FourierEngine(1, y, np.ones((1, 20)), ones, ones, tol=1e-14, fallback=DirectEngine)
    assert engine.name == "direct"
    np.testing.assert_allclose(
        engine.sums(), DirectEngine(1, y, np.ones((1, 20)), ones, ones).sums(), rtol=1e-13
    )


@given(
    st.integers(0, 2**32 - 1), st.integers(2, 40), st.sampled_from(["rbf", "imq"]), st.floats(-3, 3)
)
def test_direct_agrees_with_the_reference_at_every_width(seed, n, kernel, log_width):
    x, s, slices = problem(seed, n=n, d=3, m=2)
    h = np.exp(log_width)
    got = fs.sksd(x, s, slices, kernel=fs.kernels.KERNELS[kernel](h), statistic="v", per_slice=True)
    expected = reference.sksd_per_slice(x, s, slices.r, slices.g, kernel, h, "v")
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12 * max(1.0, h**-2))


@pytest.mark.parametrize("kernel", ["rbf", "imq"])
@pytest.mark.parametrize("statistic", ["u", "v"])
@pytest.mark.parametrize("tile", [6, 1024])
def test_ksd_matches_the_reference(kernel, statistic, tile, monkeypatch):
    monkeypatch.setattr(pairs_module, "TILE", tile)
    x, s, _ = problem(3)
    expected = reference.ksd(x, s, kernel, "median", statistic)
    np.testing.assert_allclose(
        fs.ksd(x, s, kernel=kernel, statistic=statistic), expected, rtol=1e-11
    )
    object_kernel = fs.kernels.KERNELS[kernel](0.7)
    np.testing.assert_allclose(
        fs.ksd(x, s, kernel=object_kernel, statistic=statistic),
        reference.ksd(x, s, kernel, 0.7, statistic),
        rtol=1e-11,
    )


def test_ksd_replicates_match_the_reference():
    x, s, _ = problem(4)
    weights = np.random.default_rng(0).standard_normal((3, x.shape[0]))
    matrix = reference.ksd_matrix(x, s, "rbf", 1.3)
    _, replicates = MultivariateEngine(0, x, s, 1.3).sums_and_replicates(weights)
    np.testing.assert_allclose(
        replicates, [reference.bootstrap_replicate(matrix, w) for w in weights], rtol=1e-11
    )


def single_and_many_threads(function):
    many = numba.get_num_threads()
    results = []
    for threads in (1, many):
        numba.set_num_threads(threads)
        try:
            results.append(function())
        finally:
            numba.set_num_threads(many)
    return results


@pytest.mark.parametrize("null", ["bootstrap", "wild"])
@pytest.mark.parametrize("kernel", ["rbf", "imq"])
def test_results_do_not_depend_on_the_number_of_threads(null, kernel, engine):
    x = np.random.default_rng(0).standard_normal((1300, 12))

    def run():
        return fs.gof_test(
            x,
            lambda x: -x,
            basis="identity",
            kernel=kernel,
            null=null,
            n_resamples=50,
            engine=engine,
            rng=3,
        )

    one, many = single_and_many_threads(run)
    assert one.statistic == many.statistic
    assert np.array_equal(one.null_distribution, many.null_distribution)
    assert np.array_equal(one.slices.g, many.slices.g)


def test_weights_depend_on_the_seed_alone():
    for null in ("bootstrap", "wild"):
        one, many = single_and_many_threads(
            lambda null=null: Weights(null, 100, 64, rng=np.random.default_rng(5)).matrix()
        )
        assert np.array_equal(one, many)
        assert not np.array_equal(
            one, Weights(null, 100, 64, rng=np.random.default_rng(6)).matrix()
        )


@pytest.mark.parametrize("layer", ["workqueue", "omp"])
def test_several_python_threads_at_once(layer):
    program = f"""
        import threading
        import numba
        numba.config.THREADING_LAYER = {layer!r}
        import numpy as np, fastsksd as fs
        x = np.random.default_rng(0).standard_normal((600, 10))
        run = lambda: fs.gof_test(x, lambda x: -x, basis="identity", n_resamples=50, rng=1).pvalue
        alone, results = run(), []
        work = lambda: results.extend(run() for _ in range(5))
        threads = [threading.Thread(target=work) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert results == [alone] * 20, results
        print(numba.threading_layer())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    if layer == "omp" and "No threading layer could be loaded" in done.stderr:
        return  # this build of Numba has no OpenMP; the other case still ran
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == layer
