"""What differs between the versions of PySpark that are supported, in one place.

| | 3.5 | 4.0 and later |
|---|---|---|
| windows whose pages are in a store | yes | yes |
| a batch query's step | by pandas | by Arrow |
| ``spark://state`` | no: Spark has one value a key, and no map | yes |
| reading a checkpoint (inspect, check, gc) | no: Spark has no reader of its state | yes |
"""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import signature
from typing import Any

import pandas as pd
import pyarrow as pa
import pyspark
from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import types as T
from pyspark.sql.pandas import types

from spark_integration.errors import InvalidRequest
from stores.errors import MissingDependency
from stores.installing import pip_install

OLDEST = 3, 5
#: The version of PySpark that is installed; of Spark Connect that of the client.
INSTALLED = tuple(map(int, re.findall(r"\d+", pyspark.__version__)[:2]))

if INSTALLED < OLDEST:
    raise MissingDependency(
        f"PySpark {pyspark.__version__} is installed, and 3.5 or later is needed: "
        f"{pip_install('spark')}"
    )

#: From 4.2 on times without a zone need a word; before, they are UTC unless one says otherwise.
_IN_UTC: dict[str, Any] = (
    {"timezone": "UTC"} if "timezone" in signature(types.to_arrow_type).parameters else {}
)

#: What writes a checkpoint's files through Hadoop's older interface, for ``recommended_conf``.
BY_FILE_SYSTEM = (
    "org.apache.spark.sql.execution.streaming."
    + ("checkpointing." if INSTALLED >= (4, 1) else "")
    + "FileSystemBasedCheckpointFileManager"
)


def require_spark_4(what: str, otherwise: str) -> None:
    """Raises InvalidRequest, with what else can be done, where PySpark is older than 4.0."""
    if INSTALLED < (4, 0):
        raise InvalidRequest(
            f"{what} needs PySpark 4.0 or later, and {pyspark.__version__} is installed: "
            f"update it, or {otherwise}"
        )


def arrow_type(kind: T.DataType) -> pa.DataType:
    """The Arrow type of a column; times are UTC."""
    return types.to_arrow_type(kind, **_IN_UTC)


def arrow_schema(fields: T.StructType) -> pa.Schema:
    """The Arrow schema of a DataFrame; times are UTC."""
    return types.to_arrow_schema(fields, **_IN_UTC)


def type_of(ddl: str) -> T.DataType:
    """The type that a text of Spark's own language names."""
    if hasattr(T.DataType, "fromDDL"):
        return T.DataType.fromDDL(ddl)
    parse: Callable[[str], T.DataType] = T._parse_datatype_string
    return parse(ddl)


def apply_in_arrow(
    groups: GroupedData, function: Callable[[pa.Table], pa.Table], schema: str
) -> DataFrame:
    """A function of each group's rows as an Arrow table."""
    if hasattr(groups, "applyInArrow"):
        return groups.applyInArrow(function, schema)

    def by_pandas(rows: pd.DataFrame) -> pd.DataFrame:
        return function(pa.Table.from_pandas(rows, preserve_index=False)).to_pandas()

    return groups.applyInPandas(by_pandas, schema)
