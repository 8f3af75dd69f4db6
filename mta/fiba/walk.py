"""The pages of a tree, one by one, for audits and gc."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mta.errors import CorruptPage
from mta.fiba.node import Node, Note
from mta.pages.page import NO_NAME, Group
from mta.pages.structure import Named

if TYPE_CHECKING:
    from mta.fiba.pages import TreePages


@dataclass(frozen=True, slots=True)
class Retired(Named):
    """A page that only earlier handles need, or a page of such notes."""

    gone: int = 0
    """Below how many of its subtrees all is retired as well; -1 for all."""


def named_pages(fiba: TreePages) -> Iterator[Named]:
    """The pages that are named in memory: by changed nodes, by the spine, and by notes."""
    yield from _below_node(fiba, fiba.tree.root, fiba.stored.front)
    keeper = fiba.pages_in
    for notes in [*keeper.epochs, keeper.retired]:
        yield from map(_retired, notes)


def _below_node(fiba: TreePages, node: Node, first: int) -> Iterator[Named]:
    tree = fiba.tree
    sizes = tree.sizes_of(node).tolist() if node.level else []
    for index, (link, size) in enumerate(zip(node.links, sizes, strict=True)):
        if link.name != NO_NAME:
            fold = tree.whole(node, index)
            yield Named(node.level - 1, link.number, link.name, fold, None, first, first + size)
        elif link.node is not None:
            yield from _below_node(fiba, link.node, first)
        first += size + 1


def named_below(fiba: TreePages, named: Named, group: Group) -> Iterator[Named]:
    """The pages that a page names."""
    if isinstance(named, Retired):
        if named.gone:
            yield from map(_retired, fiba.pages_in.below(named.level, group, named.gone))
    elif named.level:
        sums, _, sizes, numbers = group.rows
        first, at = named.first, fiba.monoid.partials.at
        for index, name in enumerate(group.names):
            end = first + int(sizes[index])
            yield Named(
                named.level - 1, int(numbers[index]), name, at(sums, index), None, first, end
            )
            first = end + 1


def _retired(note: Note) -> Retired:
    level, number, name, gone = note
    return Retired(level, number, name, None, None, 0, 1, needed=False, gone=gone)


def difference(fiba: TreePages, named: Named, group: Group) -> str | None:
    """What is wrong with a page that can be read, by what its parent says of it."""
    if isinstance(named, Retired):
        return None
    times = group.times[: group.count - (named.level > 0)] if group.times is not None else None
    if times is None or bool((np.diff(times) < 0).any()):
        return "its times decrease"
    kind = fiba.tree.kind
    try:
        node = fiba.pages_in.to_node(named.level, group)
        if kind.size(node) != named.end - named.first:
            return f"it has {kind.size(node)} events, its parent says {named.end - named.first}"
        agrees = kind.refold(node).agrees(named.fold)
    except CorruptPage as error:
        return str(error)
    except Exception as error:  # a user's combine may raise anything at what it never saw
        return f"its elements cannot be folded ({type(error).__name__}: {error})"
    return None if agrees else "its fold is not the aggregate that its parent has"
