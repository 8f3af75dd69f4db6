"""Death at each named point, once it is reached for the first, second or fourth time.

The points stand in a store wrapper and in the writer, so that the product has none of them. A
background thread reaches some: ``os._exit`` takes the whole process with it there, too.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from mta import Window
from stores import HeadCache, PageStore, WriteBuffer
from stores.base import WrapperStore
from stores.local_disk import LocalDiskStore
from tests.support import oracle
from tests.support.writers import Life, save, start

POINTS = {
    "before a page put": "nothing of a batch of pages is there",
    "in the middle of a put": "the first pages of a batch are there",
    "after a page put": "they are there, and nobody has acknowledged it",
    "before the flush": "",
    "between pages and snapshot": "all pages of a snapshot are there, and it is not saved",
    "after the snapshot": "it is saved, and nobody has acknowledged it",
    "before a deletion": "",
    "during deletion": "some pages of a deletion are gone",
    "after a deletion": "they are all gone, and the next snapshot is not saved",
    "during reload": "a restored window reads its first pages",
    "in prefetch": "the read-ahead thread waits for a page",
    "listing keys": "",
}
#: Points that the writer passes; those of listing are passed by the auditor.
LISTING = {"listing keys"}
WRITING = POINTS.keys() - LISTING
DIED = 99
SIZE, END = 120, 600


class Pointed(WrapperStore):
    """A store that says where it is."""

    def __init__(self, store: PageStore, at: Callable[[str], None]) -> None:
        super().__init__(store)
        self._at = at
        self.reloading = True

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        if threading.current_thread().name == "head-cache":
            self._at("in prefetch")
        elif self.reloading:
            self._at("during reload")
        return super().get_many(keys)

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        self._at("before a page put")
        first, *rest = pages
        super().put_many({first: pages[first]})
        self._at("in the middle of a put")
        super().put_many({key: pages[key] for key in rest})
        self._at("after a page put")

    def delete_many(self, keys: Iterable[str]) -> None:
        self._at("before a deletion")
        pending = list(keys)
        super().delete_many(pending[: (len(pending) + 1) // 2])
        self._at("during deletion")
        super().delete_many(pending)
        self._at("after a deletion")

    def keys(self, prefix: str = "") -> Iterable[str]:  # type: ignore[override]
        self._at("listing keys")
        return super().keys(prefix)

    def flush(self) -> None:
        self._at("before the flush")
        super().flush()


def life_in(folder: Path) -> Life:
    return Life(
        str(folder), "w", f"file://{folder / 'pages'}?map_size=1TiB", SIZE, 3, 4, "AmortizedMTA"
    )


def write(life: Life, point: str, nth: int, buffered: bool, passed: str | None = None) -> None:
    """Write some events with a snapshot from time to time, and die at the point's nth time."""
    counts: Counter[str] = Counter()

    def at(reached: str) -> None:
        counts[reached] += 1
        if reached == point and counts[reached] == nth:
            os._exit(DIED)

    pointed = Pointed(LocalDiskStore(Path(life.folder, "pages")), at)

    def reopened() -> Window:
        """As in a new process, with nothing cached."""
        cache = HeadCache(pointed)
        return life.open_on(WriteBuffer(cache, 4096) if buffered else cache)

    window = reopened()
    while (back := window.structure().back) < END:
        window.extend(oracle.events(back, back + 70))
        pointed.reloading = life.snapshot.exists() and not counts["during reload"]
        save(life, window, at)
        window = reopened()
        pointed.reloading = True
    if passed:
        Path(passed).write_text("\n".join(counts))


@pytest.mark.parametrize("buffered", [False, True], ids=["direct", "buffered"])
@pytest.mark.parametrize("point", sorted(WRITING))
def test_a_death_at(point: str, buffered: bool, tmp_path: Path) -> None:
    life = life_in(tmp_path)
    for nth in (2,) if buffered else (1, 4):
        writer = start(write, life, point, nth, buffered)
        writer.join()
        assert writer.exitcode == DIED, f"{point!r} was not reached {nth} times"
        life.assert_nothing_lost()
    writer = start(write, life, "none", 0, buffered)
    writer.join()
    assert writer.exitcode == 0
    assert life.assert_nothing_lost() >= END


def test_no_point_is_missed(tmp_path: Path) -> None:
    """A run without a death passes every point, and every call of a store has one."""
    for buffered in (False, True):
        life = life_in(tmp_path / str(buffered))
        Path(life.folder).mkdir()
        passed = tmp_path / "passed"
        writer = start(write, life, "none", 0, buffered, str(passed))
        writer.join()
        assert set(passed.read_text().splitlines()) == WRITING
    calls = {name for name in vars(PageStore) if not name.startswith("_")}
    # Not of a server, as hints are not:
    without = {"capabilities", "origin", "url", "close", "peek"}
    without |= {"prefetch", "offer", "discard", "hurry"}
    without |= {"view_many", "get_many_async", "ping"}  # which ask get_many and delete_many
    without.add("explain_missing")  # which asks about no page
    without |= {"get_records", "put_records", "delete_records"}  # killed in tests/service
    without.add("compact")  # killed at each of its steps in tests/stores/test_packs.py
    assert calls - without <= vars(Pointed).keys()
    assert {
        "before a page put", "between pages and snapshot", "after the snapshot",
        "during deletion", "during reload", "in prefetch",
    } <= WRITING  # fmt: skip


def test_a_death_while_keys_are_listed_changes_nothing(tmp_path: Path) -> None:
    life = life_in(tmp_path)
    writer = start(write, life, "after the snapshot", 5, False)
    writer.join()
    assert writer.exitcode == DIED
    lister = start(list_keys, life)
    lister.join()
    assert lister.exitcode == DIED
    life.assert_nothing_lost()


def list_keys(life: Life) -> None:
    """Die in the middle of a listing."""

    def at(reached: str) -> None:
        if reached in LISTING:
            os._exit(DIED)

    list(Pointed(LocalDiskStore(Path(life.folder, "pages")), at).keys())
