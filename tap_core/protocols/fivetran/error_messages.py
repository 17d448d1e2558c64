"""Error messages for Fivetran's users, who see neither the source system nor this program.

A message says what happened, in which stream if known, and what to do. Missing permissions are
named. A failed request is described by status, stream and attempt, never by its URL. Of a response
body, only the excerpt in the SDK's message about a rejected request is kept. Of a database error,
only the first line is kept, because later lines may contain rows. Addresses are removed. The length
is limited, so that the message fits into a gRPC trailer.
Source: Fivetran's Partner SDK development guide, "Error handling", "User alerts" and "Security".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import PurePosixPath
from typing import Any, Final

from tap_core.protocols.error_classification import (
    TRANSIENT,
    failure_type,
    get_http_status,
    get_sql_states,
    is_auth_failure,
    is_token_error,
    iterate_causes,
    summarize_error,
)
from tap_core.protocols.fivetran.logging import truncate_text
from tap_core.redaction.fivetran_logs import remove_addresses

__all__ = ["format_error"]

_COMPLETE_ERROR: Final = "TargetSparkError"
"""Base class of errors with complete messages. It is matched by name to avoid a circular import."""

_MAX_CHARACTERS: Final = 50_000
"""Maximum length of a message in characters; the rest is cut off before addresses are removed."""

_FAILED_REQUEST: Final = re.compile(
    r" ?\[stream '(?P<stream>[^'\n]{0,300})'(?P<rest>[^\n[\]]{0,5000})\]"
)
"""Stream and attempt of a failed request, which `tap_core.http` appends to a message."""

_ATTEMPT: Final = re.compile(r", try (\d{1,9})$")
_STATUS: Final = re.compile(
    r"\d{3} (?:Client Error|Server Error|Response refused): [^\n]{0,200}? for (?:path|url): ?"
)
"""Start of a message about an HTTP status, by the SDK or the library requests."""

# Texts before an excerpt of a response body, and after it, in the SDK's messages.
_EXCERPT: Final = ", content is "
_HEADERS: Final = ", headers: "
_BEGINS: Final = "; it begins: "

_NO_PRIVILEGE: Final = "42501"
"""SQLSTATE of a missing privilege."""
_DATABASE_ERROR_NAMES: Final = frozenset({"DatabaseError", "InterfaceError", "OperationalError"})
_PERMISSION_DENIED: Final = re.compile(
    r"permission (?:was )?denied|command denied|insufficient privilege|not authori[sz]ed"
    r"|access denied for user .{1,200} to database",
    re.IGNORECASE,
)
_SCOPE_HEADERS: Final = ("X-Accepted-OAuth-Scopes", "X-Accepted-GitHub-Permissions")
_SCOPE: Final = re.compile(r'\bscope="([^"]{1,500})"')
"""Scope that a request lacks: RFC 6750, section 3."""


def format_error(error: BaseException, hide: Callable[[str], str] = str) -> str:
    """Return the message about an error that Fivetran shows to the user.

    It has no URLs, and it is short enough for a gRPC trailer (7,800 bytes).

    Args:
        error: The error.
        hide: Returns a text with its secrets redacted. It is called before the text is shortened.
    """
    text = hide(_describe(error)).encode("utf-8", "replace").decode()
    return truncate_text(remove_addresses(text[:_MAX_CHARACTERS]))


def _describe(error: BaseException) -> str:
    """Return the message about an error for the user, which may contain secrets and URLs.

    If the error or one of its causes is a missing permission or has an HTTP status, the message
    explains this and gives advice.
    """
    if any(kind.__name__ == _COMPLETE_ERROR for kind in type(error).__mro__):
        return str(error)
    message = _Message.from_error(error)
    for explain in (_explain_permission, _explain_status):
        for cause in iterate_causes(error):
            explanation = explain(cause)
            if explanation is not None:
                return explanation if cause is error else _join_sentences(message.text, explanation)
    where = f" ({message.where})" if message.where else ""
    return summarize_error(error, message.text) + where


def _join_sentences(*sentences: str) -> str:
    """Join sentences to one text. Add a period to sentences that end without punctuation."""
    ended = (text if text[-1] in ".!?:" else f"{text}." for text in sentences if text)
    return " ".join(ended)


# Texts of errors


@dataclass(frozen=True)
class _Message:
    """Text of an error, split into its parts.

    Attributes:
        text: The message.
        excerpt: Quoted beginning of a response body, or "".
        where: Stream and attempt of the failed request, or "".
    """

    text: str
    excerpt: str = ""
    where: str = ""

    @classmethod
    def from_error(cls, error: BaseException) -> _Message:
        """Split the text of an error into its message, the response body and the failed stream."""
        text = _get_first_line(error) if _is_database_error(error) else _get_text(error)
        match = _FAILED_REQUEST.search(text)
        where = ""
        if match is not None:
            attempt = _ATTEMPT.search(match["rest"])
            where = f"stream {match['stream']}" + (f", try {attempt[1]}" if attempt else "")
            text = text[: match.start()] + text[match.end() :]
        text = text.partition(_BEGINS)[0]
        status = _STATUS.search(text)
        if status is None:
            return cls(text.strip(), "", where)
        return cls(text[: status.start()].strip(" :"), _get_excerpt(text[status.end() :]), where)


def _get_text(error: BaseException) -> str:
    """Return the text of an error. An OSError shows only the name of the file, not its path."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.strerror}: '{_get_file_name(error)}'"
    return str(error).strip()


def _get_file_name(error: OSError) -> str:
    named = error.filename
    text = named.decode("utf-8", "replace") if isinstance(named, bytes) else str(named)
    return PurePosixPath(text.replace("\\", "/")).name


def _get_excerpt(text: str) -> str:
    """Return the excerpt of the response body in the text of an HTTP error, or "" without one."""
    excerpt = text.partition(_EXCERPT)[2]
    return excerpt.rpartition(_HEADERS)[0] or excerpt


def _get_first_line(error: BaseException) -> str:
    """Return the first line of a database error. Later lines have the SQL statement and rows."""
    text = str(getattr(error, "orig", None) or error).strip()
    return text.partition("\n")[0]


def _is_database_error(error: BaseException) -> bool:
    """Return True if an error comes from a database driver (PEP 249), or wraps such an error."""
    if get_sql_states(error) or getattr(error, "orig", None) is not None:
        return True
    return not _DATABASE_ERROR_NAMES.isdisjoint(kind.__name__ for kind in type(error).__mro__)


# Permissions


def _explain_permission(error: BaseException) -> str | None:
    """Return the message for the user if an error is a missing file or database permission.

    Return None for other errors.
    """
    if isinstance(error, PermissionError):
        named = f"'{_get_file_name(error)}'" if error.filename else "a file or folder"
        return (
            f"The connector lacks the permission to use {named}:"
            f" {error.strerror or _Message.from_error(error).text or 'permission denied'}."
            " Give that right to the user it runs as, or name another place in the configuration."
        )
    if _is_database_error(error):
        first_line = _get_first_line(error)
        if _NO_PRIVILEGE in get_sql_states(error) or _PERMISSION_DENIED.search(first_line):
            return (
                f"The user of the configuration lacks a permission in the database: {first_line}."
                " Grant it, or exclude the table."
            )
    return None


def _find_required_right(response: Any) -> str:
    """Return the OAuth scope or permission that a rejected request lacks, or "" if it is unknown.

    The scope or permission is taken from response headers, such as ``WWW-Authenticate``.
    """
    headers = getattr(response, "headers", None) or {}
    scope = _SCOPE.search(str(headers.get("WWW-Authenticate") or ""))
    names = [scope[1] if scope else "", *(str(headers.get(name) or "") for name in _SCOPE_HEADERS)]
    return next(filter(None, names), "")


# Statuses


def _explain_status(error: BaseException) -> str | None:
    """Return the message for the user that explains the HTTP status of an error and gives advice.

    Return None for an error without HTTP status.
    """
    status = get_http_status(error)
    if status is None or is_token_error(error):
        return None
    message = _Message.from_error(error)
    name = f"HTTP {status}{_format_status_phrase(status)}"
    where = f" in {message.where}" if message.where else ""
    is_client_error = status < HTTPStatus.INTERNAL_SERVER_ERROR
    shows_excerpt = message.excerpt and is_client_error
    excerpt = f"The source says: {message.excerpt}" if shows_excerpt else ""
    return _join_sentences(f"{name}{where}: {_advise(error, status)}", message.text, excerpt)


def _format_status_phrase(status: int) -> str:
    try:
        return f" ({HTTPStatus(status).phrase})"
    except ValueError:
        return ""


def _advise(error: BaseException, status: int) -> str:
    """Return the cause and the advice for an HTTP error, as the end of a message for the user.

    For example: "the source is temporarily unavailable. Try again later."
    """
    if status == HTTPStatus.FORBIDDEN:
        right = _find_required_right(getattr(error, "response", None))
        needed = f" (needed: {right})" if right else ""
        return (
            f"the credentials lack the permission to read it{needed}. Give them that permission"
            " in the source, or exclude the table."
        )
    if is_auth_failure(error):
        return (
            "the source does not accept the credentials. Check those in the configuration: they"
            " may be wrong, have expired, or been revoked."
        )
    if failure_type(error) == TRANSIENT:
        return "the source is temporarily unavailable. Try again later."
    return "the source refuses the request."
