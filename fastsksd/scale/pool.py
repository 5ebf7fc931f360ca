"""Many tasks in several processes.

Results come as they are done, processes that died are replaced, and none outlives its parent.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from typing import Any

# Tasks handed out per process: an interrupt waits for few of them, and the list of tasks may be
# endless.
_AHEAD = 3
_CHANCES = 2  # a task is to blame if its process dies so often while it runs alone
_HOPELESS = 3  # if so many tasks are to blame before any was done, the tasks are not the reason


class ProcessesDied(Exception):
    """Processes died repeatedly."""


class _Attempt:
    """A task, and how often its process died while it ran alone."""

    def __init__(self, task: Any) -> None:
        self.task = task
        self.deaths = 0


def finished(
    function: Callable[[Any], Any],
    tasks: Iterable[Any],
    jobs: int,
    died: Callable[[], Any] | None = None,
) -> Generator[tuple[Any, Any], None, None]:
    """Yield pairs (task, function(task)) as they are done, in any order.

    When a process dies, the tasks that were running are started again, one at a time. So `function`
    must have no effect beyond its result.

    Parameters
    ----------
    function : callable
    tasks : iterable
    jobs : int
        1 for this process, on all threads; else the number of new processes, each on one thread.
    died : callable, optional
        A task that brings its process down twice has ``died()`` for its result. Without it, such a
        task ends the run.

    Raises
    ------
    ProcessesDied
        If a task brought its process down twice, and there is no `died` or nothing else was done.
    """
    if jobs == 1:
        for task in tasks:
            yield task, function(task)
        return
    queue = map(_Attempt, tasks)
    running: dict[Any, _Attempt] = {}
    suspects: list[_Attempt] = []
    done, blamed, alone, pool = 0, 0, False, _new_pool(jobs)
    try:
        while True:
            attempt = None
            try:
                while len(running) < (1 if suspects else _AHEAD * jobs):
                    attempt = suspects[0] if suspects else next(queue, None)
                    if attempt is None:
                        break
                    with _one_blas_thread():  # the pool starts its processes here
                        running[pool.submit(function, attempt.task)] = attempt
                    if suspects:
                        suspects.pop(0)
                        alone = True
                        break
                    alone = False
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    result = future.result()
                    done += 1
                    yield running.pop(future).task, result
            except BrokenProcessPool as error:
                broken = list(running.values())
                if attempt is not None and attempt not in broken and attempt not in suspects:
                    broken.append(attempt)  # the pool broke before it had the task
                running = {}
                pool.shutdown(wait=False)
                pool = _new_pool(jobs)
                if len(broken) == 1 and alone:
                    broken[0].deaths += 1
                    if broken[0].deaths == _CHANCES:
                        blamed += 1
                        if died is None or (done == 0 and blamed == _HOPELESS):
                            raise ProcessesDied(
                                "processes died repeatedly: they ran out of memory, or a script "
                                'starts them outside `if __name__ == "__main__":`'
                            ) from error
                        yield broken.pop().task, died()
                suspects = broken + suspects
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def finished_in_threads(
    function: Callable[[Any], Any], tasks: Iterable[Any], starts: Iterable[Callable[[], object]]
) -> Generator[tuple[Any, Any], None, None]:
    """Yield the same from threads of this process.

    There is a thread for each of the functions `starts`, which it calls first.
    """
    left, queue = list(starts), iter(tasks)
    running: dict[Any, Any] = {}
    pool = ThreadPoolExecutor(len(left), initializer=lambda: left.pop()())
    try:
        most = 2 * len(left)
        while True:
            while len(running) < most and (task := next(queue, None)) is not None:
                running[pool.submit(function, task)] = task
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    """Let processes that are started here have BLAS on one thread.

    The library reads these variables once, when it is loaded.
    """
    added = [name for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS") if name not in os.environ]
    os.environ.update(dict.fromkeys(added, "1"))
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _new_pool(jobs: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_start_worker)


def _start_worker() -> None:
    from ..compute.threads import set_num_threads

    set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()  # a parent that was killed can't end its workers
        os._exit(1)
