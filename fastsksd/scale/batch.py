"""Many tests: in this process, in several, on GPUs or on a Dask cluster, with the same p-values.

Every problem has a seed of its own, spawned from `rng` before the problem is handed out. So a
result does not depend on the order in which tests end, on where they run, or on whether a test had
to be started again. (The process that compiles the code, once after each installation, may round
the last digits differently from those that load it from the cache.)
"""

from __future__ import annotations

import dataclasses
import os
import pickle
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sized
from typing import Any, Literal, cast

import numpy as np

from .._doors import door
from .._progress import shown_progress
from .._strict import drawn_as_the_caller_has_it
from .._typing import Rng
from .._validate import (
    ArgumentError,
    ArgumentTypeError,
    Option,
    check_choice,
    check_integer,
    check_rng,
)
from ..engines import DEVICE_ENGINES, cuda
from ..gof import gof_test
from ..result import GofResult
from . import cluster
from .batch_result import BatchError, BatchInterrupted, BatchResult
from .checkpoint import Checkpoint, NotSaved, digested
from .pool import ProcessesDied, finished, finished_in_threads
from .problems import Parcel, Problem, check_options, make_problem, message_of, pack

_DEATH = "its process died twice: it ran out of memory, or `score` brings the process down"


@door
def gof_batch(
    problems: Iterable[Any],
    *,
    client: Any = None,
    n_jobs: int | None = None,
    progress: bool | Callable[[int, int | None], object] = True,
    rng: Rng = None,
    on_error: Literal["raise", "return"] = "raise",
    checkpoint: str | os.PathLike[str] | None = None,
    **options: Any,
) -> BatchResult:
    """Run many goodness-of-fit tests.

    Parameters
    ----------
    problems : iterable
        Pairs (x, score), or mappings with "x" and "score". A mapping may also have a "name", and
        options of `gof_test` for this problem alone. The iterable is read a few problems ahead of
        the tests, so a generator may load data as it is needed.
    client : dask.distributed.Client, optional
        Run on its workers. Samples travel through the scheduler.
    n_jobs : int, optional
        Number of processes, each on one thread. By default tests run in this process, one after the
        other, on all threads. In a script, start processes under ``if __name__ == "__main__":``. A
        score function that can't be sent to a process is evaluated in this one, if its values at
        the samples are enough.
    progress : bool or callable
        Whether a line on standard error shows the progress, or a function that is called with
        (number done, number of all or None) after each test.
    rng : None, int or numpy.random.Generator
        Problem k has the k-th seed spawned from it, so p-values do not depend on where tests run.
        For an integer, problem k alone is
        ``gof_test(x, score, rng=np.random.SeedSequence(rng).spawn(k + 1)[k])``. A generator spawns
        other seeds each time.
    on_error : {"raise", "return"}
        What to do about tests that failed, after all others are done.

        "raise"
            Raise a `BatchError`, with the other results in its `result`.
        "return"
            Return None in place of the result, and the message in `errors`.
    checkpoint : path, optional
        File in which every result is kept as soon as it is there. A batch that was killed continues
        from it. A file of other problems, options or seeds is an error, and so is a file that
        another batch is writing. Tests that failed are tried again. With rng=None the seeds are
        those of the file.
    **options
        Options of `gof_test` for all problems. With ``engine="cuda"`` all GPUs share the tests, two
        at a time on each, and score functions are called from several threads. A test for which a
        GPU has too little memory runs on the CPU instead, with a warning; the `engine` of its
        result says so.

    Returns
    -------
    BatchResult
        The results. They hold no samples, so their `explain` needs `x` and `score`.

    Raises
    ------
    ValueError, TypeError
        For bad arguments of the batch, before any test. The message names the argument.
    BatchError
        If tests failed, or if processes, the cluster or the checkpoint did.
    BatchInterrupted
        On Ctrl-C, a `KeyboardInterrupt` with the results so far in its `result`.

    See Also
    --------
    gof_test : One test.
    gof_stream : Samples that do not fit into memory.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((200, 2))
    >>> problems = [{"name": f"sd {s}", "x": s * x, "score": np.negative} for s in (1.0, 2.0)]
    >>> batch = fs.gof_batch(problems, progress=False, rng=0, n_resamples=199)
    >>> batch.pvalues.shape, batch["sd 2.0"].reject()
    ((2,), True)
    """
    check_choice("on_error", on_error, ("raise", "return"))
    check_options(options)
    on_device = options.get("engine") in DEVICE_ENGINES
    jobs = _check_jobs(n_jobs, client, on_device)
    _check_problems(problems)
    show = shown_progress(progress, "gof_batch")
    seeds = cast(np.random.SeedSequence, check_rng(rng).bit_generator.seed_seq)
    total = len(problems) if isinstance(problems, Sized) else None
    saved = None
    if checkpoint is not None:
        saved = Checkpoint(checkpoint, seeds, fixed=rng is not None, total=total)
        seeds = saved.seeds
    ledger = _Ledger(total, show)
    waiting = _waiting(problems, options, seeds, ledger, saved, as_parcels=jobs > 1)
    outcomes = _outcomes(waiting, client, jobs, on_device)
    try:
        for task, (result, error) in outcomes:
            if saved is not None and error is None:
                saved.keep(task, result)
            ledger.enter(task.number, result, error)
    except (ProcessesDied, cluster.ClientLost, NotSaved) as error:
        batch = ledger.outcome()
        done = sum(result is not None for result in batch)
        raise BatchError(f"{error}; {done} tests were done.", batch) from error
    except KeyboardInterrupt as stop:
        raise BatchInterrupted(ledger.outcome()) from stop
    finally:
        outcomes.close()
        if saved is not None:
            saved.close()
    batch = ledger.outcome()
    if batch.errors and on_error == "raise":
        raise _failure_of(batch)
    return batch


def _check_jobs(n_jobs: int | None, client: Any, on_device: bool) -> int:
    """Number of processes, after a check that one argument alone says where tests run."""
    jobs = 1 if n_jobs is None else check_integer("n_jobs", n_jobs, 1)
    if client is not None:
        if n_jobs is not None:
            raise ArgumentError(
                "n_jobs", "and ", Option("client"), " both say where tests run; give one of them"
            )
        cluster.check_client(client)
    if on_device and jobs > 1:
        raise ArgumentError(
            "n_jobs",
            "processes are for the CPU; with ",
            Option("engine", "cuda"),
            " all GPUs share the tests without them",
        )
    return jobs


def _check_problems(problems: Any) -> None:
    if not hasattr(problems, "__iter__") or isinstance(problems, (str, bytes, Mapping, np.ndarray)):
        raise ArgumentTypeError(
            "problems",
            "must be an iterable of pairs (x, score) or of mappings, not "
            f"{type(problems).__name__}",
        )
    if isinstance(problems, tuple) and len(problems) == 2 and isinstance(problems[0], np.ndarray):
        raise ArgumentTypeError(
            "problems", "is one pair (x, score); give a list of them: [(x, score)]"
        )


class _Ledger:
    """Names, results and errors as they come, and a report of the progress."""

    def __init__(self, total: int | None, show: Callable[[int, int | None], object] | None) -> None:
        self.total, self.show = total, show
        self.names: list[str] = []
        self.results: dict[int, GofResult | None] = {}
        self.errors: dict[int, str] = {}

    def enter(self, number: int, result: GofResult | None, error: str | None) -> None:
        self.results[number] = result
        if error is not None:
            self.errors[number] = error
        if self.show is not None:
            self.show(len(self.results), self.total)

    def outcome(self) -> BatchResult:
        results = tuple(self.results.get(number) for number in range(len(self.names)))
        return BatchResult(results, tuple(self.names), dict(sorted(self.errors.items())))


def _waiting(
    problems: Iterable[Any],
    options: dict[str, Any],
    seeds: np.random.SeedSequence,
    ledger: _Ledger,
    saved: Checkpoint | None,
    as_parcels: bool,
) -> Iterator[Problem | Parcel]:
    """Yield what is to be tested; enter bad problems and known results in the ledger."""
    for number, given in enumerate(drawn_as_the_caller_has_it(problems)):
        seed = seeds.spawn(1)[0]
        ledger.names.append(str(number))
        try:
            problem = make_problem(number, given, options, seed)
            ledger.names[number] = problem.name
            if saved is not None:
                problem = digested(problem)
            task = pack(problem) if as_parcels else problem
        except Exception as error:
            ledger.enter(number, None, message_of(error))
            continue
        if saved is not None and (known := saved.result_of(problem)) is not None:
            ledger.enter(number, known, None)
        else:
            yield task


def _outcomes(
    tasks: Iterator[Problem | Parcel], client: Any, jobs: int, on_device: bool
) -> Generator[Any, None, None]:
    """Pairs of a task and what `_run` returned, as tests are done, wherever they run."""
    if client is not None:
        return cluster.finished(client, _run, tasks, lambda error: (None, message_of(error)))
    if on_device:
        return finished_in_threads(_run, tasks, cuda.lanes())
    function = _run_parcel if jobs > 1 else _run
    return finished(function, tasks, jobs, died=lambda: (None, _DEATH))


def _run(problem: Problem) -> tuple[GofResult | None, str | None]:
    """Result and None, or None and what was wrong."""
    try:
        try:
            result = gof_test(problem.x, problem.score, rng=problem.seed, **problem.options)
        except cuda.DeviceOutOfMemory as error:
            result, reason = None, str(error)
        # Out here the error is gone, and with its traceback all that the test had on the device.
        if result is None:
            warnings.warn(
                f"problem {problem.name!r} is tested on the CPU: {reason}",
                RuntimeWarning,
                stacklevel=2,
            )
            result = gof_test(
                problem.x, problem.score, rng=problem.seed, **{**problem.options, "engine": "cpu"}
            )
        # The samples of all problems may be more than memory holds.
        return dataclasses.replace(result, _whole=None, _active=None, _fold_pairs=()), None
    except Exception as error:
        return None, message_of(error)


def _run_parcel(parcel: Parcel) -> tuple[GofResult | None, str | None]:
    try:
        problem = pickle.loads(parcel.content)
    except Exception as error:
        return None, f"the problem could not be unpacked in another process: {message_of(error)}"
    return _run(problem)


def _failure_of(batch: BatchResult) -> BatchError:
    """The error that tells of tests that failed."""
    shown = [
        f"{batch.names[number]!r}: {text.rstrip('.')}" for number, text in batch.errors.items()
    ]
    listing = "; ".join([*shown[:3], *(["..."] if len(shown) > 3 else [])])
    return BatchError(
        f"{len(shown)} of {len(batch)} tests failed ({listing}). The others are in `result` of "
        "this error; on_error='return' returns them.",
        batch,
    )
