"""The formats of what is published, byte by byte, and what readers make of forged records."""

from __future__ import annotations

import datetime
import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from mta import (
    ArgMax,
    CalendarWindow,
    Count,
    CountWindow,
    First,
    KeyedWindows,
    Last,
    Max,
    Mean,
    Monoid,
    Product,
    SampleStdDev,
    SessionWindow,
    SharedWindows,
    Sum,
    TimeWindow,
    Window,
    open_published,
)
from mta import descriptions as known
from mta.aggregations import (
    BloomFilter,
    CollectDistinct,
    Decimals,
    FrequentItems,
    KLLQuantiles,
    LongestIncreasingRun,
    MaxText,
    MomentSketch,
)
from mta.errors import CorruptSnapshot, SnapshotMismatch
from mta.frames import ADWIN, DeltaWindow, PunctuationWindow, SinceMax
from mta.frames.base import Frame
from mta.keyed import leaves as keyed_pages
from mta.monoids.base import AbstractMonoid
from mta.monoids.nulls import SkipNulls
from mta.pages import name_of
from mta.publishing.batches import PublishedPart
from mta.publishing.records import PublishedHead, decode_written, head_key, what_of, written_key
from stores import MemoryStore
from tests.support import forgeries

GOLDEN = Path(__file__).parent / "golden"
#: How many forgeries a run looks at; all of them with 0.
SOME = int(os.environ.get("MTA_FORGERIES", 150))

MONOIDS: list[AbstractMonoid] = [
    Max(), Max("int64"), Max(int), Sum(Decimals(2)), Max(np.int32), Count(), Mean(), MaxText(),
    SkipNulls(Max(np.dtype("M8[us]")), min_samples=3), ArgMax(by="i8"), LongestIncreasingRun(),
    CollectDistinct(), SampleStdDev(), MomentSketch(0.5), BloomFilter(100),
    KLLQuantiles([0.5, 0.9], k=100), FrequentItems(0.05, of=int), Max().of_types("M8[us]"),
    Max().of_types(str), Last().of_types(Decimals(3)),
    Product({"a": ("x", First(skip_nulls=False), "b"), "n": Count("x")}),
    Product({"a": ("x", Max()), "b": (["x", "y"], ArgMax()), "n": Count()}),
]  # fmt: skip
FRAMES: list[Frame] = [
    CountWindow(3), TimeWindow("1 hour"), TimeWindow(5), TimeWindow(datetime.timedelta(1)),
    TimeWindow(np.timedelta64(3, "h")) | CountWindow(4), SessionWindow("10 minutes"),
    DeltaWindow(10, "km"), PunctuationWindow("mark", last=2), ADWIN(), SinceMax(),
    (TimeWindow(5) & CountWindow(3)) | TimeWindow(3), CalendarWindow("3 months", "Europe/Berlin"),
    CalendarWindow.to_date("week", "Asia/Kolkata") | CountWindow(3),
]  # fmt: skip


def travelled(made: Any) -> known.Description:
    """A description as another process reads it."""
    written = msgpack.packb(known.dump(known.described(made)))
    return known.load(msgpack.unpackb(written))


@pytest.mark.parametrize("monoid", MONOIDS, ids=repr)
def test_an_aggregation_is_rebuilt_from_its_description(monoid: AbstractMonoid) -> None:
    again = known.described_again(travelled(monoid))
    assert type(again) is type(monoid) and again.fingerprint == monoid.fingerprint


@pytest.mark.parametrize("frame", FRAMES, ids=repr)
def test_a_window_is_rebuilt_from_its_description(frame: Frame) -> None:
    again = known.frame_again(travelled(frame))
    assert repr(again) == repr(frame) and again.fingerprint == frame.fingerprint


def test_what_functions_make_has_a_description_without_a_recipe() -> None:
    longest = Monoid(identity=0, combine=max, name="longest")

    class Own(Max):
        """A user's class, which may do anything else."""

    for monoid in (longest, Own()):
        assert travelled(monoid).recipe is None
        with pytest.raises(SnapshotMismatch, match="made of functions"):
            known.described_again(travelled(monoid))
        assert known.described_again(travelled(monoid), monoid) is monoid


def test_a_recipe_calls_only_what_is_listed() -> None:
    for recipe in (
        ["Monoid", [0, None], {}], ["eval", ["1"], {}], ["AbstractMonoid", [], {}],
        ["Max", [{"type": "object"}], {}], ["Max", [{"dtype": "O"}], {}], ["CountWindow", [3], {}],
        ["Max", [], {"unknown": 1}], ["Product", [{"map": [["a", {"recipe": ["Max", []]}]]}], {}],
    ):  # fmt: skip
        forged = known.Description("Max", Max().fingerprint, recipe)
        with pytest.raises((CorruptSnapshot, SnapshotMismatch)):
            known.described_again(forged)


def head() -> bytes:
    """The head of two windows of a Spark query, of three buckets."""
    monoid = Product({"peak": ("watts", Max("int64")), "n": Count()})
    what = what_of("keys", monoid, {"hour": TimeWindow("1 hour"), "five": CountWindow(5)})
    what = replace(what, keys=[("card", "string")], on=("ts", "timestamp[us, tz=UTC]"))
    buckets: Any = [[(7, bytes(range(16))), (5, bytes(16))], [], None]
    return PublishedHead("cards", "query", 7, 1_700_000_000_000_000, what, buckets).encode()


def written() -> bytes:
    """The record of a task."""
    store = MemoryStore()
    PublishedPart("cards", 2, "query", 7, 3).write(store, b"snapshot")
    (data,) = store.get_many([written_key("cards", "query", 7, 3)])
    assert data is not None
    return data


@pytest.mark.parametrize("record", [head, written], ids=["head", "written"])
def test_records_are_those_of_the_golden_files(record: Callable[[], bytes]) -> None:
    data, file = record(), GOLDEN / f"{record.__name__}.bin"
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(data)
        pytest.fail(f"{file.name} is new: look at it, and run again")
    assert data == file.read_bytes()


def test_golden_files_are_read() -> None:
    found = PublishedHead.decode((GOLDEN / "head.bin").read_bytes())
    assert found.encode() == head()
    assert found.buckets == [[(7, bytes(range(16))), (5, bytes(16))], [], None]
    assert (
        known.described_again(found.what.monoid).name
        == "Product(peak=Max[int64](watts), n=Count())"
    )
    assert len(decode_written((GOLDEN / "written.bin").read_bytes(), 3)) == 16
    with pytest.raises(CorruptSnapshot, match="the record of bucket 4"):
        decode_written((GOLDEN / "written.bin").read_bytes(), 4)


def keyed(store: MemoryStore) -> None:
    windows = KeyedWindows(
        Product({"peak": ("v", Max()), "bloom": ("v", BloomFilter(10))}),
        {"t": TimeWindow(20), "c": CountWindow(3) | CalendarWindow.to_date("day")}, store, "k",
    )  # fmt: skip
    windows.publish("p")
    windows.extend(["a", "b", "a"], {"v": [1.0, 2.0, 3.0]}, [1, 2, 3])
    windows.checkpoint()


def single(store: MemoryStore) -> None:
    window = Window(Sum(Decimals(2)), SessionWindow(10), store, "w", arity=2, allowed_lateness=3)
    window.publish("p")
    window.extend([1, 2, 3, 4, 5], [1, 2, 30, 31, 32])
    window.checkpoint()


def shared(store: MemoryStore) -> None:
    windows = SharedWindows(Mean(), {"t": TimeWindow(20), "c": CountWindow(3)}, store, "s", arity=2)
    windows.publish("p")
    windows.extend([1.0, 2.0, 3.0, 4.0, 5.0], [1, 2, 30, 31, 32])
    windows.checkpoint()


@pytest.mark.parametrize("publish", [keyed, single, shared])
def test_a_forged_head_is_named_or_read(publish: Callable[[MemoryStore], None]) -> None:
    store = MemoryStore()
    publish(store)
    key = head_key("p")
    (data,) = store.get_many([key])
    assert data is not None
    keys = ["a", "b", "c"] if publish is keyed else None

    def read() -> None:
        with open_published(store, "p") as reader:
            reader.status()
            reader.query(keys)
            reader.query(keys, at=40)
            reader.events(None if keys is None else "a")

    read()
    cases, errors = [*forgeries.snapshots(data)], {}
    if SOME:
        cases = random.Random(3).sample(cases, SOME)
    for forged in cases:
        store.put_many({key: forged})
        error = forgeries.bare_error(read)
        if error is not None:
            errors.setdefault(f"{type(error).__name__}: {error}", msgpack.unpackb(forged[:-16]))
    assert not errors, errors


def test_forged_pages_are_named_or_read(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    windows = KeyedWindows(
        Product({"peak": ("v", Max()), "n": Count()}), {"t": TimeWindow(20), "c": CountWindow(3)},
        store, "k", page_bytes=64, allowed_lateness=3,
    )  # fmt: skip
    windows.publish("p")
    for at in range(0, 60, 10):
        keys = [f"key {number}" for number in range(30)]
        windows.extend(keys, {"v": [float(at)] * 30}, [at] * 30)
        windows.checkpoint()
    every = {key: page for key in store.keys("k/") for page in store.get_many([key]) if page}
    cases = [(key, forged) for key, page in every.items() for forged in forgeries.pages(page)]
    names: dict[bytes, bytes] = {}
    monkeypatch.setattr(keyed_pages, "name_of", lambda p: names.get(bytes(p)) or name_of(p))
    errors: dict[str, str] = {}
    for key, forged in random.Random(4).sample(cases, SOME or 3000):
        names.clear()
        names[forged] = name_of(every[key])
        store.put_many({key: forged})

        def read() -> None:
            with open_published(store, "p") as reader:
                for number in range(0, 30, 4):
                    reader.query(f"key {number}", at=70)

        error = forgeries.bare_error(read)
        if error is not None:
            errors.setdefault(f"{type(error).__name__}: {error}", key)
        store.put_many({key: every[key]})
    assert not errors, errors


def test_a_damaged_record_is_named() -> None:
    store = MemoryStore()
    keyed(store)
    (data,) = store.get_many([head_key("p")])
    assert data is not None
    store.put_many({head_key("p"): data[:-1]})
    with pytest.raises(CorruptSnapshot, match="digest"):
        open_published(store, "p")
    store.put_many({head_key("p"): data})
    (snapshot,) = store.keys("publish:p/snapshot")
    store.put_many({snapshot: b"something else"})
    with pytest.raises(CorruptSnapshot, match="do not match its name"):
        open_published(store, "p")
