"""One local Spark session for all tests of this folder, and rows to feed it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from tests.support.spark.session import spark

__all__ = ["spark"]


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"file://{tmp_path}/pages"
