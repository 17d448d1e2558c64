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
    """Limit on quarantined rows: ``rows`` of a run, or a ``share`` of each stream's rows."""

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
        found = _SHARE.fullmatch(text)
        share = Fraction(found[1]) / 100 if found else None
        if share is None or share > 1:
            raise ValueError(
                f"{text!r} is neither a number of rows (100) nor a share of the rows of each"
                " stream from 0% to 100% ('1%', '0.5%')"
            )
        return cls(share=share) if share else cls(rows=0)

    @property
    def judged_from(self) -> int:
        """The number of a stream's rows from which an exceeded share ends the run early."""
        return max(_FEWEST_JUDGED, ceil(_ALLOWED_WHEN_JUDGED / (self.share or 1)))

    def is_exceeded(self, aside: int, rows: int) -> bool:
        """Return True if more of a stream's rows are quarantined than the share allows."""
        return self.share is not None and aside > self.share * rows

    def __str__(self) -> str:
        """Return the limit in the form of the setting."""
        return str(self.rows) if self.share is None else f"{float(self.share * 100):g}%"


@dataclass(frozen=True, slots=True)
class RunInfo:
    """One run of a job: ``id`` is unique, ``started`` is in milliseconds since 1970.

    If ``replays`` is True, the run reloads rows of a quarantine. ``former`` are names that earlier
    releases gave the job; the job owns tables and locks with these names too.
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

    ``table``, ``catalog`` and ``database`` name the table. ``partition_by``, ``cluster_by`` and
    ``sort_by`` are properties that define the file layout, and ``file_bytes`` is the target file
    size. With ``hard_delete`` rows are deleted instead of marked.

    With ``by_cursor``, of several rows with the same key the one with the greatest cursor is kept
    regardless of its order in the input; among equal cursors the last. Rows with versions below
    ``least_version`` count as older than any other. ``sync_id`` is written to the metadata of
    Airbyte rows.
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
        """Return these options, with values from ``general`` for those that are not set."""
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

    ``every`` applies to each stream unless ``streams`` overrides it; ``configured`` holds options
    from the protocol's catalog, which override both. With ``by_status`` only a status message of
    the source completes a stream. Streams in ``full_refresh`` are overwritten in this run.
    ``writers`` is the number of parallel commits. A ``dry_run`` writes nothing. ``care`` is the
    maintenance after the last commit. With ``delete_files`` the files of BATCH messages are deleted
    once their rows are committed; ``batch_limits`` limits their size. With
    ``namespaces_as_databases`` a stream's namespace is its database, if a catalog but no database
    is set. ``staging`` is a folder or address for waiting rows. In a ``strict`` load each record is
    validated against its schema before it reaches the loader.

    A batch is closed when it reaches ``flush_rows``, ``flush_bytes`` or ``flush_seconds``.
    ``spool_bytes`` limits the uncommitted bytes on disk over all streams; above it the loader stops
    reading. ``max_quarantined`` limits quarantined rows.
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
    care: MaintenanceOptions = field(default_factory=MaintenanceOptions)
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
        """Return the options that are set for this one stream."""
        own = self.streams.get(str(stream), StreamOptions())
        return self.configured[stream].with_defaults(own) if stream in self.configured else own

    def unknown(self, streams: Iterable[str]) -> list[str]:
        """Return the configured stream names that are not among the given names."""
        return sorted({*self.streams, *self.full_refresh} - set(streams))

    def table(self, stream: StreamId) -> Table:
        """Return a stream's table: a folder below the path, or a name in a catalog.

        The files of a catalog's table are below the path too if a path is set; otherwise the
        catalog chooses the location. Iceberg tables without a catalog are always folders; a
        database is then a folder above them.
        """
        asked = self.of(stream)
        if self.namespaces_as_databases and asked.catalog and not asked.database:
            return self._in_own_database(stream, asked.catalog)
        levels = split_identifier(asked.catalog, asked.database)
        if uses_paths(self.format, asked.catalog):
            name = asked.table or f"{self.table_prefix}{table_name(stream)}"
            return Table("/".join((self.path.rstrip("/"), *levels, name)), name)
        named = catalog_identifier if levels else table_name
        name = asked.table or f"{self.table_prefix}{named(stream)}"
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

        Raises:
            UnsupportedError: Upsert or scd2 is set for this one stream, and it has no keys.
        """
        if str(stream) in self.full_refresh:
            return WriteMode.OVERWRITE
        own = self._get_stream_options(stream).write_mode
        wanted = own or self.every.write_mode or WriteMode.UPSERT
        if wanted in {WriteMode.APPEND, WriteMode.OVERWRITE}:
            return wanted
        if own is not None and not keyed:
            raise UnsupportedError(
                f"Stream {stream} cannot be written by {own.value}: it has no key properties."
                " Remove its write_mode from the setting streams, or set it to append."
            )
        return wanted if keyed and self.can_upsert else WriteMode.APPEND


def uses_paths(table_format: str, catalog: str | None) -> bool:
    """Return True if tables are folders below the path, even with a database set."""
    return table_format == "iceberg" and not catalog


def split_identifier(catalog: str | None, database: str | None) -> tuple[str, ...]:
    """Return the catalog and database levels of a table's name; empty for a folder.

    Dots in a database separate the levels of a catalog with nested namespaces.
    """
    if not catalog and not database:
        return ()
    return (*filter(None, [catalog]), *(database or "default").split("."))
