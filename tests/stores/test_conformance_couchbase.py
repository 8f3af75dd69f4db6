"""The conformance suite on Couchbase through its own client."""

from __future__ import annotations

from typing import Any

import pytest

from stores import PageStore, open_store
from stores.testing.conformance import PageStoreConformance
from tests.support.couchbase_server import PASSWORD, PASSWORD_IN_URL, Couchbase, Gocaves
from tests.support.patience import LONG


@pytest.mark.proves("stores", "pages", "couchbase")
class TestCouchbase(PageStoreConformance):
    secrets = (PASSWORD, PASSWORD_IN_URL, "c0uch")
    records = False
    forks = 2

    @pytest.fixture(autouse=True)
    def _server(self, couchbase_server: Couchbase) -> None:
        self.url = couchbase_server.url
        self.lists = couchbase_server.real  # the mock has no range scan

    def open(self) -> PageStore:
        # The mock takes seconds to hand out a page of 20 MiB, and more on a busy machine.
        return open_store(f"{self.url}?timeout={10 * LONG}", write_buffer=0, cache=0)

    def raw_get(self, key: str) -> bytes | None:
        return self._collection().get(key).value

    def raw_delete(self, key: str) -> None:
        self._collection().remove(key)

    def _collection(self) -> Any:
        """The collection as another program sees it."""
        from couchbase.auth import PasswordAuthenticator
        from couchbase.cluster import Cluster
        from couchbase.options import ClusterOptions
        from couchbase.transcoder import RawBinaryTranscoder

        from stores.address import parse

        address = parse(self.url)
        login = PasswordAuthenticator(address.user, address.password)
        host = address.public.removesuffix(address.path)
        cluster = Cluster(host, ClusterOptions(login, transcoder=RawBinaryTranscoder()))
        bucket, *inner = address.path.strip("/").split("/")
        opened = cluster.bucket(bucket)
        if inner:
            return opened.scope(inner[0]).collection(inner[1])
        return opened.default_collection()


class TestOpenedCouchbase(TestCouchbase):
    def open(self) -> PageStore:
        return open_store(f"{self.url}?timeout={10 * LONG}", write_buffer=100_000, cache=50_000)

    # Seconds, for what the bare store and a buffered Redis show already.

    @pytest.mark.soak
    def test_pages_of_many_sizes(self) -> None:
        super().test_pages_of_many_sizes()

    @pytest.mark.soak
    def test_puts_and_deletes_in_any_order(self) -> None:
        super().test_puts_and_deletes_in_any_order()

    @pytest.mark.soak
    def test_threads(self) -> None:
        super().test_threads()


class TestGocaves(TestCouchbase):
    """A second implementation of the protocol, and a collection."""

    lists = False
    records = False

    @pytest.fixture(autouse=True)
    def _server(self, gocaves: Gocaves) -> None:
        self.url = gocaves.url()

    @pytest.mark.soak  # seconds
    def test_pages_of_many_sizes(self) -> None:
        super().test_pages_of_many_sizes()


@pytest.mark.soak
@pytest.mark.proves("stores", "pages that expire", "couchbase")
class TestCouchbaseWithTimeToLive(TestCouchbase):
    def open(self) -> PageStore:
        return open_store(f"{self.url}?timeout={10 * LONG}&ttl=600", write_buffer=0)
