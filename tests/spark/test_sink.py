"""A Spark stream feeds declared windows, and published queries are read beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from mta import open_published
from mta.client import Client
from mta.errors import PublishConflict
from tests.service.test_service import declared_in
from tests.spark.test_publishing import Cards, wait_for
from tests.support.faulty import eventually
from tests.support.services import Ledger, Serving
from tests.support.spark.jobs import run_to_end

pytest.importorskip("httpx", reason="NOT TESTED: Client.sink: pip install '.[client]'")
USERS = ["a", "b", "c", "ü, x"]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Serving]:
    """Windows of the time of the event, whose ids are recognized for long."""
    path = declared_in(tmp_path, settings='time = "ts"\nretry_for = "1 day"')
    with Serving(path, create=True) as found:
        found.wait_until_all_shards_are_owned()
        yield found


class Payments:
    """A stream of files of payments, and what a list says about them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.ledger = spark, folder, Ledger()
        self._random, self._files, self._second = Random(5), 0, 1_700_000_000
        (folder / "input").mkdir()

    def write(self, count: int = 30) -> None:
        """Write a file, which is one batch; some rows are equal."""
        rows = []
        for _ in range(count):
            self._second += self._random.choice([0, 0, 3, 50])
            user, amount = self._random.choice(USERS), self._random.choice([1, 1, 7, 90])
            self.ledger.judge(user, self._second * 1_000_000, amount)
            rows.append({"user": user, "amount": amount, "ts": float(self._second)})
        self._files += 1
        path = self.folder / "input" / f"{self._files:03}.json"
        path.write_text("\n".join(json.dumps(row) for row in rows))

    def run(self, client: Client, fails_in: int | None = None, after: int = 0) -> None:
        """Run to the end of the input, or until the process fails after some rows of a batch."""
        add = client.sink("payments")

        def sink(frame: DataFrame, batch: int) -> None:
            if batch == fails_in:
                if after:
                    add(frame.limit(after), batch)
                else:
                    add(frame, batch)
                raise OSError("the driver is killed")
            add(frame, batch)

        reader = self.spark.readStream.schema("user string, amount long, ts double")
        stream = reader.option("maxFilesPerTrigger", 1).json(str(self.folder / "input"))
        run_to_end(stream, self.folder / "checkpoint", sink)

    def check(self, client: Client) -> None:
        for user, events in self.ledger.events.items():
            last = {"user": user, "amount": 0, "ts": events[-1][0] / 1e6}
            expected = self.ledger.results([*events, (events[-1][0], 0)])
            assert client.check(last).values == expected


def test_a_stream_counts_once_whatever_is_repeated(
    spark: SparkSession, service: Serving, tmp_path: Path
) -> None:
    payments = Payments(spark, tmp_path)
    with Client(service.url) as client:
        payments.write()
        payments.run(client)
        payments.check(client)
        for after in (0, 11):  # all rows of the batch were added before the failure, and some
            payments.write()
            with pytest.raises(StreamingQueryException, match="the driver is killed"):
                payments.run(client, fails_in=after // 11 + 1, after=after)
            payments.run(client)
            payments.check(client)


def test_published_queries_are_read_beside_and_no_name_has_two_writers(
    spark: SparkSession, service: Serving, tmp_path: Path
) -> None:
    store = f"file://{tmp_path / 'pages'}"
    cards = Cards(spark, tmp_path)
    assert cards.store == store
    cards.write()
    with pytest.raises(PublishConflict, match="'service:spend' publishes under the name 'spend'"):
        cards.run(publish="spend")
    cards.run()
    with cards.reader() as reader:
        wait_for(reader, 0)
        assert cards.check(reader) == 0
    row: dict[str, Any] = {"user": "a", "amount": 5, "ts": 1_700_000_000.0, "id": "1"}
    assert service.add(row).status == 200
    with open_published(store, "spend", refresh=None) as reader:

        def is_read() -> bool:
            reader.refresh()
            return reader.query(["a"])["spent_day"].tolist() == [5]

        eventually(is_read)
    other = declared_in(tmp_path, "cards")
    with pytest.raises(RuntimeError, match=r"'cards' is what .* publishes: a key has one writer"):
        Serving(other, create=True)
