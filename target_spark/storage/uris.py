"""Addresses of folders: which are on this machine, and how Spark is told of them.

Rules of the room: an address without a scheme is a folder of this machine, whatever
Spark's default file system is; Spark therefore gets it with its scheme.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path

__all__ = ["get_scheme", "is_s3", "resolve_address", "to_local_folder", "to_spark_uri"]

_PARTS = re.compile(r"([^:]+)(://[^/]*)(.*)", re.DOTALL)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")


def to_local_folder(address: str) -> Path | None:
    """Return the absolute path of a folder on this machine; None for any other address."""
    scheme = _SCHEME.match(address)
    if scheme is None:
        return Path(address).expanduser().absolute()
    if scheme[1].lower() != "file":
        return None
    return Path("/" + address[scheme.end() :].lstrip("/"))


def resolve_address(address: str) -> str:
    """Return the one spelling of a location: two addresses of one folder are equal then.

    A folder of this machine is absolute, without ``..`` and symbolic links. Of any other address
    the scheme is in small letters, and its path has no ``.``, ``..``, double or last slash.
    """
    folder = to_local_folder(address)
    if folder is not None:
        return f"file://{os.path.realpath(folder)}"
    parts = _PARTS.fullmatch(address)
    if parts is None:
        return address.rstrip("/")
    scheme, authority, path = parts.groups()
    below = posixpath.normpath(f"/{path}").strip("/")
    return f"{scheme.lower()}{authority}/{below}".rstrip("/")


def get_scheme(address: str) -> str:
    """Return the scheme of an address in small letters; empty for a path of this machine."""
    scheme = _SCHEME.match(address)
    return "" if scheme is None else scheme[1].lower()


def is_s3(address: str) -> bool:
    """Tell whether an address is of object storage that speaks S3, as Spark calls it."""
    return get_scheme(address) == "s3a"


def to_spark_uri(address: str) -> str:
    """Return the address as Hadoop reads it, which decodes no escapes."""
    folder = to_local_folder(address)
    return address if folder is None else f"file://{folder}"
