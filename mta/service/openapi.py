"""The description of the paths that take events, for the OpenAPI document of ``mta.serve``."""

from __future__ import annotations

from typing import Any

from mta.serve.answers import ARROW, JSON
from mta.serve.keys import KeyForm
from mta.serve.openapi import MOMENT_TEXT, OF_BODY, object_of, operation
from mta.serve.requests import MOMENTS
from mta.serve.settings import ServerSettings
from mta.service.declaration import ID, Declaration
from mta.service.rows import EARLIEST, MAX_TEXT
from mta.times import CERTAIN

_TYPES: dict[str, Any] = {
    "float": {"type": "number"}, "int": {"type": "integer"}, "bool": {"type": "boolean"},
    "text": {"type": "string", "maxLength": MAX_TEXT},
}  # fmt: skip
_OF_SHARDS = ("TooManyEvents", "LostRecords", "ShardFailed")
_PROBLEMS = ("UnsuitableKey", "InvalidTime", "OutcomeUnknown", *_OF_SHARDS)
_ONE = ("LimitExceeded", "LateEvent", "AheadEvent", "ResultOutOfRange")
_ANY: dict[str, Any] = {}
_MOMENT = {"type": ["string", "null"], "format": "date-time"}


def paths_of(declared: Declaration, form: KeyForm, settings: ServerSettings) -> dict[str, Any]:
    """Return the paths, with the columns of the declared windows."""
    row = _row(declared, form)
    many = {"type": "array", "items": row, "minItems": 1, "maxItems": settings.max_keys}
    binary = {"type": "string"}
    content = {
        JSON: {"schema": {"anyOf": [row, many]}},
        "application/x-ndjson": {"schema": binary},
        ARROW: {"schema": binary | {"format": "binary"}},
    }
    values: dict[str, Any] = object_of(**dict.fromkeys(declared.columns, _ANY))
    one = object_of(time=_MOMENT, values={"anyOf": [values, {"type": "null"}]})
    result = {"anyOf": [one, {"$ref": "#/components/schemas/Problem"}]}
    whole = {"type": "integer"}
    several = object_of(rows=whole, refused=whole, results={"type": "array", "items": result})
    body = {"requestBody": {"required": True, "content": content}}
    answer = {"anyOf": [one, several]}
    problems = (*_PROBLEMS, *_ONE, *OF_BODY, "NotAcceptable")
    limit = object_of(name={"type": "string"}, aggregate={"type": "string"},
                      at_most={"type": "number"}, refused=whole)  # fmt: skip
    limits = object_of(limits={"type": "array", "items": limit}, accepted=whole)
    of_keys = ("UnsuitableKey", "TooManyKeys", *_OF_SHARDS, *OF_BODY)
    some = {"type": "array", "items": form.schema(), "minItems": 1, "maxItems": settings.max_keys}
    keys = object_of(keys=some) | {"additionalProperties": False}
    return {
        "/v1/events": {"post": operation("add", "Add events", answer, problems) | body},
        "/v1/check": {
            "post": operation("check", "The same without adding", answer, problems) | body
        },
        "/v1/erase": {
            "post": operation("erase", "Erase keys", object_of(erased=whole), of_keys)
            | {"requestBody": {"required": True, "content": {JSON: {"schema": keys}}}}
        },
        "/v1/limits": {"get": operation("limits", "Limits, and what was refused", limits)},
    }


def _row(declared: Declaration, form: KeyForm) -> dict[str, Any]:
    schema = form.schema()
    parts = schema["prefixItems"] if form.is_array else [schema]
    properties = dict(zip([name for name, _ in declared.keys], parts, strict=True))
    properties |= {name: _TYPES[kind] for name, kind in declared.values.items()}
    required = [*properties]
    if declared.time is not None:
        number = {"type": "number", "minimum": EARLIEST // 10**6, "exclusiveMaximum": CERTAIN}
        properties[declared.time] = {"description": MOMENTS, "anyOf": [MOMENT_TEXT, number]}
        required.append(declared.time)
    properties[ID] = {"type": "string", "minLength": 1, "maxLength": MAX_TEXT,
                      "description": "what makes a retry safe"}  # fmt: skip
    return {"type": "object", "required": required, "properties": properties,
            "additionalProperties": False}  # fmt: skip
