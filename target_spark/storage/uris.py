"""Conversion of paths and URLs of tables and files: to local paths, and to URLs for Spark.

A path without a scheme is always local, regardless of Spark's default file system, so it is passed
to Spark with the scheme ``file``.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from urllib.parse import unquote

from tap_core.exceptions import ConfigurationError

__all__ = [
    "get_scheme",
    "is_azure",
    "is_read_as_another_folder",
    "is_s3",
    "list_subfolders",
    "resolve_address",
    "to_local_folder",
    "to_spark_scheme",
    "to_spark_uri",
]

_URL = re.compile(r"([^:]+)(://[^/]*)(.*)", re.DOTALL)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")

_SPARK_SCHEMES = {"s3": "s3a", "s3n": "s3a", "az": "abfss", "gcs": "gs"}
"""URL schemes of other tools, such as fsspec, with the scheme that Spark uses instead."""


def to_local_folder(address: str) -> Path | None:
    """Return the absolute local path of a path or ``file:`` URL; None for any other URL.

    The path may be that of a file or a folder. Example: ``"file:///data"`` -> ``Path("/data")``.

    Raises:
        ConfigurationError: The path begins with the home folder (``~name``) of an unknown user.
    """
    scheme = _SCHEME.match(address)
    if scheme is None:
        try:
            return Path(address).expanduser().absolute()
        except RuntimeError:
            raise ConfigurationError(
                f"There is no home folder for {address.partition('/')[0]!r}. Write the path without"
                " it."
            ) from None
    if scheme[1].lower() != "file":
        return None
    return Path("/" + address[scheme.end() :].lstrip("/"))


def is_read_as_another_folder(folder: Path) -> bool:
    """Return True if the library deltalake takes a folder for another one.

    It reads the logs of tables by their URLs, but decodes each path twice, so that ``a%20b`` is
    read as ``a b``, and takes a backslash for a slash.
    """
    path = os.path.realpath(folder)
    return unquote(path) != path or "\\" in path


def resolve_address(address: str) -> str:
    """Return a normalized URL, which is equal for all forms of the same path or URL.

    A local path becomes a ``file://`` URL of the absolute path without ``..`` and symbolic links.
    For other URLs: ``"S3A://bucket/a//b/../c/"`` -> ``"s3a://bucket/a/c"``.
    """
    folder = to_local_folder(address)
    if folder is not None:
        return f"file://{os.path.realpath(folder)}"
    parts = _URL.fullmatch(address)
    if parts is None:
        return address.rstrip("/")
    scheme, authority, path = parts.groups()
    normalized = posixpath.normpath(f"/{path}").strip("/")
    return f"{scheme.lower()}{authority}/{normalized}".rstrip("/")


def get_scheme(address: str) -> str:
    """Return the scheme of a URL in lower case, such as "s3a"; "" for a path without scheme."""
    scheme = _SCHEME.match(address)
    return "" if scheme is None else scheme[1].lower()


def is_s3(address: str) -> bool:
    """Return True if a URL has the scheme ``s3a``, which Spark uses for S3-compatible storage."""
    return get_scheme(address) == "s3a"


def is_azure(address: str) -> bool:
    """Return True if a URL has a scheme of Azure Data Lake Storage: ``abfss`` or ``abfs``."""
    return get_scheme(address) in {"abfs", "abfss"}


def to_spark_scheme(address: str) -> str:
    """Return a URL with the scheme that Spark uses: ``s3://bucket/a`` -> ``s3a://bucket/a``.

    ``az`` becomes ``abfss``, and ``gcs`` becomes ``gs``; any other scheme is written in lower case.
    A path is unchanged.
    """
    scheme = get_scheme(address)
    return _SPARK_SCHEMES.get(scheme, scheme) + address[len(scheme) :]


def to_spark_uri(address: str) -> str:
    """Return a local path as a ``file://`` URL; return any other URL unchanged.

    Special characters are not percent-encoded, because Spark takes them literally: ``/data/a b`` ->
    ``file:///data/a b``.
    """
    folder = to_local_folder(address)
    return address if folder is None else f"file://{folder}"


def list_subfolders(folder: Path) -> list[Path]:
    """Return the folders in a local folder, sorted by name.

    The folder ``lost+found`` of a volume is left out if this user may not read it.
    """
    return sorted(
        path
        for path in folder.iterdir()
        if path.is_dir() and (path.name != "lost+found" or os.access(path, os.R_OK | os.X_OK))
    )
