"""A store that answers late: for tests of prefetch and back-pressure, and for trying out designs.

    >>> from stores import Constant, LatencyStore, MemoryStore
    >>> waits = []
    >>> store = LatencyStore(MemoryStore(), Constant(0.002), sleep=waits.append)
    >>> store.get_many(["g/1", "g/2"])
    [None, None]
    >>> waits
    [0.002]

Put it innermost, behind the write buffer and the head cache, where the network would be:
``WriteBuffer(HeadCache(LatencyStore(MemoryStore(), Constant(0.002))))``. Thread safety: any number
of threads, whose waits overlap, as round trips do.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any, Protocol

from stores.base import Capabilities, PageStore, WrapperStore, start_over_in_children


class Delay(Protocol):
    """How long one store call takes."""

    def seconds(self, call: int, random: Random) -> float:
        """Return the wait of the call with this number, counted from 1."""


@dataclass(frozen=True)
class Constant:
    """Every call waits for the same time.

    Args:
        wait: The wait in seconds.
    """

    wait: float

    def seconds(self, call: int, random: Random) -> float:
        return self.wait


@dataclass(frozen=True)
class Jittered:
    """Every call waits for a fixed time and a random additional time.

    Args:
        wait: The shortest wait, in seconds.
        jitter: The longest additional wait, in seconds. The additional wait is evenly distributed.
    """

    wait: float
    jitter: float

    def seconds(self, call: int, random: Random) -> float:
        return self.wait + random.random() * self.jitter


@dataclass(frozen=True)
class OneSlow:
    """A few calls are slow, and all others wait for the same time.

    Args:
        wait: The wait of most calls, in seconds.
        slow: The wait of a slow call, in seconds.
        every: Calls whose number is a multiple of this one are slow.
    """

    wait: float
    slow: float
    every: int = 100

    def seconds(self, call: int, random: Random) -> float:
        return self.wait if call % self.every else self.slow


class LatencyStore(WrapperStore):
    """A store that waits before each call, and counts as remote.

    ``prefetch`` does not wait: it is a hint, and never blocks. A forked or unpickled copy counts
    its calls from 1 again.

    Args:
        store: The store that does the work.
        delay: How long each call waits: ``Constant``, ``Jittered`` or ``OneSlow``.
        seed: The seed of the random waits; the same seed gives the same waits.
        sleep: A function that waits for a number of seconds.

    >>> from stores import Constant, LatencyStore, MemoryStore
    >>> store = LatencyStore(MemoryStore(), Constant(0.001))
    >>> store.put_many({"window/0/1": b"a page"})
    >>> store.calls, store.waited
    (1, 0.001)
    """

    def __init__(
        self,
        store: PageStore,
        delay: Delay,
        *,
        seed: int = 0,
        sleep: Callable[[float], Any] = time.sleep,
    ) -> None:
        super().__init__(store)
        self._delay, self._seed, self._sleep = delay, seed, sleep
        self.start_over()
        start_over_in_children(self)

    def start_over(self) -> None:
        self._lock = threading.Lock()
        self._random = Random(self._seed)
        self.calls = 0
        self.waited = 0.0

    @property
    def capabilities(self) -> Capabilities:
        return replace(self.store.capabilities, remote=True)

    def before_call(self) -> None:
        with self._lock:
            self.calls += 1
            seconds = self._delay.seconds(self.calls, self._random)
            self.waited += seconds
        self._sleep(seconds)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(LatencyStore, seed=self._seed), (self.store, self._delay)
