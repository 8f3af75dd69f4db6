"""What all windows of a set of keyed windows have in common, and how one is by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import xxhash

from mta.frames.base import AbstractPolicy
from mta.keyed.lanes import is_vectorized
from mta.keyed.retention import Retention
from mta.keyed.sizes import grown, small_groups
from mta.keyed.table import Table
from mta.monoids.base import AbstractMonoid
from mta.monoids.product import reader_of
from mta.windows.settings import Settings
from mta.windows.shared import SharedWindows
from mta.windows.window import Window
from stores import PageStore

AnyWindow = Window | SharedWindows


@dataclass(slots=True)
class Kind:
    """What all windows of a set have in common."""

    monoid: AbstractMonoid
    policies: Mapping[str, AbstractPolicy]
    """By name; a single one has the name ""."""
    settings: Settings
    timed: bool
    promote_at: int
    name: str
    store: PageStore | None
    changes: int = 0
    """How often windows or monoid were changed; in the names of standalone windows."""
    vectorized: bool = field(init=False)
    reader: AbstractMonoid = field(init=False)
    """What reads the columns of events, those that policies look at among them."""
    retention: Retention = field(init=False)

    def __post_init__(self) -> None:
        self.vectorized = is_vectorized(self.monoid, list(self.policies.values()))
        observed = [each[1:] for policy in self.policies.values() for each in policy.observers]
        self.reader = reader_of(self.monoid, observed)
        settings = self.settings
        self.retention = Retention(self.policies, settings.allowed_lateness, settings.on_duplicate)

    @property
    def corrects(self) -> bool:
        """Whether an event takes the place of another of its time, or joins it."""
        return self.settings.on_duplicate != "append"

    @property
    def single(self) -> AbstractPolicy | None:
        """The policy, where there is but one, without a name."""
        return self.policies.get("") if len(self.policies) == 1 else None

    @property
    def longest(self) -> int | None:
        """How long after its newest event time has emptied all windows of a key that it empties."""
        found = [policy.lifetime for policy in self.policies.values()]
        return max((lifetime for lifetime in found if lifetime is not None), default=None)

    def open(self, packed: bytes, events: int = 0, generation: int = 0) -> AnyWindow:
        """A new standalone window for a key, which begins with so many events.

        ``generation`` is another number for each one that a key has, for its pages may have the
        content and the place of those of an earlier one, which are deleted later.
        """
        settings, sizes = self.settings, (self.settings.leaf_arity, self.settings.arity)
        if self.vectorized and sizes == (None, None):
            late = settings.allowed_lateness is not None
            leaf_arity, arity = small_groups(self.monoid, *self.policies.values(), by_time=late)
            sizes = grown(leaf_arity, events), arity
        change = f"{self.changes}-" if self.changes else ""
        name = f"{self.name}:{change}{xxhash.xxh3_128_hexdigest(packed, generation)}"
        given: dict[str, Any] = {
            "store": self.store, "name": name, "leaf_arity": sizes[0], "arity": sizes[1],
            "on_late": settings.on_late, "on_invalid": "accept", "retain": settings.retain,
        }  # fmt: skip
        if settings.allowed_lateness is not None:
            given["allowed_lateness"] = settings.allowed_lateness / 1e6
            given["on_duplicate"] = settings.on_duplicate
        if self.single is None:
            return SharedWindows(self.monoid, self.policies, **given)
        return Window(self.monoid, self.single, **given)

    def trimmed(self, table: Table) -> Table:
        """A table without the events that no window of its keys needs any more."""
        return self.retention.trimmed(table) if self.vectorized else table
