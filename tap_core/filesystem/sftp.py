"""Arguments of fsspec's SFTP file system, from the setting ``sftp``."""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tap_core.exceptions import ConfigValidationError

__all__ = ["make_sftp_options"]

_KEY_CLASSES = ("Ed25519Key", "ECDSAKey", "RSAKey")


def make_sftp_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of fsspec's SFTP file system for the setting ``sftp``.

    ``ssh_kwargs`` of the setting are arguments of their own there, and its ``pkey`` is an object.

    Raises:
        ConfigValidationError: ``pkey`` is no private key.
    """
    arguments = {name: value for name, value in options.items() if name != "ssh_kwargs"}
    arguments |= options.get("ssh_kwargs") or {}
    if isinstance(arguments.get("pkey"), str):
        arguments["pkey"] = _parse_private_key(arguments["pkey"])
    return arguments


def _parse_private_key(text: str) -> Any:
    """Return the object of the paramiko package for a private key, which is the text of its file.

    Raises:
        ConfigValidationError: The text is no private key, or the key needs a passphrase.
    """
    import paramiko

    for name in _KEY_CLASSES:
        with suppress(paramiko.SSHException, ValueError):  # a key of another type
            return getattr(paramiko, name).from_private_key(io.StringIO(text))
    fault = (
        "'sftp.ssh_kwargs.pkey' is not a private key: set it to the text of an Ed25519, ECDSA or"
        " RSA key file without a passphrase"
    )
    raise ConfigValidationError(f"Config validation failed: {fault}", errors=[fault])
