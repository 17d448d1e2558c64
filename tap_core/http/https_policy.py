"""Process-wide ban on unencrypted HTTP requests, for protocols that forbid them.

Plain HTTP is allowed until `require_https` is called; from then on it is forbidden in the whole
process. Requests to localhost are exempt, because their traffic never leaves the machine.
Source: Fivetran's Partner SDK development guide, "Security".
"""

from __future__ import annotations

from ipaddress import ip_address
from threading import Event
from urllib.parse import urlsplit

from tap_core.exceptions import ConfigurationError

__all__ = ["check_https", "require_https"]

_is_required = Event()


def require_https() -> None:
    """Forbid unencrypted requests to other machines until the process ends."""
    _is_required.set()


def check_https(address: str | None) -> None:
    """Check that a request to a URL is encrypted, if `require_https` was called.

    Raises:
        ConfigurationError: The URL begins with ``http://`` and contains the host of another
            machine.
    """
    if not _is_required.is_set() or not address or not address.lower().startswith("http:"):
        return
    if not _is_this_machine(urlsplit(address).hostname or ""):
        raise ConfigurationError(
            "A request to the source would be sent over plain HTTP, which is forbidden here, since"
            " it could be read in transit. Configure an address that begins with https."
        )


def _is_this_machine(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
