"""Steps that try Spark's own state as a page store, inside a task of a real Spark."""

from __future__ import annotations

from typing import Any
from unittest import SkipTest

import pyarrow as pa

from spark_integration.runners.state_pages import StatePages, page_cache
from spark_integration.runners.workers import MeteredStore
from spark_integration.step import step as steps
from stores import PageStore
from stores.testing.conformance import PageStoreConformance
from tests.support.spark.faulty_steps import State, first


class OnSpark(PageStoreConformance):
    """The conformance suite over the map of the bucket that a task is at."""

    processes = pickles = records = False

    def __init__(self, store: StatePages) -> None:
        self._pages, self._cached = store._pages, page_cache()

    def open(self) -> PageStore:
        return StatePages(self._pages, cached=self._cached)

    def raw_get(self, key: str) -> bytes | None:
        row = self._pages.getValue((key,))
        return None if row is None else bytes(row[0])

    def raw_delete(self, key: str) -> None:
        self._pages.removeKey((key,))
        self._cached.pop(key)

    def test_a_fork_may_use_the_open_store(self) -> None:
        raise SkipTest("the socket to Java is of one process")


def conforming(report: str) -> steps.Step:
    """Run the whole suite on every bucket's map; write into the file what came of each test."""

    def step(state: State, rows: pa.Table, *rest: Any) -> steps.Advanced:
        plan, store, watermark = rest
        assert isinstance(store, MeteredStore) and isinstance(store.store, StatePages)
        store = store.store
        with open(report, "a") as lines:
            for name in dir(OnSpark):
                if name.startswith("test_"):
                    lines.write(f"{_outcome(OnSpark(store), name)} {name}\n")
        return steps.step(state, rows, plan, store, watermark)

    return step


def _outcome(suite: OnSpark, name: str) -> str:
    try:
        getattr(suite, name)()
    except SkipTest:
        return "skipped"
    except Exception as error:
        return f"failed with {error!r}"
    return "passed"


def failing_once(marker: str) -> steps.Step:
    """A step whose first attempt of a later batch fails when all its pages are in Spark's hands."""

    def step(state: State, rows: pa.Table, *rest: Any) -> steps.Advanced:
        done = steps.step(state, rows, *rest)
        if state is not None and first(marker):
            raise OSError("the task failed after its pages")
        return done

    return step
