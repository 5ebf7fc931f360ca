"""Level of the default test: how often it rejects a right model, by model, dimension and size."""

from __future__ import annotations

import numpy as np

from ..gof import gof_test
from .problems import make_null
from .report import Block, Heading, Table, Text, cells_of, level_bounds
from .runner import Row, Settings, Task

FIGURES = False
TITLE = "Level of the default test"
_MODELS = ["normal", "correlated normal", "ill-conditioned normal", "Laplace model", "RBM"]
SCALES = {
    "smoke": dict(models=_MODELS, d=[2, 5], n=[30], tests=20, block=20, n_resamples=99, burn_in=50),
    "quick": dict(
        models=_MODELS,
        d=[2, 20, 100],
        n=[60, 300],
        tests=200,
        block=25,
        n_resamples=199,
        burn_in=500,
    ),
    "paper": dict(
        models=_MODELS,
        d=[2, 20, 100],
        n=[60, 300, 1000],
        tests=500,
        block=25,
        n_resamples=299,
        burn_in=500,
    ),
}
ALPHAS = (0.01, 0.05, 0.1)


def tasks(settings: Settings) -> list[Task]:
    return [
        dict(model=model, d=d, n=n, block=block)
        for n in settings["n"]
        for d in settings["d"]
        for model in settings["models"]
        for block in range(settings["tests"] // settings["block"])
    ]


def run_task(task: Task, settings: Settings, rng: np.random.Generator) -> list[Row]:
    model = make_null(task["model"], task["d"], np.random.default_rng(task["block"])).p
    options = dict(burn_in=settings["burn_in"]) if task["model"] == "RBM" else {}
    rows = []
    for _ in range(settings["block"]):
        x = model.sample(task["n"], rng=rng, **options)
        result = gof_test(x, model, n_resamples=settings["n_resamples"], rng=rng)
        rows.append({**task, "p": result.pvalue, "seconds": result.timings["total"]})
    return rows


def report(rows: list[Row], settings: Settings) -> list[Block]:
    cells = cells_of(rows, "model", "d", "n")
    table, outside = [], 0
    for key, some in cells.items():
        pvalues = np.array([row["p"] for row in some])
        low, high = level_bounds(pvalues.size, len(cells))
        rates = [np.mean(pvalues <= alpha) for alpha in ALPHAS]
        inside = low <= rates[1] <= high
        outside += not inside
        table.append(
            [
                *key,
                pvalues.size,
                *(f"{rate:.3f}" for rate in rates),
                f"{low:.3f} to {high:.3f}",
                "yes" if inside else "NO",
            ]
        )
    pooled = np.mean([row["p"] <= 0.05 for row in rows])
    return [
        Text(
            "The model is right: x is drawn from it. "
            f"{settings['n_resamples']} wild bootstrap replicates, default options. Rejection rate "
            f"over all {len(rows)} tests at level 0.05: {pooled:.4f}. Cells outside the binomial "
            f"bounds (simultaneous over {len(cells)} cells): {outside}."
        ),
        Heading("Rejection rates"),
        Table(
            [
                "model",
                "d",
                "n",
                "tests",
                *(f"level {alpha:g}" for alpha in ALPHAS),
                "bounds at 0.05",
                "within",
            ],
            table,
        ),
    ]
