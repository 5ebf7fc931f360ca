"""Run as a program: what happens to results when something happens to the process.

``faults.py`` runs the short form, in about a minute; ``faults.py --long`` ten times as many kills,
interrupts and limits. ``--only WORD`` runs the faults whose names hold a word. Every fault is a
function `fault_...`. It starts this file again as ``faults.py --work NAME ...``, in a process of
its own that can be killed, and returns a line that says what was seen, or fails by an assertion.
"""

import argparse
import ctypes
import functools
import json
import os
import random
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FAULTS, WORK = {}, {}


def fault(function):
    """A fault to be run."""
    FAULTS[function.__name__] = function
    return function


def work(function):
    """What a process does until the fault."""
    WORK[function.__name__] = function
    return function


class Process(subprocess.Popen):
    """A process at work, in a group of its own, with its own place for compiled code if asked."""

    def __init__(self, name, *arguments, cache=None, env=None, **options):
        env = os.environ | (env or {}) | ({} if cache is None else {"NUMBA_CACHE_DIR": str(cache)})
        super().__init__(
            [sys.executable, __file__, "--work", name, *map(str, arguments)],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **options,
        )

    def answer(self):
        """What it printed in the end, as data; it must end well."""
        output, errors = self.communicate(timeout=600)
        assert self.returncode == 0, f"exit code {self.returncode}: {errors[-2000:]}"
        return json.loads(output.splitlines()[-1])

    def kill_hard(self):
        """SIGKILL to the process alone; the processes that it started must notice."""
        self.kill()
        self.communicate()
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                os.killpg(self.pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.05)
        os.killpg(self.pid, signal.SIGKILL)
        raise AssertionError("processes outlived the one that started them by 30 s")


def alike(one, other):
    """Equal, but for the last digits of statistics; p-values and whole numbers exactly."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(
            name == "seconds" or (name == "pvalue" and one[name] == other[name])
            or (name != "pvalue" and alike(one[name], other[name]))
            for name in one
        )  # fmt: skip
    if isinstance(one, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= 1e-9 * max(1.0, abs(one))
    return one == other


def samples(n, d, seed=0):
    """Standard normal samples."""
    import numpy as np

    return np.random.default_rng(seed).standard_normal((n, d))


def told(result):
    """A result as data."""
    return {"pvalue": result.pvalue, "statistic": result.statistic}


@work
def batch(path, jobs):
    """Tests with a checkpoint."""
    import numpy as np

    import fastsksd as fs

    problems = [(samples(150, 3, seed), np.negative) for seed in range(12)]
    slices = fs.random_slices(3, 2, rng=0)
    done = fs.gof_batch(problems, rng=1, progress=False, checkpoint=path, slices=slices,
                        n_jobs=int(jobs) or None, n_resamples=400)  # fmt: skip
    return [told(one) for one in done]


@work
def study(folder):
    """A study of the command line, or what is left of it."""
    from fastsksd.experiments import runner

    return runner.run("chains", "smoke", folder, resume=True)


@work
def one_test(threads=1):
    """The same test on so many Python threads at once."""
    import numpy as np

    import fastsksd as fs

    slices = fs.random_slices(3, 2, rng=0)
    x, done = samples(300, 3), []

    def run():
        done.append(told(fs.gof_test(x, np.negative, slices=slices, rng=1, n_resamples=200)))

    running = [threading.Thread(target=run) for _ in range(int(threads))]
    for one in running:
        one.start()
    for one in running:
        one.join()
    from fastsksd.compute import notice

    return {"results": done, "compiled": notice.compiled_count()}


@work
def forked(depth):
    """A test in the parent, and in children that were forked after it."""
    import numpy as np

    import fastsksd as fs

    def run():
        return told(fs.gof_test(samples(300, 3), np.negative, rng=1, n_resamples=100))

    done = [run()]
    for _ in range(int(depth)):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write, json.dumps(run()).encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            done.append(json.loads(pipe.read()))
        assert os.waitpid(child, 0)[1] == 0
    return done


@work
def in_little_memory(megabytes):
    """A test of 16 MB of samples in so much memory more than the process has."""
    import numpy as np

    import fastsksd as fs

    x = samples(100_000, 20)
    fs.gof_test(x[:300], np.negative, rng=1, n_resamples=50)
    fs.gof_test(x[:5000], np.negative, rng=1, n_resamples=50)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = used + int(megabytes) * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        return told(fs.gof_test(x, np.negative, rng=1, n_resamples=50))
    except MemoryError:
        return "MemoryError"


@work
def interrupted(path, times):
    """Ctrl-C at random moments of tests, what they say, and batches: how often it was heard."""
    import numpy as np

    import fastsksd as fs

    problems = [(samples(500, 5, seed), np.negative) for seed in range(4)]
    quiet = dict(rng=1, progress=False, on_error="return", n_resamples=200)

    def test():
        return [fs.gof_test(*problems[0], rng=1, n_resamples=200)]

    def batch():
        return list(fs.gof_batch(problems, **quiet, checkpoint=f"{path}{count}"))

    def words():
        result.explain()
        result.summary()

    result = test()[0]
    words()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
    count, seen = 0, {"heard": 0, "too late": 0, "swallowed": 0}
    expected = [told(one) for one in batch()]
    lengths = {}
    for run in (test, batch, words):
        count, start = count + 1, time.monotonic()
        run()
        lengths[run] = time.monotonic() - start
    for run in [test, batch, words] * int(times):
        count += 1
        seen[_interrupted(run, random.uniform(0.0, 1.2 * lengths[run]))] += 1
        if run is batch:
            assert alike([told(one) for one in batch()], expected), "a resumed batch differs"
    return seen


def _interrupted(run, moment):
    """Whether SIGINT at a moment of a run was heard."""
    sent = threading.Event()

    def press():
        sent.set()
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(moment, press)
    try:
        timer.start()
        run()
        late = not sent.is_set()
        timer.cancel()
        timer.join()
        time.sleep(0.01)
    except KeyboardInterrupt:
        return "heard"
    return "too late" if late else "swallowed"


@work
def on_a_full_disk(path):
    """A batch whose checkpoint finds no room, and code that can't be kept."""
    import warnings

    import numpy as np

    import fastsksd as fs

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
    slices = fs.random_slices(3, 2, rng=0)
    problems = [(samples(100, 3, seed), np.negative) for seed in range(8)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fs.gof_batch(
                problems, rng=1, progress=False, checkpoint=path, slices=slices, n_resamples=99
            )
        except fs.BatchError as error:
            kept = sum(one is not None for one in error.result)
            return {
                "error": str(error),
                "kept": kept,
                "warnings": [str(one.message) for one in caught],
            }
    return None


def _killed(start, done, most, times):
    """Kill a process at random moments, then let it end; the answer and how often it was killed.

    `done` counts what is on disk, `most` of it at the end: a moment is a random count, and then a
    little longer. So it does not depend on how busy the machine is.
    """
    kills = 0
    for _ in range(times):
        process = start()
        moment = random.randint(min(done(), most), most)
        while process.poll() is None and done() < moment:
            time.sleep(0.005)
        time.sleep(random.uniform(0.0, 0.1))
        kills += process.poll() is None
        process.kill_hard()
    return start().answer(), kills


def _lines(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


@fault
def fault_kill_batch(folder, times):
    """SIGKILL of a batch, also with processes of its own."""
    expected = Process("batch", folder / "undisturbed.jsonl", 0).answer()
    total = 0
    for jobs in (0, 2):
        path = folder / f"killed_{jobs}.jsonl"
        found, kills = _killed(
            functools.partial(Process, "batch", path, jobs),
            functools.partial(_lines, path),
            len(expected),
            2 * times,
        )
        assert alike(found, expected), "a resumed batch differs"
        total += kills
    assert total > 0
    return f"{total} kills, resumed results are the same"


@fault
def fault_kill_while_compiling(folder, times):
    """SIGKILL of a batch that compiles: what is left of its cache is read by the next one."""
    expected = Process("batch", folder / "undisturbed.jsonl", 0).answer()
    cache = folder / "cache"
    found, kills = _killed(
        functools.partial(Process, "batch", folder / "killed.jsonl", 0, cache=cache),
        lambda: len(list(cache.rglob("*.nbc*"))),
        8,
        2 * times,
    )
    assert kills > 0 and alike(found, expected), "a resumed batch differs"
    return f"{kills} kills, then {len(list(cache.rglob('*.nbc')))} files of code; the same results"


@fault
def fault_kill_study_while_compiling(folder, times):
    """SIGKILL of ``fastsksd reproduce`` that compiles."""
    expected = Process("study", folder / "undisturbed").answer()
    cache = folder / "cache"
    found, kills = _killed(
        functools.partial(Process, "study", folder / "killed", cache=cache),
        lambda: len(list(cache.rglob("*.nbc*"))),
        8,
        times,
    )
    assert kills > 0 and alike(found, expected), "a resumed study differs"
    return f"{kills} kills, then {len(list(cache.rglob('*.nbc')))} files of code; the same rows"


@fault
def fault_kill_study(folder, times):
    """SIGKILL of ``fastsksd reproduce``."""
    expected = Process("study", folder / "undisturbed").answer()
    path = folder / "killed"
    found, kills = _killed(
        functools.partial(Process, "study", path),
        lambda: sum(map(_lines, path.glob("*.jsonl"))),
        4,
        2 * times,
    )
    assert kills > 0 and alike(found, expected), "a resumed study differs"
    return f"{kills} kills, {len(found)} rows are the same"


@fault
def fault_two_cold_processes(folder, times):
    """Two processes compile into one empty cache at once."""
    for k in range(max(1, times // 5)):
        cache = folder / str(k)
        pair = [Process("one_test", cache=cache) for _ in range(2)]
        answers = [one.answer() for one in pair]
        warm = Process("one_test", cache=cache).answer()
        assert warm["compiled"] == 0 and all(one["compiled"] > 0 for one in answers)
        kept = Process("one_test").answer()
        assert all(alike(one["results"], kept["results"]) for one in (*answers, warm))
    return "the same p-values, and a third process compiles nothing"


@fault
def fault_fork(folder, times):
    """Children forked after the parent's threads have started."""
    first, *others = Process("forked", 2 * times).answer()
    assert all(alike(one, first) for one in others)
    return f"{len(others)} children, the same p-values"


@fault
def fault_eight_threads(folder, times):
    """Eight Python threads test at once."""
    expected = Process("one_test").answer()["results"][0]
    found = [one for _ in range(times) for one in Process("one_test", 8).answer()["results"]]
    assert len(found) == 8 * times and all(one == expected for one in found)
    return f"{len(found)} tests, identical"


@fault
def fault_interrupt(folder, times):
    """Ctrl-C is a KeyboardInterrupt, always; what a batch has done is kept."""
    seen = Process("interrupted", folder / "batch.jsonl", 5 * times).answer()
    assert seen["swallowed"] == 0 and seen["heard"] > 0, seen
    return f"{seen['heard']} heard, {seen['too late']} after the end; resumed results are the same"


@fault
def fault_memory(folder, times):
    """A limit of memory is a MemoryError, or the result; never a crash."""
    sizes = [0, 20, 60, 3000] if times == 1 else [*range(0, 400, 20), 3000]
    answers = [Process("in_little_memory", size).answer() for size in sizes]
    assert answers[0] == "MemoryError" and answers[-1] != "MemoryError"
    assert all(one in ("MemoryError", answers[-1]) for one in answers)
    return f"{answers.count('MemoryError')} of {len(sizes)} limits: MemoryError, else the result"


@fault
def fault_full_disk(folder, times):
    """No room for a checkpoint or for compiled code."""
    answer = Process("on_a_full_disk", folder / "batch.jsonl", cache=folder / "cache").answer()
    assert answer is not None and "tests were done" in answer["error"], answer
    (warning,) = [one for one in answer["warnings"] if "Compiled code can't be kept" in one]
    assert answer["kept"] >= 1
    found = Process("batch_of_eight", folder / "batch.jsonl").answer()
    kept = answer["kept"]
    return f"{kept} results kept, {found} after there was room; said once: {warning[:27]}"


@work
def batch_of_eight(path):
    """The batch of the full disk, when there is room."""
    import numpy as np

    import fastsksd as fs

    slices = fs.random_slices(3, 2, rng=0)
    problems = [(samples(100, 3, seed), np.negative) for seed in range(8)]
    done = fs.gof_batch(
        problems, rng=1, progress=False, checkpoint=path, slices=slices, n_resamples=99
    )
    return len(done)


def _obey_permissions():
    """Root may write anywhere: give that up, for this process and those it starts."""
    if os.getuid() == 0:
        drop, override = 24, 1  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE
        ctypes.CDLL(None).prctl(drop, override, 0, 0, 0)


@fault
def fault_read_only_without_home(folder, times):
    """A package that can't be written to, and no home: code is kept among temporary files."""
    copy, temporary = folder / "installed", folder / "tmp"
    shutil.copytree(ROOT / "fastsksd", copy / "fastsksd", ignore=shutil.ignore_patterns("*.nb?"))
    temporary.mkdir()
    for path in (copy, *copy.rglob("*")):
        path.chmod(stat.S_IRUSR | (stat.S_IXUSR if path.is_dir() else 0))
    nowhere = "/dev/null/nowhere"
    env = {"HOME": nowhere, "XDG_CACHE_HOME": nowhere, "TMPDIR": str(temporary)}
    env |= {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        first, second = (
            Process("one_test", env=env, preexec_fn=_obey_permissions).answer() for _ in range(2)
        )
    finally:
        for path in (copy, *copy.rglob("*")):
            path.chmod(0o700)
    assert first["compiled"] > 0 and second["compiled"] == 0, (first, second)
    assert alike(first["results"], second["results"])
    return f"compiled {first['compiled']} functions once, in {next(temporary.iterdir()).name}"


def main(arguments):
    """Run all faults, and say what was seen."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--long", action="store_true", help="ten times as many")
    parser.add_argument("--only", default="", help="faults whose names hold this word")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    parser.add_argument("--work", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.work:
        name, *values = given.work
        print(json.dumps(WORK[name](*values)))
        return 0
    random.seed(given.seed)
    failed = 0
    for name, run in FAULTS.items():
        if given.only not in name:
            continue
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            try:
                said = run(Path(folder), 10 if given.long else 1)
            except AssertionError as error:
                failed += 1
                said = f"FAILED: {error}"
        print(f"{name[6:]:28} {time.monotonic() - start:6.1f} s  {said}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
