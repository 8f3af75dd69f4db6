"""A tree by time as pages and handles: what FiBA needs for that."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from itertools import islice
from typing import Any, Self

from mta.errors import InvariantViolation
from mta.fiba import state
from mta.fiba.events import TreeEvents
from mta.fiba.fingers import FingerTree
from mta.fiba.invariants import require_same
from mta.fiba.keeper import Keeper
from mta.fiba.node import Kind
from mta.fiba.paging import NOTES, NOTES_LAYOUT, PageKeeper
from mta.fiba.walk import difference, named_below, named_pages
from mta.monoids.base import Partial, Refold
from mta.pages.handle import Handle
from mta.pages.page import Group, Layout
from mta.pages.structure import Aggregator, Named, Setting


class TreePages(Aggregator):
    """The pages of a tree, which the root, the spines and changed nodes name."""

    by_time = True
    #: Nodes in memory beside the spines.
    resident_nodes = 64

    def __init__(self, setting: Setting, kind: Kind | None = None) -> None:
        self.setting, self.monoid = setting, setting.monoid
        kind, store = kind or Kind(setting.monoid), setting.store
        self.keeper: Keeper = Keeper()
        if store is not None:
            self.keeper = PageKeeper(kind, store, setting.window, self.resident_nodes)
        self.tree = FingerTree(setting.monoid, setting.arity, setting.leaf_arity, self.keeper, kind)
        self.stored = TreeEvents(self.tree)
        self.front = 0

    @classmethod
    def begin(cls, setting: Setting) -> Self:
        return cls(setting)

    def sibling(self, setting: Setting) -> Self:
        return type(self)(setting, self.tree.kind)

    @property
    def back(self) -> int:
        return self.stored.back

    @property
    def pages_in(self) -> PageKeeper:
        """The keeper of pages; only of a window with a store."""
        assert isinstance(self.keeper, PageKeeper)
        return self.keeper

    @abstractmethod
    def cut_off_what_left(self) -> None:
        """Take all events out of the tree that nobody may ask for any more."""

    @abstractmethod
    def restore_front_time(self, time: int | None) -> None:
        """Take up the time of the oldest event from a handle."""

    # --- pages and handles ----------------------------------------------------------------------

    def tidy(self) -> None:
        self.cut_off_what_left()
        self.tree.settle_left()
        keeper = self.pages_in
        keeper.write_changed([self.tree.root, *self.tree.right])
        keeper.tidy()

    def hold(self, retain: int) -> None:
        self.pages_in.hold(retain)

    def delete_pages(self) -> None:
        if isinstance(self.keeper, PageKeeper):
            self.stored.front = self.front = self.back
            self.tree.clear()
            self.keeper.delete_all()

    def write_state(self) -> list[Any]:
        return state.write(self)

    def take_up_state(self, handle: Handle) -> None:
        state.take_up(self, handle)

    @property
    def height(self) -> int:
        return self.tree.root.level + 1

    @property
    def page_count(self) -> int:
        keeper = self.pages_in
        notes = sum(map(len, keeper.epochs), len(keeper.retired))
        return self.tree.size // self.setting.leaf_arity + notes

    @property
    def resident_rows(self) -> int:
        return sum(node.count + len(node.links) for node in self.tree.resident())

    # --- verifying ------------------------------------------------------------------------------

    def check(self) -> None:
        """Assert the tree's invariants and the result, reading all pages; changes nothing."""
        if not self.stored.front <= self.front <= self.back:
            raise InvariantViolation(f"kept {self.stored.front}, front {self.front}")
        tree, monoid = self.tree, self.monoid
        tree.check()
        with self.keeper.undisturbed():
            entries = islice(tree.entries(), self.front - self.stored.front, None)
            fold = Refold(monoid, (monoid.lift(row) for _, row in entries))
            # A query would fold what has not been folded yet.
            query = self.query if tree.is_folded else self.fold_window
            require_same("the result", query(), fold)

    def fold_window(self) -> Partial:
        """The aggregate of the window out of the tree, whatever is known of it."""
        return self.stored.fold(self.front, self.back)

    def layout_of(self, level: int) -> Layout:
        return NOTES_LAYOUT if level == NOTES else self.tree.kind.layouts[level > 0]

    def pages(self) -> Iterator[Named]:
        return named_pages(self)

    def pages_below(self, named: Named, group: Group) -> Iterator[Named]:
        return named_below(self, named, group)

    def read(self, named: Named) -> Group:
        return self.pages_in.pager.read(named.level, named.number, named.name)

    def is_past(self, level: int, number: int) -> bool:
        del level  # every page has a number of its own
        return number < self.pages_in.serial

    def difference(self, named: Named, group: Group) -> str | None:
        return difference(self, named, group)
