"""Bad events, snapshots and pages: a named error that says what to do, and nothing lost."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import pandas as pd
import pytest
import xxhash

from mta import (
    ArgMax,
    Collect,
    Count,
    CountWindow,
    EveryCount,
    EveryPeriod,
    Max,
    Monoid,
    Product,
    SharedWindows,
    SlicedWindow,
    Sum,
    TimeWindow,
    TriggeredWindow,
    Window,
)
from mta.algorithms import AmortizedMTA, LogMTA
from mta.audit import describe_snapshot
from mta.errors import (
    CorruptPage,
    CorruptSnapshot,
    InvalidTime,
    InvalidValue,
    LateEvent,
    MissingPage,
    SnapshotMismatch,
    WindowStoreError,
)
from mta.frames import BoundWindow
from mta.frames.base import Frame
from stores.memory import MemoryStore
from tests.support.forgeries import forged
from tests.support.naive import AGGREGATORS, IN_ORDER, error_of, joined, letters, pages_of
from tests.support.sampling import parts

BOTH = pytest.mark.parametrize("aggregator", AGGREGATORS)
EVERY = pytest.mark.parametrize("aggregator", [*AGGREGATORS, "shared", "triggered", "sliced"])
ORDERED = pytest.mark.parametrize("aggregator", IN_ORDER)


def state(window: Window) -> Any:
    """All that must stay the same when something was refused."""
    window.check()
    stats = window.stats()
    return repr((window.query(), len(window), stats.inserted, stats.late, stats.invalid))


def refuses(window: Window, error: type[WindowStoreError], action: Callable[[], Any]) -> str:
    """The message of the error that an action must raise without changing the window."""
    before = state(window)
    with pytest.raises(error) as raised:
        action()
    assert state(window) == before
    return str(raised.value)


# --- events -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "batch",
    [
        5.0, None, "text", np.ones((3, 2)), [[1.0], [2.0]], [[1.0], [2.0, 3.0]], np.array([1j]),
        np.array(["2024-01-01"], dtype="M8[us]"), ["a", "b"], pd.Series(["a", None]),
    ],
)  # fmt: skip
def test_batches_that_are_no_column_of_numbers(batch: Any) -> None:
    window = Window(Max(), CountWindow(3), arity=2)
    window.extend([1, 2, 3, 4])
    refuses(window, InvalidValue, lambda: window.extend(batch))


def test_batches_of_other_shapes() -> None:
    pairs = Window(ArgMax(), CountWindow(3))
    for batch in ([(1.0, 2.0), (3.0, 4.0)], ([1.0],), ([1.0], [2.0, 3.0]), None, [1.0, 2.0]):
        refuses(pairs, InvalidValue, lambda batch=batch: pairs.extend(batch))
    for event in (1.0, (1.0,), (1.0, 2.0, 3.0), None, "ab"):
        refuses(pairs, InvalidValue, lambda event=event: pairs.insert(event))
    count = Window(Count(), CountWindow(3))
    refuses(count, InvalidValue, lambda: count.extend(5))
    anything = Window(Collect(), CountWindow(3))
    refuses(anything, InvalidValue, lambda: anything.extend(5))


def test_wrong_columns() -> None:
    window = Window(Product({"sum": ("x", Sum()), "all": ("y", Collect())}), CountWindow(3))
    window.extend({"x": [1.0], "y": ["a"]})
    for batch in ({"x": [1.0]}, {}, [1.0], None, {"x": [1.0, 2.0], "y": ["a"]}, {"x": 1, "y": 2}):
        refuses(window, InvalidValue, lambda batch=batch: window.extend(batch))
    assert "'y'" in refuses(window, InvalidValue, lambda: window.extend(pd.DataFrame({"x": [1]})))
    for event in ({"x": 1.0}, 1.0, None, {"x": "text", "y": 1}):
        refuses(window, InvalidValue, lambda event=event: window.insert(event))


def test_missing_times_and_wrong_lengths() -> None:
    window = Window(Sum(), TimeWindow(10), arity=2)
    window.extend([1, 2], [1, 2])
    assert window.extend([], []).dtype == np.float64
    refuses(window, InvalidTime, lambda: window.insert(1.0))
    refuses(window, InvalidTime, lambda: window.extend([1.0]))
    assert "1 values have 2 times" in refuses(
        window, InvalidTime, lambda: window.extend([1.0], [3, 4])
    )
    refuses(window, InvalidTime, lambda: window.extend([1.0, 2.0], [3]))


@ORDERED
def test_late_events_are_refused(aggregator: type) -> None:
    window = Window(joined(), TimeWindow(10), arity=2, aggregator=aggregator)
    window.extend("abc", [1, 2, 3])
    message = refuses(window, LateEvent, lambda: window.insert("d", 2.9))
    assert "late=" in message and "1970-01-01T00:00:02.9" in message
    assert "index 2" in refuses(window, LateEvent, lambda: window.extend("def", [3, 5, 4]))
    refuses(window, LateEvent, lambda: window.extend("d", [2]))
    window.insert("d", 3)  # as old as the last one is not late
    assert window.query() == "abcd"
    window.evict(4)
    refuses(window, LateEvent, lambda: window.insert("d", 2))  # an empty window remembers


@ORDERED
def test_late_events_are_dropped_and_counted(aggregator: type) -> None:
    options: dict[str, Any] = {"arity": 2, "aggregator": aggregator, "on_late": "drop"}
    times = [5, 3, 5, 9, 8, 9, 20, 10.5, 2]
    one = Window(joined(), TimeWindow(10), nulls="drop_row", **options)
    values = ["a", "b", "c", None, "e", "f", "g", "h", None]
    for value, time in zip(values, times, strict=True):
        one.insert(value, time)
    many = Window(joined(), TimeWindow(10), nulls="drop_row", **options)
    found = many.extend(values, times)
    # The null at 9 does not make the event at 8 late; a null that is late counts as a null.
    assert list(found) == ["a", "ac", "ace", "acef", "g"]
    assert many.last_accepted is not None
    assert many.last_accepted.tolist() == [1, 0, 1, 0, 1, 1, 1, 0, 0]
    assert state(one) == state(many)
    assert (many.stats().late, many.stats().invalid, many.stats().dropped) == (2, 2, 4)
    again = Window.restore(
        many.checkpoint(), many.store, aggregations=joined(), window=TimeWindow(10), on_late="raise"
    )
    assert (again.stats().late, again.stats().invalid) == (2, 2)
    with pytest.raises(LateEvent):
        again.insert("i", 19)


# --- snapshots ------------------------------------------------------------------------------------

OPTIONS: dict[str, Any] = {"arity": 2, "leaf_arity": 3}


def small_window(aggregator: Any = AmortizedMTA, timed: bool = True) -> Any:
    """A window of a structure, or windows of another kind."""
    frame: Any = TimeWindow(20) if timed else CountWindow(20)
    settings: dict[str, Any] = {"name": "small", **OPTIONS}
    if aggregator == "shared":
        frames = {"a": frame, "b": CountWindow(5)}
        window: Any = SharedWindows(joined(), frames, timed=True, **settings)
    elif aggregator == "sliced":
        window = SlicedWindow(joined(), frame, 2, **settings)
    else:
        kind = AmortizedMTA if aggregator == "triggered" else aggregator
        window = Window(joined(), frame, aggregator=kind, **settings)
        if aggregator == "triggered":
            window = TriggeredWindow(window, EveryPeriod(2) if timed else EveryCount(2))
    window.extend("abcdefghijklmnopqrstuvwxyz", list(range(26)))
    return window


def restored(snapshot: bytes, **changes: Any) -> Window:
    arguments: dict[str, Any] = {"aggregations": joined(), "window": TimeWindow(20), **changes}
    return Window.restore(snapshot, **arguments)


@pytest.mark.parametrize(
    "changes",
    [
        {"aggregations": Collect()},
        {"aggregations": Monoid(identity="", combine=lambda a, b: a + b, name="other")},
        {"aggregations": Monoid(identity="x", combine=lambda a, b: a + b, name="joined")},
        {"aggregations": Max()}, {"window": CountWindow(20)},
        {"window": BoundWindow(letters(), at_most=3)}, {"aggregator": LogMTA},
        {"arity": 3}, {"leaf_arity": 2},
    ],
)  # fmt: skip
def test_snapshots_of_another_window(changes: dict[str, Any]) -> None:
    window = small_window()
    snapshot = window.checkpoint()
    with pytest.raises(SnapshotMismatch):
        restored(snapshot, **changes)
    same = restored(snapshot, arity=2, leaf_arity=3, store=window.store)
    assert same.query() == "ghijklmnopqrstuvwxyz"


@EVERY
def test_snapshots_cut_or_changed_at_any_byte(aggregator: Any) -> None:
    snapshot = small_window(aggregator).checkpoint()
    kinds: Any = {"shared": SharedWindows, "triggered": TriggeredWindow, "sliced": SlicedWindow}
    restore = restored if isinstance(aggregator, type) else kinds[aggregator].restore
    for at in range(len(snapshot)):
        changed = [
            snapshot[:at] + bytes([snapshot[at] ^ bits]) + snapshot[at + 1 :]
            for bits in (0x01, 0x80, 0xFF)
        ]
        for damaged in (snapshot[:at], *changed):
            for read in (restore, describe_snapshot):
                with pytest.raises(CorruptSnapshot):
                    read(damaged)


def test_random_bytes_are_no_snapshot() -> None:
    rng = random.Random(5)
    for length in [0, 1, 15, 16, 17, 40, 400] * 20:
        with pytest.raises(CorruptSnapshot):
            restored(rng.randbytes(length))
        with pytest.raises(CorruptSnapshot):
            restored(signed(rng.randbytes(length)))
    with pytest.raises(CorruptSnapshot):
        restored(small_window().checkpoint() + b"more")
    for other in (None, "text", 7):
        with pytest.raises(CorruptSnapshot, match=f"it is {type(other).__name__}, not the bytes"):
            restored(other)  # type: ignore[arg-type]


def signed(body: bytes) -> bytes:
    return body + xxhash.xxh3_128_digest(body)


#: What may stand in any place of a snapshot.
HOSTILE: list[Any] = [
    None, True, -1, 0, 1, 2, 3, 2**31, 2**62, 2**63 - 1, 2**64 - 1, -(2**63), 1.5, "", "x", "a/b",
    b"", b"x" * 16, [], [1], [[]], [None] * 5, ["<f8", b""], [["msgpack", b"\xdd\xff\xff\xff\xff"]],
    [["msgpack", b"\x90"]] * 2, {}, {"a": 1}, [[0, 1, []]], [[2**40, 2**40, []]],
    ["mta", b"1" * 16],
]  # fmt: skip


@pytest.mark.parametrize("part", [0, False, "", b"", {}])
def test_an_open_slice_is_a_list_of_columns_or_nil(part: Any) -> None:
    window = small_window("sliced")
    fields = [*msgpack.unpackb(window.checkpoint()[:-16])[:-1], part]
    with pytest.raises(CorruptSnapshot, match="its fields have the wrong types"):
        type(window).restore(signed(msgpack.packb(fields)), window.engine.store)


@pytest.mark.sample(1)
@pytest.mark.parametrize("part", range(6))
@EVERY
@pytest.mark.parametrize("timed", [True, False])
def test_hostile_fields_under_a_good_digest(aggregator: Any, timed: bool, part: int) -> None:
    """Every field and every part of the state replaced by what it must not be, gone or doubled."""
    window = small_window(aggregator, timed)
    store = getattr(window, "store", None) or window.engine.store
    snapshot, pages, taken = window.checkpoint(), pages_of(store), 0
    text = Monoid("", lambda a, b: f"{a}{b}", name="joined")  # of any objects, as forged ones are
    tries = [*forged(msgpack.unpackb(snapshot[:-16]), HOSTILE, ["x" * 400])][part::6]
    for fields in tries:
        store = MemoryStore()
        store.put_many(pages)

        def use(fields: Any = fields, store: MemoryStore = store) -> None:
            again: Any = type(window).restore(
                signed(msgpack.packb(fields)), store, aggregations=text
            )
            if aggregator != "sliced":
                again.query()
            again.insert("a", 30)
            again.checkpoint()
            again.check()  # reads the levels and pages that nothing else has needed

        error = error_of(use)
        taken += error is None
        # What was signed with such fields may be taken or refused, but never with a crash.
        assert error is None or isinstance(error, WindowStoreError), (fields, error)
    assert taken < len(tries) / 3


# --- pages --------------------------------------------------------------------------------------


def deep_window(aggregator: type, store: MemoryStore, size: int = 60) -> Window:
    window = Window(
        joined(), CountWindow(size), store=store, aggregator=aggregator, name="deep", **OPTIONS
    )
    window.extend([chr(97 + i % 26) for i in range(size * 5 // 4)])
    return window


def damages(pages: dict[str, bytes], key: str) -> dict[str, bytes | None]:
    """What may lie under a page's key in its place."""
    page = pages[key]
    flipped = bytearray(page)
    flipped[len(page) // 2] ^= 4
    level = key.split("/")[1]
    others = [k for k in pages if k != key]
    alike = [k for k in others if k.split("/")[1] == level] or others
    return {
        "missing": None,
        "empty": b"",
        "truncated": page[:-1],
        "half": page[: len(page) // 2],
        "flipped": bytes(flipped),
        "longer": page + b"\0",
        "another group": pages[alike[0]],
        "another level": pages[next(k for k in others if k.split("/")[1] != level)],
        "another window": page.replace(b"deep", b"deer"),
    }


@BOTH
@pytest.mark.parametrize("part", parts(3))
def test_every_damaged_page_is_noticed_and_nothing_is_lost(aggregator: type, part: int) -> None:
    """Each page in turn, each damage; then it is restored, and the window goes on exactly."""
    store, size = MemoryStore(), 36
    window = deep_window(aggregator, store, size)
    snapshot, pages = window.checkpoint(), pages_of(store)
    needed = 0
    for at, key in enumerate(pages):
        for what, damage in [*damages(pages, key).items()][(at + part) % 3 :: 3]:
            text = [chr(97 + i % 26) for i in range(size // 4, size * 5 // 4)]
            again = window.restore_like(snapshot)
            store.delete_many([key])
            if damage is not None:
                store.put_many({key: damage})
            error = error_of(again.check)
            noticed = 0
            for i in range(size * 3 // 4):
                value = "XYZ"[i % 3]
                failed = error_of(lambda again=again, value=value: again.insert(value))
                is_in, expected = failed is None, [*text, value][-size:]
                failed = failed or error_of(again.query)
                if failed is not None:
                    noticed += 1
                    assert type(failed) is (MissingPage if what == "missing" else CorruptPage)
                    assert key in str(failed)
                    if not is_in:
                        assert again.query() == "".join(text)
                    store.put_many({key: pages[key]})
                    again.check()
                    if not is_in:
                        again.insert(value)
                text = expected
                assert again.query() == "".join(text), (key, what)
            if error is None:
                assert noticed == 0  # it belongs to what had left before
            else:
                needed += 1
                assert isinstance(error, (MissingPage, CorruptPage)) and key in str(error)
            store.delete_many([*store.keys()])
            store.put_many(pages)
    assert needed >= len(pages) * 3 * 0.7


def test_a_missing_page_says_where_it_was_looked_for() -> None:
    store = MemoryStore("named")
    window = deep_window(AmortizedMTA, store)
    store.delete_many([*store.keys()])
    with pytest.raises(MissingPage, match=r"deep/\d/\d+/[0-9a-f]{32} is not in memory://named"):
        window.evict(20)
    assert len(window) == 60


# --- failing frames -----------------------------------------------------------------------------


class FailsOnce(Frame):
    """Evicts nothing, and fails at its first event."""

    needs_times, failed = True, False

    def cut(self, view: Any, time: int | None) -> int:
        if not self.failed:
            self.failed = True
            raise RuntimeError("once")
        return 0

    def describe(self) -> str:
        return "FailsOnce()"


@BOTH
def test_the_time_of_an_oldest_event_that_was_taken_back_is_forgotten(aggregator: type) -> None:
    """It was asked for before the frame failed; the next event may be older."""
    window = Window(joined(), TimeWindow(10) | FailsOnce(), aggregator=aggregator)
    with pytest.raises(RuntimeError, match="once"):
        window.insert("a", 50)
    assert len(window) == 0
    window.insert("b", 10)
    window.insert("c", 25)
    assert window.query() == "c"
    window.check()


@pytest.mark.parametrize("kind", [Window, SharedWindows])
def test_events_that_are_retained_for_questions_need_times(kind: type) -> None:
    frame: Any = {"w": CountWindow(3)} if kind is SharedWindows else CountWindow(3)
    windows = kind(Max(), frame, retain_for="1 day")
    with pytest.raises(InvalidTime, match=r"(retain_for=|windows with times) needs a time"):
        windows.extend([1.0, 2.0])
    found = windows.extend([5.0], [1])
    assert (found["w"] if kind is SharedWindows else found).tolist() == [5.0]
