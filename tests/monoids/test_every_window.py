"""Every aggregation in every kind of window, in batches, restored and late, as its oracle says."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from mta import CountWindow, KeyedWindows, SharedWindows, TimeWindow
from mta.folds.sliding import SlidingFolds
from mta.monoids.product import MissingColumns
from stores.memory import MemoryStore
from tests.support.aggregations import CASES, Case, batch_of

EACH = pytest.mark.parametrize("name", CASES)
SIZE, BATCH = 6, 17


def windows_of(events: list[Any], size: int = SIZE) -> list[list[Any]]:
    """The events of the window after each event."""
    return [events[max(0, at + 1 - size) : at + 1] for at in range(len(events))]


def agree(case: Case, found: Any, windows: list[list[Any]]) -> None:
    for result, events in zip(found, windows, strict=True):
        assert case.agrees(result, events), (result, case.oracle(events), events)


def batches(events: list[Any]) -> list[list[Any]]:
    return [events[at : at + BATCH] for at in range(0, len(events), BATCH)]


@EACH
def test_shared_windows(name: str) -> None:
    case, events = CASES[name], CASES[name].events[:40]
    windows = SharedWindows(case.make(), {"six": CountWindow(SIZE), "two": CountWindow(2)}, arity=4)
    results = [windows.extend(batch_of(some)) for some in batches(events)]
    for window, size in {"six": SIZE, "two": 2}.items():
        found = [result for batch in results for result in batch[window]]
        agree(case, found, windows_of(events, size))


@pytest.mark.sample(1)
@EACH
@pytest.mark.parametrize("promote_at", [4, 1024])
def test_keyed_windows_that_are_restored_after_each_batch(name: str, promote_at: int) -> None:
    case, events, store = CASES[name], CASES[name].events, MemoryStore()
    settings: dict[str, Any] = {"promote_at": promote_at}
    windows = KeyedWindows(case.make(), CountWindow(SIZE), store, **settings)
    keys, found = [at % 3 for at in range(len(events))], []
    for start in range(0, len(events), BATCH):
        some = slice(start, start + BATCH)
        found += list(windows.extend(keys[some], batch_of(events[some])))
        snapshot = windows.checkpoint()
        windows = KeyedWindows.restore(
            snapshot, store, aggregations=case.make(), window=CountWindow(SIZE), **settings
        )
    lanes = [windows_of(events[key::3]) for key in range(3)]
    agree(case, found, [lanes[key][at // 3] for at, key in enumerate(keys)])
    agree(case, windows.query([0, 1, 2]), [lane[-1] for lane in lanes])


@pytest.mark.sample(1)
@EACH
@pytest.mark.parametrize("promote_at", [4, 1024])
def test_late_events(name: str, promote_at: int) -> None:
    """Out of order at most 9 seconds; in the end the window is that of the events in order."""
    case, events, drawn = CASES[name], CASES[name].events, random.Random(name)
    order = sorted(range(len(events)), key=lambda at: at + drawn.uniform(0, 9))
    windows = KeyedWindows(
        case.make(), TimeWindow(20), "memory://", promote_at=promote_at, allowed_lateness=10
    )
    for at in range(0, len(order), BATCH):
        some = order[at : at + BATCH]
        batch = batch_of([events[place] for place in some])
        windows.extend(["key"] * len(some), batch, [float(place) for place in some])
    agree(case, [windows.query("key")], [events[-20:]])


@pytest.mark.parametrize(
    "name", [name for name in CASES if name != "Count"]
)  # which reads no column
def test_an_event_that_is_lifted_to_the_identity_is_skipped(name: str) -> None:
    case, drawn = CASES[name], random.Random(name)
    monoid, events, count = MissingColumns(case.make(), 1), case.events, len(case.events)
    marks = [drawn.random() < 0.7 for _ in events]
    batch = batch_of(events)
    columns = batch if isinstance(batch, tuple) else (batch,)
    rows, _ = monoid.rows((*columns, marks))
    fronts = np.maximum(np.arange(count) + 1 - SIZE, 0)
    with np.errstate(all="ignore"):  # as inside a window
        sliding = SlidingFolds(monoid, monoid.lift_rows(rows, count), count)
        folds = sliding.between(fronts, range(1, count + 1))
        found = monoid.outputs.listed(monoid.lower_rows(folds), len(fronts))
    pairs = windows_of(list(zip(events, marks, strict=True)))
    skipped = [[event for event, stands in window if stands] for window in pairs]
    some = [at for at, window in enumerate(skipped) if window]
    agree(case, [found[at] for at in some], [skipped[at] for at in some])
