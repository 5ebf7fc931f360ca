"""Trials on disk: each is appended when it is finished, so that an interrupted run can continue.

An experiment is a module with

    TITLE, FIGURES   one line; whether the report draws, which needs matplotlib
    SCALES           settings for each scale, as plain data
    tasks(settings)  list of tasks, each a dict of plain data
    run_task(task, settings, rng)  -> list of rows, each a dict of plain data
    report(rows, settings)         -> list of blocks, see `report`

The random numbers of a task come from its own content, so that results depend neither on the order
of the tasks nor on the number of processes. The file of results begins with the settings; a run
with other settings is an error.
"""

from __future__ import annotations

import functools
import json
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ..scale import cluster, journal
from ..scale.pool import ProcessesDied, finished

Settings: TypeAlias = dict[str, Any]
Task: TypeAlias = dict[str, Any]
Row: TypeAlias = dict[str, Any]
Progress: TypeAlias = Callable[[int, int], object]

EXPERIMENTS = (
    "benchmark_gof",
    "rbm",
    "ica",
    "level",
    "groups",
    "chains",
    "power",
    "peers",
    "effects",
)


class RunError(Exception):
    """A run that can't start or continue, with a message for the user."""


def load(name: str) -> Any:
    """The module of an experiment."""
    if name not in EXPERIMENTS:
        raise RunError(f"unknown experiment {name!r}; there are {', '.join(EXPERIMENTS)}, and all.")
    return import_module(f"{__package__}.{name}")


def settings_of(name: str, scale: str) -> Settings:
    """The settings of an experiment at a scale."""
    scales = load(name).SCALES
    if scale not in scales:
        raise RunError(f"unknown scale {scale!r} of {name!r}; there are {', '.join(scales)}.")
    return scales[scale]


def names_of(name: str, scale: str) -> tuple[str, ...]:
    """The experiments of a name, which may be "all"; each has the scale."""
    names = EXPERIMENTS if name == "all" else (name,)
    for each in names:
        settings_of(each, scale)
    return names


def run(
    name: str,
    scale: str = "smoke",
    out: str | os.PathLike[str] = "results",
    *,
    jobs: int = 1,
    client: Any = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> list[Row]:
    """Run an experiment, or what is left of it.

    Parameters
    ----------
    name, scale : str
        Which experiment, and how large.
    out : path
        Folder of the results, created if needed.
    jobs : int
        Number of processes; each runs one trial at a time on one thread. With 1, trials run in this
        process on all threads.
    client : dask.distributed.Client, optional
        Run trials on the workers of this client instead, one on each of their threads. They need
        fastsksd and its extras installed.
    resume : bool
        Continue with the results in `out`. Without it, results there are an error.
    progress : callable, optional
        Called with (number done, number of all) after each trial.

    Returns
    -------
    list of dict
        Rows in the order of the tasks.

    Raises
    ------
    RunError
        If the run can't start or continue. Finished trials are kept.
    """
    experiment = load(name)
    settings = settings_of(name, scale)
    tasks = experiment.tasks(settings)
    path = Path(out) / f"{name}.jsonl"
    header = {"experiment": name, "scale": scale, "settings": settings}
    with _held(path):
        try:
            done = _open_results(path, header, resume)
        except OSError as error:
            raise RunError(f"could not open {path}: {error}.") from error
        keys = [task_key(task) for task in tasks]
        left = [task for task, key in zip(tasks, keys, strict=True) if key not in done]
        count = len(tasks) - len(left)
        try:
            with path.open("a") as file:
                for task, rows in _outcomes(
                    functools.partial(_run_task, name, settings), left, jobs, client
                ):
                    done[task_key(task)] = rows
                    journal.append(file, {"task": task, "rows": rows})
                    count += 1
                    if progress is not None:
                        progress(count, len(tasks))
        except (ProcessesDied, cluster.ClientLost) as error:
            raise RunError(
                f"{error}. The {count} trials before are kept; continue with --resume."
            ) from error
        except OSError as error:
            raise RunError(
                f"could not write {path}: {error}. The {count} trials before are kept; "
                "continue with --resume when there is room."
            ) from error
    return [row for key in keys for row in done[key]]


def _held(path: Path) -> AbstractContextManager[Any]:
    try:
        return journal.hold(path)
    except journal.Busy as error:
        raise RunError(f"{error} Wait for it or choose another folder.") from None
    except OSError as error:
        raise RunError(f"could not open {path}: {error}.") from error


def _outcomes(
    function: Callable[[Task], list[Row]], tasks: Sequence[Task], jobs: int, client: Any
) -> Iterator[tuple[Task, list[Row]]]:
    if client is None:
        return finished(function, tasks, jobs)

    def failed(error: BaseException) -> None:
        raise error

    return cluster.finished(client, function, tasks, failed)


def task_key(task: Task) -> str:
    """A task as text, the same for equal tasks."""
    return json.dumps(task, sort_keys=True)


def task_rng(name: str, task: Task) -> np.random.Generator:
    """Random numbers of a task."""
    return np.random.default_rng([zlib.crc32(name.encode()), zlib.crc32(task_key(task).encode())])


def _open_results(path: Path, header: dict[str, Any], resume: bool) -> dict[str, list[Row]]:
    """Results in the file, by task; an incomplete last line is removed."""
    journal.begin(path, header)
    try:
        there, lines, whole = journal.read(
            path, lambda line: (line["task"].keys(), line["rows"][0].keys())
        )
    except journal.Unreadable as error:
        raise RunError(f"{error} Repair it or choose another folder.") from None
    expected = json.loads(json.dumps(header))
    if there != expected:
        raise RunError(
            f"{path} holds results of other settings ({_difference(there, expected)}); "
            "choose another folder."
        )
    if not resume and lines:
        raise RunError(
            f"{path} holds {len(lines)} finished trials; "
            "continue with --resume or choose another folder."
        )
    journal.mend(path, whole)
    return {task_key(line["task"]): line["rows"] for line in lines}


def _difference(there: Any, wanted: dict[str, Any]) -> str:
    if not isinstance(there, dict) or not isinstance(there.get("settings"), dict):
        return "it has no settings"
    there = {**there, **there["settings"]}
    wanted = {**wanted, **wanted["settings"]}
    names = [
        name
        for name in sorted({*there, *wanted} - {"settings"})
        if there.get(name) != wanted.get(name)
    ]
    return ", ".join(f"{name}: {there.get(name)} there, {wanted.get(name)} here" for name in names)


def _run_task(name: str, settings: Settings, task: Task) -> list[Row]:
    return load(name).run_task(task, settings, task_rng(name, task))
