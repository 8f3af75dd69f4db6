"""Requests of single keys.

The event loop answers requests for a single key itself, which takes less time than passing them to
a thread and back. It also reads pages that are not in memory, if the store supports this: a thread
would wait several times per call until the event loop releases the interpreter. One call is running
at a time; the next call reads the pages of all requests that wait by then.

Other requests, such as those for a key with many events, take longer, and run on a thread. A call
of the reader costs hundreds of microseconds, and a few more for each additional key. So requests
that arrive during a call share the next call: the busier a worker is, the less each request costs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from mta.columns.reading import plain
from mta.errors import EventsGone, InvalidTime, MissingPage, NotPublished, UnsuitableKey
from mta.published import NotCached, PublishedWindows
from mta.serve.answers import named

#: Errors of a single request, which must not affect the requests of other clients.
_OF_ONE = (EventsGone, InvalidTime, NotPublished, UnsuitableKey)
#: How many times pages are read for a request: one level of the index each time, then the tables.
_FETCHES = 4


class _Request(NamedTuple):
    key: Any
    at: Any
    future: asyncio.Future[Mapping[str, Any]]


class Lookups:
    """The requests of single keys in one event loop."""

    def __init__(self, reader: PublishedWindows) -> None:
        self._reader = reader
        self._thread = ThreadPoolExecutor(1, "mta-serve-lookups")
        #: The pages that the next store call reads, with the requests that wait for them.
        self._wanted: list[tuple[Iterable[str], asyncio.Future[None]]] = []
        self._fetcher: asyncio.Task[None] | None = None
        #: The waiting requests, by whether they have a moment and accept partial results.
        self._waiting: dict[tuple[bool, bool], list[_Request]] = {}
        self._task: asyncio.Task[None] | None = None

    async def query(self, key: Any, at: Any, partial: bool) -> Mapping[str, Any]:
        """Return the results of one key by their names. Raises the reader's errors."""
        try:
            found = self._reader.query_cached(key, at)
        except NotCached as error:
            found = await self._fetched_for(error)
        except MissingPage:
            found = None  # the call on a thread reads the newest snapshot
        return await self._on_thread(key, at, partial) if found is None else named(found)

    async def _fetched_for(self, missing: NotCached) -> Any:
        """Fetch missing pages and return the results; None if the general lookup must answer."""
        for _ in range(_FETCHES):
            await self._fetch(missing.pages)
            try:
                return self._reader.resume(missing)
            except NotCached as error:
                missing = error
            except MissingPage:
                break
        return None

    async def _fetch(self, pages: Iterable[str]) -> None:
        """Read pages, together with those that other requests need; one call at a time."""
        waiting = asyncio.get_running_loop().create_future()
        self._wanted.append((pages, waiting))
        if self._fetcher is None:
            self._fetcher = asyncio.create_task(self._fetch_wanted())
        await waiting

    async def _fetch_wanted(self) -> None:
        """Read the wanted pages, and afterwards those that are wanted by then."""
        # The requests of the others timed out.
        while wanted := [each for each in self._wanted if not each[1].done()]:
            self._wanted, answer = [], None
            try:
                await self._reader.fetch({name for pages, _ in wanted for name in pages})
            except Exception as error:
                answer = error
            for _, waiting in wanted:
                _settle(waiting, answer)
            await asyncio.sleep(0)  # the requests that go on may want more
        self._wanted, self._fetcher = [], None

    async def _on_thread(self, key: Any, at: Any, partial: bool) -> Mapping[str, Any]:
        """Return the results of one key, computed together with other requests."""
        future: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        request = _Request(key, at, future)
        self._waiting.setdefault((at is not None, partial), []).append(request)
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        """Run the waiting requests, and those that arrive meanwhile."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            kind = next(iter(self._waiting))
            requests = self._waiting.pop(kind)
            answers = await loop.run_in_executor(self._thread, self._answers, requests, *kind)
            for request, answer in zip(requests, answers, strict=True):
                _settle(request.future, answer)
        self._task = None

    def _answers(
        self, requests: Sequence[_Request], timed: bool, partial: bool
    ) -> Sequence[Mapping[str, Any] | Exception]:
        """Return the results of each request, or its error."""
        at = np.array([each.at for each in requests], "M8[us]") if timed else None
        keys = [each.key for each in requests]
        try:
            columns = named(self._reader.query(keys, at, partial=partial))
        except _OF_ONE:
            return [self._answer(each, partial) for each in requests]
        except Exception as error:
            return [error] * len(requests)
        return [
            {name: plain(values[row]) for name, values in columns.items()}
            for row in range(len(requests))
        ]

    def _answer(self, request: _Request, partial: bool) -> Mapping[str, Any] | Exception:
        """Return the results of a single request, or its error."""
        try:
            return named(self._reader.query(request.key, request.at, partial=partial))
        except Exception as error:
            return error

    async def close(self) -> None:
        """Return once no call is running; waiting requests are dropped."""
        self._wanted = []
        if self._fetcher is not None:
            await self._fetcher
        await asyncio.to_thread(self._thread.shutdown, cancel_futures=True)


def _settle(future: asyncio.Future[Any], answer: Any) -> None:
    """Give a request its answer, or an error, unless the request has timed out."""
    if future.done():
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
