"""Check of values that are inserted into the path of a URL: they must not lead to another path."""

from __future__ import annotations

import re
from typing import Final

from tap_core.exceptions import FatalAPIError

__all__ = ["PATH_CHARACTERS", "check_dot_segments"]

PATH_CHARACTERS: Final = str.maketrans({"/": "%2F", "?": "%3F", "#": "%23"})
"""Encoded forms of ``/``, ``?`` and ``#`` for `str.translate`; they separate parts of a URL."""

_IGNORED: Final = str.maketrans("", "", "\t\r\n")
"""Characters that Python's `urllib.parse` removes from a URL."""

_DOT_SEGMENT: Final = re.compile(r"(?<=/)(?:\.|%2e){1,2}(?=[/?#]|$)", re.IGNORECASE)
"""Path segment ``.`` or ``..``, plain or encoded (RFC 3986, section 3.3)."""


def check_dot_segments(template: str, url: str) -> str:
    """Check the values that were inserted into a URL template, and return the URL.

    Raises:
        FatalAPIError: A value is or contains a segment ``.`` or ``..``. Clients and servers remove
            such a segment, and ``..`` also the one before it, so the request would read another
            path.
    """
    if url == template:
        return url
    if len(_DOT_SEGMENT.findall(url.translate(_IGNORED))) > len(_DOT_SEGMENT.findall(template)):
        raise FatalAPIError(
            "A value in the path of the URL is or contains a segment '.' or '..', which leads to"
            " another path of the API. Leave it out of the contexts of the stream."
        )
    return url
