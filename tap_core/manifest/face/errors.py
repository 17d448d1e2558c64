"""Error handlers, response filters and backoff strategies to be subclassed.

Rules of the room: what the base classes decide, the components of this package decide; here
their words are said as airbyte-cdk says them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass
from typing import Any, cast

import requests

from tap_core.manifest.components import errors as ours
from tap_core.manifest.contract import Verdict
from tap_core.manifest.face.kinds import is_list
from tap_core.manifest.face.templates import evaluated
from tap_core.manifest.face.values import ErrorResolution, FailureType, ResponseAction

__all__ = [
    "SUCCESS_RESOLUTION",
    "BackoffStrategy",
    "ConstantBackoffStrategy",
    "DefaultErrorHandler",
    "DefaultHttpResponseFilter",
    "ErrorHandler",
    "ExponentialBackoffStrategy",
    "HttpResponseFilter",
    "create_fallback_error_resolution",
    "resolution",
]

SUCCESS_RESOLUTION = ErrorResolution(ResponseAction.SUCCESS)
_RETRIES = 5


def resolution(verdict: Verdict) -> ErrorResolution:
    """Say a verdict in airbyte-cdk's words."""
    return ErrorResolution(
        ResponseAction(verdict.action.value),
        FailureType(verdict.failure_type) if verdict.failure_type else None,
        verdict.message,
    )


def create_fallback_error_resolution(response_or_exception: Any) -> ErrorResolution:
    """Return what is done about what nobody knows: it is tried again."""
    if isinstance(response_or_exception, requests.Response):
        message = f"Unexpected answer with the HTTP status {response_or_exception.status_code}."
    else:
        message = f"{type(response_or_exception).__name__}: {response_or_exception}"
    return ErrorResolution(ResponseAction.RETRY, FailureType.system_error, message)


class BackoffStrategy:
    """Says how long to wait before a request is sent again."""

    def backoff_time(self, response_or_exception: Any, attempt_count: int) -> float | None:
        """Return the seconds, None for what is usual.

        Older classes have ``backoff``, which is asked of answers alone.
        """
        older = getattr(self, "backoff", None)
        if older is None or not isinstance(response_or_exception, requests.Response):
            return None
        return cast("float | None", older(response_or_exception, attempt_count))


@dataclass
class ExponentialBackoffStrategy(BackoffStrategy):
    """Waits twice as long each time: factor times 2, 4, 8 … seconds."""

    parameters: InitVar[Mapping[str, Any]]
    config: Mapping[str, Any]
    factor: Any = 5
    jitter_range_in_seconds: float | None = None

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
        """Settle the factor."""
        factor = float(evaluated(self.factor, self.config, parameters))
        self._strategy = ours.ExponentialBackoffStrategy(
            factor=factor, jitter_range_in_seconds=self.jitter_range_in_seconds
        )

    def backoff_time(self, response_or_exception: Any, attempt_count: int) -> float | None:
        """Return the seconds."""
        return self._strategy.wait(response_or_exception, attempt_count, {})


@dataclass
class ConstantBackoffStrategy(BackoffStrategy):
    """Waits for the same time each time."""

    backoff_time_in_seconds: Any
    parameters: InitVar[Mapping[str, Any]]
    config: Mapping[str, Any]
    jitter_range_in_seconds: float | None = None

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
        """Settle the seconds."""
        seconds = float(evaluated(self.backoff_time_in_seconds, self.config, parameters))
        self._strategy = ours.ConstantBackoffStrategy(
            backoff_time_in_seconds=seconds, jitter_range_in_seconds=self.jitter_range_in_seconds
        )

    def backoff_time(self, response_or_exception: Any, attempt_count: int) -> float | None:
        """Return the seconds."""
        return self._strategy.wait(response_or_exception, attempt_count, {})


class HttpResponseFilter:
    """A filter of this package, asked as airbyte-cdk asks one."""

    def __init__(self, inner: ours.HttpResponseFilter, config: Mapping[str, Any]) -> None:
        self.inner: ours.HttpResponseFilter = inner
        self.config: Mapping[str, Any] = config

    def matches(self, response_or_exception: Any) -> ErrorResolution | None:
        """Return what is to be done about an answer, None where the filter is for others."""
        if not isinstance(response_or_exception, requests.Response):
            return None
        verdict = self.inner.verdict(response_or_exception, {"config": self.config})
        return None if verdict is None else resolution(verdict)


class DefaultHttpResponseFilter:
    """What a status usually means."""

    def __init__(self, config: Mapping[str, Any], parameters: Mapping[str, Any]) -> None:
        self.config: Mapping[str, Any] = config
        self.parameters: Mapping[str, Any] = parameters

    def matches(self, response_or_exception: Any) -> ErrorResolution | None:
        """Return what is to be done about an answer, or about a connection that failed."""
        if isinstance(response_or_exception, requests.Response):
            return resolution(ours.usual_verdict(response_or_exception))
        if isinstance(response_or_exception, requests.RequestException):
            return ErrorResolution(ResponseAction.RETRY, FailureType.transient_error)
        return None


class ErrorHandler:
    """The base of error handlers."""


@dataclass
class DefaultErrorHandler(ErrorHandler):
    """Judges answers by filters, and else by their status."""

    parameters: InitVar[Mapping[str, Any]]
    config: Mapping[str, Any]
    response_filters: Any = None
    max_retries: Any = _RETRIES
    max_time: int = 600
    backoff_strategies: Any = None

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
        """Settle how often is tried again."""
        self._parameters = parameters
        if isinstance(self.max_retries, str):
            self.max_retries = int(evaluated(self.max_retries, self.config, parameters))

    def interpret_response(self, response_or_exception: Any) -> ErrorResolution:
        """Return what is to be done about an answer, or about a connection that failed."""
        for each in self.response_filters or ():
            found = each.matches(response_or_exception=response_or_exception)
            if found is not None:
                return cast("ErrorResolution", found)
        usual = DefaultHttpResponseFilter(self.config, {}).matches(response_or_exception)
        return usual or create_fallback_error_resolution(response_or_exception)

    def backoff_time(self, response_or_exception: Any, attempt_count: int = 0) -> float | None:
        """Return the seconds that the first of the strategies says."""
        strategies: Any = self.backoff_strategies or []
        for strategy in strategies if is_list(strategies) else [strategies]:
            if seconds := strategy.backoff_time(
                response_or_exception=response_or_exception, attempt_count=attempt_count
            ):
                return float(seconds)
        return None
