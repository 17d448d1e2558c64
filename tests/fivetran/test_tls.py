"""TLS: a source has to present a trusted certificate."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tap_core import RESTStream, Tap
from tap_core import typing as th
from tap_core.exceptions import ConfigurationError
from tap_core.http.https_policy import check_https, require_https
from tap_core.protocols.fivetran.connection_tests import run_test
from tests.http.certificates import write_certificate
from tests.server_thread import serve_in_thread


class Orders(RESTStream[Any]):
    name = "orders"
    path = "/orders"
    primary_keys = ("id",)
    schema = th.PropertiesList(th.Property("id", th.IntegerType)).to_dict()

    @property
    def url_base(self) -> str:
        return self.config["address"]

    @property
    def requests_session(self) -> Any:
        session = super().requests_session
        session.verify = self.config.get("trusted", True)
        return session


class TapOverTls(Tap):
    name = "tap-safe"
    config_jsonschema = th.PropertiesList(
        th.Property("address", th.StringType), th.Property("trusted", th.StringType)
    ).to_dict()

    def discover_streams(self) -> list[Any]:
        return [Orders(self)]


class Handler(BaseHTTPRequestHandler):
    requests: list[str] = []

    def do_GET(self) -> None:
        self.requests.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'[{"id": 1}]')

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A self-signed certificate of localhost, with its key."""
    return write_certificate(tmp_path)


@contextmanager
def serving(certificate: Path) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # the client hangs up
    with serve_in_thread(server):
        yield f"https://127.0.0.1:{server.server_address[1]}"


def check_connection(tap: TapOverTls) -> str | None:
    return run_test(tap.connection_tests, lambda: nullcontext(tap), "connection")


def test_no_request_is_sent_to_a_server_with_an_untrusted_certificate(certificate: Path) -> None:
    """F8: neither request nor credentials are sent before the certificate is verified."""
    Handler.requests.clear()
    with serving(certificate) as address:
        tap = TapOverTls(config={"address": address})
        failure = check_connection(tap)
        assert failure is not None
        assert address not in failure
        assert Handler.requests == []
        trusting = TapOverTls(config={"address": address, "trusted": str(certificate)})
        assert check_connection(trusting) is None
        assert Handler.requests != []


@pytest.mark.parametrize(
    ("address", "may"),
    [
        ("http://example.com/orders", False),
        ("HTTP://user:secret@example.com", False),
        ("http://127.0.0.1.example.com", False),
        ("https://example.com", True),
        ("http://127.0.0.1:8080", True),
        ("http://[::1]:8080", True),
        ("http://localhost", True),
        (None, True),
    ],
)
def test_plain_http_is_refused_under_fivetran(address, may, monkeypatch) -> None:
    """F8: only under a Fivetran server."""
    check_https(address)
    monkeypatch.setattr("tap_core.http.https_policy._is_required", threading.Event())
    require_https()
    if may:
        check_https(address)
        return
    with pytest.raises(ConfigurationError, match="plain HTTP") as caught:
        check_https(address)
    assert "example" not in str(caught.value)
    failure = check_connection(TapOverTls(config={"address": address}))
    assert failure is not None
    assert "plain HTTP" in failure
