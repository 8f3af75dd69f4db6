"""An HTTP proxy in front of an object store: it refuses requests, loses answers, adds latency.

    with HTTPProxy("http://127.0.0.1:9000") as proxy:
        proxy.latency = 0.03
        store = open_store(f"s3://bucket/prefix?endpoint={proxy.endpoint}")

It speaks plain HTTP, passes requests on unchanged, and counts them.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import urlsplit

Fault = Callable[[str, str], tuple[int, str] | str | None]
"""Gets a method and a path, and returns a status and an S3 error code to answer, ``lose`` to drop
the server's answer after it has handled the request, or None to do nothing."""


class HTTPProxy:
    """A proxy in front of the server at ``endpoint``; ``fault`` says what goes wrong.

    ``latency`` is how many seconds each request waits.
    """

    def __init__(self, endpoint: str) -> None:
        self.fault: Fault = lambda method, path: None
        self.latency = 0.0
        self.requests = 0
        target = urlsplit(endpoint).netloc
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                proxy.requests += 1
                time.sleep(proxy.latency)
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                fault = proxy.fault(self.command, self.path)
                if isinstance(fault, tuple):
                    status, code = fault
                    answer = f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()
                    self._answer(status, [("Content-Length", str(len(answer)))], answer)
                    return
                connection = http.client.HTTPConnection(target, timeout=60)
                connection.request(self.command, self.path, body, dict(self.headers.items()))
                response = connection.getresponse()
                answer = response.read()
                connection.close()
                if fault == "lose":
                    self.close_connection = True
                    return
                drop = ("transfer-encoding", "connection")
                headers = [h for h in response.getheaders() if h[0].lower() not in drop]
                if fault == "cut":
                    self.close_connection, answer = True, answer[: len(answer) // 2]
                self._answer(response.status, headers, answer)

            def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
                self.send_response_only(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:
                del format, args

        class Server(ThreadingHTTPServer):
            request_queue_size = 128
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                del request, client_address  # ignore errors of clients that gave up

        self._server = Server(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, name="http-proxy", daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
