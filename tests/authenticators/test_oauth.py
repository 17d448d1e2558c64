"""Access tokens: asked for once, kept, and replaced before they expire."""

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
from tests.authenticators.logins import Login, Stream, sent_with
from tests.http.server import Asked, Reply

pytestmark = pytest.mark.filterwarnings("ignore::tap_core.exceptions.SingerSDKDeprecationWarning")


def login(server, kind: type[Login] = Login, **given):
    url = f"{server.url}/oauth/token"
    return kind(**{"client_id": "me", "client_secret": "s3cret", "auth_endpoint": url, **given})


def numbered(server, **more):
    """Let the server give token-1, then token-2, and so on."""
    given = []

    def answer(_: Asked) -> Reply:
        given.append(1)
        return Reply({"access_token": f"token-{len(given)}", **more})

    server.answers_by(answer)


def aged(authenticator, seconds: float) -> None:
    authenticator.last_refreshed = utc_now() - timedelta(seconds=seconds)


# Asking


def test_a_token_is_asked_for_once_and_put_on_every_request(server):
    numbered(server, expires_in=3600)
    authenticator = login(server, oauth_headers={"X-App": "a"})
    for _ in range(3):
        assert sent_with(authenticator).headers["Authorization"] == "Bearer token-1"
    [asked] = server.asked
    assert (asked.method, asked.path, asked.headers["X-App"]) == ("POST", "/oauth/token", "a")
    assert asked.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert asked.body == b"grant_type=client_credentials&client_id=me&client_secret=s3cret"


def test_nothing_is_asked_before_there_is_a_request(server):
    authenticator = login(server)
    assert not authenticator.is_token_valid()
    assert (authenticator.access_token, authenticator.last_refreshed) == (None, None)


def test_an_endpoint_that_was_not_given_is_said():
    with pytest.raises(ValueError, match="Authorization endpoint not set"):
        sent_with(Login())


def test_a_body_that_was_not_defined_is_said(server):
    with pytest.raises(NotImplementedError, match="OAuthAuthenticator has to define"):
        sent_with(OAuthAuthenticator(auth_endpoint=server.url))


def test_client_and_secret_may_be_those_of_the_streams_settings():
    stream = Stream(config={"client_id": "from settings", "client_secret": "too"})
    authenticator = Login(stream=stream, client_secret="given", oauth_scopes="read")
    assert authenticator.client_id == "from settings"
    assert authenticator.client_secret == "given"
    assert authenticator.oauth_scopes == "read"


def test_what_authors_override_is_asked_anew_for_each_token(server):
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
    assert [(asked.path, asked.body) for asked in server.asked] == [
        ("/elsewhere", b"call=1"),
        ("/elsewhere", b"call=2"),
    ]


# Expiry


def test_a_token_is_replaced_before_it_expires(server):
    numbered(server, expires_in=3600)
    authenticator = login(server)
    sent_with(authenticator)
    aged(authenticator, 3500)
    assert sent_with(authenticator).headers["Authorization"] == "Bearer token-1"
    aged(authenticator, 3550)
    assert sent_with(authenticator).headers["Authorization"] == "Bearer token-2"


def test_a_token_that_lives_ten_seconds_is_used_for_nine(server):
    numbered(server, expires_in=10)
    authenticator = login(server)
    sent_with(authenticator)
    aged(authenticator, 8)
    assert authenticator.is_token_valid()
    aged(authenticator, 9)
    assert not authenticator.is_token_valid()


@given(st.floats(min_value=0.01, max_value=1e9))
def test_the_margin_is_never_most_of_the_life(lifetime):
    assert 0 < refresh_margin_seconds(lifetime) <= min(60, lifetime / 9)


@pytest.mark.parametrize(
    "answered, default, kept",
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
def test_how_long_a_token_lives(server, answered, default, kept):
    numbered(server, **({} if answered is None else {"expires_in": answered}))
    authenticator = login(server, default_expiration=default)
    authenticator.update_access_token()
    assert authenticator.expires_in == kept


def test_an_expiration_that_is_null_is_none(server):
    numbered(server, expires_in=None)
    authenticator = login(server, default_expiration=60)
    authenticator.update_access_token()
    assert authenticator.expires_in == 60


def test_a_token_without_an_end_is_good_for_ever(server):
    numbered(server)
    authenticator = login(server)
    authenticator.update_access_token()
    aged(authenticator, 1e7)
    assert authenticator.is_token_valid()


def test_an_instant_without_an_offset_is_taken_as_utc(server):
    numbered(server, expires_in=3600)
    authenticator = login(server)
    authenticator.update_access_token()
    authenticator.last_refreshed = utc_now().replace(tzinfo=None)
    assert authenticator.is_token_valid()


def test_the_time_of_asking_counts_and_not_that_of_the_answer(server):
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


def test_of_threads_that_need_a_token_at_once_one_asks(server):
    numbered(server, expires_in=3600)
    authenticator = login(server)
    found = []
    all_at_once(lambda: found.append(sent_with(authenticator).headers["Authorization"]))
    assert found == ["Bearer token-1"] * 8
    assert len(server.asked) == 1


def test_threads_that_wait_for_an_update_take_what_it_got(server):
    class Counting:
        """A lock that counts who has come to it."""

        def __init__(self, lock):
            self.lock, self.came, self.changed = lock, 0, threading.Condition()

        def __enter__(self):
            with self.changed:
                self.came += 1
                self.changed.notify_all()
            self.lock.acquire()

        def __exit__(self, *_):
            self.lock.release()

    def answer(_: Asked) -> Reply:
        with counting.changed:
            counting.changed.wait_for(lambda: counting.came >= 8, timeout=60)
        return Reply({"access_token": f"token-{len(server.asked)}"})

    server.answers_by(answer)
    authenticator = login(server)
    authenticator._updating = counting = Counting(authenticator._updating)
    all_at_once(authenticator.update_access_token)
    assert (authenticator.access_token, len(server.asked)) == ("token-1", 1)
    authenticator.update_access_token()
    assert authenticator.access_token == "token-2"


def test_an_update_that_fails_is_tried_by_the_next(server):
    server.answers(Reply({"error": "invalid_client"}, status=401), Reply({"access_token": "t"}))
    authenticator = login(server)
    with pytest.raises(RuntimeError):
        sent_with(authenticator)
    assert sent_with(authenticator).headers["Authorization"] == "Bearer t"


def test_an_authors_own_update_is_made_by_one_thread_only(server):
    class Own(Login):
        updates = 0

        def update_access_token(self):
            self.updates += 1
            self.access_token = f"own-{self.updates}"
            self.expires_in = 3600
            self.last_refreshed = utc_now()

    authenticator = login(server, Own)
    all_at_once(lambda: sent_with(authenticator))
    assert (authenticator.updates, server.asked) == (1, [])


def test_a_singleton_asks_once_for_all_streams(server):
    class Single(Login, metaclass=SingletonMeta):
        pass

    numbered(server, expires_in=3600)
    for _ in range(3):
        sent_with(login(server, Single))
    assert len(server.asked) == 1


# The log


def test_the_log_says_what_happens_and_no_secret(server, caplog):
    caplog.set_level(logging.DEBUG)
    numbered(server)
    url = f"{server.url}/oauth/token?client_secret=hidden-1"
    sent_with(login(server, auth_endpoint=url))
    assert "Requesting new access token" in caplog.text
    assert "no default_expiration" in caplog.text
    for secret in ("s3cret", "token-1", "hidden-1"):
        assert secret not in caplog.text


def test_patience_is_what_was_promised():
    assert (RetryPolicy().timeout, RetryPolicy().tries) == (60, 11)
    assert OAuthAuthenticator.patience == RetryPolicy()
