"""Local disk: several processes, kills, a full disk, missing rights, damage."""

from __future__ import annotations

import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest
from pytest import MonkeyPatch

from stores import (
    InvalidStoreURL,
    PageStore,
    StoreAccessDenied,
    StoreDamaged,
    StoreFull,
    StoreUnavailable,
    open_store,
    ping_store,
)
from stores.local_disk import LocalDiskStore
from tests.support.oracle import Stream, assert_whole, reopen
from tests.support.patience import in_time
from tests.support.sampling import some

PAGE = bytes(range(256)) * 128  # 32 KiB
MIB = 1 << 20
NOBODY = 65534


def pages(number: int, group: str = "g", page: bytes = PAGE) -> dict[str, bytes]:
    return {f"{group}/{i:06d}": page for i in range(number)}


def become_nobody() -> None:
    if os.getuid() == 0:  # nothing is forbidden to root
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def leave_memory_of(size: int) -> None:
    """Limit the address space to what the tests have loaded and so many bytes more."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + size, used + size))


def in_child(work: Callable[[], None]) -> None:
    """Do the work in a fork; it must succeed."""
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        status = 1
        try:
            work()
            status = 0
        except BaseException as error:
            os.write(2, f"{error!r}\n".encode())
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can reach, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_a_full_map_is_named_and_room_can_be_made(tmp_path: Path) -> None:
    with LocalDiskStore(tmp_path, map_size=2 * MIB) as store:
        store.put_many(pages(20))
        with pytest.raises(StoreFull, match="map_size"):
            store.put_many(pages(80, "more"))
        assert list(store.keys("more")) == [], "a failed batch was stored in part"
        assert store.get_many(list(pages(20))) == [PAGE] * 20
        store.delete_many(pages(20))
        store.put_many(pages(20, "after"))
    with LocalDiskStore(tmp_path, map_size=8 * MIB) as larger:
        larger.put_many(pages(80, "more"))


def test_room_that_deletes_made_can_be_used_at_once(tmp_path: Path) -> None:
    with LocalDiskStore(tmp_path, map_size=2 * MIB) as store:
        with pytest.raises(StoreFull):
            for i in range(100):
                store.put_many({f"g/{i:06d}": PAGE})
        for turn in range(5):
            gone = sorted(store.keys())[:20]
            store.delete_many(gone)
            store.put_many(pages(len(gone) - 3, f"turn{turn}"))


def test_a_full_store_behind_the_buffer_loses_nothing(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}?map_size=2MiB&write_buffer=512KiB")
    accepted = 0
    with pytest.raises(StoreFull):
        for i in range(500):
            store.put_many({f"g/{i:06d}": PAGE})
            accepted += 1
    with pytest.raises(StoreFull):
        store.flush()
    assert store.get_many(list(pages(accepted))) == [PAGE] * accepted
    with LocalDiskStore(tmp_path) as other:
        other.delete_many(list(pages(30)))
    store.flush()
    assert store.get_many(list(pages(accepted))) == [None] * 30 + [PAGE] * (accepted - 30)
    store.close()


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    def work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, MIB))
        store = LocalDiskStore(tmp_path)
        store.put_many(pages(10))
        with pytest.raises(StoreFull, match="disk"):
            store.put_many(pages(60, "more"))
        assert store.get_many(list(pages(10))) == [PAGE] * 10

    in_child(work)
    with LocalDiskStore(tmp_path) as store:
        assert store.get_many(list(pages(10))) == [PAGE] * 10
        assert list(store.keys("more")) == []


def test_space_of_deleted_pages_is_used_again(tmp_path: Path) -> None:
    window, step = 64, 16
    with LocalDiskStore(tmp_path) as store:
        for start in range(0, 2000, step):
            store.put_many({f"g/{i:06d}": PAGE for i in range(start, start + step)})
            store.delete_many([f"g/{i:06d}" for i in range(start - window, start - window + step)])
    size = (tmp_path / "data.mdb").stat().st_size
    assert size < 3 * (window + step) * (len(PAGE) + 4096), "2000 pages went through, 64 lived"


def test_a_slow_listing_does_not_pin_freed_pages(tmp_path: Path) -> None:
    with LocalDiskStore(tmp_path) as store:
        store.put_many(pages(2000, page=b"small"))
        listing = store.keys("g/")
        next(listing)
        environment = store._environment
        assert environment is not None
        assert "no active readers" in environment.database.readers()
        assert sum(1 for _ in listing) == 1999


def test_small_address_space(tmp_path: Path) -> None:
    def work() -> None:
        leave_memory_of(2 << 30)  # room for the smallest map
        with LocalDiskStore(tmp_path) as store:
            store.put_many(pages(3))
            assert store.get_many(list(pages(3))) == [PAGE] * 3

    in_child(work)


def test_a_map_that_another_process_has_grown(tmp_path: Path) -> None:
    with LocalDiskStore(tmp_path, map_size=2 * MIB) as store:
        store.put_many(pages(3))

        def work() -> None:
            with LocalDiskStore(tmp_path, map_size=64 * MIB) as larger:
                larger.put_many(pages(200, "more"))

        in_child(work)
        assert store.get_many(list(pages(200, "more"))) == [PAGE] * 200
        store.put_many(pages(20, "and more"))


def test_a_folder_without_rights(open_folder: Path) -> None:
    def work() -> None:
        become_nobody()
        store = open_store(f"file://{open_folder}")
        assert store.get_many(["g/1"]) == [None]
        with pytest.raises(StoreAccessDenied, match="rights"):
            store.ping(write=True)
        store.put_many({"g/1": PAGE})
        with pytest.raises(StoreAccessDenied, match="rights"):
            store.flush()
        assert store.get_many(["g/1"]) == [PAGE]

    open_folder.chmod(0o555)
    in_child(work)


@pytest.mark.parametrize("lock", [0o444, 0o666])
def test_who_may_only_read_reads_a_whole_window(
    open_folder: Path, lock: int, caplog: pytest.LogCaptureFixture
) -> None:
    """With a right to write LMDB's lock file, and without any."""
    with open_store(f"file://{open_folder}") as store:
        stream = Stream(store)
        stream.feed(2000)
        snapshot = stream.window.checkpoint()
        keys = sorted(store.keys())
        store.flush()
    for path in open_folder.iterdir():
        path.chmod(lock if path.name == "lock.mdb" else 0o444)
    open_folder.chmod(0o555)

    def work() -> None:
        become_nobody()
        with open_store(f"file://{open_folder}", write_buffer=0) as store:
            store.ping()
            assert ("without locks" in caplog.text) == (lock == 0o444)
            assert sorted(store.keys()) == keys
            assert store.origin
            again = reopen(snapshot, store, stream.size)
            again.check()
            assert assert_whole(again, stream.size) == 2000
            for call in (lambda: store.ping(write=True), lambda: store.delete_many(keys)):
                with pytest.raises(StoreAccessDenied, match="rights"):
                    call()

    in_child(work)


def test_files_that_may_not_be_read_are_refused(open_folder: Path) -> None:
    with LocalDiskStore(open_folder / "pages") as store:
        store.put_many(pages(3))
    (open_folder / "pages").chmod(0o755)  # its files are for the owner and the group

    def work() -> None:
        become_nobody()
        with pytest.raises(StoreAccessDenied, match=r"rights.*read access to data\.mdb"):
            LocalDiskStore(open_folder / "pages").get_many(["g/1"])
        with pytest.raises(StoreAccessDenied, match="rights"):
            LocalDiskStore(open_folder / "new").ping(write=True)

    in_child(work)


@pytest.mark.parametrize(("umask", "folder", "file"), [
    (0o000, 0o770, 0o660), (0o022, 0o750, 0o640), (0o002, 0o770, 0o660), (0o077, 0o700, 0o600),
])  # fmt: skip
def test_files_have_the_permissions_that_the_docs_name(
    tmp_path: Path, umask: int, folder: int, file: int
) -> None:
    def work() -> None:
        os.umask(umask)
        with LocalDiskStore(tmp_path / "pages") as store:
            store.put_many(pages(3))
        modes = {path.name: path.stat().st_mode & 0o7777 for path in (tmp_path / "pages").iterdir()}
        assert modes == dict.fromkeys(("ORIGIN", "data.mdb", "lock.mdb"), file)
        assert (tmp_path / "pages").stat().st_mode & 0o7777 == folder

    in_child(work)


def test_the_note_of_the_host_follows_no_link(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    """Somebody else who may write in the folder has put a link where the note is drafted."""
    monkeypatch.setattr("stores.local_disk.uuid4", lambda: UUID(int=7))
    victim, pages_folder = tmp_path / "victim", tmp_path / "pages"
    victim.write_text("precious")
    pages_folder.mkdir()
    (pages_folder / f"ORIGIN.{UUID(int=7).hex}").symlink_to(victim)
    with pytest.raises(InvalidStoreURL):
        LocalDiskStore(pages_folder).put_many(pages(1))
    assert victim.read_text() == "precious"


def test_a_path_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    for path in ("file", "file/below"):
        with pytest.raises(InvalidStoreURL, match="not a folder"):
            LocalDiskStore(tmp_path / path).put_many(pages(1))
        with pytest.raises(InvalidStoreURL, match=r"not a folder|no store here"):
            LocalDiskStore(tmp_path / path).ping()
    for path in ("/proc/no/such", "/proc/nope"):  # root has every right there, and yet no folder
        with pytest.raises(InvalidStoreURL):
            LocalDiskStore(path).put_many(pages(1))
        with pytest.raises(InvalidStoreURL):
            ping_store(f"file://{path}", write=True)


def test_calls_that_read_create_nothing(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    for folder in (tmp_path / "other", tmp_path / "missing" / "below"):
        with LocalDiskStore(folder) as store:
            assert store.get_many(["g/1", "g/2"]) == [None, None]
            assert store.view_many(["g/1"], list) == [None]
            assert list(store.keys()) == []
            store.delete_many(["g/1"])
            store.flush()
            store.ping(write=True)
            assert "no store" in store.explain_missing()
            with pytest.raises(InvalidStoreURL, match="no store here"):
                store.ping()
            assert [*tmp_path.rglob("*")] == [tmp_path / "other", tmp_path / "other" / "notes.txt"]
    with LocalDiskStore(tmp_path / "missing" / "below") as store:
        assert store.get_many(["g/1"]) == [None]
        store.put_many(pages(1))  # a store that found nothing finds what is written since
        assert store.get_many(["g/000000"]) == [PAGE]
        assert store.explain_missing() == ""
        store.ping()


@pytest.mark.parametrize("seed", some(range(20), by_default=2))
def test_a_truncated_file_is_named(tmp_path: Path, seed: int) -> None:
    """A read beyond its end would kill the process. A file that is short, but whole, is read."""
    rng, whole = random.Random(seed), tmp_path / "whole"
    held: dict[str, bytes] = {}
    for _ in range(40):
        with LocalDiskStore(whole, sync=False) as store:
            changed = {f"g/{rng.randrange(900)}": rng.randbytes(rng.choice([9, 500, 9000]))
                       for _ in range(rng.choice([1, 10, 200]))}  # fmt: skip
            gone = rng.sample(sorted(held), rng.randrange(len(held) + 1))
            store.put_many(changed)
            store.delete_many(gone)
            held = {key: page for key, page in (held | changed).items() if key not in gone}
            assert store.get_many(list(held)) == list(held.values())
    size = (whole / "data.mdb").stat().st_size
    for number, cut in enumerate([1, 4096, *(rng.randrange(1, size) for _ in range(6))]):
        part = tmp_path / f"{number}"
        shutil.copytree(whole, part)
        os.truncate(part / "data.mdb", size - cut)

        def work(part: Path = part) -> None:
            with LocalDiskStore(part) as store:
                try:
                    found = store.get_many(list(held))
                except StoreDamaged as error:
                    assert re.search("truncated.*restore a copy", str(error))
                    with pytest.raises(StoreDamaged):
                        store.put_many(pages(1))
                else:
                    assert found == list(held.values())  # only free pages are missing

        in_child(work)


def test_an_address_space_that_is_too_small_is_not_retried(tmp_path: Path) -> None:
    """A limit stays as it is, so that a call must not try for 30 seconds."""

    def work() -> None:
        leave_memory_of(300 << 20)
        store = open_store(f"file://{tmp_path}/pages")
        with in_time(), pytest.raises(StoreFull, match="ulimit -v"):
            store.put_many(pages(1))
            store.flush()
        os._exit(0)

    in_child(work)


def test_files_that_are_not_ours(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(b"something else" * 1000)
    with pytest.raises(StoreDamaged, match="restore"):
        LocalDiskStore(tmp_path).get_many(["g/1"])


def test_stores_on_one_folder_share_an_environment(tmp_path: Path) -> None:
    folder, link = tmp_path / "folder", tmp_path / "link"
    link.symlink_to(folder)
    one, other = LocalDiskStore(folder), LocalDiskStore(link)
    one.put_many(pages(2))
    assert other.get_many(list(pages(2))) == [PAGE] * 2
    one.close()
    assert other.get_many(list(pages(2))) == [PAGE] * 2
    other.close()


def test_a_folder_that_was_made_again_is_another_one(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    old = LocalDiskStore(folder)
    old.put_many(pages(2))
    shutil.rmtree(folder)
    with LocalDiskStore(folder) as new:
        assert new.get_many(["g/000000"]) == [None]
        new.put_many(pages(1))
    old.close()


def test_every_commit_is_synced(tmp_path: Path) -> None:
    with LocalDiskStore(tmp_path) as store:
        store.put_many(pages(1))
        assert store._environment is not None
        flags = store._environment.database.flags()
        assert (flags["sync"], flags["metasync"], flags["writemap"]) == (True, True, False)


def test_an_io_error_opens_the_folder_again(tmp_path: Path) -> None:
    from stores import local_disk

    with LocalDiskStore(tmp_path) as store, LocalDiskStore(tmp_path) as other:
        store.put_many(pages(1))
        other.get_many(["g/000000"])
        assert store._environment is not None
        local_disk._discard(store._environment)
        assert store.get_many(["g/000000"]) == other.get_many(["g/000000"]) == [PAGE]
        assert store._environment is other._environment


def test_it_knows_the_host_that_made_it(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/new")
    here = store.origin
    assert here
    store.put_many(pages(1))
    store.flush()
    assert store.origin == here
    (tmp_path / "new" / "ORIGIN").write_text("another-host\n")
    assert store.origin == "another-host"
    store.close()


_WRITER = """
import sys
from stores import open_store
store = open_store(sys.argv[1])
number, step = int(sys.argv[2]), int(sys.argv[3])
page = bytes(range(256)) * 40
while True:
    store.put_many({f"{sys.argv[4]}/{i:06d}": page for i in range(number, number + step)})
    store.flush()
    number += step
    print(number, flush=True)
"""


def write_until_killed(folder: Path, start: int, step: int, group: str, seconds: float) -> int:
    """The number of pages that the writer knew to be in the store when it was killed."""
    command = [sys.executable, "-c", _WRITER, f"file://{folder}", str(start), str(step), group]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        acknowledged = int(writer.stdout.readline())
        time.sleep(seconds)
        writer.kill()
        numbers = writer.stdout.read().split("\n")[:-1]
    return int(numbers[-1]) if numbers else acknowledged


def test_killed_writers_lose_no_flushed_page(tmp_path: Path) -> None:
    dice = random.Random(20)
    page = bytes(range(256)) * 40
    with LocalDiskStore(tmp_path) as survivor:  # which must not be blocked by a killed writer
        done = 0
        for turn in range(8):
            step = dice.choice([1, 7, 50])
            acknowledged = write_until_killed(tmp_path, done, step, "g", dice.uniform(0, 0.15))
            keys = sorted(survivor.keys("g/"))
            assert len(keys) >= acknowledged > done
            assert keys == [f"g/{i:06d}" for i in range(len(keys))], "there are holes"
            assert survivor.get_many(keys) == [page] * len(keys)
            survivor.put_many({f"survivor/{turn}": page})
            done = len(keys)


def test_an_unusable_folder_is_not_tried_for_ever(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    store: PageStore = open_store(f"file://{tmp_path}/file")
    with in_time(25):  # it would be tried for 30 seconds
        store.put_many({"g/1": b""})
        with pytest.raises(InvalidStoreURL):
            store.flush()
        with pytest.raises((InvalidStoreURL, StoreUnavailable)):
            store.get_many(["g/2"])
    store.abandon()  # type: ignore[attr-defined]


def test_views_are_of_the_map_and_end_with_the_call(tmp_path: Path) -> None:
    """Nothing is copied, and what was kept says so."""
    with LocalDiskStore(tmp_path) as store:
        store.put_many({"a/1": b"x" * 10_000})
        kept: list[memoryview] = []

        def look(found: list[memoryview | None]) -> int:
            assert all(isinstance(page, memoryview) for page in found)
            kept.extend(page for page in found if page is not None)
            return sum(map(len, kept))

        assert store.view_many(["a/1"], look) == 10_000
        with pytest.raises(ValueError, match="released"):
            kept[0][0]
        assert store.get_many(["a/1"]) == [b"x" * 10_000]


def test_compaction_leaves_no_byte_of_deleted_pages(tmp_path: Path) -> None:
    secret = {f"g/{n}": b"SECRET" * (n % 900 + 1) for n in range(2000)}
    kept = {f"h/{n}": b"public" * (n % 700 + 1) for n in range(2000)}
    data = tmp_path / "data.mdb"
    with LocalDiskStore(tmp_path) as store, LocalDiskStore(tmp_path) as other:
        store.put_many(kept | secret)
        store.delete_many(secret)
        before, mode = data.stat().st_size, data.stat().st_mode
        assert b"SECRET" in data.read_bytes(), "LMDB does not overwrite deleted pages"
        store.compact()
        assert b"SECRET" not in data.read_bytes()
        assert data.stat().st_size < before and data.stat().st_mode == mode
        assert other.get_many(list(kept)) == list(kept.values())
        other.put_many({"g/1": PAGE})
        assert store.get_many(["g/1"]) == [PAGE]
    assert {path.name for path in tmp_path.iterdir()} == {"data.mdb", "lock.mdb", "ORIGIN"}


def test_a_folder_that_another_process_has_open_is_not_compacted(tmp_path: Path) -> None:
    code = "import sys; from stores.local_disk import LocalDiskStore as L; s = L(sys.argv[1]); "
    code += "s.put_many({'g/1': b'one'}); print(flush=True); input(); s.put_many({'g/2': b'two'})"
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    other.stdout.readline()
    with LocalDiskStore(tmp_path) as store:
        with pytest.raises(StoreUnavailable, match="open in another process"):
            store.compact()
        other.communicate(b"\n", timeout=60)
        store.compact()
        assert store.get_many(["g/1", "g/2"]) == [b"one", b"two"]


def test_a_compaction_that_was_killed_leaves_the_pages(tmp_path: Path) -> None:
    def killed() -> None:
        with LocalDiskStore(tmp_path) as store, MonkeyPatch.context() as patch:
            patch.setattr(os, "replace", lambda *_: os._exit(0))
            store.compact()

    with LocalDiskStore(tmp_path) as store:
        store.put_many(pages(100))
    in_child(killed)
    with LocalDiskStore(tmp_path) as store:
        assert store.get_many(list(pages(100))) == [PAGE] * 100
        store.compact()
        assert store.get_many(list(pages(100))) == [PAGE] * 100
    assert not (tmp_path / "draft").exists()
