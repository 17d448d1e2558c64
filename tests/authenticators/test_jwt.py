"""OAuth with JWT assertions that are signed with a private key."""

from __future__ import annotations

import sys
from urllib.parse import parse_qs

import pytest

from tap_core.authenticators import OAuthJWTAuthenticator
from tap_core.parsing.datetimes import utc_now
from tests.authenticators.logins import Stream, prepare_request
from tests.http.server import Reply

jwt = pytest.importorskip("jwt")
serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")


@pytest.fixture(scope="module")
def key():
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def pem(key, passphrase: str | None = None) -> str:
    locked = serialization.NoEncryption()
    if passphrase:
        locked = serialization.BestAvailableEncryption(passphrase.encode())
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked
    ).decode()


def request_token(server, **arguments):
    server.answers(Reply({"access_token": "token-1", "expires_in": 3600}))
    authenticator = OAuthJWTAuthenticator(
        auth_endpoint=server.url, client_id="me", oauth_scopes="read", **arguments
    )
    assert prepare_request(authenticator).headers["Authorization"] == "Bearer token-1"
    return {name: value for name, [value] in parse_qs(server.requests[0].body.decode()).items()}


@pytest.mark.parametrize("passphrase", [None, "open sesame"])
@pytest.mark.parametrize("on_one_line", [False, True])
def test_jwt_assertion_is_signed_with_the_private_key(server, key, passphrase, on_one_line):
    text = pem(key, passphrase)
    if on_one_line:
        text = text.replace("\n", "\\n")
    now = utc_now().timestamp()
    body = request_token(server, private_key=text, private_key_passphrase=passphrase)
    assert body["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    claims = jwt.decode(
        body["assertion"], key.public_key(), algorithms=["RS256"], audience=server.url
    )
    assert (claims["iss"], claims["scope"], claims["aud"]) == ("me", "read", server.url)
    assert claims["exp"] - claims["iat"] == 3600
    assert now - 1 <= claims["iat"] <= utc_now().timestamp()


@pytest.mark.filterwarnings("ignore::tap_core.exceptions.SingerSDKDeprecationWarning")
def test_private_key_is_read_from_the_config_of_the_stream():
    stream = Stream(config={"private_key": "k", "private_key_passphrase": "p", "client_id": "c"})
    authenticator = OAuthJWTAuthenticator(
        stream=stream, auth_endpoint="https://x/t", oauth_scopes="a"
    )
    assert (
        authenticator.private_key,
        authenticator.private_key_passphrase,
        authenticator.client_id,
    ) == ("k", "p", "c")
    assert (authenticator.auth_endpoint, authenticator.oauth_scopes) == ("https://x/t", "a")


def test_missing_private_key_is_an_error_before_any_request(server):
    with pytest.raises(ValueError, match="There is no private_key"):
        prepare_request(OAuthJWTAuthenticator(auth_endpoint=server.url))
    assert server.requests == []


@pytest.mark.parametrize("package", ["jwt", "cryptography.hazmat.primitives.serialization"])
def test_missing_package_is_named_in_the_error(server, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(RuntimeError, match=r"needs the packages PyJWT and cryptography"):
        prepare_request(OAuthJWTAuthenticator(auth_endpoint=server.url, private_key="k"))


def test_invalid_private_key_is_not_shown_in_the_error(server):
    text = "-----BEGIN PRIVATE KEY-----\ns3cret\n-----END PRIVATE KEY-----"
    with pytest.raises(ValueError) as raised:  # noqa: PT011  the library's own words
        prepare_request(OAuthJWTAuthenticator(auth_endpoint=server.url, private_key=text))
    assert "s3cret" not in str(raised.value)
