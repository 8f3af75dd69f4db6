"""The settings of all kinds of windows, read and checked once.

Public calls take them as keywords. Internal code uses one ``Settings`` object of checked values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Self, get_args

from mta.errors import SnapshotMismatch
from mta.evaluators.amortized_mta import AmortizedMTA
from mta.evaluators.fiba import FiBA
from mta.logs.base import Aggregator, EventLog, OnDuplicate
from mta.monoids.base import AbstractMonoid
from mta.monoids.product import skipping
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
#: The allowed values of each of these settings.
_CHOICES = {
    "on_late": get_args(OnLate),
    "nulls": get_args(Nulls),
    "on_duplicate": get_args(OnDuplicate),
    "on_missing": get_args(OnMissing),
    "on_ahead": get_args(OnAhead),
}
#: The names of these settings in errors, and their smallest and largest allowed values.
_COUNTS = {
    "arity": ("an arity", 2, MAX_ARITY),
    "leaf_arity": ("an arity", 2, MAX_ARITY),
    "retain": ("retain", 0, None),
    "min_samples": ("min_samples", 0, 1 << 31),
    "promote_at": ("promote_at", 1, 1 << 24),
    "page_bytes": ("page_bytes", 1, 1 << 28),
    "cache_bytes": ("cache_bytes", 1, 1 << 40),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """The checked settings of one window."""

    arity: int | None = None
    leaf_arity: int | None = None
    aggregator: type[EventLog] = AmortizedMTA
    on_late: OnLate = "raise"
    nulls: Nulls = "raise"
    min_samples: int | None = None
    retain: int = 2
    allowed_lateness: int | None = None
    """In microseconds; None if events must arrive in order."""
    on_duplicate: OnDuplicate = "append"
    retain_for: int | None = None
    """How far back from the newest event windows can be queried, in microseconds."""
    max_ahead: int | None = None
    """How far ahead of the clock an event may be, in microseconds; None for any distance."""
    on_ahead: OnAhead = "raise"
    clock: Clock | None = None
    on_missing: OnMissing = "raise"
    """This setting and the following ones are for keyed windows."""
    promote_at: int = 1024
    page_bytes: int | None = None
    cache_bytes: int = 1 << 23

    @classmethod
    def read(
        cls,
        arguments: Mapping[str, Any],
        in_order: type[EventLog] = AmortizedMTA,
        by_time: type[EventLog] = FiBA,
    ) -> Self:
        """Return the checked settings from the arguments of a public call.

        ``arguments`` are the ``locals()`` of that call, so that only its signature lists the
        settings. If no aggregator is given, ``in_order`` is used, or ``by_time`` if
        ``allowed_lateness``, ``retain_for`` or an ``on_duplicate`` other than "append" needs it.
        Raises TypeError and ValueError, which say what is allowed.
        """
        defaults = {each.name: each.default for each in fields(cls)} | {"aggregator": None}
        given = {
            name: arguments[name]
            for name in arguments.keys() & defaults.keys()
            if arguments[name] is not None or defaults[name] is not None
        }
        for name, choices in _CHOICES.items():
            if name in given and given[name] not in choices:
                raise ValueError(f"{name} is one of {choices}, not {given[name]!r}")
        for name, bounds in _COUNTS.items():
            if name in given:
                given[name] = to_count(given[name], *bounds)
        _require_retained(given)
        if "min_samples" in given and given.get("nulls") == "accept":
            raise ValueError(
                "with nulls='accept' NaN counts as a value, so min_samples cannot exclude it: "
                "choose nulls='skip'"
            )
        needs_times = bool(given.keys() & {"allowed_lateness", "retain_for"})
        needs_times |= given.get("on_duplicate", "append") != "append"
        for name in given.keys() & {"allowed_lateness", "retain_for", "max_ahead"}:
            given[name] = to_duration(given[name], name, least=0)
        if given.get("on_ahead", "raise") != "raise" and "max_ahead" not in given:
            raise ValueError("on_ahead= needs max_ahead=, how far ahead of the clock events may be")
        kind = given.get("aggregator", by_time if needs_times else in_order)
        if "aggregator" in given and not (isinstance(kind, type) and issubclass(kind, Aggregator)):
            raise TypeError(f"an aggregator is a class such as AmortizedMTA or FiBA, not {kind!r}")
        if needs_times and not kind.by_time:
            raise ValueError(
                f"{kind.name} takes events in order, and appends each: for allowed_lateness=, "
                "retain_for= and on_duplicate= leave aggregator= out, or choose aggregator=FiBA"
            )
        lateness = given.get("allowed_lateness", 0) if kind.by_time else None
        given |= {"aggregator": kind, "allowed_lateness": lateness}
        return cls(**given)

    def aggregating(self, monoid: AbstractMonoid) -> AbstractMonoid:
        """Return a monoid that treats nulls as these settings require."""
        if self.nulls != "skip" and self.min_samples is None:
            return monoid
        return skipping(monoid, self.nulls == "skip", self.min_samples)

    def of_snapshot(self, snapshot: Snapshot) -> Self:
        """Return these settings with a snapshot's arities. Raises SnapshotMismatch for others."""
        for name in ("arity", "leaf_arity"):
            given, held = getattr(self, name), getattr(snapshot, name)
            if given not in (None, held):
                raise SnapshotMismatch(f"the snapshot has {name} {held}, not {given}; leave it out")
        return replace(self, arity=snapshot.arity, leaf_arity=snapshot.leaf_arity)

    def group_sizes(self, monoid: AbstractMonoid, timed: bool) -> tuple[int, int]:
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
            if value is None or not self.aggregator.has_parts:
                least = 0 if value is None else _LEAST_LEAF_ARITY
                rows = min(rows, max(least, _SMALL_LEAF_BYTES // weight))
            most = _LEAF_ARITY
            if self.aggregator.by_time:  # leaves grow to twice their arity
                rows, most = rows // 2, most // 4
            leaf_arity = arity or max(64, min(most, rows))
        if arity is None:
            weight = OBJECT_BYTES if partial is None else partial + extra + NAME_BYTES
            arity = max(16, min(_MAX_INNER_ARITY, _INNER_BYTES // weight))
        return leaf_arity, arity


def _require_retained(given: Mapping[str, Any]) -> None:
    if given.get("retain", 2) < 2:
        raise ValueError(
            "retain must be at least 2: a snapshot is only safe once the next one is saved"
        )
