"""From a window to its handle and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mta.errors import CorruptHandle, CorruptPage, HandleMismatch
from mta.handle import Handle
from mta.levels import Tail
from mta.page import Layout, read_columns

if TYPE_CHECKING:
    from mta.window import Window


def make_handle(window: Window) -> bytes:
    """The handle of a window; reads a page only where the oldest event's time is not at hand."""
    tree, levels = window.tree, window.tree.levels
    partials = window.monoid.partials
    pair = partials.new(2)
    partials.put(pair, 0, tree.left)
    partials.put(pair, 1, tree.right)
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
        pair=partials.dump(pair),
        tails=[(tail.number, tail.count, tail.columns()) for tail in levels.tails],
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
        levels.tails = [
            Tail.restored(levels, level, *tail) for level, tail in enumerate(handle.tails)
        ]
        tree.front, tree.middle = handle.front, handle.middle
        top = levels.top(tree.front)
        if top and tree.middle != levels.end(top):
            raise CorruptPage("its middle is not where the leftmost tree ends")
        partials = window.monoid.partials
        pair = read_columns(2, handle.pair, Layout(partials, timed=False, named=False)).rows
        tree.left = partials.at(pair, 0)
        tree.restore_right(partials.at(pair, 1))
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
