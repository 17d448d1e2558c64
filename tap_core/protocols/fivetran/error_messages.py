"""Error messages for Fivetran's users, who see neither the source nor this program.

A message says what happened, in which stream if known, and what to do; missing permissions are
named. A failed request is described by status, stream and attempt, never by its URL; of a response
body only the excerpt that the SDK shows of a refusal is kept. Of a database error only the first
line is kept, as later lines may contain rows. Addresses are removed, and the length is limited so
that the message fits into a gRPC trailer.
Source: Fivetran's Partner SDK development guide, "Error handling", "User alerts" and "Security".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import PurePosixPath
from typing import Any, Final

from tap_core.protocols.error_classification import (
    TRANSIENT,
    failure_type,
    get_http_status,
    is_auth_failure,
    iterate_causes,
    summarize_error,
)
from tap_core.protocols.fivetran.logging import truncate_text
from tap_core.redaction.fivetran_logs import remove_addresses

__all__ = ["format_error"]

_WHOLE: Final = "TargetSparkError"
"""Errors with complete messages; matched by name, because target_spark imports this package."""

_LONGEST: Final = 50_000
"""Maximum number of characters of a message that are processed."""

_PLACE: Final = re.compile(r" ?\[stream '(?P<stream>[^'\n]{0,300})'(?P<rest>[^\n[\]]{0,5000})\]")
"""Stream and attempt of a failed request, which `tap_core.http` appends to a message."""

_TRIED: Final = re.compile(r", try (\d{1,9})$")
_STATUS: Final = re.compile(
    r"\d{3} (?:Client Error|Server Error|Answer refused): [^\n]{0,200}? for (?:path|url): ?"
)
"""Start of a message about an HTTP status, by the SDK or the library requests."""

_EXCERPT: Final = ", content is "
_HEADERS: Final = ", headers: "
_BEGINS: Final = "; it begins: "
"""Separators before an excerpt of a response body in the SDK's messages."""

_NO_PRIVILEGE: Final = "42501"
_OF_DATABASES: Final = frozenset({"DatabaseError", "InterfaceError", "OperationalError"})
_DENIED: Final = re.compile(
    r"permission (?:was )?denied|command denied|insufficient privilege|not authori[sz]ed"
    r"|access denied for user .{1,200} to database",
    re.IGNORECASE,
)
_SCOPES: Final = ("X-Accepted-OAuth-Scopes", "X-Accepted-GitHub-Permissions")
_SCOPE: Final = re.compile(r'\bscope="([^"]{1,500})"')
"""Scope that a request lacks: RFC 6750, section 3."""


def format_error(error: BaseException, hide: Callable[[str], str] = str) -> str:
    """Return the message of an error for users. URLs are removed, and it is shorter than 8 kB.

    ``hide`` redacts secrets. It is applied to the text before the text is shortened.
    """
    text = hide(_sentence(error)).encode("utf-8", "replace").decode()
    return truncate_text(remove_addresses(text[:_LONGEST]))


def _sentence(error: BaseException) -> str:
    """Return a message for the user. It explains a missing permission or an HTTP status, if any."""
    if any(kind.__name__ == _WHOLE for kind in type(error).__mro__):
        return str(error)
    message = _Message.of(error)
    for way in (_of_permission, _of_status):
        for each in iterate_causes(error):
            known = way(each)
            if known is not None:
                return known if each is error else _joined(message.said, known)
    where = f" ({message.where})" if message.where else ""
    return summarize_error(error, message.said) + where


def _joined(*sentences: str) -> str:
    """Join sentences to one text. A period is added to sentences that end without punctuation."""
    ended = (text if text[-1] in ".!?:" else f"{text}." for text in sentences if text)
    return " ".join(ended)


# Texts of errors


@dataclass(frozen=True)
class _Message:
    """Parts of an error's text: message, quoted response body, and the stream it is about."""

    said: str
    excerpt: str = ""
    where: str = ""

    @classmethod
    def of(cls, error: BaseException) -> _Message:
        """Split the text of an error into its parts."""
        text = _first_line(error) if _is_of_a_database(error) else _own_text(error)
        place = _PLACE.search(text)
        where = ""
        if place is not None:
            tried = _TRIED.search(place["rest"])
            where = f"stream {place['stream']}" + (f", try {tried[1]}" if tried else "")
            text = text[: place.start()] + text[place.end() :]
        text = text.partition(_BEGINS)[0]
        status = _STATUS.search(text)
        if status is None:
            return cls(text.strip(), "", where)
        return cls(text[: status.start()].strip(" :"), _excerpt(text[status.end() :]), where)


def _own_text(error: BaseException) -> str:
    """Return the text of an error.

    A path in an operating system error is cut to the file's name.
    """
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.strerror}: '{_file_name(error)}'"
    return str(error).strip()


def _file_name(error: OSError) -> str:
    named = error.filename
    text = named.decode("utf-8", "replace") if isinstance(named, bytes) else str(named)
    return PurePosixPath(text.replace("\\", "/")).name


def _excerpt(text: str) -> str:
    """Return the quoted part of the response body from the message of an HTTP error."""
    shown = text.partition(_EXCERPT)[2]
    return shown.rpartition(_HEADERS)[0] or shown


def _first_line(error: BaseException) -> str:
    """Return the first line of a database error. The SQL statement and details come after it."""
    said = str(getattr(error, "orig", None) or error).strip()
    return said.partition("\n")[0]


def _is_of_a_database(error: BaseException) -> bool:
    """Return True if an error is one of a database driver (PEP 249), or wraps such an error."""
    if _sql_states(error) or getattr(error, "orig", None) is not None:
        return True
    return not _OF_DATABASES.isdisjoint(kind.__name__ for kind in type(error).__mro__)


def _sql_states(error: BaseException) -> list[str]:
    candidates: Iterator[Any] = (
        getattr(each, name, None)
        for each in (error, getattr(error, "orig", None))
        for name in ("sqlstate", "pgcode")
    )
    return [state for state in candidates if isinstance(state, str)]


# Permissions


def _of_permission(error: BaseException) -> str | None:
    """Return a message about a missing file or database permission, or None for other errors."""
    if isinstance(error, PermissionError):
        named = f"'{_file_name(error)}'" if error.filename else "a file or folder"
        return (
            f"The connector lacks the permission to use {named}:"
            f" {error.strerror or _Message.of(error).said or 'permission denied'}."
            " Give that right to the user it runs as, or name another place in the configuration."
        )
    if _is_of_a_database(error):
        said = _first_line(error)
        if _NO_PRIVILEGE in _sql_states(error) or _DENIED.search(said):
            return (
                f"The user of the configuration lacks a permission in the database: {said}."
                " Grant it, or exclude the table."
            )
    return None


def _find_required_right(response: Any) -> str:
    """Return the OAuth scope or permission that a response's headers demand, or ""."""
    headers = getattr(response, "headers", None) or {}
    asked = _SCOPE.search(str(headers.get("WWW-Authenticate") or ""))
    names = [asked[1] if asked else "", *(str(headers.get(name) or "") for name in _SCOPES)]
    return next(filter(None, names), "")


# Statuses


def _of_status(error: BaseException) -> str | None:
    """Return a message that explains an error's HTTP status. Return None if it has no status."""
    status = get_http_status(error)
    if status is None or type(error).__name__ == "AccessTokenError":
        return None
    message = _Message.of(error)
    name = f"HTTP {status}{_reason(status)}"
    where = f" in {message.where}" if message.where else ""
    is_ours = message.excerpt and status < HTTPStatus.INTERNAL_SERVER_ERROR
    shown = f"The source says: {message.excerpt}" if is_ours else ""
    return _joined(f"{name}{where}: {_verdict(error, status)}", message.said, shown)


def _reason(status: int) -> str:
    try:
        return f" ({HTTPStatus(status).phrase})"
    except ValueError:
        return ""


def _verdict(error: BaseException, status: int) -> str:
    """Return a sentence that explains an HTTP status to the user and gives advice."""
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
