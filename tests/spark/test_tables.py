"""A query whose source, a table of Delta or Iceberg, changes under it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.documents import ROOT
from tests.support.tables import package_of

#: What each format says of a column that is added while a query runs, and of deleted rows.
WORDS = {
    "delta": ("DELTA_SCHEMA_CHANGED_WITH_VERSION", "DELTA_SOURCE_IGNORE_DELETE"),
    "iceberg": ("", "Cannot process delete snapshot"),
}


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_source_table_that_changes_is_named_and_nothing_is_lost(
    kind: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.spark.table_session", kind, tmp_path,
         package_of(kind)],
        cwd=ROOT, capture_output=True, text=True, timeout=900,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    added, deleted = WORDS[kind]
    assert found["first"] == {"results": [1.0], "error": ""}
    assert found["added"] == {"results": [2.0], "error": ""}
    assert added in found["added while it runs"]["error"]
    # Whichever run gives it, the third result is there once.
    results = found["added while it runs"]["results"] + found["started again"]["results"]
    assert (results, found["started again"]["error"]) == ([3.0], "")
    assert deleted in found["deleted"]["error"] and not found["deleted"]["results"]
    assert found["dropped"]["error"].startswith("InvalidRequest: aggregations names column 'watts'")
