"""The files of the web page and of the API documentation, all of which are in the package."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from importlib.resources import files
from string import Template

import xxhash
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_FOLDER = "static"
_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
#: The path and the title of each page, which is ``frame.html`` around the file of this name.
_PAGES = {"page": ("/", "Windows"), "docs": ("/docs", "API")}


def routes() -> Iterator[Route]:
    """Yield a route for each file and page; browsers check whether their copy is still current."""
    folder = files(__package__).joinpath(_FOLDER)
    frame = Template(folder.joinpath("frame.html").read_text())
    for name, (path, title) in _PAGES.items():
        body = folder.joinpath(f"{name}.html").read_text()
        page = frame.substitute(name=name, title=title, body=body.rstrip())
        yield Route(path, _sender(page.encode(), "text/html"), methods=["GET"])
    for file in sorted(folder.iterdir(), key=lambda each: each.name):
        kind = _TYPES.get(file.name.rpartition(".")[2])
        if kind is not None:
            path = f"/{_FOLDER}/{file.name}"
            yield Route(path, _sender(file.read_bytes(), kind), methods=["GET"])


def _sender(content: bytes, kind: str) -> Callable[[Request], Awaitable[Response]]:
    tag = f'"{xxhash.xxh3_64_hexdigest(content)}"'
    headers = {"etag": tag, "cache-control": "no-cache"}

    async def send(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=kind)

    return send
