"""Clients of ``mta serve --config``: they add and check events, and make retries safe.

>>> from mta.client import Client
>>> with Client("http://localhost:8080") as client:  # doctest: +SKIP
...     client.add({"user": "a", "amount": 3.5}).values["spent_day"]
3.5

Each event that is added gets a random id, unless it has one. So the client may send it again after
a lost answer, and it counts once. The client repeats a request until ``retry_for``, which must not
be longer than the ``retry_for`` of the service. It needs the extra "client".
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from itertools import islice
from json import JSONDecodeError
from typing import Any, Self, TypeVar, cast, overload
from uuid import uuid4

from mta.errors import WindowStoreError
from stores.errors import MissingDependency, StoreUnavailable, pip_install

__all__ = ["Answer", "AsyncClient", "Client", "RequestRefused"]

T = TypeVar("T")
Row = Mapping[str, Any]
#: The seconds before the first repetition, and at most between two.
_FIRST, _LONGEST = 0.02, 1.0
#: Answers after which a request may be repeated.
_PASSING = {408, 429, 502, 503, 504}
#: How many rows of a batch of a stream are sent together.
_AT_ONCE = 5000


class RequestRefused(WindowStoreError, ValueError):
    """The service refuses the request; ``name`` is the name of the problem."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name


@dataclass(frozen=True)
class Answer:
    """The answer to one event."""

    values: Mapping[str, Any]
    """The aggregates including the event, by name; of a refused event, as if it were added. Empty
    if the service admitted the event without its store."""
    accepted: bool
    time: datetime | None
    """The time of the event."""
    problem: str = ""
    """Why it was not added: "LimitExceeded", "LateEvent", "AheadEvent", "ResultOutOfRange"
    or "InvalidRequest"."""
    limit: str = ""
    """The name of the limit that it would exceed."""
    fits_at: datetime | None = None
    """From when it would fit; None if it never does, or if that is unknown."""
    detail: str = field(default="", repr=False)


Answers = Answer | list[Answer]
#: What remains to be done for an answer: yields requests, and gets responses or errors back.
Steps = Generator["_Try", Any, T]


@dataclass(frozen=True)
class _Try:
    """A request to send after a delay."""

    path: str
    body: Any
    delay: float = 0.0


class _Requests:
    """The requests of both clients, which only send them: one waits, the other awaits."""

    #: The class of httpx that sends the requests.
    _sender = ""

    def __init__(
        self, url: str, *, token: str | None = None, timeout: float = 10.0, retry_for: float = 30.0
    ) -> None:
        try:
            import httpx
        except ModuleNotFoundError:
            raise MissingDependency(
                f"mta.client.Client needs httpx: {pip_install('client')}"
            ) from None
        self._failure, self._retry_for = httpx.TransportError, retry_for
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        sender = getattr(httpx, self._sender)
        self._http: Any = sender(base_url=url, timeout=timeout, headers=headers)

    def _rows(self, path: str, rows: Row | Sequence[Row]) -> Steps[Answers]:
        """Return the answers to rows; of a single row, its answer."""
        one = isinstance(rows, Mapping)
        given: Iterable[Row] = [rows] if isinstance(rows, Mapping) else rows
        prepared = [{"id": uuid4().hex, **_plain(row)} for row in given]
        content = (yield from self._post(path, prepared)) if prepared else {"results": []}
        found = [_answer(each) for each in content["results"]]
        return found[0] if one else found

    def _erasure(self, keys: Any) -> Steps[None]:
        if prepared := _keys(keys):
            yield from self._post("/v1/erase", {"keys": prepared})

    def _post(self, path: str, body: Any) -> Steps[Any]:
        """Return the content of the response to a request, which is repeated until it is late."""
        deadline, pause = time.monotonic() + self._retry_for, _FIRST
        tried = yield _Try(path, body)
        while (found := self._content(tried)) is None:
            if time.monotonic() + pause >= deadline:
                raise _unanswered(tried)
            tried = yield _Try(path, body, pause)
            pause = min(2 * pause, _LONGEST)
        return found

    @staticmethod
    def _content(response: Any) -> Any:
        """Return the content of a response; None if the request may be repeated."""
        if isinstance(response, Exception) or response.status_code in _PASSING:
            return None
        try:
            found = response.json()
        except (JSONDecodeError, UnicodeDecodeError):
            return None  # of a proxy
        if response.status_code == 200:
            return found
        raise RequestRefused(str(found.get("name")), str(found.get("detail")))


def _unanswered(tried: Any) -> StoreUnavailable:
    said = f"{tried.status_code} {tried.text[:200]}" if hasattr(tried, "status_code") else tried
    return StoreUnavailable(f"the service did not answer in time, last: {said}; retry later")


class Client(_Requests):
    """Adds events to declared windows, and checks them. Any number of threads may share it.

    Raises MissingDependency without httpx.

    Args:
        url: The address of the service, such as "http://localhost:8080".
        token: The token for writing, if the service needs one.
        timeout: How many seconds one request may take.
        retry_for: How many seconds a request is repeated, while the service does not answer. Must
            be shorter than the ``retry_for`` of the service.
    """

    _sender = "Client"

    @overload
    def add(self, rows: Row) -> Answer: ...
    @overload
    def add(self, rows: Sequence[Row]) -> list[Answer]: ...
    def add(self, rows: Row | Sequence[Row]) -> Answer | list[Answer]:
        """Add an event, or several; return the answer to each.

        Raises RequestRefused for a request that is wrong, and StoreUnavailable if there was no
        answer in time; then it is unknown whether the events were added.

        Args:
            rows: A mapping with the declared columns, or a sequence of mappings.
        """
        return self._run(self._rows("/v1/events", rows))

    @overload
    def check(self, rows: Row) -> Answer: ...
    @overload
    def check(self, rows: Sequence[Row]) -> list[Answer]: ...
    def check(self, rows: Row | Sequence[Row]) -> Answer | list[Answer]:
        """Return the answers that ``add`` would return, without adding the events."""
        return self._run(self._rows("/v1/check", rows))

    def erase(self, keys: Any) -> None:
        """Erase keys: drop their events, and the answers for repeated requests.

        Other keys do not change, and a later event of an erased key starts a new window. Raises
        RequestRefused and StoreUnavailable; after the latter, erase the keys again.

        Args:
            keys: A key, or a list of keys; a key of several columns is a tuple.
        """
        self._run(self._erasure(keys))

    def _run(self, steps: Steps[T]) -> T:
        tried = None
        try:
            while True:
                step = steps.send(tried)
                time.sleep(step.delay)
                try:
                    tried = self._http.post(step.path, json=step.body)
                except self._failure as error:
                    tried = error
        except StopIteration as done:
            return cast(T, done.value)

    def sink(self, source: str, id: Sequence[str] = ()) -> Callable[[Any, int], None]:
        """Return a function for ``DataStreamWriter.foreachBatch`` that adds the rows of a stream.

        The driver reads the rows of each batch. A batch that Spark repeats has the same ids, so its
        events count once if it is repeated within the ``retry_for`` of the service. Late events and
        refused events are not added.

        Args:
            source: A name for the stream, which no other stream has.
            id: The columns that identify an event. By default, equal rows of a batch are numbered,
                and the id consists of the batch, the row and its number.
        """

        def add(frame: Any, batch: int) -> None:
            rows = _numbered(
                (row.asDict() for row in frame.toLocalIterator()), f"{source}/{batch}", id
            )
            while some := [*islice(rows, _AT_ONCE)]:
                self.add(some)

        return add

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(_Requests):
    """Does the same as ``Client`` in an event loop. Raises MissingDependency without httpx.

    Args:
        url: The address of the service, such as "http://localhost:8080".
        token: The token for writing, if the service needs one.
        timeout: How many seconds one request may take.
        retry_for: How many seconds a request is repeated, while the service does not answer. Must
            be shorter than the ``retry_for`` of the service.
    """

    _sender = "AsyncClient"

    @overload
    async def add(self, rows: Row) -> Answer: ...
    @overload
    async def add(self, rows: Sequence[Row]) -> list[Answer]: ...
    async def add(self, rows: Row | Sequence[Row]) -> Answer | list[Answer]:
        """Add an event, or several, as ``Client.add`` does."""
        return await self._run(self._rows("/v1/events", rows))

    @overload
    async def check(self, rows: Row) -> Answer: ...
    @overload
    async def check(self, rows: Sequence[Row]) -> list[Answer]: ...
    async def check(self, rows: Row | Sequence[Row]) -> Answer | list[Answer]:
        """Return the answers that ``add`` would return, without adding the events."""
        return await self._run(self._rows("/v1/check", rows))

    async def erase(self, keys: Any) -> None:
        """Erase a key, or a list of keys, as ``Client.erase`` does."""
        await self._run(self._erasure(keys))

    async def _run(self, steps: Steps[T]) -> T:
        tried = None
        try:
            while True:
                step = steps.send(tried)
                await asyncio.sleep(step.delay)
                try:
                    tried = await self._http.post(step.path, json=step.body)
                except self._failure as error:
                    tried = error
        except StopIteration as done:
            return cast(T, done.value)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _keys(keys: Any) -> list[Any]:
    """Return a key, or a list of keys, as JSON has them."""
    given = keys if isinstance(keys, list) else [keys]
    return [
        [_plain_part(part) for part in key] if isinstance(key, tuple) else _plain_part(key)
        for key in given
    ]


def _plain_part(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value


def _plain(row: Row) -> dict[str, Any]:
    """Return a row as JSON has it."""
    return {name: _plain_part(value) for name, value in row.items() if value is not None}


def _numbered(
    rows: Iterable[dict[str, Any]], batch: str, columns: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch with ids that do not depend on their order."""
    counts: dict[bytes, int] = {}
    for row in rows:
        plain = _plain(row)
        if columns:
            yield {**plain, "id": repr([plain.get(column) for column in columns])}
            continue
        digest = blake2b(repr(sorted(plain.items())).encode(), digest_size=16).digest()
        counts[digest] = counts.get(digest, 0) + 1
        yield {**plain, "id": f"{batch}/{digest.hex()}/{counts[digest]}"}


def _answer(found: Mapping[str, Any]) -> Answer:
    return Answer(
        found.get("values") or {}, "status" not in found, _moment(found.get("time")),
        found.get("name", ""), found.get("limit", ""), _moment(found.get("fits_at")),
        found.get("detail", ""),
    )  # fmt: skip


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
