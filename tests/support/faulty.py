"""Stores that keep a log, fail and hang on demand."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from stores import MemoryStore
from stores.base import Capabilities, PageStore, WrapperStore
from tests.support.patience import LONG


class Logged(WrapperStore):
    """Notes the keys of each call in ``log``, and how many bytes were written."""

    def __init__(self, store: PageStore | None = None) -> None:
        super().__init__(store or MemoryStore())
        self.clear_log()

    def clear_log(self) -> None:
        self.log: list[tuple[str, list[str]]] = []
        self.written = 0

    def note(self, operation: str, keys: Iterable[str]) -> None:
        self.log.append((operation, list(keys)))

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        self.note("get", keys)
        return super().get_many(keys)

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        self.note("put", pages)
        self.written += sum(map(len, pages.values()))
        super().put_many(pages)

    def delete_many(self, keys: Iterable[str]) -> None:
        keys = list(keys)
        self.note("delete", keys)
        super().delete_many(keys)

    def flush(self) -> None:
        self.note("flush", [])
        super().flush()

    def logged(self, operation: str) -> list[list[str]]:
        return [keys for name, keys in self.log if name == operation]


class Gated(Logged):
    """Raises ``error`` while it is set, and waits while ``gate`` is clear."""

    def __init__(self, store: PageStore) -> None:
        super().__init__(store)
        self.error: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.attempts = 0

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            durable=False, shared=False, max_key_bytes=200, max_page_bytes=1 << 20, remote=True
        )

    def note(self, operation: str, keys: Iterable[str]) -> None:
        if operation == "flush":
            return
        self.attempts += 1
        assert self.gate.wait(LONG)
        if self.error is not None:
            raise self.error
        super().note(operation, keys)


def eventually(condition: Callable[[], object], seconds: float = LONG) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.002)
