"""Check of the values that a URL template's path contains: they must not change the path."""

from __future__ import annotations

import re
from typing import Final

from tap_core.exceptions import FatalAPIError

__all__ = ["PATH_CHARACTERS", "check_dot_segments"]

PATH_CHARACTERS: Final = str.maketrans({"/": "%2F", "?": "%3F", "#": "%23"})
"""Encoded forms of the characters that end a segment or the path, for `str.translate`."""

_DOT_SEGMENT: Final = re.compile(r"(?<=/)(?:\.|%2e){1,2}(?=[/?#]|$)", re.IGNORECASE)
"""Segment that stands for the folder itself or the one above it (RFC 3986, section 3.3)."""


def check_dot_segments(template: str, url: str) -> str:
    """Return a URL that was made from a template, after a check of the inserted values.

    Raises:
        FatalAPIError: A value is ``.`` or ``..``. Clients and servers remove such a path segment
            together with the segment before it, so the request would read another path.
    """
    if url == template:
        return url
    if len(_DOT_SEGMENT.findall(url)) > len(_DOT_SEGMENT.findall(template)):
        raise FatalAPIError(
            "A value in the path of the URL is '.' or '..', which leads to another path of the API."
            " Leave it out of the contexts of the stream."
        )
    return url
