"""The window: a monoid, a policy, an aggregator and a store behind one small interface.

    >>> from mta import CountWindow, Max, Window
    >>> window = Window(Max(), CountWindow(3), name="demo")
    >>> window.extend([1.0, 5.0, 2.0, 3.0, 4.0]).tolist()
    [1.0, 5.0, 5.0, 5.0, 4.0]

A window is not thread-safe; windows share a store safely.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, Self

import numpy as np

from mta.columns.reading import plain
from mta.errors import HandleMismatch, NotPageable
from mta.levels.amortized_mta import AmortizedMTA
from mta.monoids.base import AbstractMonoid, Monoid
from mta.monoids.product import Observed
from mta.pages.handle import NAME, Handle
from mta.pages.structure import Aggregator, Setting
from mta.policies.base import AbstractPolicy, CountWindow
from mta.times import to_duration
from mta.windows.intake import Intake, Invalid, Late
from mta.windows.revision import Revision, revise
from mta.windows.sizes import group_sizes
from mta.windows.snapshot import make_handle, take_up
from mta.windows.view import WindowView
from stores import PageStore, open_store


@dataclass(frozen=True)
class Stats:
    """What a window holds and has done."""

    events: int
    """Events in the window."""
    inserted: int
    """Events accepted since the beginning; also the position after the newest."""
    levels: int
    resident_rows: int
    """Values and partials in memory: tails, stack and result pair."""
    late: int
    """Events dropped because they were older than the last one."""
    invalid: int
    """Events dropped because they held a null or NaN."""

    @property
    def dropped(self) -> int:
        """Events dropped for any reason."""
        return self.late + self.invalid


class Window:
    """The aggregate of the newest events, after every event.

    ``store`` is a URL, an open store, or None to keep everything in memory, where values may be any
    objects. ``name`` tells windows in one store apart. ``arity`` is the size of groups (and, unless
    ``leaf_arity`` is given, of leaf groups); the defaults suit a single large window. ``late`` says
    what to do with an event older than the last one (where the policy looks at times), ``invalid``
    what to do with nulls and NaN. The last ``retain`` handles stay restorable.

    With ``aggregator=FiBA`` events are kept in order of time, a result is that of the window which
    ends with its event, and late is what is older than the newest by more than ``lateness``.
    """

    def __init__(
        self,
        monoid: AbstractMonoid,
        policy: AbstractPolicy,
        store: str | PageStore | None = "memory://",
        name: str = "window",
        arity: int | None = None,
        leaf_arity: int | None = None,
        aggregator: type[Aggregator] = AmortizedMTA,
        late: Late = "error",
        invalid: Invalid = "error",
        retain: int = 2,
        lateness: float | str | timedelta = 0,
    ) -> None:
        _require(
            bool(NAME.fullmatch(name)),
            f"a window's name is 1 to 100 of A-Z a-z 0-9 . _ : -, not {name!r}",
        )
        _require(
            retain >= 2,
            "retain must be at least 2: a handle is only safe once the next one is saved",
        )
        self.policy, self.retain = policy, retain
        self.results_of = monoid
        self._observers = policy.observers
        observed = [(columns, observer) for _, columns, observer in self._observers]
        self.monoid = Observed(monoid, observed) if observed else monoid
        self.timed = policy.needs_times or aggregator.by_time
        self._aggregator, self._late, self._invalid = aggregator, late, invalid
        #: In microseconds; None where events must come in order.
        self._lateness = to_lateness(lateness, aggregator)
        self._owns_store = isinstance(store, str)
        self.store = None if store is None else open_store(store)
        self._size = policy.size if type(policy) is CountWindow else None
        #: The size of a count window of plain Python values, which need no reading; else None.
        plain_values = isinstance(self.monoid, Monoid) and self.monoid.takes_anything
        self._plain_size = self._size if plain_values and not aggregator.by_time else None
        sizes = group_sizes(
            self.monoid, leaf_arity, arity, timed=self.timed, by_time=aggregator.by_time
        )
        self._begin(name, *sizes)

    def _begin(
        self, name: str, leaf_arity: int, arity: int, like: Aggregator | None = None
    ) -> None:
        """Be an empty window of this name; ``like`` is the structure of another of its kind."""
        self.name = name
        setting = Setting(
            self.monoid, self.store, name, leaf_arity, arity,
            self.timed, self.policy, self._lateness or 0,
        )  # fmt: skip
        self.structure = self._aggregator.begin(setting) if like is None else like.sibling(setting)
        self._view = WindowView(self.structure, [policy for policy, _, _ in self._observers])
        bare = isinstance(self.monoid, Monoid) and self.monoid.is_bare
        if bare and self.monoid is self.results_of:
            self.query = self.structure.query  # type: ignore[method-assign]  # nothing to lower
        self.intake = Intake(
            self.monoid,
            self.policy,
            self.results_of.name,
            self._late,
            self._invalid,
            self._lateness,
        )

    # --- one event at a time --------------------------------------------------------------------

    def insert(self, value: Any, time: Any = None) -> None:
        """Add an event, and evict what the policy says; amortised O(1) combines.

        ``time`` is in seconds, or a datetime; needed where the policy looks at times. Raises
        InvalidValue, InvalidTime, LateEvent, or an error of the store; then nothing has changed.
        """
        size = self._plain_size
        if size and (value == value if value.__class__ is float else value is not None):
            self.structure.slide(value, None, size)
            return
        with np.errstate(all="ignore"):
            event = self.intake.admit(value, time)
            if event is not None:
                self.accept(*event)

    @property
    def last_accepted(self) -> np.ndarray | None:
        """Which events of the last batch were accepted; None when all were."""
        return self.intake.last_accepted

    def accept(self, row: Any, micros: int | None) -> None:
        """Add an event that was read already, and evict what the policy says."""
        if self._size is not None:
            self.structure.slide(row, micros, self._size)
        else:
            newest = micros
            if micros is not None and self._lateness and self.intake.last_time is not None:
                newest = max(micros, self.intake.last_time)
            self.structure.insert(row, micros)
            self.structure.settle(lambda: self.policy.cut(self._view, newest))
        self.intake.advance(micros)

    def evict(self, n: int = 1) -> None:
        """Remove the oldest ``n`` events; at most a page read a level. Raises EmptyWindow."""
        _require(n >= 0, f"cannot evict {n} events")
        self.structure.evict_to(self.structure.front + n)

    def query(self) -> Any:
        """The result over the window, the monoid's ``empty`` without events; 1 combine."""
        if not len(self.structure):
            return self.monoid.empty
        with np.errstate(all="ignore"):
            return plain(self.monoid.lower(self.structure.query()))

    # --- batches --------------------------------------------------------------------------------

    def extend(
        self, values: Any, times: Any = None, results: Literal["all", "last"] = "all"
    ) -> Any:
        """Add a batch of events; return the result after each, or after the last.

        ``values`` is a list, numpy array, pandas or Arrow column (for a Product a mapping or table
        of columns), ``times`` seconds or datetime64. About two whole-group combines an event and
        2/leaf_arity store calls. Returns an array (a dictionary of arrays for a Product) with a
        row for each accepted event; ``last_accepted`` says which these are when some were dropped.
        An error about the values leaves the window as it was; when the store fails in the middle,
        the error's note says how many events were accepted.
        """
        _require(results in ("all", "last"), f"results is 'all' or 'last', not {results!r}")
        rows, micros, count = self.intake.admit_batch(values, times)
        out = self.monoid.outputs.new(count if results == "all" else min(count, 1))
        with np.errstate(all="ignore"):
            if results == "all":
                with self.counting(count):
                    self.slide(rows, micros, count, out)
            elif count:
                self.take_in(rows, micros, 0, count, count)
                self.put_result(out, 0)
        if results == "all" and self.intake.order is not None:
            in_order, out = out, self.monoid.outputs.new(count)
            self.monoid.outputs.put_at(out, self.intake.order, in_order)
        return self.monoid.results(out)

    def revise(self, values: Any, times: Any) -> Revision:
        """Add a batch that may hold late events, and return every result that it changes.

        For ``aggregator=FiBA`` with a count or a time window; costs and errors as for ``extend``,
        and NotRevisable.
        """
        return revise(self, values, times)

    def slide(self, rows: Any, micros: np.ndarray | None, count: int, out: Any) -> None:
        """Insert, evict and query, run by run; one by one where a run cannot be told ahead."""
        done = 0
        try:
            while done < count:
                told = self.structure.run(self.policy, rows, micros, done, count, out)
                if told == 0:
                    time = None if micros is None else int(micros[done])
                    self.accept(self.monoid.inputs.at(rows, done), time)
                    self.put_result(out, done)
                    told = 1
                done += told
        finally:
            if micros is not None and done:
                self.intake.advance(int(micros[done - 1]))

    @contextmanager
    def counting(self, count: int) -> Iterator[None]:
        """Say in an error's note how many events of a batch are in."""
        before = self.structure.back
        try:
            yield
        except Exception as error:
            done = self.structure.back - before
            error.add_note(f"{done} of {count} events of the batch were accepted")
            raise

    def pass_to(self, micros: int | None) -> None:
        """Evict what a policy on times or positions says at a moment when nothing came."""
        if (self.policy.positional or self.policy.needs_times) and len(self.structure):
            self.structure.slide_to(self.policy.cut(self._view, micros))

    def take_in(
        self, rows: Any, micros: np.ndarray | None, start: int, stop: int, count: int
    ) -> None:
        """Insert events of a batch of ``count``, their results left out.

        With a policy on positions evict once, as only the last cut counts.
        """
        done, positional = start, self.policy.positional
        try:
            try:
                while done < stop:
                    if positional:
                        done += self.structure.extend(rows, micros, done, stop)
                    else:
                        time = None if micros is None else int(micros[done])
                        self.accept(self.monoid.inputs.at(rows, done), time)
                        done += 1
            finally:
                if micros is not None and done > start:
                    self.intake.advance(int(micros[done - 1]))
                if positional and done > start:
                    self.structure.slide_to(self.policy.cut(self._view, self.intake.last_time))
        except Exception as error:
            error.add_note(f"{done} of {count} events of the batch were accepted")
            raise

    def put_result(self, out: Any, at: int) -> None:
        """Write the result over the window into a row of outputs; 1 combine."""
        monoid = self.monoid
        if len(self.structure):
            last = monoid.partials.one(self.structure.query())
            monoid.outputs.put_many(out, at, monoid.lower_rows(last))
            return
        empty = monoid.empty
        monoid.outputs.put(out, at, tuple(empty.values()) if isinstance(empty, dict) else empty)

    # --- handles and pages ----------------------------------------------------------------------

    def checkpoint(self, barrier: bool = True) -> bytes:
        """The window as a handle of a few kilobytes, once all its pages are in the store.

        Save the handle before you take the next one: then pages that only older handles need are
        deleted. ``barrier=False`` does not wait for the store; call its ``flush`` before the handle
        is used. Costs one flush, and the deletion of pages that have left.
        """
        if self.store is None:
            raise NotPageable("this window is in memory alone (store=None); give it a store")
        self.structure.tidy()
        data = make_handle(self)
        if barrier:
            self.store.flush()
        self.hold()
        return data

    def hold(self) -> None:
        """Keep all pages of what is now, as though a handle had been taken."""
        self.structure.hold(self.retain)

    @classmethod
    def restore(
        cls,
        handle: bytes,
        monoid: AbstractMonoid,
        policy: AbstractPolicy,
        store: str | PageStore = "memory://",
        arity: int | None = None,
        leaf_arity: int | None = None,
        aggregator: type[Aggregator] = AmortizedMTA,
        late: Late = "error",
        invalid: Invalid = "error",
        retain: int = 2,
        lateness: float | str | timedelta = 0,
    ) -> Self:
        """The window that a handle describes; no store call until pages are needed.

        Raises CorruptHandle for damaged bytes, and HandleMismatch when the handle is of another
        monoid, policy, aggregator or (where given) arity. Later, at most one page a level is read
        to build the stack.
        """
        state = Handle.decode(handle)
        expected = {"arity": arity, "leaf_arity": leaf_arity}
        for what, value in expected.items():
            if value is not None and value != getattr(state, what):
                raise HandleMismatch(
                    f"the handle has {what} {getattr(state, what)}, not {value}; leave it out"
                )
        name, sizes = state.window, (state.arity, state.leaf_arity)
        window = cls(
            monoid, policy, store, name, *sizes, aggregator, late, invalid, retain, lateness
        )
        take_up(state, window)
        return window

    def sibling(self, handle: bytes) -> Self:
        """The window that a handle describes, with all settings and the store of this one.

        As ``restore``, for those who restore many windows of one kind: what they share is not made
        anew for each.
        """
        state = Handle.decode(handle)
        window = object.__new__(type(self))
        window.__dict__.update(self.__dict__)
        window._owns_store = False
        window._begin(state.window, state.leaf_arity, state.arity, self.structure)
        take_up(state, window)
        return window

    def delete_pages(self) -> None:
        """Delete every page; the window and all its handles are of no use afterwards."""
        self.structure.delete_pages()

    def close(self) -> None:
        """Let go of the store if the window opened it; pages stay."""
        if self.store is not None and self._owns_store:
            self.store.close()

    # --- looking at it --------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many events are in the window."""
        return len(self.structure)

    def stats(self) -> Stats:
        """Sizes and counts; no store call."""
        return Stats(
            len(self.structure),
            self.structure.back,
            self.structure.height,
            self.structure.resident_rows,
            self.intake.late_count,
            self.intake.invalid_count,
        )

    def check(self) -> None:
        """Assert every invariant of the structure, reading all pages. Raises InvariantViolation."""
        with np.errstate(all="ignore"):
            self.structure.check()

    def __repr__(self) -> str:
        where = "memory" if self.store is None else self.store.url
        what = f"{self.results_of!r} over {self.policy!r}"
        return f"<Window {self.name!r}: {what}, {len(self)} events in {where}>"


def to_lateness(lateness: float | str | timedelta, aggregator: type[Aggregator]) -> int | None:
    """How late events may come, in microseconds; None where they must come in order."""
    micros = 0 if lateness == 0 else to_duration(lateness)
    _require(
        aggregator.by_time or not micros,
        f"{aggregator.name} takes events in order: for late ones choose aggregator=FiBA",
    )
    return micros if aggregator.by_time else None


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
