"""Batches of tests: the same p-values however they run, errors that lose nothing, checkpoints."""

import errno
import io
import json
import os
import pickle
import signal
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import fastsksd as fs
from fastsksd._progress import ProgressBar
from fastsksd.scale import journal, pool

X = (
    np.random.default_rng(0).standard_normal((6, 60, 2))
    * np.array([1.0, 1.2, 0.6, 1.0, 1.0, 1.5])[:, None, None]
)
OPTIONS = dict(n_resamples=49, basis="identity")
QUICK = dict(OPTIONS, progress=False)


def score(x):
    return -x


def problems():
    return [
        (X[0], score),
        (X[1], -X[1]),
        {"x": X[2], "score": lambda x: -x, "name": "narrow", "basis": None},
        {
            "x": X[3],
            "score": score,
            "null": "spectral",
            "basis": None,
            "slices": fs.Slices(np.eye(2), np.eye(2)),
        },
        [X[4], fs.models.Gaussian(np.zeros(2), np.eye(2))],
        {"x": X[5], "score": score, "n_resamples": 19},
    ]


@pytest.fixture(scope="module")
def local():
    return fs.gof_batch(problems(), rng=3, **QUICK)


def same(batch, other):
    """Equal but for the last digits: fresh code of Numba may round differently from cached code."""
    assert batch.names == other.names and batch.errors == other.errors
    for one, two in zip(batch, other, strict=True):
        assert [m.name for m in one.members] == [
            m.name for m in two.members
        ] and one.n_test == two.n_test
        if one.null != "spectral":
            assert one.pvalue == two.pvalue
        for name in ("pvalue", "statistic", "null_distribution", "slice_statistics", "bandwidths"):
            np.testing.assert_allclose(
                getattr(one, name), getattr(two, name), rtol=1e-9, atol=1e-12
            )
        np.testing.assert_allclose(one.slices.g, two.slices.g, atol=1e-9)


def test_a_batch_is_its_tests(local):
    seeds = np.random.SeedSequence(3).spawn(6)
    alone = fs.gof_test(X[1], -X[1], **OPTIONS, rng=seeds[1])
    assert local[1].pvalue == alone.pvalue and np.array_equal(
        local[1].null_distribution, alone.null_distribution
    )
    assert (
        local[5].null_distribution.size == 19
        and local["narrow"] is local[2]
        and local[3].null == "spectral"
    )
    assert (
        local[2].members and len(local) == 6 and local.names == ("0", "1", "narrow", "3", "4", "5")
    )
    assert np.array_equal(local.pvalues, [result.pvalue for result in local])
    assert len({*local.statistics}) == 6


def test_a_generator_gives_the_same(local):
    calls = []
    same(
        fs.gof_batch(iter(problems()), rng=3, **OPTIONS, progress=lambda *args: calls.append(args)),
        local,
    )
    assert calls == [(k, None) for k in range(1, 7)]


def test_generators_spawn_anew():
    rng = np.random.default_rng(3)
    once, again = (fs.gof_batch(problems()[:2], rng=rng, **QUICK) for _ in range(2))
    same(once, fs.gof_batch(problems()[:2], rng=3, **QUICK))
    assert not np.array_equal(once[0].null_distribution, again[0].null_distribution)


def test_processes_give_the_same_also_when_one_is_killed(local, monkeypatch):
    killed = []

    def kill_one(done, total):
        if done == 2:
            pid = next(iter(pools[-1]._processes))
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    pools, original = [], pool._new_pool
    monkeypatch.setattr(pool, "_new_pool", lambda jobs: pools.append(original(jobs)) or pools[-1])
    batch = fs.gof_batch(problems(), rng=3, n_jobs=2, **OPTIONS, progress=kill_one)
    assert killed and len(pools) == 2
    same(batch, local)


def test_a_failing_problem_loses_no_other(local):
    bad = problems()
    bad[1] = (np.where(X[1] > 1, np.nan, X[1]), score)
    bad[4] = {"x": X[4], "skore": score}
    with pytest.raises(
        fs.BatchError, match=r"2 of 6 tests failed \('1': \w+: `x` holds NaN.*'4': .*no 'score'"
    ) as caught:
        fs.gof_batch(bad, rng=3, **QUICK)
    batch = fs.gof_batch(bad, rng=3, on_error="return", **QUICK)
    for some in (batch, caught.value.result):
        assert set(some.errors) == {1, 4} and some[1] is None and some[4] is None
        assert np.array_equal(np.delete(some.pvalues, [1, 4]), np.delete(local.pvalues, [1, 4]))
        assert np.isnan(some.pvalues[1]) and not some.reject()[1]
    assert (
        "2 failed" in repr(batch)
        and "NaN or infinity" in repr(batch)
        and "2 failed" in batch._repr_html_()
    )


def test_functions_that_cannot_travel():
    """Values are enough for KE; an estimator that differentiates the score has a clear error.

    So has a process that can't find a class.
    """
    batch = fs.gof_batch(
        [
            {"x": X[2], "score": lambda x: -x, "estimator": "ge", "name": "closure"},
            {"x": X[2], "score": Hidden(), "estimator": "ge", "name": "hidden"},
            (X[0], lambda x: -x),
        ],
        n_jobs=2, rng=3, on_error="return", **QUICK,
    )  # fmt: skip
    assert "`score` can't be sent to another process; define it in a module" in batch.errors[0]
    assert "could not be unpacked in another process" in batch.errors[1]
    alone = fs.gof_test(X[0], -X[0], **OPTIONS, rng=np.random.SeedSequence(3).spawn(3)[2])
    np.testing.assert_allclose(
        batch[2].null_distribution, alone.null_distribution, rtol=1e-9, atol=1e-12
    )
    assert batch[2].pvalue == alone.pvalue


def test_functions_of_an_interactive_session_are_evaluated_there():
    code = """
import numpy as np, fastsksd as fs
def score(x):
    return -x
x = np.random.default_rng(0).standard_normal((40, 2))
options = dict(rng=0, basis="identity", n_resamples=9, progress=False)
print(fs.gof_batch([(x, score)], n_jobs=2, **options).errors)
"""
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "{}"


class Hidden:
    """A model that pickles here and does not unpickle elsewhere."""

    def score(self, x):
        return -x

    def __reduce__(self):
        return int, ("no number",)


@pytest.mark.parametrize("method", ["holm", "bh"])
def test_adjusted_pvalues(method):
    rng = np.random.default_rng(1)
    p = rng.uniform(size=12) ** 2
    p[3] = np.nan
    results = tuple(None if np.isnan(value) else SimpleNamespace(pvalue=value) for value in p)
    batch = fs.BatchResult(results, tuple("abcdefghijkl"), {3: "no"})
    adjusted = batch.adjusted_pvalues(method)
    known = p[~np.isnan(p)]
    for k, value in enumerate(p):
        if np.isnan(value):
            assert np.isnan(adjusted[k])
        elif method == "holm":
            # The largest of the smaller ones times how many are as large or larger.
            expected = max(np.sum(known >= q) * q for q in known if q <= value)
            assert adjusted[k] == pytest.approx(min(1.0, expected))
        else:
            expected = min(known.size / np.sum(known <= q) * q for q in known if q >= value)
            assert adjusted[k] == pytest.approx(min(1.0, expected))
    if method == "bh":
        from scipy.stats import false_discovery_control

        np.testing.assert_allclose(adjusted[~np.isnan(p)], false_discovery_control(known))


def test_an_interrupted_batch_goes_on(local, tmp_path):
    path = tmp_path / "batch.jsonl"

    def stop(done, total):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fs.gof_batch(problems(), rng=3, **OPTIONS, progress=stop, checkpoint=path)
    assert len(path.read_text().splitlines()) == 4
    with path.open("a") as file:
        file.write('{"index": 3, "dig')  # torn by a kill
    computed = []

    def counted(x):
        computed.append(x.shape[0])
        return -x

    again = problems()
    again[0] = (X[0], counted)
    same(fs.gof_batch(again, rng=3, checkpoint=path, **QUICK), local)
    assert computed == [60]  # looked at, not tested
    assert len(path.read_text().splitlines()) == 7
    # Without `rng`, the file's seeds.
    same(fs.gof_batch(problems(), n_jobs=2, checkpoint=path, **QUICK), local)


def test_two_batches_do_not_share_a_checkpoint(tmp_path):
    path = tmp_path / "batch.jsonl"
    refused = []

    def intrude(done, total):
        before = path.read_bytes()
        with pytest.raises(
            ValueError,
            match=r"`checkpoint`: another process, or another run in this one, is writing "
            r".*batch\.jsonl\. Wait",
        ):
            fs.gof_batch(problems()[:2], rng=3, checkpoint=path, **QUICK)
        refused.append(path.read_bytes() == before)

    fs.gof_batch(problems()[:2], rng=3, checkpoint=path, progress=intrude, **OPTIONS)
    assert refused == [True, True]
    with pytest.raises(ValueError, match="another `rng`"):
        fs.gof_batch(problems()[:2], rng=4, checkpoint=path, **QUICK)
    fs.gof_batch(problems()[:2], rng=3, checkpoint=path, **QUICK)  # an error lets go of the file


def test_a_killed_process_lets_go_of_its_journal(tmp_path):
    path = tmp_path / "new" / "batch.jsonl"
    code = (
        "import sys, time, pathlib; from fastsksd.scale import journal; "
        "f = journal.hold(pathlib.Path(sys.argv[1])); print('held', flush=True); time.sleep(600)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(ValueError, match="`checkpoint`: another process"):
            fs.gof_batch(problems()[:1], rng=3, checkpoint=path, **QUICK)
        assert path.read_bytes() == b""
    finally:
        process.kill()
        process.communicate()
    fs.gof_batch(problems()[:1], rng=3, checkpoint=path, **QUICK)
    assert len(path.read_text().splitlines()) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="no limits of files there")
def test_a_full_disk_loses_no_result(tmp_path):
    """What is still in the buffer fails once more when the file is closed."""
    import resource

    path = tmp_path / "batch.jsonl"
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, hard))
    try:
        with pytest.raises(fs.BatchError, match=r"could not write .* tests were done") as caught:
            fs.gof_batch(problems(), rng=3, checkpoint=path, **QUICK)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    kept = [one for one in caught.value.result if one is not None]
    assert kept
    assert len(fs.gof_batch(problems(), rng=3, checkpoint=path, **QUICK)) == 6


def test_a_file_system_without_locks_will_do(tmp_path, monkeypatch):
    def unsupported(descriptor):
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(journal, "_lock", unsupported)
    fs.gof_batch(problems()[:1], rng=3, checkpoint=tmp_path / "batch.jsonl", **QUICK)


NAN = float("nan")


@pytest.mark.parametrize(
    "change",
    [
        {"pvalue": 7},
        {"pvalue": -0.1},
        {"pvalue": True},
        {"pvalue": "0.5"},
        {"pvalue": NAN},  # and draws enough
        {"statistic": float("inf")},
        {"n_test": -4},
        {"null": "foo"},
        {"null": ["wild"]},
        {"null_distribution": "abc"},
        {"null_distribution": [0.1, 0.2]},
        {"bandwidths": None},
        {"bandwidths": {"array": "", "shape": [0]}},
        {"lag": NAN},
        {"names": 3},
        {"names": [1, 2]},
        {"weighted": 1},
        {"timings": {"total": "1"}},
        {"foo": 1},
    ],
)
def test_an_edited_checkpoint_is_refused(tmp_path, change):
    path = tmp_path / "batch.jsonl"
    fs.gof_batch(problems()[:1], rng=3, checkpoint=path, **QUICK)
    header, line = path.read_text().splitlines()
    record = json.loads(line)
    record["result"] |= change
    path.write_text(f"{header}\n{json.dumps(record)}\n")
    with pytest.raises(ValueError, match=r"`checkpoint`: line 2 .* is not a result of a run"):
        fs.gof_batch(problems()[:1], rng=3, checkpoint=path, **QUICK)


@pytest.mark.parametrize(
    "change",
    [{"pvalue": 7}, {"pvalue": "x"}, {"adjusted_pvalue": NAN}, {"statistic": None}, {"name": 1}],
)
def test_a_checkpoint_with_an_edited_member_is_refused(tmp_path, change):
    path = tmp_path / "batch.jsonl"
    options = dict(rng=3, progress=False, n_resamples=19, checkpoint=path)
    fs.gof_batch([(X[0], -X[0])], **options)
    header, line = path.read_text().splitlines()
    record = json.loads(line)
    record["result"]["members"][1] |= change
    path.write_text(f"{header}\n{json.dumps(record)}\n")
    with pytest.raises(ValueError, match=r"`checkpoint`: line 2 .* is not a result of a run"):
        fs.gof_batch([(X[0], -X[0])], **options)


@pytest.mark.parametrize(
    "options",
    [
        *({"method": method} for method in fs.baselines.METHODS),
        {"null": "spectral"},
        {"null": "bootstrap", "n_slices": 1},
        {"method": "rfsd", "null": "spectral"},
        {"chains": True},
        {"chains": np.repeat([0, 1], 40)},
        {"tolerance": {"shift": 0.2}},
        {"weights": np.linspace(1.0, 2.0, 80)},
        {"method": "ksd", "kernel": fs.IMQ(2.0)},
    ],
)
def test_every_sort_of_result_is_read_again(tmp_path, options):
    x = np.random.default_rng(2).standard_normal((80, 2))
    model = fs.models.Gaussian(np.zeros(2), np.eye(2))
    options = options if options.get("null") == "spectral" else options | {"n_resamples": 19}
    if options.get("method") == "ksdagg":
        options.pop("n_resamples")
    options |= dict(rng=0, progress=False, checkpoint=tmp_path / "c")
    first = fs.gof_batch([(x, model)], **options)
    again = fs.gof_batch([(x, model)], **options)
    assert repr(again[0]) == repr(first[0])


@pytest.mark.parametrize("change", [{"index": "0"}, {"index": [0]}, {"index": -1}, {"digest": 0}])
def test_a_checkpoint_with_an_edited_number_is_refused(tmp_path, change):
    path = tmp_path / "batch.jsonl"
    fs.gof_batch(problems()[:1], rng=3, checkpoint=path, **QUICK)
    header, line = path.read_text().splitlines()
    path.write_text(f"{header}\n{json.dumps(json.loads(line) | change)}\n")
    with pytest.raises(ValueError, match=r"`checkpoint`: line 2 .* is not a result of a run"):
        fs.gof_batch(problems()[:1], rng=3, checkpoint=path, **QUICK)


SEEDS = {"entropy": 3, "spawn_key": [], "pool_size": 4, "n_children_spawned": 0}


@pytest.mark.parametrize(
    "seeds", [None, [1], {}, {"entropy": -1}, {"seed": 3}, SEEDS | {"pool_size": 0}]
)
@pytest.mark.parametrize("rng", [None, 3])
def test_a_checkpoint_without_seeds_is_refused(tmp_path, seeds, rng):
    path = tmp_path / "batch.jsonl"
    header = {"gof_batch": 1} if seeds is None else {"gof_batch": 1, "seeds": seeds}
    path.write_text(json.dumps(header) + "\n")
    with pytest.raises(ValueError, match=r"`checkpoint`: .* is not a file of gof_batch"):
        fs.gof_batch(problems()[:1], rng=rng, checkpoint=path, **QUICK)
    assert json.loads(path.read_text()) == header


def test_a_checkpoint_without_end_of_brackets_is_refused(tmp_path):
    path = tmp_path / "batch.jsonl"
    path.write_text("[" * 200_000 + "\n")
    with pytest.raises(ValueError, match=r"`checkpoint`: line 1 .* is not a result of a run"):
        fs.gof_batch(problems()[:1], rng=3, checkpoint=path, **QUICK)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_is_no_checkpoint(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match=r"`checkpoint`: .* is not a file of results"):
        fs.gof_batch(problems()[:1], rng=3, checkpoint=tmp_path / "pipe", **QUICK)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="needs a device without an end")
def test_a_checkpoint_without_an_end_is_refused():
    with pytest.raises(ValueError, match="`checkpoint`: /dev/zero is not a file of results"):
        fs.gof_batch(problems()[:1], rng=3, checkpoint="/dev/zero", **QUICK)


def test_checkpoints_of_other_batches_are_refused(tmp_path):
    path = tmp_path / "batch.jsonl"
    fs.gof_batch(problems()[:2], rng=3, checkpoint=path, **QUICK)
    content = path.read_bytes()
    cases = {
        "another `rng`": dict(problems=problems()[:2], rng=4),
        "more than 1 problems": dict(problems=problems()[:1], rng=3),
        "other samples, scores or options": dict(
            problems=[(X[0] + 1e-9, score), problems()[1]], rng=3
        ),
        r"options \(problem '0'\)": dict(problems=problems()[:2], rng=3, train=0.5),
        r"options \(problem '1'\)": dict(problems=[problems()[0], (X[1], -2 * X[1])], rng=3),
    }
    for message, arguments in cases.items():
        with pytest.raises(ValueError, match=f"`checkpoint`: .*{message}"):
            fs.gof_batch(**arguments, checkpoint=path, **QUICK)
    for text, message in (("notes\n", "line 1"), ("{}\n", "not a file of gof_batch")):
        (tmp_path / "other").write_text(text)
        with pytest.raises(ValueError, match=message):
            fs.gof_batch(problems()[:2], checkpoint=tmp_path / "other", **QUICK)
        assert (tmp_path / "other").read_text() == text
    lines = content.splitlines(keepends=True)
    record = json.loads(lines[1])
    record["result"].pop("members")
    path.write_bytes(lines[0] + json.dumps(record).encode() + b"\n")
    with pytest.raises(ValueError, match="line 2"):
        fs.gof_batch(problems()[:2], rng=3, checkpoint=path, **QUICK)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(slises=3), TypeError, "`slises` is not an option of gof_test"),
        (dict(n_jobs=0), ValueError, "`n_jobs` must be at least 1"),
        (dict(n_jobs=2, client=object()), ValueError, "`n_jobs` and `client`"),
        (dict(on_error="ignore"), ValueError, "`on_error` must be one of"),
        (dict(problems=3), TypeError, "`problems` must be an iterable"),
        (
            dict(problems={"a": (X[0], score)}),
            TypeError,
            "`problems` must be an iterable .* not dict",
        ),
        (dict(rng="seed"), TypeError, "`rng`"),
    ],
)
def test_bad_input_is_explained(arguments, error, message):
    with pytest.raises(error, match=message):
        fs.gof_batch(**{"problems": problems(), "progress": False, **arguments})


def test_bad_problems_are_explained():
    batch = fs.gof_batch(
        [(X[0],), 3, {"x": X[0], "score": score, "rng": 1}], on_error="return", **QUICK
    )
    assert (
        "pair (x, score) or a mapping, not tuple" in batch.errors[0]
        and "not int" in batch.errors[1]
    )
    assert "`rng` is not an option" in batch.errors[2] and "3 failed" in repr(batch)
    assert len(fs.gof_batch([], progress=False)) == 0


def test_long_batches_print_short(local):
    many = fs.BatchResult(local.results * 5, local.names * 5, {})
    assert "... and 10 more" in repr(many) and "... and 10 more" in many._repr_html_()
    assert len(repr(many).splitlines()) == 23
    assert pickle.loads(pickle.dumps(local)).pvalues.tolist() == local.pvalues.tolist()


def test_progress_counts_without_a_total():
    stream = io.StringIO()
    bar = ProgressBar("batch", stream)
    for done in range(1, 31):
        bar(done, None)
    assert stream.getvalue().split() == [
        "batch",
        "1",
        "batch",
        "2",
        "batch",
        "5",
        "batch",
        "10",
        "batch",
        "20",
    ]


def test_processes_that_keep_dying_are_reported():
    with pytest.raises(pool.ProcessesDied, match="died repeatedly"):
        list(pool.finished(os._exit, [1], 2))


def test_a_task_that_kills_its_process_is_found(monkeypatch):
    outcomes = dict(pool.finished(_fatal, list(range(7)), 2, died=lambda: "died"))
    assert outcomes == {task: "died" if task == 2 else -task for task in range(7)}
    with pytest.raises(pool.ProcessesDied):
        list(pool.finished(os._exit, [1, 2, 3, 4], 2, died=lambda: "died"))


def _fatal(task):
    return os.kill(os.getpid(), signal.SIGKILL) if task == 2 else -task


def test_processes_leave_blas_one_thread(monkeypatch):
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    assert list(pool.finished(os.getenv, ["OPENBLAS_NUM_THREADS"], 2)) == [
        ("OPENBLAS_NUM_THREADS", "1")
    ]
    assert "OPENBLAS_NUM_THREADS" not in os.environ


def test_values_are_those_of_float64_wherever_they_are_computed():
    x = np.clip(
        np.round(20 * np.random.default_rng(0).standard_normal((80, 2)) + 100), 0, 255
    ).astype(np.uint8)
    here, there = (
        fs.gof_batch([(x, lambda x: -(x - 100) / 400)], rng=0, n_jobs=jobs, **QUICK).statistics
        for jobs in (None, 2)
    )
    np.testing.assert_allclose(there, here, rtol=1e-9)


def test_checkpoint_knows_scores_by_all_their_values(tmp_path):
    x = np.random.default_rng(0).standard_normal((60, 2))
    options = dict(QUICK, rng=0, checkpoint=tmp_path / "c")
    fs.gof_batch([(x, lambda x: -x)], **options)
    fs.gof_batch([(x, lambda _: -x)], **options)  # the same values
    with pytest.raises(ValueError, match="other samples, scores or options"):
        fs.gof_batch([(x, lambda x: np.where(np.abs(x) < 1.5, -x, -5 * x))], **options)
    exact = dict(
        n_slices=1,
        estimator="exact",
        rng=0,
        progress=False,
        n_resamples=49,
        checkpoint=tmp_path / "d",
    )
    fs.gof_batch([(x, np.negative)], score_q=np.negative, **exact)
    with pytest.raises(ValueError, match="other samples, scores or options"):
        fs.gof_batch(
            [(x, np.negative)], score_q=lambda x: -x @ np.array([[2.0, 1.0], [1.0, 1.0]]), **exact
        )


@pytest.mark.parametrize("where", ["here", "processes", "checkpoint"])
@pytest.mark.parametrize("name", ["method", "estimator"])
def test_misspelt_names_are_explained(name, where, tmp_path):
    """Also where a batch itself asks what the test needs of the model."""
    options = {"processes": dict(n_jobs=2), "checkpoint": dict(checkpoint=tmp_path / "c")}
    batch = fs.gof_batch(
        [(X[0], lambda x: -x), {"x": X[1], "score": lambda x: -x, name: "kee"}],
        rng=3, on_error="return", **options.get(where, {}), **QUICK,
    )  # fmt: skip
    assert list(batch.errors) == [1]
    assert f"Error: `{name}` must be one of" in batch.errors[1]
    assert batch.errors[1].endswith("got 'kee'.")


class Sampler:
    """A model that is known by its samples only."""

    def __init__(self, sd=1.0):
        self.sd = sd

    def sample(self, n, *, rng=None):
        return self.sd * np.random.default_rng(rng).standard_normal((n, 2))


def test_a_model_without_score_has_a_checkpoint(tmp_path):
    options = dict(method="mmd", n_resamples=19, rng=3, progress=False)
    alone = fs.gof_batch([(X[0], Sampler())], **options).pvalues
    kept = dict(options, checkpoint=tmp_path / "c")
    assert np.array_equal(fs.gof_batch([(X[0], Sampler())], **kept).pvalues, alone)
    lines = (tmp_path / "c").read_text().splitlines()
    assert np.array_equal(fs.gof_batch([(X[0], Sampler())], **kept).pvalues, alone)
    assert (tmp_path / "c").read_text().splitlines() == lines
    with pytest.raises(ValueError, match="other samples, scores or options"):
        fs.gof_batch([(X[0], Sampler(2.0))], **kept)
    batch = fs.gof_batch([(X[0], np.negative)], on_error="return", **{**kept, "rng": None})
    assert "`score` must be a model with a .sample method" in batch.errors[0]


def test_samples_of_the_model_take_its_place():
    """With `y` given, neither a score nor a model is needed, and none is sent to a process."""
    method = fs.baselines.MMD(y=X[3])
    options = dict(method=method, n_resamples=19, rng=3, progress=False)
    here = fs.gof_batch([(X[0], lambda x: 1 / 0), (X[1], None)], **options)
    there = fs.gof_batch([(X[0], lambda x: 1 / 0), (X[1], None)], n_jobs=2, **options)
    np.testing.assert_allclose(there.pvalues, here.pvalues, rtol=1e-12)


class Frame:
    """An array with names of its columns, as a data frame has."""

    def __init__(self, values, columns):
        self.values, self.columns = values, columns

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype)


def test_scores_with_columns_in_another_order_are_refused_also_with_a_checkpoint(tmp_path):
    problem = Frame(X[0], ["a", "b"]), Frame(-X[0][:, ::-1], ["b", "a"])
    for options in ({}, dict(checkpoint=tmp_path / "c")):
        batch = fs.gof_batch([problem], on_error="return", **options, **QUICK)
        assert "`score` has the columns of `x` in another order" in batch.errors[0]


@pytest.mark.parametrize("torn", ["", '{"gof'])
def test_a_checkpoint_that_hardly_began_begins_anew(tmp_path, torn):
    (tmp_path / "c").write_text(torn)
    fs.gof_batch([(X[0], -X[0])], rng=0, checkpoint=tmp_path / "c", **QUICK)
    assert len((tmp_path / "c").read_text().splitlines()) == 2


def test_errors_of_the_users_source_stay_what_they_are(tmp_path):
    def source():
        yield X[0], -X[0]
        raise OSError("no such tape")

    with pytest.raises(OSError, match="no such tape"):
        fs.gof_batch(source(), rng=0, checkpoint=tmp_path / "c", **QUICK)


def test_names_pick_one_result(local):
    batch = fs.BatchResult((local[0], local[1]), ("a", "a"), {})
    for name, message in (("a", "2 problems are named 'a'"), ("b", "no problems are named 'b'")):
        with pytest.raises(KeyError, match=message):
            batch[name]
