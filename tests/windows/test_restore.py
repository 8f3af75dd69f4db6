"""A snapshot and its store are enough to restore windows of every kind."""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
import pytest
import xxhash

from mta import (
    CalendarWindow,
    CountWindow,
    EveryCount,
    EveryPeriod,
    KeyedWindows,
    Max,
    Mean,
    Monoid,
    OnDemand,
    Product,
    SessionWindow,
    SharedWindows,
    SlicedWindow,
    Sum,
    TimeWindow,
    TriggeredWindow,
    Window,
)
from mta.algorithms import (
    AmortizedMTA,
    FiBA,
    LogMTA,
    PagedFlatFAT,
    PagedReactiveAggregator,
    SteadyMTA,
)
from mta.errors import CorruptSnapshot, LateEvent, SnapshotMismatch
from mta.frames import CustomFrame, DeltaWindow, PunctuationWindow
from mta.monoids.catalogue import NAMES, named
from stores import MemoryStore

COUNT = 60
VALUES = [float(7 * i % 23) for i in range(COUNT)]
TIMES = [60.0 * i + 900 * (i // 20) for i in range(COUNT)]
FRAMES = [
    CountWindow(7), CountWindow(7, delay=2), TimeWindow("10 minutes"),
    TimeWindow("10 minutes", closed="left", delay=30), SessionWindow("10 minutes"),
    CalendarWindow("1 month"), CalendarWindow.to_date("day", zone="Europe/Berlin"), DeltaWindow(12),
    PunctuationWindow(last=2, dtype="f8"), CountWindow(9) | TimeWindow("5 minutes"),
    CountWindow(9) & SessionWindow("10 minutes"),
]  # fmt: skip
SETTINGS: list[dict[str, Any]] = [
    {"nulls": "skip", "min_samples": 2},
    {"on_late": "drop", "allowed_lateness": "1 minute", "on_duplicate": "replace"},
    {"retain_for": "1 hour", "max_ahead": "5 minutes", "on_ahead": "drop"},
    {"arity": 3, "leaf_arity": 4, "retain": 5},
]


def same(one: Any, other: Any) -> bool:
    """Whether two windows continue with the same results."""
    later = TIMES[-1] + 30
    for at, value in enumerate((3.0, 25.0, -1.0)):
        for each in (one, other):
            each.insert(value, later + 60 * at)
        if repr(one.query()) != repr(other.query()):
            return False
    return True


@pytest.mark.parametrize("frame", FRAMES, ids=repr)
def test_every_frame(frame: Any) -> None:
    store = MemoryStore()
    window = Window(Max(), frame, store, "one")
    window.extend(VALUES, TIMES)
    again = Window.restore(window.checkpoint(), store)
    assert repr(again.frame) == repr(frame) and again.name == "one"
    assert same(again, window)
    shared = SharedWindows(Max(), {"a": frame, "b": CountWindow(3)}, store, "two")
    shared.extend(VALUES, TIMES)
    both = SharedWindows.restore(shared.checkpoint(), store)
    assert repr(both.windows) == repr(shared.windows)
    assert same(both, shared)


@pytest.mark.parametrize("frame", FRAMES, ids=repr)
def test_every_frame_of_keys(frame: Any) -> None:
    store = MemoryStore()
    for window in (frame, {"a": frame, "b": CountWindow(3)}):
        keyed = KeyedWindows(Max(), window, store, "keys", timed=True, promote_at=4)
        keyed.extend(["x", "y"] * (COUNT // 2), VALUES, TIMES)
        again = KeyedWindows.restore(keyed.checkpoint(), store)
        assert repr(again.frame) == repr(window)
        for each in (keyed, again):
            each.extend(["x", "y", "x"], [1.0, 2.0, 3.0], [TIMES[-1] + 60 * n for n in range(3)])
        assert repr(again.query(["x", "y"])) == repr(keyed.query(["x", "y"]))
        assert again.query("x") is not None


#: An argument for each aggregation that needs one.
ARGUMENTS = {
    **dict.fromkeys(["lag", "nth_value", "nth", "top_k", "largest", "nlargest", "bottom_k",
                     "smallest", "nsmallest"], "(2)"),
    **dict.fromkeys(["quantile", "percentile", "quantile_cont", "percentile_cont",
                     "quantile_disc", "percentile_disc"], "(0.9)"),
    "decayed_sum": "('1 hour')", "decayed_mean": "('1 hour')", "bloom_filter": "(100)",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_aggregation(name: str) -> None:
    """By its name, in any case."""
    pytest.importorskip("datasketches")
    store, arguments = MemoryStore(), ARGUMENTS.get(name, "")
    window = Window(named(name + arguments), CountWindow(5), store)
    assert named(name.upper() + arguments).fingerprint == window.monoid.fingerprint
    again = Window.restore(window.checkpoint(), store)
    assert again.monoid.fingerprint == window.monoid.fingerprint
    assert again.monoid.name == window.monoid.name


def test_filters_and_columns() -> None:
    store = MemoryStore()
    product = Product({
        "peak": ("watts", Max("int64")), "mean": ("watts", "mean", "on"), "n": "count",
        "by": (["watts", "id"], "max_by"),
    })  # fmt: skip
    rows = {"watts": [3, 1, 2, 9], "on": [True, False, True, True], "id": [1.0, 2.0, 3.0, 4.0]}
    for kind, keys in ((Window, ()), (KeyedWindows, (["x"] * 4,))):
        windows: Any = kind(product, CountWindow(3), store, "columns", nulls="skip")
        windows.extend(*keys, rows)
        again: Any = kind.restore(windows.checkpoint(), store)
        more = {"watts": [5], "on": [True], "id": [9.0]}
        found = again.extend(*(["x"],) * len(keys), more)
        expected = windows.extend(*(["x"],) * len(keys), more)
        assert {n: v.tolist() for n, v in found.items()} == {
            n: v.tolist() for n, v in expected.items()
        }


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_settings(settings: dict[str, Any]) -> None:
    store, frame = MemoryStore(), TimeWindow("10 minutes")
    windows = [
        Window(Sum(), frame, store, "one", **settings),
        SharedWindows(Sum(), {"a": frame}, store, "two", **settings),
        KeyedWindows(Sum(), frame, store, "three", **settings),
    ]
    for each in windows:
        first: Any = type(each).restore(each.checkpoint(), store)
        again: Any = type(each).restore(first.checkpoint(), store)
        kind = again._kind if isinstance(again, KeyedWindows) else again.engine
        own = each._kind if isinstance(each, KeyedWindows) else each.engine
        given = set(settings) - {"arity", "leaf_arity"}
        assert {n: getattr(kind.settings, n) for n in given} == {
            n: getattr(own.settings, n) for n in given
        }
        recipes = [msgpack.unpackb(w.checkpoint()[:-16])[-1] for w in (each, first, again)]
        assert recipes[0] == recipes[1] == recipes[2]


def test_what_is_given_replaces_the_saved() -> None:
    store = MemoryStore()
    window = Window(Sum(), TimeWindow("1 hour"), store, on_late="drop", nulls="skip")
    window.extend([1.0, np.nan, 2.0], [0, 60, 1800])
    snapshot = window.checkpoint()
    shorter = Window.restore(snapshot, store, window=TimeWindow("1 minute"), on_late="raise")
    assert (shorter.query(), Window.restore(snapshot, store).query()) == (2.0, 3.0)
    with pytest.raises(LateEvent):
        shorter.insert(1.0, 1700)
    shorter.insert(np.nan, 1801)
    with pytest.raises(SnapshotMismatch, match="Sum"):
        Window.restore(snapshot, store, aggregations=Max())
    with pytest.raises(TypeError, match="takes no setting 'promote_at'"):
        Window.restore(snapshot, store, promote_at=5)
    with pytest.raises(ValueError, match="on_late is "):
        Window.restore(snapshot, store, on_late="never")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "aggregator", [AmortizedMTA, FiBA, LogMTA, PagedFlatFAT, PagedReactiveAggregator, SteadyMTA]
)
def test_every_aggregator(aggregator: Any) -> None:
    store = MemoryStore()
    window = Window(Mean(), CountWindow(7), store, aggregator=aggregator)
    window.extend(VALUES)
    again = Window.restore(window.checkpoint(), store)
    assert type(again.structure()) is aggregator
    assert again.query() == window.query()


TRIGGERS = [
    EveryCount(4), EveryPeriod("2 minutes"), OnDemand(),
    EveryPeriod("1 day", offset="9h30m", zone="America/New_York"),
]  # fmt: skip


@pytest.mark.parametrize("trigger", TRIGGERS, ids=repr)
def test_triggers(trigger: Any) -> None:
    store = MemoryStore()
    due = TriggeredWindow(Window(Sum(), TimeWindow("10 minutes"), store, nulls="skip"), trigger)
    due.extend(VALUES, TIMES)
    again = TriggeredWindow.restore(due.checkpoint(), store)
    assert again.trigger == trigger
    later = [TIMES[-1] + 50.0 * n for n in range(1, 30)]
    found, expected = again.extend(VALUES[:29], later), due.extend(VALUES[:29], later)
    assert found.moments.tolist() == expected.moments.tolist()
    assert found.results.tolist() == expected.results.tolist()
    with pytest.raises(SnapshotMismatch, match="trigger"):
        TriggeredWindow.restore(due.checkpoint(), store, trigger=EveryCount(99))


@pytest.mark.parametrize(
    ("frame", "slide"),
    [(CountWindow(12), 4), (TimeWindow("10 minutes"), 120), (TimeWindow("10 minutes"), None)],
)
def test_slices(frame: Any, slide: Any) -> None:
    store = MemoryStore()
    sliced = SlicedWindow(Mean(), frame, slide, store, nulls="skip")
    sliced.extend(VALUES, TIMES)
    again = SlicedWindow.restore(sliced.checkpoint(), store)
    assert (repr(again.frame), again.trigger) == (repr(frame), sliced.trigger)
    later = [TIMES[-1] + 50.0 * n for n in range(1, 30)]
    found, expected = again.extend(VALUES[:29], later), sliced.extend(VALUES[:29], later)
    assert found.results.tolist() == expected.results.tolist()
    with pytest.raises(SnapshotMismatch):
        SlicedWindow.restore(sliced.checkpoint(), store, slide=60 if slide != 4 else 6)


# --- functions of the user ------------------------------------------------------------------------


def joined() -> Monoid:
    return Monoid(identity="", combine=lambda a, b: a + b, name="joined")


def frame_of_mine() -> CustomFrame:
    return CustomFrame(lambda prefix, total: total - prefix >= 3, on=(None, Sum()), name="mine")


def test_functions_are_given_again() -> None:
    store = MemoryStore()
    window = Window(joined(), CountWindow(2), store)
    window.extend(["a", "b", "c"])
    snapshot = window.checkpoint()
    with pytest.raises(SnapshotMismatch, match=r"joined is made of functions.*aggregations="):
        Window.restore(snapshot, store)
    assert Window.restore(snapshot, store, aggregations=joined()).query() == "bc"

    own = Window(Sum(), frame_of_mine(), store)
    own.extend([1.0, 1.0, 2.0])
    with pytest.raises(SnapshotMismatch, match=r"made of functions.*window="):
        Window.restore(own.checkpoint(), store)
    assert Window.restore(own.checkpoint(), store, window=frame_of_mine()).query() == own.query()

    clocked = Window(Sum(), TimeWindow(60), store, max_ahead=5, clock=lambda: 100.0)
    with pytest.raises(SnapshotMismatch, match=r"clock= of yours.*restore\(\.\.\., clock="):
        Window.restore(clocked.checkpoint(), store)
    Window.restore(clocked.checkpoint(), store, clock=lambda: 200.0).insert(1.0, 150)

    mixed = KeyedWindows(Product({"j": ("t", joined()), "n": "count"}), CountWindow(2), store)
    mixed.extend(["k"], {"t": ["a"]})
    with pytest.raises(SnapshotMismatch, match=r"aggregations j are made of functions"):
        KeyedWindows.restore(mixed.checkpoint(), store)
    again = KeyedWindows.restore(mixed.checkpoint(), store, aggregations=mixed.monoid)
    assert again.query("k") == {"j": "a", "n": 1}


def test_an_aggregator_of_the_user_is_given_again() -> None:
    class Own(AmortizedMTA):
        """A class that no snapshot can name."""

    store = MemoryStore()
    window = Window(Sum(), CountWindow(2), store, aggregator=Own)
    window.extend(VALUES)
    with pytest.raises(SnapshotMismatch, match="aggregator= of yours"):
        Window.restore(window.checkpoint(), store)
    again = Window.restore(window.checkpoint(), store, aggregator=Own)
    assert (type(again.structure()), again.query()) == (Own, window.query())


# --- forged snapshots -----------------------------------------------------------------------------


def forged(snapshot: bytes, recipe: Any) -> bytes:
    """A snapshot with another recipe, and the right digest."""
    fields = msgpack.unpackb(snapshot[:-16])
    fields[-1] = recipe(fields[-1]) if callable(recipe) else recipe
    body = msgpack.packb(fields)
    return body + xxhash.xxh3_128_digest(body)


MAX = Max()
FORGED: list[Any] = [
    7, [], {}, [[], [], {}],
    [["Max", MAX.fingerprint, ["os.system", ["true"], {}], None], [["CountWindow", [3], {}]], {}],
    [["Max", MAX.fingerprint, ["Max", [{"recipe": 1}], {}], None], [["CountWindow", [3], {}]], {}],
    [["Max", MAX.fingerprint, ["CountWindow", [3], {}], None], [["CountWindow", [3], {}]], {}],
    [["Max", MAX.fingerprint, ["Max", [], {}], None], [["Max", [], {}]], {}],
    [["Max", MAX.fingerprint, ["Max", [], {}], None], [["CountWindow", ["x"], {}]], {}],
    [["Max", MAX.fingerprint, ["Max", [], {}], None], [], {}],
    [["Max", MAX.fingerprint, ["Max", [], {}], None], [["CountWindow", [3], {}]] * 2, {}],
    *[
        [["Max", MAX.fingerprint, ["Max", [], {}], None], [["CountWindow", [3], {}]], settings]
        for settings in (
            {"retain": 1}, {"retain": "x"}, {"nulls": 5}, {"unknown": 1}, {"__class__": 1},
            {"aggregator": "Popen"}, {"aggregator": {"type": "str"}}, {"max_ahead": {"us": -1}},
            {"retain_for": {"recipe": ["Max", [], {}]}}, {"clock": 5}, {"on_ahead": "drop"},
            {"allowed_lateness": {"list": []}},
        )
    ],
]  # fmt: skip


@pytest.mark.parametrize("recipe", FORGED, ids=str)
@pytest.mark.parametrize("kind", [Window, KeyedWindows])
def test_forged_recipes(kind: Any, recipe: Any) -> None:
    store = MemoryStore()
    windows = kind(Max(), CountWindow(3), store, "forged")
    windows.extend(*((["k"] * 4,) if kind is KeyedWindows else ()), [1.0, 5.0, 2.0, 3.0])
    with pytest.raises((CorruptSnapshot, SnapshotMismatch)):
        kind.restore(forged(windows.checkpoint(), recipe), store)


def test_the_window_of_one_key_has_no_recipe() -> None:
    keyed = KeyedWindows(Max(), CountWindow(3), MemoryStore(), promote_at=1)
    keyed.extend(["k"] * 3, [1.0, 5.0, 2.0])
    window = keyed.window("k")
    with pytest.raises(SnapshotMismatch, match=r"KeyedWindows\.restore"):
        Window.restore(window.checkpoint(), window.store or "memory://")
