"""The checkpoint of a batch: its results in a file, each as soon as it is there."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import hashlib
import math
import os
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from .._validate import check_checkpoint, check_samples, evaluate_score, score_is_array
from ..effects import Tolerated
from ..procedure.combine import Member
from ..procedure.per_chain import ChainRecord, ChainReport, Start
from ..result import GofResult
from ..slices import Slices
from . import journal
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
        record = {"index": task.number, "digest": task.digest, "result": _plain(result)}
        try:
            journal.append(self.file, record)
        except OSError as error:
            raise NotSaved(f"could not write {self.path}: {error}") from error

    def close(self) -> None:
        """Close the file, for others to write."""
        with contextlib.suppress(OSError):  # a full disk; `keep` said so, and tells of the results
            self.file.close()
        self.held.close()


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


def _plain(value: Any) -> Any:
    """A result as data that JSON can hold, exactly; arrays as base64 of their bytes."""
    if isinstance(value, np.ndarray):
        content = base64.b64encode(value.astype("<f8").tobytes()).decode()
        return {"array": content, "shape": value.shape}
    if dataclasses.is_dataclass(value):
        names = [one.name for one in dataclasses.fields(value) if not one.name.startswith("_")]
        return {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _plain(some) for name, some in value._asdict().items()}
    if isinstance(value, (tuple, list)):
        return [_plain(some) for some in value]
    if isinstance(value, dict):
        return {name: _plain(some) for name, some in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def _from_record(record: dict[str, Any]) -> GofResult:
    """The result in a line of the journal; an error if the line is none."""
    if not is_number(record["index"]) or not isinstance(record["digest"], str):
        raise ValueError("no number of a problem")
    fields = {name: _array(value) for name, value in record["result"].items()}
    pvalue = fields["pvalue"]  # NaN where chains are too short
    if not (0.0 < pvalue <= 1.0 or math.isnan(pvalue)) or not math.isfinite(fields["statistic"]):
        raise ValueError("no p-value")
    if fields["slices"] is not None:
        fields["slices"] = Slices(
            **{name: _array(value) for name, value in fields["slices"].items()}
        )
    fields["names"] = None if fields.get("names") is None else tuple(fields["names"])
    fields["members"] = tuple(Member(**member) for member in fields["members"])
    if fields.get("tolerated") is not None:
        fields["tolerated"] = Tolerated(**fields["tolerated"])
    if fields.get("chains") is not None:
        fields["chains"] = _chains(**fields["chains"])
    return GofResult(**fields)


def is_number(value: Any) -> bool:
    """Whether a value of JSON is the number of a problem or a refit."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _chains(chains: Any, start: Any, **others: Any) -> ChainReport:
    records = tuple(ChainRecord(**one) for one in chains)
    return ChainReport(records, tuple(Start(**one) for one in start), **others)


def _array(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"array", "shape"}:
        return np.frombuffer(base64.b64decode(value["array"]), "<f8").reshape(value["shape"]).copy()
    return value


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
