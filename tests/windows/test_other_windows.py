"""A snapshot restored under other windows: they go on from what is kept, and say what they miss."""

from __future__ import annotations

import random
from typing import Any

import pytest

from mta import (
    AmortizedMTA,
    BoundWindow,
    CountWindow,
    FiBA,
    LogMTA,
    PagedFlatFAT,
    PagedReactiveAggregator,
    SharedWindows,
    Sum,
    TimeWindow,
    Window,
)
from mta.errors import SnapshotMismatch
from mta.frames import Frame
from stores import MemoryStore
from tests.support.sampling import parts

COUNTS = [CountWindow(1), CountWindow(5), CountWindow(17), CountWindow(40)]
TIMES = [TimeWindow(3), TimeWindow(20), TimeWindow(60), CountWindow(9) & TimeWindow(25)]
ALGORITHMS = [AmortizedMTA, LogMTA, PagedFlatFAT, PagedReactiveAggregator, FiBA]


def held(events: list[tuple[int, float]], frame: Frame) -> int:
    """How many of the newest events a window holds."""
    if isinstance(frame, CountWindow):
        return min(len(events), frame.size)
    if isinstance(frame, TimeWindow):
        return sum(time > events[-1][0] - frame.size / 1e6 for time, _ in events)
    return max(held(events, side) for side in (frame.one, frame.other))  # type: ignore[attr-defined]


def step(events: list[tuple[int, float]], rng: random.Random) -> tuple[int, float]:
    time = (events[-1][0] if events else 0) + rng.randint(0, 3)
    events.append((time, float(2 ** rng.randint(0, 20))))
    return events[-1]


@pytest.mark.parametrize("frames", [COUNTS, TIMES], ids=["counts", "times"])
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda each: each.name)
@pytest.mark.parametrize("part", parts(4))
def test_a_window_goes_on_under_other_frames(
    part: int, algorithm: Any, frames: list[Frame]
) -> None:
    """Shorter it drops events at once; longer it misses those that left, until it says it does not.

    One that says it is complete is so.
    """
    said = {True: 0, False: 0}
    for seed in range(part, 12, 4):
        rng, events = random.Random(seed), list[tuple[int, float]]()
        store, timed = MemoryStore(), frames is TIMES or algorithm is FiBA
        frame = rng.choice(frames)
        window = Window(Sum(), frame, store, arity=2, aggregator=algorithm)
        front = 0  # of the oldest event that may still be there
        for _ in range(6):
            for _ in range(rng.randint(1, 30)):
                time, value = step(events, rng)
                window.insert(value, time if timed else None)
                front = max(front, len(events) - held(events, frame))
                assert window.query() == sum(v for _, v in events[front:]), seed
            frame = rng.choice(frames)
            snapshot = window.checkpoint()
            window = Window.restore(snapshot, Sum(), frame, store, arity=2, aggregator=algorithm)
            front = max(front, len(events) - held(events, frame))
            assert window.query() == sum(v for _, v in events[front:])
            coverage, missing = window.coverage(), held(events, frame) - (len(events) - front)
            assert coverage.events == len(window) == len(events) - front
            assert coverage.missing_at_least <= missing <= coverage.missing_at_most
            said[coverage.complete] += 1
            window.structure().check()
    assert min(said.values()) > 3


def test_frames_that_cannot_stand_for_each_other() -> None:
    store = MemoryStore()
    window = Window(Sum(), CountWindow(5), store)
    window.extend([1.0, 2.0])
    snapshot = window.checkpoint()
    with pytest.raises(SnapshotMismatch, match="so events have no times, not with"):
        Window.restore(snapshot, Sum(), TimeWindow(5), store)
    with pytest.raises(SnapshotMismatch, match="not with Sum beside Sum"):
        Window.restore(snapshot, Sum(), BoundWindow(Sum(), at_most=3.0), store)
    with pytest.raises(SnapshotMismatch, match="made with the frame"):
        Window(Sum(), CountWindow(4), store).restore_like(snapshot)


@pytest.mark.parametrize("lateness", [None, 0, 5])
def test_shared_windows_go_on_as_others(lateness: int | None) -> None:
    said = {True: 0, False: 0}
    for seed in range(20):
        rng, events = random.Random(seed), list[tuple[int, float]]()
        store, every = MemoryStore(), [*COUNTS, *TIMES]
        frames = {"a": rng.choice(every), "b": rng.choice(every)}
        windows = SharedWindows(
            Sum(), frames, store, arity=2, timed=True, allowed_lateness=lateness
        )
        for _ in range(5):
            for _ in range(rng.randint(1, 30)):
                time, value = step(events, rng)
                windows.insert(value, time)
            snapshot = windows.checkpoint()
            kept = windows.structure().kept_from
            frames = {name: rng.choice(every) for name in rng.sample("abc", 2)}
            windows = SharedWindows.restore(
                snapshot, Sum(), frames, store, arity=2, allowed_lateness=lateness
            )
            for name, frame in frames.items():
                front = max(len(events) - held(events, frame), kept)
                assert windows.query(name) == sum(v for _, v in events[front:]), seed
                coverage = windows.coverage(name)
                if coverage.complete:
                    assert front == len(events) - held(events, frame)
                said[coverage.complete] += 1
            assert {*windows.windows} == {*frames}
    assert min(said.values()) > 3


def test_windows_of_the_same_name_and_frame_continue_at_the_same_front() -> None:
    """Also one whose frame looks at values, and would not find its place again."""
    store, bound = MemoryStore(), BoundWindow(Sum(), at_most=5.0)
    windows = SharedWindows(Sum(), {"few": CountWindow(2), "bound": bound}, store)
    windows.extend([1.0, 9.0, 1.0, 1.0])
    before, frames = windows.fronts["bound"], {"more": CountWindow(3), "bound": bound}
    again = SharedWindows.restore(windows.checkpoint(), Sum(), frames, store)
    assert again.fronts["bound"] == before == 2
    assert (again.query("more"), again.query("bound")) == (11.0, 2.0)
