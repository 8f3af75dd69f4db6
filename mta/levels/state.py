"""What Log MTA and Amortized MTA keep in a handle beside its common fields.

state    = [middle, swept, kept, pair, tails]
middle   = position where the leftmost tree ends
swept    = position before which pages have been deleted
kept     = fronts of the earlier handles that are still to be restorable
pair     = columns of two partials, the result pair R0 and R1
tails    = from level 0 up, [group, count, columns], columns as in a page
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mta.columns.schemas import Payload
from mta.errors import CorruptPage
from mta.levels.queues import RestoredTail
from mta.pages.handle import MAX_LEVELS, Handle, corrupt
from mta.pages.page import Layout, read_columns

if TYPE_CHECKING:
    from mta.levels.pages import LevelPages
    from mta.levels.tree import MonoidTree

#: An open group as a handle holds it: group, count, columns.
TailState = tuple[int, int, list[Payload]]


def write_state(tree: MonoidTree) -> list[Any]:
    """The state of level queues; no store call."""
    levels, partials = tree.levels, tree.monoid.partials
    pair = partials.new(2)
    partials.put(pair, 0, tree.left)
    partials.put(pair, 1, tree.right)
    tails = [(tail.number, tail.count, tail.columns()) for tail in levels.tails]
    return [tree.middle, levels.swept, tree.kept, partials.dump(pair), tails]


def pages_of(tree: LevelPages) -> int:
    """How many pages a handle names, those of earlier handles included."""
    levels = tree.levels
    spans = (levels.span(tail.level) * tail.capacity for tail in levels.tails)
    return sum(
        max(0, tail.number - levels.swept // span)
        for tail, span in zip(levels.tails, spans, strict=True)
    )


def take_up_state(tree: MonoidTree, handle: Handle) -> None:
    """Make empty level queues what the handle says. Raises CorruptHandle or CorruptPage."""
    if list(map(type, handle.state)) != [int, int, list, list, list]:
        raise corrupt("its state is not one of level queues")
    middle, swept, kept, pair, tails = handle.state
    check_tails(handle, swept, tails)
    check_positions(handle, middle, swept, kept)
    levels = tree.levels
    levels.swept, levels.back = swept, handle.back
    levels.tails = [RestoredTail(levels, level, *tail) for level, tail in enumerate(tails)]
    tree.front, tree.middle = handle.front, middle
    top = levels.top(tree.front)
    if top and tree.middle != levels.end(top):
        raise CorruptPage("its middle is not where the leftmost tree ends")
    partials = tree.monoid.partials
    rows = read_columns(2, pair, Layout(partials, timed=False, named=False)).rows
    tree.left = partials.at(rows, 0)
    tree.restore_right(partials.at(rows, 1))
    tree.restore_front_time(handle.front_time)
    tree.kept = kept


def check_tails(handle: Handle, swept: int, tails: list[TailState]) -> None:
    """Raises CorruptHandle unless tails hang together and end at the back."""
    if not 0 < len(tails) <= MAX_LEVELS or any(len(tail) != 3 for tail in tails):
        raise corrupt("its tails make no window")
    span, begin = 1, handle.back
    for level, (number, count, columns) in enumerate(tails):
        if type(number) is not int or type(count) is not int or type(columns) is not list:
            raise corrupt(f"the tail of level {level} is of the wrong types")
        arity = handle.arity if level else handle.leaf_arity
        end = (number * arity + count) * span
        if number < 0 or not (level > 0) <= count <= arity:
            raise corrupt(f"the tail of level {level} cannot be")
        if begin != end:
            raise corrupt(f"the tail of level {level} does not end where level {level - 1} begins")
        begin = number * arity * span
        span *= arity
    if begin > swept:
        raise corrupt("its highest level does not begin where its pages do")


def check_positions(handle: Handle, middle: int, swept: int, kept: list[int]) -> None:
    """Raises CorruptHandle unless positions are in their order."""
    if {type(number) for number in kept} - {int}:
        raise corrupt("its positions are of the wrong types")
    if not 0 <= swept <= handle.front <= middle <= handle.back:
        raise corrupt("its positions are out of order")
    fronts = [swept, *kept, handle.front]
    if fronts != sorted(fronts):
        raise corrupt("the positions to keep are out of order")
