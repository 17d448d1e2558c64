"""Functions that add a credential to a request, for the authenticators of a manifest.

They extend `tap_core.authenticators` by the field names and request options that a manifest
declares. A request that is signed twice contains the credential once. One thread requests a token
for all threads; the token is used until shortly before it expires.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode

import requests

from tap_core.authenticators import APIAuthenticatorBase, OAuthAuthenticator
from tap_core.authenticators.oauth import refresh_margin_seconds
from tap_core.authenticators.refresh_tokens import get_refresh_tokens
from tap_core.authenticators.token_endpoint import (
    AccessTokenError,
    TokenFieldNames,
    TokenRequest,
    TokenResponse,
    check_token_length,
)
from tap_core.http.request import HTTPRequest
from tap_core.incremental.datetime_formats import get_format
from tap_core.manifest.errors import ManifestError
from tap_core.parsing.datetimes import parse_datetime, utc_now
from tap_core.redaction import Secrets, register_secrets
from tap_core.singerlib.json import replace_path

if TYPE_CHECKING:
    from tap_core.incremental.request_options import RequestOption

__all__ = ["CachedToken", "ExpiringToken", "InjectedCredential", "TokenRefusals", "parse_expiry"]

_DEFAULT_LIFETIME = 3600
"""Lifetime in seconds assumed for an OAuth token if the server sends none."""
_LONGEST_LIFETIME = 100 * 365 * 86_400
"""Maximum lifetime of an OAuth token in seconds; an expiry far beyond it is no valid datetime."""
_AMBIGUOUS_STATUSES = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
"""Statuses that may mean wrong credentials, or a request that the endpoint does not accept."""


def parse_expiry(value: Any, format: str | None = None) -> datetime | None:
    """Parse the expiry of a token to a timezone-aware datetime; None if it is not a datetime.

    Args:
        value: Expiry, as text or number.
        format: Datetime format; without it, the value is an ISO 8601 datetime or a Unix timestamp.
    """
    text = str(value).strip()
    for candidate in (format, "%s" if text.isdecimal() else None):
        if candidate is not None:
            with contextlib.suppress(ValueError):
                return get_format(candidate).read(text)
    try:
        return parse_datetime(text)
    except ValueError:
        return None


class InjectedCredential(APIAuthenticatorBase):
    """Authenticator that adds a credential to a header, parameter or body field of a request."""

    def __init__(self, option: RequestOption, credential: Callable[[], str]) -> None:
        """Create the authenticator.

        Args:
            option: Part of the request and name of the field, such as the header ``X-Api-Key``.
            credential: Function that returns the current credential.
        """
        super().__init__()
        self._option = option
        self._credential = credential

    def authenticate_request(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add the credential to a request, and return the request."""
        credential = self._credential()
        is_json, body = _parse_body(request)
        added = HTTPRequest(url="", data=body)
        try:
            self._option.put(added, credential)
        except ValueError:
            raise ManifestError(
                "The credential cannot be added to the request body, because the body has no"
                " fields: set `inject_into: header` or `request_parameter`, or declare the body as"
                " a mapping in `request_body_json` or `request_body_data`."
            ) from None
        if added.data is not body:
            _write_body(request, added, is_json=is_json)
        self.auth_headers, self.auth_params = dict(added.headers), added.params
        return super().authenticate_request(request)


def _parse_body(request: requests.PreparedRequest) -> tuple[bool, Any]:
    """Parse a request body; return (is_json, body).

    A form becomes a dict with a list of values for each field. JSON becomes its value, other text a
    str, and a missing body None. ``is_json`` is True if the body is declared as JSON.
    """
    is_json = "json" in str(request.headers.get("Content-Type", ""))
    body = request.body
    if not body:
        return is_json, None
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body)
    if not is_json:
        return False, parse_qs(text, keep_blank_values=True) if "=" in text else text
    try:
        return True, json.loads(text)
    except ValueError:
        return True, text


def _write_body(request: requests.PreparedRequest, added: HTTPRequest, *, is_json: bool) -> None:
    """Replace the body of a request by the fields in ``added``.

    ``added`` also includes the fields of the old body. ``is_json`` is True if the old body is JSON.
    """
    if request.body and is_json != added.as_json:
        raise ManifestError(
            "The credential cannot be added to the request body: set `inject_into: body_json` for a"
            " JSON body, or `inject_into: body_data` for a form."
        )
    if added.as_json:
        request.prepare_body(data=None, files=None, json=added.data)
        return
    form: Any = added.data
    request.prepare_body(data=urlencode(form, doseq=True), files=None)
    request.headers.setdefault("Content-Type", "application/x-www-form-urlencoded")


class ExpiringToken:
    """Access token that is requested on first use and cached until shortly before it expires.

    The function ``get`` returns a new token and the datetime of its expiry (None if unknown). If
    the API rejects a token, only the first thread requests a new one.
    """

    def __init__(self, get: Callable[[], tuple[str, datetime | None]]) -> None:
        self.access_token: str | None = None
        self._get = get
        self._valid_until: datetime | None = None
        self._update_lock = threading.RLock()

    def __call__(self) -> str:
        """Return the current token, or a new one if the current one is about to expire."""
        if not self.is_valid():
            with self._update_lock:
                if not self.is_valid():
                    self.update_access_token()
        return self.access_token or ""

    def is_valid(self) -> bool:
        """Return True if there is a token, and it does not expire soon."""
        until = self._valid_until
        return self.access_token is not None and (until is None or utc_now() < until)

    def update_access_token(self) -> None:
        """Request a new token and cache it until shortly before it expires.

        From then on, messages and logs hide the token.

        Raises:
            AccessTokenError: The token is too long.
        """
        with self._update_lock:
            token, ends_at = self._get()
            check_token_length(token)
            if ends_at is not None:
                lifetime = (ends_at - utc_now()).total_seconds()
                ends_at -= timedelta(seconds=refresh_margin_seconds(max(0.0, lifetime)))
            self.access_token, self._valid_until = token, ends_at
            register_secrets(self, Secrets.from_values([token]))


@dataclass(frozen=True)
class TokenRefusals:
    """Error responses of a token endpoint that show an unusable refresh token.

    The status is one of ``status_codes``, and the field ``key`` of the JSON body is in ``values``.
    """

    status_codes: frozenset[int] = frozenset({400})
    key: str = "error"
    values: frozenset[str] = frozenset({"invalid_grant", "invalid_permissions"})

    def contains(self, status: int | None, content: str) -> bool:
        """Return True if a response with this status and body is one of these."""
        try:
            document = json.loads(content)
        except (ValueError, RecursionError):
            return False
        value = document.get(self.key) if isinstance(document, dict) else None
        return status in self.status_codes and isinstance(value, str) and value in self.values


class CachedToken(OAuthAuthenticator):
    """OAuth authenticator with the request and response fields that a manifest declares.

    Args:
        endpoint: URL of the token endpoint; None for a fixed token.
        body: Function that returns the fields of the token request.
        headers: Headers of the token request.
        names: Names of the fields in the token response.
        in_query: True if the fields are sent in the query string, False for the body.
        end_format: Datetime format of the expiry; None if the API sends a lifetime in seconds.
        known: Token of an earlier run with its expiry; None if there is none.
        keep_in: Config paths at which the access token, its expiry and the refresh token are
            stored; None stores only a refresh token that replaces one in the config.
        refresh_token_settings: Names of the settings that contain the refresh token, if they do
            not contain ``refresh_token``.
        client_secret: Client secret, which is removed from messages.
        refusals: Error responses that are a ``config_error``; others are a ``system_error``.
    """

    def __init__(
        self,
        *,
        endpoint: str | None,
        body: Callable[[], dict[str, Any]],
        headers: Mapping[str, Any],
        names: TokenFieldNames,
        in_query: bool,
        end_format: str | None,
        known: tuple[str, datetime | None] | None,
        keep_in: tuple[Sequence[str], Sequence[str], Sequence[str]] | None,
        refresh_token_settings: Collection[str],
        client_secret: str | None,
        refusals: TokenRefusals,
    ) -> None:
        super().__init__(
            auth_endpoint=endpoint,
            oauth_headers=dict(headers),
            client_secret=client_secret,
            default_expiration=_DEFAULT_LIFETIME,
        )
        self.token_names = names
        self._body = body
        self._in_query = in_query
        self._end_format = end_format
        self._keep_in = keep_in
        self._refusals = refusals
        self._failure_type: str | None = None
        self._refresh_token_settings = refresh_token_settings
        self._is_fixed = endpoint is None and known is not None
        if known is not None:
            self._restore_token(*known)

    def _restore_token(self, token: str, ends_at: datetime | None) -> None:
        now = utc_now()
        lifetime = 0.0 if ends_at is None else (ends_at - now).total_seconds()
        if token and (lifetime > 0 or self._is_fixed):
            self.access_token = token
            self.expires_in = None if self._is_fixed else int(lifetime)
            self.last_refreshed = now

    def update_access_token(self) -> None:
        """Request a new token; do nothing for a fixed token."""
        if not self._is_fixed:
            super().update_access_token()

    @property
    def oauth_request_body(self) -> dict[str, Any]:
        """Form fields of the token request, as a dict."""
        return self._body()

    def _build_token_request(self, payload: Any) -> TokenRequest:
        request = super()._build_token_request(payload)
        if not self._in_query:
            return request
        separator = "&" if "?" in request.url else "?"
        fields = {name: value for name, value in payload.items() if value is not None}
        url = f"{request.url}{separator}{urlencode(fields, doseq=True)}"
        return replace(request, url=url, payload=None)

    def _request_token(self, payload: Any) -> TokenResponse:
        self._failure_type = None
        try:
            return super()._request_token(payload)
        except AccessTokenError as error:
            error.failure_type = self._failure_type
            raise

    def handle_error(self, *, content: str, status_code: int | None) -> None:
        """Log an error response of the token endpoint, and determine its failure type."""
        super().handle_error(content=content, status_code=status_code)
        if self._refusals.contains(status_code, content):
            self._failure_type = "config_error"
        elif status_code in _AMBIGUOUS_STATUSES:
            self._failure_type = "system_error"

    def _lifetime(self, token: TokenResponse) -> int | None:
        """Return the lifetime in a token response in seconds, at least 1; None if it is missing.

        Raises:
            AccessTokenError: The lifetime is invalid.
        """
        if token.expires_in is None:
            return None
        if self._end_format:
            ends_at = parse_expiry(token.expires_in, self._end_format)
            seconds = None if ends_at is None else int((ends_at - token.sent_at).total_seconds())
        else:
            seconds = super()._lifetime(token)
        if seconds is None or seconds > _LONGEST_LIFETIME:
            raise self._make_lifetime_error()
        return max(1, seconds)

    def _make_lifetime_error(self) -> AccessTokenError:
        expected = (
            f"a datetime in the `token_expiry_date_format` {self._end_format}"
            if self._end_format
            else "a number of seconds: set `token_expiry_date_format` if it is a datetime"
        )
        error = AccessTokenError(
            f"The lifetime of the access token, '{self.token_names.expires_in}' in the response of"
            f" the `token_refresh_endpoint`, is not {expected}."
        )
        error.failure_type = "system_error"
        return error

    def _store_access_token(self, token: TokenResponse) -> None:
        super()._store_access_token(token)
        listener = getattr(self._tap, "config_listener", None)
        if self._keep_in is not None and callable(listener):
            listener(self._store_token)

    def _store_token(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of the config settings with the tokens and the expiry, for the next run."""
        token_path, end_path, refresh_path = self._keep_in or ((), (), ())
        ends_at = (self.last_refreshed or utc_now()) + timedelta(seconds=self.expires_in or 0)
        renewed = replace_path(settings, token_path, self.access_token)
        renewed = replace_path(renewed, end_path, ends_at.isoformat())
        if self.refresh_token is None:
            return renewed
        tokens = get_refresh_tokens(self._tap, self._own_refresh_tokens)
        return replace_path(renewed, refresh_path, tokens.get_latest(self.refresh_token))
