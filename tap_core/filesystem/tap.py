"""`FolderTap`, base class of taps whose streams are the files of a folder.

Names and signatures are those of singer_sdk (version 0.54). Discovery lists the files of the
folder, but not those of its subfolders, sorted by name.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from tap_core.config.loading import deep_copy_config
from tap_core.exceptions import ConfigValidationError
from tap_core.filesystem.config import BASE_CONFIG_SCHEMA, ReadMode
from tap_core.filesystem.sftp import make_sftp_options
from tap_core.filesystem.stream import FileStream
from tap_core.http.file_systems import keep_to_origin
from tap_core.tap_base import Tap

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fsspec import AbstractFileSystem

    from tap_core.types import JsonSchema

__all__ = ["FolderTap", "file_path_to_stream_name"]

_NEEDS_SETTINGS = ("ftp", "sftp")
"""File systems that require the setting of the same name."""
_WITH_DOT = ("local", *_NEEDS_SETTINGS)
"""File systems whose file paths begin with ``./`` in states, as in singer_sdk."""

_Files = TypeVar("_Files", bound=FileStream)


def file_path_to_stream_name(file_path: str) -> str:
    """Return the stream name for a file path: ``sales/2024.csv`` -> ``sales__2024``."""
    return PurePosixPath(file_path).with_suffix("").as_posix().replace("/", "__")


class FolderTap(Tap, Generic[_Files]):
    """Base class of taps that read files of a folder.

    Subclasses set ``valid_extensions`` and ``default_stream_class``.
    """

    valid_extensions: tuple[str, ...]
    """Suffixes of the files to read, such as ``.csv``."""

    default_stream_class: type[_Files]
    """Class of the streams, a subclass of `FileStream`."""

    dynamic_catalog: bool = True

    config_jsonschema: ClassVar[JsonSchema] = {"properties": {}}

    @classmethod
    def append_builtin_config(cls, config_jsonschema: JsonSchema) -> None:
        """Add the settings of folder taps and those of all taps to a config schema, in place."""
        properties = config_jsonschema.setdefault("properties", {})
        for name, schema in deep_copy_config(BASE_CONFIG_SCHEMA["properties"]).items():
            properties.setdefault(name, schema)
        required = [*config_jsonschema.get("required", ()), *BASE_CONFIG_SCHEMA["required"]]
        config_jsonschema["required"] = list(dict.fromkeys(required))
        super().append_builtin_config(config_jsonschema)

    @cached_property
    def read_mode(self) -> ReadMode:
        """Value of the setting ``read_mode``: one stream per file, or one for all files."""
        return ReadMode(self.config["read_mode"])

    @cached_property
    def path(self) -> str:
        """Value of the setting ``path``: the folder that contains the files."""
        return str(self.config["path"])

    @cached_property
    def fs(self) -> AbstractFileSystem:
        """File system (fsspec) whose root is the tap's folder.

        Raises:
            ConfigValidationError: The file system cannot be used, or lacks its setting.
        """
        protocol = self.config["filesystem"]
        options = self.config.get(protocol)
        _check_file_system(protocol, options)
        self.logger.debug("Opening the file system '%s'", protocol)
        return _open_folder(protocol, self.path, options or {})

    def discover_streams(self) -> list[_Files]:
        """Return one stream per file, or one stream for all files if ``read_mode`` is ``merge``.

        Raises:
            ConfigValidationError: The folder does not exist, there is no file to merge, or several
                files have the same stream name.
        """
        if not self.fs.isdir(""):
            raise _make_config_error(f"'path': '{self.path}' does not exist or is not a directory")
        files = self._list_files()
        if self.read_mode is ReadMode.merge:
            return [self._make_stream(self.config["stream_name"], files)]
        _check_stream_names(files)
        return [self._make_stream(file_path_to_stream_name(file), [file]) for file in files]

    def _make_stream(self, name: str, files: list[str]) -> _Files:
        return self.default_stream_class(tap=self, name=name, filepaths=files, filesystem=self.fs)

    def _list_files(self) -> list[str]:
        """Return the sorted paths of the files with a valid extension, relative to the folder."""
        members = _list_members(self.fs, self.path)
        start = "./" if self.config["filesystem"] in _WITH_DOT else ""
        return sorted(
            f"{start}{member['name']}"
            for member in members
            if member["name"].endswith(self.valid_extensions)
            and "/" not in member["name"]  # a server may list other folders: ``../a.csv``
            # fsspec gives a link to a file another type than "file".
            and (member["type"] == "file" or self.fs.isfile(member["name"]))
        )


def _check_file_system(protocol: str, options: Mapping[str, Any] | None) -> None:
    """Check the file system ``protocol`` of the setting ``filesystem``, and its ``options``.

    Raises:
        ConfigValidationError: The file system is unknown, a package that it needs is not installed,
            or it is FTP or SFTP, but its setting is missing.
    """
    from fsspec import get_filesystem_class

    if options is None and protocol in _NEEDS_SETTINGS:
        raise _make_config_error(f"'{protocol}' is required where 'filesystem' is '{protocol}'")
    try:
        get_filesystem_class(protocol)
    except (ImportError, ValueError) as error:
        raise _make_config_error(f"'filesystem': '{protocol}' cannot be used: {error}") from None


def _open_folder(protocol: str, path: str, options: Mapping[str, Any]) -> AbstractFileSystem:
    """Return a file system whose root is the folder ``path`` of the file system ``protocol``."""
    from fsspec.implementations.dirfs import DirFileSystem

    if protocol == "sftp":
        options = make_sftp_options(options)
    arguments = keep_to_origin(path, options)
    return DirFileSystem(path=path, target_protocol=protocol, target_options=arguments)


def _list_members(fs: AbstractFileSystem, path: str) -> list[dict[str, Any]]:
    """Return fsspec's descriptions of the members of the folder ``path``, the root of ``fs``.

    Raises:
        ConfigValidationError: The list of the server names a URL outside of the folder.
    """
    try:
        members: list[dict[str, Any]] = fs.ls("", detail=True)
    except AssertionError:  # fsspec's check
        raise _make_config_error(
            f"'path': the server's list of '{path}' names files with another host or scheme, such"
            " as http instead of https: set 'path' to the URL of these files"
        ) from None
    return members


def _check_stream_names(files: list[str]) -> None:
    """Raise ConfigValidationError if several files have the same stream name."""
    by_name: dict[str, list[str]] = {}
    for file in files:
        by_name.setdefault(file_path_to_stream_name(file), []).append(file)
    faults = [
        f"'path': {' and '.join(same)} have the same stream name '{name}': rename all but one,"
        " or set 'read_mode' to 'merge'"
        for name, same in by_name.items()
        if len(same) > 1
    ]
    if faults:
        raise _make_config_error(*faults)


def _make_config_error(*faults: str) -> ConfigValidationError:
    return ConfigValidationError(
        f"Config validation failed: {'; '.join(faults)}", errors=list(faults)
    )
