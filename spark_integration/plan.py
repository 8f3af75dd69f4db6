"""The work of one ``sliding_aggregate``, as plain data that Spark sends to its workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from mta.keyed.standalone import small_groups
from mta.monoids.product import column_names, own_columns
from mta.publishing.batches import Part

from .options import Options

if TYPE_CHECKING:
    from mta import Product
    from mta.frames.base import AbstractPolicy

#: The store of a batch query: the memory of its tasks.
BATCH = "memory://"


@dataclass(frozen=True)
class StartFrom:
    """The name of a start, and its store."""

    name: str
    store: str = field(repr=False)
    until: int | None
    """The start contains the rows before this moment, in microseconds; None for no limit."""
    bucket: int = 0
    """The bucket to start."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The options of a query, and what ``request.py`` derives from them and the DataFrame."""

    options: Options
    """The options as they were passed."""
    monoid: Product
    """The aggregations, with the types of the columns that they read."""
    columns: tuple[str, ...]
    """The input columns in the result: keys, time, values, and carried columns."""
    results: dict[str, pa.DataType]
    """The Arrow type of each result column (``result_name``), in order."""
    name: str | None = None
    """The prefix of the windows' names; None until a worker knows the query."""
    buckets: int = 0
    """The number of groups of keys; 0 until a worker knows the partitions of the query's state."""
    key_types: tuple[str, ...] = ()
    schema: pa.Schema | None = None
    """The types of ``columns``, for results that belong to no row."""
    start: StartFrom | None = None
    """The start of buckets without a state."""
    part: Part | None = None
    """What a task publishes; a worker adds the source, the batch and the bucket."""
    temporary: bool = False
    """Whether this is a batch query, whose windows start empty and end with their task."""

    @property
    def values(self) -> tuple[str, ...]:
        """Return the columns that aggregations and policies read, without duplicates."""
        return values_of(self.monoid, self.options.windows.values())

    @property
    def valued(self) -> set[str]:
        """Return the columns whose nulls matter: all except filters, in which null means false."""
        own = {n for pair in self.monoid.aggregations.values() for n in own_columns(*pair)}
        return own | (set(self.values) - set(self.monoid.columns))

    @property
    def by_time(self) -> bool:
        """Return whether the windows accept late events and corrections.

        A batch query's rows are sorted beforehand.
        """
        options = self.options
        return options.lateness is not None and (not self.temporary or options.corrects)

    @property
    def store(self) -> str:
        """Return the URL of the pages' store."""
        return self.options.store or BATCH

    @property
    def sizes(self) -> tuple[int, int]:
        """Return the leaf arity and the arity of the windows."""
        options = self.options
        by_time = options.lateness is not None
        leaf_arity, arity = small_groups(self.monoid, *options.windows.values(), by_time=by_time)
        return options.leaf_arity or options.arity or leaf_arity, options.arity or arity

    @property
    def row_schema(self) -> pa.Schema:
        """Return the types of ``columns``, for plans that have them."""
        assert self.schema is not None
        return self.schema

    def fingerprint(self) -> bytes:
        """Return 16 bytes for the windows' names, which differ for other keys or aggregations."""
        options, (leaf_arity, arity) = self.options, self.sizes
        policies = sorted((name, one.fingerprint) for name, one in options.windows.items())
        parts = (
            *zip(options.keys, self.key_types, strict=True),
            options.on,
            sorted(self.results),
            self.monoid.fingerprint,
            policies if isinstance(options.window, Mapping) else policies[0][1],
            arity,
            leaf_arity,
            # The fingerprint depends on whether there is a lateness, but not on its value, which
            # may change.
            *(() if options.lateness is None else ("by time",)),
        )
        return blake2b(repr(parts).encode(), digest_size=16).digest()

    @property
    def fixed(self) -> list[tuple[str, str]]:
        """Return the settings that must not change for windows to continue, line by line."""
        options, on_duplicate = self.options, self.options.on_duplicate
        return [
            *(("by", " ".join(key)) for key in zip(options.keys, self.key_types, strict=True)),
            ("on", options.on),
            ("late events", "none" if options.lateness is None else "taken in"),
            *([("on_duplicate", on_duplicate)] if on_duplicate != "append" else []),
        ]

    def of_bucket(self, number: int) -> Self:
        """Return this plan for one bucket."""
        start, part = self.start, self.part
        if start is not None:
            start = replace(start, bucket=number)
        if part is not None:
            part = replace(part, bucket=number)
        return replace(self, start=start, part=part) if start or part else self

    def of_batch(self, query: str, number: int, partitions: int) -> Self:
        """Return this plan for one batch of a query whose state has ``partitions`` partitions."""
        named = replace(self, name=self.name or query, buckets=self.buckets or partitions)
        if named.part is None:
            return named
        return replace(named, part=replace(named.part, source=query, batch=number))


def values_of(monoid: Product, policies: Iterable[AbstractPolicy]) -> tuple[str, ...]:
    """Return the columns that a monoid and policies read."""
    looked_at = (column_names(columns) for each in policies for _, columns, _ in each.observers)
    return tuple(dict.fromkeys(chain(monoid.columns, *looked_at)))
