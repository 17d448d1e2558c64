"""Address on which a gRPC server listens.

By default, the server listens on all addresses of the machine, because Fivetran calls from outside
the container. There is no login and no encryption: any client that reaches the port can make every
call.
Source: Fivetran's Partner SDK development guide, "Requirements".
"""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass, field
from typing import Final

from tap_core.protocols.fivetran.request_limits import RequestLimits

__all__ = [
    "ALL_ADDRESSES",
    "MAX_PORT",
    "ListenAddress",
    "check_host",
    "explain_unusable",
    "has_ipv6",
]

ALL_ADDRESSES: Final = "0.0.0.0"  # noqa: S104  (Fivetran's guide asks for it; a warning names it)
"""Host for all addresses of the machine. gRPC includes IPv6."""

MAX_PORT: Final = 65_535

_HOST_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Address (host and port) on which a gRPC server listens, with limits for its calls."""

    port: int
    host: str = ALL_ADDRESSES
    limits: RequestLimits = field(default_factory=RequestLimits)

    @property
    def address(self) -> str:
        """Address as text for the gRPC library, such as ``[::]:50051``.

        Raises:
            OSError: The port is out of range.
        """
        if not 0 <= self.port <= MAX_PORT:
            raise OSError(0, f"ports are numbers from 0 to {MAX_PORT}")
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """True if only programs on the same machine can connect to the server."""
        if self.host.lower() == "localhost":
            return True
        try:
            address = ipaddress.ip_address(self.host)
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return (mapped or address).is_loopback

    @property
    def families(self) -> str:
        """Text for the server's log: its host and IP versions, as in "0.0.0.0, IPv4 and IPv6"."""
        if self.host != ALL_ADDRESSES:
            return self.host
        return f"{self.host}, {'IPv4 and IPv6' if has_ipv6() else 'IPv4; there is no IPv6 here'}"


def check_host(text: str) -> str:
    """Check that a text is an IP address or a host name, and return it without brackets.

    For example, ``"[::1]"`` becomes ``"::1"``.

    Raises:
        ValueError: The text is neither an IP address nor a host name.
    """
    host = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if ":" in host:
        return str(ipaddress.IPv6Address(host))
    if not _HOST_NAME.fullmatch(host):
        raise ValueError(f"{text!r} is neither an address nor the name of a host")
    return host


def has_ipv6() -> bool:
    """Return True if a server on this machine can listen on IPv6."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::", 0))
    except OSError:
        return False
    return True


def explain_unusable(listen_address: ListenAddress) -> OSError:
    """Return the error of the operating system that explains why a server cannot use an address.

    Try to bind a socket to the address, because the gRPC library does not report the error.
    """
    host, port = listen_address.host, listen_address.port
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for family, kind, protocol, _, address in found:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
    except OSError as error:
        return error
    return OSError(0, "it is taken")
