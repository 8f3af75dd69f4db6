"""A start: windows of history in a store, from which a stream continues.

    key of a bucket = "start." name "/" bucket
    its page        = body digest (as of ``mta.pages``), of
                      [ "mta-start", 1, buckets, until, fixed, snapshot ]
    until           = microseconds since 1970, the cutover: rows before it are in the windows, and
                      the rows of the stream begin with it; nil if there is none
    fixed           = as in a state (``states``)
    snapshot        = bytes that ``KeyedWindows.checkpoint`` returned; empty if the bucket has no
                      keys
    key of the whole = "start." name "/whole", a page like the others without snapshot, written last

When a bucket without a state gets its first rows, it continues from its start: it writes everything
in the start under the query's names to the query's store. So any number of queries can use one
start, which stays in its store until you delete it (``delete_history``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

from mta.errors import MissingPage
from mta.keyed.changes import side_by_side
from mta.pages import corrupt
from mta.snapshots import seal, unseal
from spark_integration.errors import StateMismatch
from spark_integration.plan import Plan
from spark_integration.step.rows import Timed
from spark_integration.step.states import Fixed, is_pair_of_texts
from stores import open_store
from stores.base import PageStore

MAGIC, VERSION = "mta-start", 1
#: The prefix of the names of the windows of a start.
PREFIX = "start."


class SavedStart(NamedTuple):
    """The content of a page of a start."""

    buckets: int
    until: int | None
    fixed: list[tuple[str, str]]
    snapshot: bytes = b""

    def encode(self) -> bytes:
        return seal(MAGIC, VERSION, [*self])


def put_starts(store: PageStore, name: str, starts: dict[int, SavedStart]) -> None:
    """Write the pages of some buckets, and flush the store."""
    store.put_many({_key(name, bucket): start.encode() for bucket, start in starts.items()})
    store.flush()


def begin(store: PageStore, name: str) -> None:
    """Mark a start as incomplete until ``finish`` is called."""
    store.delete_many([_key(name, "whole")])
    store.flush()


def finish(store: PageStore, name: str, start: SavedStart, made: Sequence[int]) -> None:
    """Mark a start as complete; buckets that were not written have no keys."""
    bare = start._replace(snapshot=b"")
    rest = [bucket for bucket in range(start.buckets) if bucket not in set(made)]
    for at in range(0, len(rest), 256):
        put_starts(store, name, dict.fromkeys(rest[at : at + 256], bare))
    store.put_many({_key(name, "whole"): bare.encode()})
    store.flush()


def read_start(store: PageStore, name: str, bucket: int | None = None) -> SavedStart:
    """Return the start of a bucket, or the common one. Raises MissingPage and CorruptSnapshot."""
    key = _key(name, "whole" if bucket is None else bucket)
    data = store.get_many([key])[0]
    if data is None:
        raise MissingPage(
            f"there is no complete start {name!r} in {store.url} (page {key}): make it with "
            "save_history, or give the store that has it"
        )
    return unseal(data, MAGIC, VERSION, "a start", _validated)


def pages_of(store: PageStore, name: str) -> list[str]:
    """Return all pages of a start; lists the store's keys. Raises MissingPage if there are none."""
    own = re.escape(PREFIX + name)
    ours = re.compile(rf"{own}/(\d+|whole)|{own}\.[0-9a-f]{{8}}[:/].*")
    found = [key for key in store.keys(PREFIX + name) if ours.fullmatch(key)]
    if not found:
        raise MissingPage(f"there is no start {name!r} in {store.url}: give the store that has it")
    return found


@contextmanager
def snapshot_of(plan: Plan, store: PageStore) -> Iterator[tuple[bytes, PageStore] | None]:
    """Yield the snapshot from which a plan's bucket starts and the store of its pages, or None."""
    asked = plan.start
    if asked is None:
        yield None
        return
    with nullcontext(store) if asked.store == plan.store else open_store(asked.store) as pages:
        start = read_start(pages, asked.name, plan.bucket)
        require_suitable(start, asked.name, plan.buckets, plan.fixed)
        yield (start.snapshot, pages) if start.snapshot else None


def after_cutover(timed: Timed, plan: Plan) -> Timed:
    """Return the rows that are not already in the start."""
    if plan.start is None or plan.start.until is None:
        return timed
    return timed.take(timed.times >= plan.start.until)


def require_suitable(start: SavedStart, name: str, buckets: int, fixed: Fixed) -> None:
    """Raises StateMismatch if a start has other keys, times or another number of buckets."""
    old = [("buckets", str(start.buckets)), *start.fixed]
    new = [("buckets", str(buckets)), *fixed]
    if old != [*map(tuple, new)]:
        shown = side_by_side(old, new, ("the start", "the query"))
        raise StateMismatch(
            f"the start {name!r} does not match this query: save it with the query's settings, or "
            f"use the settings of the start\n{shown}"
        )


def _key(name: str, bucket: int | str) -> str:
    return f"{PREFIX}{name}/{bucket}"


def _validated(values: list[Any]) -> SavedStart:
    match values:
        case [int(buckets), int() | None as until, list(fixed), bytes(snapshot)]:
            if all(map(is_pair_of_texts, fixed)):
                return SavedStart(buckets, until, [(what, text) for what, text in fixed], snapshot)
    raise corrupt("its fields have the wrong types")
