"""The formats of pages and snapshots, byte by byte, as the files in ``golden`` pin them.

A release's files are never written again: a change of format after it is a new version.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
import xxhash

from mta import CountWindow, Max, Mean, Monoid, Product, Sum, TimeWindow, Window
from mta.algorithms import LogMTA
from mta.audit import describe_snapshot
from mta.columns.schemas import Array, Objects, Record
from mta.errors import CorruptPage, CorruptSnapshot
from mta.evaluators.flatfat import PagedFlatFAT
from mta.evaluators.reactive import PagedReactiveAggregator
from mta.frames import BoundWindow
from mta.pages import Group, Layout, decode, encode, key_of, name_of
from stores.memory import MemoryStore
from tests.support.naive import IN_ORDER, joined, pages_of

GOLDEN = Path(__file__).parent / "golden"


def numbers(store: MemoryStore) -> Window:
    """A count window of numbers, evicted into its third group."""
    window = Window(Max(), CountWindow(14), store=store, name="numbers", leaf_arity=3, arity=2)
    window.extend([0.5 * (7 * i % 23) for i in range(29)])
    return window


def timed(store: MemoryStore) -> Window:
    """A time window of texts, by Log MTA, with a late and an empty event dropped."""
    window = Window(
        joined(),
        TimeWindow("10 seconds"),
        store=store,
        name="timed",
        arity=2,
        aggregator=LogMTA,
        on_late="drop",
        nulls="drop_row",
    )
    window.extend(["a", "bb", "c", None, "d", "e", "f", "g", "h"], [1, 2, 2, 3, 1, 5.5, 9, 12, 13])
    window.checkpoint()
    window.extend(["i", "j"], [14, 15])
    return window


def several(store: MemoryStore) -> Window:
    """A product of columns with a frame on one of them."""
    spread = Monoid(
        identity=(),
        combine=lambda a, b: (a + b)[-2:],
        lift=lambda value: ((value, 2**70),),
        name="last two",
    )
    product = Product({"mean": ("x", Mean()), "sum": ("n", Sum("int64")), "pair": ("t", spread)})
    frame = BoundWindow(("n", Sum("int64")), at_most=30)
    window = Window(product, frame, store=store, name="several", arity=2)
    batch = {"x": [0.5 * i for i in range(11)], "n": [*range(10), -1], "t": list("abcdefghijk")}
    window.extend(batch)
    return window


def blocks(store: MemoryStore) -> Window:
    """FlatFAT over several levels, evicted into its third block, after another snapshot."""
    window = Window(
        joined(), TimeWindow("20 seconds"), store=store, name="blocks", leaf_arity=3, arity=2,
        aggregator=PagedFlatFAT,
    )  # fmt: skip
    window.extend([chr(97 + i % 26) for i in range(25)], range(25))
    window.checkpoint()
    window.extend(["y", "z"], [25, 27])
    return window


def holes(store: MemoryStore) -> Window:
    """A Reactive Aggregator with holes in sealed blocks and the open one, after two snapshots."""
    window = Window(
        Max(), CountWindow(30), store=store, name="holes", leaf_arity=3, arity=2,
        aggregator=PagedReactiveAggregator,
    )  # fmt: skip
    tree = window.structure()
    assert isinstance(tree, PagedReactiveAggregator)
    window.extend([0.5 * (7 * i % 23) for i in range(29)])
    window.checkpoint()
    tree.evict_at([4, 5, 20, 28])
    window.checkpoint()
    tree.evict_at([tree.front + 6, tree.front + 12])
    window.extend([30.5, 1.0])
    return window


def parted(store: MemoryStore) -> Window:
    """Groups of more events than a part has, after a snapshot that named parts of a sealed one."""
    window = Window(joined(), CountWindow(20), store=store, name="parted", leaf_arity=600, arity=2)
    window.extend([chr(97 + i % 26) for i in range(590)], emit="last")
    window.checkpoint()
    window.extend([chr(97 + i % 25) for i in range(300)], emit="last")
    return window


WINDOWS: dict[str, Callable[[MemoryStore], Window]] = {
    "numbers": numbers, "timed": timed, "several": several, "blocks": blocks, "holes": holes,
    "parted": parted,
}  # fmt: skip
EACH = pytest.mark.parametrize("name", WINDOWS)


def golden_pages(name: str) -> dict[str, bytes]:
    """The pages of a golden window: each file is a page, its name the key with _ for /."""
    files = (GOLDEN / name).glob("*.page")
    return {file.stem.replace("_", "/"): file.read_bytes() for file in files}


def golden_snapshot(name: str) -> bytes:
    return (GOLDEN / name / "snapshot").read_bytes()


@EACH
def test_what_is_written_is_pinned(name: str) -> None:
    store = MemoryStore()
    window = WINDOWS[name](store)
    snapshot = window.checkpoint()
    assert pages_of(store) == golden_pages(name)
    assert snapshot == golden_snapshot(name)


@EACH
def test_what_was_written_can_be_read(name: str) -> None:
    store, other = MemoryStore(), MemoryStore()
    other.put_many(golden_pages(name))
    written = WINDOWS[name](store)
    window = Window.restore(
        golden_snapshot(name),
        other,
        aggregations=written.monoid,
        window=written.frame,
        aggregator=type(written.structure()),
    )
    window.check()
    assert repr(window.query()) == repr(written.query())
    assert len(window) == len(written)
    for count in range(len(window)):
        window.evict()
        written.evict()
        assert repr(window.query()) == repr(written.query()), count


def test_the_golden_results() -> None:
    results = {name: make(MemoryStore()).query() for name, make in WINDOWS.items()}
    assert results == {
        "numbers": 10.5,
        "timed": "efghij",
        "several": {"mean": 4.0, "sum": 29, "pair": (("j", 2**70), ("k", 2**70))},
        "blocks": "ijklmnopqrstuvwxyyz",
        "holes": 30.5,
        "parted": "fghijklmnopqrstuvwxy",
    }


def test_the_golden_snapshots_describe_themselves() -> None:
    summary = describe_snapshot(golden_snapshot("timed"))
    assert (summary.window, summary.monoid, summary.frame, summary.algorithm) == (
        "timed",
        "joined",
        "TimeWindow(10000000 us)",
        "Log MTA",
    )
    assert (summary.late, summary.invalid) == (1, 1)
    assert (summary.front_time, summary.last_time) == (5_500_000, 15_000_000)
    assert summary.back - summary.front == summary.events == 6
    for name in WINDOWS:
        summary = describe_snapshot(golden_snapshot(name))
        assert summary.snapshot_bytes == len(golden_snapshot(name))
        assert summary.pages == len(golden_pages(name))


def test_the_worked_example_of_a_page() -> None:
    group = Group(np.array([1.0, 2.0]), None, [], 2)
    layout = Layout(Array("f8"), timed=False, named=False)
    page = encode("w", 0, 0, group, layout)
    assert page == (
        b"\x97\xa8mta-page\x01\xa1w\x00\x00\x02\x91\x92\xa3<f8\xc4\x10"
        + np.array([1.0, 2.0], "<f8").tobytes()
    )
    assert name_of(page) == xxhash.xxh3_128_digest(page)
    assert key_of("w", 0, 0, name_of(page)) == f"w/0/0/{name_of(page).hex()}"
    read = decode(page, "w", 0, 0, name_of(page), layout)
    assert read.rows.tolist() == [1.0, 2.0] and read.count == 2


LAYOUTS: list[tuple[Layout, Group]] = [
    (
        Layout(Record([Array("i4"), Objects()]), timed=True, named=True),
        Group(
            (np.array([1, -2], "<i4"), [("a", 2**65), None]),
            np.array([5, 2**62]),
            [b"a" * 16, b"b" * 16],
            2,
        ),
    ),
    (Layout(Record([]), timed=False, named=False), Group((), None, [], 3)),
]


@pytest.mark.parametrize(("layout", "group"), LAYOUTS)
def test_pages_of_other_layouts(layout: Layout, group: Group) -> None:
    page = encode("w", 1, 7, group, layout)
    read = decode(page, "w", 1, 7, name_of(page), layout)
    assert repr(read.rows) == repr(group.rows)
    assert read.names == group.names and repr(read.times) == repr(group.times)
    for at in range(len(page)):
        for damaged in (page[:at], page[:at] + bytes([page[at] ^ 0x10]) + page[at + 1 :]):
            with pytest.raises(CorruptPage, match=r"w/1/7/"):
                decode(damaged, "w", 1, 7, name_of(page), layout)


LAYOUT = Layout(Array("f8"), timed=True, named=True)
FIELDS: list[Any] = [
    "mta-page", 1, "w", 1, 0, 1,
    [["<f8", bytes(8)], ["<i8", bytes(8)], ["name", bytes(16)]],
]  # fmt: skip


def read_back(fields: Any) -> Group:
    page = msgpack.packb(fields)
    return decode(page, "w", 1, 0, name_of(page), LAYOUT)


@pytest.mark.parametrize(
    ("at", "value", "match"),
    [
        (0, "other", "not a page of format 1"), (1, 2, "not a page of format 1"),
        (1, 0, "not a page of format 1"), (2, "v", "page of window 'v'"), (3, 2, "1/0|2/0"),
        (4, 9, "1/9"), (5, 2, "8 bytes"), (5, "1", "wrong type"), (5, -1, "damaged"),
        (5, 2**40, "damaged"), (6, None, "wrong type"),
        (6, [["<f8", bytes(8)]], "stands for|missing"),
        (6, [["<f4", bytes(8)], ["<i8", bytes(8)], ["name", bytes(16)]], "<f4"),
        (6, [["<f8", bytes(8)], ["<i8", bytes(9)], ["name", bytes(16)]], "9 bytes"),
        (6, [["<f8", bytes(8)], ["<i8", bytes(8)], ["name", bytes(15)]], "15 bytes"),
        (6, [["<f8", bytes(8)], ["<i8", bytes(8)], ["name", bytes(16)], ["x", b""]], "too many"),
        (6, [["<f8", "text"], ["<i8", bytes(8)], ["name", bytes(16)]], "pair of kind"),
    ],
)  # fmt: skip
def test_pages_that_are_named_rightly_but_are_none(at: int, value: Any, match: str) -> None:
    assert read_back(FIELDS).count == 1
    fields = list(FIELDS)
    fields[at] = value
    with pytest.raises(CorruptPage, match=match) as raised:
        read_back(fields)
    assert "w/1/0/" in str(raised.value)


def test_pages_of_too_many_or_too_few_fields() -> None:
    for fields in ([*FIELDS, 1], FIELDS[:-1], [], {}, "text", None, 5):
        with pytest.raises(CorruptPage):
            read_back(fields)


def test_an_unknown_version_of_a_snapshot_is_named() -> None:
    fields = msgpack.unpackb(golden_snapshot("numbers")[:-16])
    assert fields[:2] == ["mta-snapshot", 2]
    for version in (0, 1, 3, "2"):
        body = msgpack.packb([fields[0], version, *fields[2:]])
        with pytest.raises(CorruptSnapshot, match="this release reads format 2"):
            describe_snapshot(body + xxhash.xxh3_128_digest(body))
    body = msgpack.packb(["other", 1, *fields[2:]])
    with pytest.raises(CorruptSnapshot, match="not a window's snapshot"):
        describe_snapshot(body + xxhash.xxh3_128_digest(body))


@pytest.mark.parametrize("aggregator", IN_ORDER)
def test_the_same_window_gives_the_same_bytes(aggregator: type) -> None:
    """However the events came in, and whether there was a restart between."""
    stores = [MemoryStore(), MemoryStore()]
    windows = [
        Window(Max(), CountWindow(9), store=store, arity=2, aggregator=aggregator)
        for store in stores
    ]
    data = np.random.default_rng(0).random(50)
    windows[0].extend(data)
    for value in data[:25].tolist():
        windows[1].insert(value)
    again = windows[1].restore_like(windows[1].checkpoint())
    again.extend(data[25:], emit="last")
    # Each snapshot finds every page that it names in the other's store.
    for window, other in ((windows[0], again), (again, windows[0])):
        crossed = other.restore_like(window.checkpoint())
        crossed.check()
        assert crossed.query() == data[-9:].max()


@pytest.mark.parametrize("size", [0, 255, 256, 65_535, 65_536])
def test_a_page_is_one_msgpack_array_whatever_its_columns_weigh(size: int) -> None:
    layout = Layout(Record([Array("u1"), Objects()]), timed=False, named=False)
    numbers, objects = np.arange(size, dtype="u1"), [None] * size
    data = encode("w", 0, 3, Group((numbers, objects), None, [], size), layout)
    columns = [["|u1", numbers.tobytes()], ["msgpack", msgpack.packb(objects)]]
    assert data == msgpack.packb(["mta-page", 1, "w", 0, 3, size, columns])
