"""A page from kept results: ``fastsksd report FOLDER`` writes it and runs nothing.

The page has a section for each study in the folder. Where these are the paper's own, the errata of
the paper follow.
"""

from __future__ import annotations

import dataclasses
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from . import benchmark_report
from .errata import errata
from .report import Block, Figure, Heading, Text, markdown, table_lines
from .runner import EXPERIMENTS, Kept, RunError, kept, load

PAPER = ("benchmark_gof", "rbm", "ica")  # the studies of the paper
NAME = "index"  # of the page's file
_INTRODUCTION = (
    "Every table of the experiments of *Active Slices for Sliced Stein Discrepancy* (Gong, Zhang, "
    "Li and Hernández-Lobato, ICML 2021), beside ours; its figures, drawn from our rows; and what "
    "it says of them, as claims with verdicts. The rows behind them are kept "
    "in this folder; `fastsksd report` made this page from them, and `fastsksd reproduce` with "
    "`--resume` adds to them."
)


def write_page(folder: str | os.PathLike[str]) -> Path:
    """Write ``index.md`` with its pictures, from the results of studies in a folder.

    Parameters
    ----------
    folder : path
        Where `reproduce` left its results, finished or not.

    Returns
    -------
    path
        The page.

    Raises
    ------
    RunError
        If there are no results, or they are of other settings.
    """
    text, figures = page_of(folder)
    path = Path(folder) / f"{NAME}.md"
    try:
        for old in Path(folder).glob(f"{NAME}_*.png"):
            old.unlink()
        for name, figure in figures.items():
            (Path(folder) / name).write_bytes(figure.png)
        path.write_text(text)
    except OSError as error:
        raise RunError(f"could not write the page: {error}.") from error
    return path


def page_of(folder: str | os.PathLike[str]) -> tuple[str, dict[str, Figure]]:
    """The page as text, and its pictures by name, not yet drawn."""
    folder = Path(folder)
    paths = {name: folder / f"{name}.jsonl" for name in EXPERIMENTS}
    paths = {name: path for name, path in paths.items() if path.exists()}
    if not paths:
        raise RunError(f"{folder} holds no results of a study; `fastsksd reproduce` makes them.")
    studies = {name: kept(path) for name, path in paths.items()}
    ours = all(name in PAPER for name in studies)
    title = "The paper at its own scale" if ours else "Results of studies"
    blocks: list[Block] = [
        *([Text(_INTRODUCTION)] if ours else ()),
        Text(_machines(studies.values())),
        *(block for name, study in studies.items() for block in _section(name, study, paths[name])),
    ]
    if ours:
        blocks += errata()
    return markdown(NAME, title, blocks)


def short_table(folder: str | os.PathLike[str]) -> str:
    """The benchmark in its largest dimension as a small table in Markdown."""
    study = kept(Path(folder) / f"{PAPER[0]}.jsonl")
    return "\n".join(table_lines(benchmark_report.summary(study.rows, study.settings)))


def blocks_of(name: str, study: Kept) -> list[Block]:
    """The report of a study, finished or not."""
    experiment = load(name)
    unfinished = study.done < study.planned
    text = f"Scale {study.scale}: {study.done} of {study.planned} tasks are done."
    if not study.rows or (unfinished and getattr(experiment, "WHOLE", False)):
        return [Text(f"{text} The report needs more." if study.rows else "No trial yet.")]
    found = experiment.report(study.rows, study.settings)
    return [Text(text), *found] if unfinished else found


def _section(name: str, study: Kept, path: Path) -> Iterator[Block]:
    yield Heading(load(name).TITLE)
    source = f"{zlib.crc32(path.read_bytes()):08x}"
    for block in blocks_of(name, study):
        if isinstance(block, Heading):
            yield block._replace(level=block.level + 1)
        else:
            yield dataclasses.replace(block, source=source) if isinstance(block, Figure) else block


def _machines(studies: Iterable[Kept]) -> str:
    """Where and when the results were made."""
    dates: dict[str, set[str]] = {}
    for study in studies:
        for run in study.runs:
            threads = "one thread" if run["threads"] == 1 else f"{run['threads']} threads"
            machine = (
                f"{run['processor']}, {run['cores']} cores, {threads} a process, Python "
                f"{run['python']}, Numba {run['numba']}, fastsksd {run['fastsksd']}"
            )
            dates.setdefault(machine, set()).add(run["date"])
    return (
        "Made "
        + "; ".join(
            f"on {machine}: {' to '.join(sorted({min(days), max(days)}))}"
            for machine, days in dates.items()
        )
        + "."
    )
