"""JSON Web Tokens (JWT), signed with a private key.

The packages PyJWT and cryptography are imported on first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["load_private_key", "sign_jwt"]


def load_private_key(pem: str, passphrase: str | None = None) -> Any:
    r"""Load a private key from PEM text.

    Args:
        pem: The PEM text, on several lines or on one line with ``\n`` escapes.
        passphrase: Passphrase of an encrypted key.

    Raises:
        RuntimeError: PyJWT or cryptography is not installed.
        ValueError: The text is not a private key, or the passphrase is wrong.
    """
    try:
        import jwt  # noqa: F401  (the key will be used for signing)
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ModuleNotFoundError as missing:
        raise _not_installed() from missing
    text = pem if "\n" in pem.strip() else pem.replace("\\n", "\n")
    return load_pem_private_key(text.encode(), passphrase.encode() if passphrase else None)


def sign_jwt(
    claims: Mapping[str, Any],
    key: Any,
    algorithm: str,
    headers: Mapping[str, Any] | None = None,
) -> str:
    """Return a signed JSON Web Token (JWT) in its compact text form.

    Args:
        claims: Claims of the token, such as ``iss`` and ``exp``.
        key: Private key from `load_private_key`.
        algorithm: Signature algorithm, such as ``RS256``.
        headers: Further headers of the token.

    Raises:
        RuntimeError: PyJWT or cryptography is not installed.
    """
    try:
        import jwt
    except ModuleNotFoundError as missing:
        raise _not_installed() from missing
    return jwt.encode(dict(claims), key, algorithm, dict(headers) if headers else None)


def _not_installed() -> RuntimeError:
    """Return the RuntimeError that tells the user to install PyJWT and cryptography."""
    return RuntimeError(
        "Signing a token with a private key needs the packages PyJWT and cryptography: "
        "pip install 'pyjwt[crypto]'."
    )
