"""Storage of batch files: a local folder, or a file system that fsspec supports.

Local paths, plain or as ``file:`` URLs, are opened without fsspec. The ``params`` of a storage may
contain secrets, so messages never show them. Relative paths, also after ``file://``, are relative
to the working directory, as in singer_sdk. URLs in BATCH messages are absolute.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

from tap_core.exceptions import ConfigurationError
from tap_core.http.file_systems import keep_to_origin

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

__all__ = ["StorageTarget", "to_local_path"]

_LOCAL = ("file", "local")


@dataclass
class StorageTarget:
    """Folder for batch files, local or remote.

    Attributes:
        root: Path or URL of the folder, such as ``s3://bucket/folder``.
        prefix: Prefix of the names of new files, or None.
        params: Keyword arguments of fsspec's file system, such as credentials.
    """

    root: str
    prefix: str | None = None
    params: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> StorageTarget:
        """Return the storage folder that the setting ``batch_config.storage``, a dict, describes.

        Raises:
            ConfigurationError: ``root`` is missing, a key is unknown, or ``params`` is no object.
        """
        if not data.get("root"):
            raise ConfigurationError("batch_config: 'storage' lacks 'root'.")
        unknown = data.keys() - {"root", "prefix", "params"}
        if unknown:
            names = ", ".join(sorted(unknown))
            raise ConfigurationError(
                f"batch_config: 'storage' has unknown keys: {names}. Arguments of the file"
                " system belong in 'params'."
            )
        params = data.get("params") or {}
        if not isinstance(params, Mapping):
            raise ConfigurationError("batch_config: 'params' of 'storage' must be an object.")
        return cls(data["root"], data.get("prefix"), dict(params))

    def asdict(self) -> dict[str, Any]:
        """Return the storage folder as a dict with the keys ``root``, ``prefix`` and ``params``."""
        return asdict(self)

    @staticmethod
    def split_url(url: str) -> tuple[str, str]:
        """Split a URL at the last slash: ``s3://a/b.json`` becomes ``("s3://a", "b.json")``."""
        head, _, tail = url.rpartition("/")
        return head, tail

    @classmethod
    def from_url(cls, url: str) -> StorageTarget:
        """Return the storage folder at a URL; the query of the URL is removed."""
        return cls(root=urlsplit(url)._replace(query="").geturl())

    def get_url(self, filename: str) -> str:
        """Return the absolute URL of a file in this folder; a local file gets a ``file:`` URL."""
        folder = to_local_path(self.root)
        if folder is not None:
            return (folder.resolve() / filename).as_uri()
        return f"{self.root.rstrip('/')}/{filename}"

    @contextmanager
    def open(self, filename: str, mode: str = "rb") -> Iterator[IO[Any]]:
        """Open a file in this folder; the ``with`` block closes it. ``mode`` is as for `open`."""
        with self.file(filename, mode) as file:
            yield file

    def file(self, filename: str, mode: str = "rb") -> IO[Any]:
        """Open a file in this folder; the caller must close it.

        If ``mode`` is for writing, such as ``wb``, the folder is created first.
        """
        folder = to_local_path(self.root)
        if folder is None:
            return self.open_address(f"{self.root.rstrip('/')}/{filename}", mode)
        return self.open_address(str(folder / filename), mode)

    def open_address(self, address: str, mode: str = "rb") -> IO[Any]:
        """Open a file at any URL or path with the ``params`` of this storage; the caller closes it.

        If ``mode`` is for writing, such as ``wb``, the file's folder is created first.
        """
        makes_folder = "r" not in mode
        path = to_local_path(address)
        if path is not None:
            if makes_folder:
                path.parent.mkdir(parents=True, exist_ok=True)
            return path.open(mode)
        system, path_in_system = self._system(address)
        if makes_folder:
            # If the folder is needed and cannot be created, opening the file fails.
            with suppress(OSError, NotImplementedError):
                system.makedirs(self.split_url(path_in_system)[0], exist_ok=True)
        return cast(IO[Any], system.open(path_in_system, mode))

    def remove(self, filename: str) -> None:
        """Delete a file in this folder; errors are ignored."""
        folder = to_local_path(self.root)
        with suppress(Exception):
            if folder is not None:
                (folder / filename).unlink()
            else:
                system, path_in_system = self._system(f"{self.root.rstrip('/')}/{filename}")
                system.rm_file(path_in_system)

    def _system(self, address: str) -> tuple[AbstractFileSystem, str]:
        """Return the fsspec file system for a URL, and the path of the URL in this file system."""
        from fsspec.core import url_to_fs

        system, path_in_system = url_to_fs(address, **keep_to_origin(address, self.params))
        return system, path_in_system


def to_local_path(address: str) -> Path | None:
    """Convert a plain path or a ``file:`` URL to a path; return None for any other URL."""
    scheme, separator, path = address.partition("://")
    if not separator:
        return Path(address)
    if scheme not in _LOCAL:
        return None
    return Path(unquote(path.removeprefix("localhost") if path.startswith("localhost/") else path))
