"""What the OpenAPI document says is what the service does, by schemathesis."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta import CountWindow, KeyedWindows, Max, Mean, Product, TimeWindow, Window
from mta.serve.answers import to_json
from mta.serve.requests import MOMENT_PATTERN, moment_of
from tests.support.contracts import check_operation
from tests.support.serving import TOKEN, Served

schemathesis = pytest.importorskip("schemathesis", reason="NOT TESTED: schemathesis is missing")

#: Operations of which a request can be wrong: in its body, its limit or its flag.
NEGATIVE = ("POST /v1/query", "GET /v1/events/{key}", "GET /v1/events")


@pytest.fixture(scope="module", params=["text", "columns", "nothing"])
def service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    store = f"file://{tmp_path_factory.mktemp('pages')}"
    several = Product({"top": ("v", Max()), "mean": ("v", Mean())})
    windows: KeyedWindows | Window
    if request.param == "nothing":
        windows = Window(several, TimeWindow("1 hour"), store, name="w", allowed_lateness=0)
        windows.publish("contract")
        windows.extend({"v": [1.0, 2.0]}, [0, 1])
    else:
        frames = {"hour": TimeWindow("1 hour"), "ten": CountWindow(10)}
        windows = KeyedWindows(several, frames, store, name="w", allowed_lateness=0)
        windows.publish("contract")
        keys = ["a", "b"] if request.param == "text" else [("a", 1), ("b", 2)]
        windows.extend(keys, {"v": [1.0, 2.0]}, [0, 1])
    windows.checkpoint()
    with Served(
        store, "contract", "--max-keys", "20", token=TOKEN if request.param == "text" else ""
    ) as found:
        yield found


@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_the_document_is_kept(mode: str, service: Served) -> None:
    """Requests as the document says, and others, have the answers that it says."""
    headers = {"Authorization": f"Bearer {TOKEN}"} if service.token else {}
    schema = schemathesis.openapi.from_url(f"{service.url}/openapi.json", headers=headers)
    operations = [each.ok() for each in schema.get_all_operations()]
    assert len(operations) == 7
    for operation in operations:
        if mode == "POSITIVE" or (operation.label in NEGATIVE and not service.token):
            check_operation(operation, getattr(schemathesis.GenerationMode, mode), headers)


TEXTS = st.from_regex(re.compile(MOMENT_PATTERN, re.ASCII), fullmatch=True)
ENDS = [
    "0002-01-01T00:00+23:59", "9998-12-28T23:59:59.999999-23:59", "9999999999.999999999",
    "-9999999999.999999999", "now",
]  # fmt: skip


@pytest.mark.parametrize("end", ENDS)
def test_the_ends_of_the_documented_moments_are_read(end: str) -> None:
    assert re.fullmatch(MOMENT_PATTERN, end)
    to_json(moment_of(end))


@given(TEXTS)
def test_every_documented_moment_is_read(text: str) -> None:
    to_json(moment_of(text))


def test_the_document_names_keys_and_columns(service: Served) -> None:
    document = service.get("/openapi.json").json
    assert document["openapi"].startswith("3.1")
    one = next(path for path in document["paths"] if path.startswith("/v1/windows"))
    answers = document["paths"][one]["get"]["responses"]["200"]["content"]
    columns = answers["application/json"]["schema"]["properties"]["values"]["properties"]
    assert list(columns) == service.get("/v1/status").json["columns"]
