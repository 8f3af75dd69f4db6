"""What differs between the versions of PySpark that are supported, in one place.

| | 3.5 | 4.0 and later |
|---|---|---|
| windows whose pages are in a store | yes | yes |
| a batch query's step | by pandas | by Arrow |
| ``spark://state`` | no: Spark has one value a key, and no map | yes |
| reading a checkpoint (inspect, check, gc) | no: Spark has no reader of its state | yes |
| streams with pyarrow 26 or later | no | from 4.0.5 and 4.1.4 on |
"""

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
from stores.errors import MissingDependency
from stores.installing import pip_install


def _numbers(version: str) -> tuple[int, ...]:
    """The major, minor and patch number of a version."""
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


OLDEST = 3, 5
#: The first pyarrow that not every PySpark can run streams with, and the first releases of PySpark,
#: of each minor version that has some without, that can.
GIVES_DOUBLES, TAKES_DOUBLES = 26, ((4, 0, 5), (4, 1, 4))
#: The version of PySpark that is installed; of Spark Connect that of the client.
INSTALLED = _numbers(pyspark.__version__)[:2]

if INSTALLED < OLDEST:
    raise MissingDependency(
        f"PySpark {pyspark.__version__} is installed, and 3.5 or later is needed: "
        f"{pip_install('spark')}"
    )

try:
    import pyarrow as pa
except ImportError as error:  # pyarrow 26 and numpy 1, which PySpark 3.5 asks for
    raise MissingDependency(f"{error}: pip install 'pyarrow<{GIVES_DOUBLES}'") from error

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


def check_pyarrow(spark: str, pyarrow: str) -> None:
    """Raises InvalidRequest if a stream with its pages in a store fails with this pyarrow.

    From 26 on pyarrow makes doubles of the integers of a struct that has nulls, for pandas.
    Older versions of PySpark expect integers there, in ``applyInPandasWithState``, and fail
    with "'float' object cannot be interpreted as an integer".
    """
    release = _numbers(spark)
    mended = next((each for each in TAKES_DOUBLES if each[:2] == release[:2]), TAKES_DOUBLES[0])
    if release < mended and _numbers(pyarrow)[0] >= GIVES_DOUBLES:
        later = " or ".join(".".join(map(str, each)) for each in TAKES_DOUBLES)
        raise InvalidRequest(
            f"streams of PySpark {spark} fail with pyarrow {pyarrow}, which Spark's workers have: "
            f"pip install 'pyarrow<{GIVES_DOUBLES}' there, or update to PySpark {later}"
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
