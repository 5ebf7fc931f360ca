"""Pictures of a test and of what it saw (matplotlib, extra "plot").

Every function draws into `ax`, or into a new pyplot figure when there is none, and returns the
axes. Colours are those of Okabe and Ito, which colour-blind readers can tell apart; nothing is told
by colour alone. No setting of matplotlib is changed.
"""

from __future__ import annotations

import base64
import io
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._typing import Array
from ._validate import (
    ArgumentError,
    ArgumentTypeError,
    check_integer,
    check_number,
    check_probability,
)
from .procedure.combine import Member
from .report.directions import direction, direction_terms
from .report.explain import Explanation, SliceExplanation, is_explicable, strongest_witness
from .report.rates import interval
from .report.witness import Witness
from .slices import Slices

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .result import GofResult

__all__ = ["members", "null", "power", "report", "samples", "slices", "spectrum", "witness"]

BLACK, ORANGE, SKY, GREEN, BLUE, RED, PINK, GREY = (
    "#000000", "#e69f00", "#56b4e9", "#009e73", "#0072b2", "#d55e00", "#cc79a7", "#8c8c8c",
)  # fmt: skip
_STYLES = [
    (BLUE, "-", "o"),
    (RED, "--", "s"),
    (GREEN, "-.", "^"),
    (BLACK, ":", "D"),
    (PINK, "-", "v"),
    (ORANGE, "--", "P"),
    (SKY, "-.", "X"),
]
_BARS = 12  # slices or members shown
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
    values = result.null_distribution
    if values.size == 0:
        raise ArgumentError(
            "result",
            "has no null distribution: its members were combined by an inequality",
            remedy="See `fastsksd.plot.members`.",
        )
    ax = _axes(ax)
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
        else "evidence: -log10 of the smallest weighted p-value"
    )
    ax.set_ylabel("replicates")
    ax.set_title(f"Null distribution: p-value {result.pvalue:.3g}", fontsize="medium")
    _legend_on_top(ax)
    return ax


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
    if not result.members:
        raise ArgumentError("result", "has no members: it is not of a family")
    ax = _axes(ax)
    shown = result.members[:_BARS]
    labels = [_member_label(member) for member in shown]
    values = [-np.log10(member.adjusted_pvalue) for member in shown]
    _bars(ax, values, labels, [member.adjusted_pvalue <= alpha for member in shown])
    ax.axvline(
        -np.log10(alpha), color=BLACK, linestyle="--", linewidth=1.2, label=f"level {alpha:g}"
    )
    ax.set_xlabel("-log10 of the adjusted p-value")
    ax.set_title(_title("Members", len(shown), len(result.members)), fontsize="medium")
    _legend(ax, "lower right")
    return ax


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
    ax = _axes(ax)
    shown = explanation.slices[:_BARS]
    d = len(explanation.names)
    significant = [one.pvalue_adjusted <= alpha for one in shown]
    lines = max(1, _LABEL_LINES // len(shown))
    labels = [_along(one, d, lines) for one in shown]
    _bars(ax, [one.statistic for one in shown], labels, significant)
    for row, one in enumerate(shown):
        ax.annotate(
            f"p {_short_p(one.pvalue_adjusted)}",
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
        _title("Slices, along g", len(shown), explanation.statistics.size), fontsize="medium"
    )
    if any(significant) and not all(significant):
        _bar_key(ax, f"p at most {alpha:g}", f"p above {alpha:g}")
    return ax


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
    ax = _draw_witness(_axes(ax), one.witness, _along(one, d), one.aligned)
    title = f"Witness of slice {one.index}: {_SHAPES[one.shape]}"
    if d > 1 and one.shape != "none":
        title += ",\ngiven the other coordinates"
    r = direction(one.leading_r, d)
    if r != direction(one.leading_g, d):
        title += f"\nscore along r: {r}"
    ax.set_title(title, fontsize="medium")
    return ax


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
    explanation = what if isinstance(what, Explanation) else what.explain(names=names, n_slices=1)
    ax = _axes(ax)
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
    _legend_on_top(ax, columns=2)
    return ax


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
        raise ArgumentTypeError(
            "what", f"must be Slices or a GofResult that has them, not {type(what).__name__}"
        )
    if slices.r_values is None and (slices.g_values is None or slices.g_gaps is None):
        raise ArgumentError("what", "has no eigenvalues: the slices of `active_slices` have")
    ax = _axes(ax)
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
    _legend_on_top(ax)
    return ax


def power(
    curves: Mapping[str, Sequence[Any]] | Sequence[Any],
    *,
    ax: Axes | None = None,
    level: float = 0.05,
    xlabel: str | None = None,
    logx: bool = False,
) -> Axes:
    """Draw rejection rates against a parameter, with 95% intervals (Wilson's).

    Parameters
    ----------
    curves : mapping of names to (places, rejections, trials), or one such triple
        For each place on the axis the number of rejections, and the number of trials (one number,
        or one for each place).
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    level : float
        Nominal level, drawn as a line.
    xlabel : str, optional
        Name of the parameter.
    logx : bool
        Whether the axis is logarithmic.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on.

    Examples
    --------
    >>> import fastsksd as fs
    >>> from matplotlib.figure import Figure
    >>> d = [10, 50, 100]
    >>> curves = {"SKSD": (d, [98, 90, 71], 100), "KSD": (d, [90, 20, 6], 100)}
    >>> fs.plot.power(curves, xlabel="dimension", ax=Figure().subplots()).get_ylabel()
    'rejection rate'
    """
    level = check_number("level", level, 0.0)
    named = dict(curves) if isinstance(curves, Mapping) else {None: curves}
    if not named:
        raise ArgumentError("curves", "is empty; give at least one (places, rejections, trials)")
    checked = {name: _check_curve(name, curve) for name, curve in named.items()}
    ax = _axes(ax)
    for k, (name, (places, counts)) in enumerate(checked.items()):
        colour, dashes, marker = _STYLES[k % len(_STYLES)]
        rate_line(ax, places, counts, name, colour, dashes, marker)
    ax.axhline(level, color=GREY, linewidth=0.8, label=f"level {level:g}")
    ax.set_ylim(-0.03, 1.03)
    if logx:
        ax.set_xscale("log")
    ax.set_xlabel(xlabel or "")
    ax.set_ylabel("rejection rate")
    _legend(ax, handlelength=3.0)
    return ax


def rate_line(
    ax: Axes,
    places: Sequence[float] | Array,
    counts: Sequence[tuple[float, float]],
    label: str | None,
    colour: str,
    dashes: str = "-",
    marker: str = "o",
    *,
    band: bool = True,
) -> None:
    """Draw one line of rejection rates, from pairs (rejections, trials), with 95% intervals."""
    rates = [rejected / trials for rejected, trials in counts]
    ax.plot(
        places, rates, dashes, color=colour, marker=marker, markersize=4, linewidth=1.2, label=label
    )
    if band:
        low, high = zip(*(interval(*count) for count in counts), strict=True)
        ax.fill_between(places, low, high, color=colour, alpha=0.1, linewidth=0)


def report(result: GofResult, *, names: Sequence[str] | None = None, alpha: float = 0.05) -> Figure:
    """Draw all pictures of one test on a page, see `GofResult.plot`.

    Parameters
    ----------
    result : GofResult
        Of any method.
    names : sequence of str, optional
        Names of the coordinates; by default those that the samples came with.
    alpha : float
        Level of the test.

    Returns
    -------
    matplotlib.figure.Figure
        A figure that pyplot does not know of.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((100, 2)) * [0.5, 1.0]
    >>> figure = fs.plot.report(fs.gof_test(x, np.negative, n_resamples=99, rng=0))
    >>> len(figure.axes) >= 4
    True
    """
    explanation = result.explain(names=names, n_slices=_BARS) if is_explicable(result) else None
    first = members if result.null_distribution.size == 0 else null
    panels = [lambda ax: first(result, ax=ax, alpha=alpha)]
    if explanation is not None and explanation.slices:
        panels += [
            lambda ax: slices(explanation, ax=ax, alpha=alpha),
            lambda ax: witness(explanation, ax=ax),
        ]
    if explanation is not None:
        panels.append(lambda ax: samples(explanation, ax=ax))
    rows = (len(panels) + 1) // 2
    figure = _figure((10.0 if len(panels) > 1 else 5.5, 3.6 * rows + 0.4))
    axes = np.ravel(figure.subplots(rows, min(len(panels), 2)))
    for draw, ax in zip(panels, axes, strict=True):
        draw(ax)
    verdict = "rejected" if result.reject(alpha) else "not rejected"
    title = (
        f"The model is {verdict} at level {alpha:g} "
        f"(p-value {result.pvalue:.3g}, {result.n_test} samples)"
    )
    figure.suptitle(textwrap.fill(title, 90 if len(panels) > 1 else 45))
    return figure


def inline_figure(result: GofResult) -> str:
    """A small picture of a result as an HTML image.

    It is an ornament: empty where matplotlib is missing or anything goes wrong.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            slices = result.slices if is_explicable(result) else None
            figure = _figure((4.5 if slices is None else 8.0, 2.8))
            axes = np.ravel(np.asarray(figure.subplots(1, 1 if slices is None else 2)))
            (members if result.null_distribution.size == 0 else null)(result, ax=axes[0])
            if slices is not None:
                _draw_witness(axes[1], *strongest_witness(result, slices)).set_title(
                    "Witness of the strongest slice", fontsize="medium"
                )
            png = base64.b64encode(_png(figure, 80)).decode()
            alt = "null distribution and witness"
            return f"<img alt='{alt}' src='data:image/png;base64,{png}'>"
    except Exception:
        return ""


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
    _legend(ax, "upper center", ncol=3, columnspacing=1.0, handlelength=1.5)
    return ax


def _leave_out_outliers(ax: Axes, places: Array, grid: Array) -> None:
    """Limit the axis to the bulk of the samples, which outliers would squeeze to a line."""
    width = grid[-1] - grid[0]
    low, high = grid[0] - 2.0 * width, grid[-1] + 2.0 * width
    inside = places[(places >= low) & (places <= high)]
    if inside.size < places.size:
        ax.set_xlim(inside.min() - 0.1 * width, inside.max() + 0.1 * width)
        ax.plot([], [], " ", label=f"{places.size - inside.size} beyond the edges")


def _bars(ax: Axes, values: Sequence[float], labels: Sequence[str], filled: Sequence[bool]) -> None:
    """Horizontal bars, the first on top; those not `filled` are hatched outlines."""
    for row, (value, full) in enumerate(zip(values, filled, strict=True)):
        style = (
            dict(color=BLUE)
            if full
            else dict(facecolor="white", edgecolor=GREY, hatch="////", linewidth=0.8)
        )
        ax.barh(row, value, height=0.7, **style)
    ax.set_yticks(range(len(labels)), labels, fontsize="small")
    ax.set_ylim(len(labels) - 0.4, -0.6)


def _bar_key(ax: Axes, filled: str, hatched: str) -> None:
    from matplotlib.patches import Patch

    keys = [
        Patch(color=BLUE, label=filled),
        Patch(facecolor="white", edgecolor=GREY, hatch="////", label=hatched),
    ]
    _legend(ax, "lower right", handles=keys)


def _member_label(member: Member) -> str:
    where = "" if member.part == "all" else f", {member.part}"
    return f"{member.name}, x {member.multiple:g}{where}"


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


def _title(what: str, shown: int, count: int) -> str:
    return what if shown == count else f"{what}: the strongest {shown} of {count}"


def _short_p(pvalue: float) -> str:
    return f"{pvalue:.2g}" if pvalue >= 1e-4 else f"{pvalue:.0e}"


def _legend(ax: Axes, place: Any = "best", **options: Any) -> None:
    ax.legend(fontsize="small", framealpha=0.85, edgecolor="none", loc=place, **options)


def _legend_on_top(ax: Axes, columns: int = 1) -> None:
    """Put the legend above the data, with room made for it."""
    low, high = ax.get_ylim()
    rows = -(-len(ax.get_legend_handles_labels()[1]) // columns)
    ax.set_ylim(low, high + (0.05 + 0.11 * rows) * (high - low))
    _legend(ax, "upper left", ncol=columns)


def _check_curve(name: str | None, curve: Any) -> tuple[Array, list[tuple[float, float]]]:
    """Places, and pairs (rejections, trials), of one curve."""
    which = "" if name is None else f"of {name!r} "
    if not isinstance(curve, (tuple, list)) or len(curve) != 3:
        raise ArgumentError("curves", f"{which}must be a triple (places, rejections, trials)")
    places, rejections = (np.atleast_1d(np.asarray(part, dtype=float)) for part in curve[:2])
    trials = (
        np.broadcast_to(np.asarray(curve[2], dtype=float), rejections.shape)
        if np.ndim(curve[2]) == 0
        else np.asarray(curve[2], dtype=float)
    )
    if places.ndim != 1 or not places.shape == rejections.shape == trials.shape or places.size == 0:
        raise ArgumentError(
            "curves",
            f"{which}must have as many rejections as places; got shapes {places.shape}, "
            f"{rejections.shape} and {trials.shape}",
        )
    if not np.all((rejections >= 0) & (rejections <= trials) & (trials > 0)):
        raise ArgumentError(
            "curves",
            f"{which}must have rejections between 0 and the number of trials, which must be "
            "positive",
        )
    return places, list(zip(rejections.tolist(), trials.tolist(), strict=True))


def _explanation_with_slices(
    what: GofResult | Explanation, names: Sequence[str] | None, n_slices: int
) -> Explanation:
    if isinstance(what, Explanation):
        explanation = what
    elif hasattr(what, "explain"):
        explanation = what.explain(names=names, n_slices=n_slices)
    else:
        raise ArgumentTypeError(
            "what", f"must be a GofResult or an Explanation, not {type(what).__name__}"
        )
    if not explanation.slices:
        raise ArgumentError("what", "is of a method without slices")
    return explanation


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    _matplotlib()
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def _figure(size: tuple[float, float]) -> Figure:
    """A figure that pyplot does not manage, which shows itself in a notebook."""
    _matplotlib()
    from matplotlib.figure import Figure

    class Page(Figure):
        def _repr_png_(self):
            return _png(self, 100)

    return Page(figsize=size, layout="constrained")


def _png(figure: Figure, dpi: int) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def _matplotlib() -> None:
    """An error that says how to install matplotlib, where it is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'fastsksd[plot]'") from error
