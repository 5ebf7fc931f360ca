"""What pictures share: colours, axes, bars, legends, and figures as PNG."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec

from .._doors import interruptible
from .._validate import ArgumentTypeError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLACK, ORANGE, SKY, GREEN, BLUE, RED, PINK, GREY = (
    "#000000", "#e69f00", "#56b4e9", "#009e73", "#0072b2", "#d55e00", "#cc79a7", "#8c8c8c",
)  # fmt: skip
BARS = 12  # slices, members or effects shown
_P = ParamSpec("_P")


def in_plain_words(picture: Callable[_P, Axes]) -> Callable[_P, Axes]:
    """Decorate a function that returns axes: a "$" in its words, as in a name, is no formula."""

    @interruptible
    @functools.wraps(picture)
    def drawn(*args: _P.args, **kwargs: _P.kwargs) -> Axes:
        ax = picture(*args, **kwargs)
        words = [ax.title, ax.xaxis.label, ax.yaxis.label, *ax.texts]
        legend = ax.get_legend()
        for text in words if legend is None else [*words, *legend.get_texts()]:
            text.set_parse_math(False)
        for text in ax.get_yticklabels():
            if "mathdefault" not in text.get_text():  # of numbers
                text.set_parse_math(False)
        return ax

    return drawn


def check_result(result: object) -> None:
    if not hasattr(result, "null_distribution"):
        raise ArgumentTypeError("result", f"must be a GofResult, not {type(result).__name__}")


def draw_bars(
    ax: Axes, values: Sequence[float], labels: Sequence[str], filled: Sequence[bool]
) -> None:
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


def add_bar_key(ax: Axes, filled: str, hatched: str) -> None:
    from matplotlib.patches import Patch

    keys = [
        Patch(color=BLUE, label=filled),
        Patch(facecolor="white", edgecolor=GREY, hatch="////", label=hatched),
    ]
    add_legend(ax, "lower right", handles=keys)


def counted_title(what: str, shown: int, count: int) -> str:
    return what if shown == count else f"{what}: the strongest {shown} of {count}"


def short_p(pvalue: float) -> str:
    return f"{pvalue:.2g}" if pvalue >= 1e-4 else f"{pvalue:.0e}"


def add_legend(ax: Axes, place: Any = "best", **options: Any) -> None:
    ax.legend(fontsize="small", framealpha=0.85, edgecolor="none", loc=place, **options)


def legend_on_top(ax: Axes, columns: int = 1) -> None:
    """Put the legend above the data, with room made for it."""
    low, high = ax.get_ylim()
    rows = -(-len(ax.get_legend_handles_labels()[1]) // columns)
    ax.set_ylim(low, high + (0.05 + 0.11 * rows) * (high - low))
    add_legend(ax, "upper left", ncol=columns)


def axes_or_new(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    require_matplotlib()
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def new_figure(size: tuple[float, float]) -> Figure:
    """A figure that pyplot does not manage, which shows itself in a notebook."""
    require_matplotlib()
    from matplotlib.figure import Figure

    class Page(Figure):
        def _repr_png_(self):
            return as_png(self, 100)

    return Page(figsize=size, layout="constrained")


def as_png(figure: Figure, dpi: int) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def require_matplotlib() -> None:
    """An error that says how to install matplotlib, where it is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'fastsksd[plot]'") from error
