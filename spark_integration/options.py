"""The options of ``sliding_aggregate``, and which of them can be combined.

``Options`` checks every rule that does not depend on the DataFrame. ``request.py`` checks the other
rules, and creates a ``Plan``, which passes the options to the workers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args, get_origin, get_type_hints

from mta import EveryCount, EveryPeriod, Trigger
from mta.frames.base import Frame, lifetime_of, require_answerable
from mta.frames.shorthand import Size, frames_of
from mta.logs.base import OnDuplicate
from mta.monoids.product import Aggregations
from mta.publishing.records import head_key
from mta.times import Duration, TimeUnit, is_duration, require_unit, to_count, to_duration
from mta.windows.settings import Nan, Nulls
from stores.address import without_credentials
from stores.errors import UnsupportedOperation

from .errors import InvalidRequest

Emit = Literal["all", "last"]
EmitEvery = int | Duration | EveryPeriod | EveryCount | None
Idle = Literal["keep", "expire", "emit"]
OnBadRow = Literal["raise", "drop"]
OnLate = Literal["raise", "drop", "side"]
Lateness = float | Duration | None
#: The column that marks late rows among the results, with ``on_late="side"``.
LATE = "late"
#: The column that marks rows ahead of the clock, with ``on_ahead="side"``.
AHEAD = "ahead"
#: The column that marks the rows of ``at`` among the events.
ASKED = "__asks"
#: The column that marks updates of earlier results, with ``emit_updates=True``.
CORRECTED = "corrected"
MAX_BUCKETS = 1 << 16
_NAME = re.compile(r"[A-Za-z0-9._:-]{1,40}")
_WINDOW = re.compile(r"[A-Za-z0-9_]{1,40}")


@dataclass(frozen=True)
class History:
    """The windows that ``save_history`` saved.

    Args:
        name: The name of the history.
        store: The URL of the store that has it.
    """

    name: str
    store: str

    def __repr__(self) -> str:
        return f"History({self.name!r}, {without_credentials(self.store)!r})"


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of ``sliding_aggregate``; raises InvalidRequest for unsupported combinations."""

    by: str | Sequence[str]
    on: str
    aggregations: Aggregations
    window: Size | Mapping[str, Size]
    store: str | None = field(default=None, repr=False)  # it may have a password
    emit: Emit = "all"
    emit_every: EmitEvery = None
    carry: Sequence[str] = ()
    types: Mapping[str, str] | None = None
    name: str | None = None
    buckets: int | None = None
    arity: int | None = None
    leaf_arity: int | None = None
    on_late: OnLate = "raise"
    allowed_lateness: Lateness = None
    max_ahead: Lateness = None
    on_ahead: OnLate = "raise"
    time_unit: TimeUnit | None = None
    emit_updates: bool = False
    on_duplicate: OnDuplicate = "append"
    retractions: str | None = None
    asks: str | None = None
    retain_for: Lateness = None
    on_missing: OnBadRow = "raise"
    on_invalid: OnBadRow = "raise"
    nulls: Nulls = "skip"
    nan: Nan = "raise"
    min_samples: int | None = None
    idle: Idle = "keep"
    retain: int = 2
    start_from: str | History | None = None
    publish: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "window", self._read_window())
        self._check_choices()
        self._check_sizes()
        self._check_windows()
        self._check_idle()
        self._check_updates()
        self._check_duplicates()
        self._check_asks()
        self._check_trigger()
        self._check_ties()
        self._check_published()

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.by,) if isinstance(self.by, str) else tuple(self.by)

    @cached_property
    def windows(self) -> dict[str, Frame]:
        """Return the frame of each window by its name; a single window has the name ''."""
        return frames_of(self.window)

    @property
    def lifetime(self) -> int | None:
        """Return after how many microseconds without events a key expires; None for never."""
        return lifetime_of(self.windows.values())

    @cached_property
    def lateness(self) -> int | None:
        """Return the allowed lateness in microseconds; None if events must arrive in order."""
        given = self.allowed_lateness
        if given is None and self.retain_for is not None:
            return 0
        return self._duration("allowed_lateness")

    @cached_property
    def retained_for(self) -> int | None:
        """Return how far before its newest event a key answers questions, in microseconds."""
        return self._duration("retain_for")

    @cached_property
    def ahead_by(self) -> int | None:
        """Return how far ahead of the micro-batch's time events may be; None for any distance."""
        return self._duration("max_ahead")

    def _duration(self, name: str) -> int | None:
        given = getattr(self, name)
        try:
            return None if given is None else to_duration(given, name, least=0)
        except (TypeError, ValueError) as error:
            raise InvalidRequest(
                f"{name} is {given!r}: {error}; give a duration, such as '10 minutes', a "
                "timedelta or a number of seconds, or leave it out"
            ) from error

    @cached_property
    def trigger(self) -> Trigger | None:
        """Return the trigger of results; None if every event has a result."""
        every = self.emit_every
        if every is None or isinstance(every, EveryPeriod | EveryCount):
            return every
        try:
            if is_duration(every):
                return EveryPeriod(every)
            return EveryCount(every)  # type: ignore[arg-type]
        except (TypeError, ValueError) as error:
            raise InvalidRequest(
                f"emit_every is {every!r}: {error}; give a period, such as '1 minute' or a "
                "timedelta, or a number of events, or leave it out"
            ) from error

    @property
    def marks(self) -> list[str]:
        """Return the columns that mark rows, in the order of the result."""
        late, ahead = self.on_late == "side", self.on_ahead == "side"
        return [CORRECTED] * self.emit_updates + [LATE] * late + [AHEAD] * ahead

    @property
    def sized(self) -> bool:
        """Return whether all windows have given sizes, even those with many events."""
        return self.arity is not None or self.leaf_arity is not None

    @property
    def corrects(self) -> bool:
        """Return whether rows may replace, combine with or retract others."""
        return self.retractions is not None or self.on_duplicate != "append"

    @property
    def period(self) -> EveryPeriod | None:
        """Return the trigger of the boundaries; None if results belong to rows."""
        return self.trigger if isinstance(self.trigger, EveryPeriod) else None

    @property
    def patience(self) -> int:
        """Return how far behind the watermark rows may arrive, in microseconds."""
        return max(self.lateness or 0, self.retained_for or 0)

    @property
    def without_values(self) -> str | None:
        """Return the column that marks rows whose values are ignored."""
        return self.retractions or self.asks

    def _check_choices(self) -> None:
        for argument, kind in get_type_hints(Options).items():
            value, choices = getattr(self, argument), get_args(kind)
            if get_origin(kind) is Literal and value not in choices:
                known = " or ".join(map(repr, choices))
                raise InvalidRequest(f"{argument} is {value!r}: it must be {known}")
        if not isinstance(self.emit_updates, bool):
            raise InvalidRequest(f"emit_updates is {self.emit_updates!r}: it must be True or False")

    def _check_sizes(self) -> None:
        try:
            require_unit(self.time_unit)
            if self.min_samples is not None:
                to_count(self.min_samples, "min_samples", 0)
        except ValueError as error:
            raise InvalidRequest(str(error)) from None
        if self.name is not None and not _NAME.fullmatch(self.name):
            raise InvalidRequest(
                f"name is {self.name!r}: use 1 to 40 letters, digits, dots, colons, dashes or "
                "underscores"
            )
        if self.buckets is not None and not 1 <= self.buckets <= MAX_BUCKETS:
            raise InvalidRequest(
                f"buckets is {self.buckets}: it must be between 1 and {MAX_BUCKETS}"
            )
        for argument, size in (("arity", self.arity), ("leaf_arity", self.leaf_arity)):
            if size is not None and size < 2:
                raise InvalidRequest(f"{argument} is {size}: it must be at least 2")
        if self.retain < 2:
            raise InvalidRequest(
                f"retain is {self.retain}: it must be at least 2, because a replay needs the "
                "previous state"
            )

    @property
    def peers(self) -> list[Frame]:
        """Return the frames whose windows include all rows of their last time."""
        return [frame for frame in self.windows.values() if frame.ties == "peers"]

    def _check_ties(self) -> None:
        """Check options with ties: every row needs a result, the result of its last peer."""
        for argument, usual in (
            ("emit_every", None), ("emit_updates", False), ("retractions", None),
            ("on_duplicate", "append"),
        ):  # fmt: skip
            value = getattr(self, argument)
            if self.peers and value != usual:
                raise InvalidRequest(
                    f"window is {self.peers[0]!r}, but with {argument}={value!r}, not every row of "
                    f"a time has a result: leave out ties= or {argument}"
                )

    def _check_published(self) -> None:
        if self.publish is None:
            return
        try:
            head_key(self.publish)
        except ValueError as error:
            raise InvalidRequest(f"publish: {error}") from None
        if self.store is None or self.store.startswith(("spark:", "memory:")):
            raise InvalidRequest(
                f"publish is {self.publish!r}, but no other process can reach the store: give a "
                "server, or a folder on this machine as file:///path"
            )

    def _read_window(self) -> Frame | dict[str, Frame]:
        """Return the frame, or the frames by name, as ``mta.frames.shorthand`` reads them."""
        try:
            found = frames_of(self.window)
        except (TypeError, ValueError) as error:
            raise InvalidRequest(f"window is {self.window!r}: {error}") from error
        return found if isinstance(self.window, Mapping) else found[""]

    def _check_windows(self) -> None:
        if not self.windows:
            raise InvalidRequest(
                'window is empty: name at least one, such as {"1h": TimeWindow(..)}'
            )
        several = isinstance(self.window, Mapping)
        for name in self.windows:
            if several and not (isinstance(name, str) and _WINDOW.fullmatch(name)):
                raise InvalidRequest(
                    f"a window is called {name!r}: use 1 to 40 letters, digits or underscores, "
                    "because the names of its result columns end with this name"
                )

    def _check_idle(self) -> None:
        """Raises InvalidRequest unless time alone can empty the windows."""
        for frame in self.windows.values():
            if self.idle != "keep" and (frame.lifetime is None or not frame.needs_times):
                raise InvalidRequest(
                    f"idle is {self.idle!r}, but time alone never empties a {frame!r}: use a "
                    "TimeWindow, alone or as one side of |, or leave idle out ('keep')"
                )

    def _check_updates(self) -> None:
        """Check that windows retain everything that an update needs."""
        lateness = self.lateness  # read first, so that an error names it
        if not self.emit_updates:
            return
        what = "emit_updates is True, but "
        if lateness is None:
            raise InvalidRequest(
                f"{what}no event may be late: set allowed_lateness, such as '10 minutes', or leave "
                "emit_updates out"
            )
        if self.carry:
            raise InvalidRequest(
                f"{what}windows do not store {', '.join(self.carry)} of earlier events: leave "
                "carry out, or join the results with the events"
            )
        if "" not in self.windows:
            raise InvalidRequest(
                f"{what}there are multiple windows: call sliding_aggregate for each window, or "
                "leave emit_updates out"
            )
        if not self.windows[""].positional:
            raise InvalidRequest(
                f"{what}a {self.windows['']!r} depends on values, and cannot return earlier "
                "results: use a count or a time window, or leave emit_updates out"
            )

    def _check_duplicates(self) -> None:
        """Check that windows accept late events if rows can replace, combine or retract others."""
        if self.on_duplicate == "append" and self.retractions is None:
            return
        what = f"on_duplicate is {self.on_duplicate!r}, but "
        if self.retractions is not None:
            what = f"retractions is {self.retractions!r}, but "
            self._check_mark(self.retractions, what, "retractions")
        if self.lateness is None:
            raise InvalidRequest(
                f"{what}without allowed_lateness, windows add events in order and evict the oldest "
                "ones: set allowed_lateness, even to '0 seconds'"
            )
        if self.trigger is not None:
            raise InvalidRequest(
                f"{what}with emit_every={self.emit_every!r}, results are periodic and would not "
                "show corrections: leave emit_every out"
            )

    def _check_mark(self, column: str, what: str, marked: str) -> None:
        """Raises InvalidRequest unless a column is only used to mark rows."""
        if column in (*self.keys, self.on, *self.carry):
            raise InvalidRequest(
                f"{what}that column is a key, the time or a carried column: mark {marked} in a "
                "separate column of booleans"
            )

    def _check_asks(self) -> None:
        """Check the options of questions, and of rows ahead of the clock."""
        if self.ahead_by is None and self.on_ahead != "raise":
            raise InvalidRequest(
                f"on_ahead is {self.on_ahead!r}, but max_ahead is not given: say how far ahead of "
                "the clock events may be, such as max_ahead='5 minutes', or leave on_ahead out"
            )
        retained = self.retained_for  # read first, so that an error names it
        if self.asks is None:
            if retained is not None and self.publish is None:
                raise InvalidRequest(
                    f"retain_for is {self.retain_for!r}, but there are no questions: name their "
                    "column by asks=, or publish the windows for other processes to query"
                )
            return
        what = "at= is given, but " if self.asks == ASKED else f"asks is {self.asks!r}, but "
        self._check_mark(self.asks, what, "questions")
        others: dict[str, object] = {
            "emit_every": self.emit_every, "emit_updates": self.emit_updates or None,
            "retractions": self.retractions, "idle": "emit" if self.idle == "emit" else None,
            "on_duplicate": None if self.on_duplicate == "append" else self.on_duplicate,
        }  # fmt: skip
        for name, value in others.items():
            if value is not None:
                raise InvalidRequest(
                    f"{what}{name} is {value!r}: with questions, rows can only add events, and "
                    f"every row has a result; leave {name} out, or answer the questions in a "
                    "separate query"
                )
        for frame in self.windows.values():
            try:
                require_answerable(frame)
            except UnsupportedOperation as error:
                raise InvalidRequest(f"{what}{error}") from None

    def _check_trigger(self) -> None:
        """Check that periodic results are not combined with options that emit other rows."""
        if self.trigger is None:
            return
        if self.emit_updates:
            raise InvalidRequest(
                "emit_updates is True, but with emit_every most rows are never emitted and cannot "
                "be updated: leave one of the two out"
            )
        if not self.trigger.needs_times:
            if self.idle != "keep" and self.lateness is None:
                raise InvalidRequest(
                    f"emit_every is {self.emit_every!r}, but with idle={self.idle!r} the count of "
                    "a key's events would depend on when the key is found idle: give a period, "
                    "such as emit_every='1 minute' with idle='expire', or set allowed_lateness, "
                    "such as '0 seconds', with which the count of an expired key starts again, or "
                    "leave idle out ('keep')"
                )
            return
        if self.lateness is not None:
            raise InvalidRequest(
                "emit_every is a period, but with allowed_lateness an event may come after the "
                "result of its boundary: give a number of events, such as emit_every=100, or "
                "leave one of the two out"
            )
        if self.idle == "emit":
            raise InvalidRequest(
                "idle is 'emit', but with a period for emit_every, the boundaries already show "
                "when a window is empty: set idle='expire'"
            )
