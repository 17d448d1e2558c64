"""A token server, and authenticators that request tokens from it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import requests

from tap_core.authenticators import OAuthAuthenticator, RetryPolicy
from tests.http.server import ReceivedRequest, Reply, Server

__all__ = ["Login", "Stream", "Tap", "TokenServer", "prepare_request", "refreshing"]


class Tap:
    """The part of a tap that authenticators use."""

    def __init__(self, config_file: Any = None) -> None:
        self.config_file = config_file


@dataclass
class Stream:
    """The part of a stream that authenticators use."""

    config: dict[str, Any] = field(default_factory=dict)
    tap_name: str = "tap-x"
    name: str = "users"
    _tap: Any = None


class TokenServer:
    """Issues access tokens for refresh tokens, each of which is valid only once."""

    def __init__(self, server: Server, first: str = "refresh-0") -> None:
        self.url = f"{server.url}/oauth/token"
        self.current_token = first
        self.refused_tokens: list[str] = []
        self.issued_count = 0
        self.bodies: list[dict[str, str]] = []
        self._lock = threading.Lock()
        server.answers_by(self._answer)

    def _answer(self, request: ReceivedRequest) -> Reply:
        body = dict(parse_qsl(request.body.decode()))
        with self._lock:
            self.bodies.append(body)
            if body.get("refresh_token") != self.current_token:
                self.refused_tokens.append(body.get("refresh_token", ""))
                return Reply({"error": "invalid_grant"}, status=400)
            self.issued_count += 1
            self.current_token = f"refresh-{self.issued_count}"
            token = {"access_token": f"access-{self.issued_count}", "expires_in": 3600}
            return Reply({**token, "refresh_token": self.current_token})


class Login(OAuthAuthenticator):
    """Uses the client credentials; ``waits`` lists the seconds that it would have slept."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.waits: list[float] = []
        self.patience = RetryPolicy(timeout=20, sleep=self.waits.append)

    @property
    def oauth_request_body(self):
        return {
            "grant_type": "client_credentials",
            "client_id": self.client_id,
            "client_secret": self.client_secret,
        }


class Refresh(Login):
    """Uses the refresh token of the config, as most taps do."""

    @property
    def oauth_request_body(self):
        return {"grant_type": "refresh_token", "refresh_token": self.config["refresh_token"]}


def refreshing(
    server: TokenServer, *, tap: Any = None, kind: type[Login] = Refresh, **config: Any
) -> Any:
    """Return an authenticator of a stream with this config."""
    stream = Stream(config={"refresh_token": "refresh-0", **config}, _tap=tap)
    return kind(stream=stream, auth_endpoint=server.url)


def prepare_request(authenticator: Any, url: str = "https://example.com/users") -> Any:
    """Return a GET request as the authenticator prepared it."""
    return authenticator(requests.Request("GET", url).prepare())
