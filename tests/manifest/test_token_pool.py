"""Rotation of several tokens: selection, quotas, waits, and rate-limit headers."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
import requests

from tap_core.exceptions import ConfigurationError, FatalAPIError, SyncError
from tap_core.manifest.components.multiple_token_authenticator import (
    RateLimitedMultipleTokenAuthenticator,
)
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.token_pool import TokenRotator
from tap_core.parsing.datetimes import utc_now
from tests.http.server import ReceivedRequest, Reply, Server, serving
from tests.manifest.pieces import Sender, build, make_response

TEXT = """\
type: RateLimitedMultipleTokenAuthenticator
tokens: "{{ config['tokens'] }}"
auth_method: token
MORE: x
quota_status_source: {type: QuotaStatusSource, url: "{{ config['url'] }}/quota", CODES}
quotas:
  - type: TokenQuota
    name: usual
    remaining_path: [usual, left]
    reset_path: [usual, until]
    limit_path: [usual, all]
    remaining_header: X-Left
    reset_header: X-Until
    limit_header: X-All
    exhaustion_status_codes: [429]
  - type: TokenQuota
    name: graph
    remaining_path: [graph, left]
    reset_path: [graph, until]
    matchers: [{type: HttpRequestRegexMatcher, url_path_pattern: /graph}]
"""
NO_RESERVE = "budget_min_reserve: 0\nbudget_reserve_fraction: 0"


class SilentSender(Sender):
    """A request sender that logs nothing."""

    def log(self, *_args: Any, **_more: Any) -> None:
        pass


def make_authenticator(options: str = NO_RESERVE, codes: str = "", **config: Any) -> Any:
    text = TEXT.replace("MORE: x", options).replace(", CODES", codes and f", {codes}")
    return build(text, RateLimitedMultipleTokenAuthenticator, **{"tokens": "a, b,", **config})


def make_rotator(server: Server, *args: str, **config: Any) -> TokenRotator:
    component = make_authenticator(*args, url=server.url, **config)
    rotator = component.auth(SilentSender({"url": server.url}))
    assert isinstance(rotator, TokenRotator)
    return rotator


def sign(auth: TokenRotator, path: str = "/x") -> str:
    return str(auth(request(path)).headers["Authorization"])


def request(path: str = "/x", token: str | None = None) -> requests.PreparedRequest:
    headers = {"Authorization": f"token {token}"} if token else {}
    return requests.Request("GET", f"http://x{path}", headers=headers).prepare()


def quota(remaining: int, seconds: float = 3000, **fields: Any) -> dict[str, Any]:
    until = (utc_now() + timedelta(seconds=seconds)).isoformat()
    return {"left": remaining, "until": until, "all": 100, **fields}


def serve_quotas(**remaining: int) -> Any:
    def of(request: ReceivedRequest) -> Reply:
        token = request.headers["Authorization"].split()[1]
        return Reply({"usual": quota(remaining[token]), "graph": quota(1)})

    return of


def test_token_is_used_until_its_quota_is_exhausted():
    with serving() as server:
        server.answers_by(serve_quotas(a=2, b=2))
        auth = make_rotator(server)
        assert [sign(auth) for _ in range(3)] == ["token a", "token a", "token b"]
        assert [sign(auth, "/graph") for _ in range(2)] == ["token b", "token a"]
        assert len(server.requests) == 2


def test_responses_update_the_remaining_quota():
    with serving() as server:
        server.answers_by(serve_quotas(a=9, b=9))
        auth = make_rotator(server)
        assert sign(auth) == "token a"
        auth.update_quotas(request(token="other"), make_response(429))
        auth.update_quotas(
            request(token="a"), make_response(X_Left="7", X_Until="1000000000")
        )  # an old window
        auth.update_quotas(request(token="a"), make_response(429))
        assert auth.has_other_token(request(token="a"))
        assert not auth.has_other_token(request(token="b"))
        assert sign(auth) == "token b"
        later = str(int(time.time()) + 9000)
        auth.update_quotas(
            request(token="a"), make_response(X_Until=later, X_All="3")
        )  # a new window: all of it
        auth.update_quotas(request(token="b"), make_response(X_Left="0"))
        assert [sign(auth) for _ in range(3)] == ["token a"] * 3
        assert not auth.has_other_token(request(token="b"))


def test_exhausted_tokens_wait_for_the_reset_and_are_checked_again(monkeypatch: pytest.MonkeyPatch):
    waits: list[float] = []
    with serving() as server:
        remaining = {"a": 0, "b": 0}
        server.answers_by(serve_quotas(**remaining))
        auth = make_rotator(server)

        def sleep(_sender: Any, seconds: float) -> None:
            waits.append(seconds)
            server.answers_by(serve_quotas(a=0, b=1))

        monkeypatch.setattr(SilentSender, "sleep", sleep)
        assert sign(auth) == "token b"
        assert 2990 < waits[0] < 3001
        assert len(server.requests) == 4


@pytest.mark.parametrize("longest", ["PT0M", "PT30M"])
def test_wait_above_the_maximum_ends_the_sync(longest: str):
    with serving() as server:
        server.answers_by(serve_quotas(a=0, b=0))
        auth = make_rotator(server, f"{NO_RESERVE}\nmax_wait_time: {longest}")
        with pytest.raises(SyncError, match=f"All tokens are spent .* within {longest}") as raised:
            sign(auth)
        assert raised.value.failure_type == "transient_error"


def test_reserved_requests_are_spread_over_the_rest_of_the_window(monkeypatch: pytest.MonkeyPatch):
    waits: list[float] = []
    monkeypatch.setattr(SilentSender, "sleep", lambda _sender, seconds: waits.append(seconds))
    with serving() as server:
        server.answers_by(serve_quotas(a=400, b=201))
        auth = make_rotator(server, "budget_min_reserve: 500")
        assert [sign(auth), sign(auth)] == ["token a"] * 2
    assert [round(seconds) for seconds in waits] == [5, 5]
    waits.clear()
    with serving() as server:
        server.answers_by(serve_quotas(a=2, b=50))
        sign(make_rotator(server, "budget_min_reserve: 3"))
    assert waits == []


def test_tokens_without_a_known_quota_are_used_alternately():
    with serving() as server:
        server.answers(Reply({}, status=404))
        auth = make_rotator(server, NO_RESERVE, "unavailable_status_codes: [404]")
        assert [sign(auth) for _ in range(3)] == ["token a", "token b", "token a"]
        auth.update_quotas(request(token="a"), make_response(429))
        assert not auth.has_other_token(request(token="a"))
        with pytest.raises(FatalAPIError):
            sign(make_rotator(server))


def test_missing_or_invalid_options_are_errors():
    with pytest.raises(ConfigurationError, match="no token"):
        make_authenticator(tokens=" ,", url="x").auth(SilentSender())
    with pytest.raises(ManifestError, match="quotas"):
        build(
            TEXT.partition("quotas:")[0].replace("MORE: x", "quotas: []").replace(", CODES", ""),
            RateLimitedMultipleTokenAuthenticator,
            tokens="a",
            url="x",
        )
    with pytest.raises(ManifestError, match="P1X"):
        make_authenticator("max_wait_time: P1X", url="x")
    for document, message in [
        ({"usual": {"left": 1}}, "no value at the reset_path"),
        ({"usual": {"left": 1, "until": "soon", "all": 1}}, "not a datetime"),
        ({"usual": quota(1) | {"left": None}}, "not a number"),
        ({"usual": quota(1) | {"all": "many"}}, "not a number"),
    ]:
        with serving() as server:
            server.answers(Reply(document))
            with pytest.raises(SyncError, match=message):
                sign(make_rotator(server))
