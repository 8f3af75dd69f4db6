"""Keyed windows out of their root alone: what each key has, whether pages are whole and live.

As of a handle (``opaque``), neither the operation nor the policies need be known: values are left
as they are, bytes that nobody reads. So an event counts as long as it is stored, though it may
have left its window.

    >>> from mta import CountWindow, KeyedWindows, Max
    >>> windows = KeyedWindows(Max(), CountWindow(2), "memory://keyed", name="demo", page_bytes=64)
    >>> _ = windows.extend(["a", "b", "a"] * 100, range(300))
    >>> keyed = OpaqueKeys(windows.checkpoint(), "memory://keyed")
    >>> [(key, summary.back) for key, summary in sorted(keyed.summaries())]
    [('a', 200), ('b', 100)]
    >>> sorted(keyed.live_keys()) == sorted(windows.store.keys()), keyed.audit().damaged
    (True, [])
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from mta.audit.description import HandleSummary, describe_handle
from mta.audit.opaque import restore_opaque
from mta.audit.walk import Audit, Damage, audit, live_keys
from mta.columns.schemas import Payload, Row, Rows, Schema
from mta.errors import CorruptPage, MissingPage
from mta.keyed import pages
from mta.keyed.doomed import LIST, DoomedPages, Entry
from mta.keyed.pages import Index, TableLayout
from mta.keyed.root import Root, Unread
from mta.keyed.table import HANDLE, Table
from mta.keyed.tiers import PageSize, Run, RunPages, Tiers
from mta.pages.page import key_of
from stores import PageStore, open_store

_BATCH, _CACHED = 64, 1 << 22


class OpaqueKeys:
    """The keys of a root, to be listed and verified, never to be added to.

    Raises CorruptHandle, and what the store raises.
    """

    def __init__(self, root: bytes, store: str | PageStore) -> None:
        unread = Unread.decode(root)
        self.store = open_store(store) if isinstance(store, str) else store
        self.name, self._root_bytes = unread.root.window, len(root)
        self._layout = TableLayout(
            self.name, unread.root.kind or "int", _Untouched(), unread.root.timed
        )
        self.root: Root = unread.read(self._layout)
        self._pages = RunPages(self.store, self._layout, PageSize(1, _CACHED))
        self._tiers = Tiers(self._layout, self._pages, _as_it_is, late=True)
        self._tiers.runs = self.root.runs
        self._tiers.young = [] if self.root.young is None else [self.root.young]

    def summaries(self) -> Iterator[tuple[Any, HandleSummary]]:
        """Every key, and what is known of it; reads every page once or twice."""
        for table in self._tiers.everything():
            handles = iter(table.handles)
            for place in range(len(table)):
                key = table.keys.at(place)
                if table.marks[place] == HANDLE:
                    handle = next(handles)
                    yield key, describe_handle(handle)
                else:
                    yield key, self._summary(table, place)

    def _summary(self, table: Table, place: int) -> HandleSummary:
        first, last = int(table.bounds[place]), int(table.bounds[place + 1])
        left, times = int(table.left[place]), table.times
        known = times is not None and last > first
        return HandleSummary(
            window=self.name,
            monoid=self.root.monoid[0],
            policy=", ".join(f"{n}={text}" if n else text for n, text, _ in self.root.policies),
            algorithm="columns of many keys",
            events=last - first,
            front=left,
            back=left + last - first,
            levels=0,
            pages=0,
            handle_bytes=0,
            late=0,
            invalid=0,
            front_time=int(times[first]) if times is not None and known else None,
            last_time=int(times[last - 1]) if times is not None and known else None,
        )

    def live_keys(self) -> Iterator[str]:
        """The key of every page that the root names, those to be deleted later included.

        Reads the indexes, and the tables that hold handles. Raises MissingPage, CorruptPage.
        """
        for run in self.root.runs:
            yield from self._pages_of(run)
        for handle in self.handles():
            yield from live_keys(restore_opaque(handle, self.store))
        for entry in self.root.doomed.all():
            yield from self._doomed(entry)

    def _pages_of(self, run: Run) -> Iterator[str]:
        return self._pages.keys(DoomedPages(run.number, run.height, run.top.names))

    def _doomed(self, entry: Entry) -> Iterator[str]:
        """The pages of what is to be deleted; some may be gone, if a deletion was cut short."""
        if isinstance(entry, bytes):
            held = restore_opaque(entry, self.store)
            held.engine.structure.evict_to(held.engine.structure.back)
            yield from live_keys(held)
            return
        if entry.level == LIST:
            for each in self._pages.listed(entry):
                yield from self._doomed(each)
        with suppress(MissingPage):
            yield from self._pages.keys(entry)

    def handles(self) -> Iterator[bytes]:
        """The handles of windows by themselves; reads every page, if there are any."""
        if self.root.counts[1]:
            for table in self._tiers.everything():
                yield from table.handles

    def audit(self) -> Audit:
        """Verify every page, and those of windows by themselves; go on after each finding.

        A table cannot be rebuilt, as its events are in no other page.
        """
        found = Audit()
        for run in self.root.runs:
            self._verify(run, run.height, run.top, found)
        if not found.damaged:
            for handle in self.handles():
                one = audit(restore_opaque(handle, self.store))
                found.pages += one.pages
                found.gone += one.gone
                found.damaged += one.damaged
        return found

    def _verify(self, run: Run, level: int, index: Index, found: Audit) -> None:
        for start in range(0, len(index), _BATCH):
            some = range(start, min(start + _BATCH, len(index)))
            keys = [key_of(self.name, level, run.number, index.names[at]) for at in some]
            for at, key, data in zip(some, keys, self.store.get_many(keys), strict=True):
                try:
                    if data is None:
                        raise CorruptPage("it is not in the store")
                    name = index.names[at]
                    content = pages.decode(self._layout, level, run.number, name, data)
                    assert not isinstance(content, list)  # of tables and indexes alone
                    what = _difference(content, index, at)
                    if what is not None:
                        raise CorruptPage(what)
                except CorruptPage as error:
                    found.damaged.append(self._damage(run, level, key, str(error), index, at))
                    continue
                found.pages += 1
                if isinstance(content, Index):
                    self._verify(run, level - 1, content, found)

    def _damage(self, run: Run, level: int, key: str, what: str, index: Index, at: int) -> Damage:
        end = int(index.firsts[at + 1]) if at + 1 < len(index) else 1 << 64
        hashes = f"of the keys whose hash is from {int(index.firsts[at])} to below {end}"
        outcome = "put back a copy of it, or restore from an earlier root"
        damage = Damage(key, level, run.number, what, 0, 0, True, None, False, outcome)
        return replace(damage, what=f"{what}; it has events {hashes}")


def _difference(content: Table | Index, index: Index, at: int) -> str | None:
    """What is not as the index above says, if anything is."""
    hashes = content.firsts if isinstance(content, Index) else content.keys.hashes
    if not len(hashes) or hashes[0] != index.firsts[at]:
        return "it does not begin with the key that its index says"
    if at + 1 < len(index) and hashes[-1] >= index.firsts[at + 1]:
        return "it has keys of the page after it"
    return None


def _as_it_is(table: Table) -> Table:
    return table


class _Untouched(Schema):
    """Values whose bytes are left alone."""

    row_bytes: int | None = None

    def new(self, capacity: int) -> Rows:
        return None

    def put(self, room: Rows, at: int, row: Row) -> None:
        return

    def at(self, rows: Rows, index: int) -> Row:
        return None

    def put_many(self, room: Rows, at: int, rows: Rows) -> None:
        return

    def cut(self, rows: Rows, start: int, stop: int) -> Rows:
        return None

    def take(self, rows: Rows, indices: Any) -> Rows:
        return None

    def put_at(self, room: Rows, indices: Any, rows: Rows) -> None:
        return

    def dump(self, rows: Rows) -> list[Payload]:
        return []

    def load(self, payloads: Iterator[Payload], count: int) -> Rows:
        for _ in payloads:
            pass
