"""OAuth 2.0: an access token that is asked for, kept, and replaced before it expires.

Rules of the room: members that authors override are singer_sdk's, and they are asked anew for
each token. Of threads that want a token at once, one asks and the others take what it got.
Whoever overrides `update_access_token` or `is_token_valid` keeps that: one at a time.
"""

from __future__ import annotations

import contextlib
import math
import threading
from datetime import datetime, timedelta, timezone
from typing import Any

import requests

from tap_core.authenticators.base import APIAuthenticatorBase
from tap_core.authenticators.jwt import load_private_key, sign_jwt
from tap_core.authenticators.refresh_tokens import (
    RefreshTokens,
    apply_latest_token,
    get_refresh_token,
    get_refresh_tokens,
)
from tap_core.authenticators.token_endpoint import (
    RetryPolicy,
    TokenFieldNames,
    TokenRequest,
    TokenResponse,
    collect_payload_secrets,
    parse_oauth_error,
    parse_token_response,
)
from tap_core.parsing.datetimes import utc_now
from tap_core.redaction import Secrets, collect_secrets, register_secrets
from tap_core.redaction.http import collect_sent_secrets
from tap_core.redaction.process_secrets import install_redaction

__all__ = ["OAuthAuthenticator", "OAuthJWTAuthenticator", "refresh_margin_seconds"]

_LONGEST_MARGIN = 60.0
_SHARE_OF_LIFETIME = 0.1
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_ASSERTION_LIFETIME = timedelta(hours=1)
_UTC = timezone.utc


def refresh_margin_seconds(lifetime: float) -> float:
    """Return how many seconds before its end a token is replaced: a minute, or a tenth."""
    return min(_LONGEST_MARGIN, lifetime * _SHARE_OF_LIFETIME)


class OAuthAuthenticator(APIAuthenticatorBase):
    """Puts an access token on requests, asked for by a POST with `oauth_request_body`.

    Subclasses define that property. ``access_token``, ``refresh_token`` (the newest, None
    until the server replaces one), ``last_refreshed`` and ``expires_in`` (seconds, None for
    ever) say how things stand.
    """

    patience: RetryPolicy = RetryPolicy()
    """How long the endpoint is waited for and how often it is asked."""

    token_names: TokenFieldNames = TokenFieldNames()
    """What the endpoint calls tokens and their lifetime."""

    def __init__(
        self,
        *args: Any,
        auth_endpoint: str | None = None,
        oauth_scopes: str | None = None,
        default_expiration: int | None = None,
        oauth_headers: dict[str, Any] | None = None,
        client_id: str | None = None,
        client_secret: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Take the endpoint and what it wants to know.

        ``default_expiration`` is for answers that do not say how many seconds a token
        lives. Client and secret that are not given are those of a stream's settings.
        """
        super().__init__(*args, **kwargs)
        self._client_id: str | None = client_id or self._config.get("client_id")
        self._client_secret: str | None = client_secret or self._config.get("client_secret")
        self._auth_endpoint = auth_endpoint
        self._default_expiration = default_expiration
        self._oauth_scopes = oauth_scopes
        self._oauth_headers = oauth_headers or {}

        self.access_token: str | None = None
        self.refresh_token: str | None = None
        self.last_refreshed: datetime | None = None
        self.expires_in: int | None = None
        self._session = requests.Session()
        self._own_refresh_tokens = RefreshTokens()
        self._updating = threading.RLock()
        self._updates = 0
        self._hidden = Secrets()
        install_redaction()

    def authenticate_request(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Put a token that is good on a request; the first one, and a new one, is asked for.

        Raises:
            AccessTokenError: there is none to be had.
        """
        if not self.is_token_valid():
            with self._updating:
                if not self.is_token_valid():
                    self.update_access_token()
        self.auth_headers["Authorization"] = f"Bearer {self.access_token}"
        return super().authenticate_request(request)

    # What is asked

    @property
    def auth_endpoint(self) -> str:
        """The URL that gives tokens.

        Raises:
            ValueError: it was not given.
        """
        if not self._auth_endpoint:
            raise ValueError("Authorization endpoint not set: give `auth_endpoint`.")
        return self._auth_endpoint

    @property
    def oauth_scopes(self) -> str | None:
        """The scopes to ask for, None for the server's own choice."""
        return self._oauth_scopes

    @property
    def oauth_request_payload(self) -> dict[str, Any]:
        """What is sent: the body itself, unless it is signed."""
        return self.oauth_request_body

    @property
    def oauth_request_body(self) -> dict[str, Any]:
        """What is asked for and by whom; each kind of grant has its own.

        >>> class Login(OAuthAuthenticator):
        ...     @property
        ...     def oauth_request_body(self):
        ...         return {
        ...             "grant_type": "client_credentials",
        ...             "client_id": self.client_id,
        ...             "client_secret": self.client_secret,
        ...         }
        """
        raise NotImplementedError(
            f"{type(self).__name__} has to define the property `oauth_request_body`."
        )

    @property
    def client_id(self) -> str | None:
        """The name by which the server knows this client."""
        return self._client_id

    @property
    def client_secret(self) -> str | None:
        """The password of this client."""
        return self._client_secret

    # What is known

    def is_token_valid(self) -> bool:
        """Tell whether there is a token that lives for a while yet."""
        if self.last_refreshed is None:
            return False
        if not self.expires_in:
            return True
        refreshed = self.last_refreshed
        if refreshed.tzinfo is None:  # set by an author; UTC as everywhere
            refreshed = refreshed.replace(tzinfo=_UTC)
        age = (utc_now() - refreshed).total_seconds()
        return age < self.expires_in - refresh_margin_seconds(self.expires_in)

    def update_access_token(self) -> None:
        """Ask for a new token, unless another thread did while this one waited for it.

        Raises:
            AccessTokenError: there is none to be had.
        """
        known = self._updates
        with self._updating:
            if known == self._updates:
                self._update()
                self._updates += 1

    def _update(self) -> None:
        self.logger.info("Requesting new access token")
        tokens = get_refresh_tokens(self._tap, self._own_refresh_tokens)
        self._config = tokens.renewed(self._config)
        payload: Any = self.oauth_request_payload
        used = get_refresh_token(payload, self.token_names.refresh_token)
        with tokens.lock if used else contextlib.nullcontext():
            if used:
                used = tokens.newest(used)
                payload = apply_latest_token(payload, used, self.token_names.refresh_token)
            token = self._asked(payload)
            known = {"secret": [token.access_token, token.refresh_token]}
            register_secrets(self, collect_secrets(known))
            self._keep_refresh_token(tokens, used, token.refresh_token)
        self._keep(token)

    def _asked(self, payload: Any) -> TokenResponse:
        known = {"secret": [self.client_secret, self.access_token, self.refresh_token]}
        self._hidden = (
            collect_payload_secrets(payload)
            | collect_secrets(self._config)
            | collect_secrets(known)
        )
        request = self._token_request(payload)
        outcome = request.send(self._session, self.patience, self.logger, self._stream_name)
        response = outcome.response
        if response is not None:
            self._hidden |= collect_sent_secrets(response.request)
            if not response.ok:
                self.handle_error(content=response.text, status_code=response.status_code)
        return parse_token_response(outcome, request.place, self._hidden, self.token_names)

    def _token_request(self, payload: Any) -> TokenRequest:
        """Return the request that carries what is asked."""
        return TokenRequest(self.auth_endpoint, self._oauth_headers, payload, self._hidden)

    def _keep_refresh_token(
        self, tokens: RefreshTokens, used: str | None, token: str | None
    ) -> None:
        if token is None:
            return
        self.refresh_token = token
        if used is not None and used != token:
            tokens.replaced(used, token)
            self._config = {**tokens.renewed(self._config), "refresh_token": token}
            tokens.hand_back(self._tap, token, self.logger)

    def _keep(self, token: TokenResponse) -> None:
        """Set the members so that at no moment an old token looks like a new one."""
        self.access_token = token.access_token
        expires_in = self._lifetime(token)
        self.expires_in = (
            _seconds(self._default_expiration) if expires_in is None else expires_in
        ) or None
        if self.expires_in is None:
            self.logger.debug(
                "The answer has no expires_in and there is no default_expiration: the token is "
                "taken to be good for ever"
            )
        self.last_refreshed = token.sent_at

    def _lifetime(self, token: TokenResponse) -> int | None:
        """Return for how many seconds a token is good, None where nothing says so."""
        return _seconds(token.expires_in)

    def handle_error(self, *, content: str, status_code: int | None) -> None:
        """Log a refusal; ``content`` is the answer's body, which may hold secrets.

        Override it to see what the server said; an error follows.
        """
        said = [word for word in parse_oauth_error(content, self._hidden) if word]
        self.logger.error(
            "Failed OAuth login with status code %s: %s",
            status_code or "Unknown",
            ": ".join(said) or "the answer has no OAuth error",
        )


def _seconds(value: Any) -> int | None:
    """Read a lifetime, which some servers send as text; None where there is none to read."""
    try:
        seconds = float(value)
        return 1 if 0 < seconds < 1 else int(seconds)
    except (TypeError, ValueError, OverflowError):
        return None


class OAuthJWTAuthenticator(OAuthAuthenticator):
    """Asks for tokens by an assertion that is signed with a private key (RFC 7523).

    It needs the packages PyJWT and cryptography.
    """

    def __init__(
        self,
        *args: Any,
        private_key: str | None = None,
        private_key_passphrase: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Take the key as PEM text; one that is not given is that of a stream's settings."""
        super().__init__(*args, **kwargs)
        self._private_key: str | None = private_key or self._config.get("private_key")
        self._private_key_passphrase: str | None = private_key_passphrase or self._config.get(
            "private_key_passphrase"
        )

    @property
    def private_key(self) -> str | None:
        """The key, as PEM text."""
        return self._private_key

    @property
    def private_key_passphrase(self) -> str | None:
        """The password of the key, None where it has none."""
        return self._private_key_passphrase

    @property
    def oauth_request_body(self) -> dict[str, Any]:
        """The claims of the assertion, good for an hour."""
        now = utc_now()
        return {
            "iss": self.client_id,
            "scope": self.oauth_scopes,
            "aud": self.auth_endpoint,
            "exp": math.floor((now + _ASSERTION_LIFETIME).timestamp()),
            "iat": math.floor(now.timestamp()),
        }

    @property
    def oauth_request_payload(self) -> dict[str, Any]:
        """The assertion, signed.

        Raises:
            RuntimeError: a package that signs is not installed.
            ValueError: there is no private key, or it cannot be read.
        """
        if not self.private_key:
            raise ValueError("There is no private_key to sign the assertion with.")
        key = load_private_key(self.private_key, self.private_key_passphrase)
        return {
            "grant_type": _JWT_BEARER,
            "assertion": sign_jwt(self.oauth_request_body, key, "RS256"),
        }
