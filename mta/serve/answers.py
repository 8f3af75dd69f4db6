"""Results as JSON, and as an Arrow stream if pyarrow is installed.

JSON has no NaN or infinity: both become null, like the result of a window without events. Arrow
keeps them. Integers of more than 64 bits and decimals are text, bytes are base64, moments are ISO
8601 in UTC, and durations are seconds.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import orjson
from starlette.requests import Request
from starlette.responses import Response

from mta.serve.problems import Problem

JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
#: The name of the only result, if it has no name.
ONLY = "value"
_OPTIONS = (
    orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS | orjson.OPT_NAIVE_UTC | orjson.OPT_UTC_Z
)
_NATIVE = "?iufM"


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
    except TypeError:  # numbers that are too long, or keys of unknown types
        return orjson.dumps(_widened(content), _plain, _OPTIONS)


def column(values: Any) -> Any:
    """Return a column as ``to_json`` accepts it."""
    array = np.asarray(values)
    if array.dtype.kind in _NATIVE:
        native = array.astype(array.dtype.newbyteorder("="), copy=False)
        return np.ascontiguousarray(native)
    return array.tolist()


def arrow_response(columns: Mapping[str, Any]) -> Response:
    """Return an answer as an Arrow stream of one table. Raises Problem if pyarrow is missing."""
    try:
        import pyarrow as pa
    except ModuleNotFoundError:
        raise Problem("NotAcceptable", f"This server has no Arrow: accept {JSON}.") from None
    arrays = {name: _arrow(pa, np.asarray(values)) for name, values in columns.items()}
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
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a result is a {type(value).__name__}, which JSON cannot represent")


def _widened(value: Any) -> Any:
    """Return the same value, with text in place of values that JSON cannot represent."""
    if isinstance(value, Mapping):
        return {
            key if isinstance(key, (str, int, float)) else str(_widened(key)): _widened(each)
            for key, each in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_widened(each) for each in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return str(value)
    return value
