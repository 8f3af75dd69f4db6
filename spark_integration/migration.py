"""A query's checkpoint made anew, with other buckets, in another store, or with other timers.

    checkpoint of before                        checkpoint to go on with
    offsets, commits, sources: how far it read  the same files
    state: roots by the buckets of before  -->  roots by the buckets of today
    pages in the store of before           -->  pages in the store of today

The keys are dealt out without a look at what is computed (``mta.keyed.dealing``). The state is
written by Spark: a query over a file with the new roots puts them into a checkpoint of its own,
whose first version then gets the number that the last batch of before has led to. So the next batch
has its own number, offsets and state, and each row counts once, whatever the sink notes of batches.

All is made in a folder beside the new one, which is renamed at the end. Until then the old one is
the query; to try again, after whatever broke off, writes the same pages.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from math import gcd
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from mta.audit.walk import live_keys
from mta.keyed.dealing import deal
from mta.windows.opaque import restore_opaque
from spark_integration.carriers.packing import BLOB, BUCKET, TIME
from spark_integration.carriers.state_pages import is_state_url
from spark_integration.carriers.streaming import STATE_SCHEMA
from spark_integration.checkpoint import is_timed, last_batch, open_pages, states_by_bucket
from spark_integration.errors import InvalidRequest
from spark_integration.options import MAX_BUCKETS
from spark_integration.plan import Silent
from spark_integration.step.hashes import hasher_of
from spark_integration.step.states import encode_root, read_fixed
from stores import PageStore, open_store

_AT_ONCE = 256
#: Version 1 of a state partition, as Spark's two providers write it whole.
_FIRST = re.compile(r"(\.?)1\.(delta|zip)(\.crc)?")
_ROCKSDB = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_ROWS = pa.schema([(BUCKET, pa.int32()), (BLOB, pa.binary()), (TIME, pa.timestamp("us", "UTC"))])


class Migrated(NamedTuple):
    """What was made."""

    batch: int
    """The last batch that it has."""
    buckets: int
    timed: bool
    states: int
    """Buckets that have keys, or had some."""


def migrate(
    spark: SparkSession,
    checkpoint: Path,
    target: Path,
    store: str,
    *,
    to: str | None = None,
    buckets: int | None = None,
    silent: Silent | None = None,
) -> Migrated:
    """Make a checkpoint from which a stopped query goes on, with what is given in place of its own.

    ``silent`` is that of the query to come. Reads all tables of keys once or twice and writes them;
    into another store also all pages of windows by themselves. Raises InvalidRequest, StateMismatch
    and HandleMismatch, what damaged pages raise, and the store's errors; then there is no target.
    """
    home = to or store
    batch = _require_still(checkpoint, target)
    if is_state_url(home):
        raise InvalidRequest(
            f"the pages would be in Spark's own state ({home}), which only the query itself can "
            "write: choose a store with --to, or begin with a new checkpoint and start_from"
        )
    if buckets is not None and not 1 <= buckets <= MAX_BUCKETS:
        raise InvalidRequest(f"buckets is {buckets}: it must be between 1 and {MAX_BUCKETS}")
    timed = is_timed(checkpoint) if silent is None else silent != "keep"
    states = states_by_bucket(spark, checkpoint, store)
    if not states:
        raise InvalidRequest(f"{checkpoint} has no key yet: give the query a new checkpoint")
    before = {bucket: read_fixed(state) for bucket, state in states.items()}
    count, fixed, _ = next(iter(before.values()))
    number = buckets or count
    if number != count or home != store:
        roots = {bucket: root for bucket, (_, _, root) in before.items()}
        with open_pages(spark, checkpoint, store) as source, open_store(home) as pages:
            place, into = _places(fixed, count, number)
            same = home == store
            dealt = deal(
                roots, source, pages if not same else source, into, place,
                (lambda handle: None) if same else _bringer(source, pages),
            )  # fmt: skip
        states = {bucket: encode_root(root, number, fixed) for bucket, root in dealt.items()}
    draft = target.with_name(f".{target.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    _copy_logs(checkpoint, draft)
    _write_states(spark, draft, states, timed, batch)
    if _require_still(checkpoint, target) != batch:
        raise InvalidRequest(f"the query of {checkpoint} has gone on: stop it, and try again")
    draft.rename(target)
    return Migrated(batch, number, timed, len(states))


def _require_still(checkpoint: Path, target: Path) -> int:
    """The last batch of a query that has stopped between two batches."""
    begun, ended = (last_batch(checkpoint / log) for log in ("offsets", "commits"))
    if ended < 0:
        raise InvalidRequest(f"{checkpoint} has no committed batch: nothing is to be kept")
    if begun != ended:
        raise InvalidRequest(
            f"batch {begun} of {checkpoint} has begun and not ended: stop the query, or start it "
            "once more as it was, with trigger(availableNow=True), so that it ends"
        )
    if target.exists():
        raise InvalidRequest(f"{target} is there already: name a folder that is not")
    others = [each.name for each in (checkpoint / "state").glob("[0-9]*") if each.name != "0"]
    if others:
        raise InvalidRequest(
            f"{checkpoint} is of a query with {len(others) + 1} operators that have a state: "
            "only that of one sliding_aggregate by itself can be made anew"
        )
    if "stateUniqueIds" in (checkpoint / "commits" / str(ended)).read_text():
        raise InvalidRequest(
            f"{checkpoint} is of version 2 of Spark's format, whose states have names that only "
            "Spark knows: recommended_conf() sets version 1, for a new checkpoint"
        )
    return ended


def _places(
    fixed: Any, before: int, after: int
) -> tuple[Callable[[bytes], int], Callable[[int], Iterator[int]]]:
    """Which new bucket has a key, and which ones may have keys of an old one."""
    step = gcd(before, after)

    def into(bucket: int) -> Iterator[int]:
        return iter(range(bucket % step, after, step))

    hashed = hasher_of([text for what, text in fixed if what == "key"] if before != after else [])
    return (lambda key: hashed(key) % after), into


def _bringer(source: PageStore, target: PageStore) -> Callable[[bytes], None]:
    """What copies the pages of a window by itself from one store to another."""

    def bring(handle: bytes) -> None:
        keys = list(live_keys(restore_opaque(handle, source)))
        for at in range(0, len(keys), _AT_ONCE):
            some = keys[at : at + _AT_ONCE]
            pages = zip(some, source.get_many(some), strict=True)
            target.put_many({key: page for key, page in pages if page is not None})

    return bring


def _copy_logs(checkpoint: Path, draft: Path) -> None:
    """How far the query has read its sources, and who it is."""
    for name in ("metadata", ".metadata.crc"):
        if (checkpoint / name).is_file():
            shutil.copy2(checkpoint / name, draft)
    for name in ("offsets", "commits", "sources"):
        if (checkpoint / name).is_dir():
            shutil.copytree(checkpoint / name, draft / name)


# --- Spark's state --------------------------------------------------------------------------------


def _write_states(
    spark: SparkSession, draft: Path, states: dict[int, bytes], timed: bool, batch: int
) -> None:
    """The state of each bucket, as Spark has it after a batch."""
    work = draft / ".work"
    (work / "rows").mkdir(parents=True)
    rows = [{BUCKET: bucket, BLOB: state, TIME: 0} for bucket, state in sorted(states.items())]
    pq.write_table(pa.Table.from_pylist(rows, _ROWS), work / "rows" / "states.parquet")
    header = (draft / "offsets" / str(batch)).read_text().splitlines()[1]
    session = spark.newSession()
    for name, value in json.loads(header)["conf"].items():
        session.conf.set(name, value)
    # Each version whole in its own files, which say nothing of their number.
    session.conf.set(_ROCKSDB, "false")
    session.conf.set(_FORMAT, "1")
    session.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    frame = session.readStream.schema(f"{BUCKET} int, {BLOB} binary, {TIME} timestamp")
    given = frame.parquet(str(work / "rows"))
    if timed:
        given = given.withWatermark(TIME, "0 seconds")

    def put(
        key: tuple[Any, ...], parts: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        (value,) = (value for part in parts for value in part.iloc[:, 1])
        state.update((bytes(value),))
        if timed:
            state.setTimeoutTimestamp(1)  # the bucket is called, and says when it is next
        yield from ()

    timeout = GroupStateTimeout.EventTimeTimeout if timed else GroupStateTimeout.NoTimeout
    made = given.groupBy(BUCKET).applyInPandasWithState(
        put, f"{BUCKET} int", STATE_SCHEMA, "append", timeout
    )
    writer = made.writeStream.format("noop").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str((work / "checkpoint").absolute())).start()
    query.awaitTermination()
    state = draft / "state"
    (work / "checkpoint" / "state").rename(state)
    for path in list(state.glob("0/*/*")):
        if match := _FIRST.fullmatch(path.name):
            kind = "snapshot" if match[2] == "delta" else match[2]
            path.rename(path.with_name(f"{match[1]}{batch + 1}.{kind}{match[3] or ''}"))
    shutil.rmtree(work)
