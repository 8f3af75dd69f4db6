"""Rows that are answered and never become events, in batches of keyed windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mta import CountWindow, KeyedWindows, Monoid, Sum, TimeWindow
from mta.errors import LateEvent
from mta.keyed.bucket import Advance
from stores import MemoryStore
from tests.support.key_by_key import KeyByKey

Row = tuple[int, int, int, bool]  # key, time, value, whether it asks
WINDOWS = {
    "time": TimeWindow(10),
    "count": CountWindow(3),
    "either": TimeWindow(6) | CountWindow(3),
}


def rows_of(seed: int, count: int = 300, old: int = 0) -> list[Row]:
    """Rows in order of time, but for questions, which may be old by so much."""
    random = np.random.default_rng(seed)
    found, now = list[Row](), 0
    for _ in range(count):
        now += int(random.integers(1, 3))
        asks = bool(random.random() < 0.4)
        time = now - int(random.integers(0, old + 1)) if asks else now
        found.append((int(random.integers(0, 6)), time, int(random.integers(1, 50)), asks))
    return found


def advance(windows: KeyedWindows, rows: list[Row]) -> Advance:
    keys, times, values, asks = (list(column) for column in zip(*rows, strict=True))
    batch = windows.read(keys, values, times)
    batch.asks = np.array(asks)
    return windows.bucket.advance(batch, "each")


def expected(window: str, rows: list[Row], place: int) -> Any:
    """The answer to a question, or the result of an event: of the events that came until then."""
    key, moment, _, asks = rows[place]
    until = rows if asks else rows[: place + 1]
    held = [(t, v) for k, t, v, asked in until if k == key and not asked and t <= moment]
    span = {"time": 10, "count": 1 << 30, "either": 6}[window]
    held = [(t, v) for t, v in held if t > moment - span]
    held = held if window == "time" else held[-3:]
    return sum(value for _, value in held)


def answers(
    windows: KeyedWindows, rows: list[Row], cuts: list[int], again: Any = None
) -> list[Any]:
    """Results of all rows, in any cut into batches; ``again`` restores windows between these."""
    found: list[Any] = [None] * len(rows)
    for start, stop in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        done = advance(windows, rows[start:stop])
        questions = done.questions
        assert questions is not None
        assert done.late is None
        for line, result in zip(done.line[done.found.at], done.found.outputs[0], strict=True):
            found[start + line] = result
        for line, result in zip(questions.at, questions.outputs[0], strict=True):
            found[start + line] = result
        windows = again(windows.checkpoint()) if again else windows
    assert windows.stats().inserted == sum(not asks for *_, asks in rows)
    return found


@pytest.mark.sample(1)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(("promote_at", "old"), [(1024, 0), (4, 0), (1024, 30), (4, 30)])
def test_questions_are_answered_alike_in_any_cut(window: str, promote_at: int, old: int) -> None:
    rows, random = rows_of(7, old=old), np.random.default_rng(8)
    own = [expected(window, rows, place) for place in range(len(rows))]
    given: dict[str, Any] = {"promote_at": promote_at, "retain_for": old + 1 if old else None}
    for parts in (1, 2, 40):
        store = MemoryStore()
        windows = KeyedWindows(Sum("i8"), WINDOWS[window], store, "asked", timed=True, **given)

        def again(snapshot: bytes, store: MemoryStore = store) -> KeyedWindows:
            return KeyedWindows.restore(snapshot, store, **given)

        cuts = sorted(random.choice(np.arange(1, len(rows)), parts - 1, replace=False).tolist())
        assert answers(windows, rows, cuts, again) == own


@pytest.mark.parametrize("monoid", [Monoid(0, int.__add__), KeyByKey(0, int.__add__, "sum")])
def test_keys_of_plain_functions_are_asked_too(monoid: Any) -> None:
    rows = rows_of(3, 60)
    windows = KeyedWindows(monoid, TimeWindow(10), name="plain")
    own = [expected("time", rows, place) for place in range(len(rows))]
    assert answers(windows, rows, [20, 21]) == own


def test_at_one_time_events_come_first() -> None:
    windows = KeyedWindows(Sum("i8"), TimeWindow(10), name="ties")
    done = advance(windows, [(1, 5, 0, True), (1, 5, 7, False), (2, 5, 9, False), (3, 1, 0, True)])
    assert done.questions is not None
    of_row = dict(zip(done.questions.at.tolist(), done.questions.outputs[0], strict=True))
    assert of_row == {0: 7, 3: 0}
    assert 3 not in windows


@pytest.mark.parametrize("promote_at", [1024, 4])
def test_a_question_older_than_what_is_retained_for_it_is_late(promote_at: int) -> None:
    given: dict[str, Any] = {"retain_for": 20, "promote_at": promote_at}
    for on_late in ("raise", "drop"):
        windows = KeyedWindows(
            Sum("i8"),
            TimeWindow(10),
            name="late",
            on_late=on_late,
            **given,  # type: ignore[arg-type]
        )
        advance(windows, [(1, time, 1, False) for time in range(0, 100, 2)])
        asked = [(1, 78, 0, True), (1, 77, 0, True), (2, 3, 0, True)]
        if on_late == "raise":
            with pytest.raises(LateEvent, match=r"question at index 1.*retain_for"):
                advance(windows, asked)
        done = advance(windows, asked if on_late == "drop" else asked[:1])
        assert done.questions is not None
        assert done.questions.at.tolist() == ([0, 2] if on_late == "drop" else [0])
        assert done.questions.outputs[0].tolist() == ([5, 0] if on_late == "drop" else [5])
        assert windows.stats().late == (1 if on_late == "drop" else 0)
