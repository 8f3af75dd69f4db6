"""Who may ask, from where, and what no answer and no log tells."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mta import KeyedWindows, Max, TimeWindow
from mta.cli.commands import CommandLine
from mta.cli.console import Exit
from mta.serve import logs
from mta.serve.settings import InvalidService, ServerSettings, checked
from tests.serve.conftest import Published
from tests.support.patience import LONG, in_time
from tests.support.servers import PASSWORD, PASSWORD_IN_URL, RedisServer, redis_with_password
from tests.support.serving import TOKEN, Answer, Served, status_line

__all__ = ["redis_with_password"]
OPEN = ["/", "/docs", "/static/page.js", "/static/page.css", "/healthz"]
PROTECTED = [
    "/v1/windows/a", "/v1/events/a", "/v1/status", "/v1/history", "/metrics", "/openapi.json",
    "/v1/query", "/v1/nothing",
]  # fmt: skip


@pytest.fixture(scope="module")
def secured(on_disk: Published) -> Iterator[Served]:
    with Served(on_disk.store, on_disk.name, "--host", "0.0.0.0", token=TOKEN) as service:
        yield service


@pytest.mark.parametrize("path", PROTECTED)
@pytest.mark.parametrize(
    "given",
    ["", "Bearer", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer é"],
)
def test_data_need_the_token(path: str, given: str, secured: Served) -> None:
    answer = secured.get(path, authorization=given)
    assert (answer.status, answer.problem) == (401, "Unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert TOKEN not in repr(answer)


def test_the_token_opens(secured: Served) -> None:
    assert secured.get("/v1/status").status == 200
    assert secured.get("/v1/status", authorization=f"bearer {TOKEN}").status == 200
    document = secured.get("/openapi.json").json
    assert document["components"]["securitySchemes"] == {
        "token": {"type": "http", "scheme": "bearer"}
    }


@pytest.mark.parametrize("path", OPEN)
def test_what_holds_no_data_is_open(path: str, secured: Served) -> None:
    assert secured.get(path, authorization="").status == 200


def test_hosts_that_others_reach_need_a_token() -> None:
    for host in ("0.0.0.0", "::", "192.168.1.5", "example.org", ""):
        settings = ServerSettings("n", "file:///pages", host=host)
        with pytest.raises(InvalidService, match="MTA_SERVE_TOKEN"):
            checked(settings, {})
        assert checked(settings, {"MTA_SERVE_TOKEN": TOKEN}).token == TOKEN
    assert (
        checked(ServerSettings("n", "file:///pages", host="0.0.0.0", insecure=True), {}).token
        is None
    )
    for host in ("127.0.0.1", "localhost", "::1", "127.8.9.1"):
        assert checked(ServerSettings("n", "file:///pages", host=host), {}).token is None


@pytest.mark.parametrize(
    "token", ["", "short", "with a space in its text", "ümlaut" * 4, "x" * 20 + "\n"]
)
def test_a_weak_token_is_refused(token: str) -> None:
    with pytest.raises(InvalidService, match="openssl rand"):
        checked(ServerSettings("n", "file:///pages"), {"MTA_SERVE_TOKEN": token})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--host", "0.0.0.0"], "set MTA_SERVE_TOKEN"),
        ([], "is published with --store"),
        (
            ["--store", "file:///nowhere", "--host", "300.0.0.1", "--insecure"],
            "there is no store",
        ),
    ],
)
def test_the_command_refuses_by_name(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.delenv("MTA_SERVE_TOKEN", raising=False)
    options = [each.replace("file:///nowhere", f"file://{tmp_path}") for each in options]
    if options[:1] == ["--host"]:
        options += ["--store", f"file://{tmp_path}"]
    assert CommandLine().run(["serve", "cards", *options]) == Exit.USAGE
    assert message in capsys.readouterr().err


def test_a_port_that_is_taken_is_named(on_disk: Published, secured: Served) -> None:
    with pytest.raises(RuntimeError, match=r"Address already in use\): choose another"):
        Served(on_disk.store, on_disk.name, "--port", str(secured.port))


HOSTS = {
    "ForbiddenHost": ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "",
                      "10.0.0.1"],
    "InvalidRequest": ["[", "localhost:80:80", "localhost:evil", "[::1]evil", "[::1",
                       "user@localhost", "localhost/", "127.0.0.1, evil.example", "localhost:99999",
                       "l\xf6calhost"],
    "": ["localhost", "127.0.0.1", "[::1]:8080", "LOCALHOST:1", "127.0.0.2:8080", "localhost:"],
}  # fmt: skip


@pytest.mark.parametrize("problem", HOSTS)
def test_hosts_of_requests_without_a_token(problem: str, on_disk: Published) -> None:
    with Served(on_disk.store, on_disk.name) as service:
        for host in HOSTS[problem]:
            assert service.get("/v1/status", host=host).problem == problem, host


def test_malformed_hosts_are_refused_with_a_token_too(secured: Served) -> None:
    for host in HOSTS["InvalidRequest"]:
        assert secured.get("/healthz", host=host).problem == "InvalidRequest", host
    for heads in (b"", b"Host: localhost\r\nHost: evil.example\r\n"):
        with closing(secured.connect()) as client:
            client.sendall(b"GET /healthz HTTP/1.1\r\n" + heads + b"\r\n")
            assert b" 400 " in status_line(client)


def test_other_local_addresses_answer_to_their_name(on_disk: Published) -> None:
    with Served(on_disk.store, on_disk.name, "--host", "127.0.0.2", host="127.0.0.2") as service:
        assert service.get("/v1/status").status == 200
        assert service.get("/v1/status", host="evil.example").problem == "ForbiddenHost"


def test_every_answer_forbids_browsers_to_load_or_guess(secured: Served) -> None:
    for answer in (*map(secured.get, OPEN), secured.get("/v1/status"), secured.get("/v1/nothing")):
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
        assert "unsafe" not in policy and "http" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in answer.headers
        assert "server" not in answer.headers
    assert secured.get("/v1/status").headers["cache-control"] == "no-store"


def test_the_page_names_no_other_host() -> None:
    folder = Path(__file__).parents[2] / "mta" / "serve" / "static"
    for file in folder.iterdir():
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "//" not in text.replace("// ", "").replace("location.origin", ""), file.name
        assert "style=" not in text and "onclick" not in text, file.name
        if file.suffix == ".html":
            assert "<style" not in text and "<script>" not in text


def test_no_answer_names_the_store(redis_with_password: RedisServer) -> None:
    pytest.importorskip("redis")
    port = redis_with_password.port
    store = f"redis://:{PASSWORD_IN_URL}@127.0.0.1:{port}/0?prefix=hidden-prefix:&timeout=0.3"
    windows = KeyedWindows(Max(), TimeWindow("1 minute"), store, name="cards")
    windows.publish("secret")
    windows.extend([f"k{number}" for number in range(5000)], [1.0] * 5000, [0] * 5000)
    windows.checkpoint()
    options = "--cache", "0", "--time-limit", "20 seconds"
    with Served(store, "secret", *options) as service:
        answers = [
            service.get("/v1/status"),
            service.get("/v1/windows/k1"),
            service.get("/metrics"),
        ]
        redis_with_password.freeze()
        try:
            with in_time():
                answers.append(service.get("/v1/windows/k4000"))
        finally:
            redis_with_password.thaw()
        assert answers[-1].problem in ("StoreUnavailable", "TimeLimitReached")
        _delete_pages(store)
        answers += [service.get("/v1/windows/k77"), service.get("/v1/events/k78")]
        assert answers[-1].problem == "WindowsUnreadable"
        answers += [service.get("/openapi.json"), service.get("/v1/windows/%ff"), service.get("/x")]
        out, errors = service.stop()
    for answer in answers:
        _assert_quiet(answer, str(port))
    assert PASSWORD not in out + errors and PASSWORD_IN_URL not in out + errors


def _delete_pages(store: str) -> None:
    from stores import open_store

    with open_store(store) as pages:
        pages.delete_many([key for key in pages.keys("") if not key.startswith("publish:")])
        pages.flush()


def _assert_quiet(answer: Answer, port: str) -> None:
    text = answer.body.decode() + repr(answer.headers)
    for secret in (PASSWORD, PASSWORD_IN_URL, "127.0.0.1", f":{port}", "redis", "hidden-prefix",
                   "Traceback", "/work", "site-packages"):  # fmt: skip
        assert secret not in text, f"{secret!r} in {text[:500]}"


def test_no_answer_names_the_folder(tmp_path: Path) -> None:
    published = Published(f"file://{tmp_path / 'hidden-folder'}")
    with Served(published.store, published.name) as service:
        answers = [service.get(path) for path in (*PROTECTED, *OPEN, "/v1/windows/%ff")]
    assert not any(b"hidden-folder" in answer.body for answer in answers)


def test_without_the_extra_the_command_says_what_to_install(tmp_path: Path) -> None:
    published = Published(f"file://{tmp_path}")
    code = "import sys; sys.modules['uvicorn'] = None; from mta.cli.commands import CommandLine; "
    code += (
        f"sys.exit(CommandLine().run({['serve', published.name, '--store', published.store]!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=LONG
    )
    assert done.returncode == Exit.USAGE
    assert "pip install '.[serve]'" in done.stderr


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_log_has_no_key_and_no_query(workers: str, on_disk: Published) -> None:
    options = "-v", "--workers", workers
    with Served(on_disk.store, on_disk.name, *options, token=TOKEN) as service:
        assert service.get("/v1/windows/secret-key?at=12345").status == 200
        assert service.get(f"/v1/windows/a?token={TOKEN}").problem == "InvalidRequest"
        assert service.get(f"/{TOKEN}").problem == "NotFound"
        out, errors = service.stop()
    assert "GET /v1/windows/{key}: 200 in " in errors
    for secret in ("secret-key", "12345", TOKEN):
        assert secret not in out + errors


@pytest.mark.parametrize("options", [[], ["-v"]])
def test_strangers_cannot_fill_the_log(options: list[str], on_disk: Published) -> None:
    with Served(on_disk.store, on_disk.name, *options) as service:
        for noise in (b"\x16\x03\x01", b"GET /#a HTTP/1.1\r\nHost: localhost\r\n\r\n",
                      b"GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
                      b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n"):  # fmt: skip
            for _ in range(300):
                with closing(service.connect()) as client:
                    client.sendall(noise)
                    status_line(client)
        out, errors = service.stop()
    assert len(out + errors) < (200_000 if options else 10_000)


def test_a_service_that_needs_more_files_than_allowed_says_so(on_disk: Published) -> None:
    with pytest.raises(RuntimeError, match=r"ulimit -n.*--max-connections"):
        Served(on_disk.store, on_disk.name, "--max-connections", "1000000000")


def test_ctrl_c_ends_it(on_disk: Published) -> None:
    service = Served(on_disk.store, on_disk.name)
    out, errors = service.stop(signal.SIGINT)
    assert service.process.returncode == Exit.INTERRUPTED
    assert f"look at   http://127.0.0.1:{service.port}/" in out
    assert not errors


def record(line: int, level: int, text: str = "client %s") -> logging.LogRecord:
    return logging.LogRecord("mta.serve", level, "guard.py", line, text, (line,), None)


def test_each_line_of_code_has_its_own_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 100.0
    monkeypatch.setattr(logs.time, "monotonic", lambda: clock)
    bounded = logs.Bounded()
    passed = [bounded.filter(record(1, logging.WARNING)) for _ in range(500)]
    assert passed == [True] * 10 + [False] * 490
    assert bounded.filter(record(2, logging.ERROR))
    assert sum(bounded.filter(record(3, logging.INFO)) for _ in range(5000)) == 1000
    clock += 61
    later = record(1, logging.WARNING)
    assert bounded.filter(later)
    assert later.getMessage() == "client 1 (490 more like this were left out of the log)"
    again = record(1, logging.WARNING)
    assert bounded.filter(again) and again.getMessage() == "client 1"
