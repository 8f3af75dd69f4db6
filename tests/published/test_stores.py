"""What is published is read by other processes, from every store that they reach."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from mta import KeyedWindows, Product, Sum, TimeWindow, open_published, published_names, unpublish
from stores import PageStore, open_store
from stores.pack_store import PackStore
from tests.support.couchbase_server import Couchbase
from tests.support.objects import MemoryObjects
from tests.support.servers import RedisServer

READ = """
import json, sys
from mta import open_published
with open_published(sys.argv[1], "features", refresh=0) as features:
    for _ in range(2):
        found = features.query(["a", "b"], at=100)["total"].tolist()
        print(json.dumps([found, features.status().batch]), flush=True)
        sys.stdin.readline()
print(*{name.partition(".")[0] for name in sys.modules} & {"pandas", "pyspark", "pyarrow"})
"""


def write(windows: KeyedWindows, value: int) -> None:
    windows.extend(["a", "b"], {"v": [value, 10 * value]}, [value, value])
    windows.checkpoint()


def begin(store: PageStore | str) -> KeyedWindows:
    windows = KeyedWindows(
        Product({"total": ("v", Sum("int64"))}), TimeWindow("1 hour"), store, "w", page_bytes=64
    )
    windows.publish("features")
    return windows


def check_another_process(url: str) -> None:
    """A process of its own reads, and follows what this one publishes meanwhile."""
    windows = begin(url)
    write(windows, 1)
    with subprocess.Popen(
        [sys.executable, "-c", READ, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdout is not None and reader.stdin is not None
        assert json.loads(reader.stdout.readline()) == [[1, 10], 1]
        write(windows, 2)
        reader.stdin.write("\n")
        reader.stdin.flush()
        assert json.loads(reader.stdout.readline()) == [[3, 30], 2]
        reader.stdin.close()
        assert reader.stdout.readline() == "\n"  # the core install alone
    assert reader.returncode == 0
    windows.unpublish()
    windows.close()


def test_a_folder(tmp_path: Path) -> None:
    check_another_process(f"file://{tmp_path}/pages")


def test_redis(redis_url: str) -> None:
    check_another_process(redis_url)


def test_redis_with_a_user_that_may_only_read(own_redis: RedisServer) -> None:
    windows = begin(own_redis.url)
    write(windows, 1)
    with redis.Redis(port=own_redis.port) as client:
        client.acl_setuser(
            "reader", enabled=True, passwords="+pass", keys="*",
            categories=["+@read", "+@connection"],
        )  # fmt: skip
    url = own_redis.url.replace("redis://", "redis://reader:pass@")
    with open_published(url, "features") as features:
        assert features.query("b")["total"] == 10
    windows.close()


def test_couchbase(couchbase_server: Couchbase) -> None:
    check_another_process(couchbase_server.url)


def test_an_object_store_where_no_key_is_overwritten() -> None:
    objects = MemoryObjects()
    windows = begin(PackStore(objects))
    write(windows, 1)
    features = open_published(PackStore(objects), "features", refresh=0)
    for value in range(2, 9):
        write(windows, value)
        assert features.query("b")["total"] == 10 * sum(range(1, value + 1))
        assert features.status().batch == value
    store = PackStore(objects)
    assert len(list(store.keys("publish:features/head"))) <= 2
    assert published_names(store) == ["features"]
    assert unpublish(store, "features") and published_names(PackStore(objects)) == []


@pytest.mark.parametrize("options", ["compression=zstd", "cache=0", "write_buffer=0"])
def test_readers_need_not_have_the_options_of_the_writer(options: str, tmp_path: Path) -> None:
    pytest.importorskip("zstandard")
    windows = begin(f"file://{tmp_path}/pages?{options}")
    write(windows, 1)
    with open_store(f"file://{tmp_path}/pages") as store:
        assert open_published(store, "features").query("a")["total"] == 1
    windows.close()
