"""Late single events where the order matters: what came is folded again from their places on.

    stored ... [ s1 s2 s3 | n1 n2 n3 ]      s: the newest stored events, n: those that came since
               b  b1 b2 b3  c1 c2 c3        a fold up to each; b: of what is before s1

An event that comes late between s2 and s3 takes the place of s3, and the folds of the events from
there on are made again: a combine for each of them, so as many as the event has newer ones. Where the
first one is the same object as before, no newer one changes: so it mostly is with operations that
choose an event. The log receives the event with all others (``single.SingleEvents.write_back``), in
one bulk.

Nothing is folded before the first late event comes. Events in order are folded here when a late one
comes behind them, or changes what they are combined to: a second combine each.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from mta.columns.schemas import Row
from mta.folds.sliding import Events
from mta.monoids.base import AbstractMonoid, Partial, same_value


class LateEvents:
    """The newest events in order of time, and for each window the folds up to each of them.

    ``before`` are the folds of what is before them, by window.
    """

    __slots__ = ("_combine", "_folds", "_known", "_lift", "_partials", "_times")

    def __init__(self, monoid: AbstractMonoid, stored: Events, before: Sequence[Partial]) -> None:
        rows, times, count = stored
        assert times is not None
        self._combine = monoid.combine
        self._lift = None if monoid.lift is same_value else monoid.lift
        self._times: list[float] = times.astype(float).tolist()
        self._partials: list[Partial] = monoid.partials.listed(monoid.lift_rows(rows, count))
        #: One more than there are partials that are folded: at first none.
        self._folds = [[fold] for fold in before]
        #: How many events that came since are among them.
        self._known = 0

    def insert(
        self,
        event: Partial,
        time: float,
        rows: Sequence[Row],
        times: Sequence[float],
        rights: Sequence[Partial],
    ) -> list[Partial]:
        """Insert an event behind those of its time; the folds up to the newest event, by window.

        ``rows`` and ``times`` are all that came before it since the log received any, ``rights``
        the folds before it came. At most a combine for each event that is newer, or has not been
        folded yet. If one raises, nothing has changed.
        """
        lift, more = self._lift, rows[self._known :]
        lifted = more if lift is None else [lift(row) for row in more]
        self._partials += lifted
        self._times += times[self._known :]
        self._known = len(rows)
        at = bisect_right(self._times, time)
        found = [
            self._folded(known, at, event, right)
            for known, right in zip(self._folds, rights, strict=True)
        ]
        for known, (newer, _) in zip(self._folds, found, strict=True):
            known[at + 1 : at + len(newer)] = newer
        self._partials.insert(at, event)
        self._times.insert(at, time)
        self._known += 1
        return [right for _, right in found]

    def _folded(
        self, known: list[Partial], at: int, event: Partial, right: Partial
    ) -> tuple[list[Partial], Partial]:
        """The folds that an event at a place changes, and the one up to the newest event.

        ``known`` are those without it, which then reach up to its place.
        """
        combine, partials = self._combine, self._partials
        known[-1:] = accumulate(partials[len(known) - 1 : at], combine, initial=known[-1])
        fold = combine(known[at], event)
        if fold is known[at] and right is not None:
            return [fold], right
        newer = list(accumulate(partials[at:], combine, initial=fold))
        return newer, newer[-1]
