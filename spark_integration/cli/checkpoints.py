"""``mta inspect``, ``check``, ``gc`` and ``migrate`` for a query's checkpoint.

Pages in Spark's state (``spark://state``) can be written only by the query itself; so they are
copied to local disk for reading.

``gc`` marks and sweeps: it finds pages that no snapshot names, and deletes them later. Tasks that
died leave such pages behind, which only use space. A page is deleted if all of these conditions
hold, so that no page is deleted that is or will be needed:

1. No snapshot of the last committed batch names the page, including the earlier snapshots that it
   reaches back to (``retain``) and those of expired keys whose pages are still to be deleted. This
   is checked twice: when the page is recorded and when it is deleted.
2. The page was first recorded at least a grace period ago: a task that Spark has given up on may
   still be running, and writing.
3. Every batch that had started when the page was recorded is committed by now. An interrupted batch
   runs again and writes the same pages under the same keys, however long ago it first did so.
4. Every index of the query can be read, and for a standalone window every inner page; otherwise it
   is unknown which pages are needed.

The time at which each page was first seen is recorded in ``gc.json`` in the output folder.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from mta import KeyedWindows
from mta.audit.keyed import OpaqueKeys
from mta.audit.published import needed_by_published, unneeded_records
from mta.audit.walk import Audit
from mta.cli import snapshots
from mta.cli.console import note as note_facts
from mta.cli.console import plural, say
from mta.errors import CorruptPage, MissingPage, SnapshotMismatch
from mta.keyed.key_types import text_of
from mta.keyed.standalone import AnyWindow, public_window
from mta.times import to_duration
from mta.windows.opaque import Opaque, restore_opaque
from spark_integration import migration
from spark_integration.checkpoint import (
    has_commits,
    last_batch,
    open_pages,
    ping_home,
    query_id,
    read_pages,
    saved_snapshots,
)
from spark_integration.cli.job import read_job, read_note
from spark_integration.cli.progress import spark_errors
from spark_integration.errors import CorruptState, InvalidRequest
from spark_integration.runners.state_pages import is_state_url
from spark_integration.session import local_session
from stores import PageStore, open_store
from stores.address import without_credentials
from stores.local_disk import replace_file

NOTE = "gc.json"


@spark_errors()
def inspect(folder: Path, store: str | None, limit: int, key: str | None = None) -> None:
    """Print the windows of an output folder or of a Spark checkpoint."""
    checkpoint, address = locate(folder, store)
    session = local_session()
    listing = list_windows(session, checkpoint, address, limit, key)
    if key is not None:
        listing.require(key)
    pages = store_totals(session, checkpoint, address) if key is None else None
    snapshots.show(listing, address, pages)


def list_windows(
    spark: SparkSession, checkpoint: Path, address: str, limit: int, key: str | None = None
) -> snapshots.Listing:
    """List the first windows of a checkpoint by key, with totals; or only the window of ``key``."""
    listing, saved = snapshots.Listing(limit), saved_snapshots(spark, checkpoint, address)
    with open_pages(spark, checkpoint, address) as store:
        keyed = [OpaqueKeys(snapshot, store) for snapshot in saved]
        if key is not None:
            listing.add_one(key, keyed)
            return listing
        for each in keyed:
            listing.add_keys(each)
    return listing


def store_totals(spark: SparkSession, checkpoint: Path, address: str) -> snapshots.Totals:
    """Return how many pages and bytes a store has, from all writers."""
    if not is_state_url(address):
        return snapshots.store_totals(address)
    # The disk has all versions of the state that Spark retains.
    size = snapshots.disk_bytes(checkpoint / "state")
    return snapshots.Totals(read_pages(spark, checkpoint).count(), size)


@spark_errors()
def check(folder: Path, store: str | None) -> int:
    """Print the damage by page and a summary; return the exit code.

    Reads every page of every window once, and tables of many keys twice if some of the keys have a
    standalone window.
    """
    checkpoint, address = locate(folder, store)
    session = local_session()
    keys, found = 0, Audit()
    note_facts(damaged=[])
    with open_pages(session, checkpoint, address) as pages:
        for snapshot in saved_snapshots(session, checkpoint, address):
            keyed = OpaqueKeys(snapshot, pages)
            tables, standalone = keyed.audit_tables()
            snapshots.add_up(found, tables, keyed.name)
            restored = restorer(snapshot, pages)
            windows = ((text_of(key), restored(window)) for key, window in standalone)
            snapshots.verify(found, windows)
            keys += keyed.snapshot.counts.keys
    return snapshots.sum_up(found, plural(keys, "key"), address)


def restorer(snapshot: bytes, store: PageStore) -> Callable[[bytes], AnyWindow | Opaque]:
    """Return what restores the standalone windows of a bucket, with its aggregations.

    Windows with functions of the user are opaque: only their pages can be verified.
    """
    try:
        keyed = KeyedWindows.restore(snapshot, store, clock=None, max_ahead=None, on_ahead="raise")
    except SnapshotMismatch:
        return lambda window: restore_opaque(window, store)
    kind, pattern = keyed.bucket.kind, keyed.bucket.standalone.pattern
    return lambda window: public_window(kind, pattern.restore_like(window))


class Sighting(NamedTuple):
    """When a page that no snapshot names was first seen, and the last batch started before that."""

    seconds: float
    batch: int


@spark_errors()
def gc(folder: Path, store: str | None, delete: bool, grace: str, compact: bool = False) -> None:
    """Record and print the pages that no snapshot names, and delete those unneeded long enough."""
    finish_erasure(folder)
    checkpoint, address = locate(folder, store)
    note_facts(left_out=[])
    if is_state_url(address):
        note_facts(store=address, unneeded=[], unneeded_bytes=0, deleted=0, to_delete=0)
        say(f"store     {address}: nothing to collect. Pages of an uncommitted batch are gone,")
        say("          and Spark deletes the pages of old batches together with their state.")
        return
    until = time.time() - _seconds("--grace", grace)
    with open_store(address) as pages:
        # The order matters: a page in the list was written by a batch that had already started.
        keys = list(pages.keys())
        started, committed = last_batch(checkpoint / "offsets"), last_batch(checkpoint / "commits")
        saved = saved_snapshots(local_session(), checkpoint, address)
        all_keyed = [OpaqueKeys(snapshot, pages) for snapshot in saved]
        prefixes = {_prefix(keyed.name) for keyed in all_keyed}
        live, damaged = set[str](), dict[str, str]()
        for keyed in all_keyed:
            try:
                live.update(keyed.live_keys(damaged))
            except (MissingPage, CorruptPage) as error:
                damaged[keyed.name] = str(error)
        live |= needed_by_published(pages, keys)
        orphans = [key for key in keys if _prefix(key) in prefixes and key not in live]
        orphans += unneeded_records(pages, keys, query_id(checkpoint))
        # If tables are damaged, the standalone windows of their keys are unknown too.
        unsure = [key for key in orphans if {key.partition("/")[0], _prefix(key)} & damaged.keys()]
        orphans = sorted(set(orphans) - set(unsure))
        now = Sighting(time.time(), started)
        sightings = note(folder / NOTE, orphans, now)
        ripe = [
            key
            for key in orphans
            if sightings[key].batch <= committed and sightings[key].seconds <= until
        ]
        snapshots.say_store(address, len(keys))
        count = sum(keyed.snapshot.counts.keys for keyed in all_keyed)
        say(f"windows   {plural(count, 'key')}, {plural(len(live), 'page')} needed")
        note_facts(keys=count, needed=len(live))
        snapshots.print_unneeded(pages, orphans)
        for window, why in damaged.items():
            snapshots.say_left_out(window, why)
        if unsure:
            say(f"left out  {plural(len(unsure), 'page')} of damaged windows")
        snapshots.sweep(
            pages, ripe, delete, f", seen unneeded for {grace} or more", compact=compact
        )
        if delete:
            note(folder / NOTE, sorted(set(orphans) - set(ripe)), now)


def note(path: Path, orphans: Iterable[str], now: Sighting) -> dict[str, Sighting]:
    """Return when each page that is still unneeded was first seen, and record this in the file."""
    remedy = "delete it; then the grace period (--grace) of all pages starts again"
    earlier = read_note(path, remedy) if path.is_file() else {}
    first = {}
    for key in orphans:
        match earlier.get(key, list(now)):
            case [int() | float() as seconds, int(batch)]:
                first[key] = Sighting(seconds, batch)
            case other:
                raise CorruptState(f"{path} is damaged ({key}: {other!r}): {remedy}")
    replace_file(path, json.dumps(first) + "\n")
    return first


def _prefix(key: str) -> str:
    """Return the common prefix of the names of a query's windows: the query's id and its plan."""
    return key.partition("/")[0].partition(":")[0]


def _seconds(option: str, given: str) -> float:
    try:
        return to_duration(given) / 1e6
    except ValueError as error:
        raise InvalidRequest(f"{option} {given!r}: {error}") from error


@spark_errors()
def migrate(
    checkpoint: Path,
    target: Path,
    store: str,
    to: str | None,
    buckets: int | None,
    time_limit: str,
) -> None:
    """Create a new checkpoint from an old one, and print how to continue the query."""
    seconds = _seconds("--time-limit", time_limit)
    if read_job(checkpoint) is not None or read_job(checkpoint.parent) is not None:
        raise InvalidRequest(
            f"{checkpoint} belongs to 'mta run', which records its store and cannot continue "
            "elsewhere: start another run with another --output"
        )
    locate(checkpoint, store)
    ping_home(to or store, write=True)
    made = migration.migrate(
        local_session(), checkpoint, target, store, to=to, buckets=buckets, time_limit=seconds,
        report=lambda line: say(f"          {line}"),
    )  # fmt: skip
    home = without_credentials(to or store)
    states = plural(len(made.snapshots), "bucket")
    say(f"made      {target}, after batch {made.batch}, with {states}")
    say(f"store     {home}")
    say(f"continue  with checkpointLocation {target}, store={home!r} and buckets={made.buckets}")
    say("          After that, do not start the query from the old checkpoint again.")


@spark_errors()
def erase(folder: Path, key: list[str], store: str | None, time_limit: str) -> None:
    """Erase keys from the checkpoint of a stopped query, and what is left of them in the store."""
    seconds, wanted, found = _seconds("--time-limit", time_limit), set(key), set[str]()
    finish_erasure(folder)
    checkpoint, address = locate(folder, store)
    ping_home(address, write=True)

    def erased(each: Any) -> bool:
        text = text_of(each)
        if text in wanted:
            found.add(text)
        return text in wanted

    made = migration.erase(
        local_session(), checkpoint, address, erased, time_limit=seconds,
        report=lambda line: say(f"          {line}"),
    )  # fmt: skip
    say(f"erased    {plural(len(found), 'key')} of {plural(len(wanted), 'key')}, "
        f"after batch {made.batch}")  # fmt: skip
    note_facts(
        store=without_credentials(address), erased=sorted(found), published=[*made.published]
    )
    for text in sorted(wanted - found):
        say(f"          no window has {text!r}")
    for name in made.published:
        say(f"published {name}: readers see the windows without the keys")
    if not is_state_url(address):
        _sweep_erased(address, made)


def finish_erasure(folder: Path) -> None:
    """Finish the replacement of a checkpoint by ``erase`` that was killed."""
    migration.finish(folder if read_job(folder) is None else folder / "checkpoint")


def _sweep_erased(address: str, made: migration.Migrated) -> None:
    """Delete the pages that only the old checkpoint needed, and what is left of deleted pages."""
    with open_store(address) as pages:
        keys = list(pages.keys())
        keyed = [OpaqueKeys(snapshot, pages) for snapshot in made.snapshots.values()]
        live = {page for each in keyed for page in each.live_keys()} | needed_by_published(
            pages, keys
        )
        prefixes = {_prefix(each.name) for each in keyed}
        gone = [page for page in keys if _prefix(page) in prefixes and page not in live]
        pages.delete_many(gone)
        pages.flush()
        pages.compact()
        snapshots.say_store(address)
        say(f"deleted   {plural(len(gone), 'page')}")
        note_facts(deleted=len(gone))


def locate(folder: Path, store: str | None) -> tuple[Path, str]:
    """Return the checkpoint and the store's address of a folder; ping the store."""
    job = read_job(folder)
    checkpoint = folder if job is None else folder / "checkpoint"
    if not folder.is_dir():
        raise InvalidRequest(f"there is no folder {folder}: correct the path")
    if not (checkpoint / "state").is_dir():
        raise InvalidRequest(f"{folder} is neither an output folder of 'mta run' nor a checkpoint")
    if not has_commits(checkpoint):
        raise InvalidRequest(
            f"{folder} has no committed batch yet: run the query until a batch is finished"
        )
    address = store or (job and str(job["store"]))
    if not address:
        raise InvalidRequest("give the store of this checkpoint with --store")
    pages = (folder / "pages").absolute()
    if pages.exists() or address != f"file://{pages}":  # a run with few events writes no pages
        ping_home(address)
    return checkpoint, address
