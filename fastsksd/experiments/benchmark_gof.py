"""Benchmark tests of the paper (Section "Benchmark GOF tests"): rejection rates and seconds.

r is the coordinate basis (SKSD-g); g is active, refined by gradients (GO), or both. All sliced
tests share one split into training and test samples. The multivariate t is tested twice: against
N(0, 5/3 I), as stated, and against N(0, I), which the published script builds before it scales the
covariance.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from .._typing import Array
from ..baselines import BASELINES, as_baseline
from ..gof import gof_test
from ..models import Gaussian, Model
from ..result import GofResult
from ..slices import Slices, active_slices, random_slices
from .ascents import stages
from .benchmark_report import NULL, report
from .problems import Problem, make_null, make_problem
from .published import (
    DEFAULT,
    DIFFUSION,
    EXACT,
    GE,
    GO,
    GO_UNIT,
    KE,
    KE_GO,
    KE_GO_WIDE,
    LAPLACE,
    STUDENT,
    STUDENT_AS_RUN,
)
from .runner import Row, Settings, Task, task_rng

_Result = TypeVar("_Result")
_Slices: TypeAlias = tuple[Slices, float]  # with the CPU seconds that they took

__all__ = ["FIGURES", "SCALES", "TITLE", "report", "run_task", "tasks"]

FIGURES = True
TITLE = "Benchmark goodness-of-fit tests"
IN_PAPER = (LAPLACE, STUDENT, DIFFUSION)
_COMMON = dict(
    problems=[LAPLACE, STUDENT, STUDENT_AS_RUN, DIFFUSION, NULL],
    n=1000,
    train=200,
    batch_size=50,
    ke_batch_size=20,
    n_resamples=1000,
    baselines=["ksd", "mmd", "rfsd", "fssd", "ksdagg"],
)
SCALES = {
    "smoke": dict(
        _COMMON, d=[2, 5], trials=2, last_trials=2, n=100, train=40, batch_size=10, ke_batch_size=8,
        n_resamples=99, go_epochs=20, ke_go_epochs=5, sweep=[5, 20], ke_sweep=[2, 5],
    ),
    "quick": dict(
        _COMMON, d=[2, 10, 30, 100], trials=10, last_trials=20, go_epochs=1000, ke_go_epochs=50,
        sweep=[50, 200, 1000], ke_sweep=[10, 50, 100],
    ),
    "paper": dict(
        _COMMON, d=[2, 5, 10, 15, 20, 25, 30, 35, 40, 50, 60, 70, 80, 90, 100], trials=100,
        last_trials=100, go_epochs=1000, ke_go_epochs=50, sweep=[10, 50, 100, 200, 500, 1000],
        ke_sweep=[10, 25, 50, 100, 200],
    ),
}  # fmt: skip
# The default test has tasks of its own, on the same samples: it can be run again alone.
GROUPS: tuple[dict[str, str], ...] = ({}, {"tests": DEFAULT})
# Trials in the dimension of the paper's table before one in each of the others, and trials of the
# paper's problems before one of ours.
_PER_ROUND = 3


def tasks(settings: Settings) -> list[Task]:
    """In rounds, so that a part of a run says a little of everything."""
    last = settings["d"][-1]
    cells = [
        dict(problem=problem, d=d, trial=trial, **group)
        for d in reversed(settings["d"])
        for problem in settings["problems"]
        for trial in range(settings["last_trials" if d == last else "trials"])
        for group in GROUPS
    ]

    def turn(task: Task) -> int:
        turn = task["trial"] if task["d"] == last else (task["trial"] + 1) * _PER_ROUND
        return turn if task["problem"] in IN_PAPER else turn * _PER_ROUND

    return sorted(cells, key=turn)


def run_task(task: Task, settings: Settings, rng: np.random.Generator) -> list[Row]:
    cell = {name: task[name] for name in ("problem", "d", "trial")}
    d, others = task["d"], task_rng("benchmark_gof", cell)
    p, q, _ = _problem(task["problem"], d, others)
    x = q.sample(settings["n"], rng=others)
    if "tests" in task:
        outcome = _test(lambda: gof_test(x, p, n_resamples=settings["n_resamples"], rng=rng))
        return [dict(cell, tests={DEFAULT: outcome}, sweep=[])]
    tests, sweep = _tests(x, p, q, settings, d == settings["d"][-1], others)
    return [dict(cell, tests=tests, sweep=sweep)]


def _tests(
    x: Array, p: Model, q: Model, settings: Settings, last: bool, rng: np.random.Generator
) -> tuple[dict[str, tuple[float, float]], list[list[Any]]]:
    """Outcomes of all tests but the default, and those of the sweep over epochs."""
    d = x.shape[1]
    train, test = x[: settings["train"]], x[settings["train"] :]
    common = dict(n_resamples=settings["n_resamples"], rng=rng)
    known = dict(common, basis="identity", train=train, null="bootstrap")

    start = _timed(lambda: Slices(np.eye(d), random_slices(d, d, rng=rng).g))
    active = _timed(lambda: active_slices(train, p, basis="identity", debias=False, rng=rng))
    outcomes = {
        EXACT: _test(lambda: gof_test(test, p, estimator="exact", score_q=q, **known)),
        GE: _test(lambda: gof_test(test, p, estimator="ge", **known)),
        KE: _test(lambda: gof_test(test, p, debias=False, **known)),
    }
    batch, small = settings["batch_size"], settings["ke_batch_size"]
    long, short = settings["go_epochs"], settings["ke_go_epochs"]
    climbs: list[tuple[str, _Slices, Literal["raw", "unit"], int, int, list[int]]] = [
        (GO, start, "raw", batch, long, settings["sweep"]),
        (GO_UNIT, start, "unit", batch, long, settings["sweep"]),
        (KE_GO, active, "unit", small, short, settings["ke_sweep"]),
        (KE_GO_WIDE, active, "unit", batch, short, settings["ke_sweep"]),
    ]
    sweep = [[name, 0, *outcomes[KE]] for name in (KE_GO, KE_GO_WIDE)] if last else []
    for name, (begin, search), parametrisation, size, default, others in climbs:
        ascent = stages(
            begin,
            train,
            p,
            {default, *(others if last else ())},
            batch_size=size,
            parametrisation=parametrisation,
            rng=rng,
        )
        for count, slices, climb in ascent:
            pvalue, seconds = _test(
                lambda slices=slices: gof_test(test, p, slices=slices, null="bootstrap", **common)
            )
            outcome = pvalue, round(search + climb + seconds, 4)
            if count == default:
                outcomes[name] = outcome
            if last:
                sweep.append([name, count, *outcome])
    for method in settings["baselines"]:
        outcomes[BASELINES[method].title] = _test(
            lambda method=method: _baseline_test(x, p, method, common)
        )
    return outcomes, sweep


def _problem(name: str, d: int, rng: np.random.Generator) -> Problem:
    if name == NULL:
        return make_null("normal", d, rng)
    if name == STUDENT_AS_RUN:
        return Problem(Gaussian(np.zeros(d), 1.0), make_problem("Student t", d, rng).q, "normal")
    return make_problem(name, d, rng)


def _timed(work: Callable[[], _Result]) -> tuple[_Result, float]:
    """What the work returns, and its CPU seconds, which other work changes little."""
    start = time.process_time()
    return work(), time.process_time() - start


def _test(test: Callable[[], GofResult]) -> tuple[float, float]:
    """p-value and CPU seconds."""
    result, seconds = _timed(test)
    return float(result.pvalue), round(seconds, 4)


def _baseline_test(x: Array, p: Model, method: str, common: dict[str, Any]) -> GofResult:
    """The published test of that name, with its own number of replicates where it has one."""
    if as_baseline(method).n_resamples is not None:
        common = {"rng": common["rng"]}
    return gof_test(x, p, method=method, **common)
