"""Monoids whose partials are summaries of many events, such as sketches and filters.

Lifting every event into a new sketch and merging thousands of sketches costs ten to a hundred times
as much as adding the events to one sketch. A partial is therefore one of three:

    None            no events, the identity
    a plain value   one event's value: lifting costs nothing
    a summary       any events; never changed after it is returned

A fold adds the values of a whole group to one new summary, and merges the summaries. A page always
holds a summary, as bytes, which are checked when they are read: a page without a summary of the
same kind raises CorruptPage.
"""

from __future__ import annotations

from abc import abstractmethod
from itertools import groupby
from typing import Any

import numpy as np

from mta.columns.schemas import Objects, Payload, Rows, Schema
from mta.errors import CorruptPage
from mta.monoids.base import Monoid, Out, Partial
from mta.monoids.equality import Scale

Summary = Any


class SummaryMonoid(Monoid[Any, Any, Out]):
    """The base class of aggregations whose partial results are summaries, such as sketches.

    A subclass creates, fills, merges, queries and serializes summaries.

    Args:
        name: The name in snapshots.
        row_bytes: The approximate size of the largest summary, in bytes; it determines the default
            sizes of groups.
        inputs: The layout of the values; by default, any objects.
        empty: The result for a window without events.
        result_type: The type of a result in Spark, as DDL.
    """

    def __init__(
        self,
        name: str,
        row_bytes: int,
        inputs: Schema | None = None,
        empty: Any = None,
        result_type: str | None = None,
    ) -> None:
        super().__init__(
            identity=None,
            combine=self._combine,
            lower=self._lower_one,
            name=name,
            commutative=True,
            empty=empty,
        )
        self.inputs = Objects() if inputs is None else inputs
        self.partials = Summaries(self, row_bytes)
        self.result_type = result_type

    # --- what a subclass says -------------------------------------------------------------------

    @abstractmethod
    def new(self) -> Summary:
        """Return a summary of no events."""

    @abstractmethod
    def is_summary(self, partial: Partial) -> bool:
        """Whether a partial is a summary, not an event's value."""

    @abstractmethod
    def add(self, summary: Summary, values: Any) -> None:
        """Add the values of events, a sequence of one or more, to a summary."""

    @abstractmethod
    def merge(self, summary: Summary, other: Summary) -> Summary:
        """Merge the second summary into the first; may change the first."""

    @abstractmethod
    def answer(self, summary: Summary) -> Out:
        """Return the result of a summary."""

    @abstractmethod
    def agree(self, one: Summary, other: Summary) -> bool:
        """Whether two summaries give the same results, within their guarantees."""

    @abstractmethod
    def to_bytes(self, summary: Summary) -> bytes:
        """Serialize a summary for a page."""

    @abstractmethod
    def from_bytes(self, data: bytes) -> Summary:
        """Deserialize a summary from a page. May raise any error for other bytes."""

    # --- what follows from it -------------------------------------------------------------------

    def summary(self, partial: Partial) -> Summary:
        """Convert a partial to a summary."""
        if self.is_summary(partial):
            return partial
        return self._gather((partial,))

    def fold(self, partials: Rows, count: int) -> Partial:
        """Combine all partials into one new summary; a single partial is returned as it is."""
        if not isinstance(partials, np.ndarray):
            partials = [partial for partial in partials if partial is not None]
            count = len(partials)
        if count == 0:
            return None
        return partials[0] if count == 1 else self._gather(partials)

    def same(self, one: Partial, other: Partial, scale: Scale | None = None) -> bool:
        return self.agree(self.summary(one), self.summary(other))

    def _gather(self, partials: Rows) -> Summary:
        """Combine partials into a new summary; consecutive values are added in one call."""
        summary = self.new()
        if isinstance(partials, np.ndarray):
            self.add(summary, partials)
            return summary
        for is_summary, run in groupby(partials, self.is_summary):
            if is_summary:
                for other in run:
                    summary = self.merge(summary, other)
            else:
                values = [value for value in run if value is not None]
                if values:
                    self.add(summary, values)
        return summary

    def _combine(self, left: Partial, right: Partial) -> Partial:
        if left is None:
            return right
        if right is None:
            return left
        return self._gather((left, right))

    def _lower_one(self, partial: Partial) -> Out:
        return self.empty if partial is None else self.answer(self.summary(partial))


class Summaries(Objects):
    """Partials of a SummaryMonoid: any of the three kinds in memory, bytes or nil in a page."""

    def __init__(self, monoid: SummaryMonoid, row_bytes: int) -> None:
        super().__init__()
        self._monoid = monoid
        self.row_bytes = row_bytes

    def __repr__(self) -> str:
        return "Summaries()"

    def unpageable(self, rows: Rows) -> int | None:
        return None  # the monoid serializes summaries

    def dump(self, rows: Rows) -> list[Payload]:
        monoid = self._monoid
        return super().dump(
            [None if row is None else monoid.to_bytes(monoid.summary(row)) for row in rows]
        )

    def load(self, payloads: Any, count: int) -> Rows:
        return [
            None if data is None else self._read(data) for data in super().load(payloads, count)
        ]

    def _read(self, data: Any) -> Summary:
        try:
            if type(data) is not bytes:
                raise ValueError(f"a {type(data).__name__} instead of bytes")
            return self._monoid.from_bytes(data)
        except Exception as error:  # a library may raise any error for bytes it did not write
            raise CorruptPage(
                f"a partial is not a summary of {self._monoid.name}: "
                f"{error or type(error).__name__}"
            ) from error
