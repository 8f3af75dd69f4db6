"""From a window to its handle and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mta.columns import Payload
from mta.errors import CorruptHandle, CorruptPage, HandleMismatch
from mta.handle import Handle, TailState
from mta.levels import Tail
from mta.page import read_names, read_numbers

if TYPE_CHECKING:
    from mta.window import Window


def make_handle(window: Window) -> bytes:
    """The handle of a window; reads a page only where the oldest event's time is not at hand."""
    tree, levels = window.tree, window.tree.levels
    partials = window.monoid.partials
    pair = [*partials.dump(partials.one(tree.left)), *partials.dump(partials.one(tree.right))]
    return Handle(
        window=window.name,
        algorithm=_algorithm(window),
        monoid=(window.monoid.name, window.monoid.fingerprint),
        policy=(window.policy.describe(), window.policy.fingerprint),
        leaf_arity=levels.leaf_arity,
        arity=levels.arity,
        timed=levels.timed,
        front=tree.front,
        middle=tree.middle,
        swept=levels.swept,
        kept=window.kept_fronts,
        last_time=window.intake.last_time,
        front_time=tree.oldest_time() if levels.timed else None,
        counts=[window.intake.late_count, window.intake.invalid_count],
        pair=pair,
        tails=[_dump_tail(window, tail) for tail in levels.tails],
    ).encode()


def load_handle(data: bytes) -> State:
    """A handle's state, validated. Raises CorruptHandle."""
    return State(Handle.decode(data))


class State:
    """A decoded handle, ready to be taken up by a new window."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self.window, self.arity, self.leaf_arity = handle.window, handle.arity, handle.leaf_arity

    def into(self, window: Window) -> None:
        """Make an empty window what the handle says. Raises HandleMismatch or CorruptHandle."""
        handle = self._handle
        _require_same("monoid", handle.monoid, (window.monoid.name, window.monoid.fingerprint))
        described = (window.policy.describe(), window.policy.fingerprint)
        _require_same("policy", handle.policy, described)
        if handle.algorithm != _algorithm(window) or handle.timed != window.timed:
            raise HandleMismatch(
                f"the handle is of {handle.algorithm}, not of {_algorithm(window)}; restore with "
                "the same aggregator"
            )
        try:
            self._take_up(window)
        except CorruptPage as error:
            raise CorruptHandle(
                f"the handle cannot be read: {error}; use an earlier one"
            ) from error

    def _take_up(self, window: Window) -> None:
        handle, tree, levels = self._handle, window.tree, window.tree.levels
        levels.swept, levels.back = handle.swept, handle.back
        levels.tails = [_load_tail(window, i, state) for i, state in enumerate(handle.tails)]
        tree.front, tree.middle = handle.front, handle.middle
        top = levels.top(tree.front)
        if top and tree.middle != levels.end(top):
            raise CorruptPage("its middle is not where the leftmost tree ends")
        partials, columns = window.monoid.partials, iter(handle.pair)
        tree.left = partials.at(partials.load(columns, 1), 0)
        tree.restore_right(partials.at(partials.load(columns, 1), 0))
        tree.restore_front_time(handle.front_time)
        window.intake.last_time = handle.last_time
        window.intake.late_count, window.intake.invalid_count = handle.counts
        window.keep([*handle.kept, handle.front])


def _algorithm(window: Window) -> str:
    return str(getattr(type(window.tree), "name", type(window.tree).__name__))


def _require_same(what: str, in_handle: tuple[str, bytes], given: tuple[str, bytes]) -> None:
    if bytes(in_handle[1]) != given[1]:
        raise HandleMismatch(
            f"the handle was made with the {what} {in_handle[0]}, not with {given[0]}; restore "
            "with the same one, or start a new window"
        )


def _dump_tail(window: Window, tail: Tail) -> TailState:
    schema = window.monoid.partials if tail.level else window.monoid.inputs
    columns: list[Payload] = schema.dump(schema.cut(tail.rows, 0, tail.count))
    if tail.times is not None:
        columns.append(("<i8", tail.times[: tail.count].tobytes()))
    if tail.level:
        columns.append(("name", b"".join(tail.names)))
    return TailState(tail.number, tail.count, columns)


def _load_tail(window: Window, level: int, state: TailState) -> Tail:
    levels = window.tree.levels
    schema = window.monoid.partials if level else window.monoid.inputs
    tail, columns = Tail(levels, level, state.number), iter(state.columns)
    schema.put_many(tail.rows, 0, schema.load(columns, state.count))
    if tail.times is not None:
        tail.times[: state.count] = read_numbers(columns, "<i8", state.count)
    if level:
        tail.names = read_names(columns, state.count)
    tail.count = state.count
    if next(columns, None) is not None:
        raise CorruptPage(f"the tail of level {level} has columns too many")
    return tail
