"""Nodes as pages: which nodes are in memory, which are written, and which pages may be deleted.

The root, the spines and the most recently used nodes are in memory; every other node is an
immutable page, named like the groups of level queues (``pages.page``). A node that changes is
written again, under a new number, when it is released or when a snapshot is taken; so are the nodes
above it. Large leaves are released as soon as no event can be added to them. So a page never
changes, and its parent has its number and name.

    leaf page events: their values, and times inner page one row per subtree: its up-aggregate, the
    value of the entry after it, how many events it has, its page's number; times of those entries;
    names of the subtrees' pages. The last subtree has no entry after it: the one before it is
    repeated there, or zeros if it is the only one, as at the left end of a level.

Pages that the tree no longer needs are retired (``pages.pager``). A retired page includes
everything below the first ``gone`` of its subtrees, so that evicting any number of events at once
takes one note per level. Many notes are written to a separate page (level ``NOTES``).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from mta.errors import CorruptPage
from mta.logs.finger_tree.node import NO_NOTE, Kind, Link, Node, RowBuffer
from mta.pages.page import NO_NAME, Group
from mta.pages.pager import NOTES, Note, RetiredPages, StorePager, check_note
from stores import PageStore

_MOST_NOTES = 256
#: A few leaves are at most one in so many.
_FEW = 8
#: The number of leaves that are prefetched before a front.
_AHEAD = 4
#: Leaves of so many bytes are written as soon as so many of them can no longer change; smaller ones
#: when they have not been used for long.
_LARGE, _AT_ONCE = 1 << 16, 16


class NodeCache:
    """Keeps every node in memory."""

    #: An upper bound on the number of leaves that wait to be written because they cannot change.
    made = 0

    def child(self, node: Node, index: int) -> Node:
        """Return a child of a node; one page read if it is a page."""
        child = node.links[index].node
        assert child is not None
        return child

    def children(self, node: Node, start: int, stop: int) -> list[Node]:
        """Return some children of a node; one store call for those that are pages."""
        return [self.child(node, index) for index in range(start, stop)]

    def ahead(self, node: Node, index: int) -> None:
        """Hint that the children after this one will be needed soon."""

    def mark_dirty(self, node: Node) -> None:
        """Note that a node will differ from its page."""

    def discard(self, node: Node) -> None:
        """Note that a node was removed; its children have another parent."""

    def drop(self, level: int, links: list[Link], parent: Node) -> None:
        """Note that the first subtrees of a parent, of this level, were removed."""

    @contextmanager
    def preserving_state(self) -> Iterator[None]:
        """Release at the end what is read in this context, so that reading has no side effects."""
        yield

    def trim(self, is_pinned: Callable[[Node], bool]) -> None:
        """Release nodes that have not been used for long, except those of the spines."""

    @property
    def has_made_some(self) -> bool:
        """Return whether it is time to ``settle``."""
        return False

    def settle(self, is_pinned: Callable[[Node], bool], until: int) -> None:
        """Release the leaves without later events than a time up to which no event can arrive."""


class PagedNodeCache(NodeCache):
    """Keeps a bounded number of nodes in memory, and the others in a store."""

    def __init__(
        self, kind: Kind, store: PageStore, window: str, most: int, leaf_arity: int
    ) -> None:
        self.kind = kind
        self.pager = StorePager(store, window, kind.layout_of)
        self._most = most
        #: Whether leaves are large.
        self._are_large = 2 * leaf_arity * (kind.entries.row_bytes or 0) >= _LARGE
        #: Nodes in memory apart from those on the spines, the least recently used first.
        self._recent: OrderedDict[int, Node] = OrderedDict()
        #: The number of the next page.
        self.serial = 0
        self.retired = RetiredPages(self.pager, self.below)
        #: How many snapshots are retained; 0 until one has been taken.
        self.retain = 0
        #: Notes of this epoch may still be extended.
        self._epoch = 1

    # --- from pages to nodes ----------------------------------------------------------------------

    def child(self, node: Node, index: int) -> Node:
        link = node.links[index]
        child = link.node
        if child is None:
            group = self.pager.read(node.level - 1, link.number, link.name)
            return self._taken_in(node, link, group)
        if id(child) in self._recent:
            self._recent.move_to_end(id(child))
        return child

    def children(self, node: Node, start: int, stop: int) -> list[Node]:
        missing = [link for link in node.links[start:stop] if link.node is None]
        if len(missing) > 1:
            places = [(node.level - 1, link.number, link.name) for link in missing]
            for link, group in zip(missing, self.pager.read_many(places), strict=True):
                self._taken_in(node, link, group)
        return super().children(node, start, stop)

    def _taken_in(self, parent: Node, link: Link, group: Group) -> Node:
        """Return a page that was read as a node in memory."""
        child = self.to_node(parent.level - 1, group)
        child.link, child.parent, link.node = link, parent, child
        child.paged = group.names
        self._recent[id(child)] = child
        return child

    def ahead(self, node: Node, index: int) -> None:
        if self.pager.reads_ahead:
            self.pager.prefetch(
                [
                    (node.level - 1, link.number, link.name)
                    for link in node.links[index + 1 : index + 1 + _AHEAD]
                    if link.node is None
                ]
            )

    def to_node(self, level: int, group: Group) -> Node:
        """Return a page, or the same columns in a snapshot, as a node. Raises CorruptPage."""
        count = group.count
        if not level:
            return self.kind.node(0, RowBuffer(self.kind.entries, (group.times, group.rows), count))
        sums, values, sizes, numbers = group.rows
        if not count or min(sizes.min(), numbers.min()) < 0:
            raise CorruptPage("a node's page has no subtrees, or negative numbers")
        entries = RowBuffer(self.kind.entries, (group.times, values), count - 1)
        pairs = zip(numbers.tolist(), group.names, strict=True)
        links = [Link(None, number, name) for number, name in pairs]
        known = RowBuffer(self.kind.sums, (sums, sizes), count)
        return self.kind.node(level, entries, known, links)

    def to_group(self, node: Node) -> Group:
        """Return a node as the columns of its page."""
        count = node.count
        if not node.level:
            return Group(node.values(0, count), node.times, [], count)
        schema, arity = self.kind.monoid.inputs, node.arity
        values, times = schema.blank(arity), np.zeros(arity, "<i8")
        for start, stop, at in ((0, count, 0), (count - 1, count, count)) if count else ():
            schema.put_many(values, at, node.values(start, stop))
            times[at : at + stop - start] = node.times[start:stop]
        numbers = np.array([link.number for link in node.links], "<i8")
        rows = (node.folds(0, arity), values, node.sizes(), numbers)
        return Group(rows, times, [link.name for link in node.links], arity)

    @contextmanager
    def preserving_state(self) -> Iterator[None]:
        before = self._recent.copy()
        try:
            yield
        finally:
            for node in self._recent.values():
                if id(node) not in before:
                    node.link.node = None
            self._recent = before

    # --- from nodes to pages ----------------------------------------------------------------------

    def write(self, nodes: list[Node]) -> None:
        """Write nodes whose children are pages already; one store call."""
        groups = [
            (node.level, self.serial + i, self.to_group(node)) for i, node in enumerate(nodes)
        ]
        names = self.pager.write(groups) if groups else []
        for node, (_, number, _), name in zip(nodes, groups, names, strict=True):
            node.link.number, node.link.name = number, name
            node.paged = [link.name for link in node.links]
        self.serial += len(nodes)

    def mark_dirty(self, node: Node) -> None:
        above: Node | None = node
        while above is not None:
            above.saved = None
            self._recent[id(above)] = above
            self._recent.move_to_end(id(above))
            link = above.link
            if link.name == NO_NAME:
                return
            note = [above.level, link.number, link.name, 0]
            self.retired.newest.append(note)
            above.note = self._epoch, note
            link.name = NO_NAME
            above = above.parent

    def trim(self, is_pinned: Callable[[Node], bool]) -> None:
        """Release the least recently used nodes after writing them, with some slack.

        If the store fails, all stay.
        """
        self._limit_notes()
        while len(self._recent) > self._most:
            recent = list(self._recent.values())
            pinned = [node for node in recent if is_pinned(node)]
            idle = [
                node
                for node in recent
                if not is_pinned(node) and all(link.node is None for link in node.links)
            ]
            self._let_go_of(idle[: len(recent) - self._most // 2])
            for node in pinned:
                del self._recent[id(node)]
            if not idle and not pinned:
                return

    @property
    def has_made_some(self) -> bool:
        return self._are_large and self.made >= _AT_ONCE

    def settle(self, is_pinned: Callable[[Node], bool], until: int) -> None:
        """Do as the base class for large leaves, several at once while they are in the cache.

        If the store fails, all stay.
        """
        settled = [
            node
            for node in self._recent.values()
            if not (node.level or is_pinned(node))
            and node.link.name == NO_NAME
            and not (node.count and node.time_at(node.count - 1) > until)
        ]
        if len(settled) >= _AT_ONCE:
            self._let_go_of(settled)
            settled = []
        self.made = len(settled)

    def _let_go_of(self, nodes: list[Node]) -> None:
        """Write those that are not pages, and release all."""
        self.write([node for node in nodes if node.link.name == NO_NAME])
        for node in nodes:
            del self._recent[id(node)]
            node.link.node = None

    def write_changed(self, nodes: list[Node]) -> None:
        """Write the unwritten nodes below some nodes, without these; the lowest first."""
        changed = [
            link.node
            for node in nodes
            for link in node.links
            if link.node is not None and link.name == NO_NAME and link.node not in nodes
        ]
        if changed:
            self.write_changed(changed)
            self.write(changed)

    # --- retired pages ----------------------------------------------------------------------------

    def discard(self, node: Node) -> None:
        self.mark_dirty(node)
        self._recent.pop(id(node), None)
        node.link.node = None

    def drop(self, level: int, links: list[Link], parent: Node) -> None:
        """Retire whole subtrees, in the note of their parent's page if it has one.

        For a large page, a few leaves are noted individually, so that it need not be read again.
        """
        for link in links:
            self._let_go(link)
        epoch, note = parent.note
        few = not level and _FEW * len(links) <= len(parent.paged)
        if epoch == self._epoch and not few:
            start = note[3]
            if parent.paged[start : start + len(links)] == [link.name for link in links]:
                note[3] = start + len(links)
                return
            parent.note = NO_NOTE
        for link in links:
            if link.name != NO_NAME:
                whole = -1 if level else 0
                self.retired.add([(level, link.number, link.name)], whole)

    def _let_go(self, link: Link) -> None:
        """Discard the nodes of a subtree in memory, and retire what is below changed ones.

        The page of a changed node was retired when it changed.
        """
        node = link.node
        if node is None:
            return
        self._recent.pop(id(node), None)
        link.node = None  # so that it is freed at once, not by the next garbage collection
        if link.name == NO_NAME:
            self.drop(node.level - 1, node.links, node)
        else:
            for below in node.links:
                self._let_go(below)

    def _limit_notes(self) -> None:
        if not self.retain and len(self.retired) > _MOST_NOTES:
            self.retired.delete(0)
        newest = self.retired.newest
        while len(newest) > _MOST_NOTES:
            some = newest[:_MOST_NOTES]
            fields = np.array([[level, number, gone] for level, number, _, gone in some], "<i8").T
            columns = tuple(np.ascontiguousarray(field) for field in fields)
            group = Group(columns, None, [note[2] for note in some], len(some))
            name = self.pager.write([(NOTES, self.serial, group)])[0]
            self._epoch += 1  # nothing can be added to these notes any more
            newest[:_MOST_NOTES] = [[NOTES, self.serial, name, -1]]
            self.serial += 1

    def below(self, level: int, group: Group, gone: int) -> Iterator[Note]:
        """Return what is retired with a page, as notes."""
        if level == NOTES:
            levels, numbers, gaps = (column.tolist() for column in group.rows)
            notes = [*map(list, zip(levels, numbers, group.names, gaps, strict=True))]
            for note in notes:
                check_note(note)
            yield from notes
            return
        numbers, stop = group.rows[3].tolist(), group.count if gone < 0 else gone
        whole = -1 if level > 1 else 0
        for number, name in zip(numbers[:stop], group.names[:stop], strict=True):
            yield [level - 1, number, name, whole]

    def prepare(self) -> None:
        """Delete the pages that only discarded snapshots needed, once everything is written."""
        self.made = 0  # so that a window restored from the snapshot writes the same pages
        self.retired.delete(self.retain)

    def hold(self, retain: int) -> None:
        """Note that a snapshot was taken that needs the current pages."""
        self.retain = retain
        self._epoch += 1
        self.retired.hold()
