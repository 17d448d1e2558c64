"""Delivery of a run's outcome, as a JSON document, to the URL in the setting ``webhook``.

The URL may contain a token, so messages show only its host. A failure never affects the run.
"""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Generator, Mapping
from datetime import datetime, timezone
from http import HTTPStatus
from typing import Any, Final

from tap_core.exceptions import RetriableAPIError
from tap_core.http.origins import parse_origin
from tap_core.http.retry import random_jitter, retry_after, with_retries
from tap_core.http.transport import post_document
from tap_core.redaction import Secrets, register_secrets
from target_spark.loader.report import split_outcome

__all__ = ["build_outcome", "send_outcome"]

logger = logging.getLogger(__name__)

_TRIES: Final = 4
_TIMEOUT_SECONDS: Final = 10.0
_LONGEST_WAIT: Final = 30.0
"""Maximum number of seconds to wait before a retry, even if the server's Retry-After is longer. The
run has finished except for this request."""

_COUNTS: Final = (
    "table",
    "received",
    "written",
    "inserted",
    "updated",
    "deleted",
    "quarantined",
    "commits",
)
_FIRST_ENTRIES: Final = ("job", "run", "format")
_LATER_ENTRIES: Final = ("states_received", "states", "last_state_released", "remarks")


def build_outcome(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON document for the webhook: outcome, error, times, and counts per stream.

    Args:
        report: The report of the run with its outcome, as `Report.as_dict` returns it.
    """
    outcome, error = split_outcome(report["outcome"])
    started = report.get("started")
    return {
        **{name: report.get(name) for name in _FIRST_ENTRIES},
        "outcome": outcome,
        "error": error,
        "started": None if started is None else _format_instant(started / 1000),
        "ended": _format_instant(datetime.now(timezone.utc).timestamp()),
        "seconds": report["seconds"],
        **{name: report[name] for name in _LATER_ENTRIES},
        "after_load": report.get("after_load", []),
        "streams": {
            name: {column: counts[column] for column in _COUNTS}
            for name, counts in report["streams"].items()
        },
    }


def send_outcome(url: str, report: Mapping[str, Any]) -> None:
    """Post the outcome of a run to the webhook ``url`` as JSON.

    Temporary failures are retried; a final failure is logged as a warning.
    """
    document = build_outcome(report)
    _, *secrets = re.split(r"[/?]", url.partition("://")[2], maxsplit=1)
    register_secrets(send_outcome, Secrets.from_values(secrets))  # the HTTP client logs it
    post = with_retries(
        wait_generator=_iterate_waits,
        max_tries=lambda: _TRIES,
        jitter=random_jitter,
        handler=lambda _: None,
        logger=logger,
        respect_retry_after=False,  # its Retry-After may be an hour; see _iterate_waits
    )(_post)
    try:
        reason = post(url, document)
    except RetriableAPIError as error:
        reason = str(error)
    except Exception as error:  # noqa: BLE001  its text may contain the URL
        reason = type(error).__name__
    if reason is not None:
        origin = parse_origin(url)
        host = "its host" if origin is None else origin.host
        logger.warning("The webhook at %s did not get the outcome of the run: %s.", host, reason)


def _post(url: str, document: Mapping[str, Any]) -> str | None:
    """Post a document once. Return None on success, or the error response as text: ``status 404``.

    Raises:
        RetriableAPIError: The server responded with status 429 or 5xx.
        requests.exceptions.RequestException: There was no response.
    """
    response = post_document(url, document, timeout=_TIMEOUT_SECONDS)
    status = response.status_code
    if status < HTTPStatus.MULTIPLE_CHOICES:
        return None
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise RetriableAPIError(f"status {status}", response)
    return f"status {status}"


def _iterate_waits() -> Generator[float, Any, None]:
    """Yield the seconds to wait before each retry: 2, 4, 8 and so on, at most 30.

    The caller sends the error of each attempt to the generator. If the error's response has a
    Retry-After header, its value is yielded instead.
    """
    failure = yield 0.0
    for tries in itertools.count(1):
        requested_wait = retry_after(getattr(failure, "response", None))
        failure = yield min(2.0**tries if requested_wait is None else requested_wait, _LONGEST_WAIT)


def _format_instant(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds")
