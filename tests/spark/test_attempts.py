"""Reliability 16 and 17 without Spark: attempts that overlap, and hundreds of micro-batches."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from mta import CountWindow
from mta.errors import MissingPage
from spark_integration.runners import workers
from spark_integration.step.step import Advanced, step
from stores import open_store
from tests.spark.test_step import gather
from tests.support.oracle import open_files
from tests.support.spark.events import last_n, make_events, oracle
from tests.support.spark.jobs import FOLDS, spread
from tests.support.spark.states import check_places, make_plan, snapshot_in

WINDOW, ARITY = 200, 4
PLAN = make_plan(window=CountWindow(WINDOW), arity=ARITY, leaf_arity=ARITY)


def shuffled(rows: pa.Table, seed: int) -> pa.Table:
    return rows.take(pa.array(np.random.default_rng(seed).permutation(rows.num_rows)))


@pytest.mark.parametrize("attempts", [2, 4])
def test_attempts_of_one_batch_at_the_same_time_agree(store: str, attempts: int) -> None:
    # Equal times among the events: only the canonical order makes the attempts agree.
    events = make_events(4000, 5)
    size, state, done = 400, None, []
    barrier = threading.Barrier(attempts)
    with open_store(store) as pages, ThreadPoolExecutor(attempts) as pool:

        def attempt(state: bytes | None, rows: pa.Table, seed: int) -> Advanced:
            barrier.wait()
            return step(state, shuffled(rows, seed), PLAN, pages)

        for at in range(0, events.num_rows, size):
            batch = events.slice(at, size)
            running = [pool.submit(attempt, state, batch, seed) for seed in range(attempts)]
            twins = [one.result() for one in running]
            for twin in twins[1:]:
                assert twin.state == twins[0].state
                assert gather([twin]) == gather(twins[:1])
            # Whichever attempt Spark commits.
            done.append(twins[at // size % attempts])
            state = done[-1].state
            count = check_places([snapshot_in(state)], pages, events.slice(0, at + size), WINDOW)
    assert count > 0
    assert sum(one.rows.num_rows for one in done) == events.num_rows


def test_a_late_twin_of_a_committed_batch_harms_nobody(store: str) -> None:
    """A task that was given up runs on beside the batches after it.

    Here it fails for want of a page, or writes what the batches after it have not deleted.
    """
    events = spread(make_events(3000, 3))
    size, state, done = 150, None, []
    older: list[tuple[bytes | None, pa.Table]] = []
    with open_store(store) as pages:
        for at in range(0, events.num_rows, size):
            batch = events.slice(at, size)
            for age, (before, rows) in enumerate(reversed(older[-3:])):
                try:
                    again = step(before, shuffled(rows, at), PLAN, pages)
                    assert age > 0 or again.state == state
                except MissingPage:  # two batches late and more; its result would not be used
                    assert age > 0
            older.append((state, batch))
            done.append(step(state, batch, PLAN, pages))
            state = done[-1].state
        assert state is not None
        assert check_places([snapshot_in(state)], pages, events, WINDOW) > 0
    assert gather(done) == oracle(events, last_n(WINDOW), FOLDS[:2])


def test_hundreds_of_batches_leave_nothing_behind(store: str, tmp_path: Path) -> None:
    batches, size, keys = 200, 50, 6
    events = spread(make_events(batches * size, keys))
    state, done, seen = None, [], []
    with open_store(store) as pages:
        for i in range(batches):
            done.append(step(state, events.slice(i * size, size), PLAN, pages))
            state = done[-1].state
            if i % 10 == 9:
                count = check_places(
                    [snapshot_in(state)], pages, events.slice(0, (i + 1) * size), WINDOW
                )
                disk = (tmp_path / "pages" / "data.mdb").stat().st_size
                # A Java beside it, of other tests, is talked to when that likes.
                files = open_files(sockets=False)
                seen.append((threading.active_count(), files, disk, len(state), count))
    assert gather(done) == oracle(events, last_n(WINDOW), FOLDS[:2])
    threads, files, disk, root, count = zip(*seen, strict=True)
    assert min(count) > 0 and min(files) > 0
    assert max(threads[10:]) <= max(threads[:10])
    assert max(files[10:]) <= max(files[:10])
    assert max(disk[10:]) <= max(disk[:10]) * 1.1
    assert max(root[10:]) <= max(root[:10]) * 1.1
    assert max(count[10:]) <= max(count[:10]) * 1.1


def test_a_worker_keeps_few_stores_open(tmp_path: Path) -> None:
    urls = [f"file://{tmp_path}/{i}" for i in range(3 * workers.MOST)]
    with workers.store_of(urls[0]) as held:
        for url in urls[1:]:
            with workers.store_of(url) as store:
                store.put_many({"page": b"page"})
        held.put_many({"page": b"page"})  # a store in use stays open, however long ago it was taken
        held.flush()
        with workers.store_of(urls[0]) as same:
            assert same is held
    assert len(workers._open) == workers.MOST
    assert [*workers._open][-1] == (os.getpid(), urls[0])
    for url in urls[1:]:  # those that were closed had everything sent, and open again
        with workers.store_of(url) as store:
            assert store.get_many(["page"]) == [b"page"]
    assert len(workers._open) <= workers.MOST
