"""Trials on disk: every finished one is appended at once, so that a run that was killed goes on where it stopped.

An experiment is a module with

    TITLE, FIGURES   one line; whether the report draws, which needs matplotlib
    SCALES           settings for each scale, as plain data
    tasks(settings)  list of tasks, each a dict of plain data
    run_task(task, settings, rng)  -> list of rows, each a dict of plain data
    report(rows, settings)         -> list of blocks, see `report`

A task's random numbers come from its own content, so results depend neither on the order of the tasks nor on the number of
processes. The file of results begins with the settings; a run with others is refused.
"""

import functools
import json
import zlib
from importlib import import_module
from pathlib import Path

import numpy as np

from ..scale import cluster, journal
from ..scale.pool import ProcessesDied, finished

EXPERIMENTS = ("benchmark_gof", "rbm", "ica", "level", "power")


class RunError(Exception):
    """A run that can't start or go on, with a message for the user."""


def load(name):
    """The module of an experiment."""
    if name not in EXPERIMENTS:
        raise RunError(f"unknown experiment {name!r}; there are {', '.join(EXPERIMENTS)}, and all.")
    return import_module(f"{__package__}.{name}")


def settings_of(name, scale):
    """The settings of an experiment at a scale."""
    scales = load(name).SCALES
    if scale not in scales:
        raise RunError(f"unknown scale {scale!r} of {name!r}; there are {', '.join(scales)}.")
    return scales[scale]


def names_of(name, scale):
    """The experiments meant by a name, which may be "all"; each has the scale."""
    names = EXPERIMENTS if name == "all" else (name,)
    for each in names:
        settings_of(each, scale)
    return names


def run(name, scale="smoke", out="results", *, jobs=1, client=None, resume=False, progress=None):
    """Run an experiment, or what is left of it; returns its rows in the order of the tasks.

    Parameters
    ----------
    name, scale : str
    out : path
        Folder of the results, made when it is not there.
    jobs : int
        Processes; each runs one trial at a time on one thread. With 1, trials run in this process on all threads.
    client : dask.distributed.Client, optional
        Run trials on the workers of this client instead, one on each of their threads. They need fastsksd and its extras installed.
    resume : bool
        Go on with results that `out` holds. Without it, results there are an error.
    progress : callable, optional
        Called with (number done, number of all) after each trial.
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
                f"{error}. The {count} trials before are kept; go on with --resume."
            ) from error
        except OSError as error:
            raise RunError(
                f"could not write {path}: {error}. The {count} trials before are kept; go on with --resume when there is room."
            ) from error
    return [row for key in keys for row in done[key]]


def _held(path):
    try:
        return journal.hold(path)
    except journal.Busy as error:
        raise RunError(f"{error} Wait for it or choose another folder.") from None
    except OSError as error:
        raise RunError(f"could not open {path}: {error}.") from error


def _outcomes(function, tasks, jobs, client):
    if client is None:
        return finished(function, tasks, jobs)

    def failed(error):
        raise error

    return cluster.finished(client, function, tasks, failed)


def task_key(task):
    """A task as text, the same for equal tasks."""
    return json.dumps(task, sort_keys=True)


def task_rng(name, task):
    """Random numbers of a task."""
    return np.random.default_rng([zlib.crc32(name.encode()), zlib.crc32(task_key(task).encode())])


def _open_results(path, header, resume):
    """Results that are there already, by task; a last line that a kill tore apart is taken off."""
    journal.begin(path, header)
    try:
        there, lines, whole = journal.read(
            path, lambda line: (line["task"].keys(), line["rows"][0].keys())
        )
    except journal.Unreadable as error:
        raise RunError(f"{error} Mend it or choose another folder.") from None
    expected = json.loads(json.dumps(header))
    if there != expected:
        raise RunError(
            f"{path} holds results of other settings ({_difference(there, expected)}); choose another folder."
        )
    if not resume and lines:
        raise RunError(
            f"{path} holds {len(lines)} finished trials; go on with --resume or choose another folder."
        )
    journal.mend(path, whole)
    return {task_key(line["task"]): line["rows"] for line in lines}


def _difference(there, wanted):
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


def _run_task(name, settings, task):
    return load(name).run_task(task, settings, task_rng(name, task))
