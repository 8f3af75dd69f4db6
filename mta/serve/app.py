"""The application: the paths, their answers, and the files of the web page and its API pages."""

from __future__ import annotations

import gc
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from string import Template
from typing import Any

import xxhash
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from mta.serve.answers import ARROW, JSON, arrow_response, form_of, json_response
from mta.serve.guard import Guard
from mta.serve.metrics import Metrics
from mta.serve.openapi import document
from mta.serve.requests import body_of, flag_of, key_of, limit_of, moment_of, parameters, query_of
from mta.serve.service import Service
from mta.serve.settings import ServerSettings

#: How many seconds a thread that reads pages waits until the event loop releases the interpreter.
#: With the default of 0.005, a busy loop would delay each answer of the store by that time.
_SWITCH_SECONDS = 0.0005
#: How many objects, and collections of younger ones, let the garbage collector begin. Requests make
#: many lists and tuples, but few cycles.
_COLLECTIONS = 10_000, 20, 20
#: The paths before a key.
WINDOWS, EVENTS = "/v1/windows/", "/v1/events/"


class _Key(PathConvertor):
    """The whole end of a path, including slashes and line ends."""

    regex = r"[\s\S]*"


register_url_convertor("key", _Key())


Answer = Callable[[Request], Awaitable[Response]]


class _Endpoint:
    """An application that answers the requests of one route.

    It is not a function, which the framework would wrap in handlers of errors, as ``Guard`` does.
    """

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._answer(Request(scope, receive))
        await response(scope, receive, send)


def route(path: str, answer: Answer, method: str = "GET") -> Route:
    """Return the route of a path."""
    return Route(path, _Endpoint(answer), methods=[method])


class Paths:
    """The answer of each path."""

    def __init__(self, service: Service, metrics: Metrics, described: Mapping[str, Any]) -> None:
        self._service, self._metrics, self._described = service, metrics, described

    async def window(self, request: Request) -> Response:
        """``GET /v1/windows/{key}?at=&partial=``; windows without keys have no key in the path."""
        service = self._service
        given = parameters(request, "at", "partial")
        key = key_of(request, WINDOWS, service.keys)
        at = None if "at" not in given else moment_of(given["at"])
        partial = flag_of(given.get("partial"))
        form = form_of(request, JSON, ARROW)
        self._metrics.count_keys(1)
        values = await service.one(key, at, partial)
        if form == ARROW:
            return arrow_response({name: [value] for name, value in values.items()})
        return json_response({"key": service.keys.to_json(key), "at": at, "values": values})

    async def query(self, request: Request) -> Response:
        service, settings = self._service, self._service.settings
        parameters(request)
        form = form_of(request, JSON, ARROW)
        body = await body_of(request, settings.max_body, settings.time_limit)
        query = query_of(body, service.keys, settings.max_keys)
        self._metrics.count_keys(query.rows)
        columns = await service.run(service.many, *query)
        if form == ARROW:
            return arrow_response(columns)
        return json_response({"rows": query.rows, "columns": columns})

    async def events(self, request: Request) -> Response:
        """``GET /v1/events/{key}?limit=``; windows without keys have no key in the path."""
        service = self._service
        limit = limit_of(parameters(request, "limit").get("limit"))
        key = key_of(request, EVENTS, service.keys)
        form = form_of(request, JSON, ARROW)
        times, columns = await service.run(service.events, key, limit)
        if form == ARROW:
            return arrow_response(columns if times is None else {"time": times, **columns})
        shown = service.keys.to_json(key)
        return json_response({"key": shown, "times": times, "columns": columns})

    async def status(self, request: Request) -> Response:
        parameters(request)
        form_of(request, JSON)
        return json_response(await self._service.run(self._service.status))

    async def history(self, request: Request) -> Response:
        parameters(request)
        form_of(request, JSON)
        return json_response(self._service.history())

    async def metrics(self, request: Request) -> Response:
        text = await self._service.run(self._metrics.text)
        headers = {"cache-control": "no-store"}
        return Response(text, headers=headers, media_type="text/plain; version=0.0.4")

    async def health(self, request: Request) -> Response:
        form_of(request, JSON)
        return json_response({"status": "ok"})

    async def openapi(self, request: Request) -> Response:
        service = self._service
        columns = service.columns()
        return json_response(document(service.settings, service.keys, columns, self._described))

    def routes(self) -> list[Route]:
        return [
            route(f"{WINDOWS}{{key:key}}", self.window),
            route(WINDOWS.rstrip("/"), self.window),
            route("/v1/query", self.query, "POST"),
            route(f"{EVENTS}{{key:key}}", self.events),
            route(EVENTS.rstrip("/"), self.events),
            route("/v1/status", self.status),
            route("/v1/history", self.history),
            route("/metrics", self.metrics),
            route("/healthz", self.health),
            route("/openapi.json", self.openapi),
        ]


@dataclass(frozen=True)
class More:
    """What an application has besides published windows."""

    routes: Sequence[Route] = ()
    start: Callable[[], Awaitable[None]] | None = None
    stop: Callable[[], Awaitable[None]] | None = None
    gauges: Callable[[], Mapping[str, float]] | None = None
    counts: Callable[[], Mapping[str, float]] | None = None
    paths: Mapping[str, Any] = field(default_factory=dict)
    """Their descriptions in the OpenAPI document."""


def create_app(settings: ServerSettings, more: More | None = None) -> ASGIApp:
    """Return the application of a worker. Raises the errors of ``open_published``."""
    more = more or More()
    sys.setswitchinterval(_SWITCH_SECONDS)
    service = Service(settings)
    metrics = Metrics(service.gauges, more.gauges, more.counts)
    gc.freeze()  # libraries stay: collections that look through them would delay requests
    gc.set_threshold(*_COLLECTIONS)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        service.start()
        if more.start is not None:
            await more.start()
        yield
        if more.stop is not None:
            await more.stop()
        await service.stop()

    routes = [*more.routes, *Paths(service, metrics, more.paths).routes(), *_files()]
    return Guard(Router(routes, redirect_slashes=False, lifespan=lifespan), settings, metrics)


# --- files ----------------------------------------------------------------------------------------


_FOLDER = "static"
_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
#: The path and the title of each page, which is ``frame.html`` around the file of this name.
_PAGES = {"page": ("/", "Windows"), "docs": ("/docs", "API")}


def _files() -> Iterator[Route]:
    """Yield a route for each file and page; browsers check whether their copy is still current."""
    folder = files(__package__).joinpath(_FOLDER)
    frame = Template(folder.joinpath("frame.html").read_text())
    for name, (path, title) in _PAGES.items():
        body = folder.joinpath(f"{name}.html").read_text()
        page = frame.substitute(name=name, title=title, body=body.rstrip())
        yield route(path, _sender(page.encode(), "text/html"))
    for file in sorted(folder.iterdir(), key=lambda each: each.name):
        kind = _TYPES.get(file.name.rpartition(".")[2])
        if kind is not None:
            path = f"/{_FOLDER}/{file.name}"
            yield route(path, _sender(file.read_bytes(), kind))


def _sender(content: bytes, kind: str) -> Answer:
    tag = f'"{xxhash.xxh3_64_hexdigest(content)}"'
    headers = {"etag": tag, "cache-control": "no-cache"}

    async def send(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=kind)

    return send
