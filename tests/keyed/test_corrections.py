"""Corrections in keyed windows beside plain lists: what replaces, joins, and is taken out."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import pytest

from mta import CountWindow, KeyedWindows, Max, Mean, Monoid, Product, Sum, TimeWindow, Window
from mta.algorithms import FiBA
from mta.errors import InvalidValue, LateEvent, NoSuchEvent, UnsuitableMonoid, UnsupportedOperation
from mta.keyed.bucket import KeyedBatch
from mta.keyed.keys import read_keys
from mta.keyed.work import Found
from stores import MemoryStore
from tests.support.counted import hash_of, rolling_hash
from tests.support.key_by_key import KeyByKey
from tests.support.naive import window_of

SECOND = 10**6
pytestmark = pytest.mark.usefixtures("tiny")


FRAMES: dict[str, Any] = {
    "time": TimeWindow(20), "short": TimeWindow(3), "count": CountWindow(4), "one": CountWindow(1),
    "before": TimeWindow(20, closed="left"), "delayed": TimeWindow(9, delay=6),
    "excluding": CountWindow(3, exclude_current=True),
}  # fmt: skip


def by_count(frame: Any) -> bool:
    return isinstance(frame, CountWindow)


PLAIN = Monoid("", lambda a, b: a + b, lift=chr, name="letters")
SUMMARY = KeyByKey("", lambda a, b: a + b, "letters", chr)
JOINING = Monoid("", lambda a, b: a + b, name="texts")


@dataclass
class Listed:
    """One key's events in order of time, as texts."""

    existing: str
    events: list[tuple[float, str]] = field(default_factory=list)
    newest: float | None = None
    retracted: int = 0

    def copy(self) -> Listed:
        return Listed(self.existing, list(self.events), self.newest, self.retracted)

    def place(self, time: float) -> int:
        return bisect_right(self.events, time, key=lambda event: event[0])

    def add(self, time: float, value: str) -> int:
        """Take an event in; where it stands then."""
        at = self.place(time)
        if self.existing != "append" and at and self.events[at - 1][0] == time:
            at -= 1
            older = self.events[at][1]
            self.events[at] = (time, older + value if self.existing == "combine" else value)
        else:
            self.events.insert(at, (time, value))
        self.newest = time if self.newest is None else max(self.newest, time)
        return at

    def retract(self, time: float) -> None:
        at = self.place(time) - 1
        assert self.events[at][0] == time
        del self.events[at]
        self.retracted += 1

    def result(self, frame: Any, stop: int, now: float) -> set[str]:
        """What the window up to a place may hold; windows by count may lack what was taken out."""
        events = self.events[:stop]
        held = window_of(frame, [time for time, _ in events], now)
        short = min(self.retracted if by_count(frame) else 0, stop - held.start)
        return {
            "".join(value for _, value in events[start : held.stop])
            for start in range(held.start, held.start + short + 1)
        }

    def now(self, frame: Any) -> set[str]:
        assert self.newest is not None
        return self.result(frame, len(self.events), self.newest)

    def retractable(self, frame: Any, lateness: float) -> list[float]:
        """Times of events that are surely kept."""
        if self.newest is None:
            return []
        front = window_of(frame, [time for time, _ in self.events], self.newest).start
        front += self.retracted if by_count(frame) else 0
        kept = [time for time, _ in self.events[front:]]
        return kept + [t for t, _ in self.events if t > self.newest - lateness]


class Life:
    """Random batches with corrections into keyed windows and lists."""

    def __init__(self, seed: str, names: list[str], existing: str, vectorized: bool) -> None:
        self.random = random = Random(seed)
        self.frames = {name: FRAMES[name] for name in names}
        self.existing, self.vectorized = existing, vectorized
        self.lateness = random.choice([0, 5, 30])
        self.keys = random.choice([1, 3, 12])
        self.monoid: Any = SUMMARY
        if existing == "combine":
            self.monoid = JOINING
        elif vectorized:
            self.monoid = random.choice([PLAIN, rolling_hash()])
        self.store: MemoryStore | None = random.choice([None, MemoryStore(), MemoryStore()])
        self.frame: Any = self.frames if len(names) > 1 else FRAMES[names[0]]
        self.settings: dict[str, Any] = {
            "allowed_lateness": self.lateness, "on_duplicate": existing, "on_late": "drop",
            "on_missing": "drop", "promote_at": random.choice([3, 1000]),
            "page_bytes": random.choice([1, 16384]), "cache_bytes": 1, "arity": 2,
            "leaf_arity": random.choice([2, 4]),
        }  # fmt: skip
        self.windows = KeyedWindows(self.monoid, self.frame, self.store, "w", **self.settings)
        self.lists: dict[int, Listed] = {}
        self.saved: list[tuple[bytes, dict[int, Listed]]] = []
        self.now, self.letters = 1000.0, 0

    def value(self, letter: str) -> Any:
        return letter if self.monoid is JOINING else ord(letter)

    def shown(self, texts: set[str]) -> set[Any]:
        if self.monoid in (PLAIN, SUMMARY, JOINING):
            return texts
        return {hash_of(text)[0] if text else 0 for text in texts}

    def draw(self) -> list[tuple[int, float, str, bool]]:
        """Rows of a batch: key, time, value, and whether they retract."""
        random, rows, planned = self.random, [], list[tuple[int, float]]()
        for _ in range(random.choice([1, 2, 8, 40])):
            key = random.randrange(self.keys)
            listed = self.lists.get(key)
            what = random.random()
            if what < 0.3 and listed and (times := listed.retractable(self.some, self.lateness)):
                rows.append((key, random.choice([*times, times[-1]]), "-", True))
            elif what < 0.35:
                rows.append((key, self.now + 0.5 - random.randrange(20), "-", True))
            elif what < 0.45 and planned:
                rows.append((*random.choice(planned), "-", True))  # of this batch
            else:
                self.now += random.choice([0, 0, 0, 1, 4])
                late = random.choice([0, 0, 0, 1, 3, 12])
                self.letters += 1  # each has one of its own
                rows.append((key, self.now - late, chr(0x4E00 + self.letters), False))
                planned.append(rows[-1][:2])
        return rows

    @property
    def some(self) -> Any:
        """A frame that keeps few events: the shortest by count, or else by time."""
        return min(self.frames.values(), key=lambda frame: frame.size)

    def step(self) -> None:  # noqa: C901
        """A batch into both."""
        rows = self.draw()
        before = {key: listed.copy() for key, listed in self.lists.items()}
        expected: dict[int, list[set[str]] | None] = {}
        floors = {k: self.floor(k, self.lists) for k, *_ in rows}
        for at in sorted(range(len(rows)), key=lambda at: rows[at][1]):
            key, time, value, retracts = rows[at]
            listed = self.lists.get(key) or Listed(self.existing)
            if retracts:
                if any(t == time for t, _ in listed.events):
                    listed.retract(time)
                    expected[at] = None
                continue
            floor = floors[key]
            if floor is not None and time < floor:
                continue
            self.lists[key] = listed
            place = listed.add(time, value)
            expected[at] = [listed.result(frame, place + 1, time) for frame in self.frames.values()]
        if not self.sure(rows, before):
            self.lists = before  # what has left may be meant: a list cannot say
            return
        names = [f"key-{row[0]}" for row in rows]
        values = [self.value("z" if row[3] else row[2]) for row in rows]
        marks = np.array([row[3] for row in rows])
        times = np.array([round(row[1] * SECOND) for row in rows], "M8[us]")
        if self.random.random() < 0.2:
            found = self.windows.extend(names, values, times, "last", retracts=marks)
            touched = {names[at] for at in expected}
            assert set(found.keys.tolist()) == touched
            for at, name in enumerate(found.keys.tolist()):
                self.compare(self.lists[int(name[4:])], [
                    self.part(found.results, name)[at] for name in self.frames
                ])  # fmt: skip
        elif len(self.frames) == 1 and self.random.random() < 0.4:
            floors = {key: self.floor(key, before) for key in before}
            self.changed(names, values, times, marks, expected, before, floors)
        else:
            found = self.windows.extend(names, values, times, retracts=marks)
            accepted = self.windows.last_accepted
            got = sorted(expected) if accepted is None else np.flatnonzero(accepted).tolist()
            assert got == sorted(expected)
            order = [at for at in sorted(expected) if expected[at] is not None]
            for number, at in enumerate(order):
                for name, texts in zip(self.frames, expected[at] or (), strict=True):
                    assert self.part(found, name)[number] in self.shown(texts), (at, rows[at])

    def sure(self, rows: list[Any], before: dict[int, Listed]) -> bool:
        """Whether no retraction is of an event that some windows may have evicted."""
        for key, time, _, retracts in rows:
            listed = before.get(key)
            if not retracts or listed is None:
                continue
            kept = listed.retractable(self.some, self.lateness)
            there = sum(t == time for t, _ in listed.events)
            wanted = sum(r[:2] == (key, time) and r[3] for r in rows)
            if there and (not kept or time < min(kept) or (wanted > 1 and there > 1)):
                return False
            if by_count(self.some) and self.lateness == 0 and there:
                return wanted == 1 and there == 1
        return True

    def floor(self, key: int, lists: dict[int, Listed]) -> float | None:
        listed = lists.get(key)
        return None if listed is None or listed.newest is None else listed.newest - self.lateness

    def part(self, found: Any, name: str) -> Any:
        return found if len(self.frames) == 1 else found[name]

    def compare(self, listed: Listed, found: list[Any]) -> None:
        for frame, result in zip(self.frames.values(), found, strict=True):
            assert result in self.shown(listed.now(frame))

    def changed(
        self,
        names: list[str],
        values: list[Any],
        times: Any,
        marks: Any,
        expected: Any,
        before: dict[int, Listed],
        floors: dict[int, float | None],
    ) -> None:
        """All that a batch changes: as Spark asks for, with corrections."""
        (frame,) = self.frames.values()
        keys, codes = read_keys(names, self.windows.bucket.key_kind)
        rows, _ = self.windows.reader.monoid.rows(values, len(names))
        batch = KeyedBatch(keys, codes, rows, times.view("i8"), None, retracts=marks)
        done = self.windows.bucket.advance(batch, "changed")
        found: Found = done.found
        if not len(found):
            assert all(texts is None for texts in expected.values())
            return
        assert found.times is not None
        seen: dict[int, dict[float, list[Any]]] = {}
        results = self.monoid.results(found.outputs[0])
        own, stored = {}, set[tuple[int, float, Any]]()
        for number in range(len(found)):
            key = int(done.keys.at(int(found.of[number]))[4:])
            time, at = float(found.times[number]) / SECOND, int(found.at[number])
            if at >= 0:
                own[int(done.line[at])] = results[number]
            else:
                stored.add((key, time, results[number]))
            seen.setdefault(key, {}).setdefault(time, []).append(results[number])
        assert sorted(own) == [at for at in sorted(expected) if expected[at] is not None]
        for at, result in own.items():
            assert result in self.shown(expected[at][0])
        there = Counter((key, time) for key, old in before.items() for time, _ in old.events)
        assert Counter(each[:2] for each in stored) <= there, "new events have a second result"
        if by_count(frame):
            return  # results may be short, before and after
        for key, listed in self.lists.items():
            old = before.get(key, Listed(self.existing))
            previous = {event: place for place, event in enumerate(old.events)}
            for place, event in enumerate(listed.events):
                now, floor = listed.result(frame, place + 1, event[0]), floors.get(key)
                if floor is not None and event[0] < floor:
                    continue  # its window has lost events
                if event in previous and old.result(frame, previous[event] + 1, event[0]) == now:
                    continue
                held = seen.get(key, {}).get(event[0], [])
                assert any(result in self.shown(now) for result in held), (key, event)

    def go_on(self) -> None:
        """Save a snapshot, or go back to one of the last two."""
        if self.store is None:
            return
        copies = {key: listed.copy() for key, listed in self.lists.items()}
        self.saved.append((self.windows.checkpoint(), copies))
        if self.random.random() < 0.5:
            back = self.random.choice([1, 1, 2])
            snapshot, lists = self.saved[-back:][0]
            del self.saved[len(self.saved) - back + 1 :]
            self.lists = {key: listed.copy() for key, listed in lists.items()}
            self.windows = KeyedWindows.restore(
                snapshot, self.store, aggregations=self.monoid, window=self.frame, **self.settings
            )

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
            found = self.windows.query([f"key-{key}" for key in self.lists])
            for at, (key, listed) in enumerate(self.lists.items()):
                self.compare(listed, [self.part(found, name)[at] for name in self.frames])
                if not at:
                    one = self.windows.query(f"key-{key}")
                    self.compare(listed, [self.part(one, name) for name in self.frames])
            if self.random.random() < 0.4:
                self.windows.check()
            if self.random.random() < 0.5:
                self.go_on()
        assert self.windows.stats().vectorized == self.vectorized


SETS = [
    ["time"], ["short"], ["count"], ["one"], ["time", "count"], ["short", "one", "time"],
    ["before"], ["delayed"], ["excluding"], ["short", "before", "excluding"],
]  # fmt: skip


WAYS = [("append", True), ("replace", True), ("append", False), ("replace", False),
        ("combine", True)]  # fmt: skip


@pytest.mark.sample
@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize(("existing", "vectorized"), WAYS)
@pytest.mark.parametrize("names", SETS, ids="-".join)
def test_keyed_windows_are_lists(
    names: list[str], existing: str, vectorized: bool, seed: int
) -> None:
    Life(f"{seed} {names} {existing} {vectorized}", names, existing, vectorized).run(10)


@pytest.mark.parametrize("named", [False, True], ids=["one", "product"])
def test_values_join_by_columns(named: bool) -> None:
    """Events of one minute are one, of each key, as in a window of its own."""
    random = Random(5)
    monoid: Any = Product({"peak": ("x", Max()), "sum": ("y", Sum("int64"))})
    monoid = monoid if named else Sum("int64")
    settings: dict[str, Any] = {
        "allowed_lateness": 120,
        "on_duplicate": "combine",
        "on_late": "drop",
    }
    windows = KeyedWindows(monoid, TimeWindow("3 minutes"), MemoryStore(), promote_at=9, **settings)
    single = [
        Window(monoid, TimeWindow("3 minutes"), None, aggregator=FiBA, **settings) for _ in range(4)
    ]
    now = 0
    for _ in range(30):
        keys = np.array([random.randrange(4) for _ in range(25)])
        now += random.choice([5, 60])
        times = np.array([(now + random.randrange(60) - 60) // 60 * 60 for _ in keys])
        numbers = np.array([random.randrange(100) for _ in keys])
        given: Any = {"x": numbers.astype(float), "y": numbers} if named else numbers
        found = windows.extend(keys, given, times)
        accepted = windows.last_accepted
        for key, window in enumerate(single):
            mine = keys == key
            part = {name: column[mine] for name, column in given.items()} if named else given[mine]
            own = window.extend(part, times[mine])
            taken = mine if accepted is None else mine[accepted]
            for name in ("peak", "sum") if named else ("",):
                one, other = (own[name], found[name]) if named else (own, found)
                assert one.tolist() == other[taken].tolist()
            assert windows.query(key) == window.query()
        windows.checkpoint()
    windows.check()
    assert windows.stats().vectorized


def test_what_is_refused() -> None:
    windows = KeyedWindows(Sum(), CountWindow(3), "memory://", "r", allowed_lateness=60)
    windows.extend(["a", "a", "b"], [1.0, 2.0, 4.0], [0, 10, 10])
    snapshot = windows.checkpoint()
    with pytest.raises(NoSuchEvent, match=r"1 of 2 .* index 1: key 'b', time 1970-01-01T00:00:05"):
        windows.extend(["a", "b"], [0, 0], [0, 5], retracts=[True, True])
    with pytest.raises(NoSuchEvent, match="key 'c'"):
        windows.retract("c", 10)
    assert windows.checkpoint() == snapshot
    windows.extend(["a", "b", "a"], [np.nan, 8.0, 5.0], [10, 20, 10], retracts=[True, False, False])
    assert windows.query(["a", "b"]).tolist() == [6.0, 12.0]
    with pytest.raises(InvalidValue, match="a column of 1 booleans"):
        windows.extend(["a"], [1.0], [20], retracts=[1])
    with pytest.raises(UnsupportedOperation, match="set allowed_lateness"):
        KeyedWindows(Sum(), TimeWindow(3), None).retract("a", 10)
    with pytest.raises(ValueError, match="on_duplicate is "):
        KeyedWindows(Sum(), TimeWindow(3), None, on_duplicate="join")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="on_missing is "):
        KeyedWindows(Sum(), TimeWindow(3), None, on_missing="no")  # type: ignore[arg-type]
    with pytest.raises(UnsuitableMonoid):
        KeyedWindows(Mean(), TimeWindow(3), None, allowed_lateness=1, on_duplicate="combine")


def test_the_newest_goes_and_comes_again() -> None:
    """A key whose newest event goes stays where it was, until something as new has come."""
    windows = KeyedWindows(Sum(), TimeWindow(10), MemoryStore(), "n", allowed_lateness=3)
    windows.extend(["a", "a", "b"], [1.0, 2.0, 4.0], [0, 9, 9])
    windows.retract("a", 9)
    assert (windows.query("a"), windows.stats().standalone) == (1.0, 1)
    with pytest.raises(LateEvent):
        windows.extend(["a"], [1.0], [5])
    for _ in range(2):
        windows = KeyedWindows.restore(windows.checkpoint(), windows.store)
    with pytest.raises(LateEvent):
        windows.extend(["a"], [1.0], [5])
    windows.extend(["a"], [8.0], [9])
    assert (windows.query("a"), windows.stats().standalone) == (9.0, 0)
    windows.retract("b", 9)
    assert windows.query("b") == 0.0 and "b" in windows
    assert windows.expire(before=30).tolist() in (["a", "b"], ["b", "a"])
    windows.check()


def test_a_key_that_is_standalone_again_keeps_the_pages_that_it_had_before() -> None:
    """They have the content of those that it left, which are deleted a few snapshots later."""
    store, settings = MemoryStore(), {"allowed_lateness": 60, "leaf_arity": 2, "arity": 2}
    windows = KeyedWindows(Sum(), TimeWindow(1000), store, **settings)
    windows.extend(["a"] * 8, [1.0] * 8, range(8))
    for newest, later in ((7, 9), (9, 11), (11, 13)):
        windows.retract("a", newest)
        windows = windows.restore_like(windows.checkpoint())
        assert windows.stats().standalone == 1
        if later < 13:
            windows.extend(["a"], [1.0], [later])
            windows = windows.restore_like(windows.checkpoint())
            assert windows.stats().standalone == 0
    for moment in range(4):
        windows.extend(["b"], [1.0], [moment])
        windows = windows.restore_like(windows.checkpoint())
        windows.check()
        assert windows.query("a") == 7.0


def test_a_retraction_changes_no_result_of_events_that_have_left() -> None:
    """Their windows are not known: here, the only event of each has left."""
    settings: dict[str, Any] = {"allowed_lateness": 0, "on_missing": "drop"}
    windows = KeyedWindows(JOINING, CountWindow(1), MemoryStore(), **settings)
    times = np.array([0, 1, 1, 1, 1, 2], "M8[s]")
    keys, codes = read_keys(["a"] * 6, windows.bucket.key_kind)
    rows, _ = windows.reader.monoid.rows([*"vwxy-z"], 6)
    marks = np.array([False, False, False, False, True, False])
    moments = times.astype("M8[us]").view("i8")
    done = windows.bucket.advance(
        KeyedBatch(keys, codes, rows, moments, None, retracts=marks), "changed"
    )
    assert list(JOINING.results(done.found.outputs[0])) == [*"vwxyz"]
    assert windows.query("a") == "z"
