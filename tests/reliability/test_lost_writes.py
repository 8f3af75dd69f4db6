"""Writes that are lost, repeated or reordered, and writes whose answers are lost.

If the store forgets unsynced writes, there is an older consistent window or a named error, never a
mix.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random

import pytest

from mta import Window
from mta.audit.walk import live_keys
from mta.errors import CorruptPage, MissingPage
from mta.logs.base import Aggregator
from stores import HeadCache, MemoryStore, PageStore, WriteBuffer
from stores.base import WrapperStore
from stores.testing import FaultyStore
from tests.support import oracle
from tests.support.patience import LONG
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


def write(store: PageStore, seed: int) -> tuple[bytes, int]:
    """A window's newest snapshot, and its end."""
    random, tree = Random(seed), tree_of(seed)
    sizes = random.choice((2, 3, 5)), random.choice((2, 4))
    window = oracle.begin(store, SIZE, *sizes, aggregator=tree)
    snapshot = window.checkpoint()
    for _ in range(30):
        back = window.structure().back
        window.extend(oracle.events(back, back + random.randint(1, 30)))
        if random.random() < 0.5:
            snapshot = window.checkpoint()
        if random.random() < 0.2:
            window = oracle.reopen(snapshot, store, SIZE, aggregator=tree)
    return window.checkpoint(), window.structure().back


def tree_of(seed: int) -> type[Aggregator]:
    return oracle.TREES[seed % len(oracle.TREES)]


@pytest.mark.parametrize("seed", some(range(20), by_default=8))
def test_background_writes_repeated_and_reordered(seed: int) -> None:
    memory = MemoryStore()
    faulty = FaultyStore(memory, seed=seed)
    faulty.hold(Random(seed).choice((None, 5, 40)), shuffle=True, duplicates=0.5)
    store = WriteBuffer(faulty, 4096)
    snapshot, back = write(store, seed)
    # Past everything that held writes back.
    window = oracle.reopen(snapshot, memory, SIZE, aggregator=tree_of(seed))
    assert oracle.assert_whole(window, SIZE) == back
    store.close()


@pytest.mark.parametrize("seed", some(range(8), by_default=4))
def test_answers_lost_now_and_then(seed: int) -> None:
    """The buffer sends again what it cannot know to have arrived."""
    memory = MemoryStore()
    faulty = FaultyStore(memory)
    for nth in Random(seed).sample(range(1, 25), 3):
        faulty.fail(nth, applied=True, operations=["put", "delete"])
    store = WriteBuffer(faulty, 4096, deadline=LONG)
    snapshot, back = write(store, seed)
    assert faulty.fired
    window = oracle.reopen(snapshot, memory, SIZE, aggregator=tree_of(seed))
    assert oracle.assert_whole(window, SIZE) == back
    store.close()


@pytest.mark.parametrize("tree", oracle.TREES)
def test_a_twin_that_writes_the_same_again_changes_nothing(tree: type[Aggregator]) -> None:
    """A batch is repeated from its old snapshot by a twin that was thought dead."""
    memory = MemoryStore()
    window = oracle.begin(memory, SIZE, 3, 2, aggregator=tree)
    window.extend(oracle.events(0, 200))
    before = window.checkpoint()
    after = []
    for _ in range(3):
        twin = oracle.reopen(before, memory, SIZE, aggregator=tree)
        twin.extend(oracle.events(200, 321))
        after.append(twin.checkpoint())
    assert after[0] == after[1] == after[2]
    window = oracle.reopen(after[0], memory, SIZE, aggregator=tree)
    assert oracle.assert_whole(window, SIZE) == 321
    assert set(live_keys(window)) == set(memory.keys())


class NothingAhead(HeadCache):
    """A cache that fetches nothing in the background, so that it is known who asks first."""

    def prefetch(self, keys: Iterable[str]) -> None:
        del keys

    def offer(self, pages: Mapping[str, bytes]) -> None:
        del pages


def test_a_page_that_was_damaged_on_its_way_is_fetched_again() -> None:
    """The store's own copy is whole, so the cache must not keep the other one."""
    faulty = FaultyStore(MemoryStore())
    store = WriteBuffer(NothingAhead(faulty), 1 << 20)
    window = oracle.begin(store, SIZE, 3, 2)
    window.extend(oracle.events(0, 300))
    snapshot = window.checkpoint()
    faulty.corrupt(1, flip=77)
    window = oracle.reopen(snapshot, store, SIZE)
    with pytest.raises(CorruptPage):
        window.evict(1)
    window = oracle.reopen(snapshot, store, SIZE)
    assert oracle.assert_whole(window, SIZE) == 300
    store.close()
