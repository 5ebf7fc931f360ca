"""Pictures of the outcome of a test: its null distribution, and the members of a family."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._validate import ArgumentError, check_probability
from ..procedure.combine import Member
from .canvas import (
    BARS,
    BLACK,
    RED,
    add_legend,
    axes_or_new,
    check_result,
    counted_title,
    draw_bars,
    in_plain_words,
    legend_on_top,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..result import GofResult


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
    check_result(result)
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
    check_result(result)
    if not result.members:
        raise ArgumentError("result", "has no members: it is not of a family")
    if result.draws_needed:
        lacking = "samples are too few" if result.weighted else "chains are too short"
        raise ArgumentError("result", f"has no p-values: its {lacking} to tell")
    ax = axes_or_new(ax)
    shown = result.members[:BARS]
    labels = [_member_label(member) for member in shown]
    values = [-np.log10(member.adjusted_pvalue) for member in shown]
    draw_bars(ax, values, labels, [member.adjusted_pvalue <= alpha for member in shown])
    ax.axvline(
        -np.log10(alpha), color=BLACK, linestyle="--", linewidth=1.2, label=f"level {alpha:g}"
    )
    ax.set_xlabel("-log10 of the adjusted p-value")
    ax.set_title(counted_title("Members", len(shown), len(result.members)), fontsize="medium")
    add_legend(ax, "lower right")
    return ax


def _member_label(member: Member) -> str:
    where = "" if member.part == "all" else f", {member.part}"
    width = "" if member.multiple is None else f", x {member.multiple:g}"
    return f"{member.name}{width}{where}"
