"""Classification of errors into three failure types, and error messages for users.

- ``config_error``: the user can correct the error (settings, files, credentials).
- ``transient_error``: a retry may succeed.
- ``system_error``: all other errors.

Errors of optional libraries are recognized by class name, so that the libraries need not be
imported. If the class of an error is unknown, its cause decides. Source of the names: the Airbyte
protocol, section "AirbyteErrorTraceMessage".
"""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final, TypeGuard

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
    "describe_unencodable",
    "failure_type",
    "find_tls_fault",
    "get_http_status",
    "get_sql_states",
    "is_auth_failure",
    "is_known_error",
    "is_token_error",
    "iterate_causes",
    "shorten_connection_failure",
    "summarize_error",
]

CONFIG: Final = "config_error"
SYSTEM: Final = "system_error"
TRANSIENT: Final = "transient_error"

_FAILURE_TYPES: Final = (CONFIG, SYSTEM, TRANSIENT)
_CONFIG_ERRORS: Final = (ConfigurationError, StreamMapConfigError, MapExpressionError)
_TRANSIENT_ERRORS: Final = (ConnectionError, TimeoutError, RetriableSyncError)
_TRANSIENT_ERROR_NAMES: Final = frozenset(
    {
        "requests.exceptions.ConnectionError",
        "requests.exceptions.Timeout",
        "requests.exceptions.ChunkedEncodingError",
        "urllib3.exceptions.HTTPError",
        "urllib.error.URLError",
        "http.client.HTTPException",
        "socket.gaierror",
        "httpx.TransportError",
        "aiohttp.client_exceptions.ClientConnectionError",
        "sqlalchemy.exc.OperationalError",
        "sqlalchemy.exc.InterfaceError",
    }
)
_INVALID_URL_ERROR_NAMES: Final = frozenset(
    f"requests.exceptions.{name}" for name in ("InvalidURL", "InvalidSchema", "MissingSchema")
)
_UNSENDABLE_ERROR_NAMES: Final = frozenset(
    f"requests.exceptions.{name}"
    for name in ("InvalidHeader", "InvalidProxyURL", "TooManyRedirects")
)
_CERTIFICATE_REJECTED: Final = "CERTIFICATE_VERIFY_FAILED"
_TLS_ADVICE: Final = {
    "WRONG_VERSION_NUMBER": "The {system} answers without TLS: if its address must begin with"
    " http:// instead of https://, correct it in the configuration.",
    "NO_CERTIFICATE_OR_CRL_FOUND": "The file of trusted certificates contains none: correct the"
    " environment variable REQUESTS_CA_BUNDLE.",
    "certificate has expired": "The certificate of the {system} has expired: its operator must"
    " renew it.",
    "certificate is not yet valid": "The certificate of the {system} is not valid yet: check the"
    " clock of this machine.",
    "mismatch, certificate": "The {system} has a certificate of another host: check the address in"
    " the configuration.",
    _CERTIFICATE_REJECTED: "The certificate of the {system} is not trusted: to trust it, write it"
    " or that of its issuer to a file (PEM), and name the file in the environment variable"
    " REQUESTS_CA_BUNDLE.",
}
"""Advice about permanent TLS errors of the library requests, by a text in the error.

The first text that is found decides.
"""
_TRANSIENT_STATUSES: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})
_AUTH_STATUSES: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_STATUS_FIRST: Final = re.compile(r"\s*(?:HTTP )?([45]\d\d)\b")
"""HTTP status at the start of an error message, as in `RESTStream.response_error_message`."""
_INSUFFICIENT_PRIVILEGE: Final = "42501"
"""SQLSTATE of a statement for which the user of a database lacks a privilege."""
_TRANSACTION_TIMEOUTS: Final = frozenset({"25P03", "25P04"})
"""SQLSTATEs of connections that PostgreSQL closed because a transaction was idle or too long."""
_MAX_CAUSES: Final = 10
_SDK_ERRORS: Final = (SingerSDKError, SingerError)
"""Base classes of errors whose messages are written for users."""

_BUGS: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    TypeError,
)
"""Python errors that show a mistake in the code, regardless of their message and causes."""

_ABSTRACT_CLASS: Final = re.compile(
    r"Can't instantiate abstract class (\w+) (?:with|without an implementation for)"
    r" abstract methods? ([\w', ]+)"
)
"""Python's message for a class that lacks members which its base class requires."""

_UNREACHABLE: Final = re.compile(
    r"HTTPS?ConnectionPool\(host='(?P<host>[^']*)', port=(?P<port>\w+)\): Max retries exceeded"
    r" with url: \S* \(Caused by (?P<cause>.*?)\){2,}",
    re.DOTALL,
)
"""Message of the library urllib3 for a host that cannot be reached."""

_REASON: Final = re.compile(
    r"\[Errno -?\d+\] ([^\"'()\[\]]+)|(timed out|wrong version number"
    r"|certificate verify failed: [^()]+|no certificate or crl found)"
)


def summarize_error(
    error: BaseException, message: str | None = None, *, system: str = "source"
) -> str:
    """Return the message about an error for the user, with advice if its failure type is known.

    Args:
        error: The error.
        message: Text to show instead of the error's own text, for example without secrets.
        system: "source" or "destination": the system that the plugin reads from or writes to.
    """
    kind = failure_type(error)
    message = shorten_connection_failure(_get_text(error)) if message is None else message
    name = type(error).__qualname__
    text = message or name
    if kind == CONFIG and any(is_auth_failure(cause) for cause in iterate_causes(error)):
        return f"The {system} refuses the credentials: check those in the configuration. {text}"
    if any(map(_has_invalid_url, iterate_causes(error))):
        return (
            f"The address of the {system} is not valid: check it in the configuration. It must"
            f" begin with https:// or http://. {text}"
        )
    if fault := next(filter(None, map(find_tls_fault, iterate_causes(error))), None):
        return f"{_TLS_ADVICE[fault].format(system=system)} {text}"
    if kind == TRANSIENT:
        return f"The {system} is temporarily unavailable: try again later. {text}"
    if kind == SYSTEM and not is_known_error(error):
        message_text = f"{name}: {message}" if message else name
        return f"Internal error, not caused by the configuration: {message_text}"
    return text


def is_known_error(error: BaseException) -> bool:
    """Return True if the message of an error suffices for the user, so that no traceback is shown.

    This is the case for errors of the SDK, invalid settings, rejected credentials and an
    unavailable service, and for errors that were raised ``from`` one of these.
    """
    current: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if isinstance(current, _SDK_ERRORS) or _find_missing_members(current):
            return True
        if current is None or isinstance(current, _BUGS):
            return False
        if _classify(current) is not None:
            return True
        current = current.__cause__
    return False


def failure_type(error: BaseException) -> str:
    """Return "config_error", "transient_error" or "system_error" for an error.

    The first of ``error``, its cause and so on that can be classified determines the result.
    """
    return next(filter(None, map(_classify, iterate_causes(error))), SYSTEM)


def iterate_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, its cause, the cause of that error, and so on: at most ten exceptions.

    An error without explicit cause is followed by its ``__context__``, unless raised ``from None``.
    """
    current: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if current is None:
            return
        yield current
        hidden = current.__suppress_context__
        current = current.__cause__ or (None if hidden else current.__context__)


def shorten_connection_failure(text: str) -> str:
    """Shorten urllib3's long message about an unreachable host, if ``text`` contains it.

    The short message is ``127.0.0.1:9 cannot be reached: Connection refused``. Any other text is
    returned unchanged.
    """
    match = _UNREACHABLE.search(text)
    reason = _REASON.search(match["cause"]) if match else None
    if match is None or reason is None:
        return text
    short = f"{match['host']}:{match['port']} cannot be reached: {(reason[1] or reason[2]).strip()}"
    return text[: match.start()] + short + text[match.end() :]


def is_auth_failure(error: BaseException) -> bool:
    """Return True if an API or database rejected the credentials, for example with status 401."""
    if get_http_status(error) in _AUTH_STATUSES or _is_database_login_failure(error):
        return True
    # A token endpoint rejects credentials with status 400: RFC 6749, section 5.2.
    return is_token_error(error) and get_http_status(error) == HTTPStatus.BAD_REQUEST


def is_token_error(error: BaseException) -> bool:
    """Return True if an error is an `AccessTokenError`: a token endpoint returned no token."""
    return type(error).__name__ == "AccessTokenError"


def find_tls_fault(error: BaseException) -> str | None:
    """Return the phrase in a TLS error of the library requests that identifies its cause.

    It is a key in `_TLS_ADVICE`. A retry cannot solve such an error. Return None for other errors.
    """
    if "requests.exceptions.SSLError" not in _iterate_class_names(error):
        return None
    return next((fault for fault in _TLS_ADVICE if fault in str(error)), None)


def get_http_status(error: BaseException) -> int | None:
    """Return the HTTP status (400 or higher) of an error, or None if it has no such status.

    The status is taken from the error's response, from its attribute ``status`` or ``code``, or
    from the start of its message, such as "404 Not Found".
    """
    response = getattr(error, "response", None)
    candidates = [
        getattr(response, "status_code", None),
        getattr(error, "status", None),
        getattr(error, "code", None),
    ]
    for status in candidates:
        if isinstance(status, int) and status >= HTTPStatus.BAD_REQUEST:
            return status
    match = None if isinstance(error, _BUGS) else _STATUS_FIRST.match(str(error))
    return int(match[1]) if match else None


def get_sql_states(error: BaseException) -> list[str]:
    """Return the SQLSTATE codes of a database error and of the driver's error that it wraps."""
    candidates: Iterator[Any] = (
        getattr(source, name, None)
        for source in (error, getattr(error, "orig", None))
        for name in ("sqlstate", "pgcode")
    )
    return [state for state in candidates if isinstance(state, str)]


def describe_unencodable(error: UnicodeEncodeError) -> str:
    """Return the message about a path with a character that the encoding of paths does not have."""
    return (
        f"A path has the character {error.object[error.start]!a}, which the encoding of paths in"
        f" this environment ({error.encoding}) does not have. If the locale is not UTF-8, set the"
        " environment variable PYTHONUTF8=1."
    )


def _get_text(error: BaseException) -> str:
    """Return the message of an error.

    Python's message about an abstract class that cannot be instantiated is replaced by one that
    names the members to define, and the one about a character that paths cannot have by one that
    names the environment variable to set.
    """
    if _is_unencodable(error):
        return describe_unencodable(error)
    if not (missing := _find_missing_members(error)):
        return str(error).strip()
    name, members = missing
    return f"The class {name} lacks {members}, which its base class requires: define it there."


def _find_missing_members(error: BaseException | None) -> tuple[str, str] | None:
    """Return a class name and its missing members, such as ``("MyStream", "path, url_base")``.

    They are parsed from Python's TypeError for an abstract class. Return None for other errors.
    """
    match = _ABSTRACT_CLASS.match(str(error)) if isinstance(error, TypeError) else None
    return (match[1], match[2].replace("'", "")) if match else None


def _classify(error: BaseException) -> str | None:
    """Return the failure type of one error without its causes, or None if it is unknown.

    If the error has a valid attribute ``failure_type``, return its value.
    """
    if (own_type := getattr(error, "failure_type", None)) in _FAILURE_TYPES:
        return str(own_type)
    if isinstance(error, _CONFIG_ERRORS) or is_auth_failure(error):
        return CONFIG
    is_refused = _INSUFFICIENT_PRIVILEGE in get_sql_states(error)
    if is_refused or _has_invalid_url(error) or _is_unsendable(error) or _is_unencodable(error):
        return CONFIG
    if _CERTIFICATE_REJECTED in str(error):
        return SYSTEM
    if find_tls_fault(error):
        return CONFIG
    return TRANSIENT if _is_transient(error) else None


def _has_invalid_url(error: BaseException) -> bool:
    """Return True if an error says that a URL is not valid.

    For example, the URL has no scheme or an unknown one.
    """
    return not _INVALID_URL_ERROR_NAMES.isdisjoint(
        _iterate_class_names(error)
    ) and not _is_unsendable(error)


def _is_unsendable(error: BaseException) -> bool:
    """Return True if a request cannot be sent: invalid header or proxy, or endless redirects."""
    return not _UNSENDABLE_ERROR_NAMES.isdisjoint(_iterate_class_names(error))


def _is_unencodable(error: BaseException) -> TypeGuard[UnicodeEncodeError]:
    """Return True if a path cannot be encoded because the locale of the process is not UTF-8."""
    if not isinstance(error, UnicodeEncodeError):
        return False
    encoding = codecs.lookup(sys.getfilesystemencoding()).name
    return encoding != "utf-8" and codecs.lookup(error.encoding).name == encoding


def _is_database_login_failure(error: BaseException) -> bool:
    """Return True if an error says that a database rejected the login.

    Such an error has a SQLSTATE that starts with 28, or a known message.
    """
    if any(state.startswith("28") for state in get_sql_states(error)):
        return True
    text = str(error) if "OperationalError" in type(error).__name__ else ""
    return "authentication failed" in text or "Access denied for user" in text


def _is_transient(error: BaseException) -> bool:
    """Return True if a retry may succeed, according to an error's class or HTTP status."""
    if isinstance(error, _TRANSIENT_ERRORS):
        return True
    if not _TRANSACTION_TIMEOUTS.isdisjoint(get_sql_states(error)):
        return True
    status = get_http_status(error)
    if status is not None:
        return status in _TRANSIENT_STATUSES or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    if is_token_error(error):
        return getattr(error, "status", None) is None
    return not _TRANSIENT_ERROR_NAMES.isdisjoint(_iterate_class_names(error))


def _iterate_class_names(error: BaseException) -> Iterator[str]:
    """Yield the full names of an error's class and base classes, such as ``socket.gaierror``."""
    return (f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__)
