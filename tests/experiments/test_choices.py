"""The study of other choices for the default test: its problems, rows and report."""

import numpy as np
import pytest

import fastsksd as fs
from fastsksd.experiments import active_moments, choices, report, reproduce, runner
from fastsksd.experiments.peers import Cell
from fastsksd.models import Gaussian
from fastsksd.procedure.plan import Options

CELL = dict(family="own", problem="mean shift", d=3, n=100, hidden=None, size=None)
RIGHT = dict(CELL, problem="normal")


def test_samples_without_a_tail():
    v = np.array([0.6, 0.8])
    cov = np.array([[4.0, 1.0], [1.0, 0.5]])
    x = choices.WithoutTail(cov, v, 0.1).sample(20_000, rng=0)
    z = np.linalg.solve(np.linalg.cholesky(cov), x.T).T
    assert z @ v == pytest.approx(np.clip(z @ v, -9.0, 1.2816), abs=1e-9)  # its 0.9 quantile
    assert np.mean(z @ v < 0) == pytest.approx(0.5 / 0.9, abs=0.02)
    across = z @ [0.8, -0.6]
    assert abs(across.mean()) < 0.03 and across.std() == pytest.approx(1.0, abs=0.03)
    assert abs(np.corrcoef(across, z @ v)[0, 1]) < 0.03


@pytest.mark.parametrize("size", [0.9, 1.0])
def test_deviations_in_mixed_units(size):
    cell = Cell("mixed units", "deviations", 4, 50, None, size)
    problem = choices._make(cell, np.random.default_rng(0))
    assert (problem.q is problem.p) == (size == 1.0)
    ratios = problem.q.sample(20_000, rng=1).std(axis=0) / problem.p.sample(20_000, rng=2).std(
        axis=0
    )
    np.testing.assert_allclose(ratios, size, rtol=0.03)


def test_a_row_has_the_default_and_every_other_choice():
    settings = choices.SCALES["smoke"]
    task = dict(CELL, trial=0)
    (row,) = choices.run_task(task, settings, runner.task_rng("choices", task))
    assert set(row["p"]) == {choices.DEFAULT, *choices.RULES, *choices.TESTS}
    assert not row["null"] and "location, full" in row["members"]
    # The same test in one call.
    rng = runner.task_rng("choices", task)
    problem = choices._make(choices.cell_of(task), rng)
    x = problem.q.sample(task["n"], rng=rng)
    result = fs.gof_test(x, problem.p, n_resamples=settings["n_resamples"], rng=rng)
    assert row["p"][choices.DEFAULT] == result.pvalue
    line = dict(task, d=1)
    (row,) = choices.run_task(line, settings, runner.task_rng("choices", line))
    assert set(row["p"]) == {choices.DEFAULT, *choices.RULES}


def test_more_members_join_those_of_the_default():
    settings, task = choices.SCALES["smoke"], dict(CELL, trial=0)
    (row,) = choices.run_task(task, settings, runner.task_rng("choices", task))
    more = dict(task, more=True)
    (other,) = choices.run_task(more, settings, None)
    assert set(other["p"]) == {choices.DEFAULT, *choices.MORE}
    assert other["p"][choices.DEFAULT] == row["p"][choices.DEFAULT]
    (joined,) = choices._joined([row, other])
    assert joined["p"] == {**row["p"], **other["p"]} and joined["members"] == row["members"]
    assert choices._joined([other]) == []  # what there is of it is not compared alone
    assert {task["d"] for task in choices.tasks(choices.SCALES["paper"]) if "more" in task} > {2}
    assert all(task["d"] > 1 for task in choices.tasks(choices.SCALES["paper"]) if "more" in task)


def test_moments_along_active_directions_see_wrong_deviations():
    """One half at a time: features along directions found on the other half, with its units."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((200, 3)) @ np.diag([1.0, 1.5, 0.5])
    options = Options(n_resamples=199, precondition="raw", rng=rng)
    _, candidates = active_moments.with_active_moments(x, Gaussian(np.zeros(3), 1.0), options)
    assert set(candidates) == set(choices.MORE)
    for one in candidates.values():
        assert one.statistics.shape == (2,) and one.replicates.shape == (2, 199)
        assert len(one.kinds) == 2
    # Replicates are centred, and joint: those of nested sums go together.
    first, third = (candidates[f"scale and shape, top {k}"] for k in (1, 3))
    spread = third.replicates.std(axis=1)
    assert np.all(np.abs(third.replicates.mean(axis=1)) < 4 * spread / np.sqrt(199))
    for half in range(2):
        assert np.corrcoef(first.replicates[half], third.replicates[half])[0, 1] > 0.3
    # The wrong deviations are seen along active directions, and the right mean is not rejected.
    assert np.all(third.statistics > third.replicates.max(axis=1))
    location = candidates["location, top 3"]
    assert np.all(location.statistics < np.quantile(location.replicates, 0.99, axis=1))


def _rows(cell, null, rejected, members=()):
    """Four trials, in the first of which each choice rejects."""
    names = (choices.DEFAULT, *choices.RULES, *choices.TESTS)
    rows = []
    for trial in range(4):
        p = {name: 0.01 if trial < rejected.get(name, 0) else 0.5 for name in names}
        alone = {name: 0.01 if trial in trials else 0.5 for name, trials in members}
        rows.append(dict(cell, trial=trial, null=null, p=p, members=alone))
    return rows


def test_report_compares_with_the_default():
    members = (("first", {0, 2}), ("second", {0, 1, 3}))
    rows = _rows(CELL, False, {"default": 2, "smallest p": 1, "full": 4}, members)
    other = dict(CELL, problem="Laplace")
    rows += _rows(other, False, {"default": 2, "smallest p": 2, "full": 2}, members)
    rows += _rows(RIGHT, True, {"smallest p": 1}, members)
    blocks = choices.report(rows, choices.SCALES["smoke"])
    text = report.markdown("choices", "", blocks)[0]
    # Differences of the four trials are 0, -1, 0, 0: their variance is 3/16.
    error = np.sqrt(3 / 16 / 4) / 2
    assert f"| smallest p | 0.375 | -0.125 ({error:.3f}) | -0.250 | +0.000 | 0.250 | 4 |" in text
    assert "| full | 0.750 | +0.250 (0.125) | +0.500 | +0.000 | 0.000 | 4 |" in text
    # The second member is best in hindsight, 3/4 against 2/4. On trials 0 and 2 the first is, which
    # then has none of 1 and 3, where the default has 1/2; on these the second is, and has 1/2 of
    # the others, as the default.
    assert "+0.250 picked in hindsight in each cell, -0.250 picked on half of its trials" in text
    assert "| first | 0.500 | 0 | 2 |" in text and "| second | 0.750 | 2 | 2 |" in text


def test_report_of_a_study_that_has_just_begun():
    rows = _rows(CELL, False, {}, (("first", {0}),))[:1]
    text = report.markdown("choices", "", choices.report(rows, choices.SCALES["smoke"]))[0]
    assert "too few trials" in text


def test_choices_study(tmp_path):
    text = reproduce("choices", "smoke", tmp_path)[0].read_text()
    for name in (choices.DEFAULT, *choices.RULES, *choices.TESTS, *choices.MORE):
        assert f"| {name} |" in text
    assert "| missing tail 0.1, mixed units | 3 | 100 | 2 | wrong |" in text
