"""Columns of text beside lists, in memory, in pages, and beside other objects in one column."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from mta import KeyedWindows, Product, TimeWindow
from mta.aggregations import ExactDistinctCount, LastText, MaxText, Mode
from mta.columns.schemas import Objects
from mta.columns.texts import TextColumn, text_column
from mta.errors import NotPageable
from mta.keyed.keys import read_keys
from mta.monoids.ranges import distinct_counts
from stores import MemoryStore
from tests.support.sampling import some

#: Few and many distinct texts, which are ASCII, longer in UTF-8, or empty.
DRAWN = [
    lambda rng: rng.choice(["", "a", "b", None]),
    lambda rng: rng.choice(["é", "z", "\U0001f600", "zz"]),
    lambda rng: f"{rng.randrange(10**6)}" if rng.random() < 0.9 else None,
]
SCHEMA = Objects()


def drawn(rng: Random, count: int) -> list[Any]:
    draw = rng.choice(DRAWN)
    return [draw(rng) for _ in range(count)]


@pytest.mark.parametrize("seed", some(range(40), by_default=15))
def test_columns_of_text_are_like_lists(seed: int) -> None:
    rng = Random(seed)
    parts = [drawn(rng, rng.choice([0, 1, 5, 300])) for _ in range(3)]
    columns = [text_column(part) for part in parts]
    which = np.array(rng.choices([at for at in range(3) if parts[at]] or [0], k=20))
    starts = np.array([rng.randrange(len(parts[at]) + 1) for at in which])
    lengths = np.array(
        [rng.randrange(len(parts[a]) - s + 1) for a, s in zip(which, starts, strict=True)]
    )
    wanted = SCHEMA.ranges(parts, which, starts, lengths)
    found = SCHEMA.ranges(columns, which, starts, lengths)
    assert found.tolist() == list(found) == wanted and (None in found) == (None in wanted)
    assert SCHEMA.ranges([parts[0], *columns[1:]], which, starts, lengths).tolist() == wanted
    if not wanted:
        return
    places = np.array(rng.choices(range(len(wanted)), k=rng.choice([1, 50])))
    assert SCHEMA.take(found, places).tolist() == [wanted[at] for at in places]
    assert SCHEMA.cut(found, 1, 4).tolist() == wanted[1:4] and SCHEMA.at(found, 0) == wanted[0]
    mask = np.array([rng.random() < 0.5 for _ in wanted])
    assert found.where(mask).tolist() == [
        v if m else None for v, m in zip(wanted, mask, strict=True)
    ]
    few = found.take(places[:1])
    assert len(few.words) <= 66, "a column keeps the words of rows that it does not have"
    texts = found.words.texts
    assert texts == sorted(set(texts)), "the order of codes is not that of texts"


def test_text_that_is_not_unicode_is_refused_and_stays_in_memory() -> None:
    windows = KeyedWindows(LastText(), TimeWindow(9), MemoryStore(), timed=True)
    with pytest.raises(NotPageable):
        windows.extend([1, 1], ["a", "\ud800"], [0, 1])
    alone = KeyedWindows(LastText(), TimeWindow(9), None, timed=True)
    assert list(alone.extend([1, 1], ["a", "\ud800"], [0, 1])) == ["a", "\ud800"]


@pytest.mark.parametrize("page_bytes", [1, 16384])
def test_text_and_other_objects_share_a_column(page_bytes: int) -> None:
    """An aggregation of any objects gets text in some batches and others in the next."""
    rng, store = Random(page_bytes), MemoryStore()
    settings: dict[str, Any] = {"page_bytes": page_bytes, "timed": True, "promote_at": 1000}
    monoid = Product({"last": ("v", LastText())})
    frame = TimeWindow(40)
    windows = KeyedWindows(monoid, frame, store, **settings)
    for step in range(30):
        kind = rng.choice([["a", "b"], [(1, "a"), (2,)], [None, "c"], [b"x"]])
        values = [rng.choice(kind) for _ in range(6)]
        values = [value if value is not None else "d" for value in values]
        found = windows.extend([0, 1, 2] * 2, {"v": values}, [step] * 6)
        assert list(found["last"]) == values
        if rng.random() < 0.5:
            snapshot = windows.checkpoint()
            windows = KeyedWindows.restore(snapshot, store, **settings)
            windows.check()
        assert list(windows.query([0, 1, 2])["last"]) == values[3:]


@pytest.mark.parametrize("seed", some(range(30), by_default=10))
def test_distinct_counts_are_those_of_sets(seed: int) -> None:
    rng = Random(seed)
    codes = np.array([rng.randrange(rng.choice([1, 4, 50])) for _ in range(60)])
    starts = np.array([rng.randrange(60) for _ in range(40)])
    stops = np.array([rng.randrange(start, 61) for start in starts])
    if seed % 2:
        starts, stops = np.sort(starts), np.sort(stops)
    wanted = [len(set(codes[a:b])) for a, b in zip(starts, stops, strict=True)]
    assert distinct_counts(codes, starts, stops).tolist() == wanted


def test_text_is_stored_once_per_page() -> None:
    """A hundred events with one of two long texts take little more than one event."""
    store, text = MemoryStore(), ["x" * 5000, "y" * 5000]
    monoid = Product(
        {"top": ("v", MaxText()), "n": ("v", ExactDistinctCount()), "m": ("v", Mode())}
    )
    windows = KeyedWindows(monoid, TimeWindow(1000), store, timed=True, page_bytes=1 << 22)
    values = [text[at % 2] for at in range(2000)]
    found = windows.extend([at % 7 for at in range(2000)], {"v": values}, list(range(2000)))
    windows.checkpoint()
    assert set(found["top"][14:]) == {text[1]} and set(found["n"][14:]) == {2}
    pages = store.get_many(list(store.keys()))
    assert sum(len(page or b"") for page in pages) < 50_000
    assert isinstance(windows.bucket.find(read_keys([1], "int")[0]).rows[0], TextColumn)
