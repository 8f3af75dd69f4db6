"""Windows of keys as of any moment: the results of many requests together.

    requests   a 09:30, a 11:00, b 10:00      sorted by key and moment
    rows       the last event of the key at or before the moment, with one search each
    starts     the start of the window at that moment, with one search each
    results    the folds of all ranges together (``work.results_at``)

Standalone windows answer requests one by one. ``mta.windows.moments`` explains when a window at a
moment is complete. ``KeyedWindows`` and published windows both use these functions.

Rows of a batch may be questions, too: they are answered, and never become events.

    key a     event 1, event 5, question 5, question 7, event 9      in order of time; at equal
                                                                     times, events come first

A question is answered as of its time, from the events of its key that arrived before its batch or
in it. A question before the horizon of its key is late (``Retention.horizons``), just as an event
before the cutoff is. This does not depend on which events are actually stored.

For vectorized keys, questions are answered from the stored events of their keys and those of the
batch. A standalone window adds its events up to each question, and then answers the question.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from mta.columns.schemas import Rows
from mta.errors import EventsGone, InvalidTime
from mta.kernels.native import first_later, order_by
from mta.keyed.keys import Keys
from mta.keyed.kind import KeyedKind
from mta.keyed.standalone import StandaloneWindows, first_time, put_answer
from mta.keyed.table import EXPIRED, STANDALONE, Table, take_or
from mta.keyed.work import Asked, results_at, union_of
from mta.monoids.base import AbstractMonoid, empties
from mta.times import TimeUnit, are_many, moments_of
from mta.windows.engine import Engine
from mta.windows.moments import gone


class Answers(NamedTuple):
    """Results of some requests."""

    outputs: list[Rows]
    """For each window, one row per request."""
    gone: np.ndarray
    """Which requests miss events that have left."""


def paired(codes: np.ndarray, at: Any, unit: TimeUnit | None) -> tuple[np.ndarray, Any]:
    """Return the place of the key of each request, and its moment in microseconds, if any.

    One moment applies to all keys, and one key to all moments. Raises InvalidTime, and ValueError
    for columns of different lengths.
    """
    if at is None:
        return codes, None
    moments = moments_of(at, unit)
    if not are_many(at):
        return codes, np.full(len(codes), moments[0])
    if len(codes) == 1:
        codes = np.repeat(codes, len(moments))
    if len(moments) != len(codes):
        raise ValueError(f"{len(codes)} keys have {len(moments)} moments: give one, or one per key")
    return codes, moments


def gone_of(keys: Any, misses: np.ndarray, moments: np.ndarray) -> EventsGone:
    """Return the error for the first request that misses events; one key may apply to all."""
    place = int(np.argmax(misses))
    key = next(islice(keys, place if len(keys) > 1 else 0, None))
    return gone(f"of the key {key!r} ", int(moments[place]))


def answers(
    kind: KeyedKind,
    monoid: AbstractMonoid,
    table: Table,
    keys: Keys,
    codes: np.ndarray,
    moments: np.ndarray | None,
    engine_of: Callable[[Table, int], Engine],
    expired: int | None,
) -> Answers:
    """Return the results of requests, each for a key at a moment or as of its newest event.

    ``table`` has the stored events of the keys, ``engine_of`` returns the standalone window of a
    key, and ``monoid`` converts the results. ``expired`` is the latest moment at which the windows
    of an expired key became empty; a key without earlier events may have been expired. Raises
    InvalidTime if events have no times, and UnsupportedOperation if a frame that reads values is
    asked for an earlier moment.
    """
    if moments is not None and not kind.timed:
        raise InvalidTime("these windows store no times: leave out at=, or set timed=True")
    count = len(codes)
    found = Answers([empties(monoid, count) for _ in kind.frames], np.zeros(count, bool))
    places = table.keys.find(keys)[codes]
    marks, has_events = take_or(table.marks, places, EXPIRED), take_or(table.counts, places) > 0
    rows = np.flatnonzero((marks < STANDALONE) & has_events)
    if len(rows):
        asked = None if moments is None else moments[rows]
        misses = put_in_lanes(kind, monoid, table, places[rows], asked, found.outputs, rows)
        found.gone[rows] = misses
    for at in np.flatnonzero(marks == STANDALONE).tolist():
        place = int(places[at])
        engine = engine_of(table, place)
        if moments is None:
            engine.put_results(found.outputs, at)
            continue
        left, moment = int(table.left[place]) > 0, int(moments[at])
        found.gone[at] = put_answer(kind, engine, moment, left, found.outputs, at)
    if moments is not None and expired is not None:
        # A key was not expired if it has an earlier event, or if events of it have left.
        early = moments < expired
        for row in np.flatnonzero(early & has_events).tolist():
            early[row] = first_time(table, int(places[row]), engine_of) >= expired
        np.logical_or(found.gone, early, found.gone)
    return found


def put_in_lanes(
    kind: KeyedKind, monoid: AbstractMonoid, table: Table, of: np.ndarray,
    moments: np.ndarray | None, outputs: list[Rows], places: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Write the results of keys, the lanes ``of`` a table, to places; return which miss events."""
    misses = np.zeros(len(of), bool)
    order = np.argsort(of, kind="stable") if moments is None else order_by(of, moments)
    of = of[order]
    rows = table.bounds[of + 1] - 1
    if moments is not None:
        assert table.times is not None
        moments = moments[order]
        rows = first_later(table.times, table.bounds, of, moments) - 1
        misses[order] = _missing(kind, table, of, rows, moments)
    some = np.flatnonzero(rows >= table.bounds[of])
    asked = None if moments is None else moments[some]
    found = results_at(kind, table, of[some], np.full(len(some), -1), rows[some], asked)
    for out, part in zip(outputs, found.outputs, strict=True):
        monoid.outputs.put_at(out, places[order[some]], part)
    return misses


def _missing(
    kind: KeyedKind, table: Table, of: np.ndarray, rows: np.ndarray, moments: np.ndarray
) -> np.ndarray:
    """Return which windows at moments may have held events that have left."""
    newest = table.newest()[of]
    misses: np.ndarray = (table.left[of] > 0) & (moments < kind.retention.horizons(newest))
    if misses.any():
        frames, lanes = kind.frames.values(), table.lanes
        starts = [lanes.starts(frame, of, rows, moments, exact=True) for frame in frames]
        misses &= np.minimum.reduce(starts) < table.bounds[of]
    return misses


# --- questions of a batch -------------------------------------------------------------------------


@dataclass(slots=True)
class Questions:
    """The questions of a batch that are not late, by key and time."""

    at: np.ndarray
    """The place of each question in the batch."""
    of: np.ndarray
    """The place of the key of each question."""
    times: np.ndarray
    outputs: list[Rows]
    """For each window, one answer per question."""

    def __len__(self) -> int:
        return len(self.at)


def answer(
    kind: KeyedKind, questions: Questions, known: Table, at: np.ndarray, new: Table,
    standalone: StandaloneWindows,
) -> Asked | None:  # fmt: skip
    """Answer the questions of a batch; return those that standalone windows answer later.

    ``new`` has the events of all keys of the batch, and ``at`` the place of each key in ``known``,
    or -1.
    """
    marks = take_or(known.marks, at)
    at = np.where(marks == EXPIRED, -1, at)
    alone = (marks == STANDALONE) | (not kind.vectorized)
    is_alone = alone[questions.of]
    _answer_lanes(kind, questions, np.flatnonzero(~is_alone), known, at, new)
    waiting = np.flatnonzero(is_alone & (new.counts[questions.of] > 0))
    for row in np.flatnonzero(is_alone & (new.counts[questions.of] == 0)).tolist():
        place = int(at[questions.of[row]])
        if place >= 0 and known.marks[place] == STANDALONE:
            engine, moment = standalone.opened(known, place), int(questions.times[row])
            left = int(known.left[place]) > 0
            put_answer(kind, engine, moment, left, questions.outputs, row)
    if not len(waiting):
        return None
    of, times = questions.of[waiting], questions.times[waiting]
    assert new.times is not None
    slots = first_later(new.times, new.bounds, of, times)
    return Asked(of, times, slots, waiting, questions.outputs)


def _answer_lanes(
    kind: KeyedKind,
    questions: Questions,
    rows: np.ndarray,
    known: Table,
    at: np.ndarray,
    new: Table,
) -> None:
    """Answer the questions of vectorized keys."""
    if not len(rows):
        return
    keys = np.unique(questions.of[rows])
    late = kind.settings.lateness is not None
    union, _ = union_of(known, at[keys], new.take(keys), late)
    of = np.searchsorted(keys, questions.of[rows])
    put_in_lanes(kind, kind.monoid, union, of, questions.times[rows], questions.outputs, rows)
