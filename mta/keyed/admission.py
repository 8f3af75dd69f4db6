"""Limits: an event that would exceed one is refused, and adding and checking are one step.

The events of a batch are judged key by key, in order of time, and rows of one time in row order:

    limit 10   a 4    a 5    a 3    a 2   a 1    all five as if added: 4, 9, 12, 14, 15
    round 1    4      9      12 > 10             the first result over the limit
               9 +           12     11    10     each alone after those before: a 3, a 2 are refused
    round 2    4      9      .      .     10     the others again: none is over the limit

Each round evaluates the whole batch without adding it. From the first event of a key that is over a
limit on, it evaluates each event as if it alone followed the events before, and refuses all up to
the first one that is not over a limit. So a round costs O(n log n) combines for n events, and a key
takes one round for each time that an accepted event follows a refused one. A batch takes at most
``ROUNDS`` rounds. The events of keys that need more are deferred: the caller judges them in the
next batch. So a client that alternates between the two delays others only so much.

An aggregation that is computed from ranges of events, such as a median, and a frame that reads
values or ends before the newest event, have the same results from a copy of the earlier events for
each event: so a round tries fewer events. A standalone key with such a frame is tried event by
event.

An event is refused in the same way if a result would not fit its type: a float that would be
infinite, or a sum of integers of more than 64 bits. For such a sum, the evaluation of the whole
batch fails, and bisection finds the first row with which it does.

The moment at which a refused event would fit is the first at which enough earlier events have left.
For a vectorized key, it is exact. For a standalone key, it is found by bisection, to 1/4096 of
the longest frame, and it assumes that results decrease while events leave.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from mta.columns.schemas import Rows
from mta.errors import ResultOutOfRange, UnsupportedOperation
from mta.folds.sliding import Events
from mta.frames.base import lifetime_of
from mta.kernels.native import bounds_of, spread
from mta.keyed.bucket import KeyedBatch
from mta.keyed.corrections import folds_with
from mta.keyed.kind import KeyedKind
from mta.keyed.standalone import extend, put_answer
from mta.keyed.table import STANDALONE, Table
from mta.keyed.windows import KeyedWindows
from mta.keyed.work import Found, Work, results_at, unanswered, union_of
from mta.logs.ranges import Positions
from mta.monoids.base import as_output
from mta.windows.engine import Engine

#: How often a batch is evaluated.
ROUNDS = 8
#: How many events a round may copy.
_COPIED = 1 << 16
_HALVINGS = 12
_INFINITE = "a result would be beyond the largest float, 1.8e308"


@dataclass(slots=True)
class Admission:
    """What became of the rows of a batch."""

    accepted: np.ndarray
    """Which rows were added, or would be."""
    late: np.ndarray
    """Which rows are older than the newest event of their key allows."""
    deferred: np.ndarray
    """Which rows were not judged: judge them in the next batch."""
    refused: dict[int, str] = field(default_factory=dict)
    """The rows over a limit, each with the name of the limit."""
    out_of_range: dict[int, str] = field(default_factory=dict)
    """The rows with a result that does not fit its type, each with the reason."""
    columns: dict[str, Any] = field(default_factory=dict)
    """The results of accepted rows, and of refused rows as if they had been added, by column."""


class Refused(NamedTuple):
    """New events over a limit, by their places among the results of a round."""

    places: np.ndarray
    outputs: list[Rows]
    """Their results, for each frame."""
    limits: list[str | None]
    """The name of the limit; None for a result that is infinite."""
    rest: np.ndarray
    """The events of their keys that follow."""


class Limits:
    """The limits of keyed windows, and the judgment of batches.

    Args:
        windows: The windows. Limits need events in order, without ``allowed_lateness``, and late
            events are dropped: ``on_late="drop"``.
        at_most: By name, a column of the results and the largest value that it may have.
    """

    def __init__(self, windows: KeyedWindows, at_most: Mapping[str, tuple[str, float]]) -> None:
        settings = windows.bucket.kind.settings
        if at_most and settings.lateness is not None:
            raise UnsupportedOperation(
                "limits judge events in order of time, so a late event could exceed a limit that "
                "later events were judged by: leave out allowed_lateness, or the limits"
            )
        self._windows, self._at_most = windows, at_most
        self._lifetime = lifetime_of(windows.bucket.kind.frames.values())

    def admit(self, batch: KeyedBatch, *, add: bool = True) -> Admission:
        """Add the rows of a batch that are within all limits; with ``add=False``, only judge them.

        Costs at most ``ROUNDS`` evaluations of the batch. Raises as ``KeyedWindows.extend`` does.
        """
        windows, count, outputs = self._windows, len(batch), self._windows.monoid.outputs
        rooms = [outputs.new(count) for _ in windows.bucket.kind.frames]
        none = np.zeros(count, bool)
        made = Admission(none.copy(), none.copy(), none.copy())
        alive, rounds, gone = np.arange(count), 0, list[int]()
        while len(alive) and (not rounds or gone):
            rounds += 1
            with np.errstate(over="ignore", invalid="ignore"):  # the result is refused
                gone = self._round(batch, alive, made, rooms, add, rounds == ROUNDS)
            if gone:
                alive = alive[~np.isin(alive, gone)]
        if not add:
            made.late |= ~made.accepted & ~made.deferred
            made.late[[*made.refused, *made.out_of_range]] = False
        made.columns = windows.as_columns(rooms)
        return made

    def _round(
        self, batch: KeyedBatch, alive: np.ndarray, made: Admission, rooms: list[Rows], add: bool,
        is_last: bool,
    ) -> list[int]:  # fmt: skip
        """Add the rows that remain if none is over a limit; otherwise return what to leave out."""
        bucket, gone = self._windows.bucket, list[int]()

        def accept(line: np.ndarray, found: Found, work: Work) -> bool:
            rows = alive[line[found.at]]
            gone.extend(self._judged(found, work, rows, made, rooms, is_last))
            return add and not gone

        try:
            done = bucket.advance_if(self._taken(batch, alive), "each", accept)
        except ResultOutOfRange as error:
            first = self._first_out_of_range(batch, alive)
            made.out_of_range[int(alive[first])] = str(error)
            rest = alive[first + 1 :] if is_last else alive[:0]
            made.deferred[rest] = True
            return [int(alive[first]), *rest.tolist()]
        if done is not None and done.late is not None:
            made.late[alive[done.late]] = True
        return gone

    def _judged(
        self, found: Found, work: Work, rows: np.ndarray, made: Admission, rooms: list[Rows],
        is_last: bool,
    ) -> list[int]:  # fmt: skip
        """Note the results of some rows, and the refused ones; return what to leave out."""
        gone = list[int]()

        def put(rows: np.ndarray, results: list[Rows]) -> None:
            for room, part in zip(rooms, results, strict=True):
                self._windows.monoid.outputs.put_at(room, rows, part)

        put(rows, found.outputs)
        for refused in self._refused(found, work):
            some = rows[refused.places]
            put(some, refused.outputs)
            for row, limit in zip(some.tolist(), refused.limits, strict=True):
                if limit is None:
                    made.out_of_range[row] = _INFINITE
                else:
                    made.refused[row] = limit
            gone += some.tolist()
            if is_last:
                made.deferred[rows[refused.rest]] = True
                gone += rows[refused.rest].tolist()
        if not gone:
            made.accepted[rows] = True
        return gone

    def _taken(self, batch: KeyedBatch, rows: np.ndarray) -> KeyedBatch:
        return batch.take(self._windows.bucket.kind.reader.inputs, rows)

    def _first_out_of_range(self, batch: KeyedBatch, alive: np.ndarray) -> int:
        """Return the place of the first row with which the results do not fit their types."""

        def fails(last: int) -> bool:
            try:
                some = self._taken(batch, alive[: last + 1])
                self._windows.bucket.advance_if(some, "each", lambda *_: False)
            except ResultOutOfRange:
                return True
            return False

        return bisect_left(range(len(alive) - 1), True, key=fails)

    def _refused(self, found: Found, work: Work) -> Iterator[Refused]:
        """Yield the events to refuse: of all vectorized keys together, and of each other key."""
        any_over = self._any_over(found.outputs)
        if not any_over.any():
            return
        first = np.flatnonzero(any_over)
        places, at = np.unique(found.of[first], return_index=True)
        first, stop = first[at], found.of.searchsorted(places, "right")
        is_lane = np.isin(places, work.vectorized)
        for some in (np.flatnonzero(is_lane), *np.flatnonzero(~is_lane)[:, None]):
            if len(some):
                yield self._run(found, work, places[some], first[some], stop[some])

    def _run(
        self, found: Found, work: Work, places: np.ndarray, first: np.ndarray, stop: np.ndarray
    ) -> Refused:
        """Return the events of keys from ``first`` on, up to one that is not over a limit alone."""
        schema, counts, outputs = self._windows.monoid.outputs, np.ones_like(first), None
        if (stop - first > 1).any():
            with suppress(ResultOutOfRange):  # of one of the later events
                counts, outputs = self._alone(work, places, found.at[first], stop - first)
        bounds = bounds_of(counts)
        same = [schema.take(rows, first) for rows in found.outputs]
        if outputs is None:
            outputs = same
        for room, part in zip(outputs, same, strict=True):  # the same up to rounding
            schema.put_at(room, bounds[:-1], part)
        over = self._over(outputs)
        fits = np.append(np.flatnonzero(~np.logical_or.reduce([*over.values()])), bounds[-1])
        ends = np.minimum(fits[fits.searchsorted(bounds[:-1])], bounds[1:])
        lengths = ends - bounds[:-1]
        chosen = spread(bounds[:-1], lengths)
        limits = [next(n for n, mask in over.items() if mask[at]) for at in chosen.tolist()]
        refused = [schema.take(rows, chosen) for rows in outputs]
        rest = first + lengths
        return Refused(spread(first, lengths), refused, limits, spread(rest, stop - rest))

    def _alone(
        self, work: Work, places: np.ndarray, first: np.ndarray, counts: np.ndarray
    ) -> tuple[np.ndarray, list[Rows]]:
        """Return the results of new events as if each alone followed those before the first ones.

        Also returns of how many events of each key. ``first`` are their places in the line.
        """
        kind, new = work.kind, work.new
        usual = not (kind.attributes or any(frame.lags for frame in kind.frames.values()))
        lanes = work.vectorized.searchsorted(places)
        if work.scratch is not None and not np.isin(places, work.vectorized).any():
            engine = self._engine_before(work, int(places[0]), int(first[0])) if usual else None
            if engine is None:
                return np.ones_like(counts), unanswered(kind, 1)
            events = new.events_between(int(first[0]), int(first[0] + counts[0]))
            return counts, _after_window(kind, engine, events)
        held = work.union.take(lanes).without_newest(counts)
        combines = usual and not kind.monoid.folds_ranges
        if not combines:
            counts = np.minimum(counts, max(1, _COPIED // (int(held.counts.max()) + 1)))
        of, at = np.repeat(np.arange(len(places)), counts), spread(first, counts)
        rows = new.schema.take(new.rows, at)
        times = None if new.times is None else new.times[at]
        if combines:
            return counts, _after_lanes(kind, held, of, Events(rows, times, len(of)))
        every = np.arange(len(of))
        keys, bounds = new.keys.take(places[of]), np.arange(len(of) + 1)
        union, newest = union_of(held, of, Table.of(new.schema, keys, bounds, times, rows), False)
        return counts, results_at(kind, union, every, every, newest).outputs

    def _engine_before(self, work: Work, place: int, first: int) -> Engine | None:
        """Return a copy of a standalone window with new events up to one; None if there is none."""
        at, known = int(work.at[place]), work.known
        positional = all(frame.positional for frame in work.kind.frames.values())
        if at < 0 or known.marks[at] != STANDALONE or not positional:
            return None
        copies = self._windows.bucket.standalone.scratch([work.new.keys.packed(place)])
        engine, start = copies.engine(known, at), int(work.new.bounds[place])
        if start < first:
            extend(work.kind, engine, work.new.events_between(start, first))
        return engine

    def are_equal(self, batch: KeyedBatch, one: int, other: int) -> bool:
        """Return whether two rows of a key have the same time and values."""
        assert batch.times is not None
        if one == other or batch.times[one] != batch.times[other]:
            return one == other
        schema = self._windows.bucket.kind.reader.inputs
        first, second = (schema.take(batch.rows, np.array([row])) for row in (one, other))
        return schema.dump(first) == schema.dump(second)

    def _over(self, outputs: list[Rows]) -> dict[str | None, np.ndarray]:
        """Return which results are over each limit, and for None which are infinite."""
        columns = self._windows.as_columns(outputs)
        found: dict[str | None, np.ndarray] = {
            name: _floats(columns[column]) > most for name, (column, most) in self._at_most.items()
        }
        floats = [each for each in columns.values() if getattr(each, "dtype", None) == np.float64]
        if floats:
            found[None] = np.asarray(np.isinf(floats).any(axis=0))
        return found

    # --- when an event would fit ------------------------------------------------------------------

    def fit_times(self, batch: KeyedBatch, rows: Sequence[int]) -> list[int | None]:
        """Return the moments from which refused rows would be accepted, in microseconds.

        None for a row that never fits, or if time alone does not empty the frames. Later events may
        delay these moments. Costs one evaluation for all vectorized keys, and about 2 ms for each
        standalone one.

        Args:
            batch: The batch that was judged.
            rows: Refused rows of different keys.
        """
        found: list[int | None] = [None] * len(rows)
        if self._lifetime is None or not rows:
            return found

        def look(line: np.ndarray, _: Found, work: Work) -> bool:
            for place, fit in self._fits(work).items():
                found[int(line[place])] = fit
            return False

        with suppress(ResultOutOfRange):  # while negative values leave
            self._windows.bucket.advance_if(self._taken(batch, np.array(rows)), "each", look)
        return found

    def _fits(self, work: Work) -> dict[int, int]:
        """Return when the only new event of each key fits, by the place of the key."""
        kind, new, span = work.kind, work.new, self._lifetime
        assert new.times is not None and span is not None
        every = np.arange(len(new))
        alone = self._any_over(results_at(kind, new, every, every, every).outputs)
        found = {}
        if work.scratch is not None:
            for place in np.setdiff1d(every[~alone], work.vectorized).tolist():
                engine = work.scratch.open.get(new.keys.packed(place))
                now = int(new.times[place])
                # A window that has become small is not open: then this is the latest moment.
                found[place] = now + span if engine is None else self._bisected(kind, engine, now)
        lanes = np.flatnonzero(~alone[work.vectorized])
        if len(lanes):
            fits = self._fits_in_lanes(work, lanes, new.times[work.vectorized[lanes]])
            found |= dict(zip(work.vectorized[lanes].tolist(), fits, strict=True))
        return found

    def _fits_in_lanes(self, work: Work, lanes: np.ndarray, now: np.ndarray) -> list[int]:
        kind, union = work.kind, work.union.take(lanes)
        assert union.times is not None
        sizes = [frame.lifetime or 0 for frame in kind.frames.values()]
        ends, events = (union.times[:, None] + np.array(sizes)).reshape(-1), union.counts
        of = np.repeat(np.arange(len(lanes)), events * len(sizes))
        later = ends > now[of]
        ends, of = ends[later], of[later]
        order = np.lexsort((ends, of))
        ends, of = ends[order], of[order]
        rows = union.bounds[of + 1] - 1
        over = self._any_over(results_at(kind, union, of, rows, rows, ends).outputs)
        fits = np.flatnonzero(~over)
        first = fits[np.searchsorted(of[fits], np.arange(len(lanes)))]
        return ends[first].tolist()  # type: ignore[no-any-return]

    def _bisected(self, kind: KeyedKind, engine: Engine, start: int) -> int:
        """Return when the newest event of a standalone window fits."""
        assert self._lifetime is not None
        stop = start + self._lifetime
        for _ in range(_HALVINGS):
            outputs, middle = unanswered(kind, 1), (start + stop) // 2
            put_answer(kind, engine, middle, False, outputs, 0)
            if self._any_over(outputs)[0]:
                start = middle
            else:
                stop = middle
        return stop

    def _any_over(self, outputs: list[Rows]) -> np.ndarray:
        over: np.ndarray = np.logical_or.reduce([*self._over(outputs).values()])
        return over


def _after_lanes(kind: KeyedKind, held: Table, of: np.ndarray, new: Events) -> list[Rows]:
    """Return the results of new events as if each alone followed the events of its lane, ``of``.

    The new events are by lane and time.
    """
    monoid, ends = kind.monoid, held.bounds[of + 1]
    lifted = monoid.lift_rows(held.rows, held.events)
    return [
        folds_with(monoid, lifted, held, frame, of, ends, new.times, new.rows)
        for frame in kind.frames.values()
    ]


def _after_window(kind: KeyedKind, engine: Engine, new: Events) -> list[Rows]:
    """Return the results of new events as if each alone followed the events of a window."""
    outputs = unanswered(kind, new.size)
    events, monoid = engine.structure().remembered(), engine.monoid
    stop = events.back
    view, folded = Positions(lambda: stop + 1, events.first_after), dict[int, Any]()
    for at in range(new.size):
        time = None if new.times is None else int(new.times[at])
        lifted = monoid.lift(kind.reader.inputs.at(new.rows, at))
        for frame, room in zip(kind.frames.values(), outputs, strict=True):
            start = min(max(frame.cut(view, time), events.kept_from), stop)
            if start not in folded:
                folded[start] = events.fold(start, stop)
            fold = lifted if start == stop else monoid.combine(folded[start], lifted)
            result = engine.lowered(fold, stop - start + 1)
            kind.monoid.outputs.put(room, at, as_output(result))
    return outputs


def _floats(column: Any) -> np.ndarray:
    """Return a column of results as floats, with NaN for null."""
    if type(column) is np.ndarray and column.dtype.kind in "fiu":
        return column
    return np.ma.filled(np.ma.asarray(column, dtype=float), np.nan)
