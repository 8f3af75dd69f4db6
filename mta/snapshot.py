"""From a window to its handle and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mta.errors import CorruptHandle, CorruptPage, HandleMismatch
from mta.handle import Handle
from mta.levels import RestoredTail
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


def take_up(handle: Handle, window: Window) -> None:
    """Make an empty window what the handle says. Raises HandleMismatch or CorruptHandle."""
    monoid, policy, algorithm = window.monoid, window.policy, _algorithm(window)
    if handle.monoid[1] != monoid.fingerprint:
        raise _mismatch("monoid", handle.monoid[0], monoid.name)
    if handle.policy[1] != policy.fingerprint:
        raise _mismatch("policy", handle.policy[0], policy.describe())
    if handle.algorithm != algorithm or handle.timed != window.timed:
        raise _mismatch("aggregator", handle.algorithm, algorithm)
    try:
        _take_up(handle, window)
    except CorruptPage as error:
        raise CorruptHandle(f"the handle cannot be read: {error}; use an earlier one") from error


def _take_up(handle: Handle, window: Window) -> None:
    tree, levels = window.tree, window.tree.levels
    levels.swept, levels.back = handle.swept, handle.back
    levels.tails = [RestoredTail(levels, level, *tail) for level, tail in enumerate(handle.tails)]
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


def _mismatch(what: str, in_handle: str, given: str) -> HandleMismatch:
    return HandleMismatch(
        f"the handle was made with the {what} {in_handle}, not with {given}; restore with the same "
        "one, or start a new window"
    )
