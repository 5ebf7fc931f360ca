"""Experiments: one module per study, table or figure; ``fastsksd reproduce NAME`` runs them and writes a report."""

from .report import pyplot, write_report
from .runner import EXPERIMENTS, RunError, load, names_of, run, settings_of

__all__ = [
    "EXPERIMENTS",
    "RunError",
    "load",
    "names_of",
    "reproduce",
    "run",
    "settings_of",
    "write_report",
]


def reproduce(
    name, scale="smoke", out="results", *, jobs=1, client=None, resume=False, progress=None
):
    """Run an experiment at a scale and write its report into the folder `out`; returns the paths of the two files. See `run`."""
    experiment, settings = load(name), settings_of(name, scale)
    if experiment.FIGURES:
        pyplot()  # better to miss it now than after the run
    rows = run(name, scale, out, jobs=jobs, client=client, resume=resume, progress=progress)
    try:
        return write_report(
            out, name, f"{experiment.TITLE} ({scale})", experiment.report(rows, settings)
        )
    except OSError as error:
        raise RunError(
            f"could not write the report: {error}. The results are kept; try again with --resume."
        ) from error
