"""The Spark session of the examples."""

from tests.support.spark.session import spark

__all__ = ["spark"]
