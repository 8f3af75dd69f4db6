"""Columns of keys of every library, and what is no key."""

from __future__ import annotations

import uuid
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import msgpack
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from mta import CountWindow, KeyedWindows, Sum
from mta.errors import CorruptPage, UnsuitableKey
from mta.keyed import key_types
from mta.keyed import keys as module
from mta.keyed.keys import Keys, hash_and_bytes, merged, of_packed, read_key, read_keys
from stores import MemoryStore

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
DAY, CLOCK, NOON = date(2020, 5, 17), time(5, 0, 1, 7), datetime(2020, 5, 17, 12, tzinfo=UTC)
#: Each dictionary fits int8, both together do not.
WIDE = pa.chunked_array([
    pa.DictionaryArray.from_arrays(pa.array(range(n), pa.int8()), [f"{n} {i}" for i in range(n)])
    for n in (64, 65)
])  # fmt: skip
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
    "Arrow dictionaries that are too many for their indices": (WIDE, WIDE.to_pylist()),
    "Arrow dictionaries of times": (
        pa.chunked_array(
            [pa.array(part, pa.date32()).dictionary_encode() for part in ([DAY], [DAY])]
        ),
        [DAY, DAY],
    ),
    "numpy floats": (np.array([0.0, -0.0, 2.5], "f4"), [0.0, 0.0, 2.5]),
    "Arrow floats": (pa.array([0.0, -0.0]), [0.0, 0.0]),
    "polars floats": (pl.Series([0.0, -0.0]), [0.0, 0.0]),
    "pandas floats that may be null": (pd.Series([0.0, -0.0], dtype="Float64"), [0.0, 0.0]),
    "floats in tuples": ([(0.0, "a"), (-0.0, "a")], [(0.0, "a"), (0.0, "a")]),
    "decimals": (
        [Decimal("1.50"), Decimal("1.5"), Decimal("-0"), Decimal("1e3")],
        [Decimal("1.5"), Decimal("1.5"), Decimal(0), Decimal(1000)],
    ),
    "one moment of two zones": ([NOON, NOON.astimezone(timezone(timedelta(hours=5)))], [NOON] * 2),
    "pandas dates as objects": (pd.Series([DAY, DAY]), [DAY, DAY]),
    "pandas zones": (pd.Series([NOON]).dt.tz_convert("Asia/Tokyo"), [NOON]),
    "polars zones": (pl.Series([NOON]).dt.convert_time_zone("Asia/Tokyo"), [NOON]),
    "Arrow zones": (pa.array([NOON], pa.timestamp("s", "Asia/Tokyo")), [NOON]),
    "Arrow days in milliseconds": (pa.array([DAY], pa.date64()), [DAY]),
    "Arrow seconds of the day": (
        pa.array([CLOCK.replace(microsecond=0)], pa.time32("s")),
        [CLOCK.replace(microsecond=0)],
    ),
    "numpy fine times that fit": (np.array([5000], "M8[ns]"), [datetime(1970, 1, 1, 0, 0, 0, 5)]),
    "pandas categories of times": (
        pd.Series(pd.to_datetime(["2020-01-01"])).astype("category"),
        [datetime(2020, 1, 1)],
    ),
    "columns of every type": (
        ([True], [0.5], [DAY], [NOON], [timedelta(1)], [CLOCK], [Decimal(1)], [uuid.UUID(int=1)]),
        [(True, 0.5, DAY, NOON, timedelta(1), CLOCK, Decimal(1), uuid.UUID(int=1))],
    ),
}

#: Keys of each type, and how each library has a column of them.
TYPES: dict[str, tuple[list[Any], Any]] = {
    "int": ([5, -7, 5], pa.int64()),
    "bool": ([True, False, True], pa.bool_()),
    "float": ([0.5, -1e300, 0.5], pa.float64()),
    "text": (["a", "", "a"], pa.string()),
    "bytes": ([b"a", b"", b"a"], pa.binary()),
    "decimal": ([Decimal("1.50"), Decimal("-0.25"), Decimal("1.50")], pa.decimal128(10, 2)),
    "date": ([DAY, date(1, 1, 1), DAY], pa.date32()),
    "datetime": (
        [datetime(2020, 1, 1, 5), datetime(1969, 1, 1), datetime(2020, 1, 1, 5)],
        pa.timestamp("us"),
    ),
    "datetime with zone": ([NOON, NOON + timedelta(1), NOON], pa.timestamp("us", "UTC")),
    "duration": ([timedelta(1), timedelta(-1), timedelta(1)], pa.duration("us")),
    "time": ([CLOCK, time(0), CLOCK], pa.time64("us")),
}


@pytest.mark.parametrize("kind", TYPES)
def test_every_library_has_the_same_keys_of_every_type(kind: str) -> None:
    values, own = TYPES[kind]
    arrow = pa.array(values, own)
    columns = {
        "list": values, "objects": np.array([*values, None], object)[:-1], "Arrow": arrow,
        "chunks": pa.chunked_array([arrow[:1], arrow[1:]]),
        "dictionaries": pa.chunked_array([a.dictionary_encode() for a in (arrow[:1], arrow[1:])]),
        "pandas of Arrow": pd.Series(arrow, dtype=pd.ArrowDtype(own)),
        "polars": pl.Series(values), "pandas": pd.Series(values),
        "pandas index": pd.Index(values), "pandas categories": pd.Series(values, dtype="category"),
    }  # fmt: skip
    expected, _ = read_keys(values, None)
    assert expected.kind == kind
    for name, column in columns.items():
        if name == "pandas categories" and kind == "bytes":
            continue
        assert read(column) == values, name
        assert [type(key) for key in read(column)] == list(map(type, values)), name
        assert read_keys(column, kind)[0].hashes.tolist() == expected.hashes.tolist(), name
        assert read((column, [1, 1, 2])) == list(zip(values, [1, 1, 2], strict=True)), name


@pytest.mark.parametrize("kind", [*TYPES, "uuid", "tuple"])
@pytest.mark.usefixtures("tiny")
def test_keys_of_every_type_live_in_pages(kind: str) -> None:
    some = {**TYPES, "uuid": ([uuid.UUID(int=5)], None), "tuple": ([(DAY, 1.5, NOON)], None)}
    keys = list(dict.fromkeys(some[kind][0]))
    store, settings = MemoryStore(), {"leaf_arity": 2, "arity": 2}
    windows = KeyedWindows(Sum("int64"), CountWindow(99), store, "typed", **settings)
    count = 0
    for _ in range(12):
        count += 1
        assert windows.extend(keys, [1] * len(keys)).tolist() == [count] * len(keys)
        snapshot = windows.checkpoint()
        windows = KeyedWindows.restore(snapshot, store, **settings)
    assert sorted(windows.keys()) == sorted(keys)
    assert set(map(type, windows.keys())) == {type(keys[0])}
    assert windows.query(keys).tolist() == [count] * len(keys)
    assert windows.query(keys[0]) == count
    assert keys[0] in windows
    assert windows.window(keys[0]).query() == count
    last = windows.extend(keys, [1] * len(keys), emit="last")
    assert sorted(last.keys.tolist()) == sorted(keys)


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


class Text(str):
    """Text of a class of its own."""


NULL = "some keys are null: drop these rows, or give them a key"
MIXED = "keys are all of one type, not "
NONE = "the key .* is invalid: "
EQUAL = "the key .* equals another key with parts of other types"
TYPE = "the key .* is a [A-Za-z]*: keys are integers, text, bytes, "
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
    "polars objects": (pl.Series([object()], dtype=pl.Object), TYPE),
    "a class of its own": ([Text("a")], TYPE),
    "view": ([memoryview(b"a")], TYPE),
    "list": ([[1]], TYPE),
    "dictionary": ([{}], TYPE),
    "bytearray": ([bytearray(b"a")], TYPE),
    "polars lists": (pl.Series([[1]]), TYPE),
    "polars structs": (pl.Series([{"a": 1}]), TYPE),
    "Arrow lists": (pa.array([[1]]), TYPE),
    "Arrow structs": (pa.array([{"a": 1}]), TYPE),
    "surrogate": (["\ud800"], NONE),
    "surrogate in a tuple": ([("\ud800",)], NONE),
    "tuple in a tuple": ([(1, (2,))], NONE),
    "equal tuples, one of a float": ([(1, "a"), (1.0, "a")], EQUAL),
    "equal tuples, one of a bool": ([(1, "a"), (True, "a")], EQUAL),
    "1 and True in one of two columns": (([1, True], ["a", "a"]), MIXED),
    "1 and 1.0": ([1, 1.0], MIXED),
    "0.5 and a decimal": ([0.5, Decimal("0.5")], MIXED),
    "a date and a datetime": ([date(2020, 1, 1), datetime(2020, 1, 1)], MIXED),
    "datetimes with and without a zone": ([NOON, NOON.replace(tzinfo=None)], MIXED),
    "complex": (np.array([1j]), TYPE),
    "a time of a zone": ([time(1, tzinfo=UTC)], TYPE),
    "numpy NaN": (np.array([1.0, np.nan]), NULL),
    "pandas NaN": (pd.Series([1.0, np.nan]), NULL),
    "polars NaN": (pl.Series([1.0, np.nan]), NULL),
    "Arrow NaN": (pa.array([1.0, np.nan]), NULL),
    "pandas NaN of Arrow": (pd.Series([1.0, np.nan], dtype="double[pyarrow]"), NULL),
    "NaN in a tuple": ([(1, np.nan)], NULL),
    "decimal NaN": ([Decimal("NaN")], NULL),
    "decimal infinity": ([Decimal("inf")], NONE),
    "decimal of a million digits": ([Decimal("1e1000000")], NONE),
    "numpy NaT": (np.array(["NaT"], "M8[us]"), NULL),
    "polars null among times": (pl.Series([None, datetime(2020, 1, 1)]), NULL),
    "numpy fine times": (np.array([1], "M8[ns]"), "finer than a microsecond"),
    "numpy fine durations": (np.array([1], "m8[ns]"), "finer than a microsecond"),
    "pandas fine times": (pd.Series(pd.to_datetime([1])), "finer than a microsecond"),
    "a fine time of pandas": ([pd.Timestamp(1)], "finer than a microsecond"),
    "a fine duration of pandas": ([pd.Timedelta(1)], "finer than a microsecond"),
    "polars fine times": (pl.Series([1]).cast(pl.Datetime("ns")), "finer than a microsecond"),
    "polars fine times of day": (pl.Series([1]).cast(pl.Time), "finer than a microsecond"),
    "Arrow fine times": (pa.array([1], pa.timestamp("ns")), "finer than a microsecond"),
    "Arrow fine times of day": (pa.array([1], pa.time64("ns")), "finer than a microsecond"),
    "far times": (np.array(["20000"], "M8[us]"), "beyond the years 1 to 9999"),
    "durations without a length": (np.array([1], "m8[M]"), "have no length"),
    "huge in a tuple": ([(2**70,)], "the key 1180591620717411303424 does not fit 64 bits"),
    "empty tuple": ([()], NONE),
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
    "no columns": ((), "a tuple of columns needs at least one column, all of equal length"),
    "columns of two lengths": ((["a", "b"], [1]), "a tuple of columns needs at least one"),
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


SOME: dict[str, Any] = {
    "int": 1, "bool": True, "float": 1.0, "text": "1", "bytes": b"1", "decimal": Decimal(1),
    "date": date(1970, 1, 2), "datetime": datetime(1970, 1, 1, 0, 0, 0, 1),
    "datetime with zone": datetime(1970, 1, 1, 0, 0, 0, 1, UTC), "time": time(0, 0, 0, 1),
    "duration": timedelta(microseconds=1), "uuid": uuid.UUID(int=1), "tuple": (1,),
}  # fmt: skip


@pytest.mark.parametrize("kind", SOME)
def test_keys_of_another_kind_than_those_before_are_refused(kind: str) -> None:
    windows = KeyedWindows(Sum("int64"), CountWindow(2))
    windows.extend([SOME[kind]], [1])
    for other, key in SOME.items():
        if other == kind:
            continue
        columns = [[key], pd.Series([key]), *([np.array([key])] if other == "int" else [])]
        for column in columns:
            with pytest.raises(UnsuitableKey, match="is not of the same kind as earlier keys"):
                windows.extend(column, [1])
        with pytest.raises(UnsuitableKey, match="is not of the same kind as earlier keys"):
            windows.query(key)
        assert key not in windows
    assert windows.extend([SOME[kind]], [1]).tolist() == [2]


@pytest.mark.parametrize(
    "keys",
    [
        [-(2**63), -1, 0, 1, 2**63 - 1],
        [False, True],
        [-0.5, 1e300],
        ["", "a", "ü" * 500],
        [b"", b"x"],
    ],
    ids=["integers", "booleans", "floats", "text", "bytes"],
)
def test_one_key_has_the_hash_that_it_has_among_others(keys: list[Any]) -> None:
    every, places = read_keys(keys, None)
    assert len(every) == len(keys)
    for key, place in zip(keys, places.tolist(), strict=True):
        one = read_key(key, None)
        assert (one.hashes[0], one.packed(0)) == (every.hashes[place], every.packed(place))


def test_one_key_is_read() -> None:
    for kind, key in SOME.items():
        found = read_key(key, kind)
        assert found.at(0) == read_key(key, None).at(0) == key
        assert hash_and_bytes(key, kind) == (int(found.hashes[0]), found.packed(0))
    assert read_key(np.int64(3), "int").at(0) == 3
    assert read_key(pa.scalar(3), "int").at(0) == 3
    for moment in (np.datetime64("2020-01-01T05", "us"), pd.Timestamp("2020-01-01T05")):
        assert read_key(moment, None).at(0) == datetime(2020, 1, 1, 5)
    assert read_key(np.datetime64("2020-01-01"), None).at(0) == date(2020, 1, 1)
    assert read_key(pd.Timedelta("1h"), None).at(0) == timedelta(hours=1)
    assert read_key(np.str_("a"), None).at(0) == "a"
    for key in (None, 1j, [1], {}, "\ud800", 2**63, (), float("nan")):
        with pytest.raises(UnsuitableKey):
            read_key(key, None)


@pytest.mark.parametrize("width", [1, 3, 1000])
def test_keys_whose_hashes_collide_stay_separate(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
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
    previous = [*some.as_column(), *every.as_column(), *some.as_column()]
    assert [previous[at] for at in order.tolist()] == [distinct.at(at) for at in place.tolist()]
    # Of one key, those of earlier sets come first.
    pairs = zip(order, order[1:], place, place[1:], strict=False)
    assert all(a < b for a, b, p, q in pairs if p == q)


@pytest.mark.parametrize("span", [100, 10**5, 2**62])
def test_long_columns_of_integers_are_read(span: int) -> None:
    column = np.random.default_rng(1).integers(-span, span, 10_000)
    assert read(column) == column.tolist()


@pytest.mark.parametrize("halves", [1, 50, 2**32])
def test_long_columns_are_in_order_of_hashes_with_equal_halves(
    halves: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = module.hash_of
    monkeypatch.setattr(
        module, "hash_of", lambda key: ((whole(key) >> 32) % halves << 32) + whole(key) % 2**32
    )
    column = [f"key {number % 7_000}" for number in range(10_000)]
    assert read(column) == column


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


@pytest.mark.parametrize("kind", [kind for kind in key_types.KINDS if kind not in ("int", "bytes")])
def test_bytes_that_are_no_key_are_named(kind: str) -> None:
    ends = [1 << 62, 2, -(1 << 62)]
    for raw in (b"\xff\xff", b"\xc4", *(end.to_bytes(8, "little", signed=True) for end in ends)):
        try:
            key = key_types.unpacked(kind, raw)
        except CorruptPage as error:
            assert f"are not a valid {kind}: " in str(error)
        else:
            assert key_types.kind_of(key) == kind
    with pytest.raises(CorruptPage, match="the bytes of a key are not a valid tuple: "):
        key_types.unpacked("tuple", msgpack.packb([msgpack.ExtType(99, b"")]))
