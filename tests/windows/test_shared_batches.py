"""Long batches for multiple windows over one stream."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from mta import CountWindow, Max, Mean, TimeWindow
from mta.aggregations import ColumnarMonoid
from mta.frames import BoundWindow
from mta.frames.base import Frame
from mta.logs.base import Chunk
from mta.monoids.base import AbstractMonoid
from mta.windows.shared import SharedWindows
from stores import MemoryStore
from tests.support.counted import rolling_hash
from tests.support.naive import joined, letters
from tests.support.sampling import REST
from tests.support.shared_windows import FOUR, counted_windows, values


def span() -> AbstractMonoid:
    """How far apart the largest and the smallest are."""
    ufuncs = (np.minimum, np.maximum)
    return ColumnarMonoid(
        "Span", inputs="f8", partials=("f8", "f8"), identity=(np.inf, -np.inf), ufuncs=ufuncs,
        lift=lambda value: (value, value), lower=lambda partial: partial[1] - partial[0],
    )  # fmt: skip


#: Any three of a monoid, a pace, how often values change, and whether there are pages; by default
#: any two.
MANY_CHUNKS = [
    pytest.param(
        monoid,
        pace,
        changes,
        in_pages,
        id=f"{monoid.name}-{pace}-{changes}-{in_pages}",
        marks=[REST] if (one // 2 + other // 2 + (changes == "seldom")) % 2 else [],
    )
    for one, monoid in enumerate([Max(), span(), Mean(), rolling_hash()])
    for other, pace in enumerate(["steady", "jittered", "at random", "in bursts"])
    for changes, in_pages in [
        ("seldom", bool((one + other) % 2)),
        ("always", (one + other) % 2 == 0),
    ]
]


@pytest.mark.parametrize(("monoid", "pace", "changes", "in_pages"), MANY_CHUNKS)
def test_batches_of_many_chunks(
    monoid: AbstractMonoid, pace: str, changes: str, in_pages: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows shorter than a hand, of a few hands and longer."""
    monkeypatch.setattr("mta.logs.base._FEW", 16)
    monkeypatch.setattr("mta.logs.base._CHUNK", 250)
    monkeypatch.setattr("mta.logs.levels.log._RECENT_BYTES", 1)
    random, count = np.random.default_rng(1), 3_000
    gaps = {
        "steady": np.full(count, 10),
        "jittered": np.full(count, 10),
        "at random": random.exponential(10, count),
        "in bursts": np.where(random.random(count) < 0.03, 300, random.integers(0, 2, count)),
    }[pace]
    times = np.cumsum(gaps).astype("i8") + (random.integers(0, 9, count) * (pace == "jittered"))
    numbers = random.integers(0, 50, count) if changes == "seldom" else np.arange(count, 0, -1)
    ages = {"few": 30, "some": 900, "hands": 5_000, "many": 12_000}
    frames: dict[str, Frame] = {name: TimeWindow(age) for name, age in ages.items()}
    frames["both"] = CountWindow(300) | TimeWindow(4_000)
    store = MemoryStore() if in_pages else None
    windows = SharedWindows(monoid, frames, store=store, arity=4, leaf_arity=32)
    for start, stop in ((0, 900), (900, 901), (901, count)):
        results = windows.extend(numbers[start:stop], times[start:stop])
        for name, found in results.items():
            for at in range(start, stop, 23):
                first = int(times.searchsorted(times[at] - ages.get(name, 4_000), "right"))
                first = max(first, at - 299) if name == "both" else first
                rows, held = monoid.rows(numbers[first : at + 1])
                expected = monoid.lower(monoid.fold(monoid.lift_rows(rows, held), held))
                assert found[at - start] == pytest.approx(expected), (name, at)
    windows.check()


def test_a_batch_after_a_late_event_is_cut_at_the_times_of_its_own_events() -> None:
    frame = TimeWindow(10) | BoundWindow(letters(), at_most=100)
    windows = SharedWindows(joined(), {"w": frame}, None, allowed_lateness=60)
    windows.extend("ab", [0, 20])
    windows.insert("c", 19)
    assert windows.extend("de", [29.5, 40])["w"].tolist() == ["bd", "e"]


@pytest.mark.parametrize("lateness", [0, 20])
@pytest.mark.parametrize("emit", ["all", "last"])
def test_what_a_long_first_batch_leaves_behind_is_let_go_of(
    emit: Any, lateness: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it goes in, and by its own times: there are none before it."""
    monkeypatch.setattr("mta.logs.base._CHUNK", 16)
    frames: dict[str, Any] = {"day": TimeWindow(24), "few": CountWindow(5)}
    windows = SharedWindows(joined(), frames, None, arity=2, allowed_lateness=lateness)
    letters = [chr(97 + i % 26) for i in range(1000)]
    for start in (0, 600):
        windows.extend(letters[start : start + 400], range(start, start + 400), emit)
        last = letters[start : start + 400]
        assert windows.query() == {"day": "".join(last[-24:]), "few": "".join(last[-5:])}
        assert windows.structure().kept_from > 100 + start // 2
    windows.check()


def test_nothing_of_a_batch_is_kept_when_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mta.logs.base._CHUNK", 64)
    windows, _ = counted_windows(FOUR)
    batch = values(1_000)
    windows.extend(batch)
    reference = weakref.ref(batch)
    assert not [held for held in gc.get_objects() if type(held) is Chunk]
    del batch
    assert reference() is None
