"""An OAuth 2.0 token endpoint: asked for a token, asked again when that may help.

Rules of the room: every request has a timeout. What may pass (no connection, 429, 5xx) is
tried again a few times; every other refusal counts at once. A message names the endpoint,
the status and the fields that OAuth has for it (RFC 6749, section 5.2). It never shows what
was sent, a query, or any other part of the answer, and no error stands behind it that does.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl

import requests

from tap_core.exceptions import FatalAPIError, RetriableAPIError
from tap_core.http.fail_fast import limit_timeout, limit_tries, limit_wait
from tap_core.http.origins import describe_redirect
from tap_core.http.response_limits import (
    MAX_RESPONSE_SECONDS,
    Deadline,
    ResponseTooLargeError,
    ResponseTooSlowError,
)
from tap_core.http.retry import RETRYABLE_ERRORS, is_permanent_failure, random_jitter, retry_after
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
    "collect_payload_secrets",
    "parse_oauth_error",
    "parse_token_response",
]

_LONGEST_DESCRIPTION = 300

_PUBLIC = frozenset({"audience", "client_id", "grant_type", "redirect_uri", "resource", "scope"})
"""What a request says that is no secret; any other value is hidden wherever it turns up."""

_FAILURES = (
    requests.exceptions.RequestException,
    ConnectionError,
    ResponseTooLargeError,
    ResponseTooSlowError,
)


class AccessTokenError(FatalAPIError, RuntimeError):
    """There is no access token to be had.

    ``status`` is the HTTP status, None without an answer; ``error`` and ``description`` are
    what OAuth's fields of these meanings said, None where they were missing.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        error: str | None = None,
        description: str | None = None,
    ) -> None:
        """Keep the parts beside the message."""
        super().__init__(message)
        self.status = status
        self.error = error
        self.description = description


_LONGEST_WAIT: Final = 60.0
"""Seconds; with as many tries as there are, a server may be away for five minutes."""


@dataclass(frozen=True)
class RetryPolicy:
    """How long an endpoint is waited for: seconds for an answer, tries, and how to sleep.

    ``max_response_seconds`` are those from the first byte of an answer to its last one, all tries
    together.
    """

    timeout: float = 60.0
    tries: int = 11
    sleep: Callable[[float], object] = time.sleep
    max_response_seconds: float | None = MAX_RESPONSE_SECONDS


@dataclass(frozen=True)
class TokenResponse:
    """What an endpoint gave; ``expires_in`` is as it came, ``sent_at`` when it was asked."""

    sent_at: datetime
    access_token: str = field(repr=False)
    refresh_token: str | None = field(repr=False)
    expires_in: Any


@dataclass(frozen=True)
class TokenFieldNames:
    """What an endpoint calls what it gives; ``deep``: it may stand below other members."""

    access_token: str = "access_token"  # noqa: S105  (names, no secrets)
    refresh_token: str = "refresh_token"  # noqa: S105
    expires_in: str = "expires_in"
    deep: bool = False

    def found(self, document: Any, name: str, levels: int = 5) -> Any:
        """Return what a document has under a name, None for nothing."""
        if isinstance(document, dict) and name in document:
            return document[name]
        if not self.deep or not levels or not isinstance(document, (dict, list)):
            return None
        below = document.values() if isinstance(document, dict) else document
        values = (self.found(each, name, levels - 1) for each in below)
        return next((value for value in values if value is not None), None)


@dataclass(frozen=True)
class RequestOutcome:
    """What a try came to: a response, or else an error."""

    sent_at: datetime
    response: requests.Response | None = None
    error: Exception | None = None

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed later."""
        if self.response is None:
            return isinstance(self.error, RETRYABLE_ERRORS) and not is_permanent_failure(self.error)
        status = self.response.status_code
        return status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR

    @property
    def status(self) -> int | None:
        """The status of the response, None where there is none."""
        return None if self.response is None else self.response.status_code

    @property
    def words(self) -> str:
        """Why there is no response, or which status it has; nothing of what was sent."""
        if self.response is not None:
            return f"status {self.response.status_code}"
        if isinstance(self.error, FatalAPIError):
            return str(self.error)
        return f"no answer, {type(self.error).__name__}{_reason(self.error)}"


def _reason(error: BaseException | None) -> str:
    """Return what the operating system said; texts of the HTTP client hold whole URLs."""
    while error is not None:
        if isinstance(error, OSError) and error.strerror:
            return f" ({error.strerror})"
        error = error.__cause__ or error.__context__
    return ""


@dataclass(frozen=True)
class TokenRequest:
    """A request for a token: where to, with which headers, and the body as a form."""

    url: str
    headers: Mapping[str, Any] = field(repr=False)
    payload: Any = field(repr=False)
    secrets: Secrets = field(repr=False)

    @property
    def place(self) -> str:
        """The URL without user-info, query, fragment and secrets: how messages name it."""
        return self.secrets.hide(redact_url(self.url).partition("?")[0])

    def send(
        self,
        session: requests.Session,
        patience: RetryPolicy,
        logger: logging.Logger,
        stream: str | None = None,
    ) -> RequestOutcome:
        """Ask until there is an answer, or none to be expected; return the last outcome.

        ``stream`` is the name of the stream that needs the token, for the log.
        """
        tries, most = 1, limit_tries(patience.tries)
        timeout = limit_timeout(patience.timeout)
        deadline = token_deadline(patience.max_response_seconds)
        outcome = self._try(session, timeout, deadline)
        while outcome.may_pass and tries < most:
            wait = retry_after(RetriableAPIError("", outcome.response))
            wait = random_jitter(min(2.0 ** (tries - 1), _LONGEST_WAIT)) if wait is None else wait
            wait = limit_wait(wait)
            logger.warning(
                "%sNo access token from %s: %s; asking again in %.1f seconds, after try %d of %d",
                *(
                    f"Stream '{stream}': " if stream else "",
                    self.place,
                    outcome.words,
                    wait,
                    tries,
                    most,
                ),
            )
            patience.sleep(wait)
            tries += 1
            outcome = self._try(session, timeout, deadline)
        return outcome

    def _try(self, session: requests.Session, timeout: float, deadline: Deadline) -> RequestOutcome:
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
        except _FAILURES as error:
            return RequestOutcome(sent_at, error=error)
        return RequestOutcome(sent_at, response)


def collect_payload_secrets(payload: Any) -> Secrets:
    """Return what of a request's body no message may repeat."""
    return collect_secrets(
        {"secret": [value for name, value in _pairs(payload) if name not in _PUBLIC]}
    )


def _pairs(payload: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(payload, Mapping):
        yield from payload.items()
    elif isinstance(payload, (str, bytes)):
        text = payload.decode("utf-8", "replace") if isinstance(payload, bytes) else payload
        yield from parse_qsl(text) or [("", text)]


def parse_oauth_error(content: str | bytes, secrets: Secrets) -> tuple[str | None, str | None]:
    """Return OAuth's ``error`` and ``error_description`` of a body, without secrets."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return None, None
    said = document if isinstance(document, dict) else {}
    return _shown(said.get("error"), secrets), _shown(said.get("error_description"), secrets)


def _shown(value: Any, secrets: Secrets) -> str | None:
    if not isinstance(value, str) or not value.strip():
        return None
    text = " ".join(secrets.hide(value).split())
    return text if len(text) <= _LONGEST_DESCRIPTION else f"{text[:_LONGEST_DESCRIPTION]}…"


def parse_token_response(
    outcome: RequestOutcome, place: str, secrets: Secrets, names: TokenFieldNames | None = None
) -> TokenResponse:
    """Return the token of an outcome; ``place`` is how messages name the endpoint.

    Raises:
        AccessTokenError: there is none.
    """
    response = outcome.response
    if response is None:
        raise _refusal(outcome, place, outcome.words, secrets)
    if not response.ok:
        raise _refusal(outcome, place, "refused", secrets)
    if (redirect := describe_redirect(response)) is not None:
        raise _refusal(outcome, place, str(redirect), secrets)
    document = _document(response)
    if document is None:
        kind = content_type(response) or "of no content type"
        raise _refusal(outcome, place, f"the answer is no JSON object but {kind}", secrets)
    names = names or TokenFieldNames()
    access_token = names.found(document, names.access_token)
    if not access_token:
        raise _refusal(outcome, place, f"the answer has no {names.access_token}", secrets)
    refresh_token = names.found(document, names.refresh_token)
    return TokenResponse(
        sent_at=outcome.sent_at,
        access_token=access_token,
        refresh_token=refresh_token if isinstance(refresh_token, str) and refresh_token else None,
        expires_in=names.found(document, names.expires_in),
    )


def _document(response: requests.Response) -> dict[str, Any] | None:
    try:
        document = response.json()
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _refusal(
    outcome: RequestOutcome, place: str, reason: str, secrets: Secrets
) -> AccessTokenError:
    content = b"" if outcome.response is None else outcome.response.content
    error, description = parse_oauth_error(content, secrets)
    words = ": ".join(word for word in (error, description) if word)
    return AccessTokenError(
        f"Failed to update access token (status={outcome.status or 'Unknown'}) at {place}: "
        f"{f'{reason}, {words}' if words else reason}",
        status=outcome.status,
        error=error,
        description=description,
    )
