"""Training of ICA models (Section "Model learning: ICA"): test NLL, and its gap to the truth.

Beside the runs of the paper's table there are two that keep the loss of every few steps, for its
figure of the loss (appendix).
"""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from ..learning import Diverged, fit_ica, ica_problem
from .ica_report import LSD, OWN, report
from .runner import Row, Settings, Task

__all__ = ["CHECKPOINTS", "FIGURES", "SCALES", "TITLE", "report", "run_task", "tasks"]

FIGURES = True
TITLE = "Training of ICA models"
CHECKPOINTS = True
_COMMON = dict(
    methods=[
        "sksd-scoring",
        "sksd-g+ke+go",
        "sksd-g+ex+go",
        "sksd-g+go",
        "sksd-rg+go",
        "ksd",
        "lsd",
    ],
    n_train=20000,
    n_test=5000,
    slice_samples=3000,
    evaluations=20,
)
_CURVE = dict(d=150, since=5000, steps=6000, every=10, methods=["sksd-g+ke+go", "sksd-g+ex+go"])
SCALES = {
    "smoke": dict(
        _COMMON,
        d=[4, 8],
        runs=2,
        steps=40,
        scoring_steps=10,
        n_train=500,
        n_test=200,
        slice_samples=100,
        evaluations=4,
        curve=dict(_CURVE, d=8, since=10, steps=20, every=2),
    ),
    "quick": dict(
        _COMMON,
        d=[10, 30],
        runs=2,
        steps=3000,
        scoring_steps=100,
        curve=dict(_CURVE, d=30, since=1000, steps=2000),
    ),
    "paper": dict(
        _COMMON, d=[10, 80, 100, 150], runs=5, steps=15000, scoring_steps=100, curve=_CURVE
    ),
}


def tasks(settings: Settings) -> list[Task]:
    """Run by run, LSD after the faster methods, with the curves of the loss in the first."""
    found = []
    for run in range(settings["runs"]):
        cells = [dict(d=d, run=run, method=m) for m in settings["methods"] for d in settings["d"]]
        if run == 0:
            curve = settings["curve"]
            cells += [dict(d=curve["d"], run=run, method=m, curve=True) for m in curve["methods"]]
        found += sorted(cells, key=lambda task: task["method"] == LSD)
    return found


def can_run(task: Task) -> bool:
    """Whether what the task needs is installed."""
    return task["method"] != LSD or find_spec("jax") is not None


def run_task(
    task: Task, settings: Settings, rng: np.random.Generator, checkpoint: Path | None = None
) -> list[Row]:
    # All methods of a run have the same samples and the same initial model.
    problem = ica_problem(
        task["d"],
        n_train=settings["n_train"],
        n_test=settings["n_test"],
        rng=np.random.default_rng([task["d"], task["run"]]),
    )
    steps = settings["scoring_steps"] if task["method"] == OWN else settings["steps"]
    every = max(1, steps // settings["evaluations"])
    if "curve" in task:
        steps, every = settings["curve"]["steps"], settings["curve"]["every"]
    before, start = _steps_in(checkpoint), time.process_time()
    try:
        fit = fit_ica(
            problem,
            method=task["method"],
            steps=steps,
            slice_samples=settings["slice_samples"],
            evaluate_every=every,
            checkpoint=checkpoint,
            rng=rng,
        )
    except Diverged as error:
        return [dict(task, diverged=error.step)]
    seconds = time.process_time() - start
    if "curve" in task:
        late = fit.trace.step > settings["curve"]["since"]
        return [
            dict(task, step=fit.trace.step[late].tolist(), value=fit.trace.value[late].tolist())
        ]
    # Before the first step there is no training loss yet.
    trace = {
        "step": fit.trace.step.tolist(),
        "nll": fit.trace.nll.tolist(),
        "value": fit.trace.value[1:].tolist(),
    }
    return [
        dict(task, diverged=None, nll=fit.nll, truth=fit.true_nll, trace=trace,
             milliseconds=1e3 * seconds / (steps - before))
    ]  # fmt: skip


def _steps_in(checkpoint: Path | None) -> int:
    """How many steps an interrupted run has made."""
    if checkpoint is None or not checkpoint.exists():
        return 0
    with np.load(checkpoint) as arrays:
        return int(arrays["step"])
