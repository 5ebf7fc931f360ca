"""The checkpoint of refits: their statistics in a file, each as soon as it is there."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from .._typing import Array
from .._validate import ArgumentError
from . import journal
from .checkpoint import seeds_of, state_of
from .kept_result import is_count

_SAME = 1e-6  # relative difference up to which statistics are those of the same samples and model


class KeptRefits:
    """The journal of refits: seeds and statistics of the samples first, then a line for each.

    Samples, model and options are told by the statistics that they give.

    Parameters
    ----------
    path : path
    seeds : numpy.random.SeedSequence
        Seeds of the refits.
    fixed : bool
        Whether a file with other seeds is an error. If not, `seeds` become those of the file.
    """

    def __init__(
        self, path: str | os.PathLike[str], seeds: np.random.SeedSequence, *, fixed: bool
    ) -> None:
        self.path, self.state = Path(path), state_of(seeds)
        try:
            self.held = journal.hold(self.path)
        except (journal.Busy, journal.Unreadable) as error:
            raise ArgumentError("checkpoint", f"can't be used: {error}") from None
        self.file: Any = None
        self.seeds = seeds
        try:
            self._read(fixed)
        except BaseException:
            self.held.close()
            raise

    def _read(self, fixed: bool) -> None:
        """What is in the file; nothing is written before it is known to be a file of refits."""
        self.header: Any = None
        if b"\n" not in self.path.read_bytes():
            return  # a new file, or one whose header a kill has torn
        try:
            self.header, self.records, self.whole = journal.read(self.path, _check_record)
        except journal.Unreadable as error:
            raise ArgumentError("checkpoint", f"can't be used: {error}") from None
        seeds = seeds_of(self.header)
        if seeds is None or "refits" not in self.header or not _is_vector(self.header):
            raise ArgumentError("checkpoint", f"{self.path} is not a file of refits")
        if self.header["seeds"] != self.state:
            if fixed:
                raise ArgumentError("checkpoint", f"{self.path} holds refits of another `rng`")
            self.seeds = seeds

    def open(self, statistics: Array) -> dict[int, list[float]]:
        """Refits that are in the file, which from now on is written to."""
        if self.header is None:
            header = {"refits": 1, "seeds": self.state, "statistics": statistics.tolist()}
            journal.begin(self.path, header)
            self._read(fixed=False)
        if self.header is None:
            raise ArgumentError("checkpoint", f"{self.path} is not a file of refits")
        there = np.array(self.header["statistics"], dtype=float)
        if there.shape != statistics.shape or not np.allclose(
            there, statistics, rtol=_SAME, atol=_SAME * float(np.abs(statistics).max())
        ):
            raise ArgumentError(
                "checkpoint",
                f"{self.path} holds refits of other samples or options, or the function that fits "
                "does not return the same model again",
            )
        journal.mend(self.path, self.whole)
        self.file = self.path.open("a")
        return {record["refit"]: record["statistics"] for record in self.records}

    def keep(self, number: int, statistics: list[float]) -> None:
        """Write the statistics of a refit."""
        journal.append(self.file, {"refit": number, "statistics": statistics})

    def close(self) -> None:
        """Close the file, for others to write."""
        if self.file is not None:
            self.file.close()
        self.held.close()


def _check_record(record: Any) -> None:
    if not is_count(record["refit"]) or not _is_vector(record):
        raise ValueError("no statistics of a refit")


def _is_vector(record: Any) -> bool:
    """Whether a record has statistics, which may be infinite where a refit failed."""
    values = record.get("statistics")
    return isinstance(values, list) and all(
        isinstance(one, (int, float)) and not math.isnan(one) for one in values
    )
