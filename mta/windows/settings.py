"""The settings of all kinds of windows, checked once.

The constructors take them as keywords. All other code uses one ``Settings`` object: Spark's options
contain one, and the options of the command line are made of its fields.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from functools import cache, cached_property
from inspect import Parameter, signature
from typing import Any, Literal, Self, TypedDict, get_args, get_origin, get_type_hints

from mta.descriptions import Recipe
from mta.errors import CorruptSnapshot, SnapshotMismatch
from mta.evaluators.amortized_mta import AmortizedMTA, LogMTA
from mta.evaluators.fiba import FiBA
from mta.evaluators.flatfat import PagedFlatFAT
from mta.evaluators.reactive import PagedReactiveAggregator
from mta.evaluators.steady_mta import SteadyMTA
from mta.frames.base import Frame
from mta.logs.base import EventLog, OnDuplicate
from mta.logs.finger_tree.log import require_joins
from mta.monoids.base import AbstractMonoid
from mta.monoids.product import skip_nulls
from mta.pages import MAX_ARITY, NAME_BYTES, OBJECT_BYTES
from mta.snapshots import Snapshot
from mta.times import Duration, to_count, to_duration

OnLate = Literal["raise", "drop"]
Nulls = Literal["skip", "raise", "drop_row", "accept"]
#: The choices for NaN, if they differ from those for nulls (``rolling``).
Nan = Literal["raise", "skip", "propagate"]
OnMissing = Literal["raise", "drop"]
OnAhead = Literal["raise", "drop"]
#: Returns the current time, in seconds since 1970.
Clock = Callable[[], float]
Lateness = float | Duration

#: With its header, a leaf page of 32512 rows of 8 bytes just fits 64 disk pages of 4 KiB. The
#: number of rows does not depend on the number of columns: each column of each group costs a few
#: calls, which dominate if there are fewer rows. On local disk, a batch takes a quarter longer with
#: half as many rows, and no less with twice as many.
_LEAF_ARITY = 32512
#: If a snapshot contains the whole open leaf group, the group has this many bytes or rows, to keep
#: the snapshot small. The same applies if every value is a Python object, as its cost dominates
#: that of calls.
_SMALL_LEAF_BYTES, _LEAST_LEAF_ARITY = 65024, 896
_INNER_BYTES, _MAX_INNER_ARITY = 8192, 256
#: The size limit of a leaf page, and of the stack, which has a partial for every event of the head
#: leaf group.
_MOST_BYTES = 1 << 22
#: The aggregators by the names that snapshots use.
AGGREGATORS: dict[str, type[EventLog]] = {
    kind.__name__: kind
    for kind in (AmortizedMTA, FiBA, LogMTA, PagedFlatFAT, PagedReactiveAggregator, SteadyMTA)
}
#: The names of these settings in errors, and their smallest and largest allowed values.
_COUNTS = {
    "arity": ("arity", 2, MAX_ARITY),
    "leaf_arity": ("leaf_arity", 2, MAX_ARITY),
    "retain": ("retain", 0, None),
    "min_samples": ("min_samples", 0, 1 << 31),
    "promote_at": ("promote_at", 1, 1 << 24),
    "page_bytes": ("page_bytes", 1, 1 << 28),
    "cache_bytes": ("cache_bytes", 1, 1 << 40),
}
#: Those that are never None.
_ALWAYS = ("retain", "promote_at", "cache_bytes")


class Changes(TypedDict, total=False):
    """Settings that ``restore`` replaces: those of the constructor, which describes them."""

    arity: int | None
    leaf_arity: int | None
    aggregator: type[EventLog] | None
    allowed_lateness: Lateness | None
    on_duplicate: OnDuplicate
    retain_for: Lateness | Frame | None
    on_late: OnLate
    nulls: Nulls
    min_samples: int | None
    max_ahead: Lateness | None
    on_ahead: OnAhead
    clock: Clock | None
    retain: int
    on_missing: OnMissing
    promote_at: int
    page_bytes: int | None
    cache_bytes: int


def option(default: Any, about: str, metavar: str | None = None) -> Any:
    """Return a field of a dataclass that is also an option of the command line."""
    return field(default=default, metadata={"help": about, "metavar": metavar})


@dataclass(frozen=True)
class Settings:
    """The settings of windows, which their constructors take as keywords and describe.

    A new object is checked once. Durations become timedeltas. Raises TypeError and ValueError,
    which say what is allowed.

    >>> Settings(allowed_lateness="1 minute").lateness
    60000000
    """

    arity: int | None = None
    leaf_arity: int | None = None
    aggregator: type[EventLog] | None = None
    allowed_lateness: Lateness | None = option(
        None, "how much older than the newest row of its key a row may be, such as '10 minutes'",
        "TIME",
    )  # fmt: skip
    on_duplicate: OnDuplicate = "append"
    retain_for: Lateness | Frame | None = None
    on_late: OnLate = option(
        "raise",
        "whether a row that is older than the last row of its key stops the run, is dropped, or "
        "is marked late",
    )
    nulls: Nulls = option(
        "raise",
        "whether a row without a value is skipped by aggregations, stops the run, is dropped, or "
        "makes results NaN",
    )
    min_samples: int | None = option(None, "results with fewer values are null", "N")
    max_ahead: Lateness | None = option(
        None, "how far ahead of this machine's clock a row may be, such as '5 minutes'", "TIME"
    )
    on_ahead: OnAhead = option(
        "raise", "whether a row further ahead stops the run, is dropped, or is marked as ahead"
    )
    clock: Clock | None = None
    retain: int = 2
    on_missing: OnMissing = "raise"
    """This setting and the following ones are for keyed windows."""
    promote_at: int = 1024
    page_bytes: int | None = None
    cache_bytes: int = 1 << 23

    def __post_init__(self) -> None:
        require_choices(self)
        for name, bounds in _COUNTS.items():
            if (value := getattr(self, name)) is not None or name in _ALWAYS:
                object.__setattr__(self, name, to_count(value, *bounds))
        if self.retain < 2:
            raise ValueError(
                "retain must be at least 2: a snapshot is only safe once the next one is saved"
            )
        for name in ("allowed_lateness", "retain_for", "max_ahead"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, Frame):
                object.__setattr__(self, name, _length(name, value))
        self._require_consistent()

    def _require_consistent(self) -> None:
        """Raise ValueError or TypeError for settings that contradict each other."""
        if self.min_samples is not None and self.nulls == "accept":
            raise ValueError(
                "with nulls='accept' NaN counts as a value, so min_samples cannot exclude it: "
                "choose nulls='skip'"
            )
        if self.on_ahead != "raise" and self.max_ahead is None:
            raise ValueError(
                f"on_ahead is {self.on_ahead!r}, but max_ahead is not given: say how far ahead of "
                "the clock events may be, such as max_ahead='5 minutes', or leave on_ahead out"
            )
        if self.keep is not None and not self.keep.positional:
            raise ValueError(
                f"retain_for= takes a duration, or a frame by count or time, not {self.keep!r}"
            )
        if self.clock is not None and not callable(self.clock):
            raise TypeError(f"clock= takes a function that returns seconds, not {self.clock!r}")
        kind = self.aggregator
        if kind is None:
            return
        if not (isinstance(kind, type) and issubclass(kind, EventLog)):
            raise TypeError(f"an aggregator is a class such as AmortizedMTA or FiBA, not {kind!r}")
        if self.needs_times and not kind.by_time:
            raise ValueError(
                f"{kind.name} takes events in order, and appends each: for allowed_lateness=, "
                "retain_for= and on_duplicate= leave aggregator= out, or choose aggregator=FiBA"
            )

    @property
    def needs_times(self) -> bool:
        """Return whether these settings need a log that keeps events in order of time."""
        return self.allowed_lateness is not None or self.answers_earlier or not self.appends

    @property
    def appends(self) -> bool:
        """Return whether an event at the time of an existing event is added to it."""
        return self.on_duplicate == "append"

    @property
    def combines(self) -> bool:
        """Return whether an event is combined with an existing event of its time."""
        return self.on_duplicate == "combine"

    @property
    def late_remedy(self) -> str:
        """Return what to do about a late event, for errors."""
        if self.lateness is None:
            return "sort the events by time, set allowed_lateness"
        return "set a larger allowed_lateness"

    @property
    def answers_earlier(self) -> bool:
        """Return whether ``retain_for`` is a duration: windows can be queried as of a moment."""
        return self.retain_for is not None and self.keep is None

    @property
    def asks_for_times(self) -> str | None:
        """Return the setting for which every event needs a time, if any."""
        return "retain_for=" if self.answers_earlier else None

    def require_duration(self) -> None:
        """Raise TypeError if ``retain_for`` is a frame."""
        if self.keep is not None:
            raise TypeError("retain_for= takes a duration; SharedWindows take a frame too")

    @property
    def keep(self) -> Frame | None:
        """Return the frame of events to retain, if ``retain_for`` is a frame."""
        return self.retain_for if isinstance(self.retain_for, Frame) else None

    @cached_property
    def lateness(self) -> int | None:
        """Return the allowed lateness in microseconds; None if events must arrive in order."""
        by_time = self.needs_times or (self.aggregator is not None and self.aggregator.by_time)
        return _micros(self.allowed_lateness) or 0 if by_time else None

    @cached_property
    def retained(self) -> int:
        """Return how far before the newest event windows can be queried, in microseconds."""
        return (_micros(self.retain_for) or 0) if self.answers_earlier else 0

    @cached_property
    def most_ahead(self) -> int | None:
        """Return how far ahead of the clock an event may be, in microseconds; None for any."""
        return _micros(self.max_ahead)

    def log(self, in_order: type[EventLog], by_time: type[EventLog]) -> type[EventLog]:
        """Return the log that keeps the events: the given aggregator, or one of two defaults."""
        return self.aggregator or (by_time if self.needs_times else in_order)

    def in_order(self) -> Self:
        """Return these settings for events that arrive in order of time."""
        return replace(
            self, aggregator=None, allowed_lateness=None, on_duplicate="append", retain_for=None
        )

    def spanning(self, lateness: int | None, retained: int | None) -> Self:
        """Return these settings with another lateness and retention, in microseconds."""
        late, kept = (
            None if span is None else timedelta(microseconds=span) for span in (lateness, retained)
        )
        return replace(self, allowed_lateness=late, retain_for=kept)

    def keywords(self, kind: type) -> dict[str, Any]:
        """Return the settings that the constructor of a class takes, all of them."""
        return {name: getattr(self, name) for name in _taken_by(kind)}

    def given(self) -> dict[str, Any]:
        """Return the settings that are not the default; an aggregator of this package by name."""
        own = ((each, getattr(self, each.name)) for each in fields(self))
        found = {each.name: value for each, value in own if value != each.default}
        kind = self.aggregator
        if kind is not None and AGGREGATORS.get(kind.__name__) is kind:
            found["aggregator"] = kind.__name__
        return found

    def require_joins(self, monoid: AbstractMonoid) -> None:
        """Raise UnsuitableMonoid if events must be combined and the monoid cannot combine them."""
        require_joins(monoid, self.on_duplicate)

    def aggregating(self, monoid: AbstractMonoid) -> AbstractMonoid:
        """Return a monoid that treats nulls as these settings require."""
        if self.nulls != "skip" and self.min_samples is None:
            return monoid
        return monoid.with_parts(skip_nulls(self.nulls == "skip", self.min_samples))

    def sizes(self, leaf: int, inner: int) -> tuple[int, int]:
        """Return the sizes of leaf and inner groups: as given, otherwise these."""
        return self.leaf_arity or self.arity or leaf, self.arity or inner

    def sized(self, leaf: int | None, inner: int | None) -> Self:
        """Return these settings with other sizes of leaf and inner groups."""
        return replace(self, leaf_arity=leaf, arity=inner)

    @property
    def is_sized(self) -> bool:
        """Return whether sizes of groups are given, for all windows."""
        return self.sizes(0, 0) != (0, 0)

    def group_sizes(
        self, log: type[EventLog], monoid: AbstractMonoid, timed: bool
    ) -> tuple[int, int]:
        """Return the sizes of leaf and inner groups, in rows. The defaults suit one large window.

        A leaf page has up to 32512 rows and 4 MiB, but only 64 KiB if values are objects or the
        structure has no parts. An inner page has 8 KiB. Trees by time, which move leaves for late
        events, have half as many rows. Large partials make leaf groups smaller, as the stack has
        one partial per event. ``timed`` says whether events have times.
        """
        leaf_arity, arity, extra = self.leaf_arity, self.arity, 8 if timed else 0
        value, partial = monoid.inputs.row_bytes, monoid.partials.row_bytes
        if leaf_arity is None:
            weight = OBJECT_BYTES if value is None else max(value + extra, 1)
            rows = _MOST_BYTES // max(weight, partial or 1)
            if value is None or not log.has_parts:
                least = 0 if value is None else _LEAST_LEAF_ARITY
                rows = min(rows, max(least, _SMALL_LEAF_BYTES // weight))
            most = _LEAF_ARITY
            if log.by_time:  # leaves grow to twice their arity
                rows, most = rows // 2, most // 4
            leaf_arity = arity or max(64, min(most, rows))
        if arity is None:
            weight = OBJECT_BYTES if partial is None else partial + extra + NAME_BYTES
            arity = max(16, min(_MAX_INNER_ARITY, _INNER_BYTES // weight))
        return leaf_arity, arity


def require_choices(settings: Any) -> None:
    """Raise ValueError unless each field of a dataclass with a few values has one of them."""
    for name, choices in _choices_of(settings.__class__).items():
        require_choice(name, getattr(settings, name), choices)


@cache
def _choices_of(kind: Any) -> dict[str, tuple[Any, ...]]:
    hints = get_type_hints(kind).items()
    return {name: get_args(hint) for name, hint in hints if get_origin(hint) is Literal}


def require_choice(name: str, value: Any, choices: Collection[Any]) -> None:
    """Raise ValueError unless a setting has one of its values."""
    if value not in choices:
        known = " or ".join(map(repr, choices))
        raise ValueError(f"{name} is {value!r}: it must be {known}")


def _length(name: str, value: Any) -> timedelta:
    """Return a setting that is a duration. Raises TypeError and ValueError, which name it."""
    try:
        return timedelta(microseconds=to_duration(value, name, least=0))
    except ValueError as error:
        if not isinstance(value, str):
            raise
        raise ValueError(f"{name} is {value!r}: {error}") from error


def _micros(duration: Any) -> int | None:
    """Return a duration of ``Settings`` in microseconds."""
    return None if duration is None else to_duration(duration, least=0)


@cache
def _taken_by(kind: type) -> set[str]:
    """Return the names of the settings that the constructor of a class takes."""
    parameters = signature(kind.__init__).parameters.values()  # type: ignore[misc]
    keywords = {each.name for each in parameters if each.kind is Parameter.KEYWORD_ONLY}
    return keywords & {each.name for each in fields(Settings)}


def changed(kind: type, recipe: Recipe, changes: Mapping[str, Any]) -> Settings:
    """Return the settings of a snapshot with those that ``restore`` of a class was given.

    Raises TypeError for a keyword that the constructor does not take, SnapshotMismatch for an
    object of the user that was not given again, CorruptSnapshot, and the errors of ``Settings``.
    """
    known = _taken_by(kind)
    for name in changes.keys() - known:
        raise TypeError(
            f"restore() takes no setting {name!r}; there are {', '.join(sorted(known))}"
        )
    saved = recipe.made_settings(changes)
    try:
        if "aggregator" in saved:
            saved["aggregator"] = AGGREGATORS[saved["aggregator"]]
        found = Settings(**saved)
    except (TypeError, ValueError, KeyError) as error:
        raise CorruptSnapshot(f"the settings in the snapshot are invalid: {error}") from error
    return replace(found, **changes)


def restored_settings(kind: type, state: Snapshot, changes: Mapping[str, Any]) -> Settings:
    """Return ``changed`` for a window's snapshot. Raises SnapshotMismatch for other group sizes."""
    for name in ("arity", "leaf_arity"):
        given, held = changes.get(name), getattr(state, name)
        if given not in (None, held):
            raise SnapshotMismatch(f"the snapshot has {name} {held}, not {given}; leave it out")
    found = changed(kind, state.made(), changes)
    return found.sized(*state.sizes)
