"""Reads of published windows compared with handwritten code, over Redis on this host.

There are three aggregations over three windows, and a million keys with 20 events each. A
separate process reads one key at a time, a thousand keys together, and without a cache. There are
two rivals on the same server. One is a sorted set per key (handwritten): ``ZRANGEBYSCORE`` returns
the events of the longest window, and the client folds them. The other is a ``GET`` of a finished
value, which is the least possible time. The experiment also measures the time that publishing adds
to the writer's batches.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from struct import Struct
from time import perf_counter
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks.ours.resident import anonymous
from benchmarks.ours.serving_http import RATE, paced, requests
from benchmarks.papers.server import redis_server
from benchmarks.report.experiment import Experiment, Finding, Progress, Row, Rows
from benchmarks.report.plots import grouped_bars
from mta import Count, KeyedWindows, Max, Product, Sum, TimeWindow, open_published

KEYS, EVENTS, AT_ONCE, ASKED = 10**6, 20, 1000, 5000
#: A lookup reads a page of each run, so served windows have small pages.
PAGE = 1 << 12
#: The number of keys of the rivals; sorted sets of all keys take too much memory.
RIVALS = 50_000
BEGIN, STEP = 1_700_000_000, 8 * 3600
LENGTHS = {"hour": 3600, "day": 86_400, "week": 7 * 86_400}
_EVENT = Struct("<qd")
_MIB, _BATCHES = 1 << 20, 8
#: How often a batch contains each key while windows are filled; it writes each page once.
_ROUNDS = 5


def aggregations() -> Product:
    """Return three aggregations of the amounts of payments."""
    return Product({"payments": Count(), "spent": ("amount", Sum()), "largest": ("amount", Max())})


def windows() -> dict[str, TimeWindow]:
    """Return three windows, which share their events."""
    return {name: TimeWindow(length) for name, length in LENGTHS.items()}


def serving(size: float, progress: Progress) -> Rows:
    """Measure a row for each kind of read, and one for the writer's cost of publishing."""
    return progress.rows([max(1000, int(KEYS * size))], _measured, lambda keys: f"{keys:,} keys")


def _measured(keys: int) -> Rows:
    with redis_server() as url:
        rows = [_write(url, keys)]
        _fill_rivals(url, min(keys, RIVALS))
        command = [sys.executable, "-m", "benchmarks.ours.serving", url, str(keys)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        read: Rows = json.loads(done.stdout)
        over_http = [{**row, "keys": keys} for row in requests(url, "cards", keys)]
        return rows + read + over_http


def _write(url: str, keys: int) -> Row:
    """Fill the windows; then measure the time that publishing adds to a batch."""
    cards = KeyedWindows(aggregations(), windows(), url, "cards", page_bytes=PAGE)
    random = np.random.default_rng(1)

    def take_in(some: np.ndarray, rounds: np.ndarray) -> None:
        times = BEGIN + rounds * STEP
        cards.extend(some, {"amount": random.random(len(some))}, times, emit="last")

    for first in range(0, EVENTS, _ROUNDS):
        rounds = np.arange(first, first + _ROUNDS)
        take_in(np.tile(np.arange(keys), _ROUNDS), np.repeat(rounds, keys))
        cards.checkpoint()
    cards.publish("cards")
    assert cards._publisher is not None
    publish, published, spent = cards._publisher.publish, 0.0, 0.0

    def timed(*given: Any) -> None:
        nonlocal published
        began = perf_counter()
        publish(*given)
        published += perf_counter() - began

    cards._publisher.publish = timed  # type: ignore[assignment, method-assign]
    for at in range(_BATCHES):
        some = random.integers(0, keys, min(keys, 100_000))
        began = perf_counter()
        take_in(some, np.full(len(some), EVENTS + at))
        cards.checkpoint()
        spent += perf_counter() - began
    return {
        "how": "writer", "keys": keys, "batch_ms": round(1e3 * spent / _BATCHES, 1),
        "publishing_percent": round(100 * published / (spent - published), 1),
    }  # fmt: skip


def _fill_rivals(url: str, keys: int) -> None:
    from redis import Redis

    with Redis.from_url(url) as client:
        random = np.random.default_rng(1)
        for start in range(0, keys, 1000):
            pipe = client.pipeline(transaction=False)
            for key in range(start, min(start + 1000, keys)):
                times = BEGIN + np.arange(EVENTS) * STEP
                amounts = random.random(EVENTS)
                events = zip(times.tolist(), amounts.tolist(), strict=True)
                pipe.zadd(f"set:{key}", {_EVENT.pack(t, v): t for t, v in events})
                pipe.set(f"ready:{key}", bytes(72))
            pipe.execute()


# --- the reader's process -------------------------------------------------------------------------


def _read(url: str, keys: int) -> Rows:
    from redis import Redis

    before = anonymous()
    began = perf_counter()
    cards = open_published(url, "cards", refresh="1 second")
    cards.query(0)
    cold = perf_counter() - began
    random, client = np.random.default_rng(2), Redis.from_url(url)
    count = min(ASKED, keys)
    asked = random.integers(0, keys, count).tolist()
    rivals = random.integers(0, min(keys, RIVALS), count).tolist()
    moment = BEGIN + (EVENTS + _BATCHES) * STEP

    def by_hand(key: int) -> dict[str, float]:
        first = f"({moment - LENGTHS['week']}"
        members: Any = client.zrangebyscore(f"set:{key}", first, moment)
        events = [_EVENT.unpack(member) for member in members]
        found: dict[str, float] = {}
        for name, length in LENGTHS.items():
            inside = [amount for time, amount in events if time > moment - length]
            found[f"payments_{name}"] = len(inside)
            found[f"spent_{name}"] = sum(inside)
            found[f"largest_{name}"] = max(inside, default=float("nan"))
        return found

    for key in asked[: count // 10]:
        cards.query(key, at=moment)
    rows = [
        _timed("one key", lambda key: cards.query(key, at=moment), asked),
        _timed("ZRANGEBYSCORE, folded", by_hand, rivals),
        _timed("GET", lambda key: client.get(f"ready:{key}"), rivals),
    ]
    batches = [random.integers(0, keys, AT_ONCE) for _ in range(20)]
    row = _timed("1,000 keys", lambda some: cards.query(some, at=moment), batches)
    row["us_per_key"] = round(row["p50_us"] / AT_ONCE, 1)
    memory = (anonymous() - before) / _MIB
    rows += [row, {"how": "cold start", "cold_ms": round(1e3 * cold, 1)}]
    rows.append({"how": "memory", "memory_mib": round(memory, 1)})
    return [{**each, "keys": keys} for each in rows]


def _timed(how: str, call: Callable[[Any], Any], arguments: Sequence[Any]) -> Row:
    spent = []
    for each in arguments:
        began = perf_counter()
        call(each)
        spent.append(perf_counter() - began)
    p50, p99 = np.percentile(spent, [50, 99]) * 1e6
    return {"how": how, "p50_us": round(p50, 1), "p99_us": round(p99, 1)}


# --- findings ---------------------------------------------------------------------------------


def found(rows: Rows) -> list[Finding]:
    """Return the findings with the limits of serving."""
    by = {row["how"]: row for row in rows}
    times = by["one key"]["p50_us"] / by["GET"]["p50_us"]
    folded = by["one key"]["p50_us"] / by["ZRANGEBYSCORE, folded"]["p50_us"]
    limits = (
        ("one key, median, times a GET of a ready value", 4, round(times, 1)),
        ("one key, 99th percentile, us", 3000, by["one key"]["p99_us"]),
        ("1,000 random keys in one call, us per key", 25, by["1,000 keys"]["us_per_key"]),
        ("cold start to the first answer, ms", 1000, by["cold start"]["cold_ms"]),
        ("memory of the reader above its imports, MiB", 128, by["memory"]["memory_mib"]),
        (
            f"{RATE:,} requests per second over HTTP, 99th percentile, us",
            10_000,
            by[paced(RATE)]["p99_us"],
        ),
        ("time that publishing adds to a batch, percent", 5, by["writer"]["publishing_percent"]),
    )
    findings = [
        Finding(what, f"at most {limit:,}", f"{seen:,}", seen <= limit)
        for what, limit, seen in limits
    ]
    answered = by[paced(RATE)]["per_second"]
    what = "requests of one key over HTTP, answered per second"
    findings.append(Finding(what, f"{RATE:,} requested", f"{answered:,}", answered > 0.98 * RATE))
    what = "one key, median, times a sorted set that the client aggregates"
    return [*findings, Finding(what, "", f"{folded:.1f}")]


def draw(rows: Rows) -> Figure:
    """Draw the median and the 99th percentile of each kind of read of one key."""
    points = [
        {"how": row["how"], "what": what, "us": row[column]}
        for row in rows
        for column, what in (("p50_us", "median"), ("p99_us", "99th percentile"))
        if row.get(column) not in (None, "")
    ]
    return grouped_bars(points, "how", "what", "us", "us")


EXPERIMENTS = (
    Experiment(
        "serving", "Published windows",
        "our own",
        "An exact window at request time costs a few times as much as a lookup of a ready value.",
        f"Three aggregations over three windows of {KEYS:,} keys with {EVENTS} events each, in "
        "Redis on the same host. One client reads them and waits for each answer; then the same "
        "over HTTP.",
        serving, {"lookups": draw}, found, quick=0.01,
        captions={"lookups": "Lower is better. GET of a ready value is the lower bound."},
    ),
)  # fmt: skip


if __name__ == "__main__":
    json.dump(_read(sys.argv[1], int(sys.argv[2])), sys.stdout)
