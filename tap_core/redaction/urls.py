"""URLs for messages: without user, password and secret parameters.

A value that cannot be parsed as a URL is hidden as a whole.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from tap_core.redaction.names import is_secret_parameter
from tap_core.redaction.text import HIDDEN

__all__ = ["redact_url"]

_AUTHORITY: Final = re.compile(r"(?<=://)[^/]*@")


def redact_url(url: str | bytes | None, *, with_query: bool = True) -> str:
    """Return a URL without user info and fragment, and with values of secret names hidden.

    Args:
        url: The URL; None becomes an empty text.
        with_query: True to keep the query. False for the URL of a file or folder: the query is
            removed and the path is kept unchanged.
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
        shown = [(name, HIDDEN if is_secret_parameter(name) else value) for name, value in pairs]
        query = urlencode(shown, safe="*/:,")
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, query, ""))
