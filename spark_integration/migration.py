"""Create a new checkpoint from a query's old one, with other buckets or in another store.

    old checkpoint                              new checkpoint
    offsets, commits, sources: how far it read  the same files
    state: snapshots by the old buckets    -->  snapshots by the new buckets
    pages in the old store                 -->  pages in the new store

The keys are repartitioned without knowledge of the aggregations (``mta.keyed.repartitioning``).
Spark writes the state: a query over a file with the new snapshots puts them into a temporary
checkpoint. The first version of that state then gets the number of the version that the last old
batch produced. So the next batch has the right number, offsets and state, and each row counts once,
however the sink identifies batches. If the pages go into the state too (``spark://state``), the
file contains them as well.

The first watermark calls each bucket, which then says when it must be called next.

Everything is written in a folder next to the target, which is renamed at the end. Until then the
old checkpoint is the query's checkpoint. After a failure, another attempt writes the same pages.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from math import gcd
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from mta.audit.keyed import OpaqueKeys
from mta.audit.walk import live_keys
from mta.errors import UnsuitableKey
from mta.keyed.repartitioning import repartition
from mta.keyed.snapshot import KeyedSnapshot
from mta.publishing.batches import republish
from mta.publishing.buckets import hasher_of
from mta.publishing.records import What
from mta.windows.opaque import restore_opaque
from spark_integration.checkpoint import (
    last_batch,
    open_home,
    open_pages,
    partitions_of,
    query_id,
    settings_of,
    states_by_bucket,
)
from spark_integration.errors import CorruptState, InvalidRequest, TimeLimitReached
from spark_integration.options import MAX_BUCKETS
from spark_integration.runners.bucket import (
    CHANGELOG,
    PROVIDER,
    ROCKSDB,
    STATE_SCHEMA,
    StateAsGiven,
)
from spark_integration.runners.packing import BLOB, LABEL, LABEL_TYPE, TIME, label_of
from spark_integration.runners.state_pages import KEY, PAGE, is_state_url
from spark_integration.runners.workers import PARTITIONS
from spark_integration.step.states import State
from stores import PageStore, open_store

_AT_ONCE = 256
#: How long Spark may take to write the states, in seconds.
TIME_LIMIT = 1800.0
#: How often progress is reported, in seconds.
PERIOD = 10.0
#: The complete files of version 1 of a state partition, as Spark's two providers write them.
_FIRST = re.compile(r"(\.?)1\.(delta|zip)(\.crc)?")
_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_STOP_TIMEOUT = "spark.sql.streaming.stopTimeout"
Report = Callable[[str], None]
#: The input for Spark: a row for the state of each bucket, and a row for each page in the state.
_ROWS = pa.schema(
    [
        (LABEL, pa.int64()), (TIME, pa.timestamp("us", "UTC")), (BLOB, pa.binary()),
        (KEY, pa.string()), (PAGE, pa.binary()),
    ]
)  # fmt: skip
_TYPES = f"{LABEL} {LABEL_TYPE}, {TIME} timestamp, {BLOB} binary, {KEY} string, {PAGE} binary"


class Migrated(NamedTuple):
    """The result of a migration."""

    batch: int
    """The last batch in the checkpoint."""
    buckets: int
    snapshots: dict[int, bytes]
    """The windows of each bucket that has, or had, keys."""
    published: tuple[str, ...] = ()
    """The published names that were replaced."""


def migrate(  # noqa: PLR0913 (public: explicit keywords)
    spark: SparkSession,
    checkpoint: Path,
    target: Path,
    store: str,
    *,
    to: str | None = None,
    buckets: int | None = None,
    erased: Callable[[Any], bool] | None = None,
    name: str | None = None,
    time_limit: float = TIME_LIMIT,
    report: Report = lambda line: None,
) -> Migrated:
    """Create a checkpoint from which a stopped query continues, in another store or other buckets.

    Reads all tables of keys once or twice and writes them; into another store, it also copies all
    pages of standalone windows. The keys for which ``erased`` returns true are left out. ``name``
    is the last part of the path to which the target is moved later, if it is. ``report`` gets a
    line for each step, and every 10 seconds Spark's progress. Raises InvalidRequest, StateMismatch
    and SnapshotMismatch, TimeLimitReached if Spark takes longer than ``time_limit`` seconds to
    write the states, the errors of damaged pages, and the store's errors. After an error, there is
    no target.
    """
    if to is None and buckets is None and erased is None:
        raise InvalidRequest("nothing to change: give another store, or a number of buckets")
    home = to or store
    batch, in_state = _require_still(checkpoint, target), is_state_url(home)
    if buckets is not None and not 1 <= buckets <= MAX_BUCKETS:
        raise InvalidRequest(f"buckets is {buckets}: it must be between 1 and {MAX_BUCKETS}")
    report(f"Spark reads the state after batch {batch}")
    states = states_by_bucket(spark, checkpoint, store)
    if not states:
        raise InvalidRequest(f"{checkpoint} has no key yet: give the query a new checkpoint")
    before = {bucket: State.decode(state) for bucket, state in states.items()}
    count, fixed, _ = next(iter(before.values()))
    number = buckets or count
    place, step = _placer(fixed, count, number), gcd(count, number)
    draft = target.with_name(f".{target.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    given = draft / ".work" / "rows"
    given.mkdir(parents=True)
    with pq.ParquetWriter(given / "states.parquet", _ROWS) as rows:
        report(f"moving the keys and pages of {len(states)} buckets to {number} buckets")
        snapshots = {bucket: state.snapshot for bucket, state in before.items()}
        with open_pages(spark, checkpoint, store) as source, open_home(home) as pages:
            same = home == store and not in_state
            copy = (lambda snapshot: None) if same else partial(_copy_pages, source, pages)
            repartitioned = repartition(
                snapshots, source, source if same else pages,
                lambda bucket: range(bucket % step, number, step), place, copy, erased,
            )  # fmt: skip
            if in_state:
                _give_pages(rows, repartitioned, pages)
        states = {
            b: State(number, fixed, snapshot).encode() for b, snapshot in repartitioned.items()
        }
        rows.write(_table([(bucket, {BLOB: state}) for bucket, state in states.items()]))
    _copy_logs(checkpoint, draft)
    report(f"Spark writes the state of {len(states)} buckets")
    limit, changes = _Limit(time_limit, report), _changes(checkpoint, in_state, count, number)
    _write_states(spark, draft, name or target.name, batch, home, states, changes, limit)
    if _require_still(checkpoint, target) != batch:
        raise InvalidRequest(f"the query of {checkpoint} is running: stop it, and try again")
    draft.rename(target)
    return Migrated(batch, number, repartitioned)


def _changes(checkpoint: Path, in_state: bool, before: int, buckets: int) -> dict[str, str]:
    """Return the configuration that differs: pages in the state need another provider."""
    changes = {PROVIDER: ROCKSDB} if in_state else {}
    if partitions_of(checkpoint) == before:  # a query with a bucket per partition stays so
        changes[PARTITIONS] = str(buckets)
    return changes


def erase(
    spark: SparkSession,
    checkpoint: Path,
    store: str,
    erased: Callable[[Any], bool],
    *,
    time_limit: float = TIME_LIMIT,
    report: Report = lambda line: None,
) -> Migrated:
    """Replace the checkpoint of a stopped query by one without some keys.

    Costs as much as ``migrate``, and raises its errors. What the query publishes is replaced too,
    before the checkpoint: so readers never see a key again that they have seen erased. If it is
    killed, either checkpoint is there or ``finish`` moves the new one to its place.
    """
    target, old = _beside(checkpoint)
    shutil.rmtree(target, ignore_errors=True)
    made = migrate(
        spark, checkpoint, target, store,
        erased=erased, name=checkpoint.name, time_limit=time_limit, report=report,
    )  # fmt: skip
    if not is_state_url(store):
        with open_store(store) as pages:
            source = query_id(target)
            published = republish(pages, source, made.batch, made.buckets, made.snapshots, _suits)
        made = made._replace(published=published)
    checkpoint.rename(old)
    finish(checkpoint)
    return made


def _suits(snapshot: bytes, what: What) -> bool:
    """Return whether a snapshot has the published aggregations and frames."""
    found = KeyedSnapshot.decode(snapshot)
    frames = {name: frame.fingerprint for name, frame in what.windows}
    own = {name: fingerprint for name, _, fingerprint in found.frames}
    return found.monoid[1] == what.monoid.fingerprint and own == frames


def finish(checkpoint: Path) -> None:
    """Finish a replacement of a checkpoint that was killed between two steps."""
    target, old = _beside(checkpoint)
    if not old.is_dir():
        return
    if target.is_dir():
        if checkpoint.exists():
            raise InvalidRequest(
                f"{checkpoint} was being replaced by {target} when the command was killed, and a "
                f"query has been started without either: stop it, delete {checkpoint}, and run the "
                "command again"
            )
        target.rename(checkpoint)
    shutil.rmtree(old)


def _beside(checkpoint: Path) -> tuple[Path, Path]:
    """Return where a new checkpoint is written, and where the old one is moved."""
    new, old = (checkpoint.with_name(f".{checkpoint.name}.{end}") for end in ("new", "old"))
    return new, old


def _give_pages(rows: pq.ParquetWriter, snapshots: dict[int, bytes], store: PageStore) -> None:
    """Write all pages that the windows of each bucket need."""
    for bucket, snapshot in snapshots.items():
        keys = sorted(set(OpaqueKeys(snapshot, store).live_keys()))
        for at in range(0, len(keys), _AT_ONCE):
            some = keys[at : at + _AT_ONCE]
            pages = zip(some, store.get_many(some), strict=True)
            rows.write(_table([(bucket, {KEY: key, PAGE: page}) for key, page in pages]))


def _table(rows: list[tuple[int, dict[str, Any]]]) -> pa.Table:
    # Not 0, the initial watermark: Spark would drop such rows as late.
    labelled = [{LABEL: label_of(bucket), TIME: 1, **row} for bucket, row in rows]
    return pa.Table.from_pylist(labelled, _ROWS)


def _require_still(checkpoint: Path, target: Path) -> int:
    """Return the last batch of a query; raises InvalidRequest unless it stopped after a batch."""
    started, ended = (last_batch(checkpoint / log) for log in ("offsets", "commits"))
    if ended < 0:
        raise InvalidRequest(f"{checkpoint} has no committed batch: there is nothing to migrate")
    if started != ended:
        raise InvalidRequest(
            f"batch {started} of {checkpoint} is not finished: stop the query, or run it once more "
            "unchanged, with trigger(availableNow=True), to finish the batch"
        )
    if target.exists():
        raise InvalidRequest(f"{target} already exists: name a folder that does not exist")
    others = [each.name for each in (checkpoint / "state").glob("[0-9]*") if each.name != "0"]
    if others:
        raise InvalidRequest(
            f"{checkpoint} belongs to a query with {len(others) + 1} stateful operators: only a "
            "query whose single stateful operator is a sliding_aggregate can be migrated"
        )
    if "stateUniqueIds" in (checkpoint / "commits" / str(ended)).read_text():
        raise InvalidRequest(
            f"{checkpoint} has version 2 of Spark's format, whose states have names that only "
            "Spark knows: start with a new checkpoint, for which recommended_conf() sets version 1"
        )
    return ended


def _placer(fixed: Any, before: int, after: int) -> Callable[[Any], int]:
    """Return a function that returns the new bucket of a key."""
    try:
        hashed = hasher_of([text for what, text in fixed if what == "by" and before != after])
    except UnsuitableKey as error:
        raise InvalidRequest(
            f"buckets: {error}, so the number of buckets cannot be changed, but the store can"
        ) from error
    return lambda key: hashed(key) % after


def _copy_pages(source: PageStore, target: PageStore, window_snapshot: bytes) -> None:
    """Copy the pages of a standalone window to another store."""
    keys = list(live_keys(restore_opaque(window_snapshot, source)))
    for at in range(0, len(keys), _AT_ONCE):
        some = keys[at : at + _AT_ONCE]
        pages = zip(some, source.get_many(some), strict=True)
        target.put_many({key: page for key, page in pages if page is not None})


def _copy_logs(checkpoint: Path, draft: Path) -> None:
    """Copy the progress of the sources, and the identity of the query."""
    for name in ("metadata", ".metadata.crc"):
        if (checkpoint / name).is_file():
            shutil.copy2(checkpoint / name, draft)
    for name in ("offsets", "commits", "sources"):
        if (checkpoint / name).is_dir():
            shutil.copytree(checkpoint / name, draft / name)


# --- Spark's state --------------------------------------------------------------------------------


class _Limit(NamedTuple):
    """The time limit for Spark, and the function that gets its progress."""

    seconds: float
    report: Report

    def wait(self, query: StreamingQuery, spark: SparkSession) -> None:
        """Wait for the end of the query; stop it and raise TimeLimitReached at the limit."""
        started = time.monotonic()
        left = self.seconds
        while not query.awaitTermination(max(min(PERIOD, left), 0.001)):  # type: ignore[arg-type]
            taken = time.monotonic() - started
            left = self.seconds - taken
            if left <= 0:
                # If it does not stop now, it ends later, in a folder that nobody reads.
                with suppress(PySparkException, Py4JError):
                    query.stop()
                raise TimeLimitReached(
                    f"Spark did not write the states within {self.seconds:g} seconds, and was "
                    "stopped: nothing is lost, and the query can continue with the old checkpoint. "
                    "Run mta migrate again with a longer --time-limit, or when the machine has "
                    "less to do"
                )
            self.report(f"Spark writes the states: {_tasks_of(query, spark)}, {taken:.0f} s so far")


def _tasks_of(query: StreamingQuery, spark: SparkSession) -> str:
    tracker = spark.sparkContext.statusTracker()
    jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(str(query.runId)))
    stages = [tracker.getStageInfo(each) for job in jobs if job for each in job.stageIds]
    tasks = sum(stage.numTasks for stage in stages if stage)
    return f"{sum(stage.numCompletedTasks for stage in stages if stage)} of {tasks} tasks done"


def _write_states(
    spark: SparkSession,
    draft: Path,
    folder: str,
    batch: int,
    home: str,
    states: dict[int, bytes],
    changes: dict[str, str],
    limit: _Limit,
) -> None:
    """Write the state of each bucket as Spark stores it after a batch, with changed settings."""
    work, session, in_state = draft / ".work", spark.newSession(), is_state_url(home)
    offsets = draft / "offsets" / str(batch)
    _set(offsets, changes)
    for name, value in settings_of(offsets).items():
        session.conf.set(name, value)
    # Write each version as complete files, which do not contain its number.
    session.conf.set(CHANGELOG, "false")
    session.conf.set(_FORMAT, "1")
    session.conf.set(_STOP_TIMEOUT, "10s")
    session.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    given = session.readStream.schema(_TYPES).parquet(str(work / "rows"))
    made = _put(given.withWatermark(TIME, "0 seconds"), in_state)
    writer = made.writeStream.format("noop").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str((work / "checkpoint").absolute())).start()
    limit.wait(query, session)
    if states_by_bucket(session, work / "checkpoint", home) != states:
        raise CorruptState("Spark did not store the states unchanged; report this as a bug")
    state = draft / "state"
    (work / "checkpoint" / "state").rename(state)
    for path in list(state.glob("0/*/*")):
        if match := _FIRST.fullmatch(path.name):
            kind = "snapshot" if match[2] == "delta" else match[2]
            path.rename(path.with_name(f"{match[1]}{batch + 1}.{kind}{match[3] or ''}"))
    for note in state.glob("0/_metadata/v2/[0-9]*"):  # the note has the paths of the schemas
        text = note.read_text()
        _rewrite(note, text.replace(f"{draft.name}/.work/checkpoint/", f"{folder}/"))
    shutil.rmtree(work)


def _put(given: DataFrame, in_state: bool) -> DataFrame:
    """Return a query that stores its input as the state of each bucket."""
    buckets = given.groupBy(LABEL)
    if in_state:
        return buckets.transformWithStateInPandas(
            StateAsGiven(), f"{LABEL} {LABEL_TYPE}", "append", "EventTime"
        )

    def put(
        key: tuple[Any, ...], parts: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        (value,) = (value for part in parts for value in part.iloc[:, 2])
        state.update((bytes(value),))
        state.setTimeoutTimestamp(1)
        yield from ()

    return buckets.applyInPandasWithState(
        put, f"{LABEL} {LABEL_TYPE}", STATE_SCHEMA, "append", GroupStateTimeout.EventTimeTimeout
    )


def _set(offsets: Path, changes: dict[str, str]) -> None:
    version, header, *rest = offsets.read_text().split("\n")
    content = json.loads(header)
    content["conf"] |= changes
    _rewrite(offsets, "\n".join([version, json.dumps(content), *rest]))


def _rewrite(path: Path, text: str) -> None:
    """Replace one of Spark's files, and remove its checksum."""
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    path.write_text(text)
