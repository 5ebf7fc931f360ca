"""Experiments: one module per study. ``fastsksd reproduce NAME`` runs one and writes a report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .pages import blocks_of, write_page
from .report import pyplot, write_report
from .runner import EXPERIMENTS, Progress, RunError, kept, load, names_of, run, settings_of

__all__ = [
    "EXPERIMENTS",
    "RunError",
    "load",
    "names_of",
    "reproduce",
    "run",
    "settings_of",
    "write_page",
    "write_report",
]


def reproduce(
    name: str,
    scale: str = "smoke",
    out: str | os.PathLike[str] = "results",
    *,
    jobs: int = 1,
    client: Any = None,
    resume: bool = False,
    minutes: float | None = None,
    progress: Progress | None = None,
) -> tuple[Path, Path]:
    """Run an experiment and write its report.

    Parameters
    ----------
    name, scale : str
        Which experiment, and how large.
    out : path
        Folder of the results and the report.
    jobs, client, resume, minutes, progress
        As for `run`.

    Returns
    -------
    pair of paths
        The report in Markdown and in HTML.
    """
    experiment = load(name)
    if experiment.FIGURES:
        pyplot()  # if it is missing, better to know before the run
    options = dict(jobs=jobs, client=client, resume=resume, minutes=minutes, progress=progress)
    run(name, scale, out, **options)
    blocks = blocks_of(name, kept(Path(out) / f"{name}.jsonl"))
    try:
        return write_report(out, name, f"{experiment.TITLE} ({scale})", blocks)
    except OSError as error:
        raise RunError(
            f"could not write the report: {error}. The results are kept; try again with --resume."
        ) from error
