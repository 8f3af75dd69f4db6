"""A plan's counts beside those of real windows, which are counted."""

from __future__ import annotations

import numpy as np
import pytest

from mta import CountWindow, TimeWindow
from mta.planning.expected import Expected, Workload, expected
from mta.planning.plan import Batches, advance, new_windows
from stores.memory import MemoryStore
from stores.testing.counting import CountingStore

NAMES = (
    "pages", "bytes", "snapshot", "get calls", "get pages", "get bytes",
    "put calls", "put pages", "put bytes", "delete calls", "delete pages",
)  # fmt: skip
WORKLOADS = {
    "integers by time": (Workload(2_000, 1_000, TimeWindow("30 seconds"), 1, 2, 0, 4096), 30, 30),
    "text by count, three columns": (
        Workload(500, 500, CountWindow(20), 3, 1, key_bytes=12, page_bytes=4096), 50, 60,
    ),
    "standalone windows by time": (
        Workload(10, 400, TimeWindow("30 seconds"), 2, 2, 0, 4096, promote_at=256), 30, 30,
    ),
}  # fmt: skip


def counted(work: Workload, warm: int, batches: int) -> list[float]:
    """What windows take on average, each batch from a snapshot's windows without any cache."""
    pages = MemoryStore()
    store = CountingStore(pages)
    windows, stream, found = new_windows(work, store, "plan", cache_bytes=1), Batches(work), []
    for number in range(warm + batches):
        snapshot = advance(windows, stream.next(work.batch_seconds))
        windows.bucket.standalone.open.clear()  # as after a restore
        moved = store.reset()
        if number >= warm:
            stored = pages.get_many([*pages.keys()])
            get, put, gone = moved.get, moved.put, moved.delete
            found.append((
                len(stored), sum(len(page or b"") for page in stored), len(snapshot),
                get.calls, get.pages, get.bytes, put.calls, put.pages, put.bytes,
                gone.calls, gone.pages,
            ))  # fmt: skip
    return np.array(found, float).mean(axis=0).tolist()  # type: ignore[no-any-return]


def planned(found: Expected) -> list[float]:
    get, put, gone = found.get, found.put, found.delete
    return [
        found.pages, found.bytes, found.snapshot_bytes, get.calls, get.pages, get.bytes,
        put.calls, put.pages, put.bytes, gone.calls, gone.pages,
    ]  # fmt: skip


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_plan_is_within_a_quarter_of_what_windows_take(name: str) -> None:
    work, warm, batches = WORKLOADS[name]
    ratios = np.array(planned(expected(work))) / counted(work, warm, batches)
    wrong = {n: r for n, r in zip(NAMES, ratios.round(2), strict=True) if not 0.8 <= r <= 1.25}
    assert not wrong


def test_a_plan_follows_the_rates() -> None:
    work = Workload(10_000, 1_000, TimeWindow("10 minutes"))
    parts = expected(work.of_bucket(4))
    more = expected(Workload(10_000, 2_000, TimeWindow("10 minutes")))
    whole = expected(work)
    assert 4 * parts.bytes == pytest.approx(whole.bytes, rel=0.1)
    assert 1.8 < more.bytes / whole.bytes < 2.2
    assert more.put.bytes > 1.5 * whole.put.bytes


def test_a_long_cycle_costs_as_much_as_a_followed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from mta.planning import expected as module

    work = Workload(10_000, 1_000, TimeWindow("100 minutes"))
    whole = planned(expected(work))
    monkeypatch.setattr(module, "_FOLLOWED", 200)
    assert planned(expected(work))[6:9] == pytest.approx(whole[6:9], rel=0.25)
