"""What the service answers is what lists of the same events say."""

from __future__ import annotations

from io import BytesIO
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from mta import Count, CountWindow, KeyedWindows, Max, Mean, Product, Sum, TimeWindow, Window
from mta.aggregations import CheckedSum
from mta.frames import SinceMax
from mta.serve.answers import ARROW
from tests.serve.conftest import KEYS, LAST, Published
from tests.support.published import agrees
from tests.support.sampling import some
from tests.support.serving import Served, path


@pytest.mark.sample(1)
@pytest.mark.parametrize("at", [LAST, LAST - 100, LAST - 349.5, LAST + 50, LAST + 10_000])
def test_a_key_has_the_results_of_a_list_at_a_moment(
    at: float, published: Published, served: Served
) -> None:
    for key in KEYS:
        answer = served.get(f"{path(key)}?at={at}").json
        assert answer["key"] == key
        assert agrees(answer["values"], published.lists.query(key, at=int(at)))


def test_a_key_without_a_moment_has_those_of_its_newest_event(
    published: Published, served: Served
) -> None:
    for key in KEYS:
        newest = published.lists.events[key][-1][0]
        answer = served.get(path(key)).json
        assert answer["at"] is None
        assert agrees(answer["values"], published.lists.query(key, at=newest))


def test_many_keys_have_rows_in_their_order(published: Published, served: Served) -> None:
    keys = [KEYS[3], KEYS[0], KEYS[3], "nobody"]
    moments = [LAST, LAST - 10, "1970-01-01T02:46:00Z", LAST]
    answer = served.post({"keys": keys, "at": moments}).json
    assert answer["rows"] == 4
    for row, (key, at) in enumerate(zip(keys, [LAST, LAST - 10, 9960, LAST], strict=True)):
        found = {name: column[row] for name, column in answer["columns"].items()}
        assert agrees(found, published.lists.query(key, at=at))
    one = served.post({"keys": keys, "at": LAST}).json
    assert one["columns"]["total_hour"][:3:2] == [answer["columns"]["total_hour"][0]] * 2


def test_moments_are_written_in_several_ways(served: Served) -> None:
    same = [
        "10000",
        "10000.0",
        "1970-01-01T02:46:40Z",
        "1970-01-01T02:46:40",
        "1970-01-01 02:46:40",
    ]
    same += ["1970-01-01T03:46:40%2B01:00"]
    answers = [served.get(f"{path(KEYS[1])}?at={at.replace(' ', '%20')}").json for at in same]
    assert {answer["at"] for answer in answers} == {"1970-01-01T02:46:40Z"}
    assert all(answer == answers[0] for answer in answers)


def test_now_is_the_present(served: Served) -> None:
    values = served.get(f"{path(KEYS[1])}?at=now").json["values"]
    assert values["events_hour"] == 0


def test_events_are_those_of_the_list(published: Published, served: Served) -> None:
    events = published.lists.events[KEYS[2]]
    answer = served.get(f"/v1/events/{quote(KEYS[2], safe='')}?limit=7").json
    assert answer["columns"] == {"v": [value for _, value in events[-7:]]}
    times = np.array([time for time, _ in events[-7:]], "M8[s]").astype("M8[us]")
    assert answer["times"] == [f"{time}Z" for time in times.astype("M8[s]")]


def test_arrow_has_what_json_has(served: Served) -> None:
    ipc = pytest.importorskip("pyarrow.ipc")
    body = {"keys": KEYS, "at": LAST}
    answer = served.post(body, accept=ARROW)
    assert answer.headers["content-type"] == ARROW
    table = ipc.open_stream(BytesIO(answer.body)).read_all()
    assert table.to_pydict() == served.post(body).json["columns"]
    one = ipc.open_stream(BytesIO(served.get(path(KEYS[0]), accept=ARROW).body)).read_all()
    assert one.to_pylist() == [served.get(path(KEYS[0])).json["values"]]
    events = served.get(f"/v1/events/{quote(KEYS[2], safe='')}", accept=ARROW).body
    assert ipc.open_stream(BytesIO(events)).read_all().column_names == ["time", "v"]


def test_nulls_are_null_in_every_form(folder: str) -> None:
    ipc = pytest.importorskip("pyarrow.ipc")
    totals = Product({"rows": Count(), "total": ("v", Sum("int64")), "mean": ("v", Mean())})
    windows = KeyedWindows(totals, CountWindow(3), folder, name="w", nulls="skip")
    windows.publish("nulls")
    windows.extend(["a", "b"], {"v": np.ma.MaskedArray([7, 7], [False, True])})
    windows.checkpoint()
    expected = {"rows": [1, 1, 0], "total": [7, None, None], "mean": [7.0, None, None]}
    with Served(folder, "nulls") as service:
        assert service.post({"keys": ["a", "b", "nobody"]}).json["columns"] == expected
        table = service.post({"keys": ["a", "b", "nobody"]}, accept=ARROW).body
        assert ipc.open_stream(BytesIO(table)).read_all().to_pydict() == expected
        for row, key in enumerate(["a", "b", "nobody"]):
            values = {name: column[row] for name, column in expected.items()}
            assert service.get(f"/v1/windows/{key}").json["values"] == values
        assert service.get("/v1/events/b").json["columns"] == {"v": [None]}


def test_another_form_is_not_acceptable(served: Served) -> None:
    assert served.get(path(KEYS[0]), accept="text/html").problem == "NotAcceptable"
    assert served.get("/v1/status", accept="image/*, text/html;q=0.5").problem == "NotAcceptable"
    assert served.get("/v1/status", accept="text/html, */*;q=0.1").status == 200


def test_the_status_says_what_is_served(published: Published, served: Served) -> None:
    status = served.get("/v1/status").json
    assert status["name"] == published.name
    assert status["keys"] == len(KEYS)
    assert status["events"] == sum(map(len, published.lists.events.values()))
    assert status["key_columns"] == [{"name": "key", "type": "text"}]
    assert [(each["name"], each["seconds"]) for each in status["windows"]] == [
        ("minute", 60), ("hour", 3600)
    ]  # fmt: skip
    assert set(status["columns"]) == set(served.get(path(KEYS[0])).json["values"])
    assert status["store_answers"] and status["incomplete"] == []
    history = served.get("/v1/history").json
    assert history.keys() == {"at", "batch", "lag_seconds", "keys", "events"}
    assert history["keys"][-1] > 0


def test_metrics_count_requests(served: Served) -> None:
    def count() -> float:
        text = served.get("/metrics").body.decode()
        line = 'mta_serve_requests_total{path="/v1/windows/{key}",status="200"} '
        return float(next(each for each in text.splitlines() if each.startswith(line)).split()[-1])

    served.get(path(KEYS[0]))
    before = count()
    served.get(path("nobody"))
    assert count() == before + 1
    assert f"mta_serve_keys {float(len(KEYS))}" in served.get("/metrics").body.decode()


KINDS: list[tuple[list[Any], str, Any, str]] = [
    ([np.datetime64("2026-01-31"), np.datetime64("2026-02-01")], "2026-01-31", "2026-01-31", "31"),
    ([("north, old", 7), ("n/s", -1)], "north%2C%20old,7", ["north, old", 7], "%FF"),
    ([b"\x00\xff", b"a"], "AP8%3D", "AP8=", "%00"),
    ([True, False], "true", True, "True"),
    ([7, -3], "7", 7, "seven"),
    ([1.5, -2.0], "1.5", 1.5, "x"),
]


@pytest.mark.parametrize(("keys", "in_path", "in_json", "wrong"), some(KINDS, by_default=3))
def test_keys_of_other_types(
    keys: list[Any], in_path: str, in_json: Any, wrong: str, folder: str
) -> None:
    windows = KeyedWindows(Max(), CountWindow(3), folder, name="w")
    windows.publish("typed")
    windows.extend(keys if isinstance(keys[0], tuple) else np.array(keys, _dtype(keys)), [4.0, 5.0])
    windows.checkpoint()
    with Served(folder, "typed") as service:
        answer = {"key": in_json, "at": None, "values": {"value": 4.0}}
        assert service.get(f"/v1/windows/{in_path}").json == answer
        assert service.post({"keys": [in_json]}).json["columns"] == {"value": [4.0]}
        assert service.get(f"/v1/windows/{wrong}").problem == "UnsuitableKey"
        assert service.post({"keys": [None]}).problem == "UnsuitableKey"
        assert service.get(f"/v1/windows/{in_path}?at=5").problem == "InvalidTime"


def _dtype(keys: list[Any]) -> Any:
    return object if isinstance(keys[0], bytes) else None


def test_windows_without_keys(folder: str) -> None:
    several, minute = Product({"top": ("v", Max()), "mean": ("v", Mean())}), TimeWindow("1 minute")
    with Window(several, minute, folder, name="w", allowed_lateness="1 hour") as window:
        window.publish("single")
        window.extend({"v": [1.0, 7.0, 3.0]}, [0, 30, 100])
        window.checkpoint()
        with Served(folder, "single") as service:
            assert service.get("/v1/windows").json["values"] == {"top": 3.0, "mean": 3.0}
            assert service.get("/v1/windows?at=40").json["values"] == {"top": 7.0, "mean": 4.0}
            columns = service.post({"at": [40, 20]}).json["columns"]
            assert columns == {"top": [7.0, 1.0], "mean": [4.0, 1.0]}
            assert service.get("/v1/events").json["columns"] == {"v": [1.0, 7.0, 3.0]}
            assert service.get("/v1/windows/key").problem == "UnsuitableKey"
            assert service.post({"keys": ["a"], "at": [1]}).problem == "InvalidRequest"
            assert "/v1/windows" in service.get("/openapi.json").json["paths"]


def test_moments_of_windows_that_look_at_values_are_refused(folder: str) -> None:
    windows = KeyedWindows(Max(), SinceMax(), folder, name="w", timed=True)
    windows.publish("maxima")
    windows.extend(["a"], [1.0], [0])
    windows.checkpoint()
    with Served(folder, "maxima") as service:
        assert service.get("/v1/windows/a").json["values"] == {"value": 1.0}
        assert service.get("/v1/windows/a?at=9").problem in ("UnsupportedOperation", "")


def test_what_has_left_is_gone_unless_a_part_will_do(folder: str) -> None:
    windows = KeyedWindows(Max(), TimeWindow("1 minute"), folder, name="w")
    windows.publish("in-order")
    windows.extend(["a"] * 4, [9.0, 1.0, 2.0, 3.0], [0, 100, 200, 210])
    windows.checkpoint()
    with Served(folder, "in-order") as service:
        assert service.get("/v1/windows/a?at=110").problem == "EventsGone"
        assert service.post({"keys": ["b", "a"], "at": [110, 110]}).problem == "EventsGone"
        assert service.get("/v1/windows/a?at=205&partial=true").json["values"] == {"value": 2.0}
        part = service.post({"keys": ["a"], "at": 205, "partial": True}).json
        assert part["columns"] == {"value": [2.0]}


def test_a_name_that_is_not_published_ends_the_command(on_disk: Published, folder: str) -> None:
    with pytest.raises(RuntimeError, match="nothing is published as 'nothing'"):
        Served(on_disk.store, "nothing")
    with pytest.raises(RuntimeError, match="there is no store"):
        Served(folder, "nothing")


def test_a_sum_that_does_not_fit_at_a_moment_is_named(folder: str) -> None:
    windows = KeyedWindows(CheckedSum("int64"), TimeWindow("1 minute"), folder, name="w")
    windows.publish("sums")
    large = 2**62
    windows.extend(["a"] * 3, np.array([-large, large, large]), [0, 30, 40])
    windows.checkpoint()
    with Served(folder, "sums") as service:
        assert service.get("/v1/windows/a").json["values"] == {"value": large}
        for found in (
            service.get("/v1/windows/a?at=70"), service.post({"keys": ["a"], "at": [70]})
        ):  # fmt: skip
            assert (found.status, found.problem) == (422, "ResultOutOfRange")
