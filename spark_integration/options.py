"""The options of ``sliding_aggregate``, and which of them can be combined.

``Options`` checks every rule that does not depend on the DataFrame. ``request.py`` checks the other
rules, and creates a ``Plan``, which passes the options to the workers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal, Self, get_args

from mta import EveryCount, EveryPeriod, Trigger
from mta.frames.base import Frame, lifetime_of, require_answerable
from mta.frames.shorthand import Size, frames_of
from mta.monoids.product import Aggregations
from mta.publishing.records import head_key
from mta.times import Duration, TimeUnit, is_duration, require_unit
from mta.windows.settings import Nan, Settings, option, require_choice, require_choices
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
#: The settings that can also be "side", and the columns that mark their rows.
ASIDE = {"on_late": LATE, "on_ahead": AHEAD}
#: The settings of windows that are keywords of ``sliding_aggregate``; workers set the others.
SETTINGS = frozenset(each.name for each in fields(Settings)) - {
    "aggregator", "clock", "promote_at", "page_bytes", "cache_bytes",
}  # fmt: skip
#: The options of which only one value changes the columns of the results or of Spark's state.
DECISIVE = {
    "on_late": "side", "on_ahead": "side", "idle": "keep", "allowed_lateness": None,
    "emit_updates": False,
}  # fmt: skip
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
    emit: Emit = option(
        "all", "whether to emit a row for each event, or the last row of each key and batch"
    )
    emit_every: EmitEvery = None
    carry: Sequence[str] = ()
    types: Mapping[str, str] | None = None
    name: str | None = None
    buckets: int | None = None
    time_unit: TimeUnit | None = None
    emit_updates: bool = option(
        False, "emit a row again, marked, when a late row changes its results"
    )
    retractions: str | None = None
    asks: str | None = None
    on_invalid: OnBadRow = option(
        "raise",
        "whether rows without a readable key or time, or with an invalid value, stop the run or "
        "are dropped",
    )
    nan: Nan = option(
        "raise",
        "whether a NaN counts as missing, is invalid (see --on-invalid), or makes results NaN",
    )
    idle: Idle = option(
        "keep", "whether keys with an empty time window are kept, expire, or expire with a last row"
    )
    start_from: str | History | None = None
    publish: str | None = option(None, "a name for 'mta serve' and mta.open_published", "NAME")
    settings: Settings = Settings(nulls="skip")  # noqa: RUF009 (it never changes)
    """The settings of the windows."""
    aside: frozenset[str] = frozenset()
    """The settings whose rows are emitted with a mark instead of being dropped (``ASIDE``)."""

    @classmethod
    def of(cls, **given: Any) -> Self:
        """Return the options of keywords of ``sliding_aggregate``. Raises InvalidRequest."""
        return cls(**_sorted_out(given, {"nulls": "skip"}))

    def changed(self, **changes: Any) -> Self:
        """Return these options with some other keywords. Raises InvalidRequest."""
        if not SETTINGS & changes.keys():
            return replace(self, **changes)
        now = {name: getattr(self.settings, name) for name in SETTINGS}
        return replace(self, **_sorted_out(changes, now | dict.fromkeys(self.aside, "side")))

    def __post_init__(self) -> None:
        object.__setattr__(self, "window", self._read_window())
        self._check_choices()
        self._check_names()
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
        return [CORRECTED] * self.emit_updates + [
            mark for name, mark in ASIDE.items() if name in self.aside
        ]

    @property
    def corrects(self) -> bool:
        """Return whether rows may replace, combine with or retract others."""
        return self.retractions is not None or not self.settings.appends

    @property
    def period(self) -> EveryPeriod | None:
        """Return the trigger of the boundaries; None if results belong to rows."""
        return self.trigger if isinstance(self.trigger, EveryPeriod) else None

    @property
    def patience(self) -> int:
        """Return how far behind the watermark rows may arrive, in microseconds."""
        return max(self.settings.lateness or 0, self.settings.retained)

    @property
    def without_values(self) -> str | None:
        """Return the column that marks rows whose values are ignored."""
        return self.retractions or self.asks

    def _check_choices(self) -> None:
        try:
            require_choices(self)
            require_choice("emit_updates", self.emit_updates, (True, False))
            require_unit(self.time_unit)
        except ValueError as error:
            raise InvalidRequest(str(error)) from None

    def _check_names(self) -> None:
        if self.name is not None and not _NAME.fullmatch(self.name):
            raise InvalidRequest(
                f"name is {self.name!r}: use 1 to 40 letters, digits, dots, colons, dashes or "
                "underscores"
            )
        if self.buckets is not None and not 1 <= self.buckets <= MAX_BUCKETS:
            raise InvalidRequest(
                f"buckets is {self.buckets}: it must be between 1 and {MAX_BUCKETS}"
            )

    @property
    def peers(self) -> list[Frame]:
        """Return the frames whose windows include all rows of their last time."""
        return [frame for frame in self.windows.values() if frame.ties == "peers"]

    @property
    def _duplicates(self) -> dict[str, Any]:
        """Return the setting of what rows do to existing events, for errors; None if they add."""
        return {"on_duplicate": None if self.settings.appends else self.settings.on_duplicate}

    def _check_ties(self) -> None:
        """Check options with ties: every row needs a result, the result of its last peer."""
        for argument, value in {
            "emit_every": self.emit_every, "emit_updates": self.emit_updates or None,
            "retractions": self.retractions, **self._duplicates,
        }.items():  # fmt: skip
            if self.peers and value is not None:
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
        if not self.emit_updates:
            return
        what = "emit_updates is True, but "
        if self.settings.lateness is None:
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
        """Check that windows accept late events if rows can retract others."""
        what = f"retractions is {self.retractions!r}, but "
        if self.retractions is not None:
            self._check_mark(self.retractions, what, "retractions")
            if self.settings.lateness is None:
                raise InvalidRequest(
                    f"{what}without allowed_lateness, windows add events in order and evict the "
                    "oldest ones: set allowed_lateness, even to '0 seconds'"
                )
        elif self.corrects:
            what = f"on_duplicate is {self.settings.on_duplicate!r}, but "
        if self.corrects and self.trigger is not None:
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
        """Check the options of questions."""
        given = self.settings.retain_for
        if self.settings.keep is not None:
            raise InvalidRequest(f"retain_for is {given!r}: give a duration, such as '90 days'")
        if self.asks is None:
            if given is not None and self.publish is None:
                raise InvalidRequest(
                    "retain_for is given, but there are no questions: name their column by asks=, "
                    "or publish the windows for other processes to query"
                )
            return
        what = "at= is given, but " if self.asks == ASKED else f"asks is {self.asks!r}, but "
        self._check_mark(self.asks, what, "questions")
        others: dict[str, object] = {
            "emit_every": self.emit_every, "emit_updates": self.emit_updates or None,
            "retractions": self.retractions, "idle": "emit" if self.idle == "emit" else None,
            **self._duplicates,
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
            if self.idle != "keep" and self.settings.lateness is None:
                raise InvalidRequest(
                    f"emit_every is {self.emit_every!r}, but with idle={self.idle!r} the count of "
                    "a key's events would depend on when the key is found idle: give a period, "
                    "such as emit_every='1 minute' with idle='expire', or set allowed_lateness, "
                    "such as '0 seconds', with which the count of an expired key starts again, or "
                    "leave idle out ('keep')"
                )
            return
        if self.settings.lateness is not None:
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


def _sorted_out(given: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """Return keywords of ``sliding_aggregate`` as fields of ``Options``. Raises InvalidRequest.

    ``usual`` has the settings that are not given, if others than the default.
    """
    others = {name: value for name, value in given.items() if name not in SETTINGS}
    found = {**usual, **{name: given[name] for name in SETTINGS & given.keys()}}
    aside = frozenset(name for name in ASIDE if found.get(name) == "side")
    try:
        for name in ASIDE:
            require_choice(name, found.get(name, "raise"), get_args(OnLate))
        settings = Settings(**{**found, **dict.fromkeys(aside, "drop")})
    except (TypeError, ValueError) as error:
        raise InvalidRequest(str(error)) from error
    return {**others, "settings": settings, "aside": aside}
