"""Pictures of a test: null distribution, members, slices, witness, samples, effects, spectrum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._typing import Array
from .._validate import ArgumentError, ArgumentTypeError, check_integer, check_probability
from ..effects import Effects
from ..procedure.combine import Member
from ..report.directions import direction, direction_terms
from ..report.explain import Explanation, SliceExplanation
from ..report.tables import strongest_effects
from ..report.witness import Witness
from ..slices import Slices

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..result import GofResult
from .canvas import (
    _BARS,
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

_DOTS = 3000  # samples shown
_LABELLED = 3
_FARTHEST = 10.0  # deviations that a forest plot shows
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
def null(result: GofResult, *, ax: Axes | None = None, alpha: float = 0.05) -> Axes:
    """Draw the null distribution, with the statistic and the critical value at level `alpha`.

    For a family these are the evidence and its null distribution.

    Parameters
    ----------
    result : GofResult
        With replicates. A family with null="spectral" has none, see `members`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    alpha : float
        Level of the test.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on.

    See Also
    --------
    members : Adjusted p-values of the members of a family.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> from matplotlib.figure import Figure
    >>> x = np.random.default_rng(0).standard_normal((200, 2))
    >>> ax = fs.plot.null(fs.gof_test(x, np.negative, rng=0), ax=Figure().subplots())
    >>> ax.get_ylabel()
    'replicates'
    """
    check_probability("alpha", alpha)
    _check_result(result)
    values = result.null_distribution
    if values.size == 0:
        raise ArgumentError(
            "result",
            "has no null distribution: its members were combined by an inequality",
            remedy="See `fastsksd.plot.members`.",
        )
    ax = axes_or_new(ax)
    low, high = values.min(), values.max()
    critical = np.quantile(values, 1.0 - alpha)
    statistic = result.statistic if result.evidence is None else result.evidence
    width = (high - low) or abs(high) or 1.0
    far = not low - 2.0 * width <= statistic <= high + 2.0 * width
    ax.hist(
        values,
        bins=min(40, max(5, values.size // 10)),
        color="#cfcfcf",
        edgecolor="#8c8c8c",
        linewidth=0.4,
        label="if the model is correct",
    )
    ax.axvline(
        critical,
        color=BLACK,
        linestyle="--",
        linewidth=1.2,
        label=f"critical value, level {alpha:g}",
    )
    label = f"this test: {statistic:.3g}"
    if far:  # an arrow to it, so that the replicates keep their room
        edge, step = (high + 0.35 * width, 0.3) if statistic > high else (low - 0.35 * width, -0.3)
        ax.set_xlim(min(low - 0.05 * width, edge), max(high + 0.05 * width, edge))
        height = 0.45 * ax.get_ylim()[1]
        ax.annotate(
            "",
            xy=(edge, height),
            xytext=(edge - step * width, height),
            arrowprops=dict(arrowstyle="-|>", color=RED, linewidth=2.0),
        )
        ax.plot([], [], color=RED, linewidth=2.0, label=f"{label} (beyond the axis)")
    else:
        ax.axvline(statistic, color=RED, linewidth=2.0, label=label)
    ax.locator_params(axis="x", nbins=6)
    ax.set_xlabel(
        f"{result.method.upper()} statistic"
        if result.evidence is None
        else "evidence: -log10 of the members' combined p-value"
    )
    ax.set_ylabel("replicates")
    said = "too short to tell" if result.draws_needed else f"p-value {result.pvalue:.3g}"
    ax.set_title(f"Null distribution: {said}", fontsize="medium")
    legend_on_top(ax)
    return ax


@in_plain_words
def members(result: GofResult, *, ax: Axes | None = None, alpha: float = 0.05) -> Axes:
    """Draw the adjusted p-values of the strongest members of a family.

    Parameters
    ----------
    result : GofResult
        Of a family.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
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
    >>> ax = fs.plot.members(result, ax=Figure().subplots())
    >>> bool(ax.get_xlabel())
    True
    """
    check_probability("alpha", alpha)
    _check_result(result)
    if not result.members:
        raise ArgumentError("result", "has no members: it is not of a family")
    ax = axes_or_new(ax)
    shown = result.members[:_BARS]
    labels = [_member_label(member) for member in shown]
    if result.draws_needed:
        lacking = "samples are too few" if result.weighted else "chains are too short"
        raise ArgumentError("result", f"has no p-values: its {lacking} to tell")
    values = [-np.log10(member.adjusted_pvalue) for member in shown]
    draw_bars(ax, values, labels, [member.adjusted_pvalue <= alpha for member in shown])
    ax.axvline(
        -np.log10(alpha), color=BLACK, linestyle="--", linewidth=1.2, label=f"level {alpha:g}"
    )
    ax.set_xlabel("-log10 of the adjusted p-value")
    ax.set_title(counted_title("Members", len(shown), len(result.members)), fontsize="medium")
    add_legend(ax, "lower right")
    return ax


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
    explanation = _explanation_with_slices(what, names, _BARS)
    ax = axes_or_new(ax)
    shown = explanation.slices[:_BARS]
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
    ax = _draw_witness(axes_or_new(ax), one.witness, _along(one, d), one.aligned)
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
    listed = ", ".join(map(str, rows[top].tolist()))
    ax.plot(
        places[top],
        values[top],
        "o",
        color="none",
        markeredgecolor=RED,
        markersize=8,
        label=f"rows {listed}",
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
def spectrum(what: Slices | GofResult, *, ax: Axes | None = None) -> Axes:
    """Draw the eigenvalues of active slices, relative to the largest.

    They show how many slices to keep, and which directions g to trust.

    Parameters
    ----------
    what : Slices or GofResult
        From `active_slices`, or a test that searched for slices.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> from matplotlib.figure import Figure
    >>> x = np.random.default_rng(0).standard_normal((200, 4)) * [0.5, 1.0, 1.0, 1.0]
    >>> fs.plot.spectrum(fs.active_slices(x, np.negative), ax=Figure().subplots()).get_xlabel()
    'slice'
    """
    slices = what if isinstance(what, Slices) else getattr(what, "slices", None)
    if isinstance(slices, Slices) and slices.r_values is None:
        # The strongest member of a family may look along fixed slices.
        slices = getattr(what, "_active", None) or slices
    if not isinstance(slices, Slices):
        if hasattr(what, "slices"):
            raise ArgumentError("what", "is of a method without slices")
        raise ArgumentTypeError(
            "what", f"must be Slices or a GofResult that has them, not {type(what).__name__}"
        )
    if slices.r_values is None and (slices.g_values is None or slices.g_gaps is None):
        raise ArgumentError("what", "has no eigenvalues: the slices of `active_slices` have")
    ax = axes_or_new(ax)
    places = np.arange(len(slices))
    sure = np.ones(len(slices), dtype=bool)
    if slices.r_values is not None:
        values = slices.r_values / (np.abs(slices.r_values).max() or 1.0)
        ax.plot(
            places,
            values,
            "o-",
            color=BLUE,
            markersize=5,
            linewidth=1.0,
            label="r: mean squared score difference",
        )
        # An unbiased estimate of what can't be negative: negative values show the noise.
        noise = -values.min()
        if noise > 0:
            ax.axhspan(
                -noise, noise, color=BLUE, alpha=0.15, linewidth=0, label="r: range of the noise"
            )
            sure = values > noise
    if slices.g_values is not None and slices.g_gaps is not None:
        unit = np.abs(slices.g_values).max() or 1.0
        top, following = slices.g_values / unit, (slices.g_values - slices.g_gaps) / unit
        ax.vlines(places + 0.15, following, top, color=RED, linewidth=1.0, linestyle=":")
        for some, face, label in (
            (sure, RED, "g: top eigenvalue"),
            (~sure, "white", "g: top eigenvalue where r is noise"),
        ):
            if some.any():
                ax.plot(
                    places[some] + 0.15,
                    top[some],
                    "s",
                    color=RED,
                    markerfacecolor=face,
                    markersize=5,
                    label=label,
                )
        ax.plot(
            places + 0.15,
            following,
            "_",
            color=RED,
            markersize=8,
            label="g: second eigenvalue (a long gap makes g reliable)",
        )
    ax.axhline(0.0, color=BLACK, linewidth=0.8)
    ax.locator_params(axis="x", integer=True)
    ax.set_xlabel("slice")
    ax.set_ylabel("eigenvalue / largest")
    ax.set_title("Eigenvalues of the slices", fontsize="medium")
    legend_on_top(ax)
    return ax


@in_plain_words
def effects(what: GofResult | Effects, *, ax: Axes | None = None) -> Axes:
    """Draw a forest plot of effect sizes: shifts and stretches with their intervals.

    Shifts are circles, to be read on the lower axis, and stretches are squares, on the upper one.
    They are filled where the interval excludes a correct model.

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
        _check_result(what)
        what = what.effects
    ax = axes_or_new(ax)
    rows = strongest_effects(what, _BARS)
    for place, row in enumerate(rows):
        for value, interval, far, style, colour, step in (
            (row.shift, row.shift_interval, row.shifted, "o", BLUE, -0.16),
            (row.stretch, row.stretch_interval, row.stretched, "s", RED, 0.16),
        ):
            if not np.isfinite(value):
                continue
            ends = np.array([value, *interval])
            if style == "s":
                ends = np.log(np.clip(ends, 1e-6, 1e6))
            ax.plot(ends[1:], [place + step] * 2, color=colour, linewidth=1.5)
            face = colour if far else "white"
            ax.plot(
                ends[:1], [place + step], style, color=colour, markerfacecolor=face, markersize=5
            )
    ax.axvline(0.0, color=BLACK, linewidth=0.8)
    ax.set_yticks(range(len(rows)), [row.name for row in rows], fontsize="small")
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.margins(x=0.1)
    low, high = ax.get_xlim()
    ax.set_xlim(max(min(low, -0.05), -_FARTHEST), min(max(high, 0.05), _FARTHEST))
    ax.locator_params(axis="x", nbins=6)
    ax.set_xlabel("shift (standard deviations of the model)")
    _add_stretch_axis(ax)
    for style, colour, label in (("o", BLUE, "shift"), ("s", RED, "stretch")):
        ax.plot([], [], style, color=colour, label=label)
    add_legend(ax)
    title = counted_title("Effect sizes", len(rows), len(what))
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


@in_plain_words
def _draw_witness(ax: Axes, witness: Witness, label: str, aligned: bool) -> Axes:
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


def _member_label(member: Member) -> str:
    where = "" if member.part == "all" else f", {member.part}"
    width = "" if member.multiple is None else f", x {member.multiple:g}"
    return f"{member.name}{width}{where}"


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


def _check_result(result: object) -> None:
    if not hasattr(result, "null_distribution"):
        raise ArgumentTypeError("result", f"must be a GofResult, not {type(result).__name__}")


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
