"""Every option of ``sliding_aggregate`` reaches the request, and has one default."""

from __future__ import annotations

from inspect import Parameter, signature
from types import SimpleNamespace
from typing import Any

import pytest

from mta import CountWindow
from mta.algorithms import FiBA
from spark_integration import sliding
from spark_integration.errors import InvalidRequest
from spark_integration.options import SETTINGS, Options
from spark_integration.sliding import sliding_aggregate


def test_no_option_is_lost_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {
        name: (f"<{name}>",) if name == "carry" else f"<{name}>"
        for name in signature(sliding_aggregate).parameters
    }
    given["aggregations"] = {"peak": ("watts", "max")}  # those of them with filters add columns
    given["at"] = None  # another DataFrame, which is no option
    given["df"] = stream = SimpleNamespace(isStreaming=True, sparkSession="<session>")
    unchecked = SimpleNamespace(of=lambda **options: SimpleNamespace(**options))
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
    settings = found.pop("settings")
    of_windows = {name: getattr(settings, name) for name in SETTINGS}
    assert not found.pop("aside")
    found |= of_windows
    assert found.keys() == asked.keys() - {"df", "at", "metrics"}
    assert found == {name: asked[name].default for name in found}
    assert Parameter.empty in found.values()


def test_a_changed_option_leaves_the_others() -> None:
    given: dict[str, Any] = {
        "by": "k", "on": "t", "aggregations": "count", "window": CountWindow(1), "on_late": "side",
        "allowed_lateness": "1 minute",
    }  # fmt: skip
    options = Options.of(**given)
    assert options.marks == ["late"] and options.settings.on_late == "drop"
    for changes in ({"emit": "last"}, {"retain": 4}, {"on_late": "raise"}, {"max_ahead": "1 hour"}):
        assert options.changed(**changes) == Options.of(**given | changes)
    with pytest.raises(InvalidRequest, match="on_late is 'aside': it must be 'raise' or 'drop' or"):
        options.changed(on_late="aside")
    with pytest.raises(InvalidRequest, match="retain_for is CountWindow"):
        Options.of(**given, retain_for=CountWindow(5))
    with pytest.raises(TypeError, match="aggregator"):
        Options.of(**given, aggregator=FiBA)
