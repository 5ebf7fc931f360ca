"""Threads that hardly spin while they wait, and no more of them than the process may use.

GNU OpenMP's threads spin at every barrier by default. Beside any other work on the machine, a
thread that spins holds the core that the thread it waits for needs, and every parallel region then
costs a time slice of the scheduler. Measured on two cores beside two busy processes: 100 steps of
refinement took 52 s with spinning threads and 0.35 s with passive ones. Threads that never spin
cost time on an idle machine, though: a few thousand turns, some microseconds, are the best of both
(idle, KE slices of 200 samples 25 ms, 64 ms without any; beside two busy processes the same).

OpenMP reads its policy once, when its library is loaded, which is when Numba starts its threads.
`prepare` is called before that. Where another library was first, as PyTorch is that is imported
before, its threads spin, and Numba's would be the same ones: beside other work, refinement and KE
slices then take three times what they take on one thread. Numba's own threads ("workqueue") take
their place: 0.6 and 0.9 times. What the user has set is left alone: OMP_WAIT_POLICY,
GOMP_SPINCOUNT, NUMBA_THREADING_LAYER, NUMBA_NUM_THREADS, or threads that were started before.
"""

import contextlib
import ctypes
import math
import os
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path, PurePosixPath
from queue import SimpleQueue
from typing import Any

import numba

from .._strict import with_these_settings

# GNU OpenMP goes by the number of turns, others by the policy.
_POLICY = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "3000"}
_CHOICES = (*_POLICY, "KMP_BLOCKTIME")  # of the user, which are left alone
_SHARE = ("quota", "period")
_started = False
_lock = threading.RLock()
_local = threading.local()
_tasks: SimpleQueue[Any] | None = None


def prepare() -> None:
    """Start Numba's threads, passive; let this Python thread use no more than it may.

    Numba counts the cores that a process may run on, but not its share of them.
    """
    global _started
    if getattr(_local, "ready", False):
        return
    with _lock:
        if not _started:
            with _passive():
                numba.get_num_threads()
            _started = True
    if "NUMBA_NUM_THREADS" not in os.environ:
        numba.set_num_threads(min(cpu_limit(), numba.get_num_threads()))
    _local.ready = True


def after_fork() -> None:
    """Make a new lock in a forked child, whose parent may have held the old one.

    The parent's threads are not there either.
    """
    global _lock, _tasks
    _lock = threading.RLock()
    _tasks = None


def started() -> bool:
    """Whether Numba's threads have been started, by `prepare` or by another library's code."""
    from numba.np.ufunc import parallel

    return _started or bool(getattr(parallel, "_is_initialized", False))


def set_num_threads(count: int) -> None:
    """Let this Python thread use so many of Numba's threads."""
    prepare()
    numba.set_num_threads(count)


def get_num_threads() -> int:
    """How many of Numba's threads this Python thread uses."""
    prepare()
    return int(numba.get_num_threads())


@contextlib.contextmanager
def single_thread() -> Iterator[None]:
    """Compiled code on one thread, where many tasks run side by side already."""
    before = get_num_threads()
    try:
        set_num_threads(1)
        yield
    finally:
        set_num_threads(before)


def share(work: Callable[[int, int], None], count: int, *, large: bool = True) -> None:
    """Call ``work(first, last)`` for stretches of ``range(count)``, side by side.

    On as many Python threads as this one may use of Numba's, for work that lets go of the
    interpreter. Work that takes less than a millisecond is not `large`, and done at once: to wake
    a thread costs a tenth of that, and beside other work much more.
    """
    global _tasks
    size = min(get_num_threads(), count) if large else 1
    if size <= 1:
        work(0, count)
        return
    with _lock:
        if _tasks is None:
            _tasks = _started_threads(numba.config.NUMBA_NUM_THREADS)
    own, *others = pairwise(count * k // size for k in range(size + 1))
    elsewhere, done = with_these_settings(work), SimpleQueue[BaseException | None]()
    for stretch in others:
        _tasks.put((elsewhere, stretch, done))
    try:
        work(*own)
    finally:
        errors = [done.get() for _ in others]
    for error in errors:
        if error is not None:
            raise error


def _started_threads(count: int) -> SimpleQueue[Any]:
    """The queue of tasks of so many threads.

    An interrupt may leave a lock of Python's own pools taken for ever, and the next task then waits
    for it. This queue has none.
    """
    tasks: SimpleQueue[Any] = SimpleQueue()
    for _ in range(count):
        threading.Thread(target=_serve, args=(tasks,), daemon=True).start()
    return tasks


def _serve(tasks: SimpleQueue[Any]) -> None:
    while True:
        work, stretch, done = tasks.get()
        try:
            work(*stretch)
            done.put(None)
        except BaseException as error:
            done.put(error)
        del work, stretch, done  # the arrays that it holds


@contextlib.contextmanager
def _passive() -> Iterator[None]:
    """Threads started within hardly spin, unless the user has chosen otherwise."""
    if any(name in os.environ for name in _CHOICES):
        yield
        return
    layers = numba.config.THREADING_LAYER_PRIORITY
    if _openmp_is_loaded():
        numba.config.THREADING_LAYER_PRIORITY = sorted(layers, key=lambda name: name == "omp")
    os.environ.update(_POLICY)
    try:
        yield
    finally:
        numba.config.THREADING_LAYER_PRIORITY = layers
        for name in _POLICY:
            del os.environ[name]


def _openmp_is_loaded() -> bool:
    """Whether Numba would find GNU OpenMP's library in this process, with its policy read."""
    try:
        ctypes.CDLL("libgomp.so.1", mode=os.RTLD_NOLOAD)
    except (OSError, AttributeError):  # not loaded; or a system without this flag
        return False
    return True


def core_count() -> int:
    """Cores that this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(cores or 1, cpu_limit())


def cpu_limit(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int:
    """Cores that control groups (a container, a job) grant, rounded up; many without a limit.

    The limit of a group holds for those within it, so the smallest from the process's own group
    upwards counts, of both versions of Linux' control groups. `own` names that group.
    """
    shares = []
    for folder in _control_groups(root, own):
        with contextlib.suppress(OSError, ValueError):
            quota, period = (folder / "cpu.max").read_text().split()
            shares.append(int(quota) / int(period))
        with contextlib.suppress(OSError, ValueError):
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text() for name in _SHARE)
            shares += [int(quota) / int(period)] if int(quota) > 0 else []
    return max(1, math.ceil(min(shares, default=2**16)))


def _control_groups(root: Path, own: Path) -> Iterator[Path]:
    """Folders of the groups that this process is in, and of those around them.

    A container may see its own group at the root, under the name that it has outside.
    """
    yield from (root, root / "cpu")
    lines = []
    with contextlib.suppress(OSError):
        lines = own.read_text().splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "" or "cpu" in controllers.split(","):
            inner = PurePosixPath(path.lstrip("/"))
            top = root / "cpu" if controllers else root
            yield from (top / group for group in (inner, *inner.parents))
