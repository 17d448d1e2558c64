"""Base classes for custom error handlers, response filters and backoff strategies.

`tap_core.manifest.components.error_handlers` decides how a response is handled; the classes here
convert the decision to airbyte-cdk's types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass
from typing import Any, cast

import requests

from tap_core.manifest.cdk_compat.interpolation import evaluate
from tap_core.manifest.cdk_compat.models import CdkErrorResolution, FailureType
from tap_core.manifest.cdk_compat.type_guards import is_list
from tap_core.manifest.components import error_handlers as ours
from tap_core.manifest.interfaces import ResponseAction, ResponseResolution

__all__ = [
    "SUCCESS_RESOLUTION",
    "CdkBackoffStrategy",
    "CdkConstantBackoffStrategy",
    "CdkDefaultErrorHandler",
    "CdkErrorHandler",
    "CdkExponentialBackoffStrategy",
    "CdkHttpResponseFilter",
    "DefaultHttpResponseFilter",
    "create_fallback_error_resolution",
    "to_resolution",
]

SUCCESS_RESOLUTION = CdkErrorResolution(ResponseAction.SUCCESS)
_MAX_RETRIES = 5


def to_resolution(resolution: ResponseResolution) -> CdkErrorResolution:
    """Convert this SDK's ResponseResolution to airbyte-cdk's ErrorResolution.

    Both contain an action (such as RETRY), a failure type and a message.
    """
    return CdkErrorResolution(
        resolution.action,
        FailureType(resolution.failure_type) if resolution.failure_type else None,
        resolution.message,
    )


def create_fallback_error_resolution(response_or_exception: Any) -> CdkErrorResolution:
    """Return the action RETRY and a message, for a response or exception that no filter matches."""
    if isinstance(response_or_exception, requests.Response):
        message = f"Unexpected response with the HTTP status {response_or_exception.status_code}."
    else:
        message = f"{type(response_or_exception).__name__}: {response_or_exception}"
    return CdkErrorResolution(ResponseAction.RETRY, FailureType.system_error, message)


class CdkBackoffStrategy:
    """Base class of backoff strategies, which compute the seconds to wait before a retry."""

    def backoff_time(self, response_or_exception: Any, attempt_count: int) -> float | None:
        """Return the seconds to wait before the next attempt; None uses the default backoff.

        By default, call the older method ``backoff(response, attempt_count)``, if the class has
        one, and return None for an exception.
        """
        backoff = getattr(self, "backoff", None)
        if backoff is None or not isinstance(response_or_exception, requests.Response):
            return None
        return cast("float | None", backoff(response_or_exception, attempt_count))


@dataclass
class CdkExponentialBackoffStrategy(CdkBackoffStrategy):
    """Backoff strategy whose waits double: 2, 4, 8 … seconds, multiplied by ``factor``.

    A random jitter is added if ``jitter_range_in_seconds`` is set.
    """

    parameters: InitVar[Mapping[str, Any]]
    config: Mapping[str, Any]
    factor: Any = 5
    jitter_range_in_seconds: float | None = None

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
        factor = float(evaluate(self.factor, self.config, parameters))
        self._strategy = ours.ExponentialBackoffStrategy(
            factor=factor, jitter_range_in_seconds=self.jitter_range_in_seconds
        )

    def backoff_time(self, response_or_exception: Any, attempt_count: int) -> float | None:
        """Return the seconds to wait: ``factor`` times 2 to the power of ``attempt_count``.

        A random jitter is added if ``jitter_range_in_seconds`` is set.
        """
        return self._strategy.compute_wait(response_or_exception, attempt_count, {})


@dataclass
class CdkConstantBackoffStrategy(CdkBackoffStrategy):
    """Backoff strategy that waits the same number of seconds each time.

    A random jitter is added if ``jitter_range_in_seconds`` is set.
    """

    backoff_time_in_seconds: Any
    parameters: InitVar[Mapping[str, Any]]
    config: Mapping[str, Any]
    jitter_range_in_seconds: float | None = None

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
        seconds = float(evaluate(self.backoff_time_in_seconds, self.config, parameters))
        self._strategy = ours.ConstantBackoffStrategy(
            backoff_time_in_seconds=seconds, jitter_range_in_seconds=self.jitter_range_in_seconds
        )

    def backoff_time(self, response_or_exception: Any, attempt_count: int) -> float | None:
        """Return the constant number of seconds to wait, plus a random jitter if declared."""
        return self._strategy.compute_wait(response_or_exception, attempt_count, {})


class CdkHttpResponseFilter:
    """Adapter from this SDK's response filters to airbyte-cdk's interface HttpResponseFilter."""

    def __init__(self, inner: ours.HttpResponseFilter, config: Mapping[str, Any]) -> None:
        self.inner: ours.HttpResponseFilter = inner
        self.config: Mapping[str, Any] = config

    def matches(self, response_or_exception: Any) -> CdkErrorResolution | None:
        """Return the action, failure type and message for a response that matches the filter.

        Return None for any other response and for an exception.
        """
        if not isinstance(response_or_exception, requests.Response):
            return None
        resolution = self.inner.find_resolution(response_or_exception, {"config": self.config})
        return None if resolution is None else to_resolution(resolution)


class DefaultHttpResponseFilter:
    """Response filter that selects the default action for an HTTP status, such as RETRY for 503."""

    def __init__(self, config: Mapping[str, Any], parameters: Mapping[str, Any]) -> None:
        self.config: Mapping[str, Any] = config
        self.parameters: Mapping[str, Any] = parameters

    def matches(self, response_or_exception: Any) -> CdkErrorResolution | None:
        """Return the default action for a response's HTTP status, or RETRY for a failed request.

        Return None for an exception that is not a ``requests.RequestException``.
        """
        if isinstance(response_or_exception, requests.Response):
            return to_resolution(ours.default_resolution(response_or_exception))
        if isinstance(response_or_exception, requests.RequestException):
            return CdkErrorResolution(ResponseAction.RETRY, FailureType.transient_error)
        return None


class CdkErrorHandler:
    """Base class of error handlers, which connectors use in type hints and derive classes from."""


@dataclass
class CdkDefaultErrorHandler(CdkErrorHandler):
    """Error handler that applies its response filters, then the default for the HTTP status."""

    parameters: InitVar[Mapping[str, Any]]
    config: Mapping[str, Any]
    response_filters: Any = None
    max_retries: Any = _MAX_RETRIES
    max_time: int = 600
    backoff_strategies: Any = None

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
        self._parameters = parameters
        if isinstance(self.max_retries, str):
            self.max_retries = int(evaluate(self.max_retries, self.config, parameters))

    def interpret_response(self, response_or_exception: Any) -> CdkErrorResolution:
        """Return the action, failure type and message for a response or exception.

        They come from the first response filter that matches, otherwise from the defaults for the
        HTTP status.
        """
        for response_filter in self.response_filters or ():
            resolution = response_filter.matches(response_or_exception=response_or_exception)
            if resolution is not None:
                return cast("CdkErrorResolution", resolution)
        default = DefaultHttpResponseFilter(self.config, {}).matches(response_or_exception)
        return default or create_fallback_error_resolution(response_or_exception)

    def backoff_time(self, response_or_exception: Any, attempt_count: int = 0) -> float | None:
        """Return the seconds to wait, from the first backoff strategy that returns more than 0.

        Return None if no strategy does; the SDK's default backoff then applies.
        """
        strategies: Any = self.backoff_strategies or []
        for strategy in strategies if is_list(strategies) else [strategies]:
            if seconds := strategy.backoff_time(
                response_or_exception=response_or_exception, attempt_count=attempt_count
            ):
                return float(seconds)
        return None
