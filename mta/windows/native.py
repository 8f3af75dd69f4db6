"""Single events that a kernel takes: what is prefetched for them is loaded into a native buffer.

As in ``single``, which prefetches; here what is prefetched goes into a block (``kernels.block``),
and each event is one call, until one needs more. Of monoids whose partials are a number, or a
mean's, and windows by count or time that nobody evicts from by himself.
"""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from mta.columns.schemas import Array, Row, Rows
from mta.folds.sliding import Events
from mta.frames.base import NEWEST
from mta.frames.windows import CountWindow, TimeWindow
from mta.kernels.block import Block, Loaded
from mta.logs.base import Aggregator, Prefetched
from mta.monoids.base import AbstractMonoid, Partial
from mta.monoids.columnar import ColumnarMonoid
from mta.monoids.product import Product
from mta.times import to_time
from mta.windows.single import EXACT, SECOND, UNIT, SingleEvents, WindowOwner, busy


def native_events(owner: WindowOwner, structure: Aggregator, paged: bool) -> NativeEvents | None:
    """The single events of a window, if there is a kernel that takes them."""
    monoid, parts = owner.monoid, [owner.monoid]
    if type(owner.policy) not in (CountWindow, TimeWindow) or monoid is not owner.main:
        return None
    if owner.policy.end != NEWEST:
        return None
    if isinstance(monoid, Product):
        if monoid.picks_doubles is None:
            return None
        parts = list(monoid.monoids)
    blocks = [_block_for(part) for part in parts]
    found = [block for block in blocks if block is not None]
    if not found or len(found) < len(blocks):
        return None
    kind = NativeProducts if isinstance(monoid, Product) else NativeEvents
    return kind(owner, structure, paged, found)


def _block_for(monoid: AbstractMonoid) -> Block | None:
    if not isinstance(monoid, ColumnarMonoid) or not monoid.kernel_lowers:
        return None
    takes_doubles = isinstance(monoid.inputs, Array) and monoid.inputs.dtype == np.dtype("<f8")
    return Block.of(monoid.kernel) if takes_doubles else None


class NativeEvents(SingleEvents):
    """The single events of one window whose block takes them."""

    __slots__ = ("_block", "_blocks", "_buffer", "_by_hand", "_event", "_found", "_is_loaded")

    def __init__(
        self, owner: WindowOwner, structure: Aggregator, paged: bool, blocks: list[Block]
    ) -> None:
        #: A block for each part of a product; where one of them stands all do.
        self._blocks, self._block, self._event = blocks, blocks[0], blocks[0].event
        #: Whether somebody evicts by hand: what is prefetched is then read too often to be loaded.
        self._by_hand = False
        self._found: Prefetched | None = None
        super().__init__(owner, structure, paged)

    def _reset(self) -> None:
        super()._reset()
        for block in self._blocks:
            block.clear()
        self._buffer = self._block.buffer
        #: Whether what is prefetched is in the block, and what it was when it was loaded down.
        self._is_loaded, self._found = False, None

    # --- what is called -------------------------------------------------------------------------

    def insert(self, value: Any, time: Any = None) -> None:
        if self._owner.busy:
            raise busy()
        shown = self._event(self._buffer, value, 0.0)
        if shown is None:
            self._insert_otherwise(value, time)
        else:
            self._shown = shown

    def insert_timed(self, value: Any, time: Any = None) -> None:
        if self._owner.busy:
            raise busy()
        if time.__class__ is float:
            micros = (time * SECOND + UNIT) - UNIT  # rounds, half to even
            shown = self._event(self._buffer, value, micros)
            if shown is not None:
                if micros > self._intake.newest:  # type: ignore[operator]
                    self._intake.newest = micros
                self._shown = shown
                return
        self._insert_otherwise(value, time)

    def _insert_otherwise(self, value: Any, time: Any) -> None:
        """Add an event that is no double, or for which nothing is prefetched."""
        owner, micros = self._owner, 0.0
        if self._by_hand:
            super().insert_timed(value, time) if owner.timed else super().insert(value, time)
            return
        owner.busy = True
        try:
            row = self._reader.read(value)
            if row is not None and owner.timed:
                micros = -inf if time is None else float(to_time(time))
            if row is None or not (self._takes(row, micros) or self._takes_next(row, micros)):
                self._insert_slowly(value, time)
        finally:
            owner.busy = False

    def _takes(self, row: Row, micros: float) -> bool:
        """Whether there is room for the event; then it is in, and its result is known."""
        shown = self._result(row, micros)
        if shown is None:
            return False
        if self._owner.timed:
            newest = self._intake.newest
            self._intake.newest = micros if newest is None else max(micros, newest)
        self._shown = shown
        return True

    def _result(self, row: Row, micros: float) -> Any:
        """The result after an event that may come; None if it may not."""
        return self._event(self._buffer, row, micros)

    def _takes_next(self, row: Row, micros: float) -> bool:
        """Whether the block takes it after prefetching again."""
        if self._is_late(micros) and not self._may_be_late(micros):
            return False
        return self._renew() and self._takes(row, micros)

    def evict(self, n: int = 1) -> None:
        self._by_hand = True
        if self._is_loaded and not self._owner.busy:
            self._take_back()
        super().evict(n)

    def __len__(self) -> int:
        if not self._is_loaded:
            return super().__len__()
        stands = self._block.stands()
        return len(self._structure) + stands.came - stands.left

    # --- the native buffer
    # ---------------------------------------------------------------------------

    @property
    def _is_waiting(self) -> bool:
        return self._block.stands().came > 0 if self._is_loaded else super()._is_waiting

    def _have(self, found: Prefetched) -> None:
        """Lay it down in the block."""
        if self._by_hand:
            super()._have(found)
            return
        last, bound = (self._last, self._bound) if self._owner.timed else (-EXACT, EXACT)
        if self._by_count:
            loaded = Loaded(self._room, self._spare, last, bound, None)
        else:
            loaded = Loaded(self._room, inf, last, bound, self._size)
        lateness = float(self._intake.allowed_lateness or 0)
        loaded = loaded._replace(floor=self._late_from, lateness=lateness)
        self._is_loaded, self._found = True, found
        parts = map(self._parts_of, (found.left, found.lefts, found.right))
        for block, *aggregates in zip(self._blocks, *parts, strict=True):
            block.load(loaded, *aggregates, found.leaving)
        self._buffer = self._block.buffer

    def _take_back(self) -> None:
        """Go on as though the events in the block had come the other way."""
        found, (came, left) = self._found, self._block.stands()
        assert found is not None
        super()._have(found)
        self._rows.extend(self._monoid.inputs.listed(self._values()))
        if self._owner.timed and came:
            self._times.extend(self._block.times().tolist())
            self._last, self._room = max(self._last, *self._times), self._room - came
            self._bound = self._bound if self._room else -inf
        aggregate, self._right = self._aggregates()
        if self._by_count:
            self._at, self._left, self._spare = left, aggregate, self._spare - (came - left)
        self._is_loaded = False
        for block in self._blocks:
            block.clear()

    def _sync(self) -> None:
        if not self._is_loaded:
            super()._sync()
            return
        stands = self._block.stands()
        if stands.came:
            times = self._block.times().astype("<i8") if self._owner.timed else None
            new = Events(self._values(), times, stands.came)
            self._structure.sync(new, stands.left, *self._aggregates())

    # --- parts ----------------------------------------------------------------------------------

    def _parts_of(self, partial: Any) -> Any:
        """A partial, or rows of them, for each block."""
        return (partial,)

    def _aggregates(self) -> tuple[Partial, Partial]:
        """What is left of the new events by now, and their own."""
        return self._block.aggregates()

    def _values(self) -> Rows:
        """The values of the events that came, as input rows."""
        return self._block.values()


class NativeProducts(NativeEvents):
    """The single events of one window of a product each part of which has a block."""

    __slots__ = ("_lanes", "_one", "_pick")

    def __init__(
        self, owner: WindowOwner, structure: Aggregator, paged: bool, blocks: list[Block]
    ) -> None:
        monoid = owner.monoid
        assert isinstance(monoid, Product) and monoid.picks_doubles is not None
        self._pick, self._one = monoid.picks_doubles, monoid.aliases[0]
        #: Of each part its alias, its block's buffer and its column.
        self._lanes: list[tuple[str, bytearray, int]] = []
        super().__init__(owner, structure, paged, blocks)

    def insert(self, value: Any, time: Any = None) -> None:
        if self._owner.busy:
            raise busy()
        if not (self._is_loaded and self._picks(value, 0.0)):
            self._insert_otherwise(value, time)

    def insert_timed(self, value: Any, time: Any = None) -> None:
        if self._owner.busy:
            raise busy()
        if self._is_loaded and time.__class__ is float:
            micros = (time * SECOND + UNIT) - UNIT  # rounds, half to even
            if self._picks(value, micros):
                return
        self._insert_otherwise(value, time)

    def _picks(self, value: Any, micros: float) -> bool:
        """Whether the event's columns are doubles, and the blocks take them."""
        try:
            row = self._pick(value)
        except (KeyError, TypeError, IndexError):
            return False
        return row is not None and self._takes(row, micros)

    def _result(self, row: Row, micros: float) -> Any:
        event = self._event
        shown = {alias: event(buffer, row[at], micros) for alias, buffer, at in self._lanes}
        # Where one takes an event all do, as they stand alike and a row has no NaN.
        return shown if shown and shown[self._one] is not None else None

    def _reset(self) -> None:
        super()._reset()
        self._lanes = []

    def _have(self, found: Prefetched) -> None:
        super()._have(found)
        if self._is_loaded:
            monoid = self._monoid
            assert isinstance(monoid, Product)
            parts = zip(monoid.aliases, self._blocks, monoid.places, strict=True)
            self._lanes = [(alias, block.buffer, at) for alias, block, at in parts]

    def _parts_of(self, partial: Any) -> Any:
        return partial

    def _aggregates(self) -> tuple[Partial, Partial]:
        lefts, rights = zip(*[block.aggregates() for block in self._blocks], strict=True)
        return lefts, rights

    def _values(self) -> Rows:
        columns = {at: block for block, (_, _, at) in zip(self._blocks, self._lanes, strict=True)}
        return tuple([columns[at].values() for at in sorted(columns)])
