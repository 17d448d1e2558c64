"""A self-signed certificate for the loopback addresses, created for one test."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = ["over_tls", "write_certificate"]


def write_certificate(folder: Path) -> Path:
    """Write a certificate for 127.0.0.1 and localhost, with its key, and return the file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "loopback")])
    now = datetime.now(timezone.utc)
    names = [x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName("localhost")]
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
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
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


def over_tls(certificate: Path) -> Callable[[socket.socket], socket.socket]:
    """Return a function that wraps a listening socket in TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def wrap(listening: socket.socket) -> socket.socket:
        return context.wrap_socket(listening, server_side=True)

    return wrap
