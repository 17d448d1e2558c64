"""Whose fault an error is, and what to tell a person about it.

Rules of the room: no library is imported to know its errors; they are told by name. An error
that says nothing by itself is judged by the one behind it. What the user can mend (settings,
files, credentials) is ``config_error``; what may pass by itself ``transient_error``; all else
``system_error``: the words are the Airbyte protocol's, section "AirbyteErrorTraceMessage".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from tap_core.exceptions import (
    ConfigurationError,
    MapExpressionError,
    RetriableSyncError,
    StreamMapConfigError,
)

__all__ = [
    "CONFIG",
    "SYSTEM",
    "TRANSIENT",
    "failure_type",
    "get_http_status",
    "is_auth_failure",
    "iterate_causes",
    "summarize_error",
]

CONFIG: Final = "config_error"
SYSTEM: Final = "system_error"
TRANSIENT: Final = "transient_error"

_KINDS: Final = (CONFIG, SYSTEM, TRANSIENT)
_CONFIG_FAULTS: Final = (ConfigurationError, StreamMapConfigError, MapExpressionError)
_PASSING: Final = (ConnectionError, TimeoutError, RetriableSyncError)
_PASSING_NAMES: Final = frozenset(
    {
        *("requests.exceptions.ConnectionError", "requests.exceptions.Timeout"),
        *("requests.exceptions.ChunkedEncodingError", "urllib3.exceptions.HTTPError"),
        *("urllib.error.URLError", "http.client.HTTPException", "socket.gaierror"),
        *("httpx.TransportError", "aiohttp.client_exceptions.ClientConnectionError"),
        *("sqlalchemy.exc.OperationalError", "sqlalchemy.exc.InterfaceError"),
    }
)
_NO_CERTIFICATE: Final = "CERTIFICATE_VERIFY_FAILED"
_PASSING_STATUSES: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})
_REFUSED: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_STATUS_FIRST: Final = re.compile(r"\s*(?:HTTP )?([45]\d\d)\b")
"""How messages of `RESTStream.response_error_message` begin, and those of many authors."""
_LONGEST_CHAIN: Final = 10


def summarize_error(error: BaseException, said: str | None = None) -> str:
    """Return what to tell a person, with what can be done where that is known.

    ``said`` stands for the error's own text where that is not to be shown as it is.
    """
    kind = failure_type(error)
    said = str(error).strip() if said is None else said
    text = said or type(error).__qualname__
    if kind == CONFIG and any(is_auth_failure(each) for each in iterate_causes(error)):
        return f"The source refuses the credentials: check those in the configuration. {text}"
    if kind == TRANSIENT:
        return f"The source does not answer as it should just now: try again later. {text}"
    if kind == SYSTEM:
        return f"Something went wrong that the configuration cannot mend. {_named(error, said)}"
    return text


def failure_type(error: BaseException) -> str:
    """Return whose fault an error is: the user's, nobody's for long, or the program's."""
    return next(filter(None, map(_verdict, iterate_causes(error))), SYSTEM)


def _named(error: BaseException, said: str) -> str:
    name = type(error).__qualname__
    return f"{name}: {said}" if said else name


def iterate_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those behind it."""
    current: BaseException | None = error
    for _ in range(_LONGEST_CHAIN):
        if current is None:
            return
        yield current
        hidden = current.__suppress_context__
        current = current.__cause__ or (None if hidden else current.__context__)


def _verdict(error: BaseException) -> str | None:
    """Judge one error by itself, unless it says so; None where nothing is known."""
    if (told := getattr(error, "failure_type", None)) in _KINDS:
        return str(told)
    if isinstance(error, _CONFIG_FAULTS) or is_auth_failure(error):
        return CONFIG
    if _NO_CERTIFICATE in str(error):
        return SYSTEM
    return TRANSIENT if _may_pass(error) else None


def is_auth_failure(error: BaseException) -> bool:
    """Tell whether a source did not accept who asks."""
    if get_http_status(error) in _REFUSED or _refused_by_sql(error):
        return True
    # A token endpoint says so with other statuses too: RFC 6749, section 5.2.
    return _is_token_error(error) and get_http_status(error) == HTTPStatus.BAD_REQUEST


def _refused_by_sql(error: BaseException) -> bool:
    """Tell whether a database refused a login: SQLSTATE class 28."""
    for each in (error, getattr(error, "orig", None)):
        state = getattr(each, "sqlstate", None) or getattr(each, "pgcode", None)
        if isinstance(state, str) and state.startswith("28"):
            return True
    text = str(error) if "OperationalError" in type(error).__name__ else ""
    return "authentication failed" in text or "Access denied for user" in text


def _may_pass(error: BaseException) -> bool:
    """Tell whether the same may succeed later: by its status, else by what it is called."""
    if isinstance(error, _PASSING):
        return True
    status = get_http_status(error)
    if status is not None:
        return status in _PASSING_STATUSES or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    if _is_token_error(error):
        return getattr(error, "status", None) is None
    kinds = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__}
    return not kinds.isdisjoint(_PASSING_NAMES)


def _is_token_error(error: BaseException) -> bool:
    return type(error).__name__ == "AccessTokenError"


def get_http_status(error: BaseException) -> int | None:
    """Return the HTTP status that an error stands for."""
    response = getattr(error, "response", None)
    candidates = [
        getattr(response, "status_code", None),
        getattr(error, "status", None),
        getattr(error, "code", None),
    ]
    for found in candidates:
        if isinstance(found, int) and found >= HTTPStatus.BAD_REQUEST:
            return found
    match = _STATUS_FIRST.match(str(error))
    return int(match[1]) if match else None
