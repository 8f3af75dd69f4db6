"""Pages in Couchbase: ``couchbase://user:password@host/bucket``, or ``couchbases://`` with TLS.

The path may continue with a scope and a collection, ``/bucket/scope/collection``. Separate several
hosts by commas. A page is a document of raw bytes whose id is the page's key.
``docs/operations.md`` describes the options, and what ``flush`` promises.

Limitations: ``keys`` needs Couchbase Server 7.6 or later (range scan). With older servers and with
memcached buckets, it raises ``UnsupportedOperation``; everything else works.

Thread safety: any number of threads share one connection, which is opened by the first call, and
opened again in a forked child. A child has none of the client's threads, and must not even destroy
its copy of the client. So it never touches its parent's connection.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from couchbase import exceptions
from couchbase.auth import CertificateAuthenticator, PasswordAuthenticator
from couchbase.cluster import Cluster
from couchbase.durability import DurabilityLevel, ServerDurability
from couchbase.kv_range_scan import PrefixScan, RangeScan
from couchbase.options import (
    ClusterOptions,
    ClusterTimeoutOptions,
    GetMultiOptions,
    RemoveMultiOptions,
    ScanOptions,
    TLSVerifyMode,
    UpsertMultiOptions,
)
from couchbase.transcoder import RawBinaryTranscoder

from .address import PASSWORD, USER, Credentials, Option, StoreAddress, one_of
from .base import Capabilities
from .errors import (
    InvalidStoreURL,
    PageTooLarge,
    StoreAccessDenied,
    StoreFull,
    StoreUnavailable,
    UnsupportedOperation,
    WindowStoreError,
)
from .server import OPTIONS as SERVER_OPTIONS
from .server import ServerStore

_LEVELS = {
    "majority": DurabilityLevel.MAJORITY,
    "majorityAndPersistActive": DurabilityLevel.MAJORITY_AND_PERSIST_TO_ACTIVE,
    "persistToMajority": DurabilityLevel.PERSIST_TO_MAJORITY,
}

OPTIONS: dict[str, Option] = {
    **SERVER_OPTIONS,
    "durability": one_of("none", "majority", "majorityAndPersistActive", "persistToMajority"),
    "network": one_of("default", "external", "auto"),
}

_SCAN = 1000
_NOWHERE = (
    exceptions.BucketNotFoundException,
    exceptions.BucketDoesNotExistException,
    exceptions.ScopeNotFoundException,
    exceptions.CollectionNotFoundException,
    exceptions.KeyspaceNotFoundException,
)
_CANNOT = (
    exceptions.FeatureUnavailableException,
    exceptions.UnsupportedOperation,
    exceptions.DurabilityInvalidLevelException,
)
_VALUE_TOO_LARGE = 104  # the client has no class for this error


class _Bytes(RawBinaryTranscoder):  # type: ignore[misc]
    """Raw bytes in both directions, whatever format another program has set for the document."""

    def decode_value(self, value: bytes, flags: int) -> bytes:
        del flags
        return value


_TRANSCODER = _Bytes()


class CouchbaseStore(ServerStore):
    """Pages in one collection of a Couchbase cluster."""

    example = "host/bucket"
    schemes = ("couchbase", "couchbases")
    capabilities = Capabilities(
        durable=True, shared=True, max_key_bytes=250, max_page_bytes=20 << 20, remote=True
    )
    failures = (exceptions.CouchbaseException,)
    failure_after_close = RuntimeError
    _cluster: Any = None

    def __init__(self, address: StoreAddress) -> None:
        super().__init__(address)
        options = address.parsed(OPTIONS)
        self._keyspace = _keyspace(address)
        self._options = _client_options(address, options, self._credentials)
        writing: dict[str, Any] = {"return_exceptions": True}
        if level := _LEVELS.get(options.get("durability", "none")):
            writing["durability"] = ServerDurability(level)
        self._removing = dict(writing)
        if options.get("ttl"):
            writing["expiry"] = timedelta(seconds=options["ttl"])
        self._writing = writing | {"transcoder": _TRANSCODER}

    def start_over(self) -> None:
        """Abandon the connection, as a forked child must; no store call."""
        if self._cluster is not None:
            # The objects must never be destroyed, not even when the interpreter ends: the
            # destructor of a connection that a fork has copied would wait for threads that do not
            # exist.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object((self._cluster, self._client)))
        self._cluster = None
        super().start_over()

    def _disconnect(self, client: Any) -> None:
        self._cluster.close()

    def _get(self, client: Any, keys: list[str]) -> list[bytes | None]:
        options = GetMultiOptions(return_exceptions=True, transcoder=_TRANSCODER)
        got = client.get_multi(keys, options)
        self._raise_first(got, but=exceptions.DocumentNotFoundException)
        results = got.results
        return [results[key].value if key in results else None for key in keys]

    def _put(self, client: Any, pages: dict[str, bytes]) -> None:
        # The client accepts only bytes, not views.
        documents = {key: bytes(page) for key, page in pages.items()}
        self._raise_first(client.upsert_multi(documents, UpsertMultiOptions(**self._writing)))

    def _delete(self, client: Any, keys: list[str]) -> None:
        gone = client.remove_multi(keys, RemoveMultiOptions(**self._removing))
        self._raise_first(gone, but=exceptions.DocumentNotFoundException)

    def keys(self, prefix: str = "") -> Iterator[str]:
        """Yield keys from a range scan, which visits every document with that prefix.

        Raises ``UnsupportedOperation`` if the server has no range scan (before version 7.6).
        """
        kind = PrefixScan(prefix) if prefix else RangeScan()
        options = ScanOptions(ids_only=True, batch_item_limit=_SCAN)
        found = self._run(lambda collection: iter(collection.scan(kind, options)))
        while (document := self._run(lambda _: next(found, None))) is not None:
            yield document.id

    def _raise_first(self, result: Any, but: Any = ()) -> None:
        """Raise the first error of a batch, unless it is of the class ``but``."""
        for error in result.exceptions.values():
            if not isinstance(error, but):
                raise self._named(error)

    def _connect(self) -> Any:
        host = self._address.public.removesuffix(self._address.path)
        name, scope, collection = self._keyspace
        cluster = Cluster(host, ClusterOptions(**self._options))
        try:
            bucket = cluster.bucket(name)
        except exceptions.CouchbaseException:
            cluster.close()
            raise
        self._cluster = cluster
        return bucket.scope(scope).collection(collection)

    def _named(self, error: Exception) -> WindowStoreError:
        url = self.url
        retried = getattr(getattr(error, "context", None), "retry_reasons", None) or ()
        reasons = set(map(str, retried))  # why the client retried until the timeout
        text = type(error).__name__ + (f", {', '.join(sorted(reasons))}" if reasons else "")
        message = str(getattr(error, "message", "") or "")
        if message and message != "Operation failed":
            text += f": {self._credentials.redacted(message)}"
        if isinstance(error, exceptions.AuthenticationException):
            return StoreAccessDenied(
                f"{url} refused ({text}): correct the user, password or "
                f"rights{self._credentials.advice}"
            )
        if isinstance(error, _NOWHERE) or any("collection" in reason for reason in reasons):
            return InvalidStoreURL(
                f"{url} does not exist ({text}): create the bucket, scope or collection, give the "
                "user the right to use it, or correct the URL"
            )
        if isinstance(error, _CANNOT):
            return UnsupportedOperation(
                f"{url} does not support this ({text}): listing keys needs Couchbase Server 7.6, "
                "scopes and collections need 7.0, and durability needs 6.5 and enough nodes"
            )
        if isinstance(error, exceptions.InvalidArgumentException):
            return InvalidStoreURL(f"{url}: the client refuses an option ({text}): correct it")
        if isinstance(error, exceptions.QuotaLimitedException):
            return StoreFull(f"{url} is full ({text}): raise the quota, or delete pages")
        if getattr(error, "error_code", None) == _VALUE_TOO_LARGE:
            return PageTooLarge(f"{url} refuses a page of this size: choose a smaller arity")
        if isinstance(error, exceptions.TemporaryFailException) or any(
            "temporary_failure" in reason for reason in reasons
        ):
            return StoreUnavailable(
                f"{url} has no free memory now ({text}): retry later, or raise the bucket's quota"
            )
        return StoreUnavailable(f"{url} does not answer ({text}): retry when it is back")


#: Returns the store at an address. Raises ``InvalidStoreURL`` if it names no host or bucket.
from_address = CouchbaseStore


def _keyspace(address: StoreAddress) -> tuple[str, str, str]:
    """Return the bucket, scope and collection."""
    bucket, *inner = address.path.strip("/").split("/")
    if not all([bucket, *inner]) or len(inner) not in (0, 2):
        raise InvalidStoreURL(
            f"{address.public}: the path must be /bucket or /bucket/scope/collection"
        )
    scope, collection = inner or ("_default", "_default")
    return bucket, scope, collection


def _client_options(
    address: StoreAddress, options: Mapping[str, Any], credentials: Credentials
) -> dict[str, Any]:
    timeout = options.get("timeout", 5.0)
    secure = address.scheme == "couchbases"
    tls = {"ca_file", "cert_file", "key_file", "verify"} & options.keys()
    if tls and not secure:
        raise InvalidStoreURL(f"{address.public}: {', '.join(sorted(tls))} need couchbases://")
    if ("cert_file" in options) != ("key_file" in options):
        raise InvalidStoreURL(f"{address.public}: give both cert_file and key_file, or neither")
    connect = timedelta(seconds=options.get("connect_timeout", max(timeout, 5.0)))
    authorities = {"trust_store_path": options["ca_file"]} if "ca_file" in options else {}
    settings: dict[str, Any] = {
        "timeout_options": ClusterTimeoutOptions(
            kv_timeout=timedelta(seconds=timeout),
            kv_durable_timeout=timedelta(seconds=timeout),
            bootstrap_timeout=connect,
            connect_timeout=connect,
        ),
        # These cost a third of the time of a read, and log nothing useful for page stores.
        "enable_tracing": False,
        "enable_metrics": False,
        **authorities,
    }
    if "network" in options:
        settings["network"] = options["network"]
    if secure and not options.get("verify", True):
        settings["tls_verify"] = TLSVerifyMode.NO_VERIFY
    if "cert_file" in options:
        settings["authenticator"] = CertificateAuthenticator(
            cert_path=options["cert_file"], key_path=options["key_file"], **authorities
        )
    elif credentials.user and credentials.password is not None:
        settings["authenticator"] = PasswordAuthenticator(credentials.user, credentials.password)
    else:
        raise InvalidStoreURL(
            f"{address.public} needs credentials: {address.scheme}://user:password@host/bucket, or "
            f"set {USER} and {PASSWORD} in the environment; with Spark, also in the environment of "
            f"the workers (spark.executorEnv.{PASSWORD})"
        )
    return settings
