"""Limits against a list: what is accepted, refused and deferred, and when a refused event fits."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from mta import Count, CountWindow, KeyedWindows, Max, Product, SessionWindow, Sum, TimeWindow
from mta.errors import UnsupportedOperation
from mta.frames import DeltaWindow
from mta.frames.base import Frame
from mta.keyed.admission import ROUNDS, Limits
from mta.keyed.bucket import Bucket
from mta.logs.levels.log import LevelLog

FRAMES = {"short": 10, "long": 60}
LIMITS = {"spend": ("sum_long", 30.0), "rate": ("n_short", 4.0), "burst": ("sum_short", 18.0)}
SECOND = 1_000_000


def windows(store: Any, **settings: Any) -> KeyedWindows:
    return KeyedWindows(
        Product({"sum": ("amount", Sum("int64")), "n": Count(), "top": ("amount", Max("int64"))}),
        {name: TimeWindow(seconds) for name, seconds in FRAMES.items()},
        store,
        on_late="drop",
        **settings,
    )


class Listed:
    """Every accepted event in a list per key."""

    def __init__(self) -> None:
        self.events: dict[Any, list[tuple[int, int]]] = defaultdict(list)

    def results(self, key: Any, events: list[tuple[int, int]]) -> dict[str, int]:
        now, found = events[-1][0], {}
        for name, seconds in FRAMES.items():
            inside = [amount for time, amount in events if now - seconds < time <= now]
            found |= {f"sum_{name}": sum(inside), f"n_{name}": len(inside)}
            found[f"top_{name}"] = max(inside)
        return found

    def over(self, results: dict[str, int]) -> list[str]:
        return [name for name, (column, most) in LIMITS.items() if results[column] > most]

    def judge(self, key: Any, time: int, amount: int) -> tuple[list[str], dict[str, int]]:
        results = self.results(key, [*self.events[key], (time, amount)])
        over = self.over(results)
        if not over:
            self.events[key].append((time, amount))
        return over, results

    def fits_at(self, key: Any, time: int, amount: int) -> int | None:
        if self.over(self.results(key, [(time, amount)])):
            return None
        while self.over(self.results(key, [*self.events[key], (time, amount)])):
            time += 1
        return time


def is_close(micros: int | None, seconds: int | None, slack: int) -> bool:
    """Whether a moment is as expected, or less than ``slack`` microseconds from it."""
    if micros is None or seconds is None:
        return micros is seconds
    return abs(micros - seconds * SECOND) < slack


@pytest.mark.parametrize("where", ["memory://", "disk"])
@pytest.mark.parametrize(("promote_at", "seed"), [(1024, 1), (1024, 2), (3, 3), (3, 4)])
def test_events_are_judged_as_by_a_list(
    where: str, promote_at: int, seed: int, tmp_path: Path
) -> None:
    random, listed = Random(seed), Listed()
    store = where if where != "disk" else f"file://{tmp_path}"
    mine = windows(store, promote_at=promote_at)
    limits, now = Limits(mine, LIMITS), 1000
    counted = 0
    for turn in range(36):
        if turn % 12 == 11:
            mine = mine.restore_like(mine.checkpoint())
            limits = Limits(mine, LIMITS)
        rows = []
        for _ in range(random.choice([1, 3, 20])):
            now += random.choice([0, 0, 0, 1, 3])
            rows.append((random.choice("abc"), now, random.choice([1, 1, 1, 2, 9, 40])))
        deferred = rows
        while deferred:
            keys, times, amounts = zip(*deferred, strict=True)
            batch = mine.read([*keys], {"amount": np.array(amounts)}, np.array(times))
            only_judged = limits.admit(batch, add=False)
            found = limits.admit(batch)
            assert only_judged.refused == found.refused
            assert (only_judged.accepted == found.accepted).all()
            assert not found.late.any()
            again = [row for row, wait in zip(deferred, found.deferred, strict=True) if wait]
            assert len(again) < len(deferred)
            for at, (key, time, amount) in enumerate(deferred):
                if found.deferred[at]:
                    continue
                over, results = listed.judge(key, time, amount)
                assert found.accepted[at] == (not over)
                assert {name: found.columns[name][at] for name in results} == results
                assert (found.refused.get(at) in over) if over else at not in found.refused
            counted += len(found.refused)
            for at in [*found.refused][:2]:
                key = deferred[at][0]
                if all(row[0] != key for row in deferred[at + 1 :]):
                    expected = listed.fits_at(*deferred[at])
                    slack = 1 if promote_at > 3 else 60 * SECOND
                    assert is_close(limits.fit_times(batch, [at])[0], expected, slack)
            deferred = again
    assert counted > 10
    for key, events in listed.events.items():
        assert mine.query(key) == {
            name: {
                column.removesuffix(f"_{name}"): value
                for column, value in listed.results(key, events).items()
                if column.endswith(name)
            }
            for name in FRAMES
        }


def test_a_client_that_alternates_does_not_delay_others_without_end() -> None:
    mine = windows("memory://")
    limits = Limits(mine, {"spend": LIMITS["spend"]})
    count = 5 * ROUNDS
    amounts = np.array([*[31, 0] * count, 1])
    batch = mine.read(["a"] * 2 * count + ["b"], {"amount": amounts}, np.full(2 * count + 1, 5))
    found = limits.admit(batch)
    assert [*found.refused] == [*range(0, 2 * ROUNDS, 2)]
    assert np.flatnonzero(found.accepted).tolist() == [*range(1, 2 * ROUNDS - 1, 2), 2 * count]
    assert np.flatnonzero(found.deferred).tolist() == [*range(2 * ROUNDS - 1, 2 * count)]


@pytest.mark.parametrize("promote_at", [1024, 3])
@pytest.mark.parametrize("seconds", [0, 1])
def test_events_over_a_limit_cost_two_rounds_together(
    promote_at: int, seconds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are different, at one moment or at many, and a fold of stored events serves many."""
    evaluated, folded = [0, 0], [0]
    advance_if, fold = Bucket.advance_if, LevelLog.fold

    def counted(bucket: Bucket, batch: Any, *given: Any) -> Any:
        evaluated[0] += 1
        evaluated[1] += len(batch)
        return advance_if(bucket, batch, *given)

    def counted_fold(log: LevelLog, start: int, stop: int) -> Any:
        folded[0] += 1
        return fold(log, start, stop)

    mine = windows(f"file://{tmp_path}", promote_at=promote_at)
    limits, stored, count = Limits(mine, {"spend": LIMITS["spend"]}), 30, 2000
    for time in range(stored):
        limits.admit(mine.read(["a"], {"amount": np.array([1])}, np.array([time])))
    assert mine.stats().standalone == (promote_at < stored)
    monkeypatch.setattr(Bucket, "advance_if", counted)
    monkeypatch.setattr(LevelLog, "fold", counted_fold)
    amounts, times = 31 + np.arange(count), stored + seconds * np.arange(count) // 20
    found = limits.admit(mine.read(["a"] * count, {"amount": amounts}, times))
    assert len(found.refused) == count
    for at in (0, count // 2, count - 1):
        left = sum(times[at] - 60 < each <= times[at] for each in range(stored))
        assert found.columns["sum_long"][at] == left + amounts[at]
    assert evaluated[0] <= 2
    assert evaluated[1] <= count
    assert folded[0] <= 3 * stored


FRAMES_OF_EVENTS = [
    TimeWindow(10), CountWindow(3), SessionWindow(4), TimeWindow(20) | CountWindow(4),
    TimeWindow(5) & CountWindow(2), TimeWindow(10, delay=3), CountWindow(3, exclude_current=True),
    DeltaWindow(25, "amount"),
]  # fmt: skip


@pytest.mark.sample
@pytest.mark.parametrize("promote_at", [1024, 3])
@pytest.mark.parametrize("frame", FRAMES_OF_EVENTS, ids=repr)
@pytest.mark.parametrize("aggregation", ["sum", "median", "max"])
def test_events_together_are_judged_as_one_after_the_other(
    aggregation: str, frame: Frame, promote_at: int, tmp_path: Path
) -> None:
    random, now = Random(5), 0
    kinds = {"found": ("amount", aggregation), "n": "count"}
    many, one = (
        KeyedWindows(kinds, {"w": frame}, f"file://{tmp_path}", name, timed=True, on_late="drop",
                     nulls="accept", promote_at=promote_at)
        for name in ("many", "one")
    )  # fmt: skip
    at_most = {"most": ("found_w", 30.0), "rate": ("n_w", 6.0)}
    together, alone = Limits(many, at_most), Limits(one, at_most)
    counted = 0
    for _ in range(8):
        rows = []
        for _ in range(25):
            now += random.choice([0, 0, 1, 2, 7])
            rows.append((random.choice("ab"), now, random.choice([0, 1, 3, 12, 29, 31, 50])))
        while rows:
            keys, times, amounts = zip(*rows, strict=True)
            values = np.array(amounts, float)
            found = together.admit(many.read([*keys], {"amount": values}, np.array(times)))
            for at, (key, time, amount) in enumerate(rows):
                if not found.deferred[at]:
                    batch = one.read([key], {"amount": np.array([amount], float)}, np.array([time]))
                    single = alone.admit(batch)
                    assert found.accepted[at] == single.accepted[0]
                    assert found.refused.get(at) == single.refused.get(0)
                    for column, results in single.columns.items():
                        np.testing.assert_equal(found.columns[column][at], results[0])
            counted += len(found.refused)
            rows = [row for row, wait in zip(rows, found.deferred, strict=True) if wait]
    assert counted > 10


def test_late_events_are_dropped() -> None:
    mine = windows("memory://")
    limits = Limits(mine, LIMITS)
    limits.admit(mine.read(["a"], {"amount": np.array([1])}, np.array([100])))
    batch = mine.read(["a", "b"], {"amount": np.array([1, 1])}, np.array([99, 99]))
    for add in (False, True):
        found = limits.admit(batch, add=add)
        assert found.late.tolist() == [True, False]
        assert found.accepted.tolist() == [False, True]


def test_limits_need_events_in_order() -> None:
    with pytest.raises(UnsupportedOperation, match="leave out allowed_lateness"):
        Limits(windows("memory://", allowed_lateness=5), LIMITS)


def test_frames_that_time_does_not_empty_have_no_such_moment() -> None:
    mine = KeyedWindows(Sum("int64"), {"two": CountWindow(2)}, timed=True, on_late="drop")
    limits = Limits(mine, {"most": ("two", 5.0)})
    batch = mine.read(["a", "a"], np.array([3, 4]), np.array([1, 2]))
    found = limits.admit(batch)
    assert found.refused == {1: "most"}
    assert limits.fit_times(batch, [1]) == [None]


def test_what_is_only_judged_writes_nothing(tmp_path: Path) -> None:
    mine = windows(f"file://{tmp_path}", promote_at=3, name="judged")
    limits = Limits(mine, {})
    for time in range(40):
        limits.admit(mine.read(["a"], {"amount": np.array([1])}, np.array([time])))
    mine.checkpoint()
    assert mine.stats().standalone == 1
    assert mine.store is not None
    before, stats = sorted(mine.store.keys()), mine.stats()
    for _ in range(3):
        many = mine.read(["a"] * 5000, {"amount": np.arange(5000)}, np.full(5000, 50))
        limits.admit(many, add=False)
    mine.store.flush()
    assert sorted(mine.store.keys()) == before
    assert mine.stats() == stats


def test_moments_of_many_keys_at_once() -> None:
    mine = windows("memory://", promote_at=6)
    limits, keys = Limits(mine, {"spend": LIMITS["spend"]}), [f"key {n}" for n in range(40)]
    for time in range(10):
        few = keys if time < 4 else keys[:3]  # these become standalone
        limits.admit(mine.read(few, {"amount": np.full(len(few), 2)}, np.full(len(few), time)))
    assert mine.stats().standalone == 3
    amounts = np.array([29, 31, *[29] * 38])
    batch = mine.read(keys, {"amount": amounts}, np.full(40, 20))
    assert len(limits.admit(batch).refused) == 40
    found = limits.fit_times(batch, range(40))
    assert found[1] is None
    # 20 were spent by 9, or 8 by 3: one of 29 fits once all but nothing are gone, after 60 s.
    assert all(is_close(found[n], 69, SECOND) for n in (0, 2))
    assert found[3:] == [63 * SECOND] * 37
