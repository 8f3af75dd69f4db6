"""Windows that are published to a real Redis or to a folder, and a service of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

pytest.importorskip("starlette", reason="NOT TESTED: mta serve, as the extra serve is missing")

from mta import KeyedWindows, TimeWindow
from tests.support.published import Lists, aggregations
from tests.support.servers import redis_url
from tests.support.serving import Served

__all__ = ["redis_url"]
#: The newest event is at this time, in seconds.
LAST = 10_000
KEYS = [f"card {number}/{number}, ü" for number in range(8)]


class Published:
    """Windows that go on, the same events in lists, and where they are published."""

    def __init__(self, store: str) -> None:
        self.store, self.name = store, f"cards-{uuid4().hex[:8]}"
        frames = {"minute": TimeWindow("1 minute"), "hour": TimeWindow("1 hour")}
        self.lists, name = Lists(frames), f"w{uuid4().hex[:8]}"
        self.windows = KeyedWindows(
            aggregations(), frames, store, name=name, allowed_lateness="2 hours"
        )
        self.windows.publish(self.name)
        self.add(
            [(key, LAST - 7 * n, n * place) for place, key in enumerate(KEYS) for n in range(50)]
        )

    def add(self, events: list[tuple[str, int, int]]) -> None:
        """Add and publish events: key, time, value."""
        events = sorted(events, key=lambda event: event[1])
        keys, times, values = (list(column) for column in zip(*events, strict=True))
        self.windows.extend(keys, {"v": values}, times)
        for event in events:
            self.lists.add(*event)
        self.windows.checkpoint()


@pytest.fixture(scope="session", params=["redis", "file"])
def published(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Published:
    if request.param == "redis":
        pytest.importorskip("redis")
        return Published(request.getfixturevalue("redis_url"))
    return Published(f"file://{tmp_path_factory.mktemp('pages')}")


@pytest.fixture(scope="session")
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> Published:
    return Published(f"file://{tmp_path_factory.mktemp('pages')}")


@pytest.fixture(scope="session")
def served(published: Published) -> Iterator[Served]:
    with Served(published.store, published.name, "--refresh", "50 ms") as service:
        yield service


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return f"file://{tmp_path}"
