"""Late single events if order matters: folds are computed again from the event's position on.

    stored ... [ s1 s2 s3 | n1 n2 n3 ]      s: the newest stored events, n: newer events
               b  b1 b2 b3  c1 c2 c3        a fold up to each; b: of the events before s1

A late event between s2 and s3 takes the position of s3, and the folds from there on are computed
again, with one combine per newer event. If the first new fold is the same object as before, the
later folds do not change either. This is common if an operation chooses one of its arguments. The
log receives the late event together with all others (``single.SingleEvents.write_back``).

Nothing is folded here before the first late event. When a late event follows or changes events that
are not folded yet, they are folded here too, with one more combine each.
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

    ``before`` has the fold of all earlier events for each window.
    """

    __slots__ = ("_combine", "_folds", "_known", "_lift", "_partials", "_times")

    def __init__(self, monoid: AbstractMonoid, stored: Events, before: Sequence[Partial]) -> None:
        rows, times, count = stored
        assert times is not None
        self._combine = monoid.combine
        self._lift = None if monoid.lift is same_value else monoid.lift
        self._times: list[float] = times.astype(float).tolist()
        self._partials: list[Partial] = monoid.partials.listed(monoid.lift_rows(rows, count), count)
        #: The folds, starting with ``before``; more are computed when needed.
        self._folds = [[fold] for fold in before]
        #: How many of the new events are in these lists.
        self._known = 0

    def insert(
        self,
        event: Partial,
        time: float,
        rows: Sequence[Row],
        times: Sequence[float],
        rights: Sequence[Partial],
    ) -> list[Partial]:
        """Insert an event after others with its time; return each window's fold up to the newest.

        ``rows`` and ``times`` have all earlier arrivals that the log has not received; ``rights``
        has the folds before this arrival. Costs at most one combine for each event that is newer or
        not folded yet. If a combine raises, nothing changes.
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
