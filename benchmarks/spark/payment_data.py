"""A deterministic stream of card payments, its twelve features, and their values by DuckDB.

    card         ts                    cents  merchant  country      declined
    c-0431907    2025-06-02 00:00:01   1250   m-00017   country-05   false

Cards and merchants are chosen by a law like Zipf's: the weight of rank r is 1 / (r + offset)^s. The
files are in the order of arrival, and each is a micro-batch. 98 % of the payments arrive in the
order of their times; the others are up to ``LATENESS`` late. All times are distinct.

A payment's features cover the time before it, as far as its micro-batch and those before it know:
the payments of its card with ``ts - length <= t < ts``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from mta import Count, Last, Mean, Sum, TimeWindow
from mta.aggregations import ExactDistinctCount
from mta.monoids.product import Aggregations

SCHEMA = (
    "card string, ts timestamp, cents bigint, merchant string, country string, declined boolean"
)
START = np.datetime64("2025-06-02T00:00:00", "us")
DAY = 86_400_000_000
DAYS = 40
LATE_SHARE, LATENESS = 0.02, "1 hour"
COUNTRIES = 30

LENGTHS = {"hour": "1 hour", "day": "1 day", "week": "7 days", "month": "30 days"}
WINDOWS = {name: TimeWindow(length, closed="left") for name, length in LENGTHS.items()}
AGGREGATIONS: Aggregations = {
    "payments": Count(),
    "declines": (None, Count(), "declined"),
    "spent": ("cents", Sum()),
    "mean": ("cents", Mean()),
    "merchants": ("merchant", ExactDistinctCount()),
    "country": ("country", Last()),
}
#: The twelve features: the results that are read, and the shares of payments that were declined.
RESULTS = (
    "payments_hour", "payments_day", "spent_hour", "spent_day", "spent_month", "mean_week",
    "mean_month", "merchants_day", "merchants_week", "merchants_month", "country_month",
)  # fmt: skip
SHARE = "declined_week"
FEATURES = (*RESULTS, SHARE)


@dataclass(frozen=True)
class Payments:
    """A stream: some small files, which a slower side can read alone, and then large files."""

    cards: int
    merchants: int
    small: Sequence[int]
    large: Sequence[int]

    @property
    def files(self) -> tuple[int, ...]:
        """Return the number of payments in each file."""
        return (*self.small, *self.large)

    @property
    def events(self) -> int:
        return sum(self.files)

    def table(self) -> pa.Table:
        """Return all payments in the order of arrival."""
        random, count = np.random.default_rng(1), self.events
        step = DAYS * DAY // count
        times = np.arange(count) * step + random.integers(0, step, count)
        late = random.random(count) < LATE_SHARE
        delays = np.where(late, random.integers(DAY // 1440, DAY // 24, count), 0)
        cards = random.permutation(self.cards)[_zipf(random, self.cards, 100, 0.8, count)]
        merchants = _zipf(random, self.merchants, 10, 1.0, count)
        countries = random.integers(0, COUNTRIES, self.merchants)[merchants]
        cents = np.ceil(random.lognormal(7.5, 1.2, count)).astype("i8")
        rows = pa.table(
            {
                "card": _names("c", self.cards).take(pa.array(cards)),
                "ts": pa.array(START + times.astype("m8[us]"), pa.timestamp("us", "UTC")),
                "cents": cents,
                "merchant": _names("m", self.merchants).take(pa.array(merchants)),
                "country": _names("country", COUNTRIES).take(pa.array(countries)),
                "declined": random.random(count) < 0.04,
            }
        )
        return rows.take(pa.array(np.argsort(times + delays, kind="stable")))

    def write(self, folder: Path) -> None:
        """Write the files; small files also into a folder of their own."""
        rows, at = self.table(), 0
        for number, size in enumerate(self.files):
            for name in ("all", "small") if number < len(self.small) else ("all",):
                path = folder / name / f"{number:05d}.parquet"
                path.parent.mkdir(parents=True, exist_ok=True)
                parquet.write_table(rows.slice(at, size), path)
                os.utime(path, (1_750_000_000 + number, 1_750_000_000 + number))
            at += size


def _zipf(
    random: np.random.Generator, many: int, offset: int, power: float, count: int
) -> np.ndarray:
    """Return random ranks, the first of which are the most frequent."""
    weights = (np.arange(many) + 1.0 + offset) ** -power
    upto = np.cumsum(weights)
    ranks: np.ndarray = np.searchsorted(upto, random.random(count) * upto[-1], side="right")
    return ranks


def _names(prefix: str, many: int) -> pa.Array:
    width = len(str(many - 1))
    return pa.array([f"{prefix}-{number:0{width}d}" for number in range(many)])


class Oracle:
    """The features of some cards, by joins in DuckDB over the files of a stream."""

    def __init__(self, files: Path, share: int = 50, hottest: int = 20) -> None:
        """Choose the ``hottest`` cards, and every ``share``-th of the others."""
        import duckdb

        self._database = duckdb.connect(config={"threads": 2})
        self._run(
            "create table e as select * exclude (ts, filename), epoch_us(ts) ts, "
            "regexp_extract(filename, '(\\d+).parquet', 1)::int batch "
            f"from read_parquet('{files}/*.parquet', filename = true)"
        )
        self._run(
            f"create table chosen as select card from e group by card "
            f"qualify row_number() over (order by count(*) desc, card) <= {hottest} "
            f"or hash(card) % {share} = 0"
        )
        self._run(
            "create table q as select card, ts, batch from e where card in (select * from chosen)"
        )
        self._run(f"create table expected as {_expected('q')}")

    def cards(self) -> list[str]:
        """Return the chosen cards."""
        return [card for (card,) in self._run("select card from chosen order by card")]

    def held(self) -> int:
        """Return how many payments are at most 30 days older than the newest of their card."""
        newest = "(select card, max(ts) newest from e group by card)"
        ((count,),) = self._run(
            f"select count(*) from e join {newest} using (card) "
            f"where ts >= newest - {WINDOWS['month'].size}"
        )
        return int(count)

    def check(self, results: Path) -> int:
        """Compare each result of the chosen cards; return how many. Raises AssertionError."""
        features = ", ".join(FEATURES)
        self._run(
            f"create or replace view found as select card, epoch_us(ts) ts, {features} from "
            f"read_parquet('{results}/*.parquet') where card in (select * from chosen)"
        )
        return self._compare("expected", results.name)

    def check_reads(self, at: np.datetime64, read: dict[str, Any]) -> int:
        """Compare features of the chosen cards that were read as of a moment; return how many."""
        self._database.register("given", pa.table(read))
        newest = "(select max(batch) from e)"
        moment = f"{int(at.astype('i8'))}::bigint"
        asked = f"(select card, {moment} ts, {newest} batch from chosen)"
        self._run(f"create or replace table answers as {_expected(asked)}")
        features = ", ".join(FEATURES)
        self._run(
            f"create or replace view found as select card, {moment} ts, {features} from given"
        )
        return self._compare("answers", "reads")

    def _compare(self, expected: str, what: str) -> int:
        ((count, found),) = self._run(
            f"select (select count(*) from {expected}), (select count(*) from found)"
        )
        assert count == found, f"{what}: {found:,} rows instead of {count:,}"
        wrong = self._run(
            f"(from {expected} except all from found) union all "
            f"(from found except all from {expected}) order by card, ts limit 2"
        )
        assert not wrong, f"{what}: DuckDB returns another row: {wrong}"
        return int(count)

    def _run(self, query: str) -> list[Any]:
        return self._database.execute(query).fetchall()


def _expected(asked: str) -> str:
    """Return the query of all features of some cards and moments, by a join."""

    def within(aggregate: str, name: str) -> str:
        return f"{aggregate} filter (e.ts >= q.ts - {WINDOWS[name].size})"

    how = {
        "payments": "count(e.ts)",
        "spent": "sum(e.cents)",
        "mean": "avg(e.cents)",
        "merchants": "count(distinct e.merchant)",
        "country": "arg_max(e.country, e.ts)",
        "declined": "avg(e.declined::int)",
    }
    columns = [
        f"{within(how[feature], name)} as {feature}_{name}"
        for feature, name in (feature.split("_") for feature in FEATURES)
    ]
    return (
        f"select q.card, q.ts, {', '.join(columns)} from {asked} q left join e "
        f"on e.card = q.card and e.batch <= q.batch and e.ts < q.ts "
        f"and e.ts >= q.ts - {WINDOWS['month'].size} group by q.card, q.ts"
    )
