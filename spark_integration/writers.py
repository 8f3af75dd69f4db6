"""Start a stream that has windows with suitable settings, or refuse it with a helpful error.

PySpark has no hook for this, so methods of its stream writers are wrapped, once for each kind of
writer (Spark Connect has another kind). The output mode and the trigger are checked when they are
set, before anything starts. That Spark refuses multiple states in one query is known only in
``start``; Spark's own error would name functions that the user has not called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from spark_integration.chains import WHAT_TO_DO
from spark_integration.errors import InvalidRequest
from spark_integration.runners.packing import BLOB
from spark_integration.starting import fitting_settings

_Method = Callable[..., Any]
_wrapped: set[_Method] = set()
#: The checkpoint locations of writers.
_locations: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
_REFUSAL = "Multiple applyInPandasWithStates"


def check_starts(results: DataFrame) -> None:
    """Make a stream's writers raise InvalidRequest for what Spark does not support with windows."""
    if not results.isStreaming:
        return
    writer = type(results.writeStream)
    for name, ours in _WRAPPERS.items():
        method = getattr(writer, name)
        if method not in _wrapped:
            wrapper = wraps(method)(ours(method))
            _wrapped.add(wrapper)
            setattr(writer, name, wrapper)


def _plan(writer: Any) -> str:
    """Return the plan of a query as text."""
    frame = getattr(writer, "_df", None)
    if frame is None:  # with Spark Connect
        return str(writer._write_stream.command(writer._session.client))
    return str(frame._jdf.queryExecution().logical().toString())


def _has_windows(writer: Any) -> bool:
    """Return whether a query has windows, judging by the columns that they add to its plan."""
    return BLOB in _plan(writer)


def _output_mode(method: _Method) -> _Method:
    def output_mode(self: Any, outputMode: str) -> Any:
        if str(outputMode).lower() in ("update", "complete") and _has_windows(self):
            raise InvalidRequest(
                f"the output mode is {outputMode!r}, but windows emit rows that never change: "
                "leave the mode unset ('append'); sliding_aggregate(emit_updates=True) emits rows "
                "again if late events change their results"
            )
        return method(self, outputMode)

    return output_mode


def _trigger(method: _Method) -> _Method:
    def trigger(self: Any, **chosen: Any) -> Any:
        for name in ("realTime", "continuous"):
            if chosen.get(name) is not None and _has_windows(self):
                raise InvalidRequest(
                    f"the trigger is {name}={chosen[name]!r}, but Spark runs stateful Python "
                    "functions only in micro-batches: use trigger(processingTime='1 second') or "
                    "trigger(availableNow=True)"
                )
        return method(self, **chosen)

    return trigger


def _start(method: _Method) -> _Method:
    def start(self: Any, *arguments: Any, **named: Any) -> Any:
        try:
            plan = _plan(self)
            if BLOB not in plan:
                return method(self, *arguments, **named)
            checkpoint = _location(named) or _locations.get(self)
            rocksdb = "transformwithstate" in plan.replace("_", "").lower()
            with fitting_settings(_session(self), checkpoint, rocksdb=rocksdb):
                return method(self, *arguments, **named)
        except AnalysisException as error:
            if _REFUSAL not in str(error) or BLOB not in str(error):
                raise
            raise InvalidRequest(
                f"the query has windows next to other windows with a state, {WHAT_TO_DO}"
            ) from error

    return start


def _option(method: _Method) -> _Method:
    def option(self: Any, key: str, value: Any) -> Any:
        _note(self, {key: value})
        return method(self, key, value)

    return option


def _options(method: _Method) -> _Method:
    def options(self: Any, **chosen: Any) -> Any:
        _note(self, chosen)
        return method(self, **chosen)

    return options


def _note(writer: Any, chosen: Mapping[str, Any]) -> None:
    """Remember the checkpoint of a query, which no writer exposes."""
    if found := _location(chosen):
        _locations[writer] = found


def _location(chosen: Mapping[str, Any]) -> str | None:
    return next((str(chosen[n]) for n in chosen if n.lower() == "checkpointlocation"), None)


def _session(writer: Any) -> SparkSession:
    frame = getattr(writer, "_df", None)
    session: SparkSession = writer._session if frame is None else frame.sparkSession
    return session


_WRAPPERS: dict[str, Callable[[_Method], _Method]] = {
    "outputMode": _output_mode, "trigger": _trigger, "start": _start, "toTable": _start,
    "option": _option, "options": _options,
}  # fmt: skip
