"""Other windows and aggregations for a snapshot: stores that fail, and columns of other types."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np

from mta import Collect, CountWindow, KeyedWindows, Last, Max, Mean, Product, Sum, TimeWindow
from mta.errors import StoreUnavailable
from stores import MemoryStore
from stores.testing.faults import FaultyStore


def meters() -> tuple[KeyedWindows, MemoryStore]:
    """An hour's maximum of ``a`` for two keys, one of them with a standalone window."""
    store = MemoryStore()
    product = Product({"peak": ("a", Max()), "last": ("a", Last())})
    made = KeyedWindows(product, TimeWindow("1 hour"), store, promote_at=50, leaf_arity=8)
    times = np.arange(0, 7200, 20)
    made.extend(["many"] * 360, {"a": np.arange(360.0)[::-1]}, times)
    made.extend(["few"] * 12, {"a": np.arange(12.0)[::-1]}, times[::30])
    return made, store


def test_a_store_that_fails_leaves_the_snapshot_as_it_was() -> None:
    made, store = meters()
    snapshot = made.checkpoint()
    longer: Any = {"window": TimeWindow("2 hours"), "promote_at": 50}
    failing = FaultyStore(store)
    for nth in count(1):
        failing.fail(nth)
        try:
            KeyedWindows.restore(snapshot, failing, **longer).checkpoint()
        except StoreUnavailable:
            continue
        break
    assert nth > 5
    before = KeyedWindows.restore(snapshot, store)
    assert before.query("many") == made.query("many")
    one, two = (KeyedWindows.restore(snapshot, store, **longer) for _ in range(2))
    assert one.checkpoint() == two.checkpoint()


def test_numbers_are_read_as_other_numbers_and_objects_are_not() -> None:
    store = MemoryStore()
    made = KeyedWindows(Product({"n": ("a", Sum("int64"))}), CountWindow(3), store)
    made.extend([1, 1], {"a": [4, 5]})
    mixed = Product({"mean": ("a", Mean()), "all": ("a", Collect())})
    found = KeyedWindows.restore(made.checkpoint(), store, aggregations=mixed)
    assert found.query(1) == {"mean": 4.5, "all": [4, 5]} and found.coverage().complete
    collect, peak = Product({"all": ("a", Collect())}), Product({"peak": ("a", Max())})
    lists = KeyedWindows.restore(found.checkpoint(), store, aggregations=collect)
    back = KeyedWindows.restore(lists.checkpoint(), store, aggregations=peak)
    assert [each.complete_after_events for each in back.coverage().incomplete] == [3]
    assert back.extend([1, 1], {"a": [-1.0, -2.0]})["peak"].tolist() == [-1.0, -1.0]
