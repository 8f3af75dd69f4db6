"""Passwords from the environment or a file, and that nothing shows them."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from stores import InvalidStoreURL, StoreAccessDenied, open_store, ping_store
from stores.address import credentials_of, parse
from tests.support.servers import PASSWORD, PASSWORD_IN_URL, RedisServer


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MTA_STORE_USER", "MTA_STORE_PASSWORD"):
        monkeypatch.delenv(name, raising=False)


def of(url: str) -> tuple[str | None, str | None]:
    found = credentials_of(parse(url))
    return found.user, found.password


def test_the_password_comes_from_the_url_or_the_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "password"
    file.write_text("of the file\r\n# a comment\n")
    assert of("redis://host") == (None, None)
    monkeypatch.setenv("MTA_STORE_USER", "somebody")
    monkeypatch.setenv("MTA_STORE_PASSWORD", "of the environment")
    assert of("redis://host") == ("somebody", "of the environment")
    assert of("redis://me@host") == ("me", "of the environment")
    assert of(f"redis://me@host?password_file={file}") == ("me", "of the file")
    # Who has a password in the URL is the server's default user, not that of the environment.
    assert of("redis://:pw@host") == ("", "pw")
    assert of("redis://:@host") == ("", "")


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ("?password_file=password", InvalidStoreURL, "absolute path"),
        ("?password_file=/no/such/file", StoreAccessDenied, "No such file.*every machine"),
        ("?password_file={folder}", StoreAccessDenied, "Is a directory"),
        ("?password_file={folder}/empty", StoreAccessDenied, "empty first line"),
        ("?password_file={folder}/binary", StoreAccessDenied, "not UTF-8 text"),
    ],
)
def test_a_file_that_has_no_password(
    tmp_path: Path, options: str, kind: type[Exception], says: str
) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(kind, match=says):
        open_store("redis://host" + options.format(folder=tmp_path))


def test_two_passwords_are_refused() -> None:
    with pytest.raises(InvalidStoreURL, match="leave one of them out") as caught:
        open_store("redis://:hunter2@host?password_file=/hunter2")
    assert "hunter2" not in str(caught.value)


def test_redis_takes_both_and_shows_neither(
    redis_with_password: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = redis_with_password.url
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    by_file = f"{url}?password_file={tmp_path / 'password'}"
    ping_store(by_file, write=True)
    with pytest.raises(StoreAccessDenied, match=r"has no password: set MTA_STORE_PASSWORD.*"
                       r"spark\.executorEnv\.MTA_STORE_PASSWORD"):  # fmt: skip
        ping_store(url)
    monkeypatch.setenv("MTA_STORE_PASSWORD", PASSWORD)
    with open_store(url) as store:
        store.ping(write=True)
        sent = pickle.dumps(store)
        assert PASSWORD.encode() not in sent and PASSWORD_IN_URL.encode() not in sent
        pickle.loads(sent).ping()
        assert PASSWORD not in repr(store) + repr(vars(store))
    with open_store(by_file) as store:
        assert PASSWORD.encode() not in pickle.dumps(store)
    monkeypatch.setenv("MTA_STORE_PASSWORD", "wr0ng")
    with pytest.raises(StoreAccessDenied, match="comes from MTA_STORE_PASSWORD") as caught:
        ping_store(url)
    assert "wr0ng" not in str(caught.value)
    monkeypatch.setenv("MTA_STORE_USER", "reader")
    monkeypatch.setenv("MTA_STORE_PASSWORD", "readonly")
    ping_store(url)


def test_couchbase_takes_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("couchbase")
    (tmp_path / "password").write_text("c0uch\n")
    url = "couchbase://me@127.0.0.1:1/bucket"
    with pytest.raises(InvalidStoreURL, match="MTA_STORE_USER and MTA_STORE_PASSWORD"):
        open_store(url)
    open_store(f"{url}?password_file={tmp_path / 'password'}")
    monkeypatch.setenv("MTA_STORE_PASSWORD", "c0uch")
    store = open_store(url)
    assert b"c0uch" not in pickle.dumps(store)
    with pytest.raises(InvalidStoreURL, match="needs credentials"):
        open_store(url.replace("me@", ""))
    monkeypatch.setenv("MTA_STORE_USER", "me")
    open_store(url.replace("me@", ""))
