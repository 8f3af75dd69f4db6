"""The pages and snapshots of a tree by time, for all structures that use the tree.

In a snapshot, after the common fields:

    state    = [kept, serial, retired, left, spine, newest, parts]
    kept     = position of the oldest event in the tree, which late events may need
    serial   = number of the next page
    retired  = see ``mta.pages``
    left     = [columns of one partial, count]: the aggregate of the root's first subtree, and its
               number of events, as in the root's columns; unused if the root is a leaf
    spine    = for each node from the root to the last leaf, [count, columns], columns as in a page;
               the last subtree of a node is the next node of the spine, and has no page name
    newest   = microseconds since 1970 of the newest event evicted for good; nil if ``kept`` is 0
    parts    = see ``mta.pages``; ``spine`` has the events after the parts
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, Self

import numpy as np

from mta.columns.schemas import Rows
from mta.errors import CorruptPage, InvariantViolation
from mta.folds.sliding import Events
from mta.logs.base import EventLog, JoinedLeaf, Leaf, Setting
from mta.logs.finger_tree.btree import require_same
from mta.logs.finger_tree.fingers import FingerTree, after_time
from mta.logs.finger_tree.node import Kind, Node, RowBuffer, parent_of
from mta.logs.finger_tree.node_cache import NodeCache, PagedNodeCache
from mta.monoids.base import Partial, Refold
from mta.pages import (
    MAX_LEVELS,
    NO_NAME,
    Group,
    LeafParts,
    Named,
    Note,
    Part,
    corrupt,
    read_columns,
    write_columns,
)
from mta.snapshots import Snapshot, entry, is_number, is_time_or_nil

#: How many leaves stay in memory: a few windows each need the leaf with their front.
_LEAVES = 8


@dataclass(frozen=True, slots=True)
class Retired(Named):
    """A page that only earlier snapshots need, or a page of notes about such pages."""

    gone: int = 0
    """How many of its first subtrees are retired as well; -1 for all."""


class TreePages(EventLog):
    """The events of a tree by position, in pages named by the root, spines and changed nodes.

    Positions count from ``kept_from``, which grows with every event evicted for good. A late event
    that is older than one of those is evicted on arrival, before ``kept_from``, so the retained
    events never have a gap.
    """

    by_time = has_parts = True
    #: How many nodes stay in memory besides the spines.
    resident_nodes = 64

    def __init__(self, setting: Setting, kind: Kind | None = None) -> None:
        super().__init__(setting)
        kind, store = kind or Kind(setting.monoid), setting.store
        self.layouts = kind.layouts
        self.cache: NodeCache = NodeCache()
        if store is not None:
            largest = 2 * setting.leaf_arity
            sizes = self.resident_nodes, largest
            self.cache = PagedNodeCache(kind, store, setting.window, *sizes)
            self._parts = LeafParts(self.cache.pager, kind.layouts[0], largest, self.cache.retired)
        self.tree = FingerTree(setting.monoid, setting.arity, setting.leaf_arity, self.cache, kind)
        #: The position of the oldest event in the tree.
        self.kept_from = 0
        #: The time of the newest event that was evicted for good; None if there is none.
        self.newest_left: int | None = None
        #: Grows whenever events before the back change positions.
        self.stamp = 0
        #: The position from which on the last change moved events; negative if it moved all.
        self.moved_from = -1
        #: The most recently returned leaves, except the tree's last leaf, which grows.
        self._leaves: list[Leaf] = []
        #: Leaves that were last returned as one leaf; discarded when events are added.
        self._together: Leaf | None = None

    def empty_like(self, setting: Setting) -> Self:
        return type(self)(setting, self.tree.kind)

    @property
    def back(self) -> int:
        return self.kept_from + self.tree.size

    @property
    def paged(self) -> PagedNodeCache:
        """The node cache of a window with a store."""
        assert isinstance(self.cache, PagedNodeCache)
        return self.cache

    def trim(self) -> None:
        """Release nodes that were not used for long. If the store fails, all stay in memory."""
        self._together = None
        self._settle()  # an earlier attempt may have failed
        self.cache.trim(self.tree.is_spine)

    def _settle(self) -> None:
        """Write large leaves that can no longer get events. If the store fails, all stay."""
        newest = self.newest_time() if self.cache.has_made_some else None
        if newest is not None:
            self.cache.release_until(self.tree.is_spine, newest - self.setting.lateness)

    # --- reading --------------------------------------------------------------------------------

    def leaf(self, position: int, upto: int = 0, until: int | None = None) -> Leaf:
        """Return the events of a leaf and the entry that follows it in a node above.

        Includes the requested leaves after it that have the same parent.
        """
        known = self._known(position)
        if known is not None:
            return known
        tree, last, node = self.tree, -1, self.tree.last_leaf
        if position >= self.back - node.count:
            first = self.back - node.count
            return Leaf(first, node.values(0, node.count), node.times, node.count)
        above, first = tree.above_leaf(position - self.kept_from)
        first += self.kept_from
        if until is not None:
            last = int(above.times.searchsorted(until, side="right"))
        elif upto > position:
            last, _ = tree.child_with(above, upto - first)
        index, before = tree.child_with(above, position - first)
        first += before
        end = max(index + 1, min(last + 1, above.count))
        nodes = tree.cache.children(above, index, end)
        tree.cache.ahead(above, end - 1)
        # The parent has the entry after each leaf, except after its last child.
        while index == above.count:
            above, index = parent_of(above), parent_of(above).index_of(above)
            end = index + 1
        cut, between = tree.kind.entries.cut, above.entries.share(index, end)
        groups: list[Events] = []
        for at, each in enumerate(nodes):
            times, rows = each.entries.share(0, each.count)
            groups.append(Events(rows, times, each.count))
            times, rows = cut(between, at, at + 1)
            groups.append(Events(rows, times, 1))
        leaf = JoinedLeaf(self.monoid.inputs, first, groups)
        if len(nodes) == 1:
            self._leaves = [leaf, *self._leaves[: _LEAVES - 1]]
        else:
            self._together = leaf
        return leaf

    def _known(self, position: int) -> Leaf | None:
        """Return the leaf of a position, if it was returned recently."""
        together = self._together
        if together is not None and together.first <= position < together.stop:
            return together
        for leaf in self._leaves:
            if leaf.first <= position < leaf.stop:
                return leaf
        return None

    def _drop_leaves_from(self, position: int) -> None:
        """Discard the leaves with events from a position on, which have changed or moved."""
        self._leaves = [leaf for leaf in self._leaves if leaf.stop <= position]
        self._together = None

    @property
    def open_from(self) -> int:
        return self.back - self.tree.last_leaf.count

    def newest_time(self) -> int | None:
        """Return the time of the newest event, or None without events. No page read."""
        entries = self.tree.last_leaf.entries
        return int(entries.part_at(0, entries.count - 1)) if entries.count else None

    def place_of(self, time: int) -> int:
        """Return the position that the next event with a given time will get."""
        newest = self.newest_time()
        return self.back if newest is None or time >= newest else self.first_after(time)

    def remembered(self) -> Self:
        return self

    def fold(self, start: int, stop: int) -> Partial:
        """Return the aggregate of a range. O(arity * log d) combines at distance d from the end."""
        return self.tree.fold_positions(start - self.kept_from, stop - self.kept_from)

    def folds_behind(self, position: int, back: int) -> tuple[np.ndarray, Rows]:
        if back < self.back:
            return np.array([position]), self.monoid.partials.one(self.fold(position, back))
        places, folds = self.tree.folds_behind(position - self.kept_from)
        return self.kept_from + places, folds

    def first_after(self, time: int) -> int:
        """Return the position of the oldest event later than a time. O(log d) nodes."""
        return self.kept_from + self.tree.rank_after(time)

    def leaf_after(self, time: int) -> int:
        """Return the start of the leaf with the oldest later event, or of a leaf before it."""
        return self.kept_from + self.tree.rank(after_time(time), reads_leaf=False)

    def time_at(self, position: int) -> int:
        """Return the time of an event. At most one page read per level."""
        known = self._known(position)
        if known is not None and known.times is not None:
            return int(known.times[position - known.first])
        node, index = self.tree.entry_at(position - self.kept_from)
        return node.time_at(index)

    def time_before(self, position: int) -> int | None:
        if position == self.kept_from:
            return self.newest_left
        return self.time_at(position - 1) if self.kept_from < position <= self.back else None

    # --- pages and snapshots ----------------------------------------------------------------------

    def prepare(self) -> None:
        self.tree.settle_left()
        self.paged.write_changed([self.tree.root, *self.tree.right])
        leaf, cache = self.tree.last_leaf, self.paged
        held = self._parts.held(leaf.entries)
        cache.serial += self._parts.write(leaf.entries, count(cache.serial))
        if held != self._parts.held(leaf.entries):
            leaf.saved = None
        cache.prepare()

    def retain_snapshot(self, retain: int) -> None:
        self.paged.retain_snapshot(retain)

    def delete_pages(self) -> None:
        if isinstance(self.cache, PagedNodeCache):
            self.kept_from = self.back
            self._parts.retire_all()
            self.tree.clear()
            self.cache.retired.delete(0)

    def write_state(self) -> list[Any]:
        """Return the state of a tree whose changed nodes were written. No store call."""
        tree, partials = self.tree, self.monoid.partials
        spine = [node.saved or self._saved(node) for node in (tree.root, *reversed(tree.right))]
        left = [partials.dump(self.monoid.identity_row), 0]
        if tree.root.level:
            left = [partials.dump(tree.root.folds(0, 1)), tree.root.size_at(0)]
        serial, retired = self.paged.serial, self.paged.retired.state()
        parts = self._parts.state(tree.last_leaf.entries)
        return [self.kept_from, serial, retired, left, spine, self.newest_left, parts]

    def _saved(self, node: Node) -> list[Any]:
        group = self.paged.to_group(node)
        if not node.level:
            group = node.entries.group(self._parts.held(node.entries), node.count)
        return [group.count, write_columns(group, self.layouts[node.level])]

    def restore_state(self, snapshot: Snapshot) -> None:
        kept, serial, retired, left, spine, newest, parts = entry(
            "fields of a tree", snapshot.state,
            is_number, is_number, list, list, list, is_time_or_nil, list,
        )  # fmt: skip
        if kept > snapshot.front or (newest is None) != (kept == 0):
            raise corrupt("the position or the time of its evicted events is invalid")
        self.paged.retired.restore(retired)
        nodes = self._read_spine(spine)
        left = entry("fields of its left subtree", left, list, is_number)
        self.paged.serial = serial
        self._restore_parts(parts, nodes[-1].entries)
        size = snapshot.back - kept
        found = sum(n.count + (int(n.sizes()[:-1].sum()) if n.level else 0) for n in nodes)
        if found != size:
            raise corrupt(f"its tree has {found} events, its positions say {size}")
        if nodes[0].level and left[1] != nodes[0].size_at(0):
            raise corrupt("the size of its left subtree is not what its root says")
        self.tree.restore(nodes, size)
        self.kept_from, self.newest_left = kept, newest

    def _restore_parts(self, parts: list[Any], entries: RowBuffer) -> None:
        """Insert the events of parts before those of the last leaf. At most one store call."""
        size, gone = self._parts.restore(parts, self.paged.serial)
        if not size:
            return
        schema, groups = entries.schema, self._parts.read()
        parts = [(group.times, group.rows) for group in groups]
        rows = schema.joined(parts, [group.count for group in groups])
        entries.insert_many(0, schema.cut(rows, gone, size), size - gone)
        entries.unchanged = entries.dropped + entries.count
        self._parts.belong(entries, gone)

    def _read_spine(self, spine: list[Any]) -> list[Node]:
        """Return the root and the right spine, from the root down."""
        if not 0 < len(spine) <= MAX_LEVELS:
            raise corrupt("its spine does not form a tree")
        nodes: list[Node] = []
        for level, saved in zip(reversed(range(len(spine))), spine, strict=True):
            size, columns = entry("nodes of its spine", saved, is_number, list)
            group = read_columns(size, columns, self.layouts[level])
            node = self.paged.to_node(level, group)
            node.saved = saved
            if level and (group.names[-1] != NO_NAME or NO_NAME in group.names[:-1]):
                raise corrupt("the pages of its spine are not named as they must be")
            if nodes:
                link = nodes[-1].links[-1]
                node.link, node.parent, link.node = link, nodes[-1], node
            nodes.append(node)
        return nodes

    @property
    def height(self) -> int:
        return self.tree.root.level + 1

    @property
    def page_count(self) -> int:
        leaves = self.tree.size // self.setting.leaf_arity
        return leaves + len(self._parts) + len(self.paged.retired)

    @property
    def resident_rows(self) -> int:
        return sum(node.count + len(node.links) for node in self.tree.resident())

    # --- verifying ------------------------------------------------------------------------------

    @contextmanager
    def preserving_state(self) -> Iterator[None]:
        known, together = self._leaves, self._together
        try:
            with self.cache.preserving_state():
                yield
        finally:
            self._leaves, self._together = known, together

    def check(self) -> None:
        """Assert the tree's invariants and the result, reading all pages. Changes nothing."""
        if not self.kept_from <= self.front <= self.back:
            raise InvariantViolation(f"kept {self.kept_from}, front {self.front}")
        tree, monoid = self.tree, self.monoid
        tree.check()
        with self.preserving_state():
            entries = islice(tree.entries(), self.front - self.kept_from, None)
            fold = Refold(monoid, (monoid.lift(row) for _, row in entries))
            require_same("the result", self._checked_result(), fold)
            if self.setting.store is not None:
                self._parts.check(tree.last_leaf.entries)

    def _checked_result(self) -> Partial:
        """Return the aggregate from the front on. Changes nothing."""
        return self.fold(self.front, self.back)

    def pages(self) -> Iterator[Named]:
        yield from self._pages_of(self.tree.root, self.kept_from)
        leaf = self.tree.last_leaf
        yield from self._parts.pages(leaf.entries, self.back - leaf.count)
        yield from map(_retired, self.paged.retired)

    def _pages_of(self, node: Node, first: int) -> Iterator[Named]:
        """Yield the pages that a node in memory names, directly or through changed children."""
        tree = self.tree
        sizes = tree.sizes_of(node).tolist() if node.level else []
        for index, (link, size) in enumerate(zip(node.links, sizes, strict=True)):
            if link.name != NO_NAME:
                fold = tree.whole(node, index)
                yield Named(node.level - 1, link.number, link.name, fold, None, first, first + size)
            elif link.node is not None:
                yield from self._pages_of(link.node, first)
            first += size + 1

    def pages_below(self, named: Named, group: Group) -> Iterator[Named]:
        if isinstance(named, Retired):
            if named.gone:
                yield from map(_retired, self.paged.below(named.level, group, named.gone))
        elif named.level:
            sums, _, sizes, numbers = group.rows
            first, level, at = named.first, named.level - 1, self.monoid.partials.at
            for index, name in enumerate(group.names):
                end = first + int(sizes[index])
                yield Named(level, int(numbers[index]), name, at(sums, index), None, first, end)
                first = end + 1

    def read(self, named: Named) -> Group:
        return self.paged.pager.read(named.level, named.number, named.name)

    def is_past(self, level: int, number: int) -> bool:
        return number < self.paged.serial  # every page has a unique number

    def difference(self, named: Named, group: Group) -> str | None:
        if isinstance(named, Retired):
            return None
        times = group.times[: group.count - (named.level > 0)] if group.times is not None else None
        if times is None or bool((np.diff(times) < 0).any()):
            return "its times decrease"
        if isinstance(named, Part):
            return self._parts.difference(group)
        kind = self.tree.kind
        try:
            node = self.paged.to_node(named.level, group)
            if kind.size(node) != named.end - named.first:
                return f"it has {kind.size(node)} events, its parent says {named.end - named.first}"
            agrees = kind.refold(node).agrees(named.fold)
        except CorruptPage as error:
            return str(error)
        except Exception as error:  # a user's combine may raise anything for unexpected values
            return f"its elements cannot be folded ({type(error).__name__}: {error})"
        return None if agrees else "its fold is not the aggregate that its parent has"


def _retired(note: Note) -> Retired:
    level, number, name, gone = note
    return Retired(level, number, name, None, None, 0, 1, needed=False, gone=gone)
