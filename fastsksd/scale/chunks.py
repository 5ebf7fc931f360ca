"""Chunks of samples with their scores: from a stream, or from an array read in blocks of rows."""

import contextlib
import itertools

import numpy as np

from .._validate import check_samples, check_score, evaluate_score, score_is_array

_READ_BYTES = 2**25  # of an array that is read in blocks of rows


class Chunk:
    """Samples, (n, d), with the score of the model there, and the number of the chunk, for messages."""

    def __init__(self, number, x, score, d=None):
        self.number = number
        with self.named():
            self.x = check_samples(x, min_rows=0, d=d)
            self.score = check_score(score)
            if score_is_array(score) and np.shape(score) != self.x.shape:
                raise ValueError(
                    f"`score` must have the shape of the samples, {self.x.shape}; got {np.shape(score)}."
                )

    def rows(self, start, stop):
        """Some of the rows, as a chunk of the same number."""
        rows = slice(start, stop)
        return Chunk(
            self.number,
            self.x[rows],
            self.score[rows] if score_is_array(self.score) else self.score,
        )

    def scores(self):
        """Values of the score at the samples."""
        with self.named():
            return evaluate_score(self.score, self.x)

    @contextlib.contextmanager
    def named(self):
        """Say in messages which chunk is meant."""
        try:
            yield
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"chunk {self.number}: {error}") from error


class Rows:
    """Chunks of a stream, or blocks of an array, in their order."""

    def __init__(self, chunks, score):
        self._left = _chunks_of(chunks, score)

    def head(self, count, keep):
        """The first `count` rows as a list of chunks; they are visited again only with `keep`."""
        taken, rest = [], self._left
        for chunk in self._left:
            if chunk.x.shape[0] > count:
                taken.append(chunk.rows(0, count))
                rest = itertools.chain([chunk.rows(count, None)], self._left)
                break
            taken.append(chunk)
            count -= chunk.x.shape[0]
            if count == 0:
                break
        self._left = itertools.chain(taken, rest) if keep else rest
        return taken

    def add_to(self, total):
        """Add all chunks to an accumulator; returns it."""
        for chunk in self._left:
            with chunk.named():
                total.add(chunk.x, chunk.score)
        return total


def _chunks_of(chunks, score):
    """Generator of `Chunk` from an iterable or an array."""
    # Values on disk are looked at block by block.
    if score is not None and not hasattr(score, "shape"):
        check_score(score)
    if hasattr(chunks, "shape") and hasattr(chunks, "__getitem__"):
        return _blocks(chunks, score)
    if isinstance(chunks, (str, bytes)) or not hasattr(chunks, "__iter__"):
        raise TypeError(
            f"`chunks` must be an iterable of arrays or of pairs (x, scores), or an (n, d) array; got {type(chunks).__name__}."
        )
    if score is not None and score_is_array(score):
        raise TypeError(
            "`score` must be a callable or a model for a stream of chunks; values come with them, as pairs (x, scores)."
        )
    return _streamed(chunks, score)


def _streamed(chunks, score):
    d = None
    for number, x in enumerate(chunks):
        values = score
        if isinstance(x, tuple):
            if score is not None or len(x) != 2:
                what = (
                    "a tuple, but `score` is given" if score is not None else f"a tuple of {len(x)}"
                )
                raise ValueError(
                    f"chunk {number}: must be an array, or without `score` a pair (x, scores); got {what}."
                )
            x, values = x
        elif score is None:
            raise ValueError(
                f"chunk {number}: comes without scores; give `score`, or pairs (x, scores)."
            )
        chunk = Chunk(number, x, values, d)
        d = chunk.x.shape[1]
        yield chunk


def _blocks(array, score):
    """Blocks of rows of an array that may be on disk; whole chunks of it where it has them."""
    shape = tuple(array.shape)
    if len(shape) != 2:
        raise ValueError(
            f"`chunks` must be two-dimensional, (samples, dimensions), or an iterable of arrays; got shape {shape}."
        )
    if score is None:
        raise ValueError("`score` must be given for an array of samples.")
    values = score_is_array(score)
    if values and tuple(np.shape(score)) != shape:
        raise ValueError(
            f"`score` must have the shape of the samples, {shape}; got {np.shape(score)}."
        )
    rows = max(1, _READ_BYTES // (8 * max(1, shape[1])))
    stored = getattr(array, "chunks", None)
    if stored and isinstance(stored[0], int) and stored[0] <= rows:
        rows -= rows % stored[0]

    def blocks():
        for number, start in enumerate(range(0, shape[0], rows)):
            block = slice(start, start + rows)
            yield Chunk(number, array[block], score[block] if values else score)

    return blocks()
