"""The checks before every request, the limit of concurrent requests, and their counts.

- The token is compared in constant time.
- A service without a token that only this machine can reach answers only to the names of this
  machine: otherwise a page of another site, whose name an attacker points here, could read the
  windows (DNS rebinding).
- Every answer forbids browsers to load anything from elsewhere.
"""

from __future__ import annotations

import hmac
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mta.serve.answers import Problem, problem_of
from mta.serve.metrics import Metrics
from mta.serve.settings import Settings

#: The paths that need a token; the page, the documentation and the health check have no data.
PROTECTED = ("/v1/", "/metrics", "/openapi.json")
_LOCAL = ("localhost", "127.0.0.1", "[::1]")
_HEADERS = [
    (b"content-security-policy", b"default-src 'none'; script-src 'self'; style-src 'self'; "
     b"img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
     b"frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]  # fmt: skip


class Guard:
    """An application with these checks in front of it."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self._app, self._settings, self._metrics = app, settings, metrics
        token = settings.token
        self._token = None if token is None else token.encode()
        self._any_host = token is not None or not settings.is_local
        self._waiting = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        self._waiting += 1
        try:
            self._check(scope)
            scope["app"] = self  # makes the router raise errors for unknown paths and methods
            await self._app(scope, receive, answer)
        except Exception as error:
            if status:
                raise
            await problem_of(error).response()(scope, receive, answer)
        finally:
            self._waiting -= 1
            elapsed = time.perf_counter() - started
            self._metrics.count(_route_of(scope), status, elapsed)

    def _check(self, scope: Scope) -> None:
        headers = dict(scope["headers"])
        if not self._any_host:
            host = headers.get(b"host", b"").decode("latin-1").lower()
            name = host[: host.index("]") + 1] if "]" in host else host.partition(":")[0]
            if name not in _LOCAL:
                raise Problem("ForbiddenHost", "Use the host name localhost, or set a token.")
        if self._token is not None and scope["path"].startswith(PROTECTED):
            scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
            if scheme.lower() != b"bearer" or not hmac.compare_digest(given, self._token):
                raise Problem(
                    "Unauthorized", "Send the header 'Authorization: Bearer' with the token.",
                    www_authenticate="Bearer",
                )  # fmt: skip
        if self._waiting > self._settings.max_waiting:
            raise Problem("Overloaded", "Retry in a second.", retry_after="1")


def _route_of(scope: Scope) -> str:
    """Return the path of the route that handled a request; there are only a few."""
    route = scope.get("route")
    return "none" if route is None else route.path.replace(":key}", "}")
