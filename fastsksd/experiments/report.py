"""Reports: blocks of text, tables and figures, written as Markdown with pictures and as HTML."""

from __future__ import annotations

import base64
import functools
import html
import io
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from ..report.rates import interval


class Heading(NamedTuple):
    """A heading; the title of the page has level 1."""

    text: str
    level: int = 2


class Text(NamedTuple):
    """A paragraph."""

    text: str


class Items(NamedTuple):
    """A list of points."""

    texts: Sequence[str]


class Table(NamedTuple):
    """A table: names of the columns, and rows of text or numbers."""

    header: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True, eq=False)
class Figure:
    """A picture with its caption.

    `draw` returns a matplotlib figure. `source` is kept in the picture and says what it shows.
    """

    draw: Callable[[], Any]
    caption: str
    source: str = ""

    @functools.cached_property
    def png(self) -> bytes:
        """The picture in PNG format."""
        figure, buffer = self.draw(), io.BytesIO()
        metadata = {"Software": None, "Source": self.source}
        figure.savefig(buffer, format="png", dpi=130, bbox_inches="tight", metadata=metadata)
        pyplot().close(figure)
        return buffer.getvalue()


Block: TypeAlias = Heading | Text | Items | Table | Figure


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
    """A `Figure` block from a matplotlib figure, which is closed when it has been written."""
    return Figure(lambda: figure, caption)


def write_report(
    folder: str | os.PathLike[str], name: str, title: str, blocks: Iterable[Block]
) -> tuple[Path, Path]:
    """Write ``<name>.md`` with its pictures, and ``<name>.html``; returns the two paths."""
    folder = Path(folder)
    blocks = list(blocks)
    text, figures = markdown(name, title, blocks)
    for picture, figure in figures.items():
        (folder / picture).write_bytes(figure.png)
    paths = folder / f"{name}.md", folder / f"{name}.html"
    paths[0].write_text(text)
    paths[1].write_text(page(title, blocks))
    return paths


def markdown(name: str, title: str, blocks: Iterable[Block]) -> tuple[str, dict[str, Figure]]:
    """A page in Markdown, and its pictures by the names of their files."""
    lines, figures = [f"# {title}", ""], {}
    for block in blocks:
        if isinstance(block, Heading):
            lines.append(f"{'#' * block.level} {block.text}")
        elif isinstance(block, Text):
            lines.append(block.text)
        elif isinstance(block, Items):
            lines += [f"- {text}" for text in block.texts]
        elif isinstance(block, Table):
            lines += table_lines(block)
        else:
            picture = f"{name}_{len(figures) + 1}.png"
            figures[picture] = block
            lines.append(f"![{block.caption}]({picture})")
        lines.append("")
    return "\n".join(lines), figures


def table_lines(table: Table) -> list[str]:
    """A table in Markdown, line by line."""
    return [_row(cells) for cells in (table.header, ["---"] * len(table.header), *table.rows)]


def page(title: str, blocks: Iterable[Block]) -> str:
    """A self-contained HTML page."""
    body = "\n".join([f"<h1>{html.escape(title)}</h1>", *map(_element, blocks)])
    return _PAGE.format(title=html.escape(title), body=body)


def _element(block: Block) -> str:
    if isinstance(block, Heading):
        return f"<h{block.level}>{html.escape(block.text)}</h{block.level}>"
    if isinstance(block, Text):
        return f"<p>{html.escape(block.text)}</p>"
    if isinstance(block, Items):
        return f"<ul>{''.join(f'<li>{html.escape(text)}</li>' for text in block.texts)}</ul>"
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


def cells_of(rows: Iterable[dict[str, Any]], *names: str) -> dict[tuple[Any, ...], list[Any]]:
    """Rows by the values of some of their entries, in the order in which these occur."""
    cells: dict[tuple[Any, ...], list[Any]] = {}
    for row in rows:
        cells.setdefault(tuple(row[name] for name in names), []).append(row)
    return cells


def count_rejection(counts: dict[Any, list[int]], key: Any, pvalue: float) -> None:
    """Add a test at level 0.05 to ``counts[key]``, a list of rejections and tests."""
    count = counts.setdefault(key, [0, 0])
    count[0] += pvalue <= 0.05
    count[1] += 1


def show_rate(successes: int, trials: int) -> str:
    """A rate with its confidence interval."""
    low, high = interval(successes, trials)
    return f"{successes / trials:.2f} ({low:.2f} to {high:.2f})"


def rejections(pvalues: Iterable[float | None]) -> tuple[int, int]:
    """How many tests reject at level 0.05, and how many have a verdict: None is none."""
    known = [p for p in pvalues if p is not None]
    return sum(p <= 0.05 for p in known), len(known)


def rate_cells(successes: int, trials: int) -> tuple[str, str]:
    """A rate and its confidence interval, as cells of a table; empty without trials."""
    if not trials:
        return "", ""
    low, high = interval(successes, trials)
    return f"{successes / trials:.3f}", f"{low:.3f} to {high:.3f}"


def level_bounds(tests: int, cells: int) -> tuple[float, float]:
    """Binomial bounds of the rejection rate of right models at level 0.05.

    The chance that any of so many cells is outside of its bounds is 5%.
    """
    from scipy.stats import binom

    tail = 0.025 / max(cells, 1)
    low, high = binom.ppf([tail, 1.0 - tail], tests, 0.05) / max(tests, 1)
    return low, high


def log_axis(axis: Any, ticks: Sequence[float], label: str) -> None:
    """Make the horizontal axis logarithmic; ticks that are too close together have no number."""
    axis.set_xscale("log")
    axis.minorticks_off()
    names, last = [], 0.0
    for tick in ticks:
        fits = tick >= 1.35 * last
        names.append(f"{tick:g}" if fits else "")
        last = tick if fits else last
    axis.set_xticks(ticks, names, fontsize=8)
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
