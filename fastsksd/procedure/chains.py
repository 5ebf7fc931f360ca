"""Chains as a user gives them.

Draws of shape (chains, draws, d), a list of arrays (draws, d), or a label for every row.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .._typing import Array
from .._validate import (
    ArgumentError,
    ArgumentTypeError,
    NotFiniteError,
    Option,
    check_samples,
    counted,
    evaluate_score,
    first_few,
    refuse_masked,
    score_is_array,
)


class Chains(NamedTuple):
    """Which rows belong to which chain.

    Attributes
    ----------
    labels : tuple
        Of the chains.
    order : (n,) array of int
        Rows chain by chain, those of a chain in their order.
    lengths : tuple of int
        Of the chains.
    """

    labels: tuple[Any, ...]
    order: np.ndarray
    lengths: tuple[int, ...]

    @property
    def numbers(self) -> np.ndarray:
        """The number of the chain of each row, (n,)."""
        numbers = np.empty(self.order.size, dtype=int)
        numbers[self.order] = np.repeat(np.arange(len(self.lengths)), self.lengths)
        return numbers


def one_chain(n: int) -> Chains:
    """All rows in their order."""
    return Chains((0,), np.arange(n), (n,))


def flattened(x: Any, score: Any, chains: Any) -> tuple[Any, Any, Any]:
    """Draws and scores of shape (chains, draws, d), or lists of them, as rows with labels.

    Anything else is returned as it is.
    """
    x, score = _of_arrays(x), _of_arrays(score)
    for name, value in (("x", x), ("score", score)):
        for one in value if _is_list_of_chains(value) else (value,):
            refuse_masked(name, one)
    if _is_list_of_chains(x):
        return _joined(x, score, chains)
    shape = tuple(getattr(x, "shape", ()))
    if len(shape) != 3:
        unused = isinstance(chains, (bool, np.bool_)) and not chains
        return x, score, None if unused else chains
    if chains is not None and not isinstance(chains, (bool, np.bool_)):
        raise ArgumentError(
            "chains",
            "must be left out, or True, for ",
            Option("x"),
            f" of shape (chains, draws, d); got {_described(chains)}",
        )
    if chains is not None and not chains:
        raise ArgumentError(
            "x",
            "must be two-dimensional, (samples, dimensions), with ",
            Option("chains", False),
            f"; got shape {shape}",
        )
    if score is not None and score_is_array(score):
        values = np.asarray(score)
        if values.shape != shape:
            raise ArgumentError(
                "score", f"must have the shape of the samples, {shape}; got {values.shape}"
            )
        score = values.reshape(-1, shape[2])
    labels = np.repeat(np.arange(shape[0]), shape[1])
    return np.asarray(x).reshape(-1, shape[2]), score, labels


def _of_arrays(x: Any) -> Any:
    """Lists of lists of draws as a list of arrays; anything else as it is."""
    if not isinstance(x, (list, tuple)) or not all(isinstance(one, (list, tuple)) for one in x):
        return x
    if not x or not all(one and np.ndim(one[0]) == 1 for one in x):
        return x
    try:
        arrays = [np.asarray(one) for one in x]
    except ValueError:  # rows of different lengths, which other checks name
        return x
    return arrays if all(one.ndim == 2 for one in arrays) else x


def _is_list_of_chains(x: Any) -> bool:
    return isinstance(x, (list, tuple)) and bool(x) and all(_columns_of(one) >= 0 for one in x)


def _columns_of(x: Any) -> int:
    """The number of columns of an array with two axes; -1 for anything else."""
    shape = tuple(getattr(x, "shape", ()))
    return int(shape[1]) if len(shape) == 2 else -1


def _joined(x: Any, score: Any, chains: Any) -> tuple[Any, Any, Any]:
    """A list of chains (draws, d), which may differ in length, as rows with labels."""
    if chains is not None and chains is not True:
        raise ArgumentError(
            "chains",
            "must be left out, or True, for a list of chains in ",
            Option("x"),
            f"; got {_described(chains)}",
        )
    empty = [str(k) for k, one in enumerate(x) if not len(one)]
    if empty:
        are = "chain {} has none" if len(empty) == 1 else "chains {} have none"
        raise ArgumentError(
            "x", f"must be a list of chains with draws; {are.format(first_few(empty))}"
        )
    widths = [_columns_of(one) for one in x]
    if len(set(widths)) > 1:
        raise ArgumentError(
            "x",
            "must be a list of chains with the same number of columns; got "
            + ", ".join(map(str, widths)),
        )
    if score is not None and score_is_array(score):
        score = list(score) if getattr(score, "ndim", 0) == 3 else score
        shapes = [tuple(np.shape(one)) for one in x]
        if not _is_list_of_chains(score) or [tuple(np.shape(one)) for one in score] != shapes:
            raise ArgumentError("score", "must be a list of arrays of the shapes of the chains")
        score = np.concatenate([np.asarray(one) for one in score])
    labels = np.repeat(np.arange(len(x)), [len(one) for one in x])
    return np.concatenate([np.asarray(one) for one in x]), score, labels


def draw_numbers(labels: np.ndarray) -> np.ndarray:
    """The place of every row in its chain, (n,), from labels of the chains."""
    _, numbers = np.unique(labels, return_inverse=True)
    order = np.argsort(numbers, kind="stable")
    counts = np.bincount(numbers)
    found = np.empty(numbers.size, dtype=int)
    found[order] = np.arange(numbers.size) - np.repeat(np.cumsum(counts) - counts, counts)
    return found


class RowsOfChains(NamedTuple):
    """Rows of several chains.

    Attributes
    ----------
    labels : tuple
        Of the chains.
    numbers : (n,) array of int
        The number of the chain of each row.
    """

    labels: tuple[Any, ...]
    numbers: np.ndarray

    def draws(self, rows: np.ndarray) -> tuple[tuple[Any, int], ...]:
        """Chain and draw of some rows."""
        place = draw_numbers(self.numbers)
        return tuple((self.labels[self.numbers[row]], int(place[row])) for row in rows.tolist())


def draw_name(chain: Any, draw: Any) -> str:
    """A row as the draw of a chain."""
    return f"draw {draw} of chain {chain}"


@contextlib.contextmanager
def told_as_draws(labels: Any) -> Iterator[None]:
    """Errors about rows that are not finite name chain and draw, where rows have `labels`."""
    try:
        yield
    except NotFiniteError as error:
        numbers = np.ravel(labels) if np.ndim(labels) == 1 else np.empty(0)
        if not len(error.rows) or numbers.size <= error.rows.max() or (numbers == numbers[0]).all():
            raise
        place = draw_numbers(numbers)
        raise error.with_draws(
            [draw_name(numbers[row], place[row]) for row in error.rows.tolist()]
        ) from error


def check_draws(x: Any, name: str, *, min_rows: int = 0, d: int | None = None) -> Array:
    """Samples, (n, d), or draws of chains, (chains, draws, d), as finite float64."""
    shape = tuple(np.shape(x))
    if len(shape) != 3:
        return check_samples(x, name, min_rows=min_rows, d=d)
    refuse_masked(name, x)
    flat = np.asarray(x).reshape(-1, shape[2])
    with told_as_draws(np.repeat(np.arange(shape[0]), shape[1])):
        return check_samples(flat, name, min_rows=min_rows, d=d).reshape(shape)


def evaluate_draws(score: Any, x: Array) -> Array:
    """Scores at samples, (n, d), or at draws of chains, (chains, draws, d)."""
    flat, values, labels = flattened(x, score, None)
    with told_as_draws(labels):
        return evaluate_score(values, flat).reshape(x.shape)


def as_chains(chains: Any, n: int) -> Chains | None:
    """The chains of n rows; None where none are given."""
    if chains is None:
        return None
    if isinstance(chains, (bool, np.bool_)):
        return one_chain(n)
    refuse_masked("chains", chains)
    labels = np.asarray(chains)
    if labels.ndim != 1 or labels.dtype.kind not in "biufOSU":
        raise ArgumentTypeError(
            "chains", f"must be True, or a label for every row; got {_described(chains)}"
        )
    if labels.size != n:
        raise ArgumentError(
            "chains", f"must have a label for every one of {counted(n, 'row')}; got {labels.size}"
        )
    if labels.dtype.kind == "f" and not np.all(np.isfinite(labels)):
        raise ArgumentError("chains", "holds labels that are NaN or infinite")
    try:
        names, number = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise ArgumentTypeError("chains", "holds labels that can't be compared") from error
    lengths = np.bincount(number)
    if lengths.min() < 2:
        short = names.tolist()[int(np.argmin(lengths))]
        raise ArgumentError("chains", f"has a chain of a single draw, {short!r}; 2 are needed")
    order = np.argsort(number, kind="stable")
    return Chains(tuple(names.tolist()), order, tuple(lengths.tolist()))


def _described(chains: Any) -> str:
    shape = np.shape(chains) if hasattr(chains, "shape") else None
    return f"shape {shape}" if shape is not None else f"{type(chains).__name__}"
