"""Every option of ``sliding_aggregate`` reaches the request, and has one default."""

from __future__ import annotations

from dataclasses import fields
from inspect import Parameter, signature
from typing import Any

import pytest

from spark_integration import sliding
from spark_integration.options import Options
from spark_integration.sliding import sliding_aggregate


def test_no_option_is_lost_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {
        name: (f"<{name}>",) if name == "keep" else f"<{name}>"
        for name in signature(sliding_aggregate).parameters
    }
    monkeypatch.setattr(sliding, "Options", lambda **options: options)
    monkeypatch.setattr(sliding, "make_request", lambda *arguments: arguments)
    monkeypatch.setattr(sliding, "run_request", lambda *arguments: arguments)
    monkeypatch.setattr(sliding, "explain_refusal", lambda results: None)
    df, (same, options), step, metrics = sliding_aggregate(**given)
    assert (df, same, step, metrics) == ("<df>", "<df>", sliding.step, "<metrics>")
    assert {"df": df, "metrics": metrics, **options} == given


def test_the_defaults_are_those_of_the_options() -> None:
    asked = signature(sliding_aggregate).parameters
    found = {n: p.default for n, p in signature(Options).parameters.items()}
    assert {field.name for field in fields(Options)} == set(found) == {*asked} - {"df", "metrics"}
    assert found == {name: asked[name].default for name in found}
    assert Parameter.empty in found.values()
