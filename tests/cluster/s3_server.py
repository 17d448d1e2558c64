"""S3 server of moto on loopback, in a separate environment and process.

It ends with the process that started it, because it reads a pipe to that process. Clients connect
through a proxy, which can be closed: then existing connections are broken and new ones refused, but
the server keeps its objects.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import socketserver
import subprocess
import threading
import urllib.request
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from typing_extensions import Self

from tests.peers import peer_python

__all__ = ["KEY", "SECRET", "S3Server"]

KEY: Final = "the-key-of-tests"
SECRET: Final = "the-secret-of-tests"

_HERE: Final = "127.0.0.1"
_PATIENCE: Final = 300
_PROGRAM: Final = """
import sys
from werkzeug.serving import WSGIRequestHandler

# Werkzeug sends "100 Continue", and so does Python's server below it; Netty, to
# which Amazon's SDK leaves uploads, takes the second one for the answer. S3 sends one.
WSGIRequestHandler.handle_expect_100 = lambda self: True

from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""
_SIGNED: Final = (
    "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/{}/aws4_request,"
    " SignedHeaders=host, Signature=x"
)
"""Selects a service of the server, which checks no signature."""
_KEYS: Final = re.compile(r"<Key>(.*?)</Key>")


class S3Server:
    """The server and its proxy, as a context manager; its port is a free one if it is 0."""

    def __init__(self, log: Path, port: int = 0) -> None:
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._proxy: _Proxy | None = None
        self._behind = 0
        self.port = port

    def __enter__(self) -> Self:
        python = peer_python("s3_server")
        assert python is not None
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [python, "-c", _PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.strip(), self._log.read_text()
        self._behind = int(line)
        self.open_proxy()
        return self

    def __exit__(self, *_: object) -> None:
        self.close_proxy()
        assert self._process is not None
        with self._process as process:
            process.communicate(timeout=_PATIENCE)

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"http://{_HERE}:{self.port}"

    @property
    def spark(self) -> dict[str, Any]:
        """The value of the setting ``spark`` that reaches the server."""
        return {
            "spark.hadoop.fs.s3a.endpoint": self.url,
            "spark.hadoop.fs.s3a.path.style.access": True,
            "spark.hadoop.fs.s3a.access.key": KEY,
            "spark.hadoop.fs.s3a.secret.key": SECRET,
        }

    def open_proxy(self) -> None:
        """Accept connections, from now on at the same port."""
        self._proxy = _Proxy(self.port, self._behind)
        self.port = self._proxy.server_address[1]
        threading.Thread(target=self._proxy.serve_forever, daemon=True).start()

    def close_proxy(self) -> None:
        """Break all connections and refuse new ones."""
        assert self._proxy is not None
        self._proxy.shut()

    def ask_for_known_keys(self, *, known: bool) -> None:
        """Reject every access key (``known``), or accept any."""
        self._ask("POST", "moto-api/reset-auth", b"0" if known else b"inf")

    def make_bucket(self, name: str) -> None:
        """Make a bucket."""
        self._ask("PUT", name)

    def make_table_bucket(self, name: str) -> str:
        """Make a bucket of Amazon S3 Tables; return its ARN."""
        body = json.dumps({"name": name}).encode()
        arn: str = json.loads(self._ask("PUT", "buckets", body, "s3tables"))["arn"]
        return arn

    def read_table_metadata(self, arn: str, namespace: str, name: str) -> dict[str, Any]:
        """Return the metadata file of an Iceberg table of Amazon S3 Tables.

        Args:
            arn: The ARN of the table bucket.
            namespace: The namespace of the table.
            name: The name of the table.
        """
        query = urlencode({"tableBucketARN": arn, "namespace": namespace, "name": name})
        table = json.loads(self._ask("GET", f"get-table?{query}", service="s3tables"))
        location = table["metadataLocation"].removeprefix("s3://")
        metadata: dict[str, Any] = json.loads(self._ask("GET", location))
        return metadata

    def put(self, bucket: str, key: str, data: bytes) -> None:
        """Put an object."""
        self._ask("PUT", f"{bucket}/{quote(key)}", data)

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        """Return the keys of all objects with a prefix, without markers of empty folders."""
        answer = self._ask("GET", f"{bucket}?list-type=2&max-keys=1000&prefix={quote(prefix)}")
        text = answer.decode()
        assert "<IsTruncated>false</IsTruncated>" in text, "more than this helper reads"
        return [key for key in _KEYS.findall(text) if not key.endswith("/")]

    def _ask(self, method: str, path: str, data: bytes | None = None, service: str = "s3") -> bytes:
        request = urllib.request.Request(
            f"http://{_HERE}:{self._behind}/{path}", data, method=method
        )
        request.add_header("Authorization", _SIGNED.format(service))
        request.add_header("Content-Type", "text/plain")
        with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:  # noqa: S310
            content: bytes = answer.read()
            return content


class _Proxy(socketserver.ThreadingTCPServer):
    """A TCP proxy to a port of this machine."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, port: int, behind: int) -> None:
        super().__init__((_HERE, port), _Connection)
        self.behind = behind
        self.passing: set[socket.socket] = set()

    def shut(self) -> None:
        """Refuse new connections, then break the existing ones."""
        self.shutdown()
        self.server_close()
        for connection in list(self.passing):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Connection(socketserver.BaseRequestHandler):
    """One connection."""

    def handle(self) -> None:
        proxy = self.server
        assert isinstance(proxy, _Proxy)
        with (
            contextlib.suppress(OSError),
            socket.create_connection((_HERE, proxy.behind)) as server_socket,
        ):
            connections = {self.request, server_socket}
            proxy.passing |= connections
            back = threading.Thread(
                target=_pass_on, args=(server_socket, self.request), daemon=True
            )
            back.start()
            _pass_on(self.request, server_socket)
            back.join()
            proxy.passing -= connections


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
