"""Report of the tests of restricted Boltzmann machines: tables, claims and figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .._validate import counted
from ..plot.canvas import BLACK, BLUE, GREEN, ORANGE, PINK, RED, SKY
from . import published
from .figures import Line, draw_rates, log_places, number_axis, panels
from .published import DEFAULT, RBM_EXACT, RBM_GE, RBM_GO, RBM_KE
from .report import Block, Figure, Heading, Items, Table, Text, count_rejection, show_rate
from .runner import Row, Settings
from .verdicts import BETTER, WORSE, Claim, Count, claims_table, printed, spread_of_models, verdict

# Rejections and tests by method and perturbation, number of slices or epochs.
Counts: TypeAlias = dict[tuple[str, Any], list[int]]

DEFAULT_TRAINED = "default, slices from the burn-in"
KE_DEBIASED, KSD = "SKSD-rg+KE, debiased", "KSD"
RANDOM_EXACT, RANDOM_KE, RANDOM_GO = "randSKSD-g+Ex", "randSKSD-g+KE", "randSKSD-g+GO"
METHODS = (
    DEFAULT,
    DEFAULT_TRAINED,
    RBM_EXACT,
    RBM_KE,
    KE_DEBIASED,
    RBM_GE,
    RBM_GO,
    RANDOM_EXACT,
    RANDOM_KE,
    RANDOM_GO,
    KSD,
)
# What the numbers of the paper are for.
PUBLISHED_SETTINGS = dict(
    d=50, hidden=40, n=1000, train=2000, burn_in=2000, n_resamples=1000, slices=3, go_epochs=50,
    at=0.01,
)  # fmt: skip


class _Found(NamedTuple):
    counts: Counts
    by_model: dict[tuple[str, int], list[int]]  # at the perturbation of the table
    pruning: Counts
    epochs: Counts
    seconds: dict[str, list[float]]


def report(rows: list[Row], settings: Settings) -> list[Block]:
    found = _collected(rows, settings["at"])
    comparable = all(settings[name] == value for name, value in PUBLISHED_SETTINGS.items())
    at = f"perturbation {settings['at']:g}"
    return [
        Text(
            f"D = {settings['d']}, {settings['hidden']} hidden units, {settings['burn_in']} Gibbs "
            f"steps, {settings['n']} test samples, {settings['train']} states from the burn-in for "
            f"training; level 0.05. Planned are {settings['models']} random models, each with "
            f"{settings['trials']} perturbations and samples; the tables say how many there are. "
            f"Active slices: the top {settings['slices']}, by the paper's own estimates unless "
            f"marked 'debiased'. GO: r and g from the coordinates, {settings['go_epochs']} epochs. "
            f"rand: r is one-hot and fixed, {settings['slices']} at random (all of them for GO)."
        ),
        Heading(f"At {at}"),
        Text(_COMPARABLE if comparable else _NOT_COMPARABLE),
        _table(found, settings, comparable),
        *(_reasons(found, settings) if comparable else ()),
        Text(
            "The coupling is x.B h / 2, as in the published test-bed. The default finds its "
            f"slices on halves of the test samples; the other tests use {settings['train']} states "
            f"from the burn-in, as does the row '{DEFAULT_TRAINED}'."
        ),
        *(_speed(found.seconds) if comparable else ()),
        *([Heading("Claims"), claims_table(_claims(found, settings))] if comparable else ()),
        Heading("Against the perturbation (0 is the level)"),
        Figure(
            lambda: _against_perturbation(found.counts, settings),
            "Rejection rate against the perturbation. Left: the tests of the paper and the "
            "default (the paper's figure of the RBM, left). Right: active r, and r fixed at random "
            "coordinates (rand; its appendix). Bars: 95% intervals; grey: the level",
        ),
        _by_place(
            found.counts,
            METHODS,
            settings["perturbations"],
            [f"{value:g}" for value in settings["perturbations"]],
        ),
        Heading(f"Number of slices and epochs, {at}"),
        Figure(
            lambda: _ablations(found, settings),
            f"Left: rejection rate against the number of slices, {at}. Right: against epochs of "
            "gradient ascent; the number is that of the slices (the paper's figure of the RBM, "
            "middle and right)",
        ),
        *(
            _ablation_table(counts, what)
            for counts, what in ((found.pruning, "slice"), (found.epochs, "epoch"))
        ),
    ]


_COMPARABLE = (
    "The paper has 100 trials of one random model, on a GPU. Verdict: the 95% interval of the "
    "difference of the two rates, with the spread between our models, covers 0 (agrees), or our "
    "rate is better or worse; with fewer than 10 trials it is open. CPU seconds on one thread, the "
    "median of all trials; 'times faster' compares with the paper's GPU."
)
_NOT_COMPARABLE = "The paper's numbers are for its own sizes: not shown beside this scale."


def _collected(rows: list[Row], at: float) -> _Found:
    found = _Found({}, {}, {}, {}, {})
    for row in rows:
        for method, pvalue in row["p"].items():
            count_rejection(found.counts, (method, row["perturbation"]), pvalue)
            if row["perturbation"] == at:
                count_rejection(found.by_model, (method, row["model"]), pvalue)
        for method, value in row["seconds"].items():
            found.seconds.setdefault(method, []).append(value)
        for counts, values in ((found.pruning, row["pruning"]), (found.epochs, row["epochs"])):
            for method, place, pvalue in values:
                count_rejection(counts, (method, place), pvalue)
    return found


def _models(found: _Found, method: str) -> list[Count]:
    return [count for (name, _), count in found.by_model.items() if name == method]


def _table(found: _Found, settings: Settings, comparable: bool) -> Table:
    header = ["test", "trials", "rejection rate (95% interval)", "from model to model",
              "CPU seconds to find slices"]  # fmt: skip
    if comparable:
        header = [*header[:3], "paper (95% interval)", "verdict", *header[3:], "times faster",
                  "paper, GPU seconds"]  # fmt: skip
    rows = []
    for method in METHODS:
        count = found.counts.get((method, settings["at"]))
        if count is None:
            continue
        rates = [rejected / trials for rejected, trials in _models(found, method)]
        ours = float(np.median(found.seconds[method])) if method in found.seconds else None
        row = [method, count[1], show_rate(*count), f"{min(rates):.2f} to {max(rates):.2f}",
               "" if ours is None else f"{ours:.2f}"]  # fmt: skip
        if comparable:
            paper = published.RBM.get(method)
            beside = ("", "") if paper is None else (
                show_rate(*printed(paper.rate)), _verdict(found, method, count)
            )  # fmt: skip
            speed = ("", "") if paper is None or ours is None else (
                f"{paper.seconds / ours:.2g}", f"{paper.seconds:g}"
            )  # fmt: skip
            row = [*row[:3], *beside, *row[3:], *speed]
        rows.append(row)
    return Table(header, rows)


def _verdict(found: _Found, method: str, count: Count) -> str:
    counts = _models(found, method)
    # Ours is a mean over models, the paper's is for one.
    spread = spread_of_models(counts) * np.sqrt(1 + 1 / len(counts))
    return verdict(count, published.RBM[method].rate, float(spread))


def _reasons(found: _Found, settings: Settings) -> Iterator[Block]:
    items = [
        f"{method}, {judged}: the paper has one random model. Between ours the power varies as the "
        "table shows, and a rate averaged over models is not the rate of one."
        for method in published.RBM
        if (count := found.counts.get((method, settings["at"])))
        and (judged := _verdict(found, method, count)) in (BETTER, WORSE)
    ]
    yield Text("Rows that differ from the paper's, and why:" if items else
               "No row with a published number differs beyond chance so far.")  # fmt: skip
    if items:
        yield Items(items)


def _speed(seconds: dict[str, list[float]]) -> Iterator[Block]:
    if RBM_GO in seconds:
        climb = float(np.median(seconds[RBM_GO]))
        ratios = [
            f"{method} {climb / np.median(seconds[method]):.0f} times "
            f"(paper {published.RBM[RBM_GO].seconds / published.RBM[method].seconds:.0f})"
            for method in (RBM_EXACT, RBM_KE)
            if method in seconds
        ]
        yield Text(f"Faster to find slices than {RBM_GO}: {', '.join(ratios)}.")


def _claims(found: _Found, settings: Settings) -> list[Claim]:
    at, m, d = settings["at"], settings["slices"], settings["d"]
    most = settings["epochs"][-1]

    def rate(method: str) -> Count | None:
        return found.counts.get((method, at))

    def pruned(method: str, count: int) -> Count | None:
        return found.pruning.get((method, count))

    def climbed(method: str, epochs: int) -> Count | None:
        return found.epochs.get((method, epochs))

    fifty = f"{RBM_GO}, {d}"
    return [
        Claim("The exact score difference is the best", rate(RBM_EXACT), rate(RBM_KE)),
        *(Claim(f"KE has more power than {other}", rate(RBM_KE), rate(other))
          for other in (RBM_GO, RBM_GE, KSD)),
        Claim("GE has less power than KSD", rate(KSD), rate(RBM_GE)),
        *(Claim(f"{method}: {m} slices have more power than all {d}", pruned(method, m),
                pruned(method, d)) for method in (RBM_EXACT, RBM_KE)),
        Claim(f"{RBM_GO} can't be pruned: {d} slices have more power than {m}",
              pruned(RBM_GO, d), pruned(RBM_GO, m)),
        Claim(f"KE gains by long refinement ({most} epochs)",
              climbed(f"{RBM_KE}+GO, {m}", most), climbed(f"{RBM_KE}+GO, {m}", 0)),
        Claim(f"Ex loses by long refinement ({most} epochs): it overfits",
              climbed(f"{RBM_EXACT}+GO, {m}", 0), climbed(f"{RBM_EXACT}+GO, {m}", most)),
        Claim(f"{RBM_GO} gains with the epochs ({most} against 10)", climbed(fifty, most),
              climbed(fifty, 10)),
        Claim("After 100 epochs GO is still below KE without any", climbed(f"{RBM_KE}+GO, {m}", 0),
              climbed(fifty, 100)),
        *(Claim(f"Active r is better than random coordinates: {method}", rate(method), rate(other))
          for method, other in ((RBM_EXACT, RANDOM_EXACT), (RBM_KE, RANDOM_KE),
                                (RBM_GO, RANDOM_GO))),
    ]  # fmt: skip


def _by_place(
    counts: Counts, methods: Sequence[str], places: Sequence[Any], names: Sequence[str]
) -> Table:
    trials = [max((n for (_, there), (_, n) in counts.items() if there == place), default=0)
              for place in places]  # fmt: skip
    rows = [
        [method, *(show_rate(*counts[method, place]) if (method, place) in counts else ""
                   for place in places)]
        for method in methods
    ]  # fmt: skip
    return Table(["test", *names], [["trials", *trials], *rows])


def _ablation_table(counts: Counts, what: str) -> Table:
    places = sorted({place for _, place in counts})
    methods = list(dict.fromkeys(method for method, _ in counts))
    return _by_place(counts, methods, places, [counted(place, what) for place in places])


_COLOURS = {DEFAULT: BLACK, RBM_EXACT: BLUE, RBM_KE: GREEN, RBM_GE: SKY, RBM_GO: RED, KSD: PINK}


def _line(
    counts: Counts, method: str, places: Sequence[Any], colour: str, dashes: str = "-"
) -> Line:
    there = [place for place in places if (method, place) in counts]
    name = method.removeprefix("SKSD-rg+").replace("randSKSD-g", "rand")
    return Line(name, there, [counts[method, place] for place in there], colour, dashes)


def _against_perturbation(counts: Counts, settings: Settings) -> Any:
    figure, axes = panels(2, width=4.6)
    places = settings["perturbations"]
    pairs = ((RBM_EXACT, RANDOM_EXACT), (RBM_KE, RANDOM_KE), (RBM_GO, RANDOM_GO))
    lines = (
        [_line(counts, method, places, colour) for method, colour in _COLOURS.items()],
        [
            _line(counts, method, places, _COLOURS[active], dashes)
            for active, fixed in pairs
            for method, dashes in ((active, "-"), (fixed, "--"))
        ],
    )
    for axis, some, title in zip(axes, lines, ("Tests", "r active, or random"), strict=True):
        axis.set_xlim(places[0] - 0.02 * places[-1], 1.03 * places[-1])
        number_axis(axis, np.linspace(places[0], places[-1], 4).round(3))
        draw_rates(axis, some, "perturbation", title)
    axes[0].set_ylabel("rejection rate", fontsize=8.5)
    return figure


def _ablations(found: _Found, settings: Settings) -> Any:
    figure, axes = panels(2, width=4.6)
    log_places(axes[0], settings["pruning"], {m: str(m) for m in settings["pruning"]})
    lines = [
        _line(found.pruning, method, settings["pruning"], _COLOURS[method])
        for method in (RBM_EXACT, RBM_KE, RBM_GO)
    ]
    draw_rates(axes[0], lines, "number of slices", "Pruning")
    epochs = [0, *settings["epochs"]]
    axes[1].set_xlim(-0.02 * epochs[-1], 1.03 * epochs[-1])
    number_axis(axes[1], [0, *settings["epochs"][1:]])
    m = settings["slices"]
    styles = {
        f"{RBM_EXACT}+GO, {m}": (BLUE, "-"),
        f"{RBM_KE}+GO, {m}": (GREEN, "-"),
        f"{RBM_GO}, {m}": (ORANGE, "--"),
        f"{RBM_GO}, {settings['d']}": (RED, "-"),
    }
    lines = [_line(found.epochs, method, epochs, *style) for method, style in styles.items()]
    draw_rates(axes[1], lines, "epochs of gradient ascent", "Refinement")
    axes[0].set_ylabel("rejection rate", fontsize=8.5)
    return figure
