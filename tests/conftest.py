"""Fixtures that every suite may use."""

import sys
from pathlib import Path

import pytest

# The folder ``tests/stores`` must not be taken for the package, whichever way pytest was started.
sys.path.insert(0, str(Path(__file__).parents[1]))
pytest.register_assert_rewrite("stores.conformance", "stores.conformance_pages")

from servers import (  # noqa: E402
    own_redis,
    redis_cluster_url,
    redis_tls,
    redis_url,
    redis_with_password,
)

__all__ = ["own_redis", "redis_cluster_url", "redis_tls", "redis_url", "redis_with_password"]
