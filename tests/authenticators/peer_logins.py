"""The requests of every authenticator of singer_sdk or tap_core, as JSON.

Run as ``python peer_logins.py singer_sdk`` where that package is installed.
"""

from __future__ import annotations

import inspect
import json
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import requests

__all__ = ["outcomes"]

URL = "https://example.com/users?since=2024&api_key=old&q=a%20b#top"
PLAIN = {"name": "users", "tap_name": "tap-x"}
SETTINGS = {"client_id": "c", "client_secret": "s", "private_key": "k", "refresh_token": "r"}
STREAM = SimpleNamespace(config=SETTINGS, **PLAIN)

FIXED: dict[str, tuple[str, dict[str, Any]]] = {
    "nothing": ("APIAuthenticatorBase", {}),
    "simple": ("SimpleAuthenticator", {"auth_headers": {"X-A": "1", "Accept": "b"}}),
    "simple, none": ("SimpleAuthenticator", {}),
    "simple, stream": ("SimpleAuthenticator", {"stream": STREAM, "auth_headers": {"X": "1"}}),
    "key": ("APIKeyAuthenticator", {"key": "X-Key", "value": "v é"}),
    "key, header": ("APIKeyAuthenticator", {"key": "K", "value": "v", "location": "header"}),
    "key, params": (
        "APIKeyAuthenticator",
        {"key": "api_key", "value": "a&b c", "location": "params"},
    ),
    "key, stream": (
        "APIKeyAuthenticator",
        {"stream": STREAM, "key": "n&", "value": "é", "location": "params"},
    ),
    "key, elsewhere": ("APIKeyAuthenticator", {"key": "k", "value": "v", "location": "body"}),
    "bearer": ("BearerTokenAuthenticator", {"token": "t"}),
    "bearer, stream": ("BearerTokenAuthenticator", {"stream": STREAM, "token": "t"}),
    "basic": ("BasicAuthenticator", {"username": "u", "password": "p:é"}),
    "basic, stream": ("BasicAuthenticator", {"stream": STREAM, "username": "u", "password": ""}),
    "oauth, no endpoint": ("OAuthAuthenticator", {}),
    "oauth, no body": ("OAuthAuthenticator", {"auth_endpoint": "https://example.com/token"}),
}

FOR_STREAM: dict[str, dict[str, Any]] = {
    "APIKeyAuthenticator": {"key": "k", "value": "v", "location": "params"},
    "BearerTokenAuthenticator": {"token": "t"},
    "BasicAuthenticator": {"username": "u", "password": "p"},
}

ANSWERS: dict[str, dict[str, Any]] = {
    "with an end": {"access_token": "a", "expires_in": 123},
    "end as text": {"access_token": "a", "expires_in": "123"},
    "without an end": {"access_token": "a"},
    "no time at all": {"access_token": "a", "expires_in": 0},
    "more": {"access_token": "a", "token_type": "x", "expires_in": 60.7},
}

SHOWN = (
    "APIAuthenticatorBase",
    "APIKeyAuthenticator",
    "BasicAuthenticator",
    "BearerTokenAuthenticator",
    "OAuthAuthenticator",
    "OAuthJWTAuthenticator",
    "SimpleAuthenticator",
    "SingletonMeta",
)


def outcomes(package: str) -> dict[str, Any]:
    """Return the outcomes of all cases for one package."""
    module = import_module(f"{package}.authenticators")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "fixed": {title: fixed(module, *case) for title, case in FIXED.items()},
            "for stream": {name: for_stream(module, name) for name in FOR_STREAM},
            "oauth": {
                f"{title}, {default}": oauth(module, answer, default)
                for title, answer in ANSWERS.items()
                for default in (None, 30)
            },
            "jwt": jwt_claims(module),
            "refused": collect_refusal(module),
            "warned": collect_warnings(module),
            "shape": {name: shape(getattr(module, name)) for name in SHOWN},
            "public": sorted(name for name, kind in members(module) if is_own(name, kind)),
        }


def members(module: Any) -> list[tuple[str, Any]]:
    """Return the names and values of a module, with those that are imported on first use."""
    names = {*vars(module), *getattr(module, "__all__", ())}
    return [(name, getattr(module, name)) for name in names]


def is_own(name: str, kind: Any) -> bool:
    return isinstance(kind, type) and "authenticators" in kind.__module__ and name[0] != "_"


def sign_request(authenticator: Any) -> dict[str, Any]:
    request = requests.Request("GET", URL, headers={"Accept": "a"}).prepare()
    request = authenticator(authenticator(request))
    parts = urlsplit(request.url)
    return {
        "headers": dict(request.headers),
        "query": sorted(parse_qsl(parts.query)),
        "rest": [parts.scheme, parts.netloc, parts.path, parts.fragment],
        "auth": [authenticator.auth_headers, authenticator.auth_params],
    }


def fixed(module: Any, name: str, arguments: dict[str, Any]) -> Any:
    try:
        return sign_request(getattr(module, name)(**arguments))
    except (ValueError, NotImplementedError) as error:
        return type(error).__name__


def for_stream(module: Any, name: str) -> Any:
    authenticator = getattr(module, name).create_for_stream(STREAM, **FOR_STREAM[name])
    return [sign_request(authenticator), authenticator.tap_name, dict(authenticator.config)]


def oauth(module: Any, answer: dict[str, Any], default: int | None) -> Any:
    class Login(module.OAuthAuthenticator):  # type: ignore[misc,name-defined]
        @property
        def oauth_request_body(self) -> dict[str, Any]:
            return {
                "grant_type": "refresh_token",
                "refresh_token": self.config["refresh_token"],
                "id": self.client_id,
                "secret": self.client_secret,
                "scope": self.oauth_scopes,
                "many": ["a", "b c"],
                "odd": "é&=",
            }

    with serve_response(200, answer) as (url, requests_received):
        login = Login(
            stream=STREAM,
            auth_endpoint=f"{url}/token?a=1",
            oauth_scopes="read write",
            oauth_headers={"X-App": "1", "Accept": "x"},
            default_expiration=default,
        )
        before = [login.is_token_valid(), login.access_token, login.expires_in, login.refresh_token]
        first = sign_request(login)
        after = [login.is_token_valid(), login.access_token, login.expires_in]
        return [before, first, after, requests_received]


def jwt_claims(module: Any) -> Any:
    authenticator = module.OAuthJWTAuthenticator(
        auth_endpoint="https://example.com/token",
        oauth_scopes="read",
        client_id="c",
        private_key="k",
        private_key_passphrase="p",
    )
    claims = authenticator.oauth_request_body
    claims["exp"] -= claims["iat"]
    del claims["iat"]
    return [claims, authenticator.private_key, authenticator.private_key_passphrase]


def collect_refusal(module: Any) -> Any:
    class Login(module.OAuthAuthenticator):  # type: ignore[misc,name-defined]
        oauth_request_body: Any = {"grant_type": "client_credentials"}

        def handle_error(self, *, content: str, status_code: int | None) -> None:
            self.error_arguments = [content, status_code]

    with serve_response(400, {"error": "invalid_client"}) as (url, requests_received):
        login = Login(auth_endpoint=url)
        try:
            login.update_access_token()
        except RuntimeError as error:
            message = str(error).partition(")")[0]
            return [message, login.error_arguments, len(requests_received), login.is_token_valid()]
        return None


def collect_warnings(module: Any) -> Any:
    categories = {}
    authenticator = module.APIAuthenticatorBase(stream=STREAM)
    for title, use in {
        "stream": lambda: module.SimpleAuthenticator(stream=STREAM),
        "config": lambda: authenticator.config,
        "tap_name": lambda: authenticator.tap_name,
        "create_for_stream": lambda: module.BearerTokenAuthenticator.create_for_stream(STREAM, "t"),
        "nothing": lambda: module.SimpleAuthenticator(auth_headers={}),
    }.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            use()
        categories[title] = sorted({warning.category.__name__ for warning in caught})
    return categories


def shape(kind: type) -> dict[str, Any]:
    """Return the constructor's and the methods' parameters, and the names of properties."""
    members = {}
    for name, member in inspect.getmembers(kind):
        is_public = not name.startswith("_") or name in {"__init__", "__call__"}
        if not is_public or (hasattr(type, name) and name != "__init__"):
            continue
        if isinstance(member, property):
            members[name] = "property with setter" if member.fset else "property"
        elif callable(member):
            parameters = inspect.signature(member).parameters.values()
            members[name] = [
                f"{parameter.kind.name} {parameter.name}"
                + ("" if parameter.default is parameter.empty else f" = {parameter.default!r}")
                for parameter in parameters
            ]
    return members


@contextmanager
def serve_response(status: int, document: dict[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """Serve one response to all requests; yield the URL and the list of requests."""
    requests_received: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            names = ("Content-Type", "X-App", "Accept")
            requests_received.append([self.path, body, [self.headers[name] for name in names]])
            content = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: Any) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", requests_received
        finally:
            server.shutdown()
            thread.join()


if __name__ == "__main__":
    print(json.dumps(outcomes(sys.argv[1])))
