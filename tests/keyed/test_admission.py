"""Limits against a list: what is accepted, refused and deferred, and when a refused event fits."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from mta import Count, CountWindow, KeyedWindows, Max, Product, Sum, TimeWindow
from mta.errors import UnsupportedOperation
from mta.keyed.admission import ROUNDS, Limits

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


def test_a_client_over_its_limit_does_not_delay_others_without_end() -> None:
    mine = windows("memory://")
    limits = Limits(mine, LIMITS)
    count = 5 * ROUNDS
    amounts = np.array([*range(100, 100 + count), 1])  # all different, all too much, but the last
    batch = mine.read(["a"] * count + ["b"], {"amount": amounts}, np.full(count + 1, 5))
    found = limits.admit(batch)
    assert len(found.refused) == ROUNDS
    assert found.deferred.sum() == count - ROUNDS
    assert found.accepted.tolist() == [False] * count + [True]
    equal = mine.read(["c"] * 1000, {"amount": np.full(1000, 50)}, np.full(1000, 6))
    assert len(limits.admit(equal).refused) == 1000


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
