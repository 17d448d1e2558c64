"""Typed options of a load, and the choice of table and write mode for each stream.

Options of a single stream override options of all streams.
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
from target_spark.columns import ColumnOptions, OnSchemaChange
from target_spark.errors import UnsupportedError
from target_spark.tables.identifiers import catalog_identifier, table_name
from target_spark.tables.table import RUNS, MaintenanceOptions, PartitionField, Table

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
"""Table formats without upserts: a run can only append rows or overwrite the whole table."""

_PERCENTAGE: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?%")
_ROW_COUNT: Final = re.compile(r"[0-9]{1,18}")
_MIN_JUDGED_ROWS: Final = 1_000
_MIN_ALLOWED_ROWS: Final = 10


class WriteMode(Enum):
    """Effect of the loaded rows on the existing rows of a table.

    Append keeps the existing rows, upsert replaces rows with the same key, overwrite replaces all
    rows, and scd2 keeps every version of a row with its period of validity.
    """

    APPEND = "append"
    UPSERT = "upsert"
    OVERWRITE = "overwrite"
    SCD2 = "scd2"


@dataclass(frozen=True, slots=True)
class QuarantineLimit:
    """Limit on quarantined rows: either a number per run, or a fraction of each stream's rows.

    Rows whose values do not fit their columns are quarantined: written to a separate table. Without
    a limit, any number of rows may be quarantined.

    Attributes:
        rows: The maximum number of quarantined rows in a run; None for no such limit.
        share: The maximum fraction of each stream's rows, from 0 to 1; None for no such limit.
    """

    rows: int | None = None
    share: Fraction | None = None

    @classmethod
    def parse(cls, setting: int | str | None) -> QuarantineLimit:
        """Return the limit for a value of the setting ``max_quarantined``.

        Args:
            setting: A number of rows, or a percentage of each stream's rows such as "0.5%"; None
                for no limit.

        Raises:
            ValueError: The value is neither a number of rows nor a percentage up to 100 %.
        """
        if setting is None:
            return cls()
        if not isinstance(setting, str) and setting >= 0:
            return cls(rows=int(setting))
        text = str(setting).strip()
        if _ROW_COUNT.fullmatch(text):
            return cls(rows=int(text))
        match = _PERCENTAGE.fullmatch(text)
        share = Fraction(match[1]) / 100 if match else None
        if share is None or share > 1:
            raise ValueError(
                f"{text!r} is neither a number of rows (100) nor a share of the rows of each"
                " stream from 0% to 100% ('1%', '0.5%')"
            )
        return cls(share=share) if share else cls(rows=0)

    @property
    def judged_from(self) -> int:
        """Minimum number of rows of a stream from which ``share`` is checked during the run.

        With fewer rows, a few bad rows at the start could exceed the fraction, although the whole
        stream does not. The number is at least 1,000, and large enough that ``share`` allows 10
        quarantined rows.
        """
        return max(_MIN_JUDGED_ROWS, ceil(_MIN_ALLOWED_ROWS / (self.share or 1)))

    def is_exceeded(self, quarantined: int, rows: int) -> bool:
        """Return True if a stream has more quarantined rows than ``share`` allows.

        Return False without a ``share``.

        Args:
            quarantined: The number of quarantined rows of the stream.
            rows: The number of all rows of the stream.
        """
        return self.share is not None and quarantined > self.share * rows

    def __str__(self) -> str:
        """Return the limit as a value of the setting ``max_quarantined``: ``100`` or ``0.5%``."""
        return str(self.rows) if self.share is None else f"{float(self.share * 100):g}%"


@dataclass(frozen=True, slots=True)
class RunInfo:
    """Identity of one run of a job. A job loads the same tables again in each run.

    Attributes:
        job: The name of the job. Tables store the states of the job with this name.
        id: A unique id of the run.
        started: The start of the run, in milliseconds since 1970.
        replays: True if the run loads quarantined rows again.
        former: Names that earlier releases gave the job by default. Tables and locks with these
            names also belong to the job.
    """

    job: str
    id: str
    started: int
    replays: bool = False
    former: tuple[str, ...] = ()

    @property
    def jobs(self) -> tuple[str, ...]:
        """The name of the job, followed by its default names in earlier releases."""
        return (self.job, *self.former)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Options of one stream or of all streams. An option that is None or empty is not set.

    Attributes:
        write_mode: The effect on existing rows: append, upsert, overwrite or scd2.
        table: The name of the table.
        catalog: The catalog of the table.
        database: The database of the table.
        partition_by: The partition fields: properties, or transforms such as ``day(created)``.
        cluster_by: The properties by which the table is clustered.
        sort_by: The properties by which the rows of each file are sorted.
        file_bytes: The target size of files in bytes.
        hard_delete: True to delete rows that the source deleted; False to mark them as deleted.
        by_cursor: True to keep, of several rows with the same key, the row with the greatest cursor
            (replication key) value, or the last of equal ones. False to keep the last row in the
            input.
        least_version: The minimum generation id of the stream in an Airbyte catalog. A row in the
            table with a smaller id is replaced by a new row even if its cursor is greater.
        sync_id: Airbyte's id of the sync, which is stored in the metadata column of rows.
        is_resumable: True if the source continues a failed Airbyte sync at the last state, so that
            an overwrite keeps the rows that an earlier attempt of the sync has loaded.
        row_identity: The properties that identify a row in such an overwrite; empty for all.
        on_schema_change: The policy for a schema that does not fit the stream's existing table.
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
    is_resumable: bool | None = None
    row_identity: tuple[str, ...] = ()
    on_schema_change: OnSchemaChange | None = None

    def with_defaults(self, general: StreamOptions) -> StreamOptions:
        """Return a copy of these options. Options that are not set are taken from ``general``."""
        merged: dict[str, Any] = {}
        for option in fields(self):
            value = getattr(self, option.name)
            merged[option.name] = getattr(general, option.name) if value in {None, ()} else value
        return StreamOptions(**merged)


_FILE_LIMITS: Final = FileLimits.from_config({LINE_SETTING: 4 << 20})
"""Default limits on the files of BATCH messages, to limit the memory that Spark's JVM needs.

A line may have 4 MiB. For a file with 48 such lines, the JVM needs 520 MB.
"""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The typed settings of one load.

    Rows are committed in batches. A batch is closed when it reaches ``flush_rows``, ``flush_bytes``
    or ``flush_seconds``.

    Attributes:
        path: The path or URL below which tables are stored.
        format: The table format: "delta", "iceberg" or "parquet".
        every: Options that apply to every stream.
        streams: Options of single streams, by name; they override ``every``.
        full_refresh: Names of streams whose tables are overwritten in this run.
        table_prefix: The prefix of table names.
        flush_rows: The maximum number of rows in a batch.
        flush_bytes: The maximum size of a batch in bytes.
        flush_seconds: The maximum age of a batch in seconds.
        spool_bytes: The maximum size of the uncommitted rows of all streams on disk, in bytes. If
            it is exceeded, the loader stops reading until rows are committed.
        max_quarantined: The limit on quarantined rows.
        always_overwrite: True to complete an overwrite when the input ends. False to complete it
            only if the input confirms that it has all rows.
        columns: Options for the conversion of JSON Schema types to column types.
        writers: The maximum number of parallel commits.
        dry_run: True to read the input without writing to tables.
        maintenance: The maintenance of tables after the last commit.
        delete_files: True to delete the files of BATCH messages after their rows are committed.
        batch_limits: Limits on the files of BATCH messages.
        configured: Options from an Airbyte catalog, which override ``streams`` and ``every``.
        by_status: True if a stream is complete only after a status message in the input, as in
            Airbyte. False for Singer, which has no such messages.
        namespaces_as_databases: True to use a stream's namespace as its database, if a catalog but
            no database is set.
        staging: The folder or URL for files with uncommitted rows; None for the system's temporary
            folder.
        strict: True to validate each record against its schema before it is loaded.
        small_batches_without_spark: True to commit small batches with the library deltalake if
            possible, and to start Spark only when it is needed.
        run_history: True to append each run to the table of runs.
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
    small_batches_without_spark: bool = False
    run_history: bool = True

    @property
    def can_upsert(self) -> bool:
        """True if the table format supports the upsert mode, which replaces rows by key."""
        return self.format not in APPENDING_FORMATS

    def of(self, stream: StreamId) -> StreamOptions:
        """Return the options of a stream.

        An option that is not set for this stream has the value that is set for all streams.
        """
        return self._get_stream_options(stream).with_defaults(self.every)

    def _get_stream_options(self, stream: StreamId) -> StreamOptions:
        """Return the options that are set for this stream only, without the general options.

        Options from an Airbyte catalog override those of the settings.
        """
        options = self.streams.get(str(stream), StreamOptions())
        if stream in self.configured:
            options = self.configured[stream].with_defaults(options)
        return options

    def unknown(self, streams: Iterable[str]) -> list[str]:
        """Return the streams that the settings name but the input does not contain, sorted.

        Args:
            streams: The names of the streams in the input.
        """
        return sorted({*self.streams, *self.full_refresh} - set(streams))

    def table(self, stream: StreamId) -> Table:
        """Return the table of a stream: a folder below ``path``, or a name in a catalog.

        Without a catalog and a database, the table is a folder. With one of them, the table has a
        name in the catalog, and its files are below ``path`` or, if ``path`` is not set, where the
        catalog puts them. An Iceberg table without a catalog is always a folder; its database, if
        set, is the name of the parent folder.
        """
        options = self.of(stream)
        if self.namespaces_as_databases and options.catalog and not options.database:
            return self._in_own_database(stream, options.catalog)
        is_named = bool(options.catalog or options.database)
        is_folder = not is_named or uses_paths(self.format, options.catalog)
        choose_name = table_name if is_folder else catalog_identifier
        name = options.table or f"{self.table_prefix}{choose_name(stream)}"
        return self._locate(options, name)

    @property
    def runs_table(self) -> Table:
        """The table of runs. Each run of target-spark appends one row per stream to it.

        It is in the location that the settings for all streams define.
        """
        return self._locate(self.every, RUNS)

    def _locate(self, options: StreamOptions, name: str) -> Table:
        """Return a table with this name in the catalog and database of ``options``.

        Without a catalog and a database, the table is a folder below ``path``.
        """
        levels = split_identifier(options.catalog, options.database)
        if uses_paths(self.format, options.catalog):
            return Table("/".join((self.path.rstrip("/"), *levels, name)), name)
        path = self.path and f"{self.path.rstrip('/')}/{name}"
        return Table(path, name, (*levels, name) if levels else ())

    def _in_own_database(self, stream: StreamId, catalog: str) -> Table:
        database = catalog_identifier(StreamId(stream.namespace or "default"))
        name = f"{self.table_prefix}{catalog_identifier(StreamId(stream.name))}"
        path = self.path and "/".join((self.path.rstrip("/"), database, name))
        return Table(path, name, (catalog, database, name))

    def mode(self, stream: StreamId, *, keyed: bool) -> WriteMode:
        """Return the write mode of a stream.

        The default is upsert if the stream has keys and the format can replace rows, else append.
        If upsert or scd2 is set for all streams, streams without keys are appended.

        Args:
            stream: The stream.
            keyed: True if the stream has keys.

        Raises:
            UnsupportedError: The stream has no keys, but upsert or scd2 is set for this stream.
        """
        if str(stream) in self.full_refresh:
            return WriteMode.OVERWRITE
        stream_mode = self._get_stream_options(stream).write_mode
        mode = stream_mode or self.every.write_mode or WriteMode.UPSERT
        if mode in {WriteMode.APPEND, WriteMode.OVERWRITE}:
            return mode
        if stream_mode is not None and not keyed:
            raise UnsupportedError(
                f"Stream {stream} cannot be written by {mode.value}: it has no key properties."
                " Remove its write_mode from the setting streams, or set it to append."
            )
        return mode if keyed and self.can_upsert else WriteMode.APPEND


def uses_paths(table_format: str, catalog: str | None) -> bool:
    """Return True if tables are addressed by their path, even if a database is set.

    Only Iceberg tables without a catalog are addressed in this way.
    """
    return table_format == "iceberg" and not catalog


def split_identifier(catalog: str | None, database: str | None) -> tuple[str, ...]:
    """Return the catalog and the namespaces that precede the table name in SQL, as a tuple.

    A dot in the database separates nested namespaces: "main", "a.b" -> ``("main", "a", "b")``. If
    only the catalog is set, the database is ``default``. If neither is set, the tuple is empty.
    """
    if not catalog and not database:
        return ()
    return (*filter(None, [catalog]), *(database or "default").split("."))
