"""Error handlers and backoff strategies of a manifest, which decide about errors and retries.

An error handler first checks its response filters. If none matches, a status from 200 to 399 is a
success, and a table defines the action of every other status. The body is read only if a filter
needs it. A backoff strategy computes the wait before a retry. This module neither sends requests
nor sleeps.

Source: Airbyte YAML reference, "Error handling".
"""

from __future__ import annotations

import logging
import math
import random
import re
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, Literal
from urllib.parse import urlsplit, urlunsplit

import requests

from tap_core.exceptions import FatalAPIError, LimitExceededError, RetriableAPIError, SyncError
from tap_core.http.response import JSONResponse
from tap_core.limits.regex import Pattern, compile_pattern
from tap_core.manifest.components.api_budget import LONGEST_WAIT
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import (
    BackoffStrategy,
    Condition,
    ErrorHandler,
    InterpolatedText,
    ResponseAction,
    ResponseResolution,
    TemplateScope,
    resolve,
)
from tap_core.manifest.type_hints import UNSET_IF_EMPTY, PlainText
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
    "make_rejection_error",
    "make_response_error",
    "matches_action",
]

_logger: Final = logging.getLogger("tap_core.manifest")
_MAX_RETRIES: Final = 5
_FACTOR: Final = 5.0
"""Factor of an exponential backoff that declares none."""
_MAX_SECONDS: Final = 600.0
"""Maximum time in seconds for all attempts of a request."""

_SUCCESS: Final = ResponseResolution(ResponseAction.SUCCESS)
_UNKNOWN_STATUS: Final = ResponseResolution(ResponseAction.RETRY, failure_type="system_error")
_RESOLUTIONS: Final[Mapping[int, ResponseResolution]] = {
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
"""Default action for each HTTP status; an error status without entry leads to a retry."""

_DECISIVE: Final = frozenset(ResponseAction) - {ResponseAction.FAIL, ResponseAction.RATE_LIMITED}
"""Actions that a CompositeErrorHandler returns at once, without trying further handlers."""

_RETRIED: Final = frozenset(
    {
        ResponseAction.RETRY,
        ResponseAction.RATE_LIMITED,
        ResponseAction.REFRESH_TOKEN_THEN_RETRY,
    }
)
"""Actions that send the same request again."""

_MESSAGE_FIELDS: Final = (
    *("message", "messages", "error", "errors", "failures", "failure", "detail", "err"),
    *("error_message", "msg", "reason", "status_message"),
)
"""Body fields that may contain an error message, in order of precedence."""


def matches_action(action: str, handler: object) -> bool:
    """Return True if a response filter of ``handler`` has the action ``action``.

    The error handlers inside a CompositeErrorHandler are searched too.
    """
    if isinstance(handler, CompositeErrorHandler):
        return any(matches_action(action, inner) for inner in handler.error_handlers)
    filters = handler.response_filters if isinstance(handler, DefaultErrorHandler) else ()
    return any(response_filter.action == action for response_filter in filters or ())


def default_resolution(response: requests.Response) -> ResponseResolution:
    """Return the default action and failure type for the HTTP status of a response."""
    if response.ok:
        return _SUCCESS
    return _RESOLUTIONS.get(response.status_code, _UNKNOWN_STATUS)


def make_response_error(
    resolution: ResponseResolution, message: str, response: requests.Response
) -> SyncError:
    """Return the exception to raise for a failed response, with ``message`` as its text.

    The type is RetriableAPIError if the action in ``resolution`` is a retry, else FatalAPIError.
    """
    kind = RetriableAPIError if resolution.action in _RETRIED else FatalAPIError
    error: SyncError = kind(message, response=response)
    error.failure_type = resolution.failure_type
    return error


def make_rejection_error(message: str, failure_message: str | None, error: SyncError) -> SyncError:
    """Return the exception to raise if the API still rejects a request after all attempts.

    Its text consists of ``message``, the ``failure_message`` of the manifest, and ``error``, the
    last error of the API.
    """
    declared = f" {failure_message.strip()}" if failure_message else ""
    rejection = SyncError(f"{message}{declared} {error}")
    rejection.failure_type = "transient_error"
    return rejection


@dataclass(frozen=True, kw_only=True)
class HttpResponseFilter:
    """Filter that selects an action, such as RETRY or IGNORE, for the responses that match it.

    A response matches by its HTTP status, by a text in its error message, or if the template
    `predicate` is true. A filter without any of these criteria matches nothing.
    """

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
    error_message_contains: PlainText | None = None
    http_codes: list[int] = field(default_factory=list)
    predicate: Condition | None = None

    IGNORED: ClassVar[frozenset[str]] = frozenset({"description"})

    def __post_init__(self) -> None:
        conditions = (self.http_codes, self.predicate, self.error_message_contains)
        if self.action and conditions == ([], None, None):
            warnings.warn(
                "This response filter matches no response: set `http_codes`, `predicate` or"
                " `error_message_contains`.",
                stacklevel=3,
            )

    def find_resolution(
        self, response: requests.Response, scope: TemplateScope
    ) -> ResponseResolution | None:
        """Return this response filter's action, message and failure type for a matching response.

        Return None if the response does not match, or if the filter has no action.
        """
        if self.action is None or not self._matches(response, scope):
            return None
        default = _RESOLUTIONS.get(response.status_code, _UNKNOWN_STATUS)  # also for a success
        message = _resolve_for_response(self.error_message, response, scope)
        declared_type = self.failure_type if self.action == "FAIL" else None  # as in airbyte-cdk
        return ResponseResolution(
            ResponseAction(self.action), message or None, declared_type or default.failure_type
        )

    def _matches(self, response: requests.Response, scope: TemplateScope) -> bool:
        return (
            response.status_code in self.http_codes
            or bool(_resolve_for_response(self.predicate, response, scope))
            or bool(
                self.error_message_contains
                and self.error_message_contains in _get_error_message(response)
            )
        )


@dataclass(frozen=True, kw_only=True)
class DefaultErrorHandler:
    """Error handler that applies its response filters, and otherwise the HTTP status's default."""

    response_filters: list[HttpResponseFilter] | None = None
    backoff_strategies: list[BackoffStrategy] | None = None
    max_retries: Annotated[int | None, UNSET_IF_EMPTY] = _MAX_RETRIES

    IGNORED: ClassVar[frozenset[str]] = frozenset({"description"})

    @property
    def max_tries(self) -> int:
        """Maximum number of attempts per request, including the first: `max_retries` + 1."""
        return 1 + max(0, _MAX_RETRIES if self.max_retries is None else self.max_retries)

    @property
    def max_seconds(self) -> float | None:
        """Maximum time in seconds for all attempts of a request: 600."""
        return _MAX_SECONDS

    def interpret(self, response: requests.Response, scope: TemplateScope) -> ResponseResolution:
        """Return the action, message and failure type for a response.

        The first response filter that matches decides. If none does, a status below 400 is a
        success, and other statuses have default actions.
        """
        for response_filter in self.response_filters or ():
            resolution = response_filter.find_resolution(response, scope)
            if resolution is not None:
                return resolution
        return default_resolution(response)

    def compute_wait(
        self, response: requests.Response | None, tries: int, scope: TemplateScope
    ) -> float | None:
        """Return the seconds to wait, from the first backoff strategy that returns more than 0.

        Return None if no strategy does; the default backoff then applies.
        """
        for strategy in self.backoff_strategies or ():
            if seconds := strategy.compute_wait(response, tries, scope):
                return seconds
        return None


@dataclass(frozen=True, kw_only=True)
class CompositeErrorHandler:
    """Error handler that tries several error handlers in order.

    Raises:
        ManifestError: `error_handlers` is empty.
    """

    error_handlers: list[ErrorHandler]

    IGNORED: ClassVar[frozenset[str]] = frozenset({"description"})

    def __post_init__(self) -> None:
        if not self.error_handlers:
            raise ManifestError("A CompositeErrorHandler needs at least one of `error_handlers`.")

    @property
    def max_tries(self) -> int:
        """Maximum number of attempts per request, including the first; set by the first handler."""
        return self.error_handlers[0].max_tries

    @property
    def max_seconds(self) -> float | None:
        """Maximum time in seconds for all attempts of a request: the maximum of all handlers.

        Handlers without a limit are ignored. Return None (no limit) if no handler has a
        limit.
        """
        limits = (handler.max_seconds for handler in self.error_handlers)
        return max((limit for limit in limits if limit is not None), default=None)

    def interpret(self, response: requests.Response, scope: TemplateScope) -> ResponseResolution:
        """Return the handlers' first result with an action other than FAIL and RATE_LIMITED.

        Without such a result, return the first one with RATE_LIMITED, or else the first with FAIL.
        If no handler has a result, return the default for the HTTP status.
        """
        default = best = default_resolution(response)
        for handler in self.error_handlers:
            resolution = handler.interpret(response, scope)
            if resolution is None:
                continue
            if resolution.action in _DECISIVE:
                return resolution
            is_limited = resolution.action is ResponseAction.RATE_LIMITED
            if best is default or (best.action is ResponseAction.FAIL and is_limited):
                best = resolution
        return best

    def compute_wait(
        self, response: requests.Response | None, tries: int, scope: TemplateScope
    ) -> float | None:
        """Return the seconds to wait, from the first backoff strategy that returns more than 0.

        The strategies of all handlers are tried in order. Return None if no strategy returns more
        than 0; the default backoff then applies.
        """
        for handler in self.error_handlers:
            if seconds := handler.compute_wait(response, tries, scope):
                return seconds
        return None


# Backoff strategies


@dataclass(frozen=True, kw_only=True)
class ConstantBackoffStrategy:
    """Backoff strategy that waits the same number of seconds each time."""

    backoff_time_in_seconds: float
    jitter_range_in_seconds: float | None = None

    def compute_wait(
        self, response: requests.Response | None, tries: int, scope: TemplateScope
    ) -> float | None:
        """Return the seconds to wait before a retry: a constant plus a random jitter if declared.

        The constant is `backoff_time_in_seconds`, the jitter 0 to 2 times
        `jitter_range_in_seconds`.
        """
        return _add_jitter(self.backoff_time_in_seconds, self.jitter_range_in_seconds)


@dataclass(frozen=True, kw_only=True)
class ExponentialBackoffStrategy:
    """Backoff strategy whose waits double: 2, 4, 8 … seconds, multiplied by `factor`."""

    factor: float = _FACTOR
    jitter_range_in_seconds: float | None = None

    def compute_wait(
        self, response: requests.Response | None, tries: int, scope: TemplateScope
    ) -> float | None:
        """Return `factor` times 2 to the power of ``tries`` (seconds), plus a jitter if declared.

        ``tries`` is the number of attempts so far. The random jitter is between 0 and 2 times
        `jitter_range_in_seconds`. A `factor` of 0 means the default factor, as in airbyte-cdk.
        """
        seconds = (self.factor or _FACTOR) * 2.0**tries
        return _add_jitter(seconds, self.jitter_range_in_seconds)


@dataclass(frozen=True, kw_only=True)
class _HeaderBackoff:
    """Base class of backoff strategies that read the time to wait from a response header."""

    header: str
    regex: str | None = None
    max_waiting_time_in_seconds: float | None = None

    def __post_init__(self) -> None:
        _ = self._pattern  # reports an invalid expression when the manifest is loaded

    @cached_property
    def _pattern(self) -> Pattern | None:
        try:
            return compile_pattern(self.regex) if self.regex else None
        except (re.error, LimitExceededError) as error:
            raise ManifestError(f"`regex` is not a valid regular expression: {error}.") from None

    def _parse_header(self, response: requests.Response | None) -> float | None:
        """Return the number in the declared response header as a float.

        Return None if there is no response, no such header or no number in it.
        """
        text = None if response is None else response.headers.get(self.header)
        if not text:
            return None
        match = self._pattern.match(text) if self._pattern else None
        try:
            number = float(match[0] if match else text)
        except ValueError:
            return None
        return None if math.isnan(number) else number


@dataclass(frozen=True, kw_only=True)
class WaitTimeFromHeader(_HeaderBackoff):
    """Backoff strategy that waits for the number of seconds in a response header.

    Example: ``Retry-After: 30``. `regex` selects the number in a longer header value.
    """

    def compute_wait(
        self, response: requests.Response | None, tries: int, scope: TemplateScope
    ) -> float | None:
        """Return the seconds to wait that the response header contains.

        Return None if the header is missing or its value is not a positive number.

        Raises:
            FatalAPIError: The wait is `max_waiting_time_in_seconds` or longer.
        """
        seconds = self._parse_header(response)
        if seconds is None or seconds <= 0:
            return None
        _check_wait(seconds, self.max_waiting_time_in_seconds, response)
        return seconds


@dataclass(frozen=True, kw_only=True)
class WaitUntilTimeFromHeader(_HeaderBackoff):
    """Backoff strategy that waits until the Unix timestamp, in seconds, in a response header."""

    min_wait: Annotated[float | None, UNSET_IF_EMPTY] = None

    def compute_wait(
        self, response: requests.Response | None, tries: int, scope: TemplateScope
    ) -> float | None:
        """Return the seconds until the time in the response header, but at least `min_wait`.

        Without `min_wait`, return None if the header is missing or the timestamp is in the past.

        Raises:
            FatalAPIError: The wait is `max_waiting_time_in_seconds` or longer.
        """
        until = self._parse_header(response)
        seconds = until - time.time() if until else None
        if self.min_wait:
            seconds = max(seconds or self.min_wait, self.min_wait)
        if seconds is None or seconds < 0:
            return None
        _check_wait(seconds, self.max_waiting_time_in_seconds, response)
        return seconds


@dataclass(frozen=True, kw_only=True)
class WaitTimeFromResponse:
    """Backoff strategy whose wait, in seconds, is rendered by a template from the response."""

    wait_time_in_seconds: Annotated[float | Callable[[TemplateScope], Any], "value"]
    max_waiting_time_in_seconds: float | None = None

    def compute_wait(
        self, response: requests.Response | None, tries: int, scope: TemplateScope
    ) -> float | None:
        """Return the seconds to wait; None unless the template renders as a positive number.

        If the template fails on a response, log this and return None: the body of an error response
        may have another structure than the one for which the template was written.

        Raises:
            FatalAPIError: The wait is `max_waiting_time_in_seconds` or longer.
        """
        if response is None:
            return None
        try:
            seconds = float(resolve(self.wait_time_in_seconds, _make_filter_scope(response, scope)))
        except ManifestError as error:
            _logger.warning("The next backoff strategy is used: %s", error)
            return None
        except (TypeError, ValueError, ArithmeticError):
            return None
        if not 0 < seconds < float("inf"):
            return None
        _check_wait(seconds, self.max_waiting_time_in_seconds, response)
        return seconds


def _add_jitter(seconds: float, jitter_range: float | None) -> float:
    if jitter_range is None:
        return seconds
    return random.uniform(seconds, seconds + 2 * jitter_range)  # noqa: S311  (no secret)


def _check_wait(seconds: float, limit: float | None, response: requests.Response | None) -> None:
    """Raise FatalAPIError if a wait is ``limit`` seconds or longer; a limit of None is one day."""
    limit = LONGEST_WAIT if limit is None else limit
    if seconds >= limit:
        raise FatalAPIError(
            f"The server asks to wait for {seconds:,.0f} seconds, and"
            f" `max_waiting_time_in_seconds` is {limit:,.0f}: sync again later, or raise it.",
            response=response,
        )


# Template scope of response filters


def _resolve_for_response(option: Any, response: requests.Response, scope: TemplateScope) -> Any:
    """Return the value of an option; parse the response's body only if the option is a template."""
    return option(_make_filter_scope(response, scope)) if callable(option) else option


def _make_filter_scope(response: requests.Response, scope: TemplateScope) -> TemplateScope:
    """Return the template variables for a response filter.

    They are the variables in ``scope``, and the body, the headers and the URL (without secrets) of
    the response.
    """
    parts = urlsplit(response.url or "")
    host = parts.netloc.rpartition("@")[2]
    return {
        **scope,
        "response": _parse_json_body(response, {}),
        "headers": response.headers,
        "request_url": urlunsplit((parts.scheme, host, parts.path, "", "")),
    }


def _parse_json_body(response: requests.Response, default: Any) -> Any:
    """Return the parsed JSON body of a response; if the body is not JSON, return ``default``.

    A JSONResponse caches the parsed body, so that it is parsed only once.
    """
    try:
        if isinstance(response, JSONResponse):
            return response.read(Secrets)
        return response.json()
    except ValueError:
        return default


def _get_error_message(response: requests.Response) -> str:
    """Return the error message in a response body, for example its JSON field ``message``.

    If the body is not JSON, return the whole body. If it contains no message, return "".
    """
    document = _parse_json_body(response, None)
    if document is None:
        return response.content.decode("utf-8", "replace")
    return _find_message_text(document) or ""


def _find_message_text(value: Any, levels: int = 50) -> str | None:
    """Return the error message in a JSON value, or None if there is none.

    Objects and arrays are searched to a depth of ``levels``.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list) and levels:
        texts = (_find_message_text(item, levels - 1) for item in value)
        return ", ".join(text for text in texts if text is not None)
    if isinstance(value, Mapping) and levels:
        message = next((value[name] for name in _MESSAGE_FIELDS if value.get(name)), None)
        return _find_message_text(message, levels - 1)
    return None
