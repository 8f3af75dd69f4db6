"""A plan as the driver would make it, without Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from mta import CountWindow, Max, Product, Sum
from spark_integration.plan import Plan


def make_plan(**changes: Any) -> Plan:
    """Peak and sum of ``watts`` over the last 100 events of each ``device``."""
    settings: dict[str, Any] = {
        "by": ("device",),
        "key_types": ("string",),
        "on": "ts",
        "aggregations": {},
        "monoid": Product({"peak": ("watts", Max()), "sum": ("watts", Sum())}),
        "window": CountWindow(100),
        "columns": ("device", "ts", "watts"),
        "results": {"peak": pa.float64(), "sum": pa.float64()},
        "store": "memory://",
        "name": "test",
        "buckets": 1,
        "arity": 4,
        "leaf_arity": 4,
    }
    return Plan(**{**settings, **changes})
