"""Caches: bounded, never stale and never in the way; a prefetch saves the reader a fetch."""

from __future__ import annotations

import os
import random
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from pathlib import Path
from random import Random

import msgpack
import pytest

from stores import StoreUnavailable, WrapperStore, open_store
from stores.disk_cache import DiskCache, _digest, default_folder
from stores.errors import InvalidStoreURL
from stores.head_cache import _QUEUE, HeadCache
from stores.local_disk import LocalDiskStore
from stores.lru import LRU, SharedLRU
from stores.memory import MemoryStore
from stores.pack_store import PackStore
from stores.write_buffer import WriteBuffer
from tests.support.faulty import Gated, eventually
from tests.support.objects import MemoryObjects
from tests.support.patience import LONG, in_time


def test_it_has_the_most_recently_used_values_that_fit() -> None:
    """Against a list of the values, the least recently used first."""
    random, cache, known = Random(1), LRU[int, bytes](100, 5), list[tuple[int, bytes]]()
    for _ in range(5000):
        key, choice = random.randrange(30), random.random()
        of_key = next((value for each, value in known if each == key), None)
        if choice < 0.5:
            assert cache.get(key) == of_key
        elif choice < 0.6:
            assert cache.pop(key) == of_key
        else:
            of_key = bytes(random.randrange(40))
            cache.put(key, of_key)
        known = [(each, value) for each, value in known if each != key]
        if of_key is not None and not 0.5 <= choice < 0.6:
            known.append((key, of_key))
        while sum(len(value) + 5 for _, value in known) > 100:
            del known[0]
        assert cache.size == sum(len(value) + 5 for _, value in known)
        assert len(cache) == len(known) and all(each in cache for each, _ in known)
    cache.clear()
    assert (len(cache), cache.size) == (0, 0)


def test_a_value_larger_than_the_cache_drops_only_its_own_key() -> None:
    cache = LRU[str, bytes](10)
    cache.put("a", b"1234")
    cache.put("b", b"5")
    cache.put("b", bytes(11))
    assert cache.get("a") == b"1234" and cache.get("b") is None


def test_entries_are_counted_if_nothing_weighs_them() -> None:
    cache = LRU[str, int].of(2)
    for number, key in enumerate("abc"):
        cache.put(key, number)
    before = copy(cache)
    assert (cache.values(), cache.size, cache.peek("b"), cache.peek("a")) == ([1, 2], 2, 1, None)
    cache.shrink(1)
    assert (cache.values(), cache.size) == ([2], 1) and before.values() == [1, 2]


def test_threads_share_a_cache() -> None:
    """Without the lock, a value is dropped between a look and its move to the end."""
    cache, interval = SharedLRU[int, bytes](60), sys.getswitchinterval()

    def use(seed: int) -> None:
        random = Random(seed)
        for _ in range(25_000):
            key = random.randrange(20)
            if (found := cache.get(key)) is not None:
                assert found == bytes(key)
            cache.put(key, bytes(key))

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(use, range(4)))
    finally:
        sys.setswitchinterval(interval)
    assert cache.size == sum(map(len, cache.values())) <= 60


PAGE = b"p" * 1000
PAGES = {f"g/{i}": bytes([i]) * 1000 for i in range(40)}


@pytest.fixture
def store() -> Gated:
    store = Gated(MemoryStore())
    store.store.put_many(PAGES)
    return store


@pytest.fixture
def cache(store: Gated) -> Iterator[HeadCache]:
    cache = HeadCache(store, 100_000)
    yield cache
    store.gate.set()
    cache.close()


def test_a_page_is_fetched_once(store: Gated, cache: HeadCache) -> None:
    for _ in range(3):
        assert cache.get_many(["g/1", "g/2", "g/1"]) == [PAGES["g/1"], PAGES["g/2"], PAGES["g/1"]]
    assert store.logged("get") == [["g/1", "g/2"]]
    cache.get_many(["g/2", "g/3"])
    assert store.logged("get")[1:] == [["g/3"]]


def test_a_missing_page_is_asked_for_again(store: Gated, cache: HeadCache) -> None:
    assert cache.get_many(["g/none"]) == cache.get_many(["g/none"]) == [None]
    assert len(store.logged("get")) == 2


def test_the_bound_holds_and_the_oldest_go(store: Gated) -> None:
    cache = HeadCache(store, 5000)
    for key in PAGES:
        cache.get_many(["g/0", key])
        assert cache.cached_bytes <= 5000
    assert [key for key in PAGES if cache.peek(key)] == ["g/0", "g/37", "g/38", "g/39"]


def test_a_page_larger_than_the_cache_is_not_kept(store: Gated) -> None:
    cache = HeadCache(store, 500)
    assert cache.get_many(["g/1"]) == [PAGES["g/1"]]
    assert cache.cached_bytes == 0


def test_prefetch_saves_the_fetch(store: Gated, cache: HeadCache) -> None:
    cache.prefetch(["g/1", "g/2", "g/3"])
    eventually(lambda: cache.cached_bytes > 3000)
    assert store.logged("get") == [["g/1", "g/2", "g/3"]]
    cache.get_many(["g/3", "g/1"])
    assert len(store.logged("get")) == 1


def test_a_fetch_takes_a_quarter_of_the_cache_at_most(store: Gated) -> None:
    cache = HeadCache(store, 40_000)
    cache.prefetch(["g/none"])
    cache.prefetch(list(PAGES))
    eventually(lambda: len(cache._pages) > 30 and not cache._queue and not cache._flying)
    sizes = [len(keys) for keys in store.logged("get")]
    assert sum(sizes) == 41
    assert max(sizes) <= 16  # before it knows the size of a page
    assert sizes[-2:] in ([10, 5], [10, 4])
    assert cache.cached_bytes <= 40_000
    cache.close()


def test_what_is_in_memory_is_peeked_at_without_a_call(store: Gated, cache: HeadCache) -> None:
    assert cache.peek("g/1") is None
    cache.get_many(["g/1"])
    assert cache.peek("g/1") == WrapperStore(cache).peek("g/1") == PAGES["g/1"]
    cache.delete_many(["g/1"])
    assert cache.peek("g/1") is None
    assert len(store.logged("get")) == 1
    assert cache.capabilities.read_ahead == 25_000
    assert store.capabilities.read_ahead == 0


def test_a_reader_joins_a_fetch_under_way(store: Gated, cache: HeadCache) -> None:
    store.gate.clear()
    cache.prefetch(["g/1"])
    eventually(lambda: store.attempts)
    threading.Timer(0.05, store.gate.set).start()
    assert cache.get_many(["g/1", "g/2"]) == [PAGES["g/1"], PAGES["g/2"]]
    assert sorted(store.logged("get")) == [["g/1"], ["g/2"]]


def test_a_reader_takes_over_what_is_only_queued(store: Gated, cache: HeadCache) -> None:
    store.gate.clear()
    cache.prefetch(["g/1"])
    eventually(lambda: store.attempts)
    cache.prefetch(["g/2"])
    threading.Timer(0.05, store.gate.set).start()
    assert cache.get_many(["g/2"]) == [PAGES["g/2"]]
    eventually(lambda: not cache._flying)
    assert sorted(store.logged("get")) == [["g/1"], ["g/2"]]


def test_prefetch_neither_blocks_nor_fails(store: Gated, cache: HeadCache) -> None:
    store.gate.clear()
    with in_time():
        for _ in range(100):
            cache.prefetch([f"g/{i}" for i in range(5000)])
    assert len(cache._queue) <= _QUEUE
    store.error = StoreUnavailable("gone")
    store.gate.set()
    eventually(lambda: not cache._queue and not cache._flying)
    with pytest.raises(StoreUnavailable):
        cache.get_many(["g/1"])
    store.error = None
    assert cache.get_many(["g/1"]) == [PAGES["g/1"]]


def test_a_failed_fetch_is_repeated_by_the_reader(store: Gated, cache: HeadCache) -> None:
    store.gate.clear()
    store.error = StoreUnavailable("a blip")
    cache.prefetch(["g/1"])
    eventually(lambda: store.attempts)

    def heal() -> None:
        store.gate.set()
        eventually(lambda: not cache._flying or store.attempts > 1)
        store.error = None

    threading.Timer(0.02, heal).start()
    try:
        assert cache.get_many(["g/1"]) == [PAGES["g/1"]]
    except StoreUnavailable:  # the reader's own fetch met the end of the blip
        assert store.attempts == 2


@pytest.mark.parametrize("change", ["put", "delete"])
def test_a_fetch_that_a_change_overtook_is_not_kept(
    store: Gated, cache: HeadCache, change: str
) -> None:
    original, began, go_on = store.store.get_many, threading.Event(), threading.Event()

    def slow(keys: list[str]) -> list[bytes | None]:
        found = original(keys)
        began.set()
        go_on.wait(LONG)
        return found

    store.store.get_many = slow  # type: ignore[method-assign, assignment]
    cache.prefetch(["g/1"])
    assert began.wait(LONG)
    if change == "delete":
        cache.delete_many(["g/1"])
    else:
        cache.put_many({"g/1": b"new"})
    go_on.set()
    assert cache.get_many(["g/1"]) == [None if change == "delete" else b"new"]


def test_many_threads_see_no_stale_page() -> None:
    store = MemoryStore()
    cache = HeadCache(store, 20_000)
    errors: list[BaseException] = []

    def work(number: int) -> None:
        dice = random.Random(number)
        mine = [f"g/{number}/{i}" for i in range(10)]
        model: dict[str, bytes] = {}
        try:
            for _ in range(400):
                keys = dice.sample(mine, 3)
                match dice.randrange(4):
                    case 0:
                        pages = {key: dice.randbytes(200) for key in keys}
                        cache.put_many(pages)
                        model |= pages
                    case 1:
                        cache.delete_many(keys)
                        for key in keys:
                            model.pop(key, None)
                    case 2:
                        cache.prefetch(mine)
                    case _:
                        assert cache.get_many(keys) == [model.get(key) for key in keys]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=[i]) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert 0 < cache.cached_bytes <= 20_000
    cache.close()


def test_the_thread_ends(store: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stores.head_cache._IDLE", 0.02)
    before = threading.active_count()
    cache = HeadCache(store, 100_000)
    for key in ("g/1", "g/2"):
        cache.prefetch([key])
        eventually(lambda key=key: cache.peek(key))  # type: ignore[misc]
        eventually(lambda: threading.active_count() == before)
    cache.prefetch(["g/3"])
    cache.close()
    assert threading.active_count() == before


def test_what_is_wanted_while_it_is_on_its_way_to_the_store_is_never_read(
    store: Gated, cache: HeadCache
) -> None:
    """The write buffer offers it, so that nobody waits for a page that has just been written."""
    with WriteBuffer(cache, 1 << 20) as buffer:
        buffer.put_many({"g/new": PAGE, "g/other": PAGE})
        buffer.prefetch(["g/new"])
        buffer.flush()
        assert (buffer.peek("g/new"), buffer.peek("g/other")) == (PAGE, None)
        buffer.put_many({"g/new": PAGE * 2})
        buffer.flush()
        assert buffer.get_many(["g/new"]) == [PAGE * 2]
        buffer.prefetch(["g/other"])
        buffer.delete_many(["g/new", "g/other"])
        buffer.flush()
        assert buffer.get_many(["g/new", "g/other"]) == [None, None]
    assert store.logged("get")[0] in (["g/new"], ["g/other"])


DISK_PAGES = {f"w/0/{i:03d}": bytes([i]) * 1000 for i in range(50)}
MIB = 1 << 20


def on_disk(objects: MemoryObjects, folder: Path) -> PackStore:
    """A store that keeps packs on disk alone."""
    return PackStore(objects, cache=DiskCache(str(folder), objects.url, 64 * MIB), pack_cache=0)


@pytest.mark.parametrize("fetched", [False, True])
def test_what_was_put_or_fetched_is_found_by_a_process_that_starts_again(
    tmp_path: Path, fetched: bool
) -> None:
    objects = MemoryObjects()
    (PackStore(objects) if fetched else on_disk(objects, tmp_path)).put_many(DISK_PAGES)
    for requests in (fetched, False):
        objects.requests.clear()
        with on_disk(objects, tmp_path) as store:
            assert store.get_many(list(DISK_PAGES)) == list(DISK_PAGES.values())
        assert bool(objects.requests) == requests


def test_processes_of_a_machine_know_each_other_s_packs(tmp_path: Path) -> None:
    """So a worker may delete what another one wrote, without a listing."""
    objects = MemoryObjects()
    one, other = on_disk(objects, tmp_path), on_disk(objects, tmp_path)
    for turn in range(5):
        one.put_many({f"w/{turn}/0": b"page"})
        other.put_many({f"w/{turn}/1": b"page"})
        objects.requests.clear()
        one.delete_many([f"w/{turn}/1"])
        other.delete_many([f"w/{turn}/0"])
        assert objects.requests["LIST"] == 0
    one.close()
    other.close()
    assert list(PackStore(objects).keys()) == []


def test_a_deleted_page_is_in_no_cache(tmp_path: Path) -> None:
    objects = MemoryObjects()
    one, other = on_disk(objects, tmp_path), on_disk(objects, tmp_path)
    one.put_many(DISK_PAGES)
    other.delete_many(DISK_PAGES)
    other.close()
    assert one.get_many(list(DISK_PAGES)) == [None] * len(DISK_PAGES)


def test_stores_share_a_folder_but_no_page(tmp_path: Path) -> None:
    one = DiskCache(str(tmp_path), "s3://one", 16 * MIB)
    other = DiskCache(str(tmp_path), "s3://other", 16 * MIB)
    one.put_many(DISK_PAGES)
    assert other.get_many(list(DISK_PAGES)) == [None] * len(DISK_PAGES)
    assert one.get_many(list(DISK_PAGES)) == list(DISK_PAGES.values())


def test_what_came_first_goes_first_where_there_is_no_room(tmp_path: Path) -> None:
    caches = [DiskCache(str(tmp_path), "s3://one", 16 * MIB) for _ in range(2)]
    names = [f"w/{i}" for i in range(64)]
    for at, name in enumerate(names):
        caches[at % 2].put_many({name: bytes(MIB)})
    kept = [name for name, page in zip(names, caches[0].get_many(names), strict=True) if page]
    assert kept == names[-len(kept) :]
    # Each process may be wrong by what others put since it counted.
    assert 8 <= len(kept) <= 2 * 16
    assert sum(path.stat().st_size for path in tmp_path.rglob("data.mdb")) < 64 * MIB


def raw(tmp_path: Path) -> LocalDiskStore:
    """The folder of a cache, past it."""
    (folder,) = tmp_path.glob("boot-*")
    return LocalDiskStore(folder)


def sealed(name: str, content: bytes) -> bytes:
    """An entry that nobody damaged, of whatever content."""
    return _digest(name, content) + content


#: What may happen to an entry of a cache, given its name, its bytes and those of another one.
DAMAGE: dict[str, Callable[[str, bytes, bytes], bytes]] = {
    "empty": lambda name, entry, other: b"",
    "short": lambda name, entry, other: entry[:9],
    "cut": lambda name, entry, other: entry[:-1],
    "longer": lambda name, entry, other: entry + b"x",
    "a bit": lambda name, entry, other: entry[:20] + bytes([entry[20] ^ 4]) + entry[21:],
    "of another one": lambda name, entry, other: other,
    "text": lambda name, entry, other: b"damaged",
    "nothing": lambda name, entry, other: sealed(name, b""),
    "other data": lambda name, entry, other: sealed(name, msgpack.packb([None, 3])),
    "names of numbers": lambda name, entry, other: sealed(name, msgpack.packb([7, [1, 2]])),
    "no msgpack": lambda name, entry, other: sealed(name, b"\xc1"),
}


@pytest.mark.parametrize("kind", ["i/", "t/", "p/"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_entries_are_dropped_and_read_again(
    tmp_path: Path, kind: str, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads and writes are right as long as the bucket is, in this process and in the next."""
    if kind == "p/" and damage in ("nothing", "other data", "names of numbers", "no msgpack"):
        pytest.skip("whoever writes pages under good digests may as well write to the bucket")
    monkeypatch.setattr("stores.disk_cache._RECOUNT", 2)
    objects = MemoryObjects()
    with on_disk(objects, tmp_path) as store:
        for page in list(DISK_PAGES)[:9]:
            store.put_many({page: DISK_PAGES[page]})
        with raw(tmp_path) as entries:
            names = sorted(entries.keys(kind))
            found = dict(zip(names, entries.get_many(names), strict=True))
            others = [*names[1:], names[0]]
            entries.put_many({name: DAMAGE[damage](name, found[name] or b"", found[other] or b"")
                              for name, other in zip(names, others, strict=True)})  # fmt: skip
        for writer in (store, on_disk(objects, tmp_path)):
            pages = (
                {key: page + b"again" for key, page in DISK_PAGES.items()}
                if writer is store
                else {}
            )
            expected = [DISK_PAGES[key] for key in list(DISK_PAGES)[:9]]
            assert writer.get_many(list(DISK_PAGES)[:9]) == expected
            for _ in range(4):
                writer.put_many({f"v/{key}": page for key, page in (pages or DISK_PAGES).items()})
            assert writer.get_many(list(DISK_PAGES)[:9]) == expected
            writer.delete_many(["w/0/008"])
            assert writer.get_many(["w/0/008"]) == [None]
            writer.put_many({"w/0/008": DISK_PAGES["w/0/008"]})
        objects.requests.clear()
        assert store.get_many(list(DISK_PAGES)[:8]) == expected[:8]
        assert not objects.requests, "good copies are in the cache again"
    with raw(tmp_path) as entries:
        turns = entries.get_many(sorted(entries.keys("t/")))
        named = {name for turn in turns for name in msgpack.unpackb((turn or b"")[16:])[1]}
        assert {*entries.keys("p/"), *entries.keys("i/")} <= named, "each entry can be evicted"


def test_a_cache_that_fails_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("no folder")
    store = on_disk(MemoryObjects(), tmp_path / "file")
    store.put_many(DISK_PAGES)
    assert store.get_many(list(DISK_PAGES)) == list(DISK_PAGES.values())
    store.delete_many(DISK_PAGES)
    store.close()
    assert caplog.text.count("is no longer used") == 1


def test_folders_of_earlier_boots_are_removed(tmp_path: Path) -> None:
    old = tmp_path / "boot-0123456789abcdef"
    old.mkdir()
    (old / "data.mdb").write_bytes(b"of another boot")
    DiskCache(str(tmp_path), "s3://one", 16 * MIB).put_many(DISK_PAGES)
    assert not old.exists()


def test_settings_that_make_no_cache() -> None:
    with pytest.raises(InvalidStoreURL, match="absolute path"):
        DiskCache("relative", "s3://b")
    with pytest.raises(InvalidStoreURL, match="at least 16MiB"):
        DiskCache("/cache", "s3://b", MIB)


def test_the_default_folder_is_this_user_s_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = default_folder()
    assert folder is not None and folder == default_folder()
    assert Path(folder).parent == tmp_path
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700


def test_a_default_folder_of_others_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = Path(default_folder() or "")
    folder.chmod(0o777)
    assert default_folder() is None
    folder.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    assert default_folder() is None
    assert "choose another folder" in caplog.text


def test_an_object_store_has_a_cache_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("obstore")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert open_store("s3://b/p", write_buffer=0, cache=0).store._cache is not None  # type: ignore[attr-defined]
    url = "s3://b/p?cache_dir=none"
    assert open_store(url, write_buffer=0, cache=0).store._cache is None  # type: ignore[attr-defined]
