"""Random lives of keyed windows beside plain lists, with other windows and aggregations over time.

Each key has two lists: all its events, and those that its windows held at each change. Results are
those of the second list. Where they differ from those of the first one, ``coverage`` says so, and
no longer than the second list calls for.
"""

from __future__ import annotations

import math
import random
import zlib
from bisect import bisect_right
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from mta import (
    ArgMax,
    Collect,
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
    Sum,
    TimeWindow,
)
from mta.aggregations import (
    CollectDistinct,
    ExactDistinctCount,
    FirstText,
    LastText,
    MaxText,
    MinText,
    Mode,
    MostFrequent,
    NthText,
)
from mta.audit.keyed import OpaqueKeys
from mta.errors import LateEvent
from mta.evaluators.coverage import Incomplete
from mta.frames.base import Both, Frame
from mta.keyed.repartitioning import repartition
from stores import MemoryStore
from tests.support.aggregations import by_frequency
from tests.support.key_by_key import KeyByKey
from tests.support.naive import pages_of, window_of

SECOND = 1_000_000


def shown(value: float) -> str:
    return f"{value:g};"


#: By alias: what it reads, the monoid, and what a plain list says of the values.
AGGREGATIONS: dict[str, tuple[Any, Callable[[], Any], Callable[[list[Any]], Any]]] = {
    "peak": ("a", Max, max), "low": ("b", Min, min), "mean": ("a", Mean, lambda v: sum(v) / len(v)),
    "total": ("b", Sum, sum), "n": (None, Count, len), "first": ("c", First, lambda v: v[0]),
    "last": ("b", Last, lambda v: v[-1]), "all": ("d", Collect, list),
    "where": (("a", "c"), ArgMax, lambda v: max(v, key=lambda pair: pair[0])[1]),
    "spread": ("c", SampleStdDev, lambda v: float(np.std(v, ddof=1)) if len(v) > 1 else np.nan),
    "letters": ("f", lambda: Monoid("", str.__add__, shown, name="letters"),
                lambda v: "".join(map(shown, v))),
    "least": ("e", MinText, min),
    "greatest": ("e", MaxText, max),
    "one": ("e", FirstText, lambda v: v[0]),
    "other": ("e", LastText, lambda v: v[-1]),
    "second": ("e", lambda: NthText(2), lambda v: v[1] if len(v) > 1 else None),
    "distinct": ("e", ExactDistinctCount, lambda v: len(set(v))),
    "mode": ("e", Mode, lambda v: by_frequency(v)[0][0]),
    "most": ("e", lambda: MostFrequent(2), lambda v: by_frequency(v)[:2]),
    "texts": ("e", Collect, list),
    "set": ("e", CollectDistinct, lambda v: list(dict.fromkeys(v))),
    "added": ("d", lambda: KeyByKey(0.0, lambda a, b: a + b, "added"), sum),
}  # fmt: skip
#: Values whose order and equality are those of Python.
OBJECTS: list[list[Any]] = [
    ["", "a", "b", "ba", "é", "z" * 40], [f"word {number}" for number in range(500)],
    [-7, 0, 3, 1 << 70], [b"", b"x", b"xy"], [(1, "a"), (1, "b"), (2, "")],
]  # fmt: skip
FRAMES: list[Callable[[], Frame]] = [
    lambda: CountWindow(1), lambda: CountWindow(3), lambda: CountWindow(9), lambda: CountWindow(20),
    lambda: TimeWindow(10), lambda: TimeWindow(40), lambda: TimeWindow(90),
    lambda: CountWindow(4) | TimeWindow(20), lambda: CountWindow(12) | TimeWindow(60),
    lambda: CountWindow(4) & TimeWindow(20),
    lambda: (CountWindow(2) | TimeWindow(5)) & TimeWindow(30), lambda: SessionWindow(2),
    lambda: SessionWindow(6), lambda: SessionWindow(9) | CountWindow(12),
    lambda: SessionWindow(4) & TimeWindow(15),
]  # fmt: skip


KINDS: dict[str, Callable[[int], Any]] = {
    "int": lambda number: number * 7919 - 9,
    "text": lambda number: f"key-{number}",
    "bytes": lambda number: b"k%d" % number,
    "tuple": lambda number: (number, f"x{number % 3}"),
}


def same(one: Any, other: Any) -> bool:
    """Whether two results are the same, but for what is rounded; a NaN equals a NaN."""
    one, other = (each.tolist() if hasattr(each, "tolist") else each for each in (one, other))
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9) or (one != one and other != other)
    return bool(one == other)


def parts(frame: Frame) -> list[Frame]:
    """The counts and times that a frame is made of."""
    return [*parts(frame.one), *parts(frame.other)] if isinstance(frame, Both) else [frame]


def by_count(frame: Frame) -> bool:
    return any(isinstance(part, CountWindow) for part in parts(frame))


@dataclass
class Event:
    """One of a key: when, in which order it came, its values, and which of these are stored."""

    time: int
    number: int
    values: dict[str, float | None]
    stored: set[str]


@dataclass
class Line:
    """What a list says of one key."""

    whole: list[Event] = field(default_factory=list)
    """All events that came and were not retracted."""
    kept: list[Event] = field(default_factory=list)
    """Those of them that windows held at each change."""
    alive: list[Event] = field(default_factory=list)
    """Those that came since the key was last expired."""
    clock: int | None = None
    """The time of its newest event, retracted or not; None of a key that is not known."""
    retracted: int = 0
    since: int = 0
    """How many of the retractions came since the last change."""
    lost: bool = False
    """Whether any event has left."""
    unsure: bool = False
    """Whether a window by count may have been short of what was retracted at a change."""

    def remove(self, event: Event) -> None:
        for events in (self.whole, self.kept, self.alive):
            if event in events:
                events.remove(event)
        self.retracted += 1
        self.since += 1


class Life:
    """Windows that are changed between batches, and what each of their keys has kept."""

    def __init__(self, seed: int) -> None:
        self.seed, self.rng = seed, random.Random(seed)
        rng = self.rng
        self.store = MemoryStore()
        self.lateness: int | None = rng.choice([None, 0, 0, 5, 30])
        self.promotes = rng.random() < 0.6
        self.nulls: str = rng.choice(["raise", "raise", "skip"])
        self.min_samples: int | None = None
        self.lines: dict[int, Line] = {}
        #: The previous latenesses, each up to a moment; the one that applied until now.
        self.less: list[tuple[int, int]] = []
        self.until_now: int | None = None
        self.expired: int | None = None
        #: Columns that some events may be without.
        self.partial: set[str] = set()
        self.now = self.number = self.changed = self.incomplete = 0
        #: What column ``e`` may have: text, or other objects of one type.
        self.texts: list[Any] = rng.choice(OBJECTS)
        self.key_of = KINDS[rng.choice(list(KINDS))]
        #: The last two snapshots of the same windows, and what the lists were.
        self.saved: list[tuple[bytes, Any]] = []
        #: Whether pages may be left over by a writer that was given up.
        self.strayed = False
        #: How many keys were standalone after each batch.
        self.standalone: list[int] = []
        self.choose()
        self.windows = self.started("w", self.store)

    def started(self, name: str, store: MemoryStore) -> KeyedWindows:
        return KeyedWindows(self.product, self.frames, store, name, **self.settings)

    @property
    def settings(self) -> dict[str, Any]:
        late = {"timed": True} if self.lateness is None else {"allowed_lateness": self.lateness}
        return {
            "promote_at": self.rng.choice([2, 6]) if self.promotes else 1000,
            "page_bytes": self.rng.choice([1, 16384]),
            "leaf_arity": self.rng.choice([2, 4]), "arity": 2,
            "on_late": "drop", "on_missing": "drop",
            "nulls": self.nulls, "min_samples": self.min_samples, **late,
        }  # fmt: skip

    @property
    def least(self) -> int:
        """The number of values below which a result is null."""
        return self.min_samples or int(self.nulls == "skip")

    def choose(self) -> None:
        """Some windows and aggregations, under aliases that may be new."""
        rng = self.rng
        self.min_samples = rng.choice([None, 2, 4]) if self.nulls == "skip" else None
        self.chosen = {
            name + rng.choice(["", "", "_renamed"]): name
            for name in rng.sample(list(AGGREGATIONS), rng.choice([1, 2, 4]))
        }
        pairs = {alias: AGGREGATIONS[name][:2] for alias, name in self.chosen.items()}
        self.product = Product({a: (columns, make()) for a, (columns, make) in pairs.items()})
        names = [""] if rng.random() < 0.5 else rng.sample(["x", "y", "z"], rng.choice([1, 2]))
        self.named = {name: rng.choice(FRAMES)() for name in names}
        self.frames: Any = self.named[""] if names == [""] else self.named

    # --- what is held -----------------------------------------------------------------------------

    def cutoff(self, line: Line) -> int | None:
        """The time before which a key takes nothing."""
        if line.clock is None:
            return self.expired
        found = max([line.clock - (self.lateness or 0)] + [
            min(line.clock, until) - lateness for lateness, until in self.less
        ])  # fmt: skip
        if self.until_now is not None:
            found = max(found, line.clock - self.until_now)
        born = line.alive[0].time if line.alive else line.clock
        if self.lateness and self.expired is not None and born >= self.expired:
            return max(found, self.expired)
        return found

    def needed(self, line: Line, events: list[Event]) -> int:
        """The first event of a list that a window needs, or may need for an event to come."""
        if line.clock is None or not events:
            return len(events)
        times = [event.time for event in events]
        frames = self.named.values()
        starts = [window_of(frame, times, line.clock).start for frame in frames]
        if self.lateness:
            cutoff = line.clock - self.lateness
            for lateness, until in self.less:
                cutoff = max(cutoff, min(line.clock, until) - lateness)
            if self.until_now is not None:
                cutoff = max(cutoff, line.clock - self.until_now)
            late = [*times[: bisect_right(times, cutoff)], cutoff]
            starts += [window_of(frame, late, cutoff).start for frame in frames]
        return min(starts)

    def change(self) -> None:
        """Go on from a snapshot under others."""
        rng, old = self.rng, dict(self.named)
        for line in self.lines.values():
            first = self.needed(line, line.kept)
            line.lost |= first > 0
            line.kept = line.kept[first:]
            line.unsure |= line.retracted > 0 and any(map(by_count, old.values()))
        snapshot, columns = self.checkpoint(), set(self.product.columns)
        before = {each.window for each in self.windows.coverage().incomplete}
        known = self.known()
        self.note_lateness()
        if rng.random() < 0.25:
            self.restore(snapshot)  # of the same windows and aggregations
            return
        self.choose()
        self.partial = set(self.product.columns) - (columns - self.partial)
        for line in self.lines.values():
            line.since = 0
            for event in line.kept:
                event.stored &= columns
        self.restore(snapshot)
        self.changed = self.number
        self.check_claims(old, before, known)
        if rng.random() < 0.5:
            self.windows = self.windows.restore_like(self.checkpoint())

    def checkpoint(self) -> bytes:
        """A snapshot, which names all pages that there are."""
        snapshot = self.windows.checkpoint()
        live = {*OpaqueKeys(snapshot, self.store).live_keys()}
        assert self.strayed or live == {*self.store.keys()}, self.seed
        lists = self.lines, self.less, self.until_now, self.expired
        self.saved = [*self.saved, (snapshot, deepcopy(lists))][-2:]
        return snapshot

    def go_back(self) -> None:
        """Go on from an earlier snapshot, and have all events since given up."""
        snapshot, lists = self.saved[0]
        self.saved, self.strayed = self.saved[:1], True
        self.lines, self.less, self.until_now, self.expired = deepcopy(lists)
        self.windows = self.windows.restore_like(snapshot)

    def note_lateness(self) -> None:
        """Another lateness, perhaps."""
        if self.lateness is None:
            return
        applied = self.lateness if self.until_now is None else min(self.lateness, self.until_now)
        self.lateness = self.rng.choice([self.lateness, 0, 5, 30, 80])
        self.until_now = applied if applied < self.lateness else None

    def restore(self, snapshot: bytes) -> None:
        how = self.rng.choice(["restore"] * 4 + ["take over", "repartition"])
        self.saved = []
        if how == "repartition":
            snapshot, self.strayed = self.repartitioned(snapshot), True
        if how == "take over":
            store, self.store, self.strayed = self.store, MemoryStore(), False
            self.windows = self.started("v" + str(self.rng.randrange(9)), self.store)
            self.windows.take_over(snapshot, store)
        else:
            self.windows = KeyedWindows.restore(
                snapshot, self.store, aggregations=self.product, window=self.frames, **self.settings
            )
        assert len(self.windows) == sum(line.clock is not None for line in self.lines.values())

    def repartitioned(self, snapshot: bytes) -> bytes:
        """The keys of a snapshot in two other ones, and these as one."""

        def nothing(window_snapshot: bytes) -> None:
            """The pages are there already."""

        two = repartition(
            {0: snapshot}, self.store, self.store, lambda _: [0, 1],
            lambda key: zlib.crc32(repr(key).encode()) % 2, nothing,
        )  # fmt: skip
        one = repartition(two, self.store, self.store, lambda _: [0], lambda _: 0, nothing)
        return one.get(0, snapshot)

    # --- what is claimed --------------------------------------------------------------------------

    def known(self) -> int:
        """How many events, older than any to come, each key has that misses some."""
        counts = []
        for line in self.lines.values():
            if line.clock is not None and line.lost:
                cutoff = self.cutoff_before_change(line)
                counts.append(sum(event.time <= cutoff for event in line.kept))
        if self.expired is not None:
            counts.append(0)
        return min(counts, default=0)

    def cutoff_before_change(self, line: Line) -> int:
        assert line.clock is not None
        if self.lateness is None:
            return line.clock
        late = self.lateness if self.until_now is None else min(self.lateness, self.until_now)
        found = [line.clock - late]
        return max(found + [min(line.clock, until) - less for less, until in self.less])

    def check_claims(self, old: dict[str, Frame], before: set[str], known: int) -> None:
        """No more is claimed to be incomplete than what has left can make so."""
        lost = [line for line in self.lines.values() if line.clock is not None and line.lost]
        moments = [min([line.clock or 0, *(e.time for e in line.kept[:1])]) for line in lost]
        moments += [] if self.expired is None else [self.expired]
        # Windows by count are short of what was retracted: a list tells at most what they held.
        unsure = any(line.unsure for line in self.lines.values())
        for each in self.windows.coverage().incomplete:
            frame, reads = self.named[each.window], AGGREGATIONS[self.chosen[each.aggregation]][0]
            names = {reads} if isinstance(reads, str) else set(reads or ())
            if names & self.partial:
                continue  # of a column that came later
            assert moments or unsure, (self.seed, each)
            if not moments:
                continue
            if type(frame) is TimeWindow:
                wider = [n for n, p in old.items() if type(p) is TimeWindow
                         and p.size >= frame.size and n not in before]  # fmt: skip
                assert not wider, (self.seed, each)
                assert each.complete_from is not None
                last = max(moments) + frame.size // SECOND
                assert unsure or each.complete_from <= np.datetime64(last, "s"), (
                    self.seed,
                    each,
                    last,
                )
            elif type(frame) is CountWindow:
                assert each.complete_after_events is not None
                assert unsure or each.complete_after_events <= frame.size - known, (
                    self.seed,
                    each,
                    known,
                )
            elif not any(isinstance(part, SessionWindow) for part in parts(frame)):
                assert (
                    each.complete_from is not None
                    or each.complete_after_events is not None
                    or each.complete_after_both is not None
                )

    def is_whole(self, found: Incomplete, line: Line, place: int, time: int) -> bool:
        """Whether a result at a place of all events of a key is claimed to be whole."""
        run = 0
        while run <= place and line.whole[place - run].number > self.changed:
            run += 1
        run -= line.since

        def come(moment: np.datetime64) -> bool:
            return bool(np.datetime64(time, "s") >= moment)

        return (
            (found.complete_from is not None and come(found.complete_from))
            or (found.complete_after_events is not None and run >= found.complete_after_events)
            or (
                found.complete_after_both is not None
                and come(found.complete_after_both[0])
                and run >= found.complete_after_both[1]
            )
        )

    # --- events -----------------------------------------------------------------------------------

    def batch(self) -> None:
        """Some events, whose results are what the lists say."""
        rng, rows = self.rng, []
        for _ in range(rng.choice([1, 7, 30])):
            self.now += rng.choice([0, 1, 5])
            key = rng.randrange(5)
            moment = self.now - (rng.choice([0, 3, 25, 70]) if self.lateness else 0)
            rows.append((key, moment))
        if self.lateness is not None:
            rows.sort(key=lambda row: row[1])  # late across batches alone
        share = 0.3 if self.nulls == "skip" else 0.0
        values: dict[str, list[Any]] = {
            c: [None if rng.random() < share else float(rng.randrange(50)) for _ in rows]
            for c in "abcdf"
        }
        values["e"] = [None if rng.random() < share else rng.choice(self.texts) for _ in rows]
        self.noted()
        cutoffs = {key: self.cutoff(line) for key, line in self.lines.items()}
        events, late = [], []
        for row, (key, moment) in enumerate(rows):
            self.number += 1
            of_row = {c: values[c][row] for c in values}
            events.append(Event(moment, self.number, of_row, set(self.product.columns)))
            cutoff = cutoffs.get(key, self.expired)
            late.append(cutoff is not None and moment < cutoff)
            if not late[-1]:
                self.take(self.lines.setdefault(key, Line()), events[-1])
        emit = rng.choice(["all"] * 4 + ["last"])
        keys = [self.key_of(key) for key, _ in rows]
        found = self.windows.extend(keys, values, [t for _, t in rows], emit=emit)
        accepted = self.windows.last_accepted
        taken = [i for i in range(len(rows)) if accepted is None or accepted[i]]
        assert taken == [i for i, is_late in enumerate(late) if not is_late], self.seed
        incomplete = {
            (each.window, each.aggregation): each for each in self.windows.coverage().incomplete
        }
        places = {keys[i]: (rows[i][0], i) for i in taken}
        if emit == "last":
            assert {*found.keys.tolist()} == places.keys()
            taken = [places[key][1] for key in found.keys.tolist()]
            found = found.results
        self.standalone.append(self.windows.stats().standalone)
        for row, i in enumerate(taken):
            line, event = self.lines[rows[i][0]], None if emit == "last" else events[i]
            for window in self.named:
                for alias in self.chosen:
                    got = found[f"{alias}_{window}" if window else alias][row]
                    self.compare(got, line, event, window, alias, incomplete)
        self.ask(rows[-1][0])

    def noted(self) -> None:
        """The first batch since the lateness has grown."""
        if self.until_now is not None:
            clocks = [line.clock for line in self.lines.values() if line.clock is not None]
            if clocks:
                self.less.append((self.until_now, max(clocks)))
            self.until_now = None

    def take(self, line: Line, event: Event) -> None:
        for events in (line.kept, line.whole, line.alive):
            times = [(each.time, each.number) for each in events]
            events.insert(bisect_right(times, (event.time, event.number)), event)
        line.clock = event.time if line.clock is None else max(line.clock, event.time)

    def ask(self, key: int) -> None:
        """A key's windows as they are now, and a copy of them."""
        line, name = self.lines.get(key), self.key_of(key)
        if line is None or line.clock is None:
            assert name not in self.windows
            with pytest.raises(KeyError):
                self.windows.window(name)
            return
        incomplete = {
            (each.window, each.aggregation): each for each in self.windows.coverage().incomplete
        }
        got = self.windows.query(name)
        alone: Any = self.windows.window(name) if self.rng.random() < 0.2 else None
        for window in self.named:
            results = got[window] if window else got
            copied = alone and (alone.query(window) if window else alone.query())
            for alias in self.chosen:
                self.compare(results[alias], line, None, window, alias, incomplete)
                assert not alone or same(copied[alias], results[alias]), (self.seed, alias)

    def compare(
        self, got: Any, line: Line, event: Event | None, window: str, alias: str, incomplete: Any
    ) -> None:
        """A result beside those of the lists; of the newest window where no event is named."""
        own = self.expected(line, line.kept, event, window, alias)
        reported = self.seed, window, alias, got
        assert any(same(got, each) for each in own), (*reported, own)
        whole = self.expected(line, line.whole, event, window, alias, anyway=True)
        place = len(line.whole) - 1 if event is None else line.whole.index(event)
        time = line.clock if event is None else event.time
        claim = incomplete.get((window, alias))
        if claim is not None and not self.is_whole(claim, line, place, time or 0):
            self.incomplete += not any(same(got, each) for each in whole)
            return
        assert any(same(got, each) for each in whole), (*reported, claim, whole)

    def expected(
        self, line: Line, events: list[Event], event: Event | None, window: str, alias: str,
        anyway: bool = False,
    ) -> list[Any]:  # fmt: skip
        """What a list says; by count, a window may be short of what was retracted."""
        place = len(events) - 1 if event is None else events.index(event)
        time = line.clock if event is None else event.time
        assert time is not None
        times, frame = [each.time for each in events], self.named[window]
        first = window_of(frame, times[: place + 1], time).start
        short = line.retracted if by_count(frame) or line.unsure else 0
        short = min(short, max(0, place + 1 - first))
        columns, make, plain = AGGREGATIONS[self.chosen[alias]]
        names = [columns] if isinstance(columns, str) else list(columns or ())
        results = []
        for start in range(first, first + short + 1):
            there = [e for e in events[start : place + 1] if anyway or e.stored.issuperset(names)]
            found = [tuple(e.values[n] for n in names) for e in there]
            found = [f for f in found if None not in f]
            values = [f[0] if len(f) == 1 else f for f in found]
            if len(found) < self.least and not make().never_null:
                results.append(None)
            else:
                results.append(plain(values) if found else make().empty)
        return results

    def retract(self) -> None:
        """Take out an event of some keys, or what is none."""
        if self.lateness is None:
            return
        self.noted()
        rng, rows, found = self.rng, [], []
        for key, line in sorted(self.lines.items()):
            if line.clock is None or rng.random() < 0.5:
                continue
            first = self.needed(line, line.kept)
            counted = line.unsure or any(map(by_count, self.named.values()))
            sure = first + (line.retracted if counted else 0)
            newest = line.kept[-1:] if rng.random() < 0.5 else []
            for event in [*newest, *rng.sample(line.whole, min(2, len(line.whole)))][:1]:
                there = [e for e in line.kept if e.time == event.time]
                places = [line.kept.index(e) for e in there]
                if any(first <= place < sure for place in places):
                    continue  # a list does not tell whether it has left
                if counted and line.retracted and any(e not in line.kept for e in line.whole
                                                      if e.time == event.time):  # fmt: skip
                    continue
                rows.append((key, event.time))
                counts = [e for e, place in zip(there, places, strict=True) if place >= first]
                found.append(bool(counts))
                if counts:
                    line.remove(counts[-1])
        if not rows:
            return
        values: Any = {c: [0.0] * len(rows) for c in "abcdf"} | {"e": self.texts[:1] * len(rows)}
        self.windows.extend(
            [self.key_of(key) for key, _ in rows], values, [t for _, t in rows],
            retracts=np.ones(len(rows), bool),
        )  # fmt: skip
        accepted = self.windows.last_accepted
        got = [True] * len(rows) if accepted is None else accepted.tolist()
        assert got == found, (self.seed, rows, got, found)
        for key, _ in rows:
            self.ask(key)

    def expire(self) -> None:
        """Forget the keys that time has emptied."""
        lifetimes = [frame.lifetime for frame in self.named.values()]
        if None in lifetimes:
            return
        lifetime = max(life for life in lifetimes if life is not None) // SECOND
        before = self.now - self.rng.choice([0, 10])
        gone = set(self.windows.expire(before).tolist())
        for key, line in self.lines.items():
            if line.clock is not None and line.clock <= before - lifetime:
                gone.remove(self.key_of(key))
                self.expired = max(line.clock + lifetime, self.expired or -(10**9))
                line.lost |= bool(line.kept)
                line.kept, line.alive, line.clock = [], [], None
        clocks = [line.clock for line in self.lines.values() if line.clock is not None]
        assert len(self.windows) == len(clocks) and not gone, self.seed
        earliest = self.windows.earliest()
        assert earliest is not None if clocks else earliest is None
        assert earliest is None or earliest <= min(clocks) * SECOND

    def late(self) -> None:
        """An event right before a key's cutoff is refused, and one at it is not."""
        lines = {key: line for key, line in self.lines.items() if line.clock is not None}
        if not lines:
            return
        self.noted()
        key = self.rng.choice(sorted(lines))
        cutoff = self.cutoff(lines[key])
        assert cutoff is not None
        values: Any = {c: [0.0] for c in "abcdf"} | {"e": self.texts[:1]}
        snapshot, copy = self.checkpoint(), MemoryStore()
        copy.put_many(pages_of(self.store))
        windows = KeyedWindows.restore(
            snapshot,
            copy,
            aggregations=self.product,
            window=self.frames,
            **{**self.settings, "on_late": "raise"},
        )
        with pytest.raises(LateEvent):
            windows.extend([self.key_of(key)], values, [cutoff - 1])
        windows.extend([self.key_of(key)], values, [cutoff])

    def run(self) -> int:
        rng = self.rng
        for _ in range(rng.choice([3, 6])):
            for _ in range(rng.choice([1, 4])):
                self.batch()
                if rng.random() < 0.4:
                    self.retract()
                if rng.random() < 0.15:
                    self.expire()
                if rng.random() < 0.2:
                    self.late()
                if rng.random() < 0.4:
                    self.windows = self.windows.restore_like(self.checkpoint())
                    self.windows.check()
                if rng.random() < 0.1 and len(self.saved) > 1:
                    self.go_back()
            self.change()
        self.batch()
        live = {self.key_of(k) for k, line in self.lines.items() if line.clock is not None}
        assert {*self.windows.keys()} == live
        assert not OpaqueKeys(self.checkpoint(), self.store).audit().damaged
        self.windows.delete_pages()
        assert self.strayed or not [*self.store.keys()]
        return self.incomplete
