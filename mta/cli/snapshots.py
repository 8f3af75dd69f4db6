"""``mta inspect``, ``check`` and ``gc`` for snapshots that a program saved in files.

A snapshot alone determines which pages are needed and whether they are intact
(``mta.windows.opaque``, and ``mta.audit.keyed`` for ``KeyedWindows``). The commands do not need the
monoid.

The program may continue to write meanwhile. A page is garbage if none of the given snapshots names
it, and no writer that continues from them can ever name it. Such a page belongs to events that are
already sealed (``mta.audit.walk.is_garbage``), or to a run whose number every given snapshot of
keyed windows has passed. Any other page may have just been written. A newer snapshot either names
it or makes it garbage.

``spark_integration.cli.checkpoints`` uses the same functions for the snapshots of a run in Spark.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import numpy as np

from mta.audit import walk
from mta.audit.keyed import OpaqueKeys
from mta.audit.published import needed_by_published
from mta.audit.walk import Audit, Audited, SnapshotSummary
from mta.cli.console import (
    Exit,
    InvalidCommand,
    note,
    note_item,
    plural,
    say,
    table,
)
from mta.cli.serving import declared_in
from mta.errors import CorruptPage, MissingPage
from mta.evaluators.coverage import Incomplete
from mta.frames.known import shown
from mta.kernels import native
from mta.keyed.coverage import latest
from mta.keyed.key_types import text_of
from mta.keyed.snapshot import is_keyed_snapshot
from mta.publishing.publisher import read_head
from mta.publishing.publisher import unpublish as delete_published
from mta.service.declaration import Declaration
from mta.service.garbage import states_of, unneeded_snapshots
from mta.snapshots import is_snapshot
from mta.windows.display import human_bytes
from mta.windows.opaque import Opaque, restore_opaque
from stores import PageStore, open_store, ping_store
from stores.address import without_credentials

COLUMNS = (
    "key", "events", "oldest", "newest", "front", "back", "levels", "pages", "snapshot", "late",
)  # fmt: skip
_EXAMPLES = 5
_HEAD_BYTES = 64
_BATCH = 256


def inspect(path: Path, store: str | None, limit: int, key: str | None) -> None:
    """Print the windows of a snapshot, and the store's totals if its address is given."""
    data, listing = _read(path), Listing(limit)
    if not is_keyed_snapshot(data):
        if key is not None:
            raise InvalidCommand(f"--key: {path} is a snapshot of one window, which has no keys")
        summary = walk.describe_snapshot(data)
        listing.add(summary.window, summary)
        show(listing, store, None if store is None else store_totals(_required(store)))
        return
    address = _required(store)
    with open_store(address) as pages:
        keyed = OpaqueKeys(data, pages)
        if key is None:
            listing.add_keys(keyed)
        else:
            listing.add_one(key, [keyed])
            listing.require(key)
    show(listing, address, None if key is not None else store_totals(address))


def check(path: Path, store: str | None) -> int:
    """Print the damage and a summary; return the exit code. Reads every page once or twice."""
    data, address = _read(path), _required(store)
    found = Audit()
    note(damaged=[])
    with open_store(address) as pages:
        if is_keyed_snapshot(data):
            keyed = OpaqueKeys(data, pages)
            tables, standalone = keyed.audit_tables()
            add_up(found, tables, keyed.name)
            verify(found, ((text_of(key), restore_opaque(held, pages)) for key, held in standalone))
            return sum_up(found, plural(keyed.snapshot.counts.keys, "key"), address)
        held = restore_opaque(data, pages)
        verify(found, [(held.engine.name, held)])
    return sum_up(found, ", ".join(sorted(held.fronts or [held.engine.name])), address)


def gc(
    path: list[Path],
    store: str | None,
    delete: bool,
    windows: str | None = None,
    compact: bool = False,
    declaration: Path | None = None,
) -> None:
    """Print, and with ``delete`` delete, the pages of windows that no snapshot can need.

    With the name of ``windows`` instead of files, these are all pages of the windows with this
    name. With a ``declaration``, they are those of declared windows, and published snapshots.
    Otherwise, pages that a published snapshot needs remain. ``compact`` makes the store free
    the space of deleted pages. Lists the store's keys, reads every inner page, and reads each
    garbage page for its size. Also reads tables of keyed windows with standalone windows.
    """
    if [bool(path), windows is not None, declaration is not None].count(True) != 1:
        raise InvalidCommand(
            "gc takes files, --name of windows whose snapshots are gone, or --config of a service"
        )
    if declaration is not None:
        if store is not None:
            raise InvalidCommand("--config names the store: leave out --store")
        note(windows=[], left_out=[])
        _gc_of_service(declared_in(declaration), delete, compact)
        return
    address = _required(store)
    note(windows=[], left_out=[])
    if windows is not None:
        _gc_by_name(address, windows, delete, compact)
        return
    with open_store(address) as pages:
        held_by: defaultdict[str, list[Opaque | OpaqueKeys]] = defaultdict(list)
        for file in path:
            data = _read(file)
            if is_keyed_snapshot(data):
                keyed = OpaqueKeys(data, pages)
                held_by[keyed.name].append(keyed)
            else:
                held = restore_opaque(data, pages)
                held_by[held.engine.name].append(held)
        keys = list(pages.keys())
        say_store(address, len(keys))
        garbage = _garbage_of_all(pages, held_by, keys)
        print_unneeded(pages, garbage)
        sweep(pages, garbage, delete, compact=compact)


def _gc_of_service(declared: Declaration, delete: bool, compact: bool) -> None:
    """Collect the pages and published snapshots of declared windows; lists the store's keys."""
    ping_store(declared.store, write=delete)
    with open_store(declared.store) as pages:
        keys = list(pages.keys())
        states = dict(states_of(pages, declared))
        say_store(declared.store, len(keys))
        shards = [OpaqueKeys(state, pages) for state in states.values()]
        garbage = _garbage_of_all(pages, {each.name: [each] for each in shards}, keys)
        garbage += unneeded_snapshots(pages, declared.name, states)
        print_unneeded(pages, garbage)
        sweep(pages, garbage, delete, compact=compact)


def _garbage_of_all(
    pages: PageStore, held_by: Mapping[str, list[Opaque | OpaqueKeys]], keys: list[str]
) -> list[str]:
    """Return the pages of some windows that neither snapshots nor readers can need."""
    garbage = [key for name, all_of in held_by.items() for key in _garbage(name, all_of, keys)]
    published = needed_by_published(pages, keys) if garbage else ()
    return [key for key in garbage if key not in published]


def unpublish(published: str, store: str | None) -> None:
    """Delete what is published under a name; the windows and their pages remain."""
    address = _required(store)
    with open_store(address) as pages:
        head = read_head(pages, published)
        if head is None:
            raise InvalidCommand(f"nothing is published as {published!r} in this store")
        count = delete_published(pages, published)
        say_store(address)
        say(f"deleted   {plural(count, 'record')} of {published}, which {head.source} published")
        note(unpublished=published, source=head.source, deleted=count)


def _gc_by_name(address: str, name: str, delete: bool, compact: bool) -> None:
    """Collect all pages of the windows with a name or a query's id; lists the store's keys."""
    if not name.strip("./:"):
        raise InvalidCommand(f"--name {name!r} is not the name of windows: write the complete name")
    with open_store(address) as pages:
        # These follow a window's name, a query's id, and the common prefix of a plan's keys.
        ends = tuple(name + mark for mark in "/.:")
        found = [key for key in pages.keys(name) if key.startswith(ends)]
        windows = {key.partition("/")[0] for key in found}
        say_store(address)
        say(f"windows   {plural(len(windows), 'name')} of {name}")
        print_unneeded(pages, found)
        sweep(pages, found, delete, compact=compact)


def _garbage(name: str, held_by: list[Opaque | OpaqueKeys], keys: list[str]) -> list[str]:
    """Return the pages of a window that none of its snapshots, and no newer one, can need."""
    ends = ("/", ":") if isinstance(held_by[0], OpaqueKeys) else ("/",)
    own = [key for key in keys if key.startswith(tuple(name + end for end in ends))]
    try:
        live = {key for held in held_by for key in _live(held)}
        orphans = [key for key in own if key not in live]
        garbage = [key for key in orphans if all(_is_garbage(held, key) for held in held_by)]
    except (MissingPage, CorruptPage) as error:
        say_left_out(name, str(error))
        return []
    say(f"windows   {name}: {plural(len(live), 'page')} needed")
    note_item("windows", window=name, needed=len(live))
    if ahead := len(orphans) - len(garbage):
        say(f"left out  {plural(ahead, 'page')} further on, where a writer may be: run gc again")
        say("          with a newer snapshot")
        note_item("left_out", window=name, reason="a writer may be there", pages=ahead)
    return garbage


def _live(held: Opaque | OpaqueKeys) -> Iterator[str]:
    return held.live_keys() if isinstance(held, OpaqueKeys) else walk.live_keys(held)


def _is_garbage(held: Opaque | OpaqueKeys, key: str) -> bool:
    return held.is_garbage(key) if isinstance(held, OpaqueKeys) else walk.is_garbage(held, key)


def _meant(text: str) -> list[Any]:
    """Return the keys that a text may mean; they are tried before a search through all keys."""
    return [text, text.encode(), *([int(text)] if re.fullmatch(r"-?\d{1,19}", text) else [])]


def _required(store: str | None) -> str:
    if store is None:
        raise InvalidCommand("name the store of the pages with --store")
    ping_store(store)
    return store


def _read(path: Path) -> bytes:
    if path.is_dir():
        raise InvalidCommand(
            f"{path} is a folder: name a file with a snapshot. The output folder of a run, and a "
            "checkpoint of Spark, are read by the command 'mta' with Spark"
        )
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            if not is_snapshot(head):
                raise InvalidCommand(
                    f"{path} is not a snapshot: give a file with the bytes that checkpoint() "
                    "returned, or the output folder of a run"
                )
            return head + file.read()
    except FileNotFoundError:
        raise InvalidCommand(f"there is no file or folder {path}: correct the path") from None
    except OSError as error:
        raise InvalidCommand(f"{path}: {error.strerror}") from error


# Printing windows, of files and of runs in Spark


@dataclass
class Listing:
    """Windows to print: the first ones by key, and the totals of all."""

    limit: int
    windows: list[tuple[str, SnapshotSummary]] = field(default_factory=list)
    keys: int = 0
    events: int = 0
    saved: int = 0
    """Bytes of snapshots."""
    dropped: Counter[str] = field(default_factory=lambda: Counter(late=0, invalid=0, ahead=0))
    incomplete: list[Incomplete] = field(default_factory=list)
    whole: bool = True
    """Whether all counted events are in windows; with an unknown frame, some may have left."""

    def add(self, key: str, summary: SnapshotSummary) -> None:
        self.keys += 1
        self.events += summary.events
        self.saved += summary.snapshot_bytes
        for name in self.dropped:
            self.dropped[name] += getattr(summary, name) or 0
        self._keep([(key, summary)])

    def add_keys(self, keyed: OpaqueKeys) -> None:
        """Add all windows of a snapshot; reads every page once or twice."""
        counts, (events, found) = keyed.snapshot.counts, keyed.first(self.limit, text_of)
        self.keys += counts.keys
        self.events += events
        for name in self.dropped:
            self.dropped[name] += getattr(counts, name)
        self.saved += keyed.snapshot_bytes
        self.whole &= keyed.exact
        self.incomplete = latest([*self.incomplete, *keyed.incomplete()])
        self._keep([(text_of(key), summary) for key, summary in found])

    def add_one(self, text: str, snapshots: Iterable[OpaqueKeys]) -> None:
        """Add the window of one key in some snapshots, if there is one.

        One ``get_many`` per level and snapshot for keys of one column; otherwise reads all pages.
        """
        for keyed in snapshots:
            tried = ((key, keyed.find(key)) for key in _meant(text))
            found = [(key, summary) for key, summary in tried if summary is not None]
            if not found:
                found = [each for each in keyed.summaries() if text_of(each[0]) == text]
            self.whole &= keyed.exact or not found
            for key, summary in found:
                self.add(text_of(key), summary)

    def require(self, key: str) -> None:
        """Raise InvalidCommand if no window was found."""
        if not self.windows:
            raise InvalidCommand(f"--key {key!r}: no window has it; omit --key to see some keys")

    def _keep(self, windows: list[tuple[str, SnapshotSummary]]) -> None:
        self.windows = sorted([*self.windows, *windows], key=itemgetter(0))[: self.limit]

    def __str__(self) -> str:
        kept = "" if self.whole else " kept"
        return f"{plural(self.keys, 'key')}, {plural(self.events, 'event')}{kept}"


def show(listing: Listing, store: str | None, pages: Totals | None) -> None:
    """Print the windows of each key, then their totals, monoid and frame."""
    say(table(COLUMNS, [row for key, summary in listing.windows for row in _rows(key, summary)]))
    if len(listing.windows) < listing.keys:
        say(f"... and {listing.keys - len(listing.windows):,} more (--limit)")
    say()
    say(f"windows   {listing}")
    for label, count in listing.dropped.items():
        if count:
            say(f"{label:9} {plural(count, 'event')}, dropped")
    for each in listing.incomplete:
        say(f"incomplete {_incomplete(each)}")
    if listing.saved:
        say(f"snapshots {human_bytes(listing.saved)}")
    if store is not None and pages is not None:
        say(f"store     {without_credentials(store)}: {pages}")
    for _, summary in listing.windows[:1]:
        say(f"monoid    {summary.monoid}, by {summary.algorithm}")
        say(f"frame     {shown(summary.frame)}")
    say(f"kernels   {native.in_use()}")
    _note_listing(listing, store, pages)


def _note_listing(listing: Listing, store: str | None, pages: Totals | None) -> None:
    """Record what ``show`` prints in the JSON document."""
    note(
        store=None if store is None else without_credentials(store),
        pages=None if pages is None else pages.pages,
        disk_bytes=None if pages is None else pages.disk_bytes,
        windows=[
            {
                "key": key,
                "events": each.events,
                "oldest": _iso(each.front_time),
                "newest": _iso(each.last_time),
                "front": each.front,
                "back": each.back,
                "levels": each.levels,
                "pages": each.pages,
                "bytes": each.snapshot_bytes,
                "late": each.late,
                "windows": [
                    {"window": w.name, "events": w.events, "front": w.front, "pages": w.pages}
                    for w in each.windows
                ],
            }
            for key, each in listing.windows
        ],
        keys=listing.keys,
        events=listing.events,
        **listing.dropped,
        bytes=listing.saved,
        incomplete=[
            {
                "window": each.window,
                "aggregation": each.aggregation,
                "complete_from": (None if each.complete_from is None else f"{each.complete_from}Z"),
                "complete_after_events": each.complete_after_events,
            }
            for each in listing.incomplete
        ],
    )
    for _, first in listing.windows[:1]:
        note(aggregation=first.monoid, algorithm=first.algorithm, frame=shown(first.frame))


def _iso(micros: int | None) -> str | None:
    """Return a time in microseconds since 1970 as ISO text in UTC."""
    return None if micros is None else f"{np.datetime64(micros, 'us')}Z"


def _incomplete(found: Incomplete) -> str:
    """Return text about an incomplete result, and when it will be complete."""
    window = f"window {found.window}" if found.window else "the window"
    what = f"what reads {found.aggregation} in {window}" if found.aggregation else window
    ways = []
    if found.complete_from is not None:
        ways.append(f"from {_moment(int(found.complete_from.astype('i8')))} on")
    if found.complete_after_events is not None:
        ways.append(f"after {plural(found.complete_after_events, 'event')} of a key")
    if found.complete_after_both is not None:
        start, events = found.complete_after_both
        moment = _moment(int(start.astype("i8")))
        ways.append(f"from {moment} on and after {plural(events, 'event')} of a key")
    return f"{what} since a change: complete {', or '.join(ways) or 'at no known time'}"


class Totals(NamedTuple):
    """All pages of a store, of any writer."""

    pages: int
    disk_bytes: int | None
    """Their size on a local disk; None for other stores."""

    def __str__(self) -> str:
        pages = plural(self.pages, "page")
        if self.disk_bytes is None:
            return pages
        return f"{pages}, {human_bytes(self.disk_bytes)} on disk"


def store_totals(url: str) -> Totals:
    """Return the number of pages in a store, and their size on a local disk; O(pages)."""
    with open_store(url) as store:
        pages = sum(1 for _ in store.keys(""))
    parts = urlsplit(url)
    local = parts.scheme == "file"
    return Totals(pages, disk_bytes(Path(unquote(parts.path))) if local else None)


def disk_bytes(folder: Path) -> int:
    """Return the size of the files of a folder on disk."""
    files = (path.stat() for path in folder.rglob("*") if path.is_file())
    # Windows does not report the blocks of a file.
    return sum(
        found.st_blocks * 512 if hasattr(found, "st_blocks") else found.st_size for found in files
    )


def verify(total: Audit, windows: Iterable[tuple[str, Audited]]) -> None:
    """Audit windows, add the findings to a total, and print the damage by key."""
    for whose, held in windows:
        add_up(total, walk.audit(held), whose)


def add_up(total: Audit, found: Audit, whose: str) -> None:
    """Add the findings of an audit to a total; print the damage."""
    total.pages += found.pages
    total.gone += found.gone
    total.damaged += found.damaged
    for damage in found.damaged:
        say(f"damaged   {whose}: {damage}")
        note_item("damaged", whose=whose, page=damage.key, level=damage.level, problem=damage.what,
                  needed=damage.needed, remedy=damage.remedy)  # fmt: skip


def sum_up(total: Audit, windows: str, address: str) -> int:
    """Print how many pages are intact and how many damaged; return the exit code."""
    say(f"windows   {windows}")
    say_store(address)
    note(verified=total.pages, gone=total.gone)
    left = f", {total.gone:,} of events that left are gone" if total.gone else ""
    say(f"pages     {total.pages:,} verified{left}")
    damaged = plural(len(total.damaged), "page") if total.damaged else "none"
    say(f"damaged   {damaged}")
    return Exit.DAMAGED if total.damaged else Exit.DONE


def say_store(address: str, pages: int | None = None) -> None:
    """Print the store's address, and the number of pages if it is known."""
    home = without_credentials(address)
    say(f"store     {home}" if pages is None else f"store     {home}: {plural(pages, 'page')}")
    note(store=home, **({} if pages is None else {"pages": pages}))


def say_left_out(window: str, reason: str) -> None:
    """Print why a window's pages are not collected."""
    say(f"left out  {window}: {reason}; see 'mta check'")
    note_item("left_out", window=window, reason=reason)


def sweep(
    store: PageStore, garbage: list[str], delete: bool, since: str = "", *, compact: bool
) -> None:
    """Delete the pages, or print how many could be deleted; then compact if requested."""
    if delete:
        store.delete_many(garbage)
        store.flush()
    say(f"{'deleted' if delete else 'to delete':9} {plural(len(garbage), 'page')}{since}")
    note(deleted=len(garbage) if delete else 0, to_delete=0 if delete else len(garbage))
    if garbage and not delete:
        say("nothing was deleted; --delete deletes these pages")
    if compact:
        store.compact()
        say("compacted the store, if it supports that")


def print_unneeded(store: PageStore, orphans: list[str]) -> None:
    """Print the number and size of garbage pages, and some examples; reads these pages."""
    size = sum(
        len(page or b"")
        for start in range(0, len(orphans), _BATCH)
        for page in store.get_many(orphans[start : start + _BATCH])
    )
    say(f"unneeded  {plural(len(orphans), 'page')}, {human_bytes(size)}")
    note(unneeded=orphans, unneeded_bytes=size)
    for key in orphans[:_EXAMPLES]:
        say(f"          {key}")


def _rows(key: str, summary: SnapshotSummary) -> Iterator[tuple[str, ...]]:
    alone = ("-", "-", "-", "-")  # for one of many keys
    if summary.late is not None:
        pages, late = f"{summary.pages:,}", f"{summary.late:,}"
        alone = (f"{summary.levels:,}", pages, human_bytes(summary.snapshot_bytes), late)
    yield (
        key,
        f"{summary.events:,}",
        _moment(summary.front_time),
        _moment(summary.last_time),
        f"{summary.front:,}",
        f"{summary.back:,}",
        *alone,
    )
    for window in summary.windows:
        pages = "-" if window.pages is None else f"{window.pages:,}"
        front, back = f"{window.front:,}", f"{summary.back:,}"
        yield f"  {window.name}", f"{window.events:,}", "", "", front, back, "", pages, "", ""


def _moment(micros: int | None) -> str:
    """Return a time in microseconds since 1970 as text, to the second."""
    if micros is None:
        return "-"
    return str(np.datetime64(micros, "us").astype("datetime64[s]")).replace("T", " ")
