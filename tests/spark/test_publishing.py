"""What a query publishes is what lists say as of the committed batch, whatever happens to it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mta import CountWindow, Max, open_published, published_names
from mta.errors import EventsGone, NotPublished, StoreUnavailable, UnsuitableKey
from mta.published import PublishedWindows
from mta.publishing import batches
from spark_integration import delete_history, publishing, save_history, sliding_aggregate
from spark_integration.errors import InvalidRequest
from stores import PageStore, open_store
from tests.support.documents import ROOT
from tests.support.faulty import eventually
from tests.support.patience import LONG
from tests.support.published import agrees
from tests.support.sampling import REST
from tests.support.spark.asking import KEYS, START
from tests.support.spark.cards import LATE, SCHEMA, CardFiles, options, reader_of, results
from tests.support.spark.jobs import run_to_end
from tests.support.spark.session import quick_environment


class Cards(CardFiles):
    """Cards as a stream of the tests' own session."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        super().__init__(folder, f"file://{folder}/pages")
        self.spark = spark

    def options(self, **changes: Any) -> dict[str, Any]:
        return {**options(self.store), **changes}

    def results(self, **changes: Any) -> DataFrame:
        return results(self.spark, self.folder, **self.options(**changes))

    def run(self, fails_at: int | None = None, **changes: Any) -> None:
        """Run to the end of the input, or until the sink fails in a batch."""

        def sink(frame: DataFrame, batch: int) -> None:
            frame.collect()
            if batch == fails_at:
                raise OSError("the sink is down")

        run_to_end(self.results(**changes), self.folder / "checkpoint", sink)

    def reader(self) -> PublishedWindows:
        return reader_of(self.store, "cards")

    def check(self, reader: PublishedWindows) -> int:
        """Compare all keys with lists as of the batch that is read; return the batch."""
        batch = reader.status().batch
        found = reader.query(KEYS)
        for place, (key, expected) in enumerate(
            zip(KEYS, self.as_of[batch]["at newest"], strict=True)
        ):
            row = {name: column[place] for name, column in found.items()}
            assert agrees(row, expected), (batch, key)
        return batch


def wait_for(reader: PublishedWindows, batch: int) -> None:
    eventually(lambda: reader.status().batch >= batch or (reader.refresh() and False))
    assert reader.status().batch == batch


@pytest.fixture
def cards(spark: SparkSession, tmp_path: Path) -> Cards:
    return Cards(spark, tmp_path)


@pytest.mark.soak
def test_readers_see_each_committed_batch_whole_while_the_query_runs_fails_and_restarts(
    cards: Cards, monkeypatch: pytest.MonkeyPatch
) -> None:
    cards.write()
    cards.run()
    reader, seen, errors, done = cards.reader(), set[int](), [], threading.Event()
    wait_for(reader, 0)

    def read() -> None:
        is_last = False
        with cards.reader() as own:
            while not is_last:
                is_last = done.wait(0.02)
                try:
                    own.refresh()
                    seen.add(cards.check(own))
                except BaseException as error:
                    errors.append(error)
                    return

    thread = threading.Thread(target=read)
    thread.start()
    try:
        eventually(lambda: seen or errors)
        for _ in range(3):
            cards.write()
        with pytest.raises(StreamingQueryException, match="the sink is down"):
            cards.run(fails_at=2)  # its pages and snapshots are written, and not committed
        wait_for(reader, 1)
        assert cards.check(reader) == 1
        cards.run()
        wait_for(reader, 3)
        assert cards.check(reader) == 3

        # The driver cannot put the head of a few batches: readers stay at the one before, whose
        # pages are not deleted meanwhile.
        with monkeypatch.context() as patch:
            patch.setattr(batches, "replace_head", _fail)
            for _ in range(3):
                cards.write()
            cards.run()
            time.sleep(0.5)
            reader.refresh()
            assert cards.check(reader) == 3
        cards.write(keys=KEYS[:1])
        cards.run()  # brings all of them
        wait_for(reader, 7)
        assert cards.check(reader) == 7
    finally:
        done.set()
        thread.join()
    assert not errors, errors
    assert seen >= {0, 7}
    _check_moments(cards, reader)
    _check_records(cards)


def _fail(*args: Any) -> None:
    raise StoreUnavailable("the store is down")


def _check_moments(cards: Cards, reader: PublishedWindows) -> None:
    """Any moment that is retained is answered from the events that are known now."""
    answered = 0
    for key in KEYS:
        newest = cards.lists.events[key][-1][0]
        for at in range(newest - 3 * LATE, newest + 400, 17):
            try:
                found = reader.query(key, at=START + timedelta(seconds=at))
            except EventsGone:
                assert at < newest
                continue
            answered += 1
            assert agrees(found, cards.lists.query(key, at=at))
        held = reader.events(key)
        assert held["v"].tolist() == [v for _, v in cards.lists.events[key]][-len(held["v"]) :]
    assert answered > 100
    for wrong in ("card 1", ("card 1", "2"), ("card 1", 2, 3)):
        with pytest.raises(UnsuitableKey):
            reader.query(wrong)
    status = reader.status()
    assert status.key_columns == (("card", "string"), ("shop", "int"))
    assert status.keys == len(KEYS) and status.unpublished_buckets == 0


def _check_records(cards: Cards) -> None:
    """Nothing is left but what the head names."""
    with open_store(cards.store) as store:
        names = [key.split("/")[1] for key in store.keys("publish:cards/")]
        assert names.count("head") == 1 and "written" not in names
        assert names.count("snapshot") <= 4 * 3
        assert published_names(store) == ["cards"]


def test_a_batch_that_spark_has_not_reported_is_published_at_the_end_of_the_program(
    cards: Cards, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark reports a batch a moment after ``awaitTermination`` returns."""
    reports: list[Any] = []
    with monkeypatch.context() as patch:
        patch.setattr(
            publishing._Committed, "onQueryProgress", lambda _, event: reports.append(event)
        )
        patch.setattr(publishing._Committed, "onQueryTerminated", lambda *_: None)
        for _ in range(2):
            cards.write()
            cards.run()
        with pytest.raises(NotPublished):
            open_published(cards.store, "cards")
        publishing.publish_last()
        with open_published(cards.store, "cards", refresh=None) as reader:
            assert cards.check(reader) == 1
            # Reports that come late, and a second exit, change nothing.
            eventually(lambda: len([each for each in reports if _has_batch(each)]) == 2)
            patch.undo()
            listener = publishing._listeners[cards.spark]
            for report in reports:
                listener.onQueryProgress(report)
            for each in listener.plans.values():
                each.wait("", LONG)
            publishing.publish_last()
            reader.refresh()
            assert cards.check(reader) == 1


def _has_batch(report: Any) -> bool:
    return "addBatch" in report.progress.durationMs


@pytest.mark.soak
def test_a_program_that_ends_right_after_its_query_has_published_its_last_batch(
    tmp_path: Path,
) -> None:
    program = f"""
from mta import CountWindow, Max
from spark_integration import sliding_aggregate
from spark_integration.session import local_session

spark = local_session(cores=1)
rows = spark.range(100).selectExpr("id % 3 key", "timestamp_seconds(id) ts", "id * 1.0d v")
rows.write.parquet("in")
results = sliding_aggregate(
    spark.readStream.schema(rows.schema).parquet("in"), by="key", on="ts",
    aggregations={{"peak": ("v", Max())}}, window=CountWindow(9), store="file://{tmp_path}/pages",
    publish="peaks",
)
writer = results.writeStream.option("checkpointLocation", "checkpoint").format("noop")
writer.trigger(availableNow=True).start().awaitTermination()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, **quick_environment(), "PYTHONPATH": str(ROOT)}, timeout=10 * LONG,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with open_published(f"file://{tmp_path}/pages", "peaks") as reader:
        assert reader.query([0, 1, 2])["peak"].tolist() == [99.0, 97.0, 98.0]


def test_a_store_that_is_down_delays_the_publishing_of_no_other_query(
    cards: Cards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Cards(cards.spark, tmp_path / "other")
    with open_store(other.store) as store:
        hung = store.url
    answers, committed = threading.Event(), batches.BatchPublisher.committed

    def slowly(publisher: batches.BatchPublisher, store: PageStore, *batch: Any) -> Any:
        if store.url == hung:
            answers.wait(LONG)
        return committed(publisher, store, *batch)

    monkeypatch.setattr(batches.BatchPublisher, "committed", slowly)
    monkeypatch.setattr(publishing, "AT_THE_END", 0.1)
    try:
        for each in (other, cards):
            each.write()
            each.run()
        with cards.reader() as reader:
            assert cards.check(reader) == 0
        with pytest.raises(NotPublished):
            open_published(other.store, "cards")
    finally:
        answers.set()
    with other.reader() as reader:
        assert other.check(reader) == 0


def test_a_query_that_begins_to_publish_later_says_which_keys_are_not_known_yet(
    cards: Cards,
) -> None:
    cards.write()
    cards.run(publish=None)
    with pytest.raises(NotPublished):
        open_published(cards.store, "cards")
    cards.write(keys=KEYS[:1])
    cards.run()
    reader = cards.reader()
    assert reader.status().unpublished_buckets == 3
    assert agrees(reader.query(KEYS[0]), cards.as_of[1]["at newest"][0])
    with pytest.raises(NotPublished, match="has had no rows since"):
        reader.query(KEYS)
    cards.write(rows=200)
    cards.run()
    wait_for(reader, 2)
    assert cards.check(reader) == 2


def test_a_history_is_published_and_the_stream_that_starts_from_it_takes_over(
    cards: Cards,
) -> None:
    cards.write()
    cards.write()
    history = cards.spark.read.schema(SCHEMA).parquet(f"{cards.folder}/input")
    until = START + timedelta(seconds=cards.clock + 1)
    options = cards.options()
    made = save_history(history.where(~F.col("undo")), "past", until=until, **options)
    with cards.reader() as reader:
        assert reader.status().source == "start.past" and reader.status().keys == len(KEYS)
        for path in (cards.folder / "input").iterdir():
            path.unlink()
        cards.write(keys=KEYS[:1])
        cards.run(start_from=made)
        eventually(lambda: reader.refresh() and reader.status().source != "start.past")
        assert reader.status().batch == 0
        assert reader.status().keys == len(KEYS) and reader.status().unpublished_buckets == 0
        assert reader.query(KEYS[0])["events_five"] == 5
    assert delete_history(made)


@REST
def test_keys_of_all_types_are_found(spark: SparkSession, tmp_path: Path) -> None:
    keys: dict[str, list[Any]] = {
        "boolean": [True, False],
        "tinyint": [-128, 5],
        "bigint": [2**62, -1],
        "float": [0.1, -0.0],
        "double": [0.1, 1e300],
        "date": [datetime(1969, 5, 1).date(), datetime(2024, 2, 29).date()],
        "timestamp": [datetime(2024, 2, 29, 12, 30, 1, 5, tzinfo=UTC), START],
        "timestamp_ntz": [datetime(1960, 2, 29, 12, 30), datetime(2024, 1, 1)],
        "decimal(10,2)": [Decimal("1.50"), Decimal("-3")],
        "decimal(38,9)": [Decimal("0.000000001"), Decimal(10) ** 20],
        "string": ["", "ä€"],
        "binary": [b"", b"\0x"],
    }
    for kind, values in keys.items():
        folder = tmp_path / kind.partition("(")[0] / str(len(kind))
        rows = [(value, 1, number) for number, value in enumerate(values)]
        frame = spark.createDataFrame(rows, f"k {kind}, ts int, v long")
        options = {
            "by": "k", "on": "ts", "aggregations": {"peak": ("v", Max())}, "publish": "keys",
            "window": CountWindow(2), "store": f"file://{folder}", "buckets": 3,
        }  # fmt: skip
        save_history(frame, "keys", until=10, **options)
        with open_published(f"file://{folder}", "keys") as reader:
            assert reader.query(values)["peak"].tolist() == [0, 1], kind
            assert reader.query(values[1]) == {"peak": 1}


def test_what_cannot_be_published_is_refused(cards: Cards) -> None:
    cards.write()
    for store in ("spark://state", "memory://"):
        with pytest.raises(InvalidRequest, match="no other process can reach the store"):
            cards.results(store=store)
    with pytest.raises(InvalidRequest, match="a published name is"):
        cards.results(publish="a/b")
    batch = cards.spark.read.schema(SCHEMA).parquet(f"{cards.folder}/input")
    with pytest.raises(InvalidRequest, match="save_history publishes"):
        sliding_aggregate(batch, **cards.options())
