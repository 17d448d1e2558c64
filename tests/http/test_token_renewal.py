"""A token that expires during a sync, and a server with an untrusted certificate."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl

import pytest
import requests

from tap_core.authenticators import OAuthAuthenticator
from tap_core.exceptions import FatalAPIError
from tests.http.server import Reply, page, serving


class Login(OAuthAuthenticator):
    @property
    def oauth_request_body(self):
        return {"grant_type": "client_credentials", "client_id": self.client_id}


class Api:
    """An API that issues tokens and accepts each for ``uses`` requests."""

    def __init__(self, server, uses):
        self.uses = uses
        self.tokens = 0
        self.pages = 0
        server.answers_by(self.answer)

    def answer(self, request):
        if request.path == "/token":
            self.tokens += 1
            self.left = self.uses
            return Reply({"access_token": f"token-{self.tokens}", "expires_in": 3600})
        if self.left == 0 or request.headers["Authorization"] != f"Bearer token-{self.tokens}":
            return Reply({"error": "expired"}, 401)
        self.left -= 1
        self.pages += 1
        return page({"id": self.pages}, next=f"p{self.pages}" if self.pages < 4 else None)


def login(source):
    return Login(auth_endpoint=f"{source.server.url}/token", client_id="me")


def test_expired_token_is_renewed_once_and_the_request_repeated(source):
    api = Api(source.server, uses=3)
    assert len(source.records(authenticator=login(source))) == 4
    assert api.tokens == 2
    paths = [request.path for request in source.server.requests]
    assert paths == ["/token", *["/users"] * 4, "/token", "/users"]
    assert source.server.requests[4].query == source.server.requests[6].query == {"page": ["p3"]}


def test_second_401_after_a_renewal_is_fatal(source):
    api = Api(source.server, uses=0)
    with pytest.raises(FatalAPIError, match=r"^401 Client Error") as caught:
        source.records(authenticator=login(source))
    assert api.tokens == 2
    assert [request.path for request in source.server.requests] == ["/token", "/users"] * 2
    assert "token-" not in str(caught.value)


def test_token_renewed_by_another_stream_is_reused(source):
    api = Api(source.server, uses=9)
    authenticator = login(source)

    def answer(request):
        reply = api.answer(request)
        if request.headers.get("Authorization") == "Bearer token-1":
            authenticator.update_access_token()  # meanwhile, elsewhere
            return Reply("", 401)
        return reply

    source.server.answers_by(answer)
    assert len(source.records(authenticator=authenticator)) >= 3
    assert api.tokens == 2


def test_401_without_a_token_authenticator_is_fatal(source):
    source.server.answers(Reply("", 401))
    with pytest.raises(FatalAPIError, match=r"^401"):
        source.records()
    assert len(source.server.requests) == 1


def test_401_can_be_a_tolerated_error(source):
    Api(source.server, uses=0)
    assert source.records(authenticator=login(source), tolerated_http_errors=[401]) == []
    assert [request.path for request in source.server.requests] == ["/token", "/users"]


def test_untrusted_certificate_fails_without_retry(source, tmp_path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(self_signed(tmp_path))

    def wrap(listening):
        return context.wrap_socket(listening, server_side=True)

    with serving(wrap) as server:
        stream = source.stream(url_base=server.url)
        with pytest.raises(requests.exceptions.SSLError, match=r"CERTIFICATE_VERIFY.*try 1\]"):
            list(stream.get_records(None))
        assert stream.waits == []


def self_signed(folder):
    """Write a self-signed certificate for loopback with its key, and return the file."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "loopback")])
    now = dt.datetime.now(dt.timezone.utc)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path = folder / "server.pem"
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return path
