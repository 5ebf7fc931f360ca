"""Dask and Zarr: arrays tested where they lie, batches on a real cluster of two processes."""

import inspect
import os
import pickle
import signal
import warnings

import numpy as np
import pytest

import fastsksd as fs

pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")

# Dask and Zarr warn of their own affairs (ports, workers that end, formats).
pytestmark = [
    pytest.mark.filterwarnings("default:::distributed"),
    pytest.mark.filterwarnings("default:::zarr"),
]

X = np.random.default_rng(0).standard_normal((3000, 3)) * [1.0, 0.9, 1.0]
SLICES = fs.random_slices(3, 2, rng=1)
KERNEL = fs.RBF(1.2)
OPTIONS = dict(slices=SLICES, kernel=KERNEL, null="spectral")


@pytest.fixture(scope="module")
def client():
    from distributed import Client, LocalCluster

    cluster = LocalCluster(
        processes=True, n_workers=2, threads_per_worker=1, dashboard_address=None
    )
    with cluster, Client(cluster, set_as_default=False) as client:
        yield client


@pytest.fixture(scope="module")
def whole():
    return fs.gof_test(X, np.negative, **OPTIONS, engine="direct")


def close_to(result, whole):
    assert (result.n_test, result.null, result.engine) == (whole.n_test, "spectral", "fourier")
    np.testing.assert_allclose(
        result.slice_statistics, whole.slice_statistics, rtol=1e-6, atol=1e-10
    )
    assert result.pvalue == pytest.approx(whole.pvalue, rel=1e-5)


@pytest.mark.parametrize("chunks", [3000, 700, (1000, 0, 1, 1999)], ids=str)
def test_dask_arrays_give_the_one_shot_test(chunks, whole):
    x = da.from_array(X, chunks=(chunks, 3))
    close_to(fs.gof_test(x, lambda x: -x, **OPTIONS), whole)
    close_to(fs.gof_test(x, -x.rechunk((501, 2)), **OPTIONS), whole)
    close_to(
        fs.gof_stream(x, fs.models.Gaussian(np.zeros(3), np.eye(3)), slices=SLICES, kernel=KERNEL),
        whole,
    )


def test_many_chunks_on_a_cluster_merge_as_a_tree(client, whole):
    x = da.from_array(X, chunks=(200, 3))
    with client.as_current():
        there = fs.gof_test(x, lambda x: -x, **OPTIONS, rng=0)
    here = fs.gof_test(x, lambda x: -x, **OPTIONS, rng=0)
    close_to(there, whole)
    assert there.pvalue == pytest.approx(here.pvalue, rel=1e-7)
    np.testing.assert_allclose(
        there.null_distribution, here.null_distribution, rtol=1e-6, atol=1e-10
    )


def test_first_rows_are_the_streams(whole):
    """Training rows, range and bandwidths depend neither on who holds the array nor on chunks."""
    for options in (
        dict(train=450, n_slices=2),
        dict(slices=SLICES),
        dict(train=X[:400], n_slices=2),
    ):
        expected = fs.gof_stream(X, np.negative, **options)
        for chunks in (300, 450, 3000):
            result = fs.gof_stream(da.from_array(X, chunks=(chunks, 3)), np.negative, **options)
            assert (
                np.array_equal(result.slices.g, expected.slices.g)
                and result.n_train == expected.n_train
            )
            np.testing.assert_allclose(result.bandwidths, expected.bandwidths, rtol=1e-12)
            assert result.n_test == expected.n_test and result.pvalue == pytest.approx(
                expected.pvalue, rel=1e-6
            )


def test_chunks_of_unknown_size(whole):
    x = da.from_array(X, chunks=(800, 3))
    unknown = x[da.from_array(np.ones(3000, dtype=bool), chunks=800)]
    assert np.isnan(unknown.shape[0])
    close_to(fs.gof_test(unknown, lambda x: -x, **OPTIONS), whole)
    close_to(fs.gof_test(unknown, -unknown, **OPTIONS), whole)
    result = fs.gof_stream(unknown, np.negative, train=1000, n_slices=1)
    assert (result.n_train, result.n_test) == (1000, 2000)
    with pytest.raises(
        ValueError, match=r"`score` must have the chunks of the samples.*compute_chunk_sizes"
    ):
        fs.gof_test(unknown, -x.rechunk((100, 3)), **OPTIONS)


def test_bad_dask_arrays_are_explained():
    x = da.from_array(X[:600], chunks=(300, 3))
    cases = [
        (
            dict(x=x.rechunk((300, 2))),
            ValueError,
            r"`x` is split into 2 chunks along its columns.*x\.rechunk\(\{1: -1\}\)",
        ),
        (dict(x=x[:, 0]), ValueError, "`x` must be two-dimensional"),
        (
            dict(null="wild"),
            ValueError,
            "`null` must be 'spectral' for samples that are not in memory; got 'wild'",
        ),
        (dict(null=None), ValueError, "`null` must be 'spectral'"),
        (dict(slices=None, null=None, lag=3), ValueError, "`lag` does not apply"),
        (dict(engine="direct"), ValueError, "`engine` must be 'auto' or 'fourier'"),
        (dict(method="ksd"), ValueError, "`method` must be 'sksd'"),
        (dict(multiples=[1.0]), ValueError, "`multiples` does not apply"),
        (dict(lag=3), ValueError, "`lag` does not apply"),
        (dict(score=-X[:600]), TypeError, "`score` must be a callable, a model or a Dask array"),
        (dict(score=-x[1:]), ValueError, "`score` must have the shape of the samples"),
        (
            dict(score=lambda x: x[:, :1]),
            ValueError,
            "chunk [01]: `score` must return an array of shape",
        ),
        (dict(x=da.where(x > 3, np.nan, x)), ValueError, "chunk [01]: `x` holds NaN or infinity"),
        (
            dict(slices=fs.random_slices(4, 1)),
            ValueError,
            "`slices` are directions in 4 dimensions",
        ),
    ]
    for arguments, error, message in cases:
        with pytest.raises(error, match=message):
            fs.gof_test(**{"x": x, "score": np.negative, **OPTIONS, **arguments})


def test_a_dask_array_takes_the_options_of_a_stream():
    from fastsksd.scale.cluster import STREAMED

    signature = inspect.signature(fs.gof_stream).parameters
    options = {name for name, one in signature.items() if one.kind is one.KEYWORD_ONLY}
    assert options == {*STREAMED, "chains"}  # those of a Dask array are labels


def test_accumulators_travel_light():
    total = fs.Accumulator(SLICES, X, kernel=KERNEL).add(X, np.negative)
    held = total._moments.nbytes + sum(value.nbytes for value in total._sums.values())
    assert len(pickle.dumps(total)) < held + 5000
    assert len(pickle.dumps(total.empty())) < 5000


@pytest.fixture(scope="module")
def long_one():
    """Samples enough for a stream."""
    return np.random.default_rng(3).standard_normal((24_000, 3)) * [1.0, 0.97, 1.0]


@pytest.fixture(scope="module")
def family(long_one):
    return fs.gof_stream([long_one], np.negative, rng=0, n_resamples=199)


def same_family(result, family):
    assert result.pvalue == family.pvalue
    assert (result.n_train, result.n_test) == (family.n_train, family.n_test) == (5000, 19_000)
    assert result.evidence == pytest.approx(family.evidence, rel=1e-8)
    np.testing.assert_allclose(result.null_distribution, family.null_distribution, atol=1e-7)


def test_dask_arrays_get_the_default_family(long_one, family):
    for chunks in (24_000, (7000, 0, 1, 9999, 7000)):
        x = da.from_array(long_one, chunks=(chunks, 3))
        same_family(fs.gof_test(x, np.negative, rng=0, n_resamples=199), family)
    unknown = x[da.from_array(np.ones(24_000, dtype=bool), chunks=chunks)]
    assert np.isnan(unknown.shape[0])
    same_family(fs.gof_test(unknown, -unknown, rng=0, n_resamples=199), family)
    few = fs.gof_test(x[:900], np.negative, rng=0, n_resamples=99)
    assert few.pvalue == fs.gof_test(long_one[:900], np.negative, rng=0, n_resamples=99).pvalue
    with pytest.raises(ValueError, match="chunk 2: `x` holds NaN or infinity"):
        bad = da.from_array(np.r_[long_one, np.full((9, 3), np.nan)], chunks=(12_000, 3))
        fs.gof_test(bad, np.negative, rng=0)


def test_a_worker_killed_half_way_changes_nothing(client, long_one, family, tmp_path):
    """The worker that has met the sixth chunk is killed; its chunks are added again by another."""
    x = da.from_array(long_one, chunks=(1500, 3))
    marker = tmp_path / "killed"
    here = os.getpid()

    def score(x):
        if np.array_equal(x[0], long_one[7500]) and os.getpid() != here and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return -x

    workers = set(client.run(os.getpid).values())
    with client.as_current():
        result = fs.gof_test(x, score, rng=0, n_resamples=199)
    assert marker.exists()
    same_family(result, family)
    client.wait_for_workers(2, timeout=60)
    assert set(client.run(os.getpid).values()) != workers


def problems():
    return [(X[200 * k : 200 * (k + 1)], lambda x: -x) for k in range(14)]


def test_a_killed_worker_changes_no_pvalue(client):
    options = dict(rng=5, n_resamples=99, basis="identity")
    local = fs.gof_batch(problems(), progress=False, **options)
    workers, seen = client.run(os.getpid), []

    def kill_one(done, total):
        seen.append((done, total))
        if done == 3:
            os.kill(next(iter(workers.values())), signal.SIGKILL)

    remote = fs.gof_batch(problems(), client=client, progress=kill_one, **options)
    assert seen == [(k, 14) for k in range(1, 15)]
    # Numba's fresh code and the same code from its cache may round the last digits differently.
    assert np.array_equal(remote.pvalues, local.pvalues)
    np.testing.assert_allclose(remote.statistics, local.statistics, rtol=1e-9, atol=1e-12)
    for one, two in zip(remote, local, strict=True):
        np.testing.assert_allclose(
            one.null_distribution, two.null_distribution, rtol=1e-9, atol=1e-12
        )
    client.wait_for_workers(2, timeout=60)
    assert set(client.run(os.getpid).values()) != set(workers.values())


def test_errors_on_a_cluster_lose_no_other(client, tmp_path):
    some = [*problems()[:2], (np.full((20, 3), np.nan), np.negative)]
    options = dict(client=client, rng=5, n_resamples=9, basis="identity", progress=False)
    batch = fs.gof_batch(some, on_error="return", checkpoint=tmp_path / "batch", **options)
    assert (
        list(batch.errors) == [2]
        and "NaN" in batch.errors[2]
        and not np.isnan(batch.pvalues[:2]).any()
    )
    assert len((tmp_path / "batch").read_text().splitlines()) == 3
    large = np.zeros((400_000, 4))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        failed = fs.gof_batch([(large, np.negative)], on_error="return", **options)
    # Data travels with its task on purpose.
    assert not [warning for warning in caught if "large graph" in str(warning.message)]
    assert "`x`" in failed.errors[0]


def test_bad_clients_are_explained(client):
    from distributed import Client

    with pytest.raises(TypeError, match=r"`client` must be a dask\.distributed\.Client, not str"):
        fs.gof_batch(problems(), client="127.0.0.1")
    closed = Client(client.scheduler.address, set_as_default=False)
    closed.close()
    with pytest.raises(ValueError, match="`client` is closed; make a new"):
        fs.gof_batch(problems(), client=closed)

    half = Client(client.scheduler.address, set_as_default=False)
    with pytest.raises(
        fs.BatchError, match=r"client was closed, or has lost its scheduler; 2 tests were done"
    ) as caught:
        fs.gof_batch(
            problems(),
            client=half,
            rng=0,
            basis="identity",
            progress=lambda done, total: half.close() if done == 2 else None,
        )
    assert sum(result is not None for result in caught.value.result) == 2


def test_zarr_and_hdf5_are_read_in_blocks(tmp_path, whole):
    zarr = pytest.importorskip("zarr")
    stored = zarr.open_array(
        str(tmp_path / "x.zarr"), mode="w", shape=X.shape, chunks=(400, 3), dtype="f8"
    )
    stored[:] = X
    array = zarr.open_array(str(tmp_path / "x.zarr"), mode="r")
    close_to(fs.gof_stream(array, np.negative, slices=SLICES, kernel=KERNEL), whole)
    scores = zarr.open_array(
        str(tmp_path / "s.zarr"), mode="w", shape=X.shape, chunks=(700, 3), dtype="f8"
    )
    scores[:] = -X
    close_to(fs.gof_stream(array, scores, slices=SLICES, kernel=KERNEL), whole)
    close_to(fs.gof_test(da.from_zarr(str(tmp_path / "x.zarr")), np.negative, **OPTIONS), whole)
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        data = file.create_dataset("x", data=X, chunks=(512, 3))
        close_to(fs.gof_stream(data, np.negative, slices=SLICES, kernel=KERNEL), whole)


def test_reproduce_on_a_cluster(client, tmp_path, capsys):
    """A study on the workers of a scheduler gives the rows that one process gives."""
    from fastsksd import cli
    from fastsksd.experiments import run

    address = client.scheduler.address
    assert (
        cli.main(
            [
                "reproduce",
                "power",
                "--scale",
                "smoke",
                "--dask",
                address,
                "--out",
                str(tmp_path / "there"),
            ]
        )
        == 0
    )
    there = run("power", "smoke", tmp_path / "there", resume=True)
    here = run("power", "smoke", tmp_path / "here")
    assert [row | {"seconds": 0} for row in there] == [row | {"seconds": 0} for row in here]


def test_reproduce_without_a_scheduler(tmp_path, capsys, monkeypatch):
    from fastsksd import cli
    from fastsksd.scale import cluster

    monkeypatch.setattr(cluster, "_PATIENCE", 1)
    command = [
        "reproduce",
        "power",
        "--scale",
        "smoke",
        "--out",
        str(tmp_path),
        "--dask",
        "tcp://127.0.0.1:9",
    ]
    assert (
        cli.main(command) == 2
        and "no Dask scheduler answers at 'tcp://127.0.0.1:9'" in capsys.readouterr().err
    )
    assert (
        cli.main([*command, "--jobs", "2"]) == 2
        and "--jobs and --dask both say" in capsys.readouterr().err
    )
