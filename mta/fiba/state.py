"""What FiBA keeps in a handle beside its common fields.

state    = [kept, serial, epochs, left, spine, newest]
kept     = position of the oldest event in the tree, which late events may ask for
serial   = number of the next page
epochs   = lists of notes [level, number, name, gone] of retired pages (``paging``), a list for
           each earlier handle that is still to be restorable, and one since then
left     = [columns of one partial, count]: the aggregate of the root's first subtree, and how
           many events it has, as in the root's columns; of no meaning where the root is a leaf
spine    = from the root to the last leaf, [count, columns], columns as in a page; the page of
           the last subtree of each is the next one here, and has no name
newest   = microseconds since 1970 of the newest event that has left, nil where none has; handles
           without this field are read too, and then it is not known
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mta.errors import CorruptPage
from mta.fiba.node import Node
from mta.fiba.paging import NOTES, PageKeeper
from mta.pages.handle import MAX_LEVELS, Handle, corrupt
from mta.pages.page import NAME_BYTES, NO_NAME, read_columns, write_columns

if TYPE_CHECKING:
    from mta.fiba.pages import TreePages

_MAX_POSITION = 1 << 62


def write(fiba: TreePages) -> list[Any]:
    """The state of a tree of which all but the right spine is in pages; no store call.

    The left spine must have been settled.
    """
    tree, keeper = fiba.tree, fiba.pages_in
    partials = fiba.monoid.partials
    nodes = [tree.root, *reversed(tree.right)]
    spine = [node.saved or _saved(keeper, node) for node in nodes]
    left = [partials.dump(partials.one(fiba.monoid.identity)), 0]
    if tree.root.level:
        left = [partials.dump(tree.root.folds(0, 1)), tree.root.size_at(0)]
    epochs, stored = [*keeper.epochs, keeper.retired], fiba.stored
    return [stored.front, keeper.serial, epochs, left, spine, stored.newest_left]


def _saved(keeper: PageKeeper, node: Node) -> list[Any]:
    group = keeper.to_group(node)
    return [group.count, write_columns(group, keeper.kind.layouts[node.level > 0])]


def take_up(fiba: TreePages, handle: Handle) -> None:
    """Make an empty tree what the handle says. Raises CorruptHandle or CorruptPage."""
    if list(map(type, handle.state[:5])) != [int, int, list, list, list]:
        raise corrupt("its state is not one of a tree")
    kept, serial, epochs, left, spine, *rest = handle.state
    if rest not in ([], [None]) and (list(map(type, rest)) != [int] or abs(rest[0]) >= 1 << 62):
        raise corrupt("the time of what has left cannot be")
    if not 0 <= kept <= handle.front or not 0 <= serial < _MAX_POSITION:
        raise corrupt("its positions are out of order")
    keeper, tree = fiba.pages_in, fiba.tree
    _check_notes(epochs)
    nodes = _read_spine(keeper, spine)
    if len(left) != 2 or type(left[0]) is not list or type(left[1]) is not int:
        raise corrupt("the aggregate of its left subtree is of the wrong type")
    if not 0 <= left[1] < _MAX_POSITION:
        raise corrupt("the size of its left subtree cannot be")
    size = handle.back - kept
    found = sum(node.count + (int(node.sizes()[:-1].sum()) if node.level else 0) for node in nodes)
    if found != size:
        raise corrupt(f"its tree has {found} events, its positions say {size}")
    if nodes[0].level and left[1] != nodes[0].size_at(0):
        raise corrupt("the size of its left subtree is not what its root says")
    tree.take_up(nodes, size)
    keeper.serial, keeper.epochs, keeper.retired = serial, epochs[:-1], epochs[-1]
    fiba.stored.front, fiba.front = kept, handle.front
    fiba.stored.newest_left = rest[0] if rest else None
    fiba.restore_front_time(handle.front_time)


def _read_spine(keeper: PageKeeper, spine: list[Any]) -> list[Node]:
    """The root and the right spine, from the root down."""
    if not 0 < len(spine) <= MAX_LEVELS:
        raise corrupt("its spine makes no tree")
    nodes: list[Node] = []
    for level, saved in zip(reversed(range(len(spine))), spine, strict=True):
        if type(saved) is not list or len(saved) != 2 or type(saved[0]) is not int:
            raise corrupt("a node of its spine is of the wrong type")
        group = read_columns(saved[0], saved[1], keeper.kind.layouts[level > 0])
        node = keeper.to_node(level, group)
        node.saved = saved
        if level and (group.names[-1] != NO_NAME or NO_NAME in group.names[:-1]):
            raise corrupt("the pages of its spine are not named as they must be")
        if nodes:
            link = nodes[-1].links[-1]
            node.link, node.parent, link.node = link, nodes[-1], node
        nodes.append(node)
    return nodes


def _check_notes(epochs: list[Any]) -> None:
    if not epochs or any(type(notes) is not list for notes in epochs):
        raise corrupt("its notes of retired pages are of the wrong type")
    for note in (note for notes in epochs for note in notes):
        if type(note) is not list or list(map(type, note)) != [int, int, bytes, int]:
            raise corrupt("a note of a retired page is of the wrong type")
        level, number, name, gone = note
        if not (0 <= level <= MAX_LEVELS or level == NOTES) or number < 0 or gone < -1:
            raise corrupt("a note of a retired page cannot be")
        if len(name) != NAME_BYTES or name == NO_NAME:
            raise CorruptPage("a note of a retired page has no name")
