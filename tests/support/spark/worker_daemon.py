"""Spark's daemon of Python workers, which has imported what they need before it forks them.

Each worker of Spark's own imports pandas, Arrow and the windows for itself, which is more than a
second of a core: for each that a session begins with, and for each after one that a failed task
took with it. What these imports start are a pool's threads, which no fork needs.
"""

from __future__ import annotations

import gc
from contextlib import suppress

from pyspark.daemon import manager

# A Python without a package says so in its workers, as without this module.
with suppress(ImportError):
    import spark_integration.runners.bucket
    import spark_integration.step.step  # noqa: F401

if __name__ == "__main__":
    gc.freeze()
    manager()
