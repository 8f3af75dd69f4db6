"""What the requests of a worker share: the reader, its threads, and samples of its status.

The reader checks for newer snapshots on a separate thread, so no request waits for that. While the
store does not answer, the last snapshot is still served, as far as its pages are in memory.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, NoReturn, TypeVar

import numpy as np

from mta.errors import WindowStoreError
from mta.frames.known import shown
from mta.published import AsyncPublishedWindows, PublishedWindows
from mta.published.reader import open_published
from mta.serve.answers import ONLY, Problem, named
from mta.serve.keys import KeyForm
from mta.serve.settings import ServerSettings

T = TypeVar("T")
logger = logging.getLogger(__name__)
#: How many threads of a worker may wait for the store.
_THREADS = 8
#: The seconds between two samples, and the number of samples that are kept: an hour.
_SAMPLE_SECONDS, _SAMPLES = 5.0, 720
#: The values of a sample, besides its moment.
SAMPLED = ("batch", "lag_seconds", "keys", "events")
_TIME_WINDOW = re.compile(r"TimeWindow\((\d+) us\)")
_COUNT_WINDOW = re.compile(r"CountWindow\((\d+)\)")


class Service:
    """Published windows for the requests of a worker. Raises the errors of ``open_published``."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self._reader: PublishedWindows = open_published(
            settings.store, settings.name, refresh=None, cache=settings.cache
        )
        self._lookups = AsyncPublishedWindows(self._reader)
        self._keys: KeyForm | None = None
        self._samples: deque[tuple[float, ...]] = deque(maxlen=_SAMPLES)
        self._threads = ThreadPoolExecutor(_THREADS, "mta-serve")
        self._refresher = ThreadPoolExecutor(1, "mta-serve-refresh")
        #: When the store last answered a check for a newer snapshot, and whether it still answers.
        self._looked_at, self._answers = datetime.now(UTC), True
        self._tasks: list[asyncio.Task[NoReturn]] = []

    @property
    def keys(self) -> KeyForm:
        """Return how keys are written; looked up again until there is a key."""
        if self._keys is None or self._keys.is_open:
            columns = self._reader.status().key_columns
            self._keys = KeyForm([(name or "key", kind) for name, kind in columns])
        return self._keys

    async def one(self, key: Any, at: Any, partial: bool) -> Mapping[str, Any]:
        """Return the results of one key, or of windows without keys, by their names."""
        if key is None:
            return await self.run(self.many, None, at, partial)
        return named(await self._in_time(self._lookups.query(key, at=at, partial=partial)))

    def many(self, keys: list[Any] | None, at: Any, partial: bool) -> Mapping[str, Any]:
        """Return the results of keys, or of windows without keys at some moments, as columns."""
        return named(self._reader.query(keys, at=at, partial=partial))

    async def run(self, call: Callable[..., T], *arguments: Any) -> T:
        """Return the result of a call that may wait for the store."""
        loop = asyncio.get_running_loop()
        return await self._in_time(loop.run_in_executor(self._threads, call, *arguments))

    async def _in_time(self, answer: Awaitable[T]) -> T:
        """Wait for an answer. Raises Problem after the time limit."""
        limit = self.settings.time_limit
        try:
            async with asyncio.timeout(limit):
                return await answer
        except TimeoutError:
            detail = f"There was no answer within {limit:g} seconds."
            raise Problem("TimeLimitReached", detail, retry_after="1") from None

    def events(self, key: Any, limit: int) -> tuple[Any, dict[str, np.ndarray]]:
        """Return the times of the newest events of a key, and their columns."""
        columns = dict(self._reader.events(key, newest=limit))
        return columns.pop("time", None), columns

    def status(self) -> dict[str, Any]:
        """Return the answer to ``GET /v1/status``; no store call."""
        found = self._reader.status()
        return {
            "name": found.name,
            "batch": found.batch,
            "committed_at": found.committed_at,
            "lag_seconds": found.lag.total_seconds(),
            "read_at": self._looked_at,
            "store_answers": self._answers,
            "takes_events": self.settings.declaration is not None,
            "keys": found.keys,
            "events": found.events,
            "late": found.late,
            "invalid": found.invalid,
            "timed": found.timed,
            "key_columns": [{"name": name, "type": kind} for name, kind in self.keys.columns],
            "columns": [name or ONLY for name in found.columns],
            "windows": [_window(*each) for each in found.windows.items()],
            "incomplete": [asdict(each) for each in found.incomplete],
        }

    def columns(self) -> list[str]:
        return [name or ONLY for name in self._reader.status().columns]

    def history(self) -> dict[str, list[float]]:
        columns = zip(*self._samples, strict=True) if self._samples else [()] * (len(SAMPLED) + 1)
        return {name: [*column] for name, column in zip(("at", *SAMPLED), columns, strict=True)}

    def gauges(self) -> dict[str, float]:
        found = self._reader.status()
        return {
            "batch": found.batch,
            "lag_seconds": found.lag.total_seconds(),
            "read_age_seconds": (datetime.now(UTC) - self._looked_at).total_seconds(),
            "keys": found.keys,
            "events": found.events,
            "cached_bytes": found.cached_bytes,
        }

    def start(self) -> None:
        """Start checking for newer snapshots; call this in the event loop."""
        self._tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._sample())]

    async def stop(self) -> None:
        """Stop checking, and close the reader once its calls have ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._lookups.close()
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._refresher.shutdown(cancel_futures=True)
        self._threads.shutdown(cancel_futures=True)
        self._reader.close()

    async def _follow(self) -> NoReturn:
        """Check for newer snapshots, again and again."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self.settings.refresh)
            try:
                await loop.run_in_executor(self._refresher, self._look)
                self._answers = True
            except WindowStoreError as error:
                if self._answers:
                    logger.warning("still serving the last snapshot: %s", error)
                self._answers = False

    def _look(self) -> None:
        self._reader.refresh()
        self._looked_at = datetime.now(UTC)
        self._reader.status()  # decodes new snapshots before a request needs them

    async def _sample(self) -> NoReturn:
        loop = asyncio.get_running_loop()
        while True:
            numbers = await loop.run_in_executor(self._refresher, self.gauges)
            self._samples.append((time.time(), *(numbers[name] for name in SAMPLED)))
            await asyncio.sleep(_SAMPLE_SECONDS)


def _window(name: str, described: str) -> dict[str, Any]:
    """Describe a window, with its size in seconds or in events if it has only one of these."""
    by_time = _TIME_WINDOW.fullmatch(described)
    by_count = _COUNT_WINDOW.fullmatch(described)
    return {
        "name": name,
        "frame": shown(described),
        "seconds": int(by_time[1]) / 1e6 if by_time else None,
        "events": int(by_count[1]) if by_count else None,
    }
