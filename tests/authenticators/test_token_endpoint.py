"""Failures of the token endpoint: temporary ones are retried, others are reported."""

from __future__ import annotations

import json
import logging
import traceback

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from tap_core.authenticators import AccessTokenError, RetryPolicy
from tap_core.authenticators.token_endpoint import (
    RequestOutcome,
    TokenRequest,
    TokenResponse,
    collect_payload_secrets,
    parse_oauth_error,
)
from tap_core.exceptions import FatalAPIError
from tap_core.logging import StructuredFormatter
from tap_core.parsing.datetimes import utc_now
from tap_core.protocols.error_classification import failure_type
from tap_core.redaction import Secrets
from tests.authenticators.logins import Login, Stream, prepare_request
from tests.http.raw import raw_server
from tests.http.server import Reply

GOOD = Reply({"access_token": "token-1"})
SECRETS = ("s3cret", "in-the-query", "in-the-url", "top-secret")


def login(server, kind: type[Login] = Login, **arguments):
    url = f"{server.url}/oauth/token?api_key=in-the-query#x"
    url = url.replace("//", "//me:in-the-url@", 1)
    return kind(client_id="me-id", client_secret="s3cret", auth_endpoint=url, **arguments)


def failure(authenticator) -> AccessTokenError:
    with pytest.raises(AccessTokenError) as raised:
        prepare_request(authenticator)
    return raised.value


def collect_log_text(error, caplog) -> str:
    """Return all text that a log could contain: lines, traceback, and the error as JSON."""
    formatted = "".join(traceback.format_exception(error))
    record = logging.makeLogRecord({"exc_info": (type(error), error, error.__traceback__)})
    return f"{caplog.text}{formatted}{StructuredFormatter().format(record)}{error!r}"


# Temporary failures


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_temporary_failure_of_the_endpoint_is_retried(server, caplog, status):
    caplog.set_level("INFO")
    server.answers(Reply("busy: s3cret", status=status), Reply(status=status), GOOD)
    authenticator = login(server)
    assert prepare_request(authenticator).headers["Authorization"] == "Bearer token-1"
    assert len(server.requests) == 3
    first, second = authenticator.waits
    assert 1 <= first <= 2 <= second <= 3
    url = f"{server.url}/oauth/token"
    assert f"No access token from {url}: status {status}; retrying in" in caplog.text
    assert "after try 1 of 11" in caplog.text
    assert not any(secret in caplog.text for secret in SECRETS)


def test_retry_after_of_the_endpoint_is_obeyed(server):
    server.answers(Reply(status=503, headers={"Retry-After": "7"}), GOOD)
    authenticator = login(server)
    prepare_request(authenticator)
    assert authenticator.waits == [7]


def test_broken_connection_is_retried(server):
    server.answers(Reply("x", keep=0, reset=True), GOOD)
    authenticator = login(server)
    assert prepare_request(authenticator).headers["Authorization"] == "Bearer token-1"
    assert len(authenticator.waits) == 1


def test_failure_after_all_tries_is_reported_without_secrets(server, caplog):
    server.answers(Reply({"access_token": "top-secret", "error": "down"}, status=500))
    authenticator = login(server)
    error = failure(authenticator)
    assert len(server.requests) == 11
    assert max(authenticator.waits) <= 61
    assert str(error) == (
        f"Failed to update access token (status=500) at {server.url}/oauth/token: refused, down"
    )
    assert not any(secret in collect_log_text(error, caplog) for secret in SECRETS)


def test_endpoint_that_does_not_respond_times_out(server, caplog):
    server.answers(Reply(silent=True))
    authenticator = login(server)
    authenticator.patience = RetryPolicy(timeout=0.2, tries=2, sleep=authenticator.waits.append)
    error = failure(authenticator)
    assert (server.count_requests(2), len(authenticator.waits), error.status) == (2, 1, None)
    assert "(status=Unknown)" in str(error)
    assert "no answer, ReadTimeout" in str(error)
    assert not any(secret in collect_log_text(error, caplog) for secret in SECRETS)


def test_refused_connection_names_url_and_reason(caplog):
    authenticator = Login(auth_endpoint="http://127.0.0.1:1/token?api_key=in-the-query")
    error = failure(authenticator)
    assert len(authenticator.waits) == 10
    assert str(error).endswith("127.0.0.1:1/token: no answer, ConnectionError (Connection refused)")
    assert (error.__cause__, error.__context__) == (None, None)
    assert not any(secret in collect_log_text(error, caplog) for secret in SECRETS)


# Permanent failures


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_oauth_error_is_reported_without_retry(server, caplog, status):
    fields = {
        "error": "invalid_client",
        "error_description": "No client me-id\nwith the secret s3cret.",
        "debug": "top-secret",
    }
    server.answers(Reply(fields, status=status))
    authenticator = login(server)
    error = failure(authenticator)
    assert (len(server.requests), authenticator.waits) == (1, [])
    assert str(error) == (
        f"Failed to update access token (status={status}) at {server.url}/oauth/token: "
        "refused, invalid_client: No client me-id with the secret ***."
    )
    assert isinstance(error, (RuntimeError, FatalAPIError))
    assert (error.status, error.error) == (status, "invalid_client")
    assert error.description == "No client me-id with the secret ***."
    assert f"Failed OAuth login with status code {status}: invalid_client: No" in caplog.text
    assert not any(secret in collect_log_text(error, caplog) for secret in SECRETS)


def test_secrets_echoed_by_the_server_are_hidden(server, caplog):
    fields = {"error": "no key top-secret", "error_description": "in-the-query s3cret"}
    server.answers(Reply(status=500), Reply(fields, status=401))
    authenticator = Login(
        auth_endpoint=f"{server.url}/s3cret/token?api_key=in-the-query",
        client_secret="s3cret",
        oauth_headers={"Authorization": "Key top-secret"},
    )
    error = failure(authenticator)
    assert str(error).endswith("/***/token: refused, no ***: *** ***")
    assert not any(secret in collect_log_text(error, caplog) for secret in SECRETS)


def test_refusal_that_is_not_json_is_not_shown(server, caplog):
    server.answers(Reply("<html>top-secret</html>", status=403))
    error = failure(login(server))
    assert str(error).endswith("/oauth/token: refused")
    assert "the response has no OAuth error" in caplog.text
    assert not any(secret in collect_log_text(error, caplog) for secret in SECRETS)


def test_handle_error_receives_the_complete_response(server):
    class Curious(Login):
        def handle_error(self, *, content, status_code):
            self.error_arguments = (content, status_code)

    server.answers(Reply("top-secret", status=400))
    authenticator = login(server, Curious)
    failure(authenticator)
    assert authenticator.error_arguments == ("top-secret", 400)


@pytest.mark.parametrize(
    "reply, reason",
    [
        (
            Reply({"error": "bad_refresh_token"}),
            "the response has no access_token, bad_refresh_token",
        ),
        (Reply({"access_token": ""}), "the response has no access_token"),
        (Reply("top-secret"), "the response is not a JSON object but application/json"),
        (Reply("[1]", headers={"Content-Type": ""}), "not a JSON object but of no content type"),
        (Reply("", headers={"Content-Type": "text/html; a=b"}), "not a JSON object but text/html"),
    ],
)
def test_response_without_a_token_is_an_error(server, caplog, reply, reason):
    server.answers(reply)
    error = failure(login(server))
    assert str(error).endswith(reason)
    assert error.status == 200
    assert not any(secret in collect_log_text(error, caplog) for secret in SECRETS)


@pytest.mark.parametrize("field", ["access_token", "refresh_token"])
def test_very_long_token_is_an_error(server, field):
    """SEC13: all texts are searched for a token, which takes a minute for one of ten megabytes."""
    server.answers(Reply({"access_token": "abc", field: "x" * 65_537}))
    assert "has a token of 65,537 characters, more than 65,536" in str(failure(login(server)))


def test_failed_certificate_verification_is_not_retried():
    ssl_error = requests.exceptions.SSLError("CERTIFICATE_VERIFY_FAILED")
    assert not RequestOutcome(utc_now(), error=ssl_error).is_retryable
    assert RequestOutcome(utc_now(), error=requests.exceptions.SSLError("EOF")).is_retryable


def test_invalid_endpoint_url_is_an_error_without_retry():
    authenticator = Login(auth_endpoint="no-url?api_key=in-the-query")
    error = failure(authenticator)
    assert authenticator.waits == []
    assert str(error).endswith(
        "at no-url: the address is not valid: it must begin with https:// or http://"
    )
    assert failure_type(error) == "config_error"


def test_endpoint_with_a_host_that_cannot_be_encoded_is_an_error():
    error = failure(Login(auth_endpoint=f"http://{'a' * 64}.test/token"))
    assert "the address is not valid" in str(error)


def test_proxy_that_refuses_a_connection_is_asked_once_and_named(monkeypatch):
    def refuse(_server, connection):
        connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")

    with raw_server(refuse) as proxy:
        monkeypatch.setenv("https_proxy", proxy.url)
        error = failure(Login(auth_endpoint="https://login.example.test/token"))
    assert len(proxy.requests) == 1
    assert f"The proxy '{proxy.url}' refuses to connect to the server (403 Forbidden)" in str(error)


# Secrets


@pytest.mark.parametrize(
    "payload, hidden",
    [
        ({"grant_type": "refresh_token", "assertion": "aaaa-1"}, ("aaaa-1",)),
        ("grant_type=password&login=bbbb-1", ("bbbb-1",)),
        (b"login=cccc-1", ("cccc-1",)),
        ("dddd-1", ("dddd-1",)),
        (["not", "known"], ()),
    ],
)
def test_secret_values_of_a_payload_are_collected(payload, hidden):
    assert collect_payload_secrets(payload).values == hidden


def test_repr_of_token_request_and_response_shows_no_secret():
    headers, payload = {"Authorization": "top-secret"}, {"a": "s3cret"}
    request = TokenRequest("https://u:pw@x/t", headers, payload, Secrets(("s3cret",)))
    token = TokenResponse(utc_now(), "s3cret", "top-secret", 1)
    assert not any(secret in f"{request!r}{token!r}" for secret in SECRETS)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(["error", "error_description", "x"]), JSON) | JSON)
def test_oauth_error_of_any_response_is_short_text_or_none(document):
    for message in parse_oauth_error(json.dumps(document), Secrets(("secret",))):
        assert message is None or (message.strip() and len(message) <= 301)


def test_long_oauth_error_description_is_truncated():
    content = json.dumps({"error_description": "a" * 10_000})
    assert parse_oauth_error(content, Secrets()) == (None, f"{'a' * 300}…")
    assert parse_oauth_error("[" * 100_000, Secrets()) == (None, None)


def test_retry_of_a_token_request_names_the_stream_in_the_log(server, caplog):
    caplog.set_level("INFO")
    server.answers(Reply(status=503), GOOD)
    authenticator = login(server)
    authenticator.attach(Stream(name="orders"))
    prepare_request(authenticator)
    assert "Stream 'orders': No access token from" in caplog.text
    assert "after try 1 of" in caplog.text
