"""URLs of proxies, and messages about proxies that are invalid or refuse a connection."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, cast

from requests.exceptions import ProxyError
from requests.utils import prepend_scheme_if_needed
from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url

from tap_core.redaction import redact_url

__all__ = ["ProxyRefusalError", "complete_proxy_url", "find_proxy_fault", "find_refusal"]

_SCHEMES: Final = ("http", "https")
_SOCKS: Final = ("socks4", "socks4a", "socks5", "socks5h")
_VARIABLES: Final = "environment variable HTTP_PROXY, HTTPS_PROXY or ALL_PROXY"
_REFUSED: Final = re.compile(r"Tunnel connection failed: (4(?!08|29)\d\d[^'\"()]{0,100})")
"""Response of a proxy that refuses a connection, such as "403 Forbidden". The statuses 408 and 429
are temporary failures."""

_LOGIN_MISSING: Final = "407"


class ProxyRefusalError(ProxyError):
    """Error for a proxy that refuses to open a connection, so that a retry would not succeed."""

    failure_type = "config_error"


def complete_proxy_url(proxy: str) -> str:
    """Return the URL of a proxy, with ``http://`` added if it has no scheme."""
    complete = cast("Callable[[str, str], str]", prepend_scheme_if_needed)
    return complete(proxy, "http")


def find_proxy_fault(proxy: str, error: ValueError) -> str | None:
    """Return a message about a proxy that cannot be used, or None if the proxy seems usable."""
    redacted = redact_url(proxy)
    try:
        url = parse_url(complete_proxy_url(proxy))
    except LocationParseError:
        return f"The proxy '{redacted}' is not a valid URL: correct the {_VARIABLES}."
    if not url.host or url.scheme not in (*_SCHEMES, *_SOCKS):
        return (
            f"The proxy '{redacted}' cannot be used: the {_VARIABLES} must be a URL such as"
            " http://proxy.example.com:3128."
        )
    if "SOCKS" in str(error):
        return f"The proxy '{redacted}' needs another package: pip install 'requests[socks]'."
    return None


def find_refusal(error: ProxyError, proxy: str | None) -> str | None:
    """Return a message about a proxy that refuses a connection; None for other errors.

    ``proxy`` is the URL of the proxy, or None if it is unknown.
    """
    refusal = _REFUSED.search(str(error))
    if refusal is None:
        return None
    response = refusal[1].strip()
    named = f"The proxy '{redact_url(proxy)}'" if proxy else "The proxy"
    if response.startswith(_LOGIN_MISSING):
        return (
            f"{named} needs a valid user name and password ({response}): write them into the"
            f" {_VARIABLES}, between // and the name of the proxy, with : between and @ after them."
        )
    return (
        f"{named} refuses to connect to the server ({response}): have it allow the server, or name"
        " the server in the environment variable NO_PROXY if it can be reached directly."
    )
