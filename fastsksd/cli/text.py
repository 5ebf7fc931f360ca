"""Samples and scores in text files: .csv, .tsv and .txt, with or without a line of names."""

from __future__ import annotations

import contextlib
import csv
import itertools
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from .._typing import Array
from .._validate import counted
from .sources import FileError, Source, choose_columns

_MISSING = {"", "na", "n/a", "nan", "null", "none", "."}
_HEAD = 20  # lines that the layout of a file is told from


def open_text(path: str, key: str | None, columns: str | Sequence[int] | None) -> Source:
    """The `Source` of a text file; see `fastsksd.cli.files.open_file`."""
    try:
        head = list(itertools.islice(_lines(path), _HEAD))
    except UnicodeDecodeError as error:
        raise FileError(
            f"{path}: is not text in UTF-8 ({error.reason} at byte {error.start})"
        ) from None
    if not head:
        raise FileError(f"{path}: there are no rows in it")
    delimiter = _delimiter([line for _, line in head])
    table = [_fields(line, delimiter) for _, line in head]
    names, skip, notes = _header(path, table)
    width = len(table[0])
    index = skip and len(table) > 1 and table[0][0] == "" and _counts(row[0] for row in table[1:])
    if index and columns is None and width > 1:
        columns = range(1, width)
        notes += (f"{path}: the first column has no name and numbers the rows; it is left out",)
    chosen = choose_columns(path, names, width, columns)
    layout = _Layout(path, delimiter, names, skip, width, chosen)
    chosen_names = tuple(names[k] for k in chosen) if names else None
    return Source(path, chosen_names, chosen, width, os.path.getsize(path), layout.blocks, notes)


class _Layout(NamedTuple):
    """How a text file is read: `skip` lines of names, and of `width` columns those `chosen`."""

    path: str
    delimiter: str | None
    names: list[str] | None
    skip: int
    width: int
    chosen: tuple[int, ...]

    def blocks(self, rows: int) -> Iterator[tuple[Array, float]]:
        """The `blocks` of a `Source`."""
        size = os.path.getsize(self.path)
        done, lines = 0, itertools.islice(_lines(self.path), self.skip, None)
        try:
            while batch := list(itertools.islice(lines, rows)):
                done += sum(len(line) for _, line in batch)
                yield self._parsed(batch), min(1.0, done / size)
        except UnicodeDecodeError as error:
            raise FileError(f"{self.path}: is not text in UTF-8 ({error.reason})") from None

    def _parsed(self, batch: list[tuple[int, str]]) -> Array:
        """Numbers of some lines: by NumPy, or field by field where it finds something wrong."""
        lines = [line for _, line in batch]
        whole = self.chosen == tuple(range(self.width))
        # For some of the columns only, NumPy would overlook a line that is too long.
        if whole or all(self._count(line) == self.width for line in lines):
            with contextlib.suppress(ValueError):
                values = np.loadtxt(
                    lines,
                    delimiter=self.delimiter,
                    usecols=None if whole else self.chosen,
                    comments=None,
                    quotechar='"',
                    ndmin=2,
                )
                if values.shape[1] == len(self.chosen):
                    return values
        return np.array([self._numbers(*numbered) for numbered in batch])

    def _count(self, line: str) -> int:
        """Columns of a line without quotes."""
        return len(line.split()) if self.delimiter is None else line.count(self.delimiter) + 1

    def _numbers(self, number: int, line: str) -> list[float]:
        fields = _fields(line, self.delimiter)
        if len(fields) != self.width:
            raise FileError(
                f"{self.path}: line {number} has {counted(len(fields), 'column')}, but the first "
                f"line has {self.width}"
            )
        return [self._value(number, k, fields[k]) for k in self.chosen]

    def _value(self, number: int, k: int, text: str) -> float:
        if text.lower() in _MISSING:
            return np.nan
        value = _number(text)
        if value is None:
            comma = _number(text.replace(",", ".")) is not None
            hint = "decimals need a point" if comma else "--columns chooses other columns"
            what = f"column {self.names[k]!r}" if self.names else f"column {k}"
            raise FileError(f"{self.path}: line {number}, {what}: {text!r} is not a number; {hint}")
        return value


def _lines(path: str) -> Iterator[tuple[int, str]]:
    """Numbered lines of a text file, without empty lines and comments."""
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            text = line.strip(" \r\n")
            if text and not text.startswith("#"):
                yield number, line


def _delimiter(lines: list[str]) -> str | None:
    """What separates the columns of these lines; None for white space."""
    present = [mark for mark in "\t;," if mark in lines[0] or mark in lines[-1]]
    for mark in present:
        if len({len(_fields(line, mark)) for line in lines}) == 1:
            return mark
    return max(present, key=lines[0].count, default=None)


def _fields(line: str, delimiter: str | None) -> list[str]:
    if delimiter is None:
        return [field.strip('"') for field in line.split()]
    reader = csv.reader([line.strip(" \r\n")], delimiter=delimiter, skipinitialspace=True)
    return [field.strip() for field in next(reader)]


def _header(path: str, table: list[list[str]]) -> tuple[list[str] | None, int, tuple[str, ...]]:
    """Names of the columns or None, lines to skip, and notes, from the first rows of a file."""
    first = table[0]
    if any(_number(field) is None and field.lower() not in _MISSING for field in first):
        names = [field or f"x[{k}]" for k, field in enumerate(first)]
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise FileError(f"{path}: two columns are named {twice[0]!r}; rename one")
        return names, 1, ()
    labels = first[1:] if first[0] == "" else first
    rows = [row[-len(labels) :] for row in table[1:]]
    if not rows or not labels or not all(map(_is_whole, labels)) or len(set(labels)) < len(labels):
        return None, 0, ()
    # The first line alone holds whole numbers.
    apart = not any(_is_whole(field) for row in rows for field in row)
    numbered = len(labels) > 1 and _counts(labels)
    usual = numbered and labels[0] == "0" and not all(map(_is_whole, rows[0]))
    indexed = first[0] == "" and _counts(row[0] for row in table[1:])
    shown = f"{path}: the first line, {', '.join(labels[:3])}, ...,"
    if usual or indexed or (numbered and apart):
        return None, 1, (f"{shown} numbers the columns and is not a sample",)
    if apart or (numbered and not any(all(map(_is_whole, row)) for row in rows)):
        note = f"{shown} is taken as a sample; if it names the columns, put # before it"
        return None, 0, (note,)
    return None, 0, ()


def _is_whole(field: str) -> bool:
    return re.fullmatch(r"[+-]?\d+", field) is not None


def _counts(fields: Iterable[str]) -> bool:
    """Whether these are whole numbers, each one more than the one before."""
    fields = list(fields)
    return all(field.isdigit() for field in fields) and all(
        int(b) == int(a) + 1 for a, b in itertools.pairwise(fields)
    )


def _number(text: str) -> float | None:
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None
