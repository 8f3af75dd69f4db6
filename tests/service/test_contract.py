"""What the OpenAPI document says is what a service that takes events does, by schemathesis."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.service.test_service import declared_in
from tests.support.contracts import check_operation
from tests.support.services import Serving

schemathesis = pytest.importorskip("schemathesis", reason="NOT TESTED: schemathesis is missing")
WRITES = ("POST /v1/events", "POST /v1/check", "POST /v1/erase")


@pytest.fixture(scope="module", params=["clock", "time"])
def service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Serving]:
    """One key column and the server's clock, or two and the time of the event."""
    timed = request.param == "time"
    folder = tmp_path_factory.mktemp("contract")
    path = declared_in(folder, settings='time = "ts"' if timed else "")
    if timed:
        path.write_text(path.read_text().replace('user = "text"', 'user = "text", day = "date"'))
    with Serving(path, "--max-keys", "20", create=True) as found:
        found.wait_until_all_shards_are_owned()
        yield found


@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_the_document_is_kept(mode: str, service: Serving) -> None:
    schema = schemathesis.openapi.from_url(f"{service.url}/openapi.json")
    operations = {each.ok().label: each.ok() for each in schema.get_all_operations()}
    labels = (*WRITES, "GET /v1/limits") if mode == "POSITIVE" else WRITES
    for label in labels:
        found = check_operation(operations[label], getattr(schemathesis.GenerationMode, mode), {})
        assert (200 in found or 422 in found) == (mode == "POSITIVE"), (label, found)
