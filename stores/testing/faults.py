"""Stores that fail on demand or answer late: for your tests of what a real store may do.

``FaultyStore`` fails:

    >>> from stores import MemoryStore
    >>> from stores.testing import FaultyStore
    >>> store = FaultyStore(MemoryStore())
    >>> store.fail(nth=2, operations=["put"])
    >>> store.put_many({"g/1": b"first"})
    >>> store.put_many({"g/2": b"second"})
    Traceback (most recent call last):
        ...
    stores.errors.StoreUnavailable: memory:// failed on demand at put, call 2
    >>> store.put_many({"g/2": b"second"})
    >>> store.get_many(["g/1", "g/2"])
    [b'first', b'second']

To let every call of a run fail once, count up until no call fails in a run:
``for n in count(1): store.fail(n); ...; if not store.fired: break``.

``LatencyStore`` waits, for tests of prefetch and back-pressure, and for trying out designs. Put
either innermost, behind the write buffer and the head cache, in place of the server:
``WriteBuffer(HeadCache(LatencyStore(MemoryStore(), Constant(0.002))))``. Thread safety: any number
of threads, whose waits overlap, as round trips do.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any, Protocol

from stores.base import (
    Capabilities,
    PageStore,
    RecordPut,
    WrapperStore,
    check_keys,
    check_pages,
    start_over_in_children,
)
from stores.errors import StoreUnavailable

OPERATIONS = ("get", "put", "delete", "keys", "flush")
"""The calls that are counted and can fail; ``prefetch`` is a hint and never fails."""

Write = tuple[str, bytes | None]
"""A key with its page, None for a delete."""


@dataclass
class _Plan:
    """What happens at one of the next calls of certain operations."""

    operations: Sequence[str]
    nth: int
    forever: bool
    seconds: float = 0.0
    error: BaseException | type[BaseException] | None = None
    fails: bool = False
    applied: bool = False

    def due(self, operation: str) -> bool:
        if operation not in self.operations:
            return False
        self.nth -= 1
        return self.nth == 0 or (self.forever and self.nth < 0)


class FaultyStore(WrapperStore):
    """A store that fails, waits, reorders, loses and corrupts as planned.

    ``calls`` counts the calls, and ``fired`` the planned failures and corruptions that happened. A
    forked or unpickled copy starts without plans.

    Args:
        store: The store that does the work.
        seed: The seed of the random order; the same seed gives the same order.
        sleep: A function that waits for a number of seconds.
    """

    def __init__(
        self, store: PageStore, *, seed: int = 0, sleep: Callable[[float], Any] = time.sleep
    ) -> None:
        super().__init__(store)
        self._seed, self._sleep = seed, sleep
        self.start_over()
        start_over_in_children(self)

    def start_over(self) -> None:
        self._lock = threading.RLock()
        self._random = Random(self._seed)
        self._held: list[Write] = []
        self._holds: int | None = 0
        self._shuffles, self._duplicates = False, 0.0
        self._plans: list[_Plan] = []
        self._damages: dict[str | int, Callable[[bytes], bytes]] = {}
        self._pages_read = 0
        self.calls = 0
        self.fired = 0

    # Plans

    def fail(
        self,
        nth: int = 1,
        *,
        forever: bool = False,
        operations: Sequence[str] = OPERATIONS,
        error: BaseException | type[BaseException] | None = None,
        applied: bool = False,
    ) -> None:
        """Make the ``nth`` call from now raise an error, and with ``forever`` every later call too.

        Only calls of these ``operations`` count. ``error`` is raised instead of
        ``StoreUnavailable``. With ``applied``, the call is made, and only its answer is lost.
        """
        self._plan(_Plan(operations, nth, forever, 0.0, error, True, applied))

    def delay(
        self,
        seconds: float,
        nth: int = 1,
        *,
        forever: bool = False,
        operations: Sequence[str] = OPERATIONS,
    ) -> None:
        """Make the ``nth`` call from now wait first, and with ``forever`` every later call too."""
        self._plan(_Plan(operations, nth, forever, seconds))

    def hold(
        self, writes: int | None = None, *, shuffle: bool = False, duplicates: float = 0.0
    ) -> None:
        """Acknowledge writes, and apply them once this many are held, or (None) at the next flush.

        With ``shuffle``, they are applied in random order, but the writes of one key in the order
        of their calls. ``duplicates`` is the share of puts that are applied once more, before the
        next write of their key.
        """
        with self._lock:
            self._holds, self._shuffles, self._duplicates = writes, shuffle, duplicates
            self._apply_if_full()

    def crash(self, keep: int = 0) -> int:
        """Lose the held writes, except for the oldest ``keep``; return how many are lost."""
        with self._lock:
            lost = max(0, len(self._held) - keep)
            del self._held[keep:]
            self._apply()
            return lost

    def corrupt(
        self, page: str | int, *, flip: int | None = None, truncate: int | None = None
    ) -> None:
        """Damage a page that is read: flip the bit ``flip``, or cut it to ``truncate`` bytes.

        ``page`` is a key, of which every read is damaged, or a number k for the k-th page that is
        read from now. The stored page is not changed.
        """
        if (flip is None) == (truncate is None):
            raise ValueError("corrupt takes either flip or truncate")
        damage = partial(_damaged, flip=flip, truncate=truncate)
        with self._lock:
            self._damages[page if isinstance(page, str) else self._pages_read + page] = damage

    def heal(self) -> None:
        """Drop all plans and apply the held writes, each with one store call."""
        with self._lock:
            self._plans, self._damages = [], {}
            self._holds, self._shuffles, self._duplicates = 0, False, 0.0
            self._apply()

    @property
    def held(self) -> int:
        """Return how many writes are acknowledged and not applied; no store call."""
        return len(self._held)

    # The store

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        with self._call("get"):
            check_keys(keys, self.capabilities)
            with self._lock:
                # Before the read: a write that is applied meanwhile must not be missed.
                newest = dict(self._held)
            pages = self.store.get_many(keys)
            with self._lock:
                seen = [newest.get(k, page) for k, page in zip(keys, pages, strict=True)]
                return [self._as_read(k, page) for k, page in zip(keys, seen, strict=True)]

    def peek(self, key: str) -> bytes | None:
        """Return None: no page is in memory, so that plans apply to every read."""
        del key
        return None

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        with self._call("put"):
            check_pages(pages, self.capabilities)
            if self._holds == 0:
                self.store.put_many(pages)
            else:
                self._take(pages.items())

    def delete_many(self, keys: Iterable[str]) -> None:
        keys = list(keys)
        with self._call("delete"):
            check_keys(keys, self.capabilities)
            if self._holds == 0:
                self.store.delete_many(keys)
            else:
                self._take((key, None) for key in keys)

    def get_records(self, keys: Sequence[str]) -> list[bytes | None]:
        with self._call("get"):
            return self.store.get_records(keys)

    def put_records(self, puts: Sequence[RecordPut]) -> list[bool]:
        with self._call("put"):
            return self.store.put_records(puts)

    def delete_records(self, keys: Iterable[str]) -> None:
        with self._call("delete"):
            self.store.delete_records(keys)

    def keys(self, prefix: str = "") -> Iterator[str]:
        with self._call("keys"), self._lock:
            newest = dict(self._held)
        yield from (k for k, page in newest.items() if page is not None and k.startswith(prefix))
        yield from (key for key in self.store.keys(prefix) if key not in newest)

    def ping(self, *, write: bool = False) -> None:
        """Ping by a read and a delete, to which plans apply."""
        PageStore.ping(self, write=write)

    def flush(self) -> None:
        with self._call("flush"):
            with self._lock:
                self._apply()
            self.store.flush()

    def close(self) -> None:
        with self._lock:
            self._apply()
        self.store.close()

    # Details

    def _plan(self, plan: _Plan) -> None:
        if plan.nth < 1:
            raise ValueError("calls are counted from 1")
        if not set(plan.operations) <= set(OPERATIONS) or isinstance(plan.operations, str):
            raise ValueError(f"operations are a list of {', '.join(OPERATIONS)}")
        with self._lock:
            self._plans.append(plan)

    @contextmanager
    def _call(self, operation: str) -> Iterator[None]:
        with self._lock:
            self.calls += 1
            number = self.calls
            due = [plan for plan in self._plans if plan.due(operation)]
            self._plans = [plan for plan in self._plans if plan.forever or plan.nth > 0]
            self.fired += sum(plan.fails for plan in due)
        for plan in due:
            if plan.seconds:
                self._sleep(plan.seconds)
        fails = next((plan for plan in due if plan.fails), None)
        if fails is None or fails.applied:
            yield
        if fails is not None:
            raise fails.error or StoreUnavailable(
                f"{self.url} failed on demand at {operation}, call {number}"
            )

    def _take(self, writes: Iterable[Write]) -> None:
        with self._lock:
            self._held.extend(writes)
            self._apply_if_full()

    def _apply_if_full(self) -> None:
        if self._holds is not None and len(self._held) >= self._holds:
            self._apply()

    def _apply(self) -> None:
        """Pass the held writes to the store one by one; writes that fail stay held."""
        self._held = self._in_order(self._held)
        while self._held:
            key, page = self._held[0]
            if page is None:
                self.store.delete_many([key])
            else:
                self.store.put_many({key: page})
            del self._held[0]

    def _in_order(self, writes: list[Write]) -> list[Write]:
        """Return the writes as they reach the store: shuffled between keys, some puts twice."""
        out: list[Write] = []
        for write in writes:
            twice = write[1] is not None and self._random.random() < self._duplicates
            out += [write] * (1 + twice)
        if not self._shuffles:
            return out
        turns = [key for key, _ in out]
        waiting: dict[str, deque[Write]] = {}
        for write in out:
            waiting.setdefault(write[0], deque()).append(write)
        self._random.shuffle(turns)
        return [waiting[key].popleft() for key in turns]

    def _as_read(self, key: str, page: bytes | None) -> bytes | None:
        if page is None:
            return None
        self._pages_read += 1
        damage = self._damages.pop(self._pages_read, None) or self._damages.get(key)
        if damage is None:
            return page
        self.fired += 1
        return damage(page)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(FaultyStore, seed=self._seed), (self.store,)


def _damaged(page: bytes, flip: int | None, truncate: int | None) -> bytes:
    if flip is None or not page:
        return page[:truncate]
    at, bit = divmod(flip % (8 * len(page)), 8)
    return page[:at] + bytes([page[at] ^ 1 << bit]) + page[at + 1 :]


# --- latency -------------------------------------------------------------------------------------


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

    >>> from stores import MemoryStore
    >>> from stores.testing import Constant, LatencyStore
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
