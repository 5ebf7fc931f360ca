"""Compiled code on disk, safe from other processes, damaged files and full disks.

Numba's own cache has an index for each function. Two processes that compile a function for
different types at once may both write entry 1, and the index of one then names the code of the
other. Here every entry is a file of its own, named after the types and the machine it is for.

Code is kept beside the package; where that can't be written to, among the caches of the user; and
where there is no home either, in a folder of the user in the place for temporary files.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numba
from numba.core import caching
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile

# Its name had an underscore once.
_UserWide: Any = getattr(caching, "UserWideCacheLocator", None) or caching._UserWideCacheLocator


class CacheWarning(UserWarning):
    """Compiled code can't be kept or read; it is compiled anew in every process."""


class EntryFiles(IndexDataCacheFile):
    """One file for each entry, replaced as a whole."""

    def flush(self) -> None:
        """Remove all entries."""
        for path in Path(self._cache_path).glob(f"{Path(self._index_name).stem}.*.nbc"):
            path.unlink(missing_ok=True)

    def save(self, key: Any, data: Any) -> None:
        """Write an entry."""
        self._save_data(self._name(key), (numba.__version__, self._source_stamp, data))

    def load(self, key: Any) -> Any:
        """The entry, or None where there is none for this source."""
        try:
            version, stamp, data = self._load_data(self._name(key))
        except FileNotFoundError:
            return None
        return data if (version, stamp) == (numba.__version__, self._source_stamp) else None

    def _name(self, key: Any) -> str:
        digest = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        return f"{Path(self._index_name).stem}.{digest}.nbc"


class TemporaryFolder(_UserWide):
    """A place among temporary files, for a package that is read only and a user without a home.

    What is loaded from it is executed, so the folder must belong to this user, and no other may
    write to it.
    """

    def __init__(self, function: Any, file: str) -> None:
        super().__init__(function, file)
        self.folder = Path(tempfile.gettempdir()) / f"fastsksd-code-{_user()}"
        self._cache_path = str(self.folder / Path(self._cache_path).name)

    def ensure_cache_path(self) -> None:
        """Make the folder, or raise an OSError where it is not this user's alone."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        status = self.folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or (
            hasattr(os, "getuid") and (status.st_uid != _user() or status.st_mode & 0o022)
        ):
            raise PermissionError(f"{self.folder} is not a folder of this user alone")
        super().ensure_cache_path()


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


class Places(CompileResultCacheImpl):
    """Where code may be kept: Numba's places, then the temporary one."""

    _locator_classes = [*CompileResultCacheImpl._locator_classes, TemporaryFolder]  # noqa: RUF012


class CodeCache(FunctionCache):
    """The cache of one function."""

    _impl_class = Places

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        locator = self._impl.locator
        self._cache_file = EntryFiles(
            self._cache_path, self._impl.filename_base, locator.get_source_stamp()
        )

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled function for some types, or None."""
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # a damaged pickle raises whatever its bytes happen to say
            _warn(f"A file of compiled code in {self._cache_path} can't be read", error)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled function."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _warn(f"Compiled code can't be kept in {self._cache_path}", error)


_warned = False


def _warn(what: str, error: Exception) -> None:
    """Say so once in a process."""
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            f"{what} ({type(error).__name__}: {error}), so it is compiled anew. The environment "
            "variable NUMBA_CACHE_DIR names another folder.",
            CacheWarning,
            stacklevel=2,
        )


def keep(dispatcher: Any) -> Any:
    """Let a compiled function keep its code on disk, where there is a place for it."""
    if hasattr(dispatcher, "py_func"):  # a plain function where NUMBA_DISABLE_JIT is set
        # No place can be written to.
        with contextlib.suppress(RuntimeError):
            dispatcher._cache = CodeCache(dispatcher.py_func)
    return dispatcher


def folder_of(dispatcher: Any) -> str | None:
    """Where a compiled function keeps its code."""
    path = dispatcher._cache.cache_path
    return None if path is None else str(path)
