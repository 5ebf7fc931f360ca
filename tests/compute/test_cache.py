"""Compiled code on disk: entries of their own, damaged files, full disks."""

import errno
import os
import tempfile
from pathlib import Path

import numba
import pytest

from fastsksd.compute import cache
from fastsksd.compute.cache import CacheWarning, EntryFiles, TemporaryFolder, keep


def double(x):
    return x + x


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """Makes a function anew, as another process would, with its code kept in a folder."""
    monkeypatch.setattr(cache, "_warned", False)

    def make():
        function = keep(numba.njit(double))
        function._cache._cache_path = str(tmp_path)
        function._cache._cache_file = EntryFiles(str(tmp_path), "double", "stamp")
        monkeypatch.setattr(
            type(function._cache._impl.locator), "ensure_cache_path", lambda _: None
        )
        return function

    return make


def hits(function):
    return sum(function.stats.cache_hits.values())


def test_code_is_kept(fresh, tmp_path):
    assert fresh()(2) == 4 and len(list(tmp_path.iterdir())) == 1
    again = fresh()
    assert again(3) == 6 and hits(again) == 1
    assert again(1.5) == 3.0 and hits(again) == 1 and len(list(tmp_path.iterdir())) == 2
    again._cache.flush()
    assert not list(tmp_path.iterdir())


def test_damaged_file_is_compiled_anew(fresh, tmp_path):
    fresh()(2)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], b"not a pickle", b"\x80\x04K\x01."):
        path.write_bytes(damaged)
        cache._warned = False
        with pytest.warns(CacheWarning, match="can't be read"):
            assert fresh()(3) == 6
        again = fresh()
        assert again(3) == 6 and hits(again) == 1


def test_full_disk_is_said_once(fresh, monkeypatch, recwarn):
    def full(self, path):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(EntryFiles, "_open_for_write", full)
    function = fresh()
    assert function(2) == 4 and function(2.5) == 5.0
    (warning,) = [one for one in recwarn if one.category is CacheWarning]
    assert "No space left" in str(warning.message) and "NUMBA_CACHE_DIR" in str(warning.message)


def test_entries_of_two_processes_do_not_meet(tmp_path):
    """Whatever the order of their writing, each key has its own data."""
    one, other = (EntryFiles(str(tmp_path), "f", "stamp") for _ in range(2))
    assert one.load("int") is None and other.load("float") is None
    one.save("int", "code for int")
    other.save("float", "code for float")
    other.save("int", "code for int")
    assert (one.load("float"), other.load("int")) == ("code for float", "code for int")
    assert EntryFiles(str(tmp_path), "f", "edited source").load("int") is None


@pytest.fixture
def homeless(tmp_path, monkeypatch):
    """Numba's own places can't be written to, and temporary files have a folder of this test."""
    monkeypatch.setattr(cache.Places, "_locator_classes", [TemporaryFolder])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"fastsksd-code-{os.getuid()}"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no users on this system")
def test_without_a_home_code_is_kept_among_temporary_files(homeless):
    function = keep(numba.njit(double))
    assert function(2) == 4 and homeless.stat().st_mode & 0o777 == 0o700
    assert Path(cache.folder_of(function)).parent == homeless
    assert len(list(homeless.rglob("*.nbc"))) == 1
    again = keep(numba.njit(double))
    assert again(3) == 6 and hits(again) == 1


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no users on this system")
@pytest.mark.parametrize("trap", ["open to others", "a link", "of another user"])
def test_nothing_is_executed_from_a_folder_of_others(homeless, trap, monkeypatch, tmp_path):
    """Loaded code is executed: a folder that another user may have filled is left alone."""
    if trap == "a link":
        (tmp_path / "theirs").mkdir()
        homeless.symlink_to(tmp_path / "theirs")
    else:
        homeless.mkdir()
        homeless.chmod(0o777 if trap == "open to others" else 0o700)
    if trap == "of another user":
        monkeypatch.setattr(cache, "_user", lambda: os.getuid() + 1)
        homeless.rename(tmp_path / f"fastsksd-code-{os.getuid() + 1}")
    function = keep(numba.njit(double))
    assert function(2) == 4 and not list(tmp_path.rglob("*.nb?"))
