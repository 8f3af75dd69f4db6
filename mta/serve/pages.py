"""The files of the page and of the documentation, all of which are in the package."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from importlib.resources import files

import xxhash
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_FOLDER = "static"
_TYPES = {
    "html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml",
}  # fmt: skip
#: The paths that are not the name of a file.
_NAMES = {"index.html": "/", "docs.html": "/docs"}


def routes() -> Iterator[Route]:
    """A route for each file; browsers ask whether theirs is still the newest."""
    for file in sorted(files(__package__).joinpath(_FOLDER).iterdir(), key=lambda each: each.name):
        path = _NAMES.get(file.name, f"/{_FOLDER}/{file.name}")
        yield Route(path, _sender(file.read_bytes(), file.name), methods=["GET"])


def _sender(content: bytes, name: str) -> Callable[[Request], Awaitable[Response]]:
    tag = f'"{xxhash.xxh3_64_hexdigest(content)}"'
    headers = {"etag": tag, "cache-control": "no-cache"}
    kind = _TYPES[name.rpartition(".")[2]]

    async def send(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=kind)

    return send
