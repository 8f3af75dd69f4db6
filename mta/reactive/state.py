"""What FlatFAT keeps in a handle beside its common fields.

state    = [swept, kept, left, retired, tails]
left     = columns of one partial, the aggregate from the front to the first event of tails
retired  = for each of the handles in ``kept``, the pages that blocks have lost since it was taken:
           array of [level, group, name]

For swept, kept and tails see ``levels.pages``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mta.errors import CorruptPage
from mta.pages.handle import MAX_LEVELS, Handle, corrupt
from mta.pages.page import NAME_BYTES, Layout, read_columns
from mta.pages.pager import Place

if TYPE_CHECKING:
    from mta.reactive.paged_flat_fat import PagedFlatFAT


def write_state(tree: PagedFlatFAT) -> list[Any]:
    """The state of a FlatFAT whose blocks are all written; a page a level if none is at hand."""
    levels, partials = tree.levels, tree.monoid.partials
    inside = tree.front >= levels.tails[0].first
    left = partials.one(tree.monoid.identity if inside else tree.before_leaf())
    retired = tree.blocks.retired[len(tree.blocks.retired) - len(tree.kept) :]
    return [levels.swept, tree.kept, partials.dump(left), retired, tree.tail_states()]


def take_up_state(tree: PagedFlatFAT, handle: Handle) -> None:
    """Make an empty FlatFAT what the handle says. Raises CorruptHandle or CorruptPage."""
    if list(map(type, handle.state)) != [int, list, list, list, list]:
        raise corrupt("its state is not one of FlatFAT")
    swept, kept, left, retired, tails = handle.state
    tree.restore_tails(handle, handle.front, swept, kept, tails)
    partials = tree.monoid.partials
    row = read_columns(1, left, Layout(partials, timed=False, named=False)).rows
    tree.restore_front_time(handle.front_time)
    tree.left, tree.left_at = partials.at(row, 0), handle.front
    tree.blocks.take_up([[_place(place) for place in places] for places in retired])
    if len(retired) != len(kept):
        raise CorruptPage("it has not as many lists of retired pages as handles to keep")


def _place(place: Any) -> Place:
    """A retired page. Raises CorruptHandle."""
    if list(map(type, place)) != [int, int, bytes]:
        raise corrupt("its retired pages are of the wrong types")
    level, number, name = place
    if not 0 <= level < MAX_LEVELS or number < 0 or len(name) != NAME_BYTES:
        raise corrupt("its retired pages cannot be")
    return level, number, name
