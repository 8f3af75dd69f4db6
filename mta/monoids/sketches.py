"""Distinct counts, quantiles and frequencies by Apache DataSketches (the extra ``sketches``).

A partial is a sketch of the library. A page holds its serialized bytes, which the DataSketches
libraries of all languages read. ``docs/monoids.md`` states the guarantees, which hold after any
merges. The same events give the same bytes of DistinctCount and CountMin, in whatever order they
are folded, but not of KLLQuantiles above k values, as the library uses random numbers.

A replay with KLL may therefore write pages under other names. This does no harm: ``mta gc`` finds
the pages that no snapshot names. But a lost inner page of KLL cannot be rebuilt from the level
below. Audits and ``mta.testing`` compare the estimates of sketches, within their guarantees.

The library trusts the bytes that it reads. Bytes that would crash it, or make it allocate unlimited
memory, are therefore rejected first.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, Self, overload

import numpy as np

from mta.columns.reading import plain
from mta.columns.schemas import Array, Row
from mta.errors import InvalidValue, MissingDependency
from mta.monoids.base import Out, Partial
from mta.monoids.moments import quantiles_text, read_quantiles
from mta.monoids.summary import SummaryMonoid
from stores.errors import pip_install

Sketch = Any
_INT64 = range(-(1 << 63), 1 << 63)
#: Replaces an empty text in HLL, which the library would ignore.
_EMPTY_TEXT = "\0"
#: An item in every sketch of frequent items that is too frequent ever to be dropped: it weighs more
#: than the events that one fold may add (MAX_ARITY). The library treats a sketch whose items were
#: all dropped as empty, and would forget its number of events.
_ANCHOR, _ANCHOR_WEIGHT = "\0anchor", 1 << 24
#: The prefix of a number's text in count-min, and of a text that starts with the prefix.
_NUMBER = "\0"


def library() -> Any:
    """Import the library. Raises MissingDependency."""
    try:
        import datasketches
    except ImportError as error:
        raise MissingDependency(
            f"sketches need the library {error.name!r}: {pip_install('sketches')}"
        ) from error
    return datasketches


class DistinctCount(SummaryMonoid[float]):
    """The approximate number of distinct values in the window (HyperLogLog).

    Values are text, 64-bit integers, floats or booleans; 1 and 1.0 are two values. The result is a
    float, 0 for an empty window.

    Args:
        lg_k: The precision, from 7 to 21. The relative standard error is 1.04 / sqrt(2^lg_k), 1.6%
            by default and much less for few values; a partial takes at most 2^lg_k bytes.
    """

    never_null = True

    def __init__(self, lg_k: int = 12) -> None:
        if not 7 <= lg_k <= 21:
            raise ValueError(f"lg_k is a number from 7 to 21, not {lg_k!r}")
        library()
        self.lg_k = lg_k
        super().__init__(f"DistinctCount(lg_k={lg_k})", row_bytes=40 + (1 << lg_k), empty=0.0)

    def is_valid(self, row: Row) -> bool:
        value = plain(row)
        if isinstance(value, str):
            return _is_text(value)
        if isinstance(value, int):
            return value in _INT64
        return isinstance(value, float) and value == value

    def new(self) -> Sketch:
        return library().hll_sketch(self.lg_k, library().HLL_8)

    def is_summary(self, partial: Partial) -> bool:
        return isinstance(partial, library().hll_sketch)

    def add(self, summary: Sketch, values: Sequence[Any]) -> None:
        update = summary.update
        for value in map(plain, values):
            update(value if value != "" else _EMPTY_TEXT)

    def merge(self, summary: Sketch, other: Sketch) -> Sketch:
        union = library().hll_union(self.lg_k)
        union.update(summary)
        union.update(other)
        return union.get_result(library().HLL_8)

    def answer(self, summary: Sketch) -> float:
        return float(self._merged(summary).get_estimate())

    def agree(self, one: Sketch, other: Sketch) -> bool:
        return self.answer(one) == self.answer(other)

    def to_bytes(self, summary: Sketch) -> bytes:
        return _sorted_coupons(self._merged(summary).serialize_compact())

    def from_bytes(self, data: bytes) -> Sketch:
        _check_hll(data, self.lg_k)
        return library().hll_sketch.deserialize(data)

    def _merged(self, summary: Sketch) -> Sketch:
        """Merge a sketch with itself: its estimate then does not depend on the order of values."""
        return self.merge(summary, summary)


class _Sketch(SummaryMonoid[Out]):
    """A monoid of sketches that the library merges in place and serializes."""

    def merge(self, summary: Sketch, other: Sketch) -> Sketch:
        summary.merge(other)
        return summary

    def to_bytes(self, summary: Sketch) -> bytes:
        return bytes(summary.serialize())


class KLLQuantiles(_Sketch[Out]):
    """Approximate quantiles with a guaranteed rank error (KLL sketch); NaN for an empty window.

    Args:
        quantiles: A number from 0 to 1, or a sequence of them for a list of results.
        k: The precision. At 200, the rank of a result is off by at most 1.33% of the events with a
            probability of 99%. Up to k events, the result is exact. A partial takes at most about
            27 k bytes.
    """

    @overload
    def __init__(self: KLLQuantiles[float], quantiles: float = 0.5, k: int = 200) -> None: ...

    @overload
    def __init__(
        self: KLLQuantiles[list[float]], quantiles: Sequence[float], k: int = 200
    ) -> None: ...

    def __init__(self, quantiles: float | Sequence[float] = 0.5, k: int = 200) -> None:
        if not 8 <= k <= 65535:
            raise ValueError(f"k is a number from 8 to 65535, not {k!r}")
        library()
        self.k, self.single = k, isinstance(quantiles, (int, float))
        self.quantiles = read_quantiles(quantiles)
        nothing = [math.nan] * len(self.quantiles)
        super().__init__(
            f"KLLQuantiles({quantiles_text(self.quantiles)}, k={k})",
            row_bytes=27 * k,
            inputs=Array("f8"),
            empty=nothing[0] if self.single else nothing,
            result_type="double" if self.single else "array<double>",
        )

    def new(self) -> Sketch:
        return library().kll_doubles_sketch(self.k)

    def is_summary(self, partial: Partial) -> bool:
        return isinstance(partial, library().kll_doubles_sketch)

    def add(self, summary: Sketch, values: Sequence[float]) -> None:
        # The library rejects read-only arrays, such as those read from pages.
        summary.update(np.require(values, "f8", "W"))

    def answer(self, summary: Sketch) -> Out:
        if summary.is_empty():
            return self.empty
        found: Any = list(summary.get_quantiles(self.quantiles, True))
        answer: Out = found[0] if self.single else found
        return answer

    def agree(self, one: Sketch, other: Sketch) -> bool:
        """Equal counts and extremes; ranks may differ by the errors of both."""
        if one.n != other.n or one.is_empty():
            return bool(one.n == other.n)
        ends = [(sketch.get_min_value(), sketch.get_max_value()) for sketch in (one, other)]
        exact = not (one.is_estimation_mode() or other.is_estimation_mode())
        # A rank is within the error e in 99% of cases, and within 2e in all but a few in a million.
        slack = 1e-9 if exact else 4 * one.get_normalized_rank_error(self.k, False)
        probes = one.get_quantiles(np.linspace(0, 1, 17).tolist(), True)
        return ends[0] == ends[1] and all(
            abs(one.get_rank(probe, True) - other.get_rank(probe, True)) <= slack
            for probe in probes
        )

    def to_bytes(self, summary: Sketch) -> bytes:
        if not summary.is_empty():
            # The first query sorts the sketch; without it, bytes would depend on earlier queries.
            summary.get_rank(0.0)
        return super().to_bytes(summary)

    def from_bytes(self, data: bytes) -> Sketch:
        _check_kll(data, self.k)
        return library().kll_doubles_sketch.deserialize(data)


class FrequentItems(_Sketch[list[tuple[Any, int]]]):
    """The items that make up at least ``share`` of the window, as a list of (item, estimate).

    No such item is missing. An estimate is never below an item's true count, and at most e * n
    above it, where n is the number of events and e = 3.5 / 2^lg_size. The list may therefore
    include items with a share down to ``share - e``. The most frequent item comes first; in a tie,
    the smaller item.

    Args:
        share: The smallest share of an item, above 0 and up to 1.
        of: The type of the items: str, int or float.
        lg_size: The size of the sketch. By default, e is at most a quarter of the share.
    """

    never_null = True

    def __init__(self, share: float = 0.01, of: type = str, lg_size: int | None = None) -> None:
        if not 0 < share <= 1:
            raise ValueError(f"share is a part of the events, above 0 and up to 1, not {share!r}")
        if of not in (str, int, float):
            raise ValueError(f"items are str, int or float, not {of!r}")
        self.lg_size = max(3, math.ceil(math.log2(14 / share))) if lg_size is None else lg_size
        if not 3 <= self.lg_size <= 24:
            raise ValueError(f"lg_size is a number from 3 to 24, not {self.lg_size!r}")
        if self.error >= share:
            raise ValueError(
                f"with an lg_size of {lg_size} estimates are off by {self.error:g} of the events, "
                f"so that items of a share of {share:g} may be missed: raise lg_size"
            )
        library()
        self.share, self.of = share, of
        item = {str: "string", int: "bigint", float: "double"}[of]
        super().__init__(
            f"FrequentItems({share:g}, of={of.__name__}, lg_size={self.lg_size})",
            row_bytes=24 << self.lg_size,
            empty=[],
            result_type=f"array<struct<item: {item}, estimate: bigint>>",
        )

    @property
    def error(self) -> float:
        """The largest error of an estimate, as a share of the number of events."""
        return 3.5 / (1 << self.lg_size)

    def is_valid(self, row: Row) -> bool:
        value = plain(row)
        if self.of is str:
            return isinstance(value, str) and _is_text(value) and value != _ANCHOR
        whole = isinstance(value, int) and not isinstance(value, bool)
        return whole or (self.of is float and isinstance(value, float) and value == value)

    def new(self) -> Sketch:
        sketch = library().frequent_strings_sketch(self.lg_size)
        sketch.update(_ANCHOR, _ANCHOR_WEIGHT)
        return sketch

    def is_summary(self, partial: Partial) -> bool:
        return isinstance(partial, library().frequent_strings_sketch)

    def add(self, summary: Sketch, values: Sequence[Any]) -> None:
        of, update = self.of, summary.update
        for value, weight in Counter(values).items():
            # Adding 0 turns -0.0 into 0.0.
            update(value if of is str else repr(of(value + 0)), weight)

    def answer(self, summary: Sketch) -> list[tuple[Any, int]]:
        least = max(1, math.ceil(self.share * _events(summary)))
        found = self._items(summary, least)
        return sorted(found, key=lambda pair: (-pair[1], pair[0]))

    def _items(self, summary: Sketch, least: int) -> list[tuple[Any, int]]:
        """Return the items that may occur ``least`` times, with estimates."""
        kind = library().frequent_items_error_type.NO_FALSE_NEGATIVES
        # The library returns items above a threshold.
        return [
            (self.of(text), upper)
            for text, _, _, upper in summary.get_frequent_items(kind, least - 1)
            if text != _ANCHOR
        ]

    def agree(self, one: Sketch, other: Sketch) -> bool:
        """Equal totals, and overlapping bounds for every item."""
        if _events(one) != _events(other):
            return False
        texts = {self._text(item) for sketch in (one, other) for item, _ in self._items(sketch, 1)}
        return all(
            one.get_lower_bound(text) <= other.get_upper_bound(text)
            and other.get_lower_bound(text) <= one.get_upper_bound(text)
            for text in texts
        )

    def _text(self, item: Any) -> str:
        return item if self.of is str else repr(item)

    def from_bytes(self, data: bytes) -> Sketch:
        _check_items(data, self.lg_size)
        sketch = library().frequent_strings_sketch.deserialize(data)
        self._items(sketch, 1)  # reads every item, so that none raises later
        return sketch


class Frequencies(bytes):
    """How often items occurred in a window: the result of ``CountMin``, a subclass of bytes.

    Args:
        data: The bytes of a ``CountMin`` result, for example from a binary column of Spark. Other
            bytes raise InvalidValue.
    """

    __slots__ = ()

    def __new__(cls, data: bytes) -> Self:
        try:
            _check_count_min(data)
        except ValueError as error:
            raise InvalidValue(f"these bytes are not a count-min sketch: {error}") from error
        return super().__new__(cls, data)

    def estimate(self, item: Any) -> int:
        """Return how often an item occurred.

        The estimate is never too low. With the ``confidence`` of the ``CountMin``, it is too high
        by at most ``error * events``. Raises InvalidValue for a value that cannot be an item.
        """
        return self.estimates((item,))[0]

    def estimates(self, items: Iterable[Any]) -> list[int]:
        """Return the estimates of several items; reads the sketch once."""
        asked = [plain(item) for item in items]
        for item in asked:
            if not _is_item(item):
                raise InvalidValue(f"{item!r} is neither text nor a number")
        if not self.events:
            return [0] * len(asked)
        sketch = library().count_min_sketch.deserialize(bytes(self))
        return [int(sketch.get_estimate(_item_text(item))) for item in asked]

    @property
    def events(self) -> int:
        """The number of events in the window."""
        return int(struct.unpack_from("<d", self, _CM_HEAD)[0]) if len(self) > _CM_HEAD else 0

    @property
    def error(self) -> float:
        """The largest error of an estimate, as a share of the number of events."""
        return math.e / int(struct.unpack_from("<I", self, 8)[0])

    def __repr__(self) -> str:
        return f"<Frequencies: {self.events} events in {len(self)} bytes>"


class CountMin(_Sketch[Frequencies]):
    """The approximate count of any item in the window (count-min sketch), as ``Frequencies``.

    An estimate is never below the true count of an item. Items are text and numbers; 1, 1.0 and
    True are the same. The same events give the same bytes in any order. A partial has e / error
    counters of 8 bytes per hash, and ln(1 / (1 - confidence)) hashes: 11 KB by default.

    Args:
        error: The largest error of an estimate, as a share of the number of events.
        confidence: The probability that an estimate is within the error.
    """

    never_null = True

    def __init__(self, error: float = 0.01, confidence: float = 0.99) -> None:
        if not (0 < error < 1 and 0 < confidence < 1):
            raise ValueError(
                f"error and confidence are numbers between 0 and 1, not {error!r} and "
                f"{confidence!r}"
            )
        self.buckets = math.ceil(math.e / error)
        self.hashes = math.ceil(-math.log1p(-confidence))
        if self.buckets * self.hashes > _CM_MOST:
            raise ValueError(
                f"a count-min sketch of {self.buckets * self.hashes} counters is too large: raise "
                "the error, or lower the confidence"
            )
        self._head = self.new().serialize()
        super().__init__(
            f"CountMin(buckets={self.buckets}, hashes={self.hashes}, places={_places()})",
            row_bytes=24 + 8 * self.buckets * self.hashes,
            empty=Frequencies(self._head),
            result_type="binary",
        )

    def is_valid(self, row: Row) -> bool:
        return _is_item(plain(row))

    def new(self) -> Sketch:
        return library().count_min_sketch(self.hashes, self.buckets)

    def is_summary(self, partial: Partial) -> bool:
        return isinstance(partial, library().count_min_sketch)

    def add(self, summary: Sketch, values: Sequence[Any]) -> None:
        update = summary.update
        for value, weight in Counter(map(plain, values)).items():
            # With an integer weight, the library takes the text "12" for the number 12.
            update(_item_text(value), float(weight))

    def answer(self, summary: Sketch) -> Frequencies:
        return bytes.__new__(Frequencies, self.to_bytes(summary))  # these bytes need no check

    def agree(self, one: Sketch, other: Sketch) -> bool:
        return self.to_bytes(one) == self.to_bytes(other)

    def from_bytes(self, data: bytes) -> Sketch:
        _check_count_min(data)
        _require(data[4:_CM_HEAD] == self._head[4:], "its counters or its seed differ")
        return library().count_min_sketch.deserialize(data)


@cache
def _places() -> str:
    """Return a fingerprint of where the library puts an item.

    The hash seeds depend on the platform's C++ library. Sketches of two platforms must not be
    merged, so the places are part of the monoid's fingerprint.
    """
    sketch = library().count_min_sketch(2, 4096)
    sketch.update("mta")
    counters = np.frombuffer(sketch.serialize(), "<f8", offset=_CM_HEAD + 8)
    return "".join(f"{place % 4096:03x}" for place in counters.nonzero()[0])


def _is_item(value: Any) -> bool:
    """Whether count-min accepts a value: encodable text, and numbers except NaN."""
    if isinstance(value, str):
        return _is_text(value)
    return isinstance(value, (int, float)) and value == value


def _item_text(value: Any) -> str:
    """Return the text that the library hashes: one for equal numbers, and never that of a text."""
    if isinstance(value, str):
        # The library ignores an empty text.
        return value if value and value[0] != _NUMBER else 2 * _NUMBER + value
    return _NUMBER + (f"{int(value):x}" if value % 1 == 0 else repr(value))


def _events(sketch: Sketch) -> int:
    """Return a frequent-items sketch's number of events; the anchor's upper bound is its weight."""
    return int(sketch.total_weight - sketch.get_upper_bound(_ANCHOR))


def _is_text(value: str) -> bool:
    """Whether a text can be encoded; text with a lone surrogate cannot."""
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False


# --- checks of serialised sketches, before the library reads them --------------------------------

# DataSketches checks lengths, but does not check some fields. A KLL sketch whose levels lie outside
# its items crashes the process, and an HLL set or a map of items of size 2^31 is allocated. These
# fields are therefore compared here with the values that a sketch of the same settings can have.
# The formats are Apache DataSketches' own and the same in all its languages. All numbers are
# little-endian.

_HLL_LIST, _HLL_SET, _HLL = range(3)
#: The offset of the coupons in an HLL list and set.
_COUPONS = {_HLL_LIST: 8, _HLL_SET: 12}
_HLL_REGISTERS, _HLL_8, _LARGEST_REGISTER = 40, 2, 63
_KLL_FULL, _KLL_MIN_WIDTH, _KLL_MOST_LEVELS = 20, 8, 61
#: The header bytes of count-min, the largest number of counters, and the largest counter.
_CM_HEAD, _CM_MOST, _CM_LARGEST = 16, 1 << 24, 1 << 53


def _check_hll(data: bytes, lg_k: int) -> None:
    """Raise ValueError unless the bytes are an HLL_8 sketch of this lg_k."""
    _require(len(data) >= 8, "it is too short")
    _require(data[3] == lg_k, f"its lg_k is {data[3]} instead of {lg_k}")
    mode, kind = data[7] & 3, data[7] >> 2 & 3
    _require(kind == _HLL_8 and mode <= _HLL, f"its mode is {data[7]}")
    if mode == _HLL:
        _require(len(data) == _HLL_REGISTERS + (1 << lg_k), "its registers are of the wrong length")
        _require(max(data[_HLL_REGISTERS:]) <= _LARGEST_REGISTER, "a register is out of range")
        return
    count = (len(data) - _COUPONS[mode]) // 4
    if mode == _HLL_LIST:
        said = data[6]
    else:
        _require(len(data) >= 12, "it is too short")
        said = int.from_bytes(data[8:12], "little")
    _require(len(data) == _COUPONS[mode] + 4 * count and said == count, "its count is wrong")
    _require((data[4] <= lg_k and count < 1 << data[4]) or not count, "its table is too small")


def _sorted_coupons(data: bytes) -> bytes:
    """Sort the coupons of a compact HLL sketch, so that its bytes do not depend on its history."""
    mode = data[7] & 3
    if mode == _HLL:
        return data
    start = _COUPONS[mode]
    return data[:start] + np.sort(np.frombuffer(data, "<u4", offset=start)).tobytes()


def _check_kll(data: bytes, k: int) -> None:
    """Raise ValueError unless the bytes are a KLL sketch of doubles of this k without NaN."""
    _require(len(data) >= 8, "it is too short")
    preamble, version, _, flags, found, width, _ = struct.unpack_from("<BBBBHBB", data)
    _require((found, width) == (k, _KLL_MIN_WIDTH), f"its k and m are {found} and {width}")
    if flags & 1:
        _require(len(data) == 8 and preamble == 2, "it is empty, but not short")
    elif flags & 4:
        _require(len(data) == 16 and (preamble, version) == (2, 2), "it is not a single item")
        _require(not np.isnan(np.frombuffer(data, "<f8", offset=8)).any(), "it holds a NaN")
    else:
        _require(len(data) >= _KLL_FULL and (preamble, version) == (5, 1), "its preamble is wrong")
        _check_levels(data, k, bool(flags & 2))


def _check_levels(data: bytes, k: int, sorted_too: bool) -> None:
    """Require adjacent sorted levels that together weigh n."""
    n, least_k, levels = struct.unpack_from("<QHB", data, 8)
    _require(0 < levels <= _KLL_MOST_LEVELS and least_k == k, "its levels are out of range")
    start = _KLL_FULL + 4 * levels
    capacity = sum(_capacity(k, levels - height - 1) for height in range(levels))
    _require(len(data) >= start + 16, "it is too short")
    bounds = [*struct.unpack_from(f"<{levels}I", data, _KLL_FULL), capacity]
    sizes = [after - before for before, after in pairwise(bounds)]
    _require(min(sizes) >= 0, "its levels overlap")
    _require(len(data) == start + 16 + 8 * sum(sizes), "its items are of the wrong length")
    _require(sum(size << height for height, size in enumerate(sizes)) == n, "its count is wrong")
    values = np.frombuffer(data, "<f8", offset=start)
    least, most, items = values[0], values[1], values[2:]
    _require(not np.isnan(values).any(), "it holds a NaN")
    _require(bool(((items >= least) & (items <= most)).all()), "an item is out of range")
    for height in range(0 if sorted_too else 1, levels):
        level = items[bounds[height] - bounds[0] : bounds[height + 1] - bounds[0]]
        _require(bool((level[1:] >= level[:-1]).all()), f"level {height} is not sorted")


def _capacity(k: int, depth: int) -> int:
    """Return the capacity of the level at a depth below the top: about k (2/3)^depth items."""
    if depth > 30:
        half = depth // 2
        return max(_KLL_MIN_WIDTH, _scaled(_scaled(k, half), depth - half))
    return max(_KLL_MIN_WIDTH, _scaled(k, depth))


def _scaled(k: int, depth: int) -> int:
    """Return k (2/3)^depth, rounded to the nearest integer."""
    return ((2 * k << depth) // int(3**depth) + 1) // 2


def _check_items(data: bytes, lg_size: int) -> None:
    """Raise ValueError unless the bytes are a sketch of frequent items of this size."""
    _require(len(data) >= 8, "it is too short")
    _require(data[3] == lg_size, f"its lg_size is {data[3]} instead of {lg_size}")
    _require(3 <= data[4] <= lg_size, f"its map has a size of 2^{data[4]}")
    if len(data) > 8:
        count = int.from_bytes(data[8:12], "little")
        _require(4 * count <= 3 << data[4], f"it has {count} items, more than its map holds")


def _check_count_min(data: bytes) -> None:
    """Raise ValueError unless the bytes are a count-min sketch; each hash counts all events."""
    _require(len(data) >= _CM_HEAD and data[:3] == b"\2\1\x12", "its header differs")
    buckets, hashes = struct.unpack_from("<IB", data, 8)
    _require(buckets >= 3 and 0 < buckets * hashes <= _CM_MOST, "its counters are out of range")
    if data[3] & 1:
        _require(len(data) == _CM_HEAD, "it is empty, but not short")
        return
    _require(len(data) == _CM_HEAD + 8 + 8 * buckets * hashes, "it is of the wrong length")
    numbers = np.frombuffer(data, "<f8", offset=_CM_HEAD)
    # NaN is outside any bounds.
    _require(bool(((numbers >= 0) & (numbers <= _CM_LARGEST)).all()), "a number is out of range")
    _require(not (numbers % 1).any(), "it counts parts of events")
    sums = numbers[1:].reshape(hashes, buckets).sum(1)
    _require(bool((sums == numbers[0]).all()), "its counters do not add up")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
