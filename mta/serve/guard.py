"""The checks before every request, the limit of concurrent requests, and their counts.

- The token is compared in constant time.
- The limit is for requests that passed these checks and ask for data, until their answers begin.
- The log has the path of a request's route, not its key or query.
- A service without a token that only this machine can reach answers only to the names of this
  machine: otherwise a page of another site, whose name an attacker points here, could read the
  windows (DNS rebinding).
- Every answer forbids browsers to load anything from elsewhere.
"""

from __future__ import annotations

import hmac
import logging
import re
import time
from ipaddress import ip_address

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mta.serve.answers import Problem, problem_of
from mta.serve.metrics import Metrics
from mta.serve.settings import ServerSettings

logger = logging.getLogger(__name__)
#: The paths that need a token; the page, the documentation and the health check have no data.
PROTECTED = ("/v1/", "/metrics", "/openapi.json")
#: The requests that need the token for writing.
WRITES = {("POST", "/v1/events"), ("POST", "/v1/erase")}
_HOST = re.compile(r"(?P<name>[a-z0-9._~-]*|\[[0-9a-f:.]+\])(:(?P<port>[0-9]{0,5}))?")
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

    def __init__(self, app: ASGIApp, settings: ServerSettings, metrics: Metrics) -> None:
        self._app, self._settings, self._metrics = app, settings, metrics
        self._any_host = settings.token is not None or not settings.is_local
        #: How many requests for data are handled, as far as they are not answered.
        self._handled = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status, counts = time.perf_counter(), 0, False

        def release() -> None:
            nonlocal counts
            self._handled -= counts
            counts = False

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                release()  # a client that does not read its answer takes nobody's place
                status = message["status"]
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        try:
            self._check(scope)
            if scope["path"].startswith(PROTECTED):
                self._require_place()
                self._handled += 1
                counts = True
            scope["app"] = self  # makes the router raise errors for unknown paths and methods
            await self._app(scope, receive, answer)
        except Exception as error:
            if status:
                raise
            await problem_of(error).response()(scope, receive, answer)
        finally:
            release()
            elapsed, route = time.perf_counter() - started, _route_of(scope)
            self._metrics.count(route, status, elapsed)
            logger.info("%s %s: %d in %.1f ms", scope["method"], route, status, 1000 * elapsed)

    def _check(self, scope: Scope) -> None:
        """Raise Problem unless the request may come from its client, and names one host."""
        host = _host_of(scope)
        if not self._any_host and not _is_local(host):
            raise Problem("ForbiddenHost", "Use the host name localhost, or set a token.")
        settings, writes = self._settings, (scope["method"], scope["path"]) in WRITES
        expected = settings.write_token if writes else settings.token
        if expected is not None and scope["path"].startswith(PROTECTED):
            given = dict(scope["headers"]).get(b"authorization", b"")
            scheme, _, token = given.partition(b" ")
            if scheme.lower() != b"bearer" or not hmac.compare_digest(token, expected.encode()):
                what = "the token for writing" if writes else "the token"
                raise Problem(
                    "Unauthorized", f"Send the header 'Authorization: Bearer' with {what}.",
                    www_authenticate="Bearer",
                )  # fmt: skip

    def _require_place(self) -> None:
        if self._handled >= self._settings.max_waiting:
            raise Problem("Overloaded", "Retry in a second.", retry_after="1")


def _host_of(scope: Scope) -> str:
    """Return the host that a request names. Raises Problem."""
    given = [value for name, value in scope["headers"] if name == b"host"]
    if not given and scope["http_version"] == "1.0":
        return ""
    text = given[0].decode("latin-1").lower() if len(given) == 1 else "?"
    found = _HOST.fullmatch(text)
    if found is None or int(found["port"] or 0) > 65535:
        raise Problem("InvalidRequest", "Send one header Host, with a name and perhaps a port.")
    return found["name"]


def _is_local(host: str) -> bool:
    """Return whether a host is this machine, whatever a name server says."""
    try:
        return host == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _route_of(scope: Scope) -> str:
    """Return the path of the route that handled a request; there are only a few."""
    route = scope.get("route")
    return "none" if route is None else route.path.replace(":key}", "}")
