"""The answers to failed requests: JSON problems (RFC 9457) with names.

No answer repeats the text of a store's error, because the text may name hosts and folders. Such
errors are logged; the answer has the name of the problem and a sentence from this module.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.exceptions import HTTPException
from starlette.responses import Response

from mta.errors import (
    CorruptPage,
    CorruptSnapshot,
    EventsGone,
    InvalidTime,
    MissingPage,
    NotPublished,
    SnapshotMismatch,
    StoreUnavailable,
    UnsuitableKey,
    UnsupportedOperation,
    WindowStoreError,
)

logger = logging.getLogger(__name__)
PROBLEM_JSON = "application/problem+json"
#: Each name of a problem, with its status and title.
PROBLEMS: dict[str, tuple[int, str]] = {
    "InvalidRequest": (400, "The request cannot be read"),
    "UnsuitableKey": (400, "A key does not have the key type of these windows"),
    "InvalidTime": (400, "A moment cannot be read"),
    "UnsupportedOperation": (400, "These windows do not support this request"),
    "Unauthorized": (401, "A bearer token is needed"),
    "ForbiddenHost": (403, "The host name of the request is not allowed"),
    "NotFound": (404, "There is nothing at this path"),
    "MethodNotAllowed": (405, "The path does not support this method"),
    "NotAcceptable": (406, "The answer is not available in the requested format"),
    "RequestTimeout": (408, "The request did not arrive in time"),
    "EventsGone": (410, "Events of that moment are no longer retained"),
    "BodyTooLarge": (413, "The body is too large"),
    "TooManyKeys": (413, "The request has too many keys"),
    "UnsupportedMediaType": (415, "The body is not JSON"),
    "InternalError": (500, "The server failed"),
    "WindowsUnreadable": (503, "These windows, or pages of them, cannot be read"),
    "NotPublished": (503, "Nothing is published for this key or under this name"),
    "StoreUnavailable": (503, "The store does not answer"),
    "TimeLimitReached": (503, "The answer took too long"),
    "Overloaded": (503, "Too many requests are waiting"),
}
#: Errors whose text is only about the request.
_OF_REQUEST = (UnsuitableKey, InvalidTime)


class Problem(Exception):
    """An error that ends a request; ``detail`` is for the client."""

    def __init__(self, name: str, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.name, self.detail = name, detail
        self.headers = {key.replace("_", "-"): value for key, value in headers.items()}

    def response(self) -> Response:
        """Return the problem as an answer."""
        return Response(
            orjson.dumps(as_json(self.name, self.detail)),
            PROBLEMS[self.name][0],
            self.headers,
            PROBLEM_JSON,
        )


def as_json(name: str, detail: str) -> Mapping[str, Any]:
    """Return the body of a problem."""
    status, title = PROBLEMS[name]
    return {
        "type": f"urn:mta-windows:problem:{name}",
        "name": name,
        "title": title,
        "status": status,
        "detail": detail,
    }


def problem_of(error: Exception) -> Problem:
    """Return the problem for an error; errors of the store and bugs are logged."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):  # of the router
        if error.status_code == 405:
            allowed = (error.headers or {})["Allow"]
            return Problem("MethodNotAllowed", f"The path supports {allowed}.", allow=allowed)
        return Problem("NotFound", "The paths are described at /docs.")
    if isinstance(error, _OF_REQUEST):
        name = next(kind.__name__ for kind in _OF_REQUEST if isinstance(error, kind))
        return Problem(name, str(error))
    if isinstance(error, StoreUnavailable):
        logger.warning("the store does not answer: %s", error)
        return Problem("StoreUnavailable", "Retry in a second.", retry_after="1")
    if isinstance(error, EventsGone):
        return Problem(
            "EventsGone", "Request a later moment, or partial=true for the retained events."
        )
    if isinstance(error, UnsupportedOperation):
        return Problem(
            "UnsupportedOperation",
            "They have results only at their newest event, or do not keep the order of events.",
        )
    if isinstance(error, NotPublished):
        return Problem(
            "NotPublished", "Retry when the job has published the windows.", retry_after="5"
        )
    if isinstance(error, (MissingPage, CorruptPage, CorruptSnapshot, SnapshotMismatch)):
        logger.error("%s: %s", type(error).__name__, error)
        return Problem("WindowsUnreadable", "The server's log has the cause.")
    logger.error("a request failed", exc_info=not isinstance(error, WindowStoreError) or error)
    return Problem("InternalError", "The server's log has the cause.")
