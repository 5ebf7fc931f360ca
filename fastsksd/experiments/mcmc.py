"""MCMC runs on posteriors of real data: good ones, and failures of eight common kinds.

The posteriors are in `posteriors`, the runs in `failures`. Every run has four chains. It is tested
by the default test and by KSD, both with their null for chains, and looked at by the usual alarms:
R-hat above 1.01, or an effective sample size (bulk or tail) below 400, of any parameter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._typing import Array
from ..gof import gof_test
from ..procedure.mixing import bulk_and_tail_size, split_chains, split_rhat
from .approximations import Moments, moments_of
from .failures import KINDS, make_runs
from .posteriors import POSTERIORS, SHIPPED, Posterior, load
from .report import Block, Figure, Heading, Table, Text, figure_of, pyplot, show_rate
from .runner import Row, RunError, Settings, Task

FIGURES = True
TITLE = "MCMC runs on posteriors of real data"
RHAT, ESS = 1.01, 400.0
SCALES: dict[str, Settings] = {
    "smoke": dict(
        posteriors=["eight schools, centred", "discoveries, negative binomial"],
        blocks=1,
        good=1,
        wrong=1,
        draws=100,
        n_resamples=99,
    ),
    "quick": dict(posteriors=list(SHIPPED), blocks=1, good=5, wrong=2, draws=500, n_resamples=299),
    "paper": dict(
        posteriors=list(POSTERIORS), blocks=4, good=10, wrong=3, draws=500, n_resamples=299
    ),
}


def tasks(settings: Settings) -> list[Task]:
    """Blocks of every posterior; an error if the data of one are not to be had."""
    for name in settings["posteriors"]:
        try:
            load(name)
        except ImportError as error:
            raise RunError(f"{error}.") from error
    return [
        dict(posterior=name, block=block)
        for block in range(settings["blocks"])
        for name in settings["posteriors"]
    ]


def run_task(task: Task, settings: Settings, rng: np.random.Generator) -> list[Row]:
    name = task["posterior"]
    counts = {kind: settings["good"] if kind == "good" else settings["wrong"] for kind in KINDS}
    runs = make_runs(name, counts, settings["draws"], rng)
    moments = moments_of(runs["good"])
    return [
        {**task, "kind": kind, **_look_at(x, load(name), moments, settings["n_resamples"], rng)}
        for kind, some in runs.items()
        for x in some
    ]


def _look_at(
    x: Array, posterior: Posterior, moments: Moments, n_resamples: int, rng: np.random.Generator
) -> Row:
    """One run, (chains, draws, d): what tests and alarms say, and how wrong it is."""
    scores = posterior.score(x.reshape(-1, posterior.d)).reshape(x.shape)
    result = gof_test(x, scores, n_resamples=n_resamples, rng=rng)
    ksd = gof_test(x, scores, method="ksd", n_resamples=n_resamples, rng=rng)
    values = x.reshape(-1, posterior.d)
    halves = split_chains(values, np.repeat(np.arange(len(x)), x.shape[1]))
    sizes = np.minimum(*bulk_and_tail_size(halves, values))
    shift = np.abs(values.mean(axis=0) - moments.mean) / moments.deviation
    stretch = np.abs(np.log(values.std(axis=0) / moments.deviation))
    return {
        "p": _pvalue(result),
        "ksd": _pvalue(ksd),
        "rhat": round(float(split_rhat(halves).max()), 4),
        "ess": round(float(sizes.min()), 1),
        "shift": round(float(shift.max()), 3),
        "stretch": round(float(np.exp(stretch.max())), 3),
        "different": list(result.chains.different),
        "apart": result.chains.apart,
        "burn_in": result.chains.burn_in,
        "seconds": round(result.timings["total"], 3),
    }


def _pvalue(result: Any) -> float | None:
    """None where the chains are too short to tell."""
    return None if result.draws_needed else round(float(result.pvalue), 4)


def _said(rows: list[Row]) -> dict[str, np.ndarray]:
    """Which runs each test or alarm objects to."""
    rhat, ess = (np.array([row[key] for row in rows]) for key in ("rhat", "ess"))
    p, ksd = (
        np.array([np.nan if row[key] is None else row[key] for row in rows]) for key in ("p", "ksd")
    )
    usual = (rhat > RHAT) | (ess < ESS)
    return {
        "rejected": p <= 0.05,
        "too short": np.isnan(p),
        "chains differ": np.array([bool(row["different"]) for row in rows]),
        "burn-in": np.array([row["burn_in"] > 0 for row in rows]),
        "R-hat > 1.01": rhat > RHAT,
        "ESS < 400": ess < ESS,
        "R-hat or ESS": usual,
        "KSD": ksd <= 0.05,
        "rejected, no alarm": (p <= 0.05) & ~usual,
    }


def report(rows: list[Row], settings: Settings) -> list[Block]:
    kinds = {kind: [row for row in rows if row["kind"] == kind] for kind in KINDS}
    kinds = {kind: some for kind, some in kinds.items() if some}
    names = list(_said(rows))
    table = []
    for kind, some in kinds.items():
        said = _said(some)
        shift, stretch = (np.median([row[key] for row in some]) for key in ("shift", "stretch"))
        rates = [f"{said[name].mean():.2f}" for name in names]
        rates[0] = show_rate(int(said["rejected"].sum()), len(some))
        table.append([kind, len(some), *rates, f"{shift:.2f}", f"{stretch:.2f}"])
    return [
        Text(
            f"{len(settings['posteriors'])} posteriors, four chains of {settings['draws']} draws, "
            f"{settings['n_resamples']} replicates. The rate at which each test or alarm objects; "
            "of good runs this is the level of the tests. Chains differ where one of them is "
            "named; burn-in is where draws at the start are to be dropped. Shift and "
            "stretch say how wrong runs are: medians of the largest error of a mean, in posterior "
            "deviations, and of a deviation, as a factor."
        ),
        Heading("By failure"),
        Table(["runs", "number", *names, "shift", "stretch"], table),
        Heading("By posterior: rejected by the default test"),
        _by_posterior(rows, list(kinds)),
        picture(rows),
    ]


def _by_posterior(rows: list[Row], kinds: list[str]) -> Table:
    table = []
    for name in dict.fromkeys(row["posterior"] for row in rows):
        line: list[Any] = [name, load(name).d]
        for kind in kinds:
            some = [row for row in rows if (row["posterior"], row["kind"]) == (name, kind)]
            line.append(f"{int(_said(some)['rejected'].sum())}/{len(some)}" if some else "")
        table.append(line)
    return Table(["posterior", "d", *kinds], table)


def picture(rows: list[Row]) -> Figure:
    """How often the test and the usual alarms object to each kind of run."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(7.2, 4.6))
    kinds = [kind for kind in _SHOWN if any(row["kind"] == kind for row in rows)]
    for place, kind in enumerate(reversed(kinds)):
        said = _said([row for row in rows if row["kind"] == kind])
        stein, short, usual = (
            said[name].mean() for name in ("rejected", "too short", "R-hat or ESS")
        )
        silent = ~said["rejected"] & ~said["too short"]
        named = (silent & (said["chains differ"] | said["burn-in"])).mean()
        axis.barh(place + 0.19, stein, 0.34, color=_STEIN)
        axis.barh(place + 0.19, short, 0.34, left=stein, color=_SHORT)
        axis.barh(place + 0.19, named, 0.34, left=stein + short, color=_NAMED)
        axis.barh(place - 0.19, usual, 0.34, color=_USUAL)
        inside = dict(_LABEL, ha="center", color="0.2")
        if kind == "step too long":
            axis.text(stein + short / 2, place + 0.17, "chains too short to tell", **inside)
        if kind == "warm-up kept":
            axis.text(stein + short + named / 2, place + 0.17, "start or chain named", **inside)
    # Labels stand where the bars are far apart.
    first = len(kinds) - 2
    axis.text(0.985, first + 0.17, "Stein test rejects", color="white", **_LABEL)
    axis.text(
        0.985, first - 0.21, "R-hat > 1.01 or ESS < 400", color="0.35", fontweight="bold", **_LABEL
    )
    axis.axvline(0.05, color="0.3", linewidth=0.8, linestyle=":")
    axis.text(0.055, len(kinds) - 0.45, "level 5%", fontsize=8, color="0.3", va="bottom")
    axis.set_yticks(range(len(kinds)), list(reversed(kinds)))
    axis.tick_params(axis="y", length=0)
    axis.set_xlim(0.0, 1.0)
    axis.set_ylim(-0.6, len(kinds) - 0.4)
    axis.set_xlabel("fraction of runs that raise the alarm")
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    return figure_of(
        figure,
        "Runs of a sampler on posteriors of real data: how often the Stein test rejects, and how "
        "often R-hat or ESS give the alarm",
    )


_STEIN, _SHORT, _NAMED, _USUAL = "#1f5a94", "#a9c8e6", "#f2c879", "#c4c4c4"
_LABEL: dict[str, Any] = dict(fontsize=8, ha="right", va="center")
# Good runs, those whose chains agree on something wrong, and those whose chains do not agree.
_SHOWN = (
    "good",
    "mean field",
    "Laplace",
    "wrong Jacobian",
    "wrong prior",
    "no accept step",
    "warm-up kept",
    "chain stuck",
    "step too long",
)
