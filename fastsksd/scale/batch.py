"""Many tests: one after the other, in several processes, or on a Dask cluster, always with the same p-values.

Every problem has a seed of its own, spawned from `rng` before the problem is handed out, so neither the order in which tests end, nor where
they run, nor a test that has to be begun again changes a result. (The process that compiles the code, once after each installation, may
round the last digits differently from those that load it from the cache.)
"""

import base64
import dataclasses
import hashlib
import pickle
import sys
import warnings
from collections.abc import Mapping, Sized
from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .._progress import ProgressBar
from .._validate import (
    check_choice,
    check_integer,
    check_number,
    check_rng,
    check_samples,
    evaluate_score,
    score_is_array,
)
from ..baselines import as_baseline
from ..engines import DEVICE_ENGINES, cuda
from ..gof import gof_test
from ..procedure.combine import Member
from ..procedure.plan import Options
from ..result import GofResult
from ..score_difference import needs_function
from ..slices import Slices
from . import cluster, journal
from .pool import ProcessesDied, finished, finished_in_threads

OPTIONS = tuple(one.name for one in dataclasses.fields(Options) if one.name != "rng")
_SHOWN = 20  # lines of a printed result
_DEATH = "its process died twice, for want of memory or by a fault in `score`"


class BatchError(RuntimeError):
    """Tests that failed, or a batch that could not go on; what is done is in `result`, a `BatchResult`."""

    def __init__(self, message, result):
        super().__init__(message)
        self.result = result


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class BatchResult:
    """Outcome of many tests, in the order of the problems; a sequence of their results.

    Attributes
    ----------
    results : tuple of GofResult
        None where a test failed.
    names : tuple of str
        Names of the problems, by default their numbers.
    errors : dict
        For each test that failed, by number, what was wrong.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((3, 200, 2)) * np.array([1.0, 1.0, 2.0])[:, None, None]
    >>> batch = fs.gof_batch([(some, -some) for some in x], progress=False, rng=0)
    >>> batch.reject(method="holm").tolist()
    [False, False, True]
    """

    results: tuple
    names: tuple
    errors: dict

    @property
    def pvalues(self):
        """P-value of each test, NaN where it failed."""
        return self._values("pvalue")

    @property
    def statistics(self):
        """Statistic of each test, NaN where it failed."""
        return self._values("statistic")

    def _values(self, name):
        return np.array(
            [np.nan if result is None else getattr(result, name) for result in self.results],
            dtype=float,
        )

    def adjusted_pvalues(self, method="holm"):
        """P-values that allow for the number of tests (those that did not fail).

        "holm" bounds the chance of any false rejection, however the tests depend on each other. "bh" (Benjamini and Hochberg) bounds the
        expected share of false ones among the rejections, for tests that are independent or positively dependent.
        """
        check_choice("method", method, ("holm", "bh"))
        adjusted = self.pvalues
        known = np.flatnonzero(~np.isnan(adjusted))
        order = known[np.argsort(adjusted[known], kind="stable")]
        sorted_, rank = adjusted[order], np.arange(known.size)
        if method == "holm":
            values = np.maximum.accumulate((known.size - rank) * sorted_)
        else:
            values = np.minimum.accumulate((known.size / (rank + 1.0) * sorted_)[::-1])[::-1]
        adjusted[order] = np.minimum(values, 1.0)
        return adjusted

    def reject(self, alpha=0.05, method="holm"):
        """Whether each model is rejected at level `alpha` by its adjusted p-value; a test that failed rejects nothing."""
        alpha = check_number("alpha", alpha, 0.0, strict=True)
        if alpha >= 1:
            raise ValueError(f"`alpha` must be less than 1; got {alpha}.")
        return self.adjusted_pvalues(method) <= alpha

    def __len__(self):
        return len(self.results)

    def __iter__(self):
        return iter(self.results)

    def __getitem__(self, index):
        """The result of a problem, by number or by name; those of several, by a slice."""
        if isinstance(index, str):
            found = [number for number, name in enumerate(self.names) if name == index]
            if len(found) != 1:
                raise KeyError(f"{len(found) or 'no'} problems are named {index!r}")
            index = found[0]
        return self.results[index]

    def _title(self):
        rejected, failed = np.count_nonzero(self.reject()), len(self.errors)
        return f"{len(self)} tests, {rejected} rejected at level 0.05 (Holm)" + (
            f", {failed} failed" if failed else ""
        )

    def _table(self):
        rows = [("problem", "p-value", "Holm", "statistic", "samples")]
        for index, (name, result, holm) in enumerate(
            zip(self.names[:_SHOWN], self.results, self.adjusted_pvalues(), strict=False)
        ):
            if result is None:
                rows.append((name, self.errors.get(index, "not run"), "", "", ""))
            else:
                rows.append(
                    (
                        name,
                        f"{result.pvalue:.4g}",
                        f"{holm:.4g}",
                        f"{result.statistic:.4g}",
                        str(result.n_test),
                    )
                )
        return rows

    def __repr__(self):
        rows = self._table()
        lines = [
            " ".join(cell.rjust(11) if k else cell.ljust(11) for k, cell in enumerate(row)).rstrip()
            for row in rows
        ]
        more = [f"... and {len(self) - _SHOWN} more"] if len(self) > _SHOWN else []
        return "\n  ".join([f"BatchResult: {self._title()}", *lines, *more])

    def _repr_html_(self):
        header, *rows = self._table()
        head = "".join(f"<th>{cell}</th>" for cell in header)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
        )
        more = f"<p>... and {len(self) - _SHOWN} more</p>" if len(self) > _SHOWN else ""
        return f"<table><caption>BatchResult: {self._title()}</caption><tr>{head}</tr>{body}</table>{more}"


def gof_batch(
    problems,
    *,
    client=None,
    n_jobs=None,
    progress=True,
    rng=None,
    on_error="raise",
    checkpoint=None,
    **options,
):
    """Many goodness-of-fit tests.

    Parameters
    ----------
    problems : iterable
        Pairs (x, score), or mappings with "x" and "score", and where wanted a "name" and options of `gof_test` for this
        problem alone. An iterable is read a few problems ahead of the tests, so a generator may load data as it is needed.
    client : dask.distributed.Client, optional
        Run on its workers. Samples travel through the scheduler.
    n_jobs : int, optional
        Run in so many processes, each on one thread. By default in this process, one test after the other on all threads. In a
        script, start processes under ``if __name__ == "__main__":``. A score function that can't be sent to a process is
        evaluated in this one where its values are enough.
    progress : bool or callable
        A line on standard error, or a function called with (number done, number of all or None) after each test.
    rng : None, int or numpy.random.Generator
        Problem k has the k-th seed spawned from it, so p-values do not depend on where tests run: alone, it is
        ``gof_test(x, score, rng=np.random.SeedSequence(rng).spawn(k + 1)[k])`` for an integer. A generator spawns others each time.
    on_error : {"raise", "return"}
        A test that fails does not keep the others from being done. "raise" then raises a `BatchError` at the end, with the others in
        its `result`; "return" leaves None in place of the result, and the message in `errors`.
    checkpoint : path, optional
        File in which every result is kept as soon as there is one. A batch that was killed goes on with it; a file of other
        problems, options or seeds is refused, as is one that another batch is writing. Tests that failed are tried again. With
        rng=None the seeds are the file's.
    **options
        Options of `gof_test` for all problems. With ``engine="cuda"`` all GPUs share the tests, two at a time on each, and score functions are
        called from several threads. A test for which a GPU has not enough memory is done on the CPU instead, with a warning; its
        result's `engine` says so.

    Returns
    -------
    BatchResult
        Its results hold no samples, so their `explain` needs `x` and `score`.

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
    _check_options(options)
    jobs = 1 if n_jobs is None else check_integer("n_jobs", n_jobs, 1)
    if client is not None:
        if n_jobs is not None:
            raise ValueError("`n_jobs` and `client` both say where tests run; give one of them.")
        cluster.check_client(client)
    if not hasattr(problems, "__iter__") or isinstance(problems, (str, bytes, Mapping, np.ndarray)):
        raise TypeError(
            f"`problems` must be an iterable of pairs (x, score) or of mappings, not {type(problems).__name__}."
        )
    if isinstance(problems, tuple) and len(problems) == 2 and isinstance(problems[0], np.ndarray):
        raise TypeError("`problems` is one pair (x, score); give a list of them: [(x, score)].")
    on_device = options.get("engine") in DEVICE_ENGINES
    if on_device and jobs > 1:
        raise ValueError(
            "`n_jobs` processes are for the CPU; with engine='cuda' all GPUs share the tests without them."
        )
    seeds = check_rng(rng).bit_generator.seed_seq
    total = len(problems) if isinstance(problems, Sized) else None
    saved = None
    if checkpoint is not None:
        saved = _Checkpoint(checkpoint, seeds, fixed=rng is not None, total=total)
        seeds = saved.seeds
    show = progress if callable(progress) else ProgressBar("gof_batch") if progress else None
    ledger = _Ledger(total, show)

    def waiting():
        for index, problem in enumerate(problems):
            seed = seeds.spawn(1)[0]
            ledger.names.append(str(index))
            try:
                problem = _as_problem(index, problem, options, seed)
                ledger.names[index] = problem.name
                if saved is not None:
                    problem = _digested(problem)
                task = _Parcel(index, problem.digest, _packed(problem)) if jobs > 1 else problem
            except Exception as error:
                ledger.enter(index, None, _message(error))
                continue
            if saved is not None and (known := saved.result_of(problem)) is not None:
                ledger.enter(index, known, None)
            else:
                yield task

    if client is not None:
        outcomes = cluster.finished(
            client, _run, waiting(), failed=lambda error: (None, _message(error))
        )
    elif on_device:
        outcomes = finished_in_threads(_run, waiting(), cuda.lanes())
    else:
        outcomes = finished(
            _run_parcel if jobs > 1 else _run, waiting(), jobs, died=lambda: (None, _DEATH)
        )
    try:
        for task, (result, error) in outcomes:
            if saved is not None and error is None:
                saved.keep(task, result)
            ledger.enter(task.index, result, error)
    except (ProcessesDied, cluster.ClientLost, _NotSaved) as error:
        result = ledger.outcome()
        raise BatchError(f"{error}; {_count(result)} tests were done.", result) from error
    finally:
        outcomes.close()
        if saved is not None:
            saved.close()
    result = ledger.outcome()
    if result.errors and on_error == "raise":
        listing = "; ".join(
            f"{result.names[index]!r}: {text}" for index, text in list(result.errors.items())[:3]
        )
        raise BatchError(
            f"{len(result.errors)} of {len(result)} tests failed ({listing}{'; ...' if len(result.errors) > 3 else ''}). The others are in "
            "`result` of this error; on_error='return' returns them.",
            result,
        )
    return result


def _count(result):
    return sum(some is not None for some in result)


class _Ledger:
    """Results and errors as they come, and how far we are."""

    def __init__(self, total, show):
        self.total, self.show = total, show
        self.names, self.results, self.errors = [], {}, {}

    def enter(self, index, result, error):
        self.results[index] = result
        if error is not None:
            self.errors[index] = error
        if self.show is not None:
            self.show(len(self.results), self.total)

    def outcome(self):
        results = tuple(self.results.get(index) for index in range(len(self.names)))
        return BatchResult(results, tuple(self.names), dict(sorted(self.errors.items())))


class _Problem(NamedTuple):
    index: int
    name: str
    x: object
    score: object
    options: dict
    seed: np.random.SeedSequence
    digest: str = ""


class _Parcel(NamedTuple):
    """A problem as bytes: what goes wrong when a process unpacks them can then be told."""

    index: int
    digest: str
    content: bytes


def _check_options(options):
    for name in options:
        if name not in OPTIONS:
            raise TypeError(f"`{name}` is no option of gof_test; there are {', '.join(OPTIONS)}.")


def _as_problem(index, problem, options, seed):
    if isinstance(problem, Mapping):
        missing = [name for name in ("x", "score") if name not in problem]
        if missing:
            raise ValueError(
                f"the problem has no {missing[0]!r}; it has {', '.join(map(repr, problem))}."
            )
        own = {name: value for name, value in problem.items() if name not in ("x", "score", "name")}
        _check_options(own)
        return _Problem(
            index,
            str(problem.get("name", index)),
            problem["x"],
            problem["score"],
            {**options, **own},
            seed,
        )
    if not isinstance(problem, (tuple, list)) or len(problem) != 2:
        raise TypeError(
            f"the problem must be a pair (x, score) or a mapping, not {type(problem).__name__}."
        )
    return _Problem(index, str(index), *problem, options, seed)


def _packed(problem):
    if not score_is_array(problem.score) and not _travels(problem.score):
        if not _values_are_enough(problem):
            raise TypeError(
                "`score` can't be sent to another process; define it in a module that can be imported, pass its values at `x`, or leave "
                "`n_jobs` out."
            )
        problem = problem._replace(score=evaluate_score(problem.score, check_samples(problem.x)))
    try:
        return pickle.dumps(problem)
    except Exception as error:
        raise TypeError(
            f"the problem can't be sent to another process: {_message(error)}"
        ) from error


def _values_are_enough(problem):
    """Whether the test looks at the model nowhere but at its scores at the samples."""
    options = problem.options
    baseline = as_baseline(options.get("method", "sksd"))
    if np.ndim(options.get("train")) > 0:
        return False
    if baseline is not None:
        return not baseline.needs_model
    return not needs_function(options.get("estimator", "ke"))


def _travels(function):
    """Whether another process can unpickle it: not a lambda, nor what an interactive session defined."""
    try:
        content = pickle.dumps(function)
    except Exception:
        return False
    return b"__main__" not in content or hasattr(sys.modules["__main__"], "__file__")


def _run(problem):
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
        return dataclasses.replace(result, _samples=None), None
    except Exception as error:
        return None, _message(error)


def _run_parcel(parcel):
    try:
        problem = pickle.loads(parcel.content)
    except Exception as error:
        return None, f"the problem could not be unpacked in another process: {_message(error)}"
    return _run(problem)


def _message(error):
    return f"{type(error).__name__}: {error}"


class _NotSaved(Exception):
    """A result that could not be written to the checkpoint."""


class _Checkpoint:
    """The journal of a batch: seeds first, then a line for each result, with a digest of what was tested."""

    def __init__(self, path, seeds, fixed, total):
        self.path = Path(path)
        self.seeds = seeds
        state = {
            name: value if np.ndim(value) == 0 else list(map(int, value))
            for name, value in seeds.state.items()
        }
        try:
            self.held = journal.hold(self.path)
        except journal.Busy as error:
            raise ValueError(f"`checkpoint`: {error} Wait for it or choose another file.") from None
        try:
            self._open(state, fixed, total)
            self.file = self.path.open("a")
        except BaseException:
            self.held.close()
            raise

    def _open(self, state, fixed, total):
        """Look into the file and take a torn last line off."""
        journal.begin(self.path, {"gof_batch": 1, "seeds": state})
        try:
            header, records, whole = journal.read(self.path, _from_record)
        except journal.Unreadable as error:
            raise ValueError(f"`checkpoint`: {error} Choose another file.") from None
        if not isinstance(header, dict) or header.get("gof_batch") != 1:
            raise ValueError(
                f"`checkpoint`: {self.path} is not a file of gof_batch; choose another file."
            )
        if header["seeds"] != state:
            if fixed:
                raise ValueError(
                    f"`checkpoint`: {self.path} holds results of another `rng`; choose another file."
                )
            self.seeds = np.random.SeedSequence(**header["seeds"])
        self.records = {record["index"]: record for record in records}
        if total is not None and self.records and max(self.records) >= total:
            raise ValueError(
                f"`checkpoint`: {self.path} holds results of more than {total} problems; choose another file."
            )
        journal.mend(self.path, whole)

    def result_of(self, problem):
        """The result that is there, or None."""
        record = self.records.get(problem.index)
        if record is None:
            return None
        if record["digest"] != problem.digest:
            raise ValueError(
                f"`checkpoint`: {self.path} holds results of other samples, scores or options (problem {problem.name!r}); choose "
                "another file."
            )
        return _from_record(record)

    def keep(self, task, result):
        try:
            journal.append(
                self.file, {"index": task.index, "digest": task.digest, "result": _plain(result)}
            )
        except OSError as error:
            raise _NotSaved(f"could not write {self.path}: {error}") from error

    def close(self):
        self.file.close()
        self.held.close()


def _plain(value):
    """A result as data that JSON can hold, exactly; arrays as base64 of their bytes."""
    if isinstance(value, np.ndarray):
        content = base64.b64encode(value.astype("<f8").tobytes()).decode()
        return {"array": content, "shape": value.shape}
    if dataclasses.is_dataclass(value):
        names = [
            field.name for field in dataclasses.fields(value) if not field.name.startswith("_")
        ]
        return {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _plain(some) for name, some in value._asdict().items()}
    if isinstance(value, (tuple, list)):
        return [_plain(some) for some in value]
    if isinstance(value, dict):
        return {name: _plain(some) for name, some in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def _from_record(record):
    """The result in a line of the journal."""
    record["index"], record["digest"]
    fields = {name: _array(value) for name, value in record["result"].items()}
    if fields["slices"] is not None:
        fields["slices"] = Slices(
            **{name: _array(value) for name, value in fields["slices"].items()}
        )
    fields["names"] = None if fields.get("names") is None else tuple(fields["names"])
    fields["members"] = tuple(Member(**member) for member in fields["members"])
    return GofResult(**fields)


def _array(value):
    if isinstance(value, dict) and set(value) == {"array", "shape"}:
        return np.frombuffer(base64.b64decode(value["array"]), "<f8").reshape(value["shape"]).copy()
    return value


def _digested(problem):
    """The problem with a digest of what tells it apart: samples, options, and scores, of a function its values at the samples."""
    x = check_samples(problem.x)
    scores = None if problem.score is None else evaluate_score(problem.score, x)
    options = dict(problem.options)
    if options.get("score_q") is not None:
        options["score_q"] = evaluate_score(options["score_q"], x, "score_q")
    digest = hashlib.sha256()
    _feed(digest, (x, scores, options))
    return problem._replace(
        digest=digest.hexdigest(), score=scores if _values_are_enough(problem) else problem.score
    )


def _feed(digest, value):
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif dataclasses.is_dataclass(value):
        _feed(
            digest,
            [
                type(value).__name__,
                *(getattr(value, field.name) for field in dataclasses.fields(value)),
            ],
        )
    elif isinstance(value, Mapping):
        _feed(digest, sorted(value.items(), key=lambda item: str(item[0])))
    elif isinstance(value, (list, tuple)):
        digest.update(f"[{len(value)}".encode())
        for some in value:
            _feed(digest, some)
    else:
        plain = value is None or isinstance(value, (bool, int, float, str, np.generic))
        digest.update(repr(value if plain else type(value).__qualname__).encode() + b";")
