"""The workload to plan for, and what follows from it for the keys of one bucket.

Keys are assumed to be random, equally frequent, and to have events at a constant rate. A stream
with few frequent keys among many idle ones takes less than the estimate, because each micro-batch
has events of fewer keys.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import expm1

from mta.frames import CountWindow, TimeWindow
from mta.keyed.standalone import grown, small_groups
from mta.monoids.basic import Max
from mta.monoids.product import Product

_MICROS = 1_000_000
#: The bytes of a double, and of a time.
NUMBER_BYTES = 8


@dataclass(frozen=True, slots=True)
class Workload:
    """A stream, its windows, and how they are stored.

    - ``keys``: the number of different keys with events in a window;
    - ``events_per_second``: the rate of all keys together;
    - ``window``: a time or count window;
    - ``aggregations``: their number, each over its own column of doubles;
    - ``batch_seconds``: the time from one micro-batch and its snapshot to the next;
    - ``key_bytes``: the length of a key; 0 for integers;
    - ``page_bytes``, ``promote_at``, ``retain``: as for ``KeyedWindows``.
    """

    keys: float
    events_per_second: float
    window: TimeWindow | CountWindow
    aggregations: int = 1
    batch_seconds: float = 10.0
    key_bytes: int = 0
    page_bytes: int = 1 << 14
    promote_at: int = 1024
    retain: int = 2

    def of_bucket(self, buckets: int) -> Workload:
        """Return the share of one of several buckets."""
        rate = self.events_per_second / buckets
        return replace(self, keys=self.keys / buckets, events_per_second=rate)

    @property
    def rows(self) -> float:
        """Return the number of events in a micro-batch."""
        return self.events_per_second * self.batch_seconds

    @property
    def events_per_key(self) -> float:
        """Return how many events a key retains: its newest one, and its window before that."""
        if isinstance(self.window, CountWindow):
            return self.window.size
        lifetime = self.window.lifetime
        assert lifetime is not None
        return 1 + self.events_per_second / self.keys * lifetime / _MICROS

    @property
    def events(self) -> float:
        """Return how many events are retained."""
        return self.keys * self.events_per_key

    @property
    def is_standalone(self) -> bool:
        """Return whether keys have so many events that each is standalone."""
        return self.events_per_key > self.promote_at

    def distinct(self, rows: float) -> float:
        """Return the expected number of different keys among some events."""
        return -self.keys * expm1(-rows / self.keys)

    @property
    def row_bytes(self) -> int:
        """Return the bytes of an event: its time and its values."""
        return NUMBER_BYTES * (1 + self.aggregations)


@dataclass(frozen=True, slots=True)
class Groups:
    """How the events of a standalone window are divided into pages."""

    leaf_arity: int
    arity: int
    levels: int
    leaf_bytes: int

    @classmethod
    def of(cls, work: Workload) -> Groups:
        columns = {f"{n}": (f"{n}", Max()) for n in range(work.aggregations)}
        leaf_arity, arity = small_groups(Product(columns), work.window)
        per_batch = work.rows / work.distinct(work.rows)
        leaf_arity = grown(leaf_arity, int(max(work.promote_at + 1, per_batch)))
        groups, levels = work.events_per_key / leaf_arity, 1
        while groups > arity:
            groups, levels = groups / arity, levels + 1
        times = NUMBER_BYTES if work.window.needs_times else 0
        row_bytes = times + NUMBER_BYTES * work.aggregations
        return cls(leaf_arity, arity, levels, leaf_arity * row_bytes)

    @property
    def pages_per_leaf(self) -> float:
        """Return the pages per leaf: the leaf page, and its share of inner pages."""
        return self.arity / (self.arity - 1)
