"""The start of every call: locks the window, reads and checks values and times.

``alone`` marks the public methods of windows. ``Intake`` reads the events of one window.
``KeyedWindows`` shares the functions of this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from time import time
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import numpy as np

from mta.columns.schemas import Row, Rows, Schema
from mta.errors import AheadEvent, InvalidTime, InvalidValue, LateEvent, NotPageable, WindowBusy
from mta.frames.base import Frame
from mta.monoids.base import AbstractMonoid, any_of
from mta.monoids.product import Observed
from mta.times import MICROSECONDS, as_text, clock, read_times, to_time
from mta.windows.settings import Nulls, Settings
from stores.errors import StoreClosed

_Args = ParamSpec("_Args")
_Result = TypeVar("_Result")


def alone(
    method: Callable[Concatenate[Any, _Args], _Result],
) -> Callable[Concatenate[Any, _Args], _Result]:
    """Decorate a method of a window: it runs alone, with the warnings of numpy off.

    A concurrent call raises WindowBusy, and a call after ``close`` StoreClosed; neither changes
    anything. Windows may share an ``engine``.
    """

    @wraps(method)
    def call(self: Any, /, *args: _Args.args, **kwargs: _Args.kwargs) -> _Result:
        engine = self.engine
        if engine.busy:
            raise busy(engine)
        engine.busy = True
        try:
            with np.errstate(all="ignore"):
                return method(self, *args, **kwargs)
        finally:
            engine.busy = False

    return call


def close_for_good(engine: Any) -> None:
    """Make every later call of a window raise StoreClosed. Raises WindowBusy during a call."""
    if engine.busy and not engine.closed:
        raise busy(engine)
    engine.busy = engine.closed = True


def busy(engine: Any) -> WindowBusy | StoreClosed:
    """Return the error for a call while the engine serves another call, or after it was closed."""
    if engine.closed:
        return StoreClosed(
            "this window was closed: restore its last snapshot, or create another window"
        )
    return WindowBusy(
        "this window is processing another call, from another thread or from its own monoid or "
        "frame; it takes one call at a time: use a lock, or give each thread its own window"
    )


@contextmanager
def counting(engine: Any, count: int) -> Iterator[None]:
    """Add a note to an error, with the number of accepted events of a batch."""
    before = engine.taken()
    try:
        yield
    except Exception as error:
        done = engine.taken() - before
        error.add_note(f"{done} of {count} events of the batch were accepted")
        raise


def require_emit(emit: str) -> None:
    """Raise ValueError unless ``emit`` is "all" or "last"."""
    if emit not in ("all", "last"):
        raise ValueError(f"emit must be 'all' or 'last', not {emit!r}")


def require_times(count: int, times: np.ndarray | None) -> None:
    """Raise InvalidTime if there are times, but not as many as events."""
    if times is not None and len(times) != count:
        raise InvalidTime(f"{count} values have {len(times)} times; pass one for each")


def times_ahead(
    times: np.ndarray | None, settings: Settings, asks: np.ndarray | None = None
) -> np.ndarray | None:
    """Return which times are further ahead of the clock than allowed; None if there are none.

    The times of queries, which ``asks`` marks, may have any value. Raises AheadEvent unless such
    events are dropped.
    """
    most = settings.most_ahead
    if most is None or times is None or not len(times):
        return None
    found: np.ndarray = times > round((settings.clock or time)() * MICROSECONDS) + most
    if asks is not None:
        found &= ~asks
    if not found.any():
        return None
    if settings.on_ahead == "raise":
        raise AheadEvent(
            f"{int(found.sum())} of {len(times)} events are ahead of the clock by more than "
            f"{as_text(most)}, the first at index {int(np.argmax(found))}, time "
            f"{clock(int(times[found][0]))}; nothing was inserted; correct their times, or "
            'choose on_ahead="drop"'
        )
    return found


def invalid_rows(
    monoid: AbstractMonoid, rows: Rows, count: int, nulls: Nulls, name: str,
    ignored: np.ndarray | None = None,
) -> np.ndarray | None:  # fmt: skip
    """Return which rows have values that the monoid does not accept; None if there are none.

    ``name`` is the name of the monoid in errors. Values of ``ignored`` rows are not checked. Raises
    InvalidValue unless such rows are dropped or accepted.
    """
    mask = monoid.invalid(rows, count) if count and nulls != "accept" else None
    if mask is not None and ignored is not None:
        mask &= ~ignored
    if mask is None or not mask.any():
        return None
    if nulls == "raise":
        raise InvalidValue(
            f"{int(mask.sum())} of {count} values are null, NaN or outside what {name} takes, "
            f"the first at index {int(np.argmax(mask))}; nothing was inserted; correct them, or "
            'choose nulls="drop_row" or nulls="skip"'
        )
    return mask


def require_pageable(schema: Schema, rows: Rows, *masks: np.ndarray | None) -> None:
    """Raise NotPageable for values that no page can contain, in rows that no mask marks."""
    if (left_out := any_of(masks)) is not None:
        rows = schema.take(rows, np.flatnonzero(~left_out))
    if (at := schema.unpageable(rows)) is not None:
        raise NotPageable(
            f"the value {schema.at(rows, at)!r} cannot be written to a page; {_PLAIN}, or use "
            "store=None to keep the window in memory; nothing was inserted"
        )


class Intake:
    """Reads events for one window, and counts the events that it drops.

    The setting ``on_late`` says what happens to a late event. An event is late if it is older than
    the previous event; if a lateness is allowed, if it is older by more than that than the newest
    event before its batch. The setting ``nulls`` says what happens to a null or NaN.
    """

    def __init__(
        self,
        monoid: AbstractMonoid,
        frame: Frame,
        name: str,
        settings: Settings,
        paged: Literal["events", "partials"] | None = None,
    ) -> None:
        self.monoid, self._name = monoid, name
        #: Adds times to rows if a frame observes an aggregate of times.
        self._stamped = monoid.stamped if isinstance(monoid, Observed) else lambda rows, _: rows
        self._on_late, self._nulls = settings.on_late, settings.nulls
        self.lateness = lateness = settings.lateness
        #: The frame, trigger or option that requires a time for every event, if any.
        self.needed_by: object = frame if frame.needs_times else settings.asks_for_times
        #: Whether times are read and checked.
        self.timed = frame.needs_times or lateness is not None
        #: The order that sorts the last batch by time; None if it was in order.
        self.order: np.ndarray | None = None
        #: Whether values must be plain data, because pages store them.
        self._values_are_paged = paged == "events"
        #: Whether partials must still be checked to be plain data.
        self.unproven = paged is not None
        #: The newest time in microseconds, a whole number that may be a float; see ``last_time``.
        self.newest: float | None = None
        self.last_accepted: np.ndarray | None = None
        self.late_count = self.invalid_count = self.ahead_count = 0
        self._settings = settings
        if settings.max_ahead is not None and not self.timed:
            raise ValueError("max_ahead= needs events with times: take a window by time, or FiBA")

    @property
    def last_time(self) -> int | None:
        """The newest time of an accepted event."""
        return None if self.newest is None else int(self.newest)

    @property
    def counts(self) -> list[int]:
        """How many events were dropped: late, invalid, and ahead of the clock."""
        return [self.late_count, self.invalid_count, self.ahead_count]

    def admit(self, value: Any, time: Any) -> tuple[Row, int | None] | None:
        """Return one event as input row and microseconds, or None if it is dropped.

        Raises InvalidValue, InvalidTime, LateEvent or AheadEvent.
        """
        row = self.monoid.row(value)
        if not self.monoid.is_valid(row) and self._nulls != "accept":
            if self._nulls == "raise":
                raise InvalidValue(
                    f"the value {value!r} is null, NaN or outside what {self._name} takes; correct "
                    'it, or choose nulls="drop_row" or nulls="skip"'
                )
            self.invalid_count += 1
            return None
        if self.unproven or self._values_are_paged:
            self._require_pageable(self.monoid.inputs.one(row), 1)
        if not self.timed:
            return row, None
        if time is None:
            self._require_none_needed()
            # An event without a time follows all others.
            return self._stamped(row, self.last_time or 0), self.last_time or 0
        micros, last, settings = to_time(time), self.last_time, self._settings
        if settings.max_ahead is not None and times_ahead(np.array([micros]), settings) is not None:
            self.ahead_count += 1
            return None
        if last is not None and micros < last - (self.lateness or 0):
            if self._on_late == "raise":
                raise LateEvent(
                    f"the event at {clock(micros)} is {self._too_old} the last one, at "
                    f"{clock(last)}; {self._remedy}"
                )
            self.late_count += 1
            return None
        return self._stamped(row, micros), micros

    def _require_none_needed(self) -> None:
        if (by := self.needed_by) is not None:
            name = by if isinstance(by, str) else repr(by)
            raise InvalidTime(f"{name} needs a time with every event")

    @property
    def _too_old(self) -> str:
        allowed = f"by more than {self.lateness / 1e6} s " if self.lateness else ""
        return f"{allowed}older than"

    @property
    def _remedy(self) -> str:
        return f'{self._settings.late_remedy}, or choose on_late="drop"'

    def advance(self, micros: int | None) -> None:
        """Record the time of an accepted event."""
        if micros is not None:
            self.newest = micros if self.newest is None else max(self.newest, micros)

    def admit_batch(self, values: Any, times: Any) -> tuple[Rows, np.ndarray | None, int]:
        """Return a batch as input rows, microseconds and count, without the dropped events.

        Raises InvalidValue, InvalidTime, LateEvent or AheadEvent before it counts any event.
        """
        micros, in_order = None, True
        if times is None:
            self._require_none_needed()
        if times is not None and self.timed:
            micros, in_order = read_times(times)
        rows, count = self.monoid.rows(values, None if micros is None else len(micros))
        if micros is None and self.timed:
            micros = np.full(count, self.last_time or 0, "<i8")  # follow all others
        require_times(count, micros)
        self.last_accepted = self.order = None
        if count == 0:
            return rows, micros, 0
        invalid = invalid_rows(self.monoid, rows, count, self._nulls, self._name)
        if self.unproven or self._values_are_paged:
            valid, number = rows, count
            if invalid is not None:
                places = np.flatnonzero(~invalid)
                valid, number = self.monoid.inputs.take(rows, places), len(places)
            self._require_pageable(valid, number)
        ahead = times_ahead(micros, self._settings)
        left_out = any_of((invalid, ahead))
        late = None if micros is None else self._late_mask(micros, in_order, left_out)
        if left_out is not None or late is not None:
            masks, none = (invalid, late, ahead), np.zeros(count, dtype=bool)
            invalid, late, ahead = (none if mask is None else mask for mask in masks)
            self.invalid_count += int(invalid.sum())
            self.late_count += int(late.sum())
            self.ahead_count += int((ahead & ~invalid).sum())
            self.last_accepted = ~(invalid | late | ahead)
            keep = np.flatnonzero(self.last_accepted)
            rows, count = self.monoid.inputs.take(rows, keep), len(keep)
            micros = None if micros is None else micros[keep]
        if micros is None:
            return rows, None, count
        if self.lateness is not None and not in_order:
            self.order = np.argsort(micros, kind="stable")
            rows, micros = self.monoid.inputs.take(rows, self.order), micros[self.order]
        return self._stamped(rows, micros), micros, count

    def _require_pageable(self, rows: Rows, count: int) -> None:
        """Check the rows, and, once, a lifted value."""
        monoid = self.monoid
        if self._values_are_paged:
            require_pageable(monoid.inputs, rows)
        if self.unproven and count:
            lifted = monoid.partials.one(monoid.lift(monoid.inputs.at(rows, 0)))
            if monoid.partials.unpageable(lifted) is not None:
                raise NotPageable(
                    f"{self._name} lifts a value to {monoid.partials.at(lifted, 0)!r}, which "
                    f"cannot be written to a page; {_PLAIN}, or use store=None; nothing was "
                    "inserted"
                )
            self.unproven = False

    def _late_mask(
        self, micros: np.ndarray, in_order: bool, invalid: np.ndarray | None
    ) -> np.ndarray | None:
        """Return which valid events are too late (see the class); None if there are none."""
        last, lateness = self.last_time, self.lateness
        if last is None and lateness is not None:
            return None
        floor = np.iinfo("i8").min if last is None else last - (lateness or 0)
        if micros[0] >= floor and (in_order or (lateness is not None and micros.min() >= floor)):
            return None
        floors: np.ndarray | np.int64 = np.int64(floor)
        if lateness is None:
            counted = micros if invalid is None else np.where(invalid, floor, micros)
            floors = np.maximum(np.maximum.accumulate(counted), floor)
        mask: np.ndarray = micros < floors
        if invalid is not None:
            mask &= ~invalid
        if not mask.any():
            return None
        if self._on_late == "raise":
            where, older = int(np.argmax(mask)), "older than one before them"
            if self.lateness is not None and last is not None:
                older = f"{self._too_old} the last one before it, at {clock(last)}"
            raise LateEvent(
                f"{int(mask.sum())} events of the batch are {older}, the first at index {where}, "
                f"time {clock(int(micros[where]))}; nothing was inserted; {self._remedy}"
            )
        return mask


_PLAIN = "make it numbers, text, bytes, lists, tuples or dictionaries"
