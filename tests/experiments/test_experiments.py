"""Experiments: problems, trials on disk that survive a kill, reports and the command."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest

import fastsksd as fs
from fastsksd import cli, learning, models
from fastsksd.experiments import (
    benchmark_gof,
    benchmark_report,
    groups,
    ica,
    ica_report,
    level,
    peer_problems,
    peers,
    power,
    problems,
    published,
    rbm,
    rbm_report,
    report,
    reproduce,
    run,
    runner,
    searches,
)
from fastsksd.learning import training
from fastsksd.procedure.plan import Options, most_searched


def results(rows):
    """Rows without the seconds, which differ from run to run."""
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


@pytest.mark.parametrize("name", problems.PROBLEMS)
def test_problems_have_the_scores_they_say(name):
    """A score has mean zero under its own distribution (Stein's identity of a constant function).

    The model's score has another mean under q, or another slope.
    """
    problem = problems.make_problem(name, 4, np.random.default_rng(0))
    options = {"burn_in": 300} if name == "RBM" else {}
    x = problem.q.sample(4000, rng=1, **options)
    scores = problem.q.score(x)
    assert np.all(np.abs(scores.mean(axis=0)) < 5 * scores.std(axis=0) / np.sqrt(4000))
    # E s x^T = -I, again under its own law.
    products = scores[:, :, None] * x[:, None, :] + np.eye(4)
    assert np.all(np.abs(products.mean(axis=0)) < 5 * products.std(axis=0) / np.sqrt(4000))
    r = np.array([0.5, -0.5, 0.5, 0.5])
    step = (problem.q.score(x[:5] + 1e-5 * r) - problem.q.score(x[:5] - 1e-5 * r)) / 2e-5
    np.testing.assert_allclose(problem.q.score_along(x[:5], r), step, atol=1e-6)
    assert problem.level in problems.NULL_MODELS


def test_rotation_of_a_gaussian_is_a_gaussian():
    rotation = problems.random_rotation(3, np.random.default_rng(0))
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-14)
    variances = np.array([0.3, 1.0, 2.0])
    rotated = problems.Rotated(models.Gaussian(np.zeros(3), variances), rotation)
    direct = models.Gaussian(np.zeros(3), (rotation * variances) @ rotation.T)
    x = np.random.default_rng(1).standard_normal((5, 3))
    np.testing.assert_allclose(rotated.score(x), direct.score(x), rtol=1e-10)
    np.testing.assert_allclose(np.cov(rotated.sample(20000, rng=0).T), direct.cov, atol=0.05)


@pytest.fixture
def tiny(monkeypatch):
    """A level study of a few seconds."""
    settings = dict(models=["normal"], d=[2], n=[20], tests=12, block=1, n_resamples=19, burn_in=10)
    monkeypatch.setitem(level.SCALES, "tiny", settings)
    return settings


def test_resumed_run_equals_an_undisturbed_one(tiny, tmp_path):
    whole = run("level", "tiny", tmp_path / "whole")
    seen = []

    def stop_half_way(done, total):
        seen.append(done)
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("level", "tiny", tmp_path / "part", progress=stop_half_way)
    with open(tmp_path / "part" / "level.jsonl", "a") as file:
        file.write('{"task": {"model": "nor')  # a line torn by a kill
    with pytest.raises(runner.RunError, match=r"holds 5 finished trials; continue with --resume"):
        run("level", "tiny", tmp_path / "part")
    resumed = run(
        "level",
        "tiny",
        tmp_path / "part",
        resume=True,
        progress=lambda done, total: seen.append(done),
    )
    assert seen == list(range(1, 13))
    assert results(resumed) == results(whole)
    # The header, the trials, and a line for each run that made some.
    assert len((tmp_path / "part" / "level.jsonl").read_text().splitlines()) == 1 + 12 + 2
    assert results(run("level", "tiny", tmp_path / "part", resume=True)) == results(whole)


def test_a_run_ends_in_time_and_goes_on(tiny, tmp_path, monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(runner, "monotonic", lambda: 60.0 * next(clock))
    part = run("level", "tiny", tmp_path, minutes=4)
    monkeypatch.undo()
    monkeypatch.setitem(level.SCALES, "tiny", tiny)
    assert len(part) == 3
    whole = run("level", "tiny", tmp_path, resume=True, minutes=60)
    assert len(whole) == 12 and whole[:3] == part
    study = runner.kept(tmp_path / "level.jsonl")
    assert (study.done, study.planned, study.rows) == (12, 12, whole)
    assert len(study.runs) == 2 and study.runs[0] == runner.this_machine()


def test_numbers_on_disk_are_rounded():
    rows = [dict(p=0.123456789, name="a", step=[3, 2 / 3], none=None, flag=True)]
    assert runner._rounded(rows) == [
        dict(p=0.123457, name="a", step=[3, 0.666667], none=None, flag=True)
    ]


def test_two_runs_do_not_share_a_folder(tiny, tmp_path):
    def intrude(done, total):
        if done < 3:
            with pytest.raises(
                runner.RunError,
                match=r"is writing .*level\.jsonl\. Wait for it or choose another folder",
            ):
                run("level", "tiny", tmp_path, resume=True)

    run("level", "tiny", tmp_path, progress=intrude)
    lines = (tmp_path / "level.jsonl").read_text().splitlines()
    assert len(lines) == len(set(lines)) == 14


def _command(scale, out):
    options = ["--scale", scale, "--jobs", "2", "--out", str(out)]
    return [sys.executable, "-m", "fastsksd", "reproduce", "level", *options]


def _started(scale, out):
    return subprocess.Popen(_command(scale, out), stderr=subprocess.DEVNULL)


@pytest.mark.slow
def test_killed_run_loses_nothing(tmp_path):
    process = _started("smoke", tmp_path / "killed")
    path = tmp_path / "killed" / "level.jsonl"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (
        path.exists() and len(path.read_text().splitlines()) >= 3
    ):
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = path.read_text().count('{"task"')
    assert kept >= 1
    command = [*_command("smoke", tmp_path / "killed"), "--resume"]
    subprocess.run(command, check=True, capture_output=True)
    whole = run("level", "smoke", tmp_path / "whole")
    again = [json.loads(line) for line in path.read_text().splitlines() if "task" in line]
    found = {runner.task_key(line["task"]): results(line["rows"]) for line in again}
    assert len(found) == len(again) == len(level.tasks(level.SCALES["smoke"]))
    assert [
        row for task in level.tasks(level.SCALES["smoke"]) for row in found[runner.task_key(task)]
    ] == results(whole)
    assert (tmp_path / "killed" / "level.html").exists()


def test_full_disk_keeps_what_was_saved(tiny, tmp_path, monkeypatch):
    calls = []

    def fsync(descriptor):
        calls.append(descriptor)
        if len(calls) == 6:  # the header, the line of the run, and three trials before
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(runner.RunError, match=r"No space left.*The 3 trials before are kept"):
        run("level", "tiny", tmp_path)
    monkeypatch.undo()


def test_files_that_are_no_results_are_left_alone(tiny, tmp_path):
    run("level", "tiny", tmp_path / "good")
    good = (tmp_path / "good" / "level.jsonl").read_text()
    lines = good.splitlines(keepends=True)
    cases = {
        "notes": "my notes\n",
        "header": "x" + good,
        "inner line": "".join([*lines[:3], "x" + lines[3], *lines[4:]]),
        "other line": "".join([*lines[:3], '{"foo": 1}\n', *lines[4:]]),
        "number": "".join([*lines[:3], "17\n", *lines[4:]]),
        "settings": '{"settings": 3}\n',
    }
    for name, content in cases.items():
        folder = tmp_path / name.replace(" ", "_")
        folder.mkdir()
        (folder / "level.jsonl").write_text(content)
        with pytest.raises(runner.RunError):
            run("level", "tiny", folder, resume=True)
        assert (folder / "level.jsonl").read_text() == content


def test_folders_that_are_files_are_explained(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for out in ("file", "file/sub"):
        assert (
            cli.main(["reproduce", "level", "--scale", "smoke", "--out", str(tmp_path / out)]) == 2
        )
        assert "could not open" in capsys.readouterr().err


def test_workers_end_with_their_parent(tmp_path):
    process = _started("quick", tmp_path)
    children = f"/proc/{process.pid}/task/{process.pid}/children"
    if not os.path.exists(children):
        process.kill()
        process.wait()
        return  # only Linux lists them there
    path = tmp_path / "level.jsonl"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (
        path.exists() and len(path.read_text().splitlines()) >= 2
    ):
        time.sleep(0.05)
    with open(children) as file:
        workers = [int(pid) for pid in file.read().split()]
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert workers
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and any(os.path.exists(f"/proc/{pid}") for pid in workers):
        time.sleep(0.1)
    assert not any(os.path.exists(f"/proc/{pid}") for pid in workers)


def test_results_of_other_settings_are_refused(tiny, tmp_path, monkeypatch):
    run("level", "tiny", tmp_path)
    monkeypatch.setitem(level.SCALES, "tiny", dict(tiny, n=[30]))
    with pytest.raises(runner.RunError, match=r"other settings \(n: \[20\] there, \[30\] here\)"):
        run("level", "tiny", tmp_path, resume=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "unknown experiment 'nothing'; there are benchmark_gof, "),
        (["all", "--scale", "huge"], "unknown scale 'huge'"),
        (["level", "--scale", "huge"], "unknown scale 'huge'"),
    ],
)
def test_command_explains_bad_names(arguments, message, tmp_path, capsys):
    assert cli.main(["reproduce", *arguments, "--out", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err


def test_minutes_must_be_positive(capsys):
    for text in ("0", "-1", "nan", "inf", "soon"):
        with pytest.raises(SystemExit):
            cli.main(["reproduce", "level", f"--minutes={text}"])
        assert "--minutes" in capsys.readouterr().err


def test_power_study_from_the_command_line(tmp_path, capsys, monkeypatch):
    settings = dict(
        power.SCALES["smoke"], problems=["Laplace", "diffusion, rotated", "RBM"], nulls=["normal"]
    )
    monkeypatch.setitem(power.SCALES, "smoke", settings)
    assert cli.main(["reproduce", "power", "--scale", "smoke", "--out", str(tmp_path)]) == 0
    output = capsys.readouterr()
    assert "power.md" in output.out and "left" in output.err
    text, page = (tmp_path / "power.md").read_text(), (tmp_path / "power.html").read_text()
    for method in power.METHODS:
        assert f"| {method} |" in text and method in page
    assert "data:image/png;base64," in page and (tmp_path / "power_1.png").stat().st_size > 10_000
    assert "Against the best single member" in text


def test_members_alone_are_the_members_of_the_result():
    x = models.Laplace(4).sample(120, rng=0)
    result = fs.gof_test(x, np.negative, n_resamples=49, rng=0)
    alone = power.members_alone(result.members)
    assert set(alone) == {power._member_name(member) for member in result.members}
    assert len(alone) == len({(m.name, m.multiple) for m in result.members})
    coordinates = next(m for m in result.members if m.name == "coordinates" and m.multiple == 1.0)
    assert alone["coordinates, x 1"] == coordinates.pvalue
    halves = [m.pvalue for m in result.members if m.name == "top 1 active r"]
    assert len(halves) == 2 and alone["top 1 active r, x 1"] == min(1.0, 2 * min(halves))
    assert "location, full" in alone


def test_level_report_flags_a_broken_level():
    settings = level.SCALES["smoke"]
    rows = [
        dict(model="normal", d=2, n=30, block=0, p=p, seconds=0.1)
        for p in np.linspace(0.01, 1, 100)
    ]
    assert "| yes |" in _text(level.report(rows, settings))
    assert "| NO |" in _text(level.report([dict(row, p=row["p"] / 10) for row in rows], settings))


def _text(blocks):
    return "\n".join(
        report._row(row)
        for block in blocks
        if isinstance(block, report.Table)
        for row in block.rows
    )


def test_interval_covers_the_rate():
    low, high = report.interval(8, 20)
    assert 0.2 < low < 0.4 < high < 0.65
    assert report.interval(0, 20)[0] == 0.0 and report.interval(20, 20)[1] == 1.0
    # Coverage of the 95% interval, over all outcomes of 30 trials with rate 0.3.
    from scipy import stats

    covered = sum(
        stats.binom.pmf(k, 30, 0.3)
        for k in range(31)
        if report.interval(k, 30)[0] <= 0.3 <= report.interval(k, 30)[1]
    )
    assert 0.92 < covered < 0.98


def test_missing_matplotlib_is_named_before_the_run(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'fastsksd\[plot\]'"):
        reproduce("power", "smoke", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_all_runs_every_study_in_turn(tiny, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(runner, "EXPERIMENTS", ("level", "power"))
    monkeypatch.setitem(
        power.SCALES,
        "tiny",
        dict(power.SCALES["smoke"], problems=["diffusion"], nulls=["normal"], trials=[[40, 1]]),
    )
    assert cli.main(["reproduce", "all", "--scale", "tiny", "--out", str(tmp_path)]) == 0
    written = [line.rsplit("/", 1)[-1] for line in capsys.readouterr().out.splitlines()]
    assert written == ["level.md", "level.html", "power.md", "power.html"]
    # What is finished is not begun again.
    assert cli.main(["reproduce", "all", "--scale", "tiny", "--out", str(tmp_path)]) == 2
    assert "holds 12 finished trials" in capsys.readouterr().err


def test_benchmark_study(tmp_path, monkeypatch):
    settings = dict(
        benchmark_gof.SCALES["smoke"], problems=["diffusion", benchmark_gof.NULL], d=[2, 4], n=120
    )
    monkeypatch.setitem(benchmark_gof.SCALES, "tiny", settings)
    text = reproduce("benchmark_gof", "tiny", tmp_path)[0].read_text()
    for method in benchmark_report.methods_of(settings):
        # In the tables of the rates, of all dimensions, and of the level.
        assert f"| {method} | 2 |" in text and text.count(f"| {method} |") >= 3
    assert "| SKSD-g+KE+GO | 0 |" in text and "not shown beside this scale" in text
    assert (tmp_path / "benchmark_gof_1.png").stat().st_size > 10_000


def test_benchmark_runs_in_rounds():
    settings = benchmark_gof.SCALES["paper"]
    every = benchmark_gof.tasks(settings)
    tasks = [task for task in every if "tests" not in task]
    assert len(tasks) == 100 * 15 * len(settings["problems"]) == len(set(map(str, tasks)))
    # The default follows at once, on the same samples.
    assert every[1::2] == [dict(task, tests=published.DEFAULT) for task in every[::2]]
    assert tasks == every[::2]
    main = [task for task in tasks if task["problem"] in benchmark_gof.IN_PAPER]
    others = [task for task in tasks if task["problem"] not in benchmark_gof.IN_PAPER]
    for some, before in ((main, 4), (others, 2)):
        # A few trials in the last dimension, and then the first in each of the others.
        problems = {task["problem"] for task in some}
        assert all(task["d"] == 100 for task in some[: before * len(problems)])
        first = [task for task in some if task["d"] < 100][: 14 * len(problems)]
        assert {(task["problem"], task["d"]) for task in first} == {
            (problem, d) for problem in problems for d in settings["d"][:-1]
        }
    # When the other dimensions have 30 trials of the paper's problems, the last has most of its
    # 100, and ours have a third.
    done = next(k for k, task in enumerate(tasks) if task["d"] == 2 and task["trial"] == 30)
    count = Counter((task["problem"], task["d"]) for task in tasks[:done])
    assert all(count[problem, 100] >= 90 for problem in benchmark_gof.IN_PAPER)
    assert all(count[task["problem"], 50] in (10, 11) for task in others)


def _benchmark_rows(settings, trials, rejected):
    methods = benchmark_report.methods_of(settings)
    return [
        dict(problem=problem, d=100, trial=trial,
             sweep=[[name, 50, 0.5, 0.1] for name in methods if "GO" in name],
             tests={name: [0.01 if rejected(problem, trial) else 0.5, 0.25] for name in methods})
        for problem in settings["problems"]
        for trial in range(trials)
    ]  # fmt: skip


def test_benchmark_report_compares_with_the_paper():
    settings = dict(
        benchmark_gof.SCALES["quick"], problems=["Laplace", benchmark_gof.NULL], d=[100], trials=20
    )
    rows = _benchmark_rows(settings, 20, lambda problem, _: problem == "Laplace")
    blocks = benchmark_report.report(rows, settings)
    text = _text(blocks)
    ours = "20 | 1.00 (0.84 to 1.00)"
    equal, more = "+0.00 (-0.16 to +0.04) | agrees", "+0.42 (+0.23 to +0.52) | better"
    assert f"| SKSD-g+Ex | {ours} | 1.00 (0.96 to 1.00) | {equal} | 0.25 | 27 | 0.38 |" in text
    assert f"| SKSD-g+GO | {ours} | 0.58 (0.48 to 0.67) | {more} | 0.25 | 138 | 39.39 |" in text
    assert f"| RFSD (L1-IMQ) | {ours} | curve: high |  | agrees | 0.25 |  |  |" in text
    assert f"| KSD | {ours} | curve: low |  | better | 0.25 |  |  |" in text
    assert "| KSD | 20 | 0.00 (0.00 to 0.16) |" in text
    (reasons,) = (block.texts for block in blocks if isinstance(block, report.Items))
    assert any(text.startswith("Laplace, SKSD-g+GO, better: it ascends") for text in reasons)
    assert not any("SKSD-g+Ex" in text for text in reasons)


def test_few_trials_leave_the_verdict_open():
    settings = dict(benchmark_gof.SCALES["paper"], problems=["Laplace"])
    text = _text(benchmark_report.report(_benchmark_rows(settings, 1, lambda *_: True), settings))
    paper = "0.58 (0.48 to 0.67) | +0.42 (-0.38 to +0.52)"
    assert f"| SKSD-g+GO | 1 | 1.00 (0.21 to 1.00) | {paper} | open |" in text
    assert "| KSD loses its power from 2 to 100 dimensions |  | 1.00, 1 test |  | open |" in text


def test_both_readings_of_the_student_problem():
    """As stated, p and q have the same variance; as the published script ran it, they do not."""
    rng = np.random.default_rng(0)
    stated, run_as = (
        benchmark_gof._problem(name, 3, rng) for name in ("Student t", published.STUDENT_AS_RUN)
    )
    x = np.ones((1, 3))
    np.testing.assert_allclose(stated.p.score(x), -0.6 * x)
    np.testing.assert_allclose(run_as.p.score(x), -x)
    np.testing.assert_allclose(stated.q.score(x), run_as.q.score(x))


def test_rbm_study(tmp_path, monkeypatch):
    settings = dict(rbm.SCALES["smoke"], perturbations=[0.0, 1.0], at=1.0, n=150, train=150)
    monkeypatch.setitem(rbm.SCALES, "tiny", settings)
    text = reproduce("rbm", "tiny", tmp_path)[0].read_text()
    every = run("rbm", "tiny", tmp_path, resume=True)
    rows = [row for row in every if published.DEFAULT not in row["p"]]
    assert len(rows) == len(every) - len(rows)
    assert [row["p"][published.RBM_EXACT] <= 0.05 for row in rows] == [False, True, False, True]
    # Pruning and epochs are varied only where the study asks for it. All slices and no epoch are
    # the tests that exist already.
    assert [bool(row["pruning"] and row["epochs"]) for row in rows] == [False, True, False, True]
    for row in rows[1::2]:
        assert {m for _, m, _ in row["pruning"]} == set(settings["pruning"]) and {
            count for _, count, _ in row["epochs"]
        } == {0, 2, 5}
    for method in rbm_report.METHODS:
        assert text.count(f"| {method} |") >= 2
    assert (
        "not shown beside this scale" in text and (tmp_path / "rbm_1.png").stat().st_size > 10_000
    )


def test_rbm_report_compares_with_the_paper_and_shows_the_spread():
    settings = dict(rbm.SCALES["quick"], perturbations=[0.0, 0.01])
    rows = [
        dict(perturbation=value, model=model, trial=0,
             p=dict.fromkeys(rbm_report.METHODS, 0.01 if model < 6 and value else 0.5),
             seconds={published.RBM_KE: 0.3}, pruning=[[published.RBM_KE, 3, 0.5]],
             epochs=[[published.RBM_GO, 3, 0.5]])
        for value in (0.0, 0.01)
        for model in range(10)
    ]  # fmt: skip
    blocks = rbm.report(rows, settings)
    text = _text(blocks)
    ours = "10 | 0.60 (0.31 to 0.83)"
    assert (
        f"| SKSD-rg+KE | {ours} | 0.67 (0.57 to 0.75) | -0.07 (-0.37 to +0.18) | agrees "
        "| 0.00 to 1.00 | 0.30 | 0.19 | 0.63 |" in text
    )
    assert (
        f"| SKSD-rg+Ex | {ours} | 0.95 (0.89 to 0.98) | -0.35 (-0.64 to -0.11) | worse "
        "| 0.00 to 1.00 |  |  |  |" in text
    )
    (reasons,) = (block.texts for block in blocks if isinstance(block, report.Items))
    assert [text.split(":")[0] for text in reasons] == ["SKSD-rg+Ex, worse"]
    # With several trials a model, the spread between models enters.
    rows = [dict(row, trial=trial) for row in rows for trial in range(10)]
    ours = "100 | 0.60 (0.50 to 0.69)"
    text = _text(rbm.report(rows, settings))
    paper = "0.95 (0.89 to 0.98) | -0.35 (-1.00 to +0.88)"
    assert f"| SKSD-rg+Ex | {ours} | {paper} | agrees |" in text


def test_ica_study(tmp_path, monkeypatch):
    settings = dict(
        ica.SCALES["smoke"],
        methods=["sksd-scoring", "sksd-g+ke+go", "ksd"],
        d=[4],
        n_train=1000,
        n_test=2000,
        curve=dict(ica.SCALES["smoke"]["curve"], d=4, methods=["sksd-g+ke+go"]),
    )
    monkeypatch.setitem(ica.SCALES, "tiny", settings)
    text = reproduce("ica", "tiny", tmp_path)[0].read_text()
    rows = run("ica", "tiny", tmp_path, resume=True)
    (curve,) = [row for row in rows if "curve" in row]
    assert curve["step"] == [12, 14, 16, 18, 20] and np.all(np.array(curve["value"]) > 0)
    rows.remove(curve)
    # Methods of a run share problem and beginning, but for what "sksd-scoring" does before its
    # first step.
    for k in range(0, 6, 3):
        assert (
            rows[k]["truth"] == rows[k + 1]["truth"]
            and rows[k + 1]["trace"]["nll"][0] == rows[k + 2]["trace"]["nll"][0]
        )
        assert (
            abs(rows[k]["nll"] - rows[k]["truth"]) < 0.1 < rows[k + 1]["nll"] - rows[k + 1]["truth"]
        )
        assert rows[k + 1]["trace"]["step"] == [0, 10, 20, 30, 40]
    assert rows[0]["truth"] != rows[3]["truth"]
    assert "| 4 | sksd-scoring | 2 |" in text and "The loss between two searches" in text
    assert (tmp_path / "ica_1.png").stat().st_size > 10_000
    assert not (tmp_path / "ica.unfinished").exists()


def test_ica_report_compares_with_the_paper_and_shows_what_diverged():
    settings = dict(ica.SCALES["paper"], d=[10, 80, 100], runs=2)
    common = dict(
        d=100,
        method="sksd-g+ke+go",
        diverged=None,
        truth=-20.0,
        milliseconds=3.0,
        trace=dict(step=[0, 5], nll=[9.0, 8.0], value=[1.0]),
    )
    rows = [
        dict(common, run=0, nll=6.0),
        dict(common, run=1, nll=8.0),
        dict(common, run=0, nll=80.0, method="sksd-g+go"),
        dict(common, run=1, nll=82.5, method="sksd-g+go"),
        dict(common, run=2, nll=81.0, method="sksd-g+go"),
        dict(d=100, run=0, method="ksd", diverged=17),
    ]
    text = _text(ica.report(rows, settings))
    assert (
        "| 100 | sksd-g+ke+go | 2 | 27.00 (14.29 to 39.71) | 25.63 +- 1.36 | open "
        "| 7.00 (-5.71 to 19.71) | 6.93 +- 1.36 | -20.00 | 3 | 23 |  |" in text
    )
    assert "| 100 | sksd-g+go | 3 | 101.17 (98.04 to 104.29) | 40.92 +- 1.08 | worse |" in text
    assert (
        "| 100 | ksd | 1 |  | 129.48 +- 1.19 | worse |  | 110.78 +- 1.19 |  |  |  | after 17"
        in text
    )
    # Runs are compared on the same problem: 74 and 74.5.
    assert (
        "| 100 | sksd-g+ke+go ends lower than sksd-g+go | 2 | 74.25 (71.07 to 77.43) | holds |"
        in text
    )
    assert "| 100 | sksd-g+ke+go ends lower than ksd | 0 |  | open |" in text


def test_loss_after_a_search_is_compared_with_that_before():
    """Searches come before steps 201 and 401; an entry is the mean of the ten steps up to it."""
    step = np.arange(10, 601, 10)
    value = np.ones(60)
    value[[20, 40]] = 3.0  # steps 201 to 210, and 401 to 410
    assert ica_report._rise(dict(step=step.tolist(), value=value.tolist())) == 3.0


def test_training_goes_on_after_a_kill(tmp_path, monkeypatch):
    """A run that is interrupted within a trial ends as an undisturbed one."""
    settings = dict(
        ica.SCALES["smoke"], methods=["sksd-g+go"], d=[4], runs=1,
        curve=dict(ica.SCALES["smoke"]["curve"], methods=[]),
    )  # fmt: skip
    monkeypatch.setitem(ica.SCALES, "tiny", settings)
    (whole,) = run("ica", "tiny", tmp_path / "whole")
    save = training.save_checkpoint

    def save_and_stop(path, saved, arrays):
        save(path, saved, arrays)
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "save_checkpoint", save_and_stop)
    with pytest.raises(KeyboardInterrupt):
        run("ica", "tiny", tmp_path / "part")
    (left,) = (tmp_path / "part" / "ica.unfinished").iterdir()
    assert ica._steps_in(left) == 10 and ica._steps_in(None) == 0
    monkeypatch.undo()
    monkeypatch.setitem(ica.SCALES, "tiny", settings)
    (resumed,) = run("ica", "tiny", tmp_path / "part", resume=True)
    assert not left.parent.exists()
    assert resumed.pop("milliseconds") > 0 and whole.pop("milliseconds") > 0
    assert resumed == whole


def test_a_task_that_ends_leaves_room_for_the_state_of_another(tmp_path, monkeypatch):
    """With two processes, one may be about to write where the other has just ended."""
    monkeypatch.setattr(ica, "run_task", lambda *_: [dict(d=4)])
    folder = tmp_path / "ica.unfinished"
    folder.mkdir()
    runner._run_task("ica", {}, folder, dict(d=4, run=0, method="ksd"))
    assert folder.exists()


def test_training_that_diverges_is_a_result(monkeypatch):
    def fail(*_, **__):
        raise learning.Diverged("too far", 7)

    monkeypatch.setattr(ica, "fit_ica", fail)
    task = dict(d=4, run=0, method="ksd")
    assert ica.run_task(task, ica.SCALES["smoke"], np.random.default_rng(0)) == [
        dict(task, diverged=7)
    ]


@pytest.mark.parametrize(
    ("name", "d", "size", "right"),
    [
        ("RBM", 4, 0.0, True),
        ("RBM", 4, 0.5, False),
        ("RBM with outliers", 4, 0.0, True),
        ("RBM with outliers", 4, 0.3, False),
        ("Gamma", 1, 0.0, True),
        ("Gamma", 1, 0.4, False),
        ("one variance", 3, 1.7, False),
        ("t(5)", 3, 0.0, False),
        ("two modes", 2, 0.5, True),
        ("two modes", 2, 0.75, False),
        ("two modes", 2, 1.0, False),
        ("normal", 3, 0.0, True),
        ("mixture", 3, 0.0, True),
        ("Laplace, rotated", 3, 0.0, False),
    ],
)
def test_peer_problems_are_right_where_they_say_so(name, d, size, right):
    problem = peer_problems.make_peer_problem(name, d, 3, size, np.random.default_rng(0))
    assert (problem.q is problem.p) == right and problem.p.d == problem.q.d == d
    # The score of p has mean zero under p, and is the slope of its log-density.
    x = problem.p.sample(4000, rng=1)
    scores = problem.p.score(x)
    assert np.all(np.abs(scores.mean(axis=0)) < 5 * scores.std(axis=0) / np.sqrt(4000))
    for k, step in enumerate(1e-5 * np.eye(d)):
        slope = problem.p.log_density(x[:9] + step) - problem.p.log_density(x[:9] - step)
        np.testing.assert_allclose(scores[:9, k], slope / 2e-5, atol=1e-4)


def test_log_gamma_has_the_jacobian_in_its_density():
    from scipy import stats

    model = peer_problems.LogGamma(5.3, 5.0)
    x = model.sample(2000, rng=0)
    expected = stats.gamma.logpdf(np.exp(x[:, 0]), 5.3, scale=5.0) + x[:, 0]
    np.testing.assert_allclose(model.log_density(x), expected, rtol=1e-10)
    assert stats.kstest(np.exp(x[:, 0]), stats.gamma(5.3, scale=5.0).cdf).pvalue > 0.01
    step = (model.score(x[:5] + 1e-5) - model.score(x[:5] - 1e-5)) / 2e-5
    np.testing.assert_allclose(model.score_along(x[:5], np.ones(1)), step, rtol=1e-6)


def test_peer_samples_differ_as_they_say():
    def sampled(name, d, size):
        problem = peer_problems.make_peer_problem(name, d, 10, size, np.random.default_rng(0))
        return problem.q.sample(2000, rng=1)

    variances = sampled("one variance", 4, 1.7).var(axis=0)
    np.testing.assert_allclose(variances, [1.7, 1.0, 1.0, 1.0], rtol=0.15)
    np.testing.assert_allclose(sampled("t(5)", 2, 0.0).var(axis=0), 5 / 3, rtol=0.2)
    for weight in (0.5, 0.75, 1.0):
        x = sampled("two modes", 2, weight)[:, 0]
        assert abs(np.mean(x > 0) - weight) < 0.04 and abs(np.abs(x).mean() - 3) < 0.1
    outliers = np.linalg.norm(sampled("RBM with outliers", 30, 0.3), axis=1) < 1.0
    assert outliers.sum() == 600 and 200 < outliers[:1000].sum() < 400


def test_peer_groups_see_the_same_samples(monkeypatch):
    settings, seen = peers.SCALES["smoke"], []

    def remember(x, p, **options):
        seen.append((x, options["rng"].random()))
        return fs.gof_test(x[:20], np.negative, n_resamples=9, rng=0)

    monkeypatch.setattr(peers, "gof_test", remember)
    task = dict(family="RBM", problem="RBM", d=4, n=30, hidden=3, size=0.02)
    for trial, group in ((0, "default"), (0, "rfsd"), (0, "paper"), (1, "default")):
        given = dict(task, trial=trial, tests=group)
        (row,) = peers.run_task(given, settings, runner.task_rng("peers", given))
        assert set(row["p"]) == set(peers.GROUPS[group]) and not row["null"]
    for x, _ in seen[1:-1]:
        np.testing.assert_array_equal(x, seen[0][0])
    assert not np.any(seen[-1][0] == seen[0][0])
    assert len({number for _, number in seen}) == len(seen)


@pytest.mark.parametrize("scale", peers.SCALES)
def test_peer_tasks_end_with_the_slowest(scale):
    tasks = peers.tasks(peers.SCALES[scale])
    groups = [task["tests"] for task in tasks]
    first = groups.index("rfsd")
    assert set(groups[:first]) == set(peers.GROUPS) - {"rfsd"}
    assert set(groups[first:]) == {"rfsd"}
    assert len({runner.task_key(task) for task in tasks}) == len(tasks)
    exact = [task for task in tasks if task["tests"] == "exact"]
    without = [task for task in exact if task["problem"] == "RBM with outliers" and task["size"]]
    assert exact and not without  # samples with outliers have no score


def test_published_rates_of_peers_have_their_cells():
    cells = {
        (cell["problem"], cell["d"], cell["n"], cell["hidden"], cell["size"])
        for cell in peers.SCALES["paper"]["cells"]
    }
    assert set(peer_problems.PUBLISHED) <= cells


def test_peer_study(tmp_path, monkeypatch):
    wanted = ("RBM", "Gamma", "two modes", "mixture")
    cells = [cell for cell in peers.SCALES["smoke"]["cells"] if cell["problem"] in wanted]
    cells = [cell for cell in cells if cell["size"] in (0.0, 0.01, 0.4, 0.5, 1.0, None)]
    monkeypatch.setitem(peers.SCALES, "tiny", dict(cells=cells, n_resamples=19))
    text = reproduce("peers", "tiny", tmp_path)[0].read_text()
    for label in ("RBM, 3 hidden, sigma 0.01", "Gamma, shape + 0.4", "two modes, weight 1"):
        assert text.count(f"| {label} |") >= 2
    for name in peers.TESTS:
        assert text.count(f"| {name} |") >= 2
    assert (tmp_path / "peers_1.png").stat().st_size > 10_000


def _peer_rows(cell, null, rejected, trials):
    """Rows in which each test rejects in its first trials only."""
    return [
        dict(cell, trial=trial, tests=group, level="RBM", null=null,
             p={name: 0.01 if trial < rejected.get(name, 0) else 0.5 for name in tests},
             seconds=dict.fromkeys(tests, 0.1))
        for group, tests in peers.GROUPS.items()
        for trial in range(trials[group == "rfsd"])
    ]  # fmt: skip


def test_peer_report_compares_with_the_best_and_with_the_published():
    cell = dict(family="RBM", problem="RBM", d=50, n=1000, hidden=40, size=0.01)
    rows = _peer_rows(
        cell, False, {"default": 4, "KSDAgg": 20, "FSSD": 6, "RFSD": 5}, trials=(40, 5)
    )
    rows += _peer_rows(dict(cell, size=0.0), True, {"KSDAgg": 4}, trials=(40, 5))
    blocks = peers.report(rows, dict(peers.SCALES["paper"], cells=[cell, cell]))
    text = _text(blocks)
    # 16 samples on which KSDAgg alone rejects: 16 / sqrt(16) standard errors. RFSD is higher, but
    # has an eighth of the trials.
    label = "RBM, 40 hidden, sigma 0.01"
    expected = f"| {label} | 50 | 1000 | 0.10 | 0.50 | KSDAgg | 0.10 | 40 | -0.40 | -4.0 | yes |"
    assert expected in text
    assert "FSSD 0.09, LSD 0.1, L1-IMQ 0.02, Cauchy RFF 0.19, AggInc 0.27, AggCom 0.34 |" in text
    words = " ".join(block.text for block in blocks if isinstance(block, report.Text))
    assert "mean over 1 cells: -0.400" in words
    assert "(their number): RBM, 40 hidden, sigma 0.01, d = 50, n = 1000 (-4.0)." in words
    assert "| RFSD | 0.00 (0.00 to 0.43) | 0.00 (0.00 to 0.43) | 5 |" in text
    # Ahead of all others, and behind by less than the noise.
    for ours, theirs, difference in ((20, 4, "+0.40 | +4.0"), (4, 7, "-0.07 | -1.7")):
        rows = _peer_rows(cell, False, {"default": ours, "KSDAgg": theirs}, trials=(40, 5))
        rows += _peer_rows(dict(cell, size=0.0), True, {}, trials=(40, 5))
        blocks = peers.report(rows, dict(peers.SCALES["paper"], cells=[cell, cell]))
        assert f"| KSDAgg | 0.00 | 40 | {difference} |" in _text(blocks)
        words = " ".join(block.text for block in blocks if isinstance(block, report.Text))
        assert "(their number): none." in words


def test_peer_report_of_tests_with_trials_in_some_cells_only():
    cell = dict(family="RBM", problem="RBM", d=50, n=1000, hidden=20, size=0.02)
    other = dict(cell, problem="RBM with outliers", hidden=10, size=0.5)
    rows = _peer_rows(cell, False, {"SKSD-g, GE": 10, "SKSD-g, Ex": 30, "default": 5}, (40, 5))
    rows += _peer_rows(dict(cell, size=0.0), True, {}, trials=(40, 5))
    rows = [row for row in rows if not row["null"] or row["tests"] != "variants"]
    rows += [row for row in _peer_rows(other, False, {}, (40, 5)) if row["tests"] != "exact"]
    text = _text(peers.report(rows, dict(peers.SCALES["paper"], cells=[cell, other])))
    # Exact scores are known to nobody; of the level of GE nothing is known here.
    label = "RBM, 20 hidden, sigma 0.02"
    assert f"| {label} | 50 | 1000 | 0.12 | 0.25 | SKSD-g, GE |  | 40 | -0.12 |" in text
    assert "| SKSD-g, Ex | 0.750 | 1 | 1 | 0.100 |" in text
    assert "| SKSD-g, GE | 0.125 | 2 |" in text
    # What was published is about 40 hidden units.
    assert "AggCom" not in text


def test_peer_report_has_kinds_on_which_nothing_was_chosen_apart():
    cell = dict(family="RBM", problem="RBM", d=50, n=1000, hidden=40, size=0.01)
    other = dict(family="own", problem="Laplace", d=100, n=1000, hidden=None, size=None)
    rows = _peer_rows(cell, False, {"KSDAgg": 20}, trials=(40, 5))
    rows += _peer_rows(other, False, {"default": 10}, trials=(40, 5))
    rows += _peer_rows(dict(cell, size=0.0), True, {}, trials=(40, 5))
    blocks = peers.report(rows, dict(peers.SCALES["paper"], cells=[cell, other]))
    words = " ".join(block.text for block in blocks if isinstance(block, report.Text))
    assert "mean over 2 cells: -0.125" in words and "over the 1 of other kinds +0.250" in words
    rotated = peers.Cell("own", "Student t, rotated", 100, 1000, None, None)
    assert peers.chosen_on(rotated) and not peers.chosen_on(rotated._replace(problem="Student t"))


@pytest.mark.parametrize("chain", [False, True])
def test_groups_has_the_pvalue_of_the_default_test_among_others(chain):
    x = np.random.default_rng(0).standard_normal((4300, 2))
    x[1:] += x[:-1] * chain
    options = Options(chains=True if chain else None, n_resamples=99, rng=3)
    found = groups.pvalues(x, np.negative, options, [2000, 300])
    result = fs.gof_test(x, np.negative, chains=options.chains, n_resamples=99, rng=3)
    assert next(iter(found.values())) == pytest.approx(result.pvalue, abs=1e-12)
    sizes = list(found)
    assert sizes[1:] == [] if chain else (1000 < sizes[0] <= 2002 and 150 < sizes[1] <= 302)


def test_groups_reports_rates_of_its_cells():
    cell = {"kind": "normal", "d": 2, "groups": 500}
    chain = {"kind": "AR(1) 0.5", "d": 2}
    rows = [{**cell, "p": 0.01}, {**cell, "p": 0.5}]
    rows += [{**chain, "groups": k, "p": p} for k, p in [(20, None), (40, 0.2), (60, 0.6)]]
    rows += [{"kind": "mean shift", "d": 20, "groups": 500, "p": p} for p in (0.01, 0.02)]
    blocks = groups.report(rows, groups.SCALES["smoke"])
    level, power = (block.rows for block in blocks if isinstance(block, report.Table))
    assert [row[2:5] for row in level] == [["500", 2, "0.500"], ["40 stretches", 2, "0.000"]]
    assert [row[2:4] for row in power] == [["500", 2]] and power[0][4].startswith("1.00")


def test_searches_has_the_pvalue_of_the_default_test_among_others():
    rng = np.random.default_rng(0)
    x = searches.make_samples("diffusion", 0.97, 12_000, 3, rng)
    options = Options(n_resamples=99, rng=3)
    result = fs.gof_test(x, np.negative, n_resamples=99, rng=3)
    assert searches.pvalue(x, options, most_searched(12_000)) == result.pvalue
    assert searches.pvalue(x, options, 100) != result.pvalue


@pytest.mark.parametrize(
    ("kind", "parameter", "moments"),
    [("diffusion", 0.5, (0.5, 0.75)), ("tail", 10.0, (1.0, 4.0)), ("modes", 0.8, (1.0, 2.18))],
)
def test_searches_hides_one_direction(kind, parameter, moments, monkeypatch):
    """Its second and fourth moments; across it samples are standard normal."""
    monkeypatch.setattr(searches, "random_direction", lambda d, rng: np.eye(d)[1])
    x = searches.make_samples(kind, parameter, 200_000, 3, np.random.default_rng(0))
    second, fourth = (x**2).mean(axis=0), (x**4).mean(axis=0)
    assert second == pytest.approx([1.0, moments[0], 1.0], abs=0.03)
    assert fourth == pytest.approx([3.0, moments[1], 3.0], rel=0.05)


def test_searches_counts_verdicts_that_differ_from_the_largest_search():
    rows = [
        {"kind": "tail", "parameter": 4.0, "d": 3, "size": size, "p": p, "seconds": 1.0}
        for size, found in ((100, (0.01, 0.5, 0.5)), (200, (0.5, 0.01, 0.01)))
        for p in found
    ]
    blocks = searches.report(rows, searches.SCALES["smoke"])
    mine, others = (block.rows for block in blocks if isinstance(block, report.Table))
    assert mine == []
    assert [row[2:4] + row[6:] for row in others] == [[100, 3, 1, 2], [200, 3, 0, 0]]


@pytest.mark.parametrize("name", ["benchmark_gof", "rbm"])
def test_the_default_alone_has_the_samples_of_the_other_tests(name, monkeypatch):
    study = runner.load(name)
    settings, seen = study.SCALES["smoke"], []

    def tested(x, *args, **options):
        seen.append(x)
        return fs.gof_test(x, *args, **options)

    monkeypatch.setattr(study, "gof_test", tested)
    others, default = study.tasks(settings)[2:4]
    (row,) = study.run_task(others, settings, runner.task_rng(name, others))
    whole = {x.tobytes() for x in seen}  # the baselines test all samples
    seen.clear()
    (alone,) = study.run_task(default, settings, runner.task_rng(name, default))
    outcomes = "tests" if name == "benchmark_gof" else "p"
    assert published.DEFAULT in alone[outcomes] and published.DEFAULT not in row[outcomes]
    assert {key: alone[key] for key in row if key in others} == others
    assert seen and all(x.tobytes() in whole for x in seen)
