"""Trials on disk: each is appended when it is finished, so that an interrupted run can continue.

An experiment is a module with

    TITLE, FIGURES   one line; whether the report draws, which needs matplotlib
    SCALES           settings for each scale, as plain data
    tasks(settings)  list of tasks, each a dict of plain data
    can_run(task)    optional: whether the task can be run on this machine
    run_task(task, settings, rng)  -> list of rows, each a dict of plain data
    report(rows, settings)         -> list of blocks, see `report`; some tasks may be missing

and, if need be,

    WHOLE            True: report needs the rows of all tasks
    CHECKPOINTS      True: run_task may have a fourth argument, a path for its unfinished state

The random numbers of a task come from its own content, so that results depend neither on the order
of the tasks nor on the number of processes. The file of results begins with the settings; a run
with other settings is an error. Every run adds a line with its date and machine before its trials.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import platform
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from time import gmtime, monotonic, strftime
from typing import Any, NamedTuple, TypeAlias

import numba
import numpy as np

from .._blas import one_blas_thread
from .._version import __version__
from ..compute.threads import get_num_threads
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
    "few_samples",
    "groups",
    "searches",
    "chains",
    "mcmc",
    "metrics",
    "power",
    "peers",
    "choices",
    "effects",
    "compare",
    "weights",
    "fit",
)


# Digits of the numbers in the files: enough for any table, and files stay small.
_DIGITS = 6


class RunError(Exception):
    """A run that can't start or continue, with a message for the user."""


class Kept(NamedTuple):
    """What a file of results holds.

    Attributes
    ----------
    scale : str
    settings : dict
    rows : list of dict
        Rows of the finished tasks, in the order of the tasks.
    done, planned : int
        Number of finished tasks, and of all.
    runs : list of dict
        Date and machine of each run that added to the file.
    """

    scale: str
    settings: Settings
    rows: list[Row]
    done: int
    planned: int
    runs: list[dict[str, Any]]


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
    minutes: float | None = None,
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
    minutes : float, optional
        Begin no trial after this time. The rest is left for a run with `resume`.
    progress : callable, optional
        Called with (number done, number of all) after each trial.

    Returns
    -------
    list of dict
        Rows of the finished tasks, in the order of the tasks.

    Raises
    ------
    RunError
        If the run can't start or continue. Finished trials are kept.
    """
    settings = settings_of(name, scale)
    experiment = load(name)
    tasks = experiment.tasks(settings)
    if hasattr(experiment, "can_run"):
        tasks = [task for task in tasks if experiment.can_run(task)]
    path = Path(out) / f"{name}.jsonl"
    header = {"experiment": name, "scale": scale, "settings": settings}
    with _held(path):
        try:
            done = _open_results(path, header, resume)
        except OSError as error:
            raise RunError(f"could not open {path}: {error}.") from error
        left = [task for task in tasks if task_key(task) not in done]
        count = len(tasks) - len(left)
        if minutes is not None:
            left = _until(monotonic() + 60.0 * minutes, left)
        # A worker of a cluster may have another disk, and another one may take its task.
        unfinished = path.with_suffix(".unfinished") if client is None else None
        work = functools.partial(_run_task, name, settings, unfinished)
        begun = False
        try:
            with path.open("a") as file:
                for task, rows in _outcomes(work, left, jobs, client):
                    if not begun:
                        journal.append(file, {"run": this_machine()})
                        begun = True
                    done[task_key(task)] = rows
                    journal.append(file, {"task": task, "rows": rows})
                    count += 1
                    if progress is not None:
                        progress(count, len(tasks))
            if unfinished is not None:
                with contextlib.suppress(OSError):
                    unfinished.rmdir()  # unless the state of a killed task is there
        except (ProcessesDied, cluster.ClientLost) as error:
            raise RunError(
                f"{error}. The {count} trials before are kept; continue with --resume."
            ) from error
        except OSError as error:
            raise RunError(
                f"could not write {path}: {error}. The {count} trials before are kept; "
                "continue with --resume when there is room."
            ) from error
    return _in_order(tasks, done)


def _until(end: float, tasks: Sequence[Task]) -> Iterator[Task]:
    for task in tasks:
        if monotonic() >= end:
            return
        yield task


def _in_order(tasks: Sequence[Task], done: dict[str, list[Row]]) -> list[Row]:
    return [row for task in tasks for row in done.get(task_key(task), ())]


def kept(path: str | os.PathLike[str]) -> Kept:
    """Read the results of a study, finished or not.

    Raises
    ------
    RunError
        If the file can't be read, or is of another version of the study.
    """
    path = Path(path)
    try:
        header, lines, _ = journal.read(path, _check_line)
        name, scale = header["experiment"], header["scale"]
    except journal.Unreadable as error:
        raise RunError(str(error)) from None
    except (OSError, LookupError, TypeError) as error:
        raise RunError(f"could not read {path}: {error}.") from error
    settings = settings_of(name, scale)
    _check_header(path, header, {"experiment": name, "scale": scale, "settings": settings})
    tasks, done = load(name).tasks(settings), _by_task(lines)
    runs = [line["run"] for line in lines if "run" in line]
    return Kept(scale, settings, _in_order(tasks, done), len(done), len(tasks), runs)


def _held(path: Path) -> AbstractContextManager[Any]:
    try:
        return journal.hold(path)
    except journal.Busy as error:
        raise RunError(f"{error} Wait for it or choose another folder.") from None
    except journal.Unreadable as error:
        raise RunError(f"{error} Choose another folder.") from None
    except OSError as error:
        raise RunError(f"could not open {path}: {error}.") from error


def _outcomes(
    function: Callable[[Task], list[Row]], tasks: Iterable[Task], jobs: int, client: Any
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
        there, lines, whole = journal.read(path, _check_line)
    except journal.Unreadable as error:
        raise RunError(f"{error} Repair it or choose another folder.") from None
    _check_header(path, there, header)
    done = _by_task(lines)
    if not resume and done:
        raise RunError(
            f"{path} holds {len(done)} finished trials; "
            "continue with --resume or choose another folder."
        )
    journal.mend(path, whole)
    return done


def _check_line(line: Any) -> None:
    """Raise an error for what is neither the line of a task nor that of a run."""
    _ = line["run"]["date"] if "run" in line else (line["task"].keys(), line["rows"][0].keys())


def _check_header(path: Path, there: Any, wanted: dict[str, Any]) -> None:
    expected = json.loads(json.dumps(wanted))
    if there != expected:
        raise RunError(
            f"{path} holds results of other settings ({_difference(there, expected)}); "
            "choose another folder."
        )


def _by_task(lines: Iterable[Any]) -> dict[str, list[Row]]:
    return {task_key(line["task"]): line["rows"] for line in lines if "task" in line}


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


@one_blas_thread()  # studies call the steps of a test, which have no doors
def _run_task(name: str, settings: Settings, unfinished: Path | None, task: Task) -> list[Row]:
    experiment, rng = load(name), task_rng(name, task)
    if unfinished is None or not getattr(experiment, "CHECKPOINTS", False):
        return _rounded(experiment.run_task(task, settings, rng))
    state = unfinished / f"{zlib.crc32(task_key(task).encode()):08x}.npz"
    rows = _rounded(experiment.run_task(task, settings, rng, state))
    state.unlink(missing_ok=True)  # the folder stays: another task may be about to write to it
    return rows


def _rounded(value: Any) -> Any:
    """Plain data with rounded numbers."""
    if isinstance(value, dict):
        return {name: _rounded(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(entry) for entry in value]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


def this_machine() -> dict[str, Any]:
    """Date, processor and versions, for the line of a run."""
    return {
        "date": strftime("%Y-%m-%d", gmtime()),
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": get_num_threads(),
        "python": platform.python_version(),
        "numba": numba.__version__,
        "fastsksd": __version__,
    }


def processor() -> str:
    """The processor by name, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
