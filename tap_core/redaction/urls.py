"""Removal of user, password and secret parameters from URLs for messages."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from tap_core.redaction.names import is_secret_parameter
from tap_core.redaction.text import HIDDEN

__all__ = ["redact_url"]

_AUTHORITY: Final = re.compile(r"(?<=://)[^/]*@")


def redact_url(url: str | bytes | None, *, with_query: bool = True) -> str:
    """Remove user info and fragment from a URL, and hide secret query parameters.

    A text that cannot be parsed as a URL becomes ``***``.

    Args:
        url: The URL; None becomes an empty string.
        with_query: True to keep the query. False to remove it, for the URL of a file or folder,
            whose path is then kept unchanged.
    """
    text = url.decode("utf-8", "replace") if isinstance(url, bytes) else url or ""
    if not with_query:
        return _AUTHORITY.sub("", text.partition("?")[0])
    try:
        parts = urlsplit(text)
        pairs = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:  # not a URL: nothing of it is shown
        return HIDDEN
    query = parts.query
    if any(is_secret_parameter(name) for name, _ in pairs):
        redacted_pairs = [
            (name, HIDDEN if is_secret_parameter(name) else value) for name, value in pairs
        ]
        query = urlencode(redacted_pairs, safe="*/:,")
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, query, ""))
