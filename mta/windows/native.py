"""Single events in a compiled kernel: their prefetched data is loaded into a native buffer.

``single`` prefetches the aggregates. This module loads them into one *block* of numbers. Each event
is then one call of the kernel (``single.c``), until an event needs more. The kernel checks whether
the event is allowed, adds it, moves the front, and returns the result. Times and counts are also
doubles, so one buffer, which Python owns, contains everything. This works for aggregations whose
partial is a number or the pair of a mean, for products of these, and for windows by count or time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Any, NamedTuple

import numpy as np

from mta.columns.schemas import Array, Row, Rows
from mta.folds.sliding import Events
from mta.frames.base import AbstractPolicy
from mta.frames.windows import CountWindow, TimeWindow
from mta.kernels import native
from mta.kernels.native import Kernel
from mta.monoids.base import AbstractMonoid, Partial
from mta.monoids.columnar import ColumnarMonoid
from mta.monoids.product import Product
from mta.windows.single import (
    EXACT,
    UNKNOWN,
    Ahead,
    Moved,
    Owner,
    SingleEvents,
)

#: The number of events for which a block has room, as in ``columns.h``.
MOST = 1024
#: The kernel's code for each operation. A partial is one number, and for a mean also a count.
_OPERATIONS = {"sum_f8": 0.0, "mean": 0.0, "max_f8": 1.0, "min_f8": -1.0}
#: The numbers at the start of a block: see ``load`` and ``stands``.
_NUMBERS = 16


class Loaded(NamedTuple):
    """How many events can arrive, and when each evicts one. Times are in whole microseconds."""

    most: int
    """How many events can arrive."""
    spare: float
    """How many events can arrive before each evicts one; infinite for a window by time."""
    last: float
    """The newest time."""
    bound: float
    """Events must be before this time."""
    age: float | None
    """How much older than the newest event an evicted event is; None for a window by count."""
    floor: float = inf
    """From this time on, events can be older than the newest event."""
    lateness: float = 0.0
    """The largest difference by which they can be older, in microseconds."""
    delay: float = 0.0
    """How much older than the newest event an event is when it enters the window."""
    rows: int = 0
    """How many later events must have arrived when an event enters the window."""
    waiting: int = 0
    """How many stored events enter the window first (``put_waiting``)."""


class Stands(NamedTuple):
    """How many events arrived, left and entered the window."""

    came: int
    left: int
    entered: int


class Block:
    """A block for one window. It accepts no event until data is loaded.

    Rows of partials are an array, or for a mean a tuple of sums and counts.
    """

    __slots__ = (
        "_buffer", "_counts", "_is_mean", "_leaving", "_numbers", "_operation", "_stack", "_times",
        "_values", "event",
    )  # fmt: skip

    def __init__(self, kind: str) -> None:
        self._operation, self._is_mean = _OPERATIONS[kind], kind == "mean"
        #: Allocates on first use, because few of many windows have single events.
        self._use(bytearray())

    def _use(self, buffer: bytearray) -> None:
        self._buffer = buffer
        #: Returns the result after an event with a value and a time. Returns None, and changes
        #: nothing, if the block does not accept the event.
        self.event: Callable[[Any, float], Any] = partial(native.compiled.event, buffer)

    def _make_room(self) -> None:
        buffer = bytearray(8 * (_NUMBERS + 2 * MOST + 3 * (MOST + 1)))
        ends = np.cumsum([_NUMBERS, MOST, MOST, MOST + 1, MOST + 1])
        columns = np.split(np.ndarray(len(buffer) // 8, "<f8", buffer), ends)
        self._numbers, self._values, self._times = columns[:3]
        self._stack, self._counts, self._leaving = columns[3:]
        self._use(buffer)

    @classmethod
    def of(cls, kernel: Kernel | None) -> Block | None:
        """Return a block, or None without a compiled kernel for the operation."""
        if native.compiled is None or kernel is None or kernel.kind not in _OPERATIONS:
            return None
        return cls(kernel.kind)

    @property
    def has_room(self) -> bool:
        """Whether the block uses memory."""
        return bool(self._buffer)

    def load(self, loaded: Loaded, folds: Rows, right: Any, leaving: np.ndarray) -> None:
        """Load prefetched data (``Prefetched``); from then on the block accepts events."""
        if not self._buffer:
            self._make_room()
        base = -1.0
        if self._is_mean:
            (folds, counts), (right, base) = folds, right
            self._counts[: len(counts)] = counts
        self._stack[: len(folds)] = folds
        most, spare, last, bound, age, floor, lateness, delay, behind, waiting = loaded
        times = 0 if age is None else len(leaving)
        self._leaving[:times], self._leaving[times:] = leaving[:times], inf
        self._numbers[:] = (
            waiting, min(waiting + most, MOST), 0, spare, right, base, last, bound, age or 0,
            self._operation, floor, lateness, 0, delay, behind, waiting
        )  # fmt: skip

    def put_waiting(self, values: np.ndarray, times: np.ndarray | None) -> None:
        """Set the stored events that enter the window before the new events."""
        self._values[: len(values)] = values
        self._times[: len(values)] = -inf if times is None else times

    def evict(self) -> None:
        """Evict the oldest prefetched event, before more events arrive."""
        self._numbers[2] += 1
        self._numbers[3] = max(self._numbers[3], 0) + 1

    def stands(self) -> Stands:
        """Return the current counts."""
        numbers = self._numbers.tolist()
        return Stands(int(numbers[0] - numbers[15]), int(numbers[2]), int(numbers[12]))

    def values(self) -> np.ndarray:
        """Return the values of the events that arrived."""
        return self._values[int(self._numbers[15]) : int(self._numbers[0])].copy()

    def times(self) -> np.ndarray:
        """Return the times of the events that arrived, in order of arrival."""
        return self._times[int(self._numbers[15]) : int(self._numbers[0])].copy()

    def aggregates(self) -> tuple[Any, Any]:
        """Return the aggregates of the remaining older events and of the new events."""
        _, _, gone, _, right, base, *_, entered, _, _, _ = self._numbers.tolist()
        left = self._stack[int(gone)].item()
        if not self._is_mean:
            return left, right
        return (left, self._counts[int(gone)].item()), (right, base + entered)

    def clear(self) -> None:
        """Discard the loaded data."""
        if self._buffer:
            self._numbers[:] = 0


class ProductBlock:
    """A block for each part of a product, all with the same counts. Rows are tuples of columns."""

    __slots__ = ("_aliases", "_blocks", "_lanes", "_places")

    def __init__(
        self, aliases: Sequence[str], blocks: Sequence[Block], places: Sequence[int]
    ) -> None:
        self._aliases, self._blocks, self._places = tuple(aliases), tuple(blocks), tuple(places)
        self._note_events()

    def _note_events(self) -> None:
        #: The alias, the block's function, and the column of each part.
        events = [block.event for block in self._blocks]
        self._lanes = tuple(zip(self._aliases, events, self._places, strict=True))

    @property
    def has_room(self) -> bool:
        return self._blocks[0].has_room

    def event(self, row: Any, time: float) -> dict[str, Any] | None:
        """Return the results after an event without NaN, or None if it is not accepted."""
        found = {alias: event(row[at], time) for alias, event, at in self._lanes}
        return None if found[self._aliases[0]] is None else found  # if one accepts it, all do

    def load(self, loaded: Loaded, folds: Rows, right: Any, leaving: np.ndarray) -> None:
        for block, column, newer in zip(self._blocks, folds, right, strict=True):
            block.load(loaded, column, newer, leaving)
        self._note_events()

    def put_waiting(self, values: Sequence[np.ndarray], times: np.ndarray | None) -> None:
        for block, at in zip(self._blocks, self._places, strict=True):
            block.put_waiting(values[at], times)

    def evict(self) -> None:
        for block in self._blocks:
            block.evict()

    def stands(self) -> Stands:
        return self._blocks[0].stands()

    def values(self) -> tuple[np.ndarray, ...]:
        """Return the values of the events that arrived, by column."""
        columns = dict(zip(self._places, self._blocks, strict=True))
        return tuple([columns[at].values() for at in sorted(columns)])

    def times(self) -> np.ndarray:
        return self._blocks[0].times()

    def aggregates(self) -> tuple[Any, Any]:
        lefts, rights = zip(*[block.aggregates() for block in self._blocks], strict=True)
        return lefts, rights

    def clear(self) -> None:
        for block in self._blocks:
            block.clear()


def block_for(monoid: AbstractMonoid, policy: AbstractPolicy) -> Block | ProductBlock | None:
    """Return the block for single events of a window, or None if no kernel supports them."""
    if type(policy) not in (CountWindow, TimeWindow):
        return None
    if not isinstance(monoid, Product):
        return _block_of(monoid)
    blocks = [_block_of(part) for part in monoid.monoids]
    known = [block for block in blocks if block is not None]
    if monoid.picks_doubles is None or not known or len(known) < len(blocks):
        return None
    return ProductBlock(monoid.aliases, known, monoid.places)


def _block_of(monoid: AbstractMonoid) -> Block | None:
    if not isinstance(monoid, ColumnarMonoid) or not monoid.kernel_lowers:
        return None
    takes_doubles = isinstance(monoid.inputs, Array) and monoid.inputs.dtype == np.dtype("<f8")
    return Block.of(monoid.kernel) if takes_doubles else None


class NativeEvents(SingleEvents):
    """The single events of one window, in a block."""

    __slots__ = ("_evictions", "_pick", "block")

    def __init__(self, owner: Owner, block: Block | ProductBlock, paged: bool) -> None:
        self.block = block
        #: Extracts the columns of an event for a product.
        self._pick = owner.monoid.picks_doubles if isinstance(owner.monoid, Product) else None
        super().__init__(owner, True, paged)
        self._use_block()

    def _use_block(self) -> None:
        self.event = self.block.event if self._pick is None else self._event_of_product

    def _reset(self) -> None:
        super()._reset()
        self.block.clear()
        #: The number of prefetched evictions.
        self._evictions = 0

    def _event_of_product(self, value: Any, micros: float) -> Any:
        """Return the results after an event whose columns are all doubles, else None."""
        assert self._pick is not None
        if not self._held:
            return None
        try:
            row = self._pick(value)
        except (KeyError, TypeError, IndexError):
            return None
        return None if row is None else self.block.event(row, micros)

    def _takes(self, row: Row, micros: float) -> bool:
        shown = self.block.event(row, micros)
        if shown is None and self._takes_next(micros):
            shown = self.block.event(row, micros)
        if shown is None:
            return False
        if self.timed:
            newest = self.intake.newest
            self.intake.newest = micros if newest is None else max(micros, newest)
        self.shown = shown
        return True

    def _takes_next(self, micros: float) -> bool:
        """Prefetch again, unless the event is too late for that; return whether that worked."""
        newest = self.intake.newest
        is_late = self.timed and newest is not None and micros < newest
        return not (is_late and not self._may_be_late(micros)) and self._renew()

    def found(self, which: Any) -> Any:
        if self.shown is UNKNOWN:
            if not self._held:
                return UNKNOWN
            self.note(self._combine(*self.block.aggregates()))
        return self.shown if self.show is None else self.show(self.shown)

    def note(self, fold: Partial) -> None:
        self.shown = fold if self._lower is None else self._lower(fold)

    def write_back(self) -> None:
        super().write_back()
        self.shown = UNKNOWN

    def length(self) -> int | None:
        if not self._held:
            return None
        stands = self.block.stands()
        return self._length + stands.entered - stands.left

    # --- the native buffer ----------------------------------------------------------------------

    @property
    def _is_waiting(self) -> bool:
        return self._held and self.block.stands().came > 0

    def _load(self, ahead: Ahead) -> None:
        (window,) = ahead.windows.values()
        last, bound = (self._last, self._bound) if self.timed else (-EXACT, EXACT)
        by_count = window.by_count
        found, lag = window.found, window.found.lag
        loaded = Loaded(
            self._room, window.spare if by_count else inf, last, bound,
            None if by_count else window.size, ahead.late_from,
            float(self.intake.allowed_lateness or 0),
            *((0.0, 0, 0) if lag is None else (float(lag.delay), lag.rows, lag.waiting.size)),
        )  # fmt: skip
        self._evictions = found.size - 1
        self.block.load(loaded, found.folds, found.right, found.leaving)
        if lag is not None:
            self.block.put_waiting(lag.waiting.rows, lag.waiting.times)
        self._use_block()

    def _has_evictions(self) -> bool:
        return self._held and self.block.stands().left < self._evictions

    def _evict(self) -> None:
        self.block.evict()
        self.shown = UNKNOWN

    def _sync(self) -> None:
        came, left, entered = self.block.stands()
        if came or left:
            times = self.block.times().astype("<i8") if self.timed else None
            new = Events(self.block.values(), times, came)
            moved = Moved(entered, left, self.block.aggregates()[1])
            self.owner.write_back(new, {"": moved})
