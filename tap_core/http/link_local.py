"""Link-local addresses and metadata services, to which no redirect or link may lead.

Clouds serve a machine's credentials at such addresses, over plain HTTP and without a login. If a
tap followed a redirect or a link to such an address, it would write the credentials into a table. A
tap may read from such an address only if its code or its settings contain the address.

Sources: RFC 3927 and RFC 4291 for link-local addresses, RFC 6052 and RFC 8215 for NAT64, and the
documentation of the clouds for others.
"""

from __future__ import annotations

import socket
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

__all__ = ["find_link_local", "is_link_local"]

_METADATA: Final = tuple(
    map(
        ip_network,
        (
            "169.254.0.0/16",  # link-local: AWS, Azure, Google Cloud and others
            "fe80::/10",  # link-local
            "100.100.100.200/32",  # Alibaba Cloud
            "168.63.129.16/32",  # Azure
            "192.0.0.192/32",  # Oracle Cloud
            "fd00:ec2::/32",  # AWS
            "fd20:ce::/32",  # Google Cloud
            "fd00:c1::a9fe:a9fe/128",  # Oracle Cloud
            "fd00:100::100:200/128",  # Alibaba Cloud
            "fd00:a9fe:a9fe::1/128",  # Akamai (Linode)
            "fd00:42::42/128",  # Scaleway
        ),
    )
)
_EMBEDDED: Final = tuple(
    map(ip_network, ("::/96", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48"))
)
"""IPv6 networks whose addresses end with an IPv4 address; a system may connect to the latter."""
_SIX_TO_FOUR: Final = ip_network("2002::/16")


@lru_cache(maxsize=512)
def is_link_local(host: str) -> bool:
    """Return True if a host is a link-local address or the address of a metadata service.

    The address may have any form that the system accepts, such as ``2852039166`` or ``0xa9fea9fe``.
    For a host name, return False: `find_link_local` resolves names.
    """
    try:
        address = ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        try:
            address = IPv4Address(socket.inet_aton(host.rstrip(".")))
        except (OSError, ValueError):
            return False
    return any(address in network for network in _METADATA) or (
        isinstance(address, IPv6Address) and _has_link_local(address)
    )


def _has_link_local(address: IPv6Address) -> bool:
    """Return True if an IPv6 address contains an IPv4 address that is link-local."""
    number = int(address)
    if any(address in network for network in _EMBEDDED):
        return is_link_local(str(IPv4Address(number & 0xFFFFFFFF)))
    return address in _SIX_TO_FOUR and is_link_local(str(IPv4Address((number >> 80) & 0xFFFFFFFF)))


def find_link_local(host: str, port: int) -> str | None:
    """Resolve a host, and return its first link-local address (see `is_link_local`), or None.

    Also return None if the host cannot be resolved.
    """
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    addresses = (str(address) for *_, (address, *_) in infos)
    return next(filter(is_link_local, addresses), None)
