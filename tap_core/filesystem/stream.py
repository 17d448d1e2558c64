"""`FileStream`, a stream whose records are in files; a changed file is read again.

Names and signatures are those of singer_sdk (version 0.54). Each file is a partition, whose
bookmark is the file's modification time. A file that was last modified before its bookmark is not
opened. If the file system has no modification times, every file is read in every sync.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from tap_core.exceptions import ConfigValidationError
from tap_core.parsing.datetimes import assume_utc, utc_now
from tap_core.singerlib.catalog import REPLICATION_INCREMENTAL
from tap_core.streams.core import Stream

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

    from tap_core.sync.interfaces import SyncTap
    from tap_core.types import Context, JsonSchema, Record

__all__ = ["SDC_META_FILEPATH", "SDC_META_MODIFIED_AT", "FileStream"]

SDC_META_FILEPATH = "_sdc_path"
"""Property with a record's file path, relative to the tap's folder."""

SDC_META_MODIFIED_AT = "_sdc_modified_at"
"""Property with the file's modification time, which is the replication key."""


class FileStream(Stream, abc.ABC):
    """Base class of streams that read files; subclasses define `get_schema` and `read_file`."""

    SDC_PROPERTIES: ClassVar[Mapping[str, JsonSchema]] = {
        SDC_META_FILEPATH: {"type": "string"},
        SDC_META_MODIFIED_AT: {"type": ["string", "null"], "format": "date-time"},
    }
    """JSON Schemas of the properties that are added to every record."""

    def __init__(
        self,
        tap: SyncTap,
        name: str,
        *,
        filepaths: Sequence[str],
        filesystem: AbstractFileSystem,
    ) -> None:
        """Create a stream that reads the files ``filepaths`` on an fsspec file system.

        Raises:
            ConfigValidationError: ``filepaths`` is empty.
        """
        if not filepaths:
            fault = f"Stream '{name}': there are no files for it."
            raise ConfigValidationError(fault, errors=[fault])
        self._filepaths = filepaths
        self.filesystem = filesystem
        super().__init__(tap, schema=None, name=name)
        self.replication_key = SDC_META_MODIFIED_AT
        self._sync_start_time = utc_now()
        self._partitions = [{SDC_META_FILEPATH: path} for path in filepaths]

    @abc.abstractmethod
    def get_schema(self, path: str) -> JsonSchema:
        """Return the JSON Schema of the records in the file at ``path``."""

    @abc.abstractmethod
    def read_file(self, path: str) -> Iterable[Record]:
        """Yield the records of the file at ``path``, relative to the tap's folder."""

    @property
    def partitions(self) -> list[dict[str, Any]]:
        """Partitions of the stream, one dict per file: ``{"_sdc_path": path}``."""
        return self._partitions

    @cached_property
    def schema(self) -> JsonSchema:
        """JSON Schema of the first file's records, with the properties of `SDC_PROPERTIES`."""
        schema = self.get_schema(self._filepaths[0])
        schema["properties"].update(self.SDC_PROPERTIES)
        return schema

    def get_records(self, context: Context | None) -> Iterable[Record]:
        """Yield the records of one file, unless it was last modified before its bookmark.

        ``context`` identifies the file: ``{"_sdc_path": path}``.

        Raises:
            RuntimeError: The context is None or empty.
        """
        if not context:
            raise RuntimeError(f"Stream '{self.name}' needs the context of a file.")
        path: str = context[SDC_META_FILEPATH]
        modified = self._get_modification_time(path)
        if self._is_unchanged(modified, context):
            self.logger.debug("'%s' has not changed since it was read; it is skipped.", path)
            return
        for record in self.read_file(path):
            record[SDC_META_MODIFIED_AT] = modified or self._sync_start_time
            record[SDC_META_FILEPATH] = path
            yield record

    def _is_unchanged(self, modified: datetime | None, context: Context) -> bool:
        if modified is None or self.replication_method != REPLICATION_INCREMENTAL:
            return False
        bookmark = self.get_starting_timestamp(context)
        return bookmark is not None and modified < bookmark

    def _get_modification_time(self, path: str) -> datetime | None:
        """Return the modification time of a file; None if the file system stores no such times."""
        try:
            modified: datetime = self.filesystem.modified(path)
        except NotImplementedError:
            self.logger.warning(
                "The file system does not say when a file was changed: '%s' is read in full.", path
            )
            return None
        return assume_utc(modified)
