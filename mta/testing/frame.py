"""The laws of a frame, one method each, checked on streams made of examples."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from mta.columns.reading import results_each
from mta.columns.schemas import Array, Objects, Record
from mta.errors import FrameNotMonotone, LawBroken
from mta.evaluators.amortized_mta import AmortizedMTA, LogMTA
from mta.frames.base import Frame
from mta.monoids.base import AbstractMonoid
from mta.monoids.basic import Count
from mta.monoids.equality import same
from mta.monoids.product import EVENT_TIMES, Product
from mta.monoids.text import Collect
from mta.testing.monoid import ADDRESS, Law
from mta.windows.window import Window

#: An event's value, and its time if it has one.
Event = tuple[Any, Any]


def check_frame(frame: Frame, examples: Sequence[Any], **options: Any) -> None:
    """Check every law of a frame. Raises LawBroken.

    Args:
        frame: The frame.
        examples: Values of events, in the order of the stream.
        **options: Keyword arguments of ``frame_laws``.

    >>> from mta import Sum
    >>> from mta.frames import BoundWindow
    >>> check_frame(BoundWindow(Sum(), at_most=10), [4.0, 4.0, 2.0, 0.0, 11.0, 3.0])
    """
    for law in frame_laws(frame, examples, **options):
        law()


def frame_laws(
    frame: Frame,
    examples: Sequence[Any],
    times: Sequence[Any] | None = None,
    *,
    on: AbstractMonoid | None = None,
    starts: int = 8,
    seed: int = 0,
) -> list[Law]:
    """Return the laws of a frame, to be called one by one.

    Raises ValueError for fewer than two examples, or for missing times.

    Args:
        frame: The frame.
        examples: Values of events, in the order of the stream.
        times: The times of the events, if the frame reads times.
        on: The aggregation of the window, required if the frame reads its results.
        starts: The number of stream positions at which windows start; all laws must hold for each.
        seed: The seed of the random choices.

    >>> from mta import CountWindow
    >>> from mta.testing import frame_laws
    >>> for law in frame_laws(CountWindow(2), [4.0, 4.0, 2.0, 0.0]):
    ...     law()
    """
    if len(examples) < 2:
        raise ValueError("the laws need at least two examples, better twenty, in stream order")
    if frame.needs_times and times is None:
        raise ValueError(f"{frame!r} reads times: pass times=, one for each example")
    given = [None] * len(examples) if times is None else list(times)
    events = list(zip(examples, given, strict=True))
    bench = FrameBench(frame, on or _monoid_for(frame), events, starts, seed)
    names = [name for name in vars(FrameBench) if name[0] != "_"]
    return [Law(name.replace("_", " "), getattr(bench, name), repr(frame)) for name in names]


@dataclass
class FrameBench:
    """A frame and a stream of examples; every public method checks the law of its name."""

    _frame: Frame
    _monoid: AbstractMonoid
    _events: list[Event]
    _starts: int
    _seed: int

    def _streams(self) -> Iterator[tuple[int, list[Event]]]:
        """Yield the examples from the first, and from other positions, with those positions."""
        others = range(1, len(self._events) - 1)
        random = Random(self._seed)
        picked = random.sample(others, min(self._starts - 1, len(others)))
        for start in (0, *sorted(picked)):
            yield start, self._events[start:]

    def _window(self, frame: Frame, arity: int = 2, kind: Any = AmortizedMTA) -> Window:
        return Window(self._monoid, frame, arity=arity, aggregator=kind)

    def _slid(self, window: Window, events: list[Event]) -> list[tuple[int, Any]]:
        """Return the number of events in the window, and its result, after each event."""
        found = []
        for value, time in events:
            window.insert(value, time)
            found.append((len(window), window.query()))
        return found

    def _broken(self, law: str, what: str, start: int, *sides: Any) -> LawBroken:
        text = f"{self._frame!r} breaks the law of {law}: {what}"
        where = f"on the examples from number {start} on"
        return LawBroken(f"{text}, {where}", law, self._events[start:], sides)

    # --- the laws -------------------------------------------------------------------------------

    def fingerprint(self) -> None:
        """The description is equal in every process and after any use."""
        described = self._frame.describe()
        if ADDRESS.search(described):
            raise LawBroken(
                f"{described} breaks the law of fingerprint: it differs between processes; give "
                "the frame a name",
                "fingerprint",
                described,
            )
        self._slid(self._window(self._frame), self._events)
        if self._frame.describe() != described:
            raise self._broken("fingerprint", f"it was {described} before its use", 0)

    def monotony(self) -> None:
        """If a prefix of a window stays, so does every longer one: searches rely on this."""
        for start, events in self._streams():
            try:
                self._slid(self._window(_checked(self._frame)), events)
            except FrameNotMonotone as error:
                raise self._broken("monotony", str(error), start) from error

    def one_by_one(self) -> None:
        """Batches evict the same events as single inserts, under every algorithm."""
        for start, events in self._streams():
            want = self._slid(self._window(self._frame), events)
            for kind in (LogMTA, AmortizedMTA):
                found = self._slid(self._window(self._frame, kind=kind), events)
                self._same_windows("single events", start, want, found)
                for arity, step in ((2, len(events)), (8, len(events)), (4, 3)):
                    window = self._window(self._frame, arity, kind)
                    results: list[Any] = []
                    for at in range(0, len(events), step):
                        results.extend(self._extended(window, events[at : at + step]))
                    sizes = [size for size, _ in want[:-1]] + [len(window)]
                    found = list(zip(sizes, results, strict=True))
                    self._same_windows(f"batches of {step}", start, want, found)

    def _extended(self, window: Window, events: list[Event]) -> list[Any]:
        """Return the results of a batch in the form of single results."""
        values, times = zip(*events, strict=True)
        batch = _columns(self._monoid, values)
        found = window.extend(batch, times if window.frame.needs_times else None)
        return results_each(found, len(events))

    def _same_windows(
        self, way: str, start: int, want: list[tuple[int, Any]], found: list[tuple[int, Any]]
    ) -> None:
        for index, (one, other) in enumerate(zip(found, want, strict=True)):
            if not same(one, other):
                what = (
                    f"after example {start + index}, {way} leave {one[0]} events and the result "
                    f"{one[1]!r} in place of {other[0]} and {other[1]!r}"
                )
                raise self._broken("one by one", what, start, one, other)


def _checked(frame: Frame) -> Frame:
    """Copy a frame, and the frames it combines, so that they check every prefix."""
    twin = copy.copy(frame)
    if hasattr(twin, "checked"):
        twin.checked = True
    for part in ("one", "other"):
        if isinstance(getattr(twin, part, None), Frame):
            setattr(twin, part, _checked(getattr(twin, part)))
    return twin


def _monoid_for(frame: Frame) -> AbstractMonoid:
    """Return a monoid for a window whose events the frame can read."""
    observers = ((columns, monoid) for _, columns, monoid in frame.observers)
    observed = [pair for pair in observers if pair[0] is not EVENT_TIMES]
    if not observed:
        return Count()
    if all(columns is not None for columns, _ in observed):
        parts = {f"observed {i}": pair for i, pair in enumerate(observed)}
        return Product({"events": Count(), **parts})
    inputs = [monoid.inputs for _, monoid in observed]
    plain = all(isinstance(schema, (Array, Objects)) for schema in inputs)
    return Collect() if plain else observed[0][1]


def _columns(monoid: AbstractMonoid, values: Sequence[Any]) -> Any:
    if monoid.names_results:
        return {name: [value[name] for value in values] for name in values[0]}
    if isinstance(monoid.inputs, Record) and monoid.inputs.schemas:
        return tuple(list(column) for column in zip(*values, strict=True))
    return list(values)
