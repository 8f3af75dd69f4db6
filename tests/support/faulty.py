"""A store that fails, hangs and keeps a log on demand."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from stores.base import Capabilities, PageStore, WrapperStore
from tests.support.patience import LONG


class Gated(WrapperStore):
    """Raises ``error`` while it is set, and waits while ``gate`` is clear."""

    def __init__(self, store: PageStore) -> None:
        super().__init__(store)
        self.error: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.log: list[tuple[str, list[str]]] = []
        self.attempts = 0

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            durable=False, shared=False, max_key_bytes=200, max_page_bytes=1 << 20, remote=True
        )

    def _pass(self, operation: str, keys: Iterable[str]) -> None:
        self.attempts += 1
        assert self.gate.wait(LONG)
        if self.error is not None:
            raise self.error
        self.log.append((operation, list(keys)))

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        self._pass("get", keys)
        return super().get_many(keys)

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        self._pass("put", pages)
        super().put_many(pages)

    def delete_many(self, keys: Iterable[str]) -> None:
        keys = list(keys)
        self._pass("delete", keys)
        super().delete_many(keys)

    def logged(self, operation: str) -> list[list[str]]:
        return [keys for name, keys in self.log if name == operation]


def eventually(condition: Callable[[], object], seconds: float = LONG) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.002)
