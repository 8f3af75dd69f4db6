"""``mta inspect``, ``check`` and ``gc`` for handles that a program of one's own saved in files.

A handle of ``Window`` or ``SharedWindows`` alone tells which pages are needed and whether they are
whole (``mta.unread``), so nothing need be known of the operation, and no Spark is started.

Whoever holds the windows may go on writing meanwhile. A page is garbage when none of the given
handles names it, and nobody who goes on from them can come to name it: it stands where pages were
sealed already (``mta.audit.walk.is_garbage``). Pages further on may have been put just now; once
the window has passed them and a newer handle is saved, they are named by it, or garbage.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from mta import describe_handle
from mta.audit.unread import Unread, restore_unread
from mta.audit.walk import Audit, audit, is_garbage, live_keys
from mta.cli.console import human_bytes, plural, say
from mta.errors import CorruptPage, MissingPage
from spark_integration.cli.checking import add_up, sum_up
from spark_integration.cli.inspection import store_totals, table_of, tell_kind
from spark_integration.cli.job import without_credentials
from spark_integration.cli.sweeping import tell_unneeded
from spark_integration.errors import InvalidRequest
from stores import open_store


def show(path: Path, store_url: str | None) -> None:
    """Print the windows of a handle, and the totals of the store if it is named."""
    summary = describe_handle(_read(path))
    say(table_of([(summary.window, summary)]))
    say()
    say(f"handle    {human_bytes(summary.handle_bytes)}")
    if store_url is not None:
        say(f"store     {without_credentials(store_url)}: {store_totals(store_url)}")
    tell_kind(summary)


def check(path: Path, store_url: str | None, repair: bool) -> int:
    """Print the damage by page and a summary; 1 if there is any, else 0. Reads every page once."""
    address = _store_of(store_url)
    if repair:
        raise InvalidRequest(
            "--repair: a page is rebuilt by the windows' own operation, which a handle does not "
            "tell: restore the windows in Python and call mta.audit.audit(windows, repair=True)"
        )
    total = Audit()
    with open_store(address) as store:
        held = restore_unread(_read(path), store)
        add_up(total, audit(held), held.engine.name)
    say(f"windows   {', '.join(sorted(held.fronts or [held.engine.name]))}")
    say(f"store     {without_credentials(address)}")
    sum_up(total)
    return 1 if total.left else 0


def collect(paths: list[Path], store_url: str | None, delete: bool) -> None:
    """Print the pages of these handles' windows that nobody can need; ``delete`` deletes them.

    Lists the store's keys, and reads every inner page, and the pages found once for their size.
    """
    address = _store_of(store_url)
    with open_store(address) as store:
        windows: defaultdict[str, list[Unread]] = defaultdict(list)
        for path in paths:
            held = restore_unread(_read(path), store)
            windows[held.engine.name].append(held)
        keys = list(store.keys())
        say(f"store     {without_credentials(address)}: {plural(len(keys), 'page')}")
        garbage = [
            key
            for name, held_by in windows.items()
            for key in _garbage(name, held_by, [key for key in keys if key.startswith(f"{name}/")])
        ]
        tell_unneeded(store, garbage)
        if delete:
            store.delete_many(garbage)
            store.flush()
        say(f"{'deleted' if delete else 'to delete':9} {plural(len(garbage), 'page')}")
        if garbage and not delete:
            say("nothing was deleted: --delete does")


def _garbage(name: str, held_by: list[Unread], keys: list[str]) -> list[str]:
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


def _store_of(store_url: str | None) -> str:
    if store_url is None:
        raise InvalidRequest("name the store that the windows' pages are in with --store")
    return store_url


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidRequest(f"{path}: {error.strerror}") from error
