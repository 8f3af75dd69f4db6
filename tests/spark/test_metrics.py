"""What a query counts of its pages, and how that is handed on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from mta import CountWindow, Max
from spark_integration import report_counts
from stores import open_store
from tests.support.faulty import eventually
from tests.support.key_by_key import KeyByKey
from tests.support.spark.events import make_events, write_files
from tests.support.spark.jobs import Job, spread

PEAK = KeyByKey(float("-inf"), max, "peak")


@pytest.mark.parametrize("monoid", [Max(), PEAK], ids=["vectorized", "key by key"])
@pytest.mark.proves("options", "counts of pages", "vectorized", "key by key")
def test_counts_are_those_of_the_store(job: Job, monoid: Any) -> None:
    """Each page that is in the store was counted when it was written, with its bytes."""
    events = spread(make_events(1200, 4))
    write_files(events, job.input, files=3)
    seen: list[Mapping[str, int]] = []
    name = f"counts of {job.checkpoint}"  # not of queries that have ended, and are still reported
    listener = report_counts(job.spark, lambda query, counts: seen.append(counts), metrics=name)
    try:
        job.run(
            aggregations={"peak": ("watts", monoid)}, types={"peak": "double"},
            window=CountWindow(100_000), retain=50, metrics=name,
        )  # fmt: skip
        eventually(lambda: len(seen) >= 3)  # Spark tells of a batch a little later
    finally:
        job.spark.streams.removeListener(listener)
    total = {name: sum(counts[name] for counts in seen) for name in seen[0]}
    assert total["rows_read"] == 1200
    with open_store(job.store) as store:
        keys = list(store.keys())
        size = sum(len(page or b"") for page in store.get_many(keys))
    assert (total["pages_written"] - total["pages_deleted"]) == len(keys)
    if not total["pages_deleted"]:
        assert total["bytes_written"] == size
    assert total["pages_written"] > 0 and total["bytes_written"] >= size
    assert total["store_micros"] > 0
