"""``fastsksd compare``: which of several models fits the samples in a file better."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
import sys
import textwrap
from argparse import Namespace
from pathlib import Path
from typing import Any

from .._validate import counted
from ..comparison import Comparison, compare
from ..procedure.fitted import Refit
from ..report.comparison import comparison_notes, comparison_tables
from ..report.tables import plain
from .files import is_netcdf, open_file
from .output import check_page
from .shell import CommandError, Shell
from .sources import FileError, finite_rows, read_all
from .targets import load_fit, load_score
from .test import message, open_beside


def run_compare(arguments: Namespace) -> int:
    """Carry out ``fastsksd compare``.

    Returns the exit code: 0 when one is told to be the best, 1 when the best can't be told from
    another, 2 for an error, 3 when chains are too short to tell.
    """
    shell = Shell({"x": " and ".join(arguments.samples)})
    try:
        with contextlib.redirect_stdout(sys.stderr):
            compared, dropped = _compared(arguments, shell)
        content = {"samples": arguments.samples, "dropped": dropped, "seed": arguments.seed}
        if arguments.json:
            print(json.dumps(plain(content | compared.to_dict()), indent=2), flush=True)
        else:
            width = min(100, max(40, shutil.get_terminal_size().columns))
            print(repr(compared), textwrap.fill(compared.summary(), width), sep="\n\n", flush=True)
        if arguments.html is not None:
            page = as_page(compared, arguments)
            Path(arguments.html).write_text(page, encoding="utf-8")
        if compared.draws_needed:
            return 3
        return int(len(compared.best) > 1)
    except (Exception, SystemExit) as error:
        if arguments.debug:
            raise
        print(f"fastsksd: {message(error, ' '.join(arguments.samples), shell)}", file=sys.stderr)
        return 2


def as_page(compared: Comparison, arguments: Namespace) -> str:
    """The comparison as one HTML page."""
    from ..experiments.report import Heading, Items, Table, Text, figure_of, page
    from ..plot.canvas import new_figure

    blocks: list[Any] = [Text(compared.summary())]
    try:
        figure = new_figure((7.0, 1.5 + 0.3 * len(compared)))
        compared.plot(ax=figure.subplots())
        blocks.append(figure_of(figure, "Differences of discrepancies"))
    except ImportError as error:
        blocks.append(Text(f"No figures: {error}"))
    titles = "Discrepancies, best first", "Differences"
    for title, (first, *rest) in zip(titles, comparison_tables(compared), strict=True):
        blocks += [Heading(title), Table(list(first), rest)]
    blocks.append(Items(comparison_notes(compared)))
    blocks += [Heading("How it was made"), Text(arguments.line)]
    return page("Which is better?", blocks)


def _compared(arguments: Namespace, shell: Shell) -> tuple[Comparison, int]:
    """The comparison, and the number of rows left out."""
    check_page(arguments.html)
    names = ("lag", "n_slices", "kernel", "train", "level")
    given = {name: getattr(arguments, name) for name in names}
    options = {name: value for name, value in given.items() if value is not None}
    options["rng"] = arguments.seed
    if len(arguments.samples) == 1:
        return _models(arguments, shell, options)
    return _sets(arguments, shell, options)


def _models(arguments: Namespace, shell: Shell, options: dict[str, Any]) -> tuple[Comparison, int]:
    """Several models for the samples in one file."""
    pairs = [_named("--score", text) for text in arguments.score]
    scores = [(name, load_score(target)) for name, target in pairs]
    for name, target in pairs:
        shell.files[f"score[{name!r}]"] = f"--score {name}={target}"
    for name, target in (_named("--fit", text) for text in arguments.fit):
        scores.append((name, Refit(load_fit(target))))
        shell.files[f"score[{name!r}]"] = f"--fit {name}={target}"
    if len(scores) < 2:
        raise CommandError(
            "give at least two models, as --score A=MODULE:FUNCTION --fit B=gaussian, or several "
            "files of samples"
        )
    x, labels, dropped, columns = _read(arguments.samples[0], arguments)
    compared = compare(x, scores, chains=labels, **options)
    return dataclasses.replace(compared, coordinates=columns), dropped


def _sets(arguments: Namespace, shell: Shell, options: dict[str, Any]) -> tuple[Comparison, int]:
    """The samples in several files for one model."""
    if len(arguments.score) != 1 or arguments.fit:
        raise CommandError("several files of samples are compared for one model; give one --score")
    target = arguments.score[0].rpartition("=")[2]
    shell.files["score"] = f"--score {target}"
    score = load_score(target)
    sets, labels, dropped, columns = [], {}, 0, None
    for text in arguments.samples:
        name, path = _named("samples", text) if "=" in text else (text, text)
        x, label, left_out, own = _read(path, arguments)
        if columns is not None and own is not None and own != columns:
            listed = ", ".join(columns)
            raise CommandError(f"{path}: must have the columns of the first file, {listed}")
        columns = columns or own
        shell.files[f"x[{name!r}]"] = path
        sets.append((name, x))
        dropped += left_out
        if label is not None:
            labels[name] = label
    compared = compare(sets, score, chains=labels or None, **options)
    return dataclasses.replace(compared, coordinates=columns), dropped


def _named(flag: str, text: str) -> tuple[str, str]:
    name, equals, target = text.partition("=")
    if not equals or not name or not target:
        raise CommandError(f"{flag} {text}: must have a name, as in {flag} A=module:function")
    return name, target


def _read(path: str, arguments: Namespace) -> tuple[Any, Any, int, tuple[str, ...] | None]:
    """Samples, labels of chains if there are any, the number of rows left out, names of columns."""
    if is_netcdf(path):
        raise FileError(f"{path}: .nc files can't be compared; write the draws to a .csv or .npy")
    columns, labels = arguments.columns, None
    if arguments.chains is not None:
        labels = open_beside(path, "chains", arguments.chains)
        if columns is None:
            columns = [k for k in range(labels.width) if k != labels.columns[0]]
    samples = open_file(path, columns)
    labels = labels or samples.chains
    sources = [samples, *([labels] if labels is not None else [])]
    kept, dropped = finite_rows(sources, read_all(sources), drop=arguments.drop_nan)
    if dropped and not arguments.quiet:
        print(f"note: left out: {counted(dropped, 'row')} of {path}", file=sys.stderr)
    chains = kept[1][:, 0] if labels is not None else None
    return kept[0], chains, dropped, sources[0].names
