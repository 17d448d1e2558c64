"""Requests to an OAuth 2.0 token endpoint, with retries.

- Temporary failures (no connection, status 429 or 5xx) are retried; any other error is final.
- An error message contains the endpoint, the status and OAuth's error fields (RFC 6749,
  section 5.2). It never contains the request or the rest of the response, which may be secret.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl

import requests

from tap_core.exceptions import FatalAPIError
from tap_core.http.fail_fast import limit_timeout, limit_tries, limit_wait
from tap_core.http.origins import make_redirect_error
from tap_core.http.proxies import ProxyRefusalError
from tap_core.http.response_limits import (
    MAX_RESPONSE_SECONDS,
    Deadline,
    ResponseTooLargeError,
    ResponseTooSlowError,
)
from tap_core.http.retry import (
    RETRYABLE_ERRORS,
    is_permanent_failure,
    random_jitter,
    retry_after,
    retry_logger,
)
from tap_core.http.transport import ask_token_endpoint, token_deadline
from tap_core.parsing.datetimes import utc_now
from tap_core.redaction import Secrets, collect_secrets, redact_url
from tap_core.redaction.http import content_type

__all__ = [
    "AccessTokenError",
    "RequestOutcome",
    "RetryPolicy",
    "TokenFieldNames",
    "TokenRequest",
    "TokenResponse",
    "check_token_length",
    "collect_payload_secrets",
    "parse_oauth_error",
    "parse_token_response",
]

_LONGEST_DESCRIPTION = 300

_LONGEST_TOKEN = 65_536
"""Maximum length of a token in characters. Servers accept shorter headers, and texts are searched
for all encodings of a token, so that longer ones would take minutes."""

_PUBLIC = frozenset({"audience", "client_id", "grant_type", "redirect_uri", "resource", "scope"})
"""Form fields that are not secret; messages hide the values of all other fields."""

_NETWORK_ERRORS = (
    requests.exceptions.RequestException,
    ConnectionError,
    ResponseTooLargeError,
    ResponseTooSlowError,
)


_INVALID_URL_ERRORS = (
    requests.exceptions.InvalidSchema,
    requests.exceptions.InvalidURL,
    requests.exceptions.MissingSchema,
)


class AccessTokenError(FatalAPIError, RuntimeError):
    """Error raised when the token endpoint returns no access token.

    Attributes:
        status: HTTP status code, or None without a response.
        error: Field ``error`` of the response, such as ``invalid_grant``, or None.
        description: Field ``error_description`` of the response, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        error: str | None = None,
        description: str | None = None,
    ) -> None:
        """Create an error; all arguments except ``message`` become attributes of the same name."""
        super().__init__(message)
        self.status = status
        self.error = error
        self.description = description


_LONGEST_WAIT: Final = 60.0
"""Maximum seconds between two tries; the default tries then last about five minutes."""


@dataclass(frozen=True)
class RetryPolicy:
    """Timeouts and number of attempts for requests to a token endpoint.

    Attributes:
        timeout: Maximum seconds to wait for a connection, and for data.
        tries: Maximum number of attempts.
        sleep: Function that waits for a number of seconds.
        max_response_seconds: Maximum number of seconds spent on receiving responses, over all
            attempts.
    """

    timeout: float = 60.0
    tries: int = 11
    sleep: Callable[[float], object] = time.sleep
    max_response_seconds: float | None = MAX_RESPONSE_SECONDS


@dataclass(frozen=True)
class TokenResponse:
    """Tokens from the response of a token endpoint.

    Attributes:
        sent_at: Time of the token request.
        expires_in: Lifetime of the access token, exactly as the server sent it.
    """

    sent_at: datetime
    access_token: str = field(repr=False)
    refresh_token: str | None = field(repr=False)
    expires_in: Any


@dataclass(frozen=True)
class TokenFieldNames:
    """Names of the fields in the JSON response of a token endpoint; the defaults are OAuth's.

    ``deep`` is True to search nested objects for the fields, False to search only the top level.
    """

    access_token: str = "access_token"  # noqa: S105  (names, no secrets)
    refresh_token: str = "refresh_token"  # noqa: S105
    expires_in: str = "expires_in"
    deep: bool = False

    def get_value(self, document: Any, name: str, levels: int = 5) -> Any:
        """Return the value of the field ``name`` in a JSON document, or None if it is missing.

        If the attribute ``deep`` is True, nested objects and lists are searched too, at most
        ``levels`` levels deep.
        """
        if isinstance(document, dict) and name in document:
            return document[name]
        if not self.deep or not levels or not isinstance(document, (dict, list)):
            return None
        below = document.values() if isinstance(document, dict) else document
        values = (self.get_value(nested, name, levels - 1) for nested in below)
        return next((value for value in values if value is not None), None)


@dataclass(frozen=True)
class RequestOutcome:
    """Result of one attempt to send a token request: the response, or the error if there is none.

    ``sent_at`` is the time of the attempt (UTC).
    """

    sent_at: datetime
    response: requests.Response | None = None
    error: Exception | None = None

    @property
    def is_retryable(self) -> bool:
        """True if the attempt failed for a temporary reason, so that a retry may succeed."""
        if self.response is None:
            return isinstance(self.error, RETRYABLE_ERRORS) and not is_permanent_failure(self.error)
        status = self.response.status_code
        return status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR

    @property
    def status(self) -> int | None:
        """HTTP status code of the token endpoint's response, or None without a response."""
        return None if self.response is None else self.response.status_code

    @property
    def description(self) -> str:
        """Result of the attempt as text for messages, such as ``status 503``."""
        if self.response is not None:
            return f"status {self.response.status_code}"
        if isinstance(self.error, (FatalAPIError, ProxyRefusalError)):
            return str(self.error)
        return f"no answer, {type(self.error).__name__}{_find_system_reason(self.error)}"


def _find_system_reason(error: BaseException | None) -> str:
    """Return the operating system's text for a network error, such as `` (Connection refused)``.

    The result is empty if the error has no such text. The HTTP client's texts are not used, because
    they contain whole URLs.
    """
    while error is not None:
        if isinstance(error, OSError) and error.strerror:
            return f" ({error.strerror})"
        error = error.__cause__ or error.__context__
    return ""


@dataclass(frozen=True)
class TokenRequest:
    """Request to a token endpoint.

    ``secrets`` are the values in the request that messages must not show.
    """

    url: str
    headers: Mapping[str, Any] = field(repr=False)
    payload: Any = field(repr=False)
    secrets: Secrets = field(repr=False)

    @property
    def safe_url(self) -> str:
        """URL of the endpoint for messages: without user info, query, fragment and secrets."""
        return self.secrets.hide(redact_url(self.url).partition("?")[0])

    def send(
        self,
        session: requests.Session,
        retry_policy: RetryPolicy,
        stream: str | None = None,
    ) -> RequestOutcome:
        """Send the token request, retry temporary failures, and return the last attempt's result.

        Args:
            session: HTTP session.
            retry_policy: Timeouts and number of attempts.
            stream: Name of the stream that needs the token, for log messages; None to leave it out.
        """
        tries, limit = 1, limit_tries(retry_policy.tries)
        timeout = limit_timeout(retry_policy.timeout)
        deadline = token_deadline(retry_policy.max_response_seconds)
        outcome = self._try(session, timeout, deadline)
        while outcome.is_retryable and tries < limit:
            wait = retry_after(outcome.response)
            wait = random_jitter(min(2.0 ** (tries - 1), _LONGEST_WAIT)) if wait is None else wait
            wait = limit_wait(wait)
            retry_logger.info(
                "%sNo access token from %s: %s; retrying in %.1f seconds, after try %d of %d",
                f"Stream '{stream}': " if stream else "",
                self.safe_url,
                outcome.description,
                wait,
                tries,
                limit,
            )
            retry_policy.sleep(wait)
            tries += 1
            outcome = self._try(session, timeout, deadline)
        return outcome

    def _try(self, session: requests.Session, timeout: float, deadline: Deadline) -> RequestOutcome:
        """Send the token request once, and return the response or the network error.

        ``timeout`` is the maximum number of seconds of each wait for the server. ``deadline``
        limits the time to receive the whole response.
        """
        sent_at = utc_now()
        try:
            response = ask_token_endpoint(
                session,
                self.url,
                timeout=timeout,
                deadline=deadline,
                headers=dict(self.headers),
                data=self.payload,
            )
        except _NETWORK_ERRORS as error:
            return RequestOutcome(sent_at, error=error)
        return RequestOutcome(sent_at, response)


def collect_payload_secrets(payload: Any) -> Secrets:
    """Return the secrets in the form data of a token request (``payload``), to redact them."""
    hidden = [value for name, value in _iterate_fields(payload) if name not in _PUBLIC]
    return collect_secrets({"secret": hidden})  # all values of a setting of this name are secret


def _iterate_fields(payload: Any) -> Iterator[tuple[str, Any]]:
    """Yield the (name, value) pairs of ``payload``, which is a mapping or URL-encoded form data."""
    if isinstance(payload, Mapping):
        yield from payload.items()
    elif isinstance(payload, (str, bytes)):
        text = payload.decode("utf-8", "replace") if isinstance(payload, bytes) else payload
        yield from parse_qsl(text) or [("", text)]


def parse_oauth_error(content: str | bytes, secrets: Secrets) -> tuple[str | None, str | None]:
    """Return ``error`` and ``error_description`` of ``content``, a token endpoint's error response.

    A missing field is None; both are None if ``content`` is not JSON. In the returned texts,
    ``secrets`` are replaced by ``***``.
    """
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return None, None
    fields = document if isinstance(document, dict) else {}
    error, description = fields.get("error"), fields.get("error_description")
    return _format_description(error, secrets), _format_description(description, secrets)


def _format_description(value: Any, secrets: Secrets) -> str | None:
    """Shorten an error field of a response to one line of at most 300 characters, for a message.

    Secrets are replaced by ``***``. Return None if ``value`` is not a text or is empty.
    """
    if not isinstance(value, str) or not value.strip():
        return None
    text = " ".join(secrets.hide(value).split())
    return text if len(text) <= _LONGEST_DESCRIPTION else f"{text[:_LONGEST_DESCRIPTION]}…"


def parse_token_response(
    outcome: RequestOutcome, endpoint: str, secrets: Secrets, names: TokenFieldNames
) -> TokenResponse:
    """Parse the response to a token request.

    Args:
        outcome: Result of the request.
        endpoint: URL of the endpoint for error messages.
        secrets: Values that messages must not show.
        names: Names of the fields in the response.

    Raises:
        AccessTokenError: There is no response, or it has no access token.
    """
    response = outcome.response
    if isinstance(outcome.error, _INVALID_URL_ERRORS):
        reason = "the address is not valid: it must begin with https:// or http://"
        error = _make_error(outcome, endpoint, reason, secrets)
        error.failure_type = "config_error"
        raise error
    if response is None:
        raise _make_error(outcome, endpoint, outcome.description, secrets)
    if not response.ok:
        raise _make_error(outcome, endpoint, "refused", secrets)
    if (redirect := make_redirect_error(response)) is not None:
        raise _make_error(outcome, endpoint, str(redirect), secrets)
    document = _parse_object(response)
    if document is None:
        kind = content_type(response) or "of no content type"
        raise _make_error(
            outcome, endpoint, f"the response is not a JSON object but {kind}", secrets
        )
    access_token = names.get_value(document, names.access_token)
    if not access_token:
        raise _make_error(outcome, endpoint, f"the response has no {names.access_token}", secrets)
    refresh_token = names.get_value(document, names.refresh_token)
    check_token_length(access_token, endpoint)
    check_token_length(refresh_token, endpoint)
    return TokenResponse(
        sent_at=outcome.sent_at,
        access_token=access_token,
        refresh_token=refresh_token if isinstance(refresh_token, str) and refresh_token else None,
        expires_in=names.get_value(document, names.expires_in),
    )


def check_token_length(token: Any, endpoint: str = "the source") -> None:
    """Raise an AccessTokenError if a token that was received from ``endpoint`` is too long."""
    if isinstance(token, str) and len(token) > _LONGEST_TOKEN:
        raise AccessTokenError(
            f"The response of {endpoint} has a token of {len(token):,} characters, more than"
            f" {_LONGEST_TOKEN:,}. No server accepts such a token: check the address and the name"
            " of the field with the token."
        )


def _parse_object(response: requests.Response) -> dict[str, Any] | None:
    """Parse the body of a response as a JSON object; return None if it is anything else."""
    try:
        document = response.json()
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _make_error(
    outcome: RequestOutcome, endpoint: str, reason: str, secrets: Secrets
) -> AccessTokenError:
    """Return the AccessTokenError for a failed token request.

    The message has ``endpoint`` (its URL), ``reason`` and OAuth's error fields, but no ``secrets``.
    """
    content = b"" if outcome.response is None else outcome.response.content
    error, description = parse_oauth_error(content, secrets)
    details = ": ".join(detail for detail in (error, description) if detail)
    return AccessTokenError(
        f"Failed to update access token (status={outcome.status or 'Unknown'}) at {endpoint}: "
        f"{f'{reason}, {details}' if details else reason}",
        status=outcome.status,
        error=error,
        description=description,
    )
