"""Chunks of samples with their scores: from a stream, or from an array read in blocks of rows."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from .._strict import as_the_caller_has_it, drawn_as_the_caller_has_it
from .._typing import Array
from .._validate import (
    ArgumentError,
    ArgumentTypeError,
    NotFiniteError,
    check_score,
    first_few,
    is_dask,
    score_is_array,
    shown_rows,
)
from ..procedure.chains import check_draws, draw_name, evaluate_draws
from .cell_moments import TooMuchWork

if TYPE_CHECKING:
    from .accumulator import Accumulator
    from .family_accumulator import FamilyAccumulator

_Sums = TypeVar("_Sums", "Accumulator", "FamilyAccumulator")

_READ_BYTES = 2**25  # of an array that is read in blocks of rows


class Chunk:
    """Samples, (n, d), or draws of chains, (chains, draws, d), with the score of the model there.

    Rows are samples, or draws of every chain. Messages name the number of a chunk of a stream. They
    name rows of an array, or draws of its chains: `place` has their numbers there.
    """

    def __init__(
        self, number: int, x: Any, score: Any, d: int | None = None, place: Any = None
    ) -> None:
        self.number, self.place = number, place
        with self.named():
            self.x = check_draws(x, "x", d=d)
            self.score: Any = check_score(score)
            if score_is_array(score) and np.shape(score) != self.x.shape:
                raise ArgumentError(
                    "score",
                    f"must have the shape of the samples, {self.x.shape}; got {np.shape(score)}",
                )

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.x.shape[-2]

    def rows(self, start: int, stop: int | None) -> Chunk:
        """Some of the rows, as a chunk of the same number."""
        rows = slice(start, stop)
        score = self.score
        if score_is_array(score):
            score = np.asarray(score)[..., rows, :]
        place = None if self.place is None else self.place[rows]
        return Chunk(self.number, self.x[..., rows, :], score, place=place)

    def without(self, rows: np.ndarray) -> Chunk:
        """All but some of the rows of a block of an array."""
        score = self.score
        if score_is_array(score):
            score = np.delete(score, rows, axis=0)
        place = np.delete(self.place, rows)
        return Chunk(self.number, np.delete(self.x, rows, axis=0), score, place=place)

    def scores(self) -> Array:
        """Values of the score at the samples."""
        with self.named():
            return evaluate_draws(self.score, self.x)

    @contextlib.contextmanager
    def named(self) -> Iterator[None]:
        """Name the chunk in the messages of errors, or the rows of an array."""
        try:
            with rows_named([self]):
                yield
        except TooMuchWork:
            raise
        except (TypeError, ValueError) as error:
            if self.place is not None:
                raise
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"chunk {self.number}: {error}") from error


@contextlib.contextmanager
def rows_named(chunks: Sequence[Chunk]) -> Iterator[None]:
    """Name rows of an array in errors about chunks of it that are one after another."""
    try:
        yield
    except NotFiniteError as error:
        places = [chunk.place for chunk in chunks]
        if not places or any(place is None for place in places):
            raise
        raise _in_array(error, np.concatenate(places)) from error


def _in_array(error: NotFiniteError, places: np.ndarray) -> NotFiniteError:
    """The error about rows, or draws of chains one below the other, as it is of the whole array."""
    if error.of_rows == places.size:
        return error.named(shown_rows(places[error.rows]))
    chains, draws = np.divmod(error.rows, places.size)
    return error.named(
        first_few([draw_name(c, places[k]) for c, k in zip(chains, draws, strict=True)])
    )


class Rows:
    """Chunks of a stream, or blocks of an array, in their order."""

    def __init__(self, chunks: Any, score: Any, *, chain: bool = False) -> None:
        self._left = _chunks_of(chunks, score)
        if chain:
            self._left = map(_of_one_chain, self._left)
        parts = [chunks, score] if score_is_array(score) else [chunks]
        whole = not chain and all(isinstance(one, np.ndarray) and one.ndim == 2 for one in parts)
        self._whole = (chunks, score) if whole else None

    def draw_front(self, count: int, rng: np.random.Generator) -> None:
        """Put rows drawn at random to the front of an array, or of a memory map.

        Other sources stay as they are.
        """
        if self._whole is not None:
            rows = np.sort(rng.choice(self._whole[0].shape[0], count, replace=False))
            self._left = _drawn_first(*self._whole, rows)

    def head(self, count: int, keep: bool) -> list[Chunk]:
        """The first `count` rows as a list of chunks; `keep` leaves them in the stream."""
        taken: list[Chunk] = []
        whole: list[Chunk] = []  # as they came: looking at chunks does not cut them
        rest: list[Chunk] = []
        for chunk in self._left:
            whole.append(chunk)
            if chunk.n > count:
                taken.append(chunk.rows(0, count))
                rest = [chunk.rows(count, None)]
                break
            taken.append(chunk)
            count -= chunk.n
            if count == 0:
                break
        self._left = itertools.chain(whole if keep else rest, self._left)
        return taken

    def add_to(self, total: _Sums) -> _Sums:
        """Add all chunks to an accumulator, and return it."""
        for chunk in self._left:
            with chunk.named():
                total.add(chunk.x, chunk.score)
        return total


def _chunks_of(chunks: Any, score: Any) -> Iterator[Chunk]:
    """The chunks of an iterable or an array."""
    if is_dask(chunks):
        raise ArgumentTypeError(
            "chunks",
            "must not be a Dask array",
            remedy="gof_stream adds its chunks where they lie.",
        )
    # Values on disk are checked block by block.
    if score is not None and not hasattr(score, "shape"):
        check_score(score)
    if hasattr(chunks, "shape") and hasattr(chunks, "__getitem__"):
        return _blocks(chunks, score)
    if isinstance(chunks, (str, bytes, Mapping)) or not hasattr(chunks, "__iter__"):
        raise ArgumentTypeError(
            "chunks",
            "must be an iterable of arrays or of pairs (x, scores), or an (n, d) array; "
            f"got {type(chunks).__name__}",
        )
    if score is not None and score_is_array(score):
        raise ArgumentTypeError(
            "score",
            "must be a callable or a model for a stream of chunks; values come with them, "
            "as pairs (x, scores)",
        )
    return _streamed(chunks, score)


def _of_one_chain(chunk: Chunk) -> Chunk:
    """Rows as the draws of one chain."""
    if chunk.x.ndim == 3:
        return chunk
    score = np.asarray(chunk.score)[None] if score_is_array(chunk.score) else chunk.score
    return Chunk(chunk.number, chunk.x[None], score, place=chunk.place)


def _drawn_first(array: np.ndarray, score: Any, rows: np.ndarray) -> Iterator[Chunk]:
    """Some rows of an array, and then blocks of the others."""
    values = score[rows] if score_is_array(score) else score
    yield Chunk(0, array[rows], values, place=rows)
    start = 0
    for chunk in _blocks(array, score):
        stop = start + len(chunk.x)
        yield chunk.without(rows[(rows >= start) & (rows < stop)] - start)
        start = stop


def _streamed(chunks: Any, score: Any) -> Iterator[Chunk]:
    d = None
    for number, x in enumerate(drawn_as_the_caller_has_it(chunks)):
        values = score
        if isinstance(x, tuple):
            if score is not None or len(x) != 2:
                what = (
                    "a tuple, but `score` is given" if score is not None else f"a tuple of {len(x)}"
                )
                raise ValueError(
                    f"chunk {number}: must be an array, or without `score` a pair (x, scores); got "
                    f"{what}."
                )
            x, values = x
        elif score is None:
            what = "is a list; pairs (x, scores) are tuples"
            if not isinstance(x, list):
                what = "comes without scores; give `score`, or pairs (x, scores)"
            raise ValueError(f"chunk {number}: {what}.")
        chunk = Chunk(number, x, values, d)
        d = chunk.x.shape[-1]
        yield chunk


def _blocks(array: Any, score: Any) -> Iterator[Chunk]:
    """Blocks of rows of an array that may be on disk; whole chunks of it where it has them."""
    shape = tuple(array.shape)
    if len(shape) not in (2, 3):
        raise ArgumentError(
            "chunks",
            "must have the shape (samples, dimensions) or (chains, draws, dimensions), or be an "
            f"iterable of arrays; got shape {shape}",
        )
    if score is None:
        raise ArgumentError("score", "must be given for an array of samples")
    values = score_is_array(score)
    if values and tuple(np.shape(score)) != shape:
        raise ArgumentError(
            "score", f"must have the shape of the samples, {shape}; got {np.shape(score)}"
        )
    axis = len(shape) - 2
    rows = max(1, _READ_BYTES * shape[axis] // (8 * max(1, math.prod(shape))))
    stored = getattr(array, "chunks", None)
    if stored and isinstance(stored[axis], int) and stored[axis] <= rows:
        rows -= rows % stored[axis]

    def blocks() -> Iterator[Chunk]:
        for number, start in enumerate(range(0, shape[axis], rows)):
            block: Any = slice(start, start + rows)
            place = np.arange(start, min(start + rows, shape[axis]))
            if axis:
                block = (slice(None), block)
            with as_the_caller_has_it():
                x, at_x = array[block], score[block] if values else score
            yield Chunk(number, x, at_x, place=place)

    return blocks()
