"""Many tasks in several processes: results as they are done, dead processes replaced, no orphans."""

import os
import threading
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process

# Tasks handed out per process: an interrupt has little to wait for, and an endless list of tasks
# does no harm.
_AHEAD = 3
_CHANCES = 2  # a task whose process dies as often while it runs alone is the one to blame
_HOPELESS = 3  # tasks to blame, before any was done, after which it is not the tasks


class ProcessesDied(Exception):
    """Processes died over and over."""


class _Attempt:
    """A task, and how often its process died while it ran alone."""

    def __init__(self, task):
        self.task = task
        self.deaths = 0


def finished(function, tasks, jobs, died=None):
    """Pairs (task, function(task)) as they are done, in any order.

    With one job, in this process on all threads; else in so many new processes, each on one thread. When a process dies, the tasks
    that were running are begun again one at a time, so `function` must have no effect beyond its result. A task that brings its
    process down twice ends the run, or with `died` has ``died()`` for its result.
    """
    if jobs == 1:
        for task in tasks:
            yield task, function(task)
        return
    queue, running, suspects = map(_Attempt, tasks), {}, []
    done, blamed, pool = 0, 0, _new_pool(jobs)
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
                                "processes die over and over, perhaps for want of memory, or because a script that starts them does "
                                'so outside `if __name__ == "__main__":`'
                            ) from error
                        yield broken.pop().task, died()
                suspects = broken + suspects
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def finished_in_threads(function, tasks, starts):
    """The same in threads of this process, one for each of the functions `starts`, which it calls first."""
    starts, tasks, running = list(starts), iter(tasks), {}
    pool = ThreadPoolExecutor(len(starts), initializer=lambda: starts.pop()())
    try:
        most = 2 * len(starts)
        while True:
            while len(running) < most and (task := next(tasks, None)) is not None:
                running[pool.submit(function, task)] = task
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _one_blas_thread():
    """Processes started here have BLAS on one thread: the library reads these variables once, when it is loaded."""
    added = [name for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS") if name not in os.environ]
    os.environ.update(dict.fromkeys(added, "1"))
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _new_pool(jobs):
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_start_worker)


def _start_worker():
    import numba

    numba.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent():
    parent_process().join()  # a parent that was killed can't end its workers
    os._exit(1)
