"""Many tasks in several processes: results as they are done, dead processes replaced, no orphans."""

import os
import threading
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process

_AHEAD = 3  # tasks handed out per process: an interrupt has little to wait for, and an endless list of tasks does no harm
_RESTARTS = 3


class ProcessesDied(Exception):
    """Processes died over and over."""


def finished(function, tasks, jobs):
    """Pairs (task, function(task)) as they are done, in any order.

    With one job, in this process on all threads; else in so many new processes, each on one thread. Tasks that a dead process had are
    begun again in new processes, so `function` must have no effect beyond its result.
    """
    if jobs == 1:
        for task in tasks:
            yield task, function(task)
        return
    queue, running, again = iter(tasks), {}, []
    deaths, pool = 0, _new_pool(jobs)
    try:
        while True:
            try:
                while len(running) < _AHEAD * jobs and (task := again.pop() if again else next(queue, None)) is not None:
                    again.append(task)  # not lost when the pool breaks before it has it
                    with _one_blas_thread():  # the pool starts its processes here
                        running[pool.submit(function, task)] = again.pop()
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    result = future.result()
                    yield running.pop(future), result
            except BrokenProcessPool as error:
                deaths += 1
                if deaths > _RESTARTS:
                    raise ProcessesDied(
                        f"processes died {deaths} times, perhaps for want of memory, or because a script that starts them does so "
                        'outside `if __name__ == "__main__":`'
                    ) from error
                again += running.values()
                running = {}
                pool.shutdown(wait=False)
                pool = _new_pool(jobs)
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
