"""Whether requests may leave unencrypted: not where a protocol forbids it.

Rules of the room: nobody is forbidden anything until a door asks for it, and then it holds for
the whole process. A service on this very machine is exempt, since nobody reads what is sent there.
Source: Fivetran's Partner SDK development guide, "Security".
"""

from __future__ import annotations

from ipaddress import ip_address
from threading import Event
from urllib.parse import urlsplit

from tap_core.exceptions import ConfigurationError

__all__ = ["check_https", "require_https"]

_demanded = Event()


def require_https() -> None:
    """Let no request leave this process unencrypted from now on."""
    _demanded.set()


def check_https(address: str | None) -> None:
    """Look at the address of a request that is about to leave.

    Raises:
        ConfigurationError: it would leave unencrypted, and that is forbidden.
    """
    if not _demanded.is_set() or not address or not address.lower().startswith("http:"):
        return
    if not _is_here(urlsplit(address).hostname or ""):
        raise ConfigurationError(
            "The source would be asked over plain HTTP, which is forbidden here: what is sent"
            " could be read on the way. Give an address that begins with https."
        )


def _is_here(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
