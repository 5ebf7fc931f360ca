"""The checkpoint of a batch: its results in a file, each as soon as it is there."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from .._validate import (
    ArgumentError,
    ArgumentTypeError,
    check_samples,
    evaluate_score,
    score_is_array,
)
from ..result import GofResult
from . import journal
from .kept_result import as_record, is_count, result_of_record
from .problems import Parcel, Problem, values_are_enough, values_of_model


class NotSaved(Exception):
    """A result that could not be written to the checkpoint."""


class Checkpoint:
    """The journal of a batch: seeds first, then a line for each result.

    A line holds a digest of what was tested.

    Parameters
    ----------
    path : path
    seeds : numpy.random.SeedSequence
        Seeds of the batch.
    fixed : bool
        Whether a file with other seeds is an error. If not, `seeds` become those of the file.
    total : int or None
        Number of problems, where it is known.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        seeds: np.random.SeedSequence,
        fixed: bool,
        total: int | None,
    ) -> None:
        self.path = check_checkpoint(path)
        self.seeds = seeds
        state = state_of(seeds)
        try:
            self.held = journal.hold(self.path)
        except journal.Busy as error:
            raise ValueError(f"`checkpoint`: {error} Wait for it or choose another file.") from None
        except journal.Unreadable as error:
            raise ValueError(f"`checkpoint`: {error} Choose another file.") from None
        try:
            self._open(state, fixed, total)
            self.file = self.path.open("a")
        except BaseException:
            self.held.close()
            raise

    def _open(self, state: dict[str, Any], fixed: bool, total: int | None) -> None:
        """Read what is in the file, and remove a torn last line."""
        journal.begin(self.path, {"gof_batch": 1, "seeds": state})
        try:
            header, records, whole = journal.read(self.path, _from_record)
        except journal.Unreadable as error:
            raise ValueError(f"`checkpoint`: {error} Choose another file.") from None
        seeds = seeds_of(header)
        if seeds is None or header.get("gof_batch") != 1:
            raise ValueError(
                f"`checkpoint`: {self.path} is not a file of gof_batch; choose another file."
            )
        if header["seeds"] != state:
            if fixed:
                raise ValueError(
                    f"`checkpoint`: {self.path} holds results of another `rng`; choose another "
                    "file."
                )
            self.seeds = seeds
        self.records = {record["index"]: record for record in records}
        if total is not None and self.records and max(self.records) >= total:
            raise ValueError(
                f"`checkpoint`: {self.path} holds results of more than {total} problems; choose "
                "another file."
            )
        journal.mend(self.path, whole)

    def result_of(self, problem: Problem) -> GofResult | None:
        """The result that is in the file, or None."""
        record = self.records.get(problem.number)
        if record is None:
            return None
        if record["digest"] != problem.digest:
            raise ValueError(
                f"`checkpoint`: {self.path} holds results of other samples, scores or options "
                f"(problem {problem.name!r}); choose another file."
            )
        return _from_record(record)

    def keep(self, task: Problem | Parcel, result: GofResult) -> None:
        """Write the result of a problem."""
        record = {"index": task.number, "digest": task.digest, "result": as_record(result)}
        try:
            journal.append(self.file, record)
        except OSError as error:
            raise NotSaved(f"could not write {self.path}: {error}") from error

    def close(self) -> None:
        """Close the file, for others to write."""
        with contextlib.suppress(OSError):  # a full disk; `keep` said so, and tells of the results
            self.file.close()
        self.held.close()


def check_checkpoint(path: Any) -> Path:
    """The path of a file that is a checkpoint, or will be."""
    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentTypeError(
            "checkpoint", f"must be the path of a file, not {type(path).__name__}"
        )
    if Path(path).is_dir():
        raise ArgumentError(
            "checkpoint", f"must be the path of a file, and {str(path)!r} is a folder"
        )
    return Path(path)


def state_of(seeds: np.random.SeedSequence) -> dict[str, Any]:
    """Seeds as data that JSON can hold."""
    return {
        name: value if np.ndim(value) == 0 else list(map(int, value))
        for name, value in cast("dict[str, Any]", seeds.state).items()
    }


def seeds_of(header: Any) -> np.random.SeedSequence | None:
    """The seeds that a journal begins with, None where there are none."""
    try:
        state = header["seeds"]
        seeds = np.random.SeedSequence(**state)
    except (LookupError, TypeError, ValueError):
        return None
    return seeds if state_of(seeds) == state else None


def _from_record(record: dict[str, Any]) -> GofResult:
    """The result in a line of the journal; an error if the line is none."""
    if not is_count(record["index"]) or not isinstance(record["digest"], str):
        raise ValueError("no number of a problem")
    return result_of_record(record["result"])


def digested(problem: Problem) -> Problem:
    """The problem with a digest of its samples, its options and what the test sees of the model.

    Scores that were evaluated for it take the place of the model if the test needs no more.
    """
    x = check_samples(problem.x)
    values = values_of_model(problem, x)
    options = dict(problem.options)
    if options.get("score_q") is not None:
        options["score_q"] = evaluate_score(options["score_q"], x, "score_q")
    digest = hashlib.sha256()
    _feed(digest, (x, values, options))
    score = problem.score
    if not score_is_array(score) and values_are_enough(problem):
        score = values
    return problem._replace(digest=digest.hexdigest(), score=score)


def _feed(digest: Any, value: Any) -> None:
    """Feed a value to a hash: arrays by their entries, other objects by the name of their type."""
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif dataclasses.is_dataclass(value):
        fields = [getattr(value, field.name) for field in dataclasses.fields(value)]
        _feed(digest, [type(value).__name__, *fields])
    elif isinstance(value, Mapping):
        _feed(digest, sorted(value.items(), key=lambda item: str(item[0])))
    elif isinstance(value, (list, tuple)):
        digest.update(f"[{len(value)}".encode())
        for some in value:
            _feed(digest, some)
    else:
        plain = value is None or isinstance(value, (bool, int, float, str, np.generic))
        digest.update(repr(value if plain else type(value).__qualname__).encode() + b";")
