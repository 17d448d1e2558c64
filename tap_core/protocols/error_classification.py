"""Classification of errors by who can resolve them, and messages for users.

- ``config_error``: the user can correct it (settings, files, credentials).
- ``transient_error``: a retry may succeed.
- ``system_error``: everything else.

Errors of optional libraries are recognised by class name, so that no library is imported for it. An
error that cannot be classified is judged by its cause. A known error is shown as one sentence, any
other one with its traceback. Source of the names: the Airbyte protocol, section
"AirbyteErrorTraceMessage".
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
    SingerError,
    SingerSDKError,
    StreamMapConfigError,
)

__all__ = [
    "CONFIG",
    "SYSTEM",
    "TRANSIENT",
    "failure_type",
    "get_http_status",
    "is_auth_failure",
    "is_known_error",
    "iterate_causes",
    "shorten_connection_failure",
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
_UNUSABLE_URL_NAMES: Final = frozenset(
    f"requests.exceptions.{name}" for name in ("InvalidURL", "InvalidSchema", "MissingSchema")
)
_NO_CERTIFICATE: Final = "CERTIFICATE_VERIFY_FAILED"
_PASSING_STATUSES: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})
_REFUSED: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_STATUS_FIRST: Final = re.compile(r"\s*(?:HTTP )?([45]\d\d)\b")
"""The start of messages of `RESTStream.response_error_message` and of many authors' errors."""
_LONGEST_CHAIN: Final = 10
_COMPLETE: Final = (SingerSDKError, SingerError)
"""Errors with messages for users."""

_BUGS: Final = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, NameError, TypeError),
)
"""Errors of Python that show a mistake in the code, whatever their text and their causes."""

_ABSTRACT_CLASS: Final = re.compile(
    r"Can't instantiate abstract class (\w+) (?:with|without an implementation for)"
    r" abstract methods? ([\w', ]+)"
)
"""Python's message for a class that lacks members which its base class requires."""

_UNREACHABLE: Final = re.compile(
    r"HTTPS?ConnectionPool\(host='(?P<host>[^']*)', port=(?P<port>\w+)\): Max retries exceeded"
    r" with url: \S* \(Caused by (?P<cause>.*?)\)\)",
    re.DOTALL,
)
"""Message of the library urllib3 for a host that cannot be reached."""

_REASON: Final = re.compile(r"\[Errno -?\d+\] ([^\"'()\[\]]+)|(timed out)")


def summarize_error(
    error: BaseException, said: str | None = None, *, system: str = "source"
) -> str:
    """Return an error message for the user, with advice if the kind of error is known.

    ``said`` is shown in place of the error's text, for example because that text has secrets.
    ``system`` is the noun for what the plugin reads or writes: "source" or "destination".
    """
    kind = failure_type(error)
    said = shorten_connection_failure(_own_text(error)) if said is None else said
    text = said or type(error).__qualname__
    if kind == CONFIG and any(is_auth_failure(each) for each in iterate_causes(error)):
        return f"The {system} refuses the credentials: check those in the configuration. {text}"
    if kind == TRANSIENT:
        return f"The {system} is temporarily unavailable: try again later. {text}"
    if kind == SYSTEM and not is_known_error(error):
        return f"Internal error, not caused by the configuration: {_format_error(error, said)}"
    return text


def is_known_error(error: BaseException) -> bool:
    """Return True if the message of an error suffices for the user, without a traceback.

    This holds for the SDK's errors, rejected credentials and an unavailable service, also as the
    explicit cause of another error.
    """
    current: BaseException | None = error
    for _ in range(_LONGEST_CHAIN):
        if isinstance(current, _COMPLETE) or _find_missing_members(current):
            return True
        if current is None or isinstance(current, _BUGS):
            return False
        if _verdict(current) is not None:
            return True
        current = current.__cause__
    return False


def shorten_connection_failure(text: str) -> str:
    """Return a message in which urllib3's text about an unreachable host is short.

    The result is ``127.0.0.1:9 cannot be reached: Connection refused``. Other texts are returned
    unchanged.
    """
    found = _UNREACHABLE.search(text)
    reason = _REASON.search(found["cause"]) if found else None
    if found is None or reason is None:
        return text
    short = f"{found['host']}:{found['port']} cannot be reached: {(reason[1] or reason[2]).strip()}"
    return text[: found.start()] + short + text[found.end() :]


def _own_text(error: BaseException) -> str:
    """Return the text of an error; for members that a class lacks, a sentence with their names."""
    if not (missing := _find_missing_members(error)):
        return str(error).strip()
    name, members = missing
    return f"The class {name} lacks {members}, which its base class requires: define it there."


def _find_missing_members(error: BaseException | None) -> tuple[str, str] | None:
    """Return a class and the members that it lacks, from Python's error for abstract classes."""
    found = _ABSTRACT_CLASS.match(str(error)) if isinstance(error, TypeError) else None
    return (found[1], found[2].replace("'", "")) if found else None


def failure_type(error: BaseException) -> str:
    """Classify an error or its causes as config_error, transient_error or system_error."""
    return next(filter(None, map(_verdict, iterate_causes(error))), SYSTEM)


def _format_error(error: BaseException, said: str) -> str:
    name = type(error).__qualname__
    return f"{name}: {said}" if said else name


def iterate_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and the chain of exceptions that caused it: at most ten exceptions."""
    current: BaseException | None = error
    for _ in range(_LONGEST_CHAIN):
        if current is None:
            return
        yield current
        hidden = current.__suppress_context__
        current = current.__cause__ or (None if hidden else current.__context__)


def _verdict(error: BaseException) -> str | None:
    """Classify one error without looking at its causes. Return None if its kind is unknown.

    An error's attribute ``failure_type`` takes precedence if it has a valid value.
    """
    if (told := getattr(error, "failure_type", None)) in _KINDS:
        return str(told)
    if isinstance(error, _CONFIG_FAULTS) or is_auth_failure(error):
        return CONFIG
    if not _UNUSABLE_URL_NAMES.isdisjoint(_class_names(error)):
        return CONFIG
    if _NO_CERTIFICATE in str(error):
        return SYSTEM
    return TRANSIENT if _may_pass(error) else None


def is_auth_failure(error: BaseException) -> bool:
    """Return True if the API or database rejected the credentials."""
    if get_http_status(error) in _REFUSED or _refused_by_sql(error):
        return True
    # A token endpoint rejects credentials with status 400: RFC 6749, section 5.2.
    return _is_token_error(error) and get_http_status(error) == HTTPStatus.BAD_REQUEST


def _refused_by_sql(error: BaseException) -> bool:
    """Return True if a database rejected the login.

    The SQLSTATE or the message of the error shows it.
    """
    for each in (error, getattr(error, "orig", None)):
        state = getattr(each, "sqlstate", None) or getattr(each, "pgcode", None)
        if isinstance(state, str) and state.startswith("28"):
            return True
    text = str(error) if "OperationalError" in type(error).__name__ else ""
    return "authentication failed" in text or "Access denied for user" in text


def _may_pass(error: BaseException) -> bool:
    """Return True if a retry may succeed. The error's class or its HTTP status decides."""
    if isinstance(error, _PASSING):
        return True
    status = get_http_status(error)
    if status is not None:
        return status in _PASSING_STATUSES or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    if _is_token_error(error):
        return getattr(error, "status", None) is None
    return not _PASSING_NAMES.isdisjoint(_class_names(error))


def _class_names(error: BaseException) -> Iterator[str]:
    """Yield the full names of an error's class and of the base classes."""
    return (f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__)


def _is_token_error(error: BaseException) -> bool:
    return type(error).__name__ == "AccessTokenError"


def get_http_status(error: BaseException) -> int | None:
    """Return the HTTP status (400 or higher) of an error, or None if it has no such status.

    The status is taken from the error's response, from its ``status`` or ``code`` attribute, or
    from the start of its message.
    """
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
