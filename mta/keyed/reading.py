"""Reads the arguments of keyed windows as batches of rows (``bucket.KeyedBatch``).

    keys     a b a             distinct keys in order: a b;  codes 0 1 0
    values   5 1 x             rows of the stored columns;   invalid: the third
    times    60 0 90           whole microseconds

Keys are read first, then values and times: for each, a bad argument raises an error that names the
argument, and nothing was added. Rows that are questions or retractions have no values of their own,
so their values are not checked.

The windows of a snapshot may store more columns than their aggregations read: *marks* say in which
events a column has a value (``mta.monoids.product``). New events have all of their columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mta.columns.schemas import Rows, with_texts
from mta.errors import InvalidTime, InvalidValue
from mta.keyed.bucket import KeyedBatch
from mta.keyed.keys import Keys, read_keys
from mta.keyed.kind import KeyedKind, columns_of
from mta.monoids.base import AbstractMonoid, any_of
from mta.times import to_time, to_times
from mta.windows.checks import in_order
from mta.windows.intake import (
    invalid_rows,
    require_pageable,
    require_times,
    times_ahead,
)


class BatchReader:
    """Reads the batches of one set of windows; ``monoid`` is the aggregation of new events."""

    def __init__(self, monoid: AbstractMonoid, kind: KeyedKind) -> None:
        self.kind, self._name, stored = kind, monoid.name, kind.reader
        #: The monoid that reads new events.
        self.monoid = stored if kind.monoid is monoid else kind.reading(monoid)
        self._adds_marks = columns_of(self.monoid) != columns_of(stored)

    def micros(self, times: Any) -> np.ndarray | None:
        """Return times in microseconds; None if events have no times. Raises InvalidTime."""
        if not self.kind.timed:
            return None
        if times is None:
            raise InvalidTime("these windows need a time with every event: give times=")
        return to_times(times)

    def batch(
        self, keys: Keys, codes: np.ndarray, values: Any, times: np.ndarray | None, retracts: Any,
        asks: np.ndarray | None,
    ) -> KeyedBatch:  # fmt: skip
        """Return a batch; see ``KeyedWindows.batch``. Raises InvalidValue and InvalidTime."""
        reader, settings = self.monoid, self.kind.settings
        rows, count = reader.rows(values, len(codes))
        if count != len(codes):
            raise InvalidValue(f"{count} values have {len(codes)} keys; pass one for each")
        require_times(count, times)
        if self.kind.vectorized:
            rows = with_texts(reader.inputs, rows)
        marks = None if retracts is None else self._retractions(retracts, count)
        ignored = any_of((marks, asks))
        invalid = invalid_rows(reader, rows, count, settings.nulls, self._name, ignored)
        ahead = times_ahead(times, settings, asks)
        rows = self._as_stored(rows, count)
        return KeyedBatch(keys, codes, rows, times, invalid, retracts=marks, ahead=ahead, asks=asks)

    def retraction(self, key: Any, time: Any, key_kind: str | None) -> KeyedBatch:
        """Return a batch that retracts the newest event of a key at a time."""
        keys, codes = read_keys([key], key_kind)
        moment = np.array([to_time(time)], "<i8")
        rows = self._as_stored(self.monoid.inputs.blank(1), 1)
        return KeyedBatch(keys, codes, rows, moment, retracts=self._retractions([True], 1))

    def require_pageable(self, batch: KeyedBatch) -> None:
        """Raise NotPageable if an event of a batch has a value that no page can contain."""
        left_out = batch.invalid, batch.retracts, batch.asks
        require_pageable(self.kind.reader.inputs, batch.rows, *left_out)

    def _retractions(self, retracts: Any, count: int) -> np.ndarray | None:
        """Return which rows of a batch are retractions; None if none is."""
        if self.kind.settings.lateness is None:
            raise in_order("this set of windows")
        marks = np.asarray(retracts)
        if marks.dtype != bool or marks.shape != (count,):
            raise InvalidValue(
                f"retracts is a column of {count} booleans, one for each event, not "
                f"{marks.dtype} of shape {marks.shape}"
            )
        return marks if marks.any() else None

    def _as_stored(self, rows: Rows, count: int) -> Rows:
        """Return rows in the form that a bucket stores; columns of marks are all True."""
        if not self._adds_marks:
            return rows
        found = dict(zip(columns_of(self.monoid), rows, strict=True))
        here = np.ones(count, bool)
        return tuple([found.get(column, here) for column in columns_of(self.kind.reader)])
