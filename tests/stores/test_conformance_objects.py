"""The conformance suite on packs in memory, and on S3 through its client."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from stores import PageStore, open_store
from stores.pack_store import PackStore
from stores.testing.conformance import PageStoreConformance
from stores.write_buffer import WriteBuffer
from tests.support.objects import MemoryObjects
from tests.support.s3_server import ACCESS_KEY, SECRET, SECRET_IN_URL, S3Server


class TestPacksInMemory(PageStoreConformance):
    processes = pickles = False

    @pytest.fixture(autouse=True)
    def _objects(self) -> None:
        self.objects = MemoryObjects()

    def open(self) -> PageStore:
        return PackStore(self.objects)

    def raw_get(self, key: str) -> bytes | None:
        return self.objects.page(key)


class TestBufferedPacks(TestPacksInMemory):
    def open(self) -> PageStore:
        return WriteBuffer(PackStore(self.objects))


@pytest.mark.proves("stores", "pages", "s3")
class TestS3(PageStoreConformance):
    turns = 5  # of some thirty requests each, to a server in Python
    forks = 2
    atomic = False  # the servers for tests check, and then put
    secrets = (SECRET, SECRET_IN_URL, ACCESS_KEY, "s3cr3t")

    @pytest.fixture(autouse=True)
    def _server(self, s3_server: S3Server) -> None:
        self.server, self.prefix = s3_server, f"tests/{uuid4().hex}"

    def open(self) -> PageStore:
        return open_store(self.server.url(self.prefix, "pack_cache=0"), write_buffer=0, cache=0)


class TestOpenedS3(TestS3):
    sees_deletes = False

    def open(self) -> PageStore:
        return open_store(self.server.url(self.prefix), write_buffer=100_000, cache=50_000)

    # Seconds, for what the bare store and buffered packs in memory show already.

    @pytest.mark.soak
    def test_pages_of_many_sizes(self) -> None:
        super().test_pages_of_many_sizes()

    @pytest.mark.soak
    def test_a_fork_may_use_the_open_store(self) -> None:
        super().test_a_fork_may_use_the_open_store()


class TestS3WithCacheOnDisk(TestS3):
    sees_deletes = False

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "cache"

    def open(self) -> PageStore:
        options = (f"cache_dir={self.folder}", "cache_dir_size=256MiB")
        return open_store(self.server.url(self.prefix, *options), write_buffer=0)


class TestAnotherS3(TestS3):
    """What moto forgives, another implementation of the protocol may not."""

    turns = 10

    @pytest.fixture(autouse=True)
    def _server(self, go_s3: S3Server) -> None:
        self.server, self.prefix = go_s3, f"tests/{uuid4().hex}"
