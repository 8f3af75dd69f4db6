"""Every option of ``sliding_aggregate`` reaches the request, and has one default."""

from __future__ import annotations

from dataclasses import fields, make_dataclass
from inspect import Parameter, signature
from types import SimpleNamespace
from typing import Any

import pytest

from spark_integration import sliding
from spark_integration.options import Options
from spark_integration.sliding import sliding_aggregate


def test_no_option_is_lost_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {
        name: (f"<{name}>",) if name == "carry" else f"<{name}>"
        for name in signature(sliding_aggregate).parameters
    }
    given["aggregations"] = {"peak": ("watts", "max")}  # those of them with filters add columns
    given["at"] = None  # another DataFrame, which is no option
    given["df"] = stream = SimpleNamespace(isStreaming=True, sparkSession="<session>")
    unchecked = make_dataclass("Options", [field.name for field in fields(Options)])
    monkeypatch.setattr(sliding, "Options", unchecked)
    request = SimpleNamespace(plan=SimpleNamespace(store="<store>"))

    def make_request(*arguments: Any) -> Any:
        request.arguments = arguments
        return request

    monkeypatch.setattr(sliding, "make_request", make_request)
    monkeypatch.setattr(sliding, "run_request", lambda *arguments: arguments)
    for name in ("check_chain", "check_starts", "follow", "warn_of_buckets"):
        monkeypatch.setattr(sliding, name, lambda *arguments: None)
    df, made, step, metrics = sliding_aggregate(**given)
    same, options = made.arguments
    assert (df, same, step, metrics) == (stream, stream, sliding.step, "<metrics>")
    assert {"df": df, "at": None, "metrics": metrics, **vars(options)} == given


def test_the_defaults_are_those_of_the_options() -> None:
    asked = signature(sliding_aggregate).parameters
    found = {n: p.default for n, p in signature(Options).parameters.items()}
    others = {"df", "at", "metrics"}
    assert {field.name for field in fields(Options)} == set(found) == {*asked} - others
    assert found == {name: asked[name].default for name in found}
    assert Parameter.empty in found.values()
