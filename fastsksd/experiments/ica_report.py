"""Report of the training of ICA models: tables beside the paper's, claims and figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..learning import METHODS
from ..plot.canvas import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, RED
from . import published
from .figures import name_ends, number_axis, panels
from .report import Block, Figure, Heading, Items, Table, Text
from .runner import Row, Settings
from .verdicts import AGREES, BETTER, HOLDS, OPEN, WORSE, judged, mean_interval

Cells: TypeAlias = dict[tuple[int, str], list[Row]]

OWN, LSD = "sksd-scoring", "lsd"
_KE, _EX, _G, _RG, _KSD = "sksd-g+ke+go", "sksd-g+ex+go", "sksd-g+go", "sksd-rg+go", "ksd"


def report(rows: list[Row], settings: Settings) -> list[Block]:
    cells: Cells = {}
    lost: Cells = {}
    for row in rows:
        if "curve" not in row:
            found = lost if row["diverged"] else cells
            found.setdefault((row["d"], row["method"]), []).append(row)
    curves = [row for row in rows if "curve" in row and "value" in row]
    comparable = settings["steps"] == 15000 and settings["n_train"] == 20000
    return [
        Text(
            f"Student-t sources with 5 degrees of freedom; {settings['n_train']} training and "
            f"{settings['n_test']} test samples. Planned are {settings['runs']} runs; the table "
            "says how many there are. Each run has its own model, samples and initial model, which "
            f"all methods share. {settings['steps']} steps of Adam on minibatches of 100; for "
            f"{OWN}, this package's own method, {settings['scoring_steps']} Gauss-Newton steps on "
            "all samples. LSD is run only where JAX is installed."
        ),
        Heading("Test NLL after training"),
        Text(_GAP + (_COMPARABLE if comparable else _SHORTER)),
        _table(cells, lost, settings, comparable),
        *(_reasons(cells, lost, settings) if comparable else ()),
        *([Heading("Claims"), _claims_table(cells, lost, settings)] if comparable else ()),
        Heading("Course of training"),
        Figure(
            lambda: _courses(cells, settings),
            "Test NLL above that of the true model against the steps, the mean over the runs. "
            f"Bars: from the lowest to the highest run. Dotted: where {OWN} ends. (The paper's "
            "training curves)",
        ),
        *_loss_curves(curves, settings),
    ]


_FEWEST = 3  # runs, with fewer of which nothing is said
_GAP = (
    "The NLL of a true model differs from one random model to the next by a nat or two. So read "
    "the gap: the NLL above that of the true model on the same test samples, in nats. The paper "
    "does not report the NLL of its true models; its gap is to the mean over many models, and may "
    "be negative. Intervals are Student's, over the runs. Why the methods of the paper end above "
    "the truth is in the notes of `fastsksd.learning.fit_ica`. "
)
_COMPARABLE = (
    "Verdict: the two gaps differ by no more than their errors allow (agrees), or ours is lower "
    "(better) or higher (worse); the paper's +- is taken for the standard error of its five runs. "
    f"With fewer than {_FEWEST} runs it is open, and a method that diverges is worse. Milliseconds "
    "are CPU time of a step on one thread, slices and evaluations included, the median of all "
    "runs; 'times faster' compares with a step of SKSD-g+GO of the published PyTorch code on a CPU "
    "of the same kind."
)
_SHORTER = (
    "The paper's numbers, for 15000 steps, are shown for its dimensions; this run is shorter."
)


def _methods(*groups: Cells) -> list[str]:
    there = {method for cells in groups for _, method in cells}
    return [method for method in METHODS if method in there]


def _gaps(cells: Cells, d: int, method: str) -> list[float]:
    return [row["nll"] - row["truth"] for row in cells.get((d, method), ())]


def _table(cells: Cells, lost: Cells, settings: Settings, comparable: bool) -> Table:
    rows = []
    for d in settings["d"]:
        for method in _methods(cells, lost):
            runs, ended = cells.get((d, method), []), lost.get((d, method), [])
            if not runs and not ended:
                continue
            gaps = _gaps(cells, d, method)
            paper_nll = paper_gap = rated = faster = ""
            if d in published.ICA.get(method, {}):
                mean, error = published.ICA[method][d]
                paper_nll = f"{mean} +- {error}"
                paper_gap = f"{mean - published.ICA_TRUTH[d]:.2f} +- {error}"
                rated = _verdict(gaps, bool(ended), method, d) if comparable else ""
            ours = float(np.median([row["milliseconds"] for row in runs])) if runs else None
            if ours is not None and d in published.ICA_CPU and method in (_KE, _EX, _G, _RG):
                faster = f"{published.ICA_CPU[d] / ours:.0f}"
            rows.append(
                [d, method, len(runs) + len(ended), _with_interval(gaps), paper_gap, rated,
                 _with_interval([row["nll"] for row in runs]), paper_nll,
                 _mean([row["truth"] for row in runs]), "" if ours is None else f"{ours:.3g}",
                 faster, ", ".join(f"after {row['diverged']} steps" for row in ended)]
            )  # fmt: skip
    header = [
        "D",
        "method",
        "runs",
        "gap to the truth (95% interval)",
        "paper's gap",
        "verdict",
        "test NLL",
        "paper",
        "true model",
        "ms a step",
        "times faster",
        "diverged",
    ]
    return Table(header, rows)


def _verdict(gaps: Sequence[float], diverged: bool, method: str, d: int) -> str:
    from scipy import stats

    if diverged:
        return WORSE
    if len(gaps) < _FEWEST:
        return OPEN
    mean, error = published.ICA[method][d]
    difference = float(np.mean(gaps)) - (mean - published.ICA_TRUTH[d])
    half = mean_interval(gaps)[1] - float(np.mean(gaps))
    allowed = float(np.hypot(half, stats.t.ppf(0.975, published.ICA_RUNS - 1) * error))
    return AGREES if abs(difference) <= allowed else BETTER if difference < 0 else WORSE


# Why a method ends elsewhere than in the paper.
_REASONS = {
    _KSD: (
        "the paper does not say whether its KSD is a U- or a V-statistic; ours is the V-statistic, "
        "as for the sliced losses, at the median bandwidth of each minibatch."
    ),
    LSD: (
        "the paper does not state the critic; ours has two hidden layers of 300 units and one step "
        "for each step of the model."
    ),
}
_UNKNOWN = "the reason is not known; the paper's true models are not known either."


def _reasons(cells: Cells, lost: Cells, settings: Settings) -> Iterator[Block]:
    items = [
        f"D = {d}, {method}, {rated}: {_REASONS.get(method, _UNKNOWN)}"
        for d in settings["d"]
        for method in published.ICA
        if d in published.ICA[method]
        and (rated := _verdict(_gaps(cells, d, method), (d, method) in lost, method, d))
        in (BETTER, WORSE)
    ]
    if items:
        yield Text("Rows that differ from the paper's, and why:")
        yield Items(items)


def _claims_table(cells: Cells, lost: Cells, settings: Settings) -> Table:
    """Claims of the form: one method ends lower than another, on the same problems.

    None holds of a method that diverged. Runs in which the other diverged are left out.
    """
    higher = settings["d"][1:]
    claims = [
        *((f"{LSD} ends lower than {_KE}", LSD, _KE, d) for d in settings["d"][:2]),
        *((f"{_KE} ends lower than {other}", _KE, other, d) for d in higher
          for other in ((_EX, _G, _RG, LSD, _KSD) if d > settings["d"][1] else
                        (_EX, _G, _RG, _KSD))),
        *((f"{_G} ends lower than {_RG}: r must stay orthogonal", _G, _RG, d)
          for d in settings["d"]),
    ]  # fmt: skip
    rows = []
    for text, lower, upper, d in claims:
        first, second = (
            {row["run"]: row["nll"] for row in cells.get((d, method), ())}
            for method in (lower, upper)
        )
        differences = [second[run] - first[run] for run in first if run in second]
        said = judged(mean_interval(differences) if differences else None)
        if said == HOLDS and (d, lower) in lost:
            said = OPEN
        rows.append([d, text, len(differences), _with_interval(differences), said])
    return Table(["D", "claim", "runs", "by how much, nats (95% interval)", "verdict"], rows)


def _mean(values: Sequence[float]) -> str:
    return f"{np.mean(values):.2f}" if values else ""


def _with_interval(values: Sequence[float]) -> str:
    if len(values) < 2:
        return _mean(values)
    low, high = mean_interval(values)
    return f"{_mean(values)} ({low:.2f} to {high:.2f})"


_COLOURS = dict(zip(METHODS, (BLACK, GREEN, BLUE, ORANGE, RED, PINK, GREY), strict=True))


def _courses(cells: Cells, settings: Settings) -> Any:
    figure, axes = panels(len(settings["d"]), columns=2, width=4.6, sharey=False)
    for axis, d in zip(axes, settings["d"], strict=True):
        ends, values = [], [0.0]
        axis.set_yscale("symlog", linthresh=0.1)
        axis.set_xlim(-0.01 * settings["steps"], 1.02 * settings["steps"])
        number_axis(axis, [settings["steps"] * k // 3 for k in range(4)])
        for k, method in enumerate(_methods(cells)):
            runs = cells.get((d, method))
            if not runs:
                continue
            gaps = np.array([np.array(row["trace"]["nll"]) - row["truth"] for row in runs])
            end, colour = float(gaps[:, -1].mean()), _COLOURS[method]
            if method == OWN:
                axis.axhline(end, color=colour, linestyle=":", linewidth=1.0)
            else:
                steps = np.array(runs[0]["trace"]["step"])
                axis.plot(steps, gaps.mean(axis=0), color=colour, linewidth=1.4)
                some = slice(2 + k % 4, None, 4)
                axis.vlines(steps[some], gaps[:, some].min(axis=0), gaps[:, some].max(axis=0),
                            color=colour, linewidth=0.7, alpha=0.6)  # fmt: skip
                values += [float(gaps.min()), float(gaps.max())]
            ends.append((f"{method} {end:.1f}", end, colour))
            values.append(end)
        axis.set_ylim(1.5 * min(values) - 0.02, 1.5 * max(values) + 0.02)
        axis.set_title(f"D = {d}", fontsize=9.5, loc="left")
        axis.set_xlabel("steps", fontsize=8.5)
        name_ends(axis, ends)
    for axis in axes[::2]:
        axis.set_ylabel("nats above the truth", fontsize=8.5)
    return figure


def _loss_curves(curves: Sequence[Row], settings: Settings) -> Iterator[Block]:
    if not curves:
        return
    curve = settings["curve"]
    yield Heading(f"The loss between two searches, D = {curve['d']}")
    yield Figure(
        lambda: _loss_figure(curves),
        f"Training loss of steps {curve['since']} to {curve['steps']}, means of {curve['every']} "
        "steps. Grey: new active slices. (The last figure of the paper's appendix)",
    )
    rises = [f"{row['method']} {_rise(row):.2f}" for row in curves]
    yield Text(
        "How many times higher the loss is just after a search for slices than just before, the "
        f"median over these searches: {', '.join(rises)}. The paper reports such peaks for Ex and "
        "says that the loss falls again fast."
    )


_EVERY = 200  # steps between two searches, in the paper and by default


def _rise(row: Row) -> float:
    step, value = np.array(row["step"]), np.array(row["value"])
    after = np.flatnonzero((step[1:] - 1) // _EVERY > (step[:-1] - 1) // _EVERY) + 1
    return float(np.median(value[after] / value[after - 1])) if after.size else float("nan")


def _loss_figure(curves: Sequence[Row]) -> Any:
    figure, (axis,) = panels(1, width=6.5)
    ends = []
    for row in curves:
        colour = _COLOURS[row["method"]]
        axis.plot(row["step"], row["value"], color=colour, linewidth=1.2)
        ends.append((row["method"], row["value"][-1], colour))
    first, last = curves[0]["step"][0], curves[0]["step"][-1]
    for step in range(-(-first // _EVERY) * _EVERY, last + 1, _EVERY):
        axis.axvline(step, color=GREY, linewidth=0.5, zorder=0)
    axis.set_xlim(first, last)
    axis.set_ylim(0.0, 1.05 * max(max(row["value"]) for row in curves))
    axis.set_xlabel("steps", fontsize=8.5)
    axis.set_ylabel("training loss", fontsize=8.5)
    name_ends(axis, ends)
    return figure
