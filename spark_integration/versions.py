"""The differences between the versions of PySpark that docs/install.md lists, in one place."""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import signature
from typing import Any

import pandas as pd
import pyspark
from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import types as T
from pyspark.sql.pandas import types

from spark_integration.errors import InvalidRequest
from stores.errors import MissingDependency, pip_install


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


OLDEST = 3, 5
#: The first version of pyarrow with which streams of some PySpark releases fail, and the first
#: releases of PySpark, of the affected minor versions, that work with it.
GIVES_DOUBLES, TAKES_DOUBLES = 26, ((4, 0, 5), (4, 1, 4))
#: The installed version of PySpark; with Spark Connect, that of the client.
INSTALLED = _numbers(pyspark.__version__)[:2]

if INSTALLED < OLDEST:
    raise MissingDependency(
        f"PySpark {pyspark.__version__} is installed, but 3.5 or later is needed: "
        f"{pip_install('spark')}"
    )

try:
    import pyarrow as pa
except ImportError as error:  # pyarrow 26 with numpy 1, which PySpark 3.5 requires
    raise MissingDependency(f"{error}: pip install 'pyarrow<{GIVES_DOUBLES}'") from error

#: From 4.2 on, the conversion needs a time zone; before, times are UTC by default.
_IN_UTC: dict[str, Any] = (
    {"timezone": "UTC"} if "timezone" in signature(types.to_arrow_type).parameters else {}
)

#: The class that writes checkpoint files through Hadoop's older interface.
BY_FILE_SYSTEM = (
    "org.apache.spark.sql.execution.streaming."
    + ("checkpointing." if INSTALLED >= (4, 1) else "")
    + "FileSystemBasedCheckpointFileManager"
)


def check_pyarrow(spark: str, pyarrow: str) -> None:
    """Raises InvalidRequest if a stream with its pages in a store fails with this pyarrow.

    From version 26 on, pyarrow converts the integers of a struct that has nulls into doubles for
    pandas. Older versions of PySpark expect integers there, in ``applyInPandasWithState``, and fail
    with "'float' object cannot be interpreted as an integer".
    """
    release = _numbers(spark)
    mended = next((each for each in TAKES_DOUBLES if each[:2] == release[:2]), TAKES_DOUBLES[0])
    if release < mended and _numbers(pyarrow)[0] >= GIVES_DOUBLES:
        later = " or ".join(".".join(map(str, each)) for each in TAKES_DOUBLES)
        raise InvalidRequest(
            f"streams of PySpark {spark} fail with pyarrow {pyarrow}, which Spark's workers use: "
            f"run pip install 'pyarrow<{GIVES_DOUBLES}' for the workers, or update to PySpark "
            f"{later}"
        )


def require_spark_4(what: str, otherwise: str) -> None:
    """Raises InvalidRequest, which says what to do ``otherwise``, if PySpark is older than 4.0."""
    if INSTALLED < (4, 0):
        raise InvalidRequest(
            f"{what} needs PySpark 4.0 or later, but {pyspark.__version__} is installed: "
            f"update it, or {otherwise}"
        )


def arrow_type(kind: T.DataType) -> pa.DataType:
    """Return the Arrow type of a column; times are UTC."""
    return types.to_arrow_type(kind, **_IN_UTC)


def arrow_schema(fields: T.StructType) -> pa.Schema:
    """Return the Arrow schema of a DataFrame; times are UTC."""
    return types.to_arrow_schema(fields, **_IN_UTC)


def type_of(ddl: str) -> T.DataType:
    """Return the type that a DDL text describes."""
    if hasattr(T.DataType, "fromDDL"):
        return T.DataType.fromDDL(ddl)
    parse: Callable[[str], T.DataType] = T._parse_datatype_string
    return parse(ddl)


def apply_in_arrow(
    groups: GroupedData, function: Callable[[pa.Table], pa.Table], schema: str
) -> DataFrame:
    """Apply a function to each group's rows as an Arrow table."""
    if hasattr(groups, "applyInArrow"):
        return groups.applyInArrow(function, schema)

    def by_pandas(rows: pd.DataFrame) -> pd.DataFrame:
        return function(pa.Table.from_pandas(rows, preserve_index=False)).to_pandas()

    return groups.applyInPandas(by_pandas, schema)
