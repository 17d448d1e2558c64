"""Validated options of a load, and the choice of table and write mode for each stream.

Only this module decides a stream's table and write mode. Settings of a single stream override
settings for all streams.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from fractions import Fraction
from math import ceil
from typing import Any, Final

from tap_core.batch.limits import LINE_SETTING, FileLimits
from tap_core.events import StreamId
from target_spark.columns import ColumnOptions
from target_spark.errors import UnsupportedError
from target_spark.tables.identifiers import catalog_identifier, table_name
from target_spark.tables.model import MaintenanceOptions, PartitionField, Table

__all__ = [
    "APPENDING_FORMATS",
    "LoadOptions",
    "QuarantineLimit",
    "RunInfo",
    "StreamOptions",
    "WriteMode",
    "split_identifier",
    "uses_paths",
]

APPENDING_FORMATS: Final = frozenset({"parquet"})
"""Formats that cannot replace a written row."""


_SHARE: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?%")
_ROWS: Final = re.compile(r"[0-9]{1,18}")
_FEWEST_JUDGED: Final = 1_000
_ALLOWED_WHEN_JUDGED: Final = 10


class WriteMode(Enum):
    """Effect of a run's rows on the rows that are already in the table."""

    APPEND = "append"
    UPSERT = "upsert"
    OVERWRITE = "overwrite"
    SCD2 = "scd2"


@dataclass(frozen=True, slots=True)
class QuarantineLimit:
    """Limit on quarantined rows: a number of rows per run, or a share of each stream's rows.

    Attributes:
        rows: The number of rows of a run; None for no such limit.
        share: The share of each stream's rows, from 0 to 1; None for no such limit.
    """

    rows: int | None = None
    share: Fraction | None = None

    @classmethod
    def parse(cls, setting: int | str | None) -> QuarantineLimit:
        """Return the limit for a value of the setting ``max_quarantined``.

        Raises:
            ValueError: The value is neither a number of rows nor a share of at most 100 %.
        """
        if setting is None:
            return cls()
        text = setting.strip() if isinstance(setting, str) else f"{setting:.0f}"
        if _ROWS.fullmatch(text):
            return cls(rows=int(text))
        match = _SHARE.fullmatch(text)
        share = Fraction(match[1]) / 100 if match else None
        if share is None or share > 1:
            raise ValueError(
                f"{text!r} is neither a number of rows (100) nor a share of the rows of each"
                " stream from 0% to 100% ('1%', '0.5%')"
            )
        return cls(share=share) if share else cls(rows=0)

    @property
    def judged_from(self) -> int:
        """Number of a stream's rows from which an exceeded share ends the run early."""
        return max(_FEWEST_JUDGED, ceil(_ALLOWED_WHEN_JUDGED / (self.share or 1)))

    def is_exceeded(self, quarantined: int, rows: int) -> bool:
        """Return True if more of a stream's rows are quarantined than the share allows.

        ``quarantined`` is the number of quarantined rows, ``rows`` the number of all rows.
        """
        return self.share is not None and quarantined > self.share * rows

    def __str__(self) -> str:
        """Return the limit in the form of the setting, such as ``100`` or ``0.5%``."""
        return str(self.rows) if self.share is None else f"{float(self.share * 100):g}%"


@dataclass(frozen=True, slots=True)
class RunInfo:
    """Identity of one run of a job.

    Attributes:
        job: The name of the job.
        id: A unique id of the run.
        started: The start of the run, in milliseconds since 1970.
        replays: True if the run reloads rows of a quarantine.
        former: Names that earlier releases gave the job; the job owns tables and locks with these
            names too.
    """

    job: str
    id: str
    started: int
    replays: bool = False
    former: tuple[str, ...] = ()

    @property
    def jobs(self) -> tuple[str, ...]:
        """The name of the job, followed by its former names."""
        return (self.job, *self.former)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Options of one stream or of all streams; None and empty values mean not set.

    Attributes:
        write_mode: Append, upsert, overwrite or scd2.
        table: The name of the table.
        catalog: The catalog of the table.
        database: The database of the table.
        partition_by: Partition fields.
        cluster_by: Properties to cluster by.
        sort_by: Properties by which the rows of each file are sorted.
        file_bytes: Target size of files in bytes.
        hard_delete: True to delete rows instead of marking them.
        by_cursor: True to keep, of several rows with the same key, the one with the greatest cursor
            regardless of its order in the input; among equal cursors the last.
        least_version: Rows with a version below this count as older than any other.
        sync_id: Airbyte's id of the sync, for the metadata of rows.
    """

    write_mode: WriteMode | None = None
    table: str | None = None
    catalog: str | None = None
    database: str | None = None
    partition_by: tuple[PartitionField, ...] = ()
    cluster_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    file_bytes: int | None = None
    hard_delete: bool | None = None
    by_cursor: bool | None = None
    least_version: int | None = None
    sync_id: int | None = None

    def with_defaults(self, general: StreamOptions) -> StreamOptions:
        """Return a copy in which options that are not set have the values of ``general``."""
        chosen: dict[str, Any] = {}
        for option in fields(self):
            own = getattr(self, option.name)
            chosen[option.name] = getattr(general, option.name) if own in {None, ()} else own
        return StreamOptions(**chosen)


_FILE_LIMITS: Final = FileLimits.from_config({LINE_SETTING: 4 << 20})
"""A file of 48 such lines takes 520 MB in Spark's JVM, one of lines of 8 MiB 760 MB."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The settings of one load.

    A batch is closed when it reaches ``flush_rows``, ``flush_bytes`` or ``flush_seconds``.

    Attributes:
        path: The root location of the tables.
        format: The table format.
        every: Options of all streams.
        streams: Options of single streams, by name; they override ``every``.
        full_refresh: Names of streams that are overwritten in this run.
        table_prefix: Prefix of the names of tables.
        flush_rows: Largest number of rows in a batch.
        flush_bytes: Largest size of a batch in bytes.
        flush_seconds: Largest age of a batch in seconds.
        spool_bytes: Limit of the uncommitted bytes on disk over all streams; above it the loader
            stops reading.
        max_quarantined: Limit on quarantined rows.
        always_overwrite: True if the end of the input alone completes an overwrite.
        columns: Options for columns.
        writers: Number of parallel commits.
        dry_run: True to write nothing.
        maintenance: Maintenance after the last commit.
        delete_files: True to delete the files of BATCH messages once their rows are committed.
        batch_limits: Limits on the files of BATCH messages.
        configured: Options from the protocol's catalog, which override ``streams`` and ``every``.
        by_status: True if only a status message of the source completes a stream.
        namespaces_as_databases: True to use a stream's namespace as its database, if a catalog but
            no database is set.
        staging: Folder or URL for waiting rows; None for the system's temporary folder.
        strict: True to validate each record against its schema before it is loaded.
    """

    path: str
    format: str = "delta"
    every: StreamOptions = StreamOptions()
    streams: Mapping[str, StreamOptions] = field(default_factory=dict)
    full_refresh: frozenset[str] = frozenset()
    table_prefix: str = ""
    flush_rows: int = 1_000_000
    flush_bytes: int = 256 << 20
    flush_seconds: float = 300.0
    spool_bytes: int = 1 << 30
    max_quarantined: QuarantineLimit = QuarantineLimit()
    always_overwrite: bool = False
    columns: ColumnOptions = field(default_factory=ColumnOptions)
    writers: int = 4
    dry_run: bool = False
    maintenance: MaintenanceOptions = field(default_factory=MaintenanceOptions)
    delete_files: bool = False
    batch_limits: FileLimits = _FILE_LIMITS
    configured: Mapping[StreamId, StreamOptions] = field(default_factory=dict)
    by_status: bool = False
    namespaces_as_databases: bool = False
    staging: str | None = None
    strict: bool = False

    @property
    def can_upsert(self) -> bool:
        """True if the table format can replace rows by key."""
        return self.format not in APPENDING_FORMATS

    def of(self, stream: StreamId) -> StreamOptions:
        """Return the options of a stream, including those for all streams."""
        return self._get_stream_options(stream).with_defaults(self.every)

    def _get_stream_options(self, stream: StreamId) -> StreamOptions:
        """Return the options that are set for one stream, without those for all streams."""
        own = self.streams.get(str(stream), StreamOptions())
        return self.configured[stream].with_defaults(own) if stream in self.configured else own

    def unknown(self, streams: Iterable[str]) -> list[str]:
        """Return the stream names in the settings that are not among ``streams``, sorted."""
        return sorted({*self.streams, *self.full_refresh} - set(streams))

    def table(self, stream: StreamId) -> Table:
        """Return a stream's table: a folder below the path, or a name in a catalog.

        The files of a catalog's table are below the path too if a path is set; otherwise the
        catalog chooses the location. Iceberg tables without a catalog are always folders; a
        database is then a folder above them.
        """
        options = self.of(stream)
        if self.namespaces_as_databases and options.catalog and not options.database:
            return self._in_own_database(stream, options.catalog)
        levels = split_identifier(options.catalog, options.database)
        if uses_paths(self.format, options.catalog):
            name = options.table or f"{self.table_prefix}{table_name(stream)}"
            return Table("/".join((self.path.rstrip("/"), *levels, name)), name)
        choose_name = catalog_identifier if levels else table_name
        name = options.table or f"{self.table_prefix}{choose_name(stream)}"
        path = self.path and f"{self.path.rstrip('/')}/{name}"
        return Table(path, name, (*levels, name) if levels else ())

    def _in_own_database(self, stream: StreamId, catalog: str) -> Table:
        database = catalog_identifier(StreamId(stream.namespace or "default"))
        name = f"{self.table_prefix}{catalog_identifier(StreamId(stream.name))}"
        path = self.path and "/".join((self.path.rstrip("/"), database, name))
        return Table(path, name, (catalog, database, name))

    def mode(self, stream: StreamId, *, keyed: bool) -> WriteMode:
        """Return the write mode of a stream.

        The default is upsert if the stream has keys and the format supports it, else append. A
        stream without keys is appended even if upsert is set for all streams.

        Args:
            stream: The stream.
            keyed: True if the stream has keys.

        Raises:
            UnsupportedError: Upsert or scd2 is set for this one stream, and it has no keys.
        """
        if str(stream) in self.full_refresh:
            return WriteMode.OVERWRITE
        own = self._get_stream_options(stream).write_mode
        mode = own or self.every.write_mode or WriteMode.UPSERT
        if mode in {WriteMode.APPEND, WriteMode.OVERWRITE}:
            return mode
        if own is not None and not keyed:
            raise UnsupportedError(
                f"Stream {stream} cannot be written by {own.value}: it has no key properties."
                " Remove its write_mode from the setting streams, or set it to append."
            )
        return mode if keyed and self.can_upsert else WriteMode.APPEND


def uses_paths(table_format: str, catalog: str | None) -> bool:
    """Return True if tables of a format are folders below the path, even with a database set."""
    return table_format == "iceberg" and not catalog


def split_identifier(catalog: str | None, database: str | None) -> tuple[str, ...]:
    """Return the catalog and database levels of a table's name; empty for a folder.

    Dots in a database separate the levels of a catalog with nested namespaces.
    """
    if not catalog and not database:
        return ()
    return (*filter(None, [catalog]), *(database or "default").split("."))
