"""Functions that send the requests of a stream and report failures.

They wait for the rate limits, trace each request, and hide secrets in messages. HTTP streams, and
streams defined by manifests, use them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests

from tap_core.exceptions import RetriableAPIError
from tap_core.http.rate_limit import report_retry_after, wait_for_slot
from tap_core.http.retry import TryCounter, retry_logger
from tap_core.http.transport import (
    ANNOTATED_ERRORS,
    annotate_error,
    format_http_error,
    send_request,
)
from tap_core.plugin_base import PluginBase
from tap_core.protocols.error_classification import shorten_connection_failure
from tap_core.redaction.http import body_excerpt, collect_sent_secrets
from tap_core.telemetry import trace_request

if TYPE_CHECKING:
    from backoff.types import Details

    from tap_core.http.request import Auth
    from tap_core.redaction import Secrets
    from tap_core.sync.interfaces import SyncTap

__all__ = [
    "annotate_errors",
    "describe_failure",
    "get_user_agent",
    "log_retry",
    "send_within_limits",
]


def send_within_limits(
    tap: SyncTap,
    stream: str,
    request: requests.PreparedRequest,
    authenticator: Auth,
    *,
    rate_limit: float | None = None,
    session: requests.Session,
    secrets: Callable[[], Secrets],
    **options: Any,
) -> requests.Response:
    """Send a request within the rate limits of the tap and the stream, and return the response.

    Credentials are added to the request, and it is traced for OpenTelemetry.

    Args:
        tap: Tap of the stream, which has a rate limit for all of its streams.
        stream: Name of the stream.
        request: Request without credentials.
        authenticator: Function that adds the credentials.
        rate_limit: Maximum requests per second of the stream; None for no limit.
        session: HTTP session that sends the request.
        secrets: Function that returns the values to hide in traces and error messages.
        options: Other arguments of `tap_core.http.transport.send_request`.
    """
    wait_for_slot(tap, stream, rate_limit)
    request = authenticator(request)
    with trace_request(stream, request, secrets) as record_status:
        response = send_request(session, request, secrets=secrets, **options)
        record_status(response.status_code)
    report_retry_after(tap, stream, response)
    return response


def get_user_agent(config: Mapping[str, Any]) -> str:
    """Return the ``User-Agent`` of a tap: the setting ``user_agent`` or, by default, the SDK's."""
    return str(config.get("user_agent", f"tap-core/{PluginBase.get_sdk_version()}"))


def describe_failure(response: requests.Response, secrets: Secrets, path: str | None) -> str:
    """Return the error message for a response with an error status, with secrets redacted.

    ``path`` is the path of the stream. The message contains it if the response's URL has no path.
    """
    secrets |= collect_sent_secrets(response.request)
    redacted_path = secrets.hide(urlsplit(response.url).path or path or "")
    return format_http_error(response, path=redacted_path, excerpt=body_excerpt(response, secrets))


def log_retry(details: Details, stream: str, path: str | None) -> None:
    """Log a failed attempt of a request at level INFO, before the wait for the next attempt."""
    error = details.get("exception")
    cause = f"{type(error).__name__}: {shorten_connection_failure(str(error))}"
    if isinstance(error, RetriableAPIError) and error.response is not None:
        cause = f"status {error.response.status_code}: {error.response.reason}"
    url_text = f" for URL {path}" if path else ""
    retry_logger.info(
        "Stream '%s': Backing off %0.2f seconds after try %d%s, failing with %s",
        stream,
        details.get("wait"),
        details.get("tries"),
        url_text,
        cause,
        extra={"stream_name": stream},
    )


@contextmanager
def annotate_errors(
    stream: str,
    sent: Sequence[requests.PreparedRequest],
    tries: TryCounter,
    secrets: Callable[[], Secrets],
) -> Iterator[None]:
    """Context manager that adds the stream, the request and the number of tries to errors.

    Args:
        stream: Name of the stream.
        sent: List with the request that was sent last; empty before the first request.
        tries: Counter of the tries of this request.
        secrets: Function that returns the values to hide in the message.
    """
    try:
        yield
    except ANNOTATED_ERRORS as error:
        request = sent[0] if sent else None
        # A manifest's stream signs a copy of the request, which the response refers to.
        signed = getattr(getattr(error, "response", None), "request", None)
        hidden = secrets() | collect_sent_secrets(request) | collect_sent_secrets(signed)
        annotate_error(error, stream, request, tries.count, hidden)
        raise
