"""Samples and scores in files: .npy, .npz, text, .parquet and ArviZ's .nc.

.npy files are mapped into memory; all files are read in blocks of rows. Nothing is ever unpickled.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from .._typing import Array, Score
from .shell import Shell
from .sources import FileError, Source, choose_columns, listing
from .text import open_text


def open_file(path: str, columns: str | Sequence[int] | None = None) -> Source:
    """Open a file of samples or scores.

    Parameters
    ----------
    path : str
        Name of the file, whose ending says how it is read; ``file.npz:name`` is one array of
        several.
    columns : str or sequence of int, optional
        Columns to read: names, numbers from 0 and ranges, as in ``"a,b"`` or ``"0,3:6"``; or
        numbers. All by default.

    Returns
    -------
    Source

    Raises
    ------
    FileError
        If the file can't be used.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from fastsksd.cli.files import open_file
    >>> from fastsksd.cli.sources import read_all
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
            f"{name}: an .nc file can only hold what is tested, with the gradients it holds or "
            "with --score"
        )
    if reader is None:
        raise FileError(f"{name}: unknown kind of file; known are {', '.join(READERS)}, .nc")
    size = _check_readable(name)
    return reader(name, key, columns)._replace(size=size)


def is_file_name(text: str) -> bool:
    """Whether `text` ends like a file of numbers."""
    return Path(_split_key(text)[0]).suffix.lower() in READERS


def is_netcdf(path: str) -> bool:
    """Whether a file is ArviZ's, by the ending of its name."""
    return Path(path).suffix.lower() == ".nc"


def _check_readable(path: str) -> int:
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


def _split_key(path: str) -> tuple[str, str | None]:
    match = re.fullmatch(r"(.*\.npz):([^/\\]+)", str(path), re.IGNORECASE)
    return (match[1], match[2]) if match else (str(path), None)


def _npy(path: str, key: str | None, columns: str | Sequence[int] | None) -> Source:
    _check_start(path, ".npy", b"\x93NUMPY")
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise _unreadable(path, ".npy", error) from error
    return array_source(path, array, columns)


def _npz(path: str, key: str | None, columns: str | Sequence[int] | None) -> Source:
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
            f"{path}: {missing}; name one, as in {path}:{found[0]} (there are {listing(found)})"
        )
    return array_source(f"{path}:{key}", array, columns)


def _check_start(path: str, kind: str, start: bytes) -> None:
    with open(path, "rb") as file:
        if file.read(len(start)) != start:
            raise FileError(f"{path}: is not a {kind} file, in spite of its name")


def _unreadable(path: str, kind: str, error: Exception) -> FileError:
    if "object" in str(error).lower():
        return FileError(
            f"{path}: holds Python objects, not numbers, and is not unpickled; save an array of "
            "numbers"
        )
    return FileError(f"{path}: can't be read as {kind}: {error}")


def array_source(
    path: str, array: np.ndarray, columns: str | Sequence[int] | None = None
) -> Source:
    """Source of an array, which may be on disk."""
    names = array.dtype.names
    notes: tuple[str, ...] = ()
    kinds = [array.dtype[name] for name in names] if names else [array.dtype]
    if array.ndim == 1 and not names:
        notes = (f"{path}: one-dimensional, taken as {array.size} samples of one coordinate",)
        array = array[:, None]
    chains = None
    if array.ndim == 3 and not names:
        labels = np.repeat(np.arange(array.shape[0]), array.shape[1])[:, None]
        chains = array_source(path, labels)
        array = array.reshape(-1, array.shape[2])
    if array.ndim != (1 if names else 2):
        raise FileError(
            f"{path}: must be two-dimensional, (samples, coordinates), or (chains, draws, "
            f"coordinates); it has shape {array.shape}"
        )
    width = len(names) if names else array.shape[1]
    chosen = choose_columns(path, names, width, columns)
    for k in chosen if names else [0]:
        if kinds[k].kind not in "fiub":
            what = f"column {names[k]!r} holds" if names else "holds"
            raise FileError(f"{path}: {what} {kinds[k]}, not real numbers")
    n = array.shape[0]

    def blocks(rows: int) -> Iterator[tuple[Array, float]]:
        for start in range(0, n, rows):
            block = array[start : start + rows]
            block = (
                np.stack([block[names[k]] for k in chosen], axis=1) if names else block[:, chosen]
            )
            yield block.astype(np.float64), min(1.0, (start + rows) / n)

    chosen_names = tuple(names[k] for k in chosen) if names else None
    return Source(path, chosen_names, chosen, width, 0, blocks, notes, chains)


def _parquet(path: str, key: str | None, columns: str | Sequence[int] | None) -> Source:
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
                f"{path}: column {names[k]!r} holds {kind}, not numbers; --columns chooses other "
                "columns"
            )
    wanted = tuple(names[k] for k in chosen)
    n = max(1, file.metadata.num_rows)

    def blocks(rows: int) -> Iterator[tuple[Array, float]]:
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


def open_draws(
    path: str,
    variables: str | None = None,
    score: Score | None = None,
    *,
    divergences: str = "keep",
    drop: bool = False,
) -> tuple[Source, Source, np.ndarray, int, int]:
    """Open the draws in ArviZ's netCDF file.

    Parameters
    ----------
    path : str
        Name of the file.
    variables : str, optional
        Names of variables, separated by commas. All by default.
    score : callable or (n, d) array, optional
        Score of these variables, or its values. By default, the unconstrained draws and the
        gradients that the sampler stored are taken.
    divergences : {"keep", "error", "drop"}
        What to do about divergent draws.
    drop : bool
        Whether draws with NaN or infinity are left out.

    Returns
    -------
    samples, scores : Source
        Draws, and their scores.
    chain : (n,) array of int
        The chain of each draw.
    dropped, divergent : int
        Numbers of draws left out, and of divergent ones that are kept.
    """
    from ..interop.arviz import draws

    size = _check_readable(path)
    wanted = None if variables is None else [name.strip() for name in variables.split(",")]
    try:
        with warnings.catch_warnings():
            # ArviZ warns of its own future when it is imported.
            warnings.simplefilter("ignore", FutureWarning)
            found = draws(
                path,
                score=score,
                var_names=wanted,
                on_divergence=divergences,
                on_nan="drop" if drop else "error",
            )
    except ValueError as error:
        said = Shell({"idata": path}).said(error)
        raise FileError(said if said.startswith(f"{path}:") else f"{path}: {said}") from error
    samples, scores = (
        array_source(path, array)._replace(names=found.names, size=size)
        for array in (found.x, found.score)
    )
    return samples, scores, found.chain, found.n_dropped, found.n_divergent


READERS = {
    ".npy": _npy,
    ".npz": _npz,
    ".csv": open_text,
    ".tsv": open_text,
    ".txt": open_text,
    ".parquet": _parquet,
}
