"""What windows are planned for, and what follows from it for the keys of one bucket.

Keys come at random, all alike, at an even rate. A stream with few hot keys among many quiet ones
takes less than is expected here, as what a micro-batch touches is less.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import expm1

from mta.frames import CountWindow, TimeWindow
from mta.keyed.standalone import grown, small_groups
from mta.monoids.basic import Max
from mta.monoids.product import Product

_MICROS = 1_000_000
#: What a double and a moment take.
NUMBER_BYTES = 8


@dataclass(frozen=True, slots=True)
class Workload:
    """A stream, its windows, and how they are kept.

    - ``keys``: how many different ones have events within a window;
    - ``events_per_second``: of all keys together;
    - ``window``: by time or by count;
    - ``aggregations``: each over a column of doubles of its own;
    - ``batch_seconds``: from one micro-batch, and snapshot, to the next;
    - ``key_bytes``: how long a key is; 0 for integers;
    - ``page_bytes``, ``promote_at``, ``retain``: as of ``KeyedWindows``.
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
        """The part of one of so many buckets."""
        rate = self.events_per_second / buckets
        return replace(self, keys=self.keys / buckets, events_per_second=rate)

    @property
    def rows(self) -> float:
        """Events of a micro-batch."""
        return self.events_per_second * self.batch_seconds

    @property
    def events_per_key(self) -> float:
        """How many events a key retains: its newest one, and those in a window with it."""
        if isinstance(self.window, CountWindow):
            return self.window.size
        lifetime = self.window.lifetime
        assert lifetime is not None
        return 1 + self.events_per_second / self.keys * lifetime / _MICROS

    @property
    def events(self) -> float:
        """How many events are retained."""
        return self.keys * self.events_per_key

    @property
    def is_standalone(self) -> bool:
        """Whether keys have so many events that each has a window of its own."""
        return self.events_per_key > self.promote_at

    def distinct(self, rows: float) -> float:
        """How many keys so many events are of."""
        return -self.keys * expm1(-rows / self.keys)

    @property
    def row_bytes(self) -> int:
        """What an event takes: its time, and its values."""
        return NUMBER_BYTES * (1 + self.aggregations)


@dataclass(frozen=True, slots=True)
class Groups:
    """How the events of a standalone window lie in pages."""

    leaf_arity: int
    arity: int
    levels: int
    leaf_bytes: int

    @classmethod
    def of(cls, work: Workload) -> Groups:
        """Those of the keys of a workload."""
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
        """A leaf page, and its share of those above it."""
        return self.arity / (self.arity - 1)
