"""Features of payment cards from a Spark stream, asked for over HTTP while a payment waits.

A Spark job keeps windows of an hour and a day for each card in Redis and publishes them after each
batch. ``mta serve`` answers from Redis, in a process without Spark. A client asks for the features
of cards at moments of its own, and compares each answer with plain lists of the payments.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession

from mta import Count, Max, Sum, TimeWindow, published_names, unpublish
from spark_integration import sliding_aggregate
from spark_integration.session import local_session
from stores import open_store

START = 1_748_822_400  # 2025-06-02, in seconds
LENGTHS = {"hour": 3600, "day": 86_400}
LATE = 1800


def payments(count: int, cards: int, seed: int = 1) -> pd.DataFrame:
    """Two days of payments, in the order in which they arrive: some half an hour late."""
    random = np.random.default_rng(seed)
    moments = np.sort(random.integers(0, 2 * 86_400, count))
    arrival = moments + np.where(random.random(count) < 0.1, random.integers(0, LATE, count), 0)
    names = np.char.add("card-", random.integers(0, cards, count).astype(str))
    cents = random.lognormal(8, 1, count).astype("int64")
    times = (START + moments).astype("M8[s]").astype("M8[us]")
    rows = pd.DataFrame({"card": names, "time": times, "cents": cents})
    return rows.iloc[np.argsort(arrival, kind="stable")]


def run_batches(spark: SparkSession, folder: Path, store: str, name: str) -> int:
    """Take the files that are there; the number of the last batch."""
    events = spark.readStream.schema("card string, time timestamp, cents bigint")
    features = sliding_aggregate(
        events.option("maxFilesPerTrigger", 1).parquet(str(folder / "incoming")),
        by="card",
        on="time",
        aggregations={
            "payments": Count(),
            "sum": ("cents", Sum("int64")),
            "largest": ("cents", Max("int64")),
        },
        window={name: TimeWindow(length) for name, length in LENGTHS.items()},
        allowed_lateness=LATE,
        emit="last",
        store=store,
        name=name,
        publish=name,
    )
    writer = features.writeStream.format("noop").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    query.awaitTermination()
    return int(query.lastProgress.batchId)


class Client:
    """An application: HTTP and JSON are all that it needs."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.url + path, data, {"Content-Type": "application/json"})
        with urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def wait_for(self, batch: int) -> None:
        """Until a batch is served: a moment after Spark has committed it."""
        deadline = time.monotonic() + 60
        while self.ask("/v1/status")["batch"] < batch:
            if time.monotonic() > deadline:
                raise TimeoutError(f"batch {batch} was not published")
            time.sleep(0.05)


def expected(paid: list[tuple[int, int]], at: int) -> dict[str, Any]:
    """The features of a card at a moment, from all its payments as time and cents."""
    found: dict[str, Any] = {}
    for name, length in LENGTHS.items():
        cents = [cents for moment, cents in paid if at - length < moment <= at]
        found[f"payments_{name}"] = len(cents)
        found[f"sum_{name}"] = sum(cents) if cents else None
        found[f"largest_{name}"] = max(cents, default=None)
    return found


def compare(client: Client, arrived: pd.DataFrame, cards: int, seed: int) -> int:
    """Ask for all cards at moments up to two hours from their newest payments; how many."""
    paid: dict[str, list[tuple[int, int]]] = defaultdict(list)
    seconds = arrived.time.to_numpy().astype("M8[s]").astype("i8")
    for card, moment, cents in zip(arrived.card, seconds.tolist(), arrived.cents, strict=True):
        paid[card].append((moment, int(cents)))
    random = np.random.default_rng(seed)
    keys = [f"card-{number}" for number in range(cards) for _ in range(5) if paid[f"card-{number}"]]
    at = [max(paid[key])[0] + int(random.integers(-LATE, 7200)) for key in keys]
    columns = client.ask("/v1/query", {"keys": keys, "at": at})["columns"]
    for row, (key, moment) in enumerate(zip(keys, at, strict=True)):
        for column, value in expected(paid[key], moment).items():
            assert columns[column][row] == value, (key, moment, column)
    return len(keys)


def wait_until_published(store: str, name: str) -> None:
    """Wait for the first batch: it is published a moment after Spark has committed it."""
    deadline = time.monotonic() + 60
    with open_store(store) as pages:
        while name not in published_names(pages):
            if time.monotonic() > deadline:
                raise TimeoutError(f"nothing was published as {name}")
            time.sleep(0.05)


def start_service(store: str, name: str) -> tuple[subprocess.Popen[bytes], str]:
    """``mta serve`` on a free port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mta", "serve", name, "--store", store, "--quiet"]
    command += ["--port", str(port), "--refresh", "100 ms"]
    return subprocess.Popen(command), f"http://127.0.0.1:{port}"


def wait_until_open(service: subprocess.Popen[bytes], url: str) -> None:
    while True:
        try:
            urlopen(f"{url}/healthz", timeout=10).close()
            return
        except OSError:
            if service.poll() is not None:
                raise RuntimeError("mta serve has ended") from None
            time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", default="redis://localhost:6379/0", help="where Redis is")
    parser.add_argument("--payments", type=int, default=100_000)
    parser.add_argument("--cards", type=int, default=200)
    parser.add_argument("--files", type=int, default=4, help="micro-batches")
    options = parser.parse_args()
    name, sent = f"cards-{uuid.uuid4().hex[:8]}", payments(options.payments, options.cards)
    pieces = np.array_split(np.arange(len(sent)), options.files)
    spark, service = local_session("serving"), None
    with tempfile.TemporaryDirectory() as temporary:
        folder, asked = Path(temporary), 0
        (folder / "incoming").mkdir()
        try:
            for number, piece in enumerate(pieces):
                sent.iloc[piece].to_parquet(folder / "incoming" / f"{number}.parquet", index=False)
                batch = run_batches(spark, folder, options.store, name)
                if service is None:
                    wait_until_published(options.store, name)
                    service, url = start_service(options.store, name)
                    wait_until_open(service, url)
                    client = Client(url)
                    print(f"serving   {name} at {url}")
                client.wait_for(batch)
                count = compare(client, sent.iloc[: piece[-1] + 1], options.cards, number)
                print(f"batch {batch}   {count:,} questions, each answer as a list has it")
                asked += count
            card = client.ask("/v1/windows/card-0")
            print(f"card-0    {json.dumps(card['values'])}")
            print(f"all {asked:,} answers equal a list of the payments")
        finally:
            if service is not None:
                service.terminate()
                service.wait()
            spark.stop()
            with open_store(options.store) as pages:
                unpublish(pages, name)
                pages.delete_many(list(pages.keys(name)))


if __name__ == "__main__":
    main()
