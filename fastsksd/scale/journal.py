"""Files of results that survive a kill.

A file has a header and one line of JSON for each result. A line is on disk before the next begins.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, TextIO

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class Unreadable(Exception):
    """A file that is not a journal, or has a line that is not a record."""


class Busy(Exception):
    """A journal that another process, or another run, is writing."""


def hold(path: Path) -> BinaryIO:
    """Open a file that keeps others from writing the journal until it is closed.

    The file and its folder are made if they are not there. The operating system releases the file
    when the process ends, however it ends.
    """
    if path.exists():
        _check_file(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("ab")
    try:
        _lock(file.fileno())
    except (BlockingIOError, PermissionError):
        file.close()
        raise Busy(f"another process, or another run in this one, is writing {path}.") from None
    except OSError:
        pass  # a file system without locks
    return file


def _check_file(path: Path) -> None:
    """A device has no end, and a pipe no beginning."""
    if not path.is_file():
        raise Unreadable(f"{path} is not a file of results.")


def _lock(descriptor: int) -> None:
    if sys.platform == "win32":
        # Beyond the end of the file: what is locked can't be read by others either.
        os.lseek(descriptor, 2**40, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def read(path: Path, check: Callable[[Any], object]) -> tuple[Any, list[Any], int]:
    """Read a journal; nothing is changed on disk.

    Parameters
    ----------
    path : Path
    check : callable
        Raises an error for what is not a record.

    Returns
    -------
    header : object
    records : list
    whole : int
        Length of the file up to the last whole line; a kill may have torn a line.
    """
    _check_file(path)
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    lines = []
    for number, line in enumerate(content[:whole].splitlines(), start=1):
        try:
            lines.append(json.loads(line))
            if number > 1:
                check(lines[-1])
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            raise Unreadable(
                f"line {number} of {path} is not a result of a run; nothing was changed."
            ) from None
    if not lines:
        raise Unreadable(f"{path} is not a file of results.")
    return lines[0], lines[1:], whole


def mend(path: Path, whole: int) -> None:
    """Remove a torn last line."""
    if whole < path.stat().st_size:
        os.truncate(path, whole)


def begin(path: Path, header: object) -> None:
    """Write the header of a journal, in a file that is held.

    The file may be empty, or a kill may have left a part of the header. A journal that has begun
    stays as it is.
    """
    line = _line(header).encode()
    with path.open("rb") as file:
        if not line.startswith(file.read(len(line) + 1)):
            return
    with path.open("w") as file:
        append(file, header)


def append(file: TextIO, record: object) -> None:
    """Write a record and wait until it is on disk."""
    file.write(_line(record))
    file.flush()
    os.fsync(file.fileno())


def _line(record: object) -> str:
    return json.dumps(record) + "\n"
