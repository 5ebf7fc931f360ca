"""A forest plot of effect sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..effects import Effects
from ..report.tables import strongest_effects
from .canvas import (
    BARS,
    BLACK,
    BLUE,
    GREY,
    RED,
    add_legend,
    axes_or_new,
    check_result,
    counted_title,
    in_plain_words,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..result import GofResult

_FARTHEST = 10.0  # deviations that the axis shows
_WIDEST = 3.0  # logarithm of the widest stretch that an interval makes room for


@in_plain_words
def effects(what: GofResult | Effects, *, ax: Axes | None = None) -> Axes:
    """Draw a forest plot of effect sizes: shifts and stretches with their intervals.

    Shifts are circles, to be read on the lower axis, and stretches are squares, on the upper one.
    They are filled where the interval excludes a correct model. Intervals of rows whose numbers are
    rough (`Effects.rough`) are grey and dashed.

    Parameters
    ----------
    what : GofResult or Effects
        A test, or effect sizes. The strongest rows are shown.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on.

    See Also
    --------
    fastsksd.GofResult.effects : The same as a table.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> from matplotlib.figure import Figure
    >>> x = np.random.default_rng(0).standard_normal((100, 2)) * [0.5, 1.0]
    >>> ax = fs.plot.effects(fs.effect_sizes(x, np.negative), ax=Figure().subplots())
    >>> ax.get_xlabel()
    'shift (standard deviations of the model)'
    """
    if not isinstance(what, Effects):
        check_result(what)
        what = what.effects
    return draw_forest((what,), ax)


@in_plain_words
def draw_forest(tables: Sequence[Effects], ax: Axes | None) -> Axes:
    """A forest plot of one table above another, with a line between them."""
    ax = axes_or_new(ax)
    what = tables[0]
    shown = [strongest_effects(table, BARS) for table in tables]
    rows = [row for some in shown for row in some]
    limits = np.array([-0.05, 0.05])
    for place, row in enumerate(rows):
        for value, interval, far, style, colour, step in (
            (row.shift, row.shift_interval, row.shifted, "o", BLUE, -0.16),
            (row.stretch, row.stretch_interval, row.stretched, "s", RED, 0.16),
        ):
            if not np.isfinite(value):
                continue
            ends = np.array([value, *interval])
            if style == "s":
                with np.errstate(divide="ignore"):
                    ends = np.log(ends)
            ends = np.clip(np.nan_to_num(ends, nan=ends[0]), -100.0, 100.0)
            # An interval that says nothing runs out of the picture, and does not set its scale.
            most = _FARTHEST if style == "o" else max(_WIDEST, 1.5 * abs(ends[0]))
            near = np.clip(ends, -most, most)
            limits = np.array([min(limits[0], near.min()), max(limits[1], near.max())])
            colour = GREY if row.rough else colour
            line = "--" if row.rough else "-"
            ax.plot(ends[1:], [place + step] * 2, line, color=colour, linewidth=1.5)
            face = colour if far else "white"
            ax.plot(
                ends[:1], [place + step], style, color=colour, markerfacecolor=face, markersize=5
            )
    ax.axvline(0.0, color=BLACK, linewidth=0.8)
    ax.set_yticks(range(len(rows)), [row.name for row in rows], fontsize="small")
    ax.set_ylim(len(rows) - 0.4, -0.6)
    for line in np.cumsum([len(some) for some in shown])[:-1].tolist():
        ax.axhline(line - 0.5, color=BLACK, linewidth=0.5, linestyle=":")
    margin = 0.1 * float(np.ptp(limits))
    ax.set_xlim(max(limits[0] - margin, -_FARTHEST), min(limits[1] + margin, _FARTHEST))
    ax.locator_params(axis="x", nbins=6)
    ax.set_xlabel("shift (standard deviations of the model)")
    _add_stretch_axis(ax)
    for style, colour, label in (("o", BLUE, "shift"), ("s", RED, "stretch")):
        ax.plot([], [], style, color=colour, label=label)
    if any(row.rough for row in rows):
        ax.plot([], [], "--", color=GREY, label="numbers are rough")
    add_legend(ax)
    title = counted_title("Effect sizes", len(shown[0]), len(what))
    ax.set_title(f"{title}, {what.level:.0%} intervals", fontsize="medium")
    return ax


def _add_stretch_axis(ax: Axes) -> None:
    """An axis on top that shows ``exp`` of the lower one."""
    low, high = np.exp(ax.get_xlim())
    some = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0]
    ticks = [tick for tick in some if low <= tick <= high]
    if len(ticks) < 4:
        for fine in (0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001):
            ticks = [1.0 + fine * k for k in range(-20, 21) if low <= 1.0 + fine * k <= high]
            if len(ticks) >= 4:
                break
    if len(ticks) > 12:  # they would run into each other
        ticks = [10.0**k for k in range(-9, 10) if low <= 10.0**k <= high]
    top = ax.secondary_xaxis("top")
    top.set_xticks(np.log(ticks), [f"{tick:.4g}" for tick in ticks], fontsize="small")
    top.set_xlabel("stretch (width of the samples / width of the model)", fontsize="small")
