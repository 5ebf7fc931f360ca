"""Benchmark tests of the paper (Section "Benchmark GOF tests"): rejection rates and seconds.

r is the coordinate basis (SKSD-g); g is active, refined by gradients (GO), or both. All sliced
tests share one split into training and test samples. The multivariate t is tested twice: against
N(0, 5/3 I), as stated, and against N(0, I), which the published script builds before it scales the
covariance.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from .._typing import Array
from ..baselines import BASELINES, as_baseline
from ..gof import gof_test
from ..models import Gaussian, Model
from ..plot.rates import rate_line
from ..refine import refine_slices
from ..result import GofResult
from ..slices import Slices, random_slices
from .problems import Problem, make_null, make_problem
from .report import (
    Block,
    Heading,
    Table,
    Text,
    agrees,
    count_rejection,
    figure_of,
    log_axis,
    pyplot,
    shared_legend,
    show_rate,
)
from .runner import Row, Settings, Task

# Rejections and tests by (method, problem, d), or by (method, epochs, problem).
Counts: TypeAlias = dict[tuple[str, Any, Any], list[int]]
Seconds: TypeAlias = dict[tuple[str, Any, Any], list[float]]

FIGURES = True
TITLE = "Benchmark goodness-of-fit tests"
T_AS_RUN = "Student t, p = N(0, I)"
PROBLEMS = ("Laplace", "Student t", T_AS_RUN, "diffusion")
NULL = "null: p = q = N(0, I)"
_COMMON = dict(
    problems=[*PROBLEMS, NULL],
    n=1000,
    train=200,
    batch_size=50,
    ke_batch_size=20,
    n_resamples=1000,
    baselines=list(BASELINES),
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
AGGREGATE = "aggregate (default)"
EXACT, GE, KE, KE_GO = "SKSD-g+Ex", "SKSD-g+GE", "SKSD-g+KE", "SKSD-g+KE+GO"
KE_GO_WIDE = "SKSD-g+KE+GO, minibatches as GO"
GO, GO_UNIT = "SKSD-g+GO", "SKSD-g+GO, unit g"
# Rejection rate and seconds per trial, on a GPU, in 100 dimensions. On the diffusion the paper's
# row "KE+GO" has no refinement.
_STUDENT = {
    EXACT: (1.0, 0.49),
    GO: (0.67, 44.24),
    KE_GO: (0.97, 2.38),
    KE_GO_WIDE: (0.97, 2.38),
    GE: (1.0, 0.67),
}
PUBLISHED = {
    "Laplace": {
        EXACT: (1.0, 0.38),
        GO: (0.58, 39.39),
        KE_GO: (0.99, 2.72),
        KE_GO_WIDE: (0.99, 2.72),
        GE: (1.0, 0.66),
    },
    "Student t": _STUDENT,
    T_AS_RUN: _STUDENT,
    "diffusion": {EXACT: (1.0, 0.34), GO: (0.96, 34.73), KE: (1.0, 0.43), GE: (1.0, 0.78)},
}


def tasks(settings: Settings) -> list[Task]:
    return [
        dict(problem=problem, d=d, trial=trial)
        for d in settings["d"]
        for problem in settings["problems"]
        for trial in range(settings["last_trials" if d == settings["d"][-1] else "trials"])
    ]


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
        AGGREGATE: _timed(lambda: gof_test(x, p, **common)),
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
        outcomes[_label(method)] = _timed(
            lambda method=method: _baseline_test(x, p, method, common)
        )
    pvalues, seconds = ({name: outcome[k] for name, outcome in outcomes.items()} for k in (0, 1))
    return [dict(task, p=pvalues, seconds=seconds, sweep=sweep)]


def _problem(name: str, d: int, rng: np.random.Generator) -> Problem:
    if name == NULL:
        return make_null("normal", d, rng)
    if name == T_AS_RUN:
        return Problem(Gaussian(np.zeros(d), 1.0), make_problem("Student t", d, rng).q, "normal")
    return make_problem(name, d, rng)


def _timed(test: Callable[[], GofResult]) -> tuple[float, float]:
    start = time.perf_counter()
    pvalue = float(test().pvalue)
    return pvalue, time.perf_counter() - start


def _baseline_test(x: Array, p: Model, method: str, common: dict[str, Any]) -> GofResult:
    """The published test of that name, with its own number of replicates where it has one."""
    if as_baseline(method).n_resamples is not None:
        common = {"rng": common["rng"]}
    return gof_test(x, p, method=method, **common)


def _label(method: str) -> str:
    return BASELINES[method].title


def _methods(settings: Settings) -> list[str]:
    return [
        AGGREGATE,
        EXACT,
        GE,
        KE,
        KE_GO,
        KE_GO_WIDE,
        GO,
        GO_UNIT,
        *map(_label, settings["baselines"]),
    ]


def report(rows: list[Row], settings: Settings) -> list[Block]:
    counts: Counts = {}
    sweep: Counts = {}
    seconds: Seconds = {}
    for row in rows:
        cell = row["problem"], row["d"]
        for method, pvalue in row["p"].items():
            count_rejection(counts, (method, *cell), pvalue)
            seconds.setdefault((method, *cell), []).append(row["seconds"][method])
        for method, epochs, pvalue, time_taken in row["sweep"]:
            count_rejection(sweep, (method, epochs, row["problem"]), pvalue)
            seconds.setdefault((method, epochs, row["problem"]), []).append(time_taken)
    d = settings["d"][-1]
    comparable = d == 100 and settings["n"] == 1000 and settings["go_epochs"] == 1000
    words = (
        "The paper's numbers are means of 100 trials on a GPU. 'Agrees': the 95% interval of our "
        "rate covers the paper's rate. The paper's rate is uncertain too, by about 0.1 near a half."
        if comparable
        else "The paper's numbers are for 100 dimensions, 1000 samples and 1000 epochs of GO: "
        "not shown beside this scale."
    )
    return [
        Text(
            f"{settings['trials']} trials per cell, {settings['last_trials']} in {d} dimensions; "
            f"{settings['n']} samples, {settings['train']} of them for training; level 0.05; "
            f"{settings['n_resamples']} bootstrap replicates. GO: {settings['go_epochs']} epochs "
            f"from random g; KE+GO: {settings['ke_go_epochs']} epochs from active g. Minibatches "
            f"of {settings['batch_size']} for GO and of {settings['ke_batch_size']} for KE+GO, "
            "where more steps in an epoch help (both are shown). 'unit g' ascends with vectors of "
            "length 1, the published code with a Gaussian vector, whose steps on the sphere are "
            "sqrt(D) times smaller. Ex, GE and KE are the paper's own estimates (debias=False). "
            "Tests without slices and the package's default use all samples."
        ),
        Heading(f"Rejection rates and seconds per test in {d} dimensions"),
        Text(words),
        _table(counts, seconds, settings, d, comparable),
        *_disagreements(counts, settings, d, comparable),
        figure_of(
            _figure(counts, sweep, settings),
            f"Above: rejection rate against the dimension. Below: against epochs of GO, in {d} "
            "dimensions. Bands: 95% intervals",
        ),
        Heading("Level: rejection rate where the model is right"),
        _levels(counts, settings),
        Heading("All dimensions"),
        *_all_dimensions(counts, settings),
        Heading(f"Epochs of gradient ascent, {d} dimensions"),
        _sweep_table(sweep, settings),
        Heading(f"What active slices save over gradient ascent from random ones, {d} dimensions"),
        Text(
            f"KE+GO with {settings['ke_go_epochs']} epochs against GO with as many, and with the "
            "fewest epochs, of those tried, at which GO rejects as often. Seconds: medians of a "
            "whole test, slices included; times saved: the seconds of GO over those of KE+GO."
        ),
        _savings_table(sweep, seconds, settings),
    ]


def _alternatives(settings: Settings) -> list[str]:
    return [problem for problem in settings["problems"] if problem != NULL]


def _table(counts: Counts, seconds: Seconds, settings: Settings, d: int, comparable: bool) -> Table:
    table = []
    for problem in settings["problems"]:
        for method in _methods(settings):
            count = counts[method, problem, d]
            rate, paper_seconds = (
                PUBLISHED.get(problem, {}).get(method, (None, None)) if comparable else (None, None)
            )
            table.append(
                [problem, method, show_rate(*count), _or_blank(rate), agrees(*count, rate),
                 f"{np.median(seconds[method, problem, d]):.3f}", _or_blank(paper_seconds)]
            )  # fmt: skip
    header = [
        "problem",
        "test",
        "rejection rate (95% interval)",
        "paper",
        "agrees",
        "seconds per test, median",
        "paper (GPU)",
    ]
    return Table(header, table)


# Why a row differs from the paper's, by method and problem (None: all problems).
_REASONS = {
    (KE_GO_WIDE, None): (
        "on 200 training samples, an epoch is four steps with minibatches of 50 and ten with "
        "minibatches of 20. The paper does not state its size. With 100 epochs the large "
        "minibatches reach the same rate (table of epochs)."
    ),
    (GO, T_AS_RUN): (
        "against N(0, I) the variances differ as well, which is easier to detect. GO as published "
        "agrees with the problem as stated, so the paper's numbers seem to be for that one."
    ),
    (GO, None): (
        "it ascends from random directions for a fixed time; how far it gets differs from trial to "
        "trial."
    ),
}


def _disagreements(counts: Counts, settings: Settings, d: int, comparable: bool) -> Iterator[Block]:
    """Which rows differ from the paper's, and why; and where the paper has only a curve."""
    if not comparable:
        return
    yield Heading("Where this differs from the paper, and why")
    found = False
    for problem in _alternatives(settings):
        for method, (rate, _) in PUBLISHED[problem].items():
            if agrees(*counts[method, problem, d], rate) == "NO":
                found = True
                reason = (
                    _REASONS.get((method, problem))
                    or _REASONS.get((method, None))
                    or "the reason is not known."
                )
                yield Text(f"{problem}, {method}: {reason}")
    if not found:
        yield Text("No row with a published number differs.")
    yield Text(
        "RFSD (L1-IMQ): the paper shows a curve that does well on Laplace and t and fails on the "
        "diffusion, without settings. Ours draws its locations near the samples, as its authors' "
        "code does. Drawn as in their paper, far from the samples, it has little power from 10 "
        "dimensions on (`baselines.RFSD(scale='paper')`). Our null distribution is drawn from the "
        "model; theirs is normal, with nominal levels for each dimension."
    )


def _or_blank(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _levels(counts: Counts, settings: Settings) -> Table:
    table = []
    for method in _methods(settings):
        cells = [counts[method, NULL, d] for d in settings["d"]]
        table.append(
            [
                method,
                *(f"{rejected / trials:.2f}" for rejected, trials in cells),
                show_rate(*np.sum(cells, axis=0)),
            ]
        )
    return Table(["test", *(f"D = {d}" for d in settings["d"]), "all (95% interval)"], table)


def _all_dimensions(counts: Counts, settings: Settings) -> Iterator[Block]:
    for problem in _alternatives(settings):
        yield Text(f"{problem}:")
        table = [
            [
                method,
                *(
                    f"{counts[method, problem, d][0] / counts[method, problem, d][1]:.2f}"
                    for d in settings["d"]
                ),
            ]
            for method in _methods(settings)
        ]
        yield Table(["test", *(f"D = {d}" for d in settings["d"])], table)


def _sweep_table(sweep: Counts, settings: Settings) -> Table:
    table = [
        [
            method,
            epochs,
            *(show_rate(*sweep[method, epochs, problem]) for problem in settings["problems"]),
        ]
        for method, epochs in dict.fromkeys((method, epochs) for method, epochs, _ in sorted(sweep))
    ]
    return Table(["test", "epochs", *settings["problems"]], table)


def _savings_table(sweep: Counts, seconds: Seconds, settings: Settings) -> Table:
    def cell(method: str, epochs: int, problem: str) -> tuple[float, float]:
        rejected, trials = sweep[method, epochs, problem]
        return rejected / trials, float(np.median(seconds[method, epochs, problem]))

    table = []
    for problem in _alternatives(settings):
        rate, ours = cell(KE_GO, settings["ke_go_epochs"], problem)
        for method in (GO, GO_UNIT):
            tried = sorted({epochs for name, epochs, _ in sweep if name == method})
            row = [problem, f"{rate:.2f} in {ours:.2f} s", method]
            same = (
                cell(method, settings["ke_go_epochs"], problem)
                if settings["ke_go_epochs"] in tried
                else None
            )
            row.append(
                "" if same is None else f"{same[0]:.2f} in {same[1]:.2f} s: {same[1] / ours:.1f}"
            )
            enough = [epochs for epochs in tried if cell(method, epochs, problem)[0] >= rate]
            reached, theirs = cell(method, enough[0] if enough else tried[-1], problem)
            if enough:
                row.append(
                    f"{enough[0]} epochs, {reached:.2f} in {theirs:.2f} s: {theirs / ours:.1f}"
                )
            else:
                row.append(
                    f"not by {tried[-1]} epochs, {reached:.2f} in {theirs:.2f} s: "
                    f"more than {theirs / ours:.1f}"
                )
            table.append(row)
    return Table(
        [
            "problem",
            KE_GO,
            "against",
            "at equal epochs, times saved",
            "at equal power, times saved",
        ],
        table,
    )


_LINES = {
    AGGREGATE: ("#000000", "-", "o"),
    EXACT: ("#0072b2", "-", "^"),
    GE: ("#56b4e9", "--", "v"),
    KE: ("#009e73", ":", "x"),
    KE_GO: ("#009e73", "-", "D"),
    KE_GO_WIDE: ("#009e73", "--", "d"),
    GO: ("#d55e00", "-", "s"),
    GO_UNIT: ("#e69f00", "--", "s"),
}
_BASELINE_COLOURS = ("#cc79a7", "#7f7f7f", "#8c564b", "#9467bd", "#bcbd22")


def _figure(counts: Counts, sweep: Counts, settings: Settings) -> Any:
    plt = pyplot()
    problems = settings["problems"]
    styles = _LINES | {
        _label(method): (colour, "-.", "P")
        for method, colour in zip(settings["baselines"], _BASELINE_COLOURS, strict=False)
    }
    figure, axes = plt.subplots(
        2, len(problems), figsize=(2.9 * len(problems), 5.4), sharey=True, squeeze=False
    )
    for column, problem in enumerate(problems):
        upper, lower = axes[:, column]
        for method, style in styles.items():
            cells = [counts[method, problem, d] for d in settings["d"]]
            _line(upper, settings["d"], cells, style, method, band=method in (AGGREGATE, KE_GO, GO))
        for method in (KE_GO, KE_GO_WIDE, GO, GO_UNIT):
            epochs = sorted(
                count for name, count, where in sweep if (name, where) == (method, problem)
            )
            cells = [sweep[method, count, problem] for count in epochs]
            _line(lower, [max(1, count) for count in epochs], cells, styles[method], method)
        upper.set_title(problem, fontsize=9)
        log_axis(upper, settings["d"], "dimension")
        # Active g without refinement is drawn at the left edge, since zero has no logarithm.
        log_axis(
            lower,
            sorted({count for _, count, _ in sweep if count}),
            "epochs of GO",
            first=(1, "KE"),
        )
    for axis in axes[:, 0]:
        axis.set_ylabel("rejection rate")
    shared_legend(figure, axes[0, 0], columns=7)
    return figure


def _line(
    axis: Any,
    places: Sequence[float],
    counts: Sequence[Sequence[int]],
    style: tuple[str, str, str],
    label: str,
    band: bool = True,
) -> None:
    colour, dashes, marker = style
    rate_line(axis, places, counts, label, colour, dashes, marker, band=band)
    axis.axhline(0.05, color="grey", linewidth=0.6)
    axis.set_ylim(-0.03, 1.03)
