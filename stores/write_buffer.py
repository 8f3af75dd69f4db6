"""Write-behind: puts and deletes return immediately, and a background thread sends them in batches.

The paper's layers of memory have a write buffer between the tails and the store. Invariants:

1. An entry is in ``_pending``, then in ``_sending``, then in the store. A read looks in that order,
   so it always sees the last put or delete of a key.
2. Batches are sent one after the other, and a batch has only the last entry of each key. So the
   order of puts and deletes of one key is kept, and sending a batch twice is harmless.
3. Nothing leaves ``_sending`` before the store has accepted it. If sending fails, the callers get
   the error, the entries stay, and they are sent again.
4. ``_pending`` and ``_sending`` together have at most the capacity; a caller waits until there is
   room. A single call that is larger than the capacity is accepted once the buffer is empty.

A forked child starts with an empty buffer: the parent sends its own pending entries.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from time import monotonic, sleep
from typing import Any
from weakref import WeakSet

from .base import PageStore, T, WrapperStore, check_keys, check_pages, start_over_in_children
from .errors import StoreUnavailable

_LINGER = 0.05  # seconds that a small batch waits for more entries
_IDLE = 5.0  # seconds after which a thread without work ends
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0  # seconds between attempts
_ENTRY_BYTES = 200  # approximate cost of an entry in addition to its page
_EXIT_DEADLINE = 5.0

_log = logging.getLogger(__name__)
_buffers: WeakSet[WriteBuffer] = WeakSet()


class WriteBuffer(WrapperStore):
    """A store that collects puts and deletes in memory and sends them in the background.

    Args:
        store: The store that receives the puts and deletes.
        capacity_bytes: The maximum size of waiting puts and deletes, in bytes.
        deadline: How many seconds to retry writes and reads before callers get the store's error.
            The first failure is logged as a warning.
    """

    def __init__(
        self, store: PageStore, capacity_bytes: int = 8 << 20, deadline: float = 30.0
    ) -> None:
        super().__init__(store)
        self._capacity = capacity_bytes
        self._deadline = deadline
        self._worthwhile = max(1, capacity_bytes // 4)
        self._limits = store.capabilities
        self.start_over()
        start_over_in_children(self)
        _buffers.add(self)

    def start_over(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._pending: dict[str, bytes | None] = {}  # None is a delete
        self._pending_bytes = 0
        self._sending: dict[str, bytes | None] = {}
        self._sending_bytes = 0
        self._wanted: set[str] = set()  # keys to read ahead that are still in the buffer
        self._batches_sent = 0
        self._thread: threading.Thread | None = None
        self._waiters = 0
        self._hurried = False
        self._kicks = 0
        self._error: Exception | None = None
        self._reason: Exception | None = None  # why the last attempt failed
        self._give_up_at = float("inf")

    @property
    def pending_bytes(self) -> int:
        """Return the bytes that are not in the store yet; no store call."""
        return self._pending_bytes + self._sending_bytes

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the pages, including pending ones; one store call, none if all are pending.

        Retries until the deadline, then raises ``StoreUnavailable``.
        """
        return self.view_many(keys, _copies)

    def view_many(self, keys: Sequence[str], see: Callable[[list[Any]], T]) -> T:
        """Return what ``see`` returns for the pages, including pending ones; see ``get_many``."""
        held: dict[str, bytes | None] = {}
        with self._changed:
            self._check_open()
            for entries in (self._sending, self._pending):
                for key in keys:
                    if key in entries:
                        held[key] = entries[key]
        if not held:
            return self._patiently(partial(self.store.view_many, keys, see))
        if held.keys() >= set(keys):
            return see(list(map(held.get, keys)))

        def with_pending(pages: list[Any]) -> T:
            found = iter(pages)
            return see([held[key] if key in held else next(found) for key in keys])

        missing = [key for key in keys if key not in held]
        return self._patiently(partial(self.store.view_many, missing, with_pending))

    def peek(self, key: str) -> bytes | None:
        """Return the page if it is pending, or in memory in the inner store; no store call."""
        with self._changed:
            if self._closed:
                return None
            for pages in (self._pending, self._sending):
                if key in pages:
                    return pages[key]
        return self.store.peek(key)

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        """Accept the pages; no store call, but the call waits while the buffer is full.

        A call that raises an error has accepted none of its pages. Raises ``StoreUnavailable``
        after the deadline, and the store's error for earlier pages, such as ``StoreFull``. Those
        pages stay in the buffer; every further call first sends them again, and raises an error
        only if that fails.
        """
        size = check_pages(pages, self._limits) + _ENTRY_BYTES * len(pages)
        self._accept(pages, size)

    def delete_many(self, keys: Iterable[str]) -> None:
        """Accept the deletes, after all earlier puts; otherwise like ``put_many``."""
        entries = dict.fromkeys(keys)
        check_keys(entries, self._limits)
        self._accept(entries, _ENTRY_BYTES * len(entries))

    def keys(self, prefix: str = "") -> Iterator[str]:
        """Yield every key that starts with ``prefix``, including pending ones, each once."""
        with self._changed:
            self._check_open()
            held = {**self._sending, **self._pending}
        yield from (k for k, page in held.items() if page is not None and k.startswith(prefix))
        yield from (key for key in self.store.keys(prefix) if key not in held)

    def prefetch(self, keys: Sequence[str]) -> None:
        """Read the pages ahead; pending pages are offered once the store has them."""
        with self._changed:
            held = {key for key in keys if key in self._pending or key in self._sending}
            self._wanted |= held
        self.store.prefetch([key for key in keys if key not in held])

    def hurry(self) -> None:
        """Send pending entries without waiting for more."""
        with self._changed:
            self._hurried = bool(self._pending)
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait until the store has accepted and flushed all earlier entries.

        Failed pages are sent again. Raises the errors of ``put_many``; the pages are then still in
        the buffer.
        """
        self._drain(self._deadline)
        self._patiently(self.store.flush)

    def close(self) -> None:
        """Flush, end the thread, close the store. If the flush fails, the buffer stays open."""
        if self._closed:
            return
        while not self._closed:
            self.flush()
            with self._changed:
                # Another thread may have put pages since; accepted entries are never dropped.
                self._closed = not self._pending and not self._sending
                thread = self._thread
                self._changed.notify_all()
        if thread is not None:
            thread.join(self._deadline)
        self.store.close()

    def abandon(self) -> None:
        """Drop pending entries and close, for a store that will not come back."""
        with self._changed:
            self._closed = True
            self._pending, self._pending_bytes = {}, 0
            self._kicks += 1
            self._changed.notify_all()
        self.store.close()

    # The callers' side

    def _accept(self, entries: Mapping[str, bytes | None], size: int) -> None:
        with self._changed:
            self._check_open()
            if self._error is not None or monotonic() >= self._give_up_at:
                self._await(self._batches_sent + 1, self._deadline)
            if not self._has_room(size):
                self._wait_until(lambda: self._has_room(size))
                self._check_open()
            if self._thread is None and entries:
                self._start_thread()
            before = self._pending_bytes
            self._pending.update(entries)
            self._pending_bytes = before + size
            # The thread sleeps while nothing is pending, and while a batch is too small.
            if before == 0 or before < self._worthwhile <= before + size:
                self._changed.notify_all()

    def _has_room(self, size: int) -> bool:
        pending = self._pending_bytes + self._sending_bytes
        return pending == 0 or pending + size <= self._capacity

    def _drain(self, deadline: float) -> None:
        with self._changed:
            self._check_open()
            target = self._batches_sent + bool(self._sending) + bool(self._pending)
            if self._batches_sent < target:
                if self._thread is None:
                    self._start_thread()
                self._await(target, deadline)

    def _await(self, target: int, deadline: float) -> None:
        """Wait until ``target`` batches are sent; a failed or hanging batch is sent again now."""
        self._error = None
        self._give_up_at = monotonic() + deadline
        self._kicks += 1
        self._wait_until(lambda: self._batches_sent >= target)
        self._check_open()  # raises if the rest was abandoned

    def _wait_until(self, ready: Callable[[], bool]) -> None:
        self._waiters += 1
        self._changed.notify_all()
        try:
            while not ready():
                if self._error is not None:
                    raise self._error.with_traceback(None)
                left = self._give_up_at - monotonic()
                if left <= 0:
                    raise self._unavailable(self._reason or "no answer")
                self._changed.wait(None if left == float("inf") else left)
        finally:
            self._waiters -= 1

    def _patiently(self, call: Callable[[], T]) -> T:
        """Call the store, and retry until the deadline if it does not answer."""
        until = monotonic() + self._deadline
        pause = _FIRST_PAUSE
        while True:
            try:
                return call()
            except StoreUnavailable as error:
                if self._closed or monotonic() + pause > until:
                    raise
                if pause == _FIRST_PAUSE:
                    self._warn(error)
            sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _warn(self, error: Exception) -> None:
        _log.warning("retrying for %g s: %s", self._deadline, error)

    def _unavailable(self, reason: object) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self.url} has accepted no page for {self._deadline:g} s ({reason}); "
            f"{self.pending_bytes} bytes are held and will be sent when it is back: retry then"
        )

    # The thread's side

    def _start_thread(self) -> None:
        self._thread = threading.Thread(target=self._work, name="write-buffer", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while batch := self._take_batch():
            self._send(batch)
            with self._changed:
                if wanted := self._wanted.intersection(batch):
                    self._wanted -= wanted
                    self.store.offer({k: page for k in wanted if (page := batch[k]) is not None})
                self._sending, self._sending_bytes = {}, 0
                self._batches_sent += 1
                self._error = self._reason = None
                self._give_up_at = float("inf")
                self._changed.notify_all()

    def _take_batch(self) -> dict[str, bytes | None]:
        """Wait for a batch worth sending; an empty batch ends the thread."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending or self._closed, _IDLE)
            if self._pending:
                self._changed.wait_for(
                    lambda: (
                        self._pending_bytes >= self._worthwhile
                        or self._waiters
                        or self._hurried
                        or self._closed
                    ),
                    None if self._limits.waits_for_flush else _LINGER,
                )
            self._hurried = False
            batch = self._sending = self._pending
            self._sending_bytes = self._pending_bytes
            self._pending, self._pending_bytes = {}, 0
            if batch:
                self._give_up_at = monotonic() + self._deadline
                self._changed.notify_all()  # waiting callers use the new deadline
            else:
                self._thread = None
            return batch

    def _send(self, batch: Mapping[str, bytes | None]) -> None:
        puts = {key: page for key, page in batch.items() if page is not None}
        deletes = [key for key, page in batch.items() if page is None]
        patient_until = monotonic() + self._deadline
        pause = _FIRST_PAUSE
        while not self._closed:
            kicks = self._kicks
            try:
                if deletes:  # first, to free space
                    self.store.delete_many(deletes)
                if puts:
                    self.store.put_many(puts)
                return
            except StoreUnavailable as error:
                if pause == _FIRST_PAUSE:
                    self._warn(error)
                self._reason = error
                left = patient_until - monotonic()
                if left > 0:
                    self._pause(min(pause, left), kicks)
                else:
                    self._pause(pause, kicks, self._unavailable(error))
                pause = min(2 * pause, _LONGEST_PAUSE)
            except Exception as error:  # all errors must reach the callers
                self._pause(None, kicks, error)

    def _pause(self, seconds: float | None, kicks: int, error: Exception | None = None) -> None:
        """Report the error, and wait for a retry request, for closing, or for ``seconds``."""
        with self._changed:
            if error is not None:
                self._error = error
                self._changed.notify_all()
            self._changed.wait_for(lambda: self._kicks != kicks or self._closed, seconds)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.store, self._capacity, self._deadline)


def _copies(pages: list[Any]) -> list[bytes | None]:
    return [None if page is None else bytes(page) for page in pages]


@atexit.register
def _flush_at_exit() -> None:
    """Try to send the pages of a process that ends without ``close``."""
    for buffer in list(_buffers):
        if buffer.pending_bytes and not buffer._closed:
            try:
                buffer._drain(min(buffer._deadline, _EXIT_DEADLINE))
                buffer.store.flush()
            except Exception as error:
                _log.warning("pages were lost when the process ended: %s", error)
