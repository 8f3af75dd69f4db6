"""Parse requests: keys, moments and limits, from the path, the query string and the body."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
import orjson
from starlette.requests import ClientDisconnect, Request

from mta.errors import InvalidTime, UnsuitableKey
from mta.serve.answers import Problem
from mta.serve.keys import KeyForm, shown
from mta.times import moment_of as micros_of

_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,9})?")
#: The texts that the description of the API promises to read: not every way to write a moment.
MOMENT_PATTERN = (
    r"^(now|-?[0-9]{1,10}(\.[0-9]{1,9})?"
    r"|(000[2-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-8][0-9]{3}|9[0-8][0-9]{2}|99[0-8][0-9]|999[0-8])"
    r"-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"
    r"(T([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,6})?)?"
    r"(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?)?)$"
)
#: How moments are written.
MOMENTS = "a moment is ISO 8601 (UTC without a zone), seconds since 1970, or now"
#: How many events an answer has by default, and at most.
DEFAULT_EVENTS, MAX_EVENTS = 1000, 10_000


def parameters(request: Request, *known: str) -> Mapping[str, str]:
    """Return the query parameters. Raises Problem for unknown or repeated parameters."""
    if not request.scope["query_string"]:
        return {}
    found = dict(request.query_params)
    if unknown := found.keys() - {*known}:
        names = ", ".join(known) or "none"
        raise Problem(
            "InvalidRequest",
            f"There is no parameter {min(unknown)!r:.40}; the parameters are: {names}.",
        )
    if len(found) < len(request.query_params.multi_items()):
        raise Problem("InvalidRequest", "A parameter is given twice.")
    return found


def key_of(request: Request, prefix: str, form: KeyForm) -> Any:
    """Return the key at the end of a path, which may contain quoted slashes and commas."""
    if request.scope["path"] == prefix.rstrip("/"):
        if form.columns:
            raise UnsuitableKey(
                f"add a key of {form.described} to the path, such as {prefix}{form.example}"
            )
        return None
    raw = request.scope["raw_path"].decode("latin-1")
    if not raw.startswith(prefix):  # a quoted letter, such as /v1/window%73/
        raise Problem("NotFound", f"Write {prefix} as it is.")
    return form.of_path(raw.removeprefix(prefix))


def moment_of(value: Any) -> np.datetime64:
    """Return a moment in UTC, also for "now". Raises InvalidTime.

    >>> moment_of("2026-01-31T12:00:00+01:00"), moment_of(1.5)
    (np.datetime64('2026-01-31T11:00:00.000000'), np.datetime64('1970-01-01T00:00:01.500000'))
    """
    if isinstance(value, str):
        if _NUMBER.fullmatch(value):
            value = float(value)
        elif value != "now":
            try:
                value = datetime.fromisoformat(value)
            except ValueError:
                hint = "; write + in a query string as %2B" if " " in value else ""
                raise InvalidTime(f"{shown(value)} is not a moment: {MOMENTS}{hint}") from None
            if value.tzinfo is not None:
                value = _in_utc(value)
    elif isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidTime(f"{shown(value)} is not a moment: {MOMENTS}")
    return np.datetime64(micros_of(value), "us")


def _in_utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise InvalidTime(f"{value.isoformat()} is out of range: {MOMENTS}") from None


def limit_of(text: str | None) -> int:
    """Return how many events an answer may have. Raises Problem."""
    if text is None:
        return DEFAULT_EVENTS
    if not re.fullmatch(r"[0-9]{1,9}", text) or not 1 <= int(text) <= MAX_EVENTS:
        raise Problem("InvalidRequest", f"limit must be a whole number from 1 to {MAX_EVENTS}.")
    return int(text)


async def body_of(request: Request, max_bytes: int, seconds: float) -> Mapping[str, Any]:
    """Return the JSON object in a request's body. Raises Problem."""
    content = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content != "application/json":
        raise Problem("UnsupportedMediaType", "Send Content-Type: application/json.")
    raw = await raw_body_of(request, max_bytes, seconds)
    try:
        found = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise Problem("InvalidRequest", f"The body is not JSON: {error.msg}.") from None
    if not isinstance(found, dict):
        raise Problem("InvalidRequest", "The body must be a JSON object.")
    return found


async def raw_body_of(request: Request, max_bytes: int, seconds: float) -> bytes:
    """Return a request's body. Raises Problem."""
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise Problem("UnsupportedMediaType", "Send the body without Content-Encoding.")
    try:
        async with asyncio.timeout(seconds):
            return await _read(request, max_bytes)
    except TimeoutError:
        raise Problem(
            "RequestTimeout", f"Send the body within {seconds:g} seconds.", connection="close"
        ) from None


async def _read(request: Request, max_bytes: int) -> bytes:
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > max_bytes:
                raise Problem(
                    "BodyTooLarge", f"A body has at most {max_bytes} bytes: split the request.",
                    connection="close",
                )  # fmt: skip
    except ClientDisconnect:
        raise Problem("RequestTimeout", "The client has disconnected.") from None
    return bytes(body)


class KeyQuery(NamedTuple):
    """The content of the body of a query."""

    keys: list[Any] | None
    """None for windows without keys."""
    at: Any
    """None, one moment, or an array with a moment for each key."""
    partial: bool

    @property
    def rows(self) -> int:
        return len(self.at) if self.keys is None else len(self.keys)


def query_of(body: Mapping[str, Any], form: KeyForm, max_keys: int) -> KeyQuery:
    """Return the query in a body. Raises Problem, UnsuitableKey, InvalidTime."""
    if unknown := body.keys() - {"keys", "at", "partial"}:
        raise Problem(
            "InvalidRequest",
            f"There is no field {min(unknown)!r:.40}; the fields are: keys, at, partial.",
        )
    keys, at, partial = body.get("keys"), body.get("at"), body.get("partial", False)
    if not isinstance(partial, bool):
        raise Problem("InvalidRequest", "partial must be true or false.")
    listed = keys if form.columns else at
    if not isinstance(listed, list) or not listed:
        what = "keys must be an array of keys" if form.columns else "at must be an array of moments"
        raise Problem("InvalidRequest", f"{what}, with at least one element.")
    if len(listed) > max_keys:
        raise Problem("TooManyKeys", f"A request can have at most {max_keys} keys: split it.")
    if not form.columns and keys is not None:
        raise Problem("InvalidRequest", "These windows have no keys: leave them out.")
    if isinstance(at, list) and len(at) != len(listed):
        raise Problem("InvalidRequest", "at must be one moment, or a moment for each key.")
    moments: Any = None
    if isinstance(at, list):
        moments = np.array([moment_of(each) for each in at], "M8[us]")
    elif at is not None:
        moments = moment_of(at)
    return KeyQuery([form.of_json(key) for key in keys or []] or None, moments, partial)


def flag_of(partial: str | None) -> bool:
    """Return the flag "partial" in the query string. Raises Problem."""
    if partial not in (None, "true", "false"):
        raise Problem("InvalidRequest", "partial must be true or false.")
    return partial == "true"
