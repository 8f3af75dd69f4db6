"""The base of stores that stand in front of another store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .base import Capabilities, PageStore


class WrapperStore(PageStore):
    """A base class for stores that pass every call on to another store.

    Args:
        store: The store behind it.
    """

    def __init__(self, store: PageStore) -> None:
        self.store = store

    def before_call(self) -> None:
        """What comes ahead of each call that this class hands on, but for hints."""
        return

    @property
    def url(self) -> str:  # type: ignore[override]
        return self.store.url

    @property
    def capabilities(self) -> Capabilities:
        return self.store.capabilities

    @property
    def origin(self) -> str:
        return self.store.origin

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        self.before_call()
        return self.store.get_many(keys)

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        self.before_call()
        self.store.put_many(pages)

    def delete_many(self, keys: Iterable[str]) -> None:
        self.before_call()
        self.store.delete_many(keys)

    def keys(self, prefix: str = "") -> Iterator[str]:
        self.before_call()
        return self.store.keys(prefix)

    def peek(self, key: str) -> bytes | None:
        return self.store.peek(key)

    def prefetch(self, keys: Sequence[str]) -> None:
        self.store.prefetch(keys)

    def offer(self, pages: Mapping[str, bytes]) -> None:
        self.store.offer(pages)

    def discard(self, keys: Sequence[str]) -> None:
        self.store.discard(keys)

    def hurry(self) -> None:
        self.store.hurry()

    def ping(self, *, write: bool = False) -> None:
        self.before_call()
        self.store.ping(write=write)

    def compact(self) -> None:
        self.flush()
        self.store.compact()

    def explain_missing(self) -> str:
        return self.store.explain_missing()

    def flush(self) -> None:
        self.before_call()
        self.store.flush()

    def close(self) -> None:
        self.store.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.store!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.store,)
