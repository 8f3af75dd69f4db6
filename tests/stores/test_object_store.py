"""Pages in S3 through its client: addresses, credentials, and what goes wrong on the way."""

from __future__ import annotations

import logging
import multiprocessing
import os
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from benchmarks.spark.http_proxy import HTTPProxy
from mta import CountWindow, Max, Window
from mta.cli import main
from stores import (
    InvalidStoreURL,
    PageStore,
    StoreAccessDenied,
    StoreFull,
    StoreUnavailable,
    WindowStoreError,
    open_store,
    ping_store,
)
from stores.address import parse
from tests.support.patience import LONG, in_time
from tests.support.s3_server import ACCESS_KEY, BUCKET, SECRET, S3Server
from tests.support.sampling import some
from tests.support.servers import free_port

PAGES = {f"w/0/{i:03d}": bytes([i]) * 1000 for i in range(50)}


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[HTTPProxy]:
    with HTTPProxy(s3_server.endpoint) as proxy:
        yield proxy


@pytest.fixture
def url(s3_server: S3Server, proxy: HTTPProxy) -> str:
    """A prefix of the test's own, behind the proxy."""
    return s3_server.url(uuid4().hex, "timeout=2", endpoint=proxy.endpoint)


def bare(url: str) -> PageStore:
    return open_store(url, write_buffer=0, cache=0)


REFUSALS = [
    (403, "AccessDenied", StoreAccessDenied, "s3:PutObject"),
    (403, "InvalidAccessKeyId", StoreAccessDenied, "correct the access key"),
    (403, "SignatureDoesNotMatch", StoreAccessDenied, "correct the access key"),
    (403, "RequestTimeTooSkewed", StoreAccessDenied, "clock of this machine.*NTP"),
    (400, "ExpiredToken", StoreAccessDenied, "token has expired"),
    (400, "AuthorizationHeaderMalformed", InvalidStoreURL, r"another region.*\?region="),
    (301, "PermanentRedirect", InvalidStoreURL, r"another region.*\?region="),
    (404, "NoSuchBucket", InvalidStoreURL, "no such bucket.*create it"),
    (404, "NoSuchThing", InvalidStoreURL, "no such bucket"),
    (507, "XMinioStorageFull", StoreFull, "make room"),
    (503, "SlowDown", StoreUnavailable, "busy.*retry"),
    (500, "InternalError", StoreUnavailable, "busy.*retry"),
    (429, "TooManyRequests", StoreUnavailable, "busy.*retry"),
    (400, "SomethingNew", StoreAccessDenied, "400 SomethingNew"),
]


@pytest.mark.parametrize(("status", "code", "kind", "says"), REFUSALS, ids=lambda value: str(value))
def test_a_refusal_is_named_and_says_what_to_do(
    url: str, proxy: HTTPProxy, status: int, code: str, kind: type[WindowStoreError], says: str
) -> None:
    proxy.fault = lambda method, path: (status, code)
    store = bare(url)
    calls = (
        lambda: store.put_many(PAGES),
        lambda: store.get_many(["w/0/001"]),
        lambda: list(store.keys()),
        lambda: ping_store(url, write=True),
    )
    for call in calls:
        with in_time(), pytest.raises(kind, match=says) as caught:
            call()
        assert type(caught.value) is kind
        assert SECRET not in str(caught.value) and ACCESS_KEY not in str(caught.value)
        assert caught.value.__context__ is None, "the text of the library may hold secrets"


def test_a_bucket_that_is_not_there(s3_server: S3Server) -> None:
    url = s3_server.url("x").replace(f"/{BUCKET}/", "/no-such-bucket/").replace("@pages/", "@none/")
    for call in (lambda: bare(url).put_many(PAGES), lambda: bare(url).get_many(["w/1"])):
        with pytest.raises(InvalidStoreURL, match="no such bucket"):
            call()


def test_nobody_listens() -> None:
    url = f"s3://{ACCESS_KEY}:secret@b/p?cache_dir=none&endpoint=http://127.0.0.1:{free_port()}"
    with pytest.raises(StoreUnavailable, match=r"the connection is refused.*retry"):
        bare(url).put_many(PAGES)
    with pytest.raises(StoreUnavailable, match="the connection is refused"):
        ping_store(url)


def test_a_server_that_does_not_answer_is_given_up_in_time(own_s3: S3Server) -> None:
    store = bare(own_s3.url("p", "timeout=300ms"))
    own_s3.freeze()
    with in_time(), pytest.raises(StoreUnavailable, match="it takes too long"):
        store.put_many(PAGES)
    with in_time(), pytest.raises(StoreUnavailable):
        store.ping()
    own_s3.thaw()
    store.put_many(PAGES)
    assert store.get_many(list(PAGES)) == list(PAGES.values())


def test_real_credentials_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """moto asks for keys that exist once it has answered the request that makes the bucket."""
    monkeypatch.setenv("INITIAL_NO_AUTH_ACTION_COUNT", "1")
    server = S3Server(tmp_path)
    try:
        with pytest.raises(StoreAccessDenied, match=r"InvalidAccessKeyId.*correct the access key"):
            bare(server.url("p")).put_many(PAGES)
    finally:
        server.stop()


def test_an_outage_is_survived(own_s3: S3Server, caplog: pytest.LogCaptureFixture) -> None:
    """Frozen for longer than several requests may take; reads and writes go on afterwards."""
    store = open_store(own_s3.url("p", "timeout=300ms"), deadline=LONG)
    store.put_many(PAGES)
    store.flush()
    own_s3.freeze()
    threading.Timer(2.0, own_s3.thaw).start()
    store.put_many({"w/1/0": b"during the outage"})
    store.flush()
    assert store.get_many(["w/1/0", "w/0/001"]) == [b"during the outage", PAGES["w/0/001"]]
    assert "retrying" in caplog.text
    store.close()


@pytest.mark.parametrize("seed", some(range(8), by_default=1))
def test_a_troubled_bucket_under_load(
    s3_server: S3Server, proxy: HTTPProxy, tmp_path: Path, seed: int
) -> None:
    """503s, lost answers, cut answers and slow ones, for several writers and readers at once.

    Each reads what it wrote, with and without a cache on disk; nothing is lost or comes back.
    """
    rng, lock, faults = Random(seed), threading.Lock(), Counter[str]()
    folder, end = uuid4().hex, threading.Event()

    def fault(method: str, path: str) -> Any:
        with lock:
            kind = rng.choices(["", "503", "500", "lose", "cut"], [80, 6, 4, 5, 5])[0]
            faults[kind if method != "PUT" or kind != "cut" else ""] += not end.is_set()
        if end.is_set() or not kind or (kind == "cut" and method != "GET"):
            return None
        return {"503": (503, "SlowDown"), "500": (500, "InternalError")}.get(kind, kind)

    def work(writer: int) -> dict[str, bytes | None]:
        rng, held = Random(seed * 100 + writer), dict[str, bytes | None]()
        cache = f"cache_dir={tmp_path}" if writer % 2 else "cache_dir=none"
        url = s3_server.url(folder, "timeout=5", cache, "pack_cache=0", endpoint=proxy.endpoint)
        with open_store(url, deadline=LONG) as store:
            for _ in range(12):
                pages = {f"w{writer}/0/{rng.randrange(60)}": rng.randbytes(rng.choice([9, 4000]))
                         for _ in range(rng.choice([1, 20]))}  # fmt: skip
                store.put_many(pages)
                held |= pages
                gone = rng.sample(sorted(held), min(3, len(held)))
                store.delete_many(gone)
                held |= dict.fromkeys(gone)
                store.flush()
                asked = rng.sample(sorted(held), min(10, len(held)))
                assert store.get_many(asked) == [held[key] for key in asked]
        return held

    proxy.fault = fault
    with ThreadPoolExecutor(4) as pool:
        held = {key: page for each in pool.map(work, range(4)) for key, page in each.items()}
    end.set()
    assert min(faults[kind] for kind in ("503", "500", "lose", "cut")) > 0
    with bare(s3_server.url(folder)) as store:
        assert store.get_many(list(held)) == list(held.values())
        assert sorted(store.keys()) == sorted(key for key, page in held.items() if page is not None)


def test_pages_wait_for_rights_that_come_later(url: str, proxy: HTTPProxy) -> None:
    proxy.fault = lambda method, path: (403, "AccessDenied")
    store = open_store(url)
    store.put_many(PAGES)
    with pytest.raises(StoreAccessDenied):
        store.flush()
    proxy.fault = lambda method, path: None
    store.flush()
    assert bare(url).get_many(list(PAGES)) == list(PAGES.values())
    store.close()


def test_a_reader_is_killed_by_no_page_that_is_gone(url: str) -> None:
    one, other = bare(url), bare(f"{url}&pack_cache=0")
    one.put_many(PAGES)
    assert other.get_many(["w/0/001"]) == [PAGES["w/0/001"]]
    one.delete_many(PAGES)
    one.close()
    assert other.get_many(list(PAGES)) == [None] * len(PAGES)


def test_mta_gc_compacts(s3_server: S3Server, tmp_path: Path) -> None:
    url = s3_server.url(uuid4().hex)
    with open_store(url, cache=0) as store:
        window = Window(Max(), CountWindow(1000), store, "w", arity=8, leaf_arity=64)
        for start in range(0, 10_000, 500):
            window.extend(np.arange(start, start + 500))
            (tmp_path / "snapshot").write_bytes(window.checkpoint())
    from stores.object_store import ObjectBucket

    bucket = ObjectBucket(parse(url))
    before = dict(bucket.names("f-w", ""))
    assert main(["gc", str(tmp_path / "snapshot"), "--store", url, "--delete", "--compact"]) == 0
    after = dict(bucket.names("f-w", ""))
    assert len(after) == 2 < len(before)
    with open_store(url) as store:
        data = (tmp_path / "snapshot").read_bytes()
        again = Window.restore(data, store, aggregations=Max(), window=CountWindow(1000))
        again.insert(0.0)
        assert again.query() == 9999


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("s3://", "takes a bucket and a prefix"),
        ("s3://bucket:80/p", "takes a bucket and a prefix"),
        ("s3://bucket?endpoint=host:9000", "begins with http"),
        ("s3://bucket?cache_dir=relative", "absolute path"),
        ("s3://bucket?cache_dir=/c&cache_dir_size=1MiB", "at least 16MiB"),
        ("s3://bucket?account=a", "option of az://"),
        ("gs://bucket?region=a", "option of s3://"),
        ("gs://user:password@bucket", "GOOGLE_APPLICATION_CREDENTIALS"),
        ("s3://key@bucket", "an access key and its secret"),
        ("az://account@container", "an account and its key"),
        ("s3://bucket?ttl=9", "no option 'ttl'"),
        ("s3://bucket?ca_file=/no/such/file", "No such file"),
    ],
)
def test_an_address_that_makes_no_sense(
    url: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MTA_STORE_PASSWORD", raising=False)
    pytest.importorskip("obstore")
    with pytest.raises(InvalidStoreURL, match=says):
        open_store(url)


def test_azure_needs_an_account(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("obstore")
    for name in [name for name in os.environ if name.startswith("AZURE_")]:
        monkeypatch.delenv(name)
    with pytest.raises(InvalidStoreURL, match=r"\?account="):
        bare("az://container/p?cache_dir=none").put_many(PAGES)


@pytest.mark.parametrize("scheme", ["gs", "az"])
def test_the_other_clouds_name_their_errors(scheme: str) -> None:
    pytest.importorskip("obstore")
    options = "&cache_dir=none" + ("&account=me" if scheme == "az" else "")
    port = free_port()
    store = bare(f"{scheme}://b/p?endpoint=http://127.0.0.1:{port}&anonymous=true{options}")
    with pytest.raises(StoreUnavailable, match="the connection is refused"):
        store.get_many(["w/1"])


def test_credentials_come_from_the_environment(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    store = bare(f"s3://{BUCKET}/{uuid4().hex}?cache_dir=none")
    store.put_many(PAGES)
    assert store.get_many(list(PAGES)) == list(PAGES.values())


def test_a_secret_comes_from_a_file(s3_server: S3Server, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    store = bare(
        f"s3://{ACCESS_KEY}@{BUCKET}/{uuid4().hex}?endpoint={s3_server.endpoint}"
        f"&region=us-east-1&cache_dir=none&password_file={tmp_path / 'secret'}"
    )
    store.put_many(PAGES)
    assert SECRET not in repr(store)


def test_a_certificate_is_trusted_if_it_is_named(tmp_path: Path) -> None:
    pytest.importorskip("obstore")
    if shutil.which("openssl") is None:
        pytest.skip("NOT TESTED: no openssl on the PATH to make a certificate with")
    certificate, key = tmp_path / "server.crt", tmp_path / "server.key"
    make = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1"
    make += " -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=CA:FALSE"
    make += f" -keyout {key} -out {certificate}"
    subprocess.run(make.split(), check=True, capture_output=True)
    server = S3Server(tmp_path, tls=(certificate, key))
    try:
        with pytest.raises(StoreUnavailable, match="certificate is not trusted"):
            bare(server.url("p")).put_many(PAGES)
        for option in (f"ca_file={certificate}", "verify=false"):
            store = bare(server.url("p", option))
            store.put_many(PAGES)
            assert store.get_many(list(PAGES)) == list(PAGES.values())
    finally:
        server.stop()


def _grandchild(store: PageStore) -> None:
    assert store.get_many(list(PAGES)) == list(PAGES.values())
    store.put_many({f"w/1/{os.getpid()}": b"of a fork"})


def _child(store: PageStore) -> None:
    _grandchild(store)
    fork = multiprocessing.get_context("fork").Process(target=_grandchild, args=(store,))
    fork.start()
    fork.join(LONG)
    assert fork.exitcode == 0


def test_a_fork_of_a_fork_may_use_the_open_store(url: str) -> None:
    """The library's threads are not in a child, and its calls would never return."""
    store = bare(url)
    store.put_many(PAGES)
    child = multiprocessing.get_context("fork").Process(target=_child, args=(store,))
    child.start()
    child.join(LONG)
    assert child.exitcode == 0
    assert len(list(store.keys("w/1/"))) == 2


def _threads_that_begin_at_once(url: str) -> None:
    def work(number: int) -> None:
        together.wait()
        store = bare(url)
        store.put_many({f"w/1/{number}": b"of a thread"})
        assert store.get_many([f"w/1/{number}"]) == [b"of a thread"]

    together = threading.Barrier(4)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_threads_of_a_fork_load_the_library_once(url: str) -> None:
    bare(url).put_many(PAGES)
    child = multiprocessing.get_context("fork").Process(
        target=_threads_that_begin_at_once, args=(url,)
    )
    child.start()
    child.join(LONG)
    child.kill()  # if it hangs
    child.join()
    assert child.exitcode == 0


def test_the_log_holds_no_secret(
    url: str, proxy: HTTPProxy, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    proxy.fault = lambda method, path: (503, "SlowDown")
    store = open_store(url, deadline=0.3)
    store.put_many(PAGES)
    with pytest.raises(StoreUnavailable):
        store.flush()
    store.prefetch(["w/0/001"])
    with pytest.raises(StoreUnavailable):
        store.get_many(["v/1"])
    store.abandon()
    assert caplog.text and SECRET not in caplog.text and ACCESS_KEY not in caplog.text
