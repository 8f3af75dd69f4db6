"""One local Spark session for the tests that need one."""

from __future__ import annotations

from tests.support.spark.session import spark

__all__ = ["spark"]
