"""Late single events where the order matters: what came is folded again from their places on.

    stored ... [ s1 s2 s3 | n1 n2 n3 ]      s: the newest stored events, n: newer ones
               b  b1 b2 b3  c1 c2 c3        a fold up to each; b: of the events before s1

An event that belongs between s2 and s3 takes the position of s3, and the folds of the events from
there on are computed again: one combine per newer event. Where the first new fold is the same
object as before, the later ones do not change either; this is common if an operation chooses an
event. The log receives the event together with all others (``single.SingleEvents.write_back``).

Nothing is folded before the first late event arrives. Events in order are folded here when a late
event arrives that belongs after them or changes their folds: a second combine each.
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

    ``before`` has the folds of all earlier events, by window.
    """

    __slots__ = ("_combine", "_folds", "_known", "_lift", "_partials", "_times")

    def __init__(self, monoid: AbstractMonoid, stored: Events, before: Sequence[Partial]) -> None:
        rows, times, count = stored
        assert times is not None
        self._combine = monoid.combine
        self._lift = None if monoid.lift is same_value else monoid.lift
        self._times: list[float] = times.astype(float).tolist()
        self._partials: list[Partial] = monoid.partials.listed(monoid.lift_rows(rows, count))
        #: One fold more than there are folded partials: at first none.
        self._folds = [[fold] for fold in before]
        #: How many of the new events are among them.
        self._known = 0

    def insert(
        self,
        event: Partial,
        time: float,
        rows: Sequence[Row],
        times: Sequence[float],
        rights: Sequence[Partial],
    ) -> list[Partial]:
        """Insert an event after those of its time; return each window's fold up to the newest.

        ``rows`` and ``times`` are all events before it that the log has not received, ``rights``
        the folds before it arrived. Costs at most a combine for each event that is newer or not
        folded yet. If a combine raises, nothing has changed.
        """
        lift, more, combine = self._lift, rows[self._known :], self._combine
        self._partials += more if lift is None else [lift(row) for row in more]
        self._times += times[self._known :]
        self._known = len(rows)
        partials, at = self._partials, bisect_right(self._times, time)
        changed: list[list[Partial]] = []
        for folds, right in zip(self._folds, rights, strict=True):
            known = len(folds) - 1
            if known < at:
                folds[known:] = accumulate(partials[known:at], combine, initial=folds[known])
            fold = combine(folds[at], event)
            if fold is folds[at] and right is not None:
                changed.append([fold])
            else:
                changed.append(list(accumulate(partials[at:], combine, initial=fold)))
        found = []
        for folds, newer, right in zip(self._folds, changed, rights, strict=True):
            is_last = len(newer) > len(partials) - at
            found.append(newer[-1] if is_last else right)
            folds[at + 1 : at + len(newer)] = newer
        partials.insert(at, event)
        self._times.insert(at, time)
        self._known += 1
        return found
