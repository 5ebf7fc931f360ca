"""Figures of the paper's studies: few lines to a panel, each with its name at its end."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..plot.canvas import GREY
from ..report.rates import interval
from .report import pyplot

_GAP = 0.062  # between two names, as a fraction of the height of a panel


class Line(NamedTuple):
    """Rejections and tests along an axis, with a name and a style."""

    name: str
    places: Sequence[float]
    counts: Sequence[Sequence[int]]
    colour: str
    dashes: str = "-"


def panels(
    count: int, *, columns: int | None = None, width: float = 3.6, sharey: bool = True
) -> tuple[Any, Sequence[Any]]:
    """A figure with `count` panels, and room for names at the right of each."""
    columns = columns or count
    rows = -(-count // columns)
    figure, grid = pyplot().subplots(
        rows, columns, figsize=(width * columns + 0.4, 2.9 * rows), sharey=sharey, squeeze=False
    )
    figure.subplots_adjust(wspace=0.62, hspace=0.42)
    for axis in grid.flat:
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
        axis.tick_params(labelsize=8)
    for axis in grid.flat[count:]:
        axis.remove()
    return figure, grid.flat[:count]


def draw_rates(axis: Any, lines: Sequence[Line], xlabel: str, title: str = "") -> None:
    """Draw rejection rates with 95% intervals as thin bars, side by side, and name the lines."""
    lines = _merged([line for line in lines if len(line.places)])
    ends = []
    for k, line in enumerate(lines):
        rates = [rejected / trials for rejected, trials in line.counts]
        places = shifted(axis, line.places, k - (len(lines) - 1) / 2)
        low, high = np.array([interval(*count) for count in line.counts]).T
        axis.vlines(places, low, high, color=line.colour, linewidth=0.7, alpha=0.55)
        style = dict(linewidth=1.4, marker="o", markersize=2.4)
        axis.plot(places, rates, line.dashes, color=line.colour, **style)
        ends.append((line.name, rates[-1], line.colour))
    axis.axhline(0.05, color=GREY, linewidth=0.6)
    axis.set_ylim(-0.03, 1.05)
    axis.set_yticks(np.linspace(0.0, 1.0, 6))
    axis.set_xlabel(xlabel, fontsize=8.5)
    axis.set_title(title, fontsize=9.5, loc="left")
    name_ends(axis, ends)


def _merged(lines: Sequence[Line]) -> list[Line]:
    """Lines that are the same everywhere as one, with all their names."""
    found: dict[str, Line] = {}
    for line in lines:
        line = line._replace(name=line.name.replace(" ", "\N{NO-BREAK SPACE}"))
        key = repr((line.places, line.counts))
        same = found.get(key)
        found[key] = line if same is None else same._replace(name=f"{same.name}, {line.name}")
    return list(found.values())


def shifted(axis: Any, places: Sequence[float], steps: float) -> np.ndarray:
    """Places moved by so many small steps, so that bars stand side by side."""
    low, high = axis.get_xlim()
    if axis.get_xscale() == "log":
        return np.asarray(places, dtype=float) * (high / low) ** (0.006 * steps)
    return np.asarray(places, dtype=float) + 0.006 * (high - low) * steps


def name_ends(axis: Any, ends: Sequence[tuple[str, float, str]]) -> None:
    """Write names at the right of a panel, each near the height of its line, none over another.

    `ends` has the name, the last value and the colour of each line. Limits must be set before.
    """
    if not ends:
        return
    ends = sorted(ends, key=lambda end: -end[1])
    wanted = axis.transAxes.inverted().transform(
        axis.transData.transform([(axis.get_xlim()[1], value) for _, value, _ in ends])
    )[:, 1]
    names = [textwrap.fill(name, 17) for name, _, _ in ends]
    heights = spread_out(wanted, [_GAP * (1 + name.count("\n")) for name in names])
    for name, (_, _, colour), start, height in zip(names, ends, wanted, heights, strict=True):
        beside = dict(transform=axis.transAxes, color=colour)
        axis.plot([1.01, 1.045], [start, height], linewidth=0.5, clip_on=False, **beside)
        axis.text(1.055, height, name, fontsize=7.5, va="center", linespacing=1.05, **beside)


def spread_out(wanted: Sequence[float], sizes: Sequence[float]) -> np.ndarray:
    """Heights in falling order, of things with these sizes: close to those wanted, none overlap."""
    above = np.concatenate([[0.0], np.cumsum((np.array(sizes)[1:] + np.array(sizes)[:-1]) / 2)])
    # Least squares under order constraints: pool those that would overlap.
    groups: list[list[float]] = []
    for height in np.array(wanted) + above:
        groups.append([height])
        while len(groups) > 1 and np.mean(groups[-2]) < np.mean(groups[-1]):
            last = groups.pop()
            groups[-1] += last
    return np.concatenate([np.full(len(group), np.mean(group)) for group in groups]) - above


def log_places(axis: Any, places: Sequence[float], ticks: Mapping[float, str]) -> None:
    """A logarithmic axis for these places, with a few named ticks."""
    axis.set_xscale("log")
    axis.set_xlim(places[0] / 1.12, places[-1] * 1.06)
    shown = [tick for tick in ticks if places[0] <= tick <= places[-1]]
    number_axis(axis, shown, [ticks[tick] for tick in shown])


def number_axis(axis: Any, ticks: Sequence[float], names: Sequence[str] | None = None) -> None:
    """Ticks with these numbers on a horizontal axis, and no others."""
    axis.set_xticks(ticks, names or [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
