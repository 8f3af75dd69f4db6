"""Level queues as pages and handles: what Log MTA and Amortized MTA share of that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from mta.levels.queues import Levels, layouts_of
from mta.levels.rebuilding import Rebuilder
from mta.pages.page import Group, Layout
from mta.pages.pager import ResidentPager, StorePager
from mta.pages.structure import Aggregator, Named, Rebuild, Setting


class LevelPages(Aggregator):
    """The pages of level queues, which their tails name."""

    def __init__(self, levels: Levels, setting: Setting) -> None:
        self.levels, self.setting = levels, setting
        self.monoid = levels.monoid
        self.front = 0
        #: Fronts of the handles that must stay restorable beside the next one.
        self.kept: list[int] = []
        #: Whether pages that have left are deleted now and then, as no handle needs them.
        self.discards = True

    @classmethod
    def begin(cls, setting: Setting) -> Self:
        layouts = layouts_of(setting.monoid, setting.timed)
        store = setting.store
        pager = ResidentPager() if store is None else StorePager(store, setting.window, layouts)
        return cls(
            Levels(setting.monoid, pager, setting.leaf_arity, setting.arity, layouts), setting
        )

    # --- handles --------------------------------------------------------------------------------

    def tidy(self) -> None:
        self.levels.sweep(self.kept[0] if self.kept else self.front)

    def hold(self, retain: int) -> None:
        self.kept = [*self.kept, self.front][-(retain - 1) :]
        self.discards = False

    def delete_pages(self) -> None:
        self.levels.sweep(self.levels.back)

    @property
    def height(self) -> int:
        return len(self.levels.tails)

    # --- verifying ------------------------------------------------------------------------------

    def layout_of(self, level: int) -> Layout:
        return self.levels.layout_of(level)

    def pages(self) -> Iterator[Named]:
        for tail in reversed(self.levels.tails[1:]):
            yield from self._named(tail.level, tail.first, tail)

    def pages_below(self, named: Named, group: Group) -> Iterator[Named]:
        if named.level:
            yield from self._named(named.level, named.number * self.levels.arity, group)

    def _named(self, level: int, first: int, group: Group) -> Iterator[Named]:
        """What the elements of a group name, from ``swept`` on."""
        levels = self.levels
        span, at = levels.span(level), self.monoid.partials.at
        for index in range(max(levels.swept // span - first, 0), group.count):
            last = None if group.times is None else int(group.times[index])
            number, fold = first + index, at(group.rows, index)
            begin, end, name = number * span, (number + 1) * span, group.names[index]
            yield Named(level - 1, number, name, fold, last, begin, end, end > self.front)

    def read(self, named: Named) -> Group:
        return self.levels.pager.read(named.level, named.number, named.name)

    def difference(self, named: Named, group: Group) -> str | None:
        arity = self.levels.arity_of(named.level)
        if group.count != arity:
            return f"it has {group.count} elements in place of {arity}"
        times = group.times
        if times is not None:
            ordered = times[self.ordered_from(named) :]
            if bool((ordered[1:] < ordered[:-1]).any()):
                return "its times decrease"
            if int(times[-1]) != named.last_time:
                return f"its last time is {times[-1]}, its parent says {named.last_time}"
        try:
            agrees = self.levels.refold(named.level, group).agrees(named.fold)
        except Exception as error:  # a user's combine may raise anything at what it never saw
            return f"its elements cannot be folded ({type(error).__name__}: {error})"
        return None if agrees else "its fold is not the aggregate that its parent has"

    def is_past(self, level: int, number: int) -> bool:
        tails = self.levels.tails
        return level < len(tails) and number < tails[level].number

    def ordered_from(self, named: Named) -> int:
        """The element of a page from which on times must not decrease."""
        del named
        return 0

    def rebuilder(self) -> Rebuild | None:
        store = self.setting.store
        if store is None:
            return None
        pages = Rebuilder(self.setting.window, self.levels, store)
        return lambda named: pages.rebuild(named.level, named.number, named.name)
