"""``mta gc``: mark and sweep. Pages that no handle of a run names are found, and deleted later.

Such pages are left by tasks that died: pages of a batch whose handle was never committed, and of
events that left, whose deletion was cut short. They are harmless but for the room they take.

A page is deleted when all of this holds, so that no page that is or will be needed ever is:

1. No handle of the last committed batch names it, down to where earlier handles reach back
   (``retain``), nor one of a key that fell silent and whose pages are still to be deleted; that is
   found out twice, when it is noted and when it is deleted.
2. It was noted for the first time at least a grace period ago: a task that was given up, but still
   runs, may still be writing.
3. Every batch that had begun when it was noted has been committed since. A batch that broke off is
   run again and writes the same pages under the same keys, however long ago it did so first.
4. Every inner page of its window can be read; else nobody knows what its window needs.

When each page was first seen is noted in ``gc.json`` in the output folder.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from mta import describe_handle
from mta.audit.walk import live_keys
from mta.cli.console import human_bytes, plural, say
from mta.errors import CorruptPage, MissingPage
from mta.times import to_duration
from spark_integration.carriers.state_pages import is_state_url
from spark_integration.cli.checking import windows_of
from spark_integration.cli.failures import spark_errors
from spark_integration.cli.inspection import handles_in, locate, saved_states
from spark_integration.cli.job import without_credentials
from spark_integration.errors import InvalidRequest
from spark_integration.step.states import read_doomed
from stores import PageStore, open_store

NOTE = "gc.json"
_EXAMPLES = 5
_BATCH = 256


@dataclass(frozen=True)
class Sighting:
    """When a page was first seen that no handle names, and the last batch that had begun then."""

    seconds: float
    batch: int


@spark_errors()
def collect(
    folder: Path,
    store_url: str | None,
    delete: bool,
    grace: str,
    spark: Callable[[], SparkSession],
) -> None:
    """Note the pages that no handle names, print them, and delete those that have been so long.

    Lists the store's keys, and reads every inner page, and the pages found once for their size.
    """
    checkpoint, address = locate(folder, store_url)
    if is_state_url(address):
        say(f"store     {address}: nothing to collect. Pages of a batch that was not committed")
        say("          went with it, and Spark deletes those of old batches with their state.")
        return
    patience = _seconds(grace)
    with open_store(address) as store:
        # In this order: a page in the list was written by a batch that had begun by then.
        keys = list(store.keys())
        begun, committed = last_batch(checkpoint / "offsets"), last_batch(checkpoint / "commits")
        states = saved_states(spark(), checkpoint, address)
        handles = handles_in(states)
        doomed = [("", handle) for state in states for handle in read_doomed(state)]
        live, damaged = _mark(folder, handles, doomed, store)
        prefixes = {_prefix(describe_handle(handle).window) for _, handle in handles + doomed}
        orphans = [key for key in keys if _prefix(key) in prefixes and key not in live]
        unsure = [key for key in orphans if key.partition("/")[0] in damaged]
        orphans = [key for key in orphans if key.partition("/")[0] not in damaged]
        now = time.time()
        sightings = note(folder / NOTE, orphans, Sighting(now, begun))
        ripe = [
            key
            for key in orphans
            if sightings[key].batch <= committed and sightings[key].seconds <= now - patience
        ]
        say(f"store     {without_credentials(address)}: {plural(len(keys), 'page')}")
        say(f"windows   {plural(len(handles), 'key')}, {plural(len(live), 'page')} needed")
        tell_unneeded(store, orphans)
        for window, error in damaged.items():
            say(f"left out  {window}: {error}; see 'mta check'")
        if unsure:
            say(f"left out  {plural(len(unsure), 'page')} of damaged windows")
        if delete:
            store.delete_many(ripe)
            store.flush()
            note(folder / NOTE, sorted(set(orphans) - set(ripe)), Sighting(now, begun))
        done = "deleted" if delete else "to delete"
        say(f"{done:9} {plural(len(ripe), 'page')}, seen unneeded for {grace} or more")
        if not delete and ripe:
            say("nothing was deleted: --delete does")


def note(path: Path, orphans: Iterable[str], now: Sighting) -> dict[str, Sighting]:
    """When each page was first seen, of those that are still unneeded; kept in the file."""
    earlier: dict[str, list[float]] = json.loads(path.read_text()) if path.is_file() else {}
    first = {
        key: Sighting(earlier[key][0], int(earlier[key][1])) if key in earlier else now
        for key in orphans
    }
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps({key: [s.seconds, s.batch] for key, s in first.items()}) + "\n")
    draft.replace(path)
    return first


def last_batch(log: Path) -> int:
    """The number of the newest batch in one of Spark's logs, -1 for none."""
    return max(
        (int(entry.name) for entry in log.glob("[0-9]*") if entry.name.isdecimal()), default=-1
    )


def _mark(
    folder: Path,
    handles: list[tuple[str, bytes]],
    doomed: list[tuple[str, bytes]],
    store: PageStore,
) -> tuple[set[str], dict[str, str]]:
    """The pages that the windows need, and which windows cannot tell, and why."""
    live: set[str] = set()
    damaged: dict[str, str] = {}
    for at, (_, windows) in enumerate(windows_of(folder, handles + doomed, store)):
        events = windows.engine.structure
        try:
            if at >= len(handles):
                events.evict_to(events.back)  # some of its pages may be gone already
            live.update(live_keys(windows))
        except (MissingPage, CorruptPage) as error:
            damaged[windows.engine.name] = str(error)
    return live, damaged


def _prefix(key: str) -> str:
    """What the names of all windows of one query begin with: its id and its plan."""
    return key.partition(":")[0]


def tell_unneeded(store: PageStore, orphans: list[str]) -> None:
    """Print how many pages nobody needs, and some of them; reads them for their size."""
    size = sum(
        len(page or b"")
        for start in range(0, len(orphans), _BATCH)
        for page in store.get_many(orphans[start : start + _BATCH])
    )
    say(f"unneeded  {plural(len(orphans), 'page')}, {human_bytes(size)}")
    for key in orphans[:_EXAMPLES]:
        say(f"          {key}")


def _seconds(grace: str) -> float:
    try:
        return to_duration(grace) / 1e6
    except ValueError as error:
        raise InvalidRequest(f"--grace {grace!r}: write '1 hour' or '90 seconds'") from error
