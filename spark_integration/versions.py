"""What differs between the versions of PySpark that are supported, in one place."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas import types
from pyspark.sql.types import DataType, StructType

#: From 4.2 on times without a zone need a word; before, they are UTC unless one says otherwise.
_IN_UTC: dict[str, Any] = (
    {"timezone": "UTC"} if "timezone" in signature(types.to_arrow_type).parameters else {}
)


def arrow_type(kind: DataType) -> pa.DataType:
    """The Arrow type of a column; times are UTC."""
    return types.to_arrow_type(kind, **_IN_UTC)


def arrow_schema(fields: StructType) -> pa.Schema:
    """The Arrow schema of a DataFrame; times are UTC."""
    return types.to_arrow_schema(fields, **_IN_UTC)
