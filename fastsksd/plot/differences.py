"""A picture of a comparison: differences of discrepancies with their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._doors import interruptible
from .._validate import ArgumentTypeError
from ..comparison import Comparison
from .canvas import BLACK, BLUE, axes_or_new, counted_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROWS = 20


@interruptible
def differences(compared: Comparison, *, ax: Axes | None = None) -> Axes:
    """Draw the differences of a comparison with their intervals.

    Points are filled where the interval excludes 0. To the left of 0 the first of the two is
    better, to the right the second.

    Parameters
    ----------
    compared : Comparison
        What `compare` returned.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on.

    See Also
    --------
    fastsksd.compare : Makes the comparison.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> from matplotlib.figure import Figure
    >>> x = np.random.default_rng(0).standard_normal((100, 2))
    >>> compared = fs.compare(x, {"A": lambda x: -x / 2, "B": np.negative}, rng=0)
    >>> [label.get_text() for label in compared.plot(ax=Figure().subplots()).get_yticklabels()]
    ['A - B']
    """
    if not isinstance(compared, Comparison):
        raise ArgumentTypeError("compared", f"must be a Comparison, not {type(compared).__name__}")
    ax = axes_or_new(ax)
    rows = sorted(compared, key=lambda row: (np.nan_to_num(row.pvalue, nan=1.0), row.first))[:_ROWS]
    for place, row in enumerate(rows):
        if np.isfinite(row.interval).all():
            ax.plot(row.interval, [place] * 2, color=BLUE, linewidth=1.5)
        face = "white" if row.better is None else BLUE
        ax.plot([row.difference], [place], "o", color=BLUE, markerfacecolor=face, markersize=5)
    ax.axvline(0.0, color=BLACK, linewidth=0.8)
    ax.set_yticks(
        range(len(rows)), [f"{row.first} - {row.second}" for row in rows], fontsize="small"
    )
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.margins(x=0.1)
    ax.set_xlabel("difference of discrepancies (left of 0: the first is better)")
    title = counted_title("Differences", len(rows), len(compared))
    ax.set_title(f"{title}, {compared.level:.0%} intervals", fontsize="medium")
    return ax
