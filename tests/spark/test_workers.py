"""What a worker keeps: open stores, and modules that are no garbage."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_integration import executor_store
from spark_integration.runners import workers
from spark_integration.runners.packing import unpack
from stores import open_store

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def test_pages_are_durable_behind_the_block_and_the_store_stays_open(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/pages"
    with executor_store(url) as store:
        store.put_many({"a": b"1"})
    with open_store(url) as other:
        assert other.get_many(["a"]) == [b"1"]
    with executor_store(url) as again:
        assert again is store
        again.put_many({"b": b"2"})


def test_an_error_waits_for_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"file://{tmp_path}/pages"
    flushed = []
    with executor_store(url) as store:
        monkeypatch.setattr(type(store), "flush", lambda self: flushed.append(self))
    assert sum(each is store for each in flushed) == 1
    with pytest.raises(KeyError), executor_store(url):
        raise KeyError("the function of a user")
    assert sum(each is store for each in flushed) == 1


def test_a_worker_s_modules_are_no_garbage(spark: SparkSession) -> None:
    def frozen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import gc

        import pyarrow as pa

        for _ in batches:
            list(unpack(iter(())))
            yield pa.record_batch({"frozen": [gc.get_freeze_count()]})

    assert spark.range(1).mapInArrow(frozen, "frozen long").collect()[0].frozen > 10_000


def test_what_is_there_to_stay_is_set_aside_ever_more_seldom() -> None:
    code = (
        "import gc\n"
        "from spark_integration.runners.workers import freeze_objects\n"
        "found, kept = [], []\n"
        "for _ in range(17):\n"
        "    freeze_objects()\n"
        "    found.append(gc.get_freeze_count())\n"
        "    kept.append([[] for _ in range(1000)])\n"
        "grown = [a > 1000 and b - a >= 1000 for a, b in zip(found, found[1:])]\n"
        "at = [call for call, more in enumerate(grown, 2) if more]\n"
        "assert at == [2, 4, 8, 16], (at, found)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_workers_of_an_executor_share_pages_in_a_folder_of_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, is_shared in (("", False), ("relative", False), (f"{tmp_path},/b", True)):
        monkeypatch.setattr(workers, "_shared", {})
        monkeypatch.setenv("SPARK_LOCAL_DIRS", folder)
        found = workers.state_pages_shared()
        assert (found is not None) == is_shared
        assert workers.state_pages_shared() is found
    assert found is not None
    found.put_many({"w/0/1": b"one"})
    assert found.get_many(["w/0/1"]) == [b"one"] and list(tmp_path.glob("mta-state/*"))
    found.close()
