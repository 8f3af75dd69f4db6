"""``mta check`` and ``mta gc`` on the checkpoint of a query of one's own, which has no note."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mta import Max
from mta.cli import main
from mta.cli.console import Exit
from stores import open_store
from tests.support.key_by_key import KeyByKey
from tests.support.spark.events import make_events, write_files
from tests.support.spark.jobs import Job, spread
from tests.support.spark.session import spark

__all__ = ["spark"]

#: Its windows go key by key, and Spark's state has their snapshots.
PEAK = KeyByKey(float("-inf"), max, "peak")


@pytest.fixture(scope="module", params=[Max(), PEAK], ids=["vectorized", "key by key"])
def job(spark: Any, tmp_path_factory: pytest.TempPathFactory, request: Any) -> Job:
    job = Job(spark, tmp_path_factory.mktemp("own"))
    write_files(spread(make_events(900, 4)), job.input, files=2)
    job.run(aggregations={"peak": ("watts", request.param)}, types={"peak": "double"})
    return job


def seen(note: Path) -> dict[str, tuple[float, int]]:
    """When each page was first seen that nobody needs, and in which batch."""
    found: dict[str, tuple[float, int]] = json.loads(note.read_text())
    return found


def mta(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return code, printed.out + printed.err


def test_whole_and_damaged_pages(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = mta(capsys, "check", job.checkpoint, "--store", job.store)
    assert code == 0 and "4 keys" in said
    with open_store(job.store) as store:
        first = max(store.keys())
        (page,) = store.get_many([first])
        assert page is not None
        store.put_many({first: page[:-1] + bytes([page[-1] ^ 1])})
        store.flush()
    code, said = mta(capsys, "check", job.checkpoint, "--store", job.store)
    assert code == Exit.DAMAGED and first in said
    with open_store(job.store) as store:
        store.put_many({first: page})
    code, said = mta(capsys, "check", job.checkpoint, "--store", job.store)
    assert code == 0


def test_pages_that_nobody_needs(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    needed = job.pages()
    orphan = min(needed).rpartition("/")[0] + "/orphan"
    with open_store(job.store) as store:
        store.put_many({orphan: b"x", "another/0/0/x": b"y"})
    gc = ("gc", job.checkpoint, "--store", job.store, "--delete")
    for wanted in ("unneeded  1 page, 1 B", "deleted   0 pages, seen unneeded for 1 hour"):
        code, said = mta(capsys, *gc)
        assert code == 0 and wanted in said
    note = job.checkpoint / "gc.json"
    note.write_text(json.dumps({key: [0.0, batch] for key, (_, batch) in seen(note).items()}))
    code, said = mta(capsys, *gc)
    assert "deleted   1 page" in said
    assert job.pages() == needed | {"another/0/0/x"}


def test_the_pages_of_a_query_whose_checkpoint_is_gone(
    job: Job, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pages = job.pages() - {"another/0/0/x"}
    name = min(pages).partition(".")[0]
    address = f"file://{tmp_path}/pages"
    with open_store(address) as store:
        store.put_many(dict.fromkeys(pages, b"x") | {f"{name}s/0/0/x": b"y"})
    code, said = mta(capsys, "gc", "--name", name, "--store", address)
    assert code == 0 and f"to delete {len(pages)} pages" in said
    mta(capsys, "gc", "--name", name, "--store", address, "--delete")
    with open_store(address) as store:
        assert set(store.keys()) == {f"{name}s/0/0/x"}
    for wrong in ((), ("--name", name, job.checkpoint), ("--name", "..")):
        assert mta(capsys, "gc", "--store", address, *wrong)[0] == 2
