"""S3s to test with, which keep all objects in memory: moto's server, and gofakes3.

gofakes3 is a second implementation of the protocol, in Go. It is built from ``gofakes3/main.go``
where there is a ``go`` on the PATH; else its tests are skipped, and say so.
"""

from __future__ import annotations

import re
import ssl
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.go_programs import built
from tests.support.patience import LONG
from tests.support.servers import OwnServer, free_port

ACCESS_KEY, SECRET = "AKIATESTS", "s3cr3t/of+tests"
SECRET_IN_URL = "s3cr3t%2Fof+tests"
BUCKET = "pages"
_REQUEST = re.compile(r'"(?:\x1b\[\d+m)*(GET|PUT|POST|DELETE|HEAD) (\S+) HTTP')


class S3Server(OwnServer):
    """A server for tests, which can be stopped and frozen; moto's also says what it was asked."""

    def __init__(
        self, folder: Path, tls: tuple[Path, Path] | None = None, program: Path | None = None
    ) -> None:
        """``tls`` are the files of a certificate and its key; ``program`` is another server."""
        pytest.importorskip("obstore", reason="NOT TESTED: no obstore: pip install '.[objects]'")
        self.port, self.log = free_port(), folder / "s3.log"
        if program is None:
            pytest.importorskip("moto.server", reason="NOT TESTED: no moto: pip install '.[test]'")
            self.command = [sys.executable, "-c", "from moto.server import main; main()"]
            self.command += ["-H", "127.0.0.1", "-p", str(self.port)]
        else:
            self.command = [str(program), str(self.port)]
        if tls is not None:
            self.command += ["-c", str(tls[0]), "-k", str(tls[1])]
        self._scheme = "http" if tls is None else "https"
        self.start()

    @property
    def endpoint(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def url(self, prefix: str, *options: str, endpoint: str = "") -> str:
        """The address of a prefix in the bucket, without a cache on disk but where named."""
        if not any(option.startswith("cache_dir=") for option in options):
            options = ("cache_dir=none", *options)
        options = (f"endpoint={endpoint or self.endpoint}", "region=us-east-1", *options)
        return f"s3://{ACCESS_KEY}:{SECRET_IN_URL}@{BUCKET}/{prefix}?{'&'.join(options)}"

    def requests(self) -> Counter[str]:
        """How often the server was asked what, so far: LIST, GET, PUT, DELETE."""
        found: Counter[str] = Counter()
        for method, path in _REQUEST.findall(self.log.read_text()):
            if path.startswith(f"/{BUCKET}"):
                found[_kind(method, path)] += 1
        return found

    def answers(self) -> bool:
        """Whether the bucket is made."""
        request = urllib.request.Request(f"{self.endpoint}/{BUCKET}", method="PUT")
        try:
            unverified = ssl._create_unverified_context()  # it is the tests' own
            with urllib.request.urlopen(request, timeout=LONG, context=unverified):
                return True
        except (urllib.error.URLError, ConnectionError):
            return False


def _kind(method: str, path: str) -> str:
    if "list-type=2" in path:
        return "LIST"
    return "DELETE" if "?delete" in path else method


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 that the tests of a process share."""
    server = S3Server(tmp_path_factory.mktemp("s3"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def go_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A gofakes3 that the tests of a process share."""
    server = S3Server(tmp_path_factory.mktemp("gofakes3"), program=built("gofakes3"))
    yield server
    server.stop()


@pytest.fixture
def own_s3(tmp_path: Path) -> Iterator[S3Server]:
    """An S3 for one test, to be frozen and killed."""
    server = S3Server(tmp_path)
    yield server
    server.stop()
