"""Refresh tokens that are good for one time: the new one is used, and handed back."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tap_core.authenticators import AccessTokenError
from tap_core.authenticators.refresh_tokens import RefreshTokens
from tests.authenticators.logins import Login, Refresh, Stream, Tap, refreshing
from tests.http.server import Reply

pytestmark = pytest.mark.filterwarnings("ignore::tap_core.exceptions.SingerSDKDeprecationWarning")

NOT_KEPT = "the new one could not be kept"


@pytest.fixture
def config_file(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"client_id": "me",\n "refresh_token": "refresh-0", "ratio": 1.10}\n')
    return path


def test_a_used_refresh_token_is_refused_and_never_sent_twice(tokens):
    authenticator = refreshing(tokens)
    for _ in range(4):
        authenticator.update_access_token()
    sent = [body["refresh_token"] for body in tokens.seen]
    assert sent == ["refresh-0", "refresh-1", "refresh-2", "refresh-3"]
    assert tokens.refused == []
    assert authenticator.access_token == "access-4"
    assert authenticator.refresh_token == "refresh-4"


def test_the_settings_show_the_new_one_from_then_on(tokens):
    settings = {"oauth": {"refreshToken": "refresh-0", "x": "refresh-0"}, "list": ["refresh-0"]}
    authenticator = refreshing(tokens, **settings)
    given = authenticator.config
    authenticator.update_access_token()
    assert dict(authenticator.config) == {
        "refresh_token": "refresh-1",
        "oauth": {"refreshToken": "refresh-1", "x": "refresh-0"},
        "list": ["refresh-0"],
    }
    assert given["refresh_token"] == "refresh-0"


def test_a_token_that_an_author_holds_on_to_is_sent_as_its_newest(tokens):
    class Held(Login):
        @property
        def oauth_request_body(self):
            return {"grant_type": "refresh_token", "refresh_token": "refresh-0", "scope": "a"}

    authenticator = Held(auth_endpoint=tokens.url)
    for _ in range(3):
        authenticator.update_access_token()
    assert tokens.refused == []
    assert tokens.seen[2] == {
        "grant_type": "refresh_token",
        "refresh_token": "refresh-2",
        "scope": "a",
    }


def test_all_authenticators_of_a_tap_know_what_was_replaced(tokens):
    tap = Tap()
    for _ in range(3):
        refreshing(tokens, tap=tap).update_access_token()
    late = Refresh(auth_endpoint=tokens.url)
    late._config = {"refresh_token": "refresh-0"}
    late.attach(Stream(_tap=tap))
    late.update_access_token()
    assert tokens.refused == []


def test_authenticators_of_other_taps_do_not(tokens):
    refreshing(tokens, tap=Tap()).update_access_token()
    for tap in (Tap(), None, SimpleNamespace()):
        with pytest.raises(AccessTokenError):
            refreshing(tokens, tap=tap).update_access_token()
    assert tokens.refused == ["refresh-0"] * 3


def test_threads_with_authenticators_of_their_own_take_turns(tokens):
    tap, together = Tap(), threading.Barrier(8)

    def refresh():
        together.wait(60)
        refreshing(tokens, tap=tap).update_access_token()

    threads = [threading.Thread(target=refresh) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (tokens.given, tokens.refused) == (8, [])


def test_a_server_that_keeps_the_refresh_token_changes_nothing(server, tokens, caplog):
    for more in ({}, {"refresh_token": "refresh-0"}, {"refresh_token": None}, {"refresh_token": 3}):
        server.answers(Reply({"access_token": "a", **more}))
        authenticator = refreshing(tokens)
        authenticator.update_access_token()
        assert authenticator.config["refresh_token"] == "refresh-0"
    assert NOT_KEPT not in caplog.text


def test_a_refresh_token_that_came_for_another_grant_is_kept_in_memory_only(
    server, config_file, caplog
):
    server.answers(Reply({"access_token": "a", "refresh_token": "first"}))
    before = config_file.read_bytes()
    stream = Stream(_tap=Tap(config_file))
    authenticator = Login(stream=stream, auth_endpoint=server.url)
    authenticator.update_access_token()
    assert authenticator.refresh_token == "first"
    assert config_file.read_bytes() == before
    assert NOT_KEPT not in caplog.text


def test_an_unusual_payload_is_sent_as_it_is(server):
    class Text(Login):
        @property
        def oauth_request_payload(self):
            return "refresh_token=mine"

    server.answers(Reply({"access_token": "a"}))
    Text(auth_endpoint=server.url).update_access_token()
    assert server.asked[0].body == b"refresh_token=mine"


# Handing it back


@pytest.mark.parametrize("kind", [lambda path: path, str])
def test_a_new_refresh_token_goes_into_the_configuration_file(tokens, config_file, caplog, kind):
    caplog.set_level("INFO")
    authenticator = refreshing(tokens, tap=Tap(kind(config_file)))
    authenticator.update_access_token()
    authenticator.update_access_token()
    assert config_file.read_text() == (
        '{"client_id": "me",\n "refresh_token": "refresh-2", "ratio": 1.10}\n'
    )
    assert NOT_KEPT not in caplog.text
    assert f"kept in the configuration file {config_file}" in caplog.text
    assert "refresh-" not in caplog.text


def test_the_next_run_starts_with_what_the_last_one_left(tokens, config_file):
    for _ in range(3):
        settings = json.loads(config_file.read_text())
        refreshing(tokens, tap=Tap(config_file), **settings).update_access_token()
    assert tokens.refused == []


@pytest.mark.parametrize("tap", [None, Tap(), Tap(3)])
def test_without_one_configuration_file_there_is_one_warning(tokens, caplog, tap):
    authenticator = refreshing(tokens, tap=tap)
    for _ in range(3):
        authenticator.update_access_token()
    assert caplog.text.count(NOT_KEPT) == 1
    [warning] = [record for record in caplog.records if NOT_KEPT in record.getMessage()]
    assert warning.levelname == "WARNING"
    assert "the settings do not come from one configuration file" in caplog.text
    assert "The next run needs the new one" in caplog.text
    assert "refresh-" not in caplog.text


def test_a_file_that_could_not_be_written_is_made_up_for_later(tokens, config_file, caplog):
    authenticator = refreshing(tokens, tap=Tap(config_file))
    hidden = config_file.rename(config_file.with_name("away.json"))
    authenticator.update_access_token()
    assert f"{config_file} cannot be written: No such file or directory" in caplog.text
    hidden.rename(config_file)
    authenticator.update_access_token()
    assert json.loads(config_file.read_text())["refresh_token"] == "refresh-2"


def test_a_token_that_did_not_come_from_the_file_is_not_written_there(tokens, config_file, caplog):
    before = '{"refresh_token": "overridden by a variable"}'
    config_file.write_text(before)
    refreshing(tokens, tap=Tap(config_file)).update_access_token()
    assert config_file.read_text() == before
    assert f"the one that was used is not in the configuration file {config_file}" in caplog.text


# The memory itself


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd"))))
def test_the_newest_is_always_found(replacements):
    known, newest = RefreshTokens(), {}
    for used, token in replacements:
        if used != token:
            known.replaced(used, token)
            newest[used] = token
            assert known.newest(used) == known.newest(token) == token
    assert all(known.newest(each) in "abcd" for each in "abcd")
