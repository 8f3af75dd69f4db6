"""The experiments of ``mta bench`` that need Spark, behind those of ``mta.bench``."""

from mta.bench import EXPERIMENTS as WITHOUT_SPARK

#: All experiments by name, in the report's order, and the module of each.
EXPERIMENTS = {
    **WITHOUT_SPARK,
    "pba_engine": "spark_integration.bench.engine",
    "spark": "spark_integration.bench.spark",
    "spark_keys": "spark_integration.bench.keys",
    "spark_public": "spark_integration.bench.public",
    "state_40mb": "spark_integration.bench.state",
    "state_1gb": "spark_integration.bench.state",
    "state_keys": "spark_integration.bench.state",
}
