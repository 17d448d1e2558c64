"""Explanations for requests that are not sent because of a header or because of the proxy.

The HTTP libraries raise errors of several types for such requests. The messages of these errors do
not contain the name of the header or of the environment variable with the proxy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, cast

from requests.exceptions import InvalidHeader, InvalidProxyURL, ProxyError
from requests.utils import prepend_scheme_if_needed
from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url

from tap_core.redaction import redact_url
from tap_core.redaction.http import decode_header

__all__ = ["ProxyRefusalError", "complete_proxy_url", "explain_unsendable"]

_SCHEMES: Final = ("http", "https")
_SOCKS: Final = ("socks4", "socks4a", "socks5", "socks5h")
_LINE_BREAK: Final = re.compile(r"[\r\n]")
_VARIABLES: Final = "environment variable HTTP_PROXY, HTTPS_PROXY or ALL_PROXY"
_REFUSED: Final = re.compile(r"Tunnel connection failed: (4(?!08|29)\d\d[^'\"()]{0,100})")
"""Response of a proxy that refuses a connection; 408 and 429 are temporary failures."""

_LOGIN_MISSING: Final = "407"


class ProxyRefusalError(ProxyError):
    """Error for a proxy that refuses to open a connection, so that a retry would not succeed."""

    failure_type = "config_error"


def complete_proxy_url(proxy: str) -> str:
    """Return the URL of a proxy, with ``http://`` added if it has no scheme."""
    complete = cast("Callable[[str, str], str]", prepend_scheme_if_needed)
    return complete(proxy, "http")


@contextmanager
def explain_unsendable(
    headers: Mapping[str, Any], proxy: str | None = None, kind: type[ValueError] = ValueError
) -> Iterator[None]:
    """Replace an error of the ``with`` block by one that names the faulty header or proxy.

    Errors with another cause are raised unchanged, and so are errors about headers and the proxy's
    URL that are not of the type ``kind``. The message contains no header value and no password.
    ``proxy`` is the URL of the request's proxy, or None.
    """
    try:
        yield
    except kind as error:
        if fault := next(filter(None, map(_find_header_fault, headers.items())), None):
            raise InvalidHeader(fault) from None
        if proxy and (fault := _find_proxy_fault(proxy, error)):
            raise InvalidProxyURL(fault) from None
        raise
    except ProxyError as error:
        if refused := _REFUSED.search(str(error)):
            fault = _describe_refusal(refused[1], proxy)
            raise ProxyRefusalError(fault, request=error.request) from None
        raise


def _find_header_fault(header: tuple[str, Any]) -> str | None:
    """Return a message about a header value that HTTP does not allow; None if it is allowed."""
    name, value = header
    text = decode_header(value)
    if _LINE_BREAK.search(text):
        found = "a line break"
    elif any(ord(character) > 0xFF for character in text):  # noqa: PLR2004  ISO 8859-1
        found = "a character that is not in ISO 8859-1"
    elif text[:1].isspace():
        found = "a space at its start"
    else:
        return None
    return (
        f"The header '{name}' cannot be sent, because its value has {found}: correct the setting"
        " that it comes from, such as a token."
    )


def _find_proxy_fault(proxy: str, error: ValueError) -> str | None:
    """Return a message about a proxy that cannot be used, or None if the proxy seems usable."""
    shown = redact_url(proxy)
    try:
        url = parse_url(complete_proxy_url(proxy))
    except LocationParseError:
        return f"The proxy '{shown}' is not a valid URL: correct the {_VARIABLES}."
    if not url.host or url.scheme not in (*_SCHEMES, *_SOCKS):
        return (
            f"The proxy '{shown}' cannot be used: the {_VARIABLES} must be a URL such as"
            " http://proxy.example.com:3128."
        )
    if "SOCKS" in str(error):
        return f"The proxy '{shown}' needs another package: pip install 'requests[socks]'."
    return None


def _describe_refusal(response: str, proxy: str | None) -> str:
    """Return a message about a proxy that refuses a connection.

    Args:
        response: Status and reason of the proxy's response, such as "403 Forbidden".
        proxy: URL of the proxy, or None if it is unknown.
    """
    named = f"The proxy '{redact_url(proxy)}'" if proxy else "The proxy"
    if response.startswith(_LOGIN_MISSING):
        return (
            f"{named} needs a valid user name and password ({response.strip()}): write them into"
            f" the {_VARIABLES}, between // and the name of the proxy, with : between and @ after"
            " them."
        )
    return (
        f"{named} refuses to connect to the server ({response.strip()}): have it allow the server,"
        " or name the server in the environment variable NO_PROXY if it can be reached directly."
    )
