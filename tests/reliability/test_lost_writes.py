"""The store forgets unsynced writes: an older consistent window or a named error, never a mix."""

from __future__ import annotations

from random import Random

import pytest

from mta import Window
from mta.errors import MissingPage
from mta.logs.base import Aggregator
from stores import MemoryStore, PageStore, WriteBuffer
from stores.base import WrapperStore
from stores.testing import FaultyStore
from tests.support import oracle
from tests.support.sampling import some

SIZE = 80


class Lying(WrapperStore):
    """Says that it has synced, and has not."""

    def flush(self) -> None:
        return


def written(
    store: PageStore,
    random: Random,
    snapshots: list[bytes],
    tree: type[Aggregator],
    retain: int = 2,
) -> None:
    """Snapshots of a window, and at the end events after the last one."""
    window = oracle.begin(store, SIZE, 3, 2, aggregator=tree, retain=retain)
    for _ in range(random.randint(3, 12)):
        back = window.structure().back
        window.extend(oracle.events(back, back + random.randint(1, 40)))
        snapshots.append(window.checkpoint())
    back = window.structure().back
    window.extend(oracle.events(back, back + random.randint(0, 60)))


@pytest.mark.parametrize("seed", some(range(35), by_default=10))
def test_what_was_flushed_is_there_whatever_else_is_lost(seed: int) -> None:
    random, name, tree = Random(seed), f"lost{seed}", oracle.TREES[seed % len(oracle.TREES)]
    faulty = FaultyStore(MemoryStore(name), seed=seed)
    faulty.hold(shuffle=True, duplicates=0.2)
    buffer = WriteBuffer(faulty, 1024)
    snapshots: list[bytes] = []
    written(buffer if seed // 4 % 2 else faulty, random, snapshots, tree)
    faulty.crash(keep=random.randint(0, faulty.held))
    buffer.abandon()
    memory = MemoryStore(name)
    window = oracle.reopen(snapshots[-1], memory, SIZE, aggregator=tree)
    back = oracle.assert_whole(window, SIZE)
    window.extend(oracle.events(back, back + 100))
    oracle.assert_whole(window, SIZE)


@pytest.mark.parametrize("seed", some(range(45), by_default=10))
def test_a_store_that_lies_about_its_flush_is_found_out(seed: int) -> None:
    """Each snapshot, the newest first: the very window, or a MissingPage."""
    random, tree = Random(seed), oracle.TREES[seed // 2 % len(oracle.TREES)]
    faulty = FaultyStore(MemoryStore(), seed=seed)
    faulty.hold(shuffle=bool(seed % 2), duplicates=0.2)
    snapshots: list[bytes] = []
    written(Lying(faulty), random, snapshots, tree, retain=50)
    lost = faulty.crash(keep=random.randint(0, faulty.held))
    faulty.heal()
    opened = [oracle.reopen(snapshot, faulty, SIZE, aggregator=tree) for snapshot in snapshots]
    whole = [snapshot for snapshot, past in zip(snapshots, opened, strict=True) if is_whole(past)]
    assert whole == snapshots or lost, "nothing was lost, and a snapshot cannot be read"
    if not seed % 2:
        # In order, what was lost is the newest: the snapshots before it are all whole.
        assert whole == snapshots[: len(whole)]


def is_whole(window: Window) -> bool:
    """Whether the window can be read; it is exactly right, then."""
    try:
        oracle.assert_whole(window, SIZE)
    except MissingPage as error:
        assert "is not in" in str(error)
        return False
    return True
