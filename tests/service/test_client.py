"""``mta.client.Client``: answers, refusals, and retries that count once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mta.client import AsyncClient, Client, RequestRefused
from stores.errors import StoreUnavailable
from tests.service.test_service import declared_in
from tests.support.documents import DOCS, blocks
from tests.support.servers import free_port
from tests.support.services import Serving

httpx = pytest.importorskip(
    "httpx", reason="NOT TESTED: mta.client.Client: pip install '.[client]'"
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(declared_in(tmp_path_factory.mktemp("client")), create=True) as running:
        running.wait_until_all_shards_are_owned()
        yield running


def lossy() -> Any:
    """A network that loses requests and answers in turn."""
    real, turns = httpx.HTTPTransport(), count(1)

    def send(request: Any) -> Any:
        turn = next(turns) % 3
        if turn == 1:
            raise httpx.ConnectError("lost on the way", request=request)
        answer = httpx.Client(transport=real).send(request)
        if turn == 2:
            raise httpx.ReadError("the answer is lost", request=request)
        return httpx.Response(answer.status_code, content=answer.content)

    return httpx.MockTransport(send)


def test_answers(service: Serving) -> None:
    with Client(service.url) as client:
        first = client.add({"user": "one", "amount": 90})
        assert first.accepted
        assert first.values["spent_day"] == 90
        assert first.time is not None
        assert abs((first.time - datetime.now(UTC)).total_seconds()) < 600
        asked = client.check([{"user": "one", "amount": 11}, {"user": "other", "amount": 1}])
        assert [each.accepted for each in asked] == [False, True]
        refused = client.add({"user": "one", "amount": 11})
        assert (refused.problem, refused.limit) == ("LimitExceeded", "daily")
        assert refused.values["spent_day"] == 101
        assert refused.fits_at is not None
        assert (refused.fits_at - first.time).total_seconds() == 86_400
        assert client.add([]) == []
        with pytest.raises(RequestRefused, match="no column 'name'"):
            client.add({"user": "one", "amount": 1, "name": "x"})


def test_lost_requests_and_answers_count_once(service: Serving) -> None:
    with Client(service.url) as client:
        client._http = httpx.Client(base_url=service.url, transport=lossy())
        found = [client.add({"user": "lossy", "amount": 2}).values["spent_day"] for _ in range(6)]
    assert found == [2, 4, 6, 8, 10, 12]


def test_event_loops(service: Serving) -> None:
    async def run() -> list[int]:
        async with AsyncClient(service.url) as client:
            rows = [{"user": "loop", "amount": 1} for _ in range(5)]
            found = await asyncio.gather(*(client.add(row) for row in rows))
            many = await client.add([{"user": "loops", "amount": 1}] * 3)
            assert (await client.check({"user": "loop", "amount": 1})).values["spent_day"] == 6
            return sorted(each.values["spent_day"] for each in [*found, *many])

    assert asyncio.run(run()) == [1, 1, 2, 2, 3, 3, 4, 5]


def test_without_a_service() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with Client(url, retry_for=0.2) as client, pytest.raises(StoreUnavailable, match="not answer"):
        client.add({"user": "a", "amount": 1})


class Frame:
    """A batch of a Spark stream."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def toLocalIterator(self) -> Iterator[Any]:  # noqa: N802
        class Row:
            def __init__(self, row: dict[str, Any]) -> None:
                self.asDict = lambda: row

        return iter([Row(row) for row in self.rows])


def test_a_repeated_batch_of_a_stream_counts_once(service: Serving) -> None:
    rows = [{"user": "spark", "amount": amount} for amount in (1, 1, 2)]
    with Client(service.url) as client:
        sink = client.sink("stream")
        for batch, events in ((0, rows), (0, rows[::-1]), (1, rows), (1, rows)):
            sink(Frame(events), batch)
        assert client.check({"user": "spark", "amount": 0}).values["spent_day"] == 8
        for sink in (client.sink("one"), client.sink("other")):
            sink(Frame([{"user": "both", "amount": 1}]), 0)
        assert client.check({"user": "both", "amount": 0}).values["spent_day"] == 2
        by_amount = client.sink("third", ["amount"])
        by_amount(Frame([{"user": "third", "amount": 5}]), 0)
        by_amount(Frame([{"user": "third", "amount": 5}]), 1)
        assert client.check({"user": "third", "amount": 0}).values["spent_day"] == 5


def test_the_path_of_the_declaration_is_named(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="No such file"):
        Serving(tmp_path / "missing.toml")


def test_the_page_of_the_documentation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = DOCS / "limits.md"
    (text,) = blocks(page, "toml")
    path = tmp_path / "limits.toml"
    path.write_text(text.replace("redis://localhost:6379/0", f"file://{tmp_path / 'pages'}"))
    with Serving(path, create=True) as service:
        found = service.add({"user": "a", "cents": 20, "id": "7f3a"}).json
        answer = next(line for line in page.read_text().splitlines() if line.startswith('{"time"'))
        assert found["values"] == json.loads(answer)["values"]
        (script,) = blocks(page, "python")
        for printed in ("20 of 2000 cents\n", "40 of 2000 cents\n"):
            exec(script.replace("http://localhost:8080", service.url), {})
            assert capsys.readouterr().out == printed
        with Client(service.url) as client:
            client.add({"user": "b", "cents": 1950})
        exec(script.replace("http://localhost:8080", service.url), {})
        assert capsys.readouterr().out.startswith("per_day is reached until ")
