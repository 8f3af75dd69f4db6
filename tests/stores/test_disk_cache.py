"""The cache on disk of an object store: warm after a restart, shared, bounded, never in the way."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import msgpack
import pytest

from stores import open_store
from stores.disk_cache import DiskCache, _digest, default_folder
from stores.errors import InvalidStoreURL
from stores.local_disk import LocalDiskStore
from stores.pack_store import PackStore
from tests.support.objects import MemoryObjects

PAGES = {f"w/0/{i:03d}": bytes([i]) * 1000 for i in range(50)}
MIB = 1 << 20


def cached(objects: MemoryObjects, folder: Path) -> PackStore:
    """A store that keeps packs on disk alone."""
    return PackStore(objects, cache=DiskCache(str(folder), objects.url, 64 * MIB), pack_cache=0)


@pytest.mark.parametrize("fetched", [False, True])
def test_what_was_put_or_fetched_is_found_by_a_process_that_starts_again(
    tmp_path: Path, fetched: bool
) -> None:
    objects = MemoryObjects()
    (PackStore(objects) if fetched else cached(objects, tmp_path)).put_many(PAGES)
    for requests in (fetched, False):
        objects.requests.clear()
        with cached(objects, tmp_path) as store:
            assert store.get_many(list(PAGES)) == list(PAGES.values())
        assert bool(objects.requests) == requests


def test_processes_of_a_machine_know_each_other_s_packs(tmp_path: Path) -> None:
    """So a worker may delete what another one wrote, without a listing."""
    objects = MemoryObjects()
    one, other = cached(objects, tmp_path), cached(objects, tmp_path)
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
    one, other = cached(objects, tmp_path), cached(objects, tmp_path)
    one.put_many(PAGES)
    other.delete_many(PAGES)
    other.close()
    assert one.get_many(list(PAGES)) == [None] * len(PAGES)


def test_stores_share_a_folder_but_no_page(tmp_path: Path) -> None:
    one = DiskCache(str(tmp_path), "s3://one", 16 * MIB)
    other = DiskCache(str(tmp_path), "s3://other", 16 * MIB)
    one.put_many(PAGES)
    assert other.get_many(list(PAGES)) == [None] * len(PAGES)
    assert one.get_many(list(PAGES)) == list(PAGES.values())


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
    with cached(objects, tmp_path) as store:
        for page in list(PAGES)[:9]:
            store.put_many({page: PAGES[page]})
        with raw(tmp_path) as entries:
            names = sorted(entries.keys(kind))
            found = dict(zip(names, entries.get_many(names), strict=True))
            others = [*names[1:], names[0]]
            entries.put_many({name: DAMAGE[damage](name, found[name] or b"", found[other] or b"")
                              for name, other in zip(names, others, strict=True)})  # fmt: skip
        for writer in (store, cached(objects, tmp_path)):
            pages = {key: page + b"again" for key, page in PAGES.items()} if writer is store else {}
            expected = [PAGES[key] for key in list(PAGES)[:9]]
            assert writer.get_many(list(PAGES)[:9]) == expected
            for _ in range(4):
                writer.put_many({f"v/{key}": page for key, page in (pages or PAGES).items()})
            assert writer.get_many(list(PAGES)[:9]) == expected
            writer.delete_many(["w/0/008"])
            assert writer.get_many(["w/0/008"]) == [None]
            writer.put_many({"w/0/008": PAGES["w/0/008"]})
        objects.requests.clear()
        assert store.get_many(list(PAGES)[:8]) == expected[:8]
        assert not objects.requests, "good copies are in the cache again"
    with raw(tmp_path) as entries:
        turns = entries.get_many(sorted(entries.keys("t/")))
        named = {name for turn in turns for name in msgpack.unpackb((turn or b"")[16:])[1]}
        assert {*entries.keys("p/"), *entries.keys("i/")} <= named, "each entry can be evicted"


def test_a_cache_that_fails_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("no folder")
    store = cached(MemoryObjects(), tmp_path / "file")
    store.put_many(PAGES)
    assert store.get_many(list(PAGES)) == list(PAGES.values())
    store.delete_many(PAGES)
    store.close()
    assert caplog.text.count("is no longer used") == 1


def test_folders_of_earlier_boots_are_removed(tmp_path: Path) -> None:
    old = tmp_path / "boot-0123456789abcdef"
    old.mkdir()
    (old / "data.mdb").write_bytes(b"of another boot")
    DiskCache(str(tmp_path), "s3://one", 16 * MIB).put_many(PAGES)
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
