"""Files of results that survive a kill: a header and one line of JSON for each, on disk before the next begins."""

import json
import os

try:
    import fcntl
except ImportError:  # Windows
    import msvcrt


class Unreadable(Exception):
    """A file that is no journal, or a line in it that is none of its records."""


class Busy(Exception):
    """A journal that someone else is writing."""


def hold(path):
    """An open file that keeps others from writing the journal until it is closed; made, with its folder, when it is not there.

    The operating system lets go of it when the process ends, however it ends.
    """
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


def _lock(descriptor):
    if os.name == "nt":
        # Beyond the end: others may read what is locked no more than they may write it.
        os.lseek(descriptor, 2**40, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def read(path, check):
    """Header and records of a journal, and its length up to the last whole line: a kill may have torn one apart.

    `check` looks into a record and raises an error where it is none. Nothing is changed on disk.
    """
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    lines = []
    for number, line in enumerate(content[:whole].splitlines(), start=1):
        try:
            lines.append(json.loads(line))
            if number > 1:
                check(lines[-1])
        except (ValueError, TypeError, LookupError, AttributeError):
            raise Unreadable(
                f"line {number} of {path} is no result of a run; nothing was changed."
            ) from None
    if not lines:
        raise Unreadable(f"{path} is not a file of results.")
    return lines[0], lines[1:], whole


def mend(path, whole):
    """Take a torn last line off."""
    if whole < path.stat().st_size:
        os.truncate(path, whole)


def begin(path, header):
    """A journal without records, in a file that is held; one that has begun already stays as it is.

    The file may be empty, or a kill may have left a part of the header.
    """
    line = _line(header).encode()
    with path.open("rb") as file:
        if not line.startswith(file.read(len(line) + 1)):
            return
    with path.open("w") as file:
        append(file, header)


def append(file, record):
    """Write a record and wait until it is on disk."""
    file.write(_line(record))
    file.flush()
    os.fsync(file.fileno())


def _line(record):
    return json.dumps(record) + "\n"
