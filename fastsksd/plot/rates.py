"""Rates with their intervals: power curves, and lines in the figures of studies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._doors import interruptible
from .._typing import Array
from .._validate import ArgumentError, check_number
from ..report.rates import interval
from .canvas import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, RED, SKY, add_legend, axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_STYLES = [
    (BLUE, "-", "o"),
    (RED, "--", "s"),
    (GREEN, "-.", "^"),
    (BLACK, ":", "D"),
    (PINK, "-", "v"),
    (ORANGE, "--", "P"),
    (SKY, "-.", "X"),
]


@interruptible
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
    ax = axes_or_new(ax)
    for k, (name, (places, counts)) in enumerate(checked.items()):
        colour, dashes, marker = _STYLES[k % len(_STYLES)]
        rate_line(ax, places, counts, name, colour, dashes, marker)
    ax.axhline(level, color=GREY, linewidth=0.8, label=f"level {level:g}")
    ax.set_ylim(-0.03, 1.03)
    if logx:
        ax.set_xscale("log")
    ax.set_xlabel(xlabel or "")
    ax.set_ylabel("rejection rate")
    add_legend(ax, handlelength=3.0)
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
