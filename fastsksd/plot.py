"""Pictures of a test and of what it saw (matplotlib, extra "plot").

Every function draws into `ax`, or into a new pyplot figure when there is none, and returns the axes. Colours are those of Okabe and Ito, which colour-blind readers
can tell apart; nothing is told by colour alone. No setting of matplotlib is changed.
"""

import base64
import io
import textwrap
import warnings
from collections.abc import Mapping

import numpy as np

from ._validate import check_integer, check_number
from .report.explain import (
    ALIKE,
    Explanation,
    direction,
    direction_terms,
    is_explicable,
    strongest_witness,
)
from .slices import Slices

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
_SHAPES = {
    "narrow": "too narrow for the model",
    "wide": "too wide for the model",
    "low": "too low for the model",
    "high": "too high for the model",
    "peaked": "too many in the middle",
    "hollow": "too few in the middle",
    "tails": "too sharp a peak, too heavy tails",
    "flat": "too flat, too light tails",
    "irregular": "irregular misfit",
    "across": "wrong dependence",
    "none": "zero is nowhere excluded",
}


def null(result, *, ax=None, alpha=0.05):
    """The null distribution with the statistic and the critical value at level `alpha`.

    Parameters
    ----------
    result : GofResult
        With replicates: a family with null="spectral" has none, see `members`.
    ax : matplotlib.axes.Axes, optional
    alpha : float

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> from matplotlib.figure import Figure
    >>> x = np.random.default_rng(0).standard_normal((200, 2))
    >>> ax = fs.plot.null(fs.gof_test(x, np.negative, rng=0), ax=Figure().subplots())
    >>> ax.get_ylabel()
    'replicates'
    """
    result.reject(alpha)
    values = result.null_distribution
    if values.size == 0:
        raise ValueError(
            "this result has no null distribution: its members were combined by an inequality. See `fastsksd.plot.members`."
        )
    ax = _axes(ax)
    low, high = values.min(), values.max()
    critical = np.quantile(values, 1.0 - alpha)
    statistic = result.evidence if result.members else result.statistic
    width = (high - low) or abs(high) or 1.0
    far = not low - 2.0 * width <= statistic <= high + 2.0 * width
    ax.hist(
        values,
        bins=min(40, max(5, values.size // 10)),
        color="#cfcfcf",
        edgecolor="#8c8c8c",
        linewidth=0.4,
        label="if the model were right",
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
        ax.plot([], [], color=RED, linewidth=2.0, label=f"{label}, far out")
    else:
        ax.axvline(statistic, color=RED, linewidth=2.0, label=label)
    ax.set_xlabel(
        "-log10 of the smallest p-value of a member"
        if result.members
        else f"{result.method.upper()} statistic"
    )
    ax.set_ylabel("replicates")
    ax.set_title(f"Null distribution: p-value {result.pvalue:.3g}", fontsize="medium")
    _legend_on_top(ax)
    return ax


def members(result, *, ax=None, alpha=0.05):
    """Adjusted p-values of the strongest members of a family.

    Parameters
    ----------
    result : GofResult
    ax : matplotlib.axes.Axes, optional
    alpha : float

    Returns
    -------
    matplotlib.axes.Axes
    """
    result.reject(alpha)
    if not result.members:
        raise ValueError(
            "this result is of one set of slices or a method without members: there is no family to show."
        )
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


def slices(what, *, ax=None, names=None, alpha=0.05):
    """Statistics of the strongest slices, with the coordinates they look along; filled where the adjusted p-value is at most `alpha`.

    Parameters
    ----------
    what : GofResult or Explanation
    ax : matplotlib.axes.Axes, optional
    names : sequence of str, optional
        Names of the coordinates, for a result.
    alpha : float

    Returns
    -------
    matplotlib.axes.Axes
    """
    explanation = _explanation_with_slices(what, names, _BARS)
    ax = _axes(ax)
    shown = explanation.slices[:_BARS]
    d = len(explanation.names)
    standing_out = [one.pvalue_adjusted <= alpha for one in shown]
    _bars(ax, [one.statistic for one in shown], [_along(one, d) for one in shown], standing_out)
    for row, one in enumerate(shown):
        ax.annotate(
            f"p {_short_p(one.pvalue_adjusted)}", (max(one.statistic, 0.0), row), xytext=(4, 0), textcoords="offset points",
            va="center", fontsize="x-small",
        )  # fmt: skip
    ax.margins(x=0.18)
    ax.axvline(0.0, color=BLACK, linewidth=0.8)
    ax.set_xlabel("statistic (p: adjusted p-value)")
    ax.set_title(
        _title("Slices, along g", len(shown), explanation.statistics.size), fontsize="medium"
    )
    if any(standing_out) and not all(standing_out):
        _bar_key(ax, f"p at most {alpha:g}", f"p above {alpha:g}")
    return ax


def witness(what, *, which=0, ax=None, names=None):
    """The witness function of a slice with its confidence band, over the density of the samples along g.

    Parameters
    ----------
    what : GofResult or Explanation
    which : int
        0 for the strongest slice, 1 for the next, ...
    ax : matplotlib.axes.Axes, optional
    names : sequence of str, optional
        Names of the coordinates, for a result.

    Returns
    -------
    matplotlib.axes.Axes
    """
    which = check_integer("which", which, 0)
    explanation = _explanation_with_slices(what, names, which + 1)
    if which >= len(explanation.slices):
        raise ValueError(
            f"`which` must be below the number of slices explained, {len(explanation.slices)}; got {which}."
        )
    one = explanation.slices[which]
    d = len(explanation.names)
    alike = abs(one.r @ one.g) >= ALIKE
    ax = _draw_witness(_axes(ax), one.witness, _along(one, d), alike)
    r = "" if alike else f"\nalong r: {direction(one.leading_r, d)}"
    ax.set_title(f"Witness of slice {one.index}: {_SHAPES[one.shape]}{r}", fontsize="medium")
    return ax


def samples(what, *, ax=None, names=None):
    """What each sample adds to the statistic, along g of the strongest slice; the most misfitting are labelled with their rows.

    Parameters
    ----------
    what : GofResult or Explanation
    ax : matplotlib.axes.Axes, optional
    names : sequence of str, optional
        Names of the coordinates, for a result.

    Returns
    -------
    matplotlib.axes.Axes
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
        _leave_out_what_is_far(ax, places, explanation.slices[0].witness.grid)
    ax.set_xlabel(
        _along(explanation.slices[0], len(explanation.names)) if explanation.slices else "row"
    )
    ax.set_ylabel("contribution")
    ax.set_title(f"Contributions of {values.size} samples", fontsize="medium")
    _legend_on_top(ax, columns=2)
    return ax


def spectrum(slices, *, ax=None):
    """Eigenvalues of active slices, relative to the largest: how many to keep, and which g to trust.

    Parameters
    ----------
    slices : Slices
        From `active_slices`.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> from matplotlib.figure import Figure
    >>> x = np.random.default_rng(0).standard_normal((200, 4)) * [0.5, 1.0, 1.0, 1.0]
    >>> fs.plot.spectrum(fs.active_slices(x, np.negative), ax=Figure().subplots()).get_xlabel()
    'slice'
    """
    if not isinstance(slices, Slices):
        raise TypeError(
            f"`slices` must be a Slices object, not {type(slices).__name__}; a result has one in `result.slices`."
        )
    if slices.r_values is None and (slices.g_values is None or slices.g_gaps is None):
        raise ValueError("`slices` have no eigenvalues: those of `active_slices` have.")
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
            label="r: squared score difference",
        )
        noise = -values.min()  # an unbiased estimate of what can't be negative: that much is noise
        if noise > 0:
            ax.axhspan(
                -noise,
                noise,
                color=BLUE,
                alpha=0.15,
                linewidth=0,
                label="r: as far from zero as noise goes",
            )
            sure = values > noise
    if slices.g_values is not None and slices.g_gaps is not None:
        unit = np.abs(slices.g_values).max() or 1.0
        top, following = slices.g_values / unit, (slices.g_values - slices.g_gaps) / unit
        ax.vlines(places + 0.15, following, top, color=RED, linewidth=1.0, linestyle=":")
        for some, face, label in (
            (sure, RED, "g: top eigenvalue"),
            (~sure, "white", "g: the same where r is noise"),
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
            label="g: next one (a long gap makes g sure)",
        )
    ax.axhline(0.0, color=BLACK, linewidth=0.8)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel("slice")
    ax.set_ylabel("eigenvalue over the largest")
    ax.set_title("Spectrum of the slices", fontsize="medium")
    _legend_on_top(ax)
    return ax


def power(curves, *, ax=None, level=0.05, xlabel=None, logx=False):
    """Rejection rates against a parameter, with 95% intervals (Wilson's).

    Parameters
    ----------
    curves : mapping of names to (places, rejections, trials), or one such triple
        For each place the number of rejections, out of so many trials (one number or one for each place).
    ax : matplotlib.axes.Axes, optional
    level : float
        Nominal level, drawn as a line.
    xlabel : str, optional
    logx : bool
        Logarithmic places.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import fastsksd as fs
    >>> from matplotlib.figure import Figure
    >>> curves = {"SKSD": ([10, 50, 100], [98, 90, 71], 100), "KSD": ([10, 50, 100], [90, 20, 6], 100)}
    >>> fs.plot.power(curves, xlabel="dimension", ax=Figure().subplots()).get_ylabel()
    'rejection rate'
    """
    level = check_number("level", level, 0.0)
    named = dict(curves) if isinstance(curves, Mapping) else {None: curves}
    if not named:
        raise ValueError("`curves` is empty; give at least one (places, rejections, trials).")
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


def rate_line(ax, places, counts, label, colour, dashes="-", marker="o", *, band=True):
    """One line of rejection rates, from pairs (rejections, trials), with its band of 95% intervals."""
    rates = [rejected / trials for rejected, trials in counts]
    ax.plot(
        places, rates, dashes, color=colour, marker=marker, markersize=4, linewidth=1.2, label=label
    )
    if band:
        low, high = zip(*(interval(*count) for count in counts), strict=True)
        ax.fill_between(places, low, high, color=colour, alpha=0.1, linewidth=0)


def interval(successes, trials, level=0.95):
    """Wilson's confidence interval of a rate."""
    from scipy.special import ndtri

    z = ndtri(0.5 + 0.5 * level)
    rate = successes / trials
    centre = (rate + z * z / (2 * trials)) / (1 + z * z / trials)
    half = (
        z
        / (1 + z * z / trials)
        * (rate * (1 - rate) / trials + z * z / (4 * trials * trials)) ** 0.5
    )
    return max(0.0, centre - half), min(1.0, centre + half)


def report(result, *, names=None, alpha=0.05):
    """All pictures of one test on a page, as `GofResult.plot`."""
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
    title = f"The model is {verdict} at level {alpha:g} (p-value {result.pvalue:.3g}, {result.n_test} samples)"
    figure.suptitle(textwrap.fill(title, 90 if len(panels) > 1 else 45))
    return figure


def inline_figure(result):
    """A small picture of a result as an HTML image, empty where matplotlib is missing or anything goes wrong: it is only an ornament."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            looked = is_explicable(result) and result.slices is not None
            figure = _figure((8.0 if looked else 4.5, 2.8))
            axes = np.ravel(figure.subplots(1, 1 + looked))
            (members if result.null_distribution.size == 0 else null)(result, ax=axes[0])
            if looked:
                _draw_witness(axes[1], *strongest_witness(result)).set_title(
                    "Witness of the strongest slice", fontsize="medium"
                )
            return f"<img alt='null distribution and witness' src='data:image/png;base64,{base64.b64encode(_png(figure, 80)).decode()}'>"
    except Exception:
        return ""


def _draw_witness(ax, witness, label, alike):
    """`alike`: whether the model's push is along the axis, so that an arrow can show it."""
    grid = witness.grid
    height = max(np.abs(witness.lower).max(), np.abs(witness.upper).max()) or 1.0
    floor = -1.55 * height
    ax.fill_between(grid, floor, floor + 0.45 * height * witness.density / witness.density.max(), color="#d9d9d9", linewidth=0,
                    label="samples")  # fmt: skip
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
    # Where zero is excluded: a bar on the axis, with the way the model pushes.
    for k, region in enumerate(witness.regions):
        key = None if k else "surely not zero"
        ax.plot(
            [region.low, region.high],
            [0.0, 0.0],
            color=RED,
            linewidth=3.5,
            solid_capstyle="butt",
            label=key,
        )
        if not alike:
            continue
        middle = 0.5 * (region.low + region.high)
        reach = 0.04 * (grid[-1] - grid[0]) * region.sign
        ax.annotate("", xy=(middle + reach, -0.16 * height * region.sign), xytext=(middle - reach, -0.16 * height * region.sign),
                    arrowprops=dict(arrowstyle="-|>", color=RED, linewidth=1.5))  # fmt: skip
    ax.set_ylim(floor, 1.45 * height)
    ax.set_xlim(grid[0], grid[-1])
    ax.set_xlabel(label)
    ax.set_ylabel("push of the model" if alike else "push of the model along r")
    _legend(ax, "upper center", ncol=3, columnspacing=1.0, handlelength=1.5)
    return ax


def _leave_out_what_is_far(ax, places, grid):
    """Samples many times as far out as the bulk would squeeze it to a line."""
    width = grid[-1] - grid[0]
    low, high = grid[0] - 2.0 * width, grid[-1] + 2.0 * width
    inside = places[(places >= low) & (places <= high)]
    if inside.size < places.size:
        ax.set_xlim(inside.min() - 0.1 * width, inside.max() + 0.1 * width)
        ax.plot([], [], " ", label=f"{places.size - inside.size} beyond the edges")


def _bars(ax, values, labels, filled):
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


def _bar_key(ax, filled, hatched):
    from matplotlib.patches import Patch

    keys = [
        Patch(color=BLUE, label=filled),
        Patch(facecolor="white", edgecolor=GREY, hatch="////", label=hatched),
    ]
    _legend(ax, "lower right", handles=keys)


def _member_label(member):
    where = "" if member.part == "all" else f", {member.part}"
    return f"{member.name}, x {member.multiple:g}{where}"


def _along(one, d):
    """The direction g, in short lines that are broken between coordinates only."""
    lines = [""]
    for term in direction_terms(one.leading_g, d):
        joined = f"{lines[-1]} {term}".strip()
        lines = [*lines[:-1], joined] if len(joined) <= 24 or not lines[-1] else [*lines, term]
    return "\n".join(lines)


def _title(what, shown, count):
    return what if shown == count else f"{what}: the strongest {shown} of {count}"


def _short_p(pvalue):
    return f"{pvalue:.2g}" if pvalue >= 1e-4 else f"{pvalue:.0e}"


def _legend(ax, place="best", **options):
    ax.legend(fontsize="small", framealpha=0.85, edgecolor="none", loc=place, **options)


def _legend_on_top(ax, columns=1):
    """The legend above the data, with room made for it."""
    low, high = ax.get_ylim()
    rows = -(-len(ax.get_legend_handles_labels()[1]) // columns)
    ax.set_ylim(low, high + (0.05 + 0.11 * rows) * (high - low))
    _legend(ax, "upper left", ncol=columns)


def _check_curve(name, curve):
    """Places, and pairs (rejections, trials), of one curve."""
    which = "`curves`" if name is None else f"`curves`, {name!r}:"
    if not isinstance(curve, (tuple, list)) or len(curve) != 3:
        raise ValueError(f"{which} must be a triple (places, rejections, trials).")
    places, rejections = (np.atleast_1d(np.asarray(part, dtype=float)) for part in curve[:2])
    trials = (
        np.broadcast_to(np.asarray(curve[2], dtype=float), rejections.shape)
        if np.ndim(curve[2]) == 0
        else np.asarray(curve[2], dtype=float)
    )
    if places.ndim != 1 or not places.shape == rejections.shape == trials.shape or places.size == 0:
        raise ValueError(
            f"{which} must have as many rejections as places; got shapes {places.shape}, {rejections.shape} and {trials.shape}."
        )
    if not np.all((rejections >= 0) & (rejections <= trials) & (trials > 0)):
        raise ValueError(
            f"{which} rejections must be between 0 and the number of trials, which must be positive."
        )
    return places, list(zip(rejections.tolist(), trials.tolist(), strict=True))


def _explanation_with_slices(what, names, n_slices):
    if isinstance(what, Explanation):
        explanation = what
    elif hasattr(what, "explain"):
        explanation = what.explain(names=names, n_slices=n_slices)
    else:
        raise TypeError(
            f"what is drawn must be a GofResult or an Explanation, not {type(what).__name__}."
        )
    if not explanation.slices:
        raise ValueError("this result is of a method without slices.")
    return explanation


def _axes(ax):
    if ax is not None:
        return ax
    _matplotlib()
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def _figure(size):
    """A figure of no pyplot, which shows itself in a notebook."""
    _matplotlib()
    from matplotlib.figure import Figure

    class Page(Figure):
        def _repr_png_(self):
            return _png(self, 100)

    return Page(figsize=size, layout="constrained")


def _png(figure, dpi):
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def _matplotlib():
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'fastsksd[plot]'") from error
    return matplotlib
