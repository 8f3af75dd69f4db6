"""Fixtures that every suite may use."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.couchbase_server import Couchbase, MockServer, couchbase, gocaves, mock_jar
from tests.support.order import begin_elsewhere, begin_with_the_longest, in_order
from tests.support.s3_server import go_s3, own_s3, s3_server
from tests.support.sampling import leave_out
from tests.support.servers import (
    black_hole,
    own_redis,
    redis_cluster_url,
    redis_tls,
    redis_url,
    redis_with_password,
)
from tests.support.spark.home import set_up_home

# Spark's Java hands its environment on to the Python workers, and starts once for all suites: they
# must find the packages, and the steps that the tests let them run.
TESTS = Path(__file__).parent
PATHS = [str(TESTS.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
os.environ["PYTHONPATH"] = os.pathsep.join(PATHS)
os.environ["PYSPARK_PYTHON"] = sys.executable
# The Javas of all tests together take a quarter of the processor's time.
set_up_home()

# How long an example takes is the machine's affair. In CI the examples are always the same: what
# stops a change is the change, and not the draw of that day.
settings.register_profile(
    "any",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,
)
settings.load_profile("any")

pytest.register_assert_rewrite("stores.testing.conformance")

__all__ = [
    "black_hole",
    "go_s3",
    "gocaves",
    "own_redis",
    "own_s3",
    "redis_cluster_url",
    "redis_tls",
    "redis_url",
    "redis_with_password",
    "s3_server",
]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """How many processes ``-n auto`` spreads the tests over; each may come to start a Java.

    Two more than cores: a test that waits for a Java or a server leaves its core to another.
    """
    # macOS and Windows do not say which of the machine's cores are a process's own.
    affinity = getattr(os, "sched_getaffinity", None)
    return min(4, 2 + (len(affinity(0)) if affinity else os.cpu_count() or 1))


def pytest_collection(session: pytest.Session) -> None:
    """What is collected stays, so that the garbage collector would look through it in vain."""
    gc.disable()
    if worker := getattr(session.config, "workerinput", None):
        number = int(worker["workerid"].removeprefix("gw"))
        paths = session.config.args
        session.config.args = begin_elsewhere(paths, number, worker["workercount"])


def pytest_collection_finish() -> None:
    """What is there before the tests stays, so that no collection need walk through it."""
    gc.freeze()
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    """Leave out the long runs, and what is outside a sample, unless ``-m`` says otherwise."""
    if not config.option.markexpr:
        config.option.markexpr = "not soak"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Let few combinations of parameters stand for many; then order what is to run."""
    leave_out(items)
    items[:] = in_order(items)
    yield  # tests are selected, by marks among others
    if hasattr(config, "workerinput"):
        items[:] = begin_with_the_longest(items, config.workerinput["workercount"])


@pytest.fixture(scope="session")
def couchbase_server() -> Iterator[Couchbase]:
    """A Couchbase, real or mock, which the tests share."""
    pytest.importorskip("couchbase")
    with couchbase() as server:
        yield server


@pytest.fixture
def own_couchbase_mock() -> Iterator[MockServer]:
    """A mock for one test, to be frozen, killed and made to refuse."""
    pytest.importorskip("couchbase")
    server = MockServer(mock_jar())
    yield server
    server.stop()
