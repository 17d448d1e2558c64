"""Explanations for requests that are not sent because of a header, a character or the proxy.

The HTTP libraries raise errors of several types for such requests. The messages of these errors do
not contain the name of the header or of the environment variable with the proxy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from requests.exceptions import InvalidHeader, InvalidProxyURL, ProxyError

from tap_core.exceptions import FatalAPIError
from tap_core.http.proxies import ProxyRefusalError, find_proxy_fault, find_refusal
from tap_core.redaction.http import decode_header

__all__ = ["explain_unsendable"]

_LINE_BREAK: Final = re.compile(r"[\r\n]")


@contextmanager
def explain_unsendable(
    headers: Mapping[str, Any], proxy: str | None = None, kind: type[ValueError] = ValueError
) -> Iterator[None]:
    """Replace an error of the ``with`` block by one that names the faulty header or proxy.

    Errors with another cause are raised unchanged, except that of a lone surrogate in a parameter
    or a body. An error about a header or the proxy's URL is only replaced if it is of the type
    ``kind``. The message contains no header value and no password. ``proxy`` is the URL of the
    request's proxy, or None.
    """
    try:
        yield
    except (kind, UnicodeEncodeError) as error:
        if fault := next(filter(None, map(_find_header_fault, headers.items())), None):
            raise InvalidHeader(fault) from None
        if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:
            code = ord(error.object[error.start])
            raise FatalAPIError(
                "A request cannot be sent, because one of its parameters or its body has a lone"
                f" surrogate (U+{code:X}), half of a character that was cut off: correct the value"
                " in the source, the settings or the state that it comes from."
            ) from None
        if proxy and (fault := find_proxy_fault(proxy, error)):
            raise InvalidProxyURL(fault) from None
        raise
    except ProxyError as error:
        if fault := find_refusal(error, proxy):
            raise ProxyRefusalError(fault, request=error.request) from None
        raise


def _find_header_fault(header: tuple[str, Any]) -> str | None:
    """Return a message about a header value that HTTP does not allow; None if it is allowed."""
    name, value = header
    text = decode_header(value)
    if _LINE_BREAK.search(text):
        fault = "a line break"
    elif any(ord(character) > 0xFF for character in text):  # noqa: PLR2004  ISO 8859-1
        fault = "a character that is not in ISO 8859-1"
    elif text[:1].isspace():
        fault = "a space at its start"
    else:
        return None
    return (
        f"The header '{name}' cannot be sent, because its value has {fault}: correct the setting"
        " that it comes from, such as a token."
    )
