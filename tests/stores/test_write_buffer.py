"""The write buffer: bounded, patient, in order, and nothing that it accepted is lost."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stores import (
    InvalidKey,
    PageTooLarge,
    StoreAccessDenied,
    StoreFull,
    StoreUnavailable,
    open_store,
    write_buffer,
)
from stores.memory import MemoryStore
from stores.write_buffer import WriteBuffer
from tests.support.faulty import Gated, eventually
from tests.support.naive import pages_of
from tests.support.patience import LONG, in_time, set_deadline

PAGE = b"p" * 1000


@pytest.fixture
def store() -> Gated:
    return Gated(MemoryStore())


@pytest.fixture
def buffer(store: Gated) -> Iterator[WriteBuffer]:
    buffer = WriteBuffer(store, capacity_bytes=10_000, deadline=LONG)
    yield buffer
    store.gate.set()
    buffer.abandon()


def in_thread(work: object) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)  # type: ignore[arg-type]
    thread.start()
    return thread


def test_what_is_pending_is_in_memory(store: Gated, buffer: WriteBuffer) -> None:
    store.gate.clear()
    assert buffer.peek("g/1") is None
    buffer.put_many({"g/1": PAGE, "g/2": PAGE})
    buffer.delete_many(["g/2"])
    assert [buffer.peek("g/1"), buffer.peek("g/2")] == [PAGE, None]
    store.gate.set()
    buffer.flush()
    assert buffer.peek("g/1") is None  # it would take a call to know
    buffer.put_many({"g/1": PAGE})
    buffer.abandon()
    assert buffer.peek("g/1") is None


def test_a_put_does_not_wait_for_the_store(store: Gated, buffer: WriteBuffer) -> None:
    store.gate.clear()
    buffer.put_many({"g/1": PAGE})
    assert buffer.get_many(["g/1", "g/1"]) == [PAGE, PAGE]
    assert not store.log
    store.gate.set()
    buffer.flush()
    assert store.store.get_many(["g/1"]) == [PAGE]


def test_pages_on_their_way_are_seen(store: Gated, buffer: WriteBuffer) -> None:
    store.gate.clear()
    buffer.put_many({f"g/{i}": PAGE for i in range(4)})
    eventually(lambda: store.attempts)  # the first batch is being sent
    buffer.put_many({"g/9": b"later"})
    buffer.delete_many(["g/0"])
    assert buffer.get_many(["g/9", "g/0", "g/1"]) == [b"later", None, PAGE]
    assert sorted(buffer.keys("g/")) == ["g/1", "g/2", "g/3", "g/9"]
    store.gate.set()
    buffer.flush()
    assert sorted(store.keys()) == sorted(buffer.keys()) == ["g/1", "g/2", "g/3", "g/9"]


def test_small_puts_travel_together(store: Gated, buffer: WriteBuffer) -> None:
    for i in range(20):
        buffer.put_many({f"g/{i}": b"small"})
    buffer.flush()
    assert len(store.logged("put")) <= 3


def test_pages_are_sent_without_a_flush(store: Gated, buffer: WriteBuffer) -> None:
    buffer.put_many({"g/1": PAGE})
    eventually(lambda: store.store.get_many(["g/1"]) == [PAGE])


def test_what_is_in_a_hurry_goes_alone(
    store: Gated, buffer: WriteBuffer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_buffer, "_LINGER", LONG)
    buffer.put_many({"g/1": PAGE})
    assert store.get_many(["g/1"]) == [None]
    buffer.hurry()
    eventually(lambda: store.get_many(["g/1"]) == [PAGE])
    buffer.hurry()  # with nothing to send
    buffer.put_many({"g/2": PAGE})
    buffer.put_many({"g/3": PAGE})
    assert store.get_many(["g/2"]) == [None]
    buffer.flush()
    assert store.get_many(["g/2", "g/3"]) == [PAGE, PAGE]


def test_a_full_buffer_makes_the_caller_wait(store: Gated) -> None:
    buffer = WriteBuffer(store, capacity_bytes=10_000, deadline=LONG)
    store.gate.clear()
    accepted: list[int] = []

    def put() -> None:
        for i in range(50):
            buffer.put_many({f"g/{i}": PAGE})
            accepted.append(i)
            assert buffer.pending_bytes <= 10_000

    thread = in_thread(put)
    eventually(lambda: len(accepted) == 8)  # 8 pages and what they cost beside
    time.sleep(0.05)
    assert len(accepted) == 8
    store.gate.set()
    thread.join(LONG)
    assert len(accepted) == 50
    buffer.flush()
    assert len(list(store.keys())) == 50
    buffer.close()


def test_an_outage_past_the_deadline_is_reported_and_nothing_is_lost(
    store: Gated, buffer: WriteBuffer
) -> None:
    set_deadline(buffer, 0.3)
    store.error = StoreUnavailable("gone")
    accepted, started = 0, time.monotonic()
    with pytest.raises(StoreUnavailable, match=r"0\.3 s .*gone.*held"):
        while True:
            buffer.put_many({f"g/{accepted}": PAGE})
            accepted += 1
    assert 0.25 < time.monotonic() - started < LONG / 2
    with pytest.raises(StoreUnavailable):
        buffer.put_many({"g/refused": PAGE})
    with pytest.raises(StoreUnavailable):
        buffer.flush()
    assert buffer.get_many(["g/0"]) == [PAGE]
    store.error = None
    set_deadline(buffer, LONG)
    buffer.flush()
    assert sorted(store.store.keys()) == sorted(f"g/{i}" for i in range(accepted))
    buffer.put_many({"g/refused": PAGE})
    buffer.close()


def test_a_store_that_comes_back_is_noticed_without_a_flush(
    store: Gated, buffer: WriteBuffer
) -> None:
    set_deadline(buffer, 0.1)
    store.error = StoreUnavailable("gone")
    buffer.put_many({"g/0": PAGE})
    eventually(lambda: buffer._error)
    store.error = None
    eventually(lambda: buffer.pending_bytes == 0)
    buffer.put_many({"g/1": PAGE})


def test_a_hung_store_does_not_hang_the_caller(store: Gated, buffer: WriteBuffer) -> None:
    set_deadline(buffer, 0.3)
    store.gate.clear()
    buffer.put_many({"g/1": PAGE})
    with in_time():
        with pytest.raises(StoreUnavailable):
            buffer.flush()
        with pytest.raises(StoreUnavailable):
            for i in range(50):
                buffer.put_many({f"g/{i}": PAGE})


@pytest.mark.parametrize("error", [StoreFull("no room"), StoreAccessDenied("no"), TypeError("bug")])
def test_an_error_that_time_does_not_heal_is_raised_at_the_next_call(
    store: Gated, buffer: WriteBuffer, error: Exception
) -> None:
    store.error = error
    buffer.put_many({"g/1": PAGE})
    eventually(lambda: buffer._error)
    with pytest.raises(type(error)):
        buffer.put_many({"g/2": PAGE})
    with pytest.raises(type(error)):
        buffer.flush()
    with pytest.raises(type(error)):
        buffer.delete_many(["g/1"])
    attempts = store.attempts
    time.sleep(0.1)
    assert store.attempts <= attempts + 1, "it must not be tried again and again"
    assert buffer.get_many(["g/1"]) == [PAGE]
    store.error = None
    buffer.flush()
    assert sorted(store.store.keys()) == ["g/1"]


def test_reads_wait_for_the_store_too(store: Gated, buffer: WriteBuffer) -> None:
    buffer.put_many({"g/1": PAGE})
    buffer.flush()
    store.error = StoreUnavailable("gone")
    set_deadline(buffer, 0.1)
    with pytest.raises(StoreUnavailable):
        buffer.get_many(["g/1"])
    set_deadline(buffer, LONG)
    threading.Timer(0.1, lambda: setattr(store, "error", None)).start()
    assert buffer.get_many(["g/1"]) == [PAGE]


def test_deletes_make_room_before_puts(store: Gated, buffer: WriteBuffer) -> None:
    buffer.put_many({"g/old": PAGE})
    buffer.flush()
    store.gate.clear()
    buffer.put_many({"g/1": PAGE, "g/2": PAGE, "g/3": PAGE})  # worth sending: the thread takes it
    eventually(lambda: store.attempts == 2)
    buffer.put_many({"g/new": PAGE})
    buffer.delete_many(["g/old"])
    store.gate.set()
    buffer.flush()
    assert [name for name, _ in store.log[-2:]] == ["delete", "put"]


def test_a_page_deleted_before_it_was_sent_never_travels(store: Gated, buffer: WriteBuffer) -> None:
    store.gate.clear()
    buffer.put_many({f"g/{i}": PAGE for i in range(4)})
    eventually(lambda: store.attempts)
    buffer.put_many({"g/short-lived": PAGE})
    buffer.delete_many(["g/short-lived"])
    store.gate.set()
    buffer.flush()
    assert ["g/short-lived"] not in store.logged("put")


def test_a_refused_call_accepts_nothing(store: Gated, buffer: WriteBuffer) -> None:
    with pytest.raises(InvalidKey):
        buffer.put_many({"g/1": PAGE, "ü": PAGE})
    with pytest.raises(PageTooLarge):
        buffer.put_many({"g/1": PAGE, "g/2": b"x" * (1 << 20) + b"x"})
    with pytest.raises(InvalidKey):
        buffer.delete_many(["g/1", ""])
    assert buffer.pending_bytes == 0


def test_a_failed_close_keeps_the_pages(store: Gated, buffer: WriteBuffer) -> None:
    store.error = StoreUnavailable("gone")
    buffer.put_many({"g/1": PAGE})
    set_deadline(buffer, 0.1)
    with pytest.raises(StoreUnavailable):
        buffer.close()
    set_deadline(buffer, LONG)
    store.error = None
    memory = store.store._pages  # type: ignore[attr-defined]
    buffer.close()
    assert memory == {"g/1": PAGE}


def test_closing_while_others_put_drops_nothing_that_was_accepted() -> None:
    for turn in range(20):
        name = f"closing-{turn}-{id(object())}"
        buffer = WriteBuffer(MemoryStore(name), 5000)
        accepted: list[str] = []

        def put(buffer: WriteBuffer = buffer, accepted: list[str] = accepted) -> None:
            for i in range(10_000):
                try:
                    buffer.put_many({f"g/{i}": b"x"})
                except RuntimeError:  # StoreClosed
                    return
                accepted.append(f"g/{i}")

        thread = in_thread(put)
        eventually(lambda accepted=accepted: accepted)  # type: ignore[misc]
        buffer.close()
        thread.join(LONG)
        assert set(MemoryStore(name).keys()) == set(accepted)


def test_threads_do_not_leak(store: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stores.write_buffer._IDLE", 0.05)
    before = threading.active_count()
    for _ in range(5):
        with WriteBuffer(MemoryStore()) as buffer:
            buffer.put_many({"g/1": PAGE})
    assert threading.active_count() == before
    dropped = WriteBuffer(MemoryStore())
    dropped.put_many({"g/1": PAGE})
    there = weakref.ref(dropped)
    del dropped
    eventually(lambda: gc.collect() >= 0 and there() is None)
    assert threading.active_count() == before
    with WriteBuffer(MemoryStore()) as buffer:  # a thread that ended is started again
        for i in range(3):
            buffer.put_many({f"g/{i}": PAGE})
            eventually(lambda buffer=buffer: buffer._thread is None)  # type: ignore[misc]


def test_pages_are_sent_when_the_process_ends(tmp_path: Path) -> None:
    program = (
        "import sys; from stores import open_store\n"
        "store = open_store(sys.argv[1]); store.put_many({'g/1': b'last words'})\n"
    )
    url = f"file://{tmp_path}"
    subprocess.run([sys.executable, "-c", program, url], check=True)
    with open_store(url) as store:
        assert store.get_many(["g/1"]) == [b"last words"]


KEYS = st.sampled_from([f"g/{i}" for i in range(5)])
STEPS = st.one_of(
    st.tuples(st.just("put"), st.dictionaries(KEYS, st.binary(max_size=300))),
    st.tuples(st.just("delete"), st.lists(KEYS)),
    st.tuples(st.just("get"), st.lists(KEYS)),
    st.tuples(st.just("flush"), st.none()),
    st.tuples(st.just("fail"), st.none()),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=40), st.sampled_from([300, 900, 5000]))
def test_it_behaves_as_a_dictionary(steps: list[tuple[str, object]], capacity: int) -> None:
    store = Gated(MemoryStore())
    buffer = WriteBuffer(store, capacity, deadline=LONG)
    model: dict[str, bytes] = {}
    for step, argument in steps:
        if step == "put":
            buffer.put_many(argument)  # type: ignore[arg-type]
            model |= argument  # type: ignore[arg-type, operator]
        elif step == "delete":
            buffer.delete_many(argument)  # type: ignore[arg-type]
            for key in argument:  # type: ignore[attr-defined]
                model.pop(key, None)
        elif step == "get":
            assert buffer.get_many(argument) == [model.get(key) for key in argument]  # type: ignore
        elif step == "flush":
            buffer.flush()
            assert pages_of(store.store) == model
        else:
            store.error = StoreUnavailable("a blip")
            threading.Timer(0.002, lambda: setattr(store, "error", None)).start()
        if step != "fail":
            assert set(model) == set(buffer.keys())
    store.error = None
    buffer.flush()
    assert pages_of(store.store) == model
    buffer.close()
