"""What one ``sliding_aggregate`` does, as plain data that Spark ships to its workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from mta import EveryPeriod
from mta.monoids.product import column_names, own_columns
from mta.publishing.batches import Part

from .options import Options

if TYPE_CHECKING:
    from mta import Product
    from mta.frames.base import AbstractPolicy


@dataclass(frozen=True)
class StartFrom:
    """A start by its name, and where it is."""

    name: str
    store: str = field(repr=False)
    until: int | None
    """The stream's rows before this moment are in the start, in microseconds; None for none."""
    bucket: int = 0
    """Which bucket of it is meant."""


@dataclass(frozen=True, kw_only=True)
class Plan(Options):
    """The options of a query, and what ``request.py`` derives from them and the DataFrame.

    ``arity`` and ``leaf_arity`` are never None here, and ``aggregations`` are typed by the columns.
    """

    monoid: Product
    """The aggregations, with the types of the columns that they read."""
    columns: tuple[str, ...]
    """The input's columns in the result: keys, time, values, and others to carry."""
    results: dict[str, pa.DataType]
    """The Arrow type of each column of results (``result_name``), in their order."""
    store: str = field(repr=False)
    buckets: int = 0
    """Groups of keys; 0 until a worker knows how many partitions the query's state has."""
    key_types: tuple[str, ...] = ()
    sized: bool = True
    """Whether all windows have these sizes; else vectorized ones, once standalone, have larger leaf
    groups where they begin with many events."""
    schema: pa.Schema | None = None
    """The types of ``columns``, for results that belong to no row."""
    start: StartFrom | None = None
    """What buckets without a state begin with."""
    part: Part | None = None
    """What a task publishes; its source, batch and bucket are known to a worker."""
    temporary: bool = False
    """A batch query: the windows start empty, and their pages are deleted with the task."""

    def __post_init__(self) -> None:
        """Check nothing again: the options were checked as ``Options``."""

    @property
    def values(self) -> tuple[str, ...]:
        """The columns that aggregations and policies read, each once."""
        return values_of(self.monoid, self.windows.values())

    @property
    def valued(self) -> set[str]:
        """Those of them whose nulls count: all but filters, in which null is false."""
        own = {n for pair in self.monoid.aggregations.values() for n in own_columns(*pair)}
        return own | (set(self.values) - set(self.monoid.columns))

    @property
    def by_time(self) -> bool:
        """Whether the windows take late events and corrections.

        A batch query's rows are sorted beforehand.
        """
        return self.lateness is not None and (not self.temporary or self.corrects)

    @property
    def corrects(self) -> bool:
        """Whether rows may replace, join or retract others."""
        return self.retractions is not None or self.on_duplicate != "append"

    @property
    def by_boundaries(self) -> bool:
        """Whether results belong to moments, not to rows."""
        return self.period is not None

    @property
    def period(self) -> EveryPeriod | None:
        """What says when boundaries are; None where results belong to rows."""
        return self.trigger if isinstance(self.trigger, EveryPeriod) else None

    @property
    def patience(self) -> int:
        """How far behind the watermark rows may still come, in microseconds."""
        return max(self.lateness or 0, self.retained_for or 0)

    @property
    def without_values(self) -> str | None:
        """The column that marks rows whose values are not looked at."""
        return self.retractions or self.asks

    @property
    def row_schema(self) -> pa.Schema:
        """The types of ``columns``, for plans that were given them."""
        assert self.schema is not None
        return self.schema

    def fingerprint(self) -> bytes:
        """16 bytes for the names of windows: those of other keys or aggregations have others."""
        policies = sorted((name, one.fingerprint) for name, one in self.windows.items())
        parts = (
            *zip(self.keys, self.key_types, strict=True),
            self.on,
            sorted(self.results),
            self.monoid.fingerprint,
            policies if isinstance(self.window, Mapping) else policies[0][1],
            self.arity,
            self.leaf_arity,
            # Whether there is a lateness, not how much, which may change.
            *(() if self.lateness is None else ("by time",)),
        )
        return blake2b(repr(parts).encode(), digest_size=16).digest()

    @property
    def fixed(self) -> list[tuple[str, str]]:
        """What must not change for windows of columns to continue, line by line."""
        keys = zip(self.keys, self.key_types, strict=True)
        return [
            *(("by", f"{name} {kind}") for name, kind in keys),
            ("on", self.on),
            ("late events", "none" if self.lateness is None else "taken in"),
            *([("on_duplicate", self.on_duplicate)] if self.on_duplicate != "append" else []),
        ]

    def of_bucket(self, number: int) -> Self:
        """This plan for one bucket."""
        start, part = self.start, self.part
        if start is not None:
            start = replace(start, bucket=number)
        if part is not None:
            part = replace(part, bucket=number)
        return replace(self, start=start, part=part) if start or part else self

    def of_batch(self, query: str, number: int, partitions: int) -> Self:
        """This plan for one batch of a query, whose state has so many partitions."""
        named = replace(self, name=self.name or query, buckets=self.buckets or partitions)
        if named.part is None:
            return named
        return replace(named, part=replace(named.part, source=query, batch=number))


def values_of(monoid: Product, policies: Iterable[AbstractPolicy]) -> tuple[str, ...]:
    """The columns that a monoid reads, and others that policies look at."""
    looked_at = (column_names(columns) for each in policies for _, columns, _ in each.observers)
    return tuple(dict.fromkeys(chain(monoid.columns, *looked_at)))
