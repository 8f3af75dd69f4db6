"""A batch beside what is known of its keys: which results are wanted, and what they are.

    known     a  1 5 .        the events that are held of each key
    new       a  3 9          those of the batch
    union     a  1 3 5 9      one lane for each key, vectorized with all others (``lanes``)

What is wanted is the results of some windows of each lane, each of which ends with a row at a time:

    "each"            after each new event
    "last", "now"     after the last of them; of the window as it is then, which differs where the
                      last one has come late
    "changed"         of each event from the first new one on, also of those that were there: what
                      a late event changes. Of "newest" the last one of each key
    EveryCount(k)     after each event that is the k-th, the 2k-th, ... of its key
    Boundaries        at each boundary that the events make due

Standalone windows are asked for the same, one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from mta.columns.reading import as_given
from mta.columns.schemas import Rows
from mta.errors import EventsGone
from mta.evaluators.fiba import FiBA
from mta.kernels.ranges import rows_of
from mta.kernels.segments import bounds_of, first_later, sort_within, spread
from mta.keyed.corrections import Corrected, Retractions, correct, folds_with
from mta.keyed.kind import AnyWindow, Kind
from mta.keyed.lanes import Lanes, empties, folds
from mta.keyed.table import ALL, STANDALONE, Table, blank
from mta.logs.base import OnDuplicate, OrderedEvents
from mta.monoids.base import AbstractMonoid
from mta.monoids.product import Product, result_name
from mta.triggers.rules import EveryCount, EveryPeriod, Progress
from mta.triggers.triggered import Due, SharedDue, TriggeredWindow
from mta.windows.engine import by_time
from mta.windows.shared import SharedWindows
from mta.windows.window import Window


@dataclass(frozen=True, slots=True)
class Boundaries:
    """Results at the boundaries of a period; ``ends`` if no event comes after those of the batch.

    Then the period in which they end has a result too.
    """

    trigger: EveryPeriod
    ends: bool = False


Want = Literal["each", "last", "now", "changed", "newest"] | EveryCount | Boundaries


@dataclass(slots=True)
class Found:
    """Results, key by key and in order of time."""

    of: np.ndarray
    """The place of each one's key."""
    at: np.ndarray
    """Where the event of each stands in the line; -1 of one that was there before, or of none."""
    outputs: list[Rows]
    """For each policy a row for each."""
    times: np.ndarray | None = None
    """The time of each one's event, or its boundary, where these were wanted."""
    rows: Rows = None
    """Each one's event, for "changed" and "newest"."""

    def __len__(self) -> int:
        return len(self.of)

    def take(self, monoid: AbstractMonoid, places: np.ndarray) -> Found:
        """Those at some places."""
        return Found(
            self.of[places],
            self.at[places],
            [monoid.outputs.take(rows, places) for rows in self.outputs],
            None if self.times is None else self.times[places],
            None if self.rows is None else monoid.inputs.take(self.rows, places),
        )

    @property
    def lasts(self) -> np.ndarray:
        """Where the last one of each key stands."""
        return np.flatnonzero(np.append(self.of[1:] != self.of[:-1], True)[: len(self)])

    @classmethod
    def joined(cls, parts: Sequence[Self], monoid: AbstractMonoid, policies: int) -> Found:
        """All parts, each of which has its keys in order, as one."""
        if len(parts) == 1:
            return parts[0]
        of = np.concatenate([np.zeros(0, np.int64), *(part.of for part in parts)])
        at = np.concatenate([np.zeros(0, np.int64), *(part.at for part in parts)])
        outputs = [monoid.outputs.new(len(of)) for _ in range(policies)]
        times = rows = None
        if parts and parts[0].times is not None:
            times = np.concatenate([part.times for part in parts if part.times is not None])
        if parts and parts[0].rows is not None:
            rows = monoid.inputs.new(len(of))
        begin = 0
        for part in parts:
            for room, found in zip(outputs, part.outputs, strict=True):
                monoid.outputs.put_many(room, begin, found)
            if rows is not None:
                monoid.inputs.put_many(rows, begin, part.rows)
            begin += len(part)
        whole = cls(of, at, outputs, times, rows)
        if (of[1:] >= of[:-1]).all():
            return whole
        return whole.take(monoid, np.argsort(of, kind="stable"))


class Work:
    """A batch by key, in order, and what is known of its keys, while results are made of both.

    ``at`` is the place of each key in ``known``, -1 of a new one; ``before`` how many events each
    had, and ``last`` when its newest was, or of a new key its first one.
    """

    def __init__(
        self,
        kind: Kind,
        new: Table,
        known: Table | None,
        at: np.ndarray,
        before: np.ndarray,
        last: np.ndarray | None,
        want: Want,
        taken: Retractions | None = None,
    ) -> None:
        self.kind, self.new, self.known, self.at, self.want = kind, new, known, at, want
        self.before, self.last, self.taken = before, last, taken
        self._corrects = kind.corrects or taken is not None
        assert not self._corrects or not isinstance(want, EveryCount | Boundaries)
        #: How many events each window began with that was made of vectorized ones.
        self.moved: list[int] = []
        self._parts: list[Found] = []
        self._corrected: Corrected | None = None
        self._numbers = None if known is None else known.snapshot_numbers

    @property
    def found(self) -> Found:
        """All results."""
        return Found.joined(self._parts, self.kind.monoid, len(self.kind.policies))

    # --- by columns -----------------------------------------------------------------------------

    def sweep(self, places: np.ndarray) -> np.ndarray:
        """Results of the keys at some places, by columns; how many events each must keep, at most.

        Just so many where any key has more in hand than a vectorized window may hold.
        """
        new = self.new
        if not len(places):
            return np.zeros(0, np.int64)
        part = new if len(places) == len(new) else new.take(places)
        held, at = self._held(places)
        late = self.kind.settings.allowed_lateness is not None
        self._union, newest = _union(held, at, part, late)
        self._vectorized, self._corrected = places, None
        if self._corrects:
            of, times, floors = self._taken_of(places)
            on_duplicate, monoid = self.kind.settings.on_duplicate, self.kind.monoid
            self._corrected = correct(self._union, newest, of, times, on_duplicate, monoid)
            self._union, newest = self._corrected.lanes, self._corrected.newest
            if len(of) and self._union.times is not None:
                bounds, first = self._union.bounds, self._corrected.first
                whole = first_later(self._union.times, bounds, of, floors - 1)
                first[of] = np.maximum(first[of], whole)
        lanes = Lanes(self._union.bounds, self._union.times)
        found = self._vectorized_results(places, part, newest)
        if len(places) < len(new):
            found.of = places[found.of]
        self._parts.append(found)
        kept: np.ndarray = np.diff(self._union.bounds)
        if int(kept.max()) > self.kind.promote_at:
            self._starts = self.kind.retention.needed(lanes)
            kept = self._union.bounds[1:] - self._starts
        return kept

    def _taken_of(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the retractions of keys at some places the lane, the time, and the key's floor."""
        taken = self.taken
        if taken is None:
            return np.zeros(0, np.int64), np.zeros(0, "<i8"), np.zeros(0, "<i8")
        lanes = np.searchsorted(places, taken.of)
        some = lanes < len(places)
        some[some] = places[lanes[some]] == taken.of[some]
        return lanes[some], taken.times[some], taken.floors[some]

    def _vectorized_results(self, places: np.ndarray, part: Table, newest: np.ndarray) -> Found:
        """What is wanted of vectorized keys, also of events that no longer stand."""
        kind, union, corrected = self.kind, self._union, self._corrected
        of, at, rows, moments, events = self._wanted(places, part, newest)
        passed = np.zeros(len(of), bool)
        if corrected is not None and self.want in ("each", "changed"):
            passed = np.isin(at, self._line(places, part)[corrected.passed])
        if corrected is None or not passed.any():
            return results_at(kind, union, of, at, rows, moments, events)
        stand, gone = np.flatnonzero(~passed), np.flatnonzero(passed)
        some = results_at(kind, union, of[stand], at[stand], rows[stand], None, events)
        lanes, monoid = Lanes(union.bounds, union.times), kind.monoid
        lifted, outputs = monoid.lift_rows(union.rows, union.events), []
        for policy, found in zip(kind.policies.values(), some.outputs, strict=True):
            room = monoid.outputs.new(len(of))
            monoid.outputs.put_at(room, stand, found)
            passing = folds_with(
                monoid, lifted, union.events, lanes, policy, of[gone], rows[gone], corrected.states
            )
            monoid.outputs.put_at(room, gone, passing)
            outputs.append(room)
        if not events or union.times is None:
            return Found(of, at, outputs)
        values = monoid.inputs.take(union.rows, rows)
        monoid.inputs.put_at(values, gone, corrected.states)
        return Found(of, at, outputs, union.times[rows], values)

    def _line(self, places: np.ndarray, part: Table) -> np.ndarray:
        """Where the events of keys at some places stand in the line."""
        if len(places) == len(self.new):
            return np.arange(part.events)
        return spread(self.new.bounds[places], part.counts)

    def rewritten(self, places: np.ndarray) -> tuple[Table, np.ndarray]:
        """All that is kept of vectorized keys that were corrected, and the places of the others."""
        corrected = self._corrected
        if corrected is None:
            return self.new.cut(0, 0), places
        lanes = np.searchsorted(self._vectorized, places)
        touched = np.isin(lanes, corrected.touched)
        lanes, at = lanes[touched], self.at[places[touched]]
        table = self._union.take(lanes)
        if self.known is not None:
            table.left += np.where(at < 0, 0, self.known.left[at])
        return self.kind.trimmed(table), places[~touched]

    def _wanted(
        self, places: np.ndarray, part: Table, newest: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None, bool]:
        """The lane of each wanted result, its event in the line, its last row, and its boundary.

        At last whether the events themselves are wanted. ``newest`` are the rows of new events.
        """
        want, union, bounds, corrected = self.want, self._union, part.bounds, self._corrected
        line, lanes = self._line(places, part), np.arange(len(places))
        if isinstance(want, Boundaries):
            of, before, moments = self._due(places, part)
            rows = np.append(newest, 0)[before] - 1
            ends = before == bounds[of + 1]
            rows[ends] = union.bounds[of[ends] + 1] - 1
            return of, np.full(len(of), -1), rows, moments, False
        if want in ("changed", "newest", "now"):
            previous = np.full(union.events, -1)
            previous[newest] = line  # of several at one time the last one counts
            if want == "changed":
                first = newest[bounds[:-1]] if corrected is None else corrected.first
                counts = union.bounds[1:] - first
                rows, of = spread(first, counts), np.repeat(lanes, counts)
                if corrected is not None and corrected.passed.any():
                    passed = corrected.passed
                    rows = np.concatenate((newest[passed], rows))
                    of = np.concatenate((np.repeat(lanes, part.counts)[passed], of))
                    at = np.concatenate((line[passed], previous[rows[passed.sum() :]]))
                    order = np.argsort(rows, kind="stable")  # those that have passed come first
                    return of[order], at[order], rows[order], None, True
            else:
                rows, of = union.bounds[1:] - 1, lanes
            return of, previous[rows], rows, None, want != "now"
        if want == "last":
            lanes = lanes[part.counts > 0]
            picked = bounds[lanes + 1] - 1
            return lanes, line[picked], newest[picked], None, False
        of = np.repeat(lanes, part.counts)
        if isinstance(want, EveryCount):
            number = np.arange(1, part.events + 1) + (self.before[places] - bounds[:-1])[of]
            picked = np.flatnonzero(number % want.count == 0)
            return of[picked], line[picked], newest[picked], None, False
        return of, line, newest, None, False

    def _due(self, places: np.ndarray, part: Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of each boundary that is due its lane, the new event that comes after it, and itself."""
        want, times = self.want, part.times
        assert isinstance(want, Boundaries) and times is not None and self.last is not None
        before, trigger = np.empty_like(times), want.trigger
        before[1:] = times[:-1]
        before[part.bounds[:-1]] = self.last[places]
        counts, first = trigger.between(before, times, self.kind.longest)
        events, moments = trigger.spread(counts, first)
        of = np.searchsorted(part.bounds, events, side="right") - 1
        if want.ends:
            lanes, ends = np.arange(len(places)), part.bounds[1:]
            rooms = np.searchsorted(of, lanes, side="right")
            of, events = np.insert(of, rooms, lanes), np.insert(events, rooms, ends)
            moments = np.insert(moments, rooms, trigger.boundary(times[ends - 1]))
        return of, events, moments

    def _held(self, places: np.ndarray) -> tuple[Table, np.ndarray]:
        """What is known of keys, and the place of each there, -1 of a new one."""
        if self.known is None:
            return self.new.cut(0, 0), np.full(len(places), -1)
        return self.known, self.at[places]

    # --- standalone windows ------------------------------------------------------------------

    def first_events(self, place: int) -> int:
        """How many events a window of a key that has none by itself may begin with."""
        at, new = int(self.at[place]), int(self.new.counts[place])
        return new if self.known is None or at < 0 else new + int(self.known.counts[at])

    def move(self, place: int, window: AnyWindow) -> None:
        """What a vectorized key must keep, into a standalone window."""
        at = int(np.searchsorted(self._vectorized, place))
        start, stop = int(self._starts[at]), int(self._union.bounds[at + 1])
        reader = self.kind.reader
        rows = reader.inputs.cut(self._union.rows, start, stop)
        times = None if self._union.times is None else self._union.times[start:stop]
        window.extend(given_back(reader, rows, stop - start), _moments(times), "last")
        self.moved.append(stop - start)

    def load(self, place: int, window: AnyWindow) -> None:
        """What is held of a vectorized key into a standalone window."""
        at = int(self.at[place])
        if self.known is None or at < 0 or not self.known.counts[at]:
            return
        start, stop = int(self.known.bounds[at]), int(self.known.bounds[at + 1])
        reader, times = self.kind.reader, self.known.times
        rows = reader.inputs.cut(self.known.rows, start, stop)
        moments = None if times is None else _moments(times[start:stop])
        window.extend(given_back(reader, rows, stop - start), moments, "last")

    def extend(self, place: int, window: AnyWindow) -> None:
        """A key's new events into its window, and their results out."""
        monoid, new, want = self.kind.monoid, self.new, self.want
        if self.taken is not None:
            of = self.taken.of
            first, last = (int(of.searchsorted(place, side)) for side in ("left", "right"))
            if first < last:
                self._extend_and_retract(place, window, first, last)
                return
        start, stop = int(new.bounds[place]), int(new.bounds[place + 1])
        reader = self.kind.reader
        rows = given_back(reader, reader.inputs.cut(new.rows, start, stop), stop - start)
        times = None if new.times is None else _moments(new.times[start:stop])
        if isinstance(want, Boundaries):
            self._extend_to_boundaries(place, window, rows, times, want)
            return
        if want in ("changed", "newest"):
            found = self._revised(place, window, rows, times, start)
            if want == "newest":
                found = found.take(monoid, found.lasts)
            self._parts.append(found)
            return
        picked = np.arange(stop - start)
        if isinstance(want, EveryCount):
            picked = picked[(int(self.before[place]) + 1 + picked) % want.count == 0]
        elif want != "each":
            picked = picked[-1:]
        # After the last of late ones the window is not as it is now.
        late = want == "last" and self.kind.settings.allowed_lateness is not None
        every = want == "each" or late or (isinstance(want, EveryCount) and len(picked) > 0)
        results = window.extend(rows, times, "all" if every else "last")
        if len(picked):
            outputs = outputs_of(self.kind, results)
            if late or isinstance(want, EveryCount):
                outputs = [monoid.outputs.take(each, picked) for each in outputs]
            self._parts.append(Found(np.full(len(picked), place), start + picked, outputs))

    def _extend_to_boundaries(
        self, place: int, window: AnyWindow, rows: Any, times: Any, want: Boundaries
    ) -> None:
        """A key's new events into its window, and the results at boundaries out."""
        newest = None
        if self.last is not None and self.before[place]:
            newest = int(self.last[place])
        due = triggered(window, want.trigger, newest)
        self._parts += found_due(self.kind, place, due.extend(rows, times))
        if want.ends:
            self._parts += found_due(self.kind, place, due.flush())

    def _revised(
        self, place: int, window: AnyWindow, values: Any, times: Any, first: int,
        before: int | None = None,
    ) -> Found:  # fmt: skip
        """New events, from one on, into a window; results that change, up to a time if given."""
        monoid = self.kind.monoid
        assert isinstance(window, Window)
        revision = window.revise(values, times)
        index, moments = revision.index, revision.times.view("i8")
        given = revision.values
        if isinstance(given, dict) and not given:
            given = range(len(index))  # a Product that reads no column
        rows, _ = monoid.rows(given, len(index))
        at = np.where(index < 0, -1, index + first)
        outputs = outputs_of(self.kind, revision.results)
        found = Found(np.full(len(index), place), at, outputs, moments, rows)
        if before is None:
            return found
        return found.take(monoid, np.flatnonzero((at >= 0) | (moments < before)))

    def _extend_and_retract(self, place: int, window: AnyWindow, first: int, last: int) -> None:
        """As ``extend`` of a key with retractions, those from ``first`` to ``last``, in turn."""
        taken, new, times = self.taken, self.new, self.new.times
        assert taken is not None and times is not None
        done, end = int(new.bounds[place]), int(new.bounds[place + 1])
        counts, first_part = _BatchCounts(self.kind.settings.on_duplicate), len(self._parts)
        revises = self.want in ("changed", "newest")
        for at in range(first, last + 1):
            slot = int(taken.slots[at]) if at < last else end
            moment = int(taken.times[at]) if at < last else None
            if slot > done:
                given = given_back(self.kind.reader, self._rows(done, slot), slot - done)
                moments = _moments(times[done:slot])
                if revises:
                    self._parts.append(self._revised(place, window, given, moments, done, moment))
                else:
                    found = outputs_of(self.kind, window.extend(given, moments))
                    of, line = np.full(slot - done, place), np.arange(done, slot)
                    self._parts.append(Found(of, line, found))
                counts.add(times[done:slot])
                done = slot
            if moment is None:
                break
            with suppress(EventsGone):  # it came with this batch, and has left with it
                window.retract(np.datetime64(moment, "us"))
            counts.retract(moment)
            if revises:
                until = int(taken.times[at + 1]) if at + 1 < last else None
                if done < end and (until is None or taken.slots[at + 1] > done):
                    until = int(times[done]) + (counts.on_duplicate == "append")
                floor = max(moment, int(taken.floors[at]))
                self._parts += self._again(place, window, floor, until, counts)
        parts, self._parts = self._parts[first_part:], self._parts[:first_part]
        if self.want == "now":
            self._parts.append(self._as_it_is(place, window))
        elif parts:
            found_all = Found.joined(parts, self.kind.monoid, len(self.kind.policies))
            if self.want not in ("each", "changed"):
                found_all = found_all.take(self.kind.monoid, found_all.lasts)
            self._parts.append(found_all)

    def _rows(self, start: int, stop: int) -> Rows:
        """New events, as input rows."""
        return self.kind.reader.inputs.cut(self.new.rows, start, stop)

    def _as_it_is(self, place: int, window: AnyWindow) -> Found:
        """The result of a window now."""
        outputs = []
        for name in self.kind.policies:
            result = window.query(name) if isinstance(window, SharedWindows) else window.query()
            row = tuple(result.values()) if isinstance(result, dict) else result
            outputs.append(self.kind.monoid.outputs.one(row))
        return Found(np.array([place]), np.array([-1]), outputs)

    def _again(
        self, place: int, window: AnyWindow, time: int, until: int | None, counts: _BatchCounts
    ) -> list[Found]:
        """The results of events from a time on and before another that were there already."""
        again = by_time(window.engine.structure, FiBA).again(time, until)
        if again is None:
            return []
        old = counts.others(again.times)
        monoid = self.kind.monoid
        outputs, rows = monoid.outputs.take(again.outputs, old), monoid.inputs.take(again.rows, old)
        nowhere = np.full(len(old), -1)
        return [Found(np.full(len(old), place), nowhere, [outputs], again.times[old], rows)]

    def gathered(self, place: int, events: OrderedEvents) -> Table:
        """All that is kept of a key in a standalone window; a page read a leaf."""
        new, schema = self.new, self.new.schema
        first, stop = events.kept_from, events.back
        rows, at = schema.new(stop - first), first
        times = None if new.times is None else np.empty(stop - first, "<i8")
        while at < stop:
            leaf = events.leaf(at)
            begin, end = at - leaf.first, min(leaf.stop, stop) - leaf.first
            schema.put_many(rows, at - first, schema.cut(leaf.rows, begin, end))
            if times is not None and leaf.times is not None:
                times[at - first : at - first + end - begin] = leaf.times[begin:end]
            at = leaf.first + end
        keys, bounds = new.keys.cut(place, place + 1), np.array([0, stop - first])
        table = Table.of(schema, keys, bounds, times, rows, ALL)
        table.left += self.left(place) + first
        return table

    def left(self, place: int) -> int:
        """How many events of a key came before its standalone window began."""
        at = int(self.at[place])
        return 0 if self.known is None or at < 0 else int(self.known.left[at])

    def window_snapshot(self, place: int) -> bytes:
        """The snapshot of a key; none of a new, a vectorized or an open one."""
        at = int(self.at[place])
        if (
            self.known is None
            or self._numbers is None
            or at < 0
            or self.known.marks[at] != STANDALONE
        ):
            return b""
        return self.known.window_snapshots[int(self._numbers[at])]

    def entries(self, places: np.ndarray) -> Table:
        """Entries of keys with standalone windows, which are open: when they were last given.

        The events are in the windows; of what they brought nothing stays here.
        """
        new, (held, at) = self.new.take(places), self._held(places)
        union = _union(held, at, new, self.kind.settings.allowed_lateness is not None)[0]
        entries = union.without_oldest(union.bounds[1:] - 1)
        marks = np.full(len(places), STANDALONE, "u1")
        left = np.zeros(len(places), "<i8")
        return Table(
            new.schema, new.keys, marks, left, entries.bounds, entries.times,
            blank(new.schema, len(places)), [b""] * len(places),
        )  # fmt: skip


class _BatchCounts:
    """How many events of a batch, of one key, stand at each time."""

    def __init__(self, on_duplicate: OnDuplicate) -> None:
        self.on_duplicate, self.counts = on_duplicate, dict[int, int]()

    def add(self, times: np.ndarray) -> None:
        """Events of these times came."""
        for time in times.tolist():
            count = self.counts.get(time, 0) if self.on_duplicate == "append" else 0
            self.counts[time] = count + 1

    def retract(self, time: int) -> None:
        """The newest event of a time was taken out."""
        if self.counts.get(time):
            self.counts[time] -= 1

    def others(self, times: np.ndarray) -> np.ndarray:
        """Where events stand that were there before, among those of a window in order of time."""
        found = np.ones(len(times), bool)
        for time, count in self.counts.items():
            first, stop = (int(times.searchsorted(time, side)) for side in ("left", "right"))
            found[max(first, stop - count) : stop] = False
        return np.flatnonzero(found)


def results_at(
    kind: Kind,
    table: Table,
    of: np.ndarray,
    at: np.ndarray,
    rows: np.ndarray,
    moments: np.ndarray | None = None,
    events: bool = False,
) -> Found:
    """Results of windows that end with some rows of a table's lanes, at those rows' times or later.

    ``events`` says that the rows' own times and values are wanted too.
    """
    monoid, outputs = kind.monoid, []
    if len(rows):
        lanes = Lanes(table.bounds, table.times)
        lifted = monoid.lift_rows(table.rows, table.events)
        asked = moments
        if asked is None and table.times is not None:
            asked = table.times[rows]
        for policy in kind.policies.values():
            fronts = lanes.fronts_at(policy, of, rows, asked)
            some = np.flatnonzero(fronts <= rows)
            if len(some) == len(rows):
                found = monoid.lower_rows(folds(monoid, lifted, table.events, fronts, rows))
            else:  # time has emptied the others
                found = empties(monoid, len(rows))
                if len(some):
                    part = folds(monoid, lifted, table.events, fronts[some], rows[some])
                    monoid.outputs.put_at(found, some, monoid.lower_rows(part))
            outputs.append(found)
    else:
        outputs = [monoid.outputs.new(0) for _ in kind.policies]
    if not events:
        return Found(of, at, outputs, moments)
    times = None if table.times is None else table.times[rows]
    return Found(of, at, outputs, times, monoid.inputs.take(table.rows, rows))


def triggered(
    window: AnyWindow, trigger: EveryPeriod, newest: int | None
) -> TriggeredWindow | SharedDue:
    """A key's window with results at boundaries, all of those given up to its newest event."""
    due: TriggeredWindow | SharedDue
    if isinstance(window, SharedWindows):
        due = SharedDue(window, trigger)
    else:
        due = TriggeredWindow(window, trigger)
    due.progress = Progress(newest=newest)
    return due


def found_due(kind: Kind, place: int, due: Due) -> list[Found]:
    """What was due of a key with a standalone window, if anything was."""
    count, moments = len(due.moments), due.moments.view("i8")
    nowhere = np.full(count, -1)
    outputs = outputs_of(kind, due.results)
    return [Found(np.full(count, place), nowhere, outputs, moments)] if count else []


def outputs_of(kind: Kind, found: Any) -> list[Rows]:
    """What a window's ``extend`` returned, for each policy."""
    monoid = kind.monoid
    if kind.single is not None:
        return [as_outputs(monoid, found)]
    if not isinstance(monoid, Product):
        return [as_outputs(monoid, found[name]) for name in kind.policies]
    each = [{a: found[result_name(a, name)] for a in monoid.aliases} for name in kind.policies]
    return [as_outputs(monoid, results) for results in each]


def _union(held: Table, at: np.ndarray, new: Table, late: bool) -> tuple[Table, np.ndarray]:
    """The events held of keys, ``at`` their places or -1, and the new ones; where the new are.

    The new ones keep their order, as they are in order of time where events may be late.
    """
    counts = np.where(at < 0, 0, held.counts[at]) if len(held) else np.zeros(len(at), np.int64)
    total = int(counts.sum())
    if not total:
        return new, np.arange(new.events)
    schema, bounds = new.schema, bounds_of(counts + new.counts)
    newest = spread(bounds[:-1] + counts, new.counts)
    # The ranges of each key: its events that are held, and the new ones.
    which = np.tile([0, 1], len(at))
    starts = np.stack((held.bounds[at], new.bounds[:-1]), axis=1).reshape(-1)
    lengths = np.stack((counts, new.counts), axis=1).reshape(-1)
    rows, times = schema.ranges([held.rows, new.rows], which, starts, lengths), None
    if held.times is not None and new.times is not None:
        times = rows_of([held.times, new.times], which, starts, lengths)
        order = None
        if late:
            codes = np.repeat(np.arange(len(new)), counts + new.counts)
            order = sort_within(times, codes)
        if order is not None:
            is_new = np.zeros(total + new.events, bool)
            is_new[newest] = True
            rows, times, newest = schema.take(rows, order), times[order], is_new[order].nonzero()[0]
    return Table.of(schema, new.keys, bounds, times, rows), newest


def given_back(monoid: AbstractMonoid, rows: Rows, count: int) -> Any:
    """Input rows as a batch that a window takes."""
    if isinstance(monoid, Product):
        named = monoid.named(rows)
        return named or range(count)
    return range(count) if isinstance(rows, tuple) and not rows else as_given(rows, monoid.inputs)


def as_outputs(monoid: AbstractMonoid, found: Any) -> Rows:
    """What ``extend`` of a window returned, as rows of outputs."""
    if isinstance(monoid, Product):
        parts = zip(monoid.monoids, found.values(), strict=True)
        return tuple([as_outputs(part, column) for part, column in parts])
    if isinstance(found, np.ndarray) and isinstance(monoid.outputs.new(0), list):
        return found.tolist()
    return found


def _moments(times: np.ndarray | None) -> np.ndarray | None:
    return None if times is None else times.view("M8[us]")
