"""The conformance suite on every store but Couchbase, bare and behind its wrappers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from stores import PageStore, open_store
from stores.head_cache import HeadCache
from stores.local_disk import LocalDiskStore
from stores.memory import MemoryStore
from stores.pack_store import PackStore
from stores.testing.conformance import PageStoreConformance
from stores.testing.counting import CountingStore
from stores.testing.faults import FaultyStore, Jittered, LatencyStore
from stores.write_buffer import WriteBuffer
from tests.support.objects import MemoryObjects
from tests.support.s3_server import ACCESS_KEY, SECRET, SECRET_IN_URL, S3Server
from tests.support.servers import PASSWORD, PASSWORD_IN_URL, RedisServer

# LMDB does not open a folder twice in one process, so looking behind the store takes another.
_RAW_LMDB = """
import lmdb, sys
with lmdb.open(sys.argv[1], map_size=1 << 30) as folder, folder.begin(write=True) as transaction:
    page = (transaction.get if sys.argv[2] == "get" else transaction.pop)(sys.argv[3].encode())
    sys.stdout.buffer.write(page)
"""


class TestUnnamedMemory(PageStoreConformance):
    reopens = processes = pickles = False

    def open(self) -> PageStore:
        return open_store("memory://")


@pytest.mark.proves("stores", "pages", "memory")
class TestMemory(PageStoreConformance):
    processes = False

    @pytest.fixture(autouse=True)
    def _name(self) -> None:
        self.name = uuid4().hex

    def open(self) -> PageStore:
        return MemoryStore(self.name)

    def raw_get(self, key: str) -> bytes | None:
        return MemoryStore(self.name)._pages[key]

    def raw_delete(self, key: str) -> None:
        del MemoryStore(self.name)._pages[key]


class TestCountedMemory(TestMemory):
    def open(self) -> PageStore:
        return CountingStore(MemoryStore(self.name))


class TestLateMemory(TestMemory):
    def open(self) -> PageStore:
        return LatencyStore(MemoryStore(self.name), Jittered(0, 0.0001))


class TestFaultyMemoryWithoutFaults(TestMemory):
    def open(self) -> PageStore:
        return FaultyStore(MemoryStore(self.name))


class TestReorderedMemory(TestMemory):
    """Background writes that come out of order and twice, behind the buffer, harm nobody."""

    def open(self) -> PageStore:
        store = FaultyStore(MemoryStore(self.name))
        store.hold(5, shuffle=True, duplicates=0.3)
        return WriteBuffer(store)


class TestCachedMemory(TestMemory):
    def open(self) -> PageStore:
        return HeadCache(MemoryStore(self.name), 1 << 20)


class TestSmallCache(TestMemory):
    def open(self) -> PageStore:
        return HeadCache(MemoryStore(self.name), 1000)


class TestBufferedMemory(TestMemory):
    def open(self) -> PageStore:
        return WriteBuffer(MemoryStore(self.name))


class TestSmallBuffer(TestMemory):
    def open(self) -> PageStore:
        return WriteBuffer(HeadCache(MemoryStore(self.name), 5000), capacity_bytes=3000)


@pytest.mark.proves("stores", "pages", "file")
class TestLocalDisk(PageStoreConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "a folder" / "to be made"

    def open(self) -> PageStore:
        return LocalDiskStore(self.folder, map_size=1 << 30)

    def raw_get(self, key: str) -> bytes | None:
        return self._raw("get", key)

    def raw_delete(self, key: str) -> None:
        self._raw("pop", key)

    def _raw(self, action: str, key: str) -> bytes:
        command = [sys.executable, "-c", _RAW_LMDB, str(self.folder), action, key]
        return subprocess.run(command, check=True, capture_output=True).stdout


class TestOpenedLocalDisk(TestLocalDisk):
    def open(self) -> PageStore:
        return open_store(f"file://{self.folder}".replace(" ", "%20"), write_buffer=100_000)


@pytest.mark.proves("stores", "pages", "redis")
class TestRedis(PageStoreConformance):
    @pytest.fixture(autouse=True)
    def _server(self, redis_url: str) -> None:
        self.url = redis_url

    def open(self) -> PageStore:
        return open_store(self.url, write_buffer=0, cache=0)

    def raw_get(self, key: str) -> bytes | None:
        return self._raw("GET", key)

    def raw_delete(self, key: str) -> None:
        assert self._raw("DEL", key) == 1

    def _raw(self, command: str, key: str) -> bytes | None:
        from redis import Redis

        group, _, rest = key.partition("/")
        with Redis.from_url(self.url.partition("?")[0]) as client:
            return client.execute_command(command, f"mta:{{{group}}}/{rest}")


class TestOpenedRedis(TestRedis):
    def open(self) -> PageStore:
        return open_store(self.url, write_buffer=100_000, cache=50_000)


@pytest.mark.proves("stores", "pages that expire", "redis")
class TestRedisWithTimeToLive(TestRedis):
    def open(self) -> PageStore:
        return open_store(f"{self.url}?ttl=600", write_buffer=0)


@pytest.mark.proves("stores", "passwords", "redis")
class TestRedisWithPassword(PageStoreConformance):
    secrets = (PASSWORD, PASSWORD_IN_URL, "s3cret")

    @pytest.fixture(autouse=True)
    def _server(self, redis_with_password: RedisServer) -> None:
        self.url = f"redis://default:{PASSWORD_IN_URL}@127.0.0.1:{redis_with_password.port}/0"

    def open(self) -> PageStore:
        return open_store(self.url, cache=0)

    def test_the_address_names_the_server(self) -> None:
        with self.open() as store:
            assert urlsplit(store.url).port == urlsplit(self.url).port


@pytest.mark.proves("stores", "a cluster of servers", "redis")
class TestRedisCluster(PageStoreConformance):
    forks = 2

    @pytest.fixture(autouse=True)
    def _server(self, redis_cluster_url: str) -> None:
        self.url = redis_cluster_url

    def open(self) -> PageStore:
        return open_store(self.url, write_buffer=0)


@pytest.mark.soak  # what a cluster and pages that expire show, together
class TestRedisClusterWithTimeToLive(TestRedisCluster):
    def open(self) -> PageStore:
        return open_store(f"{self.url}&ttl=600", write_buffer=0, cache=0)


@pytest.mark.proves("stores", "TLS", "redis")
class TestRedisOverTLS(PageStoreConformance):
    forks = 2

    @pytest.fixture(autouse=True)
    def _server(self, redis_tls: tuple[str, Path]) -> None:
        url, certificate = redis_tls
        self.url = f"{url}?ca_file={certificate}"

    def open(self) -> PageStore:
        return open_store(self.url)


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
