"""Without Spark: nothing leaks, and nothing alive is deleted.

Evicted pages go in bounded time, no page that is alive ever goes, and thousands of checkpoints
leave threads, file descriptors, memory and the store as they were.
"""

from __future__ import annotations

import gc
import threading
import tracemalloc
from collections import deque
from pathlib import Path
from random import Random

import pytest

from mta.audit.walk import live_keys
from mta.logs.base import Aggregator
from stores import MemoryStore, open_store
from stores.testing.conformance import in_children
from tests.support import oracle
from tests.support.sampling import some


@pytest.mark.sample(1)
@pytest.mark.parametrize("tree", oracle.TREES)
@pytest.mark.parametrize("retain", [2, 5])
def test_no_page_of_a_retained_snapshot_is_deleted_and_no_other_stays(
    retain: int, tree: type[Aggregator]
) -> None:
    random, memory, size = Random(retain), MemoryStore(), 120
    window = oracle.begin(memory, size, 3, 2, retain=retain, aggregator=tree)
    snapshots: deque[bytes] = deque(maxlen=retain)
    for _ in range(30):
        back = window.structure().back
        window.extend(oracle.events(back, back + random.choice((1, 5, 30, 300))))
        snapshots.append(window.checkpoint())
        if random.random() < 0.3:
            options = {"retain": retain, "aggregator": tree}
            window = oracle.reopen(snapshots[-1], memory, size, **options)
        there = set(memory.keys())
        for snapshot in snapshots:
            past = oracle.reopen(snapshot, memory, size, aggregator=tree)
            assert set(live_keys(past, own=True)) <= there
        assert set(live_keys(window)) == there, "pages that nobody needs"
    for snapshot in snapshots:
        oracle.assert_whole(oracle.reopen(snapshot, memory, size, aggregator=tree), size)


@pytest.mark.parametrize(
    ("scheme", "checkpoints"),
    [
        *some([("memory", 300), ("memory", 2400)], by_default=1),
        *some([("file", 150), ("file", 600)], by_default=1),
        *some([("redis", 150), ("redis", 600)], by_default=1),
    ],
)
def test_many_checkpoints_leave_everything_flat(
    scheme: str, checkpoints: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Of three thirds, the last takes no more of anything than the second."""
    url = {"memory": "memory://", "file": f"file://{tmp_path}/pages?map_size=64MiB", "redis": ""}[
        scheme
    ] or f"{request.getfixturevalue('redis_url')}?prefix=leaks&cache=64KiB"

    def work() -> None:
        used: list[dict[str, float]] = []
        tracemalloc.start(1)
        with open_store(url) as store:
            window = oracle.begin(store, 100, 4, 4, name="leaks")
            for number in range(checkpoints):
                back = window.structure().back
                window.extend(oracle.events(back, back + 7))
                snapshot = window.checkpoint()
                if number % 3 == 0:
                    window = oracle.reopen(snapshot, store, 100)
                if (number + 1) % (checkpoints // 3) == 0:
                    gc.collect()
                    alive = set(live_keys(window))
                    assert set(store.keys("leaks/")) == alive
                    oracle.assert_whole(window, 100)
                    used.append({
                        "threads": threading.active_count(),
                        "files": oracle.open_files(),
                        "pages": len(alive),
                        "memory": tracemalloc.get_traced_memory()[0],
                        "snapshot": len(snapshot),
                        "disk": sum(file.stat().st_blocks for file in tmp_path.rglob("*")),
                    })  # fmt: skip
            window.delete_pages()
            store.flush()
            assert not list(store.keys("leaks/"))
        tracemalloc.stop()
        _, second, third = used
        slack = {"memory": 100_000, "pages": 10, "snapshot": 1500, "disk": 256}
        for what, amount in third.items():
            assert amount <= second[what] + slack.get(what, 0), f"{what}: {used}"

    in_children([work])  # where no thread of an earlier test takes memory


def test_opening_and_closing_stores_leaves_nothing(tmp_path: Path) -> None:
    def once() -> None:
        with open_store(f"file://{tmp_path}/pages") as store:
            window = oracle.begin(store, 50, 3, 3)
            window.extend(oracle.events(0, 60))
            window.checkpoint()

    once()
    threads, files = threading.active_count(), oracle.open_files()
    for _ in range(100):
        once()
    assert threading.active_count() <= threads
    assert oracle.open_files() <= files
