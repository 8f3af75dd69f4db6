"""Windows in threads: the event loop goes on, and a second call is refused or waits."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from mta import CountWindow, KeyedWindows, Monoid, SharedWindows, Window
from mta.errors import WindowBusy


def of_keys(monoid: Monoid) -> Any:
    windows = KeyedWindows(monoid, CountWindow(3), None)
    return lambda values: windows.extend(["k"] * len(values), values)


MAKES: dict[str, Any] = {
    "Window": lambda monoid: Window(monoid, CountWindow(3), store=None).extend,
    "SharedWindows": lambda monoid: SharedWindows(monoid, {"a": CountWindow(3)}, None).extend,
    "KeyedWindows": of_keys,
}


class Gate:
    """A sum that waits, in the thread that computes it, until it may continue."""

    def __init__(self) -> None:
        self.reached, self.open = threading.Event(), threading.Event()

    def combine(self, left: int, right: int) -> int:
        self.reached.set()
        assert self.open.wait(30)
        return left + right


@pytest.mark.parametrize("kind", MAKES)
def test_the_loop_goes_on_while_a_window_works(kind: str) -> None:
    async def main() -> Any:
        gate = Gate()
        extend = MAKES[kind](Monoid(0, gate.combine, name="gated"))
        work = asyncio.create_task(asyncio.to_thread(extend, [1, 2, 3, 4]))
        while not gate.reached.is_set():
            await asyncio.sleep(0)
        for _ in range(20):  # the loop turns, though the call is under way
            await asyncio.sleep(0)
        assert not work.done()
        with pytest.raises(WindowBusy):
            await asyncio.to_thread(extend, [9])
        gate.open.set()
        return await work

    found = asyncio.run(main())
    results = found["a"] if isinstance(found, dict) else found
    assert results.tolist() == [1, 3, 6, 9]


def test_with_a_lock_calls_wait_for_each_other() -> None:
    window = Window(Monoid(0, int.__add__, name="total"), CountWindow(1000), store=None)

    async def one(lock: asyncio.Lock, value: int) -> None:
        async with lock:
            await asyncio.to_thread(window.insert, value)

    async def main() -> None:
        lock = asyncio.Lock()
        await asyncio.gather(*(one(lock, value) for value in range(200)))

    asyncio.run(main())
    assert (len(window), window.query()) == (200, sum(range(200)))
