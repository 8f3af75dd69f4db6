"""Snapshots of multiple windows: the format, damage, and what they are restored with."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
import xxhash

from mta import CountWindow, Max, Sum, TimeWindow, Window
from mta.audit.walk import audit
from mta.errors import CorruptSnapshot, SnapshotMismatch
from mta.snapshots import Snapshot
from mta.windows.shared import SharedWindows
from tests.support.naive import joined
from tests.support.shared_windows import FOUR, counted_windows, values


def test_restored_only_with_the_same_events() -> None:
    windows, store = counted_windows(FOUR)
    windows.extend(values(1_000), emit="last")
    snapshot = windows.checkpoint()
    with pytest.raises(SnapshotMismatch, match=r"use SharedWindows\.restore for other"):
        windows.restore_like(SharedWindows(Max(), {"five": CountWindow(50)}, store).checkpoint())
    with pytest.raises(SnapshotMismatch, match=r"'five' has the frame CountWindow\(51\)"):
        other = SharedWindows(Max(), {**FOUR, "five": CountWindow(51)}, store)
        SharedWindows(Max(), {**FOUR, "five": CountWindow(50)}, store).restore_like(
            other.checkpoint()
        )
    with pytest.raises(SnapshotMismatch, match="monoid"):
        SharedWindows.restore(snapshot, store, aggregations=Sum(), window=FOUR)
    with pytest.raises(ValueError, match="kept without any"):
        SharedWindows.restore(
            snapshot, store, aggregations=Max(), window={"day": TimeWindow("1 day")}
        )
    with pytest.raises(SnapshotMismatch, match=r"a single window: use Window\.restore"):
        SharedWindows.restore(
            Window(Max(), CountWindow(5)).checkpoint(), store, aggregations=Max(), window=FOUR
        )
    with pytest.raises(SnapshotMismatch, match=r"multiple windows: use SharedWindows\.restore"):
        Window.restore(snapshot, store, aggregations=Max(), window=CountWindow(50))


def test_damaged_snapshots_are_noticed() -> None:
    windows = SharedWindows(joined(), {"a": CountWindow(2), "b": CountWindow(5)}, arity=2)
    windows.extend(list("abcdefg"), emit="last")
    snapshot = windows.checkpoint()
    for at in range(len(snapshot)):
        with pytest.raises(CorruptSnapshot):
            Snapshot.decode(snapshot[:at])
        for bit in (1, 128):
            damaged = bytearray(snapshot)
            damaged[at] ^= bit
            with pytest.raises(CorruptSnapshot):
                Snapshot.decode(bytes(damaged))


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, "mta-shared"),
        (1, 1),
        (2, b"name"),
        (4, ["Max", bytes(15)]),
        (5, 1),
        (15, {}),
        (15, [["a", "p", bytes(16), 0], ["a", "p", bytes(16), 0]]),
        (15, [["b", "p", bytes(16), 0], ["a", "p", bytes(16), 0]]),
        (15, [["a", "p", bytes(15), 0]]),
        (15, [["a", "p", "text", 0]]),
        (15, [["a", "p", bytes(16), -1]]),
        (15, [["a", "p", bytes(16), 8]]),
        (15, [["a", "p", bytes(16), 1.0]]),
        (15, [["", "p", bytes(16), 0], ["a", "p", bytes(16), 0]]),
        (15, [["a" * 201, "p", bytes(16), 0]]),
        (15, [["a", "p", bytes(16)]]),
        (15, [1]),
        (17, {}),
        (17, [["Max", bytes(15), None, None], [], {}]),
        (17, [["Max", bytes(16), None, None], [{}], {}]),
        (17, [["Max", bytes(16), None, None], [], {1: 2}]),
        (17, [["Max", bytes(16), None, None], []]),
    ],
)
def test_rightly_digested_snapshots_that_cannot_be(at: int, value: Any) -> None:
    windows = SharedWindows(joined(), {"a": CountWindow(2), "b": CountWindow(5)}, arity=2)
    windows.extend(list("abcdefg"), emit="last")
    fields = msgpack.unpackb(windows.checkpoint()[:-16])
    fields[at] = value
    body = msgpack.packb(fields)
    with pytest.raises(CorruptSnapshot):
        Snapshot.decode(body + xxhash.xxh3_128_digest(body))


def test_the_worked_example_of_a_snapshot() -> None:
    windows = SharedWindows(Max(), {"b": CountWindow(2), "a": CountWindow(1)}, name="w")
    windows.extend([1.0, 2.0, 3.0])
    body = msgpack.unpackb(windows.checkpoint()[:-16])
    assert body[:2] == ["mta-snapshot", 2]
    assert body[15] == [
        ["a", "CountWindow(1)", CountWindow(1).fingerprint, 2],
        ["b", "CountWindow(2)", CountWindow(2).fingerprint, 1],
    ]
    assert audit(windows).pages == 0
