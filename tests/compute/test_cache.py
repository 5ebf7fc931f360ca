"""Compiled code on disk: entries of their own, damaged files, full disks."""

import errno

import numba
import pytest

from fastsksd.compute import cache
from fastsksd.compute.cache import CacheWarning, EntryFiles, keep


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
