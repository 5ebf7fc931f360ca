"""Samples and scores in files: .npy (mapped into memory), .npz, text (.csv, .tsv, .txt), .parquet and ArviZ's .nc, read in blocks of rows.

A reader checks what it can before any row is read, and gives a `Source`. Everything wrong with a file is a `FileError` that names it and
says why. Nothing is ever unpickled.
"""

import csv
import itertools
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

_MISSING = {"", "na", "n/a", "nan", "null", "none", "."}
_SHOWN = 5  # rows that a message names
_LISTED = 20  # columns that a message lists
_HEAD = 20  # lines that the layout of a text file is told from


class FileError(ValueError):
    """A file that can't be used; the message names it and says why."""


class Source(NamedTuple):
    """A file that was looked at and can be read.

    Attributes
    ----------
    path : str
        Its name, as the user gave it.
    names : tuple of str or None
        Names of its columns, where it has them.
    columns : tuple of int
        Which columns of the file these are, of `width`.
    width : int
        Columns of the file.
    size : int
        Bytes of the file.
    blocks : callable
        ``blocks(rows)`` yields arrays of so many rows (the last may have fewer), float64, and the fraction of the file read by then.
    notes : tuple of str
        What the user should know about how it was read.
    """

    path: str
    names: tuple | None
    columns: tuple
    width: int
    size: int
    blocks: Callable
    notes: tuple = ()


def open_file(path, columns=None):
    """The `Source` for a file, by the ending of its name; ``file.npz:name`` is one array of several.

    Parameters
    ----------
    path : str
        Name of the file.
    columns : str or sequence of int, optional
        Columns to read: names, numbers from 0 and ranges, as in ``"a,b"`` or ``"0,3:6"``; or numbers. All by default.

    Returns
    -------
    Source

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from fastsksd.cli.files import open_file, read_all
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(f"{folder}/draws.csv", "w") as file:
    ...         _ = file.write("alpha;beta\\n0.5;1\\n-0.25;2\\n")
    ...     source = open_file(f"{folder}/draws.csv")
    ...     (x,) = read_all([source])
    >>> source.names
    ('alpha', 'beta')
    >>> x
    array([[ 0.5 ,  1.  ],
           [-0.25,  2.  ]])
    """
    name, key = _split_key(path)
    reader = READERS.get(Path(name).suffix.lower())
    if is_netcdf(name):
        raise FileError(
            f"{name}: an .nc file can only be what is tested, with the gradients it holds or with --score"
        )
    if reader is None:
        raise FileError(f"{name}: unknown kind of file; known are {', '.join(READERS)}, .nc")
    size = _check_readable(name)
    return reader(name, key, columns)._replace(size=size)


def is_file_name(text):
    """Whether `text` ends like a file of numbers."""
    return Path(_split_key(text)[0]).suffix.lower() in READERS


def is_netcdf(path):
    """Whether a file is ArviZ's, by the ending of its name."""
    return Path(path).suffix.lower() == ".nc"


def _check_readable(path):
    """Size of a file that can be read, and is not empty."""
    try:
        with open(path, "rb") as file:
            if not file.read(1):
                raise FileError(f"{path}: the file is empty")
        return os.path.getsize(path)
    except FileNotFoundError:
        raise FileError(
            f"{path}: there is no such file (looked in {Path(path).absolute().parent})"
        ) from None
    except OSError as error:
        raise FileError(f"{path}: {error.strerror or error}") from error


def _split_key(path):
    match = re.fullmatch(r"(.*\.npz):([^/\\]+)", str(path), re.IGNORECASE)
    return match.groups() if match else (str(path), None)


def read_blocks(sources, rows):
    """Rows of files side by side: tuples of blocks with one array for each file, and the fraction read."""
    done = 0
    for parts in itertools.zip_longest(*(source.blocks(rows) for source in sources)):
        sizes = [0 if part is None else part[0].shape[0] for part in parts]
        if len(set(sizes)) > 1:
            short = int(np.argmin(sizes))
            raise FileError(
                f"{sources[short].path}: has {done + sizes[short]} rows, fewer than {sources[1 - short].path}; every sample needs its row"
            )
        done += sizes[0]
        yield tuple(block for block, _ in parts), parts[0][1]


def read_all(sources, rows=2**16, progress=lambda fraction: None):
    """All rows of files side by side, one array for each; `progress` is told the fraction read after every block."""
    parts = []
    for blocks, fraction in read_blocks(sources, rows):
        parts.append(blocks)
        progress(fraction)
    if not parts:
        raise FileError(f"{sources[0].path}: there are no rows in it")
    return [np.concatenate(blocks) for blocks in zip(*parts, strict=True)]


def finite_rows(sources, arrays, *, drop, first=0):
    """Arrays without the rows that hold NaN or infinity in any of them, and how many these are; unless `drop`, an error says where.

    `first` is the number of the first row.
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
    shown = ", ".join(str(first + row) for row in rows[:_SHOWN]) + (
        ", ..." if rows.size > _SHOWN else ""
    )
    where = np.flatnonzero(wrong.any(axis=0))
    named = _listing([source.names[k] if source.names else str(source.columns[k]) for k in where])
    raise FileError(
        f"{source.path}: {rows.size} of {first + array.shape[0]} rows have missing values, NaN or infinity (rows {shown}, counted from 0; "
        f"{'column' if where.size == 1 else 'columns'} {named}); --drop-nan leaves them out"
    )


def choose_columns(path, names, width, wanted):
    """Numbers of the `wanted` columns, of `width`, which may have `names`; see `open_file`."""
    if width == 0:
        raise FileError(f"{path}: has no columns")
    if wanted is None:
        return tuple(range(width))
    if not isinstance(wanted, str):
        return tuple(wanted)
    chosen = []
    for text in next(csv.reader([wanted], skipinitialspace=True)):
        text = text.strip()
        span = re.fullmatch(r"(\d*):(\d*)|(\d+)", text)
        if names is not None and text in names:
            chosen.append(names.index(text))
        elif span is None:
            known = (
                f"the columns are {_listing(names)}"
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


def plural(count, word):
    """A number of things."""
    return f"{count} {word}" + ("s" if count != 1 else "")


def _listing(names):
    return ", ".join(map(str, names[:_LISTED])) + (
        f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    )


def _npy(path, key, columns):
    _check_start(path, ".npy", b"\x93NUMPY")
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise _unreadable(path, ".npy", error) from error
    return _array_source(path, array, columns)


def _npz(path, key, columns):
    from zipfile import BadZipFile

    _check_start(path, ".npz", b"PK")
    try:
        with np.load(path, allow_pickle=False) as archive:
            found = archive.files
            if key is None and len(found) == 1:
                key = found[0]
            array = archive[key] if key in found else None
    except (ValueError, EOFError, BadZipFile) as error:
        raise _unreadable(path, ".npz", error) from error
    if array is None:
        missing = "holds several arrays" if key is None else f"has no array {key!r}"
        raise FileError(
            f"{path}: {missing}; name one, as in {path}:{found[0]} (there are {_listing(found)})"
        )
    return _array_source(f"{path}:{key}", array, columns)


def _check_start(path, kind, start):
    with open(path, "rb") as file:
        if not file.read(len(start)) == start:
            raise FileError(f"{path}: is no {kind} file, in spite of its name")


def _unreadable(path, kind, error):
    if "object" in str(error).lower():
        return FileError(
            f"{path}: holds Python objects, not numbers, and is not unpickled; save an array of numbers"
        )
    return FileError(f"{path}: can't be read as {kind}: {error}")


def _array_source(path, array, columns):
    """Source of an array, which may be on disk."""
    names, notes = array.dtype.names, ()
    kinds = [array.dtype[name] for name in names] if names else [array.dtype]
    if array.ndim == 1 and not names:
        array, notes = (
            array[:, None],
            (f"{path}: one-dimensional, taken as {array.size} samples of one coordinate",),
        )
    if array.ndim != (1 if names else 2):
        hint = (
            f"; if these are chains and draws, reshape it to ({array.shape[0] * array.shape[1]}, {array.shape[2]})"
            if array.ndim == 3
            else ""
        )
        raise FileError(
            f"{path}: must be two-dimensional, (samples, coordinates); it has shape {array.shape}{hint}"
        )
    width = len(names) if names else array.shape[1]
    chosen = choose_columns(path, names, width, columns)
    for k in chosen if names else [0]:
        if kinds[k].kind not in "fiub":
            what = f"column {names[k]!r} holds" if names else "holds"
            raise FileError(f"{path}: {what} {kinds[k]}, not real numbers")
    n = array.shape[0]

    def blocks(rows):
        for start in range(0, n, rows):
            block = array[start : start + rows]
            block = (
                np.stack([block[names[k]] for k in chosen], axis=1) if names else block[:, chosen]
            )
            yield block.astype(np.float64), min(1.0, (start + rows) / n)

    return Source(
        path, tuple(names[k] for k in chosen) if names else None, chosen, width, 0, blocks, notes
    )


def _text(path, key, columns):
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
    counted = skip and len(table) > 1 and table[0][0] == "" and _counts(row[0] for row in table[1:])
    if counted and columns is None and width > 1:
        columns = range(1, width)
        notes += (f"{path}: the first column has no name and counts the rows; it is left out",)
    chosen = choose_columns(path, names, width, columns)
    whole = chosen == tuple(range(width))
    size = os.path.getsize(path)

    def blocks(rows):
        done, lines = 0, itertools.islice(_lines(path), skip, None)
        try:
            while batch := list(itertools.islice(lines, rows)):
                done += sum(len(line) for _, line in batch)
                yield parse(batch), min(1.0, done / size)
        except UnicodeDecodeError as error:
            raise FileError(f"{path}: is not text in UTF-8 ({error.reason})") from None

    def parse(batch):
        lines = [line for _, line in batch]
        # For some of the columns only, NumPy would overlook a line that is too long.
        if whole or all(regular(line) for line in lines):
            try:
                values = np.loadtxt(
                    lines,
                    delimiter=delimiter,
                    usecols=None if whole else chosen,
                    comments=None,
                    quotechar='"',
                    ndmin=2,
                )
                if values.shape[1] == len(chosen):
                    return values
            except ValueError:
                pass  # a missing value, or something wrong that is found field by field
        return np.array([numbers(*numbered) for numbered in batch])

    def regular(line):
        return width == (len(line.split()) if delimiter is None else line.count(delimiter) + 1)

    def numbers(number, line):
        fields = _fields(line, delimiter)
        if len(fields) != width:
            raise FileError(
                f"{path}: line {number} has {plural(len(fields), 'column')}, but the first line has {width}"
            )
        return [value(number, k, fields[k]) for k in chosen]

    def value(number, k, text):
        if text.lower() in _MISSING:
            return np.nan
        number_or_none = _number(text)
        if number_or_none is None:
            comma = _number(text.replace(",", ".")) is not None
            hint = "decimals need a point" if comma else "--columns chooses other columns"
            what = f"column {names[k]!r}" if names else f"column {k}"
            raise FileError(f"{path}: line {number}, {what}: {text!r} is not a number; {hint}")
        return number_or_none

    return Source(
        path, tuple(names[k] for k in chosen) if names else None, chosen, width, 0, blocks, notes
    )


def _lines(path):
    """Numbered lines of a text file, but for empty ones and comments."""
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            text = line.strip(" \r\n")
            if text and not text.startswith("#"):
                yield number, line


def _delimiter(lines):
    """What separates the columns of these lines; None for white space."""
    present = [mark for mark in "\t;," if mark in lines[0] or mark in lines[-1]]
    for mark in present:
        if len({len(_fields(line, mark)) for line in lines}) == 1:
            return mark
    return max(present, key=lines[0].count, default=None)


def _fields(line, delimiter):
    if delimiter is None:
        return [field.strip('"') for field in line.split()]
    return [
        field.strip()
        for field in next(
            csv.reader([line.strip(" \r\n")], delimiter=delimiter, skipinitialspace=True)
        )
    ]


def _header(path, table):
    """Names of the columns or None, lines to skip, and notes, from the first rows of a text file."""
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
        return None, 1, (f"{shown} numbers the columns and is no sample",)
    if apart or (numbered and not any(all(map(_is_whole, row)) for row in rows)):
        return (
            None,
            0,
            (f"{shown} is taken for a sample; if it names the columns, put # before it",),
        )
    return None, 0, ()


def _is_whole(field):
    return re.fullmatch(r"[+-]?\d+", field) is not None


def _counts(fields):
    """Whether these are whole numbers, each one more than the one before."""
    fields = list(fields)
    return all(field.isdigit() for field in fields) and all(
        int(b) == int(a) + 1 for a, b in itertools.pairwise(fields)
    )


def _number(text):
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def _parquet(path, key, columns):
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError(
            f"{path}: .parquet files need pyarrow; install it with: pip install 'fastsksd[parquet]'"
        ) from error
    try:
        file = pq.ParquetFile(path)
        schema = file.schema_arrow
    except pa.ArrowException as error:
        raise FileError(f"{path}: can't be read as .parquet: {error}") from None
    index = [
        name
        for name in (schema.pandas_metadata or {}).get("index_columns", [])
        if isinstance(name, str)
    ]
    names = [name for name in schema.names if name not in index]
    chosen = choose_columns(path, names, len(names), columns)
    for k in chosen:
        kind = schema.field(names[k]).type
        if not (
            pa.types.is_floating(kind)
            or pa.types.is_integer(kind)
            or pa.types.is_boolean(kind)
            or pa.types.is_decimal(kind)
        ):
            raise FileError(
                f"{path}: column {names[k]!r} holds {kind}, not numbers; --columns chooses other columns"
            )
    wanted = tuple(names[k] for k in chosen)
    n = max(1, file.metadata.num_rows)

    def blocks(rows):
        done = 0
        try:
            for batch in file.iter_batches(batch_size=rows, columns=list(wanted)):
                done += batch.num_rows
                values = [
                    batch.column(name).cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
                    for name in wanted
                ]
                yield np.stack(values, axis=1), done / n
        except pa.ArrowException as error:
            raise FileError(f"{path}: can't be read as .parquet: {error}") from None

    return Source(path, wanted, chosen, len(names), 0, blocks)


def open_draws(path, variables=None, score=None, *, divergences="error", drop=False):
    """Sources of the draws in ArviZ's netCDF file and of their scores, and the number of draws left out.

    Parameters
    ----------
    path : str
        Name of the file.
    variables : str, optional
        Names of variables, with commas between. All by default.
    score : callable or (n, d) array, optional
        Score of these variables, or its values. By default, the unconstrained draws and the gradients that the sampler stored are taken.
    divergences, drop
        What to do about divergent draws ("error", "drop" or "keep"), and whether draws with NaN or infinity are left out.
    """
    from ..interop.arviz import draws

    size = _check_readable(path)
    wanted = None if variables is None else [name.strip() for name in variables.split(",")]
    try:
        with warnings.catch_warnings():
            # ArviZ speaks of its own future when it is imported.
            warnings.simplefilter("ignore", FutureWarning)
            found = draws(
                path,
                score=score,
                var_names=wanted,
                on_divergence=divergences,
                on_nan="drop" if drop else "error",
            )
    except ValueError as error:
        raise FileError(f"{path}: {error}") from error
    sources = [
        _array_source(path, array, None)._replace(names=found.names, size=size)
        for array in (found.x, found.score)
    ]
    return *sources, found.n_dropped


READERS = {
    ".npy": _npy,
    ".npz": _npz,
    ".csv": _text,
    ".tsv": _text,
    ".txt": _text,
    ".parquet": _parquet,
}
