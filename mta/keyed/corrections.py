"""Retractions, replacements and combinations of events at the same time, for many keys together.

The rows of a batch are processed by key and time, and rows of one time in order of arrival:

    known     a  1x 5y            the stored events of a key
    batch     a  5z 5- 9u         5- retracts the newest event at 5
    result    a  1x 5y 9u         if events are added
              a  1x 9u            with "replace" and "combine"

Retractions, replacements and combinations of stored events are computed over whole columns
(``correct``): rows that are no longer valid are removed from the union of stored and new events.
The corrected keys are then written again completely, which hides their entries in older tables. An
event that another event of the same batch replaces has a result too: the result of its window as of
its arrival.

Two kinds of keys are standalone for this batch: keys with a retraction of an event of the same
batch (``Retractions.alone``), and keys that lose their newest event without an equally new one
(``receding``), because only a standalone window knows up to when events were evicted. A key of the
second kind is vectorized again once an equally new event has arrived.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mta.columns.schemas import Rows
from mta.columns.texts import listed_text
from mta.frames.base import Frame
from mta.kernels.native import bounds_of, first_later, spread
from mta.keyed.table import ALL, NO_TIME, Table, folds, take_or
from mta.monoids.base import AbstractMonoid, empties
from mta.windows.settings import Settings


@dataclass(slots=True)
class Retractions:
    """The retractions of a batch that match an event, in order of key and time."""

    of: np.ndarray
    """The place of the key of each retraction."""
    times: np.ndarray
    slots: np.ndarray
    """How many events of the batch, over all keys, precede each retraction."""
    floors: np.ndarray
    """For each retraction, the time before which no result of its key is requested."""
    alone: np.ndarray
    """The places of keys with a retraction of an event of the same batch."""


def resolve(
    codes: np.ndarray,
    times: np.ndarray,
    retracts: np.ndarray,
    appends: bool,
    existing: Callable[[np.ndarray, np.ndarray], np.ndarray],
    put_off: bool,
) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """Resolve the retractions of a batch, whose rows are in order of key, time and arrival.

    ``existing`` returns how many events keys, given by their places, have at some times. Returns
    the new order of the rows, or None if they keep their order, and masks of them: which are
    retractions without a match, and which retract an event of the same batch.

    ``put_off`` says that rows of one key and time have no order: retractions without another match
    retract events of the batch itself. Costs one step per row of the longest run of rows of one key
    and time.
    """
    if not len(codes):
        return None, np.zeros(0, bool), np.zeros(0, bool)
    changes = (codes[1:] != codes[:-1]) | (times[1:] != times[:-1])
    starts = np.flatnonzero(np.concatenate(([True], changes)))
    sizes = np.diff(np.append(starts, len(codes)))
    some = np.add.reduceat(retracts.astype(np.int64), starts) > 0
    first, lengths = starts[some], sizes[some]
    before = existing(codes[first], times[first])
    missing, own = _simulate(first, lengths, before, retracts, appends)
    if not (put_off and missing.any()):
        return None, missing, own
    order = np.lexsort((missing, np.repeat(np.arange(len(starts)), sizes)))
    return order, *_simulate(first, lengths, before, retracts[order], appends)


def _simulate(
    first: np.ndarray, lengths: np.ndarray, before: np.ndarray, retracts: np.ndarray, appends: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Simulate runs of rows of one key and time, row by row and all runs together."""
    missing, own = np.zeros(len(retracts), bool), np.zeros(len(retracts), bool)
    previous, fresh = before.copy(), np.zeros_like(before)
    for step in range(int(lengths.max(initial=0))):
        runs = np.flatnonzero(lengths > step)
        rows = first[runs] + step
        takes = retracts[rows]
        out, into = runs[takes], runs[~takes]
        of_own, nothing = fresh[out] > 0, previous[out] + fresh[out] == 0
        own[rows[takes]], missing[rows[takes]] = of_own, nothing
        fresh[out] -= of_own
        previous[out] -= ~(of_own | nothing)
        if appends:
            fresh[into] += 1
        else:
            previous[into] -= (fresh[into] == 0) & (previous[into] > 0)
            fresh[into] = 1
    return missing, own


def existing_in(table: Table, places: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return how many events keys have in a table at some times; places never decrease."""
    assert table.times is not None
    found: np.ndarray = first_later(table.times, table.bounds, places, times)
    found -= first_later(table.times, table.bounds, places, times - 1)
    return found


def receding(known: Table, at: np.ndarray, new: Table, taken: Retractions) -> np.ndarray:
    """Return the places of keys that lose their newest event without an equally new one."""
    newest = take_or(known.newest(), at, NO_TIME)
    gone = np.bincount(taken.of[taken.times == newest[taken.of]], minlength=len(at))
    places = np.flatnonzero((gone > 0) & (new.newest() < newest))
    found: np.ndarray = places[gone[places] == existing_in(known, at[places], newest[places])]
    return found


# --- by columns -----------------------------------------------------------------------------------


@dataclass(slots=True)
class Corrected:
    """Lanes after a batch, and the rows of its events in these lanes."""

    lanes: Table
    newest: np.ndarray
    """The row of each new event, or of the event that replaced it."""
    passed: np.ndarray
    """Which new events are replaced or retracted by the end of the batch."""
    states: Rows
    """The values of these events, or of their combinations, on arrival; input rows."""
    first: np.ndarray
    """The first row of each lane that is new, or that follows a removed row."""
    touched: np.ndarray
    """The lanes with removed rows or changed values."""


def correct(
    union: Table,
    newest: np.ndarray,
    of: np.ndarray,
    moments: np.ndarray,
    settings: Settings,
    monoid: AbstractMonoid,
) -> Corrected:
    """Apply replacements and retractions to the union of stored and new events.

    ``newest`` are the rows of the new events, each after the stored events of its time. ``of`` and
    ``moments`` are the lanes and times of retractions of stored events. Costs a few searches per
    retraction, and about 50 ns per row.
    """
    assert union.times is not None
    count, schema = union.events, union.schema
    is_new, stays = np.zeros(count, bool), np.ones(count, bool)
    is_new[newest] = True
    codes = np.repeat(np.arange(len(union)), union.counts)
    if len(of):
        runs = np.flatnonzero((of[1:] != of[:-1]) | (moments[1:] != moments[:-1])) + 1
        starts = np.concatenate(([0], runs))
        lanes, times = of[starts], moments[starts]
        sizes = np.diff(np.append(starts, len(of)))
        begin = first_later(union.times, union.bounds, lanes, times - 1)
        end = first_later(union.times, union.bounds, lanes, times)
        before = bounds_of(is_new)
        end -= before[end] - before[begin]
        stays[spread(end - sizes, sizes)] = False
    values = union.rows
    if not settings.appends:
        alive = np.flatnonzero(stays)
        again = (union.times[alive[1:]] == union.times[alive[:-1]]) & is_new[alive[1:]]
        again &= codes[alive[1:]] == codes[alive[:-1]]
        if settings.combines and again.any():
            values = _joined(schema.take(values, alive), alive, again, union, monoid)
        stays[alive[:-1][again]] = False
    bounds = bounds_of(stays)
    gone = np.flatnonzero(~stays)
    touched = np.unique(codes[gone])
    passed = ~stays[newest]
    existing = bounds[newest]
    first = bounds[union.bounds[1:]]
    np.minimum.at(first, codes[newest], existing)
    np.minimum.at(first, codes[gone], bounds[gone])
    rows = np.flatnonzero(stays)
    lanes_now = Table.of(
        schema, union.keys, bounds[union.bounds], union.times[rows], schema.take(values, rows), ALL
    )
    states = schema.take(values, newest[passed])
    return Corrected(lanes_now, existing, passed, states, first, touched)


def _joined(
    rows: Rows, alive: np.ndarray, again: np.ndarray, union: Table, monoid: AbstractMonoid
) -> Rows:
    """Return all values; each part of a combined event combines all parts up to itself."""
    schema, count = union.schema, len(alive)
    heads = np.concatenate(([True], ~again))
    fronts = np.maximum.accumulate(np.where(heads, np.arange(count), 0))
    some = np.flatnonzero(~heads)
    lifted = monoid.lift_rows(rows, count)
    joined = monoid.values_of(folds(monoid, lifted, count, fronts[some], some + 1))
    values = schema.take(listed_text(union.rows), np.arange(union.events))
    schema.put_at(values, alive[some], joined)
    return values


def folds_with(
    monoid: AbstractMonoid,
    lifted: Rows,
    union: Table,
    frame: Frame,
    of: np.ndarray,
    rows: np.ndarray,
    times: np.ndarray | None,
    states: Rows,
) -> Rows:
    """Return the outputs of windows that end with one more event each, and hold all before it.

    Each event is at the place of one of the ``rows`` of the lane ``of``, or after its last row. The
    values of the events are ``states``.
    """
    starts, stops = union.lanes.frame_at(frame, of, rows, times)
    schema, size = monoid.partials, len(rows)
    partials = schema.take(listed_text(monoid.lift_rows(states, size)), np.arange(size))
    outside = np.flatnonzero(stops <= rows)
    none = schema.take(schema.one(monoid.identity), np.zeros(len(outside), np.intp))
    schema.put_at(partials, outside, none)
    before = np.minimum(stops, rows)
    longer = np.flatnonzero(starts < before)
    if len(longer):
        left = folds(monoid, lifted, union.events, starts[longer], before[longer])
        both = monoid.combine_rows(left, schema.take(partials, longer), len(longer))
        schema.put_at(partials, longer, both)
    outputs = monoid.lower_rows(partials)
    empty = np.flatnonzero(starts == stops)
    if len(empty):
        outputs = monoid.outputs.take(outputs, np.arange(size))
        monoid.outputs.put_at(outputs, empty, empties(monoid, len(empty)))
    return outputs
