"""Periodic results from an offset on, by the clock of a zone, against Python's own calendar."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from mta import EveryPeriod, Sum, TimeWindow, TriggeredWindow, Window

ZONE = ZoneInfo("America/New_York")


def boundaries(first: int, last: int, hour: int, minute: int) -> list[int]:
    """Each day at a time of the clock in New York; one that is left out when it is set forward."""
    day, found = datetime.fromtimestamp(first, ZONE).date() - timedelta(1), list[int]()
    while (found or [first])[-1] <= last:
        naive = datetime(day.year, day.month, day.day, hour, minute)
        moment = naive.replace(tzinfo=ZONE, fold=0).astimezone(UTC)
        if moment.astimezone(ZONE).replace(tzinfo=None) != naive:  # left out
            moment = datetime(day.year, day.month, day.day, 3, tzinfo=ZONE).astimezone(UTC)
        found.append(round(moment.timestamp()))
        day += timedelta(1)
    return found


@pytest.mark.parametrize(("hour", "minute"), [(9, 30), (2, 30), (0, 0), (23, 59)])
@pytest.mark.parametrize("month", [3, 11])
def test_days_follow_the_clock(hour: int, minute: int, month: int) -> None:
    trigger = EveryPeriod("1 day", offset=f"{hour}h{minute}m", zone="America/New_York")
    start = round(datetime(2024, month, 1, tzinfo=UTC).timestamp())
    known = np.array(boundaries(start, start + 14 * 86400, hour, minute))
    random = np.random.default_rng(month)
    times = np.concatenate(
        (known[1:-1], known[1:-1] + 1, start + random.integers(0, 12 * 86400, 99))
    )
    expected = known[known.searchsorted(times)]
    assert (trigger.boundary(times * 10**6) // 10**6).tolist() == expected.tolist()
    before = known[known.searchsorted(times, side="right") - 1]
    assert (trigger.last_boundary(times * 10**6) // 10**6).tolist() == before.tolist()
    assert trigger.boundary(int(times[0]) * 10**6) == expected[0] * 10**6
    lengths = set(np.diff(known).tolist())
    assert 86400 in lengths
    assert lengths & {23 * 3600, 25 * 3600, 86400 - 1800, 86400 - 5400}


@pytest.mark.parametrize(
    ("given", "hours"),
    [({"offset": "6h"}, [6, 30, 54]), ({"offset": "6h", "zone": "Asia/Tokyo"}, [21, 45])],
)
@pytest.mark.proves("asking", "`offset=` and `zone=` of periods", "periodic")
def test_results_come_at_boundaries(given: dict[str, Any], hours: list[int]) -> None:
    window = Window(Sum(), TimeWindow("1 day"), name="periods")
    triggered = TriggeredWindow(window, EveryPeriod("1 day", **given))
    due = triggered.extend([1.0] * 60, [3600.0 * hour for hour in range(60)])
    assert (due.moments.astype("i8") // 3_600_000_000).tolist() == hours
    assert due.results.tolist() == [min(hour + 1, 24) for hour in hours]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"period": "1 hour", "offset": "2 hours"}, "shorter than its period, 1 hour"),
        ({"period": "1 hour", "zone": "Europe/Berlin"}, "periods of whole days"),
        ({"period": "1 day", "zone": "Europe/Bärlin"}, "no time zone"),
    ],
)
def test_what_is_no_period_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EveryPeriod(arguments.pop("period"), **arguments)


def test_triggers_of_other_boundaries_differ() -> None:
    one, other = EveryPeriod("1 day", offset="6h"), EveryPeriod("1 day")
    assert one != other
    assert one == EveryPeriod(86400, offset=6 * 3600)
    assert repr(other) == "EveryPeriod(86400000000 us)"


@pytest.mark.parametrize("idle", ["keep", "expire"])
@pytest.mark.proves("asking", "`offset=` and `zone=` of periods", "a stream")
def test_a_stream_has_results_at_boundaries(idle: str) -> None:
    pytest.importorskip("pyspark")
    from spark_integration.step.step import step
    from stores.memory import MemoryStore
    from tests.support.spark.events import SECOND, START, rows_of
    from tests.support.spark.idle_cases import idle_plan

    offset = (START // SECOND + 10) % 60  # ten seconds after the first event
    plan = idle_plan(emit_every=EveryPeriod("1 minute", offset=offset), idle=idle)
    events = [("a", second, 1.0) for second in (0, 5, 20, 70, 71)]
    store, found = MemoryStore(), list[tuple[int, int]]()
    state = None
    for batch, watermark in ((events[:2], 0), (events[2:], 71), ([], 1000)):
        done = step(state, rows_of(*batch), plan, store, START + watermark * SECOND)
        state = done.state
        found += [
            (round(row["ts"].timestamp()) - START // SECOND, row["n"])
            for row in done.rows.to_pylist()
        ]
    later = [(130, 1), (190, 0)] if idle == "expire" else []
    assert found == [(10, 2), (70, 2), *later]
