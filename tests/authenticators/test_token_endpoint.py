"""A token endpoint that fails: what passes is waited out, what does not is said."""

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
from tap_core.redaction import Secrets
from tests.authenticators.logins import Login, Stream, sent_with
from tests.http.server import Reply

GOOD = Reply({"access_token": "token-1"})
SECRETS = ("s3cret", "in-the-query", "in-the-url", "top-secret")


def login(server, kind: type[Login] = Login, **given):
    url = f"{server.url}/oauth/token?api_key=in-the-query#x"
    url = url.replace("//", "//me:in-the-url@", 1)
    return kind(client_id="me-id", client_secret="s3cret", auth_endpoint=url, **given)


def failure(authenticator) -> AccessTokenError:
    with pytest.raises(AccessTokenError) as raised:
        sent_with(authenticator)
    return raised.value


def everything(error, caplog) -> str:
    """Return all that a log could show: lines, the traceback, and the error as JSON."""
    shown = "".join(traceback.format_exception(error))
    record = logging.makeLogRecord({"exc_info": (type(error), error, error.__traceback__)})
    return f"{caplog.text}{shown}{StructuredFormatter().format(record)}{error!r}"


# What passes


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_what_passes_is_asked_again(server, caplog, status):
    server.answers(Reply("busy: s3cret", status=status), Reply(status=status), GOOD)
    authenticator = login(server)
    assert sent_with(authenticator).headers["Authorization"] == "Bearer token-1"
    assert len(server.asked) == 3
    first, second = authenticator.waits
    assert 1 <= first <= 2 <= second <= 3
    place = f"{server.url}/oauth/token"
    assert f"No access token from {place}: status {status}; retrying in" in caplog.text
    assert "after try 1 of 11" in caplog.text
    assert not any(secret in caplog.text for secret in SECRETS)


def test_a_server_that_says_when_to_come_back_is_asked_then(server):
    server.answers(Reply(status=503, headers={"Retry-After": "7"}), GOOD)
    authenticator = login(server)
    sent_with(authenticator)
    assert authenticator.waits == [7]


def test_a_connection_that_breaks_is_made_again(server):
    server.answers(Reply("x", keep=0, reset=True), GOOD)
    authenticator = login(server)
    assert sent_with(authenticator).headers["Authorization"] == "Bearer token-1"
    assert len(authenticator.waits) == 1


def test_what_does_not_pass_in_a_few_tries_is_said(server, caplog):
    server.answers(Reply({"access_token": "top-secret", "error": "down"}, status=500))
    authenticator = login(server)
    error = failure(authenticator)
    assert len(server.asked) == 11
    assert max(authenticator.waits) <= 61
    assert str(error) == (
        f"Failed to update access token (status=500) at {server.url}/oauth/token: refused, down"
    )
    assert not any(secret in everything(error, caplog) for secret in SECRETS)


def test_a_server_that_hangs_is_not_waited_for_for_ever(server, caplog):
    server.answers(Reply(silent=True))
    authenticator = login(server)
    authenticator.patience = RetryPolicy(timeout=0.2, tries=2, sleep=authenticator.waits.append)
    error = failure(authenticator)
    assert (len(server.asked), len(authenticator.waits), error.status) == (2, 1, None)
    assert "(status=Unknown)" in str(error)
    assert "no answer, ReadTimeout" in str(error)
    assert not any(secret in everything(error, caplog) for secret in SECRETS)


def test_a_server_that_is_not_there_is_named_with_the_reason(caplog):
    authenticator = Login(auth_endpoint="http://127.0.0.1:1/token?api_key=in-the-query")
    error = failure(authenticator)
    assert len(authenticator.waits) == 10
    assert str(error).endswith("127.0.0.1:1/token: no answer, ConnectionError (Connection refused)")
    assert (error.__cause__, error.__context__) == (None, None)
    assert not any(secret in everything(error, caplog) for secret in SECRETS)


# What does not


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_counts_at_once_and_says_what_oauth_says(server, caplog, status):
    said = {
        "error": "invalid_client",
        "error_description": "No client me-id\nwith the secret s3cret.",
        "debug": "top-secret",
    }
    server.answers(Reply(said, status=status))
    authenticator = login(server)
    error = failure(authenticator)
    assert (len(server.asked), authenticator.waits) == (1, [])
    assert str(error) == (
        f"Failed to update access token (status={status}) at {server.url}/oauth/token: "
        "refused, invalid_client: No client me-id with the secret ***."
    )
    assert isinstance(error, (RuntimeError, FatalAPIError))
    assert (error.status, error.error) == (status, "invalid_client")
    assert error.description == "No client me-id with the secret ***."
    assert f"Failed OAuth login with status code {status}: invalid_client: No" in caplog.text
    assert not any(secret in everything(error, caplog) for secret in SECRETS)


def test_what_a_server_repeats_of_headers_and_path_is_hidden(server, caplog):
    said = {"error": "no key top-secret", "error_description": "in-the-query s3cret"}
    server.answers(Reply(status=500), Reply(said, status=401))
    authenticator = Login(
        auth_endpoint=f"{server.url}/s3cret/token?api_key=in-the-query",
        client_secret="s3cret",
        oauth_headers={"Authorization": "Key top-secret"},
    )
    error = failure(authenticator)
    assert str(error).endswith("/***/token: refused, no key ***: *** ***")
    assert not any(secret in everything(error, caplog) for secret in SECRETS)


def test_a_refusal_that_is_no_json_shows_nothing_of_it(server, caplog):
    server.answers(Reply("<html>top-secret</html>", status=403))
    error = failure(login(server))
    assert str(error).endswith("/oauth/token: refused")
    assert "the response has no OAuth error" in caplog.text
    assert not any(secret in everything(error, caplog) for secret in SECRETS)


def test_authors_see_the_whole_refusal_in_their_hook(server):
    class Curious(Login):
        def handle_error(self, *, content, status_code):
            self.seen = (content, status_code)

    server.answers(Reply("top-secret", status=400))
    authenticator = login(server, Curious)
    failure(authenticator)
    assert authenticator.seen == ("top-secret", 400)


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
def test_an_answer_without_a_token_is_a_refusal(server, caplog, reply, reason):
    server.answers(reply)
    error = failure(login(server))
    assert str(error).endswith(reason)
    assert error.status == 200
    assert not any(secret in everything(error, caplog) for secret in SECRETS)


def test_a_certificate_that_is_refused_is_not_tried_again():
    refused = requests.exceptions.SSLError("CERTIFICATE_VERIFY_FAILED")
    assert not RequestOutcome(utc_now(), error=refused).may_pass
    assert RequestOutcome(utc_now(), error=requests.exceptions.SSLError("EOF")).may_pass


def test_an_endpoint_that_is_no_url_is_an_error_at_once():
    authenticator = Login(auth_endpoint="no-url?api_key=in-the-query")
    error = failure(authenticator)
    assert authenticator.waits == []
    assert str(error).endswith("at no-url: no answer, MissingSchema")


# What is secret


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
def test_whatever_is_sent_is_hidden_unless_it_is_public(payload, hidden):
    assert collect_payload_secrets(payload).values == hidden


def test_no_secret_is_in_a_repr_of_what_is_passed_around():
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
def test_any_answer_gives_words_or_none(document):
    for words in parse_oauth_error(json.dumps(document), Secrets(("secret",))):
        assert words is None or (words.strip() and len(words) <= 301)


def test_a_long_description_is_cut():
    content = json.dumps({"error_description": "a" * 10_000})
    assert parse_oauth_error(content, Secrets()) == (None, f"{'a' * 300}…")
    assert parse_oauth_error("[" * 100_000, Secrets()) == (None, None)


def test_a_token_that_is_asked_for_again_names_the_stream_that_needs_it(server, caplog):
    server.answers(Reply(status=503), GOOD)
    authenticator = login(server)
    authenticator.attach(Stream(name="orders"))
    sent_with(authenticator)
    assert "Stream 'orders': No access token from" in caplog.text
    assert "after try 1 of" in caplog.text
