"""The OpenAPI document of a service, with its keys, columns and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mta.serve.answers import ARROW, JSON, PROBLEM_JSON, PROBLEMS
from mta.serve.keys import KeyForm
from mta.serve.requests import DEFAULT_EVENTS, MAX_EVENTS, MOMENT_PATTERN, MOMENTS
from mta.serve.settings import ServerSettings
from mta.times import CERTAIN

#: The problems that any request may have.
_ALWAYS = (
    "InvalidRequest", "Unauthorized", "ForbiddenHost", "InternalError", "WindowsUnreadable",
    "StoreUnavailable", "NotPublished", "TimeLimitReached", "Overloaded",
)  # fmt: skip
_OF_KEYS = (
    "UnsuitableKey", "InvalidTime", "UnsupportedOperation", "EventsGone", "NotAcceptable",
    "ResultOutOfRange",
)  # fmt: skip
OF_BODY = ("RequestTimeout", "BodyTooLarge", "TooManyKeys", "UnsupportedMediaType")


def document(
    settings: ServerSettings, keys: KeyForm, columns: Sequence[str], more: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document.

    ``columns`` are the names of the results, and ``more`` the descriptions of further paths.
    """
    key, at, partial, limit = _parameters(keys)
    named = [key] if keys.columns else []
    end = "/{key}" if keys.columns else ""
    values = dict.fromkeys(columns, _ANYTHING)
    lists = dict.fromkeys(columns, _LIST)
    one = object_of(key=keys.schema(), at=_TIME, values=object_of(**values))
    many = object_of(rows=_WHOLE, columns=object_of(**lists))
    events = object_of(key=keys.schema(), times=_ARRAY, columns=_LISTS)
    paths: dict[str, Any] = {
        f"/v1/windows{end}": {
            "get": operation(
                "window", "Aggregates at a moment", one, _OF_KEYS, [*named, at, partial]
            )
        },
        "/v1/query": {
            "post": operation("query", "Aggregates in bulk", many, _OF_KEYS + OF_BODY)
            | {"requestBody": _query(settings, keys)}
        },
        f"/v1/events{end}": {
            "get": operation(
                "events", "The newest retained events, oldest first", events, _OF_KEYS,
                [*named, limit],
            )
        },
        "/v1/status": {"get": operation("status", "What is served, and its age", _STATUS)},
        "/v1/history": {"get": operation("history", "The status of the last hour", _LISTS)},
        "/metrics": {"get": operation("metrics", "Metrics for Prometheus", None)},
        "/healthz": {"get": operation("health", "Whether the process answers", _HEALTH)},
    }  # fmt: skip
    for path, methods in more.items():
        paths[path] = paths.get(path, {}) | methods
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": settings.name,
            "version": "1",
            "description": "Aggregates of sliding windows, at any retained moment.",
        },
        "paths": paths,
        "components": {"schemas": {"Problem": _PROBLEM}},
    }
    if settings.token is not None:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
        paths["/healthz"]["get"]["security"] = []
    return found


def _parameters(keys: KeyForm) -> list[dict[str, Any]]:
    """Return the parameters: a key in the path; a moment, a flag and a limit in the query."""
    return [
        {
            "name": "key", "in": "path", "required": True, "example": keys.example,
            "schema": {"type": "string", "minLength": 1, "maxLength": 1024},
            "description": f"{keys.described}{_PARTS if keys.is_array else _QUOTED}",
        },
        {
            "name": "at", "in": "query", "schema": MOMENT_TEXT, "example": "now",
            "description": f"when windows end, by default at the newest event; {MOMENTS}",
        },
        {
            "name": "partial", "in": "query", "schema": {"enum": ["true", "false"]},
            "description": _PARTIAL,
        },
        {
            "name": "limit", "in": "query", "description": "the maximum number of events",
            "schema": {"type": "integer", "minimum": 1, "maximum": MAX_EVENTS,
                       "default": DEFAULT_EVENTS},
        },
    ]  # fmt: skip


def _query(settings: ServerSettings, keys: KeyForm) -> dict[str, Any]:
    moment = {"description": MOMENTS, "anyOf": [MOMENT_TEXT, _MOMENT_NUMBER]}
    many = {"minItems": 1, "maxItems": settings.max_keys}
    moments = {"type": "array", "items": moment, **many}
    flag = {"type": "boolean", "default": False, "description": _PARTIAL}
    if keys.columns:
        any_of = [moment, moments, {"type": "null"}]
        at = {"description": "when windows end: one moment, or a moment for each key; by default "
              "at the newest event of each key", "anyOf": any_of}  # fmt: skip
        properties = {
            "keys": {"type": "array", "items": keys.schema(), **many}, "at": at, "partial": flag,
        }  # fmt: skip
    else:
        properties = {"at": moments, "partial": flag}
    schema = {
        "type": "object",
        "required": [next(iter(properties))],
        "additionalProperties": False,
        "properties": properties,
    }
    return {"required": True, "content": {JSON: {"schema": schema}}}


def operation(
    name: str,
    summary: str,
    schema: Mapping[str, Any] | None,
    problems: Sequence[str] = (),
    parameters: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return the description of an operation; without a schema, its answer is text."""
    forms: dict[str, Any] = {"text/plain": {}} if schema is None else {JSON: {"schema": schema}}
    if "NotAcceptable" in problems:
        forms[ARROW] = {"schema": {"type": "string", "format": "binary"}}
    possible = list(dict.fromkeys((*problems, *_ALWAYS)))
    responses: dict[str, Any] = {"200": {"description": summary, "content": forms}}
    for status in sorted({PROBLEMS[each][0] for each in possible}):
        names = [each for each in possible if PROBLEMS[each][0] == status]
        responses[str(status)] = {
            "description": "; ".join(f"{each}: {PROBLEMS[each][1]}" for each in names),
            "content": {PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    return {
        "operationId": name,
        "summary": summary,
        "parameters": list(parameters),
        "responses": responses,
    }


def object_of(**properties: Any) -> dict[str, Any]:
    """Return the schema of an object, all of whose properties are required."""
    return {"type": "object", "required": [*properties], "properties": properties}


MOMENT_TEXT: dict[str, Any] = {"type": "string", "maxLength": 64, "pattern": MOMENT_PATTERN}
_MOMENT_NUMBER = {"type": "number", "exclusiveMinimum": -CERTAIN, "exclusiveMaximum": CERTAIN}
_QUOTED = "; write a slash in the key as %2F"
_PARTS = "; separate the parts by commas, and write a comma in a part as %2C, a slash as %2F"
_PARTIAL = "answer even if some events of the windows are no longer retained"
_ANYTHING: dict[str, Any] = {}
_LIST = {"type": "array"}
_WHOLE = {"type": "integer"}
_NUMBER = {"type": ["number", "null"]}
_TIME = {"type": ["string", "null"], "description": "a moment in UTC as ISO 8601, or now"}
_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_ARRAY = {"type": ["array", "null"]}
_LISTS = {"type": "object", "additionalProperties": {"type": "array"}}
_HEALTH = object_of(status={"const": "ok"})
_PROBLEM = object_of(
    type=_TEXT, name={"enum": sorted(PROBLEMS)}, title=_TEXT, status=_WHOLE, detail=_TEXT
) | {"description": "RFC 9457"}
_WINDOW = object_of(name=_TEXT, frame=_TEXT, seconds=_NUMBER, events=_NUMBER)
_INCOMPLETE = object_of(
    window=_TEXT, aggregation=_TEXT, complete_from=_TIME, complete_after_events=_NUMBER,
    complete_after_both=_ARRAY,
)  # fmt: skip
_STATUS = object_of(
    name=_TEXT, batch=_WHOLE, committed_at=_TIME, lag_seconds={"type": "number"}, read_at=_TIME,
    store_answers=_FLAG, takes_events=_FLAG, keys=_WHOLE, events=_WHOLE, late=_WHOLE,
    invalid=_WHOLE, timed=_FLAG,
    key_columns={"type": "array", "items": object_of(name=_TEXT, type=_TEXT)},
    columns={"type": "array", "items": _TEXT},
    windows={"type": "array", "items": _WINDOW},
    incomplete={"type": "array", "items": _INCOMPLETE},
)  # fmt: skip
