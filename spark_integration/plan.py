"""What one ``sliding_aggregate`` does, as plain data that Spark ships to its workers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal, Self

import pyarrow as pa

if TYPE_CHECKING:
    from mta import Product
    from mta.policy import AbstractPolicy

Output = Literal["event", "last"]
OnBadRow = Literal["error", "drop"]
OnLate = Literal["error", "drop", "side"]
Silent = Literal["keep", "drop", "emit"]
#: The column that marks late rows among the results, with ``late="side"``.
LATE = "late"


@dataclass(frozen=True)
class Plan:
    """Everything that ``step`` must know; checked by ``request.py`` before it is built."""

    keys: tuple[str, ...]
    time: str
    monoid: Product
    policy: AbstractPolicy
    columns: tuple[str, ...]
    """The input's columns in the result: keys, time, values, and others to keep."""
    results: dict[str, pa.DataType]
    """The Arrow type of each aggregation's column, by alias, in the order of the result."""
    store: str
    name: str | None
    """What the windows' names begin with; None until a worker knows the query."""
    key_types: tuple[str, ...] = ()
    output: Output = "event"
    buckets: int = 64
    arity: int | None = None
    """Group sizes; None leaves them to the window."""
    leaf_arity: int | None = None
    late: OnLate = "error"
    invalid: OnBadRow = "error"
    silent: Silent = "keep"
    schema: pa.Schema | None = None
    """The types of ``columns``, for results of keys that have no rows; None with silent="keep"."""
    retain: int = 2
    temporary: bool = False
    """A batch query: the windows start empty, and their pages are deleted with the task."""

    @property
    def values(self) -> tuple[str, ...]:
        """The value columns, each once."""
        return tuple(self.monoid.columns)

    @property
    def lifetime(self) -> int | None:
        """How long after its newest event a key is forgotten, in microseconds; None for never."""
        return None if self.silent == "keep" else self.policy.lifetime

    def no_rows(self) -> pa.Table:
        """Rows for a step that is called for silent keys alone."""
        assert self.schema is not None
        return self.schema.empty_table()

    def fingerprint(self) -> bytes:
        """16 bytes that change when the saved windows no longer suit this plan."""
        parts = (
            *zip(self.keys, self.key_types, strict=True),
            self.time,
            sorted(self.results),
            self.monoid.fingerprint,
            self.policy.fingerprint,
            self.arity,
            self.leaf_arity,
        )
        return blake2b(repr(parts).encode(), digest_size=16).digest()

    def named(self, name: str) -> Self:
        """This plan, if it has no name yet, under ``name``."""
        return self if self.name else replace(self, name=name)
