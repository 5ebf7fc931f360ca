"""Pictures of where a model fails: slices, the witness function along one, contributions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._typing import Array
from .._validate import ArgumentError, ArgumentTypeError, check_integer, check_probability
from ..report.directions import direction, direction_terms
from ..report.explanation import Explanation, SliceExplanation
from ..report.witness import Witness
from .canvas import (
    BARS,
    BLACK,
    BLUE,
    GREY,
    RED,
    SKY,
    add_bar_key,
    add_legend,
    axes_or_new,
    counted_title,
    draw_bars,
    in_plain_words,
    legend_on_top,
    short_p,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..result import GofResult

_DOTS = 3000  # samples shown
_LABELLED = 3
_LABEL_LINES = 16  # lines of text that fit beside the bars of a panel
_LABEL_WIDTH = 26  # characters of such a line
_SHAPES = {
    "narrow": "too narrow for the model",
    "wide": "too wide for the model",
    "low": "too low for the model",
    "high": "too high for the model",
    "peaked": "too many in the middle",
    "hollow": "too few in the middle",
    "tails": "peak too sharp, tails too heavy",
    "flat": "too flat, tails too light",
    "irregular": "irregular misfit",
    "across": "wrong dependence",
    "none": "the band contains zero everywhere",
}


@in_plain_words
def slices(
    what: GofResult | Explanation,
    *,
    ax: Axes | None = None,
    names: Sequence[str] | None = None,
    alpha: float = 0.05,
) -> Axes:
    """Draw the statistics of the strongest slices, with the coordinates they look along.

    Bars are filled where the adjusted p-value is at most `alpha`.

    Parameters
    ----------
    what : GofResult or Explanation
        A test along slices.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    names : sequence of str, optional
        Names of the coordinates, for a result.
    alpha : float
        Level of the test.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> from matplotlib.figure import Figure
    >>> x = np.random.default_rng(0).standard_normal((100, 2)) * [0.5, 1.0]
    >>> result = fs.gof_test(x, np.negative, n_resamples=99, rng=0)
    >>> ax = fs.plot.slices(result, ax=Figure().subplots())
    >>> bool(ax.get_xlabel())
    True
    """
    check_probability("alpha", alpha)
    explanation = _explanation_with_slices(what, names, BARS)
    ax = axes_or_new(ax)
    shown = explanation.slices[:BARS]
    d = len(explanation.names)
    significant = [one.pvalue_adjusted <= alpha for one in shown]
    lines = max(1, _LABEL_LINES // len(shown))
    labels = [_along(one, d, lines) for one in shown]
    draw_bars(ax, [one.statistic for one in shown], labels, significant)
    for row, one in enumerate(shown):
        ax.annotate(
            f"p {short_p(one.pvalue_adjusted)}",
            (max(one.statistic, 0.0), row),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize="x-small",
        )
    ax.margins(x=0.18)
    ax.axvline(0.0, color=BLACK, linewidth=0.8)
    ax.set_xlabel("statistic (p: adjusted p-value)")
    ax.set_title(
        counted_title("Slices, along g", len(shown), explanation.statistics.size), fontsize="medium"
    )
    if any(significant) and not all(significant):
        add_bar_key(ax, f"p at most {alpha:g}", f"p above {alpha:g}")
    return ax


@in_plain_words
def witness(
    what: GofResult | Explanation,
    *,
    which: int = 0,
    ax: Axes | None = None,
    names: Sequence[str] | None = None,
) -> Axes:
    """Draw the witness function of a slice with its confidence band.

    Below it is the density of the samples along g. What the title says about the samples holds
    given the other coordinates.

    Parameters
    ----------
    what : GofResult or Explanation
        A test along slices.
    which : int
        0 for the strongest slice, 1 for the next, ...
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    names : sequence of str, optional
        Names of the coordinates, for a result.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on.

    See Also
    --------
    fastsksd.report.witness : What a witness is.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> from matplotlib.figure import Figure
    >>> x = np.random.default_rng(0).standard_normal((100, 2)) * [0.5, 1.0]
    >>> result = fs.gof_test(x, np.negative, n_resamples=99, rng=0)
    >>> ax = fs.plot.witness(result, ax=Figure().subplots())
    >>> bool(ax.get_xlabel())
    True
    """
    which = check_integer("which", which, 0)
    explanation = _explanation_with_slices(what, names, which + 1)
    if which >= len(explanation.slices):
        count = len(explanation.slices)
        raise ArgumentError(
            "which", f"must be below the number of slices explained, {count}; got {which}"
        )
    one = explanation.slices[which]
    d = len(explanation.names)
    ax = draw_witness(axes_or_new(ax), one.witness, _along(one, d), one.aligned)
    title = f"Witness of slice {one.index}: {_SHAPES[one.shape]}"
    if d > 1 and one.shape != "none":
        title += ",\ngiven the other coordinates"
    r = direction(one.leading_r, d)
    if r != direction(one.leading_g, d):
        title += f"\nscore along r: {r}"
    ax.set_title(title, fontsize="medium")
    return ax


@in_plain_words
def samples(
    what: GofResult | Explanation, *, ax: Axes | None = None, names: Sequence[str] | None = None
) -> Axes:
    """Draw what each sample adds to the statistic, along g of the strongest slice.

    The largest contributions are labelled with their rows.

    Parameters
    ----------
    what : GofResult or Explanation
        A test along slices, or of a baseline whose statistic is a sum over pairs of samples.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    names : sequence of str, optional
        Names of the coordinates, for a result.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> from matplotlib.figure import Figure
    >>> x = np.random.default_rng(0).standard_normal((100, 2)) * [0.5, 1.0]
    >>> result = fs.gof_test(x, np.negative, n_resamples=99, rng=0)
    >>> ax = fs.plot.samples(result, ax=Figure().subplots())
    >>> bool(ax.get_xlabel())
    True
    """
    explanation = _explanation(what, names, n_slices=1)
    ax = axes_or_new(ax)
    values, rows = explanation.contributions, explanation.indices
    places = explanation.along if explanation.slices else rows
    some = np.arange(values.size)
    if some.size > _DOTS:  # the largest, and an even choice of the rest, which is in order
        some = np.unique(
            np.concatenate([some[: _DOTS // 10], np.linspace(0, some.size - 1, _DOTS).astype(int)])
        )
    ax.plot(
        places[some],
        values[some],
        ".",
        color=BLUE,
        markersize=3,
        alpha=0.6,
        rasterized=some.size > 500,
    )
    top = slice(0, min(_LABELLED, values.size))
    listed = f"rows {', '.join(explanation.said(_LABELLED))}"
    if explanation.draws is not None:
        listed = "\n".join(explanation.said(_LABELLED))
    ax.plot(
        places[top], values[top], "o", color="none", markeredgecolor=RED, markersize=8, label=listed
    )
    ax.axhline(values.mean(), color=BLACK, linestyle="--", linewidth=1.0, label="mean")
    ax.axhline(0.0, color=GREY, linewidth=0.8)
    ax.margins(x=0.08, y=0.1)
    if explanation.slices:
        _leave_out_outliers(ax, places, explanation.slices[0].witness.grid)
    ax.set_xlabel(
        _along(explanation.slices[0], len(explanation.names)) if explanation.slices else "row"
    )
    ax.set_ylabel("contribution")
    ax.set_title(f"Contributions of {values.size} samples", fontsize="medium")
    legend_on_top(ax, columns=2)
    return ax


@in_plain_words
def draw_witness(ax: Axes, witness: Witness, label: str, aligned: bool) -> Axes:
    """`aligned`: whether the push of the model is along the axis, so that an arrow can show it."""
    grid = witness.grid
    height = max(np.abs(witness.lower).max(), np.abs(witness.upper).max()) or 1.0
    floor = -1.55 * height
    density = floor + 0.45 * height * witness.density / witness.density.max()
    ax.fill_between(grid, floor, density, color="#d9d9d9", linewidth=0, label="samples")
    ax.fill_between(
        grid,
        witness.lower,
        witness.upper,
        color=SKY,
        alpha=0.35,
        linewidth=0,
        label=f"{witness.level:.0%} band",
    )
    ax.plot(grid, witness.values, color=BLUE, linewidth=1.8)
    ax.axhline(0.0, color=BLACK, linewidth=0.8)
    # Where zero is excluded: a bar on the axis, and an arrow for the push of the model.
    for k, region in enumerate(witness.regions):
        key = None if k else "band excludes zero"
        ax.plot(
            [region.low, region.high],
            [0.0, 0.0],
            color=RED,
            linewidth=3.5,
            solid_capstyle="butt",
            label=key,
        )
        if not aligned:
            continue
        middle = 0.5 * (region.low + region.high)
        reach = 0.04 * (grid[-1] - grid[0]) * region.sign
        level = -0.16 * height * region.sign
        ax.annotate(
            "",
            xy=(middle + reach, level),
            xytext=(middle - reach, level),
            arrowprops=dict(arrowstyle="-|>", color=RED, linewidth=1.5),
        )
    ax.set_ylim(floor, 1.45 * height)
    ax.set_xlim(grid[0], grid[-1])
    ax.set_xlabel(label)
    ax.set_ylabel("push of the model" if aligned else "push of the model along r")
    add_legend(ax, "upper center", ncol=3, columnspacing=1.0, handlelength=1.5)
    return ax


def _leave_out_outliers(ax: Axes, places: Array, grid: Array) -> None:
    """Limit the axis to the bulk of the samples, which outliers would squeeze to a line."""
    width = grid[-1] - grid[0]
    low, high = grid[0] - 2.0 * width, grid[-1] + 2.0 * width
    inside = places[(places >= low) & (places <= high)]
    if inside.size < places.size:
        ax.set_xlim(inside.min() - 0.1 * width, inside.max() + 0.1 * width)
        ax.plot([], [], " ", label=f"{places.size - inside.size} beyond the edges")


def _along(one: SliceExplanation, d: int, most: int = 3) -> str:
    """The direction g, in at most so many lines, which are broken between coordinates only."""
    lines = [""]
    for term in direction_terms(one.leading_g, d):
        longer = f"{lines[-1]} {term}".strip()
        if len(longer) <= _LABEL_WIDTH or not lines[-1] or term == "...":
            lines[-1] = longer
        elif len(lines) < most:
            lines.append(term)
        else:
            lines[-1] += " ..."
            break
    return "\n".join(lines)


def _explanation(
    what: GofResult | Explanation, names: Sequence[str] | None, n_slices: int
) -> Explanation:
    if isinstance(what, Explanation):
        return what
    if not hasattr(what, "explain"):
        raise ArgumentTypeError(
            "what", f"must be a GofResult or an Explanation, not {type(what).__name__}"
        )
    return what.explain(names=names, n_slices=n_slices)


def _explanation_with_slices(
    what: GofResult | Explanation, names: Sequence[str] | None, n_slices: int
) -> Explanation:
    explanation = _explanation(what, names, n_slices)
    if not explanation.slices:
        raise ArgumentError("what", "is of a method without slices")
    return explanation
