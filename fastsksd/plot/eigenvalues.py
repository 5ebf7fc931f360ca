"""A picture of the eigenvalues of active slices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._typing import Array
from .._validate import ArgumentError, ArgumentTypeError
from ..slices import Slices
from .canvas import BLACK, BLUE, RED, axes_or_new, in_plain_words, legend_on_top

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..result import GofResult


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
    slices = _with_eigenvalues(what)
    ax = axes_or_new(ax)
    sure = np.ones(len(slices), dtype=bool)
    if slices.r_values is not None:
        sure = _draw_r(ax, slices.r_values)
    if slices.g_values is not None and slices.g_gaps is not None:
        _draw_g(ax, slices.g_values, slices.g_gaps, sure)
    ax.axhline(0.0, color=BLACK, linewidth=0.8)
    ax.locator_params(axis="x", integer=True)
    ax.set_xlabel("slice")
    ax.set_ylabel("eigenvalue / largest")
    ax.set_title("Eigenvalues of the slices", fontsize="medium")
    legend_on_top(ax)
    return ax


def _with_eigenvalues(what: Slices | GofResult) -> Slices:
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
    return slices


def _draw_r(ax: Axes, r_values: Array) -> np.ndarray:
    """Draw the eigenvalues of r; returns which of them are above the noise."""
    values = r_values / (np.abs(r_values).max() or 1.0)
    label = "r: mean squared score difference"
    ax.plot(
        np.arange(values.size), values, "o-", color=BLUE, markersize=5, linewidth=1.0, label=label
    )
    # An unbiased estimate of what can't be negative: negative values show the noise.
    noise = -values.min()
    if noise <= 0:
        return np.ones(values.size, dtype=bool)
    label = "r: range of the noise"
    ax.axhspan(-noise, noise, color=BLUE, alpha=0.15, linewidth=0, label=label)
    return values > noise


def _draw_g(ax: Axes, g_values: Array, g_gaps: Array, sure: np.ndarray) -> None:
    """Draw the first two eigenvalues of each g, the first filled where r is `sure`."""
    places = np.arange(g_values.size) + 0.15
    unit = np.abs(g_values).max() or 1.0
    top, following = g_values / unit, (g_values - g_gaps) / unit
    ax.vlines(places, following, top, color=RED, linewidth=1.0, linestyle=":")
    for some, face, label in (
        (sure, RED, "g: top eigenvalue"),
        (~sure, "white", "g: top eigenvalue where r is noise"),
    ):
        if some.any():
            line = ax.plot(places[some], top[some], "s", color=RED, markersize=5, label=label)
            line[0].set_markerfacecolor(face)
    label = "g: second eigenvalue (a long gap makes g reliable)"
    ax.plot(places, following, "_", color=RED, markersize=8, label=label)
