"""The formats of keyed windows' pages and snapshots, byte by byte, as files in ``golden`` pin them.

A release's files are never written again: a change of format after it is a new version.
"""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import msgpack
import numpy as np
import pytest
import xxhash

from mta import CountWindow, KeyedWindows, Max, Product, Sum, TimeWindow
from mta.columns.schemas import Array, Objects, Record
from mta.columns.texts import text_column
from mta.errors import CorruptPage, CorruptSnapshot, SnapshotMismatch
from mta.kernels.native import shortened
from mta.keyed import leaves, values
from mta.keyed.keys import read_keys
from mta.keyed.leaves import (
    LIST,
    MAGIC,
    Index,
    Leaves,
    PendingPages,
    TableLayout,
    decode,
    digests,
    encode,
)
from mta.keyed.snapshot import KeyedSnapshot, is_keyed_snapshot
from mta.keyed.table import STANDALONE, Table
from mta.pages import name_of
from stores import MemoryStore
from tests.support.forgeries import IMPOSSIBLE
from tests.support.sampling import parts

GOLDEN = Path(__file__).parent / "golden"
TEXT = TableLayout("w", "text", Array("f8"), timed=True)
INTS = TableLayout("w", "int", Record([]), timed=False)
TUPLES = TableLayout("w", "tuple", Array("f8"), timed=False)
WORDS = TableLayout("w", "text", Record([Array("f8"), Objects()]), timed=False)
MOMENTS = TableLayout("w", "datetime", Record([]), timed=False)


def text_table() -> Table:
    """Three keys, one of them with a snapshot, one expired."""
    keys, _ = read_keys(["a", "b", "c"], None)
    bounds, times = np.array([0, 2, 3, 3]), np.array([5, 7, 6])
    table = Table.of(TEXT.schema, keys, bounds, times, np.array([0.5, 1.5, 2.5]))
    table.marks[:] = [0, STANDALONE, 3]
    table.left[0] = 9
    table.snapshots = [b"snapshot"]
    return table


def int_table() -> Table:
    """Two keys with events that have no bytes."""
    keys, _ = read_keys([7, -1], None)
    return Table.of(INTS.schema, keys, np.array([0, 2, 5]), None, ())


def tuple_table() -> Table:
    """A key with a part of every type."""
    noon = datetime(2020, 5, 17, 12, tzinfo=UTC)
    parts = [
        -7, True, -0.5, "ä", b"x", noon.date(), noon.replace(tzinfo=None), noon, timedelta(1, 2, 3),
        time(5, 0, 1), Decimal("-1.50"), UUID(int=5),
    ]  # fmt: skip
    keys, _ = read_keys([tuple(parts)], None)
    return Table.of(TUPLES.schema, keys, np.array([0, 1]), None, np.array([0.5]))


def datetime_table() -> Table:
    """Two keys that are moments."""
    keys, _ = read_keys([datetime(2020, 5, 17, 12), datetime(1, 1, 1)], None)
    return Table.of(MOMENTS.schema, keys, np.array([0, 2, 5]), None, ())


def word_table() -> Table:
    """Values that are text and null beside numbers, and a key without events."""
    keys, _ = read_keys(["a", "b", "c"], None)
    rows = np.array([0.5, 1.5, 2.5, 3.5]), text_column(["b", None, "ä", "b"])
    return Table.of(WORDS.schema, keys, np.array([0, 3, 3, 4]), None, rows)


def object_table() -> Table:
    """Values of several types."""
    keys, _ = read_keys(["a", "b"], None)
    rows = np.array([0.5, 1.5, 2.5]), ["b", (1, b"x"), None]
    return Table.of(WORDS.schema, keys, np.array([0, 2, 3]), None, rows)


def index() -> Index:
    """Two pages."""
    return Index(np.array([1, 2**63], "u8"), digests([b"a" * 16, b"b" * 16]), np.array([5, -6]))


CONTENTS: dict[str, tuple[TableLayout, int, Any]] = {
    "table_of_text": (TEXT, 0, text_table()),
    "table_of_integers": (INTS, 0, int_table()),
    "table_of_tuples": (TUPLES, 0, tuple_table()),
    "table_of_datetimes": (MOMENTS, 0, datetime_table()),
    "table_of_words": (WORDS, 0, word_table()),
    "table_of_objects": (WORDS, 0, object_table()),
    "index": (TEXT, 1, index()),
    "list": (TEXT, LIST, [["w:x/0/1/y"], [], PendingPages(3, 2, [b"c" * 16], below=False)]),
}


def windows() -> KeyedWindows:
    """The golden snapshot has runs, a memtable, pending deletions and an expiry."""
    found = KeyedWindows(
        Max(), FRAME, MemoryStore(), "g", leaf_arity=2, arity=2, on_late="drop", **SETTINGS
    )
    for step in range(12):
        keys = [f"key {step * 9 + n % 24}" for n in range(48)] + ["large"] * 2
        values = [float(n * 7 % 11) for n in range(50)]
        found.extend(keys, values, [step * 10 + n // 12 for n in range(50)])
        if step % 4 == 3:
            found.expire(before=step * 10)
        found.checkpoint()
    found.extend(["key 1", "key 40"], [0.5, 0.25], [121, 122])
    return found


SETTINGS: dict[str, Any] = {"allowed_lateness": 2, "promote_at": 5, "page_bytes": 200, "retain": 3}
FRAME = {"t": TimeWindow(60), "c": CountWindow(2) | TimeWindow(30)}


def golden(name: str) -> bytes:
    """A golden file."""
    return (GOLDEN / name).read_bytes()


PAGES = pytest.mark.parametrize("name", CONTENTS)


@PAGES
def test_pages_are_what_is_pinned(name: str) -> None:
    layout, level, content = CONTENTS[name]
    page = golden(f"{name}.page")
    found = decode(layout, level, 4, name_of(page), page)
    assert encode(layout, level, 4, content) == encode(layout, level, 4, found) == page
    if isinstance(content, Table):
        assert isinstance(found, Table)
        assert found.keys.as_column().tolist() == content.keys.as_column().tolist()
        for column in ("marks", "left", "bounds"):
            assert getattr(found, column).tolist() == getattr(content, column).tolist()
        assert found.snapshots == content.snapshots
        schema, count = content.schema, content.events
        assert schema.listed(found.rows, count) == schema.listed(content.rows, count)
    elif isinstance(content, Index):
        assert isinstance(found, Index) and found.oldest is not None
        assert found.names.tolist() == content.names.tolist()
        assert found.firsts.tolist() == content.firsts.tolist()
        assert found.oldest.tolist() == [5, -6]
    else:
        assert found == content


def test_a_snapshot_is_what_is_pinned() -> None:
    """With the names of all its pages, which are digests of their bytes."""
    made = windows()
    snapshot = made.checkpoint()
    assert snapshot == golden("snapshot")
    assert (
        is_keyed_snapshot(snapshot)
        and not is_keyed_snapshot(b"")
        and not is_keyed_snapshot(snapshot[1:])
    )
    found = KeyedWindows.restore(snapshot, made.store, aggregations=Max(), window=FRAME, **SETTINGS)
    some = ["key 1", "key 33", "large"]
    for key in some:
        assert repr(found.query(key)) == repr(made.query(key))
    assert (len(found), found.stats().standalone) == (len(made), made.stats().standalone)
    found.check()
    assert 0 < found.stats().standalone < len(found)
    assert found.stats().resident_bytes > 0 < found.stats().runs
    assert found.checkpoint() != snapshot  # what was pending deletion is gone


def test_an_empty_snapshot_is_what_is_pinned() -> None:
    snapshot = KeyedWindows(Max(), CountWindow(2), "memory://", "g").checkpoint()
    assert snapshot == golden("empty_snapshot")
    found = KeyedWindows.restore(snapshot, MemoryStore(), aggregations=Max(), window=CountWindow(2))
    assert (len(found), found.query("a") != found.query("a")) == (0, True)
    assert found.extend([1], [2.0]).tolist() == [2.0]


# --- damage ---------------------------------------------------------------------------------------


def test_every_damaged_byte_of_a_snapshot_is_named() -> None:
    snapshot = golden("snapshot")
    for cut in range(len(snapshot)):
        with pytest.raises(CorruptSnapshot):
            KeyedSnapshot.decode(snapshot[:cut])
    for place in range(len(snapshot)):
        for flip in (0x01, 0x80):
            bad = bytearray(snapshot)
            bad[place] ^= flip
            with pytest.raises(CorruptSnapshot):
                KeyedSnapshot.decode(bytes(bad))
    for odd in (None, "text", 5, b"", snapshot + b"\0", snapshot * 2):
        with pytest.raises(CorruptSnapshot):
            KeyedSnapshot.decode(odd)  # type: ignore[arg-type]


@PAGES
def test_every_damaged_byte_of_a_page_is_named(name: str) -> None:
    layout, level, _ = CONTENTS[name]
    page = golden(f"{name}.page")
    whole = name_of(page)
    for cut in range(len(page)):
        with pytest.raises(CorruptPage, match=f"page w/{level}/4/{whole.hex()} is damaged"):
            decode(layout, level, 4, whole, page[:cut])
    for place in range(len(page)):
        bad = bytearray(page)
        bad[place] ^= 0x10
        with pytest.raises(CorruptPage, match="its bytes do not match its name"):
            decode(layout, level, 4, whole, bytes(bad))
    # Under another key it is as though it were damaged.
    for other in ((0, 5), (1, 4), (2, 4)):
        if other != (level, 4):
            with pytest.raises(CorruptPage, match=r"it is (the page of 'w', |not )"):
                decode(layout, *other, whole, page)


@PAGES
@pytest.mark.parametrize("part", parts(6))
def test_bytes_with_a_name_of_their_own_are_not_trusted(name: str, part: int) -> None:
    """Whoever forges a page can name it too: each flip is read, or named, and takes no memory."""
    layout, level, _ = CONTENTS[name]
    page = golden(f"{name}.page")
    tracemalloc.start()
    for place in range(len(page)):
        bad = bytearray(page)
        bad[place] ^= (0x01, 0x04, 0x10, 0x7F, 0x80, 0xFF)[(place + part) % 6]
        with suppress(CorruptPage):
            decode(layout, level, 4, name_of(bytes(bad)), bytes(bad))
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()


# --- forgeries ------------------------------------------------------------------------------------


def forged(level: int, count: Any, columns: Any, version: Any = 1) -> bytes:
    """A page above the tables, with any count and columns."""
    packed: bytes = msgpack.packb(["mta-keys", version, "w", level, 4, count, columns])
    return packed


def headed(place: int, number: int) -> bytes:
    """The page of whole numbers, with another number in its head."""
    page = golden("table_of_integers.page")
    at = len(MAGIC) + 8 * place
    return page[:at] + np.int64(number).tobytes() + page[at + 8 :]


def tabled(**columns: list[int]) -> bytes:
    """A page of the table of whole numbers, with another column."""
    table = int_table()
    for column, numbers in columns.items():
        setattr(table, column, np.array(numbers))
    return encode(INTS, 0, 4, table)


#: Pages of the layout INTS, and what is wrong with each.
TABLES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "not a page of keys"),
    "no version": (headed(0, 0), "format 1"),
    "version of later": (headed(0, 2), "format 1"),
    "run": (headed(1, 5), "page of 'w', 0/5"),
    "keys": (headed(2, 1 << 40), "does not match its numbers"),
    "keys less than none": (headed(2, -1), "lengths of its columns"),
    "events less than none": (headed(3, -1), "lengths of its columns"),
    "events": (headed(3, 1 << 40), "without any bytes are too many"),
    "columns": (headed(4, 1 << 40), "header is incomplete"),
    "columns missing": (headed(4, 8), "header is incomplete"),
    "label": (headed(5, -1), "header is incomplete"),
    "label of two less": (headed(5, 3), "label|lengths"),
    "longer column": (headed(8, 1 << 40), "longer than the page"),
    "shorter column": (headed(8, 8), "lengths of its columns"),
    "marks": (tabled(marks=[0, 4]), "marks are invalid"),
    "left": (tabled(left=[-1, 0]), "counts are invalid"),
    "left without end": (tabled(left=[(1 << 63) - 1, 0]), "counts are invalid"),
    "events before the first": (tabled(bounds=[0, -2, 5]), "end before they begin"),
    "events behind the last": (tabled(bounds=[0, 6, 5]), "end before|end after"),
    "order": (encode(INTS, 0, 4, int_table().take(np.array([1, 0]))), "out of order"),
    "another window's": (encode(replace(INTS, window="v"), 0, 4, int_table()), "page of 'v'"),
    "texts": (
        encode(replace(TEXT, timed=False), 0, 4, text_table()),
        "too many|does not match|other kinds",
    ),
}


#: Columns of values of the layout WORDS after the numbers: places, ends, text, msgpack.
WORD_PAGES: dict[str, tuple[list[Any], str]] = {
    "a place behind the last word": ([[1, 0, 3, 1], [0, 1, 3], "bä", b""], "a place that is not"),
    "a place before the first": ([[1, 0, -2, 1], [0, 1, 3], "bä", b""], "a place that is not"),
    "a word behind the text": ([[1, 0, 2, 1], [0, 1, 4], "bä", b""], "or after the page"),
    "a word backwards": ([[1, 0, 2, 1], [0, 3, 1], "bä", b""], "ends before it begins"),
    "a part of a letter": ([[1, 0, 2, 1], [0, 1, 2], "bä", b""], "not UTF-8"),
    "no places": ([[], [0, 1, 3], "bä", b""], "does not match its numbers"),
    "places of fewer events": ([[1, 0, 2], [0, 1, 3], "bä", b""], "does not match its numbers"),
    "both": ([[1, 0, 2, 1], [0, 1, 3], "bä", msgpack.packb(["b"] * 4)], "does not match"),
    "objects of fewer events": ([[], [], "", msgpack.packb(["b"] * 3)], "not a list of 4 objects"),
    "no objects": ([[], [], "", b"\xc1"], "not plain data"),
}


@pytest.mark.parametrize("name", WORD_PAGES)
def test_forged_words_are_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (places, ends, text, objects), wrong = WORD_PAGES[name]
    columns = leaves.dumped

    def dumped(schema: Any, rows: Any) -> Any:
        yield next(iter(columns(schema, rows)))
        parts = [
            shortened(np.array(places, "<i8"), 1), (0, 1, np.array(ends, "<u4").tobytes()),
            (0, 0, text.encode()), (0, 0, objects),
        ]  # fmt: skip
        yield from zip(values.ENTRIES, parts, strict=True)

    monkeypatch.setattr(leaves, "dumped", dumped)
    page = encode(WORDS, 0, 4, word_table())
    with pytest.raises(CorruptPage, match=f"is damaged: .*({wrong})"):
        decode(WORDS, 0, 4, name_of(page), page)


@pytest.mark.parametrize("name", TABLES)
def test_forged_tables_are_named_and_take_no_memory(name: str) -> None:
    page, wrong = TABLES[name]
    tracemalloc.start()
    with pytest.raises(CorruptPage, match=f"is damaged: .*({wrong})"):
        decode(INTS, 0, 4, name_of(page), page)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


I8 = "<i8"
#: By level, count and columns.
HOSTILE: dict[str, tuple[int, Any, Any]] = {
    "count": (1, 1 << 62, [("<u8", b""), ("name", b""), (I8, b"")]),
    "negative count": (1, -1, []),
    "count of text": (1, "1", []),
    "a bool": (1, True, []),
    "no columns": (1, 1, None),
    "columns missing": (1, 1, [("<u8", bytes(8))]),
    "too many columns": (
        1, 1, [("<u8", bytes(8)), ("name", bytes(16)), (I8, bytes(8)), (I8, bytes(8))],
    ),
    "index names": (1, 1, [("<u8", bytes(8)), ("name", bytes(15)), (I8, bytes(8))]),
    "index order": (
        1, 2, [("<u8", b"\1" * 8 + b"\0" * 8), ("name", bytes(32)), (I8, bytes(16))],
    ),
    "list": (LIST, 1, [("msgpack", msgpack.packb([[-1, 0, True, b""]]))]),
    "list of a high run": (LIST, 1, [("msgpack", msgpack.packb([[1, 7, True, b""]]))]),
    "list of names": (LIST, 1, [("msgpack", msgpack.packb([[1, 0, True, b"a"]]))]),
    "list of one less": (LIST, 2, [("msgpack", msgpack.packb([["key"]]))]),
    "list of text": (LIST, 1, [("msgpack", msgpack.packb(["key"]))]),
    "list of bytes": (LIST, 1, [("msgpack", msgpack.packb([[b"key"]]))]),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pages_are_named_and_take_no_memory(name: str) -> None:
    level, count, columns = HOSTILE[name]
    page = forged(level, count, columns)
    tracemalloc.start()
    with pytest.raises(CorruptPage, match="is damaged"):
        decode(TEXT, level, 4, name_of(page), page)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_an_unknown_version_of_an_index_is_named(version: Any) -> None:
    page = forged(1, 2, index().dump(), version)
    with pytest.raises(CorruptPage, match="not a page of keys of format 1"):
        decode(TEXT, 1, 4, name_of(page), page)


@pytest.mark.parametrize("version", [0, 2, "3", None])
def test_an_unknown_version_of_a_snapshot_is_named(version: Any) -> None:
    with pytest.raises(CorruptSnapshot, match="this release reads format 3"):
        KeyedSnapshot.decode(resealed(_set(1, version)))


def resealed(change: Any) -> bytes:
    """The golden snapshot with its body changed, and a digest that fits."""
    body = msgpack.unpackb(golden("snapshot")[:-16])
    change(body)
    packed: bytes = msgpack.packb(body)
    return packed + xxhash.xxh3_128_digest(packed)


def _set(place: int, value: Any) -> Any:
    return lambda body: body.__setitem__(place, value)


SNAPSHOTS: dict[str, Any] = {
    "magic": _set(0, "mta-other"), "window": _set(2, "a/b"),
    "kind": _set(3, "complex"), "monoid": _set(4, ["Max"]), "frames": _set(5, [["t"]]),
    "no frames": _set(5, []), "frames of one name": _set(5, 2 * [["t", "x", bytes(16)]]),
    "a nameless frame beside another": _set(5, [["", "x", bytes(16)], ["t", "x", bytes(16)]]),
    "short fingerprint": _set(5, [["t", "x", b"x"]]), "long name": _set(2, "x" * 61),
    "negative lateness": _set(7, [[-1], [0]]), "lateness of a flag": _set(7, [[True], [0]]),
    "expired far off": _set(10, [1 << 63, 0]), "newest far off": _set(10, [None, 1 << 63]),
    "huge number": _set(8, 1 << 63),
    "more apart than keys": _set(9, [1, 2, 0, 0, 0]), "many changes": _set(14, [[], 10**6, []]),
    "negative known": _set(14, [[], 0, [["t", None, -1]]]),
    "odd marks": _set(14, [[["\0v", "Array('|b1')"]], 0, []]),
    "timed": _set(6, 1), "lateness": _set(7, [["2"], [0]]), "no spans": _set(7, 2),
    "less lateness": _set(7, [[2, [1]], [0]]), "less than none": _set(7, [[2, [-1, 5]], [0]]),
    "for ever": _set(7, [[2, [1, 1 << 62]], [0]]), "no retention": _set(7, [[2], [None]]),
    "number": _set(8, -1), "counts": _set(9, [1]),
    "negative counts": _set(9, [-1, 0, 0, 0, 0]),
    "expired": _set(10, ["now", 0]), "newest": _set(10, [0, "now"]), "no moments": _set(10, None),
    "runs": _set(11, [[1, 2]]), "run of negatives": _set(11, [[-1, 0, 0, [0, []]]]),
    "high run": _set(11, [[1, 0, 7, [0, []]]]), "memtable": _set(12, [1]),
    "pending deletion": _set(13, [[1]]), "pending deletion of text": _set(13, [[1, ["snapshot"]]]),
    "changed": _set(14, 1), "columns": _set(14, [[["v", 1]], 0, []]),
    **{f"column of {kind:.30}": _set(14, [[["v", kind]], 0, []]) for kind in IMPOSSIBLE},
    "no type of keys": _set(3, None),
    "changes": _set(14, [[], -1, []]), "starts": _set(14, [[], 0, [["t", None]]]),
    "start": _set(14, [[], 0, [["t", "x", 1]]]),
    "too short": lambda body: body.pop(), "too long": lambda body: body.append(None),
}  # fmt: skip


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_forged_snapshots_are_named(name: str) -> None:
    with pytest.raises(CorruptSnapshot):
        KeyedSnapshot.decode(resealed(SNAPSHOTS[name]))


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body[11][0].__setitem__(
            3, [1 << 60, [["<u8", b""], ["name", b""], [I8, b""]]]
        ),
        lambda body: body[11][0][3].__setitem__(1, []),
        lambda body: body.__setitem__(12, b""),
        lambda body: body.__setitem__(12, body[12][:-1]),
        lambda body: body.__setitem__(12, encode(replace(TEXT, window="g"), 0, 1, text_table())),
        lambda body: body.__setitem__(12, encode(TEXT, 0, 0, text_table())),
    ],
)
def test_forged_tables_of_a_snapshot_are_named(change: Any) -> None:
    snapshot = resealed(change)
    with pytest.raises(CorruptSnapshot):
        KeyedWindows.restore(snapshot, MemoryStore(), aggregations=Max(), window=FRAME, **SETTINGS)


# --- others' snapshots ----------------------------------------------------------------------------


def test_snapshots_of_other_windows_are_refused() -> None:
    store = MemoryStore()
    made = KeyedWindows(Max(), TimeWindow(60), store, allowed_lateness=2)
    made.extend(["a"], [1.0], [5])
    snapshot = made.checkpoint()
    others: list[tuple[Any, Any, dict[str, Any], str]] = [
        (Sum("int64"), TimeWindow(60), {"allowed_lateness": 2}, "reads other values"),
        (Product({"m": ("v", Max())}), TimeWindow(60), {"allowed_lateness": 2}, "reads other"),
        (Max("f4"), TimeWindow(60), {"allowed_lateness": 2}, "reads other values"),
        (
            Max(),
            TimeWindow(60),
            {"allowed_lateness": None},
            r"set allowed_lateness(.|\n)*\* allowed lateness +2\.0 s .* in o",
        ),
        (
            Max(),
            CountWindow(2),
            {"allowed_lateness": None},
            r"\* window +TimeWindow.*  CountWindow\(2\)",
        ),
    ]
    for monoid, frame, settings, message in others:
        with pytest.raises(SnapshotMismatch, match=message):
            KeyedWindows.restore(snapshot, store, aggregations=monoid, window=frame, **settings)
    with pytest.raises(SnapshotMismatch, match="monoid"):
        KeyedWindows(Sum("int64"), TimeWindow(60), store, allowed_lateness=2).restore_like(snapshot)
    untimed = KeyedWindows(Max(), CountWindow(2), store)
    untimed.extend(["a"], [1.0])
    bare = untimed.checkpoint()
    with pytest.raises(SnapshotMismatch, match="take windows by count alone"):
        KeyedWindows.restore(bare, store, timed=True)
    with pytest.raises(SnapshotMismatch, match=r"\* window +CountWindow\(2\) +TimeWindow"):
        KeyedWindows.restore(bare, store, aggregations=Max(), window=TimeWindow(2))
    with pytest.raises(ValueError, match="the pages of a snapshot are in a store"):
        KeyedWindows.restore(snapshot, None)  # type: ignore[arg-type]
    # Its own settings are other ones' to choose.
    found = KeyedWindows.restore(snapshot, store, promote_at=1, page_bytes=1, retain=9)
    assert found.query("a") == 1.0


@pytest.mark.parametrize("bounds", [[1, 3], [1, 3, 4]])
def test_a_page_with_events_of_no_key_is_neither_read_nor_merged(bounds: list[int]) -> None:
    keys, _ = read_keys(["a", "b"][: len(bounds) - 1], None)
    times = np.arange(bounds[-1])
    table = Table.of(TEXT.schema, keys, np.array(bounds), times, times.astype(float))
    leaves = Leaves(TEXT, [1], [encode(TEXT, 0, 1, table)])
    with pytest.raises(CorruptPage, match="as many events"):
        leaves.table()
    with pytest.raises(CorruptPage, match="as many events"):
        leaves.between([(0, 1)], 0, None, late=False)
