"""What one ``sliding_aggregate`` does, as plain data that Spark ships to its workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING, Literal, Self

import pyarrow as pa

from mta.monoids.product import column_names

if TYPE_CHECKING:
    from mta import Product, Trigger
    from mta.pages.structure import OnDuplicate
    from mta.policies.base import AbstractPolicy
    from mta.times import TimeUnit

Output = Literal["event", "last"]
OnBadRow = Literal["error", "drop"]
OnLate = Literal["error", "drop", "side"]
Silent = Literal["keep", "drop", "emit"]
Corrections = Literal["onward", "append"]
#: The column that marks late rows among the results, with ``late="side"``.
LATE = "late"
#: The column that marks rows given again, with ``corrections="append"``.
CORRECTED = "corrected"


@dataclass(frozen=True)
class StartFrom:
    """A start by its name, and where it is."""

    name: str
    store: str = field(repr=False)
    until: int | None
    """The stream's rows before this moment are in the start, in microseconds; None for none."""
    bucket: int = 0
    """Which bucket of it is meant."""


@dataclass(frozen=True)
class Plan:
    """Everything that ``step`` must know; checked by ``request.py`` before it is built."""

    keys: tuple[str, ...]
    time: str
    monoid: Product
    policy: AbstractPolicy | Mapping[str, AbstractPolicy]
    """One window's, or that of each of several windows by its name."""
    columns: tuple[str, ...]
    """The input's columns in the result: keys, time, values, and others to keep."""
    results: dict[str, pa.DataType]
    """The Arrow type of each column of results (``result_name``), in their order."""
    store: str = field(repr=False)
    """Its address, with the password if that is in it."""
    name: str | None
    """What the windows' names begin with; None until a worker knows the query."""
    key_types: tuple[str, ...] = ()
    output: Output = "event"
    buckets: int = 64
    arity: int | None = None
    """Group sizes; None leaves them to the window."""
    leaf_arity: int | None = None
    sized: bool = True
    """Whether all windows have these; else swept ones, once by themselves, have larger leaf groups
    where they begin with many events."""
    late: OnLate = "error"
    lateness: int | None = None
    """How much older than its key's newest event a row may be, in microseconds; None: not at all,
    and windows are kept by structures that take events in order."""
    time_unit: TimeUnit | None = None
    """What numbers in the time column count; None where they must be seconds."""
    corrections: Corrections = "onward"
    existing: OnDuplicate = "append"
    """What an event does at a time of its key that has one already."""
    retractions: str | None = None
    """The column that marks rows that take out an earlier event."""
    missing: OnBadRow = "drop"
    """What becomes of those that find none."""
    invalid: OnBadRow = "error"
    silent: Silent = "keep"
    every: Trigger | None = None
    """When results come out; None: after every event."""
    schema: pa.Schema | None = None
    """The types of ``columns``, for results that belong to no row."""
    retain: int = 2
    start: StartFrom | None = None
    """What buckets without a state begin with."""
    temporary: bool = False
    """A batch query: the windows start empty, and their pages are deleted with the task."""

    @property
    def values(self) -> tuple[str, ...]:
        """The columns that aggregations and policies read, each once."""
        return values_of(self.monoid, self.policies.values())

    @property
    def policies(self) -> dict[str, AbstractPolicy]:
        """The policy of each window by its name, which is empty where there is but one."""
        return policies_of(self.policy)

    @property
    def by_time(self) -> bool:
        """Whether the windows take late events and corrections.

        A batch query's rows are sorted beforehand.
        """
        return self.lateness is not None and (not self.temporary or self.corrects)

    @property
    def corrects(self) -> bool:
        """Whether rows may replace, join or take out others."""
        return self.retractions is not None or self.existing != "append"

    @property
    def appends(self) -> bool:
        """Whether rows may be given again."""
        return self.corrections == "append"

    @property
    def by_boundaries(self) -> bool:
        """Whether results belong to moments, not to rows."""
        return self.every is not None and self.every.needs_times

    @property
    def period(self) -> int | None:
        """How far apart boundaries are, in microseconds; None where results belong to rows."""
        return getattr(self.every, "period", None)

    @property
    def lifetime(self) -> int | None:
        """How long after its newest event time has emptied all windows of a key, in microseconds.

        None where keys are never expired.
        """
        found = [policy.lifetime for policy in self.policies.values()]
        known = [lifetime for lifetime in found if lifetime is not None]
        return max(known) if len(known) == len(found) else None

    @property
    def patience(self) -> int:
        """How far behind the watermark rows may still come, in microseconds."""
        return self.lateness or 0

    @property
    def row_schema(self) -> pa.Schema:
        """The types of ``columns``, for plans that were given them."""
        assert self.schema is not None
        return self.schema

    def fingerprint(self) -> bytes:
        """16 bytes for the names of windows: those of other keys or aggregations have others."""
        policies = sorted((name, one.fingerprint) for name, one in self.policies.items())
        parts = (
            *zip(self.keys, self.key_types, strict=True),
            self.time,
            sorted(self.results),
            self.monoid.fingerprint,
            policies if isinstance(self.policy, Mapping) else policies[0][1],
            self.arity,
            self.leaf_arity,
            # Whether there is a lateness, not how much, which may change.
            *(() if self.lateness is None else ("by time",)),
        )
        return blake2b(repr(parts).encode(), digest_size=16).digest()

    @property
    def fixed(self) -> list[tuple[str, str]]:
        """What must be as it is for windows of columns to be gone on with, line by line."""
        keys = zip(self.keys, self.key_types, strict=True)
        return [
            *(("key", f"{name} {kind}") for name, kind in keys),
            ("time", self.time),
            ("late events", "none" if self.lateness is None else "taken in"),
            *([("existing", self.existing)] if self.existing != "append" else []),
        ]

    def of_bucket(self, number: int) -> Self:
        """This plan for one bucket."""
        start = self.start
        return self if start is None else replace(self, start=replace(start, bucket=number))

    def named(self, name: str) -> Self:
        """This plan, if it has no name yet, under ``name``."""
        return self if self.name else replace(self, name=name)


def policies_of(policy: AbstractPolicy | Mapping[str, AbstractPolicy]) -> dict[str, AbstractPolicy]:
    """The policy of each window by its name, which is empty where there is but one."""
    return dict(policy) if isinstance(policy, Mapping) else {"": policy}


def values_of(monoid: Product, policies: Iterable[AbstractPolicy]) -> tuple[str, ...]:
    """The columns that a monoid reads, and others that policies look at."""
    looked_at = (column_names(columns) for each in policies for _, columns, _ in each.observers)
    return tuple(dict.fromkeys(chain(monoid.columns, *looked_at)))
