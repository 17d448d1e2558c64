"""Authenticators with fixed credentials: API keys, bearer tokens, names and passwords."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st
from requests.auth import AuthBase

from tap_core.authenticators import (
    APIAuthenticatorBase,
    APIKeyAuthenticator,
    BasicAuthenticator,
    BearerTokenAuthenticator,
    OAuthAuthenticator,
    SimpleAuthenticator,
    SingletonMeta,
)
from tap_core.authenticators.base import _with_parameters
from tap_core.exceptions import SingerSDKDeprecationWarning
from tests.authenticators.logins import Stream, prepare_request
from tests.http.server import page

URL = "https://example.com/users?since=2024&q=a%20b&empty="


def test_base_authenticator_does_not_change_the_request():
    sent = prepare_request(APIAuthenticatorBase(), URL)
    assert (sent.url, sent.headers) == (URL, {})


def test_auth_headers_are_added_to_the_headers_of_the_request():
    request = requests.Request("GET", URL, headers={"X-Own": "1"}).prepare()
    sent = SimpleAuthenticator(auth_headers={"X-Key": "k"})(request)
    assert sent is request
    assert sent.headers == {"X-Own": "1", "X-Key": "k"}


def test_auth_headers_argument_is_copied():
    headers = {"X-Key": "k"}
    authenticator = SimpleAuthenticator(auth_headers=headers)
    authenticator.auth_headers["X-Other"] = "o"
    assert headers == {"X-Key": "k"}
    assert SimpleAuthenticator().auth_headers == {}


def test_api_key_is_sent_in_a_header_by_default():
    assert prepare_request(APIKeyAuthenticator(key="X-Key", value="k")).headers["X-Key"] == "k"


def test_api_key_in_the_query_keeps_the_rest_of_the_url():
    authenticator = APIKeyAuthenticator(key="api key", value="a&b", location="params")
    assert prepare_request(authenticator, f"{URL}#top").url == f"{URL}&api+key=a%26b#top"


def test_authenticating_twice_sets_the_parameter_once():
    authenticator = APIKeyAuthenticator(key="api_key", value="new", location="params")
    request = requests.Request("GET", f"{URL}&api_key=old").prepare()
    assert authenticator(authenticator(request)).url == f"{URL}&api_key=new"


def test_request_without_a_url_is_accepted():
    request = requests.Request("GET", URL).prepare()
    request.url = None
    sent = APIKeyAuthenticator(key="k", value="v", location="params")(request)
    assert sent.url is None


def test_invalid_api_key_location_is_rejected():
    with pytest.raises(ValueError, match="must be one of 'header' or 'params'"):
        APIKeyAuthenticator(key="k", value="v", location="body")


def test_bearer_token_is_sent_in_the_authorization_header():
    sent = prepare_request(BearerTokenAuthenticator(token="t-1"))
    assert sent.headers["Authorization"] == "Bearer t-1"


def test_basic_authentication_follows_rfc_7617():
    sent = prepare_request(BasicAuthenticator(username="test", password="123£"))
    assert sent.headers["Authorization"] == "Basic dGVzdDoxMjPCow=="


def test_authenticator_works_as_auth_of_a_requests_session(server):
    server.answers(page())
    with requests.Session() as session:
        session.auth = APIKeyAuthenticator(key="api_key", value="k", location="params")
        session.get(f"{server.url}/users?a=1", timeout=60)
        session.auth = BasicAuthenticator(username="u", password="p")
        session.get(f"{server.url}/users", timeout=60)
    assert isinstance(session.auth, AuthBase)
    assert server.requests[0].query == {"a": ["1"], "api_key": ["k"]}
    assert server.requests[1].headers["Authorization"] == "Basic dTpw"


FIXED = [
    (SimpleAuthenticator, {"auth_headers": {"X-Key": "s3cret"}}, "X-Key"),
    (APIKeyAuthenticator, {"key": "X-Key", "value": "s3cret"}, "X-Key"),
    (APIKeyAuthenticator, {"key": "k", "value": "s3cret", "location": "params"}, "k"),
    (BearerTokenAuthenticator, {"token": "s3cret"}, "Authorization"),
    (BasicAuthenticator, {"username": "me", "password": "s3cret"}, "Authorization"),
    (OAuthAuthenticator, {"client_secret": "s3cret", "client_id": "me"}, ""),
]


@pytest.mark.parametrize("kind, arguments, name", FIXED)
def test_repr_shows_no_credential(kind, arguments, name):
    assert repr(kind(**arguments)) == f"{kind.__name__}({name})"
    assert repr(kind.__new__(kind)) == f"{kind.__name__}()"


# Streams


@pytest.mark.parametrize("by_name", [True, False])
def test_stream_argument_provides_tap_name_and_config_with_a_warning(by_name):
    stream = Stream(config={"a": 1})
    with pytest.warns(SingerSDKDeprecationWarning, match="The `stream` parameter will be removed"):
        authenticator = (
            SimpleAuthenticator(stream=stream) if by_name else SimpleAuthenticator(stream)
        )
    with pytest.warns(SingerSDKDeprecationWarning, match="The `tap_name` property will be removed"):
        assert authenticator.tap_name == "tap-x"
    with pytest.warns(SingerSDKDeprecationWarning, match="The `config` property will be removed"):
        config = authenticator.config
    assert config == {"a": 1}
    with pytest.raises(TypeError):
        config["a"] = 2
    authenticator.tap_name = "tap-y"
    assert authenticator._tap_name == "tap-y"


def test_authenticator_without_a_stream_has_an_empty_config():
    authenticator = APIAuthenticatorBase("anything", also="ignored")
    assert (authenticator._config, authenticator._tap_name, authenticator.logger.name) == (
        {},
        "tap",
        "tap_core.authenticators",
    )


def test_attach_keeps_the_first_tap():
    authenticator = APIAuthenticatorBase()
    authenticator.attach(SimpleNamespace())
    assert authenticator._tap is None
    authenticator.attach(Stream(_tap="first"))
    authenticator.attach(Stream(_tap="second"))
    assert authenticator._tap == "first"


@pytest.mark.filterwarnings("ignore:The `stream` parameter")
@pytest.mark.parametrize(
    "kind, arguments, header",
    [
        (APIKeyAuthenticator, {"key": "K", "value": "v", "location": "header"}, {"K": "v"}),
        (BearerTokenAuthenticator, {"token": "t"}, {"Authorization": "Bearer t"}),
        (
            BasicAuthenticator,
            {"username": "u", "password": "p"},
            {"Authorization": "Basic dTpw"},
        ),
    ],
)
def test_create_for_stream_still_works_with_a_deprecation_warning(kind, arguments, header):
    message = "The `create_for_stream` method will be removed"
    with pytest.warns(SingerSDKDeprecationWarning, match=message) as caught:
        authenticator = kind.create_for_stream(Stream(), **arguments)
    assert type(authenticator) is kind
    assert authenticator.auth_headers == header
    assert caught[0].filename == __file__


# Singletons


class Counted:
    created_count = 0

    def __init__(self, value=None):
        type(self).created_count += 1
        self.value = value


def test_singleton_is_created_once_with_the_first_arguments():
    single = SingletonMeta("Single", (Counted,), {})
    other = SingletonMeta("Other", (single,), {})
    assert single(1) is single(2)
    assert single().value == 1
    assert other(3) is not single()


def test_singleton_is_created_again_after_its_constructor_failed():
    single = SingletonMeta("Single", (APIKeyAuthenticator,), {})
    with pytest.raises(ValueError, match="location"):
        single(key="k", value="v", location="body")
    assert single(key="k", value="v").auth_headers == {"k": "v"}


def test_concurrent_threads_get_the_same_singleton():
    together = threading.Barrier(8)
    single = SingletonMeta("Single", (Counted,), {"made": 0})
    instances = []

    def ask():
        together.wait(60)
        instances.append(single())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (len(instances), len(set(map(id, instances))), single.created_count) == (8, 1, 1)


# Any URL


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@given(st.dictionaries(TEXT, TEXT), st.dictionaries(TEXT, TEXT))
def test_query_parameters_replace_only_those_of_the_same_name(own, added):
    with_own = _with_parameters("https://example.com/a", own)
    once = _with_parameters(with_own, added)
    assert _with_parameters(once, added) == once
    query = once.partition("?")[2]
    pairs = dict(
        tuple(map(requests.compat.unquote_plus, p.split("="))) for p in query.split("&") if p
    )
    assert pairs == {**own, **added}
