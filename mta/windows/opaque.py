"""Windows restored from their snapshots alone, without their aggregation.

Pages are named by their digests: a snapshot names the topmost pages, and each page names the pages
below it. The snapshot is therefore enough to find the pages that a window needs, and to check
whether each is whole. Only their folds cannot be checked. Values and partials stay encoded.

    >>> from mta import CountWindow, Monoid, Window
    >>> from mta.audit import audit, live_keys
    >>> words = Monoid(identity="", combine=lambda a, b: a + b, name="words")
    >>> window = Window(words, CountWindow(4), store="memory://opaque", name="demo", arity=2)
    >>> _ = window.extend(list("abcdefgh"))
    >>> snapshot = window.checkpoint()
    >>> again = restore_opaque(snapshot, "memory://opaque")
    >>> sorted(live_keys(again)) == sorted(live_keys(window)), audit(again).damaged
    (True, [])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mta.columns.schemas import Objects, Payload, Record, Rows, Schema, next_payload
from mta.errors import CorruptPage, SnapshotMismatch
from mta.evaluators.amortized_mta import AmortizedMTA, LogMTA
from mta.evaluators.fiba import FiBA
from mta.evaluators.flatfat import PagedFlatFAT
from mta.evaluators.reactive import PagedReactiveAggregator
from mta.logs.base import EventLog, Leaf
from mta.logs.finger_tree.log import FingerTreeLog
from mta.logs.levels.log import KeepAll, LevelLog
from mta.logs.ranges import leaves_from
from mta.monoids.base import Monoid, Partial
from mta.pages import MAX_ARITY, corrupt
from mta.snapshots import Snapshot
from mta.windows.engine import SHARED, Engine
from mta.windows.settings import Settings
from stores import PageStore

#: Represents every value and every partial. It is not None, which marks pages whose fold the parent
#: does not know.
_ANY = ""


@dataclass(frozen=True)
class Opaque:
    """The events of a snapshot, for walking and verification only."""

    engine: Engine
    fronts: Mapping[str, int] | None = None
    """The front of each window, if multiple windows share these events; None for a single one."""

    def events(self) -> Iterator[Leaf]:
        """Yield the retained events, one leaf at a time, oldest first. Reads every page once.

        Raises MissingPage and CorruptPage.
        """
        events: Any = self.engine.structure().remembered()
        yield from leaves_from(events, events.kept_from, self.engine.monoid.inputs)


def restore_opaque(
    snapshot: bytes, store: str | PageStore, values: Sequence[Schema] | None = None
) -> Opaque:
    """Return what ``audit`` and ``live_keys`` need, from a snapshot of any window. No store call.

    With ``values``, the first columns of events, you can read the events (``Opaque.events``).
    Raises CorruptSnapshot, and SnapshotMismatch for an aggregator that this release does not know.
    """
    state = Snapshot.decode(snapshot)
    fronts = {w.name: w.front for w in state.windows} if state.is_shared else None
    known = {kind.name: kind for kind in _COLUMNS}
    aggregator = known.get(state.algorithm)
    if aggregator is None:
        raise SnapshotMismatch(
            f"the snapshot is of the aggregator {state.algorithm!r}, but this release knows "
            f"{sorted(known)}; use the release that wrote it"
        )
    monoid, frame = _UnknownMonoid(state, values), KeepAll(state.timed)
    settings = Settings(aggregator=aggregator).sized(*state.sizes)
    engine = Engine(monoid, {"": frame}, store, state.window, settings, SHARED, state.timed)
    engine.load(state)
    return Opaque(engine, fronts)


class _Untouched(Objects):
    """A fixed number of columns whose bytes are not decoded."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self._columns = columns

    def load(self, payloads: Iterator[Payload], count: int) -> Rows:
        if not 0 <= count <= 2 * MAX_ARITY:
            raise CorruptPage(f"a group of {count} elements is impossible")
        for _ in range(self._columns):
            next_payload(payloads)
        return [_ANY] * count


class _UnknownMonoid(Monoid):
    """A placeholder for the monoid of a snapshot. All partials are equal."""

    def __init__(self, snapshot: Snapshot, values: Sequence[Schema] | None) -> None:
        super().__init__(_ANY, lambda left, right: _ANY, name=snapshot.monoid[0])
        inputs, partials = _columns_of(snapshot)
        self.inputs, self.partials = _Untouched(inputs), _Untouched(partials)
        if values is not None:  # the columns after these are for frames
            known = Record(values)
            after = inputs - len(known.dump(known.new(0)))  # a nullable column has two payloads
            self.inputs = Record([*values, _Untouched(after)])
        self.fingerprint = snapshot.monoid[1]

    def fold(self, partials: Rows, count: int) -> Partial:
        return _ANY


def _columns_of(snapshot: Snapshot) -> tuple[int, int]:
    """Return how many columns a value and a partial have in pages."""
    try:
        columns = next(of for kind, of in _COLUMNS.items() if kind.name == snapshot.algorithm)
        return columns(snapshot.state, snapshot.timed)
    except (IndexError, TypeError, ValueError, KeyError) as error:
        raise corrupt(f"its state is not one of {snapshot.algorithm}") from error


def _of_result(state: list[Any], timed: bool) -> tuple[int, int]:
    *_, result, tails = state
    return _values(tails, timed), len(result)


def _of_holes(state: list[Any], timed: bool) -> tuple[int, int]:
    values, partials = _of_result(state[2], timed)
    return values - 1, partials - 1  # without marks and counts


def _of_kept(state: list[Any], timed: bool) -> tuple[int, int]:
    _, _, tails = state
    partials = len(tails[1][2]) - timed - 1 if len(tails) > 1 else 0  # without times and names
    return _values(tails, timed), partials


def _of_tree(state: list[Any], timed: bool) -> tuple[int, int]:
    _, _, _, left, spine, *_ = state
    return len(spine[-1][1]) - timed, len(left[0])


def _values(tails: list[Any], timed: bool) -> int:
    """Return the number of columns of the leaf tail, without times."""
    return len(tails[0][2]) - timed


#: For each aggregator, a function that counts the columns in its state.
_COLUMNS: dict[type[EventLog], Callable[[list[Any], bool], tuple[int, int]]] = {
    AmortizedMTA: _of_result,
    LogMTA: _of_result,
    LevelLog: _of_kept,
    PagedFlatFAT: _of_result,
    PagedReactiveAggregator: _of_holes,
    FiBA: _of_tree,
    FingerTreeLog: _of_tree,
}
