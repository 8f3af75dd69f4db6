"""What works inside several windows over one stream: events stored once, and a cursor a window.

A batch is worked on a hand at a time. Windows whose cuts follow from positions and times are run
before the hand is stored, so that a failing store leaves them where they were; the others are asked
after every single event. A window that has fallen behind, because a call failed or because nobody
wanted its results, is put where its policy says when it is next looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np

from mta.columns.schemas import Rows
from mta.cursors.cursor import Cursor
from mta.cursors.ordered import Hand
from mta.cursors.view import part_of
from mta.fiba.kept import KeptTree
from mta.levels.kept import KeepAll, KeptEvents
from mta.monoids.base import AbstractMonoid
from mta.monoids.product import Columns
from mta.policies.base import AbstractPolicy
from mta.windows.engine import Engine
from mta.windows.settings import Settings
from stores import PageStore

#: How many events of a batch are worked on at once, by one window after the other.
_HAND = 1 << 16
#: After how many leaf groups events that no window needs are let go of, where no handle does it.
_TRIM_GROUPS = 32


class SharedEngine(Engine):
    """The engine of several windows by name, which evicts nothing by itself.

    ``keep`` is a policy for events that no window holds.
    """

    structure: KeptEvents | KeptTree
    #: Each window, by its name.
    cursors: dict[str, Cursor]

    def __init__(
        self,
        monoid: AbstractMonoid,
        windows: Mapping[str, AbstractPolicy],
        store: str | PageStore | None,
        name: str,
        settings: Settings,
        timed: bool,
        keep: AbstractPolicy | None,
    ) -> None:
        timed = timed or settings.aggregator.by_time
        super().__init__(monoid, KeepAll(timed, _observed(windows.values())), store, name, settings)
        self._keep = keep
        self.place(windows, {})

    @property
    def policies(self) -> dict[str, AbstractPolicy]:
        """The policy of each window."""
        return {name: cursor.policy for name, cursor in self.cursors.items()}

    def place(self, windows: Mapping[str, AbstractPolicy], fronts: Mapping[str, int]) -> None:
        """Have these windows, those with a front up to the newest event."""
        self.cursors = {name: self.cursor(policy) for name, policy in windows.items()}
        self._trimmed = self.structure.back
        for name, front in fronts.items():
            self.cursors[name].place(front, self.structure.back)

    def cursor(self, policy: AbstractPolicy) -> Cursor:
        """A window that is not settled yet. Raises ValueError for a policy that cannot be asked."""
        if policy.needs_times and not self.timed:
            raise ValueError(f"{policy!r} needs times, but these events are kept without any")
        known = [_key(observer) for observer in self.policy.observers]
        lenses = {}
        for observer in policy.observers:
            if (key := _key(observer)) not in known:
                raise ValueError(f"{policy!r} looks at {observer[2].name}, which is not kept here")
            lenses[id(observer[0])] = part_of(self.monoid, known.index(key) + 1)
        return Cursor(self.monoid, policy, self.structure, lenses)

    def require_observed(self, policies: Iterable[AbstractPolicy]) -> None:
        """What policies look at is kept with the events, so a handle is only restored with it."""
        found = {_key(observer) for policy in policies for observer in policy.observers}
        for observer in self.policy.observers:
            if _key(observer) not in found:
                raise ValueError(
                    f"no other window looks at {observer[2].name}, which is kept with every event; "
                    "keep this window, or start new ones"
                )

    def ready(self, cursor: Cursor) -> Cursor:
        """A window that has taken in every event; at most a page read a level if it had not."""
        if cursor.back != self.structure.back:
            cursor.settle(self.intake.last_time)
        return cursor

    def result(self, cursor: Cursor) -> Any:
        """The result of a window as it is now."""
        return self.lowered(self.ready(cursor).query(), len(cursor))

    def put_result(self, out: Rows, at: int, cursor: Cursor) -> None:
        """Write the result of a window as it is now into a row of outputs."""
        self.put_fold(self.ready(cursor).query(), len(cursor), out, at)

    # --- events in ------------------------------------------------------------------------------

    def insert(self, value: Any, time: Any) -> None:
        """Read an event and add it to all windows; see ``SharedWindows.insert``."""
        event = self.intake.admit(value, time)
        if event is not None:
            self.accept(*event)

    def accept(self, row: Any, micros: int | None) -> None:
        """Add an event that was read already to all windows."""
        self._trim()
        self._accept(row, micros, self.cursors.values())
        self.intake.advance(micros)

    def _accept(self, row: Any, micros: int | None, cursors: Iterable[Cursor]) -> None:
        """Store an event, and step the windows that stand right before it; all or nothing.

        Windows that a late event moves are put where their policies say when they are looked at.
        """
        tree, stamp = self.structure, self.structure.stamp
        tree.insert(row, micros)
        if tree.stamp != stamp:
            self._fall_behind()
            return
        before = tree.back - 1
        stood = [(cursor, cursor.front) for cursor in cursors if cursor.back == before]
        try:
            for cursor, _ in stood:
                cursor.step(row, micros)
        except Exception:
            for cursor, front in stood:
                cursor.place(front, before)
            tree.take_back()
            raise

    def extend(self, values: Any, times: Any, results: Literal["all", "last"]) -> dict[str, Any]:
        """Read a batch and add it; see ``SharedWindows.extend``."""
        if results not in ("all", "last"):
            raise ValueError(f"results is 'all' or 'last', not {results!r}")
        outputs, each = self.monoid.outputs, results == "all"
        rows, micros, count = self.intake.admit_batch(values, times)
        outs = {name: outputs.new(count if each else min(count, 1)) for name in self.cursors}
        with self.counting(count):
            self.ingest(rows, micros, 0, count, outs if each else None)
        if each:
            return {name: self.as_given(out) for name, out in outs.items()}
        for name, cursor in self.cursors.items():
            if count:
                self.put_result(outs[name], 0, cursor)
        return {name: self.monoid.results(out) for name, out in outs.items()}

    def ingest(
        self,
        rows: Rows,
        micros: np.ndarray | None,
        start: int,
        stop: int,
        outs: dict[str, Rows] | None = None,
    ) -> None:
        """Insert events of a batch, a hand at a time; the results of each window into ``outs``."""
        begun = self.structure.back
        try:
            for first in range(start, stop, _HAND):
                self._trim()
                end = min(first + _HAND, stop)
                hand = self._run(rows, micros, first, end, outs) if outs else None
                self._store(rows, micros, first, end, outs or {})
                if hand is not None and end < stop:
                    self.structure.keep(hand)
        except Exception:
            self._fall_behind(ahead=True)
            raise
        finally:
            self.structure.let_go()
            done = self.structure.back - begun
            if micros is not None and done:
                self.intake.advance(int(micros[start + done - 1]))

    def _fall_behind(self, ahead: bool = False) -> None:
        """Let windows be put where their policies say, when they are next looked at.

        All of them, or those alone that ran ahead of what is stored.
        """
        for cursor in self.cursors.values():
            if not ahead or cursor.back > self.structure.back:
                cursor.place(self.structure.front, self.structure.front)

    def _run(
        self,
        rows: Rows,
        micros: np.ndarray | None,
        start: int,
        stop: int,
        outs: dict[str, Rows],
    ) -> Hand:
        """The results of the windows whose fronts are known ahead, before events are stored."""
        monoid, times = self.monoid, None if micros is None else micros[start:stop]
        new = monoid.inputs.cut(rows, start, stop)
        hand, is_new = self.structure.hand_with(new, times, stop - start)
        for name, cursor in self.cursors.items():
            if is_new is None:
                for at, folds in cursor.pieces(hand):
                    monoid.outputs.put_many(outs[name], start + at, monoid.lower_rows(folds))
            elif (folds := cursor.run(hand)) is not None:  # stored events are in the hand as well
                folds = monoid.partials.take(folds, np.flatnonzero(is_new))
                monoid.outputs.put_many(outs[name], start, monoid.lower_rows(folds))
        return hand

    def _store(
        self,
        rows: Rows,
        micros: np.ndarray | None,
        start: int,
        stop: int,
        outs: dict[str, Rows],
    ) -> None:
        """Store events; where fronts depend on values, one by one and with their results."""
        stepped = {n: c for n, c in self.cursors.items() if not c.policy.foreseen}
        stamp = self.structure.stamp
        while start < stop:
            if not stepped:
                start += self.structure.extend(rows, micros, start, stop)
                continue
            time = None if micros is None else int(micros[start])
            self._accept(self.monoid.inputs.at(rows, start), time, stepped.values())
            self.intake.advance(time)  # for windows that are put in their places now
            for name in stepped.keys() & outs.keys():
                self.put_result(outs[name], start, stepped[name])
            start += 1
        if self.structure.stamp != stamp:
            self._fall_behind()

    # --- events out -----------------------------------------------------------------------------

    def _trim(self) -> None:
        """Now and then let go of events that no window needs, where no handle does it."""
        structure = self.structure
        behind = structure.back - self._trimmed
        if structure.discards and behind >= _TRIM_GROUPS * structure.setting.leaf_arity:
            self.evict()

    def evict(self) -> None:
        """Let go of the leaf groups that no window needs any more."""
        cursors = list(self.cursors.values())
        if self._keep is not None:
            cursors.append(self.cursor(self._keep))
        events, leaf = self.structure, self.structure.setting.leaf_arity
        fronts = [events.needed_from(c.policy, self.ready(c).front) for c in cursors]
        events.evict_to(min(fronts or [events.back]) // leaf * leaf)
        self._trimmed = events.back


Observer = tuple[AbstractPolicy, Columns, AbstractMonoid]


def _key(observer: Observer) -> tuple[str, bytes]:
    """What two observers of the same aggregate have in common."""
    _, columns, monoid = observer
    return repr(columns), monoid.fingerprint


def _observed(policies: Iterable[AbstractPolicy]) -> tuple[Observer, ...]:
    """What policies look at, each aggregate once, in an order that does not depend on theirs."""
    found = {_key(observer): observer for each in policies for observer in each.observers}
    return tuple(found[key] for key in sorted(found))
