"""JSON Web Tokens, signed with a key.

Rules of the room: the packages that sign are imported when something is to be signed. What they
say of a key that they refuse may hold it, and is not repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["load_private_key", "sign_jwt"]


def load_private_key(pem: str, passphrase: str | None = None) -> Any:
    r"""Read a private key; in variables and on one line its lines are often written ``\n``.

    Raises:
        RuntimeError: the package that reads keys is not installed.
        ValueError: it is none, or the passphrase is wrong.
    """
    try:
        import jwt  # noqa: F401  (whoever reads a key is to sign with it)
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
    """Return a token with these claims.

    Raises:
        RuntimeError: the package that signs is not installed.
    """
    try:
        import jwt
    except ModuleNotFoundError as missing:
        raise _not_installed() from missing
    return jwt.encode(dict(claims), key, algorithm, dict(headers) if headers else None)


def _not_installed() -> RuntimeError:
    return RuntimeError(
        "A token that is signed with a key needs the packages PyJWT and cryptography: "
        "pip install 'pyjwt[crypto]'."
    )
