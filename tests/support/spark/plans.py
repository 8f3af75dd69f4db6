"""A plan as the driver would make it, without Spark."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pyarrow as pa

from mta import CountWindow, Max, Product, Sum
from spark_integration.options import Options
from spark_integration.plan import Plan

#: What a plan has of its own under the name of an option, or beside the options.
_OF_PLANS = {field.name for field in fields(Plan)} - {"options"}


def make_plan(**changes: Any) -> Plan:
    """Peak and sum of ``watts`` over the last 100 events of each ``device``."""
    settings: dict[str, Any] = {
        "by": ("device",),
        "key_types": ("string",),
        "on": "ts",
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
    settings |= changes
    settings |= {"aggregations": settings["monoid"].aggregations}
    options = Options.of(**{name: settings[name] for name in settings if name not in _OF_PLANS})
    own = {name: settings[name] for name in settings if name in _OF_PLANS}
    return Plan(options=options, **own)


def changed(plan: Plan, **changes: Any) -> Plan:
    """A plan with some of its options or own fields changed."""
    own = {name: changes.pop(name) for name in _OF_PLANS & changes.keys()}
    return replace(plan, options=plan.options.changed(**changes), **own)
