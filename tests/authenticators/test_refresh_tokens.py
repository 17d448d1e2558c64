"""Refresh tokens that are valid once: the new one is used, and written to the config file."""

from __future__ import annotations

import json
import logging
import threading
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tap_core.authenticators import AccessTokenError
from tap_core.authenticators.refresh_tokens import RefreshTokens
from tap_core.redaction import redact
from tests.authenticators.logins import Login, Refresh, Stream, Tap, refreshing
from tests.http.server import Reply

pytestmark = pytest.mark.filterwarnings("ignore::tap_core.exceptions.SingerSDKDeprecationWarning")

NOT_KEPT = "the new one could not be kept"


@pytest.fixture
def config_file(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"client_id": "me",\n "refresh_token": "refresh-0", "ratio": 1.10}\n')
    return path


def test_used_refresh_token_is_never_sent_again(tokens):
    authenticator = refreshing(tokens)
    for _ in range(4):
        authenticator.update_access_token()
    sent = [body["refresh_token"] for body in tokens.bodies]
    assert sent == ["refresh-0", "refresh-1", "refresh-2", "refresh-3"]
    assert tokens.refused_tokens == []
    assert authenticator.access_token == "access-4"
    assert authenticator.refresh_token == "refresh-4"


def test_config_shows_the_new_refresh_token_after_an_update(tokens):
    settings = {"oauth": {"refreshToken": "refresh-0", "x": "refresh-0"}, "list": ["refresh-0"]}
    authenticator = refreshing(tokens, **settings)
    config_before = authenticator.config
    authenticator.update_access_token()
    assert dict(authenticator.config) == {
        "refresh_token": "refresh-1",
        "oauth": {"refreshToken": "refresh-1", "x": "refresh-0"},
        "list": ["refresh-0"],
    }
    assert config_before["refresh_token"] == "refresh-0"


def test_old_refresh_token_of_the_author_is_replaced_by_the_newest(tokens):
    class Held(Login):
        @property
        def oauth_request_body(self):
            return {"grant_type": "refresh_token", "refresh_token": "refresh-0", "scope": "a"}

    authenticator = Held(auth_endpoint=tokens.url)
    for _ in range(3):
        authenticator.update_access_token()
    assert tokens.refused_tokens == []
    assert tokens.bodies[2] == {
        "grant_type": "refresh_token",
        "refresh_token": "refresh-2",
        "scope": "a",
    }


def test_authenticators_of_a_tap_share_new_refresh_tokens(tokens):
    tap = Tap()
    for _ in range(3):
        refreshing(tokens, tap=tap).update_access_token()
    late = Refresh(auth_endpoint=tokens.url)
    late._config = {"refresh_token": "refresh-0"}
    late.attach(Stream(_tap=tap))
    late.update_access_token()
    assert tokens.refused_tokens == []


def test_authenticators_of_different_taps_do_not_share_refresh_tokens(tokens):
    refreshing(tokens, tap=Tap()).update_access_token()
    for tap in (Tap(), None, SimpleNamespace()):
        with pytest.raises(AccessTokenError):
            refreshing(tokens, tap=tap).update_access_token()
    assert tokens.refused_tokens == ["refresh-0"] * 3


def test_threads_with_separate_authenticators_refresh_one_after_another(tokens):
    tap, together = Tap(), threading.Barrier(8)

    def refresh():
        together.wait(60)
        refreshing(tokens, tap=tap).update_access_token()

    threads = [threading.Thread(target=refresh) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (tokens.issued_count, tokens.refused_tokens) == (8, [])


def test_refresh_token_is_kept_if_the_response_has_no_new_one(server, tokens, caplog):
    for fields in (
        {},
        {"refresh_token": "refresh-0"},
        {"refresh_token": None},
        {"refresh_token": 3},
    ):
        server.answers(Reply({"access_token": "a", **fields}))
        authenticator = refreshing(tokens)
        authenticator.update_access_token()
        assert authenticator.config["refresh_token"] == "refresh-0"
    assert NOT_KEPT not in caplog.text


def test_refresh_token_in_use_stays_hidden_after_many_access_tokens(server, monkeypatch):
    monkeypatch.setattr("tap_core.redaction.process_secrets._LATEST", 2)
    server.answers(
        Reply({"access_token": "first-access", "refresh_token": "kept-refresh"}),
        *(Reply({"access_token": f"access-{number}"}) for number in range(4)),
    )
    authenticator = Login(auth_endpoint=server.url)
    for _ in range(5):
        authenticator.update_access_token()
    assert redact("kept-refresh access-3 access-2 first-access") == "*** *** *** first-access"


def test_refresh_token_of_another_grant_is_kept_only_in_memory(server, config_file, caplog):
    server.answers(Reply({"access_token": "a", "refresh_token": "first"}))
    before = config_file.read_bytes()
    stream = Stream(_tap=Tap(config_file))
    authenticator = Login(stream=stream, auth_endpoint=server.url)
    authenticator.update_access_token()
    assert authenticator.refresh_token == "first"
    assert config_file.read_bytes() == before
    assert NOT_KEPT not in caplog.text


def test_string_payload_is_sent_unchanged(server):
    class Text(Login):
        @property
        def oauth_request_payload(self):
            return "refresh_token=mine"

    server.answers(Reply({"access_token": "a"}))
    Text(auth_endpoint=server.url).update_access_token()
    assert server.requests[0].body == b"refresh_token=mine"


# Writing it back to the config file


@pytest.mark.parametrize("kind", [lambda path: path, str])
def test_new_refresh_token_is_written_to_the_config_file(tokens, config_file, caplog, kind):
    caplog.set_level("INFO")
    authenticator = refreshing(tokens, tap=Tap(kind(config_file)))
    authenticator.update_access_token()
    authenticator.update_access_token()
    assert config_file.read_text() == (
        '{"client_id": "me",\n "refresh_token": "refresh-2", "ratio": 1.10}\n'
    )
    assert NOT_KEPT not in caplog.text
    assert f"written to the configuration file {config_file}" in caplog.text
    assert "refresh-" not in caplog.text


def test_next_run_uses_the_written_refresh_token(tokens, config_file):
    for _ in range(3):
        settings = json.loads(config_file.read_text())
        refreshing(tokens, tap=Tap(config_file), **settings).update_access_token()
    assert tokens.refused_tokens == []


@pytest.mark.parametrize("tap", [None, Tap(), Tap(3)])
def test_missing_config_file_causes_a_single_warning(tokens, caplog, tap):
    authenticator = refreshing(tokens, tap=tap)
    for _ in range(3):
        authenticator.update_access_token()
    assert caplog.text.count(NOT_KEPT) == 1
    [warning] = [record for record in caplog.records if NOT_KEPT in record.getMessage()]
    assert warning.levelname == "WARNING"
    assert "the settings do not come from one configuration file" in caplog.text
    assert "The next run needs the new one" in caplog.text
    assert "refresh-" not in caplog.text


def test_failed_write_is_made_up_for_by_the_next_update(tokens, config_file, caplog):
    authenticator = refreshing(tokens, tap=Tap(config_file))
    hidden = config_file.rename(config_file.with_name("away.json"))
    authenticator.update_access_token()
    assert f"{config_file} cannot be written: No such file or directory" in caplog.text
    hidden.rename(config_file)
    authenticator.update_access_token()
    assert json.loads(config_file.read_text())["refresh_token"] == "refresh-2"


def test_token_of_another_account_is_not_replaced_after_a_failed_write(tmp_path):
    file = tmp_path / "config.json"
    settings = {"a": {"refresh_token": "a-0"}, "b": {"refresh_token": "b-0"}}
    known, tap = RefreshTokens(), Tap(file)
    known.record_replacement("a-0", "a-1")
    known.save_token(tap, "a-1", logging.getLogger())  # there is no file yet
    file.write_text(json.dumps(settings))
    known.record_replacement("b-0", "b-1")
    known.save_token(tap, "b-1", logging.getLogger())
    assert json.loads(file.read_text()) == {**settings, "b": {"refresh_token": "b-1"}}


def test_token_from_another_source_is_not_written_to_the_config_file(tokens, config_file, caplog):
    before = '{"refresh_token": "overridden by a variable"}'
    config_file.write_text(before)
    refreshing(tokens, tap=Tap(config_file)).update_access_token()
    assert config_file.read_text() == before
    assert f"the one that was used is not in the configuration file {config_file}" in caplog.text


# RefreshTokens


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd"))))
def test_newest_refresh_token_is_found_for_any_older_one(replacements):
    known, newest = RefreshTokens(), {}
    for used, token in replacements:
        if used != token:
            known.record_replacement(used, token)
            newest[used] = token
            assert known.get_latest(used) == known.get_latest(token) == token
    assert all(known.get_latest(letter) in "abcd" for letter in "abcd")
