"""What the parts of the conformance suite share: hooks that a subclass overrides, and helpers."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from unittest import SkipTest
from uuid import uuid4

from stores.base import PageStore

PATIENCE = 30
"""Seconds before a child process counts as hung, or a page as never read ahead."""


class ConformanceHooks:
    """Subclass it and override ``open``."""

    reopens = True
    """Pages survive ``close`` and are seen by a second ``open()``."""
    processes = True
    """Another process sees the pages after ``flush``."""
    pickles = True
    """An open store can be sent to another process."""
    lists = True
    """The server can list its keys; where it cannot, ``keys`` raises ``UnsupportedOperation``."""
    secrets: tuple[str, ...] = ()
    """User names and passwords that must not be shown."""

    def open(self) -> PageStore:
        """A store on the pages of this test."""
        raise NotImplementedError

    def raw_get(self, key: str) -> bytes | None:
        """The page as it lies behind the store."""
        raise SkipTest("no raw access")

    def raw_delete(self, key: str) -> None:
        """Take the page away behind the store's back."""
        raise SkipTest("no raw access")

    def assert_keys(self, store: PageStore, prefix: str, expected: Iterable[str]) -> None:
        """The store lists exactly these keys, if it lists any."""
        if self.lists:
            assert sorted(store.keys(prefix)) == sorted(expected)

    @property
    def group(self) -> str:
        """A key group of this test's own."""
        return self.__dict__.setdefault("_group", f"test-{uuid4().hex[:12]}")  # type: ignore[no-any-return]

    def pages(self, number: int, size: int = 100) -> dict[str, bytes]:
        """Pages that differ, in no sorted order of keys."""
        order = sorted(range(number), key=lambda i: (i * 7919) % 1009)
        return {f"{self.group}/{i:04d}": bytes([i % 256]) * size for i in order}


@contextmanager
def raises(kind: type[BaseException]) -> Iterator[None]:
    """What happens inside must raise this; AssertionError otherwise. It spares users pytest."""
    try:
        yield
    except kind:
        return
    raise AssertionError(f"no {kind.__name__} was raised")


def comes_to_hand(store: PageStore, key: str) -> bool:
    """Whether a page is at hand some time after it was prefetched."""
    deadline = time.monotonic() + PATIENCE
    while store.peek(key) is None and time.monotonic() < deadline:
        store.prefetch([key])
        time.sleep(0.001)
    return store.peek(key) is not None


def in_children(works: list[Callable[[], None]]) -> None:
    """Do each piece of work in a fork of this process, all at once; they must all succeed."""
    if not hasattr(os, "fork"):
        raise SkipTest("this system cannot fork")
    children = []
    for work in works:
        child = os.fork()
        if child == 0:
            signal.alarm(PATIENCE)  # a child that hangs dies
            status = 1
            try:
                work()
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        children.append(child)
    statuses = [os.waitpid(child, 0)[1] for child in children]
    assert statuses == [0] * len(works), f"children failed or hung: {statuses}"
