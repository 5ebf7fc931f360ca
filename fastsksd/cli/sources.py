"""Files that were opened: rows of several side by side in blocks, columns, missing values.

A reader checks what it can before any row is read, and gives a `Source`. Everything wrong with a
file is a `FileError` that names it and says why.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from .._typing import Array
from .._validate import first_few

_LISTED = 20  # columns that a message lists


class FileError(ValueError):
    """A file that can't be used; the message names it and says why."""


class Source(NamedTuple):
    """A file that was opened and can be read.

    Attributes
    ----------
    path : str
        Its name, as the user gave it.
    names : tuple of str or None
        Names of its columns, where it has them.
    columns : tuple of int
        Numbers of the columns that are read, of `width`.
    width : int
        Number of columns of the file.
    size : int
        Bytes of the file.
    blocks : callable
        ``blocks(rows)`` yields float64 arrays of so many rows (the last may have fewer), each with
        the fraction of the file read by then.
    notes : tuple of str
        What the user should know about how it was read.
    chains : Source or None
        The number of the chain of each row, for an array (chains, draws, d).
    """

    path: str
    names: tuple[str, ...] | None
    columns: tuple[int, ...]
    width: int
    size: int
    blocks: Callable[[int], Iterator[tuple[Array, float]]]
    notes: tuple[str, ...] = ()
    chains: Source | None = None


def read_blocks(sources: Sequence[Source], rows: int) -> Iterator[tuple[tuple[Array, ...], float]]:
    """Yield rows of files side by side: one array for each file, and the fraction read."""
    done = 0
    for parts in itertools.zip_longest(*(source.blocks(rows) for source in sources)):
        sizes = [0 if part is None else part[0].shape[0] for part in parts]
        if len(set(sizes)) > 1:
            short = int(np.argmin(sizes))
            raise FileError(
                f"{sources[short].path}: has {done + sizes[short]} rows, fewer than "
                f"{sources[1 - short].path}; every sample needs a row of scores"
            )
        done += sizes[0]
        yield tuple(block for block, _ in parts), parts[0][1]


def read_all(
    sources: Sequence[Source],
    rows: int = 2**16,
    progress: Callable[[float], None] = lambda fraction: None,
) -> list[Array]:
    """All rows of files side by side, one array for each.

    `progress` is told the fraction read after every block.
    """
    parts = []
    for blocks, fraction in read_blocks(sources, rows):
        parts.append(blocks)
        progress(fraction)
    if not parts:
        raise FileError(f"{sources[0].path}: there are no rows in it")
    return [np.concatenate(blocks) for blocks in zip(*parts, strict=True)]


def finite_rows(
    sources: Sequence[Source], arrays: Sequence[Array], *, drop: bool, first: int = 0
) -> tuple[Sequence[Array], int]:
    """Arrays without the rows that hold NaN or infinity in any of them, and the number left out.

    Unless `drop`, such rows are an error that says where they are. `first` is the number of the
    first row.
    """
    bad = ~np.all([np.isfinite(array).all(axis=1) for array in arrays], axis=0)
    count = int(bad.sum())
    if count == 0:
        return arrays, 0
    if drop:
        return [array[~bad] for array in arrays], count
    source, array = next(
        (s, a) for s, a in zip(sources, arrays, strict=True) if not np.isfinite(a).all()
    )
    wrong = ~np.isfinite(array)
    rows = np.flatnonzero(wrong.any(axis=1))
    where = np.flatnonzero(wrong.any(axis=0))
    named = listing([source.names[k] if source.names else str(source.columns[k]) for k in where])
    columns = "column" if where.size == 1 else "columns"
    raise FileError(
        f"{source.path}: {rows.size} of {first + array.shape[0]} rows have missing values, NaN or "
        f"infinity (rows {first_few(first + rows)}, counted from 0; {columns} {named}); --drop-nan "
        "leaves them out"
    )


def choose_columns(
    path: str, names: Sequence[str] | None, width: int, wanted: str | Sequence[int] | None
) -> tuple[int, ...]:
    """Numbers of the `wanted` columns, of `width`, which may have `names`; see `open_file`."""
    if width == 0:
        raise FileError(f"{path}: has no columns")
    if wanted is None:
        return tuple(range(width))
    if not isinstance(wanted, str):
        return tuple(wanted)
    chosen: list[int] = []
    for text in next(csv.reader([wanted], skipinitialspace=True)):
        text = text.strip()
        span = re.fullmatch(r"(\d*):(\d*)|(\d+)", text)
        if names is not None and text in names:
            chosen.append(names.index(text))
        elif span is None:
            known = (
                f"the columns are {listing(names)}"
                if names
                else f"it has no names of columns; they are counted from 0 to {width - 1}"
            )
            raise FileError(f"{path}: has no column {text!r}; {known}")
        else:
            start, stop, single = span.groups()
            low = int(single or start or 0)
            high = low + 1 if single else int(stop or width)
            if not low < high <= width:
                raise FileError(
                    f"{path}: has no columns {text}; they are counted from 0 to {width - 1}"
                )
            chosen.extend(range(low, high))
    twice = [k for k, count in Counter(chosen).items() if count > 1]
    if twice:
        raise FileError(
            f"{path}: column {names[twice[0]] if names else twice[0]} is asked for twice"
        )
    if not chosen:
        raise FileError(f"{path}: no column is asked for")
    return tuple(chosen)


def listing(names: Sequence[object]) -> str:
    """The first of these names."""
    return ", ".join(map(str, names[:_LISTED])) + (
        f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    )
