"""Files of all kinds: what is read from them, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from fastsksd.cli.files import open_file
from fastsksd.cli.sources import FileError, read_all, read_blocks

X = np.random.default_rng(7).standard_normal((120, 2))


def write(name, text):
    Path(name).write_text(text, encoding="utf-8", newline="")


def read(name, columns=None):
    source = open_file(name, columns)
    return source, read_all([source], rows=7)[0]


@pytest.mark.parametrize("dtype", ["f4", "f8", ">f8", "f2"])
def test_npy(folder, dtype):
    np.save("a.npy", np.asfortranarray(X.astype(dtype)))
    source, x = read("a.npy")
    assert x.dtype == np.float64 and source.names is None and np.array_equal(x, X.astype(dtype))


def test_integers_booleans_columns_and_records(folder):
    np.save("a.npy", np.array([[1, 2], [3, 4]]))
    assert np.array_equal(read("a.npy")[1], [[1, 2], [3, 4]])
    np.save("a.npy", np.array([True, False]))
    source, x = read("a.npy")
    assert x.tolist() == [[1.0], [0.0]] and "one-dimensional" in source.notes[0]
    np.save("a.npy", np.array([(1.5, 2), (0.5, 3)], dtype=[("u", "f8"), ("v", "i4")]))
    source, x = read("a.npy", "v,u")
    assert source.names == ("v", "u") and x.tolist() == [[2, 1.5], [3, 0.5]]


def test_npz(folder):
    np.savez("a.npz", x=X, other=X + 1)
    np.savez_compressed("b.npz", only=X)
    assert np.array_equal(read("a.npz:other")[1], X + 1) and np.array_equal(read("b.npz")[1], X)
    with pytest.raises(
        FileError,
        match=r"a\.npz: holds several arrays; name one, as in a\.npz:x \(there are x, other\)",
    ):
        open_file("a.npz")
    with pytest.raises(FileError, match="has no array 'y'"):
        open_file("a.npz:y")


@pytest.mark.parametrize("delimiter", [",", ";", "\t", " ", "   ", ", "])
@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_text(folder, delimiter, header, end):
    lines = [delimiter.join(map(repr, row)) for row in X.tolist()]
    text = end.join(
        [
            "# a remark",
            *([delimiter.join(("alpha", "beta"))] if header else []),
            *lines[:50],
            "",
            *lines[50:],
            "",
        ]
    )
    write("a.csv", text)
    source, x = read("a.csv")
    assert np.array_equal(x, X) and source.names == (("alpha", "beta") if header else None)


def test_text_as_others_write_it(folder):
    body = "".join(f"{k},{a},{b}\n" for k, (a, b) in enumerate(X.tolist()))
    bare = "".join(f"{a},{b}\n" for a, b in X.tolist())
    quoted = "".join(f'"{k}",{a},{b}\n' for k, (a, b) in enumerate(X.tolist(), 1))
    for text, names in (
        (",a,b\n" + body, ("a", "b")),  # pandas, with its index
        (",0,1\n" + body, None),
        ("0,1\n" + bare, None),
        ('"","a","b"\n' + quoted, ("a", "b")),  # R
        ("\ufeffa,b\n" + bare, ("a", "b")),  # a spreadsheet's byte order mark
        ('"a, with a comma",b\n' + bare, ("a, with a comma", "b")),
    ):
        write("a.csv", text)
        source, x = read("a.csv")
        assert source.names == names and np.array_equal(x, X), text[:20]
    write("a.csv", "0,1\n2,3\n")  # nothing but whole numbers: the first line is a sample
    assert read("a.csv")[1].tolist() == [[0, 1], [2, 3]]
    write("a.csv", ",a\n5,0.5\n9,0.25\n")  # a column without a name that does not count
    assert read("a.csv")[1].tolist() == [[5, 0.5], [9, 0.25]]


def test_numbers_above_the_columns(folder):
    bare, indexed = "0.5,-1.25\n1e-3,2.5\n", "7,0.5,-1.25\n8,1e-3,2.5\n"
    rows = [[0.5, -1.25], [0.001, 2.5]]
    for text in (
        "2019,2020\n" + bare,
        "1,2\n" + bare,
        ",2018,2020\n" + indexed,
        "0,1\n0.5,-1.25\n1e-3,2.5\n",
    ):
        write("a.csv", text)
        source, x = read("a.csv")
        assert x.tolist() == rows, text
        assert (
            len(
                [note for note in source.notes if "numbers the columns and is not a sample" in note]
            )
            == 1
        )
    # In doubt it is a sample, and the user is told.
    for text in ("2018,2020\n" + bare, "1,2\n0.5,3\n4,2.5\n", "3\n0.5\n0.25\n"):
        write("a.csv", text)
        source, x = read("a.csv")
        assert x.shape[0] == 3, text
        (note,) = source.notes
        assert note.startswith("a.csv: the first line, ") and note.endswith(
            "is taken as a sample; if it names the columns, put # before it"
        )
        write("a.csv", "#" + text)
        assert read("a.csv")[1].shape[0] == 2 and read("a.csv")[0].notes == ()
    # No doubt: whole numbers are nothing special here.
    for text in (
        "1,2\n3,4\n0.5,1\n",
        "4,4\n0.5,0.25\n",
        "1.0,2.0\n0.5,0.25\n",
        "3,5\n1,0.5\n",
        "1,2\n",
    ):
        write("a.csv", text)
        source, x = read("a.csv")
        assert x.shape[0] == text.count("\n") and source.notes == (), text


def test_one_column_of_text(folder):
    write("a.txt", "mu\n1\n2.5\n")
    source, x = read("a.txt")
    assert source.names == ("mu",) and x.tolist() == [[1], [2.5]]


def test_columns(folder):
    write("a.csv", "a,b,label,c\n1,2,x,3\n4,5,y,6\n")
    for wanted, names in (
        ("c,a", ("c", "a")),
        ("0:2", ("a", "b")),
        ("3", ("c",)),
        ("0,3:", ("a", "c")),
        (" b , c", ("b", "c")),
    ):
        source, x = read("a.csv", wanted)
        assert source.names == names
        assert x.tolist() == [
            [{"a": 1, "b": 2, "c": 3}[name] + 3 * row for name in names] for row in (0, 1)
        ]
    write("b.csv", "a,b,label,c\n1,2,x,3\n4,5,y,6,7\n")
    with pytest.raises(FileError, match="line 3 has 5 columns, but the first line has 4"):
        read("b.csv", "a,b")
    write("b.csv", 'a,label\n1,"x,y"\n2,z\n')
    assert read("b.csv", "a")[1].tolist() == [[1], [2]]
    for wanted, message in (
        ("d", "no column 'd'; the columns are a, b, label, c"),
        ("4", "no columns 4; they are counted from 0 to 3"),
        ("2:1", "no columns 2:1"),
        ("a,a", "column a is asked for twice"),
        ("a,0", "column a is asked for twice"),
        ("", "no column"),
    ):
        with pytest.raises(FileError, match=message):
            open_file("a.csv", wanted)


def test_parquet(folder):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    table = {
        "a": X[:, 0],
        "n": list(range(120)),
        "flag": [True, False] * 60,
        "text": ["t"] * 120,
        "x.y": X[:, 1].astype("f4"),
    }
    pq.write_table(pa.table(table), "a.parquet", row_group_size=11)
    source, x = read("a.parquet", "a,n,flag,x.y")
    assert source.names == ("a", "n", "flag", "x.y")
    assert np.array_equal(
        x, np.column_stack([X[:, 0], np.arange(120), [1, 0] * 60, X[:, 1].astype("f4")])
    )
    assert {block.shape[0] for block, _ in source.blocks(25)} == {25, 20}
    with pytest.raises(FileError, match="column 'text' holds string, not numbers"):
        open_file("a.parquet")
    pq.write_table(pa.table({"a": [1, None, 3]}), "a.parquet")
    assert np.isnan(read("a.parquet")[1]).ravel().tolist() == [False, True, False]
    write("b.parquet", "not really")
    with pytest.raises(FileError, match=r"b\.parquet: can't be read as \.parquet"):
        open_file("b.parquet")


def test_files_side_by_side_in_blocks(folder):
    np.save("x.npy", X)
    np.savetxt("s.csv", -X, fmt="%.17g")
    sources = [open_file("x.npy"), open_file("s.csv")]
    blocks = list(read_blocks(sources, 50))
    assert [block[0].shape[0] for block, _ in blocks] == [50, 50, 20]
    assert np.array_equal(
        np.concatenate([x for (x, _), _ in blocks]), -np.concatenate([s for (_, s), _ in blocks])
    )
    fractions = [fraction for _, fraction in blocks]
    assert fractions == sorted(fractions) and fractions[-1] == 1
    np.save("s.npy", -X[:100])
    for rows in (30, 50, 1000):
        with pytest.raises(FileError, match=r"s\.npy: has 100 rows, fewer than x\.npy"):
            read_all([sources[0], open_file("s.npy")], rows=rows)


def test_nothing_is_unpickled(folder):
    class Trap:
        def __reduce__(self):
            return (open, (str(folder / "sprung"), "w"))

    np.save("a.npy", np.array([Trap()], dtype=object), allow_pickle=True)
    np.savez("a.npz", x=np.array([Trap()], dtype=object))
    for name in ("a.npy", "a.npz"):
        with pytest.raises(FileError):
            open_file(name)
    assert not (folder / "sprung").exists()
