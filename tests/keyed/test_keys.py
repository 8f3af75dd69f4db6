"""Columns of keys of every library, and what is no key."""

from __future__ import annotations

import uuid
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from mta import CountWindow, KeyedWindows, Sum
from mta.errors import UnsuitableKey
from mta.keyed import keys as module
from mta.keyed.keys import Keys, merged, of_packed, read_key, read_keys

TEXT = ["b", "a", "b", "", "\0", "a\0", "ä", "b"]
BYTES = [text.encode() for text in TEXT]
NUMBERS = [5, -7, 5, 0, 100, -100, 127]


def read(column: Any, kind: str | None = None) -> list[Any]:
    """A column's keys as they are read, row by row; the distinct ones are distinct and in order."""
    keys, codes = read_keys(column, kind)
    distinct = keys.as_column().tolist()
    assert len(set(distinct)) == len(distinct) == len(keys)
    assert set(codes.tolist()) == set(range(len(keys)))
    packed = [keys.packed(at) for at in range(len(keys))]
    order = list(zip(keys.hashes.tolist(), packed, strict=True))
    assert order == sorted(order)
    assert keys.find(keys).tolist() == list(range(len(keys)))
    assert (of_packed(keys.kind, packed).hashes == keys.hashes).all()
    return [distinct[code] for code in codes.tolist()]


ENUM = pl.Enum(sorted(set(TEXT)))
SPLIT = [pa.array(TEXT[:3]), pa.array(TEXT[3:])]
OWN = pa.DictionaryArray.from_arrays(pa.array([0, 2, 1, 3]), pa.array(["a", "a", "b", "c", "d"]))
COLUMNS: dict[str, tuple[Any, list[Any]]] = {
    "list": (TEXT, TEXT),
    "numpy text": (np.array(["b", "a", "b"]), ["b", "a", "b"]),
    "numpy text scalars": ([np.str_("a"), "a"], ["a", "a"]),
    "numpy objects": (np.array(TEXT, object), TEXT),
    "pandas": (pd.Series(TEXT), TEXT),
    "pandas text": (pd.Series(TEXT, dtype="string"), TEXT),
    "pandas of Arrow": (pd.Series(TEXT, dtype="string[pyarrow]"), TEXT),
    "pandas index": (pd.Index(TEXT), TEXT),
    "pandas categories": (pd.Series(["b", "", "b"]).astype("category"), ["b", "", "b"]),
    "pandas, some rows": (pd.Series(["b", "", "a"]).astype("category")[1:], ["", "a"]),
    "polars": (pl.Series(TEXT), TEXT),
    "polars categories": (pl.Series(TEXT, dtype=pl.Categorical), TEXT),
    "polars enum": (pl.Series(TEXT, dtype=ENUM), TEXT),
    "Arrow": (pa.array(TEXT), TEXT),
    "Arrow, large": (pa.array(TEXT, pa.large_string()), TEXT),
    "Arrow views": (pa.array(TEXT, pa.string_view()), TEXT),
    "Arrow chunks": (pa.chunked_array(SPLIT), TEXT),
    "Arrow no chunk": (pa.chunked_array([], pa.string()), []),
    "Arrow slice": (pa.array(TEXT)[2:5], TEXT[2:5]),
    "Arrow dictionary": (pa.array(TEXT).dictionary_encode(), TEXT),
    "Arrow dictionaries": (pa.chunked_array([a.dictionary_encode() for a in SPLIT]), TEXT),
    "Arrow dictionary with a value twice": (OWN, ["a", "b", "a", "c"]),
    "Arrow runs": (pa.RunEndEncodedArray.from_arrays([2, 3], ["a", "b"]), ["a", "a", "b"]),
    "bytes": (BYTES, BYTES),
    "numpy bytes": (np.array([b"x", b"yy"]), [b"x", b"yy"]),
    "polars bytes": (pl.Series(BYTES), BYTES),
    "Arrow bytes": (pa.array(BYTES), BYTES),
    "Arrow bytes of a width": (pa.array([b"ab", b"cd"], pa.binary(2)), [b"ab", b"cd"]),
    "integers": (NUMBERS, NUMBERS),
    "range": (range(3), [0, 1, 2]),
    "integers and numpy's": ([1, np.int64(1), np.int8(2)], [1, 1, 2]),
    "pandas numbers": (pd.Series(NUMBERS), NUMBERS),
    "pandas numbers that may be null": (pd.Series(NUMBERS, dtype="Int64"), NUMBERS),
    "pandas numbers as objects": (pd.Series(NUMBERS, dtype=object), NUMBERS),
    "pandas numbers of Arrow": (pd.Series(NUMBERS, dtype="int64[pyarrow]"), NUMBERS),
    "pandas sparse": (pd.Series(pd.arrays.SparseArray([0, 0, 1])), [0, 0, 1]),
    "polars numbers": (pl.Series(NUMBERS), NUMBERS),
    "Arrow numbers": (pa.array(NUMBERS), NUMBERS),
    "no mask": (np.ma.array([1, 2]), [1, 2]),
    "far apart": (np.array([-(2**63), 2**63 - 1, 0]), [-(2**63), 2**63 - 1, 0]),
    "swapped bytes": (np.array([1, 256], ">i4"), [1, 256]),
    "large, without sign": (np.array([2**63 - 1], "u8"), [2**63 - 1]),
    "tuples": ([(1, "a"), (1, "b"), (1, "a")], [(1, "a"), (1, "b"), (1, "a")]),
    "tuples of numpy's": ([(1, "a"), (np.int64(1), "a")], [(1, "a"), (1, "a")]),
    "tuples of one": ([(1,), (2,)], [(1,), (2,)]),
    "tuples of any": ([(1, 2), ("1", b"2", 3)], [(1, 2), ("1", b"2", 3)]),
    "columns": ((["a", "b", "a"], [1, 1, 1]), [("a", 1), ("b", 1), ("a", 1)]),
    "one column": ((["a", "b"],), [("a",), ("b",)]),
    "columns of libraries": (
        (pd.Series(["a", "b"]).astype("category"), pl.Series([1, 2]), pa.array([b"x", b"x"])),
        [("a", 1, b"x"), ("b", 2, b"x")],
    ),
    "columns with numpy's": (([1, np.int64(1)], ["a", "a"]), [(1, "a"), (1, "a")]),
    "columns without rows": (([], []), []),
    "rows of several columns": (pd.MultiIndex.from_tuples([(1, "a")]), [(1, "a")]),
    "nothing": ([], []),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_are_read(name: str) -> None:
    column, expected = COLUMNS[name]
    assert read(column) == expected


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4"])
def test_integers_of_every_width_are_read_to_their_limits(dtype: str) -> None:
    info = np.iinfo(dtype)
    limits = [int(info.min), int(info.max), 0, 45, int(info.max) - 1, int(info.min) + 28]
    for wanted in (limits, limits[:2], [int(info.min) + 28, int(info.max) - 27]):
        column = np.array(wanted, dtype)
        assert read(column) == wanted
        assert read(pd.Series(column)) == wanted
        assert read(pl.Series(column)) == wanted
        assert read(pa.array(column)) == wanted


def test_keys_do_not_depend_on_where_they_came_from() -> None:
    columns = [TEXT, np.array(TEXT, object), pd.Series(TEXT), pl.Series(TEXT), pa.array(TEXT)]
    found = [read_keys(column, None) for column in columns]
    for keys, codes in found:
        assert keys.hashes.tolist() == found[0][0].hashes.tolist()
        assert codes.tolist() == found[0][1].tolist()


class Text(str):
    """Text of a class of its own."""


NULL = "some keys are null: drop these events, or give them a key"
MIXED = "keys are all integers, all text, all bytes or all tuples of these, not "
NONE = "the key .* is none: "
COLUMN = "keys are a column with a key for each event, not "
BAD: dict[str, tuple[Any, str]] = {
    "null": (["a", None], NULL),
    "only null": ([None], NULL),
    "NaN": ([1.0, float("nan")], NULL),
    "pandas null": (pd.Series(["a", None]), NULL),
    "pandas NA": (pd.Series([1, None], dtype="Int64"), NULL),
    "pandas NaT": (pd.Series([pd.NaT]), NULL),
    "pandas category null": (pd.Series(["a", None]).astype("category"), NULL),
    "polars null": (pl.Series(["a", None]), NULL),
    "polars nulls": (pl.Series([None, None]), NULL),
    "Arrow null": (pa.array(["a", None]), NULL),
    "Arrow nulls": (pa.nulls(2), NULL),
    "Arrow dictionary with null": (
        pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None])), NULL,
    ),
    "masked": (np.ma.array([1, 2], mask=[False, True]), NULL),
    "null of two columns": ((["a", None], [1, 2]), NULL),
    "null in a tuple": ([(None, 1)], NULL),
    "1 and '1'": ([1, "1"], MIXED),
    "text and bytes": (["a", b"a"], MIXED),
    "1 and True": ([1, True], MIXED),
    "pandas 1 and True": (pd.Series([1, True], dtype=object), MIXED),
    "numpy 1 and '1'": (np.array([1, "1"], object), MIXED),
    "bool": ([True], MIXED),
    "numpy bool": (np.array([True]), MIXED),
    "pandas bool": (pd.Series([True]), MIXED),
    "polars bool": (pl.Series([True]), MIXED),
    "Arrow bool": (pa.array([True]), MIXED),
    "float": ([1.0], MIXED),
    "numpy float": (np.array([1.0]), MIXED),
    "pandas float": (pd.Series([1.0, 2.0]), MIXED),
    "polars float": (pl.Series([1.0]), MIXED),
    "Arrow float": (pa.array([1.0]), MIXED),
    "decimal": ([Decimal(1)], MIXED),
    "polars decimal": (pl.Series([1]).cast(pl.Decimal(10, 2)), MIXED),
    "date": ([date(2020, 1, 1)], MIXED),
    "UUID": ([uuid.UUID(int=1)], MIXED),
    "Arrow UUID": (pa.array([b"0" * 16], pa.uuid()), MIXED),
    "numpy times": (np.array(["2020"], "M8[us]"), "keys are integers, text or bytes, not datet"),
    "numpy fine times": (np.array(["2020"], "M8[ns]"), "keys are integers, text or bytes, not "),
    "numpy durations": (np.array([5], "m8[s]"), "keys are integers, text or bytes, not timedelta"),
    "pandas times": (pd.Series(pd.to_datetime(["2020"])), MIXED),
    "polars times": (pl.Series([1]).cast(pl.Datetime), MIXED),
    "Arrow times": (pa.array([1], pa.timestamp("us")), MIXED),
    "polars objects": (pl.Series([object()], dtype=pl.Object), MIXED),
    "a class of its own": ([Text("a")], MIXED),
    "view": ([memoryview(b"a")], MIXED),
    "list": ([[1]], NONE),
    "dictionary": ([{}], NONE),
    "bytearray": ([bytearray(b"a")], NONE),
    "polars lists": (pl.Series([[1]]), NONE),
    "polars structs": (pl.Series([{"a": 1}]), NONE),
    "Arrow lists": (pa.array([[1]]), NONE),
    "Arrow structs": (pa.array([{"a": 1}]), NONE),
    "surrogate": (["\ud800"], NONE),
    "surrogate in a tuple": ([("\ud800",)], NONE),
    "tuple in a tuple": ([(1, (2,))], NONE),
    "float in a tuple": ([(1.0, "a")], NONE),
    "bool in a tuple": ([(True, "a")], NONE),
    "equal tuples, one of a float": ([(1, "a"), (1.0, "a")], NONE),
    "equal tuples, one of a bool": ([(1, "a"), (True, "a")], NONE),
    "huge in a tuple": ([(2**70,)], NONE),
    "empty tuple": ([()], NONE),
    "float column": (([1.0], ["a"]), NONE),
    "huge": ([2**63], "the key 9223372036854775808 does not fit 64 bits with a sign"),
    "tiny": ([-(2**63) - 1], "the key -9223372036854775809 does not fit 64 bits"),
    "numpy huge": (np.array([2**63], "u8"), "the key 9223372036854775808 does not fit"),
    "pandas huge": (pd.Series([2**63], dtype="u8"), "the key 9223372036854775808 does not fit"),
    "polars huge": (pl.Series([2**63], dtype=pl.UInt64), "the key 9223372036854775808 does not"),
    "polars wide": (pl.Series([2**70], dtype=pl.Int128), "does not fit 64 bits"),
    "Arrow huge": (pa.array([2**63], pa.uint64()), "the key 9223372036854775808 does not fit"),
    "long": (["a", "x" * 1025], "the key 'xxx.* has 1025 bytes; a key has at most 1024: take a d"),
    "long in bytes": (["ä" * 513], "has 1026 bytes; a key has at most 1024"),
    "long tuple": ([("x" * 1024,)], "has 1028 bytes; a key has at most 1024"),
    "text alone": ("abc", COLUMN + "str"),
    "bytes alone": (b"abc", COLUMN + "bytes"),
    "number alone": (5, COLUMN + "int"),
    "nothing": (None, COLUMN + "NoneType"),
    "generator": ((key for key in "ab"), COLUMN + "generator"),
    "set": ({"a"}, COLUMN + "set"),
    "dict": ({"a": 1}, COLUMN + "dict"),
    "pandas frame": (pd.DataFrame({"a": [1], "b": [2]}), COLUMN + "DataFrame"),
    "polars frame": (pl.DataFrame({"a": [1], "b": [2]}), COLUMN + "DataFrame"),
    "Arrow table": (pa.table({"a": [1]}), COLUMN + "Table"),
    "0 dimensions": (np.array(5), "keys have one dimension, not 0"),
    "2 dimensions": (np.ones((2, 2), int), "keys have one dimension, not 2"),
    "no columns": ((), "a tuple of columns has at least one, and all are of one length"),
    "columns of two lengths": ((["a", "b"], [1]), "a tuple of columns has at least one"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_key_is_named_and_changes_nothing(name: str) -> None:
    column, message = BAD[name]
    with pytest.raises(UnsuitableKey, match=message):
        read_keys(column, None)
    windows = KeyedWindows(Sum("int64"), CountWindow(2))
    with pytest.raises(UnsuitableKey):
        windows.extend(column, [1])
    # It does not even fix the kind of the keys.
    assert windows.extend([b"k"], [1]).tolist() == [1]
    assert (len(windows), list(windows.keys())) == (1, [b"k"])


SOME = {"int": 1, "text": "1", "bytes": b"1", "tuple": (1,)}


@pytest.mark.parametrize("kind", SOME)
def test_keys_of_another_kind_than_those_before_are_refused(kind: str) -> None:
    windows = KeyedWindows(Sum("int64"), CountWindow(2))
    windows.extend([SOME[kind]], [1])
    for other, key in SOME.items():
        if other == kind:
            continue
        columns = [[key], pd.Series([key]), *([np.array([key])] if other == "int" else [])]
        for column in columns:
            with pytest.raises(UnsuitableKey, match="is not of the kind of those before it"):
                windows.extend(column, [1])
        with pytest.raises(UnsuitableKey, match="is not of the kind of those before it"):
            windows.query(key)
        assert key not in windows
    assert windows.extend([SOME[kind]], [1]).tolist() == [2]


def test_one_key_is_read() -> None:
    for kind, key in SOME.items():
        assert read_key(key, kind).at(0) == read_key(key, None).at(0) == key
    assert read_key(np.int64(3), "int").at(0) == 3
    assert read_key(np.str_("a"), None).at(0) == "a"
    for key in (None, 1.5, True, [1], {}, "\ud800", 2**63, (), float("nan")):
        with pytest.raises(UnsuitableKey):
            read_key(key, None)


@pytest.mark.parametrize("width", [1, 3, 1000])
def test_keys_whose_hashes_meet_stay_apart(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setattr(module, "hash_of", lambda key: sum(key) % width)
    texts = [f"{number}" for number in range(60)]
    assert read(texts * 2) == texts * 2
    every, _ = read_keys(texts, None)
    some, _ = read_keys(texts[::3], None)
    assert [every.at(place) for place in every.find(some).tolist()] == some.as_column().tolist()
    found = some.find(every)
    assert int((found >= 0).sum()) == len(some)
    assert all(some.at(f) == every.at(at) for at, f in enumerate(found.tolist()) if f >= 0)
    assert read_keys(["x"], None)[0].find(every).tolist() == [-1] * 60
    distinct, order, place = merged([some, every, some])
    assert distinct.as_column().tolist() == every.as_column().tolist()
    stood = [*some.as_column(), *every.as_column(), *some.as_column()]
    assert [stood[at] for at in order.tolist()] == [distinct.at(at) for at in place.tolist()]
    # Of one key, those of earlier sets come first.
    pairs = zip(order, order[1:], place, place[1:], strict=False)
    assert all(a < b for a, b, p, q in pairs if p == q)


def test_parts_of_keys() -> None:
    keys, _ = read_keys(TEXT, None)
    column = keys.as_column().tolist()
    places = np.array([0, 2, 3])
    assert keys.take(places).as_column().tolist() == [column[at] for at in places]
    assert keys.cut(1, 4).as_column().tolist() == column[1:4]
    assert keys.cut(2, 2).as_column().tolist() == []
    empty = Keys.none("text")
    assert empty.find(keys).tolist() == [-1] * len(keys)
    assert keys.find(empty).tolist() == []
    assert len(merged([empty, empty])[0]) == 0
