"""How long tests wait: for what must come, as long as a busy machine may need; else not at all."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from mta.errors import StoreUnavailable
from stores import PageStore, WriteBuffer

#: Seconds for what must end by itself. Only a test that fails waits so long.
LONG = 180.0


@contextmanager
def in_time(seconds: float = LONG / 2) -> Iterator[None]:
    """What is done here must end, though not how soon: a hang fails, a busy machine does not."""
    started = time.monotonic()
    yield
    assert time.monotonic() - started < seconds, "it took far too long"


def set_deadline(store: PageStore, seconds: float) -> None:
    """Another deadline for a store behind a write buffer, from the next batch or call on."""
    assert isinstance(store, WriteBuffer)
    store._deadline = seconds


def send_what_is_held(store: PageStore) -> None:
    """After an outage: as one does who repeats a call that failed, and with all patience.

    What waits was given the time that callers had then; and an attempt that failed before the end
    of the outage may be reported after it, once.
    """
    set_deadline(store, LONG)
    try:
        store.flush()
    except StoreUnavailable:
        store.flush()


@contextmanager
def short_deadline(store: PageStore, seconds: float) -> Iterator[None]:
    """A deadline for a fault: all that was held has been sent before, without haste."""
    assert isinstance(store, WriteBuffer)
    store.flush()
    before = store._deadline
    store._deadline = seconds
    try:
        yield
    finally:
        store._deadline = before
