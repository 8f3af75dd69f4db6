"""The base of the public windows: the calls that windows of all kinds have in common.

The attribute ``engine`` of a public class such as ``Window`` is not public.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from math import nan
from typing import Any, Generic, Self, TypeVar

import numpy as np

from mta.errors import InvalidTime, InvalidValue
from mta.logs.ranges import fold_between, fold_positions
from mta.monoids.base import Out
from mta.publishing.publisher import Publishable
from mta.times import to_count, to_time
from mta.windows.display import html_table
from mta.windows.engine import Engine
from mta.windows.intake import alone, busy, close_for_good
from mta.windows.settings import Settings
from mta.windows.single import SECOND, UNIT, SingleEvents

T = TypeVar("T")


class PublicWindow:
    """The base of the public classes. As a context manager, it closes the window at the end.

    ``engine`` refuses calls while it serves another one, and after the end; ``KeyedWindows`` are
    their own.
    """

    engine: Any

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Close the window, as ``close`` does. Events after the last checkpoint are lost."""
        self.close()

    @alone
    def check(self) -> None:
        """Assert every invariant of the structure, reading all pages. Raises InvariantViolation."""
        self.engine.structure().check()

    def close(self) -> None:
        """End the use of this window, and close the store if the window opened it; pages stay.

        Every later call raises StoreClosed. Closing twice is harmless.
        """
        engine = self.engine
        close_for_good(engine)
        if engine.store is not None and engine.owns_store:
            engine.store.close()


class EventsWindow(Publishable, PublicWindow, ABC, Generic[Out]):
    """The base of the public classes whose structure stores the events."""

    engine: Engine[Out]
    _single: SingleEvents

    @classmethod
    def _of(cls, engine: Engine) -> Self:
        window = object.__new__(cls)
        window._use(engine)
        return window

    def _use(self, engine: Any) -> None:
        self.engine, self.name, self.store = engine, engine.name, engine.store
        self.monoid, self._single = engine.main, engine.single

    @property
    def settings(self) -> Settings:
        """Return the settings that the constructor was given."""
        return self.engine.settings

    def insert(self, value: Any, time: Any = None) -> None:
        """Add an event, and evict events outside each frame. Amortized O(1) combines per window.

        Raises InvalidValue, InvalidTime, LateEvent, or an error of the store. If it raises, nothing
        changes.

        Args:
            value: The value. For a Product, a mapping from column to value.
            time: Seconds, or a datetime. Required if a frame depends on times.
        """
        single, micros = self._single, 0.0
        if single.owner.busy:
            raise busy(single.owner)
        if single.timed:  # rounds half to even; NaN is not between any times
            micros = (time * SECOND + UNIT) - UNIT if time.__class__ is float else nan
        try:
            shown = single.event(value, micros)
            if shown is None:
                single.insert(value, time)
                return
        except InvalidValue:
            self._insert_following(value, time)
            return
        single.shown = shown
        if single.timed and micros > single.intake.newest:  # type: ignore[operator]
            single.intake.newest = micros

    def _insert_following(self, value: Any, time: Any) -> None:
        # Not in ``insert``, because variables of a lambda are slower.
        self._following(lambda: self._single.insert(value, time), _as_batch(value))

    def _following(self, call: Callable[[], T], values: Any) -> T:
        """Return the result of a call that adds values; take the types of columns from the first.

        If no value is added, the types stay open.
        """
        engine, main = self.engine, self.engine.main
        try:
            return call()
        except InvalidValue:
            if not engine.follow(values):
                raise
        self._use(engine)
        try:
            return call()
        except Exception:
            if not engine.taken():
                engine.retype(main)
                self._use(engine)
            raise

    @abstractmethod
    def _rows(self) -> list[tuple[str, Any]]:
        """Return the names and values to show in a notebook."""

    def _repr_html_(self) -> str:
        return html_table(repr(self), self._rows())

    @property
    def last_accepted(self) -> np.ndarray | None:
        """Which events of the last batch were accepted; None if all were."""
        return self.engine.intake.last_accepted

    @alone
    def range(self, after: Any, until: Any, partial: bool = False) -> Out:
        """Return the result of the events with after < t <= until; ``empty`` if there are none.

        ``range(now - size, now)`` has the events of a time window of that size. Costs O(arity * log
        n) combines and at most two page reads per level; with PagedFlatFAT and
        PagedReactiveAggregator, O(log n) combines, plus ``arity`` for each page read. Raises
        InvalidTime, and EventsGone if some events of the range were evicted.

        Args:
            after: Seconds, or a datetime. Excludes events at this time.
            until: Seconds, or a datetime. Includes events at this time.
            partial: Whether to return the result of the remaining events if some were evicted.

        >>> from mta import Max, TimeWindow, Window
        >>> window = Window(Max(), TimeWindow("1 hour"), name="ranges")
        >>> _ = window.extend([3.0, 1.0, 4.0, 1.0, 5.0], [0, 600, 1200, 1800, 2400])
        >>> window.range(0, 1800), window.range_by_position(1, 2)
        (4.0, 1.0)
        """
        engine = self.engine
        if not engine.timed:
            raise InvalidTime(
                "these events have no times: query by position, or set retain_for= "
                "(for SharedWindows timed=True)"
            )
        events = engine.structure().remembered()
        return engine.lowered(*fold_between(events, to_time(after), to_time(until), partial))

    @alone
    def range_by_position(self, start: int, stop: int, partial: bool = False) -> Out:
        """Return the result of the events from one position to another, at the cost of ``range``.

        Positions count accepted events from 0, in the order of the log. The newest event is at
        ``stats().inserted - 1``. Raises ValueError, and EventsGone if some events were evicted.

        Args:
            start: The position of the first event.
            stop: The position after the last event.
            partial: Whether to return the result of the remaining events if some were evicted.
        """
        start, stop = to_count(start, "a position"), to_count(stop, "a position")
        events = self.engine.structure().remembered()
        return self.engine.lowered(*fold_positions(events, start, stop, partial))

    @alone
    def checkpoint(self, wait: bool = True) -> bytes:
        """Write all pages to the store, and return a snapshot of a few kilobytes.

        Save the snapshot before you take the next one, which deletes the pages that none of the
        last ``retain`` snapshots needs. If ``checkpoint`` fails, you can still restore all of
        these. Costs one flush, and the deletion of pages of evicted events. Raises NotPageable.

        Args:
            wait: Whether to wait for the store. If not, call the store's ``flush`` before you use
                the snapshot.
        """
        if self._publisher is not None:
            self._publisher.retry()
        data = self.engine.checkpoint(wait or self._publisher is not None)
        if self._publisher is not None:
            self._publisher.publish(data, self._what()[0])
        return data

    @alone
    def snapshot(self) -> bytes:
        """Return a snapshot as ``checkpoint`` does, for callers that save several together.

        Call ``retain_snapshot`` after you save them and before the next event.
        """
        return self.engine.snapshot()

    def restore_like(self, snapshot: bytes) -> Self:
        """Return the window or windows of a snapshot, with the settings and the store of these.

        Use it instead of ``restore`` to restore many windows of one kind: they share what is
        expensive to create.

        Args:
            snapshot: The return value of ``checkpoint`` of windows of this kind.
        """
        return self._of(self.engine.restore_like(snapshot))

    def retain_snapshot(self) -> None:
        """Retain the pages of the snapshot that was just saved, as set by ``retain``."""
        self.engine.retain_snapshot()

    @alone
    def delete_pages(self) -> None:
        """Delete every page. Do not use the window or its snapshots afterwards."""
        self.engine.structure().delete_pages()


def _as_batch(value: Any) -> Any:
    """Return one value as a batch."""
    if isinstance(value, Mapping):
        return {name: [each] for name, each in value.items()}
    return tuple([each] for each in value) if isinstance(value, tuple) else [value]
