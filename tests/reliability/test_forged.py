"""A digest that fits proves nothing: whoever can write to a store can write one.

A snapshot or a page with one thing changed gives a named error or a window that works.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from mta import (
    CalendarWindow,
    Collect,
    CountWindow,
    EveryCount,
    EveryPeriod,
    KeyedWindows,
    Max,
    Product,
    SharedWindows,
    Sum,
    TimeWindow,
    TriggeredWindow,
    Window,
    open_published,
)
from mta import pages as window_pages
from mta.algorithms import AmortizedMTA, FiBA, LogMTA
from mta.audit import audit
from mta.audit.keyed import OpaqueKeys
from mta.audit.published import needed_by_published
from mta.evaluators.flatfat import PagedFlatFAT
from mta.evaluators.reactive import PagedReactiveAggregator
from mta.keyed import leaves as keyed_pages
from mta.keyed.key_types import text_of
from mta.monoids.nulls import SkipNulls
from mta.pages import name_of
from mta.published import AsyncPublishedWindows, PublishedWindows
from mta.published import reader as published_reader
from mta.publishing.records import decode_written, encode_written
from mta.windows.opaque import restore_opaque
from stores import MemoryStore
from tests.support import forgeries
from tests.support.naive import pages_of
from tests.support.published import Server
from tests.support.sampling import some

#: How many forgeries of each kind a run looks at, and make soak ten times as many; all with 0.
SOME = int(os.environ.get("MTA_FORGERIES", 6))
SMALL: dict[str, Any] = {"arity": 2, "leaf_arity": 2}
COUNT = CountWindow(9)
TIMES = [1, 2, 3, 5, 8, 13, 14, 15, 16, 21, 34, 35, 36, 37]
VALUES = [float(number % 5) for number in range(len(TIMES))]
#: A snapshot, its store, and what is done with one like it.
Made = tuple[bytes, MemoryStore, Callable[[bytes, MemoryStore], None]]


def fed(window: Any, store: MemoryStore) -> bytes:
    for at in range(0, len(TIMES), 5):
        window.extend(VALUES[at : at + 5], TIMES[at : at + 5])
        root: bytes = window.checkpoint()
    return root


def read(window: Any) -> None:
    """All that may be done with a window."""
    window.query()
    window.extend([1.0, 2.0], [40, 41])
    window.query()
    if window.engine.settings.allowed_lateness:
        window.extend([5.0], [39])
        window.retract(40)
    window.checkpoint()
    window.restore_like(window.checkpoint()).query()
    window.stats()
    window.check()


def single(monoid: Any, frame: Any, **settings: Any) -> Made:
    store, settings = MemoryStore(), {**SMALL, **settings}
    snapshot = fed(Window(monoid, frame, store, "w", **settings), store)

    def use(snapshot: bytes, store: MemoryStore) -> None:
        opaque = restore_opaque(snapshot, store)
        audit(opaque)
        if settings["aggregator"] not in (PagedFlatFAT, PagedReactiveAggregator):
            list(opaque.events())
        read(Window.restore(snapshot, store, aggregations=monoid, window=frame, **settings))

    return snapshot, store, use


def shared(**settings: Any) -> Made:
    store, settings = MemoryStore(), {**SMALL, **settings}
    windows = {"t": TimeWindow(20), "c": CountWindow(3)}
    snapshot = fed(SharedWindows(Max(), windows, store, "s", **settings), store)

    def use(snapshot: bytes, store: MemoryStore) -> None:
        audit(restore_opaque(snapshot, store))
        read(
            SharedWindows.restore(
                snapshot, copied(store), aggregations=Max(), window=windows, **settings
            )
        )
        others = {"other": TimeWindow(9), "c": CountWindow(5)}
        read(SharedWindows.restore(snapshot, store, aggregations=Max(), window=others, **settings))

    return snapshot, store, use


def triggered(trigger: Any) -> Made:
    store = MemoryStore()
    made = TriggeredWindow(Window(Sum(), TimeWindow(20), store, "t", **SMALL), trigger)
    snapshot = fed(made, store)

    def use(snapshot: bytes, store: MemoryStore) -> None:
        found = TriggeredWindow.restore(
            snapshot, store, aggregations=Sum(), window=TimeWindow(20), trigger=trigger, **SMALL
        )
        found.extend([1.0, 2.0], [60, 61])
        found.query()
        found.checkpoint()

    return snapshot, store, use


#: Three keys of each kind of bytes.
KEYS: dict[str, list[Any]] = {
    "text": ["a", "b", "c"],
    "int": [7, 8, 9],
    "date": [date(2026, 3, day) for day in (1, 2, 3)],
    "datetime with zone": [datetime(2026, 3, day, tzinfo=UTC) for day in (1, 2, 3)],
    "time": [time(hour) for hour in (1, 2, 3)],
    "decimal": [Decimal("1.5"), Decimal(-2), Decimal(3)],
    "uuid": [UUID(int=number) for number in (1, 2, 3)],
    "tuple": [("a", 1, date(2026, 3, 1)), ("b", 2, date(2026, 3, 2)), ("c", 3, date(2026, 3, 3))],
}


def fed_keys(windows: KeyedWindows, names: list[Any], column: str | None) -> bytes:
    for at in range(3 * len(TIMES)):
        of_key = names[0] if at % 4 else names[at % 3]
        value: Any = [float(at)]
        windows.extend([of_key], value if column is None else {column: value}, [at + 1])
        if at % 9 == 0:
            windows.checkpoint()
    return windows.checkpoint()


def keyed(
    monoid: Any,
    frame: Any,
    other: Any,
    kind: str,
    allowed_lateness: int | None = None,
    **settings: Any,
) -> Made:
    store, settings = MemoryStore(), {**SMALL, "page_bytes": 100, "promote_at": 6, **settings}
    settings["allowed_lateness"] = allowed_lateness
    names = KEYS[kind]
    column = "v" if isinstance(monoid, Product) else None
    windows = KeyedWindows(monoid, frame, store, "k", **settings)
    fed_keys(windows, names, column)
    if isinstance(frame, TimeWindow):
        windows = KeyedWindows.restore(
            windows.checkpoint(), store, aggregations=monoid, window=other, **settings
        )
        windows = KeyedWindows.restore(
            windows.checkpoint(), store, aggregations=monoid, window=frame, **settings
        )
    snapshot = windows.checkpoint()

    def use(snapshot: bytes, store: MemoryStore) -> None:
        opaque = OpaqueKeys(snapshot, store)
        opaque.first(2, text_of)
        opaque.find(names[0])
        opaque.audit_tables()
        set(opaque.live_keys())
        for wanted in (frame, other):
            store = copied(store)
            found = KeyedWindows.restore(
                snapshot, store, aggregations=monoid, window=wanted, **settings
            )
            found.coverage()
            found.query(names)
            list(found.keys())
            one: Any = [1.0, 2.0]
            found.extend(names[:2], one if column is None else {column: one}, [50, 51])
            if allowed_lateness is not None:
                found.extend(names[:1], one[:1] if column is None else {column: one[:1]}, [49])
                found.retract(names[0], 50)
            found.checkpoint()
            found.expire(before=52) if isinstance(wanted, TimeWindow) else None
            found.stats()
            for _ in range(2):
                found.checkpoint()
            found.check()

    return snapshot, store, use


def without_waiting(found: PublishedWindows, key: Any) -> None:
    """Query a key in an event loop, which reads one level of pages after the other."""

    async def ask() -> None:
        features = AsyncPublishedWindows(found)
        try:
            await features.query(key)
        finally:
            await features.close()

    asyncio.run(ask())


def published(windows: Callable[[MemoryStore], Any], *asked: Any) -> Made:
    """The head of what is published; each page, and each snapshot under it, is in the store."""
    store = MemoryStore()
    made = windows(store)
    made.publish("p")
    if isinstance(made, KeyedWindows):
        fed_keys(made, KEYS["tuple"], "v")
    else:
        fed(made, store)
    (head,) = store.get_many(["publish:p/head"])
    assert head is not None

    def use(head: bytes, store: MemoryStore) -> None:
        store.put_many({"publish:p/head": head})
        needed_by_published(store, [*store.keys()])
        read_by = Server()
        read_by.put_many(pages_of(store))
        for each in (store, read_by):
            found = open_published(each, "p")
            found.query(*asked)
            found.query(*asked, at=60, partial=True)
            found.events(*[keys[0] for keys in asked])
            if asked:
                found.query(asked[0][0])
                without_waiting(found, asked[0][0])
            found.status()

    return head, store, use


MADE: dict[str, Callable[[], Made]] = {
    "amortized": lambda: single(Max(), TimeWindow(20), aggregator=AmortizedMTA),
    "amortized texts": lambda: single(Collect(), CountWindow(9), aggregator=AmortizedMTA),
    "log": lambda: single(Sum(), CountWindow(9), aggregator=LogMTA),
    "flat": lambda: single(Max(), CountWindow(9), aggregator=PagedFlatFAT),
    "reactive": lambda: single(Max(), CountWindow(9), aggregator=PagedReactiveAggregator),
    "fiba": lambda: single(Max(), TimeWindow(20), aggregator=FiBA, allowed_lateness=5),
    "fiba counts": lambda: single(Collect(), CountWindow(9), aggregator=FiBA),
    "shared": shared,
    "shared late": lambda: shared(allowed_lateness=5),
    "every period": lambda: triggered(EveryPeriod(7)),
    "every count": lambda: triggered(EveryCount(3)),
    "keyed": lambda: keyed(Max(), TimeWindow(20), TimeWindow(9), "text", timed=True),
    "keyed late": lambda: keyed(
        Product({"n": ("v", Sum()), "l": ("v", Collect())}), TimeWindow(20), TimeWindow(30),
        "int", allowed_lateness=4,
    ),
    **{
        f"keyed by {kind}": lambda kind=kind: keyed(
            Product({"n": ("v", Sum("int64"))}), TimeWindow(20), CalendarWindow("1 day"), kind
        )
        for kind in KEYS
    },
    "keyed with nulls": lambda: keyed(
        Product({"n": ("v", SkipNulls(Sum("int64")))}), TimeWindow(20), CalendarWindow("1 day"),
        "text", promote_at=1000,
    ),
    "published keys": lambda: published(
        lambda store: KeyedWindows(
            Product({"n": ("v", Sum()), "q": ("v", Max())}), {"t": TimeWindow(20), "c": COUNT},
            store, "k", page_bytes=100, promote_at=6, **SMALL,
        ),
        KEYS["tuple"],
    ),
    "published window": lambda: published(
        lambda store: Window(Max(), CalendarWindow("1 day"), store, "w", **SMALL)
    ),
    "published windows": lambda: published(
        lambda store: SharedWindows(
            Max(), {"t": TimeWindow(20), "c": COUNT}, store, "s", allowed_lateness=5, **SMALL
        )
    ),
    "keyed counts": lambda: keyed(
        Product({"n": ("v", Sum())}), {"c": CountWindow(9), "b": CountWindow(2) | TimeWindow(5)},
        {"d": CountWindow(3)}, "text", allowed_lateness=4,
    ),
}  # fmt: skip


MOST = pytest.mark.parametrize("most", some([SOME, 10 * SOME] if SOME else [10**9], by_default=1))


def drawn(found: list[Any], seed: str, most: int) -> list[Any]:
    return random.Random(seed).sample(found, min(len(found), most))


def copied(store: MemoryStore) -> MemoryStore:
    other = MemoryStore()
    other.put_many(pages_of(store))
    return other


@MOST
@pytest.mark.parametrize("kind", MADE)
def test_forged_snapshots_are_named_or_work(kind: str, most: int) -> None:
    snapshot, store, use = MADE[kind]()
    use(snapshot, copied(store))
    errors = {}
    for data in drawn([*forgeries.snapshots(snapshot)], kind, most):
        error = forgeries.bare_error(lambda data=data: use(data, copied(store)))
        if error is not None:
            errors.setdefault(decide(error), data)
    assert not errors, "\n".join(errors)


@MOST
@pytest.mark.parametrize("kind", MADE)
def test_forged_pages_are_named_or_work(
    kind: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot, store, use = MADE[kind]()
    every = pages_of(store)
    cases = [
        (key, page) for key in every for page in drawn([*forgeries.pages(every[key])], key, most)
    ]
    cases = drawn(cases, kind, 2 * most)
    names: dict[bytes, bytes] = {}

    def as_before(page: Any) -> bytes:
        return names.get(bytes(page)) or name_of(page)

    for module in (keyed_pages, window_pages, published_reader):
        monkeypatch.setattr(module, "name_of", as_before)
    errors = {}
    for key, page in cases:
        names.clear()
        names[page] = name_of(every[key])
        other = copied(store)
        other.put_many({key: page})
        error = forgeries.bare_error(lambda other=other: use(snapshot, other))
        if error is not None:
            errors.setdefault(decide(error), page)
    assert not errors, "\n".join(errors)


def test_forged_records_of_tasks_are_named_or_records() -> None:
    """Any one thing changed in what a task writes for whoever publishes its batch."""
    record = encode_written(3, bytes(range(16)))
    for data in forgeries.snapshots(record):
        assert forgeries.bare_error(lambda data=data: decode_written(data, 3)) is None, data


def decide(error: BaseException) -> str:
    """An error and where it was raised."""
    frames, at = [], error.__traceback__
    while at is not None:
        code = at.tb_frame.f_code
        frames.append(f"{os.path.basename(code.co_filename)}:{at.tb_lineno}:{code.co_name}")
        at = at.tb_next
    return f"{type(error).__name__} {str(error)[:90]!r} at {' < '.join(frames[-4:][::-1])}"
