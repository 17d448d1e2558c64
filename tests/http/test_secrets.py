"""Logs and errors of HTTP requests show no secret."""

from __future__ import annotations

import logging

import pytest
import requests

from tap_core.exceptions import FatalAPIError
from tap_core.redaction import Secrets, collect_secrets, is_secret_parameter, redact_url
from tap_core.redaction import http as words
from tap_core.redaction.http import (
    LONGEST_EXCERPT,
    body_excerpt,
    collect_sent_secrets,
)
from tap_core.redaction.process_secrets import install_redaction
from tests.http.server import Reply, page

MARK = "s3cr3t+V4lue/é"


def response(body, kind="application/json"):
    result = requests.Response()
    result._content = body if isinstance(body, bytes) else body.encode()
    result.headers["Content-Type"] = kind
    result.encoding = requests.utils.get_encoding_from_headers(result.headers)
    return result


@pytest.mark.parametrize(
    "name",
    [
        *("password", "Password", "client_secret", "clientSecret", "CLIENTSECRET", "api_key"),
        *("apiKey", "apikey", "X-API-Key", "access_token", "accesstoken", "Authorization"),
        *("key", "code", "sig", "X-Amz-Signature", "jwt", "Cookie", "Set-Cookie", "sessionid"),
        *("private-key", "refreshToken", "auth", "Ocp-Apim-Subscription-Key", "db.pass"),
    ],
)
def test_parameter_name_counts_as_secret(name):
    assert is_secret_parameter(name)


@pytest.mark.parametrize(
    "name",
    [
        *("id", "page", "page_token", "nextToken", "next_page_token", "cursor", "author"),
        *("primary_key", "sort_key", "passenger", "postcode", "tokenize", "keyboard", ""),
    ],
)
def test_parameter_name_does_not_count_as_secret(name):
    assert not is_secret_parameter(name)


@pytest.mark.parametrize(
    "url, expected",
    [
        ("https://u:p@h.example:8443/a/b?x=1#frag", "https://h.example:8443/a/b?x=1"),
        ("https://h/a?api_key=s3&x=1&token=", "https://h/a?api_key=***&x=1&token=***"),
        ("/a?page_token=abc&q=a%20b", "/a?page_token=abc&q=a%20b"),
        (b"https://h/a?key=1", "https://h/a?key=***"),
        ("https://[bad/x?key=1", "***"),
        ("", ""),
        (None, ""),
    ],
)
def test_credentials_and_secret_parameters_of_urls_are_redacted(url, expected):
    assert redact_url(url) == expected


def test_secrets_of_the_config_are_found_by_schema_or_name():
    schema = {
        "properties": {
            "login": {"secret": True},
            "other": {"writeOnly": True},
            "nested": {"properties": {"inner": {"secret": True}}},
        }
    }
    config = {
        "login": "aaaa1",
        "other": ["aaaa2", {"x": 33333, "y": None, "z": True}],
        "nested": {"inner": "aaaa4", "plain": "seen1"},
        "loose": {"client_secret": "aaaa5"},
        "pin_token": "ab",
        "url": "seen2",
    }
    secrets = collect_secrets(config, schema).values
    assert set(secrets) == {"aaaa1", "aaaa2", "33333", "aaaa4", "aaaa5"}
    assert collect_secrets(config).hide("aaaa5 aaaa1") == "*** aaaa1"


@pytest.mark.parametrize("charset", ["idna", "undefined", "base64", "punycode", "\0"])
def test_body_in_an_unusable_charset_is_shown_as_utf_8(charset):
    """SEC15: a charset that Python cannot decode does not replace the error of the request."""
    error_response = response("é is refused", f"text/plain; charset={charset}")
    assert body_excerpt(error_response, Secrets()) == "é is refused"


def test_secrets_are_hidden_in_each_encoding():
    secrets = collect_secrets({"password": MARK})
    for text in (MARK, "s3cr3t%2BV4lue%2F%C3%A9", "s3cr3t+V4lue/\\u00e9"):
        assert secrets.hide(f"<{text}>") == "<***>"
    assert Secrets().hide("via http://me:pw@proxy:1/ with Bearer abc.def") == (
        "via http://***@proxy:1/ with Bearer ***"
    )


@pytest.mark.parametrize(
    "text",
    [
        "Your token does not have the required scopes",
        'Token expired. Basic *** "token has been revoked"',
        "a bearer token, or basic auth",
        '{"errors": [{"message": "Token expired."}]}',
    ],
)
def test_sentence_about_tokens_is_not_redacted(text):
    assert Secrets().hide(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *("Bearer {}", "bearer {}", "TOKEN {}", "token {}.", "Basic {}", "with Token {} sent"),
        *("Bearer {}\n", "token {}, of course"),
    ],
)
@pytest.mark.parametrize(
    "value", ["abc.def", "a1b2", "ABC", "abc-def", "abcdefghijklm", "dXNlcjpwYXNz=="]
)
def test_credential_after_an_auth_scheme_is_hidden(text, value):
    hidden = Secrets().hide(text.format(value))
    assert value not in hidden
    assert "***" in hidden


def test_word_after_a_capitalized_auth_scheme_is_hidden():
    assert Secrets().hide("Authorization: Bearer hunter") == "Authorization: Bearer ***"


def test_credentials_of_a_request_are_collected_as_secrets():
    request = requests.Request(
        "GET",
        "https://u:pass1@h/?api_key=query1&x=seen",
        headers={"Authorization": "Bearer token1", "X-Api-Key": b"bytes1", "X-Seen": "seen"},
    ).prepare()
    request.headers["Authorization"] = "Bearer token1"
    assert set(collect_sent_secrets(request).values) >= {"token1", "bytes1", "query1", "pass1"}
    assert "seen" not in collect_sent_secrets(request).values
    assert collect_sent_secrets(None) == Secrets()


# Bodies


@pytest.mark.parametrize(
    "body, kind, expected",
    [
        (
            '{"error": "no", "password": "p1", "in": [{"api_key": "k", "token": null}]}',
            "application/json",
            '{"error": "no", "password": "***", "in": [{"api_key": "***", "token": null}]}',
        ),
        ('{"m": "bad token=abc, go"}', "application/json", '{"m": "bad token=***, go"}'),
        (
            "error=no&client_secret=abc&x=1",
            "application/x-www-form-urlencoded",
            "error=no&client_secret=***&x=1",
        ),
        ('password: "a b c" user=x', "text/plain", 'password: "***" user=x'),
        ('{"password": "abc', "application/json", '{"password": "***'),
        ("<p class='x'>Sorry <!-- token=1 --> <b>now</b></p>", "text/html", "Sorry now"),
        ("<html><body>late</body></html>", "", "late"),
        ("a\n  b", "text/plain", "a b"),
        ("a\x00b", "text/plain", ""),
        ("%PDF", "application/pdf", ""),
        ("", "text/plain", ""),
        ('"text"', "application/json", '"text"'),
        ("x", "text/plain; charset=nonsense", "x"),
        ("[" * 5000, "application/json", "[" * LONGEST_EXCERPT + "…"),
        ("x" * (words.LONGEST_BODY + 1), "text/plain", ""),
    ],
)
def test_body_excerpt_redacts_secrets_per_content_type(body, kind, expected):
    assert body_excerpt(response(body, kind), Secrets()) == expected


def test_body_excerpt_hides_secrets_of_the_config():
    secrets = collect_secrets({"password": MARK})
    assert body_excerpt(response(f"you said {MARK}", "text/plain; charset=utf-8"), secrets) == (
        "you said ***"
    )


# In a stream


def logged_text(caplog, error):
    texts = [record.getMessage() for record in caplog.records]
    while error is not None:
        texts += [str(error), repr(error)]
        error = error.__cause__ or error.__context__
    return "\n".join(texts)


@pytest.mark.parametrize(
    "reply",
    [
        Reply({"error": f"unknown login {MARK}", "access_token": "s3cr3t-2"}, 400),
        Reply(f"<p>no {MARK}</p>", 500, {"Content-Type": "text/html; charset=utf-8"}),
        Reply(f"<p>no {MARK}</p>", 200, {"Content-Type": "text/html; charset=utf-8"}),
        Reply('{"data": ["s3cr3t-3'),
        Reply({}, keep=0),
    ],
    ids=["refused", "broken", "page", "cut off", "dropped"],
)
def test_failed_request_shows_no_secret(source, caplog, reply):
    caplog.set_level(logging.DEBUG)
    source.server.answers(reply)
    with pytest.raises((FatalAPIError, Exception)) as caught:
        source.records(
            config={"login": MARK},
            http_headers={"X-Auth-Token": "s3cr3t-4"},
            get_url_params=lambda self, context, token: {"api_key": MARK, "x": 1},
            _LOG_REQUEST_METRIC_URLS=True,
        )
    text = logged_text(caplog, caught.value)
    assert "s3cr3t" not in text
    assert "stream 'users', GET http://127.0.0.1" in str(caught.value)
    assert "/users?api_key=***&x=1, try " in str(caught.value)
    assert "/users?api_key=***&x=1" in caplog.text  # urllib3's line, or the metric


def test_failed_connection_shows_no_secret(source, caplog):
    caplog.set_level(logging.DEBUG)
    with pytest.raises(requests.exceptions.ConnectionError) as caught:
        source.records(
            url_base="http://me:s3cr3t-5@127.0.0.1:9",
            get_url_params=lambda self, context, token: {"api_key": MARK},
        )
    assert "Max retries exceeded with url: /users?api_key=***" in str(caught.value)
    assert "s3cr3t" not in logged_text(caplog, caught.value)


def test_secrets_in_url_paths_are_hidden(source):
    source.server.answers(Reply("", 404))
    with pytest.raises(FatalAPIError) as caught:
        source.records(config={"login": "s3cr3t-6"}, path="/u/{login}")
    assert str(caught.value).startswith("404 Client Error: Not Found for path: /u/***, headers: ")
    assert "s3cr3t" not in str(caught.value)


def test_urllib3_logs_urls_without_secrets(caplog):
    caplog.set_level(logging.DEBUG)
    install_redaction()
    install_redaction()
    logger = logging.getLogger("urllib3.connectionpool")
    logger.debug('"%s %s" %s', "GET", "/a?key=s3cr3t", 200)
    logger.debug("plain %(x)s", {"x": 1})
    assert [record.getMessage() for record in caplog.records] == ['"GET /a?key=***" 200', "plain 1"]


def test_successful_response_body_is_not_logged(source, caplog):
    caplog.set_level(logging.DEBUG)
    source.server.answers(page({"id": 1, "note": "s3cr3t-7"}))
    source.records()
    assert "s3cr3t" not in caplog.text
