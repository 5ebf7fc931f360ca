"""Level with far more dimensions than samples: how often a right model is rejected."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from .._validate import ArgumentError
from ..gof import gof_test
from ..slices import Slices, random_slices
from .problems import make_null
from .report import Block, Heading, Table, Text, cells_of
from .runner import Row, Settings, Task

FIGURES = False
TITLE = "Level with far more dimensions than samples"
_NULLS = ["wild", "bootstrap", "spectral"]
_MODELS = ["normal", "Laplace model"]
# Pairs of a number of samples and a dimension.
SCALES = {
    "smoke": dict(models=_MODELS, nulls=_NULLS, sizes=[[8, 20]], tests=4, block=4, n_resamples=49),
    "quick": dict(
        models=_MODELS,
        nulls=_NULLS,
        sizes=[[10, 300], [20, 300], [6, 100], [50, 100]],
        tests=100,
        block=25,
        n_resamples=99,
    ),
    "paper": dict(
        models=_MODELS,
        nulls=_NULLS,
        sizes=[[n, d] for d in (10, 100, 300, 1000) for n in (2, 6, 10, 20, 50)]
        + [[20, 3000], [50, 3000]],
        tests=200,
        block=10,
        n_resamples=99,
    ),
}
_FIRST = ([6, 300], [10, 1000], [20, 1000], [20, 3000])  # sizes whose tests are run first
_RANDOM = 300  # slices


def tasks(settings: Settings) -> list[Task]:
    """The extreme sizes first, the others in rounds: half of the tests, then the other half."""
    planned = [
        dict(test=test, null=null, model=model, n=n, d=d, block=block)
        for block in range(settings["tests"] // settings["block"])
        for null in settings["nulls"]
        for n, d in settings["sizes"]
        for model in settings["models"]
        for test in ("coordinates", "family", "random slices", "active slices")
        if not test.endswith("slices") or (null == "wild" and [n, d] in _FIRST)
    ]
    half = settings["tests"] // settings["block"] // 2
    return sorted(planned, key=lambda task: (task["block"] >= half, _turn(task)))


def _turn(task: Task) -> int:
    test, wild = task["test"], task["null"] == "wild"
    if [task["n"], task["d"]] not in _FIRST or (test == "family" and not wild):
        return 2
    return 0 if wild and test in ("coordinates", "family") else 1


def run_task(task: Task, settings: Settings, rng: np.random.Generator) -> list[Row]:
    n, d, null = task["n"], task["d"], task["null"]
    model = make_null(task["model"], d, np.random.default_rng(task["block"])).p
    options: dict[str, Any] = {"null": null}
    if task["test"] == "coordinates":
        options["slices"] = Slices(np.eye(d), np.eye(d))
    elif task["test"] == "random slices":
        options["slices"] = random_slices(d, _RANDOM, rng=task["block"])
    elif task["test"] == "active slices":
        options |= {"n_slices": 3, "train": 0.5}
    if null != "spectral":
        options["n_resamples"] = settings["n_resamples"]
    rows = []
    for _ in range(settings["block"]):
        x = model.sample(n, rng=rng)
        try:
            p = float(gof_test(x, model, rng=rng, **options).pvalue)
        except ArgumentError as error:  # too few samples for this test
            return [{**task, "refused": str(error)}]
        rows.append({**task, "p": p})
    return rows


def report(rows: list[Row], settings: Settings) -> list[Block]:
    names = ["test", "null", "model", "n", "d"]
    cells = cells_of((row for row in rows if "p" in row), *names)
    refused = cells_of((row for row in rows if "p" not in row), *names)
    # Bounds for all cells at once: the chance that any of them lies above is 5%.
    tail = 0.05 / max(len(cells), 1)
    table, above = [], 0
    for key, some in cells.items():
        pvalues = np.array([row["p"] for row in some])
        high = stats.binom.ppf(1.0 - tail, pvalues.size, 0.05) / pvalues.size
        rates = [np.mean(pvalues <= alpha) for alpha in (0.01, 0.05, 0.2)]
        above += rates[1] > high
        held = "yes" if rates[1] <= high else "NO"
        table.append([*key, pvalues.size, *(f"{rate:.3f}" for rate in rates), f"{high:.3f}", held])
    tested = [row["p"] for row in rows if "p" in row]
    pooled = np.mean(np.array(tested) <= 0.05) if tested else float("nan")
    levels = ["level 0.01", "level 0.05", "level 0.2"]
    blocks: list[Block] = [
        Text(
            f"The model is right. Rejection rate over all {len(tested)} tests at level 0.05: "
            f"{pooled:.4f}. Cells above the binomial bound (simultaneous over {len(cells)} cells): "
            f"{above}. Conservative cells are not counted: few samples have few signs."
        ),
        Heading("Rejection rates"),
        Table([*names, "tests", *levels, "bound at 0.05", "held"], table),
    ]
    if refused:
        listed = [[*key, some[-1]["refused"]] for key, some in refused.items()]
        blocks += [Heading("Refused"), Table([*names, "reason"], listed)]
    return blocks
