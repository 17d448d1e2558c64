"""Authenticators of a manifest, checked on the requests that the server receives."""

from __future__ import annotations

import base64
import json
import sys
from datetime import timedelta
from urllib.parse import parse_qs

import pytest
import requests

from tap_core.authenticators import AccessTokenError
from tap_core.authenticators.token_renewal import renew_access_token
from tap_core.exceptions import FatalAPIError
from tap_core.manifest.dpath import make_getter
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import Authenticator
from tap_core.parsing.datetimes import utc_now
from tap_core.protocols.error_classification import failure_type as classify
from tap_core.singerlib.json import replace_path
from tests.authenticators.logins import Stream
from tests.http.server import Reply, serving
from tests.manifest.pieces import Sender, build


@pytest.fixture
def server():
    with serving() as running_server:
        yield running_server


def sign(text: str, method: str = "GET", *, stream=None, body=None, **config):
    """Return a request with the credentials on it."""
    declared = build(text, Authenticator, **config)
    auth = declared.auth(stream or Sender(config))
    request = requests.Request(method, "http://api/users?a=1", **(body or {})).prepare()
    return auth(auth(request))  # a session and a stream both do it


KEY = "{{type: ApiKeyAuthenticator, api_token: '{{{{ config.key }}}}', {}}}"
OPTION = "inject_into: {{type: RequestOption, field_name: key, inject_into: {}}}"


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("{type: NoAuth}", None),
        ("{type: BearerAuthenticator, api_token: '{{ config.key }}'}", "Bearer s3cret"),
        (
            "{type: BasicHttpAuthenticator, username: '{{ config.key }}'}",
            f"Basic {base64.b64encode(b's3cret:').decode()}",
        ),
        (
            "{type: BasicHttpAuthenticator, username: \u00e4, password: '{{ config.key }}'}",
            "Basic w6Q6czNjcmV0",
        ),
        (KEY.format("header: Authorization"), "s3cret"),
    ],
)
def test_credentials_are_sent_in_a_header(text, header):
    assert sign(text, key="s3cret").headers.get("Authorization") == header


def sign_with_key(location: str, **options):
    return sign(KEY.format(OPTION.format(location)), **options, key="s3 cret")


def test_api_key_is_injected_by_its_request_option():
    assert sign_with_key("header").headers["key"] == "s3 cret"
    assert sign_with_key("request_parameter").url == "http://api/users?a=1&key=s3+cret"
    posted = sign_with_key("body_json", method="POST", body={"json": {"a": 1}})
    assert json.loads(posted.body) == {"a": 1, "key": "s3 cret"}
    assert posted.headers["Content-Length"] == str(len(posted.body))
    assert json.loads(sign_with_key("body_json", method="POST").body) == {"key": "s3 cret"}
    form = sign_with_key("body_data", method="POST", body={"data": {"a": "1"}})
    assert (form.body, form.headers["Content-Type"]) == (
        *("a=1&key=s3+cret",),
        "application/x-www-form-urlencoded",
    )
    assert json.loads(sign_with_key("body_json").body) == {"key": "s3 cret"}
    with pytest.raises(ManifestError, match="cannot be added to the request body"):
        sign_with_key("body_json", method="POST", body={"data": {"a": "1"}})


def test_key_in_a_form_keeps_fields_with_several_values():
    form = sign_with_key("body_data", method="POST", body={"data": {"ids": ["1", "2"], "a": ""}})
    assert form.body == "ids=1&ids=2&a=&key=s3+cret"


@pytest.mark.parametrize(
    ("location", "body"),
    [
        ("body_json", {"json": [1, 2]}),
        ("body_json", {"data": b"{", "headers": {"Content-Type": "application/json"}}),
        ("body_data", {"data": "a text"}),
    ],
)
def test_key_never_replaces_a_body_without_fields(location: str, body: dict):
    with pytest.raises(
        ManifestError, match="cannot be added to the request body, because the body has no fields"
    ):
        sign_with_key(location, method="POST", body=body)


SELECTIVE = """
type: SelectiveAuthenticator
authenticator_selection_path: [login, kind]
authenticators:
  key: {type: ApiKeyAuthenticator, api_token: "{{ config.login.key }}", header: X-Key}
  oauth:
    type: OAuthAuthenticator
    client_id: "{{ config.login.id }}"
    client_secret: "{{ config.login.secret }}"
    refresh_token: "{{ config.login.token }}"
    token_refresh_endpoint: http://login
"""


def test_selective_authenticator_needs_only_the_settings_of_the_selected_one():
    request = sign(SELECTIVE, login={"kind": "key", "key": "k"})
    assert request.headers["X-Key"] == "k"


@pytest.mark.parametrize("login", [{}, {"kind": "s3cret"}])
def test_invalid_authenticator_selection_lists_the_choices(login):
    with pytest.raises(ManifestError, match=r"'login\.kind'.*key, oauth") as error:
        sign(SELECTIVE, login=login)
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{type: ApiKeyAuthenticator, api_token: x}", "needs one location of the key"),
        (KEY.format(f"header: X, {OPTION.format('header')}"), "set either"),
        ("{type: OAuthAuthenticator, client_id: x}", "`client_secret`, `refresh_token`"),
        ("{type: OAuthAuthenticator, use_profile_assertion: true}", "`profile_assertion`"),
        ("{type: JwtAuthenticator, secret_key: x, algorithm: none}", "none"),
    ],
)
def test_invalid_authenticator_is_rejected_with_its_line(text, message):
    with pytest.raises(ManifestError, match=message) as error:
        build(text, Authenticator)
    assert "line" in str(error.value)


def test_repr_of_authenticators_shows_no_secret():
    declared = build(SELECTIVE, Authenticator, login={"kind": "key", "key": "s3cret"})
    assert "s3cret" not in repr(declared) + repr(declared.auth(Sender()))


# OAuth


OAUTH = """
type: OAuthAuthenticator
token_refresh_endpoint: "{{ config.url }}/token"
client_id: "{{ config.id }}"
client_secret: "{{ config.secret }}"
"""
CLIENT = "grant_type: client_credentials"
SETTINGS = {"id": "me", "secret": "s3cret", "token": "r0", "basic": "Basic x"}


def parse_form(request):
    return {
        name: values if len(values) > 1 else values[0]
        for name, values in parse_qs(request.body.decode()).items()
    }


@pytest.mark.parametrize(
    ("options", "sent", "headers"),
    [
        (
            "refresh_token: '{{ config.token }}'\nscopes: [a, '{{ config.id }}']",
            {
                "grant_type": "refresh_token",
                "client_id": "me",
                "client_secret": "s3cret",
                "refresh_token": "r0",
                "scopes": ["a", "{{ config.id }}"],
            },
            {},
        ),
        (
            f"{CLIENT}\nrefresh_request_body: {{audience: x, client_id: no, empty: ''}}",
            {
                "grant_type": "client_credentials",
                "client_id": "me",
                "client_secret": "s3cret",
                "audience": "x",
            },
            {},
        ),
        (
            f"{CLIENT}\nclient_id_name: user\ngrant_type_name: kind\nclient_secret_name: pass",
            {"kind": "client_credentials", "user": "me", "pass": "s3cret"},
            {},
        ),
        (
            "refresh_token: r0\nrefresh_request_headers: {Authorization: '{{ config.basic }}'}",
            {"grant_type": "refresh_token", "refresh_token": "r0"},
            {"Authorization": "Basic x"},
        ),
        (
            f"{CLIENT}\nrefresh_request_headers: {{X-Account: '{{{{ 42 }}}}', X-Live: true}}",
            {"grant_type": "client_credentials", "client_id": "me", "client_secret": "s3cret"},
            {"X-Account": "42", "X-Live": "True"},
        ),
    ],
)
def test_token_request_has_the_parameter_names_of_the_manifest(server, options, sent, headers):
    server.answers(Reply({"access_token": "t1", "expires_in": "3600"}))
    request = sign(OAUTH + options, url=server.url, **SETTINGS)
    assert request.headers["Authorization"] == "Bearer t1"
    assert len(server.requests) == 1
    assert parse_form(server.requests[0]) == sent
    assert headers.items() <= server.requests[0].headers.items()


def test_token_request_can_use_query_parameters(server):
    server.answers(Reply({"access_token": "t1"}))
    options = "grant_type: client_credentials\nsend_refresh_request_as_query_params: true"
    sign(OAUTH + options, url=server.url, **SETTINGS)
    assert server.requests[0].query == {
        "grant_type": ["client_credentials"],
        "client_id": ["me"],
        "client_secret": ["s3cret"],
    }
    assert server.requests[0].body == b""


def test_token_is_found_in_a_nested_response(server):
    server.answers(Reply({"data": [{"token": "t1", "lives": 60}]}))
    options = "grant_type: client_credentials\naccess_token_name: token\nexpires_in_name: lives"
    request = sign(OAUTH + options, url=server.url, **SETTINGS)
    assert request.headers["Authorization"] == "Bearer t1"


@pytest.mark.parametrize(("hours", "request_count"), [(2, 1), (-2, 2)])
def test_token_expiry_can_be_a_date(server, hours, request_count):
    ends_at = utc_now() + timedelta(hours=hours)
    server.answers(Reply({"access_token": "t", "expires_at": f"{ends_at:%d.%m.%Y %H:%M}"}))
    options = (
        "grant_type: client_credentials\nexpires_in_name: expires_at\n"
        "token_expiry_date_format: '%d.%m.%Y %H:%M'"
    )
    auth = build(OAUTH + options, Authenticator, url=server.url, **SETTINGS).auth(Sender())
    auth(requests.Request("GET", "http://api").prepare())
    if hours < 0:
        auth.last_refreshed -= timedelta(seconds=2)
    auth(requests.Request("GET", "http://api").prepare())
    assert len(server.requests) == request_count


@pytest.mark.parametrize(
    ("options", "lifetime", "message"),
    [
        ("", "soon", "'expires_in' in the .* is not a number of seconds: set `token_expiry"),
        ("", "nan", "is not a number of seconds"),
        ("", [3600], "is not a number of seconds"),
        ("", 1e30, "is not a number of seconds"),
        ("expires_in_name: until", "2999-01-01T00:00:00Z", "'until' in .* is not a number"),
        ("token_expiry_date_format: '%Y-%m-%d'", "soon", "`token_expiry_date_format` %Y-%m-%d"),
    ],
)
def test_unusable_token_lifetime_is_an_error(server, options, lifetime, message):
    server.answers(Reply({"access_token": "t", "expires_in": lifetime, "until": lifetime}))
    with pytest.raises(AccessTokenError, match=message) as error:
        sign(f"{OAUTH}{CLIENT}\n{options}", url=server.url, **SETTINGS)
    assert error.value.failure_type == "system_error"


@pytest.mark.parametrize("lifetime", [0, -5, "0"])
def test_token_that_has_expired_is_used_for_one_request(server, lifetime):
    server.answers(Reply({"access_token": "t", "expires_in": lifetime}))
    auth = build(OAUTH + CLIENT, Authenticator, url=server.url, **SETTINGS).auth(Sender())
    for _ in range(2):
        auth(requests.Request("GET", "http://api").prepare())
        auth.last_refreshed -= timedelta(seconds=2)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("options", "token"),
    [
        ("refresh_token: r\naccess_token_value: old\ntoken_expiry_date: '2999-01-01'", "old"),
        ("refresh_token: r\naccess_token_value: old\ntoken_expiry_date: '32472144000'", "old"),
        ("refresh_token: r\naccess_token_value: old\ntoken_expiry_date: '1999-01-01'", "new"),
        ("refresh_token: r\naccess_token_value: old\ntoken_expiry_date: soon", "new"),
        ("refresh_token: r\naccess_token_value: old", "new"),
    ],
)
def test_configured_access_token_is_used_until_it_expires(server, options, token):
    server.answers(Reply({"access_token": "new"}))
    request = sign(OAUTH + options, url=server.url, **SETTINGS)
    assert request.headers["Authorization"] == f"Bearer {token}"


def test_access_token_without_an_endpoint_is_always_used():
    text = (
        "type: OAuthAuthenticator\nclient_id: a\nclient_secret: b\nrefresh_token: r\n"
        "access_token_value: given"
    )
    declared = build(text, Authenticator)
    auth = declared.auth(Sender())
    auth.update_access_token()
    request = auth(requests.Request("GET", "http://api").prepare())
    assert request.headers["Authorization"] == "Bearer given"


UPDATER = """
type: OAuthAuthenticator
token_refresh_endpoint: "{{ config.url }}/token"
client_id: "{{ config.credentials.client_id }}"
client_secret: "{{ config.credentials.client_secret }}"
refresh_token: "{{ config.credentials.refresh_token }}"
refresh_token_updater: {}
"""


class Tap:
    """A tap that reports config changes, as the Airbyte command does."""

    config_file = None

    def __init__(self, settings):
        self.settings = settings

    def config_listener(self, renew):
        self.settings = renew(self.settings)


def test_refreshed_tokens_are_written_to_the_config_and_reused(server):
    server.answers(Reply({"access_token": "t1", "expires_in": 3600, "refresh_token": "r1"}))
    login = {"client_id": "me", "client_secret": "s3cret", "refresh_token": "r0"}
    tap = Tap({"url": server.url, "credentials": login})
    for _ in range(2):
        auth = build(UPDATER, Authenticator, **tap.settings).auth(Sender())
        auth.attach(Stream(_tap=tap))
        request = auth(requests.Request("GET", "http://api").prepare())
        assert request.headers["Authorization"] == "Bearer t1"
    credentials = tap.settings["credentials"]
    assert (credentials["access_token"], credentials["refresh_token"]) == ("t1", "r1")
    assert credentials["token_expiry_date"] > utc_now().isoformat()
    assert [parse_form(request)["refresh_token"] for request in server.requests] == ["r0"]


@pytest.mark.parametrize("path", [["renewal"], ["login", "tokens", "key"]])
@pytest.mark.parametrize("is_set", [True, False])
def test_new_refresh_token_is_stored_at_its_config_path(server, tmp_path, path, is_set):
    """The name of the setting need not contain refresh_token, and the setting may be missing."""
    server.answers(Reply({"access_token": "t1", "expires_in": 3600, "refresh_token": "r1"}))
    text = UPDATER.replace("{}", json.dumps({"refresh_token_config_path": path}))
    text = text.replace("config.credentials.refresh_token", "config.first or 'r0'")
    login = {"client_id": "me", "client_secret": "s3cret", "other": "r0"}
    settings = {"url": server.url, "credentials": login}
    tap = Tap(replace_path(settings, path, "r0") if is_set else settings)
    tap.config_file = tmp_path / "config.json"
    tap.config_file.write_text(json.dumps(tap.settings), encoding="utf-8")
    auth = build(text, Authenticator, **tap.settings).auth(Sender())
    auth.attach(Stream(_tap=tap))
    auth(requests.Request("GET", "http://api").prepare())
    assert make_getter(path)(tap.settings) == "r1"
    assert tap.settings["credentials"]["other"] == "r0"
    written = json.loads(tap.config_file.read_text(encoding="utf-8"))
    assert written == (replace_path(settings, path, "r1") if is_set else settings)


@pytest.mark.parametrize(
    ("name", "settings", "stored"),
    [
        ("renewal", {"renewal": "r0", "other": "x"}, {"renewal": "r1", "other": "x"}),
        ("login.key", {"login": {"key": "r0"}}, {"login": {"key": "r1"}}),
        ("refresh_token", {"refresh_token": "r0", "a": "r0"}, {"refresh_token": "r1", "a": "r0"}),
    ],
)
def test_new_refresh_token_is_stored_without_an_updater(server, tmp_path, name, settings, stored):
    """The new token replaces the used one, whatever the name of its setting."""
    server.answers(Reply({"access_token": "t1", "expires_in": 3600, "refresh_token": "r1"}))
    tap = Tap({"url": server.url, "id": "me", "secret": "s", **settings})
    tap.config_file = tmp_path / "config.json"
    tap.config_file.write_text(json.dumps(tap.settings), encoding="utf-8")
    text = f"{OAUTH}refresh_token: '{{{{ config.{name} }}}}'"
    auth = build(text, Authenticator, **tap.settings).auth(Sender())
    auth.attach(Stream(_tap=tap))
    auth(requests.Request("GET", "http://api").prepare())
    assert tap.settings.items() >= stored.items()
    assert json.loads(tap.config_file.read_text(encoding="utf-8")) == tap.settings


def test_token_request_uses_the_newest_refresh_token(server):
    server.answers(
        Reply({"access_token": "t1", "rt": "r1"}), Reply({"access_token": "t2", "rt": "r2"})
    )
    text = OAUTH + "refresh_token: '{{ config.token }}'\nrefresh_token_name: rt"
    auth = build(text, Authenticator, url=server.url, **SETTINGS).auth(Sender())
    for _ in range(2):
        auth.update_access_token()
    assert [parse_form(request)["rt"] for request in server.requests] == ["r0", "r1"]


def test_refused_token_request_names_the_reason_without_secrets(server):
    server.answers(Reply({"error": "invalid_grant", "error_description": "no s3cret"}, 400))
    with pytest.raises(AccessTokenError, match="invalid_grant") as error:
        sign(f"{OAUTH}refresh_token: '{{{{ config.token }}}}'", url=server.url, **SETTINGS)
    assert "s3cret" not in str(error.value)


REFUSALS = (
    "refresh_token_error_status_codes: [401, 404]\nrefresh_token_error_key: code\n"
    "refresh_token_error_values: [expired]"
)


@pytest.mark.parametrize(
    ("options", "status", "body", "failure_type"),
    [
        ("", 400, {"error": "invalid_grant"}, "config_error"),
        ("", 400, {"error": "invalid_permissions"}, "config_error"),
        ("", 400, {"error": "invalid_client"}, "system_error"),
        ("", 400, ["invalid_grant"], "system_error"),
        ("", 400, "invalid_grant", "system_error"),
        ("", 401, {"error": "invalid_grant"}, "system_error"),
        (REFUSALS, 401, {"code": "expired"}, "config_error"),
        (REFUSALS, 404, {"code": "expired"}, "config_error"),
        (REFUSALS, 401, {"code": "other"}, "system_error"),
        (REFUSALS, 400, {"error": "invalid_grant"}, "system_error"),
        (
            "refresh_token_error_status_codes: [400]",
            400,
            {"error": "invalid_grant"},
            "system_error",
        ),
        ("refresh_token_error_values: []", 400, {"error": "invalid_grant"}, "config_error"),
        (f"refresh_token_updater: {{{REFUSALS}}}", 401, {"code": "expired"}, "config_error"),
    ],
)
def test_refused_token_request_has_the_failure_type_of_airbyte_cdk(
    server, options, status, body, failure_type
):
    server.answers(Reply(body, status))
    options = options.replace("\n", ", ") if "{" in options else options
    with pytest.raises(AccessTokenError) as error:
        sign(f"{OAUTH}refresh_token: r0\n{options}", url=server.url, **SETTINGS)
    assert classify(error.value) == failure_type


def test_refused_refresh_tokens_are_declared_once():
    options = f"{REFUSALS}\nrefresh_token_updater: {{refresh_token_error_key: code}}"
    with pytest.raises(ManifestError, match="remove those in the updater"):
        build(f"{OAUTH}refresh_token: r0\n{options}", Authenticator, url="http://api", **SETTINGS)


def test_missing_client_id_is_an_error(server):
    with pytest.raises(ManifestError, match="is the setting missing"):
        sign(f"{OAUTH}grant_type: client_credentials", url=server.url)


# JSON Web Tokens


def test_jwt_has_the_declared_claims_and_headers():
    jwt = pytest.importorskip("jwt")
    key = "k" * 40
    text = """
type: JwtAuthenticator
secret_key: "{{ json_loads(config.file)['key'] }}"
algorithm: HS256
token_duration: 600
header_prefix: JWT
jwt_headers: {kid: "{{ config.kid }}"}
additional_jwt_headers: {x: "{{ 1 }}"}
jwt_payload: {iss: me, aud: "{{ config.kid }}"}
additional_jwt_payload: {scope: read}
"""
    request = sign(text, file=json.dumps({"key": key}), kid="7a")
    prefix, token = request.headers["Authorization"].split(" ")
    claims = jwt.decode(token, key, algorithms=["HS256"], audience="7a")
    assert prefix == "JWT"
    assert (claims["iss"], claims["scope"], claims["exp"] - claims["iat"]) == ("me", "read", 600)
    assert claims["nbf"] == claims["iat"]
    assert jwt.get_unverified_header(token) == {
        "alg": "HS256",
        "typ": "JWT",
        "kid": "7a",
        "x": 1,
    }


def test_jwt_is_reused_while_it_is_valid():
    pytest.importorskip("jwt")
    text = f"type: JwtAuthenticator\nsecret_key: {'k' * 40}\nalgorithm: HS256\ntoken_duration: "
    auth = build(f"{text}1200", Authenticator).auth(Sender())
    first = auth(requests.Request("GET", "http://api").prepare()).headers["Authorization"]
    assert auth(requests.Request("GET", "http://api").prepare()).headers["Authorization"] == first


def test_jwt_key_can_be_base64_encoded_and_sent_as_a_parameter():
    jwt = pytest.importorskip("jwt")
    text = (
        f"type: JwtAuthenticator\nsecret_key: {'k' * 40}\nalgorithm: HS256\n"
        "base64_encode_secret_key: true\nrequest_option: {type: RequestOption,"
        " inject_into: request_parameter, field_name: t}"
    )
    [token] = parse_qs(sign(text).url.partition("?")[2])["t"]
    assert jwt.decode(token, base64.b64encode(b"k" * 40), algorithms=["HS256"])["exp"]


def test_invalid_jwt_key_is_an_error_without_the_key():
    pytest.importorskip("jwt")
    text = "type: JwtAuthenticator\nsecret_key: s3cret\nalgorithm: RS256\npassphrase: "
    for passphrase in ("''", "x"):
        with pytest.raises(ManifestError, match="cannot sign a token with RS256") as error:
            sign(text + passphrase)
        assert "s3cret" not in str(error.value)


def test_missing_jwt_packages_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(ManifestError, match="PyJWT and cryptography: pip install"):
        sign(f"type: JwtAuthenticator\nsecret_key: {'k' * 40}\nalgorithm: HS256")


def test_reserved_claims_in_the_payload_are_rejected():
    text = (
        "type: JwtAuthenticator\nsecret_key: s\nalgorithm: HS256\nadditional_jwt_payload: {exp: 1}"
    )
    with pytest.raises(ManifestError, match="`additional_jwt_payload` has exp"):
        sign(text)


def test_profile_assertion_requests_an_access_token(server):
    jwt = pytest.importorskip("jwt")
    server.answers(Reply({"access_token": "t1", "expires_in": 3600}))
    text = f"""
type: OAuthAuthenticator
token_refresh_endpoint: "{{{{ config.url }}}}/token"
use_profile_assertion: true
profile_assertion: {{type: JwtAuthenticator, secret_key: {"k" * 40}, algorithm: HS256}}
"""
    assert sign(text, url=server.url).headers["Authorization"] == "Bearer t1"
    sent = parse_form(server.requests[0])
    assert sent.pop("grant_type") == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    assert jwt.decode(sent.pop("assertion"), "k" * 40, algorithms=["HS256"])
    assert sent == {}


# Session tokens


SESSION = """
type: SessionTokenAuthenticator
login_requester:
  type: HttpRequester
  url: "{{ config.url }}"
  path: login
  http_method: POST
  request_body_json: {user: "{{ config.user }}"}
  authenticator: {type: BasicHttpAuthenticator, username: "{{ config.user }}", password: p}
session_token_path: [data, token]
request_authentication: ANY
"""
BEARER = "{type: Bearer}"
IN_HEADER = "{type: ApiKey, inject_into: {type: RequestOption, inject_into: header, field_name: X}"


@pytest.mark.parametrize(
    ("usage", "header", "expected"),
    [
        (BEARER, "Authorization", "Bearer s1"),
        (f"{IN_HEADER}}}", "X", "s1"),
        (f"{IN_HEADER}, api_token: 'Token {{{{ session_token }}}}'}}", "X", "Token s1"),
    ],
)
def test_session_token_is_requested_by_the_login_requester(server, usage, header, expected):
    server.answers(Reply({"data": {"token": "s1"}}))
    request = sign(SESSION.replace("ANY", usage), url=server.url, user="me")
    assert request.headers[header] == expected
    [login] = server.requests
    assert (login.method, login.path, login.json) == ("POST", "/login", {"user": "me"})
    assert login.headers["Authorization"] == f"Basic {base64.b64encode(b'me:p').decode()}"


def test_very_long_session_token_is_an_error(server):
    """SEC13: all texts are searched for a token, which takes a minute for one of ten megabytes."""
    server.answers(Reply({"data": {"token": "x" * 65_537}}))
    with pytest.raises(AccessTokenError, match="a token of 65,537 characters"):
        sign(SESSION.replace("ANY", BEARER), url=server.url, user="me")


@pytest.mark.parametrize(("duration", "logins"), [("PT0.001S", 2), ("PT1H", 1)])
def test_expired_session_token_is_renewed(server, duration, logins):
    server.answers(Reply({"data": {"token": "s1"}}))
    text = SESSION.replace("ANY", BEARER) + f"expiration_duration: {duration}"
    auth = build(text, Authenticator, url=server.url, user="me").auth(Sender())
    for _ in range(2):
        auth(requests.Request("GET", "http://api").prepare())
    assert len(server.requests) == logins


def test_refused_session_token_is_renewed_once(server):
    server.answers(Reply({"data": {"token": "s1"}}), Reply({"data": {"token": "s2"}}))
    text = SESSION.replace("ANY", BEARER)
    auth = build(text, Authenticator, url=server.url, user="me").auth(Sender())
    unauthorized = requests.Response()
    unauthorized.request = auth(requests.Request("GET", "http://api").prepare())
    for _ in range(2):  # the second one was sent with the old token, too
        assert renew_access_token(auth, unauthorized)
    request = auth(requests.Request("GET", "http://api").prepare())
    assert request.headers["Authorization"] == "Bearer s2"
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "usage",
    [
        IN_HEADER.replace("header, field_name: X", "request_parameter, field_name: t"),
        IN_HEADER.replace("header, field_name: X", "body_json, field_path: [a, t]"),
        IN_HEADER.replace("header, field_name: X", "body_data, field_name: t"),
        f"{IN_HEADER}, api_token: \"Basic {{{{ (session_token ~ ':') | base64encode }}}}\"",
    ],
)
def test_refused_session_token_is_renewed_wherever_it_was_sent(server, usage):
    server.answers(Reply({"data": {"token": "é+/1="}}), Reply({"data": {"token": "new"}}))
    text = SESSION.replace("ANY", f"{usage}}}")
    auth = build(text, Authenticator, url=server.url, user="me").auth(Sender())
    unauthorized = requests.Response()
    unauthorized.request = auth(requests.Request("POST", "http://api").prepare())
    for _ in range(2):  # the second one was sent with the old token, too
        assert renew_access_token(auth, unauthorized)
    assert auth.access_token == "new"
    assert len(server.requests) == 2


def test_missing_session_token_names_its_path(server):
    server.answers(Reply({"data": {}}))
    with pytest.raises(Exception, match=r"no token at the `session_token_path` data\.token"):
        sign(SESSION.replace("ANY", BEARER), url=server.url, user="me")


def test_invalid_session_duration_is_rejected():
    with pytest.raises(ManifestError, match="not an ISO 8601 duration"):
        build(SESSION.replace("ANY", BEARER) + "expiration_duration: soon", Authenticator)


LEGACY = """
type: LegacySessionTokenAuthenticator
header: X-Session
login_url: session
validate_session_url: me
session_token_response_key: id
session_token: "{{ config.token }}"
username: "{{ config.user }}"
password: p
"""


class Requester:
    """The part of a requester that provides the base URL."""

    def __init__(self, url):
        self.url = url

    def get_base_url(self, scope):
        return f"{self.url}/"


@pytest.mark.parametrize(
    ("status", "config", "token"),
    [
        (200, {"token": "set", "user": "me"}, "set"),
        (401, {"token": "set", "user": "me"}, "new"),
        (200, {"user": "me"}, "new"),
    ],
)
def test_legacy_session_token_is_used_while_it_is_valid(server, status, config, token):
    server.answers_by(
        lambda request: Reply({"id": "new"}) if request.path == "/session" else Reply({}, status)
    )
    stream = Sender()
    stream.retriever = type("Retriever", (), {"requester": Requester(server.url)})
    request = sign(LEGACY, stream=stream, **config)
    assert request.headers["X-Session"] == token


@pytest.mark.parametrize("body", [{"error": "locked"}, {"id": None}, ["id"]])
def test_legacy_login_response_without_a_token_is_an_error(server, body):
    server.answers(Reply(body))
    stream = Sender()
    stream.retriever = type("Retriever", (), {"requester": Requester(server.url)})
    with pytest.raises(FatalAPIError, match="no token at the `session_token_response_key` id"):
        sign(LEGACY, stream=stream, user="me")


@pytest.mark.parametrize("status", [401, 500])
def test_legacy_session_without_credentials_is_an_error(server, status):
    server.answers(Reply({}, status))
    stream = Sender()
    stream.retriever = type("Retriever", (), {"requester": Requester(server.url)})
    with pytest.raises(Exception, match="set `username`" if status == 401 else "status 500"):
        sign(LEGACY, stream=stream, token="set")
