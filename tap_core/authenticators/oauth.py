"""OAuth 2.0 authenticators, which request an access token and refresh it before it expires.

If several threads need a token at once, one thread requests it and the other threads use the
result. This is also true if a subclass overrides `update_access_token` or `is_token_valid`.
Properties that subclasses override, such as `oauth_request_body`, are evaluated again for each
token request.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

import requests

from tap_core.authenticators.base import APIAuthenticatorBase
from tap_core.authenticators.jwt import load_private_key, sign_jwt
from tap_core.authenticators.refresh_tokens import (
    RefreshTokens,
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
from tap_core.parsing.datetimes import assume_utc, utc_now
from tap_core.redaction import Secrets, collect_secrets, register_secrets
from tap_core.redaction.http import collect_sent_secrets
from tap_core.redaction.process_secrets import install_redaction

__all__ = ["OAuthAuthenticator", "OAuthJWTAuthenticator", "refresh_margin_seconds"]

_LONGEST_MARGIN = 60.0
_SHARE_OF_LIFETIME = 0.1
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_ASSERTION_LIFETIME = timedelta(hours=1)


def refresh_margin_seconds(lifetime: float) -> float:
    """Return how many seconds before its expiry an access token is refreshed.

    The result is 60 seconds or, if that is less, 10 % of ``lifetime`` (the seconds for which the
    token is valid).
    """
    return min(_LONGEST_MARGIN, lifetime * _SHARE_OF_LIFETIME)


class OAuthAuthenticator(APIAuthenticatorBase):
    """Authenticator that requests an OAuth access token and adds it to requests.

    Subclasses define `oauth_request_body`, the form data of the token request.

    Attributes:
        access_token: Current access token, or None before the first token request.
        refresh_token: Latest refresh token that the server sent, or None.
        last_refreshed: Time of the last token request, or None.
        expires_in: Lifetime of the access token in seconds; None if it does not expire.
    """

    patience: RetryPolicy = RetryPolicy()
    """Timeouts and maximum number of attempts for token requests."""

    token_names: TokenFieldNames = TokenFieldNames()
    """Names of the response fields with the tokens and the lifetime."""

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
        """Create an authenticator that requests access tokens from a token endpoint.

        Args:
            args: Arguments of `APIAuthenticatorBase`.
            auth_endpoint: URL of the token endpoint.
            oauth_scopes: Scopes to request; None for the server's default.
            default_expiration: Token lifetime in seconds for responses without ``expires_in``; None
                if such tokens do not expire.
            oauth_headers: Headers of the token request.
            client_id: OAuth client ID; by default the stream's config setting of this name.
            client_secret: OAuth client secret; by default the stream's config setting of this name.
            kwargs: Arguments of `APIAuthenticatorBase`.
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
        self._refresh_token_settings: Collection[str] = ()
        self._updating = threading.RLock()
        self._updates = 0
        self._hidden_values = Secrets()
        install_redaction()

    def authenticate_request(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add a valid access token to a request; get a new token if needed.

        Args:
            request: The request, which is changed in place.

        Returns:
            The same request.

        Raises:
            AccessTokenError: No token could be obtained.
        """
        if not self.is_token_valid():
            with self._updating:
                if not self.is_token_valid():
                    self.update_access_token()
        self.auth_headers["Authorization"] = f"Bearer {self.access_token}"
        return super().authenticate_request(request)

    # Token request

    @property
    def auth_endpoint(self) -> str:
        """URL of the token endpoint.

        Raises:
            ValueError: No endpoint was set.
        """
        if not self._auth_endpoint:
            raise ValueError("Authorization endpoint not set: give `auth_endpoint`.")
        return self._auth_endpoint

    @property
    def oauth_scopes(self) -> str | None:
        """OAuth scopes to request; None for the server's default."""
        return self._oauth_scopes

    @property
    def oauth_request_payload(self) -> dict[str, Any]:
        """Form data that a token request sends; by default `oauth_request_body`."""
        return self.oauth_request_body

    @property
    def oauth_request_body(self) -> dict[str, Any]:
        """Form data of the token request, which subclasses must define.

        Examples:
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
            f"{type(self).__name__} must define the property `oauth_request_body`."
        )

    @property
    def client_id(self) -> str | None:
        """OAuth client ID from the constructor or the config, or None."""
        return self._client_id

    @property
    def client_secret(self) -> str | None:
        """OAuth client secret from the constructor or the config, or None."""
        return self._client_secret

    # Token state

    def is_token_valid(self) -> bool:
        """Return True if there is an access token that does not need a refresh yet.

        A token needs a refresh shortly before it expires; see `refresh_margin_seconds`. A token
        without ``expires_in`` stays valid.
        """
        if self.last_refreshed is None:
            return False
        if not self.expires_in:
            return True
        age = (utc_now() - assume_utc(self.last_refreshed)).total_seconds()  # an author may set it
        return age < self.expires_in - refresh_margin_seconds(self.expires_in)

    def update_access_token(self) -> None:
        """Request a new access token, unless another thread has just requested one.

        Raises:
            AccessTokenError: No token could be obtained.
        """
        updates = self._updates
        with self._updating:
            if updates == self._updates:
                self._request_new_token()
                self._updates += 1

    def _request_new_token(self) -> None:
        """Request a new access token, and store the tokens of the response.

        If the server has replaced the refresh token in the form data of the request during this
        run, the latest replacement is sent instead.
        """
        self.logger.info("Requesting new access token")
        tokens = get_refresh_tokens(self._tap, self._own_refresh_tokens)
        self._config = tokens.with_latest_tokens(self._config)
        payload: Any = self.oauth_request_payload
        field = self.token_names.refresh_token
        used = get_refresh_token(payload, field)
        with tokens.lock if used else contextlib.nullcontext():
            if used:
                used = tokens.get_latest(used)
                payload = {**payload, field: used}
            token = self._request_token(payload)
            secrets = {"secret": [token.access_token, token.refresh_token or self.refresh_token]}
            register_secrets(self, collect_secrets(secrets))
            self._store_refresh_token(tokens, used, token.refresh_token)
        self._store_access_token(token)

    def _request_token(self, payload: Any) -> TokenResponse:
        """Send a token request with the form data ``payload``, and return the received tokens.

        Raises:
            AccessTokenError: The response has no access token.
        """
        secrets = {"secret": [self.client_secret, self.access_token, self.refresh_token]}
        self._hidden_values = (
            collect_payload_secrets(payload)
            | collect_secrets(self._config)
            | collect_secrets(secrets)
        )
        request = self._build_token_request(payload)
        outcome = request.send(self._session, self.patience, self._stream_name)
        response = outcome.response
        if response is not None:
            self._hidden_values |= collect_sent_secrets(response.request)
            if not response.ok:
                self.handle_error(content=response.text, status_code=response.status_code)
        return parse_token_response(
            outcome, request.safe_url, self._hidden_values, self.token_names
        )

    def _build_token_request(self, payload: Any) -> TokenRequest:
        """Build a token request with the form data ``payload``, without sending it."""
        return TokenRequest(self.auth_endpoint, self._oauth_headers, payload, self._hidden_values)

    def _store_refresh_token(
        self, tokens: RefreshTokens, used: str | None, token: str | None
    ) -> None:
        """Store the refresh token ``token`` of a token response for later token requests.

        ``used`` is the refresh token that the request sent. If the two differ, also record the
        replacement in ``tokens``, and write the new token to the tap's config file. Do nothing if
        ``token`` is None.
        """
        if token is None:
            return
        self.refresh_token = token
        if used is not None and used != token:
            tokens.record_replacement(used, token)
            self._config = {**tokens.with_latest_tokens(self._config), "refresh_token": token}
            tokens.save_token(self._tap, token, self.logger, self._refresh_token_settings)

    def _store_access_token(self, token: TokenResponse) -> None:
        """Store the access token of a token response, its lifetime, and the time of the request."""
        self.access_token = token.access_token
        expires_in = self._lifetime(token)
        self.expires_in = (
            _parse_seconds(self._default_expiration) if expires_in is None else expires_in
        ) or None
        if self.expires_in is None:
            self.logger.debug(
                "The response has no expires_in and there is no default_expiration: the token is "
                "treated as never expiring"
            )
        # Set last, so that another thread never treats the old token as valid.
        self.last_refreshed = token.sent_at

    def _lifetime(self, token: TokenResponse) -> int | None:
        """Return the lifetime in a token response in seconds; None if it is missing or invalid."""
        return _parse_seconds(token.expires_in)

    def handle_error(self, *, content: str, status_code: int | None) -> None:
        """Log an error response of the token endpoint.

        Subclasses may override this method to inspect the response. `AccessTokenError` is raised
        afterwards in any case.

        Args:
            content: Body of the response, which may contain secrets.
            status_code: HTTP status code.
        """
        details = [detail for detail in parse_oauth_error(content, self._hidden_values) if detail]
        self.logger.error(
            "Failed OAuth login with status code %s: %s",
            status_code or "Unknown",
            ": ".join(details) or "the response has no OAuth error",
        )


def _parse_seconds(value: Any) -> int | None:
    """Convert a lifetime in seconds (a number or text) to an integer; return None if invalid.

    A lifetime between 0 and 1 becomes 1, because 0 would mean that the token never expires.
    """
    try:
        seconds = float(value)
        return 1 if 0 < seconds < 1 else int(seconds)
    except (TypeError, ValueError, OverflowError):
        return None


class OAuthJWTAuthenticator(OAuthAuthenticator):
    """Authenticator that requests access tokens with a signed JSON Web Token (RFC 7523).

    The packages PyJWT and cryptography must be installed.
    """

    def __init__(
        self,
        *args: Any,
        private_key: str | None = None,
        private_key_passphrase: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Create an authenticator that signs its token requests with a private key.

        Args:
            args: Arguments of `OAuthAuthenticator`.
            private_key: Private key as PEM text; by default the stream's setting of that name.
            private_key_passphrase: Passphrase of the key; by default the stream's setting of that
                name.
            kwargs: Arguments of `OAuthAuthenticator`.
        """
        super().__init__(*args, **kwargs)
        self._private_key: str | None = private_key or self._config.get("private_key")
        self._private_key_passphrase: str | None = private_key_passphrase or self._config.get(
            "private_key_passphrase"
        )

    @property
    def private_key(self) -> str | None:
        """Private key (PEM text) that signs the token requests, or None."""
        return self._private_key

    @property
    def private_key_passphrase(self) -> str | None:
        """Passphrase of the private key, or None if the key is not encrypted."""
        return self._private_key_passphrase

    @property
    def oauth_request_body(self) -> dict[str, Any]:
        """Claims of the JSON Web Token in a token request; the token is valid for one hour."""
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
        """Form data of the token request, with a signed JSON Web Token as ``assertion``.

        Raises:
            RuntimeError: PyJWT or cryptography is not installed.
            ValueError: There is no private key, or it cannot be read.
        """
        if not self.private_key:
            raise ValueError("There is no private_key to sign the assertion with.")
        key = load_private_key(self.private_key, self.private_key_passphrase)
        return {
            "grant_type": _JWT_BEARER,
            "assertion": sign_jwt(self.oauth_request_body, key, "RS256"),
        }
