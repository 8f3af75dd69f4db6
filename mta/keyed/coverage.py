"""Which results are incomplete since windows or aggregations were changed, and until when.

What a change has lost is told by a ``Start``: every missing event is at a moment or before it, and
so many of each key's events, right before the oldest one that the key still accepts, are all there.
From these follows for each result when it is whole (``Lacking``):

    TimeWindow(60)                  from a moment on
    CountWindow(9)                  after so many events of a key
    TimeWindow(60) | CountWindow(9) after either, as the window is the shorter one of the two
    TimeWindow(60) & CountWindow(9) after both
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from mta.columns.schemas import Record
from mta.keyed.retention import Retention
from mta.keyed.root import Start
from mta.keyed.sweep import Lanes
from mta.monoids.base import AbstractMonoid
from mta.monoids.begun import mark_of
from mta.monoids.product import Product, column_names
from mta.policies.base import AbstractPolicy
from mta.policies.known import AT_ONCE, Whole, all_of, covers, held_for, whole_after

Columns = list[tuple[str, str]]


@dataclass(frozen=True)
class Lacking:
    """A result that lacks events since a change; it lacks nothing once any of these has come."""

    window: str
    aggregation: str
    """"" where there is but one; of a root by itself the column that it reads, "" for all."""
    moment: np.datetime64 | None
    """Results of events from this moment on are whole; None where no moment tells."""
    events: int | None
    """So are those of events that, with those before them, have so many newest ones of their key
    that all came since then. Each of its events that was retracted since then takes one more."""
    both: tuple[np.datetime64, int] | None = None
    """So are those of events from this moment on with so many; for windows joined by ``&``."""


class Losses:
    """What keys have lost of the events that windows held before a change."""

    def __init__(self, retention: Retention, starts: Mapping[str, Start]) -> None:
        self._retention, self._starts = retention, starts
        #: What is missing of any key that windows of before may not have held, if anything is.
        self._start: Start | None = None
        #: What is missing of keys that had to do without any event.
        self._given_up: Start | None = None

    def add(self, start: Start) -> None:
        """Note what is missing of some key."""
        self._start = _both(self._start, start)

    def give_up(self, clock: int | None) -> None:
        """Note that a key has to do without its events."""
        self.add(Start(clock, 0))
        self._given_up = _both(self._given_up, Start(clock, 0))

    def note(self, lanes: Lanes, clocks: np.ndarray | None) -> None:
        """Note the events that keys have, all of which have lost earlier ones."""
        known = int((self._retention.known(lanes, clocks) - lanes.bounds[:-1]).min())
        if clocks is None:
            self.add(Start(None, known))
            return
        gone = clocks.copy()
        some = np.flatnonzero(np.diff(lanes.bounds))
        if lanes.times is not None and len(some):
            gone[some] = np.minimum(gone[some], lanes.times[lanes.bounds[some]])
        cutoffs = self._retention.cutoffs(clocks)
        for name, policy in self._retention.policies.items():
            start, held = self._starts.get(name), cutoffs - held_for(policy)
            if start is None:
                gone = np.minimum(gone, held)
            elif start.moment is not None:
                gone = np.minimum(gone, np.maximum(held, start.moment))
        self.add(Start(int(gone.max()), known))

    def of(self, policy: AbstractPolicy, others: Sequence[str]) -> Start | None:
        """What a window lacks, if anything; ``others`` are windows of before with that policy."""
        policies = self._retention.policies
        wider = {*others, *(n for n, held in policies.items() if covers(held, policy))}
        if wider <= self._starts.keys() and self._start is not None:
            # Each says what may be missing at most, so less than any of them says.
            found = [self._start, *(self._starts[name] for name in wider)]
            moments = [each.moment for each in found if each.moment is not None]
            least = Start(min(moments, default=None), max(each.known for each in found))
            return least if self._given_up is None else _both(least, self._given_up)
        return self._given_up


def _both(one: Start | None, other: Start) -> Start:
    """What is missing where either may be."""
    if one is None:
        return other
    moments = [m for m in (one.moment, other.moment) if m is not None]
    return Start(max(moments) if len(moments) == 2 else None, min(one.known, other.known))


def add_start(starts: dict[str, Start], name: str, start: Start) -> None:
    """Note that something lacks as much as this, too."""
    starts[name] = _both(starts.get(name), start)


def lacking(
    starts: Mapping[str, Start], monoid: AbstractMonoid, policies: Mapping[str, AbstractPolicy]
) -> list[Lacking]:
    """The results that lack events, and from when on they lack none."""
    found = []
    for window, policy in policies.items():
        for alias, columns in _reads(monoid):
            names = [window, *map(mark_of, columns)]
            some = [starts[name] for name in names if name in starts]
            each = lacks(window, alias, policy, some)
            found += [] if each is None else [each]
    return found


def lacks(
    window: str, aggregation: str, policy: AbstractPolicy, starts: Sequence[Start]
) -> Lacking | None:
    """What a result lacks that has to do without all that some starts say; None if nothing."""
    return _lacking(window, aggregation, [whole_after(policy, *start) for start in starts])


def later(one: Lacking, other: Lacking) -> Lacking:
    """The same result of other keys: when both are whole."""
    found = _lacking(one.window, one.aggregation, [_wholes(one), _wholes(other)])
    assert found is not None
    return found


def _lacking(window: str, aggregation: str, sides: Sequence[Sequence[Whole]]) -> Lacking | None:
    """When all sides are whole, each of which is so in one of some ways."""
    wholes = reduce(all_of, sides, [AT_ONCE])
    if AT_ONCE in wholes:
        return None
    moment = next((w.moment for w in wholes if not w.events), None)
    events = next((w.events for w in wholes if w.moment is None), None)
    both = next((w for w in wholes if w.events and w.moment is not None), None)
    return Lacking(
        window, aggregation, None if moment is None else np.datetime64(moment, "us"), events,
        None if both is None else (np.datetime64(both.moment, "us"), both.events),
    )  # fmt: skip


def _wholes(found: Lacking) -> list[Whole]:
    wholes = []
    if found.moment is not None:
        wholes.append(Whole(int(found.moment.astype("M8[us]").astype("i8")), 0))
    if found.events is not None:
        wholes.append(Whole(None, found.events))
    if found.both is not None:
        moment, events = found.both
        wholes.append(Whole(int(moment.astype("M8[us]").astype("i8")), events))
    return wholes


def _reads(monoid: AbstractMonoid) -> Iterator[tuple[str, Columns]]:
    """Each aggregation, and the columns that it reads."""
    if not isinstance(monoid, Product):
        yield "", []
        return
    for alias, part in zip(monoid.aliases, monoid.monoids, strict=True):
        names = column_names(monoid.aggregations[alias][0])
        schemas = part.inputs.schemas if isinstance(part.inputs, Record) else (part.inputs,)
        yield alias, [(n, repr(s)) for n, s in zip(names, schemas, strict=True)]
