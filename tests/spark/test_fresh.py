"""What a fresh install of PySpark with the libraries of today does: it works, or says what to do.

``nox -s spark`` runs this file with the oldest versions of PySpark and what pip picks for
them, which may be libraries that cannot even be imported; so none of them is imported here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.support.sampling import REST
from tests.support.spark.session import quick_environment

#: More rows of a bucket than there are buckets in one micro-batch, where pyarrow 26 gives doubles.
JOB = """
import sys
try:
    from spark_integration import sliding_aggregate
except ImportError as error:
    print("refused:", error)
    raise SystemExit
from mta import Count, CountWindow
from pyspark.sql import SparkSession
from spark_integration.java import ensure_java

folder = sys.argv[1]
ensure_java()
builder = SparkSession.builder.master("local[1]")  # as users have it, but for partitions
spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
rows = spark.range(100).selectExpr("concat('d', id % 9) k", "double(id) t")
rows.repartition(4).write.parquet(folder + "/in")
stream = spark.readStream.schema(rows.schema).parquet(folder + "/in")
asked = dict(
    by="k", on="t", aggregations={"n": (None, Count())}, window=CountWindow(5), buckets=4,
    store="file://" + folder + "/pages",
)
print("batch:", sliding_aggregate(rows, **asked).where("n = 5").count())
try:
    windows = sliding_aggregate(stream, **asked)
except ValueError as error:
    print("refused:", error)
    raise SystemExit
writer = windows.writeStream.format("parquet").option("checkpointLocation", folder + "/checkpoint")
writer.trigger(availableNow=True).start(folder + "/out").awaitTermination()
print("stream:", spark.read.parquet(folder + "/out").where("n = 5").count())
"""


def numbers(library: str) -> tuple[int, ...]:
    return tuple(map(int, version(library).split(".")[:3]))


#: The newest PySpark works with what pip picks in all other tests.
pytestmark = [REST] if numbers("pyspark") >= (4, 1) else []


@pytest.mark.proves("PySpark", "streams with the newest pyarrow", "newest")
@pytest.mark.refuses("PySpark", "streams with the newest pyarrow", "3.5", "4.0")
def test_a_fresh_install(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", JOB, str(tmp_path)], cwd=Path(__file__).parents[2], text=True,
        capture_output=True, timeout=900,
        env={**os.environ, **quick_environment(), "PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip
    spark, pyarrow, numpy = map(numbers, ("pyspark", "pyarrow", "numpy"))
    mended = (4, 1, 4) if spark[:2] == (4, 1) else (4, 0, 5)
    said = done.stdout.splitlines()
    if pyarrow >= (26,) and numpy < (2,):
        assert len(said) == 1, done.stderr[-2000:]
        assert said[0].startswith("refused: pyarrow requires NumPy 2.0 or newer"), said
        assert said[0].endswith("pip install 'pyarrow<26'")
    elif pyarrow >= (26,) and spark < mended:
        assert said[0] == "batch: 64", done.stderr[-2000:]
        asked = f"refused: streams of PySpark {version('pyspark')} fail with pyarrow 2"
        assert said[1].startswith(asked), said
        assert "pip install 'pyarrow<26'" in said[1]
    else:
        assert said == ["batch: 64", "stream: 64"], done.stderr[-2000:]
