"""What the tests of in-order aggregators share: monoids, each algorithm's windows, a plain list."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mta import Monoid
from mta.aggregations import AbstractMonoid
from mta.algorithms import (
    DABA,
    IN_ORDER,
    PBA,
    SBA,
    BoundaryAggregator,
    DABALite,
    InOrderAggregator,
    TwoStacksLite,
)
from tests.support.naive import joined


def cut_off() -> Monoid:
    """Concatenation whose front can be cut off again: invertible, and order still matters."""
    return Monoid(
        "",
        lambda left, right: left + right,
        name="cut off",
        inverse=lambda whole, first: whole[len(first) :],
    )


def longest() -> Monoid:
    """The longest word, the first of several: selective, and order matters."""
    return Monoid("", lambda a, b: a if len(a) >= len(b) else b, name="longest", selective=True)


@dataclass(frozen=True)
class Variant:
    """An algorithm with the sizes that a test wants; range and slide where it slides by itself."""

    name: str
    algorithm: type[InOrderAggregator]
    build: Callable[[AbstractMonoid], InOrderAggregator]
    range: int = 10**9
    slide: int = 1

    def __repr__(self) -> str:
        return self.name


def _chunked(algorithm: Callable[..., InOrderAggregator], size: int) -> Variant:
    kind: Any = algorithm
    return Variant(f"{kind.__name__}-{size}", kind, lambda m: algorithm(m, chunk_size=size))


def sliding(
    algorithm: type[BoundaryAggregator], range: int, slide: int, chunk_size: int | None = None
) -> Variant:
    """SBA or PBA over the last ``range`` values."""
    return Variant(
        f"{algorithm.__name__}[{range},{slide}]" + (f"-{chunk_size}" if chunk_size else ""),
        algorithm,
        lambda monoid: algorithm(monoid, range, slide, chunk_size=chunk_size),
        range,
        slide,
    )


_PLAIN = [a for a in IN_ORDER if not issubclass(a, BoundaryAggregator)]
_RANGES = [(1, 1), (2, 1), (3, 2), (7, 1), (10, 2), (11, 4), (12, 5)]
#: Every algorithm at its defaults, and with sizes so small that rare branches are reached.
VARIANTS = [
    *(Variant(a.__name__, a, a) for a in _PLAIN),
    *(sliding(a, 400, 1) for a in (SBA, PBA)),
    *(_chunked(a, size) for a in (DABA, DABALite, TwoStacksLite) for size in (1, 2, 3)),
    *(sliding(a, *sizes) for a in (SBA, PBA) for sizes in _RANGES),
    *(sliding(a, 10, 2, chunk) for a in (SBA, PBA) for chunk in (1, 3, 5)),
    *(sliding(a, 11, 1, chunk) for a in (SBA, PBA) for chunk in (1, 2, 11)),
]


class PlainList:
    """The oracle: positions and values in a list. Without a range it never evicts by itself."""

    def __init__(self, range: int = 10**9, slide: int = 1) -> None:
        self.range, self.slide = range, slide
        self.held: list[tuple[int, Any]] = []
        self.next = 0

    def insert(self, value: Any, position: int | None = None) -> None:
        at = self.next if position is None else position
        first = ((at - self.range) // self.slide + 1) * self.slide
        self.held = [*((p, v) for p, v in self.held if p >= first), (at, value)]
        self.next = at + 1

    def evict(self) -> None:
        oldest = self.held[0][0] // self.slide
        self.held = [(p, v) for p, v in self.held if p // self.slide != oldest]

    def __len__(self) -> int:
        return len(self.held)

    def result(self, monoid: AbstractMonoid) -> Any:
        if not self.held:
            return monoid.empty
        fold = monoid.identity
        for _, value in self.held:
            fold = monoid.combine(fold, monoid.lift(monoid.row(value)))
        with np.errstate(all="ignore"):
            return monoid.lower(fold)


class Counted:
    """A monoid whose combines and inverses are counted, by the name of the thread."""

    def __init__(self, monoid: AbstractMonoid | None = None) -> None:
        self.by_thread: Counter[str] = Counter()
        self.inverses = 0
        given = monoid or joined()
        inverse = given.inverse

        def combine(left: Any, right: Any) -> Any:
            self.by_thread[threading.current_thread().name] += 1
            return given.combine(left, right)

        def undo(whole: Any, part: Any) -> Any:
            self.inverses += 1
            assert inverse is not None
            return inverse(whole, part)

        self.monoid = Monoid(
            given.identity,
            combine,
            name="counted",
            selective=given.selective,
            inverse=undo if inverse else None,
        )

    @property
    def combines(self) -> int:
        """Those of the thread that asks."""
        return self.by_thread[threading.current_thread().name]

    def of(self, action: Callable[..., Any], *given: Any) -> int:
        """How many combines an action takes in this thread."""
        before = self.combines
        action(*given)
        return self.combines - before


class Tracked:
    """A partial aggregate of which it is known how many there are."""

    alive = 0

    def __init__(self, text: str) -> None:
        self.text = text
        Tracked.alive += 1

    def __del__(self) -> None:
        Tracked.alive -= 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tracked) and self.text == other.text

    __hash__ = None  # type: ignore[assignment]


def tracked(like: AbstractMonoid) -> Monoid:
    """A monoid on Tracked texts; each combine makes a new one, but for selective ones."""
    inverse = like.inverse

    def combine(left: Tracked, right: Tracked) -> Tracked:
        text = like.combine(left.text, right.text)
        if like.selective:
            return left if text is left.text else right
        return Tracked(text)

    return Monoid(
        Tracked(like.identity),
        combine,
        lift=Tracked,
        lower=lambda partial: partial.text,
        name="tracked",
        selective=like.selective,
        inverse=(lambda a, b: Tracked(inverse(a.text, b.text))) if inverse else None,
    )


def fill(window: InOrderAggregator, values: Iterable[Any]) -> InOrderAggregator:
    """Insert values."""
    for value in values:
        window.insert(value)
    return window
