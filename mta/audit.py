"""Verifies every page that a handle reaches, and names every page that it keeps alive.

From the tails downwards (invariants 1 and 2 of ``levels.py``), each page is compared with what its
parent says of it: its digest, window, level and group, that it is full, that its times do not
decrease and end with the parent's time, and that its fold is the parent's partial. Nothing found
stops the audit; what a damaged inner page would have named is not reached, and not reported.

A handle names pages from ``swept`` on. Those from the front on are its own; those before serve the
handles before it, and the checkpoint after it may have deleted them already, so that one of these
is *gone* when it is missing, not damaged.

    >>> from mta import CountWindow, Max, Window
    >>> window = Window(Max(), CountWindow(8), name="demo", arity=2)
    >>> _ = window.extend([1.0, 5.0, 2.0, 3.0, 4.0, 0.0, 7.0])
    >>> handle = window.checkpoint()
    >>> sorted(key.rpartition("/")[0] for key in live_keys(window))
    ['demo/0/0', 'demo/0/1', 'demo/0/2', 'demo/1/0']
    >>> window.store.delete_many([key for key in live_keys(window) if key.startswith("demo/1")])
    >>> [(found.level, found.group, found.what) for found in audit(window).damaged]
    [(1, 0, 'it is not in the store')]
    >>> [found.repaired for found in audit(window, repair=True).damaged]
    [True]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mta import page
from mta.errors import CorruptPage, MissingPage, NotPageable
from mta.levels import same
from mta.page import NO_NAME, Group
from mta.rebuilding import Rebuilder

if TYPE_CHECKING:
    from mta.monoid import Partial
    from mta.window import Window
    from stores import PageStore

_BATCH = 64


@dataclass(frozen=True)
class Damage:
    """A page that is not what its parent says, and what is wrong with it."""

    key: str
    level: int
    group: int
    what: str
    first: int
    """The position of the first event below the page."""
    last: int
    needed: bool
    """Whether the window itself needs the page, and not only the handles before it."""
    repaired: bool = False
    outcome: str = "not repaired"

    def __str__(self) -> str:
        place = f"level {self.level}, group {self.group}, events {self.first:,} to {self.last:,}"
        whose = "" if self.needed else "only earlier handles need it; "
        return f"page {self.key} ({place}): {self.what}; {whose}{self.outcome}"


@dataclass
class Audit:
    """What an audit has found."""

    pages: int = 0
    """Pages that were found and read."""
    gone: int = 0
    """Missing pages of events that have left, which a later checkpoint may have deleted."""
    damaged: list[Damage] = field(default_factory=list)

    @property
    def repaired(self) -> list[Damage]:
        """The damage that is no more."""
        return [damage for damage in self.damaged if damage.repaired]

    @property
    def left(self) -> list[Damage]:
        """The damage that is still there."""
        return [damage for damage in self.damaged if not damage.repaired]


@dataclass(frozen=True, slots=True)
class _Named:
    """A page as its parent names and describes it."""

    level: int
    number: int
    name: bytes
    fold: Partial
    last_time: int | None
    first: int
    end: int


def audit(window: Window, repair: bool = False) -> Audit:
    """Verify every page that the window reaches; go on after each finding.

    Reads every page once, 64 at a time. ``repair`` rebuilds a damaged inner page from the level
    below, and puts it back only if it has exactly the digest that its parent asks for; that costs a
    listing of the keys of each level below, once, and the reads of the pages below it. A leaf
    cannot be rebuilt, nor can the one page a level that the front has passed in part, once the
    pages below it that have left are deleted. Nothing else may write to the store meanwhile.
    Raises NotPageable without a store, and what the store raises.
    """
    with np.errstate(all="ignore"):
        return _Auditor(window, repair).run()


def live_keys(window: Window) -> Iterator[str]:
    """The key of every page that the window's handle names, down to ``swept``.

    One read an inner page, none for leaves. Raises NotPageable without a store; MissingPage or
    CorruptPage for an inner page, without which nobody knows what else is alive.
    """
    _store_of(window)
    levels, front = window.tree.levels, window.tree.front
    waiting: list[tuple[int, int, Group]] = [(t.level, t.first, t) for t in levels.tails[1:]]
    while waiting:
        level, first, group = waiting.pop()
        for named in _named(window, level, first, group):
            if named.name == NO_NAME:
                continue
            yield page.key_of(window.name, named.level, named.number, named.name)
            if named.level:
                try:
                    below = levels.pager.read(named.level, named.number, named.name)
                except MissingPage:
                    if named.end > front:
                        raise
                    continue  # the pages below were deleted before it
                waiting.append((named.level, named.number * levels.arity, below))


def _store_of(window: Window) -> PageStore:
    if window.store is None:
        raise NotPageable("this window is in memory alone (store=None): it has no pages")
    return window.store


def _named(window: Window, level: int, first: int, group: Group) -> Iterator[_Named]:
    """What the elements of a group name, from ``swept`` on."""
    levels = window.tree.levels
    span, at = levels.span(level), levels.monoid.partials.at
    for index in range(max(levels.swept // span - first, 0), group.count):
        last = None if group.times is None else int(group.times[index])
        number, fold = first + index, at(group.rows, index)
        begin, end = number * span, (number + 1) * span
        yield _Named(level - 1, number, group.names[index], fold, last, begin, end)


class _Auditor:
    """One walk over a window's pages."""

    def __init__(self, window: Window, repair: bool) -> None:
        self._window, self._store = window, _store_of(window)
        self._levels = window.tree.levels
        self._rebuilder = Rebuilder(window.name, self._levels, self._store) if repair else None
        self._found = Audit()

    def run(self) -> Audit:
        """Walk the trees, the highest first."""
        for tail in reversed(self._levels.tails[1:]):
            self._walk(tail.level, tail.first, tail)
        return self._found

    def _walk(self, level: int, first: int, group: Group) -> None:
        """Verify what is below a group."""
        waiting = list(_named(self._window, level, first, group))
        for start in range(0, len(waiting), _BATCH):
            batch = waiting[start : start + _BATCH]
            pages = self._store.get_many([self._key(named) for named in batch])
            for named, data in zip(batch, pages, strict=True):
                below = self._verify(named, data)
                if below is not None and named.level:
                    self._walk(named.level, named.number * self._levels.arity, below)

    def _key(self, named: _Named) -> str:
        return page.key_of(self._window.name, named.level, named.number, named.name)

    def _verify(self, named: _Named, data: bytes | None) -> Group | None:
        """The page as a group if it can be read, after a repair if need be."""
        needed = named.end > self._window.tree.front
        if data is None and not needed:
            self._found.gone += named.name != NO_NAME
            return None
        self._found.pages += data is not None
        group, what = self._read(named, data)
        if what is None:
            return group
        key, last = self._key(named), named.end - 1
        damage = Damage(key, named.level, named.number, what, named.first, last, needed)
        if group is None:
            group = self._repair(named)
            damage = replace(
                damage, repaired=group is not None, outcome=self._outcome(named, group)
            )
        self._found.damaged.append(damage)
        return group

    def _read(self, named: _Named, data: bytes | None) -> tuple[Group | None, str | None]:
        """The group that can be read, and what is wrong, if anything is."""
        level, number, name = named.level, named.number, named.name
        if data is None:
            return None, "it is not in the store"
        if page.name_of(data) != name:
            return None, "its bytes do not match its name"
        layout = self._levels.layout_of(level)
        try:
            group = page.decode(data, self._window.name, level, number, name, layout)
        except CorruptPage as error:
            return None, str(error.__cause__ or error)
        return group, self._difference(named, group)

    def _difference(self, named: _Named, group: Group) -> str | None:
        """Where a page that can be read is not what its parent says."""
        arity = self._levels.arity_of(named.level)
        if group.count != arity:
            return f"it has {group.count} elements in place of {arity}"
        times = group.times
        if times is not None:
            if bool((times[1:] < times[:-1]).any()):
                return "its times decrease"
            if int(times[-1]) != named.last_time:
                return f"its last time is {times[-1]}, its parent says {named.last_time}"
        try:
            fold: Any = self._levels.fold(named.level, group, 0, group.count)
            agrees = same(fold, named.fold)
        except Exception as error:  # a user's combine may raise anything at what it never saw
            return f"its elements cannot be folded ({type(error).__name__}: {error})"
        return None if agrees else "its fold is not the aggregate that its parent has"

    def _outcome(self, named: _Named, group: Group | None) -> str:
        if group is not None:
            return "rebuilt from the level below"
        if named.level == 0:
            return "these events are in no other page: put back a copy of it"
        if self._rebuilder is None:
            return "not repaired"
        return "not all that was below it is there, so it cannot be rebuilt: put back a copy of it"

    def _repair(self, named: _Named) -> Group | None:
        """The page, put back and read again."""
        if self._rebuilder is None:
            return None
        pages = self._rebuilder.rebuild(named.level, named.number, named.name)
        if pages is None:
            return None
        self._store.put_many(pages)
        self._store.flush()
        group, what = self._read(named, self._store.get_many([self._key(named)])[0])
        return group if what is None else None
