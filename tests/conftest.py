"""Fixtures that every suite may use."""

import pytest

pytest.register_assert_rewrite("stores.conformance")

from servers import (  # noqa: E402
    own_redis,
    redis_cluster_url,
    redis_tls,
    redis_url,
    redis_with_password,
)

__all__ = ["own_redis", "redis_cluster_url", "redis_tls", "redis_url", "redis_with_password"]
