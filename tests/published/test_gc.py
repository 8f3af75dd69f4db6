"""Pages that published snapshots need are no garbage, and ``mta unpublish`` deletes the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from mta import CountWindow, KeyedWindows, Sum, open_published, published_names
from mta.audit.keyed import OpaqueKeys
from mta.audit.published import needed_by_published, unneeded_records
from mta.cli.commands import CommandLine
from mta.publishing.batches import PublishedPart
from stores import MemoryStore, open_store
from tests.published.test_crashes import Query, of_query, read_all


def test_pages_of_a_head_that_is_late_are_needed_though_no_state_names_them() -> None:
    store, publisher = MemoryStore(), of_query()
    query, keys = Query(store), list(range(60))
    query.run(0, {key: key for key in keys})
    publisher.committed(store, "query", 0)
    first = [query.expected()[key] for key in keys]
    for batch in range(1, 9):
        query.run(batch, dict.fromkeys(keys, batch))
    named = {k for state in query.states.values() for k in OpaqueKeys(state, store).live_keys()}
    listed = list(store.keys())
    pages = [key for key in listed if not key.startswith("publish:")]
    needed = needed_by_published(store, listed)
    assert needed - named
    store.delete_many([key for key in pages if key not in named | needed])
    assert read_all(store, keys) == first
    publisher.committed(store, "query", 8)
    assert read_all(store, keys) == [query.expected()[key] for key in keys]


def test_records_that_a_kill_has_left_are_found_and_those_of_a_batch_under_way_are_not() -> None:
    store, publisher = MemoryStore(), of_query()
    query, keys = Query(store), list(range(12))
    for batch in range(3):
        query.run(batch, dict.fromkeys(keys, batch))
        publisher.committed(store, "query", batch)
    PublishedPart("q", 2, "query", 1, 0).write(store, b"of a late task")
    query.run(3, dict.fromkeys(keys, 3))  # not committed yet
    found = unneeded_records(store, list(store.keys()), "query")
    assert len(found) == 2 and {key.split("/")[1] for key in found} == {"snapshot", "written"}
    assert unneeded_records(store, list(store.keys()), "another") == []
    store.delete_many(found)
    publisher.committed(store, "query", 3)
    assert read_all(store, keys) == [query.expected()[key] for key in keys]
    assert unneeded_records(store, list(store.keys()), "query") == []


def test_the_command_deletes_what_is_published_and_gc_leaves_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"file://{tmp_path}/pages"
    with open_store(url) as store:
        windows = KeyedWindows(Sum("int64"), CountWindow(3), store, "w", page_bytes=64)
        windows.publish("shown")
        windows.extend(range(1000), range(1000), emit="last")
        (tmp_path / "snapshot").write_bytes(windows.checkpoint())
    assert CommandLine().run(["gc", f"{tmp_path}/snapshot", "--store", url, "--delete"]) == 0
    with open_published(url, "shown") as reader:
        assert reader.query(5) == 5
    assert CommandLine().run(["unpublish", "shown", "--store", url]) == 0
    assert "which w published" in capsys.readouterr().out
    with open_store(url) as store:
        assert published_names(store) == []
    assert CommandLine().run(["unpublish", "shown", "--store", url]) == 2
    assert "nothing is published as 'shown'" in capsys.readouterr().err
