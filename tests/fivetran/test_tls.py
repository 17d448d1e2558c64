"""A source that is reached over TLS has to prove who it is."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tap_core import RESTStream, Tap
from tap_core import typing as th
from tap_core.encryption import check_encrypted, demand_encryption
from tap_core.exceptions import ConfigurationError
from tap_core.protocols.fivetran.checks import run_test


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


class TapSafe(Tap):
    name = "tap-safe"
    config_jsonschema = th.PropertiesList(
        th.Property("address", th.StringType), th.Property("trusted", th.StringType)
    ).to_dict()

    def discover_streams(self) -> list[Any]:
        return [Orders(self)]


class Answers(BaseHTTPRequestHandler):
    asked: list[str] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'[{"id": 1}]')

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate of this machine that nobody has signed but itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "loopback")])
    now = datetime.now(timezone.utc)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "loopback.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


@contextmanager
def serving(certificate: Path) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # who hangs up
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_nothing_is_asked_of_a_server_whose_certificate_nobody_knows(certificate: Path) -> None:
    """F8: neither request nor credentials leave before the server has proved who it is."""
    Answers.asked.clear()
    with serving(certificate) as address:
        tap = TapSafe(config={"address": address})
        failure = run_test(tap, "connection")
        assert failure is not None
        assert address not in failure
        assert Answers.asked == []
        trusting = TapSafe(config={"address": address, "trusted": str(certificate)})
        assert run_test(trusting, "connection") is None
        assert Answers.asked != []


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
def test_nothing_leaves_the_machine_over_plain_http(address, may, monkeypatch) -> None:
    """F8: but only where a server of Fivetran's has asked for that."""
    check_encrypted(address)
    monkeypatch.setattr("tap_core.encryption._demanded", threading.Event())
    demand_encryption()
    if may:
        check_encrypted(address)
        return
    with pytest.raises(ConfigurationError, match="plain HTTP") as refused:
        check_encrypted(address)
    assert "example" not in str(refused.value)
    failure = run_test(TapSafe(config={"address": address}), "connection")
    assert failure is not None
    assert "plain HTTP" in failure
