"""``mta inspect``, ``check`` and ``gc`` for handles that a program of one's own saved in files.

A handle of ``Window`` or ``SharedWindows`` alone tells which pages are needed and whether they are
whole (``mta.audit.opaque``), so nothing need be known of the operation.

Whoever holds the windows may go on writing meanwhile. A page is garbage when none of the given
handles names it, and nobody who goes on from them can come to name it: it stands where pages were
sealed already (``mta.audit.walk.is_garbage``). Pages further on may have been put just now; once
the window has passed them and a newer handle is saved, they are named by it, or garbage.

How windows, damage and pages are printed is the same for handles in files and for those of a run in
Spark, which ``spark_integration.cli.checkpoints`` reads.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import numpy as np

from mta.audit.description import HandleSummary, describe_handle
from mta.audit.opaque import Opaque, restore_opaque
from mta.audit.walk import Audit, Sharing, audit, is_garbage, live_keys
from mta.cli.console import InvalidCommand, human_bytes, human_duration, plural, say, table
from mta.errors import CorruptPage, MissingPage
from mta.windows.window import Window
from stores import PageStore, open_store

COLUMNS = (
    "key", "events", "oldest", "newest", "front", "back", "levels", "pages", "handle", "late",
)  # fmt: skip
_EXAMPLES = 5
_BATCH = 256


Windows = list[tuple[str, HandleSummary]]


def inspect(path: Path, store: str | None) -> None:
    """Print the windows of a handle, and the totals of the store if its address is given."""
    summary = describe_handle(_read(path))
    show([(summary.window, summary)], store, None if store is None else store_totals(store))


def check(path: Path, store: str | None, repair: bool) -> int:
    """Print the damage by page and a summary; 1 if there is any, else 0. Reads every page once."""
    address = _required(store)
    if repair:
        raise InvalidCommand(
            "--repair: a page is rebuilt by the windows' own operation, which a handle does not "
            "tell: restore the windows in Python and call mta.audit.audit(windows, repair=True)"
        )
    with open_store(address) as pages:
        held = restore_opaque(_read(path), pages)
        found = verify([(held.engine.name, held)])
    return sum_up(found, ", ".join(sorted(held.fronts or [held.engine.name])), address)


def gc(path: list[Path], store: str | None, delete: bool) -> None:
    """Print the pages of these handles' windows that nobody can need; ``delete`` deletes them.

    Lists the store's keys, and reads every inner page, and the pages found once for their size.
    """
    address = _required(store)
    with open_store(address) as pages:
        windows: defaultdict[str, list[Opaque]] = defaultdict(list)
        for file in path:
            held = restore_opaque(_read(file), pages)
            windows[held.engine.name].append(held)
        keys = list(pages.keys())
        say(f"store     {without_credentials(address)}: {plural(len(keys), 'page')}")
        garbage = [
            key
            for name, held_by in windows.items()
            for key in _garbage(name, held_by, [key for key in keys if key.startswith(f"{name}/")])
        ]
        print_unneeded(pages, garbage)
        sweep(pages, garbage, delete)


def _garbage(name: str, held_by: list[Opaque], keys: list[str]) -> list[str]:
    """Those of a window's pages that none of its handles, and no newer one, can need."""
    try:
        live = {key for held in held_by for key in live_keys(held)}
    except (MissingPage, CorruptPage) as error:
        say(f"left out  {name}: {error}; see 'mta check'")
        return []
    say(f"windows   {name}: {plural(len(live), 'page')} needed")
    orphans = [key for key in keys if key not in live]
    garbage = [key for key in orphans if all(is_garbage(held, key) for held in held_by)]
    if ahead := len(orphans) - len(garbage):
        say(f"left out  {plural(ahead, 'page')} further on, where a writer may be: see to it again")
        say("          with a newer handle")
    return garbage


def _required(store: str | None) -> str:
    if store is None:
        raise InvalidCommand("name the store that the windows' pages are in with --store")
    return store


def _read(path: Path) -> bytes:
    if path.is_dir():
        raise InvalidCommand(
            f"{path} is a folder: name a file with a handle. The output folder of a run, and a "
            "checkpoint of Spark, are read by the command 'mta' with Spark"
        )
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidCommand(f"{path}: {error.strerror}") from error


# What is printed of any windows


def show(windows: Windows, store: str | None, pages: str | None, limit: int = 1) -> None:
    """Print windows by their keys, their totals, what they aggregate, and by which policy.

    Below the row of a key stands one for each of several windows that share its events.
    """
    say(table(COLUMNS, [row for key, summary in windows[:limit] for row in _rows(key, summary)]))
    if limit < len(windows):
        say(f"... and {len(windows) - limit:,} more (--limit)")
    say()
    say(f"windows   {counted(windows)}")
    say(f"handles   {human_bytes(sum(summary.handle_bytes for _, summary in windows))}")
    if store is not None:
        say(f"store     {without_credentials(store)}: {pages}")
    for _, summary in windows[:1]:
        policy = re.sub(
            r"\bTimeWindow\((\d+) us\)",
            lambda found: f"TimeWindow({human_duration(int(found[1]))})",
            summary.policy,
        )
        say(f"monoid    {summary.monoid}, by {summary.algorithm}")
        say(f"policy    {policy}")


def counted(windows: Windows) -> str:
    """How many keys there are, and events in their windows."""
    events = sum(summary.events for _, summary in windows)
    return f"{plural(len(windows), 'key')}, {plural(events, 'event')}"


def store_totals(url: str) -> str:
    """How many pages a store holds, and what they take on disk where that is local; O(pages)."""
    with open_store(url) as store:
        pages = plural(sum(1 for _ in store.keys("")), "page")
    parts = urlsplit(url)
    if parts.scheme != "file":
        return pages
    return f"{pages}, {human_bytes(disk_bytes(Path(parts.path)))} on disk"


def disk_bytes(folder: Path) -> int:
    """What the files in a folder take on disk."""
    files = (path.stat() for path in folder.rglob("*") if path.is_file())
    # Windows does not tell how many blocks a file has.
    return sum(
        found.st_blocks * 512 if hasattr(found, "st_blocks") else found.st_size for found in files
    )


def verify(windows: Iterable[tuple[str, Window | Sharing]], repair: bool = False) -> Audit:
    """What an audit of all these windows finds, each under its key; prints the damage."""
    total = Audit()
    for whose, held in windows:
        add_up(total, audit(held, repair), whose)
    return total


def add_up(total: Audit, found: Audit, whose: str) -> None:
    """Add what an audit has found to what others have; print the damage."""
    total.pages += found.pages
    total.gone += found.gone
    total.damaged += found.damaged
    for damage in found.damaged:
        say(f"damaged   {whose}: {damage}")


def sum_up(total: Audit, windows: str, address: str, repair: bool = False) -> int:
    """Print how many pages are whole and how many damaged; 1 if any is left so, else 0."""
    say(f"windows   {windows}")
    say(f"store     {without_credentials(address)}")
    left = f", {total.gone:,} of events that left are gone" if total.gone else ""
    say(f"pages     {total.pages:,} verified{left}")
    damaged = plural(len(total.damaged), "page") if total.damaged else "none"
    repaired = f", {len(total.repaired):,} repaired" if repair and total.damaged else ""
    say(f"damaged   {damaged}{repaired}")
    return 1 if total.left else 0


def sweep(store: PageStore, garbage: list[str], delete: bool, since: str = "") -> None:
    """Delete the pages, or print that they could be deleted."""
    if delete:
        store.delete_many(garbage)
        store.flush()
    say(f"{'deleted' if delete else 'to delete':9} {plural(len(garbage), 'page')}{since}")
    if garbage and not delete:
        say("nothing was deleted: --delete does")


def print_unneeded(store: PageStore, orphans: list[str]) -> None:
    """Print how many pages nobody needs, and some of them; reads them for their size."""
    size = sum(
        len(page or b"")
        for start in range(0, len(orphans), _BATCH)
        for page in store.get_many(orphans[start : start + _BATCH])
    )
    say(f"unneeded  {plural(len(orphans), 'page')}, {human_bytes(size)}")
    for key in orphans[:_EXAMPLES]:
        say(f"          {key}")


def without_credentials(url: str) -> str:
    """``redis://user:secret@host`` as ``redis://host``."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _rows(key: str, summary: HandleSummary) -> Iterator[tuple[str, ...]]:
    counts = (summary.front, summary.back, summary.levels, summary.pages)
    yield (
        key,
        f"{summary.events:,}",
        _moment(summary.front_time),
        _moment(summary.last_time),
        *(f"{count:,}" for count in counts),
        human_bytes(summary.handle_bytes),
        f"{summary.late:,}",
    )
    for window in summary.windows:
        pages = "-" if window.pages is None else f"{window.pages:,}"
        front, back = f"{window.front:,}", f"{summary.back:,}"
        yield f"  {window.name}", f"{window.events:,}", "", "", front, back, "", pages, "", ""


def _moment(micros: int | None) -> str:
    """A time in microseconds since 1970, to the second."""
    if micros is None:
        return "-"
    return str(np.datetime64(micros, "us").astype("datetime64[s]")).replace("T", " ")
