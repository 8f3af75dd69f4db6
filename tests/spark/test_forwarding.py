"""Every option of ``sliding_aggregate`` reaches the request."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pytest

from spark_integration import sliding
from spark_integration.sliding import sliding_aggregate


def test_no_option_is_lost_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {
        name: (f"<{name}>",) if name in ("key", "keep") else f"<{name}>"
        for name in signature(sliding_aggregate).parameters
    }
    taken: dict[str, Any] = {}
    monkeypatch.setattr(sliding, "make_request", lambda df, **options: taken.update(options, df=df))
    monkeypatch.setattr(sliding, "run_request", lambda *arguments: arguments)
    df, request, step, metrics = sliding_aggregate(**given)
    assert (df, request, step, metrics) == ("<df>", None, sliding.step, "<metrics>")
    given["keys"] = given.pop("key")
    assert given == taken | {"metrics": "<metrics>"}
