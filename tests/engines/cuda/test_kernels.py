"""Every kernel in the CUDA simulator against the CPU's engines and the slow references.

Runs with NUMBA_ENABLE_CUDASIM=1 only.
"""

import numpy as np
import pytest
import reference

import fastsksd as fs
from fastsksd.compute import smoothing as host
from fastsksd.engines import session
from fastsksd.engines.cuda import blocks, data, device, gaussian, smoothing, weights
from fastsksd.engines.cuda.fourier import CudaFourierEngine
from fastsksd.engines.cuda.gradients import slice_gradients as device_gradients
from fastsksd.engines.cuda.pairs import CudaDirectEngine
from fastsksd.engines.direct import DirectEngine
from fastsksd.engines.fourier import FourierEngine
from fastsksd.engines.gradients import slice_gradients
from fastsksd.procedure.nulls import Weights

SINGLE = {np.float64: 1e-12, np.float32: 2e-6}


def projections(n, m, seed=0):
    rng = np.random.default_rng([seed, n, m])
    return (
        rng.standard_normal((m, n)),
        rng.standard_normal((m, n)),
        rng.uniform(-1, 1, m),
        rng.uniform(0.5, 2.0, m),
    )


def test_this_is_the_simulator():
    assert device.simulated


# A block of the simulator has 2 x 2 threads and makes 8 x 4 pairs. Sizes are below, at and beyond a
# block, and not a multiple of it.
@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("real", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "m"), [(2, 1), (16, 8), (19, 9)])
def test_pairs(code, real, n, m):
    y, s, a, h = projections(n, m)
    given = np.random.default_rng(1).standard_normal((3, n + 4))
    expected = DirectEngine(code, y, s, a, h).sums_and_replicates_at((0.5, 1.0), given, 2)
    got = CudaDirectEngine(code, y, s, a, h, real).sums_and_replicates_at((0.5, 1.0), given, 2)
    for (sums, replicates), (exact_sums, exact_replicates) in zip(got, expected, strict=True):
        np.testing.assert_allclose(sums, exact_sums, rtol=0, atol=SINGLE[real] * n * n)
        np.testing.assert_allclose(
            replicates, exact_replicates, rtol=0, atol=SINGLE[real] * n * n * m
        )


def test_tiles_of_the_device(monkeypatch):
    """Several tiles, the last ones cut off, and more replicates than a block has."""
    from fastsksd.engines.cuda import pairs

    monkeypatch.setattr(pairs, "TILE", 16)
    y, s, a, h = projections(21, 1)
    given = np.random.default_rng(1).standard_normal((17, 21))
    exact = DirectEngine(0, y, s, a, h)
    loaded = CudaDirectEngine(0, y, s, a, h)
    for got, expected in zip(
        loaded.sums_and_replicates(given), exact.sums_and_replicates(given), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(loaded.matrix(), exact.matrix(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.sort(loaded.spectrum()), np.sort(exact.spectrum()), atol=1e-12)


@pytest.mark.parametrize(
    ("null", "options"),
    [("wild", {}), ("wild", {"stretch": 5}), ("bootstrap", {}), ("bootstrap", {"edges": (11,)})],
)
@pytest.mark.parametrize("n", [2, 16, 67])
def test_weights_are_those_of_the_cpu(null, options, n):
    options = {name: value for name, value in options.items() if name != "edges" or n > 11}
    if "stretch" in options:
        options = {"stretch": np.arange(n) // options["stretch"]}
    drawn = Weights(null, n, 6, rng=np.random.default_rng(n), **options)
    assert np.array_equal(device.download(weights.draw(drawn, 0, 6)), drawn.matrix())
    assert np.array_equal(device.download(weights.draw(drawn, 4, 2)), drawn.matrix()[4:])


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("tail", ["light", "far"])
def test_fourier_sums(code, tail, monkeypatch):
    from fastsksd.engines.cuda import fourier

    monkeypatch.setattr(fourier, "BLOCK", 16)
    y, s, a, h = projections(17, 2)
    if tail == "far":
        y[0, 3], y[0, 7] = 400.0, -350.0
    given = np.random.default_rng(1).standard_normal((6, 19))
    cpu = FourierEngine(code, y, s, a, 2.0 * h, 1e-2, DirectEngine)
    assert (tail == "far") == any(far.size for far in cpu.outside)
    loaded = CudaFourierEngine(code, y, s, a, 2.0 * h, 1e-2, CudaDirectEngine)
    for got, expected in zip(
        loaded.sums_and_replicates(given, 2), cpu.sums_and_replicates(given, 2), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(loaded.sums(), cpu.sums(), rtol=0, atol=1e-9)
    if tail == "light":
        np.testing.assert_allclose(
            np.sort(loaded.spectrum())[-8:], np.sort(cpu.spectrum())[-8:], atol=1e-12
        )


def test_many_features_are_made_of_fewer_samples_at_a_time(monkeypatch):
    from fastsksd.engines.cuda import fourier

    shapes = []
    y, s, a, h = projections(70, 1)
    y[0, 3] = 400.0
    loaded = CudaFourierEngine(0, y, s, a, 2.0 * h, 1e-2, CudaDirectEngine)
    monkeypatch.setattr(fourier, "MOST", 40 * loaded.features)
    monkeypatch.setattr(
        fourier,
        "empty",
        lambda *shape, **options: shapes.append(shape) or device.empty(*shape, **options),
    )
    cpu = FourierEngine(0, y, s, a, 2.0 * h, 1e-2, DirectEngine)
    np.testing.assert_allclose(loaded.sums(), cpu.sums(), rtol=0, atol=1e-9)
    assert sorted(shapes) == [(1, 40), (loaded.features - 1, 40)]


def test_weights_stay_on_the_device(monkeypatch):
    from fastsksd.engines.cuda import fourier

    shapes = []
    monkeypatch.setattr(
        fourier, "download", lambda array: shapes.append(array.shape) or device.download(array)
    )
    y, s, a, h = projections(17, 2)
    y[:, 3] = 400.0
    loaded = CudaFourierEngine(0, y, s, a, 2.0 * h, 1e-2, CudaDirectEngine)
    assert all(far.size for far in loaded.outside)
    loaded.sums_and_replicates(np.ones((3, 17)))
    assert max(map(len, shapes)) == 1


def test_slices_with_a_long_series_go_to_the_pairs():
    y, s, a, h = projections(9, 2)
    y[0], h[0] = np.linspace(0, 1e4, 9), 0.05
    loaded = CudaFourierEngine(1, y, s, a, h, 1e-4, CudaDirectEngine)
    assert loaded.name == "cuda direct and cuda fourier"
    cpu = FourierEngine(1, y, s, a, h, 1e-4, DirectEngine)
    np.testing.assert_allclose(loaded.sums(), cpu.sums(), atol=1e-9)


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("real", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "m", "statistic"), [(2, 1, "u"), (16, 1, "v"), (19, 2, "u")])
def test_gradients(code, real, n, m, statistic):
    arguments = (code, *projections(n, m), statistic)
    for got, expected in zip(
        device_gradients(*arguments, real=real), slice_gradients(*arguments), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=0, atol=SINGLE[real])


def dense_kernel(x, y, width):
    return np.array([[reference.multivariate_kernel(a, b, "rbf", width) for b in y] for a in x])


@pytest.mark.parametrize(("n", "d", "rows"), [(2, 1, 1), (16, 3, 17), (19, 18, 2)])
def test_products_with_the_kernel(n, d, rows, monkeypatch):
    monkeypatch.setattr(blocks, "FULL", 3)  # more than one share of the samples, or one
    rng = np.random.default_rng([n, d])
    x, y, left = (
        rng.standard_normal((n, d)),
        rng.standard_normal((5, d)),
        rng.standard_normal((rows, n)),
    )
    matrix = gaussian.CudaGaussianMatrix(x, 2.0, np.zeros(d))
    k, there = dense_kernel(x, x, 2.0), device.upload(left)
    np.testing.assert_allclose(
        device.download(matrix.times(there, diagonal=1.0)), left @ k, atol=1e-13
    )
    np.testing.assert_allclose(
        device.download(matrix.times(there, diagonal=0.0, square=True)),
        left @ (k - np.eye(n)) ** 2,
        atol=1e-13,
    )
    np.testing.assert_allclose(matrix.times_at(y, left), left @ dense_kernel(x, y, 2.0), atol=1e-13)


def test_conjugate_gradients():
    rng = np.random.default_rng(0)
    x, right = rng.standard_normal((9, 2)), rng.standard_normal((2, 9))
    matrix = gaussian.CudaGaussianMatrix(x, 1.0, np.zeros(2))
    exact = np.linalg.solve(dense_kernel(x, x, 1.0) + 0.5 * np.eye(9), right.T).T
    np.testing.assert_allclose(matrix.ridge_solve(device.upload(right), 0.5), exact, atol=1e-7)
    assert matrix.ridge_solve(device.upload(right), 0.5, max_steps=1) is None


def test_blocks():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((3, 70)), rng.standard_normal((5, 68))
    parts = blocks.product_parts(a, b, 68)
    assert parts.shape[0] > 1  # several shares
    blocks.add_product(device.upload(a), 2, device.upload(b), 68, parts)
    blocks.add_product(device.upload(a), 2, device.upload(b), 3, parts)
    expected = a[:, 2:] @ b.T + a[:, 2:5] @ b[:, :3].T
    np.testing.assert_allclose(device.download(blocks.folded(parts)), expected, atol=1e-12)
    totals = blocks.zeros(3)
    blocks.add_row_sums(device.upload(a), 69, totals)
    np.testing.assert_allclose(device.download(totals), a[:, :69].sum(axis=1), atol=1e-12)
    values = rng.standard_normal(33)
    got = blocks.row_dots(device.upload(a), device.upload(a), device.upload(values), 5)
    np.testing.assert_allclose(got, (a[:, 5:38] ** 2) @ values, atol=1e-12)
    assert np.array_equal(
        device.download(blocks.on_device(device.upload(a), np.float32)), a.astype(np.float32)
    )


@pytest.mark.parametrize(("full", "count"), [(1, 1), (5, 2), (100, 6)])
def test_products_in_few_shares(full, count, monkeypatch):
    """A share is as large as the product: of many rows there is one, however many samples."""
    monkeypatch.setattr(blocks, "FULL", full)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((9, 170)), rng.standard_normal((2, 167))
    parts = blocks.product_parts(a, b, 167)
    assert parts.shape[0] == count
    blocks.add_product(device.upload(a), 3, device.upload(b), 167, parts)
    blocks.add_product(device.upload(a), 0, device.upload(b), 50, parts)
    expected = a[:, 3:] @ b.T + a[:, :50] @ b[:, :50].T
    np.testing.assert_allclose(device.download(blocks.folded(parts)), expected, atol=1e-12)


@pytest.mark.parametrize(("n", "d", "m"), [(2, 1, 1), (16, 16, 8), (19, 17, 9)])
@pytest.mark.parametrize("real", [np.float64, np.float32])
def test_projections_of_data_on_the_device(n, d, m, real):
    rng = np.random.default_rng([n, d, m])
    x, directions = rng.standard_normal((n, d)), rng.standard_normal((m, d))
    shift, unit, rows = rng.standard_normal(m), rng.uniform(0.5, 2.0, m), rng.integers(0, n, 5)
    there = device.upload(x)
    tolerance = dict(rtol=0, atol=20 * SINGLE[real])
    np.testing.assert_allclose(
        device.download(data.along(directions, there, real=real)), directions @ x.T, **tolerance
    )
    expected = (directions @ x[rows].T - shift[:, None]) / unit[:, None]
    np.testing.assert_allclose(
        device.download(data.along(directions, there, shift, unit, rows, real)),
        expected,
        **tolerance,
    )
    assert np.array_equal(device.download(data.centred(x, x[0])), x - x[0])


def test_stretches_of_what_is_held_are_not_copied():
    x = np.arange(24.0).reshape(8, 3)
    with session(x):
        whole, part = data.rows_there(x), data.rows_there(x[2:5])
        assert data.rows_there(x) is whole
        device.cuda.to_device(-x, to=whole)
        assert np.array_equal(device.download(part), -x[2:5])  # the same memory
    assert np.array_equal(device.download(data.rows_there(x)), x)


@pytest.mark.parametrize(("m", "n"), [(1, 2), (3, 16), (9, 19)])
def test_parts_of_the_matrix_free_products(m, n):
    """The device's functions against those of the host of the same names."""
    rng = np.random.default_rng([m, n])

    def one(shape=(m, n)):
        return rng.standard_normal(shape)

    def check(name, *arguments):
        here = [np.copy(value) if isinstance(value, np.ndarray) else value for value in arguments]
        there = [
            device.upload(value) if isinstance(value, np.ndarray) else value for value in arguments
        ]
        got, expected = getattr(smoothing, name)(*there), getattr(host, name)(*here)
        if expected is not None:
            got = device.download(got) if hasattr(got, "copy_to_host") else got
            np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)
        for a, b in zip(there, here, strict=True):
            if isinstance(b, np.ndarray):
                np.testing.assert_allclose(device.download(a), b, rtol=0, atol=1e-12)

    check("transposed", one())
    check("stacked", one(), one((2, n)))
    check("weighted", one(), one(n))
    check("total_weight", one(n))
    check("add", one(), 0.7, one())
    check("add", one(), 0.7, one(), one(n))
    check("gather", one(), one((4, n)))
    check("both_products", one(), one(), one())
    check("finish_gradients", one(), one(), one(), one(), one(), one(n), one(m))
    check("finish_adjoint", *(one() for _ in range(6)))
    check("squares_of", one(), one())
    check("self_parts", one(), one(), one(n), one((3 * m, n)))
    check("finish_self_terms", *(one() for _ in range(6)), one((2 * m, n)))
    check("stein_products", one(), one(), one())
    check("finish_stein", one(), one(), one(), one(), 0.3, one((4 * m, n)))
    rows, mask = one(), rng.uniform(size=m) < 0.6
    assert np.array_equal(device.download(smoothing.pick(device.upload(rows), mask)), rows[mask])


def test_single_places():
    flat = device.upload(np.zeros(9))
    blocks.put()((3, 1), 2.0, device.upload(np.array([0, 3, 8]), np.int64), flat)
    assert np.flatnonzero(device.download(flat)).tolist() == [0, 3, 8]


def test_every_entry_of_a_tile_is_written():
    y, s, a, h = projections(19, 1)
    loaded = CudaDirectEngine(0, y, s, a, h)
    entries = device.upload(np.full((19, 19), np.nan))
    loaded._tile(True, 0, 0, entries, blocks.zeros(loaded._blocks(19, 19), 1))
    matrix = device.download(entries)
    assert np.array_equal(matrix, np.triu(matrix, 1))
    np.testing.assert_allclose(matrix + matrix.T, DirectEngine(0, y, s, a, h).matrix(), atol=1e-12)


def test_index_errors_are_seen_here():
    """The simulator raises on an index beyond an array, so the tests above would fail on one."""
    with pytest.raises(IndexError):
        blocks.row_sum()((1, 1), device.upload(np.ones((1, 3))), 4, device.upload(np.zeros(1)))


def test_launches_have_the_types_that_are_compiled():
    kernel = blocks.row_sum()
    with pytest.raises(TypeError, match="argument 0"):
        kernel((1, 1), device.upload(np.ones((1, 3)), np.float32), 3, device.upload(np.zeros(1)))
    with pytest.raises(TypeError, match="takes 3"):
        kernel((1, 1), device.upload(np.ones((1, 3))))


@pytest.mark.parametrize("array", [np.arange(3.0)[:, None], np.arange(3.0)[None]])
def test_strides_of_zero_do_not_go_to_the_device(array):
    """A single column or row made with None is contiguous for NumPy; kernels would not take it."""
    assert 0 in array.strides and array.flags.c_contiguous
    there = device.upload(array)
    assert 0 not in there.strides and np.array_equal(device.download(there), array)
    with pytest.raises(TypeError, match="argument 0"):
        blocks.row_sum()((1, 1), device.cuda.to_device(array), 1, device.upload(np.zeros(3)))


def test_projections_send_no_empty_array(monkeypatch):
    """Where NumPy gives it a stride of 0, the target that comes with Numba has no kernel for it."""
    there, sizes, to_device = device.upload(np.ones((3, 2))), [], device.cuda.to_device
    monkeypatch.setattr(
        device.cuda,
        "to_device",
        lambda array, **options: sizes.append(array.size) or to_device(array, **options),
    )
    data.along(np.ones((1, 2)), there)
    assert sizes and min(sizes) > 0


def test_an_empty_grid_launches_nothing():
    blocks.fill()((0, 1), 1.0, device.empty(0))
    assert device.download(
        weights.draw(Weights("wild", 5, 3, rng=np.random.default_rng(0)), 0, 0)
    ).shape == (0, 5)


@pytest.mark.parametrize("estimator", ["ke", "ksd", "ge"])
def test_score_differences(estimator):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((12, 3)), rng.standard_normal((4, 3))
    cpu, gpu = (
        fs.score_difference.score_difference(x, np.negative, estimator=estimator, engine=e)
        for e in ("direct", "cuda")
    )
    r = fs.random_slices(3, 2, rng=0).r
    tolerance = dict(rtol=0, atol=1e-6 if estimator == "ge" else 1e-12)
    np.testing.assert_allclose(gpu.value(y), cpu.value(y), **tolerance)
    np.testing.assert_allclose(gpu.jacobian(y, r[0]), cpu.jacobian(y, r[0]), **tolerance)
    for debias in (True, False):
        np.testing.assert_allclose(
            gpu.second_moment(debias), cpu.second_moment(debias), **tolerance
        )
        np.testing.assert_allclose(
            gpu.sensitivity(r, debias)(r), cpu.sensitivity(r, debias)(r), **tolerance
        )
