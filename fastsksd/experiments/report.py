"""Reports: blocks of text, tables and figures, written as Markdown with pictures and as HTML."""

from __future__ import annotations

import base64
import html
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from ..report.rates import interval


class Heading(NamedTuple):
    """A heading of the second level."""

    text: str


class Text(NamedTuple):
    """A paragraph."""

    text: str


class Table(NamedTuple):
    """A table: names of the columns, and rows of text or numbers."""

    header: Sequence[str]
    rows: Sequence[Sequence[Any]]


class Figure(NamedTuple):
    """A picture in PNG format with its caption."""

    png: bytes
    caption: str


Block: TypeAlias = Heading | Text | Table | Figure


def pyplot() -> Any:
    """matplotlib's pyplot, drawing to memory."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install 'fastsksd[plot]'") from error
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def figure_of(figure: Any, caption: str) -> Figure:
    """A `Figure` block from a matplotlib figure, which is closed."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, bbox_inches="tight", metadata={"Software": None})
    pyplot().close(figure)
    return Figure(buffer.getvalue(), caption)


def write_report(
    folder: str | os.PathLike[str], name: str, title: str, blocks: Iterable[Block]
) -> tuple[Path, Path]:
    """Write ``<name>.md`` with its pictures, and ``<name>.html``; returns the two paths."""
    folder = Path(folder)
    blocks = list(blocks)
    markdown, count = [f"# {title}", ""], 0
    for block in blocks:
        if isinstance(block, Heading):
            markdown += [f"## {block.text}", ""]
        elif isinstance(block, Text):
            markdown += [block.text, ""]
        elif isinstance(block, Table):
            markdown += [
                _row(block.header),
                _row(["---"] * len(block.header)),
                *map(_row, block.rows),
                "",
            ]
        else:
            count += 1
            picture = f"{name}_{count}.png"
            (folder / picture).write_bytes(block.png)
            markdown += [f"![{block.caption}]({picture})", ""]
    paths = folder / f"{name}.md", folder / f"{name}.html"
    paths[0].write_text("\n".join(markdown))
    paths[1].write_text(page(title, blocks))
    return paths


def page(title: str, blocks: Iterable[Block]) -> str:
    """A self-contained HTML page."""
    body = "\n".join([f"<h1>{html.escape(title)}</h1>", *map(_element, blocks)])
    return _PAGE.format(title=html.escape(title), body=body)


def _element(block: Block) -> str:
    if isinstance(block, Heading):
        return f"<h2>{html.escape(block.text)}</h2>"
    if isinstance(block, Text):
        return f"<p>{html.escape(block.text)}</p>"
    if isinstance(block, Table):
        head = "".join(f"<th>{html.escape(str(cell))}</th>" for cell in block.header)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>"
            for row in block.rows
        )
        return f"<table><tr>{head}</tr>{body}</table>"
    data = base64.b64encode(block.png).decode()
    caption = html.escape(block.caption)
    image = f"<img alt='{caption}' src='data:image/png;base64,{data}'>"
    return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"


def _row(cells: Iterable[Any]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font-family: sans-serif; max-width: 75em; margin: 2em auto; padding: 0 1em; }}
table {{ border-collapse: collapse; margin: 1em 0; font-size: 90%; }}
td, th {{ border: 1px solid #ccc; padding: 0.2em 0.6em; text-align: left; }}
img {{ max-width: 100%; }}
</style></head><body>
{body}
</body></html>
"""


def count_rejection(counts: dict[Any, list[int]], key: Any, pvalue: float) -> None:
    """Add a test at level 0.05 to ``counts[key]``, a list of rejections and tests."""
    count = counts.setdefault(key, [0, 0])
    count[0] += pvalue <= 0.05
    count[1] += 1


def show_rate(successes: int, trials: int) -> str:
    """A rate with its confidence interval."""
    low, high = interval(successes, trials)
    return f"{successes / trials:.2f} ({low:.2f} to {high:.2f})"


def agrees(successes: int, trials: int, published: float | None) -> str:
    """Whether the confidence interval of a rate covers a published one; empty if there is none."""
    if published is None:
        return ""
    low, high = interval(successes, trials)
    return "yes" if low <= published <= high else "NO"


def log_axis(
    axis: Any, ticks: Sequence[float], label: str, first: tuple[float, str] | None = None
) -> None:
    """Make the horizontal axis logarithmic; ticks that are too close together have no number.

    `first` is a further tick with its name.
    """
    axis.set_xscale("log")
    axis.minorticks_off()
    places, names = ([first[0]], [first[1]]) if first else ([], [])
    last = first[0] if first else 0.0
    for tick in ticks:
        fits = tick >= 1.35 * last
        places.append(tick)
        names.append(f"{tick:g}" if fits else "")
        last = tick if fits else last
    axis.set_xticks(places, names, fontsize=8)
    axis.set_xlabel(label)


def shared_legend(figure: Any, axis: Any, columns: int) -> None:
    """One legend below all plots, with the lines of one of them."""
    handles, labels = axis.get_legend_handles_labels()
    figure.tight_layout()
    figure.legend(
        handles,
        labels,
        loc="upper center",
        ncol=columns,
        fontsize=8,
        frameon=False,
        bbox_to_anchor=(0.5, 0.0),
    )
