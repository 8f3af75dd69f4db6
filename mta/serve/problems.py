"""What a request that fails is answered: a JSON problem (RFC 9457) with a name.

No answer repeats what an error of the store says, as that may name hosts and folders: such errors
are logged, and answered by their name and a sentence of this module.
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
    "UnsuitableKey": (400, "A key is not of the type of these windows"),
    "InvalidTime": (400, "A moment cannot be read"),
    "UnsupportedOperation": (400, "These windows cannot be asked so"),
    "Unauthorized": (401, "A bearer token is needed"),
    "ForbiddenHost": (403, "The name of this host is not known"),
    "NotFound": (404, "There is nothing at this path"),
    "MethodNotAllowed": (405, "The path does not take this method"),
    "NotAcceptable": (406, "The answer cannot be given in the form that was asked for"),
    "RequestTimeout": (408, "The request did not arrive in time"),
    "EventsGone": (410, "Events of that moment have left"),
    "BodyTooLarge": (413, "The body is too large"),
    "TooManyKeys": (413, "The request has too many keys"),
    "UnsupportedMediaType": (415, "The body is not JSON"),
    "InternalError": (500, "The server failed"),
    "WindowsUnreadable": (503, "These windows, or pages of them, cannot be read"),
    "NotPublished": (503, "Nothing is published of this key, or at all"),
    "StoreUnavailable": (503, "The store does not answer"),
    "TimeLimitReached": (503, "The answer took too long"),
    "Overloaded": (503, "Too many requests are waiting"),
}
#: Errors whose text is about the request alone.
_OF_REQUEST = (UnsuitableKey, InvalidTime)


class Problem(Exception):
    """What ends a request; ``detail`` is read by whoever sent it."""

    def __init__(self, name: str, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.name, self.detail = name, detail
        self.headers = {key.replace("_", "-"): value for key, value in headers.items()}

    def response(self) -> Response:
        """The problem as an answer."""
        return Response(
            orjson.dumps(as_json(self.name, self.detail)),
            PROBLEMS[self.name][0],
            self.headers,
            PROBLEM_JSON,
        )


def as_json(name: str, detail: str) -> Mapping[str, Any]:
    """The body of a problem."""
    status, title = PROBLEMS[name]
    return {
        "type": f"urn:mta-windows:problem:{name}",
        "name": name,
        "title": title,
        "status": status,
        "detail": detail,
    }


def problem_of(error: Exception) -> Problem:
    """The problem that an error is; errors of the store, and bugs, are logged."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):  # of the router
        if error.status_code == 405:
            allowed = (error.headers or {})["Allow"]
            return Problem("MethodNotAllowed", f"The path takes {allowed}.", allow=allowed)
        return Problem("NotFound", "The paths are described at /docs.")
    if isinstance(error, _OF_REQUEST):
        name = next(kind.__name__ for kind in _OF_REQUEST if isinstance(error, kind))
        return Problem(name, str(error))
    if isinstance(error, StoreUnavailable):
        logger.warning("the store does not answer: %s", error)
        return Problem("StoreUnavailable", "Retry in a second.", retry_after="1")
    if isinstance(error, EventsGone):
        return Problem(
            "EventsGone", "Ask for a later moment, or with partial=true for what is left."
        )
    if isinstance(error, UnsupportedOperation):
        return Problem(
            "UnsupportedOperation",
            "They are known at their newest event alone, or keep no events in order.",
        )
    if isinstance(error, NotPublished):
        return Problem("NotPublished", "Ask again when the job has published it.", retry_after="5")
    if isinstance(error, (MissingPage, CorruptPage, CorruptSnapshot, SnapshotMismatch)):
        logger.error("%s: %s", type(error).__name__, error)
        return Problem("WindowsUnreadable", "The operator finds the cause in the log.")
    logger.error("a request failed", exc_info=not isinstance(error, WindowStoreError) or error)
    return Problem("InternalError", "The operator finds the cause in the log.")
