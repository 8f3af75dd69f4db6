"""Clients of ``mta serve --config``: they add and check events, and make retries safe.

>>> from mta import Client
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from itertools import islice
from json import JSONDecodeError
from typing import Any, Self, overload
from uuid import uuid4

from mta.errors import WindowStoreError
from stores.errors import MissingDependency, StoreUnavailable, pip_install

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
    """Why it was not added: "LimitExceeded", "LateEvent", "AheadEvent" or "ResultOutOfRange"."""
    limit: str = ""
    """The name of the limit that it would exceed."""
    fits_at: datetime | None = None
    """From when it would fit; None if it never does, or if that is unknown."""
    detail: str = field(default="", repr=False)


class _Requests:
    """What both clients do with a request and its answers."""

    def __init__(self, url: str, token: str | None, timeout: float, retry_for: float) -> None:
        try:
            import httpx
        except ModuleNotFoundError:
            raise MissingDependency(f"mta.Client needs httpx: {pip_install('client')}") from None
        self._httpx = httpx
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._settings: dict[str, Any] = {"base_url": url, "timeout": timeout, "headers": headers}
        self._retry_for = retry_for

    @staticmethod
    def _prepared(rows: Row | Sequence[Row]) -> tuple[list[dict[str, Any]], bool]:
        one = isinstance(rows, Mapping)
        given: Iterable[Row] = [rows] if isinstance(rows, Mapping) else rows
        return [{"id": uuid4().hex, **_plain(row)} for row in given], one

    def _delays(self) -> Iterator[float]:
        """Yield the seconds to wait before each repetition, until it is too late."""
        deadline, delay = time.monotonic() + self._retry_for, _FIRST
        while time.monotonic() + delay < deadline:
            yield delay
            delay = min(2 * delay, _LONGEST)

    @staticmethod
    def _content(response: Any) -> Any:
        """Return the content of a response; None if the request may be repeated."""
        if response.status_code in _PASSING:
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

    def __init__(
        self, url: str, *, token: str | None = None, timeout: float = 10.0, retry_for: float = 30.0
    ) -> None:
        super().__init__(url, token, timeout, retry_for)
        self._http = self._httpx.Client(**self._settings)

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
        return self._send("/v1/events", rows)

    @overload
    def check(self, rows: Row) -> Answer: ...
    @overload
    def check(self, rows: Sequence[Row]) -> list[Answer]: ...
    def check(self, rows: Row | Sequence[Row]) -> Answer | list[Answer]:
        """Return the answers that ``add`` would return, without adding the events."""
        return self._send("/v1/check", rows)

    def erase(self, keys: Any) -> None:
        """Erase keys: drop their events, and the answers for repeated requests.

        Other keys do not change, and a later event of an erased key starts a new window. Raises
        RequestRefused and StoreUnavailable; after the latter, erase the keys again.

        Args:
            keys: A key, or a list of keys; a key of several columns is a tuple.
        """
        if prepared := _keys(keys):
            self._post("/v1/erase", {"keys": prepared})

    def _send(self, path: str, rows: Row | Sequence[Row]) -> Answer | list[Answer]:
        prepared, one = self._prepared(rows)
        if not prepared:
            return []
        found = [_answer(each) for each in self._post(path, prepared)["results"]]
        return found[0] if one else found

    def _post(self, path: str, body: Any) -> Any:
        delays, tried = self._delays(), None
        while True:
            try:
                tried = self._http.post(path, json=body)
                found = self._content(tried)
                if found is not None:
                    return found
            except self._httpx.TransportError as error:
                tried = error
            delay = next(delays, None)
            if delay is None:
                raise _unanswered(tried)
            time.sleep(delay)

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

    def __init__(
        self, url: str, *, token: str | None = None, timeout: float = 10.0, retry_for: float = 30.0
    ) -> None:
        super().__init__(url, token, timeout, retry_for)
        self._http = self._httpx.AsyncClient(**self._settings)

    @overload
    async def add(self, rows: Row) -> Answer: ...
    @overload
    async def add(self, rows: Sequence[Row]) -> list[Answer]: ...
    async def add(self, rows: Row | Sequence[Row]) -> Answer | list[Answer]:
        """Add an event, or several, as ``Client.add`` does."""
        return await self._send("/v1/events", rows)

    @overload
    async def check(self, rows: Row) -> Answer: ...
    @overload
    async def check(self, rows: Sequence[Row]) -> list[Answer]: ...
    async def check(self, rows: Row | Sequence[Row]) -> Answer | list[Answer]:
        """Return the answers that ``add`` would return, without adding the events."""
        return await self._send("/v1/check", rows)

    async def erase(self, keys: Any) -> None:
        """Erase a key, or a list of keys, as ``Client.erase`` does."""
        if prepared := _keys(keys):
            await self._post("/v1/erase", {"keys": prepared})

    async def _send(self, path: str, rows: Row | Sequence[Row]) -> Answer | list[Answer]:
        prepared, one = self._prepared(rows)
        if not prepared:
            return []
        found = [_answer(each) for each in (await self._post(path, prepared))["results"]]
        return found[0] if one else found

    async def _post(self, path: str, body: Any) -> Any:
        delays, tried = self._delays(), None
        while True:
            try:
                tried = await self._http.post(path, json=body)
                found = self._content(tried)
                if found is not None:
                    return found
            except self._httpx.TransportError as error:
                tried = error
            delay = next(delays, None)
            if delay is None:
                raise _unanswered(tried)
            await asyncio.sleep(delay)

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
