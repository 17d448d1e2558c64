"""OAuth access tokens: requested once, cached, and renewed before they expire."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tap_core.authenticators import OAuthAuthenticator, RetryPolicy, SingletonMeta
from tap_core.authenticators.oauth import refresh_margin_seconds
from tap_core.parsing.datetimes import utc_now
from tests.authenticators.logins import Login, Stream, prepare_request
from tests.http.server import ReceivedRequest, Reply

pytestmark = pytest.mark.filterwarnings("ignore::tap_core.exceptions.SingerSDKDeprecationWarning")


def login(server, kind: type[Login] = Login, **arguments):
    url = f"{server.url}/oauth/token"
    return kind(**{"client_id": "me", "client_secret": "s3cret", "auth_endpoint": url, **arguments})


def numbered(server, **fields):
    """Let the server issue token-1, then token-2, and so on."""
    issued = []

    def answer(_: ReceivedRequest) -> Reply:
        issued.append(1)
        return Reply({"access_token": f"token-{len(issued)}", **fields})

    server.answers_by(answer)


def aged(authenticator, seconds: float) -> None:
    authenticator.last_refreshed = utc_now() - timedelta(seconds=seconds)


# Token requests


def test_token_is_requested_once_and_sent_with_every_request(server):
    numbered(server, expires_in=3600)
    authenticator = login(server, oauth_headers={"X-App": "a"})
    for _ in range(3):
        assert prepare_request(authenticator).headers["Authorization"] == "Bearer token-1"
    [request] = server.requests
    assert (request.method, request.path, request.headers["X-App"]) == ("POST", "/oauth/token", "a")
    assert request.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert request.body == b"grant_type=client_credentials&client_id=me&client_secret=s3cret"


def test_no_token_is_requested_before_the_first_request(server):
    authenticator = login(server)
    assert not authenticator.is_token_valid()
    assert (authenticator.access_token, authenticator.last_refreshed) == (None, None)


def test_missing_auth_endpoint_is_an_error():
    with pytest.raises(ValueError, match="Authorization endpoint not set"):
        prepare_request(Login())


def test_undefined_oauth_request_body_is_an_error(server):
    with pytest.raises(NotImplementedError, match="OAuthAuthenticator must define"):
        prepare_request(OAuthAuthenticator(auth_endpoint=server.url))


def test_client_id_and_secret_default_to_the_config_of_the_stream():
    stream = Stream(config={"client_id": "from settings", "client_secret": "too"})
    authenticator = Login(stream=stream, client_secret="given", oauth_scopes="read")
    assert authenticator.client_id == "from settings"
    assert authenticator.client_secret == "given"
    assert authenticator.oauth_scopes == "read"


def test_overridden_endpoint_and_body_are_evaluated_for_each_token(server):
    class Changing(Login):
        calls = 0

        @property
        def auth_endpoint(self):
            return f"{server.url}/elsewhere"

        @property
        def oauth_request_body(self):
            self.calls += 1
            return {"call": self.calls}

    numbered(server)
    authenticator = login(server, Changing)
    authenticator.update_access_token()
    authenticator.update_access_token()
    assert [(request.path, request.body) for request in server.requests] == [
        ("/elsewhere", b"call=1"),
        ("/elsewhere", b"call=2"),
    ]


# Expiry


def test_token_is_renewed_before_it_expires(server):
    numbered(server, expires_in=3600)
    authenticator = login(server)
    prepare_request(authenticator)
    aged(authenticator, 3500)
    assert prepare_request(authenticator).headers["Authorization"] == "Bearer token-1"
    aged(authenticator, 3550)
    assert prepare_request(authenticator).headers["Authorization"] == "Bearer token-2"


def test_token_with_ten_seconds_lifetime_is_used_for_nine(server):
    numbered(server, expires_in=10)
    authenticator = login(server)
    prepare_request(authenticator)
    aged(authenticator, 8)
    assert authenticator.is_token_valid()
    aged(authenticator, 9)
    assert not authenticator.is_token_valid()


@given(st.floats(min_value=0.01, max_value=1e9))
def test_refresh_margin_is_at_most_a_ninth_of_the_lifetime(lifetime):
    assert 0 < refresh_margin_seconds(lifetime) <= min(60, lifetime / 9)


@pytest.mark.parametrize(
    "answered, default, lifetime",
    [
        (123, None, 123),
        (123, 234, 123),
        ("3600", None, 3600),
        (3599.5, None, 3599),
        (0.4, None, 1),
        (None, 234, 234),
        ("soon", 234, 234),
        (None, None, None),
        (0, 234, None),
        (1e400, 60, 60),
    ],
)
def test_token_lifetime_is_read_from_expires_in_or_the_default(server, answered, default, lifetime):
    numbered(server, **({} if answered is None else {"expires_in": answered}))
    authenticator = login(server, default_expiration=default)
    authenticator.update_access_token()
    assert authenticator.expires_in == lifetime


def test_null_expires_in_uses_the_default_expiration(server):
    numbered(server, expires_in=None)
    authenticator = login(server, default_expiration=60)
    authenticator.update_access_token()
    assert authenticator.expires_in == 60


def test_token_without_expires_in_never_expires(server):
    numbered(server)
    authenticator = login(server)
    authenticator.update_access_token()
    aged(authenticator, 1e7)
    assert authenticator.is_token_valid()


def test_last_refreshed_without_an_offset_is_utc(server):
    numbered(server, expires_in=3600)
    authenticator = login(server)
    authenticator.update_access_token()
    authenticator.last_refreshed = utc_now().replace(tzinfo=None)
    assert authenticator.is_token_valid()


def test_last_refreshed_is_set_by_the_update(server):
    before = utc_now()
    numbered(server)
    authenticator = login(server)
    authenticator.update_access_token()
    assert before <= authenticator.last_refreshed <= utc_now()


# Threads


def all_at_once(work, count: int = 8) -> None:
    together = threading.Barrier(count)

    def run():
        together.wait(60)
        work()

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)


def test_concurrent_threads_request_one_token(server):
    numbered(server, expires_in=3600)
    authenticator = login(server)
    headers = []
    all_at_once(lambda: headers.append(prepare_request(authenticator).headers["Authorization"]))
    assert headers == ["Bearer token-1"] * 8
    assert len(server.requests) == 1


def test_threads_waiting_for_an_update_use_its_token(server):
    class Counting:
        """A lock that counts the threads that tried to acquire it."""

        def __init__(self, lock):
            self.lock, self.came, self.changed = lock, 0, threading.Condition()

        def __enter__(self):
            with self.changed:
                self.came += 1
                self.changed.notify_all()
            self.lock.acquire()

        def __exit__(self, *_):
            self.lock.release()

    def answer(_: ReceivedRequest) -> Reply:
        with counting.changed:
            counting.changed.wait_for(lambda: counting.came >= 8, timeout=60)
        return Reply({"access_token": f"token-{len(server.requests)}"})

    server.answers_by(answer)
    authenticator = login(server)
    authenticator._updating = counting = Counting(authenticator._updating)
    all_at_once(authenticator.update_access_token)
    assert (authenticator.access_token, len(server.requests)) == ("token-1", 1)
    authenticator.update_access_token()
    assert authenticator.access_token == "token-2"


def test_next_request_repeats_a_failed_token_update(server):
    server.answers(Reply({"error": "invalid_client"}, status=401), Reply({"access_token": "t"}))
    authenticator = login(server)
    with pytest.raises(RuntimeError):
        prepare_request(authenticator)
    assert prepare_request(authenticator).headers["Authorization"] == "Bearer t"


def test_overridden_update_access_token_runs_in_one_thread(server):
    class Own(Login):
        updates = 0

        def update_access_token(self):
            self.updates += 1
            self.access_token = f"own-{self.updates}"
            self.expires_in = 3600
            self.last_refreshed = utc_now()

    authenticator = login(server, Own)
    all_at_once(lambda: prepare_request(authenticator))
    assert (authenticator.updates, server.requests) == (1, [])


def test_singleton_authenticator_requests_one_token_for_all_streams(server):
    class Single(Login, metaclass=SingletonMeta):
        pass

    numbered(server, expires_in=3600)
    for _ in range(3):
        prepare_request(login(server, Single))
    assert len(server.requests) == 1


# The log


def test_log_reports_the_token_request_without_secrets(server, caplog):
    caplog.set_level(logging.DEBUG)
    numbered(server)
    url = f"{server.url}/oauth/token?client_secret=hidden-1"
    prepare_request(login(server, auth_endpoint=url))
    assert "Requesting new access token" in caplog.text
    assert "no default_expiration" in caplog.text
    for secret in ("s3cret", "token-1", "hidden-1"):
        assert secret not in caplog.text


def test_default_retry_policy_has_the_documented_limits():
    assert (RetryPolicy().timeout, RetryPolicy().tries) == (60, 11)
    assert OAuthAuthenticator.patience == RetryPolicy()
