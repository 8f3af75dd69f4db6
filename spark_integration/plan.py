"""The work of one ``sliding_aggregate``, as plain data that Spark sends to its workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import chain
from typing import Self

import pyarrow as pa

from mta.frames.base import Frame
from mta.frames.windows import is_unbounded
from mta.keyed.standalone import small_groups
from mta.monoids.product import Product, column_names, own_columns
from mta.publishing.batches import PublishedPart

from .options import Options

#: The store of a batch query: the memory of its tasks.
BATCH = "memory://"


@dataclass(frozen=True)
class StartFrom:
    """The name of a start, and its store."""

    name: str
    store: str = field(repr=False)
    until: int | None
    """The start contains the rows before this moment, in microseconds; None for no limit."""


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
    schema: pa.Schema = pa.schema([])  # noqa: RUF009 (it never changes)
    """The types of ``columns``, for results that belong to no row."""
    start: StartFrom | None = None
    """The start of buckets without a state."""
    part: PublishedPart | None = None
    """What a task publishes; a worker adds the source, the batch and the bucket."""
    bucket: int = 0
    """The bucket of a task."""
    temporary: bool = False
    """Whether this is a batch query, whose windows start empty and end with their task."""

    @property
    def values(self) -> tuple[str, ...]:
        """Return the columns that aggregations and frames read, without duplicates."""
        return values_of(self.monoid, self.options.windows.values())

    @property
    def valued(self) -> set[str]:
        """Return the columns whose nulls matter: all except filters, in which null means false."""
        own = {n for pair in self.monoid.aggregations.values() for n in own_columns(*pair)}
        return own | (set(self.values) - set(self.monoid.columns))

    @property
    def by_time(self) -> bool:
        """Return whether the windows accept late events and corrections."""
        options = self.options  # the rows of a batch query are sorted beforehand
        return options.settings.lateness is not None and (not self.temporary or options.corrects)

    @property
    def is_running(self) -> bool:
        """Return whether the state of a key is one partial, of windows since its first row.

        Options that look at earlier events need these in the windows.
        """
        options, settings = self.options, self.options.settings
        others = (options.asks, options.publish, options.trigger, options.retractions, self.start)
        return (
            not self.temporary
            and all(each is None for each in (*others, settings.lateness, settings.max_ahead))
            and options.idle == "keep"
            and settings.nulls == "skip"
            and all(map(is_unbounded, options.windows.values()))
            and self.monoid.is_columnar
            and self.monoid.partials.is_fixed
        )

    @property
    def store(self) -> str:
        return self.options.store or BATCH

    @property
    def sizes(self) -> tuple[int, int]:
        """Return the sizes of leaf and inner groups."""
        settings, frames = self.options.settings, self.options.windows.values()
        small = small_groups(self.monoid, *frames, by_time=settings.lateness is not None)
        return settings.sizes(*small)

    def fingerprint(self) -> bytes:
        """Return 16 bytes for the windows' names, which differ for other keys or aggregations."""
        options, (leaf, inner) = self.options, self.sizes
        frames = sorted((name, one.fingerprint) for name, one in options.windows.items())
        parts = (
            *zip(options.keys, self.key_types, strict=True),
            options.on,
            sorted(self.results),
            self.monoid.fingerprint,
            frames if isinstance(options.window, Mapping) else frames[0][1],
            inner,
            leaf,
            # The fingerprint depends on whether there is a lateness, but not on its value, which
            # may change.
            *(() if options.settings.lateness is None else ("by time",)),
        )
        return blake2b(repr(parts).encode(), digest_size=16).digest()

    @property
    def fixed(self) -> list[tuple[str, str]]:
        """Return the settings that must not change for windows to continue, line by line."""
        options, settings = self.options, self.options.settings
        return [
            *(("by", " ".join(key)) for key in zip(options.keys, self.key_types, strict=True)),
            ("on", options.on),
            ("late events", "none" if settings.lateness is None else "taken in"),
            *([] if settings.appends else [("existing events", settings.on_duplicate)]),
            *(self._totals if self.is_running else []),
        ]

    @property
    def _totals(self) -> list[tuple[str, str]]:
        """Return the aggregations since the first row, which must not change."""
        return [
            ("since the first row", f"{monoid.name} of {', '.join(column_names(names)) or 'rows'}")
            for names, monoid in self.monoid.aggregations.values()
        ]

    def of_task(self, bucket: int, query: str, batch: int, partitions: int) -> Self:
        """Return this plan for one bucket in one batch of a query with so many state partitions."""
        named, buckets = self.name or query, self.buckets or partitions
        part = self.part and replace(self.part, source=query, batch=batch, bucket=bucket)
        return replace(self, name=named, buckets=buckets, part=part, bucket=bucket)


def values_of(monoid: Product, frames: Iterable[Frame]) -> tuple[str, ...]:
    """Return the columns that a monoid and frames read."""
    looked_at = (column_names(columns) for each in frames for _, columns, _ in each.observers)
    return tuple(dict.fromkeys(chain(monoid.columns, *looked_at)))
