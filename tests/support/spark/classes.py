"""A program that makes what lets the tests' Javas start and run quickly; ``home.py`` says how.

It is an archive of Spark's classes, as the queries of the tests load them, and a file system.
``make`` runs the program once for an environment; what is there stays. It takes a minute of the
processor's time, and each Java that a test starts with the archive takes some seconds less.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from zipfile import ZipFile

from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from mta import Count, CountWindow, Max
from spark_integration import sliding_aggregate
from spark_integration.java import ensure_java
from spark_integration.session import local_session
from tests.support.spark.home import CLASSES, FILES, FILES_CLASS, set_up_home
from tests.support.spark.session import QUICK

SOURCE = f"""
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class {FILES_CLASS} extends LocalFileSystem {{
    public {FILES_CLASS}() {{
        super(new Raw());
    }}

    public static class Raw extends RawLocalFileSystem {{
        public void setPermission(Path path, FsPermission permission) {{
        }}
    }}
}}
"""


def make_file_system(folder: Path) -> None:
    """Compile it with the compiler that Spark brings for its own, as a JRE has none."""
    gateway = launch_gateway(SparkConf(), {"stderr": subprocess.DEVNULL})
    java, source = gateway.jvm.java.io.File, folder / f"{FILES_CLASS}.java"
    source.write_text(SOURCE)
    compiler = gateway.jvm.org.codehaus.janino.CompilerFactory().newCompiler()
    compiler.setDestinationDirectory(java(str(folder)), False)
    sources = gateway.new_array(java, 1)
    sources[0] = java(str(source))
    compiler.compile(sources)
    gateway.proc.stdin.close()
    gateway.proc.wait(600)
    FILES.parent.mkdir(exist_ok=True)
    made = FILES.with_suffix(".part")
    with ZipFile(made, "w") as jar:
        for path in folder.glob("*.class"):
            jar.write(path, path.name)
    made.replace(FILES)


def load_classes(spark: SparkSession, folder: Path) -> None:
    """Run a batch and streams with their pages in a store and in Spark's state."""
    columns = "concat('d', id % 7) k", "timestamp_seconds(id) t", "double(id % 97) v"
    rows = spark.range(200).selectExpr(*columns)
    rows.write.parquet(f"{folder}/in")
    for at, store in enumerate((f"file://{folder}/pages", "spark://state")):
        stream = spark.readStream.schema(rows.schema).parquet(f"{folder}/in")
        for name, given in (("batch", rows), ("stream", stream.withWatermark("t", "1 minute"))):
            results = sliding_aggregate(
                given, by="k", on="t", aggregations={"peak": ("v", Max()), "n": (None, Count())},
                window=CountWindow(10), store=store, buckets=2,
            )  # fmt: skip
            if name == "batch":
                results.toPandas()
                continue
            writer = results.writeStream.trigger(availableNow=True).format("parquet")
            writer = writer.option("checkpointLocation", f"{folder}/checkpoint{at}")
            writer.start(f"{folder}/out{at}").awaitTermination()
            spark.read.parquet(f"{folder}/out{at}").orderBy("t").collect()


def main() -> None:
    if CLASSES.exists():
        return
    ensure_java()
    with tempfile.TemporaryDirectory() as folder:
        make_file_system(Path(folder))
    set_up_home()
    made = CLASSES.with_suffix(".part")
    java = f"{QUICK['spark.driver.extraJavaOptions']} -Xlog:disable -XX:ArchiveClassesAtExit={made}"
    conf = {**QUICK, "spark.driver.extraJavaOptions": java}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "spark.log")
        spark = local_session("classes", cores=2, memory="1g", log=log, conf=conf)
        gateway = spark.sparkContext._gateway
        load_classes(spark, Path(folder))
        spark.stop()
        gateway.proc.stdin.close()
        gateway.proc.wait(600)
    if made.exists():  # else this Java makes none
        made.replace(CLASSES)


if __name__ == "__main__":
    main()
