"""``mta serve --config``: events, checks and limits over HTTP, and who may send them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mta import KeyedWindows, Sum, TimeWindow, open_published
from tests.service.conftest import DECLARED
from tests.support.patience import LONG
from tests.support.services import Serving
from tests.support.serving import TOKEN

WRITE_TOKEN = "another-token-of-32-characters-or-more"


def declared_in(folder: Path, name: str = "spend", settings: str = "") -> Path:
    text = DECLARED.replace("NAME", name).replace("STORE", f"file://{folder / 'pages'}")
    path = folder / f"{name}.toml"
    path.write_text(text.replace("SHARDS", "3").replace("SETTINGS", settings))
    return path


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("service")
    path = declared_in(folder, settings='snapshot_every = "100 ms"')
    with Serving(path, "--workers", "2", "--refresh", "50 ms", create=True) as running:
        running.wait_until_all_shards_are_owned()
        running.store = f"file://{folder / 'pages'}"  # type: ignore[attr-defined]
        yield running


def test_an_event_is_answered_with_the_aggregates_including_it(service: Serving) -> None:
    row = {"user": "one", "amount": 7, "id": "1"}
    first = service.add(row)
    assert first.status == 200
    assert first.json["values"] == {
        "spent_minute": 7, "requests_minute": 1, "spent_day": 7, "requests_day": 1,
    }  # fmt: skip
    assert service.add(row).body == first.body  # a retry
    assert service.add({**row, "id": "2"}).json["values"]["spent_day"] == 14


def test_rows_of_all_shards_are_judged_one_by_one(service: Serving) -> None:
    rows = [{"user": f"many {n % 20}", "amount": 40} for n in range(60)]
    for path, times in (("/v1/check", 1), ("/v1/check", 1), ("/v1/events", 1)):
        found = service.add(*rows, path=path).json
        assert (found["rows"], found["refused"]) == (60, 20 * times)
        assert [each.get("name") for each in found["results"]] == (
            [None] * 40 + ["LimitExceeded"] * 20
        )


def test_a_refused_event_has_the_values_and_when_it_fits(service: Serving) -> None:
    service.add({"user": "two", "amount": 90})
    found = service.add({"user": "two", "amount": 11})
    assert found.status == 409
    assert found.headers["content-type"] == "application/problem+json"
    problem = found.json
    assert problem["name"] == "LimitExceeded"
    assert (problem["limit"], problem["aggregate"], problem["at_most"]) == (
        "daily",
        "spent_day",
        100,
    )
    assert problem["values"]["spent_day"] == 101
    assert problem["fits_at"] > problem["time"]
    assert 86_000 < int(found.headers["retry-after"]) <= 86_400
    alone = service.add({"user": "two", "amount": 101})
    assert alone.json["fits_at"] is None
    assert "retry-after" not in alone.headers
    assert service.add({"user": "two", "amount": 10}).status == 200
    shown = service.get("/v1/limits").json
    assert [each["name"] for each in shown["limits"]] == ["daily", "rate"]


def test_lines_and_arrow(service: Serving) -> None:
    pa = pytest.importorskip("pyarrow")
    lines = b'{"user":"x","amount":1}\n\n{"user":"y","amount":200}\n'
    found = service.post(lines, "/v1/events", content_type="application/x-ndjson")
    answers = [json.loads(line) for line in found.body.splitlines()]
    assert [each.get("name") for each in answers] == [None, "LimitExceeded"]
    table, sink = pa.table({"user": ["x", "z"], "amount": [1, 500]}), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    arrow = "application/vnd.apache.arrow.stream"
    body = sink.getvalue().to_pybytes()
    found = service.post(body, "/v1/events", content_type=arrow)
    columns = pa.ipc.open_stream(found.body).read_all().to_pydict()
    assert columns["refused"] == [None, "daily"]
    assert columns["spent_day"] == [2, 500]
    as_json = service.post(body, "/v1/check", content_type=arrow, accept="application/json").json
    assert as_json["refused"] == 1


@pytest.mark.parametrize(
    ("body", "name", "said"),
    [
        (b"{", "InvalidRequest", "not JSON"),
        (b"[]", "InvalidRequest", "at least one"),
        ([{"user": "a", "amount": 1}, 3], "InvalidRequest", "row 1"),
        ({"user": "a", "amount": 1.5}, "InvalidRequest", "amount must be of type int"),
        ({"user": "a"}, "InvalidRequest", "amount"),
        ({"user": "a", "amount": 2**70}, "InvalidRequest", "amount"),
        ({"user": "a", "amount": 1, "when": 3}, "InvalidRequest", "no column 'when'"),
        ({"user": "a", "amount": 1, "id": ""}, "InvalidRequest", "id is text"),
        ({"user": 7, "amount": 1}, "UnsuitableKey", "user"),
        ({"amount": 1}, "UnsuitableKey", "user"),
        ({"user": "a" * 5000, "amount": 1}, "UnsuitableKey", "characters"),
    ],
)
def test_what_is_wrong_with_a_request(service: Serving, body: Any, name: str, said: str) -> None:
    for path in ("/v1/events", "/v1/check"):
        found = service.post(body, path)
        assert (found.status, found.problem) == (400, name)
        assert said in found.json["detail"]


def test_requests_that_are_no_events(service: Serving) -> None:
    assert service.post(b"x", "/v1/events", content_type="text/plain").status == 415
    assert service.get("/v1/check").status == 405
    many = b"[" + b",".join([b'{"user":"a","amount":1}'] * 20_000) + b"]"
    assert service.post(many, "/v1/events").problem == "TooManyKeys"
    assert service.post(b" " * (2 << 20), "/v1/events").problem == "BodyTooLarge"


def test_readers_see_the_same_windows(service: Serving) -> None:
    assert service.add(*[{"user": f"read {n}", "amount": n} for n in range(10)]).status == 200
    store = service.store  # type: ignore[attr-defined]
    deadline = time.monotonic() + LONG
    with open_published(store, "spend", refresh="10 ms") as reader:
        while True:
            found = reader.query([f"read {n}" for n in range(10)])
            if found["spent_day"].tolist() == list(range(10)):
                break
            assert time.monotonic() < deadline
            time.sleep(0.05)
    while service.get("/v1/windows/read%203").json["values"]["spent_day"] != 3:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert service.get("/v1/events/read%203").json["columns"] == {"amount": [3]}


def test_the_api_is_described_and_counted(service: Serving) -> None:
    paths = service.get("/openapi.json").json["paths"]
    body = paths["/v1/events"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["anyOf"][0]["properties"].keys() == {"user", "amount", "id"}
    assert "409" in paths["/v1/events"]["post"]["responses"]
    assert "get" in paths["/v1/events/{key}"]
    metrics = service.get("/metrics").body.decode()
    assert "mta_serve_own_shards" in metrics
    assert "mta_serve_waiting_events" in metrics


def test_no_key_has_two_writers(service: Serving, tmp_path: Path) -> None:
    store = service.store  # type: ignore[attr-defined]
    windows = KeyedWindows(Sum(), TimeWindow("1 hour"), store, name="mine")
    with pytest.raises(ValueError, match="'service:spend' publishes under the name 'spend'"):
        windows.publish("spend")
    windows.publish("taken")
    windows.extend(["a"], [1.0], [0])
    windows.checkpoint()
    text = declared_in(tmp_path, "taken").read_text()
    path = tmp_path / "other.toml"
    path.write_text(text.replace(f"file://{tmp_path / 'pages'}", store))
    with pytest.raises(RuntimeError, match="'taken' is what 'mine' publishes: a key has one"):
        Serving(path, create=True)
    path.write_text(
        path.read_text().replace('"taken"', '"spend"').replace("shards = 3", "shards = 4")
    )
    with pytest.raises(RuntimeError, match="spend was created with other"):
        Serving(path, create=True)


def test_windows_must_be_created(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="--create"):
        Serving(declared_in(tmp_path))


def test_options_that_exclude_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from mta.cli import main

    path = str(declared_in(tmp_path))
    for given, said in (
        (["name", "--config", path], "leave out both"),
        (["--config", path, "--store", "memory://"], "leave out both"),
        (["name", "--create"], "--create needs --config"),
        ([], "a published name"),
        (["--config", str(tmp_path / "none")], "No such file"),
    ):
        assert main(["serve", *given]) == 2
        assert said in capsys.readouterr().err


def test_tokens_for_writing_and_for_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MTA_SERVE_WRITE_TOKEN", WRITE_TOKEN)
    row = {"user": "a", "amount": 1}
    with Serving(declared_in(tmp_path), create=True, token=TOKEN) as service:
        writer = {"authorization": f"Bearer {WRITE_TOKEN}"}
        assert service.add(row).problem == "Unauthorized"
        assert service.add(row, **writer).status == 200
        assert service.add(row, path="/v1/check").status == 200
        assert service.add(row, path="/v1/check", **writer).problem == "Unauthorized"
        assert service.get("/v1/limits").status == 200
        assert service.ask("GET", "/v1/limits", None, **writer).problem == "Unauthorized"


def test_a_stopped_service_continues_where_it_was(tmp_path: Path) -> None:
    path = declared_in(tmp_path)
    for turn in range(3):
        with Serving(path, create=True) as service:
            found = service.add({"user": "a", "amount": 2, "id": f"{turn}"})
            assert found.json["values"]["spent_day"] == 2 * (turn + 1)
            again = service.add({"user": "a", "amount": 2, "id": "0"})
            assert again.json["values"]["spent_day"] == 2
            _, errors = service.stop()
            assert "Traceback" not in errors


def test_a_store_that_was_emptied_refuses_unless_declared_otherwise(tmp_path: Path) -> None:
    from stores import open_store

    for settings, status in (("", 503), ('on_unavailable = "admit"', 200)):
        folder = tmp_path / str(status)
        folder.mkdir()
        with Serving(declared_in(folder, settings=settings), create=True) as service:
            assert service.add({"user": "a", "amount": 99}).status == 200
            with open_store(f"file://{folder / 'pages'}") as store:
                store.delete_many(list(store.keys()))
            deadline = time.monotonic() + LONG
            while (found := service.add({"user": "a", "amount": 99})).status == 409:
                assert time.monotonic() < deadline
            assert found.status == status
            assert found.problem == ("LostRecords" if status == 503 else "")
            if status == 200:
                assert found.json["values"] is None
