"""Pages in an object store: ``s3://bucket/prefix``, ``gs://bucket/prefix``, ``az://container/prefix``.

``docs/object-stores.md`` describes the options, and where credentials come from: the environment
or the machine's role, as they do for the provider's own tools, or the URL. What ``flush`` promises:
the object store, which keeps several copies, has acknowledged every page. ``pack_store`` describes
packs and requests. Thread safety: any number of threads.

The library, obstore, has its own threads. A forked child does not have them, so each of its calls
would hang. Therefore a child whose parent has used the library loads a copy of it (``_Library``).
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from importlib import import_module
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import obstore
import obstore.store

from .address import Credentials, Option, StoreAddress, credentials_of, seconds, size, switch
from .base import T, start_over_in_children
from .disk_cache import CACHE_BYTES, DiskCache, default_folder
from .errors import (
    InvalidStoreURL,
    StoreAccessDenied,
    StoreFull,
    StoreUnavailable,
    WindowStoreError,
)
from .pack_store import PACK_CACHE, PackStore
from .server import impatient, unanswered

OPTIONS: dict[str, Option] = {
    "endpoint": str,
    "region": str,
    "account": str,
    "anonymous": switch,
    "timeout": seconds,
    "connect_timeout": seconds,
    "ca_file": str,
    "verify": switch,
    "password_file": str,
    "cache_dir": str,
    "cache_dir_size": size,
    "pack_cache": size,
    "list_delay": seconds,
}

_CLOUDS = {"s3": "S3", "gs": "Google Cloud Storage", "az": "Azure"}
_COALESCE = 256 << 10  # unused bytes that may be read to avoid another request
_RETRIES = 2
_DELETES = 1000  # objects that one request removes

_CODE = re.compile(r"<Code>\s*(\w+)\s*</Code>")
_STATUS = re.compile(r"status code: (\d{3})")
_CLOCK = {"RequestTimeTooSkewed", "RequestExpired"}
_REGION = {
    "AuthorizationHeaderMalformed",
    "PermanentRedirect",
    "IllegalLocationConstraintException",
}
_NO_BUCKET = {"NoSuchBucket", "ContainerNotFound", "InvalidBucketName"}
_FULL = {"QuotaExceeded", "XMinioStorageFull", "AccountBeingCreated"}
_BUSY = {"SlowDown", "ServiceUnavailable", "InternalError", "ServerBusy", "RequestTimeout"}
_BAD_KEY = {"InvalidAccessKeyId", "SignatureDoesNotMatch", "AuthenticationFailed"}
_EXPIRED = {"ExpiredToken", "InvalidToken", "TokenRefreshRequired"}
_METADATA = re.compile(r"169\.254\.169\.254|169\.254\.170\.2|metadata\.google\.internal|oauth2")


class ObjectBucket:
    """The objects below a prefix of a bucket. Connects on first use and again in a forked child."""

    def __init__(self, address: StoreAddress) -> None:
        if not address.host or address.port is not None:
            scheme = address.scheme
            raise InvalidStoreURL(
                f"{scheme}:// takes a bucket and a prefix: {scheme}://name/folder"
            )
        self.url = address.public
        self._address = address
        self._credentials = _credentials(address)
        self._settings = _settings(address, self._credentials)
        self._client: tuple[ModuleType, Any] | None = None
        self._connecting = threading.Lock()
        start_over_in_children(self)

    def start_over(self) -> None:
        # The parent's client waits for threads that do not exist here, even while it is freed.
        _of_parents.append(self._client)
        self._client, self._connecting = None, threading.Lock()

    def put(self, name: str, data: bytes) -> None:
        self._run(lambda obs, store: obs.put(store, name, data, use_multipart=False))

    def get(self, name: str) -> bytes:
        return self._run(lambda obs, store: bytes(obs.get(store, name).bytes()), reads=True)

    def get_tagged(self, name: str) -> tuple[bytes, str] | None:
        """Return an object and its tag, which changes with each put; None for a missing object."""

        def get(obs: Any, store: Any) -> tuple[bytes, str]:
            found = obs.get(store, name)
            return bytes(found.bytes()), found.meta["e_tag"]

        try:
            return self._run(get, reads=True)
        except FileNotFoundError:
            return None

    def put_tagged(self, name: str, data: bytes, tag: str | None) -> bool:
        """Put an object in place of the one with a tag, or of none; return whether it was put."""
        mode: Any = "create" if tag is None else {"e_tag": tag}

        def put(obs: Any, store: Any) -> bool:
            conflicts = (obs.exceptions.AlreadyExistsError, obs.exceptions.PreconditionError)
            try:
                obs.put(store, name, data, mode=mode, use_multipart=False)
            except (*conflicts, FileNotFoundError):
                return False
            return True

        return self._run(put)

    def get_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        starts, lengths = [start for start, _ in ranges], [length for _, length in ranges]
        return self._run(
            lambda obs, store: [
                bytes(part)
                for part in obs.get_ranges(
                    store, name, starts=starts, lengths=lengths, coalesce=_COALESCE
                )
            ],
            reads=True,
        )

    def delete(self, names: Sequence[str]) -> None:
        for at in range(0, len(names), _DELETES):
            some = list(names[at : at + _DELETES])
            try:
                self._delete(some)
            except FileNotFoundError:  # some are missing; clouds differ in deleting the others
                for name in some:
                    with suppress(FileNotFoundError):
                        self._delete([name])

    def _delete(self, names: list[str]) -> None:
        self._run(lambda obs, store: obs.delete(store, names), reads=True)

    def names(self, folder: str, after: str) -> Iterator[tuple[str, int]]:
        offset = f"{folder}/{after}" if after else None
        start = len(folder) + 1

        def listed(obs: Any, store: Any) -> list[tuple[str, int]]:
            parts = obs.list(store, folder, offset=offset)
            return [(each["path"][start:], each["size"]) for part in parts for each in part]

        yield from self._run(listed)

    def folders(self) -> list[str]:
        def prefixes(obs: Any, store: Any) -> list[str]:
            return list(obs.list_with_delimiter(store)["common_prefixes"])

        return [name for name in self._run(prefixes) if name.startswith("f-")]

    def ping(self, *, write: bool) -> None:
        """List an empty folder and, with ``write``, put and remove an object."""
        next(self.names("ping", ""), None)
        if write:
            self.put("ping/ping", b"")
            self.delete(["ping/ping"])

    def _run(self, call: Callable[[Any, Any], T], *, reads: bool = False) -> T:
        """Run the call with the library and its store; errors become this project's errors.

        With ``reads``, ``FileNotFoundError`` means that one object is missing.
        """
        try:
            with self._connecting:
                if self._client is None:
                    self._client = _connect(self._address, self._settings)
            return call(*self._client)
        except WindowStoreError:
            raise
        except Exception as error:
            text = str(error)
            found = _CODE.search(text)
            code = found[1] if found else ""
            if reads and isinstance(error, FileNotFoundError) and code not in _NO_BUCKET:
                raise FileNotFoundError(self.url) from None
            theirs = type(error).__module__.startswith("obstore")
            if not theirs and not isinstance(error, ValueError | OSError):
                raise
            named = self._named(error, text, code)
        raise named from None

    def _named(self, error: Exception, text: str, code: str) -> WindowStoreError:
        """Return this project's error, without the library's text, which may contain secrets."""
        found = _STATUS.search(text)
        status = int(found[1]) if found else 0
        said = " ".join(filter(None, [str(status or ""), code])) or type(error).__name__
        if "BadScheme" in text or isinstance(error, ValueError):
            cloud = _CLOUDS[self._address.scheme]
            return InvalidStoreURL(
                f"{self.url}: the settings are not a valid address of {cloud}: an endpoint begins "
                "with http:// or https://, and a bucket's name has neither slashes nor spaces"
            )
        if refusal := _refusal(said, status, code, text):
            source = self._credentials.source
            end = f"; the credentials come from {source}" if source else ""
            return StoreAccessDenied(f"{self.url}{refusal}{end}")
        if mistake := _mistake(said, status, code, text):
            return InvalidStoreURL(f"{self.url}{mistake}")
        if code in _FULL or status == 507:
            return StoreFull(f"{self.url} is full ({said}): make room or raise its quota")
        if code in _BUSY or status >= 500 or status == 429:
            return StoreUnavailable(
                f"{self.url} is busy ({said}): nothing is lost; retry later. If this continues, "
                "write less often (longer batches, fewer buckets)"
            )
        if status:
            return StoreAccessDenied(
                f"{self.url} refused a request ({said}): correct the options of the URL"
            )
        return StoreUnavailable(
            f"{self.url} does not answer ({_reason(text)}): check the network and the endpoint, "
            "and retry when it is back"
        )


class ObjectStore(PackStore):
    """Pages in packs in a bucket."""

    def __init__(self, address: StoreAddress) -> None:
        options = address.parsed(OPTIONS)
        folder = options.get("cache_dir", "") or default_folder()
        cache = None
        if folder is not None and folder != "none":
            place = f"{address.public} {options.get('endpoint', '')}"
            cache = DiskCache(folder, place, options.get("cache_dir_size", CACHE_BYTES))
        self._address = address
        super().__init__(
            ObjectBucket(address),
            list_delay=options.get("list_delay", 0.0),
            cache=cache,
            pack_cache=options.get("pack_cache", PACK_CACHE),
        )

    def ping(self, *, write: bool = False) -> None:
        """Ping as the base class does; ``write`` also puts and removes an object."""
        self._check_open()
        bucket = ObjectBucket(impatient(self._address))
        if problem := unanswered(self.url, lambda: bucket.ping(write=write)):
            raise StoreUnavailable(problem)

    def __reduce__(self) -> tuple[type[ObjectStore], tuple[StoreAddress]]:
        return type(self), (self._address,)


#: Returns the store at an address. Raises ``InvalidStoreURL`` if it names no bucket.
from_address = ObjectStore


# --- errors ---------------------------------------------------------------------------------------


def _refusal(said: str, status: int, code: str, text: str) -> str:
    """Return the error for a request without the needed rights or credentials, "" for others."""
    if _METADATA.search(text):
        return (
            ": no credentials were found: set the provider's variables in the environment, give "
            "the machine a role, or write ?anonymous=true; with Spark, set them also in the "
            "environment of the workers (spark.executorEnv.AWS_ACCESS_KEY_ID and so on)"
        )
    if code in _CLOCK:
        return (
            f" refused ({said}): the clock of this machine is wrong by more than the store allows "
            "(S3: 15 minutes): correct it (NTP), then retry"
        )
    if code in _EXPIRED:
        return f" refused ({said}): the token has expired: get a new one"
    if code in _BAD_KEY:
        return f" refused ({said}): correct the access key and its secret"
    if status in (401, 403):
        return (
            f" refused ({said}): give these credentials the right to list, read, write and delete "
            "objects there (on S3: s3:ListBucket on the bucket, s3:GetObject, s3:PutObject and "
            "s3:DeleteObject on the prefix)"
        )
    return ""


def _mistake(said: str, status: int, code: str, text: str) -> str:
    """Return the error for an address that leads to the wrong place, "" for others."""
    if code in _REGION or status in (301, 307) or "LOCATION" in text:
        return f" is in another region ({said}): write it as ?region=... or set AWS_REGION"
    if "MissingAccount" in text:
        return " needs an account: write ?account=... or set AZURE_STORAGE_ACCOUNT_NAME"
    if code in _NO_BUCKET or status == 404:
        return (
            f": there is no such bucket or container ({said}): create it, or correct its name, "
            "the endpoint and the account"
        )
    return ""


def _reason(text: str) -> str:
    """Return why there was no answer, without the address, which may contain a token."""
    for mark, reason in (
        ("Certificate", "the certificate is not trusted: see ca_file"),
        ("dns error", "its host is unknown"),
        ("kind: Timeout", "it takes too long"),
        ("TimedOut", "it takes too long"),
        ("ConnectionRefused", "the connection is refused"),
        ("kind: Connect", "no connection"),
    ):
        if mark in text:
            return reason
    return "the connection broke"


# --- settings -------------------------------------------------------------------------------------


def _credentials(address: StoreAddress) -> Credentials:
    """Return the user and password of the address; without them, the library finds its own."""
    if address.user is None and "password_file" not in address.options:
        return Credentials(None, None, "")
    if address.scheme == "gs":
        raise InvalidStoreURL(
            f"{address.public}: gs:// takes no user and password: set "
            "GOOGLE_APPLICATION_CREDENTIALS to the path of the key of a service account"
        )
    found = credentials_of(address)
    if not found.user or not found.password:
        what = (
            "an access key and its secret" if address.scheme == "s3" else "an account and its key"
        )
        raise InvalidStoreURL(f"{address.public}: give {what}, or no credentials in the URL")
    return found


def _settings(address: StoreAddress, credentials: Credentials) -> dict[str, Any]:
    """Return the keyword arguments of the library's store. Raises ``InvalidStoreURL``."""
    options = address.parsed(OPTIONS)
    scheme = address.scheme
    settings: dict[str, Any] = {}
    for option, owner, name in (("region", "s3", "region"), ("account", "az", "account_name")):
        if option in options:
            if scheme != owner:
                raise InvalidStoreURL(f"{address.public}: {option} is an option of {owner}://")
            settings[name] = options[option]
    if credentials.user:
        names = ("access_key_id", "secret_access_key")
        user, password = names if scheme == "s3" else ("account_name", "account_key")
        settings |= {user: credentials.user, password: credentials.password}
    timeout = options.get("timeout", 10.0)
    endpoint = options.get("endpoint") or _endpoint_of(scheme)
    if endpoint and not re.match(r"https?://", endpoint):
        raise InvalidStoreURL(f"{address.public}: an endpoint begins with http:// or https://")
    client: dict[str, Any] = {
        "timeout": timedelta(seconds=timeout),
        "connect_timeout": timedelta(seconds=options.get("connect_timeout", min(timeout, 5.0))),
        "allow_http": endpoint.startswith("http://"),
    }
    if not options.get("verify", True):
        client["allow_invalid_certificates"] = True
    if "ca_file" in options:
        client["root_certificate"] = _certificate(options["ca_file"], address.public)
    if options.get("endpoint"):
        settings["base_url" if scheme == "gs" else "endpoint"] = endpoint
    if options.get("anonymous"):
        settings["skip_signature"] = True
    return settings | {
        "prefix": address.path.strip("/") or None,
        "client_options": client,
        "retry_config": {
            "max_retries": _RETRIES,
            "retry_timeout": timedelta(seconds=timeout),
            "backoff": {"init_backoff": timedelta(milliseconds=100)},
        },
    }


def _endpoint_of(scheme: str) -> str:
    """Return the endpoint from the environment."""
    names = {
        "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
        "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
        "gs": ("GOOGLE_BASE_URL",),
    }[scheme]
    return next(filter(None, map(os.environ.get, names)), "")


def _certificate(path: str, url: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidStoreURL(f"{url}: ca_file {path}: {error.strerror}") from None


# --- the library ----------------------------------------------------------------------------------

_EXTENSION = "obstore._obstore"
_of_parents: list[object] = []


class _Library:
    """The library, with threads of this process.

    In a child of a process that has used the library, this loads a copy of its file: loading the
    same file would return the same library, without its threads.
    """

    def __init__(self) -> None:
        self._module: ModuleType | None = obstore
        self._is_used = False
        self.start_over()
        start_over_in_children(self)

    def start_over(self) -> None:
        self._lock = threading.Lock()
        if self._is_used:
            self._module = None

    def module(self) -> ModuleType:
        with self._lock:
            self._is_used = True
            if self._module is None:
                self._module = _copy_of_library()
            return self._module


_library = _Library()


def _connect(address: StoreAddress, settings: Mapping[str, Any]) -> tuple[ModuleType, Any]:
    library = _library.module()
    kind = {"s3": "S3Store", "gs": "GCSStore", "az": "AzureStore"}[address.scheme]
    return library, getattr(library.store, kind)(address.host, **settings)


def _copy_of_library() -> ModuleType:
    names = [name for name in sys.modules if name.partition(".")[0] == "obstore"]
    saved = {name: sys.modules.pop(name) for name in names}
    try:
        with _copied_file(str(saved[_EXTENSION].__file__)) as path:
            loader = ExtensionFileLoader(_EXTENSION, path)
            spec = spec_from_file_location(_EXTENSION, path, loader=loader)
            assert spec is not None
            sys.modules[_EXTENSION] = module_from_spec(spec)
            loader.exec_module(sys.modules[_EXTENSION])
        import_module("obstore.store")
        return sys.modules["obstore"]
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "obstore"]:
            del sys.modules[name]
        sys.modules.update(saved)


@contextmanager
def _copied_file(path: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, Path(path).name)
        copy.write_bytes(Path(path).read_bytes())
        yield str(copy)
