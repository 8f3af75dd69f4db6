"""Fixtures that every suite may use."""

from collections.abc import Iterator

import pytest
from couchbase_server import Couchbase, MockServer, couchbase, mock_jar
from servers import (
    own_redis,
    redis_cluster_url,
    redis_container,
    redis_tls,
    redis_url,
    redis_with_password,
)

pytest.register_assert_rewrite(
    "stores.conformance", "stores.conformance_hooks", "stores.conformance_pages"
)

__all__ = [
    "own_redis",
    "redis_cluster_url",
    "redis_container",
    "redis_tls",
    "redis_url",
    "redis_with_password",
]


def pytest_configure(config: pytest.Config) -> None:
    """Leave the long runs out, unless ``-m`` says otherwise."""
    if not config.option.markexpr:
        config.option.markexpr = "not soak"


@pytest.fixture(scope="session")
def couchbase_server() -> Iterator[Couchbase]:
    """A Couchbase, real or mock, which the tests share."""
    pytest.importorskip("couchbase")
    with couchbase() as server:
        yield server


@pytest.fixture
def own_couchbase_mock() -> Iterator[MockServer]:
    """A mock for one test, to be frozen, killed and told to refuse."""
    pytest.importorskip("couchbase")
    server = MockServer(mock_jar())
    yield server
    server.stop()
