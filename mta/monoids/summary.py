"""Monoids with heavy partials: summaries of many events, such as sketches and filters.

Lifting every event into a sketch of its own and merging thousands of them costs ten to a hundred
times as much as adding the events to one sketch. So a partial is one of three:

    None            no events, the identity
    a plain value   one event, as it came in: lifting costs nothing
    a summary       any events, never changed once it is handed out

and a fold adds the values of a whole group to one new summary, and merges the summaries. A page
always holds a summary, as bytes, which are checked when it is read: a page without a summary of the
same kind is a CorruptPage.
"""

from __future__ import annotations

from abc import abstractmethod
from itertools import groupby
from typing import Any

import numpy as np

from mta.columns.reading import read_value
from mta.columns.schemas import Objects, Payload, Row, Rows, Schema
from mta.errors import CorruptPage
from mta.monoids.base import Monoid, Out, Partial
from mta.monoids.equality import Scale

Summary = Any


class SummaryMonoid(Monoid[Any, Any, Out]):
    """An aggregation whose partial results are summaries, such as sketches; a base class.

    A subclass creates, fills, merges, queries and serializes summaries.

    Args:
        name: The name in snapshots.
        row_bytes: The approximate size of the largest summary, in bytes; the default sizes of
            groups follow from it.
        inputs: The layout of the values; any objects unless it is given.
        empty: The result on a window without events.
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
        """A summary of no events."""

    @abstractmethod
    def is_summary(self, partial: Partial) -> bool:
        """Whether a partial is a summary, and not an event's value."""

    @abstractmethod
    def add(self, summary: Summary, values: Any) -> None:
        """Put the values of events, a sequence of one or more, into a summary."""

    @abstractmethod
    def merge(self, summary: Summary, other: Summary) -> Summary:
        """The first one with what is in the other; the first one may be changed for that."""

    @abstractmethod
    def answer(self, summary: Summary) -> Out:
        """The result that a summary stands for."""

    @abstractmethod
    def agree(self, one: Summary, other: Summary) -> bool:
        """Whether two summaries answer alike, within what is promised of them."""

    @abstractmethod
    def to_bytes(self, summary: Summary) -> bytes:
        """A summary as it is in pages."""

    @abstractmethod
    def from_bytes(self, data: bytes) -> Summary:
        """Return the summary that a page holds as bytes. May raise anything for other bytes."""

    # --- what follows from it -------------------------------------------------------------------

    def summary(self, partial: Partial) -> Summary:
        """A partial as a summary."""
        if self.is_summary(partial):
            return partial
        return self._gather((partial,))

    def row(self, value: Any) -> Row:
        return read_value(value, self.inputs)

    def fold(self, partials: Rows, count: int) -> Partial:
        """One new summary of them all; a single partial is its own fold."""
        if not isinstance(partials, np.ndarray):
            partials = [partial for partial in partials if partial is not None]
            count = len(partials)
        if count == 0:
            return None
        return partials[0] if count == 1 else self._gather(partials)

    def same(self, one: Partial, other: Partial, scale: Scale | None = None) -> bool:
        return self.agree(self.summary(one), self.summary(other))

    def _gather(self, partials: Rows) -> Summary:
        """A new summary of partials, the values of which go in side by side."""
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
    """Partials of a SummaryMonoid: any of the three in memory, bytes or nil in a page."""

    def __init__(self, monoid: SummaryMonoid, row_bytes: int) -> None:
        super().__init__()
        self._monoid = monoid
        self.row_bytes = row_bytes

    def __repr__(self) -> str:
        return "Summaries()"

    def unpageable(self, rows: Rows) -> int | None:
        return None  # a summary makes its own bytes

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
        except Exception as error:  # a library may raise anything at what it never wrote
            raise CorruptPage(
                f"a partial is not a summary of {self._monoid.name}: "
                f"{error or type(error).__name__}"
            ) from error
