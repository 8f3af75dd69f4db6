"""What windows of every kind may be set to: read once, checked, and never changed again.

The public calls take these as keywords (``WindowSettings`` and the like, for type checkers); inside
there is one ``Settings`` of checked values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, TypedDict, get_args

from mta.errors import HandleMismatch
from mta.levels.amortized_mta import AmortizedMTA
from mta.monoids.base import AbstractMonoid
from mta.pages.handle import MAX_ARITY, Handle
from mta.pages.page import NAME_BYTES, OBJECT_BYTES
from mta.pages.structure import Aggregator, Existing, Structure
from mta.times import Duration, to_count, to_duration

Late = Literal["error", "drop"]
Invalid = Literal["error", "drop", "accept"]
Lateness = float | Duration

#: A leaf page of 32512 rows of 8 bytes just fits 64 disk pages of 4 KiB, envelope included. So many
#: it has, of however many columns: each column of each group costs a few calls, which with fewer
#: rows would take longer than all else. With half as many a batch over local disk takes a quarter
#: longer, with twice as many no less.
_LEAF_ARITY = 32512
#: Where handles hold all of an open leaf group it has so many bytes, or rows, lest they become
#: large; so it has where every value is an object of its own, to which calls are nothing.
_SMALL_LEAF_BYTES, _LEAST_LEAF_ARITY = 65024, 896
_INNER_BYTES, _MAX_INNER_ARITY = 8192, 256
#: What a leaf page may weigh, and the stack, which holds a partial for every event of the head leaf
#: group.
_MOST_BYTES = 1 << 22


class EventSettings(TypedDict, total=False):
    """Keywords of every kind of window."""

    arity: int | None
    """Size of groups, and of leaf groups unless given; the default suits one large window."""
    leaf_arity: int | None
    late: Late
    """What to do with an event older than the last one, where times are looked at."""
    invalid: Invalid
    """What to do with nulls and NaN."""
    retain: int
    """How many handles stay restorable, from 2 on."""


class SlicedSettings(EventSettings, total=False):
    """Keywords of a window over slices."""

    aggregator: type[Aggregator]


class WindowSettings(SlicedSettings, total=False):
    """Keywords of a single window."""

    lateness: Lateness
    """How much older than the newest an event may be; for ``aggregator=FiBA``."""
    existing: Existing
    """What an event does at a time that has one already; for ``aggregator=FiBA``."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one window, as checked."""

    arity: int | None = None
    leaf_arity: int | None = None
    aggregator: type[Structure] = AmortizedMTA
    late: Late = "error"
    invalid: Invalid = "error"
    retain: int = 2
    lateness: int | None = None
    """In microseconds; None where events must come in order."""
    existing: Existing = "beside"

    @classmethod
    def read(cls, keywords: type[EventSettings], given: Mapping[str, Any]) -> Self:
        """A caller's keywords. Raises TypeError and ValueError, saying what would do."""
        known = sorted(keywords.__annotations__)
        for name in given:
            if name not in known:
                raise TypeError(f"there is no setting {name!r} here; the settings are {known}")
        found = dict(given) | _counts(given)
        for name, choices in (
            ("late", get_args(Late)), ("invalid", get_args(Invalid)),
            ("existing", get_args(Existing)),
        ):  # fmt: skip
            if name in found and found[name] not in choices:
                raise ValueError(f"{name} is one of {choices}, not {found[name]!r}")
        kind = found.get("aggregator", AmortizedMTA)
        if not (isinstance(kind, type) and issubclass(kind, Aggregator)):
            raise TypeError(f"an aggregator is a class such as AmortizedMTA or FiBA, not {kind!r}")
        if found.get("existing", "beside") != "beside" and not kind.by_time:
            raise ValueError(
                f"{kind.name} takes events in order, each beside the others: for existing="
                f"{found['existing']!r} choose aggregator=FiBA"
            )
        if "lateness" in found or kind.by_time:
            found["lateness"] = to_lateness(found.get("lateness", 0), kind)
        return cls(**found)

    def of_handle(self, handle: Handle) -> Self:
        """These with the arities of a handle. Raises HandleMismatch where others were given."""
        for name in ("arity", "leaf_arity"):
            given, held = getattr(self, name), getattr(handle, name)
            if given not in (None, held):
                raise HandleMismatch(f"the handle has {name} {held}, not {given}; leave it out")
        return replace(self, arity=handle.arity, leaf_arity=handle.leaf_arity)

    def group_sizes(self, monoid: AbstractMonoid, timed: bool) -> tuple[int, int]:
        """Sizes of leaf and inner groups, in rows: as given, else what suits one large window.

        A leaf page has up to 32512 rows and 4 MiB, or 64 KiB where values are objects and where the
        structure has no parts; an inner one 8 KiB. Trees by time, which move leaves about for late
        events, have half as many rows. Where partials are heavy, leaf groups are smaller, as the
        stack has a partial an event. ``timed``: events carry times.
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
            if self.aggregator.by_time:  # leaves of up to twice their arity, half as many rows
                rows, most = rows // 2, most // 4
            leaf_arity = arity or max(64, min(most, rows))
        if arity is None:
            weight = OBJECT_BYTES if partial is None else partial + extra + NAME_BYTES
            arity = max(16, min(_MAX_INNER_ARITY, _INNER_BYTES // weight))
        return leaf_arity, arity


def _counts(given: Mapping[str, Any]) -> dict[str, int]:
    """The settings that are counts, checked. Raises TypeError and ValueError."""
    found = {
        name: to_count(given[name], "an arity", 2, MAX_ARITY)
        for name in ("arity", "leaf_arity")
        if given.get(name) is not None
    }
    if "retain" in given:
        found["retain"] = to_count(given["retain"], "retain")
        if found["retain"] < 2:
            raise ValueError(
                "retain must be at least 2: a handle is only safe once the next one is saved"
            )
    return found


def to_lateness(lateness: Any, aggregator: type[Structure]) -> int | None:
    """How late events may come, in microseconds; None where they must come in order."""
    micros = to_duration(lateness, "lateness", least=0)
    if micros and not aggregator.by_time:
        raise ValueError(
            f"{aggregator.name} takes events in order: for late ones choose aggregator=FiBA"
        )
    return micros if aggregator.by_time else None
