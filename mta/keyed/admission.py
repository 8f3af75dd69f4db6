"""Limits: an event that would exceed one is refused, and adding and checking are one step.

The events of a batch are judged key by key, in order of time, and rows of one time in row order:

    limit 10   a 4    a 5    a 3    a 1      all four as if added: 4, 9, 12, 13
    round 1    4      9      12 > 10         the first result over the limit: a 3 is refused
    round 2    4      9      .      10       the others again, without it: none is over the limit

Each round evaluates the whole batch without adding it, and refuses the first event of each key
that is over a limit; equal events that follow at once are refused with it. A batch takes at most
``ROUNDS`` rounds. The events of keys that need more are deferred: the caller judges them in the
next batch. So a client that sends many different events over its limit delays others only so much.

An event is refused in the same way if a result would not fit its type: a float that would be
infinite, or a sum of integers of more than 64 bits. For such a sum, the evaluation of the whole
batch fails, and bisection finds the first row with which it does.

The moment at which a refused event would fit is the first at which enough earlier events have left.
For a vectorized key, it is exact. For a standalone key, it is found by bisection, to 1/4096 of
the longest frame, and it assumes that results decrease while events leave.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mta.columns.schemas import Rows
from mta.errors import ResultOutOfRange, UnsupportedOperation
from mta.frames.base import lifetime_of
from mta.keyed.bucket import KeyedBatch
from mta.keyed.kind import KeyedKind
from mta.keyed.standalone import put_answer
from mta.keyed.windows import KeyedWindows
from mta.keyed.work import Found, Work, results_at, unanswered
from mta.windows.engine import Engine

#: How often a batch is evaluated.
ROUNDS = 8
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
        bucket, outputs = self._windows.bucket, self._windows.monoid.outputs
        gone = list[int]()

        def accept(line: np.ndarray, found: Found, _: Work) -> bool:
            rows = alive[line[found.at]]
            for room, part in zip(rooms, found.outputs, strict=True):
                outputs.put_at(room, rows, part)
            over = self._over(found.outputs)
            refused = self._refused(batch, rows, found.of, over)
            for first, (limit, equal, rest) in refused.items():
                if limit is None:
                    made.out_of_range |= dict.fromkeys(equal.tolist(), _INFINITE)
                else:
                    made.refused |= dict.fromkeys(equal.tolist(), limit)
                gone.extend(equal.tolist())
                for room in rooms:
                    results = outputs.take(room, np.full(len(equal), first))
                    outputs.put_at(room, equal, results)
                if is_last:
                    made.deferred[rest] = True
                    gone.extend(rest.tolist())
            if not gone:
                made.accepted[rows] = True
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

    def _refused(
        self,
        batch: KeyedBatch,
        rows: np.ndarray,
        of: np.ndarray,
        over: Mapping[str | None, np.ndarray],
    ) -> dict[int, tuple[str | None, np.ndarray, np.ndarray]]:
        """Return the first row over a limit of each key that has one.

        Each has the limit, this row and equal ones that follow at once, and the rows after them.
        """
        found = dict[int, tuple[str | None, np.ndarray, np.ndarray]]()
        if not any(mask.any() for mask in over.values()):
            return found
        any_over = np.logical_or.reduce([*over.values()])
        for lane in np.unique(of[any_over]).tolist():
            start, stop = np.searchsorted(of, [lane, lane + 1]).tolist()
            at = start + int(np.argmax(any_over[start:stop]))
            first, limit = int(rows[at]), next(name for name, mask in over.items() if mask[at])
            equal = at
            while equal < stop and self.are_equal(batch, first, int(rows[equal])):
                equal += 1
            found[first] = limit, rows[at:equal], rows[equal:stop]
        return found

    def are_equal(self, batch: KeyedBatch, one: int, other: int) -> bool:
        """Return whether two rows of a key have the same time and values."""
        if one == other:
            return True
        assert batch.times is not None
        schema = self._windows.bucket.kind.reader.inputs
        pair = [schema.take(batch.rows, np.array([row])) for row in (one, other)]
        return bool(batch.times[one] == batch.times[other]) and str(pair[0]) == str(pair[1])

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


def _floats(column: Any) -> np.ndarray:
    """Return a column of results as floats, with NaN for null."""
    if type(column) is np.ndarray and column.dtype.kind in "fiu":
        return column
    return np.ma.filled(np.ma.asarray(column, dtype=float), np.nan)
