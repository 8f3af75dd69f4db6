"""Declared windows in files, and the stores that take them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

pytest.importorskip("starlette", reason="NOT TESTED: mta serve, as the extra serve is missing")

from mta.service.declaration import Declaration, read_declaration
from tests.support.s3_server import s3_server
from tests.support.servers import redis_url

__all__ = ["redis_url", "s3_server"]

DECLARED = """
name = "NAME"
store = "STORE"
shards = SHARDS
keys = { user = "text" }
values = { amount = "int" }
SETTINGS

[frames]
minute = "1 minute"
day = "1 day"

[aggregations]
spent = ["amount", "sum"]
requests = "count"

[limits]
daily = { aggregate = "spent_day", at_most = 100 }
rate = { aggregate = "requests_minute", at_most = 6 }
"""
Declare = Callable[..., Declaration]


@pytest.fixture
def declare(tmp_path: Path) -> Declare:
    """Returns declared windows, with other settings on request."""

    def declared(
        store: str = "memory://", settings: str = "", shards: int = 1, name: str = "",
        limits: str | None = None, values: str = "int",
    ) -> Declaration:  # fmt: skip
        text = DECLARED if limits is None else DECLARED.partition("[limits]")[0] + limits
        text = text.replace("NAME", name or f"s{uuid4().hex[:8]}").replace("STORE", store)
        text = text.replace('amount = "int"', f'amount = "{values}"')
        text = text.replace("SETTINGS", settings).replace("SHARDS", str(shards))
        path = tmp_path / f"{uuid4().hex[:6]}.toml"
        path.write_text(text)
        return read_declaration(path)

    return declared
