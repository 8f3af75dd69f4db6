"""Answers: results as JSON, or as an Arrow stream if pyarrow is installed, and JSON problems.

JSON has no NaN or infinity: both become null, like the result of a window without events. Arrow
keeps them. Integers of more than 64 bits and decimals are text, bytes are base64, moments are ISO
8601 in UTC, and durations are seconds.

Failed requests are answered by JSON problems (RFC 9457) with names. No answer repeats the text of a
store's error, because the text may name hosts and folders. Such errors are logged; the answer has
the name of the problem and a sentence from this module.
"""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from mta import errors

JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
#: The name of the only result, if it has no name.
ONLY = "value"
_OPTIONS = (
    orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS | orjson.OPT_NAIVE_UTC | orjson.OPT_UTC_Z
)


def named(results: Any) -> Mapping[str, Any]:
    """Return results by their names."""
    return results if isinstance(results, Mapping) else {ONLY: results}


def form_of(request: Request, *forms: str) -> str:
    """Return which of the forms the client accepts; the first if it accepts any. Raises Problem."""
    accepted = request.headers.get("accept", "*/*").lower()
    asked = [each.partition(";")[0].strip() for each in accepted.split(",")]
    for form in (*asked, *forms):
        if form in forms and (form in asked or {"*/*", "application/*", ""} & {*asked}):
            return form
    raise Problem("NotAcceptable", f"Accept {' or '.join(forms)}.")


def json_response(content: Any) -> Response:
    """Return an answer in JSON."""
    return Response(to_json(content), headers={"cache-control": "no-store"}, media_type=JSON)


def to_json(content: Any) -> bytes:
    """Return the JSON of dictionaries, lists, numpy arrays and the values of results."""
    try:
        return orjson.dumps(content, _plain, _OPTIONS)
    except TypeError:  # long numbers, keys of unknown types, moments of few years, null moments
        return orjson.dumps(_widened(content), _plain, _OPTIONS)


def arrow_response(columns: Mapping[str, Any]) -> Response:
    """Return an answer as an Arrow stream of one table. Raises Problem if pyarrow is missing."""
    try:
        import pyarrow as pa
    except ModuleNotFoundError:
        raise Problem("NotAcceptable", f"This server has no Arrow: accept {JSON}.") from None
    arrays = {name: _arrow(pa, np.asanyarray(values)) for name, values in columns.items()}
    table, sink = pa.table(arrays), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    body = sink.getvalue().to_pybytes()
    return Response(body, headers={"cache-control": "no-store"}, media_type=ARROW)


def _arrow(pa: Any, array: np.ndarray) -> Any:
    if array.dtype.kind in "?iufMmU" and array.ndim == 1:
        return pa.array(array)
    try:
        return pa.array(array.tolist())
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        raise Problem("NotAcceptable", f"A result has no Arrow type: accept {JSON}.") from None


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, np.timedelta64):
        return value / np.timedelta64(1, "s")
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    if isinstance(value, np.ndarray):  # that orjson cannot read as it is
        native = value.astype(value.dtype.newbyteorder("="), order="C", copy=False)
        return native if native is not value else value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a result is a {type(value).__name__}, which JSON cannot represent")


def _widened(value: Any) -> Any:
    """Return the same value, with text in place of values that JSON cannot represent."""
    if isinstance(value, (np.ndarray, np.datetime64)) and value.dtype.kind == "M":
        return _moments(np.asarray(value))
    if isinstance(value, Mapping):
        return {
            key if isinstance(key, (str, int, float)) else str(_widened(key)): _widened(each)
            for key, each in value.items()
        }
    if isinstance(value, np.ndarray):
        return _widened(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_widened(each) for each in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return str(value)
    return value


def _moments(array: np.ndarray) -> Any:
    """Return moments as ISO 8601, also beyond the years that orjson writes; NaT is null."""
    texts = np.datetime_as_string(array.astype("M8[us]")).astype(object)
    shown: Any = np.frompyfunc(lambda text: f"{text.removesuffix('.000000')}Z", 1, 1)(texts)
    return np.asarray(np.where(np.isnat(array), None, shown)).tolist()


# --- problems -------------------------------------------------------------------------------------


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
    "LimitExceeded": (409, "The event would exceed a limit"),
    "LateEvent": (422, "The event is too old"),
    "AheadEvent": (422, "The event is ahead of the clock"),
    "ResultOutOfRange": (422, "A result would not fit its type"),
    "TooManyEvents": (429, "Too many events are waiting"),
    "MethodNotAllowed": (405, "The path does not support this method"),
    "NotAcceptable": (406, "The answer is not available in the requested format"),
    "RequestTimeout": (408, "The request did not arrive in time"),
    "EventsGone": (410, "Events of that moment are no longer retained"),
    "BodyTooLarge": (413, "The body is too large"),
    "TooManyKeys": (413, "The request has too many keys"),
    "UnsupportedMediaType": (415, "The body is not JSON, or is compressed"),
    "InternalError": (500, "The server failed"),
    "WindowsUnreadable": (503, "These windows, or pages of them, cannot be read"),
    "OutcomeUnknown": (503, "It is unknown whether the events were added"),
    "ShardFailed": (503, "A part of the windows has failed, and is read again"),
    "LostRecords": (503, "The store was emptied, or has lost records"),
    "NotPublished": (503, "Nothing is published for this key or under this name"),
    "StoreUnavailable": (503, "The store does not answer"),
    "TimeLimitReached": (503, "The answer took too long"),
    "Overloaded": (503, "Too many requests are waiting"),
}
#: What a client reads about errors, by default their text, and the headers of the answers.
_ADVICE: dict[type[Exception], tuple[str, dict[str, str]]] = {
    errors.UnsuitableKey: ("", {}),
    errors.InvalidTime: ("", {}),
    errors.ResultOutOfRange: ("", {}),
    errors.StoreUnavailable: ("Retry in a second.", {"retry_after": "1"}),
    errors.EventsGone: ("Request a later moment, or partial=true for the retained events.", {}),
    errors.UnsupportedOperation: (
        "They have results only at their newest event, or do not keep the order of events.", {}
    ),
    errors.NotPublished: ("Retry when the job has published the windows.", {"retry_after": "5"}),
}  # fmt: skip
#: Errors of a store that does not do its work until somebody corrects it.
_REFUSALS = (
    errors.StoreAccessDenied, errors.StoreFull, errors.StoreDamaged, errors.StoreClosed,
    errors.InvalidStoreURL,
)  # fmt: skip
_UNREADABLE = (
    errors.MissingPage, errors.CorruptPage, errors.CorruptSnapshot, errors.SnapshotMismatch
)  # fmt: skip


class Problem(Exception):
    """An error that ends a request; ``detail`` is for the client."""

    def __init__(self, name: str, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.name, self.detail = name, detail
        self.headers = {key.replace("_", "-"): value for key, value in headers.items()}

    @property
    def status(self) -> int:
        """Return the status of the answer."""
        return PROBLEMS[self.name][0]

    def fields(self) -> dict[str, Any]:
        status, title = PROBLEMS[self.name]
        return {
            "type": f"urn:mta-windows:problem:{self.name}",
            "name": self.name,
            "title": title,
            "status": status,
            "detail": self.detail,
        }

    def response(self) -> Response:
        fields = self.fields()
        return Response(orjson.dumps(fields), fields["status"], self.headers, PROBLEM_JSON)


def problem_of(error: Exception) -> Problem:
    """Return the problem for an error; errors of the store and bugs are logged."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):  # of the router
        if error.status_code == 405:
            allowed = (error.headers or {})["Allow"]
            return Problem("MethodNotAllowed", f"The path supports {allowed}.", allow=allowed)
        return Problem("NotFound", "The paths are described at /docs.")
    for kind, (advice, headers) in _ADVICE.items():
        if isinstance(error, kind):
            if kind is errors.StoreUnavailable:
                logger.warning("the store does not answer: %s", error)
            return Problem(kind.__name__, advice or str(error), **headers)
    if isinstance(error, _REFUSALS):
        logger.error("%s: %s", type(error).__name__, error)
        return Problem("StoreUnavailable", "The server's log has the cause.", retry_after="5")
    if isinstance(error, _UNREADABLE):
        logger.error("%s: %s", type(error).__name__, error)
        return Problem("WindowsUnreadable", "The server's log has the cause.")
    logger.error("a request failed", exc_info=error)
    return Problem("InternalError", "The server's log has the cause.")
