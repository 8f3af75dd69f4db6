"""Compressed pages: smaller, the same to whoever reads, and never trusted."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mta import CountWindow, KeyedWindows, Max, TimeWindow, Window
from mta.algorithms import FiBA
from mta.errors import CorruptPage
from stores import MemoryStore, MissingDependency, PageStore, UnsupportedOperation, open_store
from stores.compression import MAGIC, MAX_BYTES, CompressedStore
from stores.errors import pip_install
from stores.testing.conformance import PageStoreConformance

zstandard = pytest.importorskip("zstandard")

PAGE = np.arange(1000.0).tobytes()
#: A page as version 1 packs it.
GOLDEN = (
    "c16d74612d7a0184000000047a73746428b52ffd208465010044020008c8080108c8080208c80803"
    "08c8080408c8080508c8080608c8080708c8087461696c105402000301"
)


@pytest.mark.proves("stores", "compression", "file")
class TestCompressedDisk(PageStoreConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "pages"

    def open(self) -> PageStore:
        return open_store(self.folder, write_buffer=100_000, compression="zstd")


class TestReadByWhoAsksForNone(PageStoreConformance):
    """One opener of two compresses."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.url, self.opened = f"file://{tmp_path}/pages", 0

    def open(self) -> PageStore:
        self.opened += 1
        return open_store(self.url + "?compression=zstd" * (self.opened % 2))


def stored(page: bytes, codec: str | None = "zstd") -> bytes:
    memory = MemoryStore()
    CompressedStore(memory, codec).put_many({"k": page})
    (found,) = memory.get_many(["k"])
    assert found is not None
    return found


def read(packed: bytes) -> bytes | None:
    memory = MemoryStore()
    memory.put_many({"k": packed})
    return CompressedStore(memory).get_many(["k"])[0]


@pytest.mark.parametrize("codec", ["zstd", None])
def test_every_page_comes_back(codec: str | None) -> None:
    random = np.random.default_rng(7)
    for size in [*range(40), 1000, 4080, 65_537]:
        for page in (bytes(size), random.bytes(size), np.arange(size, dtype="i8").tobytes()[:size],
                     MAGIC + bytes(size), (MAGIC * size)[:size]):  # fmt: skip
            packed = stored(page, codec)
            assert read(packed) == page
            assert len(packed) <= len(page) + 15
            assert packed == page or packed.startswith(MAGIC)


def test_sorted_times_become_small_and_random_numbers_no_larger() -> None:
    times = (np.arange(8000) * 300_000_000 + 1_700_000_000_000_000).astype("i8").tobytes()
    assert len(stored(times)) < len(times) / 20
    random = np.random.default_rng(1).bytes(8000)
    assert stored(random) == random
    assert stored(times, None) == times


def test_golden() -> None:
    page = bytes(range(64)) * 2 + b"tail"
    assert read(bytes.fromhex(GOLDEN)) == page
    assert read(stored(page)) == page


def test_a_codec_that_is_not_known_is_named() -> None:
    packed = stored(PAGE)
    for other in (packed.replace(b"\x04zstd", b"\x03lz9"), MAGIC + b"\x02" + packed[7:]):
        with pytest.raises(UnsupportedOperation, match=r"page k is compressed with b'(lz9|zstd)'"):
            read(other)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = stored(PAGE)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    for call in (lambda: read(packed), lambda: open_store("file:///x?compression=zstd")):
        with pytest.raises(MissingDependency, match=re.escape(pip_install("compression"))):
            call()


def test_damage_never_gives_another_page() -> None:
    packed, random = stored(PAGE), np.random.default_rng(3)
    for _ in range(2000):
        damaged = bytearray(packed)
        for at in random.integers(0, len(packed), random.integers(1, 4)):
            damaged[at] ^= 1 << int(random.integers(8))
        cut = bytes(damaged[: random.integers(1, len(packed) + 1)])
        for page in (bytes(damaged), cut):
            try:
                found = read(page)
            except UnsupportedOperation:
                continue
            # As stored, or of the right length: the digest in the page's name tells the rest.
            assert found in (page, PAGE) or (found is not None and len(found) == len(PAGE))


@pytest.mark.parametrize("reported", [64, MAX_BYTES, MAX_BYTES + 1, (1 << 32) - 1])
def test_a_bomb_is_not_unpacked(reported: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where the head lies, nor where it says truly that the page is huge."""
    bomb = zstandard.ZstdCompressor().compress(bytes(MAX_BYTES + 1))
    endless = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(MAX_BYTES))

    class Nothing:
        def decompress(self, *_: Any, **__: Any) -> bytes:
            raise AssertionError("it was unpacked")

    monkeypatch.setattr(zstandard, "ZstdDecompressor", Nothing)
    for payload in (bomb, endless):
        packed = MAGIC + b"\x01" + reported.to_bytes(4, "little") + b"\x04zstd" + payload
        assert read(packed) == packed


def windows(store: PageStore) -> list[tuple[Any, Any]]:
    values = np.round(np.random.default_rng(2).normal(size=5000), 1)
    times = np.arange(5000) * 60
    made: list[tuple[Any, Any]] = []
    for window in (
        Window(Max(), CountWindow(3000), store, "count", arity=8, leaf_arity=128),
        Window(Max(), TimeWindow("2 days"), store, "late", aggregator=FiBA, leaf_arity=64),
    ):
        made.append((window, window.extend(values, times)))
    keyed = KeyedWindows(Max(), CountWindow(50), store, "keyed")
    made.append((keyed, keyed.extend(np.arange(5000) % 7, values)))
    return made


def test_windows_are_the_same_and_smaller(tmp_path: Path) -> None:
    """Keys, snapshots and results are as without; anyone reads the pages."""
    bare, behind = MemoryStore(), MemoryStore()
    plain = [(w, r, w.checkpoint()) for w, r in windows(bare)]
    packed = [(w, r, w.checkpoint()) for w, r in windows(CompressedStore(behind, "zstd"))]
    for (window, right, snapshot), (_, found, other) in zip(plain, packed, strict=True):
        assert found.tobytes() == right.tobytes() and other == snapshot
        window.restore_like(snapshot).check()
    keys = sorted(bare.keys())
    assert keys == sorted(behind.keys())
    sizes = [sum(len(p or b"") for p in store.get_many(keys)) for store in (bare, behind)]
    assert sizes[1] * 2 < sizes[0]
    assert CompressedStore(behind).get_many(keys) == bare.get_many(keys)


def test_a_damaged_page_is_found() -> None:
    behind = MemoryStore()
    window, _ = windows(CompressedStore(behind, "zstd"))[0]
    again = window.restore_like(window.checkpoint())
    key = max(key for key in behind.keys("count/0/"))
    (page,) = behind.get_many([key])
    assert page is not None and page.startswith(MAGIC)
    behind.put_many({key: page[:-1] + bytes([page[-1] ^ 1])})
    with pytest.raises(CorruptPage, match=key):
        again.check()
