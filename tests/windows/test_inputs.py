"""What may come in: the same for single events and batches, refused before anything changes."""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from mta import (
    Collect,
    CountWindow,
    EveryCount,
    EveryPeriod,
    KeyedWindows,
    Max,
    Mean,
    Monoid,
    OnDemand,
    Product,
    SampleStdDev,
    SharedWindows,
    SlicedWindow,
    Sum,
    TimeWindow,
    TriggeredWindow,
    Window,
)
from mta.aggregations import PopulationStdDev
from mta.algorithms import AmortizedMTA, FiBA, LogMTA, PagedFlatFAT
from mta.columns.schemas import Objects
from mta.errors import InvalidTime, InvalidValue, NotPageable, WindowBusy, WindowStoreError
from mta.frames import BoundWindow, CustomFrame
from stores.memory import MemoryStore
from tests.support.naive import error_of


def shown(value: Any) -> str:
    """A name that is the same in every process, without the address where the value lies."""
    return f"{type(value).__name__} {re.sub(r' at 0x[0-9a-f]+', '', repr(value))}"


def last() -> Monoid:
    return Monoid(None, lambda a, b: a if b is None else b, name="last")


def kinds(monoid: Callable[[], Any], frame: Any = None, **settings: Any) -> dict[str, Any]:
    """A window of every kind, over one frame."""
    frame = frame or CountWindow(4)
    whole = {"store": MemoryStore(), **settings}
    found = {
        "window": Window(monoid(), frame, **whole),
        "shared": SharedWindows(monoid(), {"one": frame}, **whole),
        "triggered": TriggeredWindow(Window(monoid(), frame, **whole), EveryCount(2)),
        "by time": Window(monoid(), frame, **whole, aggregator=FiBA),
    }
    if not frame.needs_times:
        found["sliced"] = SlicedWindow(monoid(), frame, 2, **whole)
    return found


KINDS = ("window", "shared", "triggered", "by time", "sliced")


def came(window: Any) -> int:
    return window.progress.events if hasattr(window, "progress") else window.stats().inserted


def both_ways(window: Any, value: Any, time: Any = None) -> list[Callable[[], Any]]:
    times = None if time is None else [time]
    return [lambda: window.insert(value, time), lambda: window.extend([value], times)]


# --- nulls ----------------------------------------------------------------------------------------

NULLS = [
    None, float("nan"), np.float64("nan"), np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT"),
    Decimal("NaN"), Decimal("sNaN"), pa.scalar(None, pa.int64()), pa.scalar(float("nan")),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("null", NULLS, ids=shown)
def test_every_null_is_refused_or_dropped_in_every_way(kind: str, null: Any) -> None:
    window = kinds(last)[kind]
    for way in both_ways(window, null):
        with pytest.raises(InvalidValue, match="null, NaN"):
            way()
    assert came(window) == 0
    window = kinds(last, nulls="drop_row")[kind]
    for way in both_ways(window, null):
        way()
    assert came(window) == 0
    engine = window.intake if hasattr(window, "progress") else window.engine.intake
    assert engine.invalid_count == 2
    window.insert(7)
    window.insert(8)
    assert came(window) == 2


@pytest.mark.parametrize("null", [*NULLS[:6], Decimal("NaN")], ids=repr)
def test_nulls_among_numbers_are_the_same_in_every_way(null: Any) -> None:
    for monoid in (Sum(), Product({"mean": ("v", Mean())})):
        window = Window(monoid, CountWindow(3), nulls="drop_row")
        value = {"v": null} if isinstance(monoid, Product) else null
        batch = {"v": [1.0, null]} if isinstance(monoid, Product) else [1.0, null]
        window.insert(value)
        window.extend(batch)
        assert window.stats().invalid == 2 and len(window) == 1


@pytest.mark.parametrize("monoid", [Sum, last])
@pytest.mark.parametrize(
    "column",
    [
        pd.Series([1.0, None, 2.0]), pd.array([1, None, 2], dtype="Int64"), pa.array([1, None, 2]),
        pa.chunked_array([[1.0, None], [2.0]]), pl.Series([1.0, None, 2.0]),
        pl.Series([1, None, 2]),
        np.array([1.0, np.nan, 2.0]), [1, None, 2],
    ],
    ids=lambda column: f"{type(column).__module__} {getattr(column, 'dtype', '')}",
)  # fmt: skip
def test_nulls_of_every_kind_of_column_are_dropped(monoid: Any, column: Any) -> None:
    window = Window(monoid(), CountWindow(3), nulls="drop_row")
    window.extend(column)
    assert window.stats().invalid == 1 and window.query() in (2, 3)
    assert window.last_accepted is not None and window.last_accepted.tolist() == [True, False, True]


# --- values and pages -----------------------------------------------------------------------------

UNPAGEABLE = [
    datetime(2024, 1, 1), pd.Timestamp(5), {1, 2}, 1j, object(), np.datetime64(1, "ns"),
    np.timedelta64(1, "s"), np.complex128(1j), [1, {2}], (1, object()), {"a": {1}}, "\ud800",
    Decimal(1), np.zeros(2), [[[[[[[[[[{1}]]]]]]]]]],
]  # fmt: skip
PAGEABLE = [
    0, -(2**70), 1.5, "text", "ä", b"x", True, (1, "a"), [1, [2]], {"a": (1,)}, np.float64(1.5),
    np.int8(3), np.str_("s"), np.bool_(True),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["window", "shared", "triggered", "by time"])
@pytest.mark.parametrize("value", UNPAGEABLE, ids=shown)
def test_what_no_page_can_hold_is_refused_at_once(kind: str, value: Any) -> None:
    window = kinds(last, arity=2)[kind]
    assert Objects().unpageable(["a", 1, value, value]) == 2
    for start in ([], ["one"]):
        if start:
            window.extend(start)
        before = came(window)
        for way in (*both_ways(window, value), lambda: window.extend([1, value])):
            with pytest.raises(NotPageable, match="written to a page"):
                way()
        assert came(window) == before
    for text in "abcdefgh":
        window.insert(text)
    window.checkpoint()
    window.check()


@pytest.mark.parametrize("value", PAGEABLE, ids=repr)
def test_what_is_accepted_can_be_saved(value: Any) -> None:
    for kind, window in kinds(last, arity=2).items():
        for _ in range(5):
            window.insert(value)
        window.extend([value] * 5)
        window.checkpoint()
        window.check()
        assert came(window) == 10, kind


def test_in_memory_any_value_will_do() -> None:
    window = Window(last(), CountWindow(3), store=None)
    for value in UNPAGEABLE:
        window.insert(value)
        assert window.query() is value or isinstance(value, np.generic)
    window.extend(UNPAGEABLE)
    assert window.query() is UNPAGEABLE[-1]


@pytest.mark.parametrize("kind", KINDS)
def test_what_lift_makes_must_fit_a_page_too(kind: str) -> None:
    window = kinds(lambda: Monoid(set(), lambda a, b: a | b, lift=lambda v: {v}, name="sets"))[kind]
    for way in both_ways(window, 1):
        with pytest.raises(NotPageable, match="sets lifts a value to"):
            way()
    assert came(window) == 0
    lifted = Monoid(set(), lambda a, b: a | b, lift=lambda v: {v}, lower=sorted)
    memory = Window(lifted, CountWindow(3), store=None)
    memory.extend([3, 1, 2, 2])
    assert memory.query() == [1, 2]


# --- times ----------------------------------------------------------------------------------------

ENDS = [-(2**62) + 1, 2**62 - 1]
BEYOND: list[Any] = [
    np.datetime64(300_000, "Y"), np.datetime64(-300_000, "Y"), np.datetime64(2**62, "us"),
    np.datetime64(-(2**62), "us"), np.datetime64(-(2**63) + 1, "us"),
    np.datetime64(2**63 - 1, "us"),
    np.datetime64(2**62, "s"), np.datetime64(-(2**62), "D"), np.datetime64(2**60, "W"),
    np.datetime64("NaT"), np.datetime64("NaT", "s"), pd.NaT, 4_611_686_018_428, -4_611_686_018_428,
    np.int64(2**63 - 1), np.int64(-(2**63)), np.uint64(2**64 - 1), 1e300, -1e300, float("inf"),
    float("nan"), True, np.bool_(False), 4.7e12, Decimal("NaN"), "now", [1], object(),
    np.datetime64(2**62, "ms"),
]  # fmt: skip


@pytest.mark.parametrize("time", BEYOND, ids=shown)
@pytest.mark.parametrize("kind", ["window", "shared", "triggered", "by time"])
def test_times_beyond_the_limits_are_refused_in_every_way(kind: str, time: Any) -> None:
    window = kinds(Sum, TimeWindow(60))[kind]
    window.insert(1.0, 0)
    for way in both_ways(window, 1.0, time):
        with pytest.raises(InvalidTime):
            way()
    assert came(window) == 1
    window.insert(2.0, 1)
    assert came(window) == 2
    window.check()


@pytest.mark.parametrize("batches", [False, True])
@pytest.mark.parametrize("aggregator", [None, FiBA, LogMTA])
def test_the_first_and_the_last_time_are_times(batches: bool, aggregator: Any) -> None:
    given = {} if aggregator is None else {"aggregator": aggregator}
    for frame in (TimeWindow(60), CountWindow(3) & TimeWindow(timedelta(days=10**7))):
        window = Window(Sum(), frame, MemoryStore(), **given, arity=2)
        for count, micros in enumerate(ENDS, 1):
            time = np.datetime64(micros, "us")
            for _ in range(3):
                if batches:
                    window.extend([1.0], np.array([time]))
                else:
                    window.insert(1.0, time)
            assert window.query() == 3.0 and len(window) == 3
            assert window.stats().inserted == 3 * count
        window.check()


def test_triggers_at_the_ends_of_time() -> None:
    for frame in (TimeWindow("2 days"), TimeWindow("1000000 days")):
        triggered = TriggeredWindow(Window(Sum(), frame), EveryPeriod("1 day"))
        first, last = (np.datetime64(micros, "us") for micros in ENDS)
        assert triggered.insert(1.0, first) == []
        found = triggered.insert(2.0, first + np.timedelta64(86_400, "s"))
        assert [result for _, result in found] == [1.0]
        triggered = TriggeredWindow(Window(Sum(), frame), EveryPeriod("1 day"))
        triggered.insert(1.0, last - np.timedelta64(86_400, "s"))
        assert [result for _, result in triggered.insert(2.0, last)] == [1.0]


def test_a_number_of_seconds_is_the_same_time_as_any_kind_of_number() -> None:
    for seconds in (16_777_217, 99_999_999_999, -99_999_999_999):
        for number in (seconds, np.int64(seconds), np.array([seconds])[0]):
            window = Window(Collect(), TimeWindow(1))
            window.insert(1.0, number)
            window.extend([1.0], np.array([seconds]))
            assert window.engine.intake.last_time == seconds * 1_000_000
    window = Window(Sum(), TimeWindow(1))
    window.extend([1.0, 1.0], np.array([16_777_216, 16_777_216], "f4"))
    window.insert(1.0, np.float32(16_777_216))
    assert len(window) == 3


# --- wrong types ----------------------------------------------------------------------------------

WRONG: list[Any] = [1.0, np.float64(1), "1", None, True, np.bool_(True), [1], -1]


@pytest.mark.parametrize("aggregator", [None, LogMTA, FiBA])
@pytest.mark.parametrize("number", WRONG, ids=shown)
def test_a_wrong_number_changes_nothing(aggregator: Any, number: Any) -> None:
    given = {} if aggregator is None else {"aggregator": aggregator}
    window = Window(last(), CountWindow(4), MemoryStore(), arity=2, **given)
    window.extend(list("abcdef"))
    for call in (window.evict, lambda n: window.range_by_position(n, 6)):
        with pytest.raises((TypeError, ValueError)):
            call(number)
    assert window.query() == "f" and len(window) == 4
    window.check()
    window.evict(np.int64(1))
    window.evict(np.uint8(1))
    assert len(window) == 2 and window.range_by_position(np.int32(4), np.int64(6)) == "f"
    window.insert("g")
    window.check()


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"aggregator": "x"}, "aggregator is a class"),
        ({"aggregator": Sum}, "aggregator is a class"),
        ({"retain": 1.5}, "retain is a whole number"),
        ({"retain": True}, "retain is a whole number"),
        ({"retain": 1}, "retain must be at least 2"), ({"arity": True}, "arity is a whole number"),
        ({"arity": 2.0}, "arity is a whole number"), ({"arity": 1}, "from 2"),
        ({"leaf_arity": "8"}, "whole"),
        ({"on_late": "no"}, "on_late is "), ({"nulls": None}, "nulls is "),
        ({"allowed_lateness": "soon"}, "duration"),
        ({"allowed_lateness": -1}, "allowed_lateness must be 0 or longer"),
        ({"allowed_lateness": [1]}, "allowed_lateness is a number of seconds"),
        ({"allowed_lateness": True}, "allowed_lateness"),
        ({"aritty": 3}, "unexpected keyword argument 'aritty'"), ({"name": 5}, "name is text"),
        *(({"name": name}, "name is 1 to") for name in ("", "a/b", "a" * 101, "späti")),
        *(({"arity": arity}, "from 2") for arity in (0, -2, 2**21)), ({"leaf_arity": 1}, "from 2"),
        ({"retain": 0}, "at least 2"), ({"on_late": "maybe"}, "on_late"), ({"nulls": "x"}, "nulls"),
        ({"store": 5}, "store is a URL"), ({"aggregator": Window, "promote_at": 3}, "unexpected"),
        *(({"promote_at": number}, "promote_at") for number in (0, "3", 1 << 25)),
        ({"page_bytes": 0}, "page_bytes"), ({"cache_bytes": -1}, "cache_bytes"),
        ({"retain": 257}, "retain is at most 256 for keyed windows"),
    ],
    ids=lambda value: str(value),
)  # fmt: skip
def test_wrong_settings_are_refused_with_a_sentence(setting: Any, words: str) -> None:
    makers = [
        lambda: Window(Sum(), CountWindow(3), **setting),
        lambda: SharedWindows(Sum(), {"one": CountWindow(3)}, **setting),
        lambda: SlicedWindow(Sum(), CountWindow(3), **setting),
        lambda: KeyedWindows(Sum(), CountWindow(3), **setting),
    ]
    errors = [str(error) for make in makers if (error := error_of(make)) is not None]
    assert len(errors) == len(makers) or "keyed windows" in words
    # Some kinds do not have every setting.
    assert all(words in error or "unexpected keyword argument" in error for error in errors)
    assert any(words in error for error in errors)


def test_numpys_whole_numbers_are_settings() -> None:
    window = Window(Sum(), CountWindow(np.int64(3)), arity=np.int16(4), retain=np.int64(3))
    assert window.extend([1.0, 2.0, 3.0, 4.0])[-1] == 9.0
    by_time = Window(Sum(), CountWindow(3), aggregator=FiBA, allowed_lateness=timedelta(0))
    assert by_time.query() == 0.0


@pytest.mark.parametrize(
    "action",
    [
        lambda: SharedWindows(Sum(), [CountWindow(3)]),
        lambda: SharedWindows(Sum(), {5: CountWindow(3)}),
        lambda: SharedWindows(Sum(), {"one": CountWindow(3)}, retain_for=CountWindow),
        lambda: SharedWindows(Sum(), {"one": CountWindow(3)}).add("two", [3]),
        lambda: SharedWindows(Sum(), {"one": CountWindow(3)}).add(2, CountWindow(3)),
        lambda: SharedWindows(Sum(), {"one": CountWindow(3)}).query([3]),
        lambda: SharedWindows(Sum(), {"one": CountWindow(3)}).remove(["one"]),
        lambda: TriggeredWindow(5, EveryCount(2)),
        lambda: TriggeredWindow(Window(Sum(), CountWindow(3)), 2),
        lambda: TriggeredWindow(Window(Sum(), CountWindow(3)), OnDemand).query(),
        lambda: CountWindow("3"),
        lambda: CountWindow(True),
        lambda: TimeWindow(True),
        lambda: TimeWindow(None),
        lambda: TimeWindow([1]),
        lambda: TimeWindow(np.timedelta64(300_000, "Y")),
        lambda: TimeWindow(np.timedelta64(2**62, "s")),
        lambda: TimeWindow(np.timedelta64("NaT", "s")),
        lambda: TimeWindow(10**400),
        lambda: EveryPeriod(True),
        lambda: EveryCount(2.5),
        lambda: CountWindow(3) | 3,
        lambda: CountWindow(3) & None,
        lambda: BoundWindow(5, at_most=3),
        lambda: BoundWindow(Sum(), at_most="x"),
        lambda: BoundWindow(Sum(), at_most=float("nan")),
        lambda: CustomFrame(5),
        lambda: CustomFrame(lambda prefix, total: False, on=5),
        lambda: Window.restore("text", aggregations=Sum(), window=CountWindow(3)),
        lambda: SharedWindows.restore(None, aggregations=Sum(), window={}),
        lambda: TriggeredWindow.restore(
            5, aggregations=Sum(), window=CountWindow(3), trigger=OnDemand()
        ),
        lambda: Window(Sum(), CountWindow(3)).extend(5),
        lambda: Window(Sum(), CountWindow(3)).extend([1.0], emit="some"),
        lambda: Window(Sum(), TimeWindow(3)).extend([1.0], 5),
        lambda: Window(Sum(), TimeWindow(3)).extend([1.0, 2.0], [[1], [2, 3]]),
        lambda: Window(Sum(), TimeWindow(3)).range("a", 5),
    ],
)
def test_a_wrong_type_is_named(action: Callable[[], Any]) -> None:
    with pytest.raises((TypeError, ValueError, WindowStoreError)) as caught:
        action()
    assert type(caught.value) in (TypeError, ValueError) or isinstance(
        caught.value, WindowStoreError
    )
    assert "object has no attribute" not in str(caught.value)
    assert "unpack" not in str(caught.value)


# --- one call at a time ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_in_the_middle_of_another_is_refused(kind: str) -> None:
    """One thread waits inside the monoid, the other one calls: it is refused, nothing is lost."""
    inside, go_on, wait = threading.Event(), threading.Event(), threading.Event()

    def combine(a: str, b: str) -> str:
        if wait.is_set():
            wait.clear()
            inside.set()
            assert go_on.wait(20)
        return a + b

    window = kinds(lambda: Monoid("", combine, lower=str, name="slow"), arity=2)[kind]
    window.extend(list("abcd"))
    wait.set()
    thread = threading.Thread(target=lambda: window.extend(list("efgh")))
    thread.start()
    assert inside.wait(20)
    calls: list[Callable[[], Any]] = [
        lambda: window.insert("x"), lambda: window.extend(["x"]), window.checkpoint, window.check
    ]  # fmt: skip
    calls += [
        getattr(window, name) for name in ("query", "evict", "flush") if hasattr(window, name)
    ]
    try:
        for call in calls:
            with pytest.raises(WindowBusy, match="one call at a time"):
                call()
    finally:
        go_on.set()
        thread.join()
    assert came(window) == 8
    window.check()
    window.extend(list("ij"))
    window.insert("k")
    window.insert("l")
    if kind in ("window", "by time"):
        assert window.query() == "ijkl"
    elif kind == "shared":
        assert window.query("one") == "ijkl"
    elif kind == "triggered":
        assert window.query() == "ijkl"
    window.check()


def test_a_window_asked_by_its_own_monoid_says_so_and_stays_whole() -> None:
    windows: list[Window] = []
    asks = False

    def nosy(a: int, b: int) -> int:
        if asks:
            windows[0].insert(1)
        return a + b

    windows.append(Window(Monoid(0, nosy, name="nosy"), CountWindow(3), MemoryStore(), arity=2))
    windows[0].extend([1, 2, 3, 4])
    asks = True
    for call in (lambda: windows[0].insert(5), lambda: windows[0].extend([5])):
        with pytest.raises(WindowBusy):
            call()
    asks = False
    assert windows[0].query() == 9
    windows[0].insert(5)
    assert windows[0].query() == 12
    windows[0].check()


# --- warnings -------------------------------------------------------------------------------------

HOSTILE = [1e308, 1e308, -1e308, float("inf"), -float("inf"), 1e-320, 0.0, -0.0, 5.0, 1e200]


@pytest.mark.sample
@pytest.mark.parametrize(
    "monoid",
    [Sum, Mean, Max, SampleStdDev, PopulationStdDev, lambda: Monoid(0.0, lambda a, b: a + b)],
)
@pytest.mark.parametrize("kind", [*KINDS, AmortizedMTA, LogMTA, FiBA, PagedFlatFAT])
def test_no_warning_leaves_or_breaks_a_window(kind: Any, monoid: Any) -> None:
    """An eviction folds again what the events before it had folded, and so does a snapshot."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if isinstance(kind, str):
            window = kinds(monoid, arity=2)[kind]
        else:
            window = Window(monoid(), CountWindow(6), MemoryStore(), arity=2, aggregator=kind)
        for value in HOSTILE:
            window.insert(value)
        window.extend(HOSTILE)
        window.extend(np.array(HOSTILE))
        if isinstance(window, Window):
            window.evict(2)
            window.query()
            window.range_by_position(28, 30)
            again = window.restore_like(window.checkpoint())
            again.evict(1)
            again.check()
        window.checkpoint()
        window.check()
    assert came(window) == 30


def test_no_warning_about_times() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        window = Window(Sum(), TimeWindow(60))
        window.insert(1.0, datetime(2024, 1, 1, tzinfo=UTC))
        window.extend([1.0], [pd.Timestamp("2024-01-01T00:00:01Z")])
        window.extend([1.0], pd.Series(pd.to_datetime(["2024-01-01T00:00:02Z"])))
        for time in (1e308, np.float64("inf")):
            for way in both_ways(window, 1.0, time):
                with pytest.raises(InvalidTime):
                    way()
    assert window.query() == 3.0
