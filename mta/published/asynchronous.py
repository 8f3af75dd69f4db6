"""Published windows in an event loop, which must not wait for a store.

The event loop answers queries of a single key itself, which takes less time than passing them to
a thread and back. It also reads pages that are not in memory, if the store supports this: a thread
would wait several times per call until the event loop releases the interpreter. One call is running
at a time; the next call reads the pages of all queries that wait by then.

Other queries, such as those for a key with many events, take longer, and run on a thread. A call
of the reader costs hundreds of microseconds, and a few more for each additional key. So requests
that arrive during a call share the next call: the busier a worker is, the less each request costs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial as call
from typing import Any, NamedTuple

import numpy as np

from mta.columns.reading import results_each
from mta.errors import EventsGone, InvalidTime, MissingPage, NotPublished, UnsuitableKey
from mta.published.cuts import Moment
from mta.published.pages import Lookup, NotCached
from mta.published.reader import PublishedWindows
from mta.times import TimeUnit, are_many, moment_of

#: Errors of a single request, which must not affect the requests of other clients.
_OF_ONE = (EventsGone, InvalidTime, NotPublished, UnsuitableKey)
#: How many times pages are read for a request: one level of the index each time, then the tables.
_FETCHES = 4


class _Request(NamedTuple):
    key: Any
    at: int | None
    """In microseconds."""
    future: asyncio.Future[Any]


class AsyncPublishedWindows:
    """Published windows with the same ``query`` as ``PublishedWindows``, to be awaited.

    It never blocks the event loop: it reads the pages for single keys without a thread if the store
    can, and queries of many keys and of windows without keys run on one thread. Use it in one event
    loop. Only queries on the thread check for a newer batch; call ``refresh`` of the windows too.

    Args:
        windows: What ``open_published`` returned.

    >>> import asyncio
    >>> from mta import KeyedWindows, Max, TimeWindow, open_published
    >>> from mta.published import AsyncPublishedWindows
    >>> windows = KeyedWindows(Max(), TimeWindow("1 hour"), "memory://looped", name="spent")
    >>> windows.publish("features")
    >>> _ = windows.extend(["4711", "4712"], [20.0, 7.0], [0, 60])
    >>> _ = windows.checkpoint()
    >>> async def ask(key):
    ...     features = AsyncPublishedWindows(open_published("memory://looped", "features"))
    ...     return await features.query(key)
    >>> asyncio.run(ask("4711"))
    20.0
    """

    def __init__(self, windows: PublishedWindows) -> None:
        self._reader, self._pages = windows, windows.pages
        self._thread = ThreadPoolExecutor(1, "mta-published")
        #: The pages that the next store call reads, with the queries that wait for them.
        self._wanted: list[tuple[Iterable[str], asyncio.Future[None]]] = []
        self._fetcher: asyncio.Task[None] | None = None
        #: The waiting queries, by whether they have a moment and accept partial results.
        self._waiting: dict[tuple[bool, bool], list[_Request]] = {}
        self._task: asyncio.Task[None] | None = None

    async def query(
        self,
        keys: Any = None,
        *,
        at: Moment = None,
        partial: bool = False,
        time_unit: TimeUnit | None = None,
    ) -> Any:
        """Return what ``PublishedWindows.query`` returns, which describes the arguments and errors.

        Args:
            keys: One key, or a list or array of keys; omit it for windows without keys.
            at: The moment at which the windows end: one moment, one per key, or many for one key.
            partial: Whether to answer from the remaining events if others are no longer retained.
            time_unit: The unit of numeric moments: "s", "ms", "us" or "ns"; by default seconds.
        """
        if keys is None or are_many(keys) or are_many(at):
            ask = call(self._reader.query, keys, at=at, partial=partial, time_unit=time_unit)
            return await asyncio.get_running_loop().run_in_executor(self._thread, ask)
        moment = None if at is None else moment_of(at, time_unit)
        try:
            found = self._resumed(Lookup(self._reader.cut.steps(keys, moment, "us")))
        except NotCached as error:
            found = await self._fetched_for(error)
        except MissingPage:
            found = None  # the call on a thread reads the newest snapshot
        return await self._on_thread(keys, moment, partial) if found is None else found

    def _resumed(self, lookup: Lookup[Any]) -> Any:
        """Return the result of a lookup, None if the general method must answer.

        Raises NotCached if it needs pages that only a server has, and MissingPage.
        """
        with np.errstate(all="ignore"):
            return self._pages.resumed(lookup)

    async def _fetched_for(self, missing: NotCached) -> Any:
        """Fetch missing pages and return the results; None if the general lookup must answer."""
        for _ in range(_FETCHES):
            await self._fetch(missing.pages)
            try:
                return self._resumed(missing.lookup)
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
                await self._pages.fetch([*{name for pages, _ in wanted for name in pages}])
            except Exception as error:
                answer = error
            for _, waiting in wanted:
                _settle(waiting, answer)
            await asyncio.sleep(0)  # the requests that go on may want more
        self._wanted, self._fetcher = [], None

    async def _on_thread(self, key: Any, at: int | None, partial: bool) -> Any:
        """Return the results of one key, computed together with other requests."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
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

    def _answers(self, requests: Sequence[_Request], timed: bool, partial: bool) -> Sequence[Any]:
        """Return the results of each request, or its error."""
        at = [each.at for each in requests] if timed else None
        keys = [each.key for each in requests]
        try:
            found = self._reader.query(keys, at=at, partial=partial, time_unit="us")
        except _OF_ONE:
            return [self._answer(each, partial) for each in requests]
        except Exception as error:
            return [error] * len(requests)
        return results_each(found, len(requests))

    def _answer(self, request: _Request, partial: bool) -> Any:
        """Return the results of a single request, or its error."""
        key, at = request.key, request.at
        try:
            return self._reader.query(key, at=at, partial=partial, time_unit="us")
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
