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
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Final

from tap_core.protocols.fivetran.request_limits import RequestLimits

__all__ = [
    "ALL_ADDRESSES",
    "MAX_PORT",
    "ListenAddress",
    "check_host",
    "find_free_port",
    "has_ipv6",
]

ALL_ADDRESSES: Final = "0.0.0.0"  # noqa: S104  (Fivetran's guide asks for it; a warning names it)
"""Host for all addresses of the machine. gRPC includes IPv6."""

MAX_PORT: Final = 65_535

_ATTEMPTS: Final = 10
"""Maximum number of ports that are tried if the caller asks for any free port."""

_HOST_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Address (host and port) on which a gRPC server listens, with limits for its calls."""

    port: int
    host: str = ALL_ADDRESSES
    limits: RequestLimits = field(default_factory=RequestLimits)

    def resolve(self) -> str:
        """Return the address for the gRPC library, such as ``[::]:50051``, with a free port.

        Raises:
            OSError: The port is out of range, or the port or the host cannot be used.
        """
        if not 0 <= self.port <= MAX_PORT:
            raise OSError(0, f"ports are numbers from 0 to {MAX_PORT}")
        port = find_free_port(self.host, self.port)
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"

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


def has_ipv6(address: str = "::") -> bool:
    """Return True if a server on this machine can listen on IPv6, with any or the given address."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def find_free_port(host: str, port: int) -> int:
    """Return a port after a check that it is free on all IP addresses of a host.

    gRPC reports no error if it can use only some of the addresses. Clients of the others would
    reach the program that has the port there.

    Args:
        host: IP address or host name.
        port: Port to check; 0 for any free port.

    Raises:
        OSError: The port or the host cannot be used.
    """
    for _ in range(0 if port else _ATTEMPTS - 1):
        with suppress(OSError):  # the port that is free on the first address is taken on another
            return _bind_briefly(host, port)
    return _bind_briefly(host, port)


def _bind_briefly(host: str, port: int) -> int:
    """Bind a port on all IP addresses of a host, release it, and return its number.

    Raises:
        OSError: The port or the host cannot be used.
    """
    # gRPC adds IPv6 to these hosts.
    ipv6 = {"localhost": "::1", ALL_ADDRESSES: "::"}.get(host.lower())
    with ExitStack() as probes:
        for name in (host, ipv6) if ipv6 and has_ipv6(ipv6) else (host,):
            for family, kind, protocol, _, address in socket.getaddrinfo(
                name, port, type=socket.SOCK_STREAM
            ):
                probe = probes.enter_context(socket.socket(family, kind, protocol))
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind((address[0], port, *address[2:]))
                port = probe.getsockname()[1]
    return port
