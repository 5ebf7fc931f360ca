"""Tests of restricted Boltzmann machines (Section "RBM GOF test").

Rejection rates against the perturbation, the number of slices and the epochs of refinement, with
active and with fixed r. Slices are found on states of the burn-in of Gibbs chains, and tested on
samples after it. The published numbers are for one random model; here there are several, and the
spread between them is shown.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from .._typing import Array
from ..gof import gof_test
from ..models import GaussBernRBM
from ..plot.rates import rate_line
from ..refine import refine_slices
from ..slices import Slices, active_slices
from .report import (
    Block,
    Heading,
    Table,
    Text,
    agrees,
    count_rejection,
    figure_of,
    pyplot,
    show_rate,
)
from .runner import Row, Settings, Task

# Rejections and tests by method and perturbation, number of slices or epochs.
Counts: TypeAlias = dict[tuple[str, Any], list[int]]

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
AGGREGATE, AGGREGATE_TRAINED, KSD = (
    "aggregate (default)",
    "aggregate, slices from the burn-in",
    "KSD",
)
EXACT, KE, KE_DEBIASED, GE, GO = (
    "SKSD-rg+Ex",
    "SKSD-rg+KE",
    "SKSD-rg+KE, debiased",
    "SKSD-rg+GE",
    "SKSD-rg+GO",
)
RANDOM_EXACT, RANDOM_KE, RANDOM_GO = "randSKSD-g+Ex", "randSKSD-g+KE", "randSKSD-g+GO"
METHODS = (
    AGGREGATE,
    AGGREGATE_TRAINED,
    EXACT,
    KE,
    KE_DEBIASED,
    GE,
    GO,
    RANDOM_EXACT,
    RANDOM_KE,
    RANDOM_GO,
    KSD,
)
# Rejection rate and seconds to find slices, at 0.01.
PUBLISHED = {EXACT: (0.95, 0.04), KE: (0.67, 0.19), GO: (0.45, 10.15)}


def tasks(settings: Settings) -> list[Task]:
    return [
        dict(perturbation=perturbation, model=model, trial=trial)
        for trial in range(settings["trials"])
        for perturbation in settings["perturbations"]
        for model in range(settings["models"])
    ]


def run_task(task: Task, settings: Settings, rng: np.random.Generator) -> list[Row]:
    p = GaussBernRBM.random(
        settings["d"], settings["hidden"], rng=np.random.default_rng(task["model"])
    )
    q = p.perturbed(task["perturbation"], rng=rng)
    x = q.sample(settings["n"], burn_in=settings["burn_in"], rng=rng)
    train = q.burn_in_samples(settings["train"], burn_in=settings["burn_in"], rng=rng)
    trial = _Trial(p, q, x, train, settings, rng)
    m, epochs = settings["slices"], settings["go_epochs"]
    axes = np.eye(p.d)
    one_hot = axes[rng.choice(p.d, m, replace=False)]
    pvalues, seconds = {}, {}
    searches = {
        EXACT: lambda: trial.active("exact", n_slices=m),
        KE: lambda: trial.active("ke", n_slices=m),
        KE_DEBIASED: lambda: active_slices(train, p, n_slices=m),
        GE: lambda: trial.active("ge", n_slices=m),
        GO: lambda: trial.refined(Slices(axes, axes), epochs),
        RANDOM_EXACT: lambda: trial.active("exact", basis=one_hot),
        RANDOM_KE: lambda: trial.active("ke", basis=one_hot),
        RANDOM_GO: lambda: trial.refined(Slices(axes, axes), epochs, update="g"),
    }
    for name, search in searches.items():
        start = time.perf_counter()
        slices = search()
        seconds[name] = time.perf_counter() - start
        pvalues[name] = trial.pvalue(slices)
    common = dict(n_resamples=settings["n_resamples"], rng=rng)
    pvalues[AGGREGATE] = float(gof_test(x, p, **common).pvalue)
    pvalues[AGGREGATE_TRAINED] = float(gof_test(x, p, train=train, **common).pvalue)
    pvalues[KSD] = float(gof_test(x, p, method="ksd", **common).pvalue)
    ablations = (
        _ablations(trial, settings, axes)
        if task["perturbation"] == settings["at"]
        else {"pruning": [], "epochs": []}
    )
    return [dict(task, p=pvalues, seconds=seconds, **ablations)]


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
        score_q = self.q if estimator == "exact" else None
        return active_slices(
            self.train, self.p, estimator=estimator, score_q=score_q, debias=False, **options
        )

    def refined(self, slices: Slices, epochs: int, update: str = "rg") -> Slices:
        batch_size = min(100, self.train.shape[0])
        return refine_slices(
            self.train,
            self.p,
            slices,
            epochs=epochs,
            batch_size=batch_size,
            update=update,
            rng=self.rng,
        )

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
        for name, slices in ((EXACT, exact), (KE, ke), (GO, refined))
        for m in settings["pruning"]
    ]
    m = settings["slices"]
    starts = {
        f"{EXACT}+GO, {m}": exact[:m],
        f"{KE}+GO, {m}": ke[:m],
        f"{GO}, {m}": Slices(axes[:m], axes[:m]),
        f"{GO}, {len(axes)}": Slices(axes, axes),
    }
    epochs = [
        [name, count, trial.pvalue(trial.refined(start, count))]
        for name, start in starts.items()
        for count in [0, *settings["epochs"]]
    ]
    return {"pruning": pruning, "epochs": epochs}


def report(rows: list[Row], settings: Settings) -> list[Block]:
    counts: Counts = {}
    pruning: Counts = {}
    epochs: Counts = {}
    seconds: dict[str, list[float]] = {}
    by_model: dict[tuple[str, float, int], list[int]] = {}
    for row in rows:
        for method, pvalue in row["p"].items():
            count_rejection(counts, (method, row["perturbation"]), pvalue)
            count_rejection(by_model, (method, row["perturbation"], row["model"]), pvalue)
        for method, value in row["seconds"].items():
            seconds.setdefault(method, []).append(value)
        for found, values in ((pruning, row["pruning"]), (epochs, row["epochs"])):
            for method, place, pvalue in values:
                count_rejection(found, (method, place), pvalue)
    comparable = all(settings[name] == _COMMON[name] for name in _COMMON)
    return [
        Text(
            f"D = {settings['d']}, {settings['hidden']} hidden units, {settings['burn_in']} Gibbs "
            f"steps, {settings['n']} test samples, {settings['train']} states from the burn-in for "
            f"training; level 0.05. {settings['models']} random models, each with "
            f"{settings['trials']} perturbations and samples. Active slices: the top "
            f"{settings['slices']}, by the paper's own estimates unless marked 'debiased'. GO: r "
            f"and g from the coordinates, {settings['go_epochs']} epochs. rand: r is one-hot and "
            f"fixed, {settings['slices']} at random (all of them for GO)."
        ),
        Heading(f"At perturbation {settings['at']:g}"),
        Text(
            "The paper's numbers are for one random model, on a GPU. 'Agrees': the 95% interval of "
            "our rate covers the paper's."
            if comparable
            else "The paper's numbers are for its own sizes: not shown beside this scale."
        ),
        _table(counts, by_model, seconds, settings, comparable),
        *_remarks(counts, settings, comparable),
        figure_of(
            _figure(counts, pruning, epochs, settings),
            "Rejection rate against the perturbation; against the number of slices and against "
            f"epochs of GO at perturbation {settings['at']:g}. Bands: 95% intervals",
        ),
        Heading("All perturbations (0 is the level)"),
        Table(
            ["test", *(f"{value:g}" for value in settings["perturbations"])],
            [
                [
                    method,
                    *(show_rate(*counts[method, value]) for value in settings["perturbations"]),
                ]
                for method in METHODS
            ],
        ),
        Heading(f"Number of slices, perturbation {settings['at']:g}"),
        _ablation_table(pruning, "slices"),
        Heading(f"Epochs of gradient ascent, perturbation {settings['at']:g}"),
        _ablation_table(epochs, "epochs"),
    ]


def _table(
    counts: Counts,
    by_model: dict[tuple[str, float, int], list[int]],
    seconds: dict[str, list[float]],
    settings: Settings,
    comparable: bool,
) -> Table:
    table = []
    for method in METHODS:
        count = counts[method, settings["at"]]
        rate, paper_seconds = PUBLISHED.get(method, (None, None)) if comparable else (None, None)
        rates = [
            rejected / trials
            for rejected, trials in (
                by_model[method, settings["at"], k] for k in range(settings["models"])
            )
        ]
        table.append(
            [method, show_rate(*count), "" if rate is None else rate, agrees(*count, rate),
             f"{min(rates):.2f} to {max(rates):.2f}",
             f"{np.median(seconds[method]):.3f}" if method in seconds else "",
             "" if paper_seconds is None else paper_seconds]
        )  # fmt: skip
    header = ["test", "rejection rate (95% interval)", "paper", "agrees", "from model to model"]
    return Table([*header, "seconds to find slices, median", "paper (GPU)"], table)


def _remarks(counts: Counts, settings: Settings, comparable: bool) -> Iterator[Block]:
    """Which rows differ from the paper's, and what explains the others."""
    if not comparable:
        return
    differ = [
        method
        for method, (rate, _) in PUBLISHED.items()
        if agrees(*counts[method, settings["at"]], rate) == "NO"
    ]
    if differ:
        yield Text(
            f"Rows that differ from the paper's: {', '.join(differ)}. The paper has one random "
            "model. Between ours the power varies as the fifth column shows, and a rate averaged "
            "over models is not the rate of one."
        )
    yield Text(
        "The coupling is x.B h / 2, as in the published test-bed. As printed in the paper, without "
        "the half, KE always rejects. The default family finds its slices on halves of the 1000 "
        "test samples; the other tests use 2000 states from the burn-in, as does the row "
        "'aggregate, slices from the burn-in'. GE estimates the score of q as nearly zero in 50 "
        "dimensions."
    )


def _ablation_table(counts: Counts, what: str) -> Table:
    places = sorted({place for _, place in counts})
    table = [
        [method, *(show_rate(*counts[method, place]) for place in places)]
        for method in dict.fromkeys(method for method, _ in counts)
    ]
    return Table(["test", *(f"{place} {what}" for place in places)], table)


_COLOURS = {
    AGGREGATE: "#000000",
    EXACT: "#0072b2",
    KE: "#009e73",
    GO: "#d55e00",
    KSD: "#cc79a7",
    GE: "#56b4e9",
}


def _figure(counts: Counts, pruning: Counts, epochs: Counts, settings: Settings) -> Any:
    plt = pyplot()
    figure, axes = plt.subplots(1, 4, figsize=(14, 3.4), sharey=True)
    places = settings["perturbations"]
    for method in (AGGREGATE, EXACT, KE, GE, GO, KSD):
        rate_line(
            axes[0], places, [counts[method, place] for place in places], method, _COLOURS[method]
        )
    for method, partner in ((EXACT, RANDOM_EXACT), (KE, RANDOM_KE), (GO, RANDOM_GO)):
        rate_line(
            axes[1], places, [counts[method, place] for place in places], method, _COLOURS[method]
        )
        rate_line(
            axes[1],
            places,
            [counts[partner, place] for place in places],
            partner,
            _COLOURS[method],
            "--",
        )
    for axis, found in ((axes[2], pruning), (axes[3], epochs)):
        for method in dict.fromkeys(name for name, _ in found):
            sizes = [place for name, place in found if name == method]
            colour = next(_COLOURS[base] for base in (EXACT, KE, GO) if method.startswith(base))
            dashes = "--" if method == f"{GO}, {settings['slices']}" else "-"
            rate_line(axis, sizes, [found[method, size] for size in sizes], method, colour, dashes)
    titles = (
        "methods",
        "r active or fixed",
        f"perturbation {settings['at']:g}",
        f"perturbation {settings['at']:g}",
    )
    labels = ("perturbation", "perturbation", "number of slices", "epochs of GO")
    for axis, title, label in zip(axes, titles, labels, strict=True):
        axis.set_title(title, fontsize=9)
        axis.set_xlabel(label)
        axis.axhline(0.05, color="grey", linewidth=0.6)
        axis.set_ylim(-0.03, 1.4)  # with room for the legend
        axis.set_yticks(np.linspace(0.0, 1.0, 6))
        axis.legend(fontsize=6.5, ncol=2, loc="upper left", frameon=False, handlelength=3.0)
    axes[0].set_ylabel("rejection rate")
    for axis in axes[:2]:
        axis.set_xticks(places, [f"{place:g}" for place in places], fontsize=7, rotation=45)
    axes[2].set_xscale("log")
    axes[2].minorticks_off()
    axes[2].set_xticks(settings["pruning"], [str(m) for m in settings["pruning"]])
    figure.tight_layout()
    return figure
