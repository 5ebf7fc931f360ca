"""Tests of restricted Boltzmann machines (Section "RBM GOF test").

Rejection rates against the perturbation, the number of slices and the epochs of refinement, with
active and with fixed r. Slices are found on states of the burn-in of Gibbs chains, and tested on
samples after it. The published numbers are for one random model; here there are several, and the
spread between them is shown.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from .._typing import Array
from ..gof import gof_test
from ..models import GaussBernRBM
from ..slices import Slices, active_slices
from .ascents import stages
from .published import DEFAULT, RBM_EXACT, RBM_GE, RBM_GO, RBM_KE
from .rbm_report import (
    DEFAULT_TRAINED,
    KE_DEBIASED,
    KSD,
    RANDOM_EXACT,
    RANDOM_GO,
    RANDOM_KE,
    report,
)
from .runner import Row, Settings, Task, task_rng

__all__ = ["FIGURES", "SCALES", "TITLE", "report", "run_task", "tasks"]

FIGURES = True
TITLE = "Tests of restricted Boltzmann machines"
_COMMON = dict(
    d=50,
    hidden=40,
    n=1000,
    train=2000,
    burn_in=2000,
    n_resamples=1000,
    slices=3,
    go_epochs=50,
    at=0.01,
)
SCALES = {
    "smoke": dict(
        _COMMON, d=6, hidden=4, n=80, train=80, burn_in=30, n_resamples=99,
        perturbations=[0.0, 0.01, 0.1], models=2, trials=1, pruning=[1, 3, 6], epochs=[2, 5],
        go_epochs=5,
    ),
    "quick": dict(
        _COMMON, perturbations=[0.0, 0.007, 0.01, 0.014], models=10, trials=2,
        pruning=[1, 3, 10, 50], epochs=[10, 50],
    ),
    "paper": dict(
        _COMMON,
        perturbations=[0.0, 0.005, 0.007, 0.009, 0.01, 0.011, 0.012, 0.013, 0.014, 0.016, 0.018],
        models=10, trials=10, pruning=[1, 2, 3, 5, 10, 20, 50], epochs=[10, 25, 50, 100, 200],
    ),
}  # fmt: skip
# The default test has tasks of its own, on the same samples: it can be run again alone.
GROUPS: tuple[dict[str, str], ...] = ({}, {"tests": DEFAULT})


def tasks(settings: Settings) -> list[Task]:
    """In rounds over the perturbations, so that a part of a run says a little of everything."""
    return [
        dict(perturbation=perturbation, model=model, trial=trial, **group)
        for trial in range(settings["trials"])
        for model in range(settings["models"])
        for perturbation in settings["perturbations"]
        for group in GROUPS
    ]


def run_task(task: Task, settings: Settings, rng: np.random.Generator) -> list[Row]:
    p = GaussBernRBM.random(
        settings["d"], settings["hidden"], rng=np.random.default_rng(task["model"])
    )
    cell = {name: task[name] for name in ("perturbation", "model", "trial")}
    others = task_rng("rbm", cell)
    q = p.perturbed(task["perturbation"], rng=others)
    x = q.sample(settings["n"], burn_in=settings["burn_in"], rng=others)
    train = q.burn_in_samples(settings["train"], burn_in=settings["burn_in"], rng=others)
    if "tests" in task:
        common: dict[str, Any] = dict(n_resamples=settings["n_resamples"], rng=rng)
        found = {
            DEFAULT: gof_test(x, p, **common),
            DEFAULT_TRAINED: gof_test(x, p, train=train, **common),
        }
        pvalues = {name: float(result.pvalue) for name, result in found.items()}
        return [dict(cell, p=pvalues, seconds={}, pruning=[], epochs=[])]
    trial = _Trial(p, q, x, train, settings, others)
    return [dict(cell, **_tests(trial, settings, task["perturbation"] == settings["at"]))]


def _tests(trial: _Trial, settings: Settings, ablate: bool) -> Row:
    """Outcomes of all tests but the default."""
    p, x, train, rng = trial.p, trial.x, trial.train, trial.rng
    m, epochs = settings["slices"], settings["go_epochs"]
    axes = np.eye(p.d)
    one_hot = axes[rng.choice(p.d, m, replace=False)]
    pvalues, seconds = {}, {}
    searches = {
        RBM_EXACT: lambda: trial.active("exact", n_slices=m),
        RBM_KE: lambda: trial.active("ke", n_slices=m),
        KE_DEBIASED: lambda: active_slices(train, p, n_slices=m),
        RBM_GE: lambda: trial.active("ge", n_slices=m),
        RBM_GO: lambda: trial.refined(Slices(axes, axes), epochs),
        RANDOM_EXACT: lambda: trial.active("exact", basis=one_hot),
        RANDOM_KE: lambda: trial.active("ke", basis=one_hot),
        RANDOM_GO: lambda: trial.refined(Slices(axes, axes), epochs, update="g"),
    }
    for name, search in searches.items():
        start = time.process_time()
        slices = search()
        seconds[name] = round(time.process_time() - start, 4)
        pvalues[name] = trial.pvalue(slices)
    result = gof_test(x, p, method="ksd", n_resamples=settings["n_resamples"], rng=rng)
    pvalues[KSD] = float(result.pvalue)
    ablations = _ablations(trial, settings, axes) if ablate else {"pruning": [], "epochs": []}
    return dict(p=pvalues, seconds=seconds, **ablations)


class _Trial:
    """One set of samples, with the searches for slices and the test along them."""

    def __init__(
        self,
        p: GaussBernRBM,
        q: GaussBernRBM,
        x: Array,
        train: Array,
        settings: Settings,
        rng: np.random.Generator,
    ) -> None:
        self.p, self.q, self.x, self.train, self.rng = p, q, x, train, rng
        self.n_resamples = settings["n_resamples"]

    def active(self, estimator: str, **options: Any) -> Slices:
        if estimator == "exact":
            options["score_q"] = self.q
        elif estimator == "ke":
            options["debias"] = False
        return active_slices(self.train, self.p, estimator=estimator, **options)

    def refined(self, slices: Slices, epochs: int, update: str = "rg") -> Slices:
        return next(found for _, found in self.stages(slices, {epochs}, update))

    def stages(
        self, slices: Slices, epochs: Collection[int], update: str = "rg"
    ) -> Iterator[tuple[int, Slices]]:
        """One ascent, seen after each number of epochs."""
        batch_size = min(100, self.train.shape[0])
        options: dict[str, Any] = dict(batch_size=batch_size, update=update, rng=self.rng)
        for count, found, _ in stages(slices, self.train, self.p, epochs, **options):
            yield count, found

    def pvalue(self, slices: Slices) -> float:
        result = gof_test(
            self.x,
            self.p,
            slices=slices,
            null="bootstrap",
            n_resamples=self.n_resamples,
            rng=self.rng,
        )
        return float(result.pvalue)


def _ablations(trial: _Trial, settings: Settings, axes: Array) -> dict[str, list[list[Any]]]:
    """p-values as [method, number of slices, p] and [method with slices, epochs, p]."""
    exact, ke = trial.active("exact"), trial.active("ke")
    refined = trial.refined(Slices(axes, axes), settings["go_epochs"])
    pruning = [
        [name, m, trial.pvalue(slices[:m])]
        for name, slices in ((RBM_EXACT, exact), (RBM_KE, ke), (RBM_GO, refined))
        for m in settings["pruning"]
    ]
    m = settings["slices"]
    starts = {
        f"{RBM_EXACT}+GO, {m}": exact[:m],
        f"{RBM_KE}+GO, {m}": ke[:m],
        f"{RBM_GO}, {m}": Slices(axes[:m], axes[:m]),
        f"{RBM_GO}, {len(axes)}": Slices(axes, axes),
    }
    epochs = [
        [name, count, trial.pvalue(slices)]
        for name, start in starts.items()
        for count, slices in trial.stages(start, {0, *settings["epochs"]})
    ]
    return {"pruning": pruning, "epochs": epochs}
