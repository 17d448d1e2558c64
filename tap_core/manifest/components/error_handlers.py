"""Which answers are errors, what is done about them, and how long is waited before a next try.

Rules of the room: filters are tried first, then a status from 200 to 399 is a success, then the
table says what a status usually means. The body is read only where a filter asks for it. Order,
numbers and forms are Airbyte's (its YAML reference, "Error handling"). Nothing is sent here, and
nothing waited for.
"""

from __future__ import annotations

import random
import re
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Final, Literal
from urllib.parse import urlsplit, urlunsplit

import requests

from tap_core.exceptions import FatalAPIError, LimitExceededError
from tap_core.http.response import JSONResponse
from tap_core.limits.regex import Pattern, compile_pattern
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import (
    BackoffStrategy,
    Condition,
    ErrorHandler,
    InterpolatedText,
    InterpolatedValue,
    ResponseAction,
    ResponseResolution,
    TemplateScope,
    resolve,
)
from tap_core.redaction import Secrets

__all__ = [
    "CompositeErrorHandler",
    "ConstantBackoffStrategy",
    "DefaultErrorHandler",
    "ExponentialBackoffStrategy",
    "HttpResponseFilter",
    "WaitTimeFromHeader",
    "WaitTimeFromResponse",
    "WaitUntilTimeFromHeader",
    "default_resolution",
    "matches_action",
]

_RETRIES: Final = 5
_LONGEST: Final = 600.0
"""Seconds that a request is tried for."""

_SUCCESS: Final = ResponseResolution(ResponseAction.SUCCESS)
_UNKNOWN: Final = ResponseResolution(ResponseAction.RETRY, failure_type="system_error")
_TABLE: Final[Mapping[int, ResponseResolution]] = {
    **dict.fromkeys(
        [400, 404, 405], ResponseResolution(ResponseAction.FAIL, failure_type="system_error")
    ),
    **dict.fromkeys(
        [401, 403], ResponseResolution(ResponseAction.FAIL, failure_type="config_error")
    ),
    **dict.fromkeys(
        [408, 500, 502, 503, 504],
        ResponseResolution(ResponseAction.RETRY, failure_type="transient_error"),
    ),
    429: ResponseResolution(ResponseAction.RATE_LIMITED, failure_type="transient_error"),
}
"""What a status usually means."""

_DECIDES: Final = frozenset(
    {
        ResponseAction.SUCCESS,
        ResponseAction.RETRY,
        ResponseAction.IGNORE,
        ResponseAction.RESET_PAGINATION,
    }
    | {
        ResponseAction.REFRESH_TOKEN_THEN_RETRY,
        ResponseAction.REDUCE_PAGE_SIZE,
        ResponseAction.SPLIT_REQUEST_WINDOW,
    }
)
"""What ends the way through several handlers: other words may be overruled by a later one."""

_WHERE_MESSAGES_ARE: Final = (
    *("message", "messages", "error", "errors", "failures", "failure", "detail", "err"),
    *("error_message", "msg", "reason", "status_message"),
)
"""Where a body says what went wrong, the first of these that it has."""


def matches_action(action: str, handler: object) -> bool:
    """Return whether a filter of an error handler, or of those in it, has an action."""
    if isinstance(handler, CompositeErrorHandler):
        return any(matches_action(action, one) for one in handler.error_handlers)
    filters = handler.response_filters if isinstance(handler, DefaultErrorHandler) else ()
    return any(one.action == action for one in filters or ())


def default_resolution(response: requests.Response) -> ResponseResolution:
    """Return what the status of an answer means where nothing else is said of it."""
    if response.ok:
        return _SUCCESS
    return _TABLE.get(response.status_code, _UNKNOWN)


@dataclass(frozen=True, kw_only=True)
class HttpResponseFilter:
    """Says what to do about answers with a status, a text or a content; without any, of none."""

    action: (
        Literal[
            "SUCCESS",
            "FAIL",
            "RETRY",
            "IGNORE",
            "RESET_PAGINATION",
            "RATE_LIMITED",
            "REDUCE_PAGE_SIZE",
            "SPLIT_REQUEST_WINDOW",
            "REFRESH_TOKEN_THEN_RETRY",
        ]
        | None
    ) = None
    failure_type: Literal["system_error", "config_error", "transient_error"] | None = None
    error_message: InterpolatedText = ""
    error_message_contains: str | None = None
    http_codes: list[int] = field(default_factory=list)
    predicate: Condition | None = None

    IGNORED: ClassVar[frozenset[str]] = frozenset({"description"})

    def __post_init__(self) -> None:
        conditions = (self.http_codes, self.predicate, self.error_message_contains)
        if self.action and conditions == ([], None, None):
            warnings.warn(
                "This response filter is for no answer: give `http_codes`, `predicate` or"
                " `error_message_contains`.",
                stacklevel=3,
            )

    def verdict(
        self, response: requests.Response, scope: TemplateScope
    ) -> ResponseResolution | None:
        """Return what is to be done about an answer, None where the filter is for others."""
        if self.action is None or not self._matches(response, scope):
            return None
        usual = _TABLE.get(response.status_code, _UNKNOWN)
        message: Any = self.error_message
        if callable(message):
            message = message(_seen(response, scope))
        own_type = self.failure_type if self.action == "FAIL" else None
        return ResponseResolution(
            ResponseAction(self.action), message or None, own_type or usual.failure_type
        )

    def _matches(self, response: requests.Response, scope: TemplateScope) -> bool:
        return (
            response.status_code in self._codes
            or (self.predicate is not None and self._is_predicted(response, scope))
            or bool(self.error_message_contains and self.error_message_contains in _said(response))
        )

    def _is_predicted(self, response: requests.Response, scope: TemplateScope) -> bool:
        predicate: Any = self.predicate
        return bool(predicate(_seen(response, scope)) if callable(predicate) else predicate)

    @cached_property
    def _codes(self) -> frozenset[int]:
        return frozenset(self.http_codes)


@dataclass(frozen=True, kw_only=True)
class DefaultErrorHandler:
    """Judges answers by filters, and else by their status."""

    response_filters: list[HttpResponseFilter] | None = None
    backoff_strategies: list[BackoffStrategy] | None = None
    max_retries: int | None = _RETRIES

    IGNORED: ClassVar[frozenset[str]] = frozenset({"description"})

    @property
    def max_tries(self) -> int:
        """How often a request is sent: once, and as often again as `max_retries` says."""
        return 1 + max(0, _RETRIES if self.max_retries is None else self.max_retries)

    @property
    def max_seconds(self) -> float | None:
        """For how long a request is tried: ten minutes."""
        return _LONGEST

    def judge(self, response: requests.Response, scope: TemplateScope) -> ResponseResolution:
        """Return what is to be done about an answer."""
        for each in self.response_filters or ():
            verdict = each.verdict(response, scope)
            if verdict is not None:
                return verdict
        return default_resolution(response)

    def wait(
        self, response: requests.Response | None, tries: int, scope: TemplateScope
    ) -> float | None:
        """Return what the first of the strategies says that says anything."""
        for strategy in self.backoff_strategies or ():
            if seconds := strategy.wait(response, tries, scope):
                return seconds
        return None


@dataclass(frozen=True, kw_only=True)
class CompositeErrorHandler:
    """Asks several handlers in turn; what one gives up on, a later one may try again or ignore.

    Raises:
        ManifestError: there is none.
    """

    error_handlers: list[ErrorHandler]

    IGNORED: ClassVar[frozenset[str]] = frozenset({"description"})

    def __post_init__(self) -> None:
        if not self.error_handlers:
            raise ManifestError("A CompositeErrorHandler needs at least one of `error_handlers`.")

    @property
    def max_tries(self) -> int:
        """How often a request is sent, as the first handler says."""
        return self.error_handlers[0].max_tries

    @property
    def max_seconds(self) -> float | None:
        """For how long a request is tried, as the most patient handler says."""
        return max((each.max_seconds or 0.0 for each in self.error_handlers), default=None)

    def judge(self, response: requests.Response, scope: TemplateScope) -> ResponseResolution:
        """Return what the first handler says that decides, else what the first one says of all.

        Where that is to give up, one that knows of a limit has it tried again.
        """
        usual = kept = default_resolution(response)
        for handler in self.error_handlers:
            verdict = handler.judge(response, scope)
            if verdict is None:
                continue
            if verdict.action in _DECIDES:
                return verdict
            is_limited = verdict.action is ResponseAction.RATE_LIMITED
            if kept is usual or (kept.action is ResponseAction.FAIL and is_limited):
                kept = verdict
        return kept

    def wait(
        self, response: requests.Response | None, tries: int, scope: TemplateScope
    ) -> float | None:
        """Return what the first strategy of all handlers says that says anything."""
        for handler in self.error_handlers:
            if seconds := handler.wait(response, tries, scope):
                return seconds
        return None


# How long to wait


@dataclass(frozen=True, kw_only=True)
class ConstantBackoffStrategy:
    """Waits for the same time each time."""

    backoff_time_in_seconds: float
    jitter_range_in_seconds: float | None = None

    def wait(
        self, response: requests.Response | None, tries: int, scope: TemplateScope
    ) -> float | None:
        """Return the seconds, with up to twice the jitter's range more."""
        return _spread(self.backoff_time_in_seconds, self.jitter_range_in_seconds)


@dataclass(frozen=True, kw_only=True)
class ExponentialBackoffStrategy:
    """Waits twice as long each time: factor times 2, 4, 8 … seconds."""

    factor: float = 5
    jitter_range_in_seconds: float | None = None

    def wait(
        self, response: requests.Response | None, tries: int, scope: TemplateScope
    ) -> float | None:
        """Return the seconds, with up to twice the jitter's range more."""
        return _spread(self.factor * 2.0**tries, self.jitter_range_in_seconds)


@dataclass(frozen=True, kw_only=True)
class _FromHeader:
    """Reads a number in a header of the answer."""

    header: str
    regex: str | None = None
    max_waiting_time_in_seconds: float | None = None

    def __post_init__(self) -> None:
        _ = self._form

    @cached_property
    def _form(self) -> Pattern | None:
        try:
            return compile_pattern(self.regex) if self.regex else None
        except (re.error, LimitExceededError) as error:
            raise ManifestError(f"`regex` is no regular expression: {error}.") from None

    def _number(self, response: requests.Response | None) -> float | None:
        text = None if response is None else response.headers.get(self.header)
        if not text:
            return None
        found = self._form.match(text) if self._form else None
        try:
            return float(found[0] if found else text)
        except ValueError:
            return None


@dataclass(frozen=True, kw_only=True)
class WaitTimeFromHeader(_FromHeader):
    """Waits for the seconds that a header of the answer says."""

    def wait(
        self, response: requests.Response | None, tries: int, scope: TemplateScope
    ) -> float | None:
        """Return the seconds, None without such a header.

        Raises:
            FatalAPIError: they are too many.
        """
        seconds = self._number(response)
        if seconds:
            _refuse_long(seconds, self.max_waiting_time_in_seconds, response)
        return seconds


@dataclass(frozen=True, kw_only=True)
class WaitUntilTimeFromHeader(_FromHeader):
    """Waits until the time that a header of the answer says, in seconds since 1970."""

    min_wait: float | None = None

    def wait(
        self, response: requests.Response | None, tries: int, scope: TemplateScope
    ) -> float | None:
        """Return the seconds until then, at least `min_wait`; None where nothing says them.

        Raises:
            FatalAPIError: they are too many.
        """
        until = self._number(response)
        seconds = until - time.time() if until else None
        if self.min_wait:
            seconds = max(seconds or self.min_wait, self.min_wait)
        if seconds is None or seconds < 0:
            return None
        _refuse_long(seconds, self.max_waiting_time_in_seconds, response)
        return seconds


@dataclass(frozen=True, kw_only=True)
class WaitTimeFromResponse:
    """Waits for the seconds that a template makes of the answer."""

    wait_time_in_seconds: InterpolatedValue
    max_waiting_time_in_seconds: float | None = None

    def wait(
        self, response: requests.Response | None, tries: int, scope: TemplateScope
    ) -> float | None:
        """Return the seconds; None where the template gives none.

        Raises:
            FatalAPIError: they are too many.
        """
        if response is None:
            return None
        try:
            seconds = float(resolve(self.wait_time_in_seconds, _seen(response, scope)))
        except (TypeError, ValueError, ArithmeticError):
            return None
        if not 0 < seconds < float("inf"):
            return None
        _refuse_long(seconds, self.max_waiting_time_in_seconds, response)
        return seconds


def _spread(seconds: float, half: float | None) -> float:
    return seconds if half is None else random.uniform(seconds, seconds + 2 * half)  # noqa: S311  (no secret)


def _refuse_long(seconds: float, longest: float | None, response: requests.Response | None) -> None:
    if longest is not None and seconds >= longest:
        raise FatalAPIError(
            f"The server asks to wait for {seconds:,.0f} seconds, and"
            f" `max_waiting_time_in_seconds` is {longest:,.0f}: sync again later, or allow more.",
            response=response,
        )


# What of an answer a filter sees


def _seen(response: requests.Response, scope: TemplateScope) -> TemplateScope:
    """Return what templates of filters see: the answer too, and the URL without its secrets."""
    parts = urlsplit(response.url or "")
    host = parts.netloc.rpartition("@")[2]
    return {
        **scope,
        "response": _document(response, {}),
        "headers": response.headers,
        "request_url": urlunsplit((parts.scheme, host, parts.path, "", "")),
    }


def _document(response: requests.Response, otherwise: Any) -> Any:
    """Return the document of a body; it stays for whoever reads the records."""
    try:
        if isinstance(response, JSONResponse):
            return response.read(Secrets)
        return response.json()
    except ValueError:
        return otherwise


def _said(response: requests.Response) -> str:
    """Return what a body says went wrong: where such words usually stand, or all of a text."""
    document = _document(response, None)
    if document is None:
        return response.content.decode("utf-8", "replace")
    return _words(document) or ""


def _words(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        words = map(_words, value)
        return ", ".join(each for each in words if each is not None)
    if isinstance(value, Mapping):
        known: Mapping[str, Any] = value
        return _words(next((known[name] for name in _WHERE_MESSAGES_ARE if known.get(name)), None))
    return None
