"""Benchmark tests of the paper (Section "Benchmark GOF tests"): rejection rates and seconds.

r is the coordinate basis (SKSD-g); g is active, refined by gradients (GO), or both. All sliced
tests share one split into training and test samples. The multivariate t is tested twice: against
N(0, 5/3 I), as stated, and against N(0, I), which the published script builds before it scales the
covariance.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .._typing import Array
from ..baselines import BASELINES, as_baseline
from ..gof import gof_test
from ..models import Gaussian, Model
from ..refine import refine_slices
from ..result import GofResult
from ..slices import Slices, random_slices
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
from .runner import Row, Settings, Task

__all__ = ["FIGURES", "SCALES", "TITLE", "report", "run_task", "tasks"]

FIGURES = True
TITLE = "Benchmark goodness-of-fit tests"
PROBLEMS = (LAPLACE, STUDENT, STUDENT_AS_RUN, DIFFUSION)
_COMMON = dict(
    problems=[*PROBLEMS, NULL],
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
_PER_ROUND = 3  # trials in the dimension of the paper's table, before one in each of the others


def tasks(settings: Settings) -> list[Task]:
    """In rounds, so that a part of a run says a little of everything."""
    last = settings["d"][-1]
    cells = [
        dict(problem=problem, d=d, trial=trial)
        for d in reversed(settings["d"])
        for problem in settings["problems"]
        for trial in range(settings["last_trials" if d == last else "trials"])
    ]

    def turn(task: Task) -> int:
        return task["trial"] if task["d"] == last else (task["trial"] + 1) * _PER_ROUND

    return sorted(cells, key=turn)


def run_task(task: Task, settings: Settings, rng: np.random.Generator) -> list[Row]:
    d = task["d"]
    p, q, _ = _problem(task["problem"], d, rng)
    x = q.sample(settings["n"], rng=rng)
    train, test = x[: settings["train"]], x[settings["train"] :]
    common = dict(n_resamples=settings["n_resamples"], rng=rng)
    known = dict(common, basis="identity", train=train, null="bootstrap")
    found = dict(known, debias=False)
    last = d == settings["d"][-1]

    def refined(epochs: int, parametrisation: str) -> GofResult:
        start = Slices(np.eye(d), random_slices(d, d, rng=rng).g)
        options = dict(
            epochs=epochs, batch_size=settings["batch_size"], parametrisation=parametrisation
        )
        slices = refine_slices(train, p, start, **options, rng=rng)
        return gof_test(test, p, slices=slices, null="bootstrap", **common)

    def active_refined(epochs: int, batch_size: str) -> GofResult:
        return gof_test(
            test, p, refine=dict(epochs=epochs, batch_size=settings[batch_size]), **found
        )

    climbs = {
        GO: (lambda epochs: refined(epochs, "raw"), settings["go_epochs"], settings["sweep"]),
        GO_UNIT: (lambda epochs: refined(epochs, "unit"), settings["go_epochs"], settings["sweep"]),
        KE_GO: (
            lambda epochs: active_refined(epochs, "ke_batch_size"),
            settings["ke_go_epochs"],
            settings["ke_sweep"],
        ),
        KE_GO_WIDE: (
            lambda epochs: active_refined(epochs, "batch_size"),
            settings["ke_go_epochs"],
            settings["ke_sweep"],
        ),
    }
    outcomes = {
        DEFAULT: _timed(lambda: gof_test(x, p, **common)),
        EXACT: _timed(lambda: gof_test(test, p, estimator="exact", score_q=q, **known)),
        GE: _timed(lambda: gof_test(test, p, estimator="ge", **known)),
        KE: _timed(lambda: gof_test(test, p, **found)),
    }
    sweep = [[name, 0, *outcomes[KE]] for name in (KE_GO, KE_GO_WIDE)] if last else []
    for name, (climb, default, epochs) in climbs.items():
        for count in sorted({default, *(epochs if last else ())}):
            outcome = _timed(lambda climb=climb, count=count: climb(count))
            if count == default:
                outcomes[name] = outcome
            if last:
                sweep.append([name, count, *outcome])
    for method in settings["baselines"]:
        outcomes[BASELINES[method].title] = _timed(
            lambda method=method: _baseline_test(x, p, method, common)
        )
    return [dict(task, tests=outcomes, sweep=sweep)]


def _problem(name: str, d: int, rng: np.random.Generator) -> Problem:
    if name == NULL:
        return make_null("normal", d, rng)
    if name == STUDENT_AS_RUN:
        return Problem(Gaussian(np.zeros(d), 1.0), make_problem("Student t", d, rng).q, "normal")
    return make_problem(name, d, rng)


def _timed(test: Callable[[], GofResult]) -> tuple[float, float]:
    """p-value and CPU seconds, which other work on the machine changes little."""
    start = time.process_time()
    pvalue = float(test().pvalue)
    return pvalue, round(time.process_time() - start, 4)


def _baseline_test(x: Array, p: Model, method: str, common: dict[str, Any]) -> GofResult:
    """The published test of that name, with its own number of replicates where it has one."""
    if as_baseline(method).n_resamples is not None:
        common = {"rng": common["rng"]}
    return gof_test(x, p, method=method, **common)
