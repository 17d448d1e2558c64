"""A self-signed certificate for the loopback addresses, created for one test."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = ["over_tls", "write_certificate"]


def write_certificate(
    folder: Path, hosts: Sequence[str] = ("127.0.0.1", "localhost"), starts_in: int = -1
) -> Path:
    """Write a certificate for hosts, with its key, and return the file.

    It is valid for two days, the first of which is ``starts_in`` days from now.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "loopback")])
    now = datetime.now(timezone.utc)
    names = [
        x509.IPAddress(ip_address(host)) if host[0].isdigit() else x509.DNSName(host)
        for host in hosts
    ]
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now + timedelta(days=starts_in))
        .not_valid_after(now + timedelta(days=starts_in + 2))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "loopback.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return path


def over_tls(certificate: Path) -> Callable[[socket.socket], socket.socket]:
    """Return a function that wraps a listening socket in TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def wrap(listening: socket.socket) -> socket.socket:
        return context.wrap_socket(listening, server_side=True)

    return wrap
