"""Events coming in, for several windows at once: stored once, and run past each window's cursor.

A batch is worked on a hand at a time. Windows whose cuts follow from positions and times are run
before the hand is stored, so that a failing store leaves them where they were; the others are asked
after every single event. A window that has fallen behind, because a call failed or because nobody
wanted its results, is put where its policy says when it is next looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, cast

import numpy as np

from mta.columns.schemas import Rows
from mta.cursors.cursor import Cursor
from mta.cursors.ordered import Hand
from mta.fiba.aggregator import KeptTree
from mta.levels.kept import KeptEvents
from mta.windows.engine import Engine

#: How many events of a batch are worked on at once, by one window after the other.
_HAND = 1 << 16


class Feed:
    """The windows over some events, by name, and the way in."""

    def __init__(self, engine: Engine, trim: Callable[[], None]) -> None:
        self.engine, self.monoid = engine, engine.monoid
        #: Called before every hand: lets go of events that no window needs.
        self._trim = trim
        self.structure = cast(KeptEvents | KeptTree, engine.structure)
        self.cursors: dict[str, Cursor] = {}

    def ready(self, cursor: Cursor) -> Cursor:
        """A window that has taken in every event; at most a page read a level if it had not."""
        if cursor.back != self.structure.back:
            cursor.settle(self.engine.intake.last_time)
        return cursor

    def insert(self, value: Any, time: Any) -> None:
        """Read an event and add it to all windows; see ``SharedWindows.insert``."""
        intake = self.engine.intake
        self._trim()
        event = intake.admit(value, time)
        if event is not None:
            self._accept(*event, self.cursors.values())
            intake.advance(event[1])

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
        rows, micros, count = self.engine.intake.admit_batch(values, times)
        outs = {name: outputs.new(count if each else min(count, 1)) for name in self.cursors}
        self.ingest(rows, micros, count, outs if each else {})
        if each:
            return {name: self.engine.as_given(out) for name, out in outs.items()}
        for name, cursor in self.cursors.items():
            if count:
                self.put_result(outs[name], 0, cursor)
        return {name: self.monoid.results(out) for name, out in outs.items()}

    def _fall_behind(self, ahead: bool = False) -> None:
        """Let windows be put where their policies say, when they are next looked at.

        All of them, or those alone that ran ahead of what is stored.
        """
        for cursor in self.cursors.values():
            if not ahead or cursor.back > self.structure.back:
                cursor.place(self.structure.front, self.structure.front)

    def ingest(
        self, rows: Rows, micros: np.ndarray | None, count: int, outs: dict[str, Rows]
    ) -> None:
        """Take in a batch, a hand at a time; the results of each window into ``outs``."""
        begun = self.structure.back
        try:
            for start in range(0, count, _HAND):
                self._trim()
                stop = min(start + _HAND, count)
                hand = self._run(rows, micros, start, stop, outs) if outs else None
                self._store(rows, micros, start, stop, outs)
                if hand is not None and stop < count:
                    self.structure.keep(hand)
        except Exception as error:
            self._fall_behind(ahead=True)
            done = self.structure.back - begun
            error.add_note(f"{done} of {count} events of the batch were accepted")
            raise
        finally:
            self.structure.let_go()
            done = self.structure.back - begun
            if micros is not None and done:
                self.engine.intake.advance(int(micros[done - 1]))

    def _run(
        self,
        rows: Rows,
        micros: np.ndarray | None,
        start: int,
        stop: int,
        outs: dict[str, Rows],
    ) -> Hand:
        """The results of the windows whose fronts can be told ahead, before events are stored."""
        monoid, times = self.monoid, None if micros is None else micros[start:stop]
        new = monoid.inputs.cut(rows, start, stop)
        hand, is_new = self.structure.hand_with(new, times, stop - start)
        for name, cursor in self.cursors.items():
            for at, folds in cursor.pieces(hand):
                if is_new is None:
                    monoid.outputs.put_many(outs[name], start + at, monoid.lower_rows(folds))
                else:
                    self._put_new(outs[name], start, at, folds, is_new)
        return hand

    def _put_new(self, out: Rows, start: int, at: int, folds: Rows, is_new: np.ndarray) -> None:
        """The results of the new events in a piece of a hand in which stored ones are as well."""
        schema, count = self.monoid.partials, _count(folds)
        chosen = np.flatnonzero(is_new[at : at + count])
        if len(chosen):
            lowered = self.monoid.lower_rows(schema.take(folds, chosen))
            before = int(np.count_nonzero(is_new[:at]))
            self.monoid.outputs.put_many(out, start + before, lowered)

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
            self.engine.intake.advance(time)  # for windows that are put in their places now
            for name in stepped.keys() & outs.keys():
                self.put_result(outs[name], start, stepped[name])
            start += 1
        if self.structure.stamp != stamp:
            self._fall_behind()

    def put_result(self, out: Rows, at: int, cursor: Cursor) -> None:
        """Write the result of a window as it is now into a row of outputs."""
        fold = self.ready(cursor).query()
        self.engine.put_fold(fold, len(cursor), out, at)


def _count(rows: Rows) -> int:
    """How many rows of partials there are."""
    while isinstance(rows, tuple):
        rows = rows[0]
    return len(rows)
