"""Combine a batch with the stored events of its keys, and compute the requested results.

    known     a  1 5 .        the stored events of each key
    new       a  3 9          those of the batch
    union     a  1 3 5 9      one lane for each key, vectorized with all others (``lanes``)

A caller requests the results of some windows of each lane, each of which ends with a row:

    "each"          after each new event
    "last", "now"   after the last new event of each key; "now" requests the current window, which
                    differs if the last event is late
    "changed"       of each event from the first new one on, stored events included: a late event
                    changes all these results; "newest" requests only the last one of each key
    EveryCount(k)   after each event that is the k-th, the 2k-th, ... of its key
    Boundaries      at each boundary that the events make due

Standalone windows return the same results, one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np

from mta.columns.schemas import Rows, Schema
from mta.columns.texts import listed_text
from mta.folds.sliding import Events
from mta.kernels.native import bounds_of, first_later, inverse, rows_of, sort_within, spread
from mta.keyed.corrections import Corrected, Retractions, correct, folds_with
from mta.keyed.kind import KeyedKind
from mta.keyed.table import STANDALONE, Table, folds, take_or
from mta.monoids.base import AbstractMonoid, empties
from mta.triggers.rules import EveryCount, EveryPeriod


@dataclass(frozen=True, slots=True)
class Boundaries:
    """Results at the boundaries of a period; with ``ends``, also of the unfinished last period."""

    trigger: EveryPeriod
    ends: bool = False


Want = Literal["each", "last", "now", "changed", "newest"] | EveryCount | Boundaries


@dataclass(slots=True)
class Asked:
    """Moments of questions or due boundaries for standalone keys, by key and time."""

    of: np.ndarray
    """The place of the key of each moment."""
    times: np.ndarray
    slots: np.ndarray
    """The position of each moment in the line of events: after all events up to the moment."""
    rows: np.ndarray
    """The place of each answer among the outputs."""
    outputs: list[Rows]


@dataclass(slots=True)
class Found:
    """Results, by key and time."""

    of: np.ndarray
    """The place of the key of each result."""
    at: np.ndarray
    """For each result, the position of its event in the line; -1 for a stored event or none."""
    outputs: list[Rows]
    """For each frame, one row per result."""
    times: np.ndarray | None = None
    """The time of the event of each result, or its boundary, if requested."""
    rows: Rows = None
    """The event of each result, for "changed" and "newest"."""

    def __len__(self) -> int:
        return len(self.of)

    def take(self, monoid: AbstractMonoid, places: np.ndarray) -> Found:
        return Found(
            self.of[places],
            self.at[places],
            [monoid.outputs.take(rows, places) for rows in self.outputs],
            None if self.times is None else self.times[places],
            None if self.rows is None else monoid.inputs.take(self.rows, places),
        )

    def by_row(self, monoid: AbstractMonoid, line: np.ndarray, count: int) -> list[Rows]:
        """Return the results of a line's events, in the order of the batch's ``count`` rows."""
        if len(line) < count:
            is_event = np.zeros(count, bool)
            is_event[line] = True
            line = np.cumsum(is_event)[line] - 1
        places = inverse(line)
        return [monoid.outputs.take(rows, places) for rows in self.outputs]

    @property
    def lasts(self) -> np.ndarray:
        """Return the place of the last result of each key."""
        return np.flatnonzero(np.append(self.of[1:] != self.of[:-1], True)[: len(self)])

    @classmethod
    def joined(cls, parts: Sequence[Self], monoid: AbstractMonoid, frames: int) -> Found:
        """Concatenate parts, each of which has its keys in order."""
        if not parts:
            nothing = np.zeros(0, np.int64)
            return cls(nothing, nothing, [monoid.outputs.new(0)] * frames)
        if len(parts) == 1:
            return parts[0]
        of, at = np.concatenate([p.of for p in parts]), np.concatenate([p.at for p in parts])
        which, lengths = np.arange(len(parts)), np.array([len(part) for part in parts], np.int64)

        def line(schema: Schema, columns: Sequence[Rows]) -> Rows:
            return schema.ranges(columns, which, np.zeros_like(which), lengths)

        columns = zip(*(part.outputs for part in parts), strict=True)
        outputs = [line(monoid.outputs, column) for column in columns]
        times, rows = [part.times for part in parts if part.times is not None], None
        if parts[0].rows is not None:
            rows = line(monoid.inputs, [part.rows for part in parts])
        whole = cls(of, at, outputs, np.concatenate(times) if times else None, rows)
        if (of[1:] >= of[:-1]).all():
            return whole
        return whole.take(monoid, np.argsort(of, kind="stable"))


class Work:
    """A batch by key, in order, with the stored events of its keys; computes results.

    ``at`` is the place of each key in ``known``, -1 for a new key. ``last`` is the time of the
    newest event of each key before the batch; for a new key, of its first event. ``asked`` are the
    questions of standalone keys.
    """

    def __init__(
        self, kind: KeyedKind, new: Table, known: Table, at: np.ndarray, last: np.ndarray | None,
        want: Want, taken: Retractions | None, asked: Asked | None,
    ) -> None:  # fmt: skip
        self.kind, self.new, self.known, self.at, self.want = kind, new, known, at, want
        self.last, self.taken, self.asked = last, taken, asked
        #: How many events of each key have left, and the number of all before the batch.
        self.left = take_or(known.left, at)
        self.before = self.left + take_or(known.counts, at)
        self.corrects = kind.corrects or taken is not None
        assert not self.corrects or not isinstance(want, EveryCount | Boundaries)
        self._late = kind.settings.lateness is not None
        self.parts: list[Found] = []
        #: The copies of standalone windows with the events of a preview.
        self.scratch: Any = None
        #: The places of the vectorized keys that were evaluated, and their lanes.
        self.vectorized, self.union = at[:0], new
        self._corrected: Corrected | None = None

    @property
    def found(self) -> Found:
        """Return all results."""
        return Found.joined(self.parts, self.kind.monoid, len(self.kind.frames))

    def evaluate(self, places: np.ndarray) -> np.ndarray:
        """Compute the results of keys at some places; return how many events each must retain.

        The numbers are upper bounds, and exact if any key has more than ``promote_at`` events.
        """
        if not len(places):
            return np.zeros(0, np.int64)
        is_all = len(places) == len(self.new)
        part = self.new if is_all else self.new.take(places)
        self.union, newest = union_of(self.known, self.at[places], part, self._late)
        self.vectorized, self._corrected = places, None
        if self.corrects:
            of, times, floors = self._taken_of(places)
            settings, monoid = self.kind.settings, self.kind.monoid
            self._corrected = correct(self.union, newest, of, times, settings, monoid)
            self.union, newest = self._corrected.lanes, self._corrected.newest
            if len(of) and self.union.times is not None:
                bounds, first = self.union.bounds, self._corrected.first
                whole = first_later(self.union.times, bounds, of, floors - 1)
                first[of] = np.maximum(first[of], whole)
        found = self._vectorized_results(places, part, newest)
        if not is_all:
            found.of = places[found.of]
        self.parts.append(found)
        counts = self.union.counts
        if int(counts.max()) > self.kind.settings.promote_at:
            self._starts = self.kind.retention.needed(self.kind.lanes(self.union))
            counts = self.union.bounds[1:] - self._starts
        return counts

    def _taken_of(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the lane, the time and the key's floor of retractions of keys at some places."""
        taken = self.taken
        if taken is None:
            return np.zeros(0, np.int64), np.zeros(0, "<i8"), np.zeros(0, "<i8")
        lanes = np.searchsorted(places, taken.of)
        some = lanes < len(places)
        some[some] = places[lanes[some]] == taken.of[some]
        return lanes[some], taken.times[some], taken.floors[some]

    def _vectorized_results(self, places: np.ndarray, part: Table, newest: np.ndarray) -> Found:
        """Compute the requested results of vectorized keys, including those of replaced events."""
        kind, union, corrected = self.kind, self.union, self._corrected
        of, at, rows, moments, events = self._wanted(places, part, newest)
        found = results_at(kind, union, of, at, rows, moments, events)
        if corrected is None or not corrected.passed.any() or self.want not in ("each", "changed"):
            return found
        gone = np.flatnonzero(np.isin(at, self._line(places, part)[corrected.passed]))
        of_gone = of[gone], rows[gone], None if union.times is None else union.times[rows[gone]]
        monoid, every, states = kind.monoid, np.arange(len(of)), corrected.states
        lifted = monoid.lift_rows(union.rows, union.events)
        for number, frame in enumerate(kind.frames.values()):
            room = monoid.outputs.take(listed_text(found.outputs[number]), every)
            passing = folds_with(monoid, lifted, union, frame, *of_gone, states)
            monoid.outputs.put_at(room, gone, passing)
            found.outputs[number] = room
        if found.rows is not None:
            found.rows = monoid.inputs.take(listed_text(found.rows), every)
            monoid.inputs.put_at(found.rows, gone, states)
        return found

    def _line(self, places: np.ndarray, part: Table) -> np.ndarray:
        """Return the positions in the line of the events of keys at some places."""
        if len(places) == len(self.new):
            return np.arange(part.events)
        return spread(self.new.bounds[places], part.counts)

    def rewritten(self, places: np.ndarray) -> tuple[Table, np.ndarray]:
        """Return all events of corrected vectorized keys, and the places of the other keys."""
        corrected = self._corrected
        if corrected is None:
            return self.new.cut(0, 0), places
        lanes = np.searchsorted(self.vectorized, places)
        touched = np.isin(lanes, corrected.touched)
        table = self.union.take(lanes[touched])
        table.left += self.left[places[touched]]
        return self.kind.trimmed(table), places[~touched]

    def retained(self, place: int) -> Events:
        """Return the events that a vectorized key must retain."""
        at = int(np.searchsorted(self.vectorized, place))
        return self.union.events_between(int(self._starts[at]), int(self.union.bounds[at + 1]))

    def _wanted(
        self, places: np.ndarray, part: Table, newest: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None, bool]:
        """Return each result's lane, event, last row and boundary, and whether to return events."""
        want, union, bounds, corrected = self.want, self.union, part.bounds, self._corrected
        line, lanes = self._line(places, part), np.arange(len(places))
        if isinstance(want, Boundaries):
            of, before, moments = self._due(places, part)
            rows = np.append(newest, 0)[before] - 1
            ends = before == bounds[of + 1]
            rows[ends] = union.bounds[of[ends] + 1] - 1
            return of, np.full(len(of), -1), rows, moments, False
        if want in ("changed", "newest", "now"):
            previous = np.full(union.events, -1)
            previous[newest] = line  # the last event at a time wins
            if want == "changed":
                first = newest[bounds[:-1]] if corrected is None else corrected.first
                counts = union.bounds[1:] - first
                rows, of = spread(first, counts), np.repeat(lanes, counts)
                if corrected is not None and corrected.passed.any():
                    passed = corrected.passed
                    rows = np.concatenate((newest[passed], rows))
                    of = np.concatenate((np.repeat(lanes, part.counts)[passed], of))
                    at = np.concatenate((line[passed], previous[rows[passed.sum() :]]))
                    order = np.argsort(rows, kind="stable")  # replaced events come first
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
        """Return the lane of each boundary that is due, the new event after it, and its time."""
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

    def ask_at_boundaries(self, places: np.ndarray) -> None:
        """Request the results of standalone windows at the boundaries that are due."""
        if not isinstance(self.want, Boundaries):
            return
        part = self.new.take(places)
        of, slots, moments = self._due(places, part)
        slots += (self.new.bounds[places] - part.bounds[:-1])[of]
        outputs = unanswered(self.kind, len(of))
        self.asked = Asked(places[of], moments, slots, np.arange(len(of)), outputs)
        self.parts.append(Found(places[of], np.full(len(of), -1), outputs, moments))


def results_at(
    kind: KeyedKind,
    table: Table,
    of: np.ndarray,
    at: np.ndarray,
    rows: np.ndarray,
    moments: np.ndarray | None = None,
    events: bool = False,
) -> Found:
    """Return results of windows that end with some rows; with ``events``, times and values too."""
    monoid, outputs = kind.monoid, []
    if len(table.standalone):  # their entries have blank values, which plain functions may refuse
        places = np.flatnonzero(table.marks != STANDALONE)
        whole, table, lane = table, table.take(places), places.searchsorted(of)
        rows = rows + (table.bounds[lane] - whole.bounds[of])
        return replace(results_at(kind, table, lane, at, rows, moments, events), of=of)
    if len(rows):
        lanes, lifted = kind.lanes(table), monoid.lift_rows(table.rows, table.events)
        asked = moments
        if asked is None and table.times is not None:
            asked = table.times[rows]
        for frame in kind.frames.values():
            starts, stops = lanes.frame_at(frame, of, rows, asked)
            full = starts < stops
            if full.all():
                found = monoid.lower_rows(folds(monoid, lifted, table.events, starts, stops))
            else:  # the other windows have no events
                found = empties(monoid, len(rows))
                if full.any():
                    some = np.flatnonzero(full)
                    part = folds(monoid, lifted, table.events, starts[some], stops[some])
                    monoid.outputs.put_at(found, some, monoid.lower_rows(part))
            outputs.append(found)
    else:
        outputs = [monoid.outputs.new(0) for _ in kind.frames]
    if not events:
        return Found(of, at, outputs, moments)
    times = None if table.times is None else table.times[rows]
    return Found(of, at, outputs, times, monoid.inputs.take(table.rows, rows))


def unanswered(kind: KeyedKind, count: int) -> list[Rows]:
    """Return ``count`` results of each window without events, to be filled in."""
    return [empties(kind.monoid, count) for _ in kind.frames]


def union_of(held: Table, at: np.ndarray, new: Table, late: bool) -> tuple[Table, np.ndarray]:
    """Return the stored events of keys with the new ones, and the rows of the new events.

    ``at`` are the places of the keys in ``held``, or -1. The new events keep their order; with
    ``late``, all events are in order of time.
    """
    counts = take_or(held.counts, at)
    total = int(counts.sum())
    if not total:
        return new, np.arange(new.events)
    schema, sizes, order = new.schema, counts + new.counts, None
    bounds = bounds_of(sizes)
    newest = spread(bounds[:-1] + counts, new.counts)
    # The ranges of each key: its stored events, and the new ones.
    sides = np.zeros_like(at), np.ones_like(at)
    pairs = np.array([sides, (held.bounds[at], new.bounds[:-1]), (counts, new.counts)], np.int64)
    which, starts, lengths = pairs.transpose(0, 2, 1).reshape(3, -1)
    rows, times = schema.ranges([held.rows, new.rows], which, starts, lengths), None
    if held.times is not None and new.times is not None:
        times = rows_of([held.times, new.times], which, starts, lengths)
        if late:
            order = sort_within(times, np.repeat(np.arange(len(new)), sizes))
        if order is not None:
            is_new = np.zeros(total + new.events, bool)
            is_new[newest] = True
            rows, times, newest = schema.take(rows, order), times[order], is_new[order].nonzero()[0]
    return Table.of(schema, new.keys, bounds, times, rows), newest
