"""``fastsksd bench``: tables that other tables are compared with."""

import re

import numpy as np
import pytest

from fastsksd.cli import bench, growth, loaded, main


def test_both_benchmarks_time_the_same_default_test(monkeypatch):
    seen = []
    for module in (bench, loaded):
        monkeypatch.setattr(module, "gof_test", lambda x, score, **options: seen.append(x))
    name = "default test, n = 1000, d = 100"
    idle = {row[0]: row[1] for row in bench._works(np.random.default_rng(0))}
    for works in (idle, loaded._works()):
        works[name]()
    assert seen[0].shape == (1000, 100)
    np.testing.assert_array_equal(*seen)


@pytest.mark.parametrize(("seconds", "runs"), [(0.001, 10), (0.2, 2)])
def test_short_calls_are_repeated_more_often(monkeypatch, seconds, runs):
    monkeypatch.setattr(loaded, "seconds_of", lambda work: seconds)
    assert loaded._repeats(lambda: None, 2) == runs
    several, one = loaded._both(lambda: None, runs)
    assert len(several) == len(one) == runs


def test_loaded_prints_ratios_with_their_quartiles(monkeypatch, capsys):
    monkeypatch.setattr(loaded, "_works", lambda: {"a sum": lambda: sum(range(1000))})
    monkeypatch.setattr(loaded, "medians_elsewhere", lambda repeat, active: [2.0 - active])
    assert main(["bench", "--loaded", "--repeat", "1"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| a sum")]
    assert re.search(r"\d\.\d\d \(\d+\.\d\d to \d+\.\d\d\) \|$", rows[0])
    assert rows[1] == "| a sum | 2 | 1 | 2.00 |"


def test_policies_are_measured_in_processes_of_their_own(monkeypatch):
    seen = []

    def run(command, *, env, **options):
        seen.append(env.get("OMP_WAIT_POLICY"))
        return type("Done", (), {"stdout": "[0.5]"})

    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    monkeypatch.setattr(loaded.subprocess, "run", run)
    assert [loaded.medians_elsewhere(1, active) for active in (False, True)] == [[0.5], [0.5]]
    assert seen == [None, "active"]


def test_growth_of_the_default_test(monkeypatch):
    monkeypatch.setattr(growth, "_CELLS", ((60, 2), (120, 2), (60, 3)))
    monkeypatch.setattr(growth, "_REPEAT", 1)
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in growth.growth_table()]
    assert [row[:2] for row in rows[2:]] == [["60", "2"], ["120", "2"], ["60", "3"]]
    assert [bool(row[5]) for row in rows[2:]] == [False, True, False]
    assert all(float(row[2]) > 0 and row[4].endswith("GB") for row in rows[2:])
