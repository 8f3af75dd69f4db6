"""What a reader of published windows answers is what lists of the same events say."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from mta import (
    Count,
    CountWindow,
    First,
    KeyedWindows,
    Last,
    Max,
    Mean,
    Min,
    Monoid,
    Product,
    SampleStdDev,
    SessionWindow,
    SharedWindows,
    Sum,
    TimeWindow,
    Window,
    open_published,
    published_names,
    unpublish,
)
from mta.aggregations import Decimals
from mta.algorithms import FiBA, LogMTA, PagedFlatFAT, PagedReactiveAggregator, SteadyMTA
from mta.columns.reading import result_of
from mta.errors import (
    CorruptPage,
    EventsGone,
    InvalidTime,
    NotPageable,
    NotPublished,
    SnapshotMismatch,
    UnsuitableKey,
    UnsupportedOperation,
)
from mta.monoids.nulls import CountValues
from stores import MemoryStore
from stores.testing import CountingStore
from tests.support.published import Lists, Server, aggregations, agrees

WINDOWS = {
    "minute": TimeWindow("60 seconds"),
    "before": TimeWindow("60 seconds", closed="left"),
    "five": CountWindow(5),
    "short": TimeWindow("50 seconds") | CountWindow(3),
    "long": TimeWindow("20 seconds") & CountWindow(4),
}
KEYS = [f"card {number}" for number in range(6)]


def life(
    windows: KeyedWindows, lists: Lists, seed: int, late: int, retract: bool
) -> Callable[[], None]:
    """A step of a random life of windows; the same events go into lists."""
    chance, clock = random.Random(seed), [1000]

    def step() -> None:
        clocks = {key: max((t for t, _ in lists.events[key]), default=0) for key in KEYS}
        for _ in range(40):
            clock[0] += chance.randint(0, 2)
            key = KEYS[min(chance.randint(0, 9), len(KEYS) - 1)]
            time = max(clock[0] - chance.choice([0, 0, late]), clocks[key] - late)
            clocks[key] = max(clocks[key], time)
            value = chance.randint(-50, 50)
            windows.extend([key], {"v": [value]}, [time], emit="last")
            lists.add(key, time, value)
            if retract and chance.random() < 0.1:
                retracted = chance.choice([t for t, _ in lists.events[key][-2:]])
                if retracted >= clocks[key] - late and retracted < clocks[key]:
                    windows.retract(key, retracted)
                    lists.retract(key, retracted)
        windows.checkpoint()

    return step


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"allowed_lateness": 25},
        {"allowed_lateness": 25, "retracts": True},
        {"promote_at": 8},
        {"promote_at": 8, "allowed_lateness": 25, "retracts": True},
    ],
    ids=lambda settings: ", ".join(settings) or "in order",
)
def test_every_answer_is_that_of_lists(settings: dict[str, Any]) -> None:
    given = dict(settings)
    retract = given.pop("retracts", False)
    windows = KeyedWindows(
        aggregations(), WINDOWS, MemoryStore(), name="cards", page_bytes=256, **given
    )
    windows.publish("features")
    lists, chance = Lists(WINDOWS), random.Random(7)
    step = life(windows, lists, 5, given.get("allowed_lateness", 0), retract)
    step()
    assert windows.store is not None
    answered = gone = 0
    with open_published(windows.store, "features", refresh=0) as features:
        for _ in range(4):
            step()
            clocks = {key: lists.events[key][-1][0] for key in KEYS}
            for key in KEYS:
                assert agrees(features.query(key), lists.query(key, at=clocks[key]))
            asked = [chance.choice(KEYS) for _ in range(50)]
            moments = [clocks[key] + chance.randint(-70, 30) for key in asked]
            table = features.query(asked, at=moments, partial=True)
            for place, (key, moment) in enumerate(zip(asked, moments, strict=True)):
                try:
                    found = features.query(key, at=moment)
                except EventsGone:
                    assert moment < clocks[key]
                    gone += 1
                    continue
                answered += 1
                assert agrees(found, lists.query(key, at=moment)), (key, moment)
                assert {name: column[place] for name, column in table.items()} == found
    assert answered > 40 and gone


def test_events_of_a_key_are_those_that_its_windows_retain() -> None:
    windows = KeyedWindows(
        Product({"peak": ("kw", Max())}), TimeWindow("1 hour"), MemoryStore(), name="meters"
    )
    windows.publish("meters")
    windows.extend(["a", "b", "a", "a"], {"kw": [1.0, 2.0, 3.0, 4.0]}, [0, 5, 3000, 4000])
    windows.checkpoint()
    assert windows.store is not None
    meters = open_published(windows.store, "meters")
    found = meters.events("a")
    assert found["kw"].tolist() == [3.0, 4.0]
    assert meters.events("a", newest=1)["kw"].tolist() == [4.0]
    assert found["time"].tolist() == [np.datetime64(t, "s").item() for t in (3000, 4000)]
    assert {name: len(column) for name, column in meters.events("?").items()} == {
        "time": 0,
        "kw": 0,
    }


def test_of_a_long_window_the_newest_events_are_read_alone() -> None:
    store = CountingStore(MemoryStore())
    windows = KeyedWindows(Sum("int64"), CountWindow(50_000), store, name="long", promote_at=100)
    windows.publish("long")
    windows.extend(["a"] * 20_000, list(range(20_000)))
    windows.checkpoint()
    long = open_published(store, "long")
    pages = []
    for newest in (7, 3000, 50_000, None):
        before = store.counts.get.pages
        expected = list(range(20_000))[-(newest or 20_000) :]
        assert long.events("a", newest=newest)["value"].tolist() == expected
        pages.append(store.counts.get.pages - before)
    assert pages[0] < pages[1] < pages[2] == pages[3]


def test_keys_come_in_any_type_that_windows_take() -> None:
    windows = KeyedWindows(Sum("int64"), CountWindow(3), MemoryStore(), name="pairs")
    windows.publish("pairs")
    windows.extend(([1, 1, 2], ["x", "y", "x"]), [5, 6, 7])
    windows.checkpoint()
    assert windows.store is not None
    pairs = open_published(windows.store, "pairs")
    assert pairs.query((1, "y")) == 6
    assert pairs.query([(2, "x"), (1, "x"), (3, "x")]).tolist() == [7, 5, 0]
    with pytest.raises(UnsuitableKey, match="1 and '1' are different keys"):
        pairs.query("x")


def test_an_unknown_key_has_the_result_of_no_events() -> None:
    store = MemoryStore()
    windows = KeyedWindows(Mean(), TimeWindow("1 hour"), store, name="empty")
    windows.publish("empty")
    windows.checkpoint()
    features = open_published(store, "empty", refresh=0)
    assert np.isnan(features.query("nobody")) and features.status().keys == 0
    windows.extend(["somebody"], [3.0], [0])
    windows.checkpoint()
    assert features.query("somebody") == 3.0 and np.isnan(features.query("nobody"))
    assert np.isnan(features.query("somebody", at="now"))  # an hour after 1970


SHARED = {"a": TimeWindow(100), "b": TimeWindow(30)}
#: Kinds of windows, and what they are made with.
SINGLE: dict[str, dict[str, Any]] = {
    "Amortized MTA": {},
    "Log MTA": {"aggregator": LogMTA},
    "Steady MTA": {"aggregator": SteadyMTA},
    "FlatFAT": {"aggregator": PagedFlatFAT},
    "Reactive Aggregator": {"aggregator": PagedReactiveAggregator},
    "FiBA": {"aggregator": FiBA},
    "late events": {"allowed_lateness": 50},
    "shared": {},
    "shared, late events": {"allowed_lateness": 50},
}


@pytest.mark.parametrize("kind", SINGLE)
def test_a_window_without_keys_is_read_alike(kind: str) -> None:
    store = MemoryStore()
    make: Any = SharedWindows if "shared" in kind else Window
    frame: Any = SHARED if "shared" in kind else TimeWindow(100)
    window = make(Sum("int64"), frame, store, arity=8, **SINGLE[kind])
    window.publish("one")
    features = None
    for start in range(0, 1200, 300):
        times = np.arange(start, start + 300)
        window.extend(times, times)
        window.checkpoint()
        features = features or open_published(store, "one", refresh=0)
        assert features.query() == window.query()
        for moment in (start + 299, start + 320, start + 500):
            sizes = {"a": 100, "b": 30} if "shared" in kind else {"": 100}
            expected = {
                name: sum(range(max(0, moment - size + 1), min(moment, start + 299) + 1))
                for name, size in sizes.items()
            }
            found = features.query(at=moment)
            assert (found if "shared" in kind else {"": found}) == expected
    assert features is not None
    with pytest.raises(EventsGone, match="partial=True"):
        features.query(at=500)
    assert features.events()["value"][-3:].tolist() == [1197, 1198, 1199]
    assert features.events(newest=3)["value"].tolist() == [1197, 1198, 1199]
    with pytest.raises(ValueError, match="no keys"):
        features.query("a")


def test_a_session_is_over_once_its_gap_has_passed() -> None:
    store = MemoryStore()
    window = Window(Sum("int64"), SessionWindow("10 minutes"), store)
    window.publish("session")
    window.extend([1, 2, 4], [0, 1000, 1300])
    window.checkpoint()
    session = open_published(store, "session")
    assert session.query() == session.query(at=1500) == 6
    assert session.query(at=1900) == 0
    assert session.query(at=1000) == 2  # the events at 1000 and 1300 are one session
    with pytest.raises(EventsGone):
        session.query(at=900)
    keyed = KeyedWindows(Sum("int64"), SessionWindow("10 minutes"), store, name="keyed")
    keyed.publish("sessions")
    keyed.extend(["a"] * 3, [1, 2, 4], [0, 1000, 1300])
    keyed.checkpoint()
    sessions = open_published(store, "sessions")
    found = [sessions.query("a", at=moment) for moment in (1300, 1500, 1900)]
    assert found == [6, 6, 0] and sessions.query("a") == 6


def test_windows_without_times_are_asked_for_the_newest_alone() -> None:
    store = MemoryStore()
    windows = KeyedWindows(Max(), CountWindow(3), store)
    windows.publish("counts")
    windows.extend(["a"], [1.0])
    windows.checkpoint()
    with pytest.raises(InvalidTime, match="timed=True"):
        open_published(store, "counts").query("a", at=5)


def test_what_functions_compute_must_be_given() -> None:
    longest = Monoid(identity=0, combine=max, name="longest")
    monoid = Product({"n": ("v", Sum("int64")), "longest": ("v", longest)})
    store = MemoryStore()
    windows = KeyedWindows(monoid, CountWindow(3), store, name="mine")
    windows.publish("mine")
    windows.extend(["a", "a"], {"v": [3, 4]})
    windows.checkpoint()
    with pytest.raises(SnapshotMismatch, match="aggregations longest are made of functions"):
        open_published(store, "mine")
    with pytest.raises(SnapshotMismatch, match="no aggregations"):
        open_published(store, "mine", aggregations={"longest": ("v", longest), "x": ("v", Max())})
    with pytest.raises(SnapshotMismatch, match=r"longest.* that was saved, not"):
        open_published(store, "mine", aggregations={"longest": ("v", Max())})
    for given in (monoid, {"longest": ("v", longest)}):
        features = open_published(store, "mine", aggregations=given)
        assert features.query("a") == {"n": 7, "longest": 4}


def test_one_lookup_costs_a_call_for_each_level_that_is_not_cached_and_one_for_tables() -> None:
    store, height = many_keys()
    assert height == 2
    features = open_published(store, "many", refresh=None)
    store.reset()
    assert features.query(17) == 17
    assert store.reset().get.calls == height + 1
    assert features.query(17) == 17
    assert store.reset().get.calls == 0  # all of it is cached
    calls = []
    for key in range(100, 1000):
        features.query(key)
        calls.append(store.reset().get.calls)
    assert max(calls[-100:]) == 1  # the table, where it is not cached; the index is
    features.query(list(range(5000, 6000)))
    assert store.reset().get.calls <= height + 1
    assert features.status().cached_bytes < 32 << 20


@pytest.mark.parametrize("remote", [True, False])
def test_a_damaged_page_is_an_error_until_the_store_has_a_good_copy(remote: bool) -> None:
    store: Any = Server() if remote else MemoryStore()
    windows = KeyedWindows(Sum("int64"), CountWindow(5), store, name="many", page_bytes=64)
    windows.publish("many")
    windows.extend(range(100), range(100), emit="last")
    windows.checkpoint()
    features = open_published(store, "many", refresh=None)
    good = {key: store.get_many([key])[0] for key in store.keys("many/0/")}
    store.put_many({key: page[:-1] + b"?" for key, page in good.items()})
    for keys in (17, [17, 18]):
        with pytest.raises(CorruptPage, match="its bytes do not match its name"):
            features.query(keys)
    store.put_many(good)
    assert (features.query(17), features.query([17, 18]).tolist()) == (17, [17, 18])


#: Types of a column, and values.
COLUMNS: dict[str, tuple[Any, list[Any]]] = {
    "float": ("f8", [0.1 * n for n in range(8)]),
    "integer": ("int64", [3 * n - 9 for n in range(8)]),
    "boolean": ("bool", [n % 3 == 0 for n in range(8)]),
    "decimal": (Decimals(2), [Decimal(n) / 4 for n in range(8)]),
    "time": ("datetime64[us]", [datetime(2026, 1, 1) + timedelta(hours=n) for n in range(8)]),
}


def drawn(chance: random.Random, kind: str) -> Any:
    """Any choice of aggregations of a column, one without a name, or some that read none."""
    of, counts = COLUMNS[kind][0], {"rows": Count(), "again": Count()}
    named: dict[str, Any] = {each.__name__: ("v", each(of)) for each in (Max, Min, First, Last)}
    if kind not in ("boolean", "time"):
        named["sum"] = ("v", Sum(of))
    if kind in ("float", "integer"):
        named |= {"mean": ("v", Mean()), "deviation": ("v", SampleStdDev())}
    named |= {**counts, "values": ("v", CountValues())}
    names = chance.sample([*named], chance.choice([1, 2, len(named)]))
    return Count() if chance.random() < 0.1 else Product({name: named[name] for name in names})


@pytest.mark.parametrize("nulls", ["raise", "skip"])
@pytest.mark.parametrize("kind", COLUMNS)
def test_a_key_has_the_results_that_it_has_among_others(nulls: Any, kind: str) -> None:
    """Of the same types, for any choice of aggregations and frames, late or not."""
    chance, values = random.Random(f"{kind} {nulls}"), COLUMNS[kind][1]
    for _ in range(12):
        monoid, late, store = drawn(chance, kind), chance.choice([None, 100]), MemoryStore()
        frames: Any = {"few": CountWindow(3), "minute": TimeWindow(60), "all": TimeWindow(10_000)}
        timed = late is not None or chance.random() < 0.7
        settings: dict[str, Any] = {"allowed_lateness": late, "nulls": nulls, "page_bytes": 200}
        cards = KeyedWindows(
            monoid, frames if timed else {"few": CountWindow(3)}, store, name="cards", **settings
        )
        cards.publish("cards")
        keys, clock = [f"card {number}" for number in range(6)], 0
        for _ in range(4):
            count, are_null = chance.randrange(1, 30), nulls == "skip" and chance.random() < 0.7
            times = [clock + chance.randrange(50) for _ in range(count)]
            clock += 50
            column = chance.choices([*values, None] if are_null else values, k=count)
            given: Any = {"v": column} if isinstance(monoid, Product) else range(count)
            order = times if late else sorted(times)
            events = [chance.choice(keys) for _ in range(count)]
            cards.extend(events, given, order if timed else None, emit="last")
            cards.checkpoint()
        features = open_published(store, "cards")
        for at in (None, clock, clock + 61, clock + 20_000) if timed else (None,):
            found = features.query([*keys, "unknown"], at=at)
            columns = found if isinstance(found, dict) else {"": found}
            for row, key in enumerate([*keys, "unknown"]):
                one = features.query(key, at=at)
                for name, result in (one if isinstance(one, dict) else {"": one}).items():
                    expected = result_of(columns[name], row)
                    assert type(result) is type(expected), name
                    if type(expected) is float:
                        expected = pytest.approx(expected, nan_ok=True)
                    assert result == expected, name


def many_keys() -> tuple[CountingStore, int]:
    """A server with 20,000 published keys, and the levels of their index."""
    store = CountingStore(Server())
    windows = KeyedWindows(Sum("int64"), CountWindow(5), store, name="many", page_bytes=64)
    windows.publish("many")
    windows.extend(range(20000), range(20000), emit="last")
    windows.checkpoint()
    (height,) = {run.height for run in windows.bucket.tree.runs}
    return store, height


def test_a_reader_never_writes() -> None:
    store = CountingStore(MemoryStore())
    windows = KeyedWindows(
        aggregations(), WINDOWS, store, name="cards", page_bytes=256, promote_at=4
    )
    windows.publish("features")
    windows.extend(["a", "b"] * 50, {"v": range(100)}, range(100), emit="last")
    windows.checkpoint()
    store.reset()
    with open_published(store, "features", refresh=0) as features:
        features.query(["a", "b", "c"])
        features.query("a", at=120)
        features.events("a")
        features.status()
        features.refresh()
        with pytest.raises(UnsupportedOperation, match="opened only for reading"):
            features.pages.put_many({"a/b": b"c"})
    counts = store.reset()
    assert counts.put.calls == counts.delete.calls == counts.flush.calls == 0
    assert counts.get.calls > 5


def test_a_stale_reader_takes_the_newest_snapshot_and_asks_again_once() -> None:
    store = MemoryStore()
    windows = KeyedWindows(Sum("int64"), CountWindow(3), store, name="stale", page_bytes=64)
    windows.publish("stale")

    def write(value: int) -> None:
        windows.extend(range(3000), [value] * 3000, emit="last")
        windows.checkpoint()

    write(1)
    features = open_published(store, "stale", refresh=None)
    assert features.query(5) == 1
    for _ in range(windows._kind.settings.retain):
        write(1)
    assert features.query(7) == 1  # its snapshot is still whole, and is not refreshed
    for _ in range(4):
        write(1)
    assert features.query(9) == 3 and features.status().batch == 7
    for key in list(store.keys("stale/")):
        store.delete_many([key])
    with pytest.raises(LookupError, match="is not in memory"):
        features.query(11)


def test_readers_follow_what_is_published_and_notice_that_it_ends() -> None:
    store = MemoryStore()
    windows = KeyedWindows(Sum("int64"), CountWindow(3), store, name="followed")
    with pytest.raises(NotPublished, match="nothing is published as 'followed'"):
        open_published(store, "followed")
    windows.publish("followed")
    windows.extend(["a"], [1])
    windows.checkpoint()
    features = open_published(store, "followed", refresh="1 hour")
    windows.extend(["a"], [2])
    windows.checkpoint()
    assert features.query("a") == 1 and features.refresh() and features.query("a") == 3
    assert not features.refresh()
    assert published_names(store) == ["followed"]
    windows.unpublish()
    assert published_names(store) == [] and not list(store.keys("publish:"))
    with pytest.raises(NotPublished):
        features.refresh()
    windows.checkpoint()
    assert published_names(store) == [] and unpublish(store, "followed") == 0


def test_windows_that_are_changed_are_read_as_they_are_now() -> None:
    store = MemoryStore()
    windows = KeyedWindows(aggregations(), {"five": CountWindow(5)}, store, name="changed")
    windows.publish("changed")
    windows.extend(["a"] * 5, {"v": range(5)})
    snapshot = windows.checkpoint()
    features = open_published(store, "changed", refresh=0)
    wider = Product(aggregations().aggregations | {"mean": ("v", Mean())})
    windows = KeyedWindows.restore(
        snapshot, store, aggregations=wider, window={"two": CountWindow(2)}
    )
    windows.publish("changed")
    windows.checkpoint()
    assert features.query("a") == {"peak_two": 4, "total_two": 7, "events_two": 2, "mean_two": 3.5}
    assert features.status().columns == ("peak_two", "total_two", "events_two", "mean_two")


def test_what_cannot_be_published_is_refused() -> None:
    with pytest.raises(NotPageable, match="only in memory"):
        KeyedWindows(Max(), CountWindow(3), None).publish("a")
    store = MemoryStore()
    windows = Window(Max(), CountWindow(3), store, name="first")
    for name in ("", "a/b", "x" * 61, "ö"):
        with pytest.raises(ValueError, match="a published name is"):
            windows.publish(name)
    windows.publish("a")
    windows.checkpoint()
    with pytest.raises(ValueError, match="'first' publishes under the name"):
        Window(Max(), CountWindow(3), store, name="second").publish("a")


def test_many_threads_read_while_one_publishes() -> None:
    store = MemoryStore()
    windows = KeyedWindows(
        Product({"first": ("a", Sum("int64")), "other": ("b", Sum("int64"))}),
        CountWindow(4), store, name="threads", page_bytes=64,
    )  # fmt: skip
    windows.publish("threads")
    keys = list(range(500))

    def publish(batch: int) -> None:
        windows.extend(keys, {"a": [batch] * 500, "b": [-batch] * 500}, emit="last")
        windows.checkpoint()

    publish(0)
    features, done, errors = open_published(store, "threads", refresh=0), threading.Event(), []

    def read(seed: int) -> None:
        chance = random.Random(seed)
        try:
            while not done.is_set():
                asked = chance.sample(keys, 20)
                found = features.query(asked)
                # All keys of one call are as of one batch.
                assert len(set(found["first"].tolist())) == 1
                assert (found["first"] == -found["other"]).all()
                features.status()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for batch in range(1, 10):
        publish(batch)
    done.set()
    for thread in threads:
        thread.join()
    assert not errors
    assert features.query(3)["first"] == 9 + 8 + 7 + 6
