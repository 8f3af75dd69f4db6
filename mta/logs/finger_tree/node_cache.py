"""Nodes as pages: which nodes are in memory, which are written, and which pages may be deleted.

The root, the spines and the most recently used nodes are in memory. Every other node is an
immutable page, named like the groups of level queues (``mta.pages``). When a changed node is
released, or when a snapshot is taken, the node and the nodes above it are written again under new
numbers. Large leaves are released as soon as no event can be added to them. A page therefore never
changes, and its parent has its number and name.

    leaf page   events: their values, and times
    inner page  one row per subtree: its up-aggregate, the value of the entry after it, its number
                of events, and the number of its page; the times of those entries; the names of the
                subtrees' pages. No entry follows the last subtree, so its row repeats the entry
                before it, or has zeros if it is the only subtree, as at the left end of a level.

Pages that the tree no longer needs are retired (``mta.pages``). The note of a retired page covers
everything below the first ``gone`` of its subtrees, so evicting any number of events together takes
one note per level. If there are many notes, they are written to a separate page (level ``NOTES``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from sys import maxsize

import numpy as np

from mta.errors import CorruptPage
from mta.logs.finger_tree.node import NO_NOTE, Kind, Link, Node, RowBuffer
from mta.pages import NO_NAME, NOTES, Group, Note, RetiredPages, StorePager, check_note
from stores import PageStore
from stores.lru import LRU

_MOST_NOTES = 256
#: A few leaves are at most one in this many of the leaves below a node.
_FEW = 8
#: How many leaves to prefetch after the one that is read.
_AHEAD = 4
#: Leaves of at least this many bytes are written as soon as this many of them can no longer change;
#: smaller leaves are written when they were not used for long.
_LARGE, _AT_ONCE = 1 << 16, 16


class NodeCache:
    """Keeps every node in memory."""

    #: An upper bound on the number of leaves to write because they can no longer change.
    made = 0

    def child(self, node: Node, index: int) -> Node:
        """Return a child of a node. One page read unless it is in memory."""
        child = node.links[index].node
        assert child is not None
        return child

    def children(self, node: Node, start: int, stop: int) -> list[Node]:
        """Return some children of a node. One store call for those that are not in memory."""
        return [self.child(node, index) for index in range(start, stop)]

    def ahead(self, node: Node, index: int) -> None:
        """Announce that the children after this one will be needed soon."""

    def mark_dirty(self, node: Node) -> None:
        """Record that a node differs from its page."""

    def discard(self, node: Node) -> None:
        """Record that a node was removed; its children have another parent."""

    def drop(self, level: int, links: list[Link], parent: Node) -> None:
        """Record that the first subtrees of a parent, of this level, were removed."""

    @contextmanager
    def preserving_state(self) -> Iterator[None]:
        """At the end of the context, release what it read, so that reading has no side effects."""
        yield

    def trim(self, is_pinned: Callable[[Node], bool]) -> None:
        """Release nodes that were not used for long, except those of the spines."""

    @property
    def has_made_some(self) -> bool:
        """Whether ``release_until`` is due."""
        return False

    def release_until(self, is_pinned: Callable[[Node], bool], until: int) -> None:
        """Release the leaves whose events are not after ``until``: no more events can join them."""


class PagedNodeCache(NodeCache):
    """Keeps a bounded number of nodes in memory, and the others in a store."""

    def __init__(self, kind: Kind, store: PageStore, window: str, most: int, largest: int) -> None:
        self.kind = kind
        self.pager = StorePager(store, window, kind.layouts)
        self._most = most
        #: Whether leaves are large, so that ``release_until`` writes them.
        self._are_large = largest * (kind.entries.row_bytes or 0) >= _LARGE
        #: Nodes in memory besides the spines, which ``trim`` releases.
        self._recent = LRU[int, Node].of(maxsize)
        #: The number of the next page.
        self.serial = 0
        self.retired = RetiredPages(self.pager, self.below)
        #: How many snapshots to retain; 0 until one has been taken.
        self.retain = 0
        #: The current epoch: only notes of this epoch may still be extended.
        self._epoch = 1

    # --- from pages to nodes ----------------------------------------------------------------------

    def child(self, node: Node, index: int) -> Node:
        link = node.links[index]
        child = link.node
        if child is None:
            group = self.pager.read(node.level - 1, link.number, link.name)
            return self._taken_in(node, link, group)
        self._recent.get(id(child))
        return child

    def children(self, node: Node, start: int, stop: int) -> list[Node]:
        missing = [link for link in node.links[start:stop] if link.node is None]
        if len(missing) > 1:
            places = [(node.level - 1, link.number, link.name) for link in missing]
            for link, group in zip(missing, self.pager.read_many(places), strict=True):
                self._taken_in(node, link, group)
        return super().children(node, start, stop)

    def _taken_in(self, parent: Node, link: Link, group: Group) -> Node:
        """Return a page that was read as a node, and keep the node in memory."""
        child = self.to_node(parent.level - 1, group)
        child.link, child.parent, link.node = link, parent, child
        child.paged = group.names
        self._recent.put(id(child), child)
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
        """Decode a page, or the same columns of a snapshot, as a node. Raises CorruptPage."""
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
        """Encode a node as the columns of its page."""
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
        before = copy(self._recent)
        try:
            yield
        finally:
            for node in self._recent.values():
                if id(node) not in before:
                    node.link.node = None
            self._recent = before

    # --- from nodes to pages ----------------------------------------------------------------------

    def write(self, nodes: list[Node]) -> None:
        """Write nodes whose children are already pages. One store call."""
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
            self._recent.put(id(above), above)
            link = above.link
            if link.name == NO_NAME:
                return
            note = [above.level, link.number, link.name, 0]
            self.retired.newest.append(note)
            above.note = self._epoch, note
            link.name = NO_NAME
            above = above.parent

    def trim(self, is_pinned: Callable[[Node], bool]) -> None:
        """Write and release the least recently used nodes, down to about half of the limit.

        If the store fails, all stay in memory.
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
                self._recent.pop(id(node))
            if not idle and not pinned:
                return

    @property
    def has_made_some(self) -> bool:
        return self._are_large and self.made >= _AT_ONCE

    def release_until(self, is_pinned: Callable[[Node], bool], until: int) -> None:
        """Release large leaves as the base class does, if there are enough; all or none."""
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
        """Write the nodes that are not pages, and release all."""
        self.write([node for node in nodes if node.link.name == NO_NAME])
        for node in nodes:
            self._recent.pop(id(node))
            node.link.node = None

    def write_changed(self, nodes: list[Node]) -> None:
        """Write the unwritten nodes below some nodes, but not these nodes; lowest first."""
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
        self._recent.pop(id(node))
        node.link.node = None

    def drop(self, level: int, links: list[Link], parent: Node) -> None:
        """Retire whole subtrees, in the note of their parent's page if it has a note.

        A few leaves get separate notes, so that a large page need not be read again.
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
        """Release the nodes of a subtree, and retire the pages below its changed nodes."""
        node = link.node
        if node is None:
            return
        self._recent.pop(id(node))
        link.node = None  # breaks a reference cycle, so that the node is freed immediately
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
            self._epoch += 1  # these notes can no longer be extended
            newest[:_MOST_NOTES] = [[NOTES, self.serial, name, -1]]
            self.serial += 1

    def below(self, level: int, group: Group, gone: int) -> Iterator[Note]:
        """Yield notes for the pages that are retired together with a page."""
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
        """Delete the pages that only discarded snapshots need, after everything is written."""
        self.made = 0  # so that a window restored from the snapshot writes the same pages
        self.retired.delete(self.retain)

    def retain_snapshot(self, retain: int) -> None:
        """Record that a snapshot was taken, which needs the current pages."""
        self.retain = retain
        self._epoch += 1
        self.retired.retain_snapshot()
